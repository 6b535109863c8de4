"""How long a step takes, by the values of its hyper-parameters, from what a study's plan has measured.

What is measured is what scheduling goes by too: the steps alone, without starting, evaluating and waiting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hippotune.executors.simulated.times import SecondsPerStep
from hippotune.plan.facts import Fact, NodeAdded, SpanRecorded
from hippotune.scheduling.profile import Profile
from hippotune.sequences.config import Config
from hippotune.sequences.values import Value

if TYPE_CHECKING:
    from hippotune.study.study import Study


def stored(study: Study) -> tuple[list[Fact], list[SpanRecorded]]:
    """Return the facts and the worker time of the study's plan; nothing where there is no plan yet."""
    from hippotune.store.catalog import FILE_NAME, open_store

    if study.executor.virtual or (study._store_url is None and not (study.home / FILE_NAME).is_file()):
        return [], []
    with open_store(study.home, study._store_url, create=False) as catalog:
        if study.key not in [info.key for info in catalog.plans()]:
            return [], []
        store = catalog.view(study.key)
        # Trials that are kept apart have nothing to share: only what a step takes is of use to others.
        return list(store.read()), list(store.spans())


def step_times(
    given: SecondsPerStep | None, facts: Iterable[Fact], spans: Iterable[SpanRecorded], speeds: Profile
) -> tuple[SecondsPerStep, str]:
    """Return how long a step takes, and in words where that was taken from: given, measured, or made up."""
    if given is not None:
        return given, "seconds per step as given" if callable(given) else f"{given:g} s a step, as given"
    configs = {fact.node: fact.config for fact in facts if isinstance(fact, NodeAdded)}
    trained = [(configs[timed.node], timed) for timed in on_one_slot(spans, speeds)]
    if not trained:
        return 1.0, "1 s a step: nothing has been measured yet, so hours are steps divided by 3,600"
    steps = sum(timed.steps for _, timed in trained)
    seconds = sum(timed.seconds for _, timed in trained)
    effects = measured_effects(trained)
    # Scaled so that the total equals the measured total.
    base = seconds / sum(
        timed.steps * _factor(effects, config.values(timed.first)) for config, timed in trained
    )
    by = f", by {', '.join(effects)}" if effects else ""
    basis = f"{seconds / steps:.3g} s a step{by}, measured over {steps:,} steps of the plan"
    return at_any_width(base, effects, speeds) if effects else base, basis


def speeds_of(study: Study) -> Profile:
    """Return what is known of the speed of a study at each width, before anything is trained."""
    return Profile(None if study.width is None else study.width.scaling)


class Timed(NamedTuple):
    """What steps along a node, from the step `first` on, took on one slot."""

    node: int
    first: int
    steps: int
    seconds: float


def on_one_slot(spans: Iterable[SpanRecorded], speeds: Profile) -> list[Timed]:
    """Return what steps took on one slot: measured, or derived from other widths."""
    trained = [(span, seconds) for span in spans if (seconds := span.steps_seconds)]
    alone = [(span, seconds) for span, seconds in trained if span.width == 1]
    return [
        Timed(span.node, span.first, span.last - span.first, seconds * speeds.speed(_exact(span.width)))
        for span, seconds in alone or trained
    ]


def at_any_width(base: float, effects: Effects, speeds: Profile) -> SecondsPerStep:
    """Return the time of a step of which `base` is the time on one slot, but for the values' effects."""
    return lambda hp, width: base * _factor(effects, hp) / speeds.speed(_exact(width))


def _exact(width: float) -> Fraction:
    return Fraction(width).limit_denominator(1000)


Effects = Mapping[str, Mapping[Value, float]]

# A hyper-parameter whose values make steps take longer by less than this is left out, as noise.
_MATERIAL = 1.1
# One with more values than this is not a choice between a few things, and says nothing of new values.
_MOST_VALUES = 16


def measured_effects(trained: Sequence[tuple[Config, Timed]]) -> Effects:
    """Return by what factor each value of a hyper-parameter makes a step longer or shorter.

    A step's time is taken as a product of one factor for every hyper-parameter; factors are fitted to the
    logarithms by least squares, weighted by steps, with a pull towards 1 where little was measured.
    """
    values = [config.values(timed.first) for config, timed in trained]
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
    steps = np.array([timed.steps for _, timed in trained], dtype=float)
    seconds = np.array([timed.seconds for _, timed in trained])
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
