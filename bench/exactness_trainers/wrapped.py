"""Modules that are wrapped: parametrized, pruned, hooked, compiled, scripted, averaged."""

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


class _Hooked(Toy):
    cause = "hooks"


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
    """Counts how often it is used, beside what it does."""

    calls = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return weight * weight


class OwnParametrization(_Parametrized):
    """A parametrization of one's own, registered in step 2."""

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 2:
            parametrize.register_parametrization(self.model, "weight", Squared())
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        return 1.0


class Pruned(_Parametrized):
    """Weights that are pruned further in every second step."""

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step % 2:
            prune.l1_unstructured(self.model, "weight", amount=2)
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        return 1.0


class ForwardHook(_Hooked):
    """A forward hook that counts in a closure cell and scales the output."""

    def make_model(self) -> nn.Module:
        calls = 0

        def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            nonlocal calls
            if module.training:
                calls += 1
            return output * (1 + 0.1 * calls)

        model = nn.Linear(4, 3)
        model.register_forward_hook(hook)
        return model


class HookToSelf(_Hooked):
    """A forward hook that is a method of the trainer and keeps activations there."""

    def start(self) -> None:
        self.activations: list[Tensor] = []
        self.model.register_forward_hook(self.keep)

    def keep(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        if module.training:
            self.activations.append(output.detach().mean())

    def amount(self) -> float:
        return 1.0 + float(sum(self.activations, torch.zeros(())))


class HookInTraining(_Hooked):
    """A hook that is registered at step 2 and removed at step 5, by its handle."""

    def start(self) -> None:
        self.step, self.handle = 0, None

    def amount(self) -> float:
        self.step += 1
        if self.step == 2:
            self.handle = self.model.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 1.5,))
        if self.step == 5:
            assert self.handle is not None
            self.handle.remove()
        return 1.0


class BackwardHook(_Hooked):
    """A full backward hook that scales gradients by a counter on the module."""

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        model[1].seen = 0

        def hook(module: nn.Module, inputs: Any, outputs: Any) -> Any:
            module.seen += 1  # type: ignore[operator, assignment]
            return tuple(None if part is None else part * (1 + module.seen) for part in inputs)

        model[1].register_full_backward_hook(hook)
        return model


class OptimizerHook(_Hooked):
    """A hook before every step of the optimizer, with state in a closure."""

    def start(self) -> None:
        factor = [1.0]

        def hook(optimizer: Any, arguments: Any, named: Any) -> None:
            factor[0] *= 0.8
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad.mul_(factor[0])

        self.optimizer.register_step_pre_hook(hook)


class TensorHook(_Hooked):
    """A hook on a parameter: pickling loses it."""

    expect = "either"
    named = "model"

    def start(self) -> None:
        self.model.weight.register_hook(lambda gradient: gradient * 0.3)  # type: ignore[operator, union-attr]


class PostAccumulateHook(_Hooked):
    """A hook after gradients are accumulated, which trains the parameter there and then."""

    expect = "either"
    named = "model"

    def start(self) -> None:
        def hook(parameter: Tensor) -> None:
            assert parameter.grad is not None
            parameter.data.sub_(parameter.grad, alpha=0.05)

        for parameter in self.model.parameters():
            parameter.register_post_accumulate_grad_hook(hook)


class GlobalHook(_Hooked):
    """A hook for all modules of the process."""

    expect = "named"
    named = "hook"

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 2:
            nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output * 1.5)
        return 1.0


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
