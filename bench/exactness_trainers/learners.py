"""Small versions of what people train: reinforcement learning, adversaries, autoencoders, distillation."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Learner(Toy):
    cause = "whole learners"


class Transition(NamedTuple):
    state: Tensor
    action: int
    reward: float
    after: Tensor


class Walk:
    """A walk on a line; the further, the better."""

    def __init__(self) -> None:
        self.place, self.moves = 0, 0

    def state(self) -> Tensor:
        return torch.tensor([self.place / 5, self.moves / 8, 1.0, float(self.place > 0)])

    def move(self, action: int) -> tuple[float, Tensor]:
        self.place, self.moves = self.place + action - 1, self.moves + 1
        if self.moves == 8:
            self.place, self.moves = 0, 0
        return self.place / 5, self.state()


class DeepQLearning(_Learner):
    """A replay buffer, a target network that follows at every third step, an environment and exploration."""

    def start(self) -> None:
        self.target = copy.deepcopy(self.model)
        self.buffer: deque[Transition] = deque(maxlen=20)
        self.walk, self.epsilon, self.step = Walk(), 0.9, 0

    def train(self) -> None:
        self.step += 1
        for _ in range(5):
            state = self.walk.state()
            explore = random.random() < self.epsilon
            action = random.randrange(3) if explore else int(self.model(state).argmax())
            reward, after = self.walk.move(action)
            self.buffer.append(Transition(state, action, reward, after))
        batch = random.sample(list(self.buffer), 4)
        values = torch.stack([self.model(item.state)[item.action] for item in batch])
        with torch.no_grad():
            aims = torch.stack([item.reward + 0.9 * self.target(item.after).max() for item in batch])
        self.optimizer.zero_grad()
        nn.functional.mse_loss(values, aims).backward()
        self.optimizer.step()
        self.epsilon *= 0.9
        if self.step % 3 == 0:
            self.target.load_state_dict(self.model.state_dict())


class PolicyGradient(_Learner):
    """REINFORCE with a running baseline and an environment that goes on between steps."""

    def start(self) -> None:
        self.walk, self.baseline = Walk(), 0.0

    def train(self) -> None:
        terms = []
        for _ in range(5):
            policy = torch.distributions.Categorical(logits=self.model(self.walk.state()))
            action = policy.sample()
            reward, _ = self.walk.move(int(action))
            terms.append(-policy.log_prob(action) * (reward - self.baseline))
            self.baseline = 0.9 * self.baseline + 0.1 * reward
        self.optimizer.zero_grad()
        torch.stack(terms).sum().backward()
        self.optimizer.step()


class Adversaries(_Learner):
    """A generator and a discriminator with an optimizer each, and noise."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        self.critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        self.second = torch.optim.Adam(self.critic.parameters(), lr=0.1)
        return torch.optim.Adam(self.model.parameters(), lr=0.1)

    def train(self) -> None:
        made = self.model(torch.randn(8, 4))
        self.second.zero_grad()
        (self.critic(made.detach()).mean() - self.critic(self.y[:8]).tanh().mean()).backward()
        self.second.step()
        self.optimizer.zero_grad()
        (-self.critic(made).mean()).backward()
        self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.critic(self.model(self.x)).mean().item()}


class VariationalAutoencoder(_Learner):
    """An autoencoder that draws its codes, with a weight of its prior that grows."""

    def make_model(self) -> nn.Module:
        return nn.ModuleDict({"encoder": nn.Linear(4, 4), "decoder": nn.Linear(2, 4)})

    def start(self) -> None:
        self.beta = 0.01

    def amount(self) -> float:
        self.beta *= 1.5
        return 1.0

    def loss(self) -> Tensor:
        mean, spread = self.model["encoder"](self.x).chunk(2, dim=1)  # type: ignore[index]
        code = mean + torch.randn_like(mean) * (spread / 2).exp()
        prior = (mean.pow(2) + spread.exp() - spread - 1).mean()
        decoded = self.model["decoder"](code)  # type: ignore[index]
        return nn.functional.mse_loss(decoded, self.x) + self.beta * prior


class MeanTeacher(_Learner):
    """A teacher that follows its student, and a memory bank of outputs."""

    def start(self) -> None:
        self.teacher = copy.deepcopy(self.model)
        self.bank, self.at = torch.zeros(6, 3), 0

    def fit(self, factor: float | Tensor = 1.0) -> None:
        super().fit(factor)
        with torch.no_grad():
            for mean, parameter in zip(self.teacher.parameters(), self.model.parameters(), strict=True):
                mean.lerp_(parameter, 0.2)
            self.bank[self.at % 6] = self.teacher(self.x).mean(0)
        self.at += 2

    def loss(self) -> Tensor:
        aims = self.teacher(self.x).detach() + self.bank.mean(0)
        return super().loss() + nn.functional.mse_loss(self.model(self.x), aims)


class Contrastive(_Learner):
    """A queue of negative keys with a pointer, as in momentum contrast."""

    def make_model(self) -> nn.Module:
        model = nn.Linear(4, 3)
        model.register_buffer("queue", torch.randn(12, 3), persistent=False)
        model.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        return model

    def loss(self) -> Tensor:
        out = self.model(self.x[:4])
        logits = torch.cat([(out * self.y[:4]).sum(1, keepdim=True), out @ self.model.queue.T], dim=1)  # type: ignore
        return nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long))

    def fit(self, factor: float | Tensor = 1.0) -> None:
        super().fit(factor)
        queue: Any = self.model.queue
        pointer: Any = self.model.pointer
        queue[int(pointer) : int(pointer) + 4] = self.model(self.x[4:8]).detach()
        pointer.copy_((pointer + 4) % 12)


class EarlyStopping(_Learner):
    """Training that stops itself: best loss, patience, and the best weights kept."""

    def start(self) -> None:
        self.best, self.patience, self.stopped = float("inf"), 4, False
        self.weights: dict[str, Tensor] = {}

    def train(self) -> None:
        if self.stopped:
            return
        self.fit()
        loss = self.loss().item()
        if loss < self.best - 0.5:
            self.best, self.patience = loss, 4
            self.weights = copy.deepcopy(self.model.state_dict())
        else:
            self.patience -= 1
            self.stopped = self.patience == 0
            if self.stopped and self.weights:
                self.model.load_state_dict(self.weights)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.loss().item(), "patience": self.patience}


class PopulationOfModels(_Learner):
    """A list of models; the worst is replaced by a mutation of the best in every step."""

    def start(self) -> None:
        self.population = [copy.deepcopy(self.model) for _ in range(4)]
        for number, model in enumerate(self.population):
            model.weight.data.mul_(1 + number / 4)  # type: ignore[union-attr, operator]

    def train(self) -> None:
        rate = self.optimizer.param_groups[0]["lr"]
        with torch.no_grad():
            score = {model: nn.functional.mse_loss(model(self.x), self.y).item() for model in self.population}
            self.population.sort(key=score.__getitem__)
            child = copy.deepcopy(self.population[0])
            for parameter in child.parameters():
                parameter.mul_(0.8).add_(torch.randn_like(parameter), alpha=rate / 10)
            self.population[-1] = child

    def evaluate(self) -> Mapping[str, float]:
        losses = [nn.functional.mse_loss(model(self.x), self.y).item() for model in self.population]
        return {"loss": sum(losses), "best": min(losses)}
