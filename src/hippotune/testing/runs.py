"""What a fresh interpreter does for a check: it trains, keeps states as files, and compares them.

All states are compared with those of one run, the reference: straight through in an interpreter of its own,
evaluated at its end alone. States are compared as they come out of their files, each on an object of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hippotune.executors.base import Job
from hippotune.sequences.config import Config
from hippotune.trainers import seeding
from hippotune.trainers.session import Session
from hippotune.trainers.state.compare import Difference, differences

Name = Literal["reference", "repeated", "evaluated", "again", "unsaved", "fresh", "warm"]
Metrics = dict[str, float]

_MOST = 5
_GENERATORS = {
    "python": "the random generator of Python",
    "numpy": "the random generator of NumPy",
    "cpu": "the random generator of torch",
    "cuda": "the random generators of CUDA",
    "mps": "the random generator of MPS",
}


@dataclass(frozen=True)
class Outcome:
    """What came of one run: its metrics by step, and how its states differ from those of the reference.

    `start` is the step of the checkpoint that it went on from. `by_evaluating` has what `evaluate` changed,
    and `by_saving` what is not the same after a save and a load.
    """

    name: Name
    start: int
    metrics: Mapping[int, Metrics]
    states: Mapping[int, list[Difference]] = field(default_factory=dict)
    by_evaluating: Mapping[int, list[Difference]] = field(default_factory=dict)
    by_saving: list[Difference] = field(default_factory=list)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """A trial to check: as many steps of a config, with a folder for states that all interpreters see."""

    config: Config
    steps: int
    folder: Path


def run_reference(job: Job, task: Task) -> Outcome:
    """Train straight through, and keep every state."""
    checked = _Checked(job, task)
    metrics = checked.train("reference", evaluate=False)
    return Outcome("reference", 0, metrics, notes=tuple(checked.session.notes))


def run_warm(job: Job, task: Task) -> list[Outcome]:
    """Train straight through; then, in the same process, from scratch again and from every checkpoint."""
    checked = _Checked(job, task)
    repeated = checked.train("repeated", evaluate=False)
    by_saving = checked.lost_by_saving("repeated")
    runs: list[tuple[Name, int, Mapping[int, Metrics]]] = [("repeated", 0, repeated)]
    runs.append(("again", 0, checked.train("again", evaluate=False)))
    runs.append(("unsaved", 0, checked.train("unsaved", evaluate=False, save=False)))
    for start in range(1, task.steps):
        runs.append(("warm", start, checked.train("warm", evaluate=True, start=start)))
    return [
        Outcome(name, start, metrics, checked.compared(name, start), by_saving=by_saving if start else [])
        for name, start, metrics in runs
    ]


def run_evaluated(job: Job, task: Task) -> Outcome:
    """Train straight through and evaluate after every step; compare the states before and after that."""
    checked = _Checked(job, task)
    metrics = checked.train("evaluated", evaluate=True, save_after=True)
    return Outcome(
        "evaluated", 0, metrics, checked.compared("evaluated", 0), checked.changed_by_evaluating("evaluated")
    )


def run_cuts(job: Job, asked: tuple[Task, tuple[int, ...]]) -> list[Outcome]:
    """Go on from checkpoints of the reference; nothing was trained here before the first of them."""
    task, cuts = asked
    checked = _Checked(job, task)
    runs = [(start, checked.train("fresh", evaluate=True, start=start)) for start in cuts]
    by_saving = checked.lost_by_saving("fresh", cuts[-1])
    return [
        Outcome("fresh", start, metrics, checked.compared("fresh", start), by_saving=by_saving)
        for start, metrics in runs
    ]


class _Checked:
    """A session whose states are kept as files, by run, start and step."""

    def __init__(self, job: Job, task: Task) -> None:
        self.session = Session(job.trainer, job.settings, job.seed)
        self._task = task

    def train(
        self, name: Name, evaluate: bool, start: int = 0, save: bool = True, save_after: bool = False
    ) -> dict[int, Metrics]:
        """Train to the end, and return the metrics at the end, or wherever there were any."""
        session, task = self.session, self._task
        self._start(session, start, None if start == 0 else self._file("reference", 0, start))
        metrics = {}
        while True:
            step = session.step
            if (step > 0 and save) or step == task.steps:
                self._save(self._file(name, start, step))
            if evaluate and step == 0:
                session.probe(frozenset())  # as a study does
            elif evaluate or step == task.steps:
                metrics[step] = session.evaluate()
            if step > 0 and save_after:
                self._save(self._file(name, start, step, "after"))
            if step == task.steps:
                return metrics
            session.advance()

    def compared(self, name: Name, start: int) -> dict[int, list[Difference]]:
        """Compare the states of a run with those of the reference; return what differs, by step."""
        steps = range(max(start, 1), self._task.steps + 1)
        pairs = {
            step: self._differences(step, self._file("reference", 0, step), path)
            for step in steps
            if (path := self._file(name, start, step)).exists()
        }
        return {step: found for step, found in pairs.items() if found}

    def changed_by_evaluating(self, name: Name) -> dict[int, list[Difference]]:
        """Compare the states before and after every evaluation."""
        steps = range(1, self._task.steps + 1)
        pairs = {
            step: self._differences(step, self._file(name, 0, step), self._file(name, 0, step, "after"))
            for step in steps
        }
        return {step: found for step, found in pairs.items() if found}

    def lost_by_saving(self, name: Name, start: int = 0) -> list[Difference]:
        """Compare the state that is held, the last of a run, with what a load makes of its checkpoint."""
        with seeding.put_back():
            twin = self.session.twin()
            self._start(twin, self._task.steps, self._file(name, start, self._task.steps))
            return differences(self.session.trainer, twin.trainer, most=_MOST, skip=_is_made_again)

    def _differences(self, step: int, one: Path, other: Path) -> list[Difference]:
        loaded = []
        for path in (one, other):
            twin = self.session.twin()
            self._start(twin, step, path)
            loaded.append((twin.trainer, seeding.capture()))
        (ours, random), (theirs, random_there) = loaded
        found = differences(ours, theirs, most=_MOST)
        for name, told in _GENERATORS.items():
            if differences(random.get(name), random_there.get(name), most=1):
                found.append(Difference(told, "in one state", "in another"))
        return found

    def _start(self, session: Session, step: int, path: Path | None) -> None:
        if path is None:
            session.start(self._task.config, 0, None, warm=False)
        else:
            with path.open("rb") as file:
                session.start(self._task.config, step, file, warm=False)

    def _save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            self.session.snapshot()(file)

    def _file(self, name: Name, start: int, step: int, when: str = "before") -> Path:
        return self._task.folder / name / f"from-{start}-step-{step}-{when}"


def _is_made_again(value: Any) -> bool:
    """Return whether an object is one of Hippo's own: batches prepared in advance, made anew after a load."""
    return type(value).__module__ == "hippotune.trainers.torch.batches"
