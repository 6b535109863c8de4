"""The search spaces of the Hippo paper: what its tables say, and draws of what they leave open.

A table names the hyper-parameters that a study tunes, with examples of the functions they are drawn from.
Every space here has all of these examples, and no hyper-parameter that is not in the table. How many more
functions of these families a study had, and their parameters, is not published. It is drawn: how many
functions each hyper-parameter has (so that the number of trials is the published one), how often they begin
with the published value, and every value and milestone. Then functions are drawn anew, one by one, and kept
where the merge rate comes no further from the published one, until it is within 1 %. Nothing else is looked
at. Functions differ from each other within the steps that the study trains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hippotune import Grid
from hippotune.sequences import (
    CosineRestarts,
    Cyclic,
    Exponential,
    Linear,
    MultiStep,
    Piecewise,
    Sequence,
    Warmup,
    as_sequence,
    first_difference,
)
from hippotune.spaces import Option

RATE_WITHIN = 0.01
PEAKS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.15, 0.2, 0.3)
"""Learning rates beside the published 0.1."""

_PATIENCE = 300  # functions drawn anew, until another space is begun

Functions = dict[str, list[Sequence]]
Draw = Callable[[Random, float], Sequence]
"""Draws a function; the number says how likely it begins with the published value."""


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter: the functions that a table names, and how more of them are drawn."""

    published: tuple[Sequence, ...]
    more: tuple[Draw, ...]

    def draw(self, chance: Random, alike: float, steps: int, beside: Iterable[Sequence]) -> Sequence:
        """Return a function that differs from the others within `steps`."""
        while True:
            function = chance.choice(self.more)(chance, alike)
            if all(parting(function, other, steps) < steps for other in beside):
                return function

    def start(self, chance: Random, alike: float, steps: int, count: int) -> list[Sequence]:
        """Return `count` functions, the published ones first."""
        found = list(self.published)
        while len(found) < count:
            found.append(self.draw(chance, alike, steps, found))
        return found


# Functions.


def _value(chance: Random, alike: float, usual: float, others: Listed[float]) -> float:
    return usual if chance.random() < alike else chance.choice(others)


def _milestones(chance: Random, first: int, steps: int, by: int, most: int = 3) -> list[int]:
    places = range(first, steps, by)
    return sorted(chance.sample(places, min(chance.randint(1, most), len(places))))


def warm(steps: int, milestones: Iterable[int], peak: float, factor: float) -> Sequence:
    """Return a warm-up, and steps down after it, whose milestones are counted from the start of training."""
    return Warmup(steps, MultiStep(peak, [at - steps for at in milestones], factor))


def learning_rates(published: list[int], warmup: int, steps: int) -> Parameter:
    """Return the five families of the image studies, with a table's milestones and warm-up."""

    def peak(chance: Random, alike: float) -> float:
        return _value(chance, alike, 0.1, PEAKS)

    def milestones(chance: Random) -> list[int]:
        return _milestones(chance, 20, steps, 5)

    def factor(chance: Random) -> float:
        return chance.choice([0.1, 0.2, 0.5])

    return Parameter(
        (
            MultiStep(0.1, published, 0.1),
            warm(warmup, published, 0.1, 0.1),
            Warmup(warmup, Exponential(0.1, 0.95)),
            Warmup(10, CosineRestarts(0.1, 20)),
            Cyclic(0.001, 0.1, 20),
        ),
        (
            lambda chance, alike: MultiStep(peak(chance, alike), milestones(chance), factor(chance)),
            lambda chance, alike: warm(warmup, milestones(chance), peak(chance, alike), factor(chance)),
            lambda chance, alike: Warmup(
                warmup, Exponential(peak(chance, alike), chance.choice([0.9, 0.93, 0.95, 0.97, 0.98, 0.99]))
            ),
            lambda chance, alike: Warmup(
                10, CosineRestarts(peak(chance, alike), chance.choice([10, 20, 30, 40, 60]))
            ),
            lambda chance, alike: Cyclic(0.001, peak(chance, alike), chance.choice([5, 10, 15, 20, 30, 40])),
        ),
    )


def piecewise(published: tuple[Any, ...], others: Listed[float], places: range) -> Parameter:
    """Return constants and steps up; the first of the published functions is the constant to begin with."""
    start = published[0]

    def draw(chance: Random, alike: float) -> Sequence:
        first = _value(chance, alike, start, others)
        changes = sorted(chance.sample(places, chance.randint(0, 2)))
        values = [first]
        for _ in changes:
            values.append(chance.choice([each for each in (start, *others) if each != values[-1]]))
        return Piecewise(values, changes) if changes else as_sequence(first)

    return Parameter(tuple(as_sequence(each) for each in published), (draw,))


def _linear(chance: Random, alike: float) -> Sequence:
    return Linear(_value(chance, alike, 5e-5, (1e-5, 2e-5, 3e-5, 4e-5, 1e-4)), 0.0, chance.choice(_TOTALS))


def _warm_linear(chance: Random, alike: float) -> Sequence:
    warmup = 3000 if chance.random() < alike else chance.choice([600, 1500, 4500, 6000])
    peak = _value(chance, alike, 5e-5, (1e-5, 2e-5, 3e-5, 4e-5, 1e-4))
    return Warmup(warmup, Linear(peak, 0.0, chance.choice(_TOTALS) - warmup))


_TOTALS = (27_000, 30_000, 33_000, 36_000, 45_000, 60_000)
BATCH_SIZES = (64, 96, 192, 256, 512)


# Studies.


@dataclass(frozen=True)
class Published:
    """A study of the paper: its size, its merge rate, and its hyper-parameters."""

    trials: int
    steps: int
    merge_rate: float
    parameters: dict[str, Parameter]
    fixed: dict[str, Any]
    counts: tuple[tuple[int, ...], ...]
    """How many functions each parameter may have, so that there are as many trials as published."""

    def draw(self, seed: int) -> Grid:
        """Return a space at the published merge rate."""
        chance = Random(seed)
        while True:
            alike, sizes = chance.random(), chance.choice(self.counts)
            drawn = {
                name: parameter.start(chance, alike, self.steps, size)
                for (name, parameter), size in zip(self.parameters.items(), sizes, strict=True)
            }
            off = self._off(drawn)
            for _ in range(_PATIENCE):
                if off <= RATE_WITHIN:
                    return self._space(chance, drawn)
                changed = _changed(chance, alike, self.steps, self.parameters, drawn)
                if changed is not None and (now := self._off(changed)) <= off:
                    drawn, off = changed, now

    def _off(self, drawn: Functions) -> float:
        """Return how far the merge rate is off: configs share a step where all their functions do."""
        unique = np.ones(self.steps, dtype=np.int64)
        for name, functions in drawn.items():
            beside = 2 if name == "momentum" else 0  # the optimizers that have none
            unique *= beginnings(functions, self.steps) + beside
        for values in self.fixed.values():
            unique *= len(values)
        return abs(self.trials * self.steps / int(unique.sum()) / self.merge_rate - 1)

    def _space(self, chance: Random, drawn: Functions) -> Grid:
        shuffled: dict[str, Any] = {
            name: chance.sample(functions, len(functions)) for name, functions in drawn.items()
        }
        if "momentum" in shuffled:  # which only one of the optimizers has
            option = Option("momentum-sgd", {"momentum": shuffled.pop("momentum")})
            shuffled["optimizer"] = ["adam", "sgd", option]
        return Grid({**shuffled, **self.fixed})


def _changed(
    chance: Random,
    alike: float,
    steps: int,
    parameters: Mapping[str, Parameter],
    drawn: Functions,
) -> Functions | None:
    """Return the functions with one of them drawn anew, if one of them is not published."""
    open_ones = [
        (name, place)
        for name, functions in drawn.items()
        for place in range(len(parameters[name].published), len(functions))
    ]
    if not open_ones:
        return None
    name, place = chance.choice(open_ones)
    before, after = drawn[name][:place], drawn[name][place + 1 :]
    new = parameters[name].draw(chance, alike, steps, [*before, *after])
    return {**drawn, name: [*before, new, *after]}


def counts(trials: int, *most: int, also: int = 0) -> tuple[tuple[int, ...], ...]:
    """Return numbers of functions by parameter whose product is `trials`; the first parameter takes the rest.

    The last one is counted with `also` others.
    """
    found: list[tuple[int, ...]] = [()]
    for number in most:
        found = [(*sizes, size) for sizes in found for size in range(2, number + 1)]
    whole = []
    for sizes in found:
        others = [*sizes[:-1], sizes[-1] + also]
        product = int(np.prod(others))
        if trials % product == 0:
            whole.append((trials // product, *sizes))
    return tuple(whole)


RESNET56 = Published(
    448,
    120,
    2.447,
    {
        "lr": learning_rates([90, 135], 5, 120),
        "bs": piecewise((128, Piecewise([128, 256], [70])), BATCH_SIZES, range(20, 120, 10)),
        "momentum": piecewise(
            (0.9, Piecewise([0.7, 0.8, 0.9], [40, 80])), (0.0, 0.5, 0.7, 0.8, 0.95, 0.99), range(20, 120, 10)
        ),
    },
    {"weight_decay": [1e-4, 1e-3]},
    tuple(sizes for sizes in counts(448 // 2, 7, 6, also=2) if sizes[0] >= 5),
)
MOBILENETV2 = Published(
    240,
    120,
    3.144,
    {
        "lr": learning_rates([100, 150], 10, 120),
        "bs": piecewise((128, Piecewise([128, 256], [100])), BATCH_SIZES, range(20, 120, 10)),
        "cutout": piecewise(
            (16, Piecewise([16, 18, 20], [80, 100])), (8, 12, 18, 20, 24), range(20, 120, 10)
        ),
    },
    {"weight_decay": [4e-5], "optimizer": ["sgd"]},
    tuple(sizes for sizes in counts(240, 6, 6) if sizes[0] >= 5),
)
BERT = Published(
    40,
    27_000,
    2.045,
    {
        "lr": Parameter(
            (Linear(5e-5, 0.0, 30_000), Warmup(3000, Linear(5e-5, 0.0, 27_000))), (_linear, _warm_linear)
        ),
        "sequence_length": piecewise(
            (384, Piecewise([384, 512], [21_000])), (128, 256, 512), range(3000, 27_000, 3000)
        ),
    },
    {},
    counts(40, 20),
)


# Merge rates.


@lru_cache(maxsize=1 << 16)
def parting(one: Sequence, other: Sequence, steps: int) -> int:
    """Return the step at which two functions part, or `steps`."""
    found = first_difference(one, other, steps)
    return steps if found is None else found


def beginnings(functions: Listed[Sequence], steps: int) -> NDArray[np.int64]:
    """Return how many beginnings differ at each step: one more where a function leaves all before it."""
    leaves = [
        max((parting(each, other, steps) for other in functions[:place]), default=0)
        for place, each in enumerate(functions)
    ]
    return np.cumsum(np.bincount(leaves, minlength=steps)[:steps])
