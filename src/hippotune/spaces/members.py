"""Configs together with the numbers and choices that they were made from, so that some can be drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hippotune.sequences.config import Config
from hippotune.spaces.notation import Values, resolve
from hippotune.spaces.sources import Chance, Drawn, Record
from hippotune.spaces.space import Space


@dataclass(frozen=True, slots=True)
class Member:
    """A config, the values in force in it now, and the numbers and choices that these were made from."""

    config: Config
    values: Values
    drawn: Drawn


def draw(space: Space, generator: np.random.Generator) -> Member:
    """Return a new member of a space."""
    chance = Chance(generator)
    accepted = Record(chance)
    space.values(accepted)
    # Once more, so as to leave out what was asked for in tries that were not accepted.
    record = Record(chance, accepted.drawn)
    values = resolve(space.parameters, record)
    return Member(space.config(values), values, record.drawn)


def near(space: Space, member: Member, generator: np.random.Generator, most: int = 2) -> Member | None:
    """Return a member that differs in one number or choice, or a few; None where `where` rejects it."""
    number = int(generator.integers(1, min(most, len(member.drawn)) + 1))
    changed = set(generator.choice(sorted(member.drawn), number, replace=False))
    known = {name: value for name, value in member.drawn.items() if name not in changed}
    record = Record(Chance(generator), known)
    values = resolve(space.parameters, record)
    return Member(space.config(values), values, record.drawn) if space.accepts(values) else None
