"""Boosting: a step is a round or several. What XGBoost and LightGBM have in common.

What always holds: sampling begins anew at every step, from a seed that is a function of the study's seed and
the number of rounds before. So a step draws the same rows and columns whatever was trained in the process
before it, and wherever its state comes from. Every parameter has an effect: one that the library does not
use, or that is given by two names, is refused before a round is trained.
"""

from __future__ import annotations

import hashlib
import struct
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from hippotune import checks
from hippotune.errors import TrainerError
from hippotune.short import listed
from hippotune.trainers.base import Trainer

_STEPS = "how long to train is what a tuner asks for, in steps of `rounds` rounds each"
_SEED = "the study's seed decides: Study(seed=...)"
_STOP = "a trial is trained as far as a tuner asks; stop early with a tuner, such as hippo.MedianStopping"


class BoostingTrainer(Trainer):
    """Trees, or linear models, one round after the other.

    Attributes
    ----------
    params : Mapping[str, Any]
        Parameters that are the same in all trials, as the library names them.
    rounds : int
        Rounds in a step.
    data
        What to train on; `prepare` leaves it on ``self``.
    booster
        The model of the library.
    round : int
        How many rounds were trained.
    """

    params: ClassVar[Mapping[str, Any]] = {}
    rounds: ClassVar[int] = 1

    library: ClassVar[str]
    refused: ClassVar[Mapping[str, str]] = {}
    data: Any

    def build(self) -> None:
        """Begin without a tree."""
        checks.whole("rounds", self.rounds)
        self.check(self.params, "params")
        self.in_force: dict[str, Any] = {}
        self.round = 0
        self.begin()

    def setup(self, hp: Mapping[str, Any]) -> None:
        """Hand hyper-parameters to the library, by the names that it knows."""
        self.check(hp, "the hyper-parameters")
        if not self.in_force.keys() >= hp.keys():
            self.check_names({**self.params, **self.in_force, **hp})
        self.in_force |= hp
        self.apply(dict(hp))

    def train(self) -> None:
        """Train as many rounds as a step has."""
        self.begin_step()
        for _ in range(self.rounds):
            self.boost()
            self.round += 1

    def check(self, given: Mapping[str, Any], where: str) -> None:
        """Raise where something is given that is Hippo's business, or that no checkpoint can hold."""
        for name, value in given.items():
            if why := self.refused.get(self.main_name(name)):
                raise TrainerError(
                    f"{where} of {type(self).__name__} have {name}={value!r}, which cannot hold in a study: "
                    f"{why}"
                )

    def check_names(self, given: Mapping[str, Any]) -> None:
        """Raise where the library does not use a parameter, or where one goes by two names."""
        if unused := self.unused(given):
            raise TrainerError(
                f"{self.library} does not use {listed(unused)} with the other parameters of "
                f"{type(self).__name__}. Trials that differ there alone would all be the same: check the "
                f"spelling, or take it out of the space or of params"
            )
        names: dict[str, str] = {}
        for name in given:
            other = names.setdefault(self.main_name(name), name)
            if other != name:
                raise TrainerError(
                    f"{other!r} and {name!r} are one parameter of {self.library}, and only one of both would "
                    f"hold; expected one name in params of {type(self).__name__} and in the space"
                )

    def value(self, name: str, default: Any = None) -> Any:
        """Return the value in force of a parameter, by its main name."""
        known = {self.main_name(each): value for each, value in {**self.params, **self.in_force}.items()}
        return known.get(name, default)

    @abstractmethod
    def main_name(self, name: str) -> str:
        """Return the library's main name of a parameter that may go by several."""

    @abstractmethod
    def unused(self, given: Mapping[str, Any]) -> list[str]:
        """Return the names of parameters that the library does not use."""

    @abstractmethod
    def begin(self) -> None:
        """Make a booster without a tree."""

    @abstractmethod
    def apply(self, values: dict[str, Any]) -> None:
        """Put values into force, from the next round on."""

    @abstractmethod
    def begin_step(self) -> None:
        """Begin sampling anew."""

    @abstractmethod
    def boost(self) -> None:
        """Train a round."""


def step_seed(seed: int, rounds: int) -> int:
    """Return the seed of the step that begins after a number of rounds: 31 bits."""
    digest = hashlib.blake2b(struct.pack("<Qq", seed % 2**64, rounds), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 33


def because(names: str, why: str) -> dict[str, str]:
    """Return one reason for several names."""
    return dict.fromkeys(names.split(), why)


def refused_by_all(steps: str, seeds: str, stopping: str) -> dict[str, str]:
    """Return why the parameters for a library's own loop are refused, by their names in it."""
    return because(steps, _STEPS) | because(seeds, _SEED) | because(stopping, _STOP)
