"""Trainers whose results depend on state of every kind, each with what is expected of it.

A module holds one or a few causes. A class says by `expect` what has to come of it:

* ``exact``: bit for bit what a plain loop gives;
* ``volatile``: exact, with a warning that names what differs each time by `named`;
* ``named``: no checkpoint can hold its state; an error of the study has to name it by `named`;
* ``either``: exact, or named.

`found` is what an error may say instead of `named`: what a proof finds is not what the identity finds.

Nothing is imported before `ALL` is read, so that workers of trainers without torch do not import torch.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from hippotune import Config, Constant, MultiStep

MODULES = (
    "nested",
    "records",
    "values",
    "containers",
    "sets",
    "weak",
    "closures",
    "iterators",
    "random_state",
    "outside",
    "resources",
    "numeric",
    "classics",
    "estimators",
    "custom_state",
    "late",
    "evaluation",
    "proofs",
    "agents",
    "modules",
    "wrapped",
    "hooks",
    "optimizers",
    "around_optimizers",
    "schedules",
    "tensors",
    "views",
    "gradients",
    "growing",
    "datasets",
    "prepared",
    "learners",
)
STEPS = 6
# The configs branch at steps 2 and 4; each with the steps at which it is evaluated.
CONFIGS: dict[str, tuple[Config, tuple[int, ...]]] = {
    "constant": (Config({"lr": Constant(0.1)}), (2, 4, 6)),
    "drop at 2": (Config({"lr": MultiStep(0.1, [2], 0.5)}), (6,)),
    "drop at 4": (Config({"lr": MultiStep(0.1, [4], 0.5)}), (3, 6)),
    "drop at 2 and 4": (Config({"lr": MultiStep(0.1, [2, 4], 0.5)}), (6,)),
}
# A branch that is asked for when all others are trained.
LATER: tuple[Config, int] = (Config({"lr": MultiStep(0.1, [5], 0.5)}), STEPS)


def __getattr__(name: str) -> Any:
    if name != "ALL":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: list[type] = []
    for module in MODULES:
        full = f"{__name__}.{module}"
        found += [
            value
            for label, value in vars(importlib.import_module(full)).items()
            if inspect.isclass(value)
            and value.__module__ == full
            and hasattr(value, "expect")
            and not label.startswith("_")
        ]
    globals()["ALL"] = found
    return found
