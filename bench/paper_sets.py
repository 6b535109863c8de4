"""The sets of studies of the Hippo paper: 2, 4 and 8 of one model at once, with 144 trials each.

Published are the hyper-parameters (learning rate and batch size, as sequences), the range of each study's own
merge rate, the rate of all studies together, and for the second set the range of pairs. All else is drawn.
The studies of a set take their functions from one pool, of the families of the ResNet56 study; how large it
is decides how much they overlap. Functions are exchanged for others, one by one, and kept where the rates
come no further from the published ones, until each study's and each pair's rate are in their range (pairs
within 5 %) and the rate of all is within 5 % of the published one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from random import Random

import numpy as np
from numpy.typing import NDArray

from hippotune import Grid
from hippotune.sequences import Sequence
from paper_spaces import RESNET56, Parameter, counts, parting

TRIALS, STEPS = 144, 120
WITHIN = 0.05
COUNTS = tuple(sizes for sizes in counts(TRIALS, 9) if sizes[0] >= 5)
_PATIENCE = 400  # exchanges for each study, until another set is begun
_NAMES = ("lr", "bs")

Places = NDArray[np.int64]
Study = tuple[Places, Places]
"""Which learning rates and which batch sizes of the pools a study has."""
Beginnings = NDArray[np.float32]
"""By step and beginning: 1 where a study has that beginning, 0 elsewhere. Or several of these."""


class Pool:
    """Functions of one hyper-parameter, and at every step the first of them that begins alike."""

    def __init__(self, parameter: Parameter, size: int, chance: Random) -> None:
        fresh = Parameter((), parameter.more)
        self.functions: list[Sequence] = fresh.start(chance, chance.random(), STEPS, size)
        partings = np.full((size, size), STEPS)
        for (row, one), (column, other) in combinations(enumerate(self.functions), 2):
            partings[row, column] = partings[column, row] = parting(one, other, STEPS)
        self._alike = np.array([(partings > step).argmax(axis=1) for step in range(STEPS)])

    def beginnings(self, places: Places) -> Beginnings:
        """Return which beginnings these functions have at each step."""
        found = np.zeros((STEPS, len(self.functions)), dtype=np.float32)
        np.put_along_axis(found, self._alike[:, places], 1, axis=1)
        return found


@dataclass(frozen=True)
class PublishedSet:
    """How many studies there are, the rate of all together, and the ranges of each and of pairs."""

    studies: int
    together: float
    own: tuple[float, float]
    pairs: tuple[float, float] | None = None

    def draw(self, seed: int) -> list[Grid]:
        """Return the studies' spaces."""
        chance = Random(seed)
        while True:
            sizes = [chance.choice(COUNTS) for _ in range(self.studies)]
            pools = [
                Pool(RESNET56.parameters[name], max(each) + chance.randint(0, sum(each)), chance)
                for name, each in zip(_NAMES, zip(*sizes, strict=True), strict=True)
            ]
            studies = [
                tuple(
                    np.array(chance.sample(range(len(pool.functions)), count))
                    for pool, count in zip(pools, each, strict=True)
                )
                for each in sizes
            ]
            if self._walk(chance, pools, studies):
                return [
                    Grid(
                        {
                            name: [pool.functions[place] for place in places]
                            for name, pool, places in zip(_NAMES, pools, study, strict=True)
                        }
                    )
                    for study in studies
                ]

    def _walk(self, chance: Random, pools: list[Pool], studies: list[Study]) -> bool:
        """Exchange functions until all rates are as published; return whether they came to be."""
        found = tuple(
            np.array([pool.beginnings(study[which]) for study in studies]) for which, pool in enumerate(pools)
        )
        off = self._off(*found)
        for _ in range(_PATIENCE * self.studies):
            if off == 0:
                return True
            study, which = chance.randrange(self.studies), chance.randrange(2)
            places = studies[study][which]
            others = sorted(set(range(len(pools[which].functions))) - set(places.tolist()))
            if not others:
                continue
            at = chance.randrange(len(places))
            before, places[at] = places[at], chance.choice(others)
            had, found[which][study] = found[which][study].copy(), pools[which].beginnings(places)
            now = self._off(*found)
            if now <= off:
                off = now
            else:
                places[at], found[which][study] = before, had
        return False

    def _off(self, rates: Beginnings, sizes: Beginnings) -> float:
        """Return by how much the rates are out of their ranges, all in all."""
        steps = in_common(rates, sizes)
        off = sum(_outside(TRIALS * STEPS / steps[each, each], self.own, 0) for each in range(self.studies))
        if self.pairs is not None:
            for one, other in combinations(range(self.studies), 2):
                unique = steps[one, one] + steps[other, other] - steps[one, other]
                off += _outside(2 * TRIALS * STEPS / unique, self.pairs, WITHIN)
        if off > 1:  # far enough: the rest costs more time than it tells
            return off + self.studies
        together = self.studies * TRIALS * STEPS / in_any(rates, sizes)
        return off + self.studies * min(1, _outside(together, (self.together, self.together), WITHIN))


def in_common(rates: Beginnings, sizes: Beginnings) -> NDArray[np.float64]:
    """Return a matrix: the unique steps that studies i and j share; on the diagonal, those of study i.

    A study has every beginning of a learning rate with every one of a batch size.
    """
    each = [np.matmul(found, found.swapaxes(1, 2)) for found in (rates.swapaxes(0, 1), sizes.swapaxes(0, 1))]
    return np.multiply(*each).sum(axis=0, dtype=np.float64)


def in_any(rates: Beginnings, sizes: Beginnings) -> float:
    """Return the different steps that there are in all studies together."""
    studies = np.matmul(rates.transpose(1, 2, 0), sizes.swapaxes(0, 1))
    return float(np.count_nonzero(studies))


def _outside(value: float, limits: tuple[float, float], slack: float) -> float:
    low, high = limits
    return max(low * (1 - slack) - value, value - high * (1 + slack), 0.0)


_FIRST, _SECOND = (1.5, 2.73), (1.2, 2.1)
SETS = {
    "first": [PublishedSet(k, q, _FIRST) for k, q in ((2, 2.26), (4, 2.77), (8, 2.47))],
    "second": [PublishedSet(k, q, _SECOND, (1.2, 2.4)) for k, q in ((2, 1.40), (4, 1.19), (8, 1.66))],
}
