"""Optimizers around optimizers, with attributes that pickling an Optimizer drops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from exactness_trainers.torch_base import Toy


class _Wrapper(Toy):
    cause = "optimizers around optimizers"


class Lookahead(torch.optim.Optimizer):
    """Keeps slow weights and a count as attributes, which pickling an Optimizer drops."""

    def __init__(self, parameters: Iterator[Tensor], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.calls = 0
        self.slow = [parameter.detach().clone() for parameter in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.calls += 1
        for group in self.param_groups:
            for slow, parameter in zip(self.slow, group["params"], strict=True):
                parameter.sub_(parameter.grad, alpha=group["lr"])
                if self.calls % 3 == 0:
                    slow.lerp_(parameter, 0.5)
                    parameter.copy_(slow)


class SubclassWithAttributes(_Wrapper):
    """An Optimizer of one's own with attributes beside its state."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return Lookahead(self.model.parameters(), 0.1)


class SubclassOfAdam(_Wrapper):
    """A subclass of Adam that keeps its last gradients' norm, and a closure."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return Clipping(self.model.parameters(), lr=0.1)


class Clipping(torch.optim.Adam):
    """Scales gradients by an average of their norms, which it keeps as an attribute."""

    def step(self, closure: Any = None) -> Any:
        norms = [parameter.grad.norm() for parameter in self.param_groups[0]["params"]]
        self.average = 0.9 * getattr(self, "average", 1.0) + 0.1 * torch.stack(norms).sum().item()
        for parameter in self.param_groups[0]["params"]:
            parameter.grad.div_(self.average)
            parameter.data.mul_(1 - 0.01 * self.average)
        return super().step(closure)


class Wrapping:
    """A plain object around an optimizer."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner, self.calls = inner, 0
        self.slow = [parameter.detach().clone() for parameter in inner.param_groups[0]["params"]]

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def step(self) -> None:
        self.inner.step()
        self.calls += 1
        if self.calls % 2:
            for slow, parameter in zip(self.slow, self.inner.param_groups[0]["params"], strict=True):
                slow.lerp_(parameter.detach(), 0.5)
                parameter.data.copy_(slow)


class WrappedOptimizer(_Wrapper):
    """A plain object around an optimizer, with slow weights and a count."""

    def start(self) -> None:
        self.wrapper = Wrapping(self.optimizer)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        (self.loss() * factor).backward()
        self.wrapper.step()


class SharpnessAware(_Wrapper):
    """Two steps in one, with the way up kept in the optimizer's state."""

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.loss().backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                assert parameter.grad is not None
                state = self.optimizer.state[parameter]
                state["way"] = state.get("way", 0.0) * 0.5 + parameter.grad * 0.05
                parameter.add_(state["way"])
        self.optimizer.zero_grad()
        self.loss().backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.sub_(self.optimizer.state[parameter]["way"])
        self.optimizer.step()
        self.optimizer.zero_grad()
