"""Gradients that are kept between steps, and graphs that cannot be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Gradient(Toy):
    cause = "gradients kept between steps"


class Accumulation(_Gradient):
    """Gradients accumulated over 3 steps before the optimizer's."""

    def start(self) -> None:
        self.step = 0

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.step += 1
        rows = slice(self.step, self.step + 8)
        nn.functional.mse_loss(self.model(self.x[rows]), self.y[rows]).backward()
        if self.step % 3 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def evaluate(self) -> dict[str, float]:
        gradients = [p.grad.norm().item() for p in self.model.parameters() if p.grad is not None]
        return {"loss": self.loss().item() + sum(gradients)}


class NeverZeroed(_Gradient):
    """Gradients that are scaled down, never set to zero."""

    def fit(self, factor: float | Tensor = 1.0) -> None:
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(0.5)
        self.loss().backward()
        self.optimizer.step()


class ZeroedNotNone(_Gradient):
    """Gradients set to zero, which differs from None for parameters that a step does not use."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.Linear(4, 3))

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)

    def start(self) -> None:
        self.step = 0

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        part = self.model[self.step % 2]  # type: ignore[index]
        self.step += 1
        if self.step == 3:
            return
        nn.functional.mse_loss(part(self.x), self.y).backward()
        self.optimizer.step()

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model[0](self.x) + self.model[1](self.x), self.y)  # type: ignore


class FrozenWithGradient(_Gradient):
    """A layer that is frozen at step 3 but keeps its gradient, which the optimizer goes on to use."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))

    def start(self) -> None:
        self.step = 0

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.step += 1
        if self.step == 3:
            self.model[0].requires_grad_(False)  # type: ignore[index]
        self.model[1].zero_grad()  # type: ignore[index]
        if self.step < 3:
            self.model[0].zero_grad()  # type: ignore[index]
        self.loss().backward()
        self.optimizer.step()


class GradientOfTensor(_Gradient):
    """The gradient of a tensor that is no parameter."""

    def start(self) -> None:
        self.inputs = torch.ones(2, 4, requires_grad=True)

    def amount(self) -> float:
        self.model(self.inputs).sum().backward()
        assert self.inputs.grad is not None
        return 1.0 + self.inputs.grad.abs().sum().item()


class GradientOtherStrides(_Gradient):
    """A gradient with other strides than its parameter."""

    def start(self) -> None:
        self.model.weight.grad = torch.ones(4, 3).t()  # type: ignore[union-attr, assignment]

    def fit(self, factor: float | Tensor = 1.0) -> None:
        gradient: Any = self.model.weight.grad
        gradient.mul_(0.5)
        self.loss().backward()
        scale = 1.0 if self.model.weight.grad.stride() == (1, 3) else 2.0  # type: ignore
        self.model.weight.data.sub_(self.model.weight.grad, alpha=0.1 * scale)  # type: ignore
        self.optimizer.step()


class GradientShared(_Gradient):
    """The last gradients in a list, which are the parameters' own."""

    def start(self) -> None:
        self.last: list[Tensor] = []

    def fit(self, factor: float | Tensor = 1.0) -> None:
        for gradient in self.last:
            gradient.mul_(0.3)
        self.loss().backward()
        self.optimizer.step()
        self.last = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]


class SparseGradient(_Gradient):
    """Sparse gradients of an embedding, accumulated over two steps."""

    def make_model(self) -> nn.Module:
        return nn.Embedding(8, 3, sparse=True)

    def start(self) -> None:
        self.step = 0

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model((torch.arange(32) + self.step) % 5), self.y)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.step += 1
        self.loss().backward()
        if self.step % 3 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def evaluate(self) -> dict[str, float]:
        gradient = self.model.weight.grad
        kept = 0.0 if gradient is None else gradient.coalesce().values().sum().item()  # type: ignore
        return {"loss": self.loss().item() + kept}


class LossWithGraph(_Gradient):
    """The last loss with its graph, on self."""

    expect = "either"
    named = "last"

    def start(self) -> None:
        self.last: Tensor | None = None

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        self.last = self.loss() + (0.0 if self.last is None else self.last.detach())
        self.last.backward()
        self.optimizer.step()

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.loss().item() + (0.0 if self.last is None else self.last.item())}


class GraphAcrossSteps(_Gradient):
    """A recurrent state that is not detached: the next step goes back through it."""

    expect = "named"
    named = "hidden"

    def make_model(self) -> nn.Module:
        return nn.RNNCell(4, 3)

    def start(self) -> None:
        self.hidden = torch.zeros(32, 3)
        self.step = 0

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.hidden = self.model(self.x, self.hidden)
        self.step += 1
        self.optimizer.zero_grad()
        if self.step % 3 == 0:
            nn.functional.mse_loss(self.hidden, self.y).backward()
            self.optimizer.step()
            self.hidden = self.hidden.detach()

    def evaluate(self) -> dict[str, float]:
        return {"loss": nn.functional.mse_loss(self.model(self.x, self.hidden), self.y).item()}


class RetainedGradient(_Gradient):
    """A tensor inside the graph whose gradient is retained."""

    expect = "either"
    named = "middle"

    def start(self) -> None:
        self.middle: Tensor | None = None

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        before = None if self.middle is None else self.middle.grad
        self.middle = self.model(self.x)
        self.middle.retain_grad()
        scale = 1.0 if before is None else 1.0 + before.norm().item()
        (nn.functional.mse_loss(self.middle, self.y) * scale).backward()
        self.optimizer.step()
