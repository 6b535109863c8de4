"""Models and optimizers inside other objects, where no list of attributes finds them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy, samples


class Agent:
    """A model with its optimizer."""

    def __init__(self) -> None:
        self.model = nn.Linear(4, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def learn(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        self.optimizer.step()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mse_loss(self.model(x), y)


class SlotsAgent(Agent):
    """Has its dict from its base, and a slot."""

    __slots__ = ("steps",)


@dataclass
class State:
    agent: Agent
    losses: list[Tensor] = field(default_factory=list)


class _Agent(Toy):
    cause = "models in other objects"

    def build(self) -> None:
        self.x, self.y = samples()
        self.start()

    def agents(self) -> list[Agent]:
        raise NotImplementedError

    def setup(self, hp: Mapping[str, Any]) -> None:
        for agent in self.agents():
            self.set_group(agent.optimizer, **hp)

    def train(self) -> None:
        for agent in self.agents():
            agent.learn(self.x, self.y)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": sum(agent.loss(self.x, self.y).item() for agent in self.agents())}


class AgentObject(_Agent):
    """Model and optimizer in a plain object."""

    def start(self) -> None:
        self.agent = Agent()

    def agents(self) -> list[Agent]:
        return [self.agent]


class AgentsInList(_Agent):
    """Two of them in a list in a dict, the second from step 3 on."""

    def start(self) -> None:
        self.team: dict[str, list[Agent]] = {"agents": [Agent()]}
        self.step, self.lr = 0, 0.1

    def agents(self) -> list[Agent]:
        return self.team["agents"]

    def setup(self, hp: Mapping[str, Any]) -> None:
        super().setup(hp)
        self.lr = hp["lr"]

    def train(self) -> None:
        self.step += 1
        if self.step == 3:
            self.team["agents"].append(Agent())
            self.set_group(self.agents()[-1].optimizer, lr=self.lr)
        super().train()


class AgentInDataclass(_Agent):
    """One in a dataclass that collects losses as tensors."""

    def start(self) -> None:
        self.state = State(Agent())

    def agents(self) -> list[Agent]:
        return [self.state.agent]

    def train(self) -> None:
        super().train()
        self.state.losses.append(self.state.agent.loss(self.x, self.y).detach())

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(sum(self.state.losses, torch.zeros(())))}


class AgentInClosure(_Agent):
    """One in a closure cell."""

    def start(self) -> None:
        agent = Agent()
        self.read = lambda: agent

    def agents(self) -> list[Agent]:
        return [self.read()]


class AgentWithSlots(_Agent):
    """One with a slot that counts its steps."""

    def start(self) -> None:
        self.agent = SlotsAgent()
        self.agent.steps = 0

    def agents(self) -> list[Agent]:
        return [self.agent]

    def train(self) -> None:
        self.agent.steps += 1
        for _ in range(1 + self.agent.steps % 2):
            super().train()


class AgentByMethod(_Agent):
    """One that is known by a bound method only."""

    def start(self) -> None:
        self.learn = Agent().learn

    def agents(self) -> list[Agent]:
        return [self.learn.__self__]


class ModelAndAgent(_Agent):
    """A model on self and the same one in an object, whose optimizer trains it."""

    def start(self) -> None:
        self.agent = Agent()
        self.model = self.agent.model

    def agents(self) -> list[Agent]:
        return [self.agent]

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": nn.functional.mse_loss(self.model(self.x), self.y).item()}


class WeakAgent(_Agent):
    """A model that is referred to weakly by an object on self."""

    def start(self) -> None:
        self.agent = Agent()
        self.watcher = {"model": weakref.ref(self.agent.model)}

    def agents(self) -> list[Agent]:
        return [self.agent]

    def evaluate(self) -> Mapping[str, float]:
        model = self.watcher["model"]()
        return {"loss": -1.0 if model is None else nn.functional.mse_loss(model(self.x), self.y).item()}


class FunctionalParameters(_Agent):
    """Parameters as a dict of tensors, without a module or an optimizer of torch."""

    def start(self) -> None:
        self.parameters = {"weight": torch.zeros(3, 4), "bias": torch.zeros(3)}
        self.momentum = {name: torch.zeros_like(value) for name, value in self.parameters.items()}

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def predicted(self, parameters: dict[str, Tensor]) -> Tensor:
        return self.x @ parameters["weight"].T + parameters["bias"]

    def train(self) -> None:
        leaves = {name: value.requires_grad_() for name, value in self.parameters.items()}
        loss = nn.functional.mse_loss(self.predicted(leaves), self.y)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        for (name, value), gradient in zip(leaves.items(), gradients, strict=True):
            self.momentum[name] = 0.9 * self.momentum[name] + gradient
            self.parameters[name] = (value - self.lr * self.momentum[name]).detach()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": nn.functional.mse_loss(self.predicted(self.parameters), self.y).item()}
