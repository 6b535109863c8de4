"""State inside other objects: plain ones, slots, proxies, descriptors, cycles."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from exactness_trainers.base import Plain


class _Nested(Plain):
    cause = "nested objects"


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int:
        self.count += 1
        return self.count


class Holder:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


class CounterObject(_Nested):
    """A counter in a plain object."""

    def start(self) -> None:
        self.counter = Counter()

    def amount(self) -> float:
        return self.counter.next()


class ThreeDeep(_Nested):
    """A counter three objects down."""

    def start(self) -> None:
        self.outer = Holder(Holder(Holder(Counter())))

    def amount(self) -> float:
        return self.outer.inner.inner.inner.next()


class InListInDict(_Nested):
    """A counter in an object in a list in a dict in an object."""

    def start(self) -> None:
        self.outer = Holder({"counters": [None, (Counter(),)]})

    def amount(self) -> float:
        return self.outer.inner["counters"][1][0].next()


class Slots:
    __slots__ = ("count", "never_set")

    def __init__(self) -> None:
        self.count = 0


class SlotsAndDict(Slots):
    """Has slots from its base and a dict of its own."""


class SlotsObject(_Nested):
    """A counter in a slot, beside a slot that is never set."""

    def start(self) -> None:
        self.slots = Slots()

    def amount(self) -> float:
        self.slots.count += 1
        return self.slots.count + hasattr(self.slots, "never_set")


class SlotsWithDict(_Nested):
    """A counter in a slot and one in the dict of the same object."""

    def start(self) -> None:
        self.slots = SlotsAndDict()
        self.slots.more = 0  # type: ignore[attr-defined]

    def amount(self) -> float:
        self.slots.count += 1
        self.slots.more += self.slots.count  # type: ignore[attr-defined]
        return self.slots.more  # type: ignore[attr-defined]


class Delegating:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class GetattrProxy(_Nested):
    """A counter behind an object whose __getattr__ hands everything on."""

    def start(self) -> None:
        self.proxy = Delegating(Counter())

    def amount(self) -> float:
        return self.proxy.next() + self.proxy.count


class CopyOnWrite:
    def __init__(self, base: dict[str, int]) -> None:
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "own", {})

    def __getattr__(self, name: str) -> int:
        if name in ("base", "own"):
            raise AttributeError(name)
        return self.own[name] if name in self.own else self.base[name]

    def __setattr__(self, name: str, value: int) -> None:
        self.own[name] = value


class CopyOnWriteProxy(_Nested):
    """A proxy that keeps what is written apart from what it shares with another one."""

    def start(self) -> None:
        base = {"count": 1}
        self.one, self.other = CopyOnWrite(base), CopyOnWrite(base)
        self.base = base

    def amount(self) -> float:
        self.one.count += 2
        self.base["count"] += 1
        return self.one.count * self.other.count


class SelfReference(_Nested):
    """The trainer refers to itself, and counts through that."""

    def start(self) -> None:
        self.me, self.count = self, 0

    def amount(self) -> float:
        self.me.count += 1
        return self.count


class Child:
    def __init__(self, parent: SelfReference | ParentCycle) -> None:
        self.parent = parent


class ParentCycle(_Nested):
    """A child that writes to its parent, the trainer."""

    def start(self) -> None:
        self.count = 0
        self.child = Child(self)

    def amount(self) -> float:
        self.child.parent.count += 1
        return self.count


class Link:
    def __init__(self, number: int, after: Link | None) -> None:
        self.number, self.after = number, after


class LinkedList(_Nested):
    """A linked list of 200 objects; training walks along it and writes to it."""

    length: ClassVar[int] = 200

    def start(self) -> None:
        self.head: Link | None = None
        for number in range(self.length):
            self.head = Link(number, self.head)
        self.at = self.head

    def amount(self) -> float:
        assert self.at is not None
        assert self.at.after is not None
        self.at.after.number += 3 * self.at.number
        self.at = self.at.after
        return self.at.number / 100


class LongLinkedList(LinkedList):
    """A linked list of 3,000 objects: deeper than the recursion limit."""

    expect = "either"
    named = "self.at.after.after"
    length = 3000


class PropertySetter(_Nested):
    """State behind a property that stores something else than it is given."""

    @property
    def level(self) -> float:
        return self._doubled / 2

    @level.setter
    def level(self, value: float) -> None:
        self._doubled = 2 * value

    def start(self) -> None:
        self.level = 0.0

    def amount(self) -> float:
        self.level += 1
        return self.level


class InDict:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return instance.__dict__.get(self.name, 0)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value % 4


class Aside:
    def __init__(self) -> None:
        self.values: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def __get__(self, instance: Any, owner: type) -> int:
        return self.values.get(instance, 0)

    def __set__(self, instance: Any, value: int) -> None:
        self.values[instance] = value


class Descriptor(_Nested):
    """State behind a descriptor that keeps it on the object."""

    level = InDict()

    def amount(self) -> float:
        self.level += 3
        return self.level


class DescriptorAside(_Nested):
    """State behind a descriptor that keeps it on the class, by object."""

    expect = "named"
    named = "level"
    found = "training or evaluate() uses something that is not on self"
    level = Aside()

    def amount(self) -> float:
        self.level += 3
        return self.level


class Stateful:
    def __init__(self) -> None:
        self.count, self.cache = 0, {"half": 0.0}

    def __getstate__(self) -> dict[str, Any]:
        return {"count": self.count}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.cache = {"half": self.count / 2}


class OwnGetstate(_Nested):
    """An object that says itself what its state is, and is right."""

    def start(self) -> None:
        self.object = Stateful()

    def amount(self) -> float:
        self.object.count += 1
        self.object.cache["half"] = self.object.count / 2
        return self.object.cache["half"]


class Reduced:
    def __init__(self, count: int) -> None:
        self.count = count

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return Reduced, (self.count,)


class OwnReduce(_Nested):
    """An object that says how it is made again."""

    def start(self) -> None:
        self.object = Reduced(0)
        self.again = self.object

    def amount(self) -> float:
        self.object.count += 1
        return self.again.count


class Forgetful(Counter):
    def __getstate__(self) -> dict[str, Any]:
        return {"count": 0}


class ForgetfulGetstate(_Nested):
    """An object whose __getstate__ leaves its counter out."""

    expect = "named"
    named = "forgetful"

    def start(self) -> None:
        self.forgetful = Forgetful()

    def amount(self) -> float:
        return self.forgetful.next()
