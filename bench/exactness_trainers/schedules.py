"""Learning-rate schedulers of torch inside train, and mixed precision."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import lr_scheduler

from exactness_trainers.torch_base import Toy


class _Schedule(Toy):
    cause = "schedulers and mixed precision"

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def start(self) -> None:
        self.scheduler = self.make_scheduler()

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        raise NotImplementedError

    def fit(self, factor: float | Tensor = 1.0) -> None:
        super().fit(factor)
        self.scheduler.step()


class StepSchedule(_Schedule):
    """StepLR."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        return lr_scheduler.StepLR(self.optimizer, 5, 0.1)


class OneCycleSchedule(_Schedule):
    """OneCycleLR, which also moves the momentum."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        return lr_scheduler.OneCycleLR(self.optimizer, 0.3, total_steps=20)


class PlateauSchedule(_Schedule):
    """ReduceLROnPlateau, which keeps the best loss and counts bad steps."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        return lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=1, factor=0.5)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        Toy.fit(self, factor)
        self.bad = getattr(self, "bad", 0) + 1
        self.scheduler.step(self.bad)


class LambdaSchedule(_Schedule):
    """LambdaLR with a lambda over a list that training changes."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        factors = [0.1]
        self.factors = factors
        return lr_scheduler.LambdaLR(self.optimizer, lambda step: factors[-1] * (1 + step))

    def amount(self) -> float:
        self.factors.append(self.factors[-1] * 0.9)
        return 1.0


class SequentialSchedule(_Schedule):
    """SequentialLR: a warm-up, then a decay."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        warmup = lr_scheduler.LinearLR(self.optimizer, 0.2, total_iters=3)
        decay = lr_scheduler.ExponentialLR(self.optimizer, 0.7)
        return lr_scheduler.SequentialLR(self.optimizer, [warmup, decay], milestones=[3])


class ChainedSchedule(_Schedule):
    """Two schedulers at once, one of them with restarts."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        restarts = lr_scheduler.CosineAnnealingWarmRestarts(self.optimizer, 3)
        decay = lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        return lr_scheduler.ChainedScheduler([restarts, decay])


class CyclicSchedule(_Schedule):
    """CyclicLR, which keeps a weak reference to its own method."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        return lr_scheduler.CyclicLR(self.optimizer, 0.01, 0.3, step_size_up=2, mode="exp_range", gamma=0.9)


class ScalerOff(_Schedule):
    """A GradScaler that is switched off."""

    def make_scheduler(self) -> lr_scheduler.LRScheduler:
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        return lr_scheduler.StepLR(self.optimizer, 5, 0.1)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        self.scaler.scale(self.loss() * factor).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()


class ScalerOn(Toy):
    """A GradScaler whose scale grows at every second step."""

    cause = "schedulers and mixed precision"

    def start(self) -> None:
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2, growth_factor=4.0)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        self.scaler.scale(self.loss() * (1 + self.scaler.get_scale())).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


class AutocastBf16(Toy):
    """Forward passes in bfloat16 by autocast, with Adam in float32."""

    cause = "schedulers and mixed precision"

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=0.1)

    def loss(self) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().loss()


class HalfWeights(Toy):
    """Weights in bfloat16 with master weights in float32 in a list."""

    cause = "schedulers and mixed precision"

    def start(self) -> None:
        self.masters = [parameter.detach().clone() for parameter in self.model.parameters()]
        self.model.bfloat16()

    def loss(self) -> Tensor:
        return torch.nn.functional.mse_loss(self.model(self.x.bfloat16()).float(), self.y)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.model.zero_grad()
        self.loss().backward()
        lr = self.optimizer.param_groups[0]["lr"]
        for master, parameter in zip(self.masters, self.model.parameters(), strict=True):
            assert parameter.grad is not None
            master.sub_(parameter.grad.float(), alpha=lr)
            parameter.data.copy_(master)
