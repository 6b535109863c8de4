"""One tuner at work on a study: the `Trials` that it sees, and what came of them.

A tuner hears results in the order of the plan's history, and those of one place in it in the order in which
they were asked for. It hears none before what it says is durable, and none while one from further back is
known. So what it hears, and what is open by then, follows from the plan's facts alone: run again, it hears
the same in the same order, and decides as it did.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count

from hippotune import checks
from hippotune.engine.deadlines import Limit
from hippotune.errors import InvalidInput
from hippotune.plan.facts import Position
from hippotune.plan.node import Node
from hippotune.protocol.commands import Answer
from hippotune.protocol.events import (
    BestChanged,
    BranchesForeseen,
    ConfigsForeseen,
    DeadlineSet,
    GroupSubmitted,
    Request,
    RequestWithdrawn,
    WorthChanged,
)
from hippotune.sequences.base import FOREVER, Sequence
from hippotune.sequences.config import Config
from hippotune.shell.loop import Loop
from hippotune.study.completion import AS_GIVEN, Completion
from hippotune.study.limits import Limits
from hippotune.study.trunk import likely_branches
from hippotune.tuners.base import Mode, Result, Timing, Trial, TrialGroup, Tuner

NO_LIMITS = Limits()
# Less than this is nothing: a limit that is so near is reached.
_MOMENT = 1e-3
# A budget is looked at again after such a part of a step at the earliest: what runs ends its step anyway.
_PART = 0.1


# An answer's place in the plan's history, its request, and its number among all answers.
_Arrived = tuple[int, int, int, Result]


class _TimeUp(BaseException):
    """The tuner is to end where it is. Not an `Exception`: a tuner that survives those must end too."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """By what results are ranked, and how many of the best keep their checkpoints whatever the budget."""

    metric: str
    mode: Mode
    keep_best: int


class Tuning:
    """A tuner's trials on a running loop. `share=False` keeps every trial to itself.

    With `keep`, a result comes when its state is in a checkpoint, which stays until `let_go`. Configs are
    completed before they are placed; along `trunks`, checkpoints are kept where branches are likely.
    """

    def __init__(
        self,
        loop: Loop,
        study: str,
        share: bool = True,
        keep: bool = False,
        ranking: Ranking | None = None,
        limits: Limits = NO_LIMITS,
        completion: Completion = AS_GIVEN,
        trunks: Iterable[Config] = (),
    ) -> None:
        self.results: list[Result] = []
        self.asked: dict[Trial, int] = {}
        self.answered = 0
        self.failed = 0
        self.suspended = 0
        self._loop = loop
        self._study = study
        self._share = share
        self._keep = keep
        self._ranking = ranking
        self._limits = limits
        self._completion = completion
        self._trunks = tuple(map(completion, trunks))
        self._began = loop.executor.now()
        self._spent = loop.engine.spent(study, self._began)
        self.ended_by: Limit | None = None
        self.cut: frozenset[int] = frozenset()
        self._best: list[Result] = []
        self._requests: dict[Trial, int] = {}
        self._heard: dict[Trial, int] = {}
        self._kept: list[int] = []
        self._open: dict[Trial, Position] = {}
        self._awaited: Counter[Position] = Counter()
        self._storable: set[Sequence] = set()
        self._arrived: list[_Arrived] = []
        self._deliveries = count()
        self._wakes: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._over = False

    async def run(self, tuner: Tuner) -> None:
        """Let a tuner tune to its end, or until its time is up; what it leaves open is withdrawn."""
        self._loop.tuner_begins(self)
        if self._limits.any:
            self._set_limits()
            self._loop.when_resting(self._rest)
            self._watch()
        try:
            await self._tune(tuner)
            await self._proved()
        finally:
            self._loop.tuner_ends(self)

    async def _tune(self, tuner: Tuner) -> None:
        try:
            await tuner.run(self)
        except _TimeUp:
            while self._is_ready:  # what came in time counts
                self._take(heappop(self._arrived)[-1])
            self.cut = frozenset(trial.number for trial in self._open)
        finally:
            self._over = True
            for trial in list(self._open):
                self.withdraw(trial)
            if self._limits.any:
                self._loop.forget_resting(self._rest)
                self._loop.handle(DeadlineSet(self._study))
            self._loop.has_begun(self._study)

    async def _proved(self) -> None:
        """Wait until no result is provisional any more; raise where training turns out not to be exact."""
        await self._loop.proved(audits=self.ended_by is None)
        if self._error is not None:
            raise self._error

    # Limits.

    def _set_limits(self) -> None:
        seconds, worker_seconds = self._limits.seconds, self._limits.worker_seconds
        at = None if seconds is None else self._began + seconds
        spend = None if worker_seconds is None else self._spent + worker_seconds
        self._loop.handle(DeadlineSet(self._study, at, spend))

    def _watch(self) -> None:
        """See whether a limit is reached; if not, look again when it may be."""
        if self._over or self.ended_by is not None:
            return
        until_deadline, until_budget = self.until_deadline, self.until_budget
        if until_deadline <= _MOMENT:
            self._end("deadline")
        elif until_budget <= _MOMENT:
            self._end("budget")
        else:
            self._rest()
            least = _PART * (self._loop.engine.profile.usual or 0.0)
            wait = min(until_deadline, max(until_budget, least))
            self._loop.alarm(self._loop.executor.now() + wait, self._watch)

    def _rest(self) -> None:
        """Where nothing runs and there is too little left to start anything, there is nothing to wait for."""
        if self._wakes is not None and not self._arrived:
            obstacle = self._loop.engine.out_of(self._study)
            if obstacle is not None:
                self._end(obstacle)

    def _end(self, limit: Limit) -> None:
        self.ended_by = limit
        self._wake()

    @property
    def until_deadline(self) -> float:
        """The seconds until the deadline; infinite where there is none."""
        seconds = self._limits.seconds
        return math.inf if seconds is None else self._began + seconds - self._loop.executor.now()

    @property
    def until_budget(self) -> float:
        """The seconds that the budget lasts at least: as long as if all workers were busy."""
        if self._limits.worker_seconds is None:
            return math.inf
        spent = self._loop.engine.spent(self._study, self._loop.executor.now()) - self._spent
        return (self._limits.worker_seconds - spent) / max(self.workers, 1)

    def timing(self) -> Timing:
        """Return what the clock says."""
        engine, left = self._loop.engine, max(min(self.until_deadline, self.until_budget), 0.0)
        startup = engine.profile.startup
        return Timing(self._loop.executor.now(), left, engine.profile.usual, startup, engine.widest)

    def is_under_way(self, who: Config | Trial, step: int) -> bool:
        """Whether an open trial waits for the very state that this one comes to."""
        if isinstance(who, Config):
            return self._share and self._position(self._completion(who), step, "") in self._awaited
        return self.state(who, step) in self._awaited

    def state(self, trial: Trial, step: int) -> Position | None:
        """Return the position of a trial's state at a step; None where it was never requested."""
        return self._position(trial.config, step, self.isolation_key(trial))

    def _position(self, config: Config, step: int, isolation_key: str) -> Position | None:
        try:
            return self._loop.engine.plan.find(config, step, isolation_key).position(step)
        except LookupError:
            return None

    def unshared(self, config: Config, step: int) -> int:
        """Return how many steps a new config would have to be trained to get to `step`, as things are now."""
        return self._loop.engine.plan.unshared(self._completion(config), step) if self._share else step

    def rate(self, worths: Mapping[Trial, float]) -> None:
        """Say what open trials are worth."""
        known = {self._requests[trial]: worth for trial, worth in worths.items() if trial in self._requests}
        self._loop.handle(WorthChanged(known))

    async def once(self, group: TrialGroup) -> list[Result]:
        """Train one group and return its results."""
        self._loop.tuner_begins(self)
        try:
            results = await self.all(self.submit(group))
            await self._proved()
            return results
        finally:
            self._loop.tuner_ends(self)

    def let_go(self) -> None:
        """The checkpoints that were kept are subject to the budget again."""
        for number in self._kept:
            self._loop.handle(RequestWithdrawn(number))
        self._kept.clear()

    def isolation_key(self, trial: Trial) -> str:
        """Return what keeps the trial apart from others in the plan: nothing, where trials share."""
        return "" if self._share else str(trial.number)

    def asks(self) -> list[tuple[Node, int]]:
        """Return how far each trial was asked, as nodes of the plan."""
        plan = self._loop.engine.plan
        return [
            (plan.find(trial.config, step, self.isolation_key(trial)), step)
            for trial, step in self.asked.items()
        ]

    @property
    def open(self) -> int:
        """The number of trials whose final result the tuner has not taken yet."""
        return len(self._open)

    @property
    def under_way(self) -> int:
        """How many different states the open trials wait for."""
        return len(self._awaited)

    @property
    def workers(self) -> int:
        """How many workers the study has."""
        return self._loop.executor.workers

    def foresee(self, configs: Iterable[Config], step: int) -> None:
        """Say which configs may be asked for later, so that checkpoints are kept where they part."""
        if self._share:
            self._loop.handle(ConfigsForeseen(tuple(map(self._completion, configs)), step))

    def submit(self, group: TrialGroup) -> list[Trial]:
        """Ask for a group; returns at once with its trials, in the group's order."""
        if self._error is not None:
            raise self._error
        if self.ended_by is not None:
            raise _TimeUp
        trials: list[Trial] = []
        requests: list[Request] = []
        for who, step in group.asks:
            trial = who if isinstance(who, Trial) else Trial(len(self.asked), self._completion(who))
            self._check(trial, step, group.every)
            self.asked[trial] = max(step, self.asked.get(trial, 0))
            number = self._loop.new_request(partial(self._deliver, trial))
            self._requests[trial] = number
            reports = self._reports(trial, step, group.every)
            isolation_key = self.isolation_key(trial)
            requests.append(
                Request(
                    number, self._study, trial.number, trial.config, step, reports, isolation_key, self._keep
                )
            )
            trials.append(trial)
        if self._keep:
            self._kept += [request.id for request in requests]
        if self._trunks and self._share:
            self._foresee_branches(requests)
        self._loop.handle(GroupSubmitted(tuple(requests)))
        for request, trial in zip(requests, trials, strict=True):
            node = self._loop.engine.plan.find(request.config, request.step, request.isolation_key)
            self._open[trial] = node.position(request.step)
            self._awaited[self._open[trial]] += 1
        return trials

    def _foresee_branches(self, requests: Iterable[Request]) -> None:
        """Keep checkpoints along trunks, and say where a branch begins at none."""
        plan = self._loop.engine.plan
        for request in requests:
            if (repeated := plan.repeated(request.config, request.step)) is not None:
                at, kept = repeated
                self._loop.note(
                    f"a branch at step {at} has no checkpoint there: {at - kept} steps of its trunk are "
                    f"trained again, from step {kept} on"
                )
        last = max((request.step for request in requests), default=0)
        for trunk in self._trunks:
            self._loop.handle(BranchesForeseen(trunk, likely_branches(last)))

    def _reports(self, trial: Trial, step: int, every: int | None) -> tuple[int, ...]:
        """Return the steps on the way at which metrics are due: from the trial's last answer on."""
        if every is None:
            return ()
        return tuple(range(self._heard.get(trial, 0) // every * every + every, step, every))

    def _close(self, trial: Trial) -> None:
        position = self._open.pop(trial, None)
        if position is not None:
            self._awaited[position] -= 1
            if not self._awaited[position]:
                del self._awaited[position]

    def _check(self, trial: Trial, step: int, every: int | None) -> None:
        if checks.whole("step", step) >= FOREVER:
            raise InvalidInput(f"step is {step}; expected a step below 2**63")
        if every is not None:
            checks.whole("every", every)
        config = trial.config
        for name in config:
            if config[name] not in self._storable:
                config[name].to_json()  # raises where it could not be stored
                self._storable.add(config[name])
        if config.limit is not None and step > config.limit:
            raise InvalidInput(
                f"a trial was asked for step {step}, but its config has only {config.limit} steps of values: "
                f"{config!r}"
            )
        if trial in self._open:
            raise InvalidInput(
                f"trial {trial.number} was asked for step {step} while an earlier ask is open; "
                "wait for its result or withdraw it first"
            )

    def withdraw(self, trial: Trial) -> None:
        """Give up what is still open of a trial; nothing more is heard of it."""
        number = self._requests.pop(trial, None)
        self._close(trial)
        self._arrived = [item for item in self._arrived if item[-1].trial != trial]
        heapify(self._arrived)
        if number is not None:
            self._loop.forget_request(number)
            self._loop.handle(RequestWithdrawn(number))

    async def next(self) -> Result:
        """Wait for the next result of any open trial. Raises `LookupError` where nothing is open."""
        await self._something()
        return self._take(heappop(self._arrived)[-1])

    def _take(self, result: Result) -> Result:
        """The tuner takes a result: if it is final, its trial is open no more."""
        self.results.append(result)
        self._heard[result.trial] = result.step
        if result.final:
            self._close(result.trial)
        return result

    async def all(self, trials: Iterable[Trial]) -> list[Result]:
        """Wait for the final results of these open trials, in their order; others are kept for `next`."""
        wanted = list(trials)
        missing = set(wanted)
        finals: dict[Trial, Result] = {}
        aside: list[_Arrived] = []
        try:
            while missing:
                await self._something()
                item = heappop(self._arrived)
                result = item[-1]
                if result.final and result.trial in missing:
                    missing.discard(result.trial)
                    finals[result.trial] = self._take(result)
                else:
                    aside.append(item)
        finally:
            for item in aside:
                heappush(self._arrived, item)
        return [finals[trial] for trial in wanted]

    async def _something(self) -> None:
        self._check_time()
        while not self._is_ready:
            if self._error is not None:
                raise self._error
            if not self._requests and not self._arrived:
                raise LookupError("no trial is open: submit a group before waiting for a result")
            wakes = self._wakes = asyncio.get_running_loop().create_future()
            self._loop.has_begun(self._study)
            self._loop.tuner_waits()
            if self._limits.any:
                self._rest()
            await wakes
            self._check_time()

    def _check_time(self) -> None:
        if self.ended_by is not None:
            raise _TimeUp

    def _deliver(self, trial: Trial, answer: Answer) -> None:
        if answer.final:
            del self._requests[trial]
            self.answered += 1
            self.failed += answer.error is not None and not answer.suspended
            self.suspended += answer.suspended
        result = Result(trial, answer.step, answer.metrics, answer.error, answer.final, answer.suspended)
        if self._ranking is not None and result.final and not result.failed:
            self._rank(result, self._ranking)
        heappush(self._arrived, (answer.order, answer.request, next(self._deliveries), result))
        self.facts_committed()

    @property
    def _is_ready(self) -> bool:
        """Whether the result that comes next is known and durable."""
        return bool(self._arrived) and self._arrived[0][0] <= self._loop.committed

    def facts_committed(self) -> None:
        """Wake the tuner, if it can be told something."""
        if self._is_ready:
            self._wake()

    def _rank(self, result: Result, ranking: Ranking) -> None:
        """Tell the engine where the best results of the tuning are, when they change."""
        ranked = sorted(
            [*self._best, result], key=lambda each: each.score(ranking.metric, ranking.mode), reverse=True
        )[: ranking.keep_best]
        if result in ranked:
            self._best = ranked
            best = tuple((each.trial.config, each.step, self.isolation_key(each.trial)) for each in ranked)
            self._loop.handle(BestChanged(self._study, best))

    def broken(self, error: BaseException) -> None:
        """Tell the tuner that nothing more comes."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)
            self._wakes = None
            self._loop.tuner_goes_on()
