"""What failed in a study on a server is tried again: while its plan is open there, and while it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hippotune.cli.main import main
from hippotune.serve import hub
from hippotune.serve.client.api import Api
from hippotune.serve.client.catalog import remote_retry
from served.serving import serving
from waiting import until

STUDY = """
import os
import hippotune as hippo

class Patient(hippo.Trainer):
    def build(self):
        self.total = 0.0
    def setup(self, hp):
        self.lr = hp["lr"]
    def train(self):
        print("adding", self.lr)
        if self.lr == 1.0 and not os.path.exists(self.settings["healed"]):
            raise ValueError("ill")
        self.total += self.lr
    def evaluate(self):
        return {"total": self.total}

settings = {"healed": os.path.abspath("healed")}
study = hippo.Study("patient", Patient, settings=settings, version="1", executor=hippo.Local(1))
tuner = hippo.GridSearch({"lr": [0.5, 1.0]}, metric="total", mode="max", max_steps=4)
"""


def test_what_failed_on_a_server_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("patient.py").write_text(STUDY)

    def hippo(*arguments: str) -> str:
        capsys.readouterr()
        assert main(arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    with serving(tmp_path / ".hippo") as running:
        there = ["--url", running.url]

        def tuned() -> str:
            hippo("submit", "patient.py", *there)
            return hippo("attach", "patient", "--no-progress", *there)

        assert "2 trials, 1 failed" in tuned()
        log = hippo("show", "patient", "--trial", "1", "--log", *there)
        assert "for study patient, trial 1\n" in log
        assert "adding 1\n" in log
        assert remote_retry(running.url, "patient", None, 0) == 0, "trial 0 is fine"
        until(lambda: running.server._hub.plans)
        assert "1 trial of study patient: tried again" in hippo("retry", "patient", "--trial", "1", *there)
        assert "2 trials, 1 failed" in tuned(), "it was tried again, and is ill yet"
        monkeypatch.setattr(hub, "IDLE_SECONDS", 0.0)
        api = Api(running.url)
        until(lambda: not api.call("GET", "/plans", None, list))
        Path("healed").touch()
        assert "2 trials, 1 failed" in tuned(), "until somebody has it retried"
        until(lambda: not api.call("GET", "/plans", None, list))
        assert "1 trial of study patient: tried again" in hippo("retry", "patient"), (
            "its server is found by the home"
        )
        assert "nothing in study patient has failed" in hippo("retry", "patient", *there)
        assert "best: trial 1 at step 4: total 4" in tuned()
