"""The engine: a state machine from events to commands. No I/O, no clock, no threads, no randomness.

    handle(event, now) -> commands

Nothing but `handle` changes the engine, so that a recorded log of events leads to the same commands again.
What it knows is in `state`; the handlers of events are in files by subject; what always holds between two
events is written, and checked, in `validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hippotune.engine.assignment import Assignment
from hippotune.engine.blame import Blame
from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.control import ControlEvents
from hippotune.engine.deadlines import Limit
from hippotune.engine.interim import Interim
from hippotune.engine.lease import Lease
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.leases import LeaseEvents
from hippotune.engine.options import EngineOptions
from hippotune.engine.proofs import Proofs
from hippotune.engine.request_failures import RequestFailures
from hippotune.engine.requests import RequestEvents
from hippotune.engine.saves import SaveEvents
from hippotune.engine.scheduler import Demand, Scheduler
from hippotune.engine.state import State, Suitable
from hippotune.engine.turns import Turns
from hippotune.engine.width_allocator import Fits
from hippotune.engine.workers import WorkerEvents
from hippotune.plan.facts import MeasuredSteps
from hippotune.plan.plan import Plan
from hippotune.protocol import events
from hippotune.protocol.commands import Command
from hippotune.scheduling.pool import Served


class ProofWork(NamedTuple):
    """The steps that were repeated, the worker-seconds for that, and those for starting interpreters."""

    steps: int
    seconds: float
    startup_seconds: float


class Engine:
    """See the module.

    `fits` says whether hyper-parameters' values allow a width above 1; without it, none do. `measured` is
    what steps took before: the first decision follows from it. `suitable` says which kinds of slots suit a
    config; without it, all do.
    """

    def __init__(
        self,
        plan: Plan,
        options: EngineOptions = EngineOptions(),  # noqa: B008
        fits: Fits | None = None,
        measured: Iterable[MeasuredSteps] = (),
        suitable: Suitable | None = None,
    ) -> None:
        state = self.state = State(plan, options, fits, suitable)
        state.profile.recall(plan.nodes, measured)
        self.plan, self.profile, self.workers = plan, state.profile, state.workers
        self.checkpoints = checkpoints = Checkpoints(state)
        self.scheduler = Scheduler(state)
        self._updates = updates = LeaseUpdates(state, checkpoints)
        self.proofs = Proofs(state, checkpoints, updates, options.proofs)
        requests = RequestEvents(state, updates, checkpoints, self.proofs)
        failures = RequestFailures(state, requests)
        blame = Blame(state, failures)
        self._interim = interim = Interim(state, checkpoints, options.checkpoint_every)
        self._assignment = Assignment(
            state, self.scheduler, updates, checkpoints, self.proofs, blame, interim
        )
        leases = LeaseEvents(state, requests, failures, checkpoints, self.proofs, blame, interim)
        saves = SaveEvents(state, requests, failures, checkpoints, updates, blame, interim)
        workers = self.worker_events = WorkerEvents(state, leases, updates, self.proofs, blame)
        control = ControlEvents(state, updates, checkpoints)
        self._turns = Turns(state, self.scheduler, updates, checkpoints, workers, options.checkpoint_every)
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.GroupSubmitted: requests.group_submitted,
            events.ConfigsForeseen: requests.configs_foreseen,
            events.BranchesForeseen: requests.branches_foreseen,
            events.RequestWithdrawn: requests.request_withdrawn,
            events.WorthChanged: requests.worth_changed,
            events.BestChanged: checkpoints.best_changed,
            events.CheckpointLost: checkpoints.checkpoint_lost,
            events.CheckpointDeleted: checkpoints.checkpoint_deleted,
            events.MetricsRequired: control.metrics_required,
            events.StudyClosed: control.study_closed,
            events.WidthChanged: control.width_changed,
            events.SlotsAwaited: control.slots_awaited,
            events.DeadlineSet: control.deadline_set,
            events.ActionTaken: control.action_taken,
            events.OwnerSet: control.owner_set,
            events.OthersWait: control.others_wait,
            events.ServedElsewhere: control.served_elsewhere,
            events.Paused: control.paused,
            events.Resumed: control.resumed,
            events.Woken: blame.woken,
            events.Halted: control.halted,
            events.WorkerJoined: workers.worker_joined,
            events.WorkerLeaving: workers.worker_leaving,
            events.WorkerLost: workers.worker_lost,
            events.LeaseStarted: leases.lease_started,
            events.Progressed: leases.progressed,
            events.NumbersLogged: leases.numbers_logged,
            events.WorkerNoted: workers.worker_noted,
            events.MetricsReported: leases.metrics_reported,
            events.StateFingerprinted: self.proofs.state_fingerprinted,
            events.CheckpointSaved: saves.checkpoint_saved,
            events.SaveFailed: saves.save_failed,
            events.StepsMissed: leases.steps_missed,
            events.LeaseFinished: leases.lease_finished,
            events.LeaseFailed: leases.lease_failed,
        }

    def handle(self, event: events.Event, now: float) -> list[Command]:
        """Take in one event; return what is to be done about it, in order, facts first."""
        self.state.now = now
        if not self.worker_events.is_broken(event) and not self.proofs.takes(event):
            self._handlers[type(event)](event)
        self._interim.sweep(event)
        self._turns.begin()
        self._assignment.assign(event)
        self._turns.end(event)
        self.proofs.plan()
        self._updates.tell()
        return self.state.take_commands()

    # To look at, from outside.

    @property
    def leases(self) -> dict[int, Lease]:
        """The leases that run or are being saved, by their numbers."""
        return self.state.leases.by_number

    def asked_by(self, number: int) -> tuple[str, int | None]:
        """Return the study whose turn a lease was, and a trial that waits for what lies at its end."""
        lease, requests = self.leases[number], self.state.requests
        for node, _, _ in reversed(lease.path):
            for _, want in sorted(self.state.frontier.wants.get(node, {}).items(), reverse=True):
                for request, study in want.requests.items():
                    if study == lease.study and request in requests:
                        return study, requests[request].request.trial
        return lease.study, None

    @property
    def trained(self) -> int:
        """How many steps were trained."""
        return self.state.trained

    @property
    def worker_seconds(self) -> float:
        """What all leases that are over have taken."""
        return self.state.leases.worker_seconds

    @property
    def proof_work(self) -> ProofWork:
        """What proofs have taken."""
        leases = self.state.leases
        return ProofWork(
            self.proofs.steps, leases.proof_seconds + self.proofs.fingerprint_seconds, leases.startup_seconds
        )

    def spent(self, study: str, now: float) -> float:
        """Return the slot-seconds that a study was charged, those of its running leases included."""
        return self.state.leases.spent(study, now)

    def served(self, now: float) -> list[Served]:
        """Return the studies that want something, and what they were charged."""
        leases, waiting = self.state.leases, set(self.scheduler.waiting())
        return [
            Served(study, leases.accounts.owner(study), leases.spent(study, now), study in waiting)
            for study in self.state.frontier.wanting
        ]

    @property
    def packing(self) -> int:
        """How many leases may share a slot."""
        allocator = self.state.allocator
        return 1 if allocator is None else allocator.policy.packing

    @property
    def widest(self) -> int:
        """How many workers one lease may have."""
        allocator = self.state.allocator
        return 1 if allocator is None else allocator.widest(self.workers.slots)

    def demand(self, most: int) -> Demand:
        """Return what there is work for now, were there `most` slots."""
        demand = self.scheduler.demand(most)
        if demand.slots or not self.proofs.is_open or self.state.halted:
            return demand
        kinds = [self.state.kinds_for(node) for node in self.plan.nodes[:1]]
        return Demand({min(kinds[0] or {0}) if kinds else 0: 1}, 1)

    def out_of(self, study: str) -> Limit | None:
        """Return the limit by which nothing more of a study comes: nothing runs, nor is worth starting."""
        state = self.state
        if study not in state.deadlines or self.leases or state.paused or not self.workers.slots_with_room:
            return None
        return self.scheduler.out_of(study, state.now)
