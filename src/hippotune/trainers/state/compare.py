"""Two object graphs compared bit for bit; what differs is named as a user would write it.

Two graphs are the same where nothing that a program can see of them differs:

* types, plain values and the bits of numbers, arrays and tensors, with dtypes, shapes, strides, gradients;
* the order of dicts, and the order in which sets are gone through; what iterators of lists still yield;
* aliases: what is one object, or one memory, in the one graph is so in the other;
* functions by their code and the variables of their closures, random generators by their states, and
  objects that show nothing of themselves by what pickle would save of them.

What is found by its name (classes, modules, functions) is compared by name. Objects of C that cannot be
pickled are compared by their types alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from hippotune.trainers.state import leaves, walk
from hippotune.trainers.state.leaves import Told
from hippotune.trainers.state.parts import (
    NO_IDENTITY,
    SEQUENCES,
    Key,
    Part,
    described,
    listing,
    memory,
    own_difference,
    parts,
    random_state,
    set_difference,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two graphs differ, and in short what is there in each."""

    path: str
    one: str
    other: str
    detail: str = ""

    def told(self, one: str, other: str) -> str:
        """Return it as a sentence. `one` and `other` say where each was found, such as "after a load"."""
        text = f"{self.path} is {self.one} {one}, and {self.other} {other}"
        return f"{text} ({self.detail})" if self.detail else text


def differences(
    one: Any, other: Any, name: str = "self", most: int = 10, skip: Callable[[Any], bool] | None = None
) -> list[Difference]:
    """Return where two graphs differ, the nearest places first; as many as `most`.

    Objects that `skip` returns true for are not looked into.
    """
    comparison = _Comparison(one, name, most, skip)
    comparison.run(one, other)
    return comparison.found


def first_difference(
    one: Any, other: Any, name: str = "self", skip: Callable[[Any], bool] | None = None
) -> Difference | None:
    """Return the nearest place where two graphs differ; None where they are the same."""
    return next(iter(differences(one, other, name, 1, skip)), None)


class _Path(NamedTuple):
    """A way from the root: the way before, and the text or the key of a dict that leads on."""

    before: _Path | None
    step: Any


class _Comparison:
    def __init__(self, root: Any, name: str, most: int, skip: Callable[[Any], bool] | None) -> None:
        self.found: list[Difference] = []
        self._root, self._name, self._most = root, name, most
        self._skip = skip
        self._waiting: deque[tuple[_Path | None, Any, Any]] = deque()
        self._sets: deque[tuple[_Path | None, Any, Any]] = deque()  # of objects: after all else is known
        self._met: tuple[dict[Hashable, tuple[Hashable, _Path | None]], ...] = ({}, {})
        self._kept: list[Any] = []  # what is made on the way must not be freed, or its id would come again

    def run(self, one: Any, other: Any) -> None:
        """Compare from the roots on."""
        self._waiting.append((None, one, other))
        while (self._waiting or self._sets) and len(self.found) < self._most:
            if self._waiting:
                self._compare(*self._waiting.popleft())
            else:
                self._pair_items(*self._sets.popleft())

    def _compare(self, path: _Path | None, one: Any, other: Any) -> None:
        if not _are_of_one_type(one, other):
            self._note(path, Told(described(one), described(other)))
            return
        if type(one) in walk.ATOMS:
            if not leaves.same_atom(one, other):
                self._note(path, Told(walk.short(one), walk.short(other)))
            return
        if type(one) is tuple and _are_numbers(one) and _are_numbers(other) and one == other:
            return  # at once: the state of Python's random generator is one of many
        if self._skip is not None and self._skip(one):
            return
        self._kept.append((one, other))
        if not isinstance(one, NO_IDENTITY) and not self._is_new(path, id(one), id(other)):
            return
        if one is other:
            return
        if (told := own_difference(one, other)) is not None:
            self._note(path, told)
            return
        if (state := random_state(one)) is not None and differences(state, random_state(other), most=1):
            self._note(path, Told("a random generator in one state", "in another"))
            return
        if not self._memory_agrees(path, one, other):
            return
        self._pair(path, one, other)

    # Identity.

    def _is_new(
        self, path: _Path | None, one: Hashable, other: Hashable, alias: str = "the same object as"
    ) -> bool:
        """Return whether two things are met for the first time; note where only one of them is."""
        known, known_there = self._met[0].get(one), self._met[1].get(other)
        if known is None and known_there is None:
            self._met[0][one] = other, path
            self._met[1][other] = one, path
            return True
        if known is None or known[0] != other:
            met = known or known_there
            assert met is not None
            told, own = f"{alias} {self._written(met[1])}", "something of its own"
            self._note(path, Told(own, told) if known is None else Told(told, own))
        return False

    def _memory_agrees(self, path: _Path | None, one: Any, other: Any) -> bool:
        """Return whether arrays and tensors are views of the same memory in both graphs."""
        ours, theirs = memory(one), memory(other)
        if ours is None or theirs is None:
            return True
        before = len(self.found)
        self._is_new(path, ours[0], theirs[0], "a view of the memory of")
        if len(self.found) == before and ours[1] != theirs[1]:
            self._note(path, Told(f"a view from byte {ours[1]} on", f"a view from byte {theirs[1]} on"))
        return len(self.found) == before

    # Parts.

    def _pair(self, path: _Path | None, one: Any, other: Any) -> None:
        if isinstance(one, Set) and (told := set_difference(one, other)) is not None:
            self._note(path, told)
            return
        if isinstance(one, Set):
            self._sets.append((path, one, other))
        ours, theirs = list(parts(one)), list(parts(other))
        if [part.token for part in ours] == [part.token for part in theirs]:
            pairs = list(zip(ours, theirs, strict=True))
        elif isinstance(one, SEQUENCES) and len(ours) != len(theirs):
            self._note(path, Told(f"{len(ours)} items long", f"{len(theirs)} items long"))
            return
        else:
            there = {part.token: part for part in theirs}
            pairs = [(part, there[part.token]) for part in ours if part.token in there]
            self._note_missing(path, one, other, ours, theirs)
        for part, partner in pairs:
            way = path if part.step is None else _Path(path, part.step)
            self._waiting.append((way, part.value, partner.value))

    def _pair_items(self, path: _Path | None, one: Set[Any], other: Set[Any]) -> None:
        """Pair the items of sets, first those known from elsewhere: the order of objects means nothing."""
        left = {id(item): item for item in other}
        new = []
        for item in one:
            known = self._met[0].get(id(item))
            if known is not None and known[0] in left:
                del left[known[0]]
            else:
                new.append(item)
        way = _Path(path, "{…}")
        self._waiting.extend((way, item, partner) for item, partner in zip(new, left.values(), strict=True))

    def _note_missing(
        self, path: _Path | None, one: Any, other: Any, ours: list[Part], theirs: list[Part]
    ) -> None:
        here, there = {part.token for part in ours}, {part.token for part in theirs}
        if here == there:
            if isinstance(one, Mapping) and list(one) != list(other):
                self._note(path, Told(listing("a dict in the order", one), listing("in the order", other)))
            return
        for part in ours:
            if part.token not in there:
                self._note(_Path(path, part.step), Told(described(part.value), "not there"))
        for part in theirs:
            if part.token not in here:
                self._note(_Path(path, part.step), Told("not there", described(part.value)))

    # Names.

    def _note(self, path: _Path | None, told: Told) -> None:
        if len(self.found) < self._most:
            self.found.append(Difference(self._written(path), *told))

    def _written(self, path: _Path | None) -> str:
        steps = []
        while path is not None:
            steps.append(path.step)
            path = path.before
        text = self._name
        for step in reversed(steps):
            text = f"{text}[{self._key(step)}]" if isinstance(step, Key) else walk.joined(text, str(step))
        return text

    def _key(self, step: Key) -> str:
        """Return the name that a key has elsewhere: an optimizer keeps its state by parameter."""
        name = walk.find(self._root, lambda value: value is step.key, self._name)
        if name is None or name.endswith("'s key"):
            return f"{type(step.key).__name__} {step.number}"
        return name


def _are_numbers(items: tuple[Any, ...]) -> bool:
    return all(type(item) is int for item in items)


def _are_of_one_type(one: Any, other: Any) -> bool:
    kind, kind_there = type(one), type(other)
    return kind is kind_there or (  # a class that was sent as code may be there twice
        (kind.__module__, kind.__qualname__) == (kind_there.__module__, kind_there.__qualname__)
    )
