"""What prepare() leaves is on every object, in no checkpoint, and must not change."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hippotune import Config, TorchTrainer, TrainerError
from hippotune.trainers.base import Trainer
from hippotune.trainers.loading import load_trainer
from hippotune.trainers.session import Session
from trainers.samples import saved_by

CONFIG = Config({"rate": 0.5})


class Catalogue:
    """Finds out about itself when it is first asked."""

    @functools.cached_property
    def names(self) -> list[str]:
        return ["a", "b"]


class Keyed:
    def __init__(self) -> None:
        self.fill = math.nan  # which is not equal to itself


class Prepared(Trainer):
    """Prepares data of many kinds, and keeps views of it; `change` is what its training changes."""

    def prepare(self) -> None:
        self.numbers = np.arange(1_000_000.0)
        self.table = np.arange(2_000_000.0).reshape(1000, 2000)  # a view itself
        self.tensor = torch.arange(1_000_000.0)
        self.text = "words " * 100_000
        name = "/data/imagenet/train/class_00000001/shard_{}.npy"
        self.shards = {name.format(number): np.full(3, number) for number in range(3)}
        self.by_object = {Keyed(): np.zeros(2)}
        self.keyed = Keyed()
        self.catalogue = Catalogue()
        self.transform = functools.partial(max, default=())
        self.kind = torch.float32
        self.embedding = nn.Linear(2, 2)

    def build(self) -> None:
        self.half = self.numbers[::2]
        self.column, self.turned = self.table[:, 3], self.table.T
        self.row = self.tensor[10:20]
        self.shared = torch.from_numpy(self.numbers)
        self.words = self.text
        self.value = 0.0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.rate = hp["rate"]

    def train(self) -> None:
        assert self.catalogue.names
        self.embedding.eval()
        self.value += self.rate * float(self.half[1]) + float(self.row[0])
        if self.settings.get("change") == "shard":
            self.shards["/data/imagenet/train/class_00000001/shard_0.npy"][0] = 9
        if self.settings.get("change") == "list":
            self.catalogue.names.append("c")

    def evaluate(self) -> Mapping[str, float]:
        return {"value": self.value}


def trained(steps: int, **settings: Any) -> Session:
    session = Session(Prepared, settings, 0)
    session.start(CONFIG, 0, None, False)
    for _ in range(steps):
        session.advance()
    return session


def test_no_checkpoint_holds_it_and_views_lead_to_the_processes_own() -> None:
    session = trained(2)
    saved = saved_by(session)
    assert len(saved.getvalue()) < 100_000
    session.start(CONFIG, 2, saved, False)
    trainer: Any = session.trainer
    assert np.shares_memory(trainer.half, trainer.numbers)
    assert np.shares_memory(trainer.column, trainer.table)
    assert np.shares_memory(trainer.turned, trainer.table)
    assert trainer.row.untyped_storage()._cdata == trainer.tensor.untyped_storage()._cdata
    assert trainer.shared.data_ptr() == trainer.numbers.__array_interface__["data"][0]
    assert trainer.words is trainer.text
    session.advance()
    assert session.evaluate() == trained(3).evaluate()


def test_what_changes_in_training_is_named() -> None:
    with pytest.raises(TrainerError, match=r"shard_0\.npy'\] was left by prepare\(\) and has changed since"):
        trained(1, change="shard")


class Model(Prepared):
    """Keeps nothing of the data but references."""

    def build(self) -> None:
        super().build()
        self.model = nn.Linear(2, 1)
        self.half, self.row, self.shared = self.numbers, self.tensor, self.tensor
        self.column = self.turned = self.table


def test_a_bare_session_loads_models_without_preparing() -> None:
    session = Session(Model, {}, 0)
    session.start(CONFIG, 0, None, False)
    saved = saved_by(session)
    bare = Session(Model, {}, 0, bare=True)
    bare.start(CONFIG, 1, saved, False)
    assert torch.equal(vars(bare.trainer)["model"].weight, vars(session.trainer)["model"].weight)


def test_a_state_with_views_of_prepared_data_is_loaded_with_these() -> None:
    session = Session(Prepared, {}, 0)
    session.start(CONFIG, 0, None, False)
    saved = saved_by(session)

    def opened() -> nullcontext[BytesIO]:
        saved.seek(0)
        return nullcontext(saved)

    with pytest.raises(TrainerError), opened() as file:
        Session(Prepared, {}, 0, bare=True).start(CONFIG, 1, file, False)
    loaded = vars(load_trainer(Prepared, {}, 0, None, CONFIG, 1, opened, bare=True))
    assert np.shares_memory(loaded["half"], loaded["numbers"])


class Torch(TorchTrainer):
    """Keeps a model."""

    def build(self) -> None:
        self.model = nn.Linear(2, 1)

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.rate = hp["rate"]

    def train(self) -> None: ...

    def evaluate(self) -> dict[str, float]:
        return {}


def test_a_bare_session_leaves_the_process_as_it_is() -> None:
    session = Session(Torch, {}, 0)
    session.start(CONFIG, 0, None, False)
    saved = saved_by(session)
    torch.use_deterministic_algorithms(False)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    Session(Torch, {}, 0, bare=True).start(CONFIG, 1, saved, False)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()


def test_an_archive_of_numpy_can_be_prepared(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.arange(3))

    class Archived(Prepared):
        def prepare(self) -> None:
            super().prepare()
            self.archive = np.load(tmp_path / "data.npz")

    session = Session(Archived, {}, 0)
    session.start(CONFIG, 0, None, False)
    session.advance()


def test_where_prepare_is_the_first_to_load_torch_it_runs_again_seeded() -> None:
    program = (
        "from hippotune import Config, Trainer\n"
        "from hippotune.trainers.session import Session\n"
        "class Late(Trainer):\n"
        "    def prepare(self):\n"
        "        import torch\n"
        "        self.drawn = torch.rand(()).item()\n"
        "    def setup(self, hp): self.rate = hp['rate']\n"
        "    def train(self): pass\n"
        "    def evaluate(self): return {'drawn': self.drawn}\n"
        "session = Session(Late, {}, 3)\n"
        "session.start(Config({'rate': 1}), 0, None, False)\n"
        "print(session.evaluate()['drawn'])\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    torch.manual_seed(3)
    assert float(shown.stdout) == torch.rand(()).item()
