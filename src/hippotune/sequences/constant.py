"""The simplest sequence, and how plain values become sequences."""

from __future__ import annotations

from hippotune.errors import InvalidInput
from hippotune.sequences.base import FOREVER, Distribution, Piece, Sequence, is_open
from hippotune.sequences.laws import Flat
from hippotune.sequences.values import Value, Written, plain, rounded_value, tagged


class Constant(Sequence):
    """The same value at every step: a number, a string or a boolean."""

    __slots__ = ("_value",)

    _value: Value

    def __init__(self, value: Written | Distribution) -> None:
        checked = plain("value", value)
        super().__init__(checked)
        object.__setattr__(self, "_value", rounded_value(checked))

    def value(self, step: int) -> Value:
        """Return the constant."""
        return self._value

    def _piece(self, step: int) -> Piece:
        return Piece(Flat(self._value), FOREVER)

    def _identity(self) -> object:
        return tagged(self._value)


def written(sequence: Sequence) -> Value:
    """Return a constant's value, and any other sequence as it is written in Python."""
    return sequence.value(0) if isinstance(sequence, Constant) else repr(sequence)


def as_sequence(value: object) -> Sequence:
    """Return `value` if it is a sequence, and otherwise the constant of that value."""
    if isinstance(value, Sequence):
        return value
    if is_open(value):
        raise InvalidInput(f"{value!r} stands for many sequences; sample one from a space first")
    sequence: Sequence = Constant(value)  # type: ignore[arg-type]
    return sequence
