"""Optimizers of torch, and writes that the versions of tensors do not count."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Optimizer(Toy):
    cause = "optimizers"


class _Unseen(Toy):
    cause = "fused optimizers and .data writes"


class Momentum(_Optimizer):
    """SGD with Nesterov momentum."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, nesterov=True)


class AdamAmsgrad(_Optimizer):
    """AdamW with amsgrad."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=0.1, amsgrad=True)


class LimitedMemory(_Optimizer):
    """LBFGS, whose history is in its state."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=3, history_size=4)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        def closure() -> Tensor:
            self.optimizer.zero_grad()
            loss = self.loss() * factor
            loss.backward()
            return loss

        self.optimizer.step(closure)


class Averaging(_Optimizer):
    """ASGD, whose averages are evaluated."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.ASGD(self.model.parameters(), lr=0.1, t0=1)

    def evaluate(self) -> Mapping[str, float]:
        averages = [state["ax"].norm() for state in self.optimizer.state.values() if "ax" in state]
        return {"loss": self.loss().item() + float(sum(averages, torch.zeros(())))}


class ResilientPropagation(_Optimizer):
    """Rprop, whose step sizes start from the learning rate."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Rprop(self.model.parameters(), lr=0.1)


class Adagrad(_Optimizer):
    """Adagrad, whose state is there before the first step."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(self.model.parameters(), lr=0.1, lr_decay=0.1)


class RectifiedAdam(_Optimizer):
    """RAdam, which behaves otherwise from its sixth step on."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.RAdam(self.model.parameters(), lr=0.1, betas=(0.9, 0.99))


class NesterovAdam(_Optimizer):
    """NAdam, with a product of momenta as a tensor."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.NAdam(self.model.parameters(), lr=0.1)


class Adafactor(_Optimizer):
    """Adafactor, with rows and columns of second moments."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adafactor(self.model.parameters(), lr=0.1)


class MuonAndAdam(_Optimizer):
    """Muon for the weights and Adam for the biases."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        self.second = torch.optim.Adam([self.model.bias], lr=0.1)  # type: ignore[list-item]
        return torch.optim.Muon([self.model.weight], lr=0.1)  # type: ignore[list-item]

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.second.zero_grad()
        super().fit(factor)
        self.second.step()


class Centred(_Optimizer):
    """RMSprop, centred and with momentum."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(self.model.parameters(), lr=0.1, centered=True, momentum=0.5)


class AdadeltaAndAdamax(_Optimizer):
    """Adadelta and Adamax on different layers."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))

    def make_optimizer(self) -> torch.optim.Optimizer:
        self.second = torch.optim.Adamax(self.model[0].parameters(), lr=0.1)  # type: ignore[index]
        return torch.optim.Adadelta(self.model[1].parameters(), lr=0.1)  # type: ignore[index]

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.second.zero_grad()
        super().fit(factor)
        self.second.step()


class SparseEmbedding(_Optimizer):
    """SparseAdam on an embedding with sparse gradients."""

    def make_model(self) -> nn.Module:
        return nn.Embedding(6, 3, sparse=True)

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SparseAdam(self.model.parameters(), lr=0.1)

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        return 1.0

    def loss(self) -> Tensor:
        places = torch.arange(32) % (2 + self.step % 4)
        return nn.functional.mse_loss(self.model(places), self.y)


class TensorLearningRate(_Optimizer):
    """Adam with the learning rate as a tensor."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        rate = torch.tensor(0.1)
        self.rate = rate
        return torch.optim.Adam(self.model.parameters(), lr=rate)

    def amount(self) -> float:
        self.rate.mul_(0.9)
        return 1.0


class GroupsOfTheirOwn(_Optimizer):
    """Parameter groups with fields that training changes."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        weight, bias = self.model.parameters()
        groups = [{"params": [weight], "scale": 1.0}, {"params": [bias], "weight_decay": 0.1, "scale": 2.0}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9)

    def amount(self) -> float:
        for group in self.optimizer.param_groups:
            group["scale"] *= 1.2
            group["weight_decay"] += 0.01
        return self.optimizer.param_groups[1]["scale"]


class ForeachOptimizer(_Unseen):
    """SGD by foreach kernels."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, foreach=True)


class FusedAdam(_Unseen):
    """A fused Adam."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=0.1, fused=True)


class FusedSGD(_Unseen):
    """A fused SGD with momentum."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, fused=True)


class DataWrites(_Unseen):
    """A buffer that is written by .data, which its version does not count."""

    def start(self) -> None:
        self.scale = torch.ones(3)

    def amount(self) -> float:
        self.scale.data.mul_(1.2)
        return self.scale.sum().item()


class DataWritesToWeights(_Unseen):
    """A frozen layer that is written by .data."""

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        model[0].requires_grad_(False)
        return model

    def amount(self) -> float:
        self.model[0].weight.data *= 1.1  # type: ignore[index]
        return 1.0


class DataReplaced(_Unseen):
    """Weights whose .data is replaced by another tensor."""

    def amount(self) -> float:
        self.model.weight.data = self.model.weight.data * 0.9  # type: ignore[operator, union-attr]
        return 1.0


class NumpyWrites(_Unseen):
    """A tensor that is written through the array that numpy() returned."""

    def start(self) -> None:
        self.scale = torch.ones(3)
        self.array = self.scale.numpy()

    def amount(self) -> float:
        self.array *= 1.2
        return self.scale.sum().item()
