"""Virtual time: an executor that trains nothing and knows when everything would have happened.

A lease is taken from one step with something to do at it to the next by arithmetic, whatever lies between.
All that will happen is on one heap; `advance` takes the next of it, and commands only ever change the heap.
Nothing is drawn at random and no clock is read, so the same study gives the same events.

`LeaseRun` decides what a lease does, and in which order, as it does on real workers. A snapshot is written
beside training, one after the other; as with real workers, a third one waits while one is being written and
another waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Literal

from hippotune import checks
from hippotune.errors import IllegalTransition, InvalidInput, TrainerError
from hippotune.executors.base import Emit, Executor, Job
from hippotune.executors.simulated.metrics import Formula, as_curves
from hippotune.executors.simulated.recorded import Recorded, Table
from hippotune.executors.simulated.slots import Loss, Slot, TimedRun, checked_losses
from hippotune.executors.simulated.times import Scaling, SecondsPerStep, StepTimes
from hippotune.executors.worker.tracebacks import describe
from hippotune.plan.facts import Checkpoint
from hippotune.protocol.commands import ExecutorCommand, RunLease, UpdateLease
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Progressed,
    StateFingerprinted,
    WorkerJoined,
    WorkerLost,
)
from hippotune.protocol.fingerprint import Fingerprint
from hippotune.protocol.lease_run import LeaseRun
from hippotune.trainers.metrics import checked_metrics

if TYPE_CHECKING:
    from hippotune.plan.plan import Plan
    from hippotune.store.base import Store
    from hippotune.study.report import Report


# Comes after everything that happens at the same time.
_LAST = 1 << 62


class Simulated(Executor):
    """Workers in virtual time.

    Nothing is kept on disk. Studies of one trainer and home that are open at the same time share what they
    train, if their executors were given the same: equal numbers, and the very same functions and metrics.

    Parameters
    ----------
    workers : int
        The number of worker slots.
    seconds_per_step : float or function
        What a step takes on one worker; or a function of the hyper-parameters' values and the width, which
        should look at no more values than it needs.
    startup : float
        Seconds until the workers are up, and that a fresh interpreter takes to start.
    load, save, evaluate : float
        Seconds that loading a checkpoint, writing one and evaluating take. Writing goes on beside training;
        going on from the state that a worker holds needs no loading.
    progress : float, optional
        Seconds after which a worker says how far it is, at the end of a step, as real ones do all the time;
        by default only where something is to be done. Matters where trials differ in pace and widths are
        chosen by how long they still take.
    scaling : Mapping[float, float]
        Measured speed-ups by width, such as ``{1: 1, 2: 1.87}``; in proportion to the width by default.
    metrics : function, table, Report, Plan, Store or Recorded
        What evaluations bring: a function of (config, step), which may depend only on the values before that
        step; a table ``{config: {step: metrics}}``; or a record of real training. By default learning
        curves are made up from `seed`, under whatever names tuners ask for.
    losses : iterable of (time, worker) or (time, worker, back_after)
        When which worker is lost, and after how many seconds it is back; without that it is gone for good.
    seed : int
        Decides the made-up learning curves.
    """

    virtual = True

    def __init__(
        self,
        workers: int,
        *,
        seconds_per_step: SecondsPerStep = 1.0,
        startup: float = 0.0,
        load: float = 0.0,
        save: float = 0.0,
        evaluate: float = 0.0,
        progress: float | None = None,
        scaling: Scaling | None = None,
        metrics: Formula | Table | Report | Plan | Store | Recorded | None = None,
        losses: Iterable[Loss] = (),
        seed: int = 0,
    ) -> None:
        checks.whole("workers", workers)
        self._times = StepTimes(seconds_per_step, scaling)
        self._startup = checks.number("startup", startup, least=0)
        self._load = checks.number("load", load, least=0)
        self._save = checks.number("save", save, least=0)
        self._evaluate = checks.number("evaluate", evaluate, least=0)
        self._progress = None if progress is None else checks.number("progress", progress, above=0)
        self._curves = as_curves(metrics, checks.whole("seed", seed, least=0))
        self._losses = checked_losses(losses, workers, self._startup)
        self._given = (seconds_per_step, scaling, metrics, seed)
        self._workers = workers
        self._slots: list[Slot] = []
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._pushes = count()
        self._has_emitted = False
        self._emit: Emit = lambda event: None

    @property
    def workers(self) -> int:
        """The number of slots."""
        return self._workers

    @property
    def identity(self) -> str:
        """Equal for executors that were given the same: one's virtual time is as good as the other's."""
        if type(self) is not Simulated:
            return super().identity
        seconds, scaling, metrics, seed = self._given
        pace = f"function {id(seconds)}" if callable(seconds) else f"{float(seconds)} s"
        curves = f"seed {seed}" if metrics is None else f"metrics {id(metrics)}"
        costs = (self._startup, self._load, self._save, self._evaluate, self._progress)
        speeds = sorted((scaling or {}).items())
        return f"{self._workers} at {pace} {speeds}, {costs}, {curves}, losses {self._losses}"

    async def start(self, job: Job, emit: Emit) -> None:
        """Begin at time 0."""
        self._emit = emit
        self._now = 0.0
        self._due = []
        self._slots = [Slot(worker) for worker in range(self._workers * job.packing)]
        for slot in self._slots:
            self._at(self._startup, partial(self._join, slot))
        for time, worker, back_after in self._losses:
            for slot in self._slots[worker :: self._workers]:
                self._at(time, partial(self._lose, slot, back_after))

    def carry_out(self, command: ExecutorCommand) -> None:
        """Start or change a lease."""
        slot = self._slots[command.worker]
        if isinstance(command, RunLease):
            self._run(slot, command)
        elif slot.timed is not None and slot.timed.lease.lease == command.lease:
            self._update(slot, slot.timed, command)

    async def close(self) -> None:
        """Let go of everything that was to happen."""
        self._due = []

    def now(self) -> float:
        """Return the virtual time."""
        return self._now

    def alarm(self, time: float, call: Callable[[], None]) -> None:
        """Have something called at a time, or now if that is past, after all else that happens then."""

        def ring() -> None:
            self._has_emitted = True
            call()

        heappush(self._due, (max(time, self._now), _LAST + next(self._pushes), ring))

    def advance(self) -> bool:
        """Run what is due until an event is emitted."""
        self._has_emitted = False
        while self._due and not self._has_emitted:
            self._now, _, happen = heappop(self._due)
            happen()
        return self._has_emitted

    def _emit_now(self, event: Event) -> None:
        self._has_emitted = True
        self._emit(event)

    def _at(self, time: float, happen: Callable[[], None]) -> None:
        heappush(self._due, (time, next(self._pushes), happen))

    def _say_at(self, time: float, slot: Slot, event: Event, timed: TimedRun | None = None) -> None:
        """Have something said of a worker, unless it is lost before, or a lease has failed before."""
        life = slot.life

        def say() -> None:
            if slot.life == life and not (timed and timed.has_failed):
                self._emit_now(event)

        self._at(time, say)

    # Workers come and go.

    def _join(self, slot: Slot) -> None:
        if not slot.up:
            slot.up = True
            self._emit_now(WorkerJoined(slot.worker, slot.worker % self._workers))

    def _lose(self, slot: Slot, back_after: float) -> None:
        if not slot.up:
            return
        lease = slot.lease
        together = (slot,) if lease is None else tuple(self._slots[each] for each in lease.workers)
        self._lose_worker(slot, f"lost at {self._now:g} s, as the script says", back_after)
        for other in together:
            if other is not slot:
                self._lose_worker(
                    other, f"worker {slot.worker}, which it trained with, is lost", self._startup
                )

    def _lose_worker(self, slot: Slot, reason: str, back_after: float) -> None:
        slot.up, slot.timed, slot.lease, slot.is_pristine = False, None, None, True
        slot.life += 1
        slot.written.clear()
        self._emit_now(WorkerLost(slot.worker, reason, "infrastructure"))
        if back_after < math.inf:
            self._at(self._now + back_after, partial(self._join, slot))

    # Orders.

    def _run(self, slot: Slot, lease: RunLease) -> None:
        for each in (self._slots[worker] for worker in lease.workers):
            if not each.up or each.lease is not None:
                raise IllegalTransition(f"worker {each.worker} was given {lease} while it is gone or at work")
            each.lease = lease
        slot.timed = TimedRun(LeaseRun(lease))
        self._act(slot, slot.timed)

    def _loading(self, slot: Slot, lease: RunLease) -> float:
        loading = self._load if lease.source is not None or lease.peers else 0.0
        return loading + self._startup if lease.fresh and not slot.is_pristine else loading

    def _update(self, slot: Slot, timed: TimedRun, update: UpdateLease) -> None:
        run = timed.run
        training = run.doing == "train"
        moving = training and self._now > timed.since
        if moving:
            # The step that is being trained is not over, even if it is to end at this very moment.
            elapsed, width = self._now - timed.since, float(run.lease.width)
            passed = self._times.steps(run.lease.config, timed.step, timed.goal - 1, elapsed, width)
            run.done(passed - run.at)
            run.begin("train")
        elif training:
            run.done(0)
        if missed := run.update(update):
            self._say_at(self._now, slot, missed)
        if moving:
            self._aim(slot, timed)
        elif training:
            self._next(self._now, slot, timed, self._act)

    # The course of a lease.

    def _next(self, time: float, slot: Slot, timed: TimedRun, go: Callable[[Slot, TimedRun], None]) -> None:
        """Have a lease go on at some time, unless it is ended or turned before."""
        timed.turn += 1
        turn = timed.turn
        self._at(time, lambda: go(slot, timed) if slot.timed is timed and timed.turn == turn else None)

    def _act(self, slot: Slot, timed: TimedRun) -> None:
        """Begin what comes next; it is done when its time has gone by."""
        is_idle = not slot.written or slot.written[-1] <= self._now
        match timed.run.next(self._now, is_idle):
            case "start":
                self._next(self._now + self._loading(slot, timed.lease), slot, timed, self._begin)
            case "probe":
                self._next(self._now + self._evaluate, slot, timed, self._go_on)
            case "evaluate":
                self._next(self._now + self._evaluate, slot, timed, self._measure)
            case "fingerprint":
                self._fingerprint(timed.run)
                self._go_on(slot, timed)
            case "save":
                if (free := self._writer_is_free(slot)) > self._now:
                    self._next(free, slot, timed, self._act)
                else:
                    self._write(slot, timed)
                    self._go_on(slot, timed)
            case "train":
                timed.step, timed.since = timed.run.at, self._now
                self._aim(slot, timed)
            case "finish":
                timed.run.done()
                self._free(timed.lease)
                self._emit_now(LeaseFinished(timed.lease.lease, timed.run.at))

    def _go_on(self, slot: Slot, timed: TimedRun) -> None:
        timed.run.done()
        self._act(slot, timed)

    def _begin(self, slot: Slot, timed: TimedRun) -> None:
        """The worker holds the state that the lease starts from."""
        self._emit_now(LeaseStarted(timed.lease.lease, self._loading(slot, timed.lease)))
        slot.is_pristine = False
        timed.run.done()
        self._next(self._now, slot, timed, self._act)

    def _arrive(self, slot: Slot, timed: TimedRun) -> None:
        """The worker has come to its goal."""
        lease, step = timed.lease, timed.step
        ends = [each.end for each in lease.segments if step < each.end < timed.goal]
        for end in (*ends, timed.goal):
            seconds = self._times.seconds(lease.config, step, end, float(lease.width))
            self._emit_now(Progressed(lease.lease, end, end - step, seconds))
            step = end
        timed.run.done(timed.goal - timed.run.at)
        self._act(slot, timed)

    def _free(self, lease: RunLease) -> None:
        for worker in lease.workers:
            self._slots[worker].lease = None

    def _aim(self, slot: Slot, timed: TimedRun) -> None:
        """Train on to the next step count with something to do at it."""
        run, width = timed.run, float(timed.lease.width)
        timed.goal = run.next_stop()
        if self._progress is not None:
            soon = self._times.steps(run.lease.config, timed.step, timed.goal, self._progress, width)
            timed.goal = max(soon, run.at + 1)
        if run.interim_due < math.inf:
            left = max((run.interim_due, *slot.written)) - timed.since
            whole = self._times.steps(run.lease.config, timed.step, timed.goal, left, width)
            is_due = self._times.seconds(run.lease.config, timed.step, whole, width) >= left
            timed.goal = min(timed.goal, max(whole if is_due else whole + 1, run.at + 1))
        needed = self._times.seconds(run.lease.config, timed.step, timed.goal, width)
        self._next(max(timed.since + needed, self._now), slot, timed, self._arrive)

    def _measure(self, slot: Slot, timed: TimedRun) -> None:
        lease, run = timed.lease, timed.run
        try:
            metrics = self._metrics(run)
        except Exception as error:
            phase: Literal["contract", "evaluate"] = "evaluate"
            if isinstance(error, InvalidInput | TrainerError):
                phase = "contract"
            self._free(lease)
            timed.has_failed = True
            self._emit_now(LeaseFailed(lease.lease, run.fail(), describe(error), phase))
            return
        self._emit_now(MetricsReported(lease.lease, run.at, metrics, self._evaluate))
        self._go_on(slot, timed)

    def _metrics(self, run: LeaseRun) -> dict[str, float]:
        lease = run.lease
        try:
            return checked_metrics(self._curves(lease.config, run.at, lease.required))
        except InvalidInput:
            if run.at in run.fingerprints:  # for a proof, or so it seems: if not, it will be asked for again
                return {}
            raise

    def _fingerprint(self, run: LeaseRun) -> None:
        """What is trained here is the same wherever it is trained."""
        self._emit_now(StateFingerprinted(run.lease.lease, run.at, Fingerprint(()), run.is_evaluated, 0.0))

    # Saving beside training.

    def _writer_is_free(self, slot: Slot) -> float:
        """Return from when on the writer can take another snapshot."""
        return slot.written[0] if len(slot.written) == 2 else self._now

    def _write(self, slot: Slot, timed: TimedRun) -> None:
        step, lease, interim = timed.run.at, timed.lease, timed.run.is_interim
        done = max(self._now, slot.written[-1] if slot.written else 0.0) + self._save
        slot.written.append(done)
        name = f"{lease.node_at(step)}-{step}"
        saved = CheckpointSaved(lease.lease, step, Checkpoint(name, 0, "", interim=interim))
        self._say_at(done, slot, saved, timed if interim else None)
