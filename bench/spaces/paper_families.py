"""The families of hyper-parameters in the studies of the Hippo paper, from which the other files are made.

What is published: the families, the values in them, the number of trials of every study and its merge rate.
What is not: which milestones and how many learning rates each study has. Those were free, and were chosen,
among multiples of ten epochs (3,000 steps for BERT), so that the number of trials is exact and the merge
rate comes out as published.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Listed

from hippotune.sequences import CosineRestarts, Cyclic, Exponential, MultiStep, Piecewise, Sequence, Warmup
from hippotune.spaces import Option

LEARNING_RATE = 0.1

BATCH_SIZE = [128, Piecewise([128, 256], [70])]
WEIGHT_DECAY = [1e-4, 1e-3]
CUTOUT = [16, Piecewise([16, 18, 20], [80, 100])]
MOMENTUM: list[float | Sequence] = [0.9, Piecewise([0.7, 0.8, 0.9], [40, 80])]
SEQUENCE_LENGTH = [384, Piecewise([384, 512], [21_000])]


def optimizers(momentum: Listed[float | Sequence]) -> list[str | Option]:
    """Return Adam, SGD, and SGD with momentum, which only the last of them has."""
    return ["adam", "sgd", Option("momentum-sgd", {"momentum": list(momentum)})]


def step_decay(milestones: Iterable[list[int]], value: float = LEARNING_RATE) -> list[Sequence]:
    """Return learning rates that fall to a tenth at each milestone."""
    return [MultiStep(value, steps, 0.1) for steps in milestones]


def warm_step_decay(
    warm_up: int, milestones: Iterable[list[int]], value: float = LEARNING_RATE
) -> list[Sequence]:
    """Return the same after a warm-up; the milestones are counted from the beginning of training."""
    return [Warmup(warm_up, MultiStep(value, [at - warm_up for at in steps], 0.1)) for steps in milestones]


def warm_exponential(warm_up: int, value: float = LEARNING_RATE) -> Sequence:
    """Return a learning rate that falls by 5 % with every step after a warm-up."""
    return Warmup(warm_up, Exponential(value, 0.95))


def warm_cosine(warm_up: int, value: float = LEARNING_RATE) -> Sequence:
    """Return a learning rate that swings along a cosine, begun anew every 20 steps, after a warm-up."""
    return Warmup(warm_up, CosineRestarts(value, 20))


def cyclic() -> Sequence:
    """Return a learning rate that goes up and down between 0.001 and 0.1, 20 steps each way."""
    return Cyclic(0.001, 0.1, 20)
