"""What is remembered from one checkpoint to the next is what would be found by looking anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hippotune import Loader, TorchTrainer
from hippotune.trainers import remembered
from hippotune.trainers.remembered import Memory


class Changing(TorchTrainer):
    """A small network with all that a module can have."""

    def build(self) -> None:
        self.model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.Linear(3, 1)))
        self.model.register_parameter("absent", None)
        self.model[0].register_parameter("last", nn.Parameter(torch.ones(1)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        self.loader = Loader(torch.zeros(8, 2), 2)
        self.held_out = torch.zeros(3), torch.ones(2)
        self.images = torch.ones(2)
        self.count = 0

    def train(self) -> None:
        """Train a step."""
        self.count += 1
        self.optimizer.zero_grad()
        self.model(torch.randn(4, 2)).sum().backward()
        self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {}


Change = Callable[[Changing], object]


def weight(trainer: Changing) -> Any:
    return trainer.model[0].weight


def retyped(trainer: Changing) -> None:
    weight(trainer).data = weight(trainer).data.double()


def reshaped(trainer: Changing) -> None:
    weight(trainer).data = weight(trainer).data.reshape(weight(trainer).shape[::-1]).clone()


def transposed(trainer: Changing) -> None:
    weight(trainer).data = weight(trainer).data.t()


def renamed(trainer: Changing) -> None:
    part = trainer.model[2]
    part._modules = {f"{name}x": inner for name, inner in part._modules.items()}


class Dated(nn.Sequential):
    """The same, by a later version."""

    _version = 7


def handed_on(trainer: Changing) -> None:
    """The last of one part becomes the first of the next."""
    one, other = trainer.model[0]._parameters, trainer.model[1]._parameters
    name, last = one.popitem()
    rest = dict(other)
    other.clear()
    other.update({name: last, **rest})


def exchanged(trainer: Changing) -> None:
    """Two parameters have each other's entry."""
    state = trainer.optimizer.state
    (one, first), (other, second), *rest = state.items()
    state.clear()
    state.update([(other, first), (one, second), *rest])


def add_group(trainer: Changing) -> None:
    trainer.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 0.5})


def note(trainer: Changing) -> None:
    trainer.optimizer.param_groups[0].setdefault("notes", []).append(1)


def forget_one(trainer: Changing) -> None:
    if trainer.optimizer.state:
        trainer.optimizer.state.popitem()


def swap_entry(trainer: Changing) -> None:
    for entry in trainer.optimizer.state.values():
        entry["exp_avg"] = entry["exp_avg"].clone() + 1


def make_sparse(trainer: Changing) -> None:
    trainer.first = torch.eye(2).to_sparse()  # type: ignore[attr-defined]


CHANGES: dict[str, Change] = {
    "a number in a tensor": lambda trainer: weight(trainer).data.add_(1),
    "mode": lambda trainer: trainer.model[1].train(not trainer.model[1].training),
    "frozen": lambda trainer: weight(trainer).requires_grad_(not weight(trainer).requires_grad),
    "another parameter": lambda trainer: setattr(trainer.model[0], "weight", nn.Parameter(torch.ones(3, 2))),
    "another type": retyped,
    "another shape": reshaped,
    "another order in memory": transposed,
    "another name": renamed,
    "another holder": handed_on,
    "another part": lambda trainer: trainer.model.append(nn.Linear(1, 1)),
    "another class": lambda trainer: setattr(trainer.model[2], "__class__", Dated),
    "another version": lambda trainer: setattr(trainer.model[2], "_version", 9),
    "an optimizer of another class": lambda trainer: setattr(
        trainer.optimizer, "__class__", torch.optim.NAdam
    ),
    "an optimizer that says something else": lambda trainer: setattr(
        trainer.optimizer, "state_dict", lambda: {"said": 1}
    ),
    "a parameter where none was": lambda trainer: setattr(
        trainer.model, "absent", nn.Parameter(torch.ones(1))
    ),
    "a buffer": lambda trainer: trainer.model[2].register_buffer("more", torch.zeros(2)),
    "a buffer that is not saved": lambda trainer: trainer.model[2].register_buffer(
        "more", torch.zeros(2), persistent=False
    ),
    "a buffer not saved": lambda trainer: trainer.model[1]._non_persistent_buffers_set.add("running_var"),
    "a buffer replaced": lambda trainer: setattr(trainer.model[1], "running_mean", torch.ones(3)),
    "a hook": lambda trainer: trainer.model.register_state_dict_post_hook(
        lambda module, state, *_: state.update(extra=torch.ones(1))
    ),
    "a hook of the optimizer": lambda trainer: trainer.optimizer.register_state_dict_post_hook(
        lambda optimizer, state: state.update(extra=1)
    ),
    "lr": lambda trainer: trainer.set_group(trainer.optimizer, lr=-0.0),
    "lr again": lambda trainer: trainer.set_group(trainer.optimizer, lr=0.0),
    "lr as a tensor": lambda trainer: trainer.set_group(trainer.optimizer, lr=torch.tensor(0.5)),
    "betas": lambda trainer: trainer.set_group(trainer.optimizer, betas=(0.5, 0.6)),
    "a list among settings": note,
    "a group": add_group,
    "groups in another order": lambda trainer: trainer.optimizer.param_groups.reverse(),
    "parameters in another order": lambda trainer: trainer.optimizer.param_groups[0]["params"].reverse(),
    "entries exchanged": exchanged,
    "an entry fewer": forget_one,
    "an entry replaced": swap_entry,
    "state of a parameter": lambda trainer: trainer.optimizer.state[weight(trainer)].update(more=7),
    "a tensor before": lambda trainer: vars(trainer).update(
        {"before": torch.ones(2), **{name: vars(trainer).pop(name) for name in ("model", "optimizer")}}
    ),
    "a sparse tensor": make_sparse,
    "a second name": lambda trainer: vars(trainer).update(
        {"again": trainer.model, "model": vars(trainer).pop("model")}
    ),
    "a part under a name of its own": lambda trainer: setattr(trainer, "part", trainer.model[0]),
    "another model": lambda trainer: setattr(trainer, "model", nn.Sequential(nn.Linear(2, 2), nn.ReLU())),
    "a model fewer": lambda trainer: setattr(trainer, "model", None),
    "a number": lambda trainer: setattr(trainer, "count", trainer.count + 1),
    "another kind of number": lambda trainer: setattr(trainer, "count", 1 + 2j),
    "a number more": lambda trainer: setattr(trainer, "more", 1),
    "the place in the data": lambda trainer: next(trainer.loader.batches(1)),
    "the batch size": lambda trainer: setattr(trainer.loader, "batch_size", 3),
    "another loader": lambda trainer: setattr(trainer, "loader", Loader(torch.zeros(4, 2), 2)),
    "a constant": lambda trainer: trainer.images.add_(1),
    "a constant in a tuple": lambda trainer: trainer.held_out[1].add_(1),
    "another tuple": lambda trainer: setattr(trainer, "held_out", (torch.zeros(3), torch.ones(2))),
}


def built() -> Changing:
    trainer = Changing()
    trainer.build()
    trainer._attributes._note_constants()
    return trainer


def written(trainer: Changing) -> object:
    """Return what is written, or why torch refuses to say what there is."""
    try:
        return b"".join(trainer.snapshot().content())  # type: ignore[attr-defined]
    except Exception as error:
        return type(error)


def written_anew(trainer: Changing) -> object:
    attributes = trainer._attributes
    kept = attributes._memory, attributes._routine
    attributes._memory, attributes._routine = Memory(), None
    content = written(trainer)
    attributes._memory, attributes._routine = kept
    return content


@pytest.mark.parametrize("name", CHANGES)
def test_every_single_change_is_noticed(name: str) -> None:
    trainer = built()
    trainer.train()
    before = written(trainer)
    assert isinstance(before, bytes)
    for _ in range(3):
        assert written(trainer) == written_anew(trainer) == before
    assert trainer._attributes._routine is not None
    for _ in range(3):
        CHANGES[name](trainer)
        for _ in range(3):
            assert written(trainer) == written_anew(trainer)


@settings(max_examples=150)
@given(st.lists(st.sampled_from([*CHANGES, "train"]), max_size=8))
def test_after_any_changes_in_any_order_what_is_written_is_what_is_there(names: list[str]) -> None:
    trainer = built()
    for name in names:
        with suppress(Exception):  # it may not go with what was done before
            (Changing.train if name == "train" else CHANGES[name])(trainer)
        for _ in range(3):
            assert written(trainer) == written_anew(trainer)


def test_what_changes_now_and_then_is_remembered_again() -> None:
    trainer = built()
    for number in range(6):
        trainer.set_group(trainer.optimizer, lr=0.1 / (number + 1))
        for _ in range(2):
            assert written(trainer) == written_anew(trainer)
    assert {"model", "optimizer"} <= set(trainer._attributes._memory._known)
    assert trainer._attributes._routine is not None


def test_a_tensor_that_becomes_its_conjugate_is_noticed() -> None:
    trainer = built()
    trainer.model = nn.Sequential(nn.Linear(2, 2, dtype=torch.complex64))
    for _ in range(4):
        for _ in range(3):
            assert written(trainer) == written_anew(trainer)
        weight(trainer).data = weight(trainer).data.conj()


def test_what_comes_along_may_be_longer_than_before() -> None:
    trainer = built()
    before = np.random.get_bit_generator()  # type: ignore[attr-defined]
    try:
        for generator in (before, np.random.PCG64(1), before):
            np.random.set_bit_generator(generator)  # type: ignore[attr-defined]
            for _ in range(4):
                assert written(trainer) == written_anew(trainer)
    finally:
        np.random.set_bit_generator(before)  # type: ignore[attr-defined]


def test_what_changes_all_the_time_or_is_large_is_not_remembered_and_nothing_is_held_on_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = built()
    for number in range(6):
        trainer.set_group(trainer.optimizer, lr=0.1 / (number + 1))
        assert written(trainer) == written_anew(trainer)
    known = trainer._attributes._memory._known
    assert "model" in known
    assert "optimizer" not in known
    del trainer.model
    written(trainer)
    assert known.keys().isdisjoint({"model", "optimizer"})
    monkeypatch.setattr(remembered, "_MOST_BYTES", 8)
    trainer.build()
    written(trainer)
    written(trainer)
    assert known.keys().isdisjoint({"model", "optimizer"})
    assert trainer._attributes._routine is None
