"""Spaces: which configs there are.

A space is a value. The same space always gives the same configs in the same order;
what is drawn at random is decided by a seed or a generator that the caller brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune.errors import InvalidInput
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import as_sequence
from hippotune.sequences.mixtures import written
from hippotune.spaces.distributions import Choice, Number
from hippotune.spaces.notation import (
    Values,
    alternatives,
    checked,
    combinations,
    leaves,
    possibilities,
    resolve,
)
from hippotune.spaces.sharing import merge_rate, sharing
from hippotune.spaces.sources import Chance, Evenly, Record, Source

if TYPE_CHECKING:
    from hippotune.spaces.branches import Branches

Where = Callable[[dict[str, Any]], object]

MOST_REJECTED = 1000
"""How many samples in a row `where` may reject."""

_LISTED = 1 << 16
"""Finite spaces of more configs than this are drawn from without listing them all."""


class Space:
    """Hyper-parameters, each with what it may be.

    ``Space({"lr": LogUniform(1e-4, 1e-1), "optimizer": ["adam", Option("sgd", {"momentum": [0.9, 0.99]})]})``

    Parameters
    ----------
    parameters : Mapping[str, Any]
        For each name a plain value or a sequence (fixed), a list or a `Choice` (one of these), a
        distribution, or a sequence with distributions as parameters: ``Exponential(Uniform(0, 1), 0.95)``.
    where : callable, optional
        Gets the values of a config as they are written here; says whether the config belongs to the space.
    """

    def __init__(self, parameters: Mapping[str, Any], where: Where | None = None) -> None:
        self.parameters: Mapping[str, Any] = checked(parameters)
        if where is not None and not callable(where):
            raise InvalidInput(f"where is {where!r}; expected a function of a dict of values")
        self.where = where
        if self.finite and not self.up_to(1):
            raise InvalidInput("where rejects every config; the space is empty")

    @property
    def branches(self) -> Branches | None:
        """The branches of one trunk that the configs are, where they are that."""
        return None

    @cached_property
    def leaves(self) -> dict[str, Number | Choice]:
        """Everything that is open, by name, also what depends on a choice: what a sampler has to decide."""
        return {leaf.path: leaf.distribution for leaf in leaves(self.parameters)}

    @cached_property
    def owners(self) -> dict[str, str]:
        """The hyper-parameter that each of the `leaves` belongs to."""
        return {leaf.path: leaf.owner for leaf in leaves(self.parameters)}

    @cached_property
    def finite(self) -> bool:
        """Whether the configs can be counted."""
        return not any(isinstance(leaf, Number) for leaf in self.leaves.values())

    def configs(self) -> Iterator[Config]:
        """Yield all configs of a finite space, the last hyper-parameter varying fastest."""
        self._need_finite("list its configs")
        return map(self.config, self._written())

    def __iter__(self) -> Iterator[Config]:
        return self.configs()

    def __len__(self) -> int:
        self._need_finite("count its configs")
        return self._size

    def up_to(self, number: int) -> int:
        """Return how many configs a finite space has, counted no further than `number`."""
        if self.where is None or self._combinations < number:
            return min(len(self), number)
        if self._is_large and len(self._distinct(number, np.random.default_rng(0))) == number:
            return number
        return sum(1 for _ in islice(self._written(), number))

    @cached_property
    def _size(self) -> int:
        return self._combinations if self.where is None else sum(1 for _ in self._written())

    @cached_property
    def _combinations(self) -> int:
        """How many configs there would be without `where`."""
        return combinations(self.parameters)

    @property
    def _is_large(self) -> bool:
        return self._combinations > _LISTED

    def _written(self) -> Iterator[Values]:
        return filter(self.accepts, alternatives(self.parameters))

    # Drawing.

    def sample(self, generator: np.random.Generator) -> Config:
        """Return a config drawn at random."""
        return self.config(self.values(Chance(generator)))

    def draw(self, number: int, seed: int) -> list[Config]:
        """Return `count` configs drawn at random; from a finite space none is drawn twice."""
        return [self.config(values) for values in self.drawn(number, seed)]

    def drawn(self, number: int, seed: int) -> list[Values]:
        """Return what `draw` does, as values."""
        generator = np.random.default_rng(seed)
        if not self.finite:
            chance = Chance(generator)
            return [self.values(chance) for _ in range(number)]
        if (found := self.up_to(number)) < number:
            raise InvalidInput(f"{number} configs were asked for; the space has only {found}")
        if self._is_large and len(drawn := self._distinct(number, generator)) == number:
            return drawn
        everything = list(self._written())
        return [everything[place] for place in generator.permutation(len(everything))[:number]]

    def _distinct(self, number: int, generator: np.random.Generator) -> list[Values]:
        """Draw different configs without listing all; fewer, where others are hard to come by."""
        weights = {
            name: [possibilities(option) for option in leaf.options]
            for name, leaf in self.leaves.items()
            if isinstance(leaf, Choice)
        }
        evenly = Evenly(generator, weights)
        drawn: set[tuple[tuple[str, int | float], ...]] = set()
        accepted: list[Values] = []
        in_vain = 0
        while len(accepted) < number and in_vain < MOST_REJECTED:
            record = Record(evenly)
            values = resolve(self.parameters, record)
            key = tuple(record.drawn.items())
            in_vain += 1
            if key not in drawn:
                drawn.add(key)
                if self.accepts(values):
                    accepted.append(values)
                    in_vain = 0
        return accepted

    def values(self, source: Source) -> Values:
        """Return the values of a config, asking the source until `where` accepts them."""
        for _ in range(MOST_REJECTED):
            values = resolve(self.parameters, source)
            if self.accepts(values):
                return values
        raise InvalidInput(
            f"where= rejected {MOST_REJECTED} samples in a row; expected it to accept most of the space"
        )

    def accepts(self, values: Values) -> bool:
        """Whether `where` accepts these values."""
        return self.where is None or bool(
            self.where({name: written(value) for name, value in values.items()})
        )

    def config(self, values: Values) -> Config:
        """Make a config. Equal plain values become one constant, so that configs are compared quickly."""
        return Config({name: self._sequence(value) for name, value in values.items()})

    def _sequence(self, value: Any) -> Sequence:
        if isinstance(value, Sequence):
            return value
        key = (type(value), value)
        if key not in self._constants:
            self._constants[key] = as_sequence(value)
        return self._constants[key]

    @cached_property
    def _constants(self) -> dict[tuple[type, Any], Sequence]:
        return {}

    # What sharing is in it.

    def merge_rate(self, max_steps: int) -> float:
        """Return the steps of all configs, each trained for `max_steps`, over the unique ones."""
        return merge_rate(list(self.configs()), max_steps)

    def sharing(self, max_steps: int) -> dict[str, float]:
        """Return, costliest first, the merge rate that there would be if a hyper-parameter never differed."""
        return sharing(list(self.configs()), max_steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        same_kind = type(self) is type(other)
        return same_kind and self.parameters == other.parameters and self.where == other.where

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        condition = "" if self.where is None else f", where={self.where!r}"
        return f"{type(self).__name__}({dict(self.parameters)!r}{condition})"

    def _need_finite(self, purpose: str) -> None:
        if not self.finite:
            numbers = ", ".join(name for name, leaf in self.leaves.items() if isinstance(leaf, Number))
            raise InvalidInput(
                f"the space has no end ({numbers}), so you cannot {purpose}; take Samples of it"
            )


class Grid(Space):
    """All combinations of values: a space without distributions of numbers.

    ``Grid({"lr": [0.1, Exponential(0.1, 0.95)], "bs": [128, 256]}, where=lambda hp: hp["bs"] < 256)``
    """

    def __init__(self, parameters: Mapping[str, Any], where: Where | None = None) -> None:
        super().__init__(parameters, where)
        self._need_finite("make a grid of it")


def as_space(space: Space | Mapping[str, Any]) -> Space:
    """Return a space; a plain dict is a `Grid`, or a `Space` where it has distributions of numbers."""
    if isinstance(space, Space):
        return space
    if not isinstance(space, Mapping):
        raise InvalidInput(f"space is {space!r}; expected a Space, a Grid or a dict of hyper-parameters")
    made = Space(space)
    return Grid(space) if made.finite else made
