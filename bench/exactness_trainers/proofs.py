"""What only a proof can tell: entropy, volatile things, libraries that draw numbers, and late effects."""

from __future__ import annotations

import os
import resource
import tempfile
import time
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xgboost

from exactness_trainers.base import Plain
from exactness_trainers.torch_base import Toy

_NOT_DETERMINISTIC = "is not deterministic"


class _Proved(Plain):
    cause = "found by proofs alone"
    expect = "named"
    found = "a library's own random numbers"


class Unseeded(_Proved):
    """Draws from a generator without a seed."""

    named = _NOT_DETERMINISTIC

    def amount(self) -> float:
        return float(np.random.default_rng().random())


class UnseededWeights(Toy):
    """A model whose weights are made from the system's entropy."""

    cause = "found by proofs alone"
    expect = "named"
    named = "not seeded"

    def start(self) -> None:
        generator = torch.Generator()
        generator.seed()
        with torch.no_grad():
            self.model.weight.normal_(generator=generator)  # type: ignore[operator, union-attr]


class ByIdentity(_Proved):
    """Goes by the addresses of objects."""

    named = _NOT_DETERMINISTIC

    def amount(self) -> float:
        return float(id([self]) % 1009)


class _Memory:
    """Counts, and forgets it when it is saved."""

    def __init__(self) -> None:
        self.count = 0

    def __getstate__(self) -> dict[str, int]:
        return {"count": 0}


class LateForgetful(_Proved):
    """What an object leaves out of its saved state, and training reads from its third step on."""

    named = "self.memory.count"

    def start(self) -> None:
        self.step, self.memory = 0, _Memory()

    def amount(self) -> float:
        self.step += 1
        self.memory.count += 1
        return self.memory.count if self.step > 2 else 1.0


class BoosterSubsampling(_Proved):
    """XGBoost draws the rows of each tree from a generator of its own, which no booster holds."""

    def prepare(self) -> None:
        rows = np.random.default_rng(5).normal(size=(64, 4))
        self.data = xgboost.DMatrix(rows, rows.sum(axis=1) ** 2)

    def start(self) -> None:
        self.booster = xgboost.Booster({"subsample": 0.5, "seed": self.seed, "nthread": 1}, [self.data])
        self.trees = 0

    def train(self) -> None:
        self.booster.set_param({"eta": self.lr})
        self.booster.update(self.data, self.trees)
        self.trees += 1

    def evaluate(self) -> Mapping[str, float]:
        error = self.booster.predict(self.data) - self.data.get_label()
        return {"loss": float(np.mean(error**2))}


class BoosterWhole(BoosterSubsampling):
    """XGBoost without random numbers."""

    expect = "exact"

    def start(self) -> None:
        super().start()
        self.booster.set_param({"subsample": 1.0})


class _Volatile(Plain):
    cause = "volatile things"
    expect = "volatile"

    def amount(self) -> float:
        return 1.0


class Started(_Volatile):
    """The time at which the trial began."""

    named = "self.started"

    def start(self) -> None:
        self.started = time.time_ns()


class Throughput(_Volatile):
    """Samples in a second, step by step."""

    named = "self.rates"

    def start(self) -> None:
        self.rates: list[float] = []

    def amount(self) -> float:
        self.rates.append(1 / time.perf_counter())
        return 1.0


class RunName(_Volatile):
    """A name of its own for every trial."""

    named = "self.name"

    def start(self) -> None:
        self.name = uuid.UUID(bytes=os.urandom(16)).hex


class TemporaryFolder(_Volatile):
    """A folder of its own for every trial."""

    named = "self.folder"

    def start(self) -> None:
        self.folder = tempfile.mkdtemp()


class SecondsMeasured(_Volatile):
    """A metric that no tuner needs."""

    named = "the metric 'seconds'"

    def evaluate(self) -> Mapping[str, float]:
        return {**super().evaluate(), "seconds": time.perf_counter()}


class WholeSeconds(_Volatile):
    """A clock that goes by whole seconds."""

    named = "self.at"

    def amount(self) -> float:
        self.at = int(time.time())
        return 1.0


class RoundedSeconds(_Volatile):
    """What a step takes, rounded, as an attribute and as a metric."""

    named = "seconds"

    def amount(self) -> float:
        began = time.perf_counter()
        time.sleep(0.005)
        self.seconds = round(time.perf_counter() - began, 3)
        return 1.0

    def evaluate(self) -> Mapping[str, float]:
        return {**super().evaluate(), "seconds": getattr(self, "seconds", 0.0)}


class PeakMemory(_Volatile):
    """The memory and the number of the process, one as an attribute and one as a metric."""

    named = "self.peak"
    found = "the metric 'seconds'"

    def amount(self) -> float:
        self.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return 1.0

    def evaluate(self) -> Mapping[str, float]:
        return {**super().evaluate(), "seconds": os.getpid()}


class HistoryNotSaved(_Volatile):
    """A state_dict without the history, which nothing reads."""

    named = "self.history"

    def start(self) -> None:
        self.history: list[float] = []

    def amount(self) -> float:
        self.history.append(self.value)
        return 1.0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "lr": self.lr}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self.value, self.lr = state["value"], state["lr"]


class Declared(Throughput):
    """Volatile things that the class declares."""

    expect = "exact"
    named = ""
    volatile = frozenset({"self.rates", "seconds"})

    def evaluate(self) -> Mapping[str, Any]:
        return {**super().evaluate(), "seconds": time.perf_counter()}
