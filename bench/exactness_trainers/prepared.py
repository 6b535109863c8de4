"""Data that prepare() leaves: in no checkpoint, the same for all trials, and not to be changed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import hippotune as hippo
from exactness_trainers.base import Plain
from exactness_trainers.torch_base import Toy, samples


class _Prepared(Toy):
    cause = "prepared data"

    def prepare(self) -> None:
        self.x, self.y = samples()

    def build(self) -> None:
        self.model = self.make_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.start()


class _PlainPrepared(Plain):
    cause = "prepared data"


class PreparedTensors(_Prepared):
    """Tensors that prepare leaves."""


class PreparedInObject(_Prepared):
    """Tensors in a dict in a tuple that prepare leaves."""

    def prepare(self) -> None:
        x, y = samples()
        self.data = ({"x": x}, [y])

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.data[0]["x"]), self.data[1][0])


class PreparedViews(_Prepared):
    """Views of prepared tensors that build and training keep on self."""

    def start(self) -> None:
        self.step, self.rows = 0, self.x[:8]

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.rows), self.y[: len(self.rows)])

    def amount(self) -> float:
        self.step += 1
        before, self.rows = self.rows, self.x[self.step : 8 + 2 * self.step]
        return 1.0 + before.abs().mean().item()


class PreparedShuffled(_Prepared):
    """An order over prepared data that training draws and keeps."""

    def start(self) -> None:
        self.order = torch.randperm(32)

    def amount(self) -> float:
        self.order = self.order[torch.randperm(32)]
        return 1.0 + self.x[self.order[0]].sum().item() / 10


class PreparedArrays(_PlainPrepared):
    """Arrays that prepare leaves, and views of them on self."""

    def prepare(self) -> None:
        self.table = np.random.default_rng(5).normal(size=(50, 4))

    def start(self) -> None:
        self.rows, self.step = self.table[::7], 0

    def amount(self) -> float:
        self.step += 1
        self.rows = self.rows[1:]
        return float(self.rows[0, 0] + self.table[self.step, 1])


class PreparedList(_PlainPrepared):
    """A list of texts that prepare leaves, one of which is kept on self."""

    def prepare(self) -> None:
        self.texts = [("ab" * number, [number]) for number in range(1, 30)]

    def start(self) -> None:
        self.current = self.texts[0]

    def amount(self) -> float:
        self.current = self.texts[self.texts.index(self.current) + 2]
        return len(self.current[0]) + self.current[1][0]


class PreparedByIdentity(_PlainPrepared):
    """Prepared objects that build and training refer to, compared by identity."""

    def prepare(self) -> None:
        self.words = [[number] for number in range(10)]

    def start(self) -> None:
        self.seen: list[list[int]] = []

    def amount(self) -> float:
        self.seen.append(self.words[len(self.seen)])
        return 1.0 + sum(one is other for one, other in zip(self.seen, self.words, strict=False))


class PreparedDataset(_Prepared):
    """A dataset that prepare leaves, a Subset of it and a DataLoader in build."""

    def prepare(self) -> None:
        super().prepare()
        self.dataset = TensorDataset(self.x, self.y)

    def start(self) -> None:
        self.part = Subset(self.dataset, list(range(0, 32, 2)))
        self.loader = DataLoader(self.part, batch_size=4, shuffle=True)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()


class PreparedLiveIterator(PreparedDataset):
    """A live iterator over a DataLoader of prepared data."""

    def start(self) -> None:
        self.loader = DataLoader(self.dataset, batch_size=4, shuffle=True)
        self.batches = iter(self.loader)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        x, y = next(self.batches)
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()


class PreparedHippoLoader(PreparedDataset):
    """A hippo.Loader over prepared data."""

    def start(self) -> None:
        self.loader = hippo.Loader(self.dataset, 6, seed=self.seed)


class PreparedTeacher(_Prepared):
    """A frozen model that prepare leaves; training asks it."""

    def prepare(self) -> None:
        super().prepare()
        self.teacher = nn.Linear(4, 3).requires_grad_(False)
        nn.init.constant_(self.teacher.weight, 0.3)
        nn.init.constant_(self.teacher.bias, 0.1)

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x), self.teacher(self.x))


class PreparedDraws(_Prepared):
    """prepare draws from the shared generators, as do build and training."""

    def prepare(self) -> None:
        super().prepare()
        self.noise = torch.rand(3) + random.random() + float(np.random.rand())

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x), self.y + self.noise)

    def amount(self) -> float:
        return 1.0 + random.random()


class PreparedLarge(_Prepared):
    """A large array that prepare leaves, and a tensor over its memory."""

    def prepare(self) -> None:
        super().prepare()
        self.large = np.arange(500_000, dtype=np.float32)
        self.rows = torch.from_numpy(self.large).view(-1, 4)

    def start(self) -> None:
        self.at = 0

    def amount(self) -> float:
        self.at += 1000
        return 1.0 + self.rows[self.at].sum().item() / 1e5


class PreparedFunction(_PlainPrepared):
    """A function over prepared data that build makes."""

    def prepare(self) -> None:
        self.table = {number: number**2 for number in range(100)}

    def start(self) -> None:
        table, count = self.table, 0

        def following() -> int:
            nonlocal count
            count += 1
            return table[count]

        self.following = following

    def amount(self) -> float:
        return self.following()


class PreparedChanged(_Prepared):
    """Prepared data that training writes to."""

    expect = "named"
    named = "x"

    def amount(self) -> float:
        self.x.mul_(1.05)
        return 1.0


class PreparedChangedByView(_Prepared):
    """Prepared data that training writes to through a view, by .data, from step 3 on."""

    expect = "named"
    named = "y"

    def start(self) -> None:
        self.step, self.row = 0, self.y[3]

    def amount(self) -> float:
        self.step += 1
        if self.step > 2:
            self.row.data.add_(0.5)
        return 1.0


class PreparedListChanged(_PlainPrepared):
    """A prepared list that training appends to."""

    expect = "named"
    named = "seen"

    def prepare(self) -> None:
        self.seen = [1]

    def amount(self) -> float:
        self.seen.append(len(self.seen))
        return sum(self.seen)


class PreparedArrayChanged(_PlainPrepared):
    """A prepared array that training sorts, a bit more in every step."""

    expect = "named"
    named = "table"

    def prepare(self) -> None:
        self.table = np.random.default_rng(5).normal(size=1000)

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        self.table[: 3 * self.step].sort()
        return float(self.table[1])


class PreparedRebound(_PlainPrepared):
    """A prepared attribute that training binds to something else."""

    expect = "either"
    named = "table"

    def prepare(self) -> None:
        self.table = [1.0, 2.0]

    def amount(self) -> float:
        self.table = [1.1 * number for number in self.table]
        return sum(self.table)


class PreparedGenerator(_PlainPrepared):
    """A prepared random generator that training draws from."""

    expect = "named"
    named = "generator"

    def prepare(self) -> None:
        self.generator = np.random.default_rng(3)

    def amount(self) -> float:
        return float(self.generator.random())


class PreparedCounter(_PlainPrepared):
    """A prepared object that counts, and a tokenizer's cache."""

    expect = "named"
    named = "tokenizer"

    def prepare(self) -> None:
        self.tokenizer: dict[str, Any] = {"cache": {}}

    def amount(self) -> float:
        cache = self.tokenizer["cache"]
        cache[len(cache)] = 2
        return sum(cache.values())


class LargeConstant(Plain):
    """A large array that build leaves and training never changes."""

    cause = "large constants"

    def start(self) -> None:
        self.table, self.at = np.arange(400_000.0), 0

    def amount(self) -> float:
        self.at += 7
        return float(self.table[self.at])


class LargeWrittenOnce(Plain):
    """A large array of which training changes one number, at step 4."""

    cause = "large constants"

    def start(self) -> None:
        self.table, self.step = np.zeros(400_000), 0

    def amount(self) -> float:
        self.step += 1
        if self.step == 4:
            self.table[333_333] = 5.0
        return 1.0 + float(self.table.max())

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.value}
