"""A study as it is in the store: what was asked, trained and measured, trial by trial.

It is read from the facts alone: without a lock, even while the study trains, and without its code. The
store knows configs and steps that were asked for, and metrics at positions; a trial's metrics are those at
every position on its path through the plan, including those that other trials asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.gc_pause import gc_paused
from hippotune.history.exactness import is_proved, said_of, told_by
from hippotune.history.logged import Logged, LoggedNumbers
from hippotune.history.trial import Metrics, TrialHistory
from hippotune.plan.facts import RequestMade, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, spans_of, unique_steps
from hippotune.plan.trials import trials_of
from hippotune.protocol.failures import metrics_lacking
from hippotune.sequences.config import Config
from hippotune.store.base import Store
from hippotune.tuners.base import Mode, as_score

Requests = dict[tuple[int, Config], set[int]]
"""The steps that were asked for, by number and config."""


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What a study asked for, and what was done for it, by its own tunings and by those of other studies.

    Proofs are those of the whole plan, with the starts of their interpreters.
    """

    steps_requested: int
    steps_unique: int
    steps_trained: int
    worker_seconds: float
    proof_steps: int
    proof_seconds: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """The metrics of a trial at a step that it was asked for."""

    trial: TrialHistory
    step: int
    metrics: Metrics


class History:
    """All trials of a study, in the order in which they were first asked for, and the plan that they are in.

    `tuned_for` is the metric and the mode that the study was last tuned for, where they are known.
    """

    def __init__(
        self,
        store: Store,
        study: str,
        share: bool = True,
        tuned_for: tuple[str | None, str | None] = (None, None),
    ) -> None:
        self.study = study
        self.share = share
        self.plan = Plan()
        self._tuned_for = tuned_for
        self._logged = LoggedNumbers(store)
        requests: Requests = {}
        with gc_paused():
            for fact in store.read():
                if isinstance(fact, RequestMade):
                    if fact.study == study:
                        requests.setdefault((fact.trial, fact.config), set()).add(fact.step)
                else:
                    self.plan.apply(fact)
            self.spans = list(store.spans())
            self.trials = self._trials(requests)

    def _trials(self, requests: Requests) -> list[TrialHistory]:
        ends = _ends(self.plan, self.spans)
        # Most trials have a node of their own, and from its start on they are there.
        own = {(node.isolation_key, node.config): node for node in self.plan.nodes}
        families = {} if self.share else {node.config: node.isolation_key for node in self.plan.nodes}
        trials = []
        if self.share:
            requests = _merged(requests)
        metric, _ = self._tuned_for
        has_metric = metric is not None and self.plan.has_measured(metric)
        for (number, config), steps in requests.items():
            asked, isolation_key = max(steps), "" if self.share else str(number)
            if (isolation_key, config) not in own:  # a child is where its parents are
                isolation_key = families.get(config, isolation_key)
            node = own.get((isolation_key, config))
            if node is None or asked <= node.start:
                node = self.plan.find(config, asked, isolation_key)
            failure = self.plan.failure_on_the_way(node, asked) or node.holder(asked).unmeasured.get(asked)
            error, suspended = (None, False) if failure is None else (failure.error, failure.suspended)
            if error is None and metric is not None and has_metric:
                error = _lacking(metric, node, steps)
            trained = _trained(node, asked, ends)
            asks = tuple(sorted(steps))
            trials.append(TrialHistory(number, config, asks, trained, error, suspended, node))
        return trials

    def numbered(self, number: int) -> list[TrialHistory]:
        """Return the trials that have a number: several, where several tunings counted on their own."""
        found = [trial for trial in self.trials if trial.number == number]
        if not found:
            numbers = sorted({trial.number for trial in self.trials})
            known = f"from {numbers[0]} to {numbers[-1]}" if numbers else "none: it has no trials yet"
            raise InvalidInput(f"study {self.study!r} has no trial {number}; its trials are numbered {known}")
        return found

    def asks(self) -> list[tuple[Node, int]]:
        """Return how far each trial was asked, as nodes of the plan."""
        return [(trial.node, trial.asked) for trial in self.trials]

    def work(self) -> WorkDone:
        """Return what was asked for, and what was done for it."""
        asks = self.asks()
        mine = spans_of(asks, self.spans)
        return WorkDone(
            steps_requested=sum(step for _, step in asks),
            steps_unique=unique_steps(asks),
            steps_trained=sum(span.last - span.first for span in mine if span.kind == "train"),
            worker_seconds=_seconds(span for span in mine if span.kind != "proof"),
            proof_steps=sum(span.last - span.first for span in self.spans if span.kind == "proof"),
            proof_seconds=_seconds(span for span in self.spans if span.kind == "proof"),
        )

    @property
    def exactness(self) -> str:
        """What was proved: whether resumed trials are the very trials that they go on with."""
        return said_of(self.plan.proofs)

    @property
    def is_proved(self) -> bool:
        """Whether results count: until training was proved to be exact they are provisional."""
        return is_proved(self.plan.proofs)

    @property
    def findings(self) -> list[str]:
        """What proofs have found and a person should read."""
        return told_by(self.plan.proofs)

    def measurements(self) -> Iterator[Measurement]:
        """Yield what was measured at the steps that were asked for."""
        for trial in self.trials:
            for step in trial.steps:
                metrics = trial.at(step)
                if metrics is not None:
                    yield Measurement(trial, step, metrics)

    def logged(self, trial: TrialHistory) -> Logged:
        """Return what training logged along a trial, as far as it was asked. The store has to be open."""
        return self._logged.along(trial.node, trial.asked)

    def aim(self, metric: str | None = None, mode: str | None = None) -> tuple[str, Mode] | None:
        """Return by what to rank results: as given, or as the study was tuned; None where that is unknown."""
        known_metric, known_mode = self._tuned_for
        ranks_as_tuned = metric is None and mode is None
        metric = known_metric if metric is None else checks.text("metric", metric, "accuracy")
        mode = known_mode if mode is None and metric == known_metric else mode
        if metric is None or all(metric not in each.metrics for each in self.measurements()):
            if ranks_as_tuned:
                return None
            measured = sorted({name for each in self.measurements() for name in each.metrics})
            among = f"one of {', '.join(measured)}" if measured else "none yet: nothing has been measured"
            raise InvalidInput(f"metric is {metric!r}; expected {among}")
        if mode not in ("max", "min"):
            raise InvalidInput(f"mode is {mode!r} for the metric {metric!r}; expected 'max' or 'min'")
        return metric, cast("Mode", mode)

    def best(self, metric: str, mode: Mode) -> Measurement | None:
        """Return the best measurement: by metric, then the one trained further, then the earlier trial."""
        return max(
            (each for each in self.measurements() if metric in each.metrics),
            key=lambda each: (score(each.metrics, metric, mode), each.step, -each.trial.number),
            default=None,
        )

    def ranked(self, metric: str, mode: Mode) -> list[TrialHistory]:
        """Return all trials, the best by what was last measured of them first."""

        def rank(trial: TrialHistory) -> tuple[float, int]:
            step, metrics = trial.last() or (0, {})
            return score(metrics, metric, mode), step

        return sorted(self.trials, key=rank, reverse=True)


def score(metrics: Metrics, metric: str, mode: Mode) -> float:
    """Return a metric as a number of which more is better; no such metric is the worst."""
    return as_score(metrics.get(metric, math.nan), mode)


def _merged(requests: Requests) -> Requests:
    """Return the steps asked for by trial, where several tunings have asked for one."""
    if len({number for number, _ in requests}) == len(requests):
        return requests
    merged: Requests = {}
    for ask, trial in trials_of(requests).items():
        merged.setdefault(trial, set()).update(requests[ask])
    return merged


def _seconds(spans: Iterable[SpanRecorded]) -> float:
    return sum((span.ended - span.began) * span.width for span in spans)


def _ends(plan: Plan, spans: Iterable[SpanRecorded]) -> dict[int, int]:
    """Return how far each node is known to be trained."""
    ends = {
        node.id: max(max(node.metrics, default=0), max(node.checkpoints, default=0)) for node in plan.nodes
    }
    for span in spans:
        # A node that came after all others were read is none.
        if span.kind != "proof" and span.last > ends.get(span.node, span.last):
            ends[span.node] = span.last
    return ends


def _lacking(metric: str, node: Node, steps: Iterable[int]) -> str | None:
    """Say where a trial lacks the metric that its study was tuned for; None where it does not."""
    for step in sorted(steps):
        _, metrics = node.holder(step).metrics.get(step, (0, None))
        if metrics is not None and metric not in metrics:
            return metrics_lacking([metric], metrics, f"at step {step}, evaluate()")
    return None


def _trained(node: Node, step: int, ends: Mapping[int, int]) -> int:
    """Return how far a node is trained towards a step."""
    for along in node.lineage():
        if ends[along.id] > along.start:
            return min(ends[along.id], step)
        step = along.start
    return 0
