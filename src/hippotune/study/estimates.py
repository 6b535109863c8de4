"""What a tuner would cost: worker-hours and hours to the end, on any number of workers, shared and alone.

Nothing is worked out by formula: the real tuner and the real engine are run in virtual time. What the
study's plan holds is taken as done, and what was measured there says how long a step takes, and what is
trained first, as in a real run. Metrics that were never measured are made up; they decide which trials go on,
and so the cost only by chance. Where the study has a width policy it is at work here too, with speed-ups by
width as given there, or guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hippotune import checks
from hippotune.engine.options import EngineOptions
from hippotune.errors import InvalidInput
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.times import SecondsPerStep
from hippotune.plan.facts import Fact
from hippotune.protocol.proof import ProofPolicy
from hippotune.shell.runtime import Runtime
from hippotune.store.memory import MemoryStore
from hippotune.study.step_times import at_any_width, speeds_of, step_times, stored
from hippotune.study.tuning import Tuning
from hippotune.tuners.base import Tuner

if TYPE_CHECKING:
    from hippotune.study.study import Study


@dataclass(frozen=True, slots=True)
class Cost:
    """Steps trained, hours of all workers together, and hours from the start to the end."""

    steps: int
    worker_hours: float
    hours: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a tuner costs on a number of workers: every trial alone from scratch, and shared.

    `basis` says where the time of a step was taken from.
    """

    workers: int
    alone: Cost
    shared: Cost
    basis: str

    @property
    def work_ratio(self) -> float:
        """Worker-hours alone for every one shared; infinite where the plan holds all results."""
        return _ratio(self.alone.worker_hours, self.shared.worker_hours)

    @property
    def time_ratio(self) -> float:
        """Hours to the end alone for every one shared; infinite where the plan holds all results."""
        return _ratio(self.alone.hours, self.shared.hours)


def estimate(
    study: Study,
    tuner: Tuner,
    workers: Iterable[int] = (1, 8, 40),
    seconds_per_step: SecondsPerStep | None = None,
) -> list[Estimate]:
    """Return what `tuner` would cost on each number of workers.

    `seconds_per_step` is a number, or a function of the values and the width. Without it, what the study's
    plan has measured is used, hyper-parameter by hyper-parameter; without that, 1 second. It is the time of
    the steps alone: starting workers, evaluating and saving come on top.
    """
    numbers = checks.several("workers", workers)
    checks.instance("tuner", tuner, Tuner, "a hippo tuner, such as SuccessiveHalving(...)")
    if seconds_per_step is not None and not callable(seconds_per_step):
        checks.number("seconds_per_step", seconds_per_step, above=0)
    if not numbers:
        raise InvalidInput("workers is empty; expected numbers of workers, such as [1, 8, 40]")
    facts, spans = stored(study)
    speeds = speeds_of(study)
    seconds_per_step, basis = step_times(seconds_per_step, facts, spans, speeds)
    if study.width is not None and not callable(seconds_per_step):
        seconds_per_step = at_any_width(seconds_per_step, {}, speeds)
    rows = []
    for number in numbers:
        executor = Simulated(number, seconds_per_step=seconds_per_step)
        alone = _cost(study, tuner, executor, share=False, facts=())
        shared = _cost(study, tuner, executor, share=True, facts=[*facts, *spans])
        rows.append(Estimate(number, alone, shared, basis))
    return rows


def format_estimates(estimates: Sequence[Estimate]) -> str:
    """Return a table of estimates, as text."""
    unit, in_hours = _unit(estimates)
    head = [
        ("workers", f"worker-{unit}", "", "", f"{unit} to the end", "", ""),
        ("", *("alone", "shared", "") * 2),
    ]
    body = [
        (
            f"{row.workers:,}",
            _shown(row.alone.worker_hours / in_hours),
            _shown(row.shared.worker_hours / in_hours),
            _times(row.work_ratio),
            _shown(row.alone.hours / in_hours),
            _shown(row.shared.hours / in_hours),
            _times(row.time_ratio),
        )
        for row in estimates
    ]
    widths = [max(len(row[column]) for row in [head[1], *body]) for column in range(7)]
    widths[0] = max(widths[0], len(head[0][0]))
    groups = [sum(widths[first : first + 3]) + 4 for first in (1, 4)]
    top = f"{head[0][0]:>{widths[0]}}   {head[0][1]:<{groups[0]}}   {head[0][4]:<{groups[1]}}"
    lines = [top.rstrip()]
    for row in (head[1], *body):
        cells = [f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append(f"{cells[0]}   {'  '.join(cells[1:4])}   {'  '.join(cells[4:])}".rstrip())
    lines.append(f"({estimates[0].basis})")
    if all(row.shared.steps == 0 for row in estimates):
        lines.append("(nothing is left to train: the plan holds all results)")
    return "\n".join(lines)


def _unit(estimates: Sequence[Estimate]) -> tuple[str, float]:
    longest = max(row.alone.hours for row in estimates)
    for unit, hours in (("seconds", 1 / 3600), ("minutes", 1 / 60)):
        if longest < 120 * hours:
            return unit, hours
    return "hours", 1.0


def _shown(number: float) -> str:
    return f"{number:,.{0 if number >= 100 else 1 if number >= 10 else 2}f}"


def _times(ratio: float) -> str:
    """Return a ratio as text; a dash where nothing is left to compare with."""
    return f"{ratio:.2f}x" if math.isfinite(ratio) else "–"


def _ratio(alone: float, shared: float) -> float:
    return alone / shared if shared else math.inf if alone else 1.0


# Running in virtual time.


def _cost(study: Study, tuner: Tuner, executor: Simulated, share: bool, facts: Sequence[Fact]) -> Cost:
    store = MemoryStore()
    store.write(facts)
    # A trial that is trained alone is not resumed: there is nothing to prove.
    proofs = ProofPolicy(study.trainer.__name__, study.exact, study.audit) if share else None
    runtime = Runtime(store, executor, Job(study.trainer), EngineOptions(study.width, proofs))
    runtime.start()
    try:
        return runtime.run(_tune(runtime, study, tuner, share))
    finally:
        runtime.close()


async def _tune(runtime: Runtime, study: Study, tuner: Tuner, share: bool) -> Cost:
    loop = runtime.loop
    loop.require(frozenset({tuner.metric}))
    await Tuning(loop, study.name, share, completion=study._completion).run(tuner)
    hours = loop.executor.now() / 3600
    await loop.wait_idle()
    spent = loop.engine.worker_seconds + loop.engine.proof_work.seconds
    return Cost(loop.engine.trained, spent / 3600, hours)
