"""Where the answers come from when a space is asked for a config: chance, a point, a record.

A space asks for one number or one choice after the other, each under a name of its own; a source answers.
Names are paths: ``lr`` asks which option, ``lr/1/gamma`` for a parameter of the option with index 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from hippotune.spaces.distributions import Number

Drawn = dict[str, int | float]
"""All answers that one config was made from: numbers, and the indexes of options."""


class Source(ABC):
    """Answers what a space asks."""

    @abstractmethod
    def number(self, name: str, distribution: Number) -> int | float:
        """Return a value of the distribution."""

    @abstractmethod
    def choice(self, name: str, options: int) -> int:
        """Return the index of one of `count` options."""


class Quantiles(Source):
    """Answers by a number in [0, 1) for each name: the place of the answer among all answers."""

    @abstractmethod
    def quantile(self, name: str) -> float:
        """Return the number for a name."""

    def number(self, name: str, distribution: Number) -> int | float:
        """Return the distribution's value at the quantile."""
        return distribution.at(self.quantile(name))

    def choice(self, name: str, options: int) -> int:
        """Return the option at the quantile."""
        return int(self.quantile(name) * options)


class Chance(Quantiles):
    """Answers at random, independently."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def quantile(self, name: str) -> float:
        """Draw a number."""
        return float(self._generator.random())


class Evenly(Chance):
    """Answers at random so that every config of a finite space is as likely.

    An option is as likely as the number of configs that it stands for, which `weights` has by name.
    """

    def __init__(self, generator: np.random.Generator, weights: Mapping[str, Sequence[int]]) -> None:
        super().__init__(generator)
        self._ends = {name: list(accumulate(each)) for name, each in weights.items()}

    def choice(self, name: str, options: int) -> int:
        """Draw an option."""
        ends = self._ends[name]
        return bisect_right(ends, int(self.quantile(name) * ends[-1]))


class Point(Quantiles):
    """Answers from a point in the unit cube, one coordinate for each name."""

    def __init__(self, coordinates: Mapping[str, float]) -> None:
        self._coordinates = coordinates

    def quantile(self, name: str) -> float:
        """Look the coordinate up."""
        return self._coordinates[name]


class Record(Source):
    """Answers as known, asks another source for the rest, and keeps all that was asked for in `drawn`."""

    def __init__(self, source: Source, known: Mapping[str, int | float] | None = None) -> None:
        self.drawn: Drawn = {}
        self._source = source
        self._known = known or {}

    def number(self, name: str, distribution: Number) -> int | float:
        """Return the known number, or a new one."""
        if name not in self._known:
            self.drawn[name] = self._source.number(name, distribution)
        else:
            self.drawn[name] = self._known[name]
        return self.drawn[name]

    def choice(self, name: str, options: int) -> int:
        """Return the known choice, or a new one."""
        if name not in self._known:
            self.drawn[name] = self._source.choice(name, options)
        else:
            self.drawn[name] = self._known[name]
        return int(self.drawn[name])
