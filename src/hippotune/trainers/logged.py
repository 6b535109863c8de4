"""What `Trainer.log` does: numbers of the step that is being trained, kept beside the trainer.

Nothing that is logged is on the trainer, so that it is not part of the state. What a trainer logs is found by
the object's identity, which is its own as long as the call lasts. A trainer that no session drives, as in a
plain loop of the user's own, may log too: its numbers are checked and go nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hippotune.errors import TrainerError
from hippotune.trainers.metrics import checked_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hippotune.trainers.base import Trainer, UserCall

Numbers = dict[str, float]

# By the trainer's id: the numbers of its present step, or the name of a method in which it may not log.
_open: dict[int, Numbers | str] = {}


class Logging:
    """A context for one call of a method of the user's.

    What `train` logs meanwhile is in the dictionary that it yields; in any other method, logging is an error.
    """

    __slots__ = ("_key", "_method")

    def __init__(self, trainer: Trainer, method: UserCall) -> None:
        self._key = id(trainer)
        self._method = method

    def __enter__(self) -> Numbers:
        numbers: Numbers = {}
        _open[self._key] = numbers if self._method == "train" else self._method
        return numbers

    def __exit__(self, *_: object) -> None:
        _open.pop(self._key, None)


def log(trainer: Trainer, numbers: Mapping[str, Any]) -> None:
    """Note numbers of the step that a trainer is at."""
    present = _open.get(id(trainer))
    if isinstance(present, str):
        raise TrainerError(_refusal(present, ", ".join(numbers)))
    if present is None:
        present = {}
    for name, number in numbers.items():
        present[name] = (
            number if type(number) is float and name else checked_number(name, number, "self.log() was given")
        )


def _refusal(method: str, names: str) -> str:
    advice = (
        "return it as a metric instead" if method == "evaluate" else "log it in train(), where steps are made"
    )
    return (
        f"self.log() was called in {method}(), with {names or 'nothing'}; it records numbers of a training "
        f"step and can be called in train() only: {advice}"
    )
