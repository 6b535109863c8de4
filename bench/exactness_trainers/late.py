"""Changes that begin late, attributes that come and go, and objects that training makes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from exactness_trainers.base import Plain
from exactness_trainers.nested import Counter
from exactness_trainers.torch_base import Toy


class _Late(Plain):
    cause = "changes that begin late"

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        return self.late() if self.step > 3 else 1.0

    def late(self) -> float:
        raise NotImplementedError


class LateList(_Late):
    """A list of constants that changes from step 4 on."""

    def start(self) -> None:
        super().start()
        self.table = [float(number) for number in range(100)]

    def late(self) -> float:
        self.table[7] *= 1.5
        return self.table[7]


class LateObject(_Late):
    """An object that changes from step 4 on."""

    def start(self) -> None:
        super().start()
        self.counter = Counter()

    def late(self) -> float:
        return self.counter.next()


class LateAttribute(_Late):
    """An attribute that is there from step 4 on."""

    def late(self) -> float:
        self.bonus = getattr(self, "bonus", 1.0) * 2
        return self.bonus


class LateDeletion(_Late):
    """An attribute that is deleted at step 4."""

    def start(self) -> None:
        super().start()
        self.warmup: int | None = 3

    def late(self) -> float:
        if self.step == 4:
            del self.warmup
        return 2.0 + 5 * hasattr(self, "warmup")


class LateKind(_Late):
    """An attribute that is a number, then a string, then an object."""

    def start(self) -> None:
        super().start()
        self.thing: object = 1

    def late(self) -> float:
        self.thing = "abc" if isinstance(self.thing, int) else Counter()
        return 4.0 if isinstance(self.thing, str) else self.step

    def amount(self) -> float:
        return super().amount() + (2.5 if isinstance(self.thing, str) else 0)


class Rebound(Plain):
    """Attributes that are bound to new objects in every step, the old ones kept elsewhere."""

    cause = "attributes rebound"

    def start(self) -> None:
        self.now = Counter()
        self.before = self.now

    def amount(self) -> float:
        oldest, self.before, self.now = self.before, self.now, Counter()
        self.now.count = self.before.count + oldest.count + 2
        self.before.count += 1
        return self.now.count * self.before.count


class ComesAndGoes(Plain):
    """An attribute that is there at even steps only."""

    cause = "attributes rebound"

    def start(self) -> None:
        self.level = 1.0

    def amount(self) -> float:
        if hasattr(self, "flag"):
            del self.flag
            self.level += 2
        else:
            self.flag = True
        return self.level + hasattr(self, "flag")


class ByName(Plain):
    """Attributes whose names are made in training."""

    cause = "attributes rebound"

    def start(self) -> None:
        self.count = 0

    def amount(self) -> float:
        self.count += 1
        setattr(self, f"value_{self.count}", 3 * self.count)
        return sum(value for name, value in vars(self).items() if name.startswith("value_"))


class MadeInTraining(Plain):
    """Objects, closures and containers that the first step makes."""

    cause = "objects made in training"

    def amount(self) -> float:
        if not hasattr(self, "counters"):
            self.counters: defaultdict[str, Counter] = defaultdict(Counter)
        self.counters["a"].next()
        return self.counters["b"].next() + self.counters["a"].next()


class ModelMadeInTraining(Toy):
    """The model and its optimizer are made by the first step."""

    cause = "objects made in training"

    def build(self) -> None:
        super().build()
        del self.model
        self.lr = 0.1

    def setup(self, hp: Mapping[str, Any]) -> None:
        super().setup(hp)
        self.lr = hp["lr"]

    def fit(self, factor: float | torch.Tensor = 1.0) -> None:
        if not hasattr(self, "model"):
            self.model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        super().fit(factor)

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.loss().item() if hasattr(self, "model") else 0.0}


class OptimizerAnew(Toy):
    """A new optimizer of another kind from step 4 on."""

    cause = "objects made in training"

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 4:
            lr = self.optimizer.param_groups[0]["lr"]
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        return 1.0


class ModelReplaced(Toy):
    """The model is replaced by a wider one at step 3, and the old one kept as teacher."""

    cause = "objects made in training"

    def start(self) -> None:
        self.step, self.teacher = 0, None

    def amount(self) -> float:
        self.step += 1
        if self.step == 3:
            self.teacher = self.model
            self.model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
            self.optimizer = torch.optim.SGD(
                self.model.parameters(), lr=self.optimizer.param_groups[0]["lr"], momentum=0.9
            )
        return 1.0

    def loss(self) -> torch.Tensor:
        loss = super().loss()
        if self.teacher is not None:
            loss = loss + nn.functional.mse_loss(self.model(self.x), self.teacher(self.x).detach())
        return loss


class LateParameterWrite(Toy):
    """A frozen part of the model is written to from step 4 on."""

    cause = "changes that begin late"

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        model[0].requires_grad_(False)
        return model

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step > 3:
            with torch.no_grad():
                self.model[0].weight.mul_(1.1)  # type: ignore[index]
        return 1.0


class LateUnfreezing(Toy):
    """Parameters whose requires_grad changes at step 3."""

    cause = "changes that begin late"

    def make_model(self) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        model[0].requires_grad_(False)
        return model

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 3:
            self.model.requires_grad_(True)
        return 1.0
