"""Real databases for the tests: SQLite in a temporary home, PostgreSQL on a server that is started here.

The server's programs come from the PATH, from where Linux distributions put them, or from the `pgserver`
package. They refuse to run as root; then they run as another user, from a folder that this user can enter.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hippotune.identity.key import PlanKey
from hippotune.store.base import Store
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.memory import MemoryStore

_names = itertools.count()


def new_key() -> PlanKey:
    """Return the key of a plan that no other test uses."""
    return PlanKey("Digits", f"version:{next(_names)}", "{}", 0)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server, without a database."""
    folder = Path(tempfile.mkdtemp(prefix="hippo-"))
    data, account = folder / "data", _account()
    if account:
        os.chown(folder, account["user"], account["group"])
    try:
        programs = _programs(folder, account)
        _run([programs / "initdb", "-D", data, "-U", "hippo", "-A", "trust", "-E", "UTF8", "-N"], account)
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        started = ["-l", folder / "log", "-o", options, "-w", "-t", "300", "start"]
        _run([programs / "pg_ctl", "-D", data, *started], account)
        try:
            yield f"postgresql://hippo@/%s?host={folder}"
        finally:
            _run([programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], account)
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


@pytest.fixture
def postgresql(server: str) -> str:
    """The URL of a PostgreSQL database without tables."""
    with psycopg.connect(server % "postgres") as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server % "postgres"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """What `open_store` takes for each kind of database."""
    return None if request.param == "sqlite" else str(request.getfixturevalue("postgresql"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def catalog(home: Path, url: str | None) -> Iterator[Catalog]:
    """An open store of each kind, without plans."""
    with open_store(home, url) as catalog:
        yield catalog


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def new_store(request: pytest.FixtureRequest, home: Path) -> Iterator[Callable[[], Store]]:
    """Make stores of each kind, each for a plan of its own."""
    if request.param == "memory":
        yield MemoryStore
        return
    url = None if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with open_store(home, url) as catalog:
        yield lambda: catalog.plan(new_key())
