"""Scripts as people write them: what is at the top of them goes to workers, and failures are told."""

from __future__ import annotations

import subprocess
from pathlib import Path

from forked import Interpreter

SCRIPT = """
import functools
import hippotune as hippo

@functools.lru_cache(maxsize=8)
def table(size):
    return list(range(size))

class Adding(hippo.Trainer):
    def build(self):
        self.total = 0.0
    def setup(self, hp):
        self.rate = hp["rate"]
    def train(self):
        self.total += self.rate * table(4)[3]
        {fault}
    def evaluate(self):
        return {{"total": self.total}}

if __name__ == "__main__":
    study = hippo.Study("adding", Adding, home="home", executor=hippo.Local(workers=1))
    report = study.tune(hippo.GridSearch({{"rate": [1, 2]}}, metric="total", mode="max", max_steps=2))
    print("best", max((trial.metrics[2]["total"] for trial in report.trials if trial.metrics), default=None))
"""


def run(forking: Interpreter, folder: Path, fault: str = "pass") -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT.format(fault=fault))
    return forking.run("script.py", cwd=folder)


def test_a_cached_function_of_a_script_is_cached_in_workers_too(tmp_path: Path, forking: Interpreter) -> None:
    done = run(forking, tmp_path)
    assert "best 12.0" in done.stdout, done.stderr


def test_where_every_trial_fails_the_reason_is_told(tmp_path: Path, forking: Interpreter) -> None:
    done = run(forking, tmp_path, "self.total / 0")
    assert "all 2 trials failed, the first with: ZeroDivisionError" in done.stderr, done.stderr
    assert "hippo show adding --trial 0" in done.stderr
