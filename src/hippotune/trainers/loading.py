"""A trainer from a checkpoint, made in this process: for looking at it, and for exporting its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from hippotune.errors import TrainerError
from hippotune.identity.process import running_trainer
from hippotune.sequences.config import Config
from hippotune.trainers.base import Trainer
from hippotune.trainers.process_settings import Surroundings
from hippotune.trainers.session import Session
from hippotune.trainers.starting import Start

Opener = Callable[[], AbstractContextManager[Any]]
"""Opens a checkpoint, as often as it is called."""


def load_trainer(
    trainer: type[Trainer],
    settings: Mapping[str, Any] | None,
    seed: int,
    start: Start | None,
    config: Config,
    step: int,
    opened: Opener,
    bare: bool = False,
) -> Trainer:
    """Return a trainer with the state of a checkpoint; see `Session` for `bare`.

    A state with views of prepared data cannot be loaded without these: then it is not bare.
    """
    session, own = Session(trainer, settings, seed, bare, start=start), Surroundings()
    try:
        with opened() as file, running_trainer():
            try:
                with own.following_imports():
                    session.start(config, step, file, warm=False)
            finally:  # this is the user's process
                own.put_back()
    except TrainerError:
        if not bare:
            raise
        return load_trainer(trainer, settings, seed, start, config, step, opened)
    return session.release()
