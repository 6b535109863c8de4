"""What is found on a trainer, and exported as plain data."""

from __future__ import annotations

import enum
import subprocess
import sys
from collections import deque, namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from hippotune import Config, HippoError, InvalidInput, MultiStep
from hippotune.errors import NothingToExport
from hippotune.study.exports import Origin, export
from hippotune.trainers.export import find_parts
from hippotune.trainers.session import Session

ORIGIN = Origin(
    "digits", Config({"lr": MultiStep(0.5, [4], 0.1), "bs": 64}), 7, {"loss": 0.25, "bad": np.nan}
)


class Slotted:
    __slots__ = ("head",)

    def __init__(self, head: nn.Module) -> None:
        self.head = head


class Odd(enum.Enum):
    ONE = 1


def holding(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


def read(path: Path) -> Any:
    return torch.load(path, weights_only=True)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


# What is found.


def test_modules_and_optimizers_are_found_at_any_depth_under_the_shortest_path() -> None:
    policy, value, head, extra = net(), net(), nn.Linear(1, 1), nn.Linear(1, 1)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    trainer = holding(
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1),
        agent=holding(policy=policy, again=policy, memory=deque([{"value": value}])),
        nets=[extra, (Slotted(head),)],
        optimizer=optimizer,
        name="x",
        data=np.zeros(3),
    )
    trainer.agent.owner = trainer
    found = find_parts(trainer)
    assert found.modules == {
        "agent.policy": policy,
        "agent.memory[0]['value']": value,
        "nets[0]": extra,
        "nets[1][0].head": head,
    }
    assert found.optimizers == {"optimizer": optimizer}


def test_a_module_inside_another_one_is_not_listed_apart() -> None:
    whole = net()
    found = find_parts(holding(first=whole[0], model=whole))  # type: ignore[index]
    assert list(found.modules) == ["model"]


def test_a_module_in_a_plain_attribute_of_another_one_is_listed() -> None:
    model = net()
    model.heads = [nn.Linear(1, 1)]  # which no state_dict of the model has
    model[0].friend = holding(of=nn.Linear(2, 2))  # type: ignore[index]
    assert list(find_parts(holding(model=model)).modules) == ["model", "model.heads[0]", "model.0.friend.of"]


def test_compiled_and_parallel_modules_are_exported_without_their_wrappers() -> None:
    model = net()
    wrapped = holding(compiled=torch.compile(model), model=model, parallel=nn.DataParallel(model))
    assert list(find_parts(wrapped).modules.values()) == [model]


# Files for torch.


def test_a_file_says_where_the_model_comes_from(tmp_path: Path) -> None:
    written = read(export(holding(model=net()), ORIGIN, tmp_path / "best.pt"))
    assert Config.from_json(written["config"]) == ORIGIN.config
    assert (written["step"], written["study"]) == (7, "digits")
    assert written["metrics"]["loss"] == 0.25
    assert np.isnan(written["metrics"]["bad"])
    assert written["hippotune"]
    assert written["omitted"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["best.pt"]


def lbfgs(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(model.parameters(), lr=0.1, history_size=3, line_search_fn="strong_wolfe")


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), amsgrad=True),
    "LBFGS": lbfgs,
}


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    inputs = torch.linspace(0, 1, 15).view(5, 3)

    def closure() -> float:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_model_goes_on_from_its_file_as_from_memory(tmp_path: Path, name: str) -> None:
    model = net()
    optimizer = OPTIMIZERS[name](model)
    for _ in range(3):
        step(model, optimizer)
    path = export(holding(model=model, optimizer=optimizer), ORIGIN, tmp_path / "model.pt")
    written = read(path)
    assert same(written["modules"]["model"], dict(model.state_dict()))
    copy = net()
    copy.load_state_dict(written["modules"]["model"])
    copied = OPTIMIZERS[name](copy)
    copied.load_state_dict(written["optimizers"]["optimizer"])
    for _ in range(2):
        step(model, optimizer)
        step(copy, copied)
    assert same(dict(model.state_dict()), dict(copy.state_dict()))


def test_python_values_in_parameter_groups_do_not_keep_a_file_from_being_read(tmp_path: Path) -> None:
    model = net()
    pair = namedtuple("pair", "a b")
    group = {
        "params": list(model.parameters()),
        "schedule": lambda step: step,
        "names": ["a", "b"],
        "floats": np.float64(0.5),
        "array": np.arange(3),
        "pair": pair(1, torch.ones(2)),
        "kinds": {"device": torch.device("cpu"), "dtype": torch.bfloat16, "raw": b"x", "odd": Odd.ONE},
        "several": [1, print, None],
        "among": {3},
    }
    optimizer = torch.optim.SGD([group], lr=0.1)
    written = read(export(holding(model=model, opt=optimizer), ORIGIN, tmp_path / "model.pt"))
    read_back = written["optimizers"]["opt"]["param_groups"][0]
    assert "schedule" not in read_back
    assert read_back["names"] == ["a", "b"]
    assert read_back["floats"] == 0.5
    assert read_back["array"].tolist() == [0, 1, 2]
    assert read_back["pair"][1].tolist() == [1, 1]
    assert read_back["kinds"] == {"device": "cpu", "dtype": torch.bfloat16, "raw": b"x"}
    assert read_back["several"] == [1, None, None]
    assert read_back["among"] == [3]
    assert written["omitted"] == [
        f"optimizers.opt.param_groups[0].{name}" for name in ("schedule", "kinds.odd", "several[1]")
    ]


def test_a_tensor_is_written_without_the_memory_around_it_and_one_that_is_shared_once(tmp_path: Path) -> None:
    tied = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 100, bias=False))
    tied[1].weight = tied[0].weight
    view = nn.Module()
    view.part = nn.Parameter(torch.zeros(1_000_000)[:3])
    path = export(holding(tied=tied, view=view), ORIGIN, tmp_path / "model.pt")
    assert path.stat().st_size < 60_000
    written = read(path)["modules"]
    assert written["tied"]["0.weight"].data_ptr() == written["tied"]["1.weight"].data_ptr()
    assert written["view"]["part"].tolist() == [0, 0, 0]


class OwnState:
    def state_dict(self) -> dict[str, Any]:
        return {"height": 0.5, "table": np.eye(2), "hook": print}


def test_what_a_trainer_says_is_its_state_is_exported(tmp_path: Path) -> None:
    written = read(export(OwnState(), ORIGIN, tmp_path / "model.pt"))
    assert written["state"]["height"] == 0.5
    assert written["state"]["table"].tolist() == [[1, 0], [0, 1]]
    assert (written["modules"], written["omitted"]) == ({}, ["state.hook"])
    with pytest.raises(
        HippoError, match=r"no torch module to write as \.safetensors; a name that ends in \.pt"
    ):
        export(OwnState(), ORIGIN, tmp_path / "model.safetensors")


# Files for safetensors.


def test_safetensors_hold_the_tensors_of_one_model_under_their_own_names(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    path = export(holding(model=model), ORIGIN, tmp_path / "model.safetensors")
    copy = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    copy.load_state_dict(load_file(path))
    assert same(dict(copy.state_dict()), dict(model.state_dict()))
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert (metadata["step"], metadata["study"], metadata["format"]) == ("7", "digits", "pt")
    assert '"bs": 64' in metadata["config"]
    assert '"loss": 0.25' in metadata["metrics"]


def test_safetensors_hold_the_tensors_of_several_models_under_their_paths(tmp_path: Path) -> None:
    shared = nn.Linear(2, 2)
    other = nn.Module()
    other.transposed = nn.Parameter(torch.arange(6.0).view(2, 3).t())
    other.register_buffer("inside", shared.weight.detach()[0])
    path = export(holding(nets=[shared, other]), ORIGIN, tmp_path / "model.safetensors")
    found = load_file(path)
    assert sorted(found) == [
        *("nets[0].bias", "nets[0].weight", "nets[1].inside", "nets[1].transposed"),
    ]
    assert torch.equal(found["nets[1].transposed"], other.transposed)


# What cannot be exported.


def test_a_trainer_without_modules_and_state_dict_is_pointed_to_load(tmp_path: Path) -> None:
    with pytest.raises(NothingToExport, match=r"defines no state_dict.*best.load\(\)"):
        export(holding(height=1.0), ORIGIN, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


class Unwilling(nn.Module):
    def state_dict(self, *_: Any, **__: Any) -> Any:
        raise ValueError("not now")


def test_a_state_that_cannot_be_had_is_named_and_an_older_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_text("before")
    with pytest.raises(HippoError, match=r"agent.net.state_dict\(\) failed.*ValueError: not now"):
        export(holding(agent=holding(net=Unwilling())), ORIGIN, path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["model.pt"]


def test_a_path_that_is_a_folder_or_in_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a folder"):
        export(holding(model=net()), ORIGIN, tmp_path)
    with pytest.raises(InvalidInput, match="in a folder that does not exist"):
        export(holding(model=net()), ORIGIN, tmp_path / "none" / "model.pt")


SMALL = """
from torch import nn, optim
from hippotune import Config, TorchTrainer
from hippotune.trainers.session import Session

class Small(TorchTrainer):
    def build(self):
        self.model = nn.Linear(2, 1)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)
    def train(self): ...
    def evaluate(self): return {"loss": 0.0}

config = Config({"lr": 0.1})
"""
EXPORT = """
import sys
from hippotune.trainers.export import plain_state

session = Session(Small, {}, 0, bare=True)
with open(sys.argv[1], "rb") as source:
    session.start(config, 1, source, False)
assert plain_state(session.release()).optimizers["optimizer"]["param_groups"][0]["lr"] == 0.1
assert "torch._dynamo" not in sys.modules
"""


def test_an_export_imports_no_compiler(tmp_path: Path) -> None:
    """In a process that only looks at a model, that would take longer than all else."""
    names: dict[str, Any] = {"__name__": "small"}
    exec(SMALL, names)
    session = Session(names["Small"], {}, 0)
    session.start(names["config"], 0, None, False)
    with (tmp_path / "saved").open("wb") as file:
        session.snapshot()(file)
    script = tmp_path / "small.py"
    script.write_text(SMALL + EXPORT)
    subprocess.run([sys.executable, str(script), str(tmp_path / "saved")], check=True)
