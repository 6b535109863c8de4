"""What evaluate() may return, and log() be given: names with real numbers. All else is said to be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from hippotune.errors import TrainerError

_RETURNED = "evaluate() returned"


class NotMetrics(TrainerError):
    """evaluate() returned, or log() was given, what is no metric: after the probe, one trial's own fault."""


class MetricsMissing(TrainerError):
    """evaluate() does not bring metrics that a tuner reads."""

    def __init__(self, text: str, missing: Iterable[str]) -> None:
        super().__init__(text)
        self.missing = frozenset(missing)


def checked_metrics(returned: object) -> dict[str, float]:
    """Return metrics as floats; scalars of NumPy and torch count as numbers, NaN and infinity are allowed."""
    if not isinstance(returned, Mapping):
        raise NotMetrics(
            f"evaluate() returned {_described(returned)}; expected a mapping from names to numbers, "
            'like {"val_acc": 0.93}'
        )
    if not returned:
        raise NotMetrics('evaluate() returned no metric; expected at least one, like {"val_acc": 0.93}')
    return {name: checked_number(name, value) for name, value in returned.items()}


def checked_number(name: object, value: Any, said: str = _RETURNED) -> float:
    """Return a number as a float; errors begin with what was `said`."""
    if not isinstance(name, str) or not name:
        raise NotMetrics(f"{said} a metric named {name!r}; expected a name that is a string")
    number = value
    if not isinstance(value, Real) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
    if not isinstance(number, bool) and isinstance(number, Real):
        try:
            return float(number)
        except OverflowError:
            pass
    raise NotMetrics(
        f"{said} {_described(value)} as {name!r}; expected a real number: a float, an int, "
        "or a scalar of NumPy or torch"
    )


def _described(value: object) -> str:
    text = repr(value)
    shape = getattr(value, "shape", None)
    kind = type(value).__name__ + (f" of shape {tuple(shape)}" if isinstance(shape, tuple) and shape else "")
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({kind})"
