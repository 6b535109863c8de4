"""Small trainers that keep every sort of state, and what is needed to compare states bit for bit."""

from __future__ import annotations

import io
import json
import random
import re
from collections import deque
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import Dataset

from hippotune.sequences.config import Config
from hippotune.trainers import seeding
from hippotune.trainers.base import Trainer
from hippotune.trainers.session import Session
from hippotune.trainers.state import walk
from hippotune.trainers.torch.loader import Loader
from hippotune.trainers.torch.trainer import TorchTrainer

torch.set_num_threads(1)  # the models are too small for more

EMA = get_ema_multi_avg_fn(0.9)  # type: ignore[no-untyped-call]
OPTIMIZERS: dict[str, Any] = {"sgd": torch.optim.SGD, "adam": torch.optim.AdamW}


class Images(Dataset[Any]):
    """Random images with augmentation that draws from every shared generator."""

    def __init__(self, count: int = 40) -> None:
        generator = torch.Generator().manual_seed(1)
        self.images = torch.rand(count, 1, 6, 6, generator=generator)
        self.labels = torch.randint(0, 3, (count,), generator=generator)
        self.noise = 0.1

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.images[index] * random.uniform(0.9, 1.1) + float(np.random.normal(0, 0.1))
        return image + self.noise * torch.randn(1, 6, 6), self.labels[index]


class Convolutional(TorchTrainer):
    """Batch norm, dropout, an averaged model, generators of its own and counters; a step is three batches."""

    def prepare(self) -> None:
        self.images = Images()

    def build(self) -> None:
        self.data = copy(self.images)  # its noise is a hyper-parameter
        self.loader = Loader(self.data, 8, seed=self.seed, num_workers=self.settings.get("num_workers", 0))
        self.model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, 3)
        ).to(self.device)
        self.average = AveragedModel(self.model, multi_avg_fn=EMA, use_buffers=True)
        self.generators: dict[str, Any] = {
            "numpy": np.random.default_rng(3),
            "torch": torch.Generator().manual_seed(4),
        }
        self.losses: list[float] = []
        self.recent: deque[float] = deque(maxlen=4)
        self.count = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        if "optimizer" in hp:
            self.optimizer = OPTIMIZERS[rest.pop("optimizer")](self.model.parameters(), lr=0.1)
        if "noise" in hp:
            self.data.noise = rest.pop("noise")
        super().setup(rest)

    def train(self) -> None:
        for images, labels in self.loader.batches(3):
            self.optimizer.zero_grad()
            shift = self.generators["numpy"].normal(0, 0.01) + random.random() * 0.01
            shake = torch.rand(1, generator=self.generators["torch"]) * 0.01
            loss = nn.functional.cross_entropy(self.model(images + shift + shake), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.average.update_parameters(self.model)
            self.count += len(images)
            self.losses.append(loss.item())
            self.recent.append(loss.item())

    def evaluate(self) -> Mapping[str, float]:
        scores = self.model(self.data.images) + self.average(self.data.images)
        noise = torch.rand(()) + random.random() + np.random.rand()  # the generators are put back
        return {"loss": nn.functional.cross_entropy(scores, self.data.labels).item(), "noise": noise.item()}


class Recurrent(TorchTrainer):
    """A character model whose hidden state is carried on from step to step."""

    def prepare(self) -> None:
        self.text = torch.randint(0, 7, (400,), generator=torch.Generator().manual_seed(2))

    def build(self) -> None:
        self.embedding = nn.Embedding(7, 6)
        self.cell = nn.GRU(6, 6)
        self.temperature = nn.Parameter(torch.ones(()))
        self.optimizer = torch.optim.Adam(
            [*self.embedding.parameters(), *self.cell.parameters(), self.temperature], lr=0.01
        )
        self.hidden: Tensor | None = None
        self.place = 0
        self.length = 5

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        self.length = int(rest.pop("length", self.length))
        super().setup(rest)

    def train(self) -> None:
        piece = self.text[self.place : self.place + self.length + 1]
        self.place = (self.place + self.length) % 300
        self.optimizer.zero_grad()
        output, hidden = self.cell(nn.functional.dropout(self.embedding(piece[:-1]), 0.2), self.hidden)
        scores = output @ self.embedding.weight.T * self.temperature
        nn.functional.cross_entropy(scores, piece[1:]).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.hidden = hidden.detach()

    def evaluate(self) -> Mapping[str, float]:
        output, _ = self.cell(self.embedding(self.text[:50]), self.hidden)
        scores = output @ self.embedding.weight.T * self.temperature
        return {"loss": nn.functional.cross_entropy(scores, self.text[1:51]).item()}


class Plain(Trainer):
    """A walk in NumPy that draws from the shared generators."""

    def build(self) -> None:
        self.start = np.random.normal(size=3)
        self.place = self.start.copy()

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.rate = hp.get("rate", getattr(self, "rate", None))

    def train(self) -> None:
        self.place = self.place - self.rate * (self.place + np.random.normal(size=3) + random.gauss(0, 1))

    def evaluate(self) -> Mapping[str, float]:
        return {"distance": float(np.linalg.norm(self.place)), "noise": np.random.rand() + random.random()}


class Saving(Plain):
    """The same, saving itself what is its own."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.place.tolist()))

    def load(self, path: Path) -> None:
        self.place = np.array(json.loads(path.read_text()))


class Stating(Plain):
    """The same, saying itself what its state is."""

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


def state_of(session: Session) -> Any:
    """Return the whole state of a session: copies of its tensors, and what other objects hold, by name."""
    objects = walk.objects(session.trainer)
    state = {
        path: _content(value) for path, value in objects if not re.search(r"\._source|^self\.settings", path)
    }
    return {**state, "random": _content_of_random(seeding.capture())}


def _content(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return deepcopy(value.detach())
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.strides, value.tolist()
    if isinstance(value, torch.Generator):
        return value.get_state().tolist()
    if isinstance(value, Loader):
        return value.state_dict()
    return type(value), [(text, child) for text, child in walk.children(value) if type(child) in walk.ATOMS]


def _content_of_random(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _content_of_random(part) for name, part in state.items()}
    return state.tolist() if hasattr(state, "tolist") else state


def _written(state: Any) -> dict[str, str]:
    """Return a state as text that is the same if every bit is."""
    return {
        name: repr(
            (part.dtype, part.shape, part.stride(), part.flatten().tolist())
            if isinstance(part, torch.Tensor)
            else part
        )
        for name, part in state.items()
    }


@dataclass
class Course:
    """What came of a trial: the state at its end, and the metrics at the steps where they were asked for."""

    state: Any
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)

    def agrees_with(self, whole: Course) -> bool:
        """Return whether everything here is so in the `whole` course as well."""
        return _written(self.state) == _written(whole.state) and self.metrics.items() <= whole.metrics.items()


def uninterrupted(trainer: type[Trainer], config: Config, steps: int, settings: Any = None) -> Course:
    """Train a trial in a session of its own, evaluated at every step."""
    return interrupted(trainer, config, ["evaluate"] * steps, settings)


def interrupted(trainer: type[Trainer], config: Config, events: list[str], settings: Any = None) -> Course:
    """Train one step for every event, each of which is followed by something that may not matter.

    "nothing"; "evaluate"; "warm": go on as if with the next lease; "move": save, and go on in a new session;
    "return": save, train something else, and come back; "again": save, begin anew, and come back.
    """
    session = Session(trainer, settings, 7)
    session.start(config, 0, None, False)
    metrics: dict[int, dict[str, float]] = {}
    for event in events:
        session.advance()
        step = session.step
        if event == "evaluate":
            metrics[step] = session.evaluate()
        elif event == "warm":
            session.start(config, step, None, True)
        elif event != "nothing":
            saved = saved_by(session)
            if event == "move":
                session = Session(trainer, settings, 7)
            else:
                session.start(other_than(config) if event == "return" else config, 0, None, False)
                session.advance()
                session.evaluate()
                session.advance()
            session.start(config, step, saved, False)
    return Course(state_of(session), metrics)


def saved_by(session: Session) -> io.BytesIO:
    """Return a checkpoint of a session's state."""
    file = io.BytesIO()
    session.snapshot()(file)
    file.seek(0)
    return file


def other_than(config: Config) -> Config:
    """Return a config with the same names and other numbers."""
    values = config.values(0)
    return Config(
        {n: v * 2 if isinstance(v, (int, float)) else v for n, v in values.items()} | _OTHERS(values)
    )


def _OTHERS(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"optimizer": "adam" if values["optimizer"] == "sgd" else "sgd"} if "optimizer" in values else {}
