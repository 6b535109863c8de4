"""How much each user and study was served, and which goes next.

*Charges* are slot-seconds. The time of a slot that works for several studies is charged to them in equal
parts. All charges add up to the slot-seconds, in any order; sums are exact.

*Levels* are charges as fairness counts them, of users, and of the studies of each user. The lowest level goes
next. A user or study that begins to wait starts at the lowest level of those that wait already, or, if none
waits, at the highest level of all: not asking for slots saves nothing up for later.

A slot in use counts as a minute of service. So slots that become free at the same time are shared out by
number, and earlier service decides only between equals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Set
from fractions import Fraction
from typing import Generic, TypeVar

# How much service a slot in use counts for, in seconds.
SLOT_SECONDS = 60

NOTHING = Fraction(0)

K = TypeVar("K", bound=Hashable)

# A user's level, then a study's; the lowest goes next.
Rank = tuple[Fraction, Fraction]


class Levels(Generic[K]):
    """The levels of all users, or of all studies of a user; some of them wait."""

    def __init__(self) -> None:
        self._served: dict[K, Fraction] = {}
        self._waiting: Set[K] = frozenset()

    def of(self, name: K) -> Fraction:
        """Return the level of a user or study."""
        return self._served.get(name, NOTHING)

    def serve(self, name: K, seconds: Fraction) -> None:
        """A user or study was served."""
        self._served[name] = self.of(name) + seconds

    def forget(self, name: K) -> None:
        """A user or study is not served any more."""
        self._served.pop(name, None)
        self._waiting -= {name}

    def wait(self, names: Set[K]) -> None:
        """These wait from now on, and no others do."""
        arrived = names - self._waiting
        if arrived:
            present = [self.of(name) for name in self._waiting]
            start = min(present) if present else max(self._served.values(), default=NOTHING)
            for name in arrived:
                self._served[name] = max(self.of(name), start)
        self._waiting = names


class Accounts(Generic[K]):
    """Charges and levels of studies and of the users that they belong to: by default all to one, ''."""

    def __init__(self) -> None:
        self._owners: dict[K, str] = {}
        self._charged: dict[K, Fraction] = {}
        self._by_user: dict[str, Fraction] = {}
        self._elsewhere: dict[str, Fraction] = {}
        self._users: Levels[str] = Levels()
        self._studies: dict[str, Levels[K]] = {}

    def owner(self, study: K) -> str:
        """Return the user whom a study belongs to."""
        return self._owners.get(study, "")

    def give(self, study: K, owner: str) -> None:
        """A study belongs to a user."""
        self._owners[study] = owner

    def charge(self, studies: Collection[K], seconds: Fraction) -> None:
        """Charge slot-seconds to studies, in equal parts."""
        part = seconds / len(studies)
        for study in studies:
            self._charged[study] = self.charged(study) + part
            self._by_user[self.owner(study)] = self.charged_to(self.owner(study)) + part
            self._users.serve(self.owner(study), part)
            self._levels(study).serve(study, part)

    def forget(self, study: K) -> None:
        """A study does not come again. What its user was served still counts."""
        self._levels(study).forget(study)
        self._charged.pop(study, None)
        self._owners.pop(study, None)

    def charged(self, study: K) -> Fraction:
        """Return the slot-seconds that a study was charged."""
        return self._charged.get(study, NOTHING)

    def charged_to(self, owner: str) -> Fraction:
        """Return the slot-seconds that a user's studies were charged."""
        return self._by_user.get(owner, NOTHING)

    def charge_elsewhere(self, owner: str, seconds: Fraction) -> None:
        """Other plans served a user too: the level is this much above what is charged here."""
        self._elsewhere[owner] = seconds

    def level(self, owner: str) -> Fraction:
        """Return a user's level."""
        if owner in self._elsewhere:
            return self._elsewhere[owner] + self.charged_to(owner)
        return self._users.of(owner)

    def wait(self, studies: Set[K]) -> None:
        """These studies wait for a slot from now on, and no others do."""
        by_user: dict[str, set[K]] = {owner: set() for owner in self._studies}
        for study in studies:
            by_user.setdefault(self.owner(study), set()).add(study)
        self._users.wait({owner for owner, own in by_user.items() if own})
        for owner, own in by_user.items():
            self._studies.setdefault(owner, Levels()).wait(own)

    def ranks(self, slots: Mapping[K, Fraction]) -> Callable[[K], Rank]:
        """Return the key by which studies are put in order, given how many slots each has now."""
        users: dict[str, Fraction] = {}
        for study, count in slots.items():
            owner = self.owner(study)
            users[owner] = users.get(owner, self.level(owner)) + SLOT_SECONDS * count

        def rank(study: K) -> Rank:
            owner = self.owner(study)
            if owner not in users:
                users[owner] = self.level(owner)
            level = self._levels(study).of(study)
            return users[owner], level + SLOT_SECONDS * slots[study] if study in slots else level

        return rank

    def _levels(self, study: K) -> Levels[K]:
        return self._studies.setdefault(self.owner(study), Levels())
