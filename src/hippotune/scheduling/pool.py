"""Which plan has which worker slot, where several plans share them. A state machine: no threads, no clock.

Every plan says for how many slots it has work, and which of its studies wait. How many slots a plan should
have is found by dealing all slots out one by one: each goes to the user who was served least, and there to
the study that was served least and whose plan has work. Free slots go to plans that have fewer. If that is
not enough, plans that have more are told how many they may keep, and release slots when their leases are at a
boundary. So as few slots move as possible, and a plan without work keeps its slots until another plan wants
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from hippotune.scheduling.fairness import NOTHING, Accounts

# A plan is told how much others served its users when that has changed by this many seconds.
_MATERIAL = 5

# A study of a plan.
Key = tuple[int, str]


class Served(NamedTuple):
    """A study that wants something: whose it is, what it was charged, and whether it waits for a slot."""

    study: str
    owner: str
    seconds: float
    waits: bool


class Changes(NamedTuple):
    """Slots that plans are given, by (plan, slot), and how many slots plans may keep from now on.

    `elsewhere` is, for plans of several users, how far these are above what the plan has charged them.
    """

    grants: list[tuple[int, int]]
    limits: dict[int, int | None]
    elsewhere: dict[int, dict[str, float]]


@dataclass(slots=True)
class PlanShare:
    """What a plan has of a pool, what it has work for, and its studies, with whether they wait."""

    demand: int = 0
    slots: set[int] = field(default_factory=set)
    leaving: set[int] = field(default_factory=set)
    studies: dict[str, bool] = field(default_factory=dict)
    charged: dict[str, Fraction] = field(default_factory=dict)
    elsewhere: dict[str, Fraction] = field(default_factory=dict)
    limit: int | None = None


class SlotPool:
    """See the module. The caller numbers the plans."""

    def __init__(self, slots: int) -> None:
        self._size = slots
        self._free = set(range(slots))
        self._accounts: Accounts[Key] = Accounts()
        self.plans: dict[int, PlanShare] = {}

    # What happens.

    def enter(self, plan: int) -> None:
        """A plan is open."""
        self.plans[plan] = PlanShare()

    def leave(self, plan: int) -> None:
        """A plan is closed, and nothing of it runs any more."""
        if (share := self.plans.pop(plan, None)) is not None:
            self._free |= share.slots | share.leaving
            for study in share.charged:
                self._accounts.forget((plan, study))

    def demand(self, plan: int, slots: int) -> None:
        """A plan has work for this many slots."""
        self.plans[plan].demand = min(slots, self._size)

    def serve(self, plan: int, studies: Iterable[Served]) -> None:
        """These studies of a plan want something; the others do not any more."""
        share, known = self.plans[plan], {}
        for study, owner, seconds, waits in studies:
            key, charged = (plan, study), Fraction(seconds)
            self._accounts.give(key, owner)
            self._accounts.charge([key], max(charged - share.charged.get(study, NOTHING), NOTHING))
            share.charged[study], known[study] = charged, waits
        share.studies = known or share.studies  # what is left to do is for those who asked for something

    def release_slot(self, plan: int, slot: int) -> None:
        """A plan needs a slot no more; what runs there comes to its end."""
        if slot in (share := self.plans[plan]).slots:
            share.slots.remove(slot)
            share.leaving.add(slot)

    def freed(self, plan: int, slot: int) -> None:
        """Nothing runs any more on a slot that was let go."""
        if plan in self.plans and slot in self.plans[plan].leaving:
            self.plans[plan].leaving.remove(slot)
            self._free.add(slot)

    # What follows.

    def decide(self, turn: float) -> Changes:
        """Say what changes. A plan keeps what it has until others are a `turn` of seconds behind."""
        short = {plan: share for plan, share in self.plans.items() if share.demand > len(share.slots)}
        self._accounts.wait({(plan, study) for plan, share in short.items() for study in _waiting(share)})
        targets = self._targets(Fraction(turn))
        grants = [
            (plan, slot)
            for plan, slot in zip(_missing(self.plans, targets), sorted(self._free), strict=False)
        ]
        for plan, slot in grants:
            self.plans[plan].slots.add(slot)
            self._free.remove(slot)
        return Changes(grants, self._limits(targets), self._news_of_users())

    def _targets(self, turn: Fraction) -> Counter[int]:
        """Deal all slots out; return how many each plan should have, the first to be served first."""
        keys = [(plan, study) for plan, share in self.plans.items() for study in share.studies or ("",)]
        dealt: dict[Key, Fraction] = {}
        targets: Counter[int] = Counter()
        for _ in range(self._size):
            able = [key for key in keys if targets[key[0]] < self.plans[key[0]].demand]
            if not able:
                break
            rank = self._accounts.ranks(dealt)
            kept = {key: turn * (targets[key[0]] < len(self.plans[key[0]].slots)) for key in able}
            ahead = min(able, key=lambda key: (rank(key)[0] - kept[key], key[0]))
            own = [key for key in able if self._accounts.owner(key) == self._accounts.owner(ahead)]
            chosen = min(own, key=lambda key: (rank(key)[1] - kept[key], key[0]))
            dealt[chosen] = dealt.get(chosen, NOTHING) + 1
            targets[chosen[0]] += 1
        return targets

    def _limits(self, targets: Mapping[int, int]) -> dict[int, int | None]:
        """Return the plans that are to keep another number of slots than they know of."""
        coming = len(self._free) + sum(len(share.leaving) for share in self.plans.values())
        missing = len(list(_missing(self.plans, targets))) - coming
        limits: dict[int, int | None] = {}
        for plan, share in self.plans.items():
            given_up = max(min(len(share.slots) - targets.get(plan, 0), missing), 0)
            missing -= given_up
            limit = len(share.slots) - given_up if given_up else None
            if limit != share.limit:
                limits[plan] = share.limit = limit
        return limits

    def _news_of_users(self) -> dict[int, dict[str, float]]:
        news: dict[int, dict[str, float]] = {}
        for plan, share in self.plans.items():
            charged: dict[str, Fraction] = {}
            for study, seconds in share.charged.items():
                owner = self._accounts.owner((plan, study))
                charged[owner] = charged.get(owner, NOTHING) + seconds
            above = {owner: self._accounts.level(owner) - own for owner, own in charged.items()}
            changes = [abs(more - share.elsewhere.get(owner, NOTHING)) for owner, more in above.items()]
            if len(above) > 1 and max(changes) >= _MATERIAL:
                share.elsewhere = above
                news[plan] = {owner: float(more) for owner, more in above.items()}
        return news


def _waiting(share: PlanShare) -> list[str]:
    """Return the studies of a plan that wait; all, where it has work that is for none of them alone."""
    return [study for study, waits in share.studies.items() if waits] or list(share.studies)


def _missing(plans: Mapping[int, PlanShare], targets: Mapping[int, int]) -> Iterable[int]:
    """Yield a plan for every slot that it lacks, in the order in which they were dealt out."""
    for plan, target in targets.items():
        yield from [plan] * (target - len(plans[plan].slots))
