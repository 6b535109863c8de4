"""A trainer's state as plain data: for comparing states that were never in one process.

A fingerprint has a leaf for every place in the object graph, by its path as a user would write it. Two states
are the same where every bit that a program can see is the same: then, and only then, their leaves have equal
digests. Nothing in a leaf depends on the process that made it.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["number", "text", "array", "random", "structure", "order", "unsaved", "internal"]
"""What a leaf is. `order` is the order of a set; `unsaved` is something that the user's code does not save,
and `internal` something that a library does not save, because it can make it again.

A difference in one of these three may explain another difference, and is none by itself.
"""

UNSAVED = ("unsaved", "internal")
EXPLAINS = ("order", *UNSAVED)
_NOT_THERE = "not there"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One place: what is there in few words, and a digest of all that can be seen of it.

    Floats have `samples`, elements at fixed places, and after `elements` of them the means of all elements,
    block by block; `scale` is the largest magnitude among all elements.
    """

    path: str
    kind: Kind
    text: str
    digest: str
    shape: tuple[int, ...] = ()
    samples: tuple[float, ...] = ()
    elements: int = 0
    scale: float = 0.0

    @property
    def explains(self) -> bool:
        """Whether a difference here means nothing by itself."""
        return self.kind in EXPLAINS

    def distance(self, other: Leaf) -> float:
        """Return how far floats are apart, relative to their scale; infinity for anything else."""
        is_other = (self.kind, self.shape) != (other.kind, other.shape)
        if is_other or not self.samples or (self.kind == "array" and self.text != other.text):
            return math.inf
        scale = max(self.scale, other.scale)
        apart = 0.0
        for one, there in zip(self.samples, other.samples, strict=False):
            if one != there and not (math.isnan(one) and math.isnan(there)):
                by = abs(one - there) / scale if scale else math.inf
                apart = max(apart, by if by == by else math.inf)
        return apart


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two states differ; one of the leaves may be missing."""

    path: str
    one: Leaf | None
    other: Leaf | None

    @property
    def leaf(self) -> Leaf:
        """One of the leaves."""
        leaf = self.one or self.other
        assert leaf is not None
        return leaf

    @property
    def distance(self) -> float:
        """How far floats are apart, relative to their scale; infinity for anything else."""
        return self.one.distance(self.other) if self.one and self.other else math.inf

    def told(self, one: str, other: str) -> str:
        """Return it as a sentence. `one` and `other` say where each was found, such as "after a load"."""
        here, there = self._texts()
        return f"{self.path} is {here} {one}, and {there} {other}"

    def _texts(self) -> tuple[str, str]:
        ours, theirs = self.one, self.other
        if ours is None or theirs is None or ours.text != theirs.text:
            return tuple(_NOT_THERE if leaf is None else leaf.text for leaf in (ours, theirs))  # type: ignore[return-value]
        pairs = list(zip(ours.samples, theirs.samples, strict=True))[: ours.elements]
        apart = [index for index, (here, there) in enumerate(pairs) if repr(here) != repr(there)]
        if apart:
            index = max(apart, key=lambda index: _apart(*pairs[index]))
            here, there = pairs[index]
            at = _place(ours.shape, index, ours.elements)
            return f"{here!r}{f' at [{at}]' if at else ''}", repr(there)
        if ours.kind == "random":
            return "in one state", "in another"
        return ours.text, f"{theirs.text} with other content"


def _apart(one: float, other: float) -> float:
    by = abs(one - other)
    return math.inf if math.isnan(by) else by


def _place(shape: tuple[int, ...], index: int, elements: int) -> str:
    """Return the indices of a sample."""
    flat = sample_place(math.prod(shape), index, elements)
    indices = []
    for length in reversed(shape):
        flat, at = divmod(flat, length)
        indices.append(str(at))
    return ", ".join(reversed(indices))


def sample_place(size: int, index: int, elements: int) -> int:
    """Return which element of `size` the sample with the number `index` of `elements` is."""
    return index if size <= elements else index * (size - 1) // (elements - 1)


@dataclass(frozen=True)
class Fingerprint:
    """All leaves of a state, the nearest first; no two have the same path and the same place in it.

    `saved_by` names the method that says what the state is, where the trainer has one: ``state_dict()``.
    `volatile` is what the trainer's class declares to differ each time: paths, which no leaf is of, and
    metrics.
    """

    leaves: tuple[Leaf, ...]
    saved_by: str = ""
    volatile: tuple[str, ...] = ()

    @cached_property
    def by_place(self) -> dict[tuple[str, bool], Leaf]:
        """The leaves by path; those that only explain something apart."""
        return {(leaf.path, leaf.explains): leaf for leaf in self.leaves}

    def packed(self) -> bytes:
        """Return it as bytes for a store or a message: compressed JSON."""
        data = [self.saved_by, self.volatile, [astuple(leaf) for leaf in self.leaves]]
        return zlib.compress(json.dumps(data, separators=(",", ":")).encode())

    @classmethod
    def unpacked(cls, content: bytes) -> Fingerprint:
        """Return what `packed` returned."""
        saved_by, volatile, rows = json.loads(zlib.decompress(content))
        leaves = tuple(
            Leaf(path, kind, text, digest, tuple(shape), tuple(samples), elements, scale)
            for path, kind, text, digest, shape, samples, elements, scale in rows
        )
        return cls(leaves, saved_by, tuple(volatile))


def differences(one: Fingerprint, other: Fingerprint, volatile: Iterable[str] = ()) -> list[Difference]:
    """Return where two states differ, the nearest places first, leaving out what is `volatile`."""
    return list(_differences(one, other, volatile, explaining=False))


def explanations(one: Fingerprint, other: Fingerprint) -> list[Difference]:
    """Return what differs in what is not saved, and in the order of sets: it may explain other things."""
    return list(_differences(one, other, (), explaining=True))


def is_within(path: str, names: Iterable[str]) -> bool:
    """Return whether a path is one of the names, or leads on from one."""
    return any(path == name or (path.startswith(name) and path[len(name)] in ".[ '") for name in names)


def _differences(
    one: Fingerprint, other: Fingerprint, volatile: Iterable[str], explaining: bool
) -> Iterator[Difference]:
    ours, theirs = one.by_place, other.by_place
    found = []
    for path, explains in ours.keys() | theirs.keys():
        if explains is explaining:
            saved = (path, False)  # an unsaved value that is also saved is listed once
            leaf = ours.get((path, explains)) or ours.get(saved)
            there = theirs.get((path, explains)) or theirs.get(saved)
            if leaf is None or there is None or leaf.digest != there.digest:
                found.append(Difference(path, leaf, there))
    number = {leaf.path: index for index, leaf in enumerate((*other.leaves, *one.leaves))}
    found.sort(key=lambda item: (item.path.count("."), number[item.path]))
    names = tuple(volatile)
    lengths = {item.path for item in found if _is_of_another_length(item)}
    incomplete = {
        item.path[:end]
        for item in found
        if item.one is None or item.other is None
        for end, letter in enumerate(item.path)
        if letter in ".["
    }
    for item in found:
        is_missing = item.one is None or item.other is None
        is_said_by_length = is_missing and is_within(item.path, lengths)
        is_said_by_parts = (
            item.leaf.kind == "structure" and item.path in incomplete and item.path not in lengths
        )
        if not (is_said_by_length or is_said_by_parts or is_within(item.path, names)):
            yield item


def _is_of_another_length(item: Difference) -> bool:
    one, other = item.one, item.other
    return (
        one is not None
        and other is not None
        and one.kind == other.kind == "structure"
        and one.shape != other.shape
    )
