"""Judges runs of the same training: are they the same, and if not, what differs and why?

The first run was trained straight through; all others must have its states and metrics, bit for bit:

* what a trainer declares as `volatile` is left out;
* what differs by itself is volatile, and there is a warning: see `volatility`;
* for values that are not saved and differ a step after a load, there is a warning too: no metric and no saved
  value depends on them yet;
* where straight runs differ only in tensors of floats, by at most `NOISE` of their scale, kernels are not
  deterministic: then runs from checkpoints may differ by `TIMES` as much;
* a wide run may differ from a narrow one in floats, by `WIDTH` of their scale; and in each value by
  `ROUNDINGS` times the difference that a nudged run has there: rounding explains such differences.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hippotune.protocol.fingerprint import (
    UNSAVED,
    Difference,
    Leaf,
    differences,
    explanations,
    is_within,
)
from hippotune.protocol.proof import Moment, Name, Run, Verdict
from hippotune.verdicts import stories
from hippotune.verdicts.stories import METRIC, STORIES, Story
from hippotune.verdicts.unsaved import unsaved
from hippotune.verdicts.volatility import is_volatile

NOISE = 1e-3
TIMES = 10
WIDTH = 1e-6
ROUNDINGS = 30

_THE_SAME_AGAIN: frozenset[Name] = frozenset({"again", "twice"})


def judge(
    trainer: str,
    runs: Sequence[Run],
    required: frozenset[str] = frozenset(),
    volatile: Sequence[str] = (),
    spread: float = 0.0,
) -> Verdict:
    """Compare runs with the first of them.

    `required` are the metrics that tuners need; where it is empty, all count. `volatile` and `spread` are
    what an earlier verdict found.
    """
    return _Case(trainer, runs, required, tuple(volatile), spread).verdict()


@dataclass
class _Found:
    """What differs between two runs at one moment: attributes, and metrics as if they were such."""

    run: Run
    moment: Moment
    items: list[Difference]

    @property
    def distance(self) -> float:
        return max((item.distance for item in self.items), default=0.0)


@dataclass
class _Case:
    trainer: str
    runs: Sequence[Run]
    required: frozenset[str]
    known: tuple[str, ...]
    spread: float
    declared: tuple[str, ...] = field(init=False)
    nudged: Run | None = field(init=False)

    def __post_init__(self) -> None:
        self.nudged = next((run for run in self.runs if run.name == "nudged"), None)
        self.runs = [run for run in self.runs if run is not self.nudged]
        states = [state for run in self.runs for state in run.states.values()]
        self.declared = states[0].volatile if states else ()
        self.saved_by = states[0].saved_by if states else ""

    def verdict(self) -> Verdict:
        """Judge."""
        truth, *others = self.runs
        for run in others:
            if run.error is not None:
                return self._raised(run)
        found = [self._beyond_rounding(item) for run in others for item in self._compared(truth, run)]
        volatile = self._volatile(found)
        for run in self.runs:
            if (verdict := self._changed_by_evaluate(run)) is not None:
                return verdict
        everything = found
        found = [left for item in found if (left := _without(item, volatile)).items]
        straight = [item for item in found if item.run.name in _THE_SAME_AGAIN]
        noise = NOISE if any(_is_tensor(each) for item in straight for each in item.items) else 0.0
        spread = max((item.distance for item in straight), default=0.0)
        allowed = max(self.spread, spread) * TIMES
        beyond = [
            item
            for item in found
            if item.run.name == "wide" or item.distance > (noise if item in straight else allowed)
        ]
        if beyond:
            seen = (item for item in beyond if truth.state(item.moment) or item.moment[0] in truth.metrics)
            told = self._first_told(next(seen, beyond[0]), everything)
            verdict = self._differs(*told, everything)
            return replace(verdict, doubtful=all(map(self._is_plain, _items(found))))
        return self._passed(volatile, straight, spread)

    # What differs.

    def _beyond_rounding(self, found: _Found) -> _Found:
        """Leave out of a wide run what rounding can make of it."""
        if found.run.name != "wide":
            return found
        rounding: dict[str, float] = {}
        if self.nudged is not None:
            for item in self._compared(self.runs[0], self.nudged):
                if item.moment == found.moment:
                    rounding = {each.path: each.distance for each in item.items}
        allowed = max(WIDTH, self.spread * TIMES)
        items = [
            each
            for each in found.items
            if each.distance > max(allowed, ROUNDINGS * rounding.get(each.path, 0.0))
        ]
        return _Found(found.run, found.moment, items)

    def _compared(self, truth: Run, run: Run) -> Iterator[_Found]:
        """Yield the differences. What a load changes shows a step later, if anything depends on it.

        Where the first run has no metrics, others are compared with the first run that has, in the metrics
        that tuners need: a time that was saved with a step is measured again right after a load.
        """
        for moment in sorted({*run.moments} | {(step, True) for step in run.metrics}):
            if run.is_loaded(moment):
                continue
            items = []
            ours, theirs = truth.state(moment), run.state(moment)
            if ours is not None and theirs is not None:
                items = [it for it in differences(ours, theirs, self.declared) if not self._is_known(it)]
            if moment[1]:
                measured = next((each for each in self.runs if moment[0] in each.metrics), truth).metrics
                metrics = self._metrics(measured.get(moment[0], {}), run.metrics.get(moment[0], {}))
                items += [it for it in metrics if measured is truth.metrics or not self._is_plain(it)]
            if items:
                yield _Found(run, moment, items)

    def _metrics(self, ours: Mapping[str, float], theirs: Mapping[str, float]) -> list[Difference]:
        if not ours or not theirs:
            return []
        left_out = {*self.declared, *self.known}
        found = []
        for name in dict.fromkeys((*ours, *theirs)):
            one, other = (_metric(name, values.get(name)) for values in (ours, theirs))
            if name not in left_out and (one and one.digest) != (other and other.digest):
                found.append(Difference(f"{METRIC}{name!r}", one, other))
        return found

    def _volatile(self, found: list[_Found]) -> tuple[str, ...]:
        """Return what differs by itself."""
        plain: dict[str, bool] = {}
        for each in _items(found):
            plain[each.path] = plain.get(each.path, True) and self._is_plain(each)
        return tuple(path for path, is_plain in plain.items() if is_plain and is_volatile(path, self.runs))

    def _is_known(self, item: Difference) -> bool:
        """Whether something was found to be volatile before: a plain value, there or beside it in a list."""
        return is_within(item.path, self.known) and self._is_plain(item)

    def _is_plain(self, item: Difference) -> bool:
        if _is_metric(item):
            name = item.path.removeprefix(METRIC).strip("'")
            return bool(self.required) and name not in self.required
        return all(leaf is not None and leaf.kind in stories.PLAIN for leaf in (item.one, item.other))

    # What is said.

    def _first_told(self, found: _Found, everything: list[_Found]) -> tuple[_Found, list[Difference]]:
        """Return the difference to report, and the states that led to it, volatile or not.

        Where straight runs differ in the same, the checkpoint is not the cause: then that difference is
        returned.
        """
        before = [it for it in everything if it.run is found.run and it.moment <= found.moment]
        states = {each.path: each for it in reversed(before) for each in it.items if not _is_metric(each)}
        own = {each.path for each in found.items if not _is_metric(each)} or states.keys()
        for item in everything:
            if item.run.name in _THE_SAME_AGAIN:
                same = [each for each in item.items if each.path in own and each.distance > NOISE]
                if same:
                    return _Found(item.run, item.moment, same), same
        return found, list(states.values())

    def _raised(self, run: Run) -> Verdict:
        if run.name == "wide":
            error = (run.error or "").strip()
            return Verdict("differs", stories.RAISED_WIDE.format(trainer=self.trainer, error=error))
        told = stories.RUNS.get(run.name, "the same training, in a process that has trained before,")
        text = stories.RAISED.format(
            trainer=self.trainer, run=told.format(start=run.start), error=(run.error or "").strip()
        )
        return Verdict("differs", text, None, run.start)

    def _changed_by_evaluate(self, run: Run) -> Verdict | None:
        for step, before, after in run.around_evaluate:
            changed = differences(before, after, self.declared)
            if items := [item for item in changed if not self._is_known(item)]:
                told = items[0].told("before it", "after it") + stories.others(items)
                text = stories.EVALUATE.format(
                    trainer=self.trainer,
                    when=f"after step {step}" if step else "before the first step",
                    told=told,
                    path=stories.container(items[0].path),
                )
                return Verdict("differs", text, stories.nearest(items), step)
        return None

    def _differs(self, found: _Found, also: list[Difference], all_found: list[_Found]) -> Verdict:
        """Say what differs: the states found, or else `also`, in which volatile values may be the cause."""
        run, (step, _), items = found.run, found.moment, found.items
        story = STORIES[run.name]
        if run.name == "again" and all(each.name != "twice" for each in self.runs):
            story = stories.NOT_DETERMINISTIC if self._differs_anyway(all_found) else stories.ANEW
        begin = f"{self.trainer} {story.what.format(start=run.start)}. "
        states = [item for item in items if not _is_metric(item)] or also
        first = (states or items)[0]
        where = f"After step {step}, {first.told(story.one, story.other)}{stories.others(states or items)}"
        if not states:
            where += f"; nothing {f'that {self.saved_by} saves' if self.saved_by else 'on self'} differs"
        text = f"{begin}{where}. {self._cause(found, story)}{stories.remedy(first)}"
        return Verdict("differs", text, stories.nearest(states), step)

    @staticmethod
    def _differs_anyway(all_found: list[_Found]) -> bool:
        """Whether runs from checkpoints differ from each other as well."""
        cut = [item for item in all_found if item.run.start]
        places = {(item.moment, each.path) for item in cut for each in item.items}
        for moment, path in places:
            digests = [
                each.other.digest if each.other else ""
                for item in cut
                if item.moment == moment
                for each in item.items
                if each.path == path
            ]
            if len(digests) > 1 and len(set(digests)) == len(digests):
                return True
        return False

    def _cause(self, found: _Found, story: Story) -> str:
        run = found.run
        if run.name == "wide":
            first = found.items[0]
            if first.leaf.kind == "array" or _is_metric(first):
                return stories.WIDE
            return stories.WIDE + stories.NOT_TRAINED.format(path=stories.container(first.path))
        if story.cause:
            return story.cause
        truth = self.runs[0]
        at = run.start if run.start in run.states and run.start in truth.states else found.moment[0]
        lost: list[Difference] = []
        orders: list[str] = []
        if at in run.states and at in truth.states:
            ours, theirs = truth.states[at], run.states[at]
            explained = explanations(ours, theirs)
            lost = differences(ours, theirs, self.declared) if at == run.start else []
            lost += [item for item in explained if item.leaf.kind in UNSAVED]
            orders = [item.path for item in explained if item.leaf.kind == "order"]
        if not orders and (step := found.moment[0]) in run.states and step in truth.states:
            later = explanations(truth.states[step], run.states[step])
            orders = [item.path for item in later if item.leaf.kind == "order"]
        return stories.cause_of_a_cut(lost, orders, self.saved_by)

    def _passed(self, volatile: tuple[str, ...], straight: list[_Found], spread: float) -> Verdict:
        left_out = (*self.declared, *self.known)
        forgotten, unsteady = unsaved(self.runs, left_out, max(self.spread, spread) * TIMES)
        said = []
        if volatile:
            said.append(stories.volatile(self.trainer, volatile))
        if forgotten:
            said.append(stories.forgotten(self.trainer, forgotten, self.saved_by))
        if spread:
            widest = max(_items(straight), key=lambda each: each.distance)
            said.append(stories.NOISY.format(trainer=self.trainer, path=widest.path, spread=spread))
        told = (stories.attribute(item.path) for item in forgotten)
        known = tuple(sorted({*map(stories.declared, volatile), *told, *unsteady}))
        return Verdict("noisy" if spread else "exact", ". ".join(said), None, None, spread, known)


def _metric(name: str, value: float | None) -> Leaf | None:
    if value is None:
        return None
    digest = struct.pack("d", value).hex()
    scale = abs(value) if math.isfinite(value) else 0.0
    return Leaf(name, "number", repr(value), digest, (), (value,), 1, scale)


def _is_tensor(item: Difference) -> bool:
    return item.leaf.kind == "array" and item.leaf.text.startswith("a tensor")


def _is_metric(item: Difference) -> bool:
    return item.path.startswith(METRIC)


def _items(found: list[_Found]) -> Iterator[Difference]:
    return (each for item in found for each in item.items)


def _without(found: _Found, names: tuple[str, ...]) -> _Found:
    return _Found(found.run, found.moment, [it for it in found.items if not is_within(it.path, names)])
