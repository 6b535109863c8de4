"""Training that is to be repeated as a proof."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from hippotune.engine.state import State
from hippotune.plan.facts import Position, ProofRecorded
from hippotune.protocol.commands import Abort, Note
from hippotune.protocol.events import MetricsReported, StateFingerprinted
from hippotune.protocol.failures import Retries
from hippotune.protocol.proof import ProofPolicy, Run, Verdict
from hippotune.sequences.config import Config
from hippotune.stages.tasks import Path


class Owner(Protocol):
    """The proof that a repetition belongs to."""

    def done(self, repeat: Repeat) -> None:
        """The repetition has ended, or raised."""

    def lost(self, repeat: Repeat, reason: str) -> None:
        """The repetition was lost with its worker, or its checkpoint could not be loaded."""


@dataclass(slots=True, eq=False)
class Repeat:
    """A path to be trained again, from scratch or from a checkpoint; what is seen of it goes into `run`.

    `platform` is where it was started last, and `losses` is how often it was lost. Its `owner` decides what
    becomes of it.
    """

    run: Run
    owner: Owner
    study: str
    config: Config
    path: Path
    fingerprints: frozenset[int]
    evaluations: frozenset[int]
    saves: frozenset[int] = frozenset()
    fresh: bool = False
    nudged: bool = False
    probe: bool = False
    width: Fraction = Fraction(1)
    platform: str = ""
    losses: int = 0

    @property
    def start(self) -> int:
        """The step that it starts from."""
        return self.path[0][1]

    def fingerprinted(self, event: StateFingerprinted) -> None:
        """Take in what the state is."""
        self.run.add(event.step, event.fingerprint, event.evaluated)

    def measured(self, event: MetricsReported) -> bool:
        """Take in metrics, where they are to be compared; return whether they are."""
        if event.step not in self.evaluations:
            return False
        self.run.metrics[event.step] = event.metrics
        return True

    def may_again(self, retries: Retries) -> bool:
        """Forget what was seen, for it was lost; return whether it is to be repeated once more."""
        self.losses += 1
        self.run = Run(self.run.name, self.run.start)
        return self.losses <= retries.times


def record(
    state: State,
    policy: ProofPolicy | None,
    kind: str,
    position: Position,
    verdict: Verdict,
    platform: str,
    width: int = 1,
) -> None:
    """Make a verdict a fact of the plan. A difference ends the study, unless it is one between widths."""
    outcome, text = verdict.outcome, verdict.text
    told = (verdict.path, verdict.step, verdict.spread, verdict.volatile, width, platform)
    fact = ProofRecorded(kind, position, outcome, text, *told)
    state.plan.apply(fact)
    state.facts.append(fact)
    if outcome == "differs" and kind != "width" and policy is not None and policy.exact:
        state.commands.append(Abort(text, refutation=verdict))
    elif text:
        state.commands.append(Note(text))
