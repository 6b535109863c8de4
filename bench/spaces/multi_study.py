"""Studies of one model at the same time: eight of 144 trials each; the first 2, the first 4 or all are taken.

A study has 9 learning rates × 2 batch sizes × 2 weight decays × 2 cutouts × 2 momenta. In `HIGH` every
study takes over seven learning rates of the one before it; in `LOW` each has a peak of its own for four of
its learning rates. The merge rates q of the first 1, 2, 4 and 8 studies together are 2.92, 4.83, 7.55, 9.47
and 2.34, 2.76, 3.14, 3.53.
"""

from __future__ import annotations

from collections.abc import Sequence as Listed

from paper_families import (
    BATCH_SIZE,
    CUTOUT,
    MOMENTUM,
    WEIGHT_DECAY,
    step_decay,
    warm_cosine,
    warm_exponential,
    warm_step_decay,
)

from hippotune.sequences import Sequence
from hippotune.spaces import Grid
from hippotune.tuners import SuccessiveHalving

STEPS = 120
COUNTS = (2, 4, 8)

MILESTONES = [
    *([40, end] for end in (70, 80)),
    *([50, end] for end in (80, 90, 100)),
    *([60, end] for end in (80, 90, 100, 110)),
    *([70, end] for end in (90, 100, 110)),
    *([80, end] for end in (100, 110)),
    *([90, end] for end in (100, 110)),
]


def _space(lr: Listed[Sequence]) -> Grid:
    return Grid(
        {
            "lr": list(lr),
            "bs": BATCH_SIZE,
            "weight_decay": WEIGHT_DECAY,
            "cutout": CUTOUT,
            "momentum": MOMENTUM,
        }
    )


def _own(number: int) -> list[Sequence]:
    peak = round(0.1 + 0.02 * number, 2)
    return [
        *warm_step_decay(5, [[60, 90], [70, 100]], value=peak),
        warm_exponential(5, value=peak),
        warm_cosine(5, value=peak),
    ]


_CATALOGUE = [*step_decay(MILESTONES), *warm_step_decay(5, MILESTONES)]

HIGH = [_space(_CATALOGUE[2 * number : 2 * number + 9]) for number in range(8)]
LOW = [
    _space([*step_decay(MILESTONES[first : first + 5]), *_own(number)])
    for number, first in enumerate((0, 2, 4, 6, 8, 10, 11, 11))
]


def tuners(spaces: Listed[Grid]) -> list[SuccessiveHalving]:
    """Return a tuner for each study, all to be run at once on one study object."""
    return [
        SuccessiveHalving(space, "accuracy", "max", 15, STEPS, reduction=4, rungs="trials")
        for space in spaces
    ]
