"""Attributes as they were when they were last saved.

From one checkpoint to the next hardly anything but numbers in tensors changes: names, shapes and settings
stay, and so does all that a checkpoint says of them. Looking whether something is as it was takes a fraction
of the time of describing it anew.

What is looked at is everything that a description comes from. Objects that anybody could change unnoticed,
such as a list among an optimizer's settings, are not remembered at all. Nor are large ones: copying them
takes so long that describing them does not matter, and what is remembered stays in memory, even if replaced.

There are two levels: what is known of each attribute, in `Memory`; and, where everything is known, a
`Routine` for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, is_, itemgetter, methodcaller
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from hippotune.trainers.encoding import KIND, PLAIN, is_plain, is_plain_dict
from hippotune.trainers.packing import Mark, Packed, Packer, Repacker, Taken, named, to_text
from hippotune.trainers.stateful import keeps_to_custom, modules_in
from hippotune.trainers.tree import Encoder

Check = Callable[[], bool]

# What has changed so often in a row will change again.
_MOST_CHANGES = 3
_MOST_BYTES = 1 << 26

_FIELDS = frozenset(
    {
        "training",
        "_parameters",
        "_buffers",
        "_modules",
        "_non_persistent_buffers_set",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
    }
)
_get_fields = itemgetter(*_FIELDS)
_kind = attrgetter("__class__", "_version")
_is_trainable = attrgetter("requires_grad")
_version = attrgetter("_version")
_values = methodcaller("values")
_parameters = itemgetter("params")


class Known(Protocol):
    """What is known of an attribute's `value`.

    Where it `is_relied_on`, the value has to be there to take its state back, and with it the modules with
    the ids in `parts`.
    """

    @property
    def value(self) -> object:
        """The very object."""

    @property
    def is_relied_on(self) -> bool:
        """Whether it has to be there."""

    @property
    def parts(self) -> frozenset[int]:
        """The ids of modules."""

    def written_again(self, packer: Packer) -> bytes | None:
        """Have a packer take all tensors, and return what is to be written; None where that is not known."""


class Memory:
    """What is known of attributes, by their names."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._changes: Counter[str] = Counter()

    def written_again(self, name: str, value: object, packer: Packer, encoder: Encoder) -> bytes | None:
        """Have a packer take a value's tensors, and return what is to be written, where all that is known."""
        known = self._known.get(name)
        if known is None or known.value is not value or encoder.has_met(value):
            return None
        text = known.written_again(packer)
        if text is None:
            del self._known[name]
            self._changes[name] += 1
            return None
        if self._changes:
            del self._changes[name]
        if known.is_relied_on:
            encoder.rely_on(name, value, known.parts)
        return text

    def remember(
        self, name: str, value: nn.Module | Optimizer, text: bytes, packer: Packer, mark: Mark
    ) -> None:
        """Remember what was written of an object, if that can be of use.

        A packer has taken all its tensors since a mark.
        """
        self._known.pop(name, None)
        if self._changes[name] >= _MOST_CHANGES:
            return
        tensors = packer.taken_since(mark)
        if tensors is None or tensors.bytes > _MOST_BYTES or (check := _check_of(value)) is None:
            return
        parts = frozenset(map(id, modules_in(value)))
        self._known[name] = _Described(value, parts, text, mark[0], tensors, check)

    def remember_constants(self, name: str, value: object, text: bytes) -> None:
        """Remember what was written of an object, or a tuple of them, that is not saved unless it changes."""
        values = value if type(value) is tuple else (value,)
        tensors = [one for one in values if isinstance(one, Tensor)]
        self._known[name] = _Constants(value, text, tensors, list(map(_version, tensors)))

    def remember_state(self, name: str, value: Any, data: dict[str, Any]) -> None:
        """Remember how an object's state was written, if that is nothing but plain values under names."""
        state = data["value"]["state"]
        if is_plain_dict(state):
            value_of = {key: item for key, item in data["value"].items() if key != "state"}
            frame = named(name, {KIND: data[KIND], "value": {**value_of, "state": 0}})
            self._known[name] = _Stateful(value, type(value), before=frame[:-3], after=frame[-2:])

    def routine(
        self, names: list[str], present: Mapping[str, Any], texts: list[bytes], extra: int
    ) -> Routine:
        """Return how to write these attributes again, among the `names` of all that there are.

        All but plain ones are known.
        """
        known = {name: one for name, one in self._known.items() if one.value is present[name]}
        places = {name: index for index, name in enumerate(present)}
        lasting = [name for name in present if name in known]
        ways = [known[name] for name in lasting]
        tensors = [way.tensors for way in ways if isinstance(way, _Described)]
        return Routine(
            names,
            lasting,
            values=[way.value for way in ways],
            plain=[(places[name], name) for name in present if name not in known],
            stateful=[(places[name], way) for name in lasting if isinstance(way := known[name], _Stateful)],
            checks=[way.is_unchanged for way in ways if isinstance(way, _Described | _Constants)],
            texts=texts,
            repacker=Repacker.of(Taken.joined(tensors), extra),
        )

    def forget_all_but(self, names: Container[str]) -> None:
        """Hold on to nothing of other names."""
        for name in [name for name in self._known if name not in names]:
            del self._known[name]


@dataclass(frozen=True, slots=True)
class _Described:
    """A module or an optimizer, and the tensors that what was written refers to, numbered from `start` on."""

    value: object
    parts: frozenset[int]
    text: bytes
    start: int
    tensors: Taken
    is_unchanged: Check
    is_relied_on: bool = True

    def written_again(self, packer: Packer) -> bytes | None:
        if self.start == packer.mark[0] and self.is_unchanged() and packer.take_again(self.tensors):
            return self.text
        return None


@dataclass(frozen=True, slots=True)
class _Constants:
    """Objects that are not saved."""

    value: object
    text: bytes
    tensors: list[Tensor]
    versions: list[int]
    parts: frozenset[int] = frozenset()
    is_relied_on: bool = False

    def is_unchanged(self) -> bool:
        return list(map(_version, self.tensors)) == self.versions

    def written_again(self, packer: Packer) -> bytes | None:
        return self.text if self.is_unchanged() else None


@dataclass(frozen=True, slots=True)
class _Stateful:
    """An object whose state is always another: what is written around it."""

    value: Any
    kind: type
    before: bytes
    after: bytes
    parts: frozenset[int] = frozenset()
    is_relied_on: bool = True

    def written_again(self, packer: Packer) -> bytes | None:
        return self.written()

    def written(self) -> bytes | None:
        state = self.value.state_dict()
        if type(self.value) is not self.kind or not is_plain_dict(state):
            return None
        return self.before + to_text(state) + self.after


@dataclass(frozen=True, slots=True)
class Routine:
    """Writes a whole state again, as long as nothing has changed but numbers, plain values and states.

    Where that is the rule, it spares looking at attributes one by one, and at what they have to do with each
    other.
    """

    names: list[str]
    lasting: list[str]
    values: list[object]
    plain: list[tuple[int, str]]
    stateful: list[tuple[int, _Stateful]]
    checks: list[Check]
    texts: list[bytes]
    repacker: Repacker

    def pack(self, everything: Mapping[str, Any], extra: bytes) -> Packed | None:
        """Return a copy of the state; None where this is not the way to make one any more."""
        if not (
            list(everything) == self.names
            and all(map(is_, map(everything.__getitem__, self.lasting), self.values))
            and all(check() for check in self.checks)
            and self.repacker.can_pack(extra)
        ):
            return None
        texts = self.texts.copy()
        for index, stateful in self.stateful:
            if (text := stateful.written()) is None:
                return None
            texts[index] = text
        for index, name in self.plain:
            if type(value := everything[name]) not in PLAIN:
                return None
            texts[index] = named(name, value)
        return self.repacker.pack(texts, extra)


def _check_of(value: nn.Module | Optimizer) -> Check | None:
    """Return what says whether an object's description is still the same; None where nothing can."""
    return _Module.of(value) if isinstance(value, nn.Module) else _Optimizer.of(value)


@dataclass(frozen=True, slots=True)
class _Contents:
    """Dicts, and the names and objects in them, end to end."""

    dicts: list[Mapping[str, Any]]
    lengths: list[int]
    full: list[Mapping[str, Any]]
    names: list[str]
    held: list[object]

    @classmethod
    def of(cls, dicts: Iterable[Mapping[str, Any]]) -> _Contents:
        """Note what dicts hold."""
        dicts = list(dicts)
        full = [one for one in dicts if one]
        names, held = chain.from_iterable(full), chain.from_iterable(map(_values, full))
        return cls(dicts, list(map(len, dicts)), full, [*names], [*held])

    def are_same(self) -> bool:
        """Return whether the dicts hold the very same objects under the same names."""
        return (
            list(map(len, self.dicts)) == self.lengths
            and [*chain.from_iterable(self.full)] == self.names
            and all(map(is_, chain.from_iterable(map(_values, self.full)), self.held))
        )


@dataclass(frozen=True, slots=True)
class _Module:
    """A module and its parts, what they are and what they hold."""

    parts: list[nn.Module]
    kinds: list[object]
    fields: list[object]
    contents: _Contents
    hooks: list[Mapping[int, Any]]
    unsaved: list[set[str]]
    names_unsaved: list[set[str]]
    parameters: list[nn.Parameter]
    trainable: list[bool]

    @classmethod
    def of(cls, module: nn.Module) -> Check | None:
        """Return a check of a module; None where its state is not simply what it holds."""
        parts = modules_in(module)
        if not all(keeps_to_custom(part) and _FIELDS.issubset(vars(part)) for part in parts):
            return None
        unsaved = [part._non_persistent_buffers_set for part in parts]
        parameters = [one for part in parts for one in part._parameters.values() if one is not None]
        return cls(
            parts,
            kinds=list(map(_kind, parts)),
            fields=[*_fields(parts)],
            contents=_Contents.of(
                holder for part in parts for holder in (part._parameters, part._buffers, part._modules)
            ),
            hooks=[hooks for part in parts for hooks in (part._state_dict_hooks, part._state_dict_pre_hooks)],
            unsaved=unsaved,
            names_unsaved=list(map(set, unsaved)),
            parameters=parameters,
            trainable=list(map(_is_trainable, parameters)),
        )

    def __call__(self) -> bool:
        return (
            list(map(_kind, self.parts)) == self.kinds
            and all(map(is_, _fields(self.parts), self.fields))
            and self.contents.are_same()
            and not any(self.hooks)
            and self.unsaved == self.names_unsaved
            and list(map(_is_trainable, self.parameters)) == self.trainable
        )


@dataclass(frozen=True, slots=True)
class _Optimizer:
    """An optimizer's groups and what it keeps for parameters, these, and the parameters in each group."""

    optimizer: Optimizer
    kind: type
    contents: _Contents
    keys: list[Tensor]
    parameters: list[list[Tensor]]

    @classmethod
    def of(cls, optimizer: Optimizer) -> Check | None:
        """Return a check of an optimizer; None where its state is not simply what it holds."""
        groups, state = optimizer.param_groups, optimizer.state
        dicts: list[Any] = [*groups, *state.values()]
        if (
            not _keeps_to_custom(optimizer)
            or not all(isinstance(key, Tensor) for key in state)
            or not all(type(one) is dict for one in dicts)
            or not all(type(group["params"]) is list for group in groups)
            or not all(name == "params" or _is_lasting(item) for one in dicts for name, item in one.items())
        ):
            return None
        parameters = [list(group["params"]) for group in groups]
        return cls(optimizer, type(optimizer), _Contents.of(dicts), list(state), parameters)

    def __call__(self) -> bool:
        groups, state = self.optimizer.param_groups, self.optimizer.state
        return (
            type(self.optimizer) is self.kind
            and _keeps_to_custom(self.optimizer)
            and _are_same([*groups, *state.values()], self.contents.dicts)
            and _are_same(state, self.keys)
            and self.contents.are_same()
            and all(map(_are_same, map(_parameters, groups), self.parameters))
        )


def _fields(parts: list[nn.Module]) -> Iterator[object]:
    """Yield all that the state of modules comes from, module by module."""
    return chain.from_iterable(map(_get_fields, map(vars, parts)))


def _keeps_to_custom(optimizer: Any) -> bool:
    """Return whether an optimizer's state is just its groups and entries, as torch takes it."""
    hooked = optimizer._optimizer_state_dict_pre_hooks or optimizer._optimizer_state_dict_post_hooks
    own = type(optimizer).state_dict is not Optimizer.state_dict or "state_dict" in vars(optimizer)
    return not hooked and not own


def _is_lasting(value: Any) -> bool:
    """Return whether a value's description stays the same as long as it is the same object."""
    kind = type(value)
    return kind in PLAIN or isinstance(value, Tensor) or (kind is tuple and is_plain(value))


def _are_same(now: Collection[object], then: Collection[object]) -> bool:
    """Return whether two collections hold the very same objects in the same order."""
    return len(now) == len(then) and all(map(is_, now, then))
