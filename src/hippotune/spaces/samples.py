"""A fixed number of configs out of a larger space: at random, or spread more evenly than chance does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hippotune import checks
from hippotune.errors import InvalidInput, MissingExtra
from hippotune.sequences.config import Config
from hippotune.spaces.notation import Values, resolve
from hippotune.spaces.sources import Point
from hippotune.spaces.space import MOST_REJECTED, Space, as_space

if TYPE_CHECKING:
    from hippotune.spaces.branches import Branches

Method = Literal["random", "sobol", "halton"]


class Samples(Space):
    """`n` configs of a space, fixed by `seed`: a finite space, made from one that need not be.

    ``Samples({"lr": LogUniform(1e-4, 1e-1), "bs": [64, 128]}, n=64, method="sobol")``

    "random" draws independently, and nothing twice from a finite space. "sobol" and "halton" are scrambled
    quasi-random points (by SciPy); in place of a point that `where` rejects comes the next one.
    """

    def __init__(
        self, space: Space | Mapping[str, Any], n: int, seed: int = 0, method: Method = "random"
    ) -> None:
        self.of = as_space(space)
        checks.whole("n", n)
        checks.whole("seed", seed, least=0)
        checks.one_of("method", method, get_args(Method))
        if method == "random" and self.of.finite and (found := self.of.up_to(n)) < n:
            raise InvalidInput(f"n is {n}; the space has only {found} configs")
        self.n = n
        self.seed = seed
        self.method = method
        super().__init__(self.of.parameters, self.of.where)

    @property
    def branches(self) -> Branches | None:
        """The branches that these are samples of, where they are that."""
        return self.of.branches

    @property
    def finite(self) -> bool:
        """Samples can always be counted."""
        return True

    def sample(self, generator: np.random.Generator) -> Config:
        """Return one of the samples."""
        return self.config(self._samples[int(generator.integers(self.n))])

    def config(self, values: Values) -> Config:
        """Make a config, as the space that it is a sample of does."""
        return self.of.config(values)

    def up_to(self, number: int) -> int:
        """Return how many samples there are, counted no further than `number`."""
        return min(self.n, number)

    def _written(self) -> Iterator[Values]:
        return iter(self._samples)

    @property
    def _size(self) -> int:
        return self.n

    @property
    def _is_large(self) -> bool:
        return False  # all samples are listed anyway

    @cached_property
    def _samples(self) -> list[Values]:
        if self.method == "random":
            return self.of.drawn(self.n, self.seed)
        return list(islice(self._quasi_random(), self.n))

    def _quasi_random(self) -> Iterator[Values]:
        rejected = 0
        for point in _points(self.method, len(self.of.leaves), self.n, self.seed):
            values = resolve(self.parameters, Point(dict(zip(self.of.leaves, point, strict=True))))
            if self.accepts(values):
                rejected = 0
                yield values
            elif (rejected := rejected + 1) >= MOST_REJECTED:
                raise InvalidInput(
                    f"where= rejected {MOST_REJECTED} samples in a row; expected it to accept most of "
                    "the space"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Samples):
            return NotImplemented
        return (self.of, self.n, self.seed, self.method) == (other.of, other.n, other.seed, other.method)

    __hash__ = None

    def __repr__(self) -> str:
        return f"Samples({self.of!r}, {self.n}, seed={self.seed}, method={self.method!r})"


def _points(method: Method, dimensions: int, at_once: int, seed: int) -> Iterator[list[float]]:
    """Yield quasi-random points of the unit cube for ever."""
    try:
        from scipy.stats import qmc  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise MissingExtra(f"method {method!r} needs SciPy: pip install 'hippotune[scipy]'") from None
    kind = {"sobol": qmc.Sobol, "halton": qmc.Halton}[method]
    engine = kind(d=max(dimensions, 1), seed=np.random.default_rng(seed))
    # Sobol points are balanced in blocks of a power of two only.
    block = 1 << (at_once - 1).bit_length()
    while True:
        for point in engine.random(block):
            yield [float(coordinate) for coordinate in point[:dimensions]]
