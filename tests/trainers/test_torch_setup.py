"""TorchTrainer.setup knows the usual names, and says what it knows where it is given others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from hippotune import InvalidInput, TrainerError
from hippotune.sequences.config import Config
from hippotune.trainers.session import Session
from hippotune.trainers.torch.loader import Loader
from hippotune.trainers.torch.trainer import TorchTrainer


class Two(TorchTrainer):
    """Two optimizers in a dict, two loaders in a list."""

    def build(self) -> None:
        self.model = nn.Linear(2, 2)
        parameters = list(self.model.parameters())
        self.optimizers = {
            "sgd": torch.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:]}], lr=0.1),
            "adam": torch.optim.AdamW(parameters, lr=0.1, betas=(0.9, 0.99)),
        }
        self.loaders = [Loader(TensorDataset(torch.zeros(20)), 4) for _ in range(2)]

    def train(self) -> None:
        raise NotImplementedError

    def evaluate(self) -> Mapping[str, float]:
        raise NotImplementedError


@pytest.fixture
def trainer() -> Two:
    trainer = Two()
    trainer.build()
    return trainer


def fields(trainer: Two, name: str) -> list[Any]:
    return [group.get(name) for o in trainer.optimizers.values() for group in o.param_groups]


def test_fields_of_parameter_groups_are_set_in_all_groups_of_all_optimizers(trainer: Two) -> None:
    trainer.setup({"lr": 0.3, "weight_decay": 0.01})
    assert fields(trainer, "lr") == [0.3] * 3
    assert fields(trainer, "weight_decay") == [0.01] * 3


def test_momentum_is_the_first_beta_where_there_are_betas(trainer: Two) -> None:
    trainer.setup({"momentum": 0.8})
    assert fields(trainer, "momentum") == [0.8, 0.8, None]
    assert fields(trainer, "betas") == [None, None, (0.8, 0.99)]


def test_a_learning_rate_that_is_a_tensor_is_filled_in_place(trainer: Two) -> None:
    held = torch.tensor(0.1)
    trainer.optimizers = {"adam": torch.optim.Adam(trainer.model.parameters(), lr=held)}
    trainer.setup({"lr": 0.25})
    assert trainer.optimizers["adam"].param_groups[0]["lr"] is held
    assert held == 0.25


@pytest.mark.parametrize("name", ["batch_size", "bs"])
def test_the_batch_size_is_set_on_all_loaders(trainer: Two, name: str) -> None:
    trainer.setup({name: 8})
    assert [loader.batch_size for loader in trainer.loaders] == [8, 8]
    with pytest.raises(InvalidInput, match="batch_size is 21, but the dataset has only 20 samples"):
        trainer.setup({name: 21})


def test_an_unknown_name_is_answered_with_those_that_are_known(trainer: Two) -> None:
    with pytest.raises(
        TrainerError, match=r"does not know 'learning_rate'; it knows 'batch_size', 'bs'.*'lr'.*Two"
    ):
        trainer.setup({"learning_rate": 0.1})
    trainer.loaders, trainer.optimizers = [], {}
    with pytest.raises(TrainerError, match=r"'bs' cannot be set: there is no hippo\.Loader on self of Two"):
        trainer.setup({"bs": 8})
    with pytest.raises(TrainerError, match=r"does not know 'lr'.*there is no optimizer on self"):
        trainer.setup({"lr": 8})


def test_groups_can_be_set_for_one_optimizer(trainer: Two) -> None:
    trainer.set_group(trainer.optimizers["sgd"], lr=0.7, nesterov=True)
    assert fields(trainer, "lr") == [0.7, 0.7, 0.1]
    with pytest.raises(TrainerError, match="SGD has no 'betas'; its parameter groups have 'dampening'"):
        trainer.set_group(trainer.optimizers["sgd"], betas=(0, 1))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("graphics", r"settings\['device'\] is 'graphics'; expected a torch device, like 'cuda' or 'cpu'"),
        ("cuda:9", r"settings\['device'\] is 'cuda:9', but this worker sees \d GPUs?; expected 'c"),
    ],
)
def test_a_device_that_is_not_there_is_refused(device: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Session(Two, {"device": device}, 0).start(Config({"lr": 0.1}), 0, None, False)
