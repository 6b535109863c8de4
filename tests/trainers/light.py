"""Trainers on torch that are up in half the time, for tests whose workers are fresh processes, as on Ray.

Torch's first optimizer in a process, and the choice of deterministic algorithms, import its compiler: that
takes as long as all else.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.nn import Parameter

from hippotune.trainers.torch.trainer import TorchTrainer


class Light(TorchTrainer):
    """Leaves it to torch which algorithms are used."""

    def arrive(self, to_train: bool = True) -> None:
        super().arrive(to_train=False)


class Descent:
    """Goes down the gradient of all parameters by a rate, as `torch.optim.SGD` does."""

    def __init__(self, parameters: Iterable[Parameter], lr: float) -> None:
        self.parameters = list(parameters)
        self.lr = lr

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter -= self.lr * parameter.grad
