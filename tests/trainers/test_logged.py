"""What trainers may log, and where; none of it is state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hippotune as hippo
from hippotune.errors import TrainerError
from hippotune.sequences.config import Config
from hippotune.trainers.session import Session

CONFIG = Config({"lr": 0.1})


class Logging(hippo.Trainer):
    """Does in each method what its settings say."""

    def build(self) -> None:
        self.steps = 0
        self.do("build")

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]
        self.do("setup")

    def train(self) -> None:
        self.steps += 1
        self.do("train")

    def evaluate(self) -> Mapping[str, float]:
        self.do("evaluate")
        return {"steps": self.steps}

    def save(self, path: Path) -> None:
        path.write_text(str(self.steps))

    def load(self, path: Path) -> None:
        self.steps = int(path.read_text())

    def do(self, where: str) -> None:
        if where in self.settings:
            self.settings[where](self)


def session(trainer: type[hippo.Trainer] = Logging, **does: Any) -> Session:
    made = Session(trainer, does, 0)
    made.logged = []
    made.start(CONFIG, 0, None, warm=False)
    return made


def test_numbers_are_kept_by_the_step_that_they_were_logged_in() -> None:
    driven = session(train=lambda trainer: trainer.log(loss=1 / trainer.steps, lr=trainer.lr))
    for _ in range(2):
        driven.advance()
    assert driven.logged == [(1, {"loss": 1.0, "lr": 0.1}), (2, {"loss": 0.5, "lr": 0.1})]


def test_the_last_number_of_a_name_counts_and_steps_without_numbers_are_not_kept() -> None:
    def train(trainer: Logging) -> None:
        if trainer.steps == 2:
            trainer.log(loss=1, first=1)
            trainer.log(loss=2, second=2)

    driven = session(train=train)
    for _ in range(3):
        driven.advance()
    assert driven.logged == [(2, {"loss": 2.0, "first": 1.0, "second": 2.0})]


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.array(2), 2.0),
        (torch.tensor(0.25), 0.25),
        (torch.tensor(7), 7.0),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
    ],
)
def test_numbers_of_all_kinds_become_floats(number: Any, kept: float) -> None:
    driven = session(train=lambda trainer: trainer.log(x=number))
    driven.advance()
    assert driven.logged == [(1, {"x": kept})]
    assert type(driven.logged[0][1]["x"]) is float


def test_nan_is_a_number() -> None:
    driven = session(train=lambda trainer: trainer.log(x=torch.tensor(math.nan)))
    driven.advance()
    assert driven.logged is not None
    assert math.isnan(driven.logged[0][1]["x"])


@pytest.mark.parametrize("number", ["0.5", None, True, 1j, [0.5], np.zeros(2), torch.zeros(1), 10**400])
def test_what_is_no_number_is_refused_by_name(number: Any) -> None:
    with pytest.raises(TrainerError, match=r"self\.log\(\) was given .* as 'x'; expected a real number"):
        session(train=lambda trainer: trainer.log(x=number)).advance()


def test_a_number_without_a_name_is_refused() -> None:
    with pytest.raises(TrainerError, match="a metric named ''; expected a name"):
        session(train=lambda trainer: trainer.log(**{"": 1.0})).advance()


def test_any_name_can_be_logged() -> None:
    driven = session(train=lambda trainer: trainer.log(**{"self": 1, "loss/train": 2}))
    driven.advance()
    assert driven.logged == [(1, {"self": 1.0, "loss/train": 2.0})]


@pytest.mark.parametrize("where", ["build", "setup"])
def test_logging_before_a_step_is_refused(where: str) -> None:
    with pytest.raises(TrainerError, match=rf"in {where}\(\), with loss; .* in train\(\) only"):
        session(**{where: lambda trainer: trainer.log(loss=0)})


def test_logging_in_evaluate_is_refused_with_what_to_do_instead() -> None:
    driven = session(evaluate=lambda trainer: trainer.log(loss=0))
    driven.advance()
    with pytest.raises(TrainerError, match="return it as a metric instead"):
        driven.evaluate()


def test_a_step_that_raises_leaves_no_numbers_behind() -> None:
    def train(trainer: Logging) -> None:
        trainer.log(**{f"at {trainer.steps}": 1})
        if trainer.steps == 2:
            raise ValueError

    driven = session(train=train)
    driven.advance()
    with pytest.raises(ValueError):
        driven.advance()
    driven.start(CONFIG, 0, None, warm=False)
    driven.advance()
    assert driven.logged == [(1, {"at 1": 1.0}), (1, {"at 1": 1.0})]


def test_what_is_logged_is_not_on_the_trainer() -> None:
    driven = session(train=lambda trainer: trainer.log(loss=1.0))
    before = set(vars(driven.trainer))
    driven.advance()
    assert set(vars(driven.trainer)) == before


def test_a_session_that_nobody_takes_numbers_from_keeps_none() -> None:
    driven = session(train=lambda trainer: trainer.log(loss=1.0))
    driven.logged = None
    driven.advance()
    assert driven.logged is None


def test_a_trainer_in_a_loop_of_the_users_own_may_log() -> None:
    trainer = Logging({"train": lambda trainer: trainer.log(loss=0.5)})
    trainer.build()
    trainer.train()
    with pytest.raises(TrainerError, match="expected a real number"):
        trainer.log(loss="much")


def test_a_trainer_that_cannot_be_hashed_may_log() -> None:
    @dataclass
    class Unhashable(Logging):
        extra: int = 0

        def __init__(self, settings: Mapping[str, Any] | None = None, seed: int = 0) -> None:
            super().__init__(settings, seed)

    driven = session(Unhashable, train=lambda trainer: trainer.log(loss=1.0))
    driven.advance()
    assert driven.logged == [(1, {"loss": 1.0})]
