"""What a fresh interpreter does for a check: it trains, and notes states and metrics along the way.

All runs are compared with one, the reference: straight through in an interpreter of its own, evaluated at its
end alone. Its checkpoints are files that the other interpreters go on from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hippotune.executors.base import Job
from hippotune.protocol.proof import Name, Run
from hippotune.sequences.config import Config
from hippotune.trainers.session import Session


@dataclass(frozen=True)
class Task:
    """A trial to check: as many steps of a config, and a folder for checkpoints that all processes see."""

    config: Config
    steps: int
    folder: Path

    def checkpoint(self, step: int) -> Path:
        """Return the file of the reference's checkpoint."""
        return self.folder / f"step-{step}"


def run_reference(job: Job, task: Task) -> tuple[Run, tuple[str, ...]]:
    """Train straight through, and keep a checkpoint of every step; return what a person should read too."""
    checked = _Checked(job, task)
    return checked.train("reference", keep=True), tuple(checked.session.notes)


def run_warm(job: Job, task: Task) -> list[Run]:
    """Train straight through; then, in the same process, from scratch again and from every checkpoint."""
    checked = _Checked(job, task)
    runs = [checked.train("twice"), checked.train("again"), checked.train("unsaved", save=False)]
    return [*runs, *(checked.train("warm", start, evaluate=True) for start in range(1, task.steps))]


def run_evaluated(job: Job, task: Task) -> Run:
    """Train straight through and evaluate after every step; note the states before and after that."""
    return _Checked(job, task).train("evaluated", evaluate=True)


def run_cuts(job: Job, asked: tuple[Task, tuple[int, ...]]) -> list[Run]:
    """Go on from checkpoints of the reference; nothing was trained here before the first of them."""
    task, cuts = asked
    checked = _Checked(job, task)
    return [checked.train("fresh", start, evaluate=True) for start in cuts]


class _Checked:
    """A session whose states are noted."""

    def __init__(self, job: Job, task: Task) -> None:
        self.session = Session(job.opened, job.settings, job.seed, start=job.start)
        self._task = task

    def train(
        self, name: Name, start: int = 0, evaluate: bool = False, save: bool = True, keep: bool = False
    ) -> Run:
        """Train to the end, with metrics there, or everywhere (`evaluate`); with checkpoints, or without."""
        session, steps = self.session, self._task.steps
        self._start(start)
        run = Run(name, start)
        while True:
            step = session.step
            if step > 0 and save:
                write = session.snapshot()
                if keep:
                    with self._task.checkpoint(step).open("wb") as file:
                        write(file)
            if (step > 0 and save) or step == steps:
                run.add(step, session.fingerprint(), evaluated=False)
            if evaluate and step == 0:
                session.probe(frozenset())  # as a study does
            elif evaluate or step == steps:
                run.metrics[step] = session.evaluate()
            if name == "evaluated" and step > 0:
                run.add(step, session.fingerprint(), evaluated=True)
            if step == steps:
                return run
            session.advance()

    def _start(self, step: int) -> None:
        if step == 0:
            self.session.start(self._task.config, 0, None, warm=False)
        else:
            with self._task.checkpoint(step).open("rb") as file:
                self.session.start(self._task.config, step, file, warm=False)
