"""BERT-Base on SQuAD by grid search: 40 trials of 27,000 steps, published merge rate 2.045.

10 learning rates × 2 sequence lengths × 2 weight decays. Free were the learning rate of 5e-5, the five
lists of milestones and the warm-up of 1,500 steps. The merge rate is 2.045.
"""

from __future__ import annotations

from paper_families import SEQUENCE_LENGTH, WEIGHT_DECAY, step_decay, warm_step_decay
from stand_in import StandIn

import hippotune as hippo
from hippotune.executors.simulated.executor import Simulated
from hippotune.spaces import Grid
from hippotune.tuners import GridSearch

STEPS = 27_000
SECONDS_PER_STEP = 808.21 * 3600 / (40 * STEPS)
"""From the 808.21 GPU-hours of training trial by trial."""

MILESTONES = [[3_000, 9_000], [3_000, 12_000], [9_000, 15_000], [12_000, 18_000], [15_000, 21_000]]

space = Grid(
    {
        "lr": [*step_decay(MILESTONES, value=5e-5), *warm_step_decay(1_500, MILESTONES, value=5e-5)],
        "sequence_length": SEQUENCE_LENGTH,
        "weight_decay": WEIGHT_DECAY,
    }
)
study = hippo.Study("bert-grid", StandIn, executor=Simulated(40, seconds_per_step=SECONDS_PER_STEP))
tuner = GridSearch(space, metric="accuracy", mode="max", max_steps=STEPS)
