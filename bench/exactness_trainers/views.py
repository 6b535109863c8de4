"""Aliases and views of tensors, also such as are made in training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _View(Toy):
    cause = "aliases and views"


class FromNumpy(_View):
    """An array, and a tensor over its memory; both are written."""

    def start(self) -> None:
        self.array = np.ones(3, np.float32)
        self.tensor = torch.from_numpy(self.array)

    def amount(self) -> float:
        self.array *= 1.1
        self.tensor[0] += 0.5
        return float(self.array.sum())


class PartOfNumpy(_View):
    """A tensor over a part of an array, and another part of it."""

    def start(self) -> None:
        self.array = np.ones(8, np.float32)
        self.tensor, self.part = torch.from_numpy(self.array[2:6]), self.array[4:]

    def amount(self) -> float:
        self.part *= 1.1
        self.tensor += 0.1
        return float(self.array.sum()) / 8


class NumpyOfParameter(_View):
    """An array over a parameter's memory."""

    def start(self) -> None:
        self.array = self.model.weight.detach().numpy()  # type: ignore[operator, union-attr]

    def amount(self) -> float:
        self.array *= 0.95
        return 1.0 + float(np.abs(self.array).sum())


class ViewOfParameter(_View):
    """A detached view of a parameter's rows, through which it is written."""

    def start(self) -> None:
        self.row = self.model.weight.detach()[1]  # type: ignore[operator, union-attr]

    def amount(self) -> float:
        self.row.mul_(0.9)
        return 1.0 + self.row.sum().item()


class OverlappingViews(_View):
    """Two overlapping views of a tensor that is nowhere else."""

    def start(self) -> None:
        whole = torch.ones(6)
        self.one, self.other = whole[:4], whole[2:]

    def amount(self) -> float:
        self.one.mul_(1.1)
        self.other.add_(0.1)
        return (self.one.sum() - self.other[0]).item()


class StridedViews(_View):
    """A windowed view by as_strided, written through the tensor below it."""

    def start(self) -> None:
        self.line = torch.arange(6.0)
        self.windows = self.line.as_strided((4, 3), (1, 1))

    def amount(self) -> float:
        self.line[2] += 1
        return self.windows.sum().item() / 30


class ViewOfType(_View):
    """The same memory as floats and as integers."""

    def start(self) -> None:
        self.floats = torch.ones(2)
        self.integers = self.floats.view(torch.int32)

    def amount(self) -> float:
        self.integers += 1 << 20
        return self.floats.sum().item()


class AliasMadeInTraining(_View):
    """Two lists whose tensors become the same one at step 3."""

    def start(self) -> None:
        self.one, self.other, self.step = [torch.ones(2)], [torch.ones(2)], 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 3:
            self.other[0] = self.one[0]
        self.one[0].mul_(1.2)
        self.other[0].add_(0.2)
        return (self.one[0] + self.other[0]).sum().item()


class AliasBroken(_View):
    """Two attributes that are one tensor up to step 3."""

    def start(self) -> None:
        self.one = torch.ones(2)
        self.other, self.step = self.one, 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 3:
            self.other = self.one.clone()
        self.one.mul_(1.2)
        return (self.one + self.other).sum().item()


class FlatParameters(_View):
    """All parameters as views of one flat tensor, which training writes."""

    def start(self) -> None:
        self.flat = torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])
        at = 0
        for parameter in self.model.parameters():
            parameter.data = self.flat[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()

    def amount(self) -> float:
        self.flat.mul_(0.95)
        return 1.0


class FlatGradients(_View):
    """All gradients as views of one flat tensor, which training reads."""

    def start(self) -> None:
        parameters = list(self.model.parameters())
        self.flat, at = torch.zeros(sum(parameter.numel() for parameter in parameters)), 0
        for parameter in parameters:
            parameter.grad = self.flat[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.flat.mul_(0.5)
        self.loss().backward()
        self.flat.clamp_(-0.2, 0.2)
        self.optimizer.step()


class SharedStorage(_View):
    """A storage on self, and a tensor over it."""

    expect = "either"
    named = "storage"

    def start(self) -> None:
        self.tensor = torch.ones(4)
        self.storage = self.tensor.untyped_storage()

    def amount(self) -> float:
        self.storage[2] = (int(self.storage[2]) + 32) % 256
        self.tensor[1] *= 1.2
        return self.tensor.sum().item()


class SmallPartOfLarge(_View):
    """A row of a large tensor that is nowhere else."""

    def start(self) -> None:
        self.row = torch.ones(5000, 4)[7]

    def amount(self) -> float:
        self.row.mul_(1.1)
        return self.row.sum().item()


class ParameterAlias(_View):
    """A list of parameters beside the model, in another order."""

    def start(self) -> None:
        self.parameters = list(self.model.parameters())[::-1]

    def amount(self) -> float:
        for parameter in self.parameters:
            parameter.data.mul_(0.95)
        return 1.0 + self.parameters[1].detach().sum().item()


class SharedBuffers(_View):
    """Two models that share a buffer and a batch normalization."""

    def make_model(self) -> nn.Module:
        norm = nn.BatchNorm1d(4)
        self.other = nn.Sequential(norm, nn.Linear(4, 3))
        return nn.Sequential(nn.Linear(4, 4), norm, nn.Linear(4, 3))

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.loss().item() + self.other(self.x).sum().item()}
