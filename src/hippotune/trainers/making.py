"""A new trainer object; what its class lacks is said before anything is trained."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from hippotune.errors import TrainerError
from hippotune.trainers.base import Trainer


def make(trainer: type[Trainer], settings: Mapping[str, Any], seed: int) -> Trainer:
    """Return a new object of a trainer's class."""
    name = trainer.__name__
    if missing := sorted(trainer.__abstractmethods__):
        raise TrainerError(
            f"{name} does not define {', '.join(f'{each}()' for each in missing)}; a trainer needs "
            "setup(hp), which puts hyper-parameters into force, train(), which trains one step, and "
            "evaluate(), which returns metrics"
        )
    try:
        inspect.signature(trainer).bind(settings, seed)
    except TypeError as error:
        raise TrainerError(
            f"__init__() of {name} cannot be called with settings and seed: {error}. Have it take both and "
            "call super().__init__(settings, seed); or leave it out, and make things in build()"
        ) from None
    made = trainer(settings, seed)
    if not hasattr(made, "settings"):
        raise TrainerError(
            f"__init__() of {name} has to call super().__init__(settings, seed); or leave it out, and make "
            "things in build()"
        )
    return made
