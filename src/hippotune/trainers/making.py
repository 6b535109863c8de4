"""A new trainer object; what its class lacks is said before anything is trained."""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any

from hippotune.errors import TrainerError
from hippotune.trainers.base import Trainer
from hippotune.trainers.state import walk

_CONTAINERS = {dict, OrderedDict, defaultdict, list, tuple, set, frozenset, deque, bytearray}


def make(trainer: type[Trainer], settings: Mapping[str, Any], seed: int) -> Trainer:
    """Return a new object of a trainer's class, with containers of settings of its own."""
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
    made = trainer(_copied(settings), seed)
    if not hasattr(made, "settings"):
        raise TrainerError(
            f"__init__() of {name} has to call super().__init__(settings, seed); or leave it out, and make "
            "things in build()"
        )
    return made


def _copied(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Copy all containers in settings; what else is in them, such as arrays, is the same object."""
    held = walk.objects(settings, reduced=False, enter=_is_copied)
    return copy.deepcopy(dict(settings), {id(each): each for _, each in held if not _is_copied(each)})


def _is_copied(value: object) -> bool:
    return type(value) in _CONTAINERS
