"""What state_dict of a module leaves out, and modules that carry state from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Module(Toy):
    cause = "attributes and buffers of modules"


class _Recurrent(Toy):
    cause = "recurrent state and metric objects"


class Counting(nn.Linear):
    """Counts its calls in training in a Python attribute."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return super().forward(x) * (1 + 0.1 * self.calls)


class PythonAttribute(_Module):
    """A module that counts in a Python attribute."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(Counting(4, 3))


class Smoothing(nn.Module):
    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(3), persistent=persistent)
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        out = self.linear(x)
        if self.training:
            self.mean.lerp_(out.detach().mean(0), 0.3)
        return out - self.mean


class NonPersistentBuffer(_Module):
    """A buffer that state_dict leaves out."""

    def make_model(self) -> nn.Module:
        return Smoothing(persistent=False)


class BufferRebound(_Module):
    """A buffer that is bound to a new tensor in every step, and is None at first."""

    def make_model(self) -> nn.Module:
        model = nn.Linear(4, 3)
        model.register_buffer("trace", None)
        return model

    def amount(self) -> float:
        trace = self.model.trace
        self.model.trace = torch.ones(2) if trace is None else trace * 1.3  # type: ignore[operator]
        return self.model.trace.sum().item()


class PlainTensorAttribute(_Module):
    """A tensor on a module that is neither parameter nor buffer."""

    def make_model(self) -> nn.Module:
        model = nn.Linear(4, 3)
        model.scale = torch.ones(())  # type: ignore[assignment]
        return model

    def amount(self) -> float:
        self.model.scale.mul_(1.2)  # type: ignore[operator, union-attr]
        return self.model.scale.item()  # type: ignore[operator, union-attr]


class ListOnModule(_Module):
    """A list of tensors, and an object, on a module."""

    def make_model(self) -> nn.Module:
        model = nn.Linear(4, 3)
        model.history = []  # type: ignore[assignment]
        return model

    def amount(self) -> float:
        self.model.history.append(self.model.weight.detach().norm())  # type: ignore[operator, union-attr]
        return 1.0 + sum(map(float, self.model.history)) / 10  # type: ignore[arg-type]


class RunningStatistics(_Module):
    """Batch normalization."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


class CumulativeStatistics(_Module):
    """Batch normalization whose statistics are averages over all batches."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 3))


class Dropping(_Module):
    """Dropout, whose masks are drawn from torch's generator."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))


class PartInEvaluationMode(_Module):
    """A part of the model that stays in evaluation mode, from step 3 on."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 3:
            self.model[1].eval()  # type: ignore[index]
            self.model[2].eval()  # type: ignore[index]
        return 1.0


class Extra(nn.Linear):
    """Has extra state that it hands out itself."""

    level = 1.0

    def get_extra_state(self) -> dict[str, float]:
        return {"level": self.level}

    def set_extra_state(self, state: dict[str, float]) -> None:
        self.level = state["level"]


class ExtraState(_Module):
    """A module with get_extra_state."""

    def make_model(self) -> nn.Module:
        return Extra(4, 3)

    def amount(self) -> float:
        self.model.level *= 1.1  # type: ignore[operator, assignment]
        return self.model.level  # type: ignore[return-value]


class DropoutRate(_Module):
    """A dropout whose rate is changed in training."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3))

    def amount(self) -> float:
        self.model[1].p *= 1.3  # type: ignore[index]
        return 1.0


class LazyModule(_Module):
    """A lazy layer, whose parameters get their shape in the first step."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(3))

    def evaluate(self) -> Mapping[str, float]:
        if isinstance(self.model[0], nn.LazyLinear):  # type: ignore[index]
            return {"loss": 0.0}
        return super().evaluate()


class TiedWeights(_Module):
    """Two layers that share a weight."""

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
        model[2].weight = model[0].weight
        return model


class TiedInTraining(_Module):
    """Two layers that share a weight from step 2 on."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 2:
            self.model[2].weight = self.model[0].weight  # type: ignore[index]
        return 1.0


class ModuleShared(_Module):
    """One layer at two places of a model, and on self."""

    def make_model(self) -> nn.Module:
        self.layer = nn.Linear(4, 4)
        return nn.Sequential(self.layer, nn.Tanh(), self.layer, nn.Linear(4, 3))

    def amount(self) -> float:
        self.layer.weight.data.mul_(0.9)
        return 1.0


class ModuleCycle(_Module):
    """A module that refers to its trainer, and to its parent."""

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 3))
        model[0].__dict__.update(parent=model, trainer=self)
        self.count = 0
        return model

    def amount(self) -> float:
        self.model[0].parent[0].trainer.count += 1  # type: ignore[index, union-attr]
        return self.count


class HiddenState(_Recurrent):
    """A recurrent state that is carried from step to step, detached."""

    def make_model(self) -> nn.Module:
        return nn.LSTMCell(4, 3)

    def start(self) -> None:
        self.hidden = (torch.zeros(32, 3), torch.zeros(32, 3))

    def fit(self, factor: float | Tensor = 1.0) -> None:
        super().fit(factor)
        self.hidden = tuple(part.detach() for part in self.model(self.x, self.hidden))  # type: ignore[assignment]

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x, self.hidden)[0], self.y)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.memory = nn.GRUCell(4, 3), None

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.cell(x, self.memory)
        if self.training:
            self.memory = hidden.detach()
        return hidden


class HiddenInModule(_Recurrent):
    """A recurrent state that the module itself keeps."""

    def make_model(self) -> nn.Module:
        return Remembering()


class Mean(nn.Module):
    """A metric as torchmetrics has them: tensors with defaults, added to by update."""

    def __init__(self) -> None:
        super().__init__()
        self.defaults: dict[str, Any] = {}
        self.updates, self.computed = 0, None
        for name in ("total", "weight"):
            self.defaults[name] = torch.zeros(())
            setattr(self, name, self.defaults[name].clone())

    def update(self, value: Tensor) -> None:
        self.updates, self.computed = self.updates + 1, None
        self.total = self.total + value
        self.weight = self.weight + 1

    def compute(self) -> Tensor:
        if self.computed is None:
            self.computed = self.total / self.weight
        return self.computed


class MetricObject(_Recurrent):
    """A metric object that collects over all steps, and scales the loss."""

    def start(self) -> None:
        self.metric = Mean()

    def amount(self) -> float:
        self.metric.update(self.loss().detach())
        return self.metric.compute().item() * self.metric.updates


class MetricOfLists(_Recurrent):
    """A metric object that collects tensors in lists, emptied at every third step."""

    def start(self) -> None:
        self.metric = {"losses": [], "epochs": 0}

    def amount(self) -> float:
        losses: Any = self.metric["losses"]
        losses.append(self.loss().detach())
        if len(losses) == 3:
            self.metric = {"losses": [], "epochs": self.metric["epochs"] + 1}  # type: ignore[operator]
        return 1.0 + torch.stack(losses).sum().item() + self.metric["epochs"]  # type: ignore[operator]
