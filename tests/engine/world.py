"""Workers without processes: carries out an engine's commands in any interleaving that a test draws.

A worker's state is the list of values that it was trained with, so two states are equal exactly if the same
training led to them. Metrics are a digest of the state: a wrong state cannot give the right metrics. In a
`delayed` world, what workers say is on its way for a while, so that commands cross it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.engine.state import Suitable
from hippotune.engine.validation import validate
from hippotune.engine.width_allocator import Fits
from hippotune.plan.facts import Checkpoint, Fact, MeasuredSteps, SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import (
    Abort,
    Answer,
    DropCheckpoint,
    Record,
    ReleaseWorker,
    RunLease,
    UpdateLease,
    Wake,
)
from hippotune.protocol.events import (
    CheckpointDeleted,
    CheckpointSaved,
    Event,
    GroupSubmitted,
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    NumbersLogged,
    Progressed,
    Request,
    StateFingerprinted,
    Woken,
    WorkerJoined,
    WorkerLost,
)
from hippotune.protocol.failures import LossKind, Retries
from hippotune.protocol.fingerprint import Fingerprint, Leaf
from hippotune.protocol.lease_run import LeaseRun
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config

State = tuple[object, ...]


def trained_alone(config: Config, step: int) -> State:
    return tuple(config.key(at) for at in range(step))


def metrics_of(state: State) -> dict[str, float]:
    # 1 and 1.0 are one value to Hippo; to repr they are not.
    text = repr([[float(x) if isinstance(x, (int, float)) else x for x in values] for values in state])
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return {"m": float(int(digest, 16))}


def logged_at(state: State) -> dict[str, float]:
    """Say what a step logs that led to a state: one number at every other step, one at every third."""
    numbers = {"m": metrics_of(state)["m"]} if len(state) % 2 else {}
    return {**numbers, **({"third": float(len(state))} if len(state) % 3 == 0 else {})}


def fingerprint_of(state: State) -> Fingerprint:
    number = metrics_of(state)["m"]
    return Fingerprint((Leaf("self.values", "number", f"{number}", f"{number}"),))


@dataclass
class Worker:
    number: int
    state: State = ()
    run: LeaseRun | None = None
    update: UpdateLease | None = None
    writing: list[tuple[int, int, int, State, bool]] = field(default_factory=list)
    outbox: deque[Event] = field(default_factory=deque)
    helps: int | None = None

    @property
    def lease(self) -> RunLease | None:
        return None if self.run is None or self.run.over else self.run.lease


class World:
    """An engine with its workers; `steps_trained` counts every step that any of them took but for proofs.

    A state is what `remembers` makes of it when it is loaded. What several workers learn in a step is what
    `learns_wide` makes of it; where that is only `rounding`, one worker learns it from nudged weights too.
    """

    def __init__(
        self,
        slots: int = 1,
        plan: Plan | None = None,
        budget: int | None = None,
        delayed: bool = False,
        policy: WidthPolicy | None = None,
        fits: Fits | None = lambda values, width: True,
        measured: Iterable[MeasuredSteps] = (),
        proofs: ProofPolicy | None = None,
        retries: Retries | None = None,
        checkpoint_every: float | None = None,
        platforms: Sequence[str] = ("",),
        suitable: Suitable | None = None,
        kinds: Mapping[int, int] | None = None,
    ) -> None:
        self.delayed = delayed
        self._platforms = platforms
        self.slots = slots
        self.kinds = kinds or {}
        options = EngineOptions(policy, proofs, retries or Retries(), checkpoint_every, budget)
        self.engine = Engine(plan or Plan(), options, fits, measured, suitable)
        workers = slots if policy is None else slots * policy.packing
        self.workers = {number: Worker(number) for number in range(workers)}
        self.disk: dict[str, State] = {}
        self.facts: list[Fact] = []
        self.answers: list[Answer] = []
        self.aborts: list[str] = []
        self.alarms: list[float] = []
        self.released: set[int] = set()
        self.commands: list[object] = []
        self.heard: list[Event] = []
        self.steps_trained = 0
        self.steps_proved = 0
        self.remembers: Callable[[RunLease, State], State] = lambda lease, state: state
        self.constants: dict[str, float] = {}  # metrics that never change
        self.fails_at: Callable[[Config, int], bool] = lambda config, step: False
        self.cannot_evaluate: Callable[[Config, int], bool] = lambda config, step: False
        self.crashes_at: Callable[[Config, int], bool] = lambda config, step: False
        self.learns_wide: Callable[[RunLease, object], object] = lambda lease, values: values
        self.rounding = False
        self.lacks_memory: Callable[[RunLease, int], bool] = lambda lease, step: False
        self.out_of_step: Callable[[RunLease, int], bool] = lambda lease, step: False
        self.slower_together = 0.0
        self.most_on_disk = 0
        self._saves = itertools.count()
        self.doomed: deque[DropCheckpoint] = deque()
        self.now = 0.0
        self.tick = 1.0  # how much time passes between two events
        self.together: dict[int, tuple[int, ...]] = {}
        self._requests = 0
        for number in self.workers:
            self.join(number)

    def join(self, number: int) -> None:
        """A worker is up; platforms are given to slots in turns."""
        slot = number % self.slots
        platform = self._platforms[slot % len(self._platforms)]
        self.feed(WorkerJoined(number, slot, platform, kind=self.kinds.get(slot, 0)))

    def submit(
        self,
        *asks: tuple[Config, int],
        reports: tuple[int, ...] = (),
        isolation_key: str = "",
        study: str = "study",
        keep: bool = False,
    ) -> list[Request]:
        requests = []
        for config, step in asks:
            self._requests += 1
            inside = tuple(at for at in reports if at < step)
            requests.append(
                Request(self._requests, study, self._requests, config, step, inside, isolation_key, keep)
            )
        self.feed(GroupSubmitted(tuple(requests)))
        return requests

    def feed(self, event: Event) -> None:
        self.now += self.tick
        self.heard.append(event)
        if isinstance(event, LeaseFinished | LeaseFailed):
            self.together.pop(event.lease, None)
        for command in self.engine.handle(event, self.now):
            self.commands.append(command)
            match command:
                case RunLease():
                    worker = self.workers[command.worker]
                    for each in (self.workers[number] for number in command.workers):
                        assert each.number not in self.released, "a worker that was released got a lease"
                        assert (each.lease, each.helps) == (None, None), "a busy worker was given a lease"
                        each.helps = command.lease if each is not worker else None
                    self._check_slots()
                    if command.peers:
                        self.together[command.lease] = command.workers
                    worker.run, worker.update = LeaseRun(command), None
                case UpdateLease():
                    worker = self.workers[command.worker]
                    if worker.run is not None and worker.run.lease.lease == command.lease:
                        worker.update = command
                        if worker.run.over:
                            self._take_update(worker, worker.run)
                case Answer():
                    self.answers.append(command)
                case Record(facts):
                    self.facts.extend(facts)
                case DropCheckpoint():
                    self.doomed.append(command)
                case Abort(error):
                    self.aborts.append(error)
                case Wake(at):
                    self.alarms.append(at)
                case ReleaseWorker(number):
                    self.released.add(number)
        validate(self.engine)
        while self.doomed and not self.delayed:
            self.delete()

    def say(self, worker: Worker, event: Event) -> None:
        """A worker says something."""
        if self.delayed:
            worker.outbox.append(event)
        else:
            self.feed(event)

    def deliver(self, number: int) -> None:
        """The engine hears the next thing that a worker said."""
        self.feed(self.workers[number].outbox.popleft())

    def _take_update(self, worker: Worker, run: LeaseRun) -> bool:
        """A worker looks at its latest orders; return whether it had to say that they came too late."""
        update, worker.update = worker.update, None
        missed = None if update is None else run.update(update)
        if missed is not None:
            self.say(worker, missed)
        return missed is not None

    # One move of one worker. Each returns whether there was anything to do.

    def move(self, number: int) -> bool:
        worker = self.workers[number]
        lease, run = worker.lease, worker.run
        if lease is None or run is None:
            return False
        if self._take_update(worker, run):
            return True
        step = run.at
        match run.next(self.now, not worker.writing):
            case "start":
                if not lease.warm:
                    worker.state = self.disk[lease.source.name] if lease.source else ()
                assert worker.state == trained_alone(lease.config, lease.start), "wrong state to start from"
                if not lease.warm:
                    worker.state = self.remembers(lease, worker.state)
                self._done(worker, run, LeaseStarted(lease.lease, 0.0))
            case "probe":
                self._done(worker, run)
                return self.move(number)
            case "evaluate":
                if self.cannot_evaluate(lease.config, step):
                    worker.state = ()
                    self._free(lease)
                    self.say(worker, LeaseFailed(lease.lease, run.fail(), "Boom", "evaluate"))
                    return True
                metrics = metrics_of(worker.state) | self.constants
                self._done(worker, run, MetricsReported(lease.lease, step, metrics, 0.0))
            case "fingerprint":
                noted = StateFingerprinted(
                    lease.lease, step, fingerprint_of(worker.state), run.is_evaluated, 0.0
                )
                self._done(worker, run, noted)
            case "save":
                node = lease.node_at(step)
                worker.writing.append((lease.lease, step, node, worker.state, run.is_interim))
                self._done(worker, run)
            case "finish":
                self._free(lease)
                self._done(worker, run, LeaseFinished(lease.lease, step))
            case "train":
                self._train(worker, run)
        return True

    def _done(self, worker: Worker, run: LeaseRun, event: Event | None = None) -> None:
        run.done()
        if event is not None:
            self.say(worker, event)

    def _train(self, worker: Worker, run: LeaseRun) -> None:
        lease, step = run.lease, run.at
        if self.crashes_at(lease.config, step):
            self.kill(worker.number)
            return
        no_memory = self.lacks_memory(lease, step)
        out_of_step = bool(lease.peers) and self.out_of_step(lease, step)
        if no_memory or out_of_step or self.fails_at(lease.config, step):
            worker.state = ()
            while worker.writing:  # a worker says what it saved before it says that it failed
                self.write(worker.number)
            self._free(lease)
            kind = "out of memory" if no_memory else "mismatch" if out_of_step else "raised"
            failure = LeaseFailed(lease.lease, run.fail(), "Boom", "train", kind=kind)
            self.say(worker, failure)
            return
        values: object = lease.config.key(step)
        if lease.peers or (lease.nudged and self.rounding):
            values = self.learns_wide(lease, values)
        worker.state = (*worker.state, values)
        if lease.proof:
            self.steps_proved += 1
        else:
            self.steps_trained += 1
        if lease.logs and (numbers := logged_at(worker.state)):
            columns = {name: (number,) for name, number in numbers.items()}
            self.say(worker, NumbersLogged(lease.lease, (step + 1,), columns))
        seconds = self.slower_together if lease.peers and self.slower_together else 1 / float(lease.width)
        self._done(worker, run, Progressed(lease.lease, step + 1, 1, seconds))

    def _free(self, lease: RunLease) -> None:
        for peer in lease.peers:
            self.workers[peer].helps, self.workers[peer].state = None, ()

    def _check_slots(self) -> None:
        """No slot is given out more than once."""
        taken = dict.fromkeys(range(self.slots), Fraction(0))
        for lease in self.engine.leases.values():
            if lease.state == "running":
                for worker in lease.workers:
                    taken[worker % self.slots] += min(lease.width, Fraction(1))
        assert max(taken.values()) <= 1, "a slot is overfull"

    def write(self, number: int) -> bool:
        worker = self.workers[number]
        if not worker.writing:
            return False
        lease, step, node, state, interim = worker.writing.pop(0)
        name = f"{node}-{step}"
        if name in self.disk:  # dropped, and not deleted yet
            name += f"-{next(self._saves)}"
        self.disk[name] = state
        self.most_on_disk = max(self.most_on_disk, len(self.disk))
        self.say(worker, CheckpointSaved(lease, step, Checkpoint(name, 1, "", interim=interim)))
        return True

    def delete(self) -> None:
        """A checkpoint that was dropped is deleted."""
        dropped = self.doomed.popleft()
        del self.disk[dropped.checkpoint.name]
        self.feed(CheckpointDeleted(dropped.checkpoint))

    def kill(self, number: int, kind: LossKind = "died") -> None:
        """End a worker, and those that train a lease together with it."""
        together = [workers for workers in self.together.values() if number in workers]
        lost = [number, *(other for workers in together for other in workers if other != number)]
        self.together = {lease: workers for lease, workers in self.together.items() if number not in workers}
        for each in lost:
            self.workers[each] = Worker(each)
        for each in lost:
            self.feed(WorkerLost(each, "killed", kind))
            self.join(each)

    def come_back(self, number: int) -> None:
        """A worker that was released, and has said all that it had to say, is there again."""
        self.released.remove(number)
        self.workers[number] = Worker(number)
        self.join(number)

    def spans(self) -> list[SpanRecorded]:
        """Return the worker time that was recorded."""
        return [fact for fact in self.facts if isinstance(fact, SpanRecorded)]

    def ring(self) -> None:
        """The time has come that the engine asked to be woken at."""
        at = min(self.alarms)
        self.alarms.remove(at)
        self.now = max(self.now, at)
        self.feed(Woken(at))

    def moves(self) -> list[Callable[[], object]]:
        """Return everything that could happen next."""
        deletions: list[Callable[[], object]] = [self.delete] if self.doomed else []
        alarms: list[Callable[[], object]] = [self.ring] if self.alarms else []
        return (
            deletions
            + [
                partial(act, number)
                for number, worker in self.workers.items()
                for act, able in (
                    (self.move, worker.lease is not None),
                    (self.write, bool(worker.writing)),
                    (self.deliver, bool(worker.outbox)),
                    (
                        self.come_back,
                        number in self.released and not (worker.writing or worker.outbox),
                    ),
                )
                if able
            ]
            + alarms
        )

    def run(self, choose: Callable[[int], int] = lambda n: 0) -> None:
        """Let workers move until nothing is left; `choose(n)` picks which of n possible moves comes next."""
        while moves := self.moves():
            moves[choose(len(moves))]()
