"""A study that is submitted again while it runs: the same is followed, however its code travels."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from hippotune.cli.main import main
from hippotune.serve.client.api import Api
from served.serving import Running, serving
from waiting import until

SCRIPT = """
import sys
import hippotune as hippo

scale = (lambda v: v * 1) if "fast" in sys.argv else (lambda v: v * 2)

class Adds(hippo.Trainer):
    names = {"one", "two", "three", "four"}
    def build(self):
        self.total = 0.0
    def setup(self, hp):
        vars(self).update({name: hp[name] for name in hp})
    def train(self):
        self.total += scale(self.lr) * len(self.names)
    def evaluate(self):
        return {"total": self.total}

class Mine(hippo.GridSearch):
    labels = {"one", "two", "three", "four"}

def curve(step):
    return 0.5 + step

space = hippo.Grid({"lr": [0.5, 1.0, 2.0], "more": [hippo.Function(curve, 4)]}, lambda hp: hp["lr"] < 2)
study = hippo.Study("again", Adds, url=sys.argv[1])
tuner = Mine(space, metric="total", mode="max", max_steps=4)

if __name__ == "__main__":
    print(study.tune(tuner, progress=False).best.metrics)
"""


class Client:
    """A process that tunes, or submits, a study."""

    def __init__(self, folder: Path, *command: str, seed: int = 0) -> None:
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> tuple[str, str]:
        """Wait for its end; return what it printed, and what it said of errors."""
        try:
            return self.process.communicate(timeout=120)
        finally:
            self.process.kill()


@contextmanager
def held(home: Path) -> Iterator[Running]:
    """Serve a home; nothing is trained before `let_go`."""
    with serving(home, hold=True) as running:
        yield running


def wait_for_plan(running: Running) -> None:
    until(lambda: Api(running.url).call("GET", "/plans", None, list))


def let_go(running: Running) -> None:
    httpx.post(f"{running.url}/release").raise_for_status()


def submitted(folder: Path, url: str, *arguments: str) -> tuple[str, str]:
    return Client(folder, "-m", "hippotune", "submit", "run.py", "--url", url, "--", url, *arguments).ended()


def test_the_same_script_in_other_processes_follows(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    with held(tmp_path / "home") as running:
        url = running.url
        clients = [Client(tmp_path, "run.py", url, seed=1)]
        wait_for_plan(running)
        clients.append(Client(tmp_path, "run.py", url, seed=2))
        clients.append(Client(tmp_path, "run.py", url, "an argument that the code does not read"))
        assert "submitted: again" in submitted(tmp_path, url)[0]
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "run.py").write_text(f"# Another file with the same code.\n{SCRIPT}")
        clients.append(Client(tmp_path, "elsewhere/run.py", url))
        let_go(running)
        said = [client.ended() for client in clients]
    assert [out.strip() for out, _ in said] == ["{'total': 32.0}"] * len(clients), said


DIFFERENCES = {
    "Adds.train: source changed": ("self.total +=", "self.total -="),
    "Adds.names: ": ('"three", "four"}\n    def', '"three"}\n    def'),
    "seed: 0 -> 1": ("url=sys", "seed=1, url=sys"),
    "share: True -> False)": ("url=sys", "share=False, url=sys"),
    "retries: 3 -> 7": ("url=sys", "retries=7, url=sys"),
    "tuner.max_steps: 4 -> 3": ("max_steps=4", "max_steps=3"),
    "tuner.space: changed": ("0.5 + step", "0.25 + step"),
    "tuner.<lambda>: source changed": ('hp["lr"] < 2', 'hp["lr"] < 1'),
}


def test_another_one_is_refused_by_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)

    def refused(*arguments: str) -> str:
        given = ["submit", str(script), "--url", running.url, "--", running.url, *arguments]
        assert main(given) == 2
        return capsys.readouterr().err

    with held(tmp_path / "home") as running:
        submitted(tmp_path, running.url)
        wait_for_plan(running)
        for difference, (old, new) in DIFFERENCES.items():
            assert old in SCRIPT
            script.write_text(SCRIPT.replace(old, new))
            refusal = refused()
            assert f"({difference}" in refusal
            assert "409" in refusal
        script.write_text(SCRIPT)
        assert "(<lambda>: source changed)" in refused("fast")


TRAINER, _, REST = SCRIPT.partition("class Mine")
PROJECT_SCRIPT = f"import sys\nimport hippotune as hippo\nfrom adding import Adds\n\nclass Mine{REST}"


def test_a_project_whose_other_files_changed_follows(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "adding.py").write_text(TRAINER)
    (root / "run.py").write_text(PROJECT_SCRIPT)
    (root / "README.md").write_text("Adds.\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    with held(tmp_path / "home") as running:
        url = running.url
        clients = [Client(root, "run.py", url, seed=1)]
        wait_for_plan(running)
        (root / "README.md").write_text("Adds, and adds.\n")
        clients.append(Client(root, "run.py", url, seed=2))
        assert "submitted: again" in submitted(root, url)[0]
        let_go(running)
        said = [client.ended() for client in clients]
    assert [out.strip() for out, _ in said] == ["{'total': 32.0}"] * 2, said
    assert len(list((tmp_path / "home" / "served" / "bundles").iterdir())) == 2
