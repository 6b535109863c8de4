"""What is on a torch trainer is its state: all of it is saved and put back, or its name is in an error."""

from __future__ import annotations

import io
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from hippotune import (
    CheckpointError,
    Config,
    Exponential,
    IllegalTransition,
    InvalidInput,
    Piecewise,
    TrainerError,
)
from hippotune.trainers import stateful
from hippotune.trainers.data import Loader
from hippotune.trainers.encoding import same
from hippotune.trainers.session import Session
from hippotune.trainers.torch import TorchTrainer
from trainers.samples import Convolutional, Recurrent, other_than, state_of

LR = Config({"lr": 0.1})
DATA = TensorDataset(torch.arange(12.0).reshape(-1, 1))


class Linear(TorchTrainer):
    """One weight; what else is on it, the tests put there."""

    def build(self) -> None:
        self.model = nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)

    def train(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.ones(1, 1)).sum().backward()
        self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {"weight": self.model.weight.item()}


def variant(base: type[TorchTrainer] = Linear, **methods: Callable[..., Any]) -> type[TorchTrainer]:
    """Return a trainer class whose methods do something more."""

    def extended(name: str, more: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Any, *arguments: Any) -> Any:
            result = getattr(super(cls, self), name)(*arguments)
            return more(self) or result

        return method

    cls = type("Variant", (base,), {name: extended(name, more) for name, more in methods.items()})
    return cls


def started(trainer: type[TorchTrainer], config: Config = LR, steps: int = 0, **settings: Any) -> Session:
    session = Session(trainer, settings, 1)
    session.start(config, 0, None, False)
    for _ in range(steps):
        session.advance()
    return session


def moved(session: Session, trainer: type[TorchTrainer], path: Path, config: Config = LR) -> Session:
    """Save the state of a session and load it in a new one."""
    session.snapshot()(path)
    new = Session(trainer, {}, 1)
    new.start(config, session.step, path, False)
    return new


# Learning rates, momentum, devices.


@pytest.mark.parametrize("trainer", [Convolutional, Linear])
def test_a_new_learning_rate_survives_a_load(trainer: type[TorchTrainer], tmp_path: Path) -> None:
    more: dict[str, Any] = {"optimizer": "sgd"} if trainer is Convolutional else {}
    config = Config({"lr": Piecewise([0.1, 0.001], [2]), "momentum": 0.9, **more})
    session = moved(started(trainer, config, steps=2), trainer, tmp_path / "two", config)
    optimizer = session.trainer.optimizer  # type: ignore[attr-defined]
    assert optimizer.param_groups[0]["lr"] == 0.1
    session.advance()
    assert optimizer.param_groups[0]["lr"] == 0.001


def test_optimizer_state_keeps_its_type_where_torch_would_cast_it(tmp_path: Path) -> None:
    class Precise(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for parameter in self.param_groups[0]["params"]:
                total = self.state[parameter].setdefault("total", torch.zeros(1, dtype=torch.float64))
                total += 1 / 3

    def use_precise(self: Any) -> None:
        self.optimizer = Precise(self.model.parameters(), lr=0.1)

    trainer = variant(build=use_precise)
    session = started(trainer, steps=2)
    loaded = moved(session, trainer, tmp_path / "two")
    totals = [s.trainer.optimizer.state[s.trainer.model.weight]["total"] for s in (session, loaded)]  # type: ignore[attr-defined]
    assert totals[0].dtype == totals[1].dtype == torch.float64
    assert torch.equal(*totals)


def test_parameter_groups_that_somebody_holds_stay_the_groups_of_the_optimizer(tmp_path: Path) -> None:
    def hold(self: Any) -> None:
        self.group = self.optimizer.param_groups[0]

    trainer: Any = moved(started(variant(build=hold), steps=1), variant(build=hold), tmp_path / "one").trainer
    assert trainer.group is trainer.optimizer.param_groups[0]
    assert trainer.group["params"][0] is trainer.model.weight


def test_the_device_is_a_setting_and_the_cpu_where_there_is_no_other() -> None:
    assert started(Linear).trainer.device == torch.device(  # type: ignore[attr-defined]
        "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    )
    assert started(Linear, device="cpu").trainer.device == torch.device("cpu")  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=r"settings\['device'\] is 'abacus'; expected a torch device"):
        started(Linear, device="abacus")


def test_algorithms_are_deterministic_unless_a_setting_says_otherwise() -> None:
    started(Linear, deterministic=False)
    assert not torch.are_deterministic_algorithms_enabled()
    started(Linear)
    assert torch.are_deterministic_algorithms_enabled()
    with pytest.raises(InvalidInput, match=r"settings\['deterministic'\] is 'maybe'; expected True or False"):
        started(Linear, deterministic="maybe")


# Attributes.


def test_data_of_every_kind_comes_back(tmp_path: Path) -> None:
    def fill(self: Any) -> None:
        self.values = {
            "number": 3,
            ("a", 1): 2.5,
            "none": None,
            "text": "text",
            "set": {1, 2},
            "frozen": frozenset({3, 4}),
            "array": np.arange(6, dtype=np.uint16).reshape(2, 3),
            "scalar": np.float32(0.1),
            "tensor": torch.arange(3),
            "nested": [(1, [torch.ones(2, dtype=torch.bfloat16)])],
            "strides": torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
            "sparse": torch.eye(3).to_sparse(),
            "complex": [torch.tensor([1 + 2j]).conj(), torch.tensor([1j], dtype=torch.complex128)],
            "types": [torch.zeros(2, dtype=kind) for kind in (torch.bool, torch.float64, torch.float8_e5m2)],
            "forms": [torch.tensor(1.5), torch.zeros(0, 2), torch.eye(4)[1::2]],
            "odd": [1j, b"bytes", torch.float16, torch.device("cpu"), torch.Size([2]), float("inf"), 10**30],
            "ordered": OrderedDict(b=1, a=2),
            "reserved": {"__hippo__": 1, "__tensor__": 2},
        }

    for when in ("build", "setup", "train"):
        trainer = variant(Linear, **{when: fill})
        session = started(trainer, steps=1)
        one: Any = session.trainer
        other: Any = moved(session, trainer, tmp_path / when).trainer
        assert repr(one.values) == repr(other.values)
        assert type(other.values["scalar"]) is np.float32
        assert other.values["array"].dtype == np.uint16
        assert other.values["strides"].stride() == one.values["strides"].stride()


def test_tensors_of_build_are_filled_in_place_so_that_who_holds_them_sees_it(tmp_path: Path) -> None:
    def make(self: Any) -> None:
        self.scale = torch.ones(3)
        self.model.scale = self.scale

    def grow(self: Any) -> None:
        self.scale *= 2

    trainer: Any = variant(build=make, train=grow)
    other: Any = moved(started(trainer, steps=3), trainer, tmp_path / "three").trainer
    assert other.model.scale is other.scale
    assert other.scale.tolist() == [8, 8, 8]


def test_modes_and_frozen_parameters_belong_to_the_state(tmp_path: Path) -> None:
    def freeze(self: Any) -> None:
        self.model.eval()
        self.model.bias.requires_grad_(False)

    trainer = variant(train=freeze)
    session = started(trainer, steps=1)
    other: Any = moved(session, trainer, tmp_path / "one").trainer
    assert not other.model.training
    assert not other.model.bias.requires_grad
    session.start(LR, 0, None, False)
    back: Any = session.trainer
    assert back.model.training
    assert back.model.bias.requires_grad


def test_data_that_build_made_and_training_leaves_alone_is_not_saved(tmp_path: Path) -> None:
    def read(self: Any) -> None:
        self.images = torch.zeros(1 << 18)
        self.array = np.zeros(1 << 18)
        self.labels = list(range(5000))
        self.words = {"one": [str(i) for i in range(3000)]}

    session = started(variant(build=read), steps=1)
    session.snapshot()(tmp_path / "one")
    assert (tmp_path / "one").stat().st_size < 20_000
    assert moved(session, variant(build=read), tmp_path / "two").trainer.labels == list(range(5000))  # type: ignore[attr-defined]


def test_a_large_tensor_that_training_changes_is_saved_and_sends_a_reset_back_to_build(
    tmp_path: Path,
) -> None:
    def make(self: Any) -> None:
        self.memory = torch.zeros(1 << 15)
        self.builds = torch.zeros(())

    def change(self: Any) -> None:
        self.memory[0] += 1

    trainer = variant(build=make, train=change)
    session = started(trainer, steps=2)
    assert moved(session, trainer, tmp_path / "two").trainer.memory[0] == 2  # type: ignore[attr-defined]
    before = session.trainer
    session.start(LR, 0, None, False)
    assert session.trainer is not before
    assert session.trainer.memory[0] == 0  # type: ignore[attr-defined]


def test_a_load_after_a_trial_that_spoilt_large_data_finds_it_whole(tmp_path: Path) -> None:
    def make(self: Any) -> None:
        self.images = torch.zeros(1 << 15)

    def spoil(self: Any) -> None:
        if self.optimizer.param_groups[0]["lr"] > 1:
            self.images[0] = 5

    trainer = variant(build=make, train=spoil)
    session = started(trainer, steps=1)
    session.snapshot()(tmp_path / "one")
    session.start(Config({"lr": 2.0}), 0, None, False)
    session.advance()
    session.start(LR, 1, tmp_path / "one", False)
    assert session.trainer.images[0] == 0  # type: ignore[attr-defined]


def test_objects_that_setup_makes_are_made_again_by_it(tmp_path: Path) -> None:
    class Augmentation:
        pass

    def setup(self: Any, hp: Mapping[str, Any]) -> None:
        self.kept = hp
        self.augment = Augmentation()
        self.augment.rate = dict(hp)["lr"]

    trainer = type("Variant", (Linear,), {"setup": setup})
    config = Config({"lr": Exponential(0.5, 0.5)})
    session = started(trainer, config, steps=3)
    other: Any = moved(session, trainer, tmp_path / "three", config).trainer
    assert other.augment.rate == 0.125


def test_the_same_object_under_two_names_is_saved_once_and_stays_one(tmp_path: Path) -> None:
    def name_twice(self: Any) -> None:
        self.parts = [self.model, {"same": self.optimizer}]

    trainer = variant(build=name_twice)
    session = started(trainer, steps=1)
    state = state_of(session)["own"]
    assert [state["model"]["__hippo__"], state["parts"][0]["__hippo__"]] == ["state", "made"]
    loaded = moved(session, trainer, tmp_path / "one")
    other: Any = loaded.trainer
    assert other.parts[0] is other.model
    assert same(state, state_of(loaded)["own"])


# Reset.


@pytest.mark.parametrize("trainer", [Convolutional, Recurrent])
def test_a_reset_trainer_is_the_built_one_bit_for_bit_without_building(trainer: type[TorchTrainer]) -> None:
    values = (
        {"lr": 0.05, "optimizer": "sgd", "bs": 4} if trainer is Convolutional else {"lr": 0.05, "length": 4}
    )
    config = Config(values)
    session = started(trainer, other_than(config), steps=3)
    built = session.trainer
    session.start(config, 0, None, False)
    assert session.trainer is built
    assert same(state_of(session), state_of(started(trainer, config)))


def test_a_reset_takes_back_what_training_added_rebound_and_changed_in_place() -> None:
    def make(self: Any) -> None:
        self.history = []
        self.nested = {"counts": [0, 0]}
        self.words = ("a", "b")

    def change(self: Any) -> None:
        self.history.append(1)
        self.nested["counts"][1] += 1
        self.nested["new"] = 3
        self.words = ("c",)
        self.extra = 1
        self.model.weight.grad = torch.ones(1, 1)

    session = started(variant(build=make, train=change), steps=2)
    built = session.trainer
    held: Any = built
    history = held.history
    session.start(LR, 0, None, False)
    assert session.trainer is built
    assert held.history is history
    assert (held.history, held.nested, held.words) == ([], {"counts": [0, 0]}, ("a", "b"))
    assert not hasattr(held, "extra")
    assert held.model.weight.grad is None


# Evaluation.


def test_evaluation_runs_in_evaluation_mode_without_gradients_and_changes_nothing() -> None:
    class Meddling(Linear):
        def build(self) -> None:
            super().build()
            self.norm = nn.Sequential(nn.BatchNorm1d(1), nn.BatchNorm1d(1).eval())
            self.loader = Loader(DATA, 4, seed=1)
            self.notes: list[int] = []

        def evaluate(self) -> Mapping[str, float]:
            seen = {"training": float(self.norm.training), "gradients": float(torch.is_grad_enabled())}
            self.norm.train()
            self.norm(torch.randn(8, 1))
            next(iter(self.loader))
            self.notes.append(1)
            self.best = 3
            with torch.enable_grad():
                self.model(torch.ones(1, 1)).sum().backward()
            self.optimizer.step()
            torch.set_grad_enabled(False)
            return seen

    session = started(Meddling, steps=1)
    gradient = session.trainer.model.weight.grad  # type: ignore[attr-defined]
    before = state_of(session)
    assert session.evaluate() == {"training": 0.0, "gradients": 0.0}
    assert same(before, state_of(session))
    trainer: Any = session.trainer
    assert [part.training for part in trainer.norm] == [True, False]
    assert trainer.model.weight.grad is gradient
    assert torch.is_grad_enabled()
    assert not hasattr(trainer, "best")


def test_tensors_of_build_that_evaluation_changes_in_place_are_put_back_unless_they_are_data() -> None:
    def make(self: Any) -> None:
        self.seen = torch.zeros(())
        self.images = torch.zeros(1 << 15)

    def count_up(self: Any) -> None:
        self.seen += 1

    session = started(variant(build=make, evaluate=count_up), steps=1)
    session.evaluate()
    assert session.trainer.seen == 0  # type: ignore[attr-defined]

    def spoil(self: Any) -> None:
        self.images[0] = 1

    with pytest.raises(TrainerError, match=r"evaluate\(\) changes self\.images in place"):
        started(variant(build=make, evaluate=spoil)).evaluate()


def test_a_trainer_that_is_released_measures_what_was_measured() -> None:
    session = started(Convolutional, Config({"lr": 0.1, "optimizer": "sgd", "bs": 8}), steps=2)
    metrics = session.evaluate()
    trainer = session.release()
    assert trainer.evaluate() == metrics
    with pytest.raises(IllegalTransition):
        session.advance()


# What cannot be saved.


class Meter:
    def __init__(self) -> None:
        self.total = 0


def add_meter(self: Any) -> None:
    self.meter = Meter()


def count(self: Any) -> None:
    self.meter.total += 1


def test_an_object_that_changes_without_being_saved_is_found_in_the_first_step() -> None:
    with pytest.raises(
        TrainerError, match=r"self\.meter \(Meter\) changes in train\(\), but is not saved.*state_dict"
    ):
        started(variant(build=add_meter, train=count), steps=1)


def test_an_object_with_a_state_dict_is_saved_instead(tmp_path: Path) -> None:
    class Saved(Meter):
        def state_dict(self) -> dict[str, Any]:
            return {"total": self.total}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.total = state["total"]

    def add(self: Any) -> None:
        self.meter = Saved()

    trainer = variant(build=add, train=count)
    assert moved(started(trainer, steps=3), trainer, tmp_path / "3").trainer.meter.total == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [lambda: np.zeros(1 << 14), lambda: list(range(2000)), lambda: defaultdict(int)],
    ids=["array", "list", "dict"],
)
def test_large_data_of_build_that_changes_in_place_is_found(make: Callable[[], Any]) -> None:
    def build(self: Any) -> None:
        self.buffer = make()

    def change(self: Any) -> None:
        self.buffer[3] = 5

    with pytest.raises(TrainerError, match=r"self\.buffer .* changes in train\(\), but is not saved"):
        started(variant(build=build, train=change), steps=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Meter, r"self\.late\[0\] \(Meter\) was made in train\(\) and cannot be saved; expected numbers"),
        (
            lambda: nn.Linear(1, 1),
            r"self\.late\[0\] \(Linear\) was made in train\(\), so there is nothing to load",
        ),
    ],
)
def test_an_object_made_in_training_is_named_when_it_is_to_be_saved(
    make: Callable[[], Any], message: str
) -> None:
    def train(self: Any) -> None:
        self.late = [make()]

    session = started(variant(train=train), steps=1)
    with pytest.raises(TrainerError, match=message):
        session.snapshot()


def test_a_state_dict_that_holds_no_data_is_named() -> None:
    class Odd(Meter):
        def state_dict(self) -> dict[str, Any]:
            return {"meter": Meter()}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    def add(self: Any) -> None:
        self.odd = Odd()

    with pytest.raises(
        TrainerError, match=r"state_dict\(\) of self\.odd \(Odd\) holds .*Meter.*cannot be saved"
    ):
        started(variant(build=add))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda self: DataLoader(DATA, 4, shuffle=True),
            r"a DataLoader: a DataLoader that shuffles.*hippo\.Loader",
        ),
        (lambda self: DataLoader(DATA, 4, sampler=RandomSampler(DATA)), "a DataLoader: a DataLoader that"),
        (lambda self: torch.optim.lr_scheduler.StepLR(self.optimizer, 3), "a StepLR: it would overwrite"),
        (lambda self: itertools.cycle([1, 2]), "a cycle: its place cannot be saved"),
        (lambda self: (x for x in [1, 2]), "a generator: its place cannot be saved"),
        (lambda self: nn.LazyLinear(3), "a LazyLinear: it has parameters without a shape"),
    ],
)
@pytest.mark.parametrize("when", ["build", "setup"])
def test_what_would_be_silently_wrong_is_refused(make: Callable[[Any], Any], message: str, when: str) -> None:
    def add(self: Any) -> None:
        self.things = {"this": make(self)}

    with pytest.raises(TrainerError, match=rf"self\.things\['this'\] is {message}"):
        started(variant(Linear, **{when: add}))


def test_a_data_loader_in_order_is_allowed_for_evaluation(tmp_path: Path) -> None:
    def add(self: Any) -> None:
        self.validation = DataLoader(DATA, 4)

    def evaluate(self: Any) -> Mapping[str, float]:
        return {"sum": sum(batch.sum().item() for (batch,) in self.validation)}

    session = started(variant(build=add, evaluate=evaluate), steps=1)
    before = state_of(session)
    assert session.evaluate() == {"sum": 66.0}
    assert same(before, state_of(session))
    session.snapshot()(tmp_path / "one")


# Checkpoints that do not fit.


def larger(self: Any) -> None:
    self.model = nn.Sequential(nn.Linear(1, 3), nn.Linear(3, 1))
    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)


def wider(self: Any) -> None:
    self.model = nn.Linear(2, 1)


def adam(self: Any) -> None:
    self.optimizer = torch.optim.Adam(self.model.parameters())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            wider,
            r"another model than self\.model: 'weight' has shape \(1, 1\) in the checkpoint and \(1, 2\)",
        ),
        (larger, r"'0\.bias' is not in the checkpoint.*'bias' is only in the checkpoint"),
        (adam, r"self\.optimizer is a Adam, and was a SGD"),
    ],
)
def test_the_checkpoint_of_another_model_is_refused_with_what_differs(
    build: Callable[[Any], None], message: str, tmp_path: Path
) -> None:
    started(Linear, steps=1).snapshot()(tmp_path / "one")
    session = Session(variant(build=build), {}, 1)
    with pytest.raises(CheckpointError, match=message):
        session.start(LR, 1, tmp_path / "one", False)


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"no checkpoint at all"]
)
def test_a_damaged_file_is_a_checkpoint_error(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    started(Linear, steps=1).snapshot()(tmp_path / "one")
    file = tmp_path / "one"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CheckpointError, match=r"cannot be read as a checkpoint|is not a checkpoint"):
        Session(Linear, {}, 1).start(LR, 1, tmp_path / "one", False)


def test_loading_never_runs_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "sprung").touch, ())

    class Sparse(Linear):
        def train(self) -> None:
            super().train()
            self.sparse = torch.eye(2).to_sparse()

    started(Sparse, steps=1).snapshot()(tmp_path / "one")
    content = (tmp_path / "one").read_bytes()
    start = content.index(b"PK")  # sparse tensors are kept as torch keeps them, in a pickle within a zip
    trap = io.BytesIO()
    torch.save([Trap()], trap)
    room = len(content) - start
    assert len(trap.getvalue()) <= room
    (tmp_path / "one").write_bytes(content[:start] + trap.getvalue().ljust(room, b"\0"))
    with pytest.raises(CheckpointError, match="cannot be read"):
        Session(Sparse, {}, 1).start(LR, 1, tmp_path / "one", False)
    assert not (tmp_path / "sprung").exists()


def test_something_else_in_the_file_is_a_checkpoint_error(tmp_path: Path) -> None:
    torch.save(torch.zeros(1), tmp_path / "one")
    with pytest.raises(CheckpointError, match="is not a checkpoint of a TorchTrainer of this version"):
        Session(Linear, {}, 1).start(LR, 1, tmp_path / "one", False)


class Hooked(nn.Linear):
    """Keeps more than parameters and buffers."""

    def get_extra_state(self) -> Any:
        return {"seen": 3}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"]


def model_of_many_kinds() -> nn.Module:
    shared = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(nn.BatchNorm1d(2), shared, nn.Sequential(shared, nn.GRU(2, 2)), nn.Identity())
    model.register_buffer("kept", torch.ones(1))
    model.register_buffer("left_out", torch.ones(1), persistent=False)
    model.register_module("nothing", None)
    return model


@pytest.mark.parametrize(
    "special", [None, Hooked(2, 2), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))]
)
def test_what_is_kept_of_a_module_is_what_torch_keeps(special: nn.Module | None) -> None:
    model = model_of_many_kinds()
    if special is not None:
        model.append(special)  # type: ignore[operator]
    taken = stateful.state_of(model, torch.Tensor.detach)
    expected = model.state_dict()
    assert list(taken["state"]) == list(expected)
    assert all(same(taken["state"][key], item) for key, item in expected.items())
    assert taken["metadata"] == expected._metadata  # type: ignore[attr-defined]
    assert taken["modes"] == [part.training for part in model.modules()]


def test_a_snapshot_shares_no_memory_with_what_is_trained(tmp_path: Path) -> None:
    class Lonely(Linear):  # the only tensor of its type
        def build(self) -> None:
            super().build()
            self.lonely = torch.zeros(3, dtype=torch.int16)

        def train(self) -> None:
            self.lonely += 1
            super().train()

    session = started(Lonely, steps=1)
    snapshot = session.snapshot()
    session.advance()
    snapshot(tmp_path / "one")
    loaded = Session(Lonely, {}, 1)
    loaded.start(LR, 1, tmp_path / "one", False)
    assert loaded.trainer.lonely.tolist() == [1, 1, 1]  # type: ignore[attr-defined]


def test_an_object_that_setup_makes_only_once_is_missed_with_its_name(tmp_path: Path) -> None:
    class Once(Linear):
        def setup(self, hp: Mapping[str, Any]) -> None:
            super().setup(hp)
            if hp["lr"] == 0.2:
                self.meter = Meter()

    config = Config({"lr": Piecewise([0.1, 0.2, 0.3], [1, 2])})
    session = started(Once, config, steps=3)
    with pytest.raises(
        TrainerError, match=r"self\.meter was there when the state was saved, but build\(\) and"
    ):
        moved(session, Once, tmp_path / "three", config)


# Without a session.


def test_save_and_load_work_on_a_trainer_that_was_built_by_hand(tmp_path: Path) -> None:
    trained: Any = started(Linear, steps=2).trainer
    trained.save(tmp_path / "model")
    loaded = Linear()
    loaded.build()
    loaded.load(tmp_path / "model")
    assert loaded.evaluate() == trained.evaluate()
    loaded.train()
    loaded.save(tmp_path / "more")
    assert not loaded.reset()
