"""What is measured in virtual time: a formula, a record of real training, or curves made up from a seed.

Metrics at a step may depend on nothing but the values before it, as in training: configs that agree so far
are the same state, and must have the same metrics. The made-up
curves keep to that, and so does a record; a formula of the user's has to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol

from hippotune.executors.simulated.recorded import Metrics, Recorded, Table
from hippotune.plan.plan import Plan
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.values import Value

if TYPE_CHECKING:
    from hippotune.store.base import Store
    from hippotune.study.report import Report

Formula = Callable[[Config, int], Metrics]


class Curves(Protocol):
    """Returns the metrics of a config after `step` steps; `names` are the requested ones."""

    def __call__(self, config: Config, step: int, names: frozenset[str]) -> Metrics:
        """Return the metrics."""


def as_curves(metrics: Formula | Table | Report | Plan | Store | Recorded | None, seed: int) -> Curves:
    """Return curves from what a user may give for them; None makes them up."""
    if metrics is None:
        return MadeUp(seed)
    if isinstance(metrics, Recorded):
        return metrics
    if callable(metrics):
        formula = metrics
        return lambda config, step, names: formula(config, step)
    return Recorded(metrics)


# Made-up curves.

_SCALE: Final = 1 << 30
"""Effects are whole numbers of this unit, so that their sums do not depend on how a sequence is written."""

_FALLING: Final = ("loss", "err", "mse", "mae", "perplexity", "ppl", "nll")


class MadeUp:
    """Learning curves that look like some, all decided by `seed`.

    Every hyper-parameter has an effect on how good a trial gets and on how fast: for numbers a smooth one, so
    that close values learn alike, for all else a drawn one. Effects are averaged over the steps trained.
    Metrics whose names speak of loss or error fall; all others rise, and stay between 0 and 1.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._average = lru_cache(maxsize=1 << 16)(self._average_anew)
        self._drawn = lru_cache(maxsize=1 << 16)(self._draw)

    def __call__(self, config: Config, step: int, names: frozenset[str]) -> Metrics:
        """Return the requested metrics; "score" where none is named."""
        goodness = self._trait("goodness", config, step)
        speed = self._trait("speed", config, step)
        ceiling = 0.72 + 0.26 * _logistic(goodness)
        learned = 1.0 - (1.0 + step / (2.0 + 10.0 * _logistic(-speed))) ** -0.9
        noise = 0.004 * (self._drawn("noise", f"{goodness!r} {speed!r} {step}") - 0.5)
        score = 0.1 + (ceiling - 0.1) * learned + noise
        return {
            name: -math.log(score) if any(word in name.lower() for word in _FALLING) else score
            for name in (names or ("score",))
        }

    def _trait(self, trait: str, config: Config, step: int) -> float:
        """Return how far a config is above the usual one in a trait, in standard deviations, roughly."""
        if not step or not config:
            return 0.0
        total = sum(self._average(trait, name, sequence, step) for name, sequence in config.items())
        return (total / _SCALE / step - 0.5 * len(config)) / math.sqrt(len(config) / 8)

    def _average_anew(self, trait: str, name: str, sequence: Sequence, step: int) -> int:
        if isinstance(sequence, Constant):
            return step * self._effect(trait, name, sequence.value(0))
        return sum(steps * self._effect(trait, name, sequence.value(at)) for at, steps in _samples(step))

    def _effect(self, trait: str, name: str, value: Value) -> int:
        if isinstance(value, bool | str):
            return int(_SCALE * self._drawn(trait, f"{name} {value!r}"))
        phase = math.tau * self._drawn(trait, f"{name} phase")
        pitch = 1.0 + 2.0 * self._drawn(trait, f"{name} pitch")
        turn = math.log10(abs(value) + 1e-9) + (0.5 if value < 0 else 0.0)
        return int(_SCALE * (0.5 + 0.5 * math.sin(phase + pitch * turn)))

    def _draw(self, trait: str, what: str) -> float:
        """Return a number between 0 and 1."""
        digest = blake2b(f"{self._seed} {trait} {what}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64


@lru_cache(maxsize=4096)
def _samples(step: int) -> tuple[tuple[int, int], ...]:
    """Return steps before `step`, and how many each stands for: 16 of them for every doubling."""
    samples = []
    at = 0
    while at < step:
        spacing = 1 << max(at.bit_length() - 5, 0)
        samples.append((at, min(spacing, step - at)))
        at += spacing
    return tuple(samples)


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-1.7 * x))
