"""What a hyper-parameter, or a parameter of a sequence, is drawn from.

Every distribution is given by its quantile function `at`: it maps a number in [0, 1) to a value. Random and
quasi-random sampling differ only in where that number comes from.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.base import Distribution


class Number(Distribution):
    """A distribution of numbers between `low` and `high`, both included."""

    low: float
    high: float

    @abstractmethod
    def at(self, quantile: float) -> float:
        """Return the value at a quantile in [0, 1)."""

    @abstractmethod
    def nearest(self, value: float) -> float:
        """Return the value of the distribution that is nearest to `value`."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and math.isclose(self.nearest(value), value, rel_tol=1e-12)


@dataclass(frozen=True, slots=True)
class Uniform(Number):
    """A number from `low` to `high`, evenly; with `step`, one of low, low + step, …"""

    low: float
    high: float
    step: float | None = None

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high)
        if self.step is not None:
            checks.number("step", self.step, above=0)

    def at(self, quantile: float) -> float:
        """Return the value at a quantile."""
        if self.step is None:
            return self.nearest(self.low + quantile * (self.high - self.low))
        return self._on_grid(int(quantile * (self._steps + 1)))

    def nearest(self, value: float) -> float:
        """Return the nearest value."""
        if self.step is None:
            return min(max(value, self.low), self.high)
        return self._on_grid(min(max(round((value - self.low) / self.step), 0), self._steps))

    @property
    def _steps(self) -> int:
        return int((Decimal(str(self.high)) - Decimal(str(self.low))) / Decimal(str(self.step)))

    def _on_grid(self, count: int) -> float:
        # In decimal, as it was written: 0.1 and two steps of 0.1 are 0.3.
        return float(Decimal(str(self.low)) + count * Decimal(str(self.step)))


@dataclass(frozen=True, slots=True)
class LogUniform(Number):
    """A number from `low` to `high` whose logarithm is uniform: every factor of ten is as likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high, log=True)

    def at(self, quantile: float) -> float:
        """Return the value at a quantile."""
        return self.nearest(self.low * (self.high / self.low) ** quantile)

    def nearest(self, value: float) -> float:
        """Return the nearest value."""
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Int(Number):
    """A whole number from `low` to `high` in steps of `step`, evenly; with `log`, evenly in its logarithm."""

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            checks.whole(name, value, least=None)
        _check_bounds(self, self.low, self.high, log=checks.yes_or_no("log", self.log))
        checks.whole("step", self.step)
        if self.log and self.step != 1:
            raise InvalidInput(f"step is {self.step!r} in {self!r}; with log=True it can only be 1")

    def at(self, quantile: float) -> int:
        """Return the value at a quantile."""
        if self.log:
            low, high = self.low - 0.5, self.high + 0.5
            return self.nearest(low * (high / low) ** quantile)
        return self.low + self.step * int(quantile * (self._steps + 1))

    def nearest(self, value: float) -> int:
        """Return the nearest value."""
        return self.low + self.step * min(max(round((value - self.low) / self.step), 0), self._steps)

    @property
    def _steps(self) -> int:
        return (self.high - self.low) // self.step


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a choice that brings hyper-parameters of its own: they are there only where it is chosen.

    ``"optimizer": ["adam", Option("sgd", {"momentum": [0.9, 0.99]})]`` has three configs; only the two with
    ``sgd`` have a momentum.
    """

    value: Any
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, init=False)
class Choice(Distribution):
    """One of several: values, sequences, families, distributions, or an `Option`. A list means the same."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        object.__setattr__(self, "options", options)
        if not options:
            raise InvalidInput("a choice has no options; expected at least one")

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.options))})"


def _check_bounds(distribution: Number, low: float, high: float, log: bool = False) -> None:
    for name, value in (("low", low), ("high", high)):
        checks.number(name, value)
    if low > high:
        raise InvalidInput(f"low is {low!r}, above high, which is {high!r}, in {distribution!r}")
    if log and low <= 0:
        raise InvalidInput(f"low is {low!r} in {distribution!r}; a logarithm needs a bound above 0")
