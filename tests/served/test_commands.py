"""The commands: submit starts a server, attach follows, ls, show and export read from it, stop ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hippotune.store.served import served_at
from served.serving import wait_for

STUDY = """
import hippotune as hippo

class Adds(hippo.Trainer):
    def build(self):
        self.total = 0.0
    def setup(self, hp):
        self.lr = hp["lr"]
    def train(self):
        self.total += self.lr
    def evaluate(self):
        return {"total": self.total}

study = hippo.Study("adds", Adds, executor=hippo.Local(1))
tuner = hippo.GridSearch({"lr": [0.5, 1.0]}, metric="total", mode="max", max_steps=4)
"""


def hippo(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "hippotune", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_study_is_submitted_followed_read_and_stopped(tmp_path: Path) -> None:
    (tmp_path / "adds.py").write_text(STUDY)
    home = tmp_path / ".hippo"
    said = hippo(tmp_path, "submit", "adds.py")
    try:
        url = served_at(home)
        assert url
        assert f"started a server for .hippo at {url}" in said
        assert "submitted: adds" in said
        report = hippo(tmp_path, "attach", "adds", "--no-progress")
        assert "best: trial 1 at step 4: total 4" in report
        assert hippo(tmp_path, "attach", "adds", "--url", url, "--no-progress") == report
        assert "total 4" in hippo(tmp_path, "ls", "--url", url)
        shown = hippo(tmp_path, "show", "adds", "--url", url)
        assert "best" in shown
        table = hippo(tmp_path, "export", "adds", "--url", url)
        assert table.splitlines()[0] == "study,trial,step,config.lr,total,error"
        assert "submitted: adds" in hippo(tmp_path, "submit", "adds.py")  # the same server
    finally:
        hippo(tmp_path, "stop")
    wait_for(lambda: served_at(home) is None)
    assert "total 4" in hippo(tmp_path, "show", "adds")
