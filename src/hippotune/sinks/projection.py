"""What a study's facts come to as runs with numbers: the same records whenever the same facts are read.

A run has the metrics of `evaluate` under their names, what training logged as ``train/…``, and what a step
took as ``time/step_seconds``. A run of a trial begins with what it shares with others: all that is known of
it is repeated when the trial is first asked for, and what comes later is told to all runs that pass there.

No number is told twice. Metrics come once for a position. Logged numbers may be recorded again, where steps
were trained again: a step that is not beyond the last one known along its node was recorded before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hippotune.plan.facts import (
    Fact,
    MetricsRecorded,
    NumbersRecorded,
    RequestMade,
    SpanRecorded,
    StudyEnded,
)
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config
from hippotune.sinks.base import Points, Record, Row, Run, RunEnded, RunsPer, RunStarted
from hippotune.store.base import Store

LOGGED = "train/"
STEP_SECONDS = "time/step_seconds"


@dataclass(eq=False)
class _Known:
    """What is known along a node: times of metrics, how far each name was logged, and what steps took."""

    times: dict[int, float] = field(default_factory=dict)
    logged: dict[str, int] = field(default_factory=dict)
    spans: dict[int, Row] = field(default_factory=dict)


@dataclass(eq=False)
class _Reach:
    """A run, and the step up to which it goes along each of its nodes."""

    run: Run
    node: Node
    step: int
    along: dict[int, int] = field(default_factory=dict)


class Projection:
    """Takes the facts of a plan, all of them, in order; yields the records of one study."""

    def __init__(self, store: Store, study: str, share: bool = True, runs: RunsPer = "trial") -> None:
        self.plan = Plan()
        self._store = store
        self._study = study
        self._share = share
        self._runs_per = runs
        self._clock = 0.0
        self._known: dict[int, _Known] = {}
        self._passing: dict[int, list[_Reach]] = {}
        self._reaches: dict[str, _Reach] = {}
        self._names: dict[tuple[int, Config], str] = {}
        self._firsts: dict[Config, str] = {}
        self._used: dict[int, list[Config]] = {}
        self._ends: dict[int, str] = {}

    def run(self, name: str) -> Run | None:
        """Return a run by its name, if it is there."""
        reach = self._reaches.get(name)
        return None if reach is None else reach.run

    def run_of(self, trial: int) -> Run | None:
        """Return the run that a trial ends in."""
        return self.run(self._ends.get(trial, ""))

    def take(self, fact: Fact, quiet: bool = False) -> list[Record]:
        """Take in a fact; return the records that come of it. A `quiet` one was taken in by the target."""
        time = getattr(fact, "time", None)
        if time is not None:
            self._clock = time
        self.plan.apply(fact)
        records = list(self._records(fact, quiet))
        return [] if quiet else records

    def _records(self, fact: Fact, quiet: bool) -> Iterator[Record]:
        match fact:
            case MetricsRecorded(_, position, metrics):
                self._of(position.node).times[position.step] = self._clock
                yield from self._tell(position.node, [Row(position.step, self._clock, metrics)])
            case NumbersRecorded(node):
                yield from self._tell(node, self._new_numbers(fact))
            case SpanRecorded(node=node, kind="train"):
                self._clock = fact.ended
                yield from self._tell(node, self._new_span(fact))
            case RequestMade(study) if study == self._study:
                yield from self._asked(fact, quiet)
            case StudyEnded(study) if study == self._study:
                for reach in self._reaches.values():
                    failed = self.plan.failure_on_the_way(reach.node, reach.step) is not None
                    yield RunEnded(reach.run, self._clock, failed)

    def _of(self, node: int) -> _Known:
        return self._known.setdefault(node, _Known())

    def _tell(self, node: int, rows: list[Row]) -> Iterator[Points]:
        """Tell rows along a node to the runs that pass there."""
        for reach in self._passing.get(node, ()) if rows else ():
            mine = tuple(row for row in rows if row.step <= reach.along[node])
            if mine:
                yield Points(reach.run, mine)

    def _new_numbers(self, fact: NumbersRecorded) -> list[Row]:
        known = self._of(fact.node).logged
        rows = list(_rows(fact, {name: known.get(name, -1) for name in fact.numbers}, self._clock))
        for name, column in fact.numbers.items():
            last = max(
                (step for step, number in zip(fact.steps, column, strict=True) if number is not None),
                default=-1,
            )
            known[name] = max(known.get(name, -1), last)
        return rows

    def _new_span(self, span: SpanRecorded) -> list[Row]:
        spans, steps = self._of(span.node).spans, span.last - span.first
        if span.seconds is None or steps <= 0 or span.last in spans:
            return []
        row = spans[span.last] = Row(span.last, span.ended, {STEP_SECONDS: span.seconds / steps})
        return [row]

    # Requests.

    def _asked(self, fact: RequestMade, quiet: bool) -> Iterator[Record]:
        node = self.plan.find(fact.config, fact.step, "" if self._share else str(fact.trial))
        if self._runs_per == "trial":
            run = Run(self._name(fact.trial, fact.config), fact.config, fact.trial)
            self._ends[fact.trial] = run.name
            yield from self._extend(run, node, fact.step, list(_path(node, fact.step)), quiet)
            return
        self._ends[fact.trial] = f"node-{node.id}"
        for above, step in _path(node, fact.step):
            parent = None if above.parent is None else f"node-{above.parent.id}"
            run = Run(f"node-{above.id}", above.config, None, parent, above.start)
            yield from self._extend(run, above, step, [(above, step)], quiet)

    def _name(self, trial: int, config: Config) -> str:
        """Return the name of a trial's run. A number that another config has comes from another tuning."""
        if (trial, config) in self._names:
            return self._names[trial, config]
        used = self._used.setdefault(trial, [])
        name = f"trial-{trial}" if not used else self._firsts.get(config, f"trial-{trial}.{len(used) + 1}")
        used.append(config)
        self._firsts.setdefault(config, name)
        self._names[trial, config] = name
        return name

    def _extend(
        self, run: Run, node: Node, step: int, path: list[tuple[Node, int]], quiet: bool
    ) -> Iterator[Record]:
        """Let a run go as far as asked; yield what is known there already."""
        reach = self._reaches.get(run.name)
        if reach is None:
            reach = self._reaches[run.name] = _Reach(run, node, step)
            yield RunStarted(run, self._clock)
        if step > reach.step:
            reach.node, reach.step = node, step
        rows: list[Row] = []
        for along, last in path:
            before = reach.along.get(along.id)
            if before is None:
                self._passing.setdefault(along.id, []).append(reach)
                before = along.start
            if last > before and not quiet:
                rows += sorted(self._stored(along, before, last), key=lambda row: row.step)
            reach.along[along.id] = max(before, last)
        if rows:
            yield Points(reach.run, tuple(rows))

    def _stored(self, node: Node, first: int, last: int) -> Iterator[Row]:
        """Yield what is known along a node, after a step and up to another."""
        known = self._of(node.id)
        for step, (_, metrics) in node.metrics.items():
            if first < step <= last:
                yield Row(step, known.times.get(step, self._clock), metrics)
        yield from (row for step, row in known.spans.items() if first < step <= last)
        if known.logged:
            yield from self._stored_numbers(node.id, known.logged, first, last)

    def _stored_numbers(self, node: int, known: dict[str, int], first: int, last: int) -> Iterator[Row]:
        told: dict[str, int] = {}
        for fact in self._store.logged(node):
            after = {name: max(told.get(name, -1), first) for name in fact.numbers}
            for row in _rows(fact, after, self._clock):
                numbers = {
                    name: value for name, value in row.numbers.items() if row.step <= _last(known, name)
                }
                if row.step <= last and numbers:
                    yield Row(row.step, row.time, numbers)
            for name in fact.numbers:
                told[name] = max(told.get(name, -1), fact.steps[-1])


def _last(known: dict[str, int], name: str) -> int:
    return known.get(name.removeprefix(LOGGED), -1)


def _rows(fact: NumbersRecorded, after: dict[str, int], clock: float) -> Iterator[Row]:
    """Yield what was logged, of each name after a step."""
    time = clock if fact.time is None else fact.time
    for place, step in enumerate(fact.steps):
        numbers = {
            f"{LOGGED}{name}": column[place]
            for name, column in fact.numbers.items()
            if step > after[name] and column[place] is not None
        }
        if numbers:
            yield Row(step, time, numbers)  # type: ignore[arg-type]


def _path(node: Node, step: int) -> list[tuple[Node, int]]:
    """Return the nodes on the way to a step, from the root, each with the last step along it."""
    found = []
    for above in node.lineage():
        found.append((above, step))
        step = above.start
    return found[::-1]
