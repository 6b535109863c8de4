"""Which plain values differ by themselves and mean nothing: clocks, step times, memory, process numbers.

Only a number, a text, or a metric that no tuner needs can be volatile. A value that training computes must
not be taken for volatile, nor one that a checkpoint loses. These rules tell them apart:

* what is trained shows in a metric that a tuner needs: no such metric may differ;
* what is lost is the same each time. A value is volatile if three runs of a step have three values, or if
  doing the same again gives another one, unless runs from the checkpoint go on with it as training does;
* an audit evaluates only where there is a doubt: a value is volatile if repetitions that were evaluated
  differ in it, or if the straight step did not change it and every repetition did.

Coarse clocks agree by chance: then it takes another round of runs to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hippotune.protocol.proof import Moment, Name, Run
from hippotune.verdicts.stories import METRIC

_FROM_SCRATCH: frozenset[Name] = frozenset({"reference", "again", "twice", "unsaved", "evaluated"})


def is_volatile(path: str, runs: Sequence[Run]) -> bool:
    """Whether a plain value or a metric, which differs between some of the runs, does so by itself."""
    value = _Value(path, runs)
    match runs[0].name:
        case "narrow":
            return False
        case "straight" if not path.startswith(METRIC):
            return value.varies_at_a_branch()
        case _:
            is_trained = not path.startswith(METRIC) and value.is_trained()
            return any(map(_varies, value.seen())) and not is_trained


@dataclass
class _Value:
    """What runs have at a path; all are compared with the first of them."""

    path: str
    runs: Sequence[Run]

    def at(self, run: Run, moment: Moment) -> str | None:
        """Return what tells the value of a run from others, if it is there."""
        if self.path.startswith(METRIC):
            value = run.metrics.get(moment[0], {}).get(self.path.removeprefix(METRIC).strip("'"))
            return None if value is None or not moment[1] else repr(value)
        state = run.state(moment)
        leaf = None if state is None else state.by_place.get((self.path, False))
        return None if leaf is None else leaf.digest

    def seen(self) -> Iterator[list[tuple[Run, str]]]:
        """Yield which runs have which values, moment by moment, but for what was only loaded."""
        moments = {moment for run in self.runs for moment in run.moments}
        for moment in moments | {(step, True) for run in self.runs for step in run.metrics}:
            yield [
                (run, value)
                for run in self.runs
                if not run.is_loaded(moment) and (value := self.at(run, moment)) is not None
            ]

    def is_trained(self) -> bool:
        """Whether training computes it.

        Steps change it, every run from the checkpoint comes to the reference's value, and no other run from
        scratch does. Without a checkpoint: no moment has more than two values.
        """
        truth, *others = self.runs
        values = {self.at(truth, (step, False)) for step in truth.states}
        if len(values) == 1 and None not in values:
            return False
        if not any(run.start > truth.start for run in others):
            return all(len({value for _, value in seen}) < 3 for seen in self.seen())
        return all(
            (self.at(run, moment) == self.at(truth, moment)) == (run.start > truth.start)
            for run in others
            for moment in run.moments
            if truth.state(moment) is not None
        )

    def varies_at_a_branch(self) -> bool:
        """Whether evaluated repetitions differ; or all differ from a straight step that did not change it."""
        straight, *repeated = self.runs
        (step,) = straight.states
        measured = {self.at(run, (step, False)) for run in repeated if run.metrics}
        kept = self.at(straight, (step, False))
        is_kept = all(self.at(run, (run.start, False)) == kept for run in repeated)
        is_other = all(self.at(run, (step, False)) != kept for run in repeated)
        return len(measured) > 1 or (is_kept and is_other and len(repeated) > 1)


def _varies(seen: list[tuple[Run, str]]) -> bool:
    """Whether runs of one kind differ, or three of any kind."""
    kinds: dict[tuple[str, int], set[str]] = {}
    for run, value in seen:
        kinds.setdefault(("", 0) if run.name in _FROM_SCRATCH else (run.name, run.start), set()).add(value)
    return max(map(len, kinds.values()), default=0) > 1 or len({value for _, value in seen}) > 2
