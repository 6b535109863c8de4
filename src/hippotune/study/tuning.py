"""One tuner at work on a study: the `Trials` that it sees, and what came of them.

A tuner gets results in the order of the plan's history, and those of one place in it in the order in which
they were requested. It gets a result only when it is durable, and when no earlier one is known. So the
results that it gets, and the trials that are open then, follow from the plan's facts alone: run again, it
gets the same results in the same order, and decides as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from hippotune.engine.deadlines import Limit
from hippotune.errors import InvalidInput
from hippotune.plan.facts import Position
from hippotune.plan.node import Node
from hippotune.protocol.commands import Answer
from hippotune.protocol.events import (
    BestChanged,
    BranchesForeseen,
    ConfigsForeseen,
    GroupSubmitted,
    Request,
    RequestWithdrawn,
    WorthChanged,
)
from hippotune.protocol.failures import metrics_lacking
from hippotune.sequences.config import Config
from hippotune.spaces.branches import Branches
from hippotune.study.arrivals import Arrivals, Arrived
from hippotune.study.asks import check_ask, keep_for_branches, report_steps
from hippotune.study.completion import AS_GIVEN, Completion
from hippotune.study.limit_watch import LimitWatch
from hippotune.study.limits import Limits
from hippotune.study.open_trials import OpenTrials
from hippotune.study.placement import Placement
from hippotune.study.plan_loop import PlanLoop
from hippotune.study.ranking import Ranking
from hippotune.tuners.base import Result, Timing, Trial, TrialGroup, Tuner
from hippotune.tuners.space_tuner import SpaceTuner

NO_LIMITS = Limits()


class _TimeUp(BaseException):
    """The tuner is to end where it is. Not an `Exception`: a tuner that survives those must end too."""


class Tuning:
    """A tuner's trials on a running loop. `share=False` keeps every trial to itself.

    With `keep`, a result comes when its state is in a checkpoint, which stays until `release`. Configs are
    completed before they are placed; along `trunks`, checkpoints are kept where branches are likely. What the
    tuner hears is told to `heard`.
    """

    def __init__(
        self,
        loop: PlanLoop,
        study: str,
        share: bool = True,
        keep: bool = False,
        ranking: Ranking | None = None,
        limits: Limits = NO_LIMITS,
        completion: Completion = AS_GIVEN,
        trunks: Iterable[Config] = (),
        heard: Callable[[Result], None] = lambda _: None,
    ) -> None:
        self.results: list[Result] = []
        self.asked: dict[Trial, int] = {}
        self.answered = 0
        self.failed = 0
        self.suspended = 0
        self.cut: frozenset[int] = frozenset()
        self.deferred: set[int] = set()
        self.limits = LimitWatch(limits, loop, study, self._is_idle, self._wake)
        self._loop = loop
        self.study = study
        self._keep = keep
        self._ranking = ranking
        self.placement = Placement(loop.readings, share, completion)
        self._tell_heard = heard
        self._metric: str | None = None
        self._trunks = tuple(map(completion, trunks))
        self._notes_repeated = True
        self._requests: dict[Trial, int] = {}
        self._heard: dict[Trial, int] = {}
        self._kept: list[int] = []
        self._open = OpenTrials()
        self._arrivals = Arrivals()
        self._wakes: asyncio.Future[None] | None = None
        self._error: BaseException | None = None

    # The whole of a tuning.

    async def run(self, tuner: Tuner) -> None:
        """Let a tuner tune to its end, or until its time is up; what it leaves open is withdrawn."""
        self._metric = tuner.metric
        with self._at_work():
            await self._tune(tuner)
            await self._proved()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Keep the plan open for the tuner, however the block is left."""
        self._loop.tuner_begins(self)
        try:
            yield
        finally:
            self._withdraw_open()
            self._loop.tuner_ends(self)

    def _begin_branches(self, branches: Branches | None) -> None:
        """Keep checkpoints where branches of a space begin, also those that are not drawn yet."""
        if branches is not None and self.placement.share:
            self._loop.handle(BranchesForeseen(self.placement.complete(branches.trunk), branches.at))
        # Where schedules are drawn at random, branches begin anywhere: those steps are not worth checkpoints.
        self._notes_repeated = branches is not None or bool(self._trunks)

    async def _tune(self, tuner: Tuner) -> None:
        self.limits.start()
        try:
            if isinstance(tuner, SpaceTuner):
                self._begin_branches(tuner.space.branches)
            await tuner.run(self)
        except _TimeUp:
            while self._is_ready:  # what came in time counts
                self._take(self._arrivals.take())
            self.cut = frozenset(trial.number for trial in self._open)
        finally:
            self._withdraw_open()
            self.limits.stop()
            self._loop.has_begun(self.study)

    async def once(self, group: TrialGroup) -> list[Result]:
        """Train one group and return its results."""
        with self._at_work():
            results = await self.all(self.submit(group))
            await self._proved()
            return results

    async def _proved(self) -> None:
        """Wait until no result is provisional any more; raise where training turns out not to be exact."""
        await self._loop.proved(audits=self.ended_by is None)
        if self._error is not None:
            raise self._error

    @property
    def ended_by(self) -> Limit | None:
        """The limit that has ended the tuning, if one has."""
        return self.limits.ended_by

    def release(self) -> None:
        """The checkpoints that were kept are subject to the budget again."""
        for number in self._kept:
            self._loop.handle(RequestWithdrawn(number))
        self._kept.clear()

    # What the tuner asks for.

    def foresee(self, configs: Iterable[Config], step: int) -> None:
        """Say which configs may be asked for later, so that checkpoints are kept where they part."""
        if self.placement.share:
            self._loop.handle(ConfigsForeseen(tuple(map(self.placement.complete, configs)), step))

    def submit(self, group: TrialGroup) -> list[Trial]:
        """Ask for a group; returns at once with its trials, in the group's order."""
        if self._error is not None:
            raise self._error
        self._check_time()
        trials = self._checked(group)
        requests: list[Request] = []
        for trial, (_, step) in zip(trials, group.asks, strict=True):
            self.asked[trial] = max(step, self.asked.get(trial, 0))
            number = self._loop.new_request(partial(self._deliver, trial))
            self._requests[trial] = number
            reports = report_steps(self._heard.get(trial, 0), step, group.every)
            isolation_key = self.placement.isolation_key(trial)
            requests.append(
                Request(
                    number, self.study, trial.number, trial.config, step, reports, isolation_key, self._keep
                )
            )
        if self._keep:
            self._kept += [request.id for request in requests]
        if self.placement.share:
            if self._notes_repeated:
                self._loop.note_repeated(requests)
            keep_for_branches(self._loop, self._trunks, requests)
        self._loop.handle(GroupSubmitted(tuple(requests)))
        for request, trial in zip(requests, trials, strict=True):
            self._open.add(trial, self.placement.node(trial, request.step).position(request.step))
        return trials

    def _checked(self, group: TrialGroup) -> list[Trial]:
        """Return the trials of a group; raise where one is refused, before any of them is asked for."""
        suitable = self._loop.readings.suitable
        trials: list[Trial] = []
        number = len(self.asked)
        for who, step in group.asks:
            trial = self.placement.trial(who, number)
            check_ask(trial.config, step, group.every)
            if suitable is not None:
                suitable(trial.config)  # raises where no slot would do
            if trial in self._open:
                raise InvalidInput(
                    f"trial {trial.number} was asked for step {step} while an earlier ask is open; "
                    "wait for its result or withdraw it first"
                )
            number += trial not in self.asked
            trials.append(trial)
        return trials

    def withdraw(self, trial: Trial) -> None:
        """Give up what is still open of a trial; nothing more is heard of it."""
        number = self._requests.pop(trial, None)
        self._open.discard(trial)
        self._arrivals.discard(trial)
        if number is not None:
            self._loop.forget_request(number)
            self._loop.handle(RequestWithdrawn(number))

    def _withdraw_open(self) -> None:
        for trial in list(self._open):
            self.withdraw(trial)

    def defer(self, trials: Iterable[Trial]) -> None:
        """Note trials that were set aside while others of the same state went on."""
        self.deferred |= {trial.number for trial in trials}

    def tell(self, text: str) -> None:
        """Let the user read something."""
        self._loop.note(text)

    def rate(self, worths: Mapping[Trial, float]) -> None:
        """Say what open trials are worth."""
        known = {self._requests[trial]: worth for trial, worth in worths.items() if trial in self._requests}
        self._loop.handle(WorthChanged(known))

    # What the tuner hears.

    async def next(self) -> Result:
        """Wait for the next result of any open trial. Raises `LookupError` where nothing is open."""
        await self._something()
        return self._take(self._arrivals.take())

    async def all(self, trials: Iterable[Trial]) -> list[Result]:
        """Wait for the final results of these open trials, in their order; others are kept for `next`."""
        wanted = list(trials)
        missing = set(wanted)
        finals: dict[Trial, Result] = {}
        aside: list[Arrived] = []
        try:
            while missing:
                await self._something()
                arrived = self._arrivals.take()
                result = arrived[-1]
                if result.final and result.trial in missing:
                    missing.discard(result.trial)
                    finals[result.trial] = self._take(arrived)
                else:
                    aside.append(arrived)
        finally:
            self._arrivals.put_back(aside)
        return [finals[trial] for trial in wanted]

    async def _something(self) -> None:
        """Wait until the next result is there and durable."""
        self._check_time()
        while not self._is_ready:
            if self._error is not None:
                raise self._error
            if not self._requests and not self._arrivals:
                raise LookupError("no trial is open: submit a group before waiting for a result")
            wakes = self._wakes = asyncio.get_running_loop().create_future()
            self._loop.has_begun(self.study)
            self._loop.tuner_waits()
            self.limits.check_when_idle()
            try:
                await wakes
            finally:
                self._wake()  # where the wait was cancelled
            self._check_time()

    def _check_time(self) -> None:
        if self.ended_by is not None:
            raise _TimeUp

    def _take(self, arrived: Arrived) -> Result:
        """The tuner takes a result: if it is final, its trial is open no more."""
        result = arrived[-1]
        self.results.append(result)
        self._heard[result.trial] = result.step
        if result.final:
            self._open.discard(result.trial)
        self._tell_heard(result)
        return result

    # What the loop tells.

    def _deliver(self, trial: Trial, answer: Answer) -> None:
        answer = self._with_metric(answer)
        if answer.final:
            del self._requests[trial]
            self.answered += 1
            self.failed += answer.error is not None and not answer.suspended
            self.suspended += answer.suspended
        result = Result(trial, answer.step, answer.metrics, answer.error, answer.final, answer.suspended)
        if self._ranking is not None and self._ranking.add(result):
            self._tell_best(self._ranking.best)
        self._arrivals.add(answer, result)
        self.facts_committed()

    def _with_metric(self, answer: Answer) -> Answer:
        """Return an answer, or where it lacks what the tuner reads, the final one that the trial fails."""
        metrics = answer.metrics
        if metrics is None or self._metric is None or self._metric in metrics:
            return answer
        if not answer.final:
            self._loop.forget_request(answer.request)
            self._loop.handle(RequestWithdrawn(answer.request))
        error = metrics_lacking([self._metric], metrics, f"at step {answer.step}, evaluate()")
        return replace(answer, metrics=None, error=error, final=True)

    def _tell_best(self, results: Iterable[Result]) -> None:
        """Tell the engine where the best results are."""
        best = [(each.trial.config, each.step, self.placement.isolation_key(each.trial)) for each in results]
        self._loop.handle(BestChanged(self.study, tuple(best)))

    def facts_committed(self) -> None:
        """Wake the tuner, if it can be told something."""
        if self._is_ready:
            self._wake()

    def broken(self, error: BaseException) -> None:
        """Tell the tuner that nothing more comes."""
        self._error = error
        self._wake()

    @property
    def _is_ready(self) -> bool:
        """Whether the result that comes next is known and durable."""
        return self._arrivals.is_ready(self._loop.committed)

    def _is_idle(self) -> bool:
        """Whether the tuner waits, and no result has come."""
        return self._wakes is not None and not self._arrivals

    def _wake(self) -> None:
        wakes, self._wakes = self._wakes, None
        if wakes is not None:
            if not wakes.done():
                wakes.set_result(None)
            self._loop.tuner_goes_on()

    # What the tuner and others may look at.

    def timing(self) -> Timing:
        """Return what the clock says."""
        readings, limits = self._loop.readings, self.limits
        left = max(min(limits.until_deadline, limits.until_budget), 0.0)
        return Timing(readings.now(), left, *readings.pace())

    def unshared(self, config: Config, step: int) -> int:
        """Return how many steps a new config would have to be trained to get to `step`, as things are now."""
        return self.placement.unshared(config, step)

    def is_under_way(self, who: Config | Trial, step: int) -> bool:
        """Whether an open trial waits for the very state that this one comes to."""
        return self._open.wait_for(self.placement.position(who, step))

    def state(self, trial: Trial, step: int) -> Position | None:
        """Return what a trial's state at a step is known by; None where it was never requested."""
        return self.placement.state(trial, step)

    def asks(self) -> list[tuple[Node, int]]:
        """Return how far each trial was asked, as nodes of the plan."""
        return [(self.placement.node(trial, step), step) for trial, step in self.asked.items()]

    @property
    def open(self) -> int:
        """The number of trials whose final result the tuner has not taken yet."""
        return len(self._open)

    @property
    def unanswered(self) -> int:
        """The number of requests that have no final answer yet, durable or not."""
        return len(self._requests)

    @property
    def under_way(self) -> int:
        """How many different states the open trials wait for."""
        return self._open.states

    @property
    def workers(self) -> int:
        """How many workers the study has."""
        return self._loop.readings.workers
