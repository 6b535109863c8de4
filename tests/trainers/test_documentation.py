"""The trainers in docs/trainers.md do what the page says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from hippotune.sequences import Config, MultiStep, Piecewise
from hippotune.trainers.session import Session

PAGE = Path(__file__).parents[2] / "docs" / "trainers.md"
CLASSIFIER, SETUP, EVALUATE, WALK = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
IMAGES = torch.linspace(0, 1, 48).reshape(12, 4)
DATA = TensorDataset(IMAGES, torch.arange(12) % 3)


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    images, labels = data.tensors
    return float((model(images).argmax(1) == labels).float().mean())


def defined(*blocks: str) -> dict[str, Any]:
    """Run blocks of the page, with the names that it takes for granted."""
    names: dict[str, Any] = {
        "hippo": hippo,
        "np": np,
        "torch": torch,
        "train_set": DATA,
        "validation_set": DATA,
        "accuracy": accuracy,
        "make_model": lambda: nn.Linear(4, 3),
    }
    for block in blocks:
        text = block.replace("batch_size=128", "batch_size=4").replace(", num_workers=2", "")
        exec(compile(text, str(PAGE), "exec"), names)
    return names


@pytest.fixture
def changing() -> type[hippo.TorchTrainer]:
    """The page's trainer, with the page's setup()."""
    overridden = f"class Changing(Classifier):\n{textwrap.indent(SETUP, '    ')}"
    found: type[hippo.TorchTrainer] = defined(CLASSIFIER, overridden)["Changing"]
    return found


def trained(session: Session, steps: int) -> dict[str, torch.Tensor]:
    for _ in range(steps):
        session.advance()
    return {name: value.clone() for name, value in session.trainer.model.state_dict().items()}  # type: ignore[attr-defined]


def test_the_trainer_of_the_page_trains() -> None:
    session = Session(defined(CLASSIFIER)["Classifier"], None, 0)
    session.start(Config({"lr": 0.1, "bs": 6}), 0, None, warm=False)
    trained(session, 2)
    assert 0 <= session.evaluate()["val_acc"] <= 1


CONFIGS = {
    "only the optimizer changes": Config(
        {"optimizer": Piecewise(["sgd", "adam"], [2]), "lr": 0.05, "momentum": 0.8}
    ),
    "both change": Config(
        {"optimizer": Piecewise(["adam", "sgd"], [2]), "lr": MultiStep(0.05, [2], 0.1), "momentum": 0.8}
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_optimizer_that_changes_takes_what_is_in_force(
    changing: type[hippo.TorchTrainer], config: Config, tmp_path: Path
) -> None:
    session = Session(changing, None, 0)
    session.start(config, 0, None, warm=False)
    for step in range(4):
        session.advance()
        values = config.values(step)
        optimizer: torch.optim.Optimizer = session.trainer.optimizer  # type: ignore[attr-defined]
        assert type(optimizer).__name__.lower() == values["optimizer"]
        (group,) = optimizer.param_groups
        assert group["lr"] == values["lr"]
        assert (group["betas"][0] if "betas" in group else group["momentum"]) == values["momentum"]
        if step == 2:
            session.snapshot().write(tmp_path / "after 3")
    end = trained(session, 2)
    again = Session(changing, None, 0)
    again.start(config, 3, tmp_path / "after 3", warm=False)
    assert all(map(torch.equal, trained(again, 3).values(), end.values()))


def test_evaluating_in_parts_is_evaluating_the_whole_where_a_worker_is_alone() -> None:
    text = f"class Parted(Classifier):\n{textwrap.indent(EVALUATE, '    ')}"
    parted = defined(CLASSIFIER, text)["Parted"]
    session = Session(parted, None, 0)
    session.start(Config({"lr": 0.1}), 0, None, warm=False)
    trainer: Any = session.trainer
    trainer.val_x, trainer.val_y = DATA.tensors
    assert float(trainer.evaluate()["val_acc"]) == pytest.approx(accuracy(trainer.model, DATA))


def test_the_trainer_without_torch_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    walk, config = defined(WALK)["Walk"], Config({"lr": 0.1})
    session = Session(walk, None, 0)
    session.start(config, 0, None, warm=False)
    for _ in range(2):
        session.advance()
    session.snapshot().write(tmp_path / "after 2")
    session.advance()
    again = Session(walk, None, 0)
    again.start(config, 2, tmp_path / "after 2", warm=False)
    again.advance()
    assert again.evaluate() == session.evaluate()
