"""Weights of a mixture, such as ``{"web": 0.7, "math": 0.3}``, as one value of a hyper-parameter.

Within Hippo a mixture is a text, its JSON: sorted by name, adding up to 1, without the sources that have no
weight. So mixtures that mean the same are equal, and trials with them share. Trainers, and `where` of a
space, are handed it as a dict again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.values import Value, exact, rounded_ratio


def shares(name: str, weights: Mapping[Any, Any]) -> dict[str, float]:
    """Return the share of each source that has one, sorted by name."""
    parts = {
        source: exact(checks.number(f"{name}: the weight of {source!r}", weight, least=0))
        for source, weight in weights.items()
    }
    if odd := [source for source in parts if not isinstance(source, str) or not source]:
        raise InvalidInput(f"{name} names the source {odd[0]!r}; expected text that is not empty")
    if not (total := sum(parts.values())):
        raise InvalidInput(f"{name} is {dict(weights)!r}; expected at least one weight above 0")
    exactly = {source: part / total for source, part in sorted(parts.items()) if part}
    return {source: rounded_ratio(share.numerator, share.denominator) for source, share in exactly.items()}


def mixture_text(name: str, weights: Mapping[Any, Any]) -> str:
    """Return the text that stands for weights."""
    return json.dumps(shares(name, weights), ensure_ascii=False)


def written(value: Value) -> Value | dict[str, float]:
    """Return a value as a user writes it: the text of a mixture as a dict of weights, all else as it is."""
    if not (isinstance(value, str) and value.startswith("{")):
        return value
    try:
        weights = json.loads(value)
        return weights if mixture_text("", weights) == value else value
    except (ValueError, InvalidInput):
        return value
