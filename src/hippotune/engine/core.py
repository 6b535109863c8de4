"""The engine: a state machine from events to commands. No I/O, no clock, no threads, no randomness.

    handle(event, now) -> commands

Everything that the engine knows is the plan, the open requests, the leases and the workers. What always
holds between two events is written, and checked, in `hippotune.engine.validation`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hippotune.engine.books import Books
from hippotune.engine.choosing import Choice, Choosing, source_of
from hippotune.engine.deadlines import Limit
from hippotune.engine.keeping import Keeping
from hippotune.engine.lease import Lease
from hippotune.engine.requests import OpenRequest
from hippotune.engine.widening import Fits, Widening
from hippotune.engine.workers import Workers
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Fact, Position, RequestMade
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import (
    Abort,
    Answer,
    Command,
    DropCheckpoint,
    Record,
    RunLease,
    UpdateLease,
)
from hippotune.protocol.events import (
    BestChanged,
    CheckpointDeleted,
    CheckpointLost,
    CheckpointSaved,
    ConfigsForeseen,
    DeadlineSet,
    Event,
    GroupSubmitted,
    Halted,
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Paused,
    Progressed,
    Request,
    RequestWithdrawn,
    Resumed,
    SaveFailed,
    StepsMissed,
    WorkerJoined,
    WorkerLost,
    WorthChanged,
)
from hippotune.scheduling.policy import WidthPolicy
from hippotune.scheduling.profile import Profile
from hippotune.scheduling.width import WAITS
from hippotune.stages.frontier import Frontier, Place

# A path that took its worker down this often, without a checkpoint in between, is the trials' fault.
MOST_LOSSES = 3
_WHOLE = Fraction(1)
# After these, what runs may be worth another width.
_UNSETTLING = (
    GroupSubmitted
    | RequestWithdrawn
    | Resumed
    | WorkerJoined
    | WorkerLost
    | CheckpointSaved
    | LeaseFinished
    | LeaseFailed
)


class Engine:
    """See the module.

    `required` are the metrics that tuners read: every evaluation must bring them. `budget` is how many
    bytes all checkpoints of the plan may take together. `policy` decides on widths; without one, every lease
    has one slot. `fits` says whether hyper-parameters' values allow a width above 1; without it, none do.
    """

    def __init__(
        self,
        plan: Plan,
        budget: int | None = None,
        policy: WidthPolicy | None = None,
        fits: Fits | None = None,
    ) -> None:
        self.plan = plan
        self.frontier = Frontier()
        self.profile = Profile(None if policy is None else policy.scaling)
        self.keeping = Keeping(plan, budget)
        self.requests: dict[int, OpenRequest] = {}
        self.books = Books()
        self.workers = Workers()
        self.choosing = Choosing(plan, self.frontier, self.profile, self.workers, self.books)
        self.widen(policy, fits)
        self.required: frozenset[str] = frozenset()
        self.paused = False
        self.halted = False
        self.trained = 0
        self.keepers: dict[Position, list[int]] = {}
        self._best: dict[str, set[Position]] = {}
        self._pinned: dict[int, Position] = {}
        self._worths: dict[int, float] = {}
        self._losses: dict[tuple[Node, int], int] = {}
        self._next_lease = 0
        self._probed = plan.order > 0
        self._now = 0.0
        self._facts: list[Fact] = []
        self._commands: list[Command] = []
        self._changed: dict[Lease, None] = {}
        self._unsettled = False
        # What has just stopped to go on wider, and the width that it has a claim to.
        self._claims: dict[Position, Fraction] = {}
        # Leases that have lost one of their workers, with the others, who are to be lost too.
        self.broken: dict[int, set[int]] = {}
        self._on: dict[type, Callable[[Any], None]] = {
            GroupSubmitted: self._group_submitted,
            ConfigsForeseen: self._configs_foreseen,
            RequestWithdrawn: self._request_withdrawn,
            BestChanged: self._best_changed,
            WorthChanged: self._worth_changed,
            DeadlineSet: self._deadline_set,
            CheckpointLost: self._checkpoint_lost,
            CheckpointDeleted: self._checkpoint_deleted,
            Paused: self._paused,
            Resumed: self._resumed,
            Halted: self._halted,
            WorkerJoined: self._worker_joined,
            WorkerLost: self._worker_lost,
            LeaseStarted: self._lease_started,
            Progressed: self._progressed,
            MetricsReported: self._metrics_reported,
            CheckpointSaved: self._checkpoint_saved,
            SaveFailed: self._save_failed,
            StepsMissed: self._steps_missed,
            LeaseFinished: self._lease_finished,
            LeaseFailed: self._lease_failed,
        }

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take in one event; return what is to be done about it, in order, facts first."""
        self._now = now
        if (broken := getattr(event, "lease", None)) in self.broken:
            self._give_back(broken, event)
        else:
            self._on[type(event)](event)
        self._unsettled |= isinstance(event, _UNSETTLING)
        self._assign()
        for lease in self._changed:
            self._tell(lease)
        commands = self._commands
        if self._facts:
            commands.insert(0, Record(tuple(self._facts)))
        self._commands, self._facts, self._changed, self._claims = [], [], {}, {}
        return commands

    # The tuners' side.

    def _group_submitted(self, event: GroupSubmitted) -> None:
        for request in event.requests:
            self._submit(request)

    def _submit(self, request: Request) -> None:
        node = self._place(request)
        self._facts.append(RequestMade(request.study, request.trial, request.config, request.step))
        open_request = self.requests[request.id] = OpenRequest(request, node)
        if request.keep:
            self._pinned[request.id] = node.position(request.step)
        failure = self.plan.failure_on_the_way(node, request.step)
        if failure is not None:
            self._commands.append(self.requests.pop(request.id).failed(request.step, *failure))
            return
        for step in sorted({*request.reports, request.step}):
            holder = node.holder(step)
            final = step == request.step
            known = holder.metrics.get(step)
            if known is not None and not (final and request.keep and step not in holder.checkpoints):
                self._answer(open_request.arrived(step, *known))
                continue
            open_request.missing[step] = holder
            if known is not None and self._waits_for_save(holder, step, request.id):
                continue
            self.frontier.ask(holder, step, request.id, final, request.study)
            self._entrust(holder, step, evaluate=True, save=final)
        self._conclude(open_request)

    def _waits_for_save(self, node: Node, step: int, request: int) -> bool:
        """Let a request that needs no more than a checkpoint wait for the one on its way, if there is one."""
        if step not in self.frontier.coming.get(node, ()):
            return False
        self.keepers.setdefault(Position(node.id, step), []).append(request)
        return True

    def _place(self, request: Request) -> Node:
        node, facts = self.plan.place(request.config, request.step, request.salt)
        if facts:
            self._grown(node, facts)
        return node

    def _grown(self, node: Node, facts: list[Fact]) -> None:
        self._facts += facts
        if node.parent is not None:
            self._entrust(node.parent, node.start, evaluate=False, save=True)

    def _configs_foreseen(self, event: ConfigsForeseen) -> None:
        for config in event.configs:
            node, facts = self.plan.place(config, event.step)
            if facts:
                self._grown(node, facts)

    def _entrust(self, node: Node, step: int, evaluate: bool, save: bool) -> None:
        """Let a lease that is on its way to `step` of `node` see to it, where there is one."""
        for lease in self.books.on(node):
            if self.halted or not lease.covers(node, step) or (lease.stopping and step > lease.end):
                continue
            if evaluate and step not in lease.evaluations:
                lease.evaluations.add(step)
                self.frontier.promise(node, step, lease.id)
                lease.end = max(lease.end, step)
            if save and step not in lease.saves and step not in node.checkpoints and step <= lease.end:
                pinned = Position(node.id, step) in self._pinned.values()
                if pinned or self.keeping.fits(self.books.saves_to_come() + 1):
                    lease.saves.add(step)
                    self.frontier.expect(node, step, lease.id)
            self._changed[lease] = None
            return

    def _request_withdrawn(self, event: RequestWithdrawn) -> None:
        self._pinned.pop(event.request, None)
        self._worths.pop(event.request, None)
        open_request = self.requests.pop(event.request, None)
        if open_request is None:
            return  # answered while the withdrawal was on its way
        for step, node in open_request.missing.items():
            want = self.frontier.withdraw(node, step, event.request)
            if want is not None and want.lease is not None:
                self.leases[want.lease].evaluations.discard(step)
        for waiting in self.keepers.values():
            if event.request in waiting:
                waiting.remove(event.request)
        for node in open_request.node.lineage():
            for lease in self.books.on(node):
                self._shorten(lease)

    def _shorten(self, lease: Lease) -> None:
        """Let a lease end where the last of what anybody needs of it is."""
        needed = set(lease.evaluations)
        for step in lease.saves:
            node = lease.node_at(step)
            if self.keepers.get(Position(node.id, step)) or self.frontier.held(node, step) is not None:
                needed.add(step)
        end = max(needed, default=lease.at)
        if end < lease.end:
            lease.end = end
            self._changed[lease] = None

    def _best_changed(self, event: BestChanged) -> None:
        self._best[event.study] = {
            self.plan.find(config, step, salt).position(step) for config, step, salt in event.best
        }

    def _worth_changed(self, event: WorthChanged) -> None:
        self._worths.update(
            (number, worth) for number, worth in event.worths.items() if number in self.requests
        )

    def _deadline_set(self, event: DeadlineSet) -> None:
        self.choosing.deadlines.set(event.study, event.at, event.worker_seconds)

    def _checkpoint_lost(self, event: CheckpointLost) -> None:
        self._drop(event.position)

    def _checkpoint_deleted(self, event: CheckpointDeleted) -> None:
        self.keeping.deleted(event.checkpoint)

    def _paused(self, _: Paused) -> None:
        self.paused = True

    def _resumed(self, _: Resumed) -> None:
        self.paused = False

    def _halted(self, _: Halted) -> None:
        self.halted = True
        for lease in self.leases.values():
            if lease.state == "running":
                lease.end = lease.at
                self._changed[lease] = None

    # For whoever looks in.

    @property
    def leases(self) -> dict[int, Lease]:
        """The leases that run or are being saved, by their numbers."""
        return self.books.leases

    def widen(self, policy: WidthPolicy | None, fits: Fits | None) -> None:
        """Have widths chosen by a policy from now on; without one, every lease has one slot."""
        self.choosing.widening = None if policy is None else Widening(policy, self.profile, fits)

    def out_of(self, study: str) -> Limit | None:
        """Return the limit by which nothing more of a study comes: nothing runs, nor is worth starting."""
        if study not in self.choosing.deadlines or self.leases or self.paused or not self.workers.places:
            return None
        return self.choosing.out_of(study, self._now)

    # The executors' side: workers.

    def _worker_joined(self, event: WorkerJoined) -> None:
        self.workers.join(event.worker, event.worker if event.slot is None else event.slot)

    def _worker_lost(self, event: WorkerLost) -> None:
        self.workers.leave(event.worker)
        for workers in self.broken.values():
            workers.discard(event.worker)
        for lease in [lease for lease in self.leases.values() if event.worker in lease.workers]:
            lease.note(self._now, f"worker {event.worker} lost: {event.reason}")
            running = lease.state == "running"
            if running:
                if others := {worker for worker in lease.workers if worker != event.worker}:
                    self.broken[lease.id] = others
            elif event.worker != lease.worker:
                continue  # its saves are its leader's business
            self._release(lease, keep_saves_until=None)
            if running:
                self._facts += self.books.record(lease, self._now)
                self._keep_apart(lease)
                self._count_loss(lease, event.reason)

    def _give_back(self, number: int, event: Event) -> None:
        """Take in the end of a lease that counts for nothing: the loss crossed its start, and nobody died."""
        if isinstance(event, LeaseFinished | LeaseFailed):
            for worker in self.broken[number]:
                self.workers.finish(worker, None, saved=True)
            self.broken[number].clear()

    def _keep_apart(self, lease: Lease) -> None:
        """Something went wrong that may be for lack of memory: have it alone on its slot from now on."""
        if self.choosing.widening is not None and lease.width < 1:
            self.choosing.widening.keep_apart(lease.way[-1][0])

    def _count_loss(self, lease: Lease, reason: str) -> None:
        origin = (lease.way[0][0], lease.start)
        self._losses[origin] = self._losses.get(origin, 0) + 1
        if self._losses[origin] >= MOST_LOSSES:
            del self._losses[origin]
            step = lease.at + 1
            error = (
                f"the worker died {MOST_LOSSES} times in a row on the way to step {step} "
                f"of the path that starts at step {lease.start}; the last time: {reason}"
            )
            self._fail(lease.node_at(step), step, error)

    # The executors' side: leases.

    def _lease(self, number: int, event: Event, *states: str) -> Lease:
        lease = self.leases.get(number)
        if lease is None:
            raise IllegalTransition(f"{event} names a lease that is not known (lost, or finished and saved)")
        if lease.state not in states:
            raise IllegalTransition(f"{event} cannot come while {lease.tale()}")
        return lease

    def _lease_started(self, event: LeaseStarted) -> None:
        lease = self._lease(event.lease, event, "running")
        lease.note(self._now, f"started, loaded in {event.seconds:.3f} s")
        lease.seen = self._now
        if lease.loads or lease.peers:
            self.profile.observe_start(event.seconds)

    def _progressed(self, event: Progressed) -> None:
        lease = self._lease(event.lease, event, "running")
        if event.step < lease.at:
            raise IllegalTransition(f"{event} goes back while {lease.tale()}")
        self._probed = True
        self.trained += event.steps
        lease.at, lease.seen = event.step, self._now
        node = lease.node_at(event.step)
        if self.profile.observe(node, event.steps, event.seconds, lease.width):
            self.frontier.paced(node)

    def _metrics_reported(self, event: MetricsReported) -> None:
        lease = self._lease(event.lease, event, "running")
        lease.note(self._now, f"metrics at {event.step}")
        lease.at = max(lease.at, event.step)
        lease.evaluations.discard(event.step)
        node = lease.node_at(event.step)
        position = Position(node.id, event.step)
        if event.step not in node.metrics:
            self._facts.append(self.plan.measure(position, event.metrics))
        order, metrics = node.metrics[event.step]
        for number in self.frontier.settle(node, event.step):
            waiting = self.requests[number]
            if (
                waiting.request.keep
                and event.step == waiting.request.step
                and event.step not in node.checkpoints
            ):
                if not self._waits_for_save(node, event.step, number):
                    self.frontier.ask(node, event.step, number, True, waiting.request.study)
                continue
            self._answer(waiting.arrived(event.step, order, metrics))
            self._conclude(waiting)

    def _checkpoint_saved(self, event: CheckpointSaved) -> None:
        lease = self._lease(event.lease, event, "running", "saving")
        lease.note(self._now, f"saved at {event.step}")
        node = lease.node_at(event.step)
        lease.saves.discard(event.step)
        lease.settled.add(event.step)
        position = Position(node.id, event.step)
        self._facts.append(self.plan.keep(position, event.checkpoint))
        self._losses.pop((lease.way[0][0], lease.start), None)
        self.workers.saved(position)
        self.frontier.arrived(node, event.step)
        for number in self.keepers.pop(position, ()):
            waiting = self.requests[number]
            waiting.arrived(event.step, *node.metrics[event.step])
            self._conclude(waiting)
        self.books.forget_if_done(lease)
        self.keeping.kept(position)
        self._let_go()

    def _save_failed(self, event: SaveFailed) -> None:
        lease = self._lease(event.lease, event, "running", "saving")
        lease.note(self._now, f"save failed at {event.step}: {event.error}")
        lease.settled.add(event.step)
        self._give_up_save(lease, event.step)
        self.books.forget_if_done(lease)
        cause = (
            "the disk is full; make room and run the same script again" if event.disk_full else event.error
        )
        error = f"the checkpoint at step {event.step} could not be saved: {cause}"
        self._commands.append(Abort(error, event.disk_full))

    def _steps_missed(self, event: StepsMissed) -> None:
        if event.lease not in self.leases:
            return  # the update crossed the end of its lease, and nothing of it is owed any more
        lease = self._lease(event.lease, event, "running", "saving")
        lease.note(
            self._now, f"missed metrics at {sorted(event.evaluations)}, saves at {sorted(event.saves)}"
        )
        for step in event.evaluations & lease.evaluations:
            self._give_up_evaluation(lease, step)
        for step in event.saves & lease.saves:
            self._give_up_save(lease, step)
        self.books.forget_if_done(lease)

    def _lease_finished(self, event: LeaseFinished) -> None:
        lease = self._lease(event.lease, event, "running")
        lease.note(self._now, f"finished at {event.step}")
        lease.at = event.step
        node = lease.node_at(event.step)
        self._facts += self.books.record(lease, self._now)
        if lease.start < event.step and event.step not in lease.settled:
            lease.saves.add(event.step)
            self.frontier.expect(node, event.step, lease.id)
        position = Position(node.id, event.step)
        self.workers.finish(lease.worker, position, saved=event.step in node.checkpoints or event.step == 0)
        for peer in lease.peers:
            self.workers.finish(peer, None, saved=True)
        if lease.claim:
            self._claims[position] = lease.claim
        self._release(lease, keep_saves_until=event.step)

    def _lease_failed(self, event: LeaseFailed) -> None:
        lease = self._lease(event.lease, event, "running")
        lease.note(self._now, f"failed in {event.phase} at {event.step}")
        self._facts += self.books.record(lease, self._now)
        for worker in lease.workers:
            self.workers.finish(worker, None, saved=True)
        self._release(lease, keep_saves_until=event.step - 1)
        if event.out_of_memory and lease.width < 1:
            self._keep_apart(lease)
        elif event.phase in ("contract", "build"):
            self._commands.append(Abort(event.error))
        elif event.checkpoint_unreadable:
            self._drop(lease.position(lease.start))
        else:
            self._fail(lease.node_at(event.step), event.step, event.error)

    # What becomes of promises.

    def _release(self, lease: Lease, keep_saves_until: int | None) -> None:
        """The lease's worker is off it: what it still owes is owed by nobody, but for saves under way."""
        self.books.release(lease)
        for step in sorted(lease.evaluations):
            self._give_up_evaluation(lease, step)
        for step in sorted(lease.saves):
            if keep_saves_until is None or step > keep_saves_until:
                self._give_up_save(lease, step)
        self.books.forget_if_done(lease)

    def _give_up_evaluation(self, lease: Lease, step: int) -> None:
        lease.evaluations.discard(step)
        self.frontier.break_promise(lease.node_at(step), step, lease.id)

    def _give_up_save(self, lease: Lease, step: int) -> None:
        node = lease.node_at(step)
        lease.saves.discard(step)
        self.frontier.give_up(node, step, lease.id)
        for number in self.keepers.pop(Position(node.id, step), ()):
            self.frontier.ask(node, step, number, True, self.requests[number].request.study)

    def _fail(self, node: Node, step: int, error: str) -> None:
        """Training along `node` cannot reach `step`: so fails whoever has to pass there."""
        self._facts.append(self.plan.fail(Position(node.id, step), error))
        order = self.plan.order
        stack = [(node, step)]
        while stack:
            along, reach = stack.pop()
            wants = self.frontier.wants.get(along, {})
            failing = {number: None for at, want in wants.items() if at >= reach for number in want.requests}
            for number in failing:
                self._fail_request(number, step, order, error)
            for branch in (reach, *along.branch_steps(reach)):
                stack += [(child, child.start) for child in self.frontier.live_branches(along, branch)]

    def _fail_request(self, number: int, step: int, order: int, error: str) -> None:
        failed = self.requests.pop(number)
        self._worths.pop(number, None)
        for at, node in failed.missing.items():
            self.frontier.withdraw(node, at, number)
        self._commands.append(failed.failed(step, order, error))

    def _answer(self, answer: Answer | None) -> None:
        if answer is not None:
            self._commands.append(answer)

    def _conclude(self, request: OpenRequest) -> None:
        if not request.missing:
            step = request.request.step
            del self.requests[request.request.id]
            self._worths.pop(request.request.id, None)
            self._answer(request.concluded(request.node.holder(step).metrics[step][1]))

    # What to keep.

    def _let_go(self) -> None:
        """Drop what leaves too little room in the budget for a save by every worker."""
        saves = len(self.workers.idle) + len(self.workers.busy)
        for position in self.keeping.excess(saves, self._is_needed):
            self._drop(position)

    def has_room(self) -> bool:
        """Whether one more lease may start: its save fits into the budget, or it is the only one."""
        if self.keeping.budget is None:
            return True
        saves = self.books.saves_to_come()
        return self.keeping.fits(saves + 1) or not (saves or self.keeping.is_deleting)

    def _has_room_to_stop(self) -> bool:
        """Whether a lease may end on its way: where what it saves there had to go, it would begin again."""
        return self.keeping.fits(self.books.saves_to_come() + 1)

    def _promise_what_fits(self, lease: Lease) -> None:
        """Leave out saves that there is no room for: first those that serve nobody yet, then the earliest."""
        if self.keeping.budget is None:
            return
        steps, lease.saves = lease.saves, set()
        pinned = set(self._pinned.values())
        must = {step for step in steps if step == lease.end or lease.position(step) in pinned}
        others = [] if self.keeping.is_guess else sorted(steps - must, reverse=True)
        others.sort(key=lambda step: not self.frontier.live_branches(lease.node_at(step), step))
        room = self.books.saves_to_come() + len(must)
        while others and not self.keeping.fits(room + len(others)):
            others.pop()
        lease.saves = must.union(others)

    def _drop(self, position: Position) -> None:
        """A checkpoint goes, or is not what it was: whatever would start there starts from the one before."""
        node = self.plan[position.node]
        checkpoint = node.checkpoints.get(position.step)
        if checkpoint is not None:
            self._facts.append(self.plan.drop(position))
            self._commands.append(DropCheckpoint(position, checkpoint))
            self.keeping.dropped(checkpoint)
            self.frontier.unmarked(node, position.step)
            self.workers.dropped(position)

    def expects(self, position: Position) -> bool:
        """Whether there is a checkpoint at a position, or one on its way."""
        node = self.plan[position.node]
        return position.step in node.checkpoints or position.step in self.frontier.coming.get(node, ())

    def _is_needed(self, position: Position) -> int:
        for lease in self.leases.values():
            if lease.state == "running" and lease.position(lease.start) == position:
                return 2
        if position in self._pinned.values() or any(position in best for best in self._best.values()):
            return 2
        return int(self.frontier.held(self.plan[position.node], position.step) is not None)

    # What to run.

    def _assign(self) -> None:
        if self.halted or self.paused:
            return
        widening = self.choosing.widening
        widths: dict[Place, Fraction] = {}
        if widening is not None and self._unsettled:
            widths = self._allot(widening)
        self._unsettled = False
        while self.workers.places:
            if not self.has_room() and not self.keeping.is_deleting:
                self._let_go()
            if not self.has_room():
                return  # until a save is over, or something is deleted
            choice = self.choosing.next(self._now)
            if choice is None:
                return
            width = _WHOLE
            if widening is not None:
                place = (choice.task.node, choice.task.start)
                if place not in widths:
                    widths = self._allot(widening)  # what has been started has made a difference
                width = self.choosing.width(choice, widths.get(place, WAITS), widening)
                if not width:
                    return  # what is free is kept for what stops to go on wider
            self._start(choice, width)

    def _allot(self, widening: Widening) -> dict[Place, Fraction]:
        """Ask for widths; have stopped what is to go on at another one."""
        allotment = self.choosing.allot(widening, self._claims, self._worths, self._now)
        for lease, (step, width) in allotment.stops.items():
            if not self._has_room_to_stop():
                break
            lease.note(self._now, f"to stop at {step}, to go on at width {width}")
            lease.stopping, lease.claim, lease.end = True, max(width, lease.width), step
            self._changed[lease] = None
        return allotment.widths

    def _start(self, choice: Choice, width: Fraction) -> None:
        task, worker = choice.task, choice.worker
        source = source_of(task)
        if worker is None:
            worker = self.workers.choose(source if task.start else None, whole=width >= 1)
        warm = task.start > 0 and self.workers.holds(worker) == source
        way: list[tuple[Node, int, int]] = []
        node, end = task.goal, task.end
        while node is not task.node:
            assert node.parent is not None
            way.append((node, node.start, end))
            node, end = node.parent, node.start
        way.append((node, task.start, end))
        promised = (tuple(reversed(way)), task.end, self._now, task.start, width)
        lease = Lease(self._next_lease, choice.study, worker, *promised)
        lease.loads, lease.seen = task.start > 0 and not warm, self._now
        self._next_lease += 1
        self.books.open(lease)
        self._take_on(lease)
        self.workers.take(worker, lease.id, width)
        lease.peers = tuple(self._join(lease) for _ in range(1, int(width)))
        if self.choosing.widening is not None and lease.peers:
            self._limit(lease, self.choosing.widening.turn(lease))
        command = RunLease(
            lease=lease.id,
            worker=worker,
            config=task.goal.config,
            start=lease.start,
            end=lease.end,
            segments=lease.segments,
            saves=frozenset(lease.saves),
            evaluations=frozenset(lease.evaluations),
            source=None if warm or not task.start else self.plan[source.node].checkpoints[task.start],
            warm=warm,
            required=self.required,
            probe=not self._probed and task.start == 0,
            peers=lease.peers,
            width=width,
        )
        lease.told = (lease.end, command.saves, command.evaluations)
        with_peers = "".join(f", {peer}" for peer in lease.peers)
        lease.note(self._now, f"given to worker {worker}{with_peers}{', warm' if warm else ''}")
        self._commands.append(command)

    def _limit(self, lease: Lease, turn: int) -> None:
        """Let a wide lease end where others branch off, or after a while: then widths are chosen anew."""
        last = lease.start + turn
        for step in sorted(lease.saves):
            if step - lease.start >= turn // 4 and self.frontier.live_branches(lease.node_at(step), step):
                last = min(last, step)
                break
        if last < lease.end and self._has_room_to_stop():
            lease.stopping, lease.end = True, last
            if last not in lease.saves and last not in lease.node_at(last).checkpoints:
                lease.saves.add(last)
                self.frontier.expect(lease.node_at(last), last, lease.id)

    def _join(self, lease: Lease) -> int:
        """Have another worker train a lease together with its leader."""
        peer = self.workers.choose(None)
        self.workers.take(peer, lease.id, _WHOLE)
        return peer

    def _take_on(self, lease: Lease) -> None:
        """Promise everything that lies on the lease's way."""
        for node, start, end in lease.way:
            for step, want in self.frontier.wants.get(node, {}).items():
                here = start < step <= end or (step == start == lease.start and step > node.start)
                if here and want.lease is None:
                    lease.evaluations.add(step)
                    self.frontier.promise(node, step, lease.id)
                if here and want.save:
                    lease.saves.add(step)
            lease.saves.update(node.branch_steps(start, end))
        if lease.end > lease.start:
            lease.saves.add(lease.end)
        lease.saves = {step for step in lease.saves if step not in lease.node_at(step).checkpoints}
        self._promise_what_fits(lease)
        for step in sorted(lease.saves):
            self.frontier.expect(lease.node_at(step), step, lease.id)

    def _tell(self, lease: Lease) -> None:
        if lease.state != "running":
            return
        told = (lease.end, frozenset(lease.saves), frozenset(lease.evaluations))
        if told != lease.told:
            lease.told = told
            lease.note(self._now, f"now to {lease.end}")
            self._commands.append(UpdateLease(lease.id, lease.worker, *told))
