"""evaluate(): harmless where it draws numbers or switches modes, named where it changes the state."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from exactness_trainers.base import Plain
from exactness_trainers.torch_base import Toy


class _Evaluation(Plain):
    cause = "evaluate with side effects"
    expect = "named"

    def start(self) -> None:
        self.count = 1

    def amount(self) -> float:
        return self.count


class _TorchEvaluation(Toy):
    cause = "evaluate with side effects"
    expect = "named"


class EvaluationCounts(_Evaluation):
    """evaluate advances a counter that training reads."""

    named = "count"

    def evaluate(self) -> Mapping[str, float]:
        self.count += 1
        return super().evaluate()


class EvaluationAppends(_Evaluation):
    """evaluate appends to a history that training reads."""

    named = "history"

    def start(self) -> None:
        self.history: list[float] = []

    def amount(self) -> float:
        return 1.0 + len(self.history)

    def evaluate(self) -> Mapping[str, float]:
        self.history.append(self.value)
        return super().evaluate()


class EvaluationKeepsBest(_Evaluation):
    """evaluate keeps the best value so far, which it reports."""

    named = "best"

    def start(self) -> None:
        self.best, self.step = 100.0, 0

    def amount(self) -> float:
        self.step += 1
        return -1.0 if self.step in (2, 3) else 1.0

    def evaluate(self) -> Mapping[str, float]:
        self.best = min(self.best, self.value)
        return {"loss": self.best}


class EvaluationSharesIterator(_Evaluation):
    """evaluate takes samples from the iterator that training takes them from."""

    named = "samples"

    def start(self) -> None:
        self.samples = iter([float(number) for number in range(100)])

    def amount(self) -> float:
        return next(self.samples)

    def evaluate(self) -> Mapping[str, float]:
        next(self.samples)
        return super().evaluate()


class EvaluationDrawsFromOwn(_Evaluation):
    """evaluate draws from a generator of its own that training draws from too."""

    named = "generator"

    def start(self) -> None:
        self.generator = np.random.default_rng(3)

    def amount(self) -> float:
        return float(self.generator.random())

    def evaluate(self) -> Mapping[str, float]:
        self.generator.random()
        return super().evaluate()


class EvaluationResetsMetric(_Evaluation):
    """evaluate reports the mean over the steps since the last evaluation, and starts it anew."""

    named = "sums"

    def start(self) -> None:
        self.sums = [0.0, 0]

    def amount(self) -> float:
        self.sums[0] += self.value + 1
        self.sums[1] += 1
        return self.sums[0]

    def evaluate(self) -> Mapping[str, float]:
        mean = self.sums[0] / max(self.sums[1], 1)
        self.sums = [0.0, 0]
        return {"loss": mean + self.value}


class EvaluationDraws(_Evaluation):
    """evaluate draws from the shared generators, which are put back."""

    expect = "exact"

    def amount(self) -> float:
        return random.random() + np.random.rand()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.value + random.random() + np.random.normal()}


class EvaluationDrawsFromTorch(_TorchEvaluation):
    """evaluate draws from torch's generator, which is put back; training draws too."""

    expect = "exact"

    def amount(self) -> float:
        return 1.0 + torch.rand(()).item()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": (self.loss() + torch.randn(())).item()}


class EvaluationScratch(_Evaluation):
    """evaluate keeps its last result on self, which nothing reads."""

    expect = "either"
    named = "last"

    def amount(self) -> float:
        self.count += 1
        return self.count

    def evaluate(self) -> Mapping[str, float]:
        self.last = self.value
        return {"loss": self.last}


class EvaluationRunningStatistics(_TorchEvaluation):
    """evaluate puts the model into training mode: its running statistics move."""

    named = "model"

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    def amount(self) -> float:
        return 1.0 + self.model[1].running_mean.abs().sum().item()  # type: ignore[index]

    def evaluate(self) -> Mapping[str, float]:
        self.model.train()
        loss = self.loss().item()
        self.model.eval()
        return {"loss": loss}


class EvaluationSwitchesMode(_TorchEvaluation):
    """evaluate switches modes of modules itself; train switches them back."""

    expect = "exact"

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Linear(4, 3))

    def amount(self) -> float:
        self.model.train()
        return 1.0

    def evaluate(self) -> Mapping[str, float]:
        self.model.eval()
        return {"loss": self.loss().item()}


class EvaluationWritesWeights(_TorchEvaluation):
    """evaluate rounds the weights in place."""

    named = "model"

    def evaluate(self) -> Mapping[str, float]:
        self.model.weight.data.mul_(0.9)  # type: ignore[union-attr, operator]
        return {"loss": self.loss().item()}


class EvaluationSwapsWeights(_TorchEvaluation):
    """evaluate puts averaged weights in for a moment, and the trained ones back."""

    expect = "exact"

    def start(self) -> None:
        self.average = [parameter.detach().clone() for parameter in self.model.parameters()]

    def fit(self, factor: float | torch.Tensor = 1.0) -> None:
        super().fit(factor)
        for mean, parameter in zip(self.average, self.model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.5)

    def evaluate(self) -> Mapping[str, float]:
        trained = [parameter.detach().clone() for parameter in self.model.parameters()]
        for mean, parameter in zip(self.average, self.model.parameters(), strict=True):
            parameter.data.copy_(mean)
        loss = self.loss().item()
        for before, parameter in zip(trained, self.model.parameters(), strict=True):
            parameter.data.copy_(before)
        return {"loss": loss}


class EvaluationRecurrent(_TorchEvaluation):
    """evaluate carries the recurrent state on, from which training goes on."""

    named = "hidden"

    def make_model(self) -> nn.Module:
        return nn.RNNCell(4, 3)

    def start(self) -> None:
        self.hidden = torch.zeros(32, 3)

    def loss(self) -> torch.Tensor:
        hidden = self.model(self.x, self.hidden)
        self.hidden = hidden.detach()
        return nn.functional.mse_loss(hidden, self.y)
