"""Containers of the standard library, whose order, limits, factories and aliases matter."""

from __future__ import annotations

import heapq
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from typing import Any

from exactness_trainers.base import Plain


class _Contained(Plain):
    cause = "containers"


class ListHistory(_Contained):
    """A list that grows."""

    def start(self) -> None:
        self.history: list[float] = []

    def amount(self) -> float:
        self.history.append(self.value + 1)
        return sum(self.history[-3:])


class DequeWithLimit(_Contained):
    """A deque that drops its oldest item from step 3 on."""

    def start(self) -> None:
        self.recent: deque[int] = deque([0], maxlen=3)

    def amount(self) -> float:
        self.recent.append(self.recent[-1] + 2)
        return sum(self.recent)


class DequeRotated(_Contained):
    """A deque without a limit that is rotated."""

    def start(self) -> None:
        self.ring = deque([1, 2, 4, 8, 16])

    def amount(self) -> float:
        self.ring.rotate(2)
        return self.ring[0]


class DefaultdictWithLambda(_Contained):
    """A defaultdict whose factory is a lambda."""

    def start(self) -> None:
        self.counts: defaultdict[int, float] = defaultdict(lambda: 0.5)

    def amount(self) -> float:
        key = len(self.counts) % 4
        self.counts[key] += 1
        self.counts[key + 1] *= 1.5
        return sum(self.counts.values())


class DefaultdictOfCounter(_Contained):
    """A defaultdict whose factory is a method of an object that is state too."""

    def start(self) -> None:
        self.made = [0]
        self.numbers: defaultdict[int, int] = defaultdict(self.made.__len__)

    def amount(self) -> float:
        self.made.append(self.numbers[len(self.made)])
        return sum(self.numbers.values()) + 1


class OrderedDictMoved(_Contained):
    """An OrderedDict whose order changes."""

    def start(self) -> None:
        self.order = OrderedDict((name, number) for number, name in enumerate("abcde"))

    def amount(self) -> float:
        oldest = next(iter(self.order))
        self.order.move_to_end(oldest)
        if oldest == "c":
            self.order.move_to_end("a", last=False)
        return sum(place * number for place, number in enumerate(self.order.values()))


class CounterState(_Contained):
    """A Counter."""

    def start(self) -> None:
        self.seen: Counter[str] = Counter()

    def amount(self) -> float:
        self.seen.update("abca"[: self.seen["a"] + 1])
        return self.seen.total() + self.seen.most_common(1)[0][1]


class Heap(_Contained):
    """A list used as a heap."""

    def start(self) -> None:
        self.heap = [5, 3, 8, 1]
        heapq.heapify(self.heap)

    def amount(self) -> float:
        least = heapq.heappop(self.heap)
        heapq.heappush(self.heap, 2 * least + 3)
        return least


class ChainMapLayers(_Contained):
    """A ChainMap that gets new layers, and whose lowest layer is also on self."""

    def start(self) -> None:
        self.base = {"a": 1, "b": 1}
        self.layers: ChainMap[str, int] = ChainMap(self.base)

    def amount(self) -> float:
        self.layers = self.layers.new_child({"a": self.layers["a"] + 1})
        self.base["b"] += 2
        return self.layers["a"] + self.layers["b"]


class ArrayState(_Contained):
    """An array.array."""

    def start(self) -> None:
        self.numbers = array("d", [1.0, 2.0])

    def amount(self) -> float:
        self.numbers.append(self.numbers[-1] + self.numbers[-2])
        return self.numbers[-1]


class BytearrayState(_Contained):
    """A bytearray that is written in place, and an alias of it."""

    def start(self) -> None:
        self.raw = bytearray(4)
        self.alias = self.raw

    def amount(self) -> float:
        self.raw[1] += 3
        self.alias[2] += self.raw[1]
        return self.raw[2]


class SharedRows(_Contained):
    """A list that holds the same list three times."""

    def start(self) -> None:
        self.rows = [[0, 1]] * 3

    def amount(self) -> float:
        self.rows[0][0] += 1
        return sum(row[0] for row in self.rows)


class AliasedAcross(_Contained):
    """One list under two attributes and inside an object's dict."""

    def start(self) -> None:
        self.one: list[int] = []
        self.other = {"list": self.one}

    def amount(self) -> float:
        self.one.append(1)
        self.other["list"].append(2)
        return sum(self.one)


class ContainsItself(_Contained):
    """A list and a dict that contain themselves."""

    def start(self) -> None:
        self.ring: list[Any] = [0]
        self.ring.append(self.ring)
        self.map: dict[str, Any] = {"ring": self.ring}
        self.map["map"] = self.map

    def amount(self) -> float:
        self.ring[1][1][0] += 1
        return self.map["map"]["map"]["ring"][0]


class Key:
    """Compared by identity."""


class KeyedByObjects(_Contained):
    """A dict whose keys are objects, compared by identity."""

    def start(self) -> None:
        self.keys = [Key(), Key()]
        self.counts = {key: number for number, key in enumerate(self.keys)}

    def amount(self) -> float:
        self.keys.reverse()
        self.counts[self.keys[0]] += 2
        return self.counts[self.keys[0]] - self.counts[self.keys[1]]


class KeyedById(_Contained):
    """A dict whose keys are ids of objects: they are others after a load."""

    expect = "named"
    named = "counts"

    def start(self) -> None:
        self.keys = [Key(), Key()]
        self.counts: dict[int, int] = {}

    def amount(self) -> float:
        self.keys.reverse()
        key = id(self.keys[0])
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.counts[key]


class DictOrder(_Contained):
    """A dict whose order changes because keys are deleted and come again."""

    def start(self) -> None:
        self.map = {name: number for number, name in enumerate("abcd")}

    def amount(self) -> float:
        oldest = next(iter(self.map))
        self.map[oldest + "x"] = self.map.pop(oldest) + 4
        return sum(place * number for place, number in enumerate(self.map.values()))


class DictViewKept(_Contained):
    """A view of a dict's values."""

    expect = "either"
    named = "values"

    def start(self) -> None:
        self.map = {0: 1}
        self.values = self.map.values()

    def amount(self) -> float:
        self.map[len(self.map)] = len(self.map)
        return sum(self.values)


class Tracked(list[int]):
    """A list with an attribute."""

    changes = 0

    def add(self, number: int) -> None:
        self.append(number)
        self.changes += number


class Missing(dict[int, int]):
    """A dict that makes what is missing from what it holds."""

    def __missing__(self, key: int) -> int:
        self[key] = len(self) + key
        return self[key]


class ListSubclass(_Contained):
    """A subclass of list with an attribute that counts."""

    def start(self) -> None:
        self.tracked = Tracked()

    def amount(self) -> float:
        self.tracked.add(len(self.tracked))
        return self.tracked.changes


class DictSubclass(_Contained):
    """A subclass of dict with __missing__."""

    def start(self) -> None:
        self.map = Missing()

    def amount(self) -> float:
        return self.map[len(self.map)] + sum(self.map.values())


class UserCollections(_Contained):
    """UserDict and UserList."""

    def start(self) -> None:
        self.map: UserDict[str, int] = UserDict(a=0)
        self.list: UserList[int] = UserList()

    def amount(self) -> float:
        self.map["a"] += 1
        self.list.append(self.map["a"])
        return sum(self.list)
