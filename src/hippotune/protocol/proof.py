"""Proofs of exactness as values: what was seen of several runs of the same training, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hippotune.protocol.fingerprint import Fingerprint

Name = Literal[
    "reference",
    "fresh",
    "warm",
    "again",
    "straight",
    "repeated",
    "narrow",
    "wide",
    "nudged",
    "twice",
    "evaluated",
    "unsaved",
]
Outcome = Literal["exact", "noisy", "differs"]
Moment = tuple[int, bool]
"""A step, and whether it is after an evaluation."""


@dataclass(slots=True)
class Run:
    """What was seen of one run: its states by step, before and after evaluate(), and its metrics.

    In a rehearsal the `reference` is trained straight through, `fresh` and `warm` go on from its checkpoint
    in a fresh interpreter and in its own process, and `again` is a second start from scratch in a warm
    process. In an audit, `straight` passes a branch and `repeated` goes on from its checkpoint. `narrow` and
    `wide` train the same step on one worker and on several, and `nudged` trains it on one from weights that
    differ in their last bits: what rounding alone makes of it. A check also trains `twice`, each time in an
    interpreter of its own, with an evaluation after every step (`evaluated`), and without checkpoints
    (`unsaved`). `error` is what a run raised. `probed` are the states before and after the evaluate() before
    the first step: that these are the same is all that is asked of them.
    """

    name: Name
    start: int
    states: dict[int, Fingerprint] = field(default_factory=dict)
    evaluated: dict[int, Fingerprint] = field(default_factory=dict)
    metrics: dict[int, Mapping[str, float]] = field(default_factory=dict)
    error: str | None = None
    probed: dict[bool, Fingerprint] = field(default_factory=dict)

    def add(self, step: int, fingerprint: Fingerprint, evaluated: bool) -> None:
        """Take in a state."""
        if step:
            (self.evaluated if evaluated else self.states)[step] = fingerprint
        else:
            self.probed[evaluated] = fingerprint

    @property
    def around_evaluate(self) -> Iterator[tuple[int, Fingerprint, Fingerprint]]:
        """The steps with fingerprints before and after evaluate(), with both states."""
        if len(self.probed) == 2:
            yield 0, self.probed[False], self.probed[True]
        for step in sorted(self.states.keys() & self.evaluated.keys()):
            yield step, self.states[step], self.evaluated[step]

    @property
    def moments(self) -> Iterator[Moment]:
        """When fingerprints were taken."""
        yield from ((step, False) for step in self.states)
        yield from ((step, True) for step in self.evaluated)

    def state(self, moment: Moment) -> Fingerprint | None:
        """Return the fingerprint of its state at a moment, if there is one."""
        return (self.evaluated if moment[1] else self.states).get(moment[0])

    def is_loaded(self, moment: Moment) -> bool:
        """Whether its state at a moment is what was loaded, before anything was done with it."""
        return self.start > 0 and moment == (self.start, False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from some runs.

    `text` is for the person who wrote the trainer: empty where there is nothing to say, a warning where
    something is volatile, and what differs, why, and what to do where the outcome is "differs". `path` names
    what differs, if it is on the trainer; `step` is the step after which it was seen. `spread` is how far
    floats of straight runs are apart, relative to their scale. `volatile` has what differs each time, and
    what is not saved and was told: paths and metrics, to be left out of later proofs. A verdict is `doubtful`
    where all that differs may have done so by itself: training the same once more can tell.
    """

    outcome: Outcome
    text: str = ""
    path: str | None = None
    step: int | None = None
    spread: float = 0.0
    volatile: tuple[str, ...] = ()
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class ProofPolicy:
    """What to prove of a trainer, by its name: whether a difference ends the study, and which share of the
    work audits may take.
    """

    trainer: str
    exact: bool = True
    audit: float = 0.01
