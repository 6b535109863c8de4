"""ResNet56 by asynchronous successive halving: the same trials and rungs as in resnet56_sha.py."""

from __future__ import annotations

from resnet56 import STEPS, new_study, space

from hippotune.tuners import ASHA

study = new_study("resnet56-asha")
tuner = ASHA(space, metric="accuracy", mode="max", min_steps=15, max_steps=STEPS, reduction=4, rungs="trials")
