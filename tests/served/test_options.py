"""What ``hippo serve`` can be told, each in a real server: other users' workers, TLS, executors, stores."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import hippotune as hippo
from hippotune import GridSearch, HippoError, Study
from s3 import Server
from served.serving import ServerProcess, fill
from study.walkers import Walker

SPACE = {"lr": [0.1, 0.2], "bs": [16]}
SECRETS = ["plans.sqlite", "key", "served", "served/code", "served/studies", "served/studies/test.json"]


def tuned(url: str, trainer: type[hippo.Trainer] = Walker, **more: Any) -> hippo.study.Report:
    """Tune a study, with the tuner on the server, and load its best model."""
    with Study("test", trainer, url=url, code="value", **more) as study:
        report = study.tune(GridSearch(SPACE, metric="loss", mode="min", max_steps=4), progress=False)
        assert report.best.load().evaluate() == report.best.metrics
        return report


class Nosy(Walker):
    """Looks around: who it is, and which files of the server it can read."""

    def state_dict(self) -> dict[str, Any]:
        return {"data": self.data, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.data, self.weights = state["data"], state["weights"]

    def evaluate(self) -> dict[str, float]:
        secrets = [self.settings["home"], self.settings["tokens"]]
        secrets += [f"{self.settings['home']}/{name}" for name in SECRETS]
        seen = [path for path in secrets if os.access(path, os.R_OK)]
        return {
            **super().evaluate(),
            "user": os.geteuid(),
            "group": os.getegid(),
            "groups": len(os.getgroups()),
            "seen": len(seen) + ("HIPPO_TOKEN" in os.environ),
        }


class NosyGrid(GridSearch):
    """The same of the tuner's process: it fails where it can read what it should not."""

    home = tokens = ""

    async def run(self, trials: hippo.tuners.Trials) -> None:
        assert os.geteuid() != 0
        assert not any(os.access(place, os.R_OK) for place in (self.home, f"{self.home}/key", self.tokens))
        await super().run(trials)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can pass through, unlike those below `tmp_path`."""
    if os.geteuid() != 0:
        pytest.skip("only root can run workers as another user")
    folder = Path(tempfile.mkdtemp(prefix="hippo-open-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def reachable() -> list[str]:
    """Return a command that runs another where every user can reach this interpreter and this code.

    Where these are below a folder that is closed to others, that is so in a mount namespace of its own.
    """
    needed = {Path(sys.executable).resolve().parents[1], Path(sys.prefix), Path(__file__).parents[2]}
    above = {folder for place in needed for folder in place.parents if not folder.stat().st_mode & 0o001}
    if not above:
        return []
    closed = min(above, key=lambda folder: len(folder.parts))
    places = [place for place in sorted(needed) if place.is_relative_to(closed)]
    listed = shlex.join(map(str, places))
    script = f"""
        set -e
        mount -t tmpfs tmpfs /mnt
        for place in {listed}; do mkdir -p "/mnt$place"; mount --bind "$place" "/mnt$place"; done
        mount -t tmpfs -o mode=711 tmpfs {shlex.quote(str(closed))}
        for place in {listed}; do mkdir -p "$place"; mount --bind "/mnt$place" "$place"; done
        exec "$@"
    """
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def test_code_of_clients_runs_as_another_user_who_can_read_nothing_of_the_server(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, home = open_folder / "tokens", open_folder / "home"
    tokens.write_text(f"kim admin {'k' * 20}\n")
    tokens.chmod(0o600)
    monkeypatch.setenv("HIPPO_TOKEN", "k" * 20)
    options = ["--worker-user", "nobody", "--token-file", str(tokens)]
    log = open_folder / "server.log"
    settings = {"home": str(home), "tokens": str(tokens)}
    NosyGrid.home, NosyGrid.tokens = settings.values()
    with ServerProcess(home, *options, log=log, within=reachable()) as server:
        assert "code of clients runs as user nobody" in log.read_text()
        with Study("test", Nosy, url=server.url, code="value", settings=settings) as study:
            report = study.tune(NosyGrid(SPACE, metric="loss", mode="min", max_steps=4), progress=False)
            best = report.best.metrics
            nobody = pwd.getpwnam("nobody")
            assert (best["user"], best["group"]) == (nobody.pw_uid, nobody.pw_gid)
            assert best["groups"] <= 1
            assert best["seen"] == 0
            assert all((home / name).exists() for name in SECRETS)
            assert report.best.load().evaluate()["user"] == os.geteuid()
            assert report.best.export(open_folder / "best.pt").stat().st_size > 0
    assert "k" * 20 not in log.read_text()


def test_a_user_who_cannot_run_python_is_named_at_the_start(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hippotune.serve.program import Options, serve

    closed = open_folder / "python"
    shutil.copy(sys.executable, closed)
    closed.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(closed))
    options = Options(home=open_folder / "home", make_executor=lambda: hippo.Local(1), worker_user="nobody")
    with pytest.raises(HippoError, match="user 'nobody' cannot run"):
        serve(options, print)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of a name that this machine does not have, and its key."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=hippo.example", "-addext", "subjectAltName=DNS:hippo.example,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command = ["openssl", "req", *kind, "-keyout", str(key), "-out", str(certificate), *subject]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_everything_goes_by_tls_and_another_certificate_is_refused(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, key = certificate
    tls = ["--tls-certificate", str(file), "--tls-key", str(key)]
    with ServerProcess(tmp_path / "home", *tls, certificate=file) as server:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{server.url}/healthz")
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert tuned(server.url).best.step == 4


def test_a_file_makes_the_executor(tmp_path: Path) -> None:
    file = tmp_path / "workers.py"
    file.write_text(
        "import hippotune as hippo\n\ndef pool():\n    return hippo.Local(workers=1, threads=1)\n"
    )
    with ServerProcess(tmp_path / "home", executor=f"{file}:pool") as server:
        report = tuned(server.url)
        assert report.work.workers == 1


def test_checkpoints_of_a_server_are_in_a_bucket(
    s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with ServerProcess(f"{s3.new_bucket()}/walkers", log=tmp_path / "server.log") as server:
        assert tuned(server.url).best.step == 4


REFUSED = """
import contextlib, io, json, sys
from hippotune.cli.main import main

said = []
for options in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as error:
        status = main(["serve", "--port", "0", *options])
    said.append([status, error.getvalue()])
print(json.dumps(said))
"""


def refused(*each: list[str]) -> list[str]:
    """Start servers that cannot start, one after the other; return what they say, which is one line each."""
    command = [sys.executable, "-c", REFUSED]
    done = subprocess.run(
        command, input=json.dumps(each), capture_output=True, text=True, timeout=200, check=True
    )
    said: list[tuple[int, str]] = json.loads(done.stdout)
    for status, line in said:
        assert status == 2, line
        assert line.startswith("hippo: ")
        assert line.count("\n") == 1
    return [line for _, line in said]


def test_a_server_says_in_one_line_what_it_cannot_be_told(tmp_path: Path) -> None:
    expected = {
        ("--port", "99999"): "--port is 99999; expected 1 to 65535",
        ("--port", "-1"): "--port is -1; expected",
        ("--tls-key", "key.pem"): "--tls-key is key.pem: give its certificate too",
        ("--tls-certificate", "no.pem", "--tls-key", "no.pem"): "No such file or directory",
        ("--tls-certificate", __file__): f"--tls-certificate is {__file__}",
        ("--executor", "nofile.py:x"): "there is no file nofile.py; expected FILE.py:NAME",
        ("--store", "foo://x"): "store is 'foo://x'; expected a URL such as postgresql://",
    }
    home = ["--home", str(tmp_path / "home")]
    said = refused(*([*home, *options] for options in expected))
    for words, line in zip(expected.values(), said, strict=True):
        assert words in line


def test_a_server_on_a_full_disk_says_so_and_starts_when_there_is_room(small_disk: Path) -> None:
    fill(small_disk / "ballast")
    assert "No space left on device" in refused(["--home", str(small_disk / "home")])[0]
    (small_disk / "ballast").unlink()
    with ServerProcess(small_disk / "home") as server:
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_who_can_read_the_lock_does_not_read_the_arguments_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "home", "--allow-host", "secret.example"):
        content = (tmp_path / "home" / "locks" / "server.lock").read_text()
    assert "serve" in content
    assert "secret.example" not in content
