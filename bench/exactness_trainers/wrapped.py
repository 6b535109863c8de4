"""Modules that are wrapped: parametrized, pruned, compiled, scripted, averaged."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from exactness_trainers.torch_base import Toy


class _Parametrized(Toy):
    cause = "parametrized and pruned modules"


class _Compiled(Toy):
    cause = "compiled and scripted modules"


class _Averaged(Toy):
    cause = "averaged copies"


class WeightNorm(_Parametrized):
    """The weight normalization of parametrizations."""

    def make_model(self) -> nn.Module:
        return parametrizations.weight_norm(nn.Linear(4, 3))


class OldWeightNorm(_Parametrized):
    """The weight normalization by a hook; from torch's older days."""

    def make_model(self) -> nn.Module:
        return torch.nn.utils.weight_norm(nn.Linear(4, 3))


class SpectralNorm(_Parametrized):
    """Spectral normalization, whose vectors move with every forward pass."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 3))


class OldSpectralNorm(_Parametrized):
    """Spectral normalization by a hook."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(torch.nn.utils.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 3))


class Orthogonal(_Parametrized):
    """An orthogonal weight."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(parametrizations.orthogonal(nn.Linear(4, 4)), nn.Linear(4, 3))


class Squared(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight * weight


class Counted(Squared):
    """Counts how often it is used, beside what it does."""

    calls = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(weight)


class OwnParametrization(_Parametrized):
    """A parametrization of one's own, registered in step 2."""

    parametrization: type[nn.Module] = Squared

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 2:
            parametrize.register_parametrization(self.model, "weight", self.parametrization())
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        return 1.0


class CountedParametrization(OwnParametrization):
    """The same, and it counts its uses: evaluate() changes that count."""

    expect = "named"
    named = "calls"
    parametrization = Counted


class Pruned(_Parametrized):
    """Weights that are pruned further in every second step."""

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step % 2:
            self.prune()
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        return 1.0

    def prune(self) -> None:
        scores = getattr(self.model, "weight_orig", self.model.weight).detach()
        prune.l1_unstructured(self.model, "weight", amount=2, importance_scores=scores)


class PrunedByLastCall(Pruned):
    """Pruned by the weights that the last call of the model in training computed."""

    def prune(self) -> None:
        prune.l1_unstructured(self.model, "weight", amount=2)


class CompiledModule(_Compiled):
    """A module under torch.compile."""

    def make_model(self) -> nn.Module:
        return torch.compile(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), backend="eager")  # type: ignore[return-value]


class CompiledInPlace(_Compiled):
    """A module that is compiled in place, beside a counter."""

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        model.compile(backend="eager")
        self.count = 0
        return model

    def amount(self) -> float:
        self.count += 1
        return self.count


class CompiledFunction(_Compiled):
    """A compiled local function over the model."""

    expect = "either"
    named = "forward"

    def start(self) -> None:
        model = self.model
        self.forward = torch.compile(lambda x: model(x).tanh(), backend="eager")

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.forward(self.x), self.y)


class Halving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.calls = 0
        self.register_buffer("scale", torch.ones(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
            self.scale.mul_(0.9)  # type: ignore[operator]
        return self.linear(x) * self.scale + 0.1 * self.calls


class Scripted(_Compiled):
    """A scripted module with a counter and a buffer that is not persistent."""

    expect = "either"
    named = "model"

    def make_model(self) -> nn.Module:
        return torch.jit.script(Halving())


class Traced(_Compiled):
    """A traced module."""

    expect = "either"
    named = "model"

    def make_model(self) -> nn.Module:
        return torch.jit.trace(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), torch.zeros(2, 4))


class DeepCopyAverage(_Averaged):
    """A deep copy of the model that follows it; evaluate measures the copy."""

    def start(self) -> None:
        self.average = copy.deepcopy(self.model).requires_grad_(False)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        super().fit(factor)
        for mean, parameter in zip(self.average.parameters(), self.model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.3)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": nn.functional.mse_loss(self.average(self.x), self.y).item()}


class StochasticAverage(DeepCopyAverage):
    """torch's AveragedModel with equal weights, from step 3 on."""

    def start(self) -> None:
        self.step = 0
        self.average = AveragedModel(self.model)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        Toy.fit(self, factor)
        self.step += 1
        if self.step > 2:
            self.average.update_parameters(self.model)


class ExponentialAverage(StochasticAverage):
    """torch's AveragedModel with exponential weights and buffers."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    def start(self) -> None:
        self.step = 0
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.7), use_buffers=True)


class AverageWithLambda(StochasticAverage):
    """torch's AveragedModel with a lambda that counts."""

    def start(self) -> None:
        self.step, calls = 0, [0]

        def average(mean: Tensor, value: Tensor, number: Any) -> Tensor:
            calls[0] += 1
            return mean + (value - mean) / (1 + calls[0])

        self.average = AveragedModel(self.model, avg_fn=average)


class BestKept(_Averaged):
    """The best model so far as an alias of the model, then as a copy."""

    def start(self) -> None:
        self.best, self.step = self.model, 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 3:
            self.best = copy.deepcopy(self.model)
        return 1.0

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.loss().item() + nn.functional.mse_loss(self.best(self.x), self.y).item()}


class BestStateDict(_Averaged):
    """A state_dict of the model, which is an alias of its weights, and a clone of one."""

    def start(self) -> None:
        self.live = self.model.state_dict()
        self.kept = {name: value.clone() for name, value in self.live.items()}

    def amount(self) -> float:
        self.kept["weight"].lerp_(self.live["weight"], 0.5)
        return 1.0 + self.kept["weight"].norm().item()
