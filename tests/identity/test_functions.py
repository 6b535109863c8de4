"""Sequences that are functions are stored with all that these read."""

from __future__ import annotations

import itertools
import sys

import pytest

import hippotune.identity  # noqa: F401  # says what functions read, as in every process that opens a plan
from hippotune.errors import InvalidInput
from hippotune.sequences import Function, from_json

SCALE = 1.0
NUMBERS = itertools.count()


def scaled(step: int) -> float:
    return step * SCALE


def counted(step: int) -> int:
    return step if NUMBERS else 0


def test_a_function_is_refused_once_what_it_reads_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Function(scaled).to_json()
    assert from_json(stored) == Function(scaled)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    with pytest.raises(InvalidInput, match="or what it reads"):
        from_json(stored)
    with pytest.raises(InvalidInput, match="or what it reads"):
        Function(scaled)
    monkeypatch.undo()
    assert from_json(stored) == Function(scaled)


def test_a_function_that_reads_what_cannot_be_identified_is_stored_by_its_values_or_not_at_all() -> None:
    with pytest.raises(InvalidInput, match=r"reads NUMBERS.*pass steps="):
        Function(counted).to_json()
    assert Function(counted, steps=2).to_json()["values"] == [0, 1]
