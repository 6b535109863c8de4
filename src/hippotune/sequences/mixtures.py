"""Weights of a mixture, such as ``{"web": 0.7, "math": 0.3}``, as one value of a hyper-parameter.

A mixture is kept as a text, ``"math=0.3 web=0.7"``: sorted by name, adding up to 1, without the sources that
have no weight. So mixtures that mean the same are equal, and trials with them share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hippotune.errors import InvalidInput
from hippotune.sequences.values import exact, rounded_ratio


def mixture_text(name: str, weights: Mapping[Any, Any]) -> str:
    """Return the text that stands for weights."""
    parts: dict[str, Fraction] = {}
    for source, weight in weights.items():
        if not isinstance(source, str) or not source or "=" in source or source.split() != [source]:
            raise InvalidInput(f"{name} names the source {source!r}; expected a word without spaces and '='")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise InvalidInput(f"{name}: the weight of {source!r} is {weight!r}; expected a number")
        if weight < 0:
            raise InvalidInput(f"{name}: the weight of {source!r} is {weight!r}; expected at least 0")
        parts[source] = exact(weight)
    total = sum(parts.values())
    if not total:
        raise InvalidInput(f"{name} is {dict(weights)!r}; expected at least one weight above 0")
    shares = {source: part / total for source, part in sorted(parts.items()) if part}
    return " ".join(
        f"{source}={rounded_ratio(share.numerator, share.denominator)!r}" for source, share in shares.items()
    )


def mixture_weights(text: str) -> dict[str, float] | None:
    """Return the weights that a text stands for; None where it is no mixture."""
    try:
        return {source: float(weight) for source, _, weight in (word.partition("=") for word in text.split())}
    except ValueError:
        return None
