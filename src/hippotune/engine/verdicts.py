"""Runs of the same training, judged: are they the same, and if not, what differs and why?

The first run was trained straight through; all others must have its states and metrics, bit for bit:

* what a trainer declares as `volatile` is left out;
* a plain value (a number, a text), or a metric that no tuner needs, that differs between all runs is volatile
  too, with a warning: a clock does that, and something that is lost does not, for repeats agree on it; a
  number that changes from step to step has to differ between three runs of one step;
* where straight runs differ, in floats alone, in tensors and by at most `NOISE` of their scale, kernels are
  not deterministic: then runs from checkpoints may differ by `TIMES` as much;
* a wide run may differ from a narrow one in floats, by `WIDTH` of their scale; and by `ROUNDINGS` as much as
  a nudged run does, in whatever that differs: such differences are what rounding makes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hippotune.engine import stories
from hippotune.engine.stories import STORIES, Story
from hippotune.protocol.fingerprint import (
    Difference,
    Fingerprint,
    Leaf,
    differences,
    explanations,
    is_within,
)
from hippotune.protocol.proof import Name, Run, Verdict

NOISE = 1e-3
TIMES = 10
WIDTH = 1e-6
ROUNDINGS = 30

_FROM_SCRATCH: frozenset[Name] = frozenset({"reference", "again", "twice", "unsaved", "evaluated"})
_THE_SAME_AGAIN: frozenset[Name] = frozenset({"again", "twice"})
_PLAIN = ("number", "text")
_METRIC = "the metric "

Moment = tuple[int, bool]
"""A step, and whether it is after an evaluation."""


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
        for item in found:
            if item.run.name == "wide" or item.distance > (noise if item in straight else allowed):
                return self._differs(*self._first_told(item, everything), everything)
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
        """Yield what differs. What a load changes shows a step later, if anything depends on it."""
        moments = sorted({*_moments(truth)} & {*_moments(run)} | {*self._metric_moments(truth, run)})
        for moment in moments:
            if run.start and moment == (run.start, False):
                continue
            items = []
            ours, theirs = _state(truth, moment), _state(run, moment)
            if ours is not None and theirs is not None:
                items = [it for it in differences(ours, theirs, self.declared) if not self._is_known(it)]
            if moment[1]:
                items += self._metrics(truth.metrics.get(moment[0], {}), run.metrics.get(moment[0], {}))
            if items:
                yield _Found(run, moment, items)

    @staticmethod
    def _metric_moments(truth: Run, run: Run) -> Iterator[Moment]:
        yield from ((step, True) for step in truth.metrics.keys() & run.metrics.keys())

    def _metrics(self, ours: Mapping[str, float], theirs: Mapping[str, float]) -> list[Difference]:
        if not ours or not theirs:
            return []
        left_out = {*self.declared, *self.known}
        found = []
        for name in dict.fromkeys((*ours, *theirs)):
            one, other = (_metric(name, values.get(name)) for values in (ours, theirs))
            if name not in left_out and (one and one.digest) != (other and other.digest):
                found.append(Difference(f"{_METRIC}{name!r}", one, other))
        return found

    def _volatile(self, found: list[_Found]) -> tuple[str, ...]:
        """Return what differs between all runs wherever it differs, and is a plain value."""
        seen: dict[str, dict[Moment, dict[str, list[Run]]]] = {}
        plain: dict[str, bool] = {}
        for item in found:
            for each in item.items:
                digest = each.other.digest if each.other else ""
                at = seen.setdefault(each.path, {}).setdefault(item.moment, {})
                if not at:
                    at[each.one.digest if each.one else ""] = [self.runs[0]]
                at.setdefault(digest, []).append(item.run)
                plain[each.path] = plain.get(each.path, True) and self._is_plain(each)
        return tuple(
            path
            for path, moments in seen.items()
            if plain[path]
            and all(self._all_differ(path, at, moment) for moment, at in moments.items())
            and not self._is_trained(path, moments)
        )

    def _is_known(self, item: Difference) -> bool:
        """Whether something was found to be volatile before: a plain value, there or beside it in a list."""
        return is_within(item.path, self.known) and self._is_plain(item)

    def _is_plain(self, item: Difference) -> bool:
        if _is_metric(item):
            name = item.path.removeprefix(_METRIC).strip("'")
            return bool(self.required) and name not in self.required
        return all(leaf is not None and leaf.kind in _PLAIN for leaf in (item.one, item.other))

    def _all_differ(self, path: str, at: Mapping[str, list[Run]], moment: Moment) -> bool:
        """Whether all runs differ at a moment, enough of them to tell."""
        is_metric = path.startswith(_METRIC)
        there = [run for run in self.runs if (moment[0] in run.metrics if is_metric else _state(run, moment))]
        straight = [run for run in there if run.name in _FROM_SCRATCH]
        if len(straight) > 1:  # those from checkpoints may have a value that was saved
            there = straight
        values = [value for value, runs in at.items() if any(run in there for run in runs)]
        return len(values) == len(there) > (1 if there is straight else 2)

    def _is_trained(self, path: str, moments: Mapping[Moment, Mapping[str, list[Run]]]) -> bool:
        """Whether a number may be what is trained: it changes from step to step, and two runs alone differ.

        What was made at the start, such as a time, stays as it is; a clock differs in three runs too.
        """
        if path.startswith(_METRIC) or any(len(values) > 2 for values in moments.values()):
            return False
        seen = [leaf for state in self.runs[0].states.values() if (leaf := state.by_place.get((path, False)))]
        return any(leaf.kind == "number" for leaf in seen) and len({leaf.digest for leaf in seen}) > 1

    # What is said.

    def _first_told(self, found: _Found, everything: list[_Found]) -> tuple[_Found, list[Difference]]:
        """Return what to tell of a difference, and the states that it comes of, volatile or not.

        Where the same differs between straight runs too, it is not the checkpoint's fault: that is told.
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
        for step in sorted(run.evaluated.keys() & run.states.keys()):
            changed = differences(run.states[step], run.evaluated[step], self.declared)
            if items := [item for item in changed if not self._is_known(item)]:
                told = items[0].told("before it", "after it") + _others(items)
                text = stories.EVALUATE.format(
                    trainer=self.trainer, step=step, told=told, path=_container(items[0].path)
                )
                return Verdict("differs", text, _nearest(items), step)
        return None

    def _differs(self, found: _Found, also: list[Difference], all_found: list[_Found]) -> Verdict:
        """Say what differs: of what is not volatile first, or `also` what would be, for then it is not."""
        run, (step, _), items = found.run, found.moment, found.items
        story = STORIES[run.name]
        if run.name == "again" and all(each.name != "twice" for each in self.runs):
            story = stories.NOT_DETERMINISTIC if self._differs_anyway(all_found) else stories.ANEW
        begin = f"{self.trainer} {story.what.format(start=run.start)}. "
        states = [item for item in items if not _is_metric(item)] or also
        first = (states or items)[0]
        where = f"After step {step}, {first.told(story.one, story.other)}{_others(states or items)}"
        if not states:
            where += f"; nothing {f'that {self.saved_by} saves' if self.saved_by else 'on self'} differs"
        text = f"{begin}{where}. {self._cause(found, story)}{self._remedy(first)}"
        return Verdict("differs", text, _nearest(states), step)

    def _remedy(self, item: Difference) -> str:
        """Say how to declare a value that differs each time and means nothing."""
        if item.leaf.kind not in _PLAIN:
            return ""
        name = _declared(_container(item.path))
        return (
            f". If nothing depends on it (a clock, a path, a process number), volatile = {{{name!r}}} in the "
            "class leaves it out"
        )

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
            return stories.WIDE + stories.NOT_TRAINED.format(path=_container(first.path))
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
            lost += [item for item in explained if item.leaf.kind == "unsaved"]
            orders = [item.path for item in explained if item.leaf.kind == "order"]
        if not orders and (step := found.moment[0]) in run.states and step in truth.states:
            later = explanations(truth.states[step], run.states[step])
            orders = [item.path for item in later if item.leaf.kind == "order"]
        return stories.cause_of_a_cut(lost, orders, self.saved_by)

    def _passed(self, volatile: tuple[str, ...], straight: list[_Found], spread: float) -> Verdict:
        said = []
        left_out = tuple(sorted({_declared(_container(path)) for path in volatile}))
        if volatile:
            names = sorted({_container(path) for path in volatile})
            declared = "{" + ", ".join(map(repr, left_out)) + "}"
            plural = len(names) > 1
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")
            said.append(
                stories.VOLATILE.format(
                    names=listed,
                    trainer=self.trainer,
                    differ="differ" if plural else "differs",
                    are="are" if plural else "is",
                    declared=declared,
                )
            )
        if spread:
            widest = max((each for item in straight for each in item.items), key=lambda each: each.distance)
            said.append(stories.NOISY.format(trainer=self.trainer, path=widest.path, spread=spread))
        return Verdict("noisy" if spread else "exact", ". ".join(said), None, None, spread, left_out)


def _moments(run: Run) -> Iterator[Moment]:
    yield from ((step, False) for step in run.states)
    yield from ((step, True) for step in run.evaluated)


def _state(run: Run, moment: Moment) -> Fingerprint | None:
    return (run.evaluated if moment[1] else run.states).get(moment[0])


def _metric(name: str, value: float | None) -> Leaf | None:
    if value is None:
        return None
    digest = struct.pack("d", value).hex()
    scale = abs(value) if math.isfinite(value) else 0.0
    return Leaf(name, "number", repr(value), digest, (), (value,), 1, scale)


def _is_tensor(item: Difference) -> bool:
    return item.leaf.kind == "array" and item.leaf.text.startswith("a tensor")


def _is_metric(item: Difference) -> bool:
    return item.path.startswith(_METRIC)


def _without(found: _Found, names: tuple[str, ...]) -> _Found:
    return _Found(found.run, found.moment, [it for it in found.items if not is_within(it.path, names)])


def _container(path: str) -> str:
    """Return what holds a volatile value: in a list that grows, the next one has another path."""
    return re.sub(r"(\[\d+\]| \(\d+\))$", "", path)


def _declared(name: str) -> str:
    return name.removeprefix(_METRIC).strip("'") if name.startswith(_METRIC) else name


def _nearest(found: list[Difference]) -> str | None:
    return next((item.path for item in found if item.path.startswith("self")), None)


def _others(found: list[Difference]) -> str:
    if len(found) == 1:
        return ""
    listed = ", ".join(item.path for item in found[1:4])
    return f"; also different: {listed}{' and others' if len(found) > 4 else ''}"
