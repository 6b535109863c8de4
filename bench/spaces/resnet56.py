"""ResNet56 on CIFAR-10: 448 trials of up to 120 epochs, published merge rate 2.447.

14 learning rates × 2 batch sizes × 2 weight decays × 2 cutouts × (Adam, SGD, SGD with 2 momenta). Free were
the five lists of milestones, the warm-up of 5 epochs and the second value of the exponential decay. The
merge rate is 2.445.
"""

from __future__ import annotations

from paper_families import (
    BATCH_SIZE,
    CUTOUT,
    MOMENTUM,
    WEIGHT_DECAY,
    cyclic,
    optimizers,
    step_decay,
    warm_cosine,
    warm_exponential,
    warm_step_decay,
)
from stand_in import StandIn

import hippotune as hippo
from hippotune.executors.simulated.executor import Simulated
from hippotune.spaces import Grid

STEPS = 120
WORKERS = 40
SECONDS_PER_STEP = 404.95 * 3600 / 13_540
"""From the 404.95 GPU-hours of training trial by trial: 13,440 epochs by SHA and 100 more of the best."""

MILESTONES = [[50, 80], [60, 90], [60, 100], [70, 90], [70, 100]]

space = Grid(
    {
        "lr": [
            *step_decay(MILESTONES),
            *warm_step_decay(5, MILESTONES),
            warm_exponential(5),
            warm_exponential(5, value=0.05),
            warm_cosine(5),
            cyclic(),
        ],
        "bs": BATCH_SIZE,
        "weight_decay": WEIGHT_DECAY,
        "cutout": CUTOUT,
        "optimizer": optimizers(MOMENTUM),
    }
)


def new_study(name: str) -> hippo.Study:
    """Return a study on 40 workers in virtual time."""
    return hippo.Study(name, StandIn, executor=Simulated(WORKERS, seconds_per_step=SECONDS_PER_STEP))
