"""The rehearsal: proof, before a plan is relied on, that its trainer resumes exactly.

    reference   0 ── 1 ── 2 ──▶        trains straight through: this is the first trial's own training
                     │ checkpoint
    fresh            └─── 2            in an interpreter that has trained nothing
    warm             └─── 2            in the reference's own process, which has trained on meanwhile; it
                                       evaluates at 1 too
    again       0 ── 1                 a second start from scratch, in a process that has trained before

States and metrics of all four are compared, and so are the states before and after evaluate(), from the one
before the first step on: there a trainer that keeps its best metric has none yet. Where nothing
is trained further than one step, there is no checkpoint to go on from, and `again` is the only repetition.
Where only plain values differ, which may be clocks that agreed by chance, everything is repeated once more,
with `again` to the last step.

The reference is the first lease that starts from scratch. It is stopped a step later, if its path is long, so
that its worker is free; it goes on after the proofs. Where there is none, because the plan was trained by a
process that was killed before the proof was in, a proof lease is the reference.

All runs are on one platform. Where no worker of that platform is left but others are, there is another
reference. A plan that was proved, and goes on only on other platforms, is rehearsed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease, part
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.repeat import Repeat, record
from hippotune.engine.state import State
from hippotune.plan.facts import Position
from hippotune.plan.node import Node
from hippotune.protocol.commands import Abort, Note
from hippotune.protocol.events import MetricsReported, StateFingerprinted
from hippotune.protocol.proof import Name, ProofPolicy, Run
from hippotune.stages.tasks import Path
from hippotune.verdicts.judge import judge

# The reference is not stopped if it reaches the end of its path within this many seconds.
_SOON = 5.0
# How many requested trials are remembered, in case one has to be the reference.
_MOST_TRIALS = 16


class Rehearsal:
    """See the module. Without a policy there is none."""

    def __init__(
        self, state: State, checkpoints: Checkpoints, updates: LeaseUpdates, policy: ProofPolicy | None
    ) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._updates = updates
        self._policy = policy
        self._trials: dict[Node, tuple[int, str]] = {}  # how far they were asked, and by which study
        self._asked = 0  # the furthest that anything was asked
        self._is_overdue = state.plan.order > 0 or any(node.checkpoints for node in state.plan.nodes)
        self._losses = 0  # of references that proof leases were
        self._is_given_up = False
        self._forget()
        state.pins.append(self._is_source)

    def _forget(self) -> None:
        """There is no reference, or none any more."""
        self._lease: Lease | None = None  # the reference, while it trains
        self._reference: Repeat | None = None  # what was seen of it
        self._is_complete = False
        self._worker: int | None = None  # which trained it, as long as its process lives
        self._platform = ""  # which it was trained on
        self._adds_save = self._is_probed = False
        self._trial: Node | None = None  # which the reference repeats, where no lease trains it
        self._missing = 0  # how many repetitions are not done yet
        self._open: list[Repeat] = []
        self._done: list[Run] = []
        self._is_second = False  # the second round of repetitions, after one that has left a doubt

    # What is wanted.

    @property
    def _steps(self) -> int:
        """How many steps are still to be rehearsed: 2, or 1 where nothing goes further; 0 when it is over."""
        steps = min(self._asked, 2)
        return 0 if self._policy is None or self._is_given_up or self._proved >= steps else steps

    @property
    def _proved(self) -> int:
        """How many steps were rehearsed on the reference's platform; without one, on any that is there."""
        rehearsed = self._state.plan.rehearsed
        return max((rehearsed[platform] for platform in rehearsed if self._counts(platform)), default=0)

    def _counts(self, platform: str) -> bool:
        if not platform or self._reference is None:
            return not platform or self._state.workers.is_there(platform)
        return platform == self._platform

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be rehearsed any more, as far as is known."""
        return not self._steps

    @property
    def is_open(self) -> bool:
        """Whether results are provisional: there is something to prove, and something to prove it with."""
        if not self._steps or self._reference is not None:
            return self._steps > 0
        return self._state.plan.order > 0 and self._candidate() is not None

    def asked(self, node: Node, step: int, study: str) -> None:
        """A request was made."""
        self._asked = max(self._asked, step)
        if node in self._trials or len(self._trials) < _MOST_TRIALS:
            self._trials[node] = (max(step, self._trials.get(node, (0, ""))[0]), study)
        if self._steps > self._proved > 0:
            self._is_overdue = True

    def _candidate(self) -> Node | None:
        """Return the node of a trial that can be the reference: no failure is known on its way."""
        for node, (step, _) in self._trials.items():
            if step >= self._steps and not self._state.plan.obstacles(node, self._steps):
                return node
        return None

    # The reference.

    def adopt(self, lease: Lease) -> None:
        """A lease starts: if it does so from scratch, it may be the reference."""
        steps = min(self._steps, lease.goal)
        if self._reference is not None or lease.start or lease.peers or not steps or steps < self._steps:
            return
        promises, node = self._state.promises, lease.node_at(1)
        if steps in lease.node_at(steps).unmeasured:
            return
        if steps > 1 and 1 not in lease.saves:
            if 1 in node.checkpoints or promises.is_saved(node, 1):
                return
            promises.saves.add(lease, 1)
            self._adds_save = True
        if steps not in lease.evaluations:
            promises.evaluations.add(lease, steps)
        path = part(lease.path, 0, steps)
        self._lease, self._worker, self._is_overdue = lease, lease.worker, False
        self._platform = lease.platform
        self._is_probed = not self._state.probed
        self._reference = self._repeat("reference", path, lease.study, frozenset({steps}))
        self._reference.width = lease.width
        lease.fingerprints |= self._reference.fingerprints

    def _repeat(self, name: Name, path: Path, study: str, evaluations: frozenset[int]) -> Repeat:
        start, end = path[0][1], path[-1][2]
        first = start if start or self._is_probed else 1
        config, fingerprints = path[-1][0].config, frozenset(range(first, end + 1))
        width = self._state.least_width if self._reference is None else self._reference.width
        return Repeat(Run(name, start), self, study, config, path, fingerprints, evaluations, width=width)

    def fingerprinted(self, lease: Lease, event: StateFingerprinted) -> None:
        """A lease has said what its state is."""
        if lease is self._lease and self._reference is not None:
            self._reference.fingerprinted(event)
            if event.evaluated and event.step == self._reference.path[-1][2]:
                self._complete()
                self._cut(lease)

    def _cut(self, lease: Lease) -> None:
        """Stop the reference a step later if its path is long, so that its worker is free for the proofs."""
        profile, now = self._state.profile, self._state.now
        left = (profile.usual or 0.0) * lease.time_left(profile, now, lease.end)
        if lease.end > lease.at + 1 and left > _SOON and self._checkpoints.has_room_to_stop():
            lease.record(now, "to stop, so that its training can be repeated")
            lease.stopping = True
            self._updates.stop_at(lease, lease.at + 1)

    def measured(self, lease: Lease, event: MetricsReported) -> bool:
        """A lease has metrics; return whether they are for the rehearsal only."""
        if lease is not self._lease or self._reference is None or not self._reference.measured(event):
            return False
        return event.step not in self._state.frontier.wants.get(lease.node_at(event.step), {})

    def ended(self, lease: Lease) -> None:
        """A lease is over, or lost. Where the reference was not complete, another one is needed."""
        if lease is self._lease:
            self._lease = None
            if not self._is_complete:
                self._is_overdue = lease.at > 0
                self._forget()

    def worker_lost(self, worker: int) -> None:
        """A worker's process is gone."""
        if worker == self._worker:
            self._worker = None

    def _complete(self) -> None:
        """All of the reference is there: now it is repeated."""
        assert self._reference is not None
        self._is_complete = True
        self._done = [self._reference.run]
        self._repeat_all(1)

    def _repeat_all(self, steps: int) -> None:
        """Repeat the training of the reference; from scratch, `steps` steps of it."""
        assert self._reference is not None
        path, study = self._reference.path, self._reference.study
        if path[-1][2] > 1:
            rest = part(path, 1, 2)
            self._open.append(self._repeat("warm", rest, study, frozenset({1, 2})))
            self._open.append(self._repeat("fresh", rest, study, frozenset({2})))
            self._open[-1].fresh = True
        self._open.append(self._repeat("again", part(path, 0, steps), study, frozenset({steps})))
        self._open[-1].probe = self._is_probed
        self._missing = len(self._open)

    def _is_source(self, position: Position) -> bool:
        """Whether a checkpoint is the one that the proofs start from."""
        return self._reference is not None and position == self._source

    @property
    def _source(self) -> Position | None:
        if self._reference is None or self._reference.path[-1][2] < 2:
            return None
        return Position(self._reference.path[0][0].id, 1)

    # The proofs.

    def next(self, urgent: bool) -> tuple[Repeat, int] | None:
        """Return what is to be repeated now, and the worker for it.

        Urgent is what the reference's own worker can do, and what one can that has trained nothing yet.
        """
        if self._is_source_lost() or self._is_platform_gone():
            self._forget()
            self._is_overdue = True
        if self._reference is None:
            return self._new_reference(urgent)
        for repeat in self._open:
            if repeat.start and 1 not in repeat.path[0][0].holder(1).checkpoints:
                continue
            worker = self._worker_for(repeat, urgent)
            if worker is not None:
                self._open.remove(repeat)
                return repeat, worker
        return None

    def _is_source_lost(self) -> bool:
        """Whether nothing is being repeated, and the checkpoint to repeat it from was lost with a worker."""
        if self._missing != len(self._open) or not any(repeat.start for repeat in self._open):
            return False
        first = self._open[0].path[0][0].holder(1)
        return 1 not in first.checkpoints and not self._state.promises.is_saved(first, 1)

    def _is_platform_gone(self) -> bool:
        """Whether something is to be repeated, and no worker is left that could."""
        is_waiting = self._is_complete and self._missing == len(self._open)
        return is_waiting and not self._state.workers.is_there(self._platform)

    def _worker_for(self, repeat: Repeat, urgent: bool) -> int | None:
        workers = self._state.workers
        kinds = self._state.kinds_for(repeat.path[-1][0])
        idle = workers.idle_for(repeat.width, self._platform, kinds)
        if self._worker is None or not self._state.requests:
            urgent = False
        if repeat.fresh and (pristine := [each for each in idle if workers.is_pristine(each)]):
            return pristine[0]
        if self._worker in idle:
            return self._worker
        if urgent or (repeat.run.name == "warm" and self._worker is not None):
            return None
        used = [each for each in idle if repeat.fresh or not workers.is_pristine(each)]
        if not used and not self._state.requests and not self._state.leases.by_number:
            used = idle  # no training is left that would make one of them a used process
        return next(iter(used), None)

    def _new_reference(self, urgent: bool) -> tuple[Repeat, int] | None:
        """Return the training of a trial that is to be the reference, where no lease can be it."""
        steps = self._steps
        if not steps or (urgent and not self._is_overdue) or not self._state.probed:
            return None
        node = self._candidate()
        if node is None:
            return None
        idle = self._state.workers.idle_for(self._state.least_width, kinds=self._state.kinds_for(node))
        if not idle:
            return None
        path = _path_to(node.holder(steps), steps)
        reference = self._repeat("reference", path, self._trials[node][1], frozenset({steps}))
        reference.losses, first = self._losses, path[0][0]
        if steps > 1 and 1 not in first.checkpoints and not self._state.promises.is_saved(first, 1):
            reference.saves = frozenset({1})
            self._adds_save = True
        self._reference, self._trial, self._is_overdue = reference, node, False
        self._worker, self._platform = idle[0], self._state.workers.platform(idle[0])
        return reference, idle[0]

    def done(self, repeat: Repeat) -> None:
        """Something was repeated, or raised."""
        if self._is_given_up:
            return
        if repeat is self._reference:
            if repeat.run.error is None:
                self._complete()
                return
            assert self._trial is not None
            del self._trials[self._trial]  # a trial that fails cannot be the reference
            self._forget()
            self._is_overdue = True
            return
        self._done.append(repeat.run)
        self._missing -= 1
        if not self._missing:
            self._decide()

    def lost(self, repeat: Repeat, reason: str) -> None:
        """A repetition was lost with its worker: it is open again, unless that happens all the time."""
        if self._is_given_up:
            return
        may_again = repeat.may_again(self._state.retries)
        if repeat is self._reference:
            self._losses = repeat.losses
            self._forget()
            self._is_overdue = True
        else:
            self._open.append(repeat)
        if not may_again:
            self._give_up(repeat.losses, reason)

    def _give_up(self, losses: int, reason: str) -> None:
        """Leave it undecided: lost workers say nothing about the trainer."""
        assert self._policy is not None
        text = (
            f"{self._policy.trainer} could not be rehearsed: the worker that repeated a step of the first "
            f"trial was lost {losses} times. The last time: {reason}"
        )
        if self._policy.exact:
            advice = "Everything is kept: run the same again, or with exact=False if it may go on unproved"
            self._state.commands.append(Abort(f"{text}\n{advice}"))
        else:
            self._state.commands.append(Note(text))
        self._forget()
        self._is_given_up = True

    def faults(self) -> Iterator[str]:
        """Yield what does not hold: for validation."""
        if self._lease is not None and self._lease.state != "running":
            yield f"the rehearsal waits for a lease that is over: {self._lease.history()}"
        if not self._steps and self._reference is not None:
            yield "the rehearsal goes on though it is decided"

    def _decide(self) -> None:
        assert self._policy is not None
        assert self._reference is not None
        verdict = judge(self._policy.trainer, self._done, self._state.required)
        node, _, step = self._reference.path[-1]
        if verdict.doubtful and not self._is_second:
            self._is_second = True
            self._repeat_all(step)
            return
        record(self._state, self._policy, "rehearsal", Position(node.id, step), verdict, self._platform)
        source, adds_save = self._source, self._adds_save
        self._forget()
        if source is not None and adds_save:
            self._checkpoints.drop_if_unneeded(source)


def _path_to(node: Node, step: int) -> Path:
    """Return the path from scratch to a step along a node."""
    path: list[tuple[Node, int, int]] = []
    along: Node | None = node
    while along is not None:
        if along.start < step:
            path.append((along, along.start, step))
            step = along.start
        along = along.parent
    return tuple(reversed(path))
