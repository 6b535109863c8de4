"""What a tuner would cost: worker-hours and hours to the end, on any number of workers, shared and alone.

Nothing is worked out by formula: the real tuner and the real engine are run in virtual time. What the
study's plan holds is taken as done, and what was measured there says how long a step takes. Metrics that
were never measured are made up; they decide which trials go on, and so the cost only by chance. Where the
study has a width policy it is at work here too, with speed-ups by width as given there, or guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hippotune.errors import InvalidInput
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.times import SecondsPerStep
from hippotune.plan.facts import Fact, NodeAdded, SpanRecorded
from hippotune.protocol.events import MetricsRequired
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.profile import Profile
from hippotune.sequences.config import Config
from hippotune.sequences.values import Value
from hippotune.shell.runtime import Runtime
from hippotune.store.memory import MemoryStore
from hippotune.study.tuning import Tuning

if TYPE_CHECKING:
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner


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
    plan has measured is used, hyper-parameter by hyper-parameter; without that, 1 second.
    """
    numbers = list(workers)
    if not numbers:
        raise InvalidInput("workers is empty; expected numbers of workers, such as [1, 8, 40]")
    facts, spans = _stored(study)
    speeds = speeds_of(study)
    seconds_per_step, basis = _step_times(seconds_per_step, facts, spans, speeds)
    if study.width is not None and not callable(seconds_per_step):
        seconds_per_step = _at_any_width(seconds_per_step, {}, speeds)
    rows = []
    for number in numbers:
        executor = Simulated(number, seconds_per_step=seconds_per_step)
        alone = _cost(study, tuner, executor, share=False, facts=())
        shared = _cost(study, tuner, executor, share=True, facts=facts)
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
    packing = 1 if study.width is None else study.width.packing
    # A trial that is trained alone is not resumed: there is nothing to prove.
    proofs = ProofPolicy(study.trainer.__name__, study.exact, study.audit) if share else None
    runtime = Runtime(store, executor, Job(study.trainer, packing=packing), None, study.width, proofs)
    runtime.start()
    try:
        return runtime.run(_tune(runtime, study, tuner, share))
    finally:
        runtime.close()


async def _tune(runtime: Runtime, study: Study, tuner: Tuner, share: bool) -> Cost:
    loop = runtime.loop
    loop.handle(MetricsRequired(frozenset({tuner.metric})))
    await Tuning(loop, study.name, share, completion=study._completion).run(tuner)
    hours = loop.executor.now() / 3600
    await loop.quiet()
    spent = loop.engine.worker_seconds + loop.engine.proof_work.seconds
    return Cost(loop.engine.trained, spent / 3600, hours)


# What is stored.


def _stored(study: Study) -> tuple[list[Fact], list[SpanRecorded]]:
    """Return the facts and the worker time of the study's plan; nothing where there is no plan yet."""
    from hippotune.store.catalog import FILE_NAME, open_store

    if study.executor.virtual or (study.store_url is None and not (study.home / FILE_NAME).is_file()):
        return [], []
    with open_store(study.home, study.store_url, create=False) as catalog:
        if study.key not in [info.key for info in catalog.plans()]:
            return [], []
        store = catalog.view(study.key)
        # Trials that are kept apart have nothing to share: only what a step takes is of use to others.
        return list(store.read()), list(store.spans())


def _step_times(
    given: SecondsPerStep | None, facts: Iterable[Fact], spans: Iterable[SpanRecorded], speeds: Profile
) -> tuple[SecondsPerStep, str]:
    if given is not None:
        return given, "seconds per step as given" if callable(given) else f"{given:g} s a step, as given"
    configs = {fact.node: fact.config for fact in facts if isinstance(fact, NodeAdded)}
    trained = [(configs[span.node], span) for span in on_one_slot(spans, speeds)]
    if not trained:
        return 1.0, "1 s a step: nothing has been measured yet, so hours are steps divided by 3,600"
    steps = sum(span.last - span.first for _, span in trained)
    seconds = sum(span.ended - span.began for _, span in trained)
    effects = measured_effects(trained)
    # Scaled so that the total equals the measured total.
    base = seconds / sum(
        (span.last - span.first) * _factor(effects, config.values(span.first)) for config, span in trained
    )
    by = f", by {', '.join(effects)}" if effects else ""
    basis = f"{seconds / steps:.3g} s a step{by}, measured over {steps:,} steps of the plan"
    return _at_any_width(base, effects, speeds) if effects else base, basis


def speeds_of(study: Study) -> Profile:
    """Return what is known of the speed of a study at each width, before anything is trained."""
    return Profile(None if study.width is None else study.width.scaling)


def on_one_slot(spans: Iterable[SpanRecorded], speeds: Profile) -> list[SpanRecorded]:
    """Return what training took on one slot: measured, or derived from other widths."""
    trained = [
        span for span in spans if span.kind == "train" and span.last > span.first and span.ended > span.began
    ]
    if alone := [span for span in trained if span.width == 1]:
        return alone
    return [
        replace(span, ended=span.began + (span.ended - span.began) * speeds.speed(_exact(span.width)))
        for span in trained
    ]


def _at_any_width(base: float, effects: Effects, speeds: Profile) -> SecondsPerStep:
    """Return the time of a step of which `base` is the time on one slot, but for the values' effects."""
    return lambda hp, width: base * _factor(effects, hp) / speeds.speed(_exact(width))


def _exact(width: float) -> Fraction:
    return Fraction(width).limit_denominator(1000)


Effects = Mapping[str, Mapping[Value, float]]

# A hyper-parameter whose values make steps take longer by less than this is left out, as noise.
_MATERIAL = 1.1
# One with more values than this is not a choice between a few things, and says nothing of new values.
_MOST_VALUES = 16


def measured_effects(trained: Sequence[tuple[Config, SpanRecorded]]) -> Effects:
    """Return by what factor each value of a hyper-parameter makes a step longer or shorter.

    A step's time is taken as a product of one factor for every hyper-parameter; factors are fitted to the
    logarithms by least squares, weighted by steps, with a pull towards 1 where little was measured.
    """
    values = [config.values(span.first) for config, span in trained]
    seen: dict[str, list[Value]] = {}
    for each in values:
        for name, value in each.items():
            if value not in (known := seen.setdefault(name, [])):
                known.append(value)
    columns = [
        (name, value) for name, known in seen.items() if 1 < len(known) <= _MOST_VALUES for value in known
    ]
    if not columns:
        return {}
    steps = np.array([span.last - span.first for _, span in trained], dtype=float)
    seconds = np.array([span.ended - span.began for _, span in trained])
    present = np.array([[each.get(name) == value for name, value in columns] for each in values], dtype=float)
    design = np.hstack([np.ones((len(trained), 1)), present]) * np.sqrt(steps)[:, None]
    pull = np.diag([0.0] + [1.0] * len(columns))
    target = np.log(seconds / steps) * np.sqrt(steps)
    fitted, *_ = np.linalg.lstsq(
        np.vstack([design, pull]), np.append(target, np.zeros(len(pull))), rcond=None
    )
    effects: dict[str, dict[Value, float]] = {}
    for (name, value), effect in zip(columns, fitted[1:], strict=True):
        effects.setdefault(name, {})[value] = float(np.exp(effect))
    return {
        name: factors
        for name, factors in effects.items()
        if max(factors.values()) / min(factors.values()) > _MATERIAL
    }


def _factor(effects: Effects, values: Mapping[str, Value]) -> float:
    return math.prod(known.get(values[name], 1.0) for name, known in effects.items() if name in values)
