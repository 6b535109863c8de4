"""The hyper-parameters' values in the step that a trainer is at: what ``self.hp(name)`` returns.

They are kept beside the trainer, by its id, and are no part of its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hippotune.errors import TrainerError
from hippotune.sequences.combined import Substeps
from hippotune.sequences.constant import Constant
from hippotune.sequences.mixtures import written

# By the trainer's id: the config that its present step is trained with, and the step.
_in_force: dict[int, tuple[Mapping[str, Any], int]] = {}


class InForce:
    """A context for one call of `train()`: `value_in_force` looks values up meanwhile."""

    __slots__ = ("_config", "_key", "_step")

    def __init__(self, trainer: object, config: Mapping[str, Any], step: int) -> None:
        self._key, self._config, self._step = id(trainer), config, step

    def __enter__(self) -> None:
        _in_force[self._key] = self._config, self._step

    def __exit__(self, *_: object) -> None:
        del _in_force[self._key]


def value_in_force(trainer: object, name: str, part: int) -> Any:
    """Return the value of a hyper-parameter at a part of the step that a trainer is at."""
    present = _in_force.get(id(trainer))
    if present is None:
        raise TrainerError(f"self.hp({name!r}) was called outside of train(); setup() is handed what changes")
    config, step = present
    if name not in config:
        known = ", ".join(map(repr, config))
        raise TrainerError(f"self.hp({name!r}) was called; expected one of the hyper-parameters {known}")
    sequence = config[name]
    parts = sequence.arguments[1] if isinstance(sequence, Substeps) else 1
    if part not in range(parts) and not isinstance(sequence, Constant):
        raise TrainerError(
            f"self.hp({name!r}, {part!r}) was called; the parts of a step are counted from 0, and there are "
            f"{parts} in this study. Study(substeps=...) says how many"
        )
    value = sequence.value(step)
    return value[part] if isinstance(value, tuple) else written(value)


def handed_over(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as `setup` gets them: those at the begin of a step, and mixtures as dicts."""
    return {name: value[0] if isinstance(value, tuple) else written(value) for name, value in values.items()}
