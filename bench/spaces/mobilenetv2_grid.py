"""MobileNetV2 by grid search: 240 trials of 120 epochs, published merge rate 3.144.

10 learning rates × 2 batch sizes × 2 weight decays × 2 cutouts × (Adam, SGD, SGD with momentum). Free were
the four lists of milestones and the warm-up of 10 epochs. The merge rate is 3.121.
"""

from __future__ import annotations

from paper_families import (
    BATCH_SIZE,
    CUTOUT,
    WEIGHT_DECAY,
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
from hippotune.tuners import GridSearch

STEPS = 120
SECONDS_PER_STEP = 944.88 * 3600 / 28_900
"""From the 944.88 GPU-hours of training trial by trial: 240 trials of 120 epochs and 100 more of the best."""

MILESTONES = [[80, 100], [80, 110], [90, 110], [90]]

space = Grid(
    {
        "lr": [
            *step_decay(MILESTONES),
            *warm_step_decay(10, MILESTONES),
            warm_exponential(10),
            warm_cosine(10),
        ],
        "bs": BATCH_SIZE,
        "weight_decay": WEIGHT_DECAY,
        "cutout": CUTOUT,
        "optimizer": optimizers([0.9]),
    }
)
study = hippo.Study("mobilenetv2-grid", StandIn, executor=Simulated(40, seconds_per_step=SECONDS_PER_STEP))
tuner = GridSearch(space, metric="accuracy", mode="max", max_steps=STEPS)
