"""What is measured in virtual time: a formula, a record of real training, or curves made up from a seed.

Metrics at a step may depend on nothing but the values before it, as in training: configs that agree so far
are the same state, and must have the same metrics. The made-up
curves keep to that, and so does a record; a formula of the user's has to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Protocol

from hippotune.errors import InvalidInput
from hippotune.plan.facts import Position
from hippotune.plan.plan import Plan
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.values import Value

if TYPE_CHECKING:
    from hippotune.store.base import Store
    from hippotune.study.report import Report

Metrics = Mapping[str, float]
Formula = Callable[[Config, int], Metrics]
Table = Mapping[Config, Mapping[int, Metrics]]


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


class Recorded:
    """Metrics that were measured before: a report, a plan or a store, or a table {config: {step: metrics}}.

    A config is found by its values, however it is written. At steps that were not measured the answer is
    refused; with ``interpolate=True`` it lies on the straight line between the measured steps around it.
    Beyond what was measured it is always refused.
    """

    def __init__(self, source: Report | Plan | Store | Table, *, interpolate: bool = False) -> None:
        self._plan = Plan()
        self._interpolate = interpolate
        for config, step, metrics in _records(source):
            node, _ = self._plan.place(config, step)
            self._plan.measure(Position(node.holder(step).id, step), metrics)
        if not self._plan.order:
            raise InvalidInput(f"there are no metrics in {source!r}; expected a record of at least one trial")

    def __call__(self, config: Config, step: int, names: frozenset[str] = frozenset()) -> Metrics:
        """Return what was measured."""
        node, _ = self._plan.place(config, step)
        known = node.holder(step).metrics.get(step)
        if known is not None:
            return known[1]
        measured: dict[int, Metrics] = {}
        reach = math.inf
        for above in node.lineage():
            measured.update((at, entry[1]) for at, entry in above.metrics.items() if at <= reach)
            reach = above.start
        return self._between(config, step, measured)

    def _between(self, config: Config, step: int, measured: Mapping[int, Metrics]) -> Metrics:
        before = max((at for at in measured if at < step), default=None)
        after = min((at for at in measured if at > step), default=None)
        if not self._interpolate or before is None or after is None:
            steps = ", ".join(map(str, sorted(measured))) or "none"
            hint = (
                "" if self._interpolate else "; Recorded(…, interpolate=True) fills in steps between others"
            )
            raise InvalidInput(
                f"no metrics were recorded at step {step} of {config}; its steps are {steps}{hint}"
            )
        share = (step - before) / (after - before)
        low, high = measured[before], measured[after]
        return {name: low[name] + share * (high[name] - low[name]) for name in low if name in high}


def _records(source: Any) -> Iterator[tuple[Config, int, Metrics]]:
    from hippotune.store.base import Store

    if isinstance(source, Store):
        source = Plan.replay(source.read())
    measured: Iterable[tuple[Config, Mapping[int, Metrics]]]
    if isinstance(source, Plan):
        measured = (
            (node.config, {step: metrics for step, (_, metrics) in node.metrics.items()})
            for node in source.nodes
        )
    elif isinstance(trials := getattr(source, "trials", None), list | tuple):  # a report
        measured = ((trial.config, trial.metrics) for trial in trials)
    elif isinstance(source, Mapping):
        measured = (
            (config if isinstance(config, Config) else Config(config), metrics)
            for config, metrics in source.items()
        )
    else:
        raise InvalidInput(
            f"metrics is {source!r}; expected a function of (config, step), a table "
            "{config: {step: metrics}}, a report, a plan or a store"
        )
    for config, by_step in measured:
        for step, metrics in sorted(by_step.items()):
            yield config, step, metrics


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
