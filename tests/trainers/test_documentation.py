"""Every block of Python in docs/trainers.md runs, and does what the page says."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import hippotune as hippo
from docs.pages import python
from hippotune.sequences import Config, MultiStep, Piecewise
from hippotune.trainers.session import Session
from study.walkers import Walker
from trainers.samples import interrupted, saved_by, uninterrupted

CLASSIFIER, SETUP, LOG, LOGGED, CHECK, PLAIN_LOOP, EVALUATE = python("trainers")
SETTINGS = {"data": "small"}

# What the page takes for granted.
GRANTED = """
import torch
from torch import nn
from torch.utils.data import TensorDataset


def read_images(name):
    assert name == "small"
    data = TensorDataset(torch.linspace(0, 1, 600).reshape(150, 4), torch.arange(150) % 3)
    return data, data


def make_model():
    return nn.Linear(4, 3)


def accuracy(model, data):
    images, labels = data.tensors
    return float((model(images).argmax(1) == labels).float().mean())
"""


# Modules beside the model, which no evaluate() puts into evaluation mode.
AVERAGING = """
class Averaging(Classifier):
    def build(self):
        super().build()
        self.averages = {"slow": torch.optim.swa_utils.AveragedModel(self.model)}
        self.dropout = nn.Dropout(0.5)

    def train(self):
        super().train()
        self.averages["slow"].update_parameters(self.model)

    def evaluate(self):
        images, _ = self.validation.tensors
        return {"sum": self.dropout(self.averages["slow"](images)).sum().item()}
"""


def method(name: str, text: str) -> str:
    """Return a class that is the page's, but for one method."""
    return f"class {name}(Classifier):\n{textwrap.indent(text, '    ')}"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page as a module that worker processes can import."""
    folder = tmp_path_factory.mktemp("page")
    training = (
        "self.optimizer.zero_grad()\n        loss = self.model(images).square().mean()\n        norm = 1"
    )
    assert "..." in LOG
    blocks = [
        GRANTED,
        CLASSIFIER.replace(", num_workers=2", ""),
        method("Changing", SETUP),
        method("Logging", LOG.replace("...", training)),
        method("Parted", EVALUATE),
        PLAIN_LOOP,
        AVERAGING,
    ]
    (folder / "trainers_page.py").write_text("\n\n".join(blocks))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("trainers_page")


def trained(session: Session, steps: int) -> dict[str, torch.Tensor]:
    for _ in range(steps):
        session.advance()
    return {name: value.clone() for name, value in session.trainer.model.state_dict().items()}  # type: ignore[attr-defined]


def test_the_trainer_of_the_page_trains(page: ModuleType) -> None:
    session = Session(page.Classifier, SETTINGS, 0)
    session.start(Config({"lr": 0.1, "bs": 6}), 0, None, warm=False)
    trained(session, 2)
    assert 0 <= session.evaluate()["val_acc"] <= 1


def test_the_trainer_of_the_page_is_exact_and_the_check_of_the_page_would_say_so(page: ModuleType) -> None:
    config = Config({"lr": 0.1, "bs": 6})
    alone = uninterrupted(page.Classifier, config, 2, SETTINGS)
    assert interrupted(page.Classifier, config, ["move", "evaluate"], SETTINGS).agrees_with(alone)
    # The call itself, on a trainer that needs no torch in each of its interpreters.
    found = eval(CHECK.replace("steps=4", "steps=2"), {"hippo": hippo, "Classifier": Walker})
    assert "Walker is exact over 2 steps" in str(found)


def test_the_loop_of_the_page_gives_what_the_trial_alone_gives(page: ModuleType, tmp_path: Path) -> None:
    config = Config({"lr": MultiStep(0.5, [1], 0.1), "bs": 6})
    alone = hippo.Study("page", page.Classifier, home=tmp_path, settings=SETTINGS).alone(config, 3)
    assert alone == page.plain_loop(page.Classifier, config, 3, SETTINGS)


AVERAGED = {"lr": 0.1, "bs": 6}


@pytest.fixture(scope="module")
def averaged_alone(page: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The metrics of a trial alone, after two steps, in a study with the seed 1."""
    home = tmp_path_factory.mktemp("averaging")
    study = hippo.Study("averaging", page.Averaging, home=home, settings=SETTINGS, seed=1)
    return study.alone(AVERAGED, 2)


def test_the_loop_of_the_page_evaluates_all_modules_as_the_trial_alone_does(
    page: ModuleType, averaged_alone: dict[str, float]
) -> None:
    assert averaged_alone == page.plain_loop(page.Averaging, Config(AVERAGED), 2, SETTINGS, 1)


def test_a_seed_that_is_a_hyper_parameter_is_the_trials_seed(
    page: ModuleType, averaged_alone: dict[str, float]
) -> None:
    initial = []
    for seed in (0, 1):
        session = Session(page.Averaging, SETTINGS, seed)
        session.start(Config(AVERAGED), 0, None, warm=False)
        own = Session(page.Averaging, SETTINGS, 7)
        own.start(Config({**AVERAGED, "seed": seed}), 0, None, warm=False)
        initial.append(trained(own, 0)["weight"])
        assert torch.equal(initial[-1], trained(session, 0)["weight"])
        assert all(map(torch.equal, trained(own, 2).values(), trained(session, 2).values()))
    assert not torch.equal(*initial)
    by_the_page = page.plain_loop(page.Averaging, Config({**AVERAGED, "seed": 1}), 2, SETTINGS, 7)
    assert own.evaluate() == averaged_alone == by_the_page


@pytest.mark.usefixtures("unrehearsed")
def test_what_train_logs_is_read_from_the_report(page: ModuleType, tmp_path: Path) -> None:
    tuner = hippo.GridSearch({"lr": [0.1, 0.2]}, "val_acc", "max", 2)
    executor = hippo.Local(workers=1)
    with hippo.Study("page", page.Logging, home=tmp_path, executor=executor, settings=SETTINGS) as study:
        report = study.tune(tuner, progress=False)
    logged = eval(LOGGED, {"report": report})
    assert logged.keys() == {"train_loss", "grad_norm"}
    assert [step for step, _ in logged["train_loss"]] == [1, 2]
    assert logged["grad_norm"] == [(1, 1.0), (2, 1.0)]


CONFIGS = {
    "only the optimizer changes": Config(
        {"optimizer": Piecewise(["sgd", "adam"], [2]), "lr": 0.05, "momentum": 0.8}
    ),
    "both change": Config(
        {"optimizer": Piecewise(["adam", "sgd"], [2]), "lr": MultiStep(0.05, [2], 0.1), "momentum": 0.8}
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_optimizer_that_changes_takes_what_is_in_force(page: ModuleType, config: Config) -> None:
    session = Session(page.Changing, SETTINGS, 0)
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
            after_3 = saved_by(session)
    end = trained(session, 2)
    again = Session(page.Changing, SETTINGS, 0)
    again.start(config, 3, after_3, warm=False)
    assert all(map(torch.equal, trained(again, 3).values(), end.values()))


def test_evaluating_in_parts_is_evaluating_the_whole_where_a_worker_is_alone(
    page: ModuleType,
) -> None:
    session = Session(page.Parted, SETTINGS, 0)
    session.start(Config({"lr": 0.1}), 0, None, warm=False)
    trainer: Any = session.trainer
    trainer.val_x, trainer.val_y = trainer.validation.tensors
    assert float(trainer.evaluate()["val_acc"]) == pytest.approx(
        page.accuracy(trainer.model, trainer.validation)
    )
