"""Records real studies for `test_replay.py`: ``PYTHONPATH=src:tests python tests/engine/record.py``.

With names of logs as arguments it records these alone.

To be run again only where the engine is meant to decide otherwise than before. Say in the commit what it does
otherwise, and why: the difference of the logs does not show that by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hippotune as hippo
import hippotune.shell.runtime as runtime
from engine.log import Recorder
from executors.smooth import Smooth
from hippotune import Config, Exponential, Fluid, GridSearch, HyperSched, MultiStep, Study, SuccessiveHalving
from study.walkers import Walker

LOGS = Path(__file__).parent / "logs"
SPACE: dict[str, list[Any]] = {
    "lr": [0.1, MultiStep(0.1, [4], 0.1), MultiStep(0.1, [4, 8], 0.1), Exponential(0.1, 0.9)],
    "bs": [16, MultiStep(16, [6], 2)],
}


class Once(Walker):
    """Dies once, in the fifth step of a trial, where another may have branched off."""

    def build(self) -> None:
        super().build()
        self.steps = 0

    def train(self) -> None:
        super().train()
        self.steps += 1
        mark = Path(self.settings["death"])
        if self.steps == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Slow(Walker):
    """Takes its time."""

    def train(self) -> None:
        super().train()
        time.sleep(0.01)


def rungs(metric: str = "loss", max_steps: int = 12) -> SuccessiveHalving:
    return SuccessiveHalving(SPACE, metric, "min", 3, max_steps, 2)


def plain(home: Path) -> None:
    with Study("plain", Walker, home=home, executor=hippo.Local(2)) as study:
        study.tune(rungs(), progress=False)


def with_a_worker_lost(home: Path) -> None:
    settings = {"death": str(home / "death")}
    with Study("lost", Once, home=home, executor=hippo.Local(2), settings=settings) as study:
        study.tune(GridSearch(SPACE, "loss", "min", 9), progress=False)


def with_widths(home: Path) -> None:
    (home / "1").touch()
    settings = {"deaths": str(home)}
    executor = hippo.Local(2)
    with Study("wide", Smooth, home=home, executor=executor, settings=settings, width=Fluid()) as study:
        space: Mapping[str, list[Any]] = {"lr": [0.01, MultiStep(0.01, [20], 0.1)]}
        study.tune(GridSearch(space, "loss", "min", 40), progress=False)


def with_a_deadline(home: Path) -> None:
    with Study("late", Slow, home=home, executor=hippo.Local(2)) as study:
        study.open()
        study.eval(Config({"lr": 0.5, "bs": 16}), 2)
        tuner = HyperSched(SPACE, "loss", "min", min_steps=2, max_steps=10)
        study.tune(tuner, deadline=0.4, progress=False)


def with_little_room(home: Path) -> None:
    with Study("small", Walker, home=home, executor=hippo.Local(2), checkpoint_budget=9000) as study:
        study.tune(rungs(), progress=False)


def run_again(home: Path) -> None:
    """A second run of a larger study, on what the first one has left."""
    with Study("first", Walker, home=home, executor=hippo.Local(2)) as study:
        study.tune(GridSearch({**SPACE, "bs": [16]}, "loss", "min", 9), progress=False)
        Recorder.found = list(study._connection.open().store.read())
    try:
        with Study("second", Walker, home=home, executor=hippo.Local(2)) as study:
            study.tune(rungs(), progress=False)
    finally:
        Recorder.found = ()


def with_two_studies(home: Path) -> None:
    studies = [Study(name, Walker, home=home, executor=hippo.Local(2)) for name in ("one", "two")]
    spaces: list[Mapping[str, list[Any]]] = [SPACE, {**SPACE, "bs": [16, MultiStep(16, [3], 2)]}]
    tuners = [GridSearch(space, "loss", "min", 9) for space in spaces]
    hippo.tune_together(zip(studies, tuners, strict=True), progress=False)
    for study in studies:
        study.close()


LOGGED = (
    plain,
    with_a_worker_lost,
    with_widths,
    with_a_deadline,
    with_little_room,
    run_again,
    with_two_studies,
)


def record(name: str, run: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as home:
        run(Path(home))
    path = LOGS / f"{name}.jsonl"
    Recorder.made.write(path)
    print(f"{path.name}: {len(Recorder.made.log)} events, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    runtime.Engine = Recorder  # type: ignore[misc]
    LOGS.mkdir(exist_ok=True)
    chosen = set(sys.argv[1:])
    for each in LOGGED:
        if not chosen or each.__name__ in chosen:
            record(each.__name__, each)
