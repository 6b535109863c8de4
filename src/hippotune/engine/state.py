"""What the engine knows. Only handlers change it, and only while an event is handled."""

from __future__ import annotations

from collections.abc import Callable, Set
from fractions import Fraction
from functools import lru_cache

from hippotune.engine.deadlines import Deadlines
from hippotune.engine.eviction import CheckpointEviction
from hippotune.engine.lease import Lease
from hippotune.engine.lease_table import LeaseTable
from hippotune.engine.open_request import OpenRequest
from hippotune.engine.options import EngineOptions
from hippotune.engine.promises import Promises
from hippotune.engine.trouble import Trouble
from hippotune.engine.width_allocator import Fits, WidthAllocator
from hippotune.engine.worker_table import Kinds, WorkerTable
from hippotune.plan.facts import Fact, Position
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Command, Record, ReleaseWorker
from hippotune.scheduling.policy import WidthPolicy
from hippotune.scheduling.profile import Profile
from hippotune.sequences.config import Config
from hippotune.stages.tasks import StartPoint, Task

Suitable = Callable[[Config], frozenset[int]]


class State:
    """The plan, the open requests, the leases and the workers, and what an event leads to.

    `requirements` are the metrics that each study's tuner reads; `returned` are those that evaluate() is
    known to return.
    `probed` says whether a trial was ever trained, so that the trainer is known to work. `worths` are the
    values that studies give to their open requests. `troubles` are the stages that have lost a worker since
    their last checkpoint.
    `now` is the time of the event that is being handled. The event leads to `facts`, to `commands`, to leases
    whose orders have `changed`, and to the `claims` of leases that have just stopped to go on wider.
    `likely_branches` are steps along nodes that get a checkpoint before any config branches off there.
    `most_slots` is how many slots the plan may keep while other plans wait for slots; None while none wait.
    `pins` say which checkpoints stay because a proof starts from them; `reserved` is the number of free slots
    that are kept for a proof.
    """

    def __init__(
        self,
        plan: Plan,
        options: EngineOptions,
        fits: Fits | None,
        suitable: Suitable | None = None,
    ) -> None:
        self.plan = plan
        self.retries = options.retries
        self.troubles: dict[StartPoint, Trouble] = {}
        self.promises = Promises()
        self.frontier = self.promises.frontier
        self.profile = Profile(None if options.width is None else options.width.scaling)
        self.eviction = CheckpointEviction(plan, options.checkpoint_budget)
        self.requests: dict[int, OpenRequest] = {}
        self.leases = LeaseTable(self.promises)
        self.workers = WorkerTable()
        self.deadlines = Deadlines()
        self.requirements: dict[str, frozenset[str]] = {}
        self.returned: set[str] = set()
        self.worths: dict[int, float] = {}
        self.likely_branches: dict[Node, set[int]] = {}
        self.paused = False
        self.slots_awaited = 0
        self.most_slots: int | None = None
        self.halted = False
        self.probed = plan.order > 0
        self.trained = 0
        self.now = 0.0
        self.facts: list[Fact] = []
        self.commands: list[Command] = []
        self.changed: dict[Lease, None] = {}
        self.claims: dict[Position, Fraction] = {}
        self.pins: list[Callable[[Position], bool]] = []
        self.reserved = 0
        self._fits = fits
        self._suitable = None if suitable is None else lru_cache(maxsize=1 << 16)(suitable)
        self.allocator: WidthAllocator | None = None
        self.use(options.width)

    def use(self, policy: WidthPolicy | None) -> None:
        """Have widths chosen by a policy from now on; without one, every lease has one slot."""
        self.allocator = None if policy is None else WidthAllocator(policy, self.profile, self._fits)

    def keep_narrow(self) -> None:
        """Give no lease more than one slot from now on: the trainer learns something else on several."""
        self._fits = None
        if self.allocator is not None:
            self.allocator.keep_narrow()

    def kinds_for(self, node: Node) -> Kinds:
        """Return the kinds of slots that suit the configs of a node; None where all do."""
        return None if self._suitable is None else self._suitable(node.config)

    @property
    def required(self) -> frozenset[str]:
        """The metrics that tuners of any study read."""
        return frozenset().union(*self.requirements.values())

    def never_returned(self, metrics: Set[str]) -> Set[str]:
        """Return those of some metrics that evaluate() has not returned, at any step of any trial."""
        for metric in metrics - self.returned:
            if self.plan.has_measured(metric):
                self.returned.add(metric)
        return metrics - self.returned

    @property
    def least_width(self) -> Fraction:
        """The width of a lease that shares its slot with as many others as the policy allows."""
        return Fraction(1, 1 if self.allocator is None else self.allocator.policy.packing)

    def held(self, position: Position) -> Task | None:
        """Return the best task for a worker that holds a state which no checkpoint has.

        A stage in trouble starts from a checkpoint: a lost worker would take the state with it.
        """
        tasks = self.frontier.tasks_from(self.plan[position.node], position.step)
        kept_back = self.troubles.keys() | self.frontier.paused
        able = (task for task in tasks if (task.node, task.start) not in kept_back)
        return max(able, key=lambda task: task.time, default=None)

    def take_commands(self) -> list[Command]:
        """Return what the event has led to, facts first, and begin anew."""
        commands = [*self.commands, *map(ReleaseWorker, self.workers.released)]
        self.workers.released.clear()
        if self.facts:
            commands.insert(0, Record(tuple(self.facts)))
        self.commands, self.facts, self.changed, self.claims = [], [], {}, {}
        return commands
