"""What torch's own schedulers do, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


def run(make: Callable[[Optimizer], LRScheduler], lr: float, steps: int) -> list[float]:
    """Return the learning rate that is in force in each of the first steps."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR warns of its own use of a deprecated argument
        scheduler = make(optimizer)
        for step in range(steps):
            if step > 0:
                optimizer.step()
                scheduler.step()
            seen.append(float(optimizer.param_groups[0]["lr"]))
    return seen
