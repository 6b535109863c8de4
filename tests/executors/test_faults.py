"""Studies whose trainers raise, crash, lose connections or cannot be saved, on local processes and on Ray.

A fault stays where it is: its siblings, which share their beginning with it, come to their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from executors.noisy import Noisy
from executors.ray_nodes import Nodes
from hippotune import GridSearch, Local, Piecewise, Ray, Retries, Study
from hippotune.cli.main import main
from hippotune.errors import TrainerError
from hippotune.executors.base import Executor
from hippotune.study.report import Report

BRANCH = 4
FAULTS = {  # what a trial does after the branch, and what becomes of it
    f"train raise {BRANCH}": "failed",
    f"train kill {BRANCH}": "suspended",
    f"train exhaust {BRANCH}": "failed",
    f"train disconnect {BRANCH}": "suspended",
    f"save raise {2 * BRANCH}": "fine",
}
HEALED = "healed"


class Patient(Noisy):
    """A trainer whose fault, which comes into force at a step, is gone when a file is there."""

    def evaluate(self) -> Mapping[str, float]:
        return {"sum": super().evaluate()["sum"]}

    def maybe(self, where: str) -> None:
        if not Path(self.settings[HEALED]).exists():
            super().maybe(where)


@pytest.fixture(params=["local", "ray"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "ray":
        nodes: Nodes = request.getfixturevalue("cluster")
        assert nodes is not None
        yield Ray(workers=1)
    else:
        yield Local(workers=2)


def tuned(executor: Executor, home: Path, faults: Iterable[str] = FAULTS) -> Report:
    faulty = [Piecewise(["none", fault], [BRANCH]) for fault in faults]
    space = {"rate": [0.1], "hold": [1 << 30], "fault": ["none", *faulty]}
    settings = {"gate": "", HEALED: str(home / HEALED)}
    retries = Retries(1, pause=0.01)
    with Study(
        "faults", Patient, home=home, executor=executor, settings=settings, version="1", retries=retries
    ) as study:
        return study.tune(GridSearch(space, metric="sum", mode="max", max_steps=2 * BRANCH), progress=False)


def fates(report: Report) -> list[str]:
    return [
        "suspended" if trial.suspended else "failed" if trial.error else "fine" for trial in report.trials
    ]


@pytest.mark.filterwarnings("ignore:.*suspended:RuntimeWarning")
def test_each_kind_of_fault_stays_where_it_is_and_what_is_retried_comes_to_its_result(
    executor: Executor, tmp_path: Path, capsys: pytest.CaptureFixture[Any]
) -> None:
    report = tuned(executor, tmp_path)
    assert fates(report) == ["fine", *FAULTS.values()]
    errors = [str(trial.error) for trial in report.trials[1:]]
    for error, words in zip(errors, ("ZeroDivision", "SIGKILL", "Memory", "ConnectionReset"), strict=False):
        assert words in error
    (tmp_path / HEALED).touch()
    again = tuned(executor, tmp_path)
    assert fates(again) == fates(report), "until somebody has them retried"
    assert again.work.steps_trained == 0
    assert main(["retry", "faults", "--home", str(tmp_path)]) == 0
    assert "4 trials" in capsys.readouterr().out
    assert set(fates(tuned(executor, tmp_path))) == {"fine"}


@pytest.mark.parametrize("where", ["train", "evaluate"])
def test_a_disk_that_is_full_for_user_code_ends_the_study_and_fails_no_trial(
    tmp_path: Path, where: str
) -> None:
    # That Ray tells it apart too is part of its conformance.
    executor = Local(workers=2)
    step = BRANCH if where == "train" else 2 * BRANCH
    faults = [f"{where} overfill {step}"]
    with pytest.raises(TrainerError, match=r"the disk is full; make room(.|\n)*No space left on device"):
        tuned(executor, tmp_path, faults)
    (tmp_path / HEALED).touch()
    assert fates(tuned(executor, tmp_path, faults)) == ["fine", "fine"]
