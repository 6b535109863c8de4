"""What prepare() leaves is on every object, in no checkpoint, and must not change."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from hippotune import Config, TorchTrainer, TrainerError
from hippotune.protocol.fingerprint import differences
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


class InFolder(Trainer):
    """Prepares plain values that are its process's own, and others; training sets what it is told to."""

    process: ClassVar[int]
    sets: ClassVar[dict[str, Any]]

    def prepare(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.place, self.place_as_bytes = self.folder.name, self.folder.name.encode()
        self.places = [self.folder.name] * 40
        self.is_in = lambda path, place=self.folder.name: path.startswith(place)
        self.started, self.number, self.best = float(self.process), self.process, None
        self.lowest, self.count, self.phase = -0.0, 0, "warm up"

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.rate = hp["rate"]

    def train(self) -> None:
        assert Path(self.place).is_dir()
        for name, value in self.sets.items():
            setattr(self, name, value)

    def evaluate(self) -> Mapping[str, float]:
        return {"count": self.count}


def in_folder(process: int, steps: int = 0, source: BytesIO | None = None, **sets: Any) -> Session:
    """Return a session as a process of this number has it."""
    InFolder.process, InFolder.sets = process, sets
    session = Session(InFolder, {}, 0)
    session.start(CONFIG, steps if source else 0, source, False)
    for _ in range(0 if source else steps):
        session.advance()
    return session


def test_plain_values_that_prepare_left_are_those_of_the_process_that_loads() -> None:
    ended = in_folder(process=1000, steps=1)
    saved = saved_by(ended)
    vars(ended.trainer)["folder"].cleanup()
    loaded = in_folder(process=2000, steps=1, source=saved)
    trainer: Any = loaded.trainer
    assert (trainer.started, trainer.number) == (2000.0, 2000)
    assert trainer.place_as_bytes == trainer.place.encode() == trainer.folder.name.encode()
    assert trainer.is_in(trainer.place)
    loaded.advance()
    assert list(vars(trainer)) == list(vars(in_folder(process=1, steps=1).trainer))


SET: dict[str, Any] = {
    "place": "here",
    "started": 0.5,
    "number": 3,
    "best": 0.0,
    "lowest": 0.0,
    "count": 1,
    "phase": "main",
}


def test_plain_values_that_training_set_are_saved() -> None:
    loaded = vars(in_folder(process=2000, steps=1, source=saved_by(in_folder(1000, 1, **SET))).trainer)
    assert {name: repr(loaded[name]) for name in SET} == {name: repr(value) for name, value in SET.items()}


def test_a_value_that_training_set_back_to_the_prepared_one_is_this() -> None:
    session = in_folder(1000, 1, count=0, phase="".join(["warm", " up"]), best=None)
    loaded = vars(in_folder(process=2000, steps=1, source=saved_by(session)).trainer)
    assert (loaded["count"], loaded["phase"], loaded["best"]) == (0, "warm up", None)


def test_what_is_a_processes_own_does_not_differ_between_two_processes() -> None:
    one, other = in_folder(1000, 1), in_folder(2000, 1)
    assert differences(one.fingerprint(), other.fingerprint()) == []
    resumed = in_folder(3000, 1, saved_by(one))
    assert differences(one.fingerprint(), resumed.fingerprint()) == []
    changed = differences(one.fingerprint(), in_folder(2000, 1, count=1, lowest=0.0).fingerprint())
    assert {item.path for item in changed} == {"self.count", "self.lowest"}


def test_a_bare_session_has_the_plain_values_that_were_saved() -> None:
    bare = Session(InFolder, {}, 0, bare=True)
    bare.start(CONFIG, 1, saved_by(in_folder(process=1000, steps=1)), False)
    assert (vars(bare.trainer)["number"], vars(bare.trainer)["count"]) == (1000, 0)


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


class Notes:
    """An object of the user's."""

    kept = 0

    @functools.cached_property
    def found(self) -> list[int]:
        return [1]

    def asked(self) -> int:
        if not hasattr(self, "_index"):
            self._index = [2]
        return self._index[0]


class Small(Trainer):
    """Prepares little, and changes what it is told to, from its second step on; `once` only in that one."""

    def prepare(self) -> None:
        self.numbers = np.ones(3)
        self.notes = Notes()
        self.library = nn.Identity()

    def build(self) -> None:
        self.count = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.change = hp["change"]

    def train(self) -> None:
        self.count += 1
        assert self.notes.found
        assert self.notes.asked()
        if self.count > 1:
            getattr(self, f"_{self.change}", lambda: None)()

    def evaluate(self) -> Mapping[str, float]:
        return {"count": self.count}

    def _data(self) -> None:
        self.numbers *= 2

    def _public(self) -> None:
        if self.count == 2:
            self.notes.__dict__["seen"] = 1

    def _default(self) -> None:
        if self.count == 2:
            self.notes.kept += 1

    def _private(self) -> None:
        self.notes.__dict__["_seen"] = self.count

    def _index(self) -> None:
        self.notes._index.append(self.count)

    def _found(self) -> None:
        self.notes.found.append(self.count)

    def _foreign(self) -> None:
        self.library.__dict__["seen"] = self.count


class Large(Small):
    """Prepares much."""

    def prepare(self) -> None:
        super().prepare()
        self.large = np.zeros(1_000_000)
        self.tensor = torch.zeros(1_000_000)


def looked_at_between_trials(trainer: type[Trainer], change: str, **settings: Any) -> Session:
    """Train a trial that changes something after its first step, check twice, and start another trial."""
    session = Session(trainer, settings, 0, watch=True)
    session.start(Config({"change": change}), 0, None, False)
    session.advance()
    session.advance()
    session.check()
    session.advance()
    session.start(Config({"change": "nothing"}), 0, None, False)
    return session


def test_what_was_changed_since_the_last_look_is_named_before_another_trial_starts() -> None:
    with pytest.raises(TrainerError, match=r"self\.numbers was left by prepare\(\) and has changed since"):
        looked_at_between_trials(Small, "data")


def test_what_is_small_is_looked_at_beside_large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hippotune.trainers.state.pace.QUICK", 0.0)  # every look at everything is slow
    with pytest.raises(TrainerError, match=r"self\.numbers was left by prepare\(\)"):
        looked_at_between_trials(Large, "data")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("public", "self.notes was"),
        ("default", "self.notes was"),
        ("private", "self.notes was"),
        ("index", "self.notes._index was"),
        ("found", "self.notes.found was"),
        ("foreign", "self.library was"),
    ],
)
def test_an_attribute_that_training_adds_is_a_change_or_is_watched(change: str, named: str) -> None:
    with pytest.raises(TrainerError, match=named):
        looked_at_between_trials(Small, change)


def test_an_object_may_find_out_things_when_it_is_asked() -> None:
    looked_at_between_trials(Small, "nothing").advance()


class Given(Small):
    """Changes what its settings hold."""

    def _list(self) -> None:
        self.settings["nested"]["list"].append(1)

    def _array(self) -> None:
        self.settings["nested"]["array"][0] = 1


def test_every_trial_has_containers_of_settings_of_its_own() -> None:
    one: list[int] = []
    array = np.zeros(2)
    session = looked_at_between_trials(
        Given, "list", nested={"list": one, "array": array}, again=(one, array), itself=array
    )
    settings = session.trainer.settings
    assert settings["nested"]["list"] == one == []
    assert settings["nested"]["list"] is settings["again"][0] is not one
    assert settings["nested"]["array"] is settings["again"][1] is settings["itself"] is array


def test_what_trials_share_of_settings_must_not_change() -> None:
    with pytest.raises(
        TrainerError, match=r"self\.settings\['nested'\]\['array'\] was given as settings and"
    ):
        looked_at_between_trials(Given, "array", nested={"array": np.zeros(2)})


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
