"""Whether a trainer is exact: the same bits straight through, cut anywhere, in any process, evaluated or not.

Every promise is tried for real, in fresh interpreters that get the trainer as workers do:

* straight through, twice: is it deterministic at all?
* with an evaluation after every step: does `evaluate` leave the state as it is?
* from scratch in a process that has trained already, with checkpoints and without: is anything left behind?
* cut after every step, going on in a fresh interpreter and in a warm process: is everything in the state?
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from hippotune import checks, short
from hippotune.errors import InvalidInput, NotExact, TrainerError
from hippotune.executors.base import Job
from hippotune.executors.fresh import FreshInterpreters
from hippotune.identity.fingerprint import fingerprint
from hippotune.protocol.proof import Run, Verdict
from hippotune.scratch import Scratch
from hippotune.sequences.config import Config, ConfigLike
from hippotune.testing.runs import Task, run_cuts, run_evaluated, run_reference, run_warm
from hippotune.trainers.base import Trainer
from hippotune.verdicts.judge import judge


@dataclass(frozen=True)
class Exactness:
    """What a check found in order: how much it tried, and how long that took."""

    trainer: str
    steps: int
    cuts: int
    interpreters: int
    checkpoint_bytes: int
    seconds: float
    spread: float = 0.0
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return it as lines for people to read."""
        cuts = short.plural(self.cuts, "cut")
        same = f"the same up to noise of {self.spread:.1g}" if self.spread else "the same bits"
        rows = [
            ("straight through, twice", f"{self.steps} steps", same),
            ("evaluated after every step", f"{self.steps} evaluations", "nothing changed"),
            ("from scratch in a used process", "with and without checkpoints", same),
            ("cut, on in a fresh process", cuts, same),
            ("cut, on in a used process", cuts, same),
        ]
        return [f"  {what:<32}{much:<30}{found}" for what, much, found in rows]

    def __str__(self) -> str:
        size = short.size(self.checkpoint_bytes)
        return "\n".join(
            [
                *self.lines(),
                *self.notes,
                f"{self.trainer} is exact over {self.steps} steps (checkpoint {size}, "
                f"{self.interpreters} fresh processes, {self.seconds:.0f} s)",
            ]
        )


def check_exact(
    trainer: type[Trainer],
    config: ConfigLike,
    steps: int = 4,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    *,
    quick: bool = False,
    processes: int = 2,
    environment: Mapping[str, str] | None = None,
) -> Exactness:
    """Check that trials of a trainer come to the same bits however they are cut, moved and evaluated.

    Raises `NotExact`, which names what differs, and whatever the trainer raises: `TrainerError` where its
    state cannot be saved or loaded, `TrialFailed` where its own code fails.

    Parameters
    ----------
    trainer : type[Trainer]
        The trainer's class.
    config : Config or mapping
        A sequence or a value for each hyper-parameter. Let some of them change within `steps`.
    steps : int
        How many steps to train; it is cut after each of them but the last.
    settings, seed
        As for a study.
    quick : bool
        Let one fresh interpreter go on from all cuts, the last of them first, instead of one each.
    processes : int
        How many interpreters run at the same time.
    environment : mapping
        The environment variables of the interpreters; by default those of ``hippo.Local()``.
    """
    checks.whole("steps", steps, least=2)
    checks.whole("processes", processes)
    config = Config.of(config)
    if config.limit is not None and config.limit < steps:
        raise InvalidInput(f"steps is {steps}; the config has values for {config.limit} steps only")
    checks.subclass("trainer", trainer, Trainer, "a class that extends hippo.Trainer")
    if environment is None:
        from hippotune.executors.local.executor import Local

        environment = Local().environment()
    began = time.monotonic()
    with Scratch() as folder:
        task = Task(config, steps, folder)
        check = _Check(trainer, Job(trainer, dict(settings or {}), seed), task, quick)
        try:
            spread, notes = check.run(environment, processes)
        except NotExact as found:
            raise _with_what_the_code_changes(found, trainer) from None
        size = max(path.stat().st_size for path in folder.iterdir())
    seconds = time.monotonic() - began
    interpreters = 3 + (1 if quick else steps - 1)
    return Exactness(trainer.__name__, steps, steps - 1, interpreters, size, seconds, spread, notes)


def _with_what_the_code_changes(found: NotExact, trainer: type[Trainer]) -> NotExact:
    """Add what a study says of the trainer's code, where it refuses it."""
    try:
        fingerprint(trainer)
    except TrainerError as refused:
        return NotExact(f"{found}. This is the likely cause: {refused}", found.path, found.step)
    return found


@dataclass(frozen=True)
class _Check:
    trainer: type[Trainer]
    job: Job
    task: Task
    quick: bool

    def run(self, environment: Mapping[str, str], processes: int) -> tuple[float, tuple[str, ...]]:
        """Try everything; return how noisy it is, and what a person should read."""
        task = self.task
        with ExitStack() as stack:
            pool = ThreadPoolExecutor(processes)
            stack.callback(pool.shutdown, cancel_futures=True)
            interpreters = stack.enter_context(FreshInterpreters(self.job, environment))
            reference, notes = interpreters.run(run_reference, task)
            warm = pool.submit(interpreters.run, run_warm, task)
            evaluating = pool.submit(interpreters.run, run_evaluated, task)
            cuts = range(task.steps - 1, 0, -1)
            groups = [tuple(cuts)] if self.quick else [(cut,) for cut in reversed(cuts)]
            cutting = [pool.submit(interpreters.run, run_cuts, (task, group)) for group in groups]
            twice, again, unsaved, *from_cuts = warm.result()
            straight = self._judged(Verdict("exact"), reference, twice, again, unsaved)
            evaluated = evaluating.result()
            straight = self._judged(straight, reference, evaluated)
            fresh = [run for future in cutting for run in future.result()]
            fresh.sort(key=lambda run: run.start)
            cut = self._judged(straight, evaluated, *fresh, *from_cuts)
        return cut.spread, (*notes, *dict.fromkeys(filter(None, (straight.text, cut.text))))

    def _judged(self, known: Verdict, *runs: Run) -> Verdict:
        name = self.trainer.__name__
        verdict = judge(name, runs, volatile=known.volatile, spread=known.spread)
        if verdict.outcome == "differs":
            raise NotExact(verdict.text, verdict.path, verdict.step)
        said = ". ".join(filter(None, (known.text, verdict.text)))
        volatile = (*known.volatile, *verdict.volatile)
        return Verdict("exact", said, None, None, max(known.spread, verdict.spread), volatile)
