"""What evaluate() may return: a mapping from names to real numbers. Everything else is said to be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from hippotune.errors import TrainerError


def checked_metrics(returned: object) -> dict[str, float]:
    """Return metrics as floats; scalars of NumPy and torch count as numbers, NaN and infinity are allowed."""
    if not isinstance(returned, Mapping):
        raise TrainerError(
            f"evaluate() returned {_described(returned)}; expected a mapping from names to numbers, "
            'like {"val_acc": 0.93}'
        )
    if not returned:
        raise TrainerError('evaluate() returned no metric; expected at least one, like {"val_acc": 0.93}')
    return {_checked_name(name): _checked_number(name, value) for name, value in returned.items()}


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise TrainerError(f"evaluate() returned a metric named {name!r}; expected a name that is a string")
    return name


def _checked_number(name: object, value: Any) -> float:
    number = value
    if not isinstance(value, Real) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
    if not isinstance(number, bool) and isinstance(number, Real):
        try:
            return float(number)
        except OverflowError:
            pass
    raise TrainerError(
        f"evaluate() returned {_described(value)} as {name!r}; expected a real number: a float, an int, "
        "or a scalar of NumPy or torch"
    )


def _described(value: object) -> str:
    text = repr(value)
    shape = getattr(value, "shape", None)
    kind = type(value).__name__ + (f" of shape {tuple(shape)}" if isinstance(shape, tuple) and shape else "")
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({kind})"
