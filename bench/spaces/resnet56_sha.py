"""ResNet56 by successive halving: 448 trials for 15 epochs, 112 for 60, 28 for 120."""

from __future__ import annotations

from resnet56 import STEPS, new_study, space

from hippotune.tuners import SuccessiveHalving

study = new_study("resnet56-sha")
tuner = SuccessiveHalving(
    space, metric="accuracy", mode="max", min_steps=15, max_steps=STEPS, reduction=4, rungs="trials"
)
