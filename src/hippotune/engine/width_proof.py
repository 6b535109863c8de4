"""The proof of width: no lease trains at a width before a step at it was compared with the same step at 1.

    pilot     start ── 1 ──▶       the first lease that is worth several slots: it trains a step at width 1
    wide      start ── 1           the same step on as many slots, from the same checkpoint or from scratch
    nudged    start ── 1           at width 1 again, from weights that are changed in their last bits: what
                                   rounding makes of them, asked for only where the first two differ

The pilot trains what is to be trained anyway, and stops after its step, with a claim to the slots that the
wide run needs. What goes on from there waits until the proof is over; everything else goes on at widths that
are proved. A study that never has that many free slots at once stays narrow.

Every width is proved once, when it is first wanted: which dimension of a tensor is the batch may be mistaken
at one width and not at another. If one differs, or if the workers of a wide lease call different collectives
later on, the plan is never widened again. Both are facts of the plan. A wide step that is lost with its
workers again and again proves nothing: then this process does not widen.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease, part
from hippotune.engine.rehearsal import Rehearsal
from hippotune.engine.repeat import Repeat, record
from hippotune.engine.state import State
from hippotune.plan.facts import Position, width_refutation
from hippotune.protocol.commands import Note
from hippotune.protocol.events import LeaseFailed, MetricsReported, StateFingerprinted
from hippotune.protocol.proof import Name, ProofPolicy, Run, Verdict
from hippotune.scheduling.width import WHOLE, Ladder
from hippotune.stages.tasks import StartPoint, Task
from hippotune.verdicts import stories
from hippotune.verdicts.judge import judge

# How many pilots may come to nothing, one after the other, before no more is sent.
_MOST_PILOTS = 8


class WidthProof:
    """See the module. Without a policy every width counts as proved."""

    def __init__(
        self, state: State, checkpoints: Checkpoints, rehearsal: Rehearsal, policy: ProofPolicy | None
    ) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._rehearsal = rehearsal
        self._policy = policy
        proofs = state.plan.proofs
        self._proved = {fact.width for fact in proofs if fact.kind == "width" and fact.outcome != "differs"}
        self._pilots = 0
        self._place: StartPoint | None = None
        self._forget()
        if width_refutation(proofs) is not None:
            state.keep_narrow()
        state.pins.append(self._is_source)

    def _forget(self) -> None:
        """Nothing is being proved, or not any more."""
        self._yield_place()
        self._pilot: Lease | None = None
        self._narrow: Repeat | None = None  # what is seen of the pilot
        self._done: list[Run] = []
        self._open: Repeat | None = None  # what is to be trained next
        self._width = WHOLE
        self._platform = ""

    # What is wanted.

    def is_proved(self, width: Fraction) -> bool:
        """Whether leases may train at a width."""
        return self._policy is None or width <= 1 or int(width) in self._proved

    def proved_within(self, ladder: Ladder, width: Fraction) -> Fraction:
        """Return the greatest width of a ladder that is proved, up to one that is wanted."""
        return max((step for step in ladder if step <= width and self.is_proved(step)), default=WHOLE)

    @property
    def is_possible(self) -> bool:
        """Whether a width that a lease would be stopped for could be proved then."""
        is_claimed = any(not self.is_proved(lease.claim) for lease in self._state.leases.running())
        is_idle = self._narrow is None or (self._open is not None and not self._state.reserved)
        return self._rehearsal.is_over and self._pilots < _MOST_PILOTS and is_idle and not is_claimed

    def can_begin(self, task: Task) -> bool:
        """Whether a lease can be the pilot: what it starts from can be had again."""
        node = task.node.holder(task.start)
        is_kept = not task.start or task.start in node.checkpoints
        return (
            self._narrow is None
            and self.is_possible
            and task.end > task.start
            and (is_kept or self._state.promises.is_saved(node, task.start))
            and (task.end == task.start + 1 or self._checkpoints.has_room_to_stop())
        )

    def resume(self, task: Task, width: Fraction) -> bool:
        """Try to prove a width by a pilot that was there before; return whether a task waits for that."""
        if self._open is None or self._open.width <= 1 or not self.is_possible or not self._is_source_kept():
            return False
        self._open.width = self._width = width
        self._hold((task.node, task.start))
        return True

    # The pilot.

    def adopt(self, lease: Lease, width: Fraction) -> None:
        """A lease starts at width 1 that is worth more: compare its first step."""
        promises, step = self._state.promises, lease.start + 1
        lease.stopping, lease.end = step < lease.end, step
        if step not in lease.node_at(step).checkpoints:
            promises.saves.add(lease, step)
        if step not in lease.evaluations:
            promises.evaluations.add(lease, step)
        lease.fingerprints.add(step)
        lease.claim = width
        self._pilots += 1
        self._pilot, self._width, self._platform = lease, width, lease.platform
        self._narrow = self._repeat("narrow", lease)

    def _repeat(self, name: Name, lease: Lease) -> Repeat:
        start, step = lease.start, lease.start + 1
        path, once = part(lease.path, start, step), frozenset({step})
        return Repeat(Run(name, start), self, lease.study, lease.path[-1][0].config, path, once, once)

    def fingerprinted(self, lease: Lease, event: StateFingerprinted) -> None:
        """A lease has said what its state is."""
        if lease is self._pilot and self._narrow is not None:
            self._narrow.fingerprinted(event)

    def measured(self, lease: Lease, event: MetricsReported) -> bool:
        """A lease has metrics; return whether they are for this proof only."""
        if lease is not self._pilot or self._narrow is None or not self._narrow.measured(event):
            return False
        return event.step not in self._state.frontier.wants.get(lease.node_at(event.step), {})

    def ended(self, lease: Lease) -> None:
        """A lease is over, or lost. After the pilot comes the wide step."""
        if lease is not self._pilot or self._narrow is None:
            return
        step, seen = lease.start + 1, self._narrow.run
        if self._is_refuted or step not in seen.states or step not in seen.metrics:
            self._forget()
            return
        self._pilot = None
        self._done = [seen]
        self._open = self._repeat("wide", lease)
        self._open.width = self._width
        self._hold(next(((node, step) for node, first, last in lease.path if first <= step < last), None))

    # The proofs.

    def next(self, urgent: bool) -> tuple[Repeat, int] | None:
        """Return what is to be trained now, and the worker that leads it.

        Urgent is what slots are reserved for.
        """
        if (repeat := self._open) is None:
            return None
        if not self._is_source_kept():
            if not self._is_source_coming():
                self._forget()
            return None
        workers, kinds = self._state.workers, self._state.kinds_for(repeat.path[-1][0])
        if workers.free_of(kinds) < int(repeat.width):
            self._yield_place()
            return None
        if urgent and not self._state.reserved:
            return None
        self._open = None
        self._state.reserved = 0
        alike = workers.idle_for(WHOLE, self._platform, kinds) or workers.idle_for(WHOLE, kinds=kinds)
        return repeat, alike[0]

    def done(self, repeat: Repeat) -> None:
        """The step was trained, or raised."""
        assert self._policy is not None
        if self._is_refuted:
            self._forget()
            return
        self._done.append(repeat.run)
        left_out = self._state.plan.left_out(self._platform)
        verdict = judge(self._policy.trainer, self._done, self._state.required, *left_out)
        differs = verdict.outcome == "differs"
        if differs and len(self._done) == 2 and repeat.run.error is None:
            self._nudge(repeat)
            return
        node, _, step = repeat.path[-1]
        width = int(self._width)
        record(self._state, self._policy, "width", Position(node.id, step), verdict, self._platform, width)
        if differs:
            self._state.keep_narrow()
        else:
            self._proved.add(width)
        self._pilots = 0
        self._forget()

    def refute(self, lease: Lease, event: LeaseFailed) -> None:
        """The workers of a lease did not do the same: nothing is trained by several from now on."""
        if self._is_refuted:
            return
        node = lease.node_at(event.step)
        text = stories.OUT_OF_STEP.format(
            trainer="training" if self._policy is None else self._policy.trainer,
            width=int(lease.width),
            step=event.step,
            error=event.error,
        )
        verdict = Verdict("differs", text, None, event.step)
        position = Position(node.id, event.step)
        record(self._state, self._policy, "width", position, verdict, lease.platform, int(lease.width))
        self._state.keep_narrow()
        if self._pilot is None:
            self._forget()

    @property
    def _is_refuted(self) -> bool:
        return width_refutation(self._state.plan.proofs) is not None

    def _nudge(self, wide: Repeat) -> None:
        """Ask what rounding makes of the step."""
        run = Run("nudged", wide.start)
        self._open = Repeat(
            run, self, wide.study, wide.config, wide.path, wide.fingerprints, wide.evaluations
        )
        self._open.nudged = True
        self._state.reserved = int(self._width)

    def lost(self, repeat: Repeat, reason: str) -> None:
        """A proof was lost with one of its workers: it is open again, unless that happens all the time."""
        self._yield_place()
        if repeat.may_again(self._state.retries):
            self._open = repeat
            return
        self._forget()
        self._pilots = _MOST_PILOTS
        cause = (reason.strip().splitlines() or [""])[0]
        self._state.commands.append(
            Note(
                f"the comparison of {int(repeat.width)} workers with one was lost {repeat.losses} times "
                f"({cause}): this process trains every stage on one worker"
            )
        )

    # What is kept for them.

    def _hold(self, place: StartPoint | None) -> None:
        """Reserve the slots that the wide step needs, and have what starts from a place wait for it."""
        self._yield_place()
        self._state.reserved = int(self._width)
        if place is not None and place not in self._state.frontier.paused:
            self._state.frontier.pause(place)
            self._place = place

    def _yield_place(self) -> None:
        """Let others have the slots, and what waits go on."""
        self._state.reserved = 0
        place, self._place = self._place, None
        if place is not None:
            self._state.frontier.resume(place)
            self._state.workers.states.mark_ready(Position(place[0].holder(place[1]).id, place[1]))

    @property
    def _source(self) -> Position | None:
        """The checkpoint that the wide step starts from."""
        if self._narrow is None or not self._narrow.start:
            return None
        return self._narrow.path[0][0].holder(self._narrow.start).position(self._narrow.start)

    def _is_source(self, position: Position) -> bool:
        return position == self._source

    def _is_source_kept(self) -> bool:
        source = self._source
        return source is None or source.step in self._state.plan[source.node].checkpoints

    def _is_source_coming(self) -> bool:
        source = self._source
        return source is not None and self._state.promises.is_saved(
            self._state.plan[source.node], source.step
        )

    def faults(self) -> Iterator[str]:
        """Yield what does not hold: for validation."""
        proofs = [fact for fact in self._state.plan.proofs if fact.kind == "width"]
        decided = [fact.width for fact in proofs if fact.outcome != "differs"]
        if len(set(decided)) < len(decided):
            yield "the proof of a width was decided more than once"
        if any(fact.outcome == "differs" for fact in proofs[:-1]):
            yield "a width was proved after another one had been found to differ"
        for lease in self._state.leases.training():
            if not self.is_proved(lease.width):
                yield f"a lease trains at a width that is not proved: {lease.history()}"
        if self._pilot is not None and self._pilot.state != "running":
            yield f"the proof of a width waits for a lease that is over: {self._pilot.history()}"
