"""Hooks on modules, optimizers and tensors, with state in closures."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Hooked(Toy):
    cause = "hooks"


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
    found = "a global, a class attribute, a file, the environment"

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 2:
            nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output * 1.5)
        return 1.0
