"""A PostgreSQL server of our own, in a folder that is removed with it: for tests and benchmarks.

The server's programs come from the PATH, from where Linux distributions put them, or from the `pgserver`
package. They refuse to run as root; then they run as another user, from a folder that this user can enter.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server: its URL, without a database, and what starts and stops it."""

    url: str
    start: Callable[[], None]
    stop: Callable[[], None]


@contextmanager
def postgresql_server() -> Iterator[Server]:
    """Run a server."""
    folder = Path(tempfile.mkdtemp(prefix="hippo-"))
    data, account = folder / "data", _account()
    if account:
        os.chown(folder, account["user"], account["group"])
    try:
        programs = _programs(folder, account)

        def control(*arguments: str | Path) -> None:
            _run([programs / "pg_ctl", "-D", data, "-w", "-t", "300", *arguments], account)

        _run([programs / "initdb", "-D", data, "-U", "hippo", "-A", "trust", "-E", "UTF8", "-N"], account)
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        start = partial(control, "-l", folder / "log", "-o", options, "start")
        start()
        try:
            yield Server(
                f"postgresql://hippo@/%s?host={folder}", start, partial(control, "-m", "fast", "stop")
            )
        finally:
            control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _account() -> dict[str, Any]:
    """Return whom to run the server as: ourselves, or where we are root, somebody with no rights."""
    if os.geteuid() != 0:
        return {}
    users = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _programs(folder: Path, account: dict[str, Any]) -> Path:
    """Return a folder with the server's programs that the account can run."""
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = importlib.util.find_spec("pgserver")
    installed = Path(package.origin).parent if package is not None and package.origin else None
    if installed is not None:
        candidates.append(installed / "pginstall" / "bin")
    for programs in candidates:
        if (programs / "pg_ctl").exists() and _can_run(programs / "initdb", account):
            return programs
    assert installed is not None, "install PostgreSQL, or pgserver with: pip install pgserver"
    for part in ("pgserver", "pgserver.libs"):
        shutil.copytree(installed.parent / part, folder / part)
    return folder / "pgserver" / "pginstall" / "bin"


def _can_run(program: Path, account: dict[str, Any]) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, cwd="/", **account).returncode == 0
    except OSError:
        return False


def _run(command: list[str | Path], account: dict[str, Any]) -> None:
    # Into a file, not a pipe: the server inherits the output, and a pipe would stay open as long as it runs.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(command, stdout=output, stderr=output, cwd="/", **account)
        output.seek(0)
        assert done.returncode == 0, f"{command} failed:\n{output.read()}"
