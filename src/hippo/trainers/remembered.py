"""Modules and optimizers as they were when they were last saved.

From one checkpoint to the next hardly anything but numbers in tensors changes: names, shapes and settings
stay, and so does all that a checkpoint says of them. Looking whether something is as it was takes a fraction
of the time of describing it anew.

What is looked at is everything that a description comes from. Objects that anybody could change unnoticed,
such as a list among an optimizer's settings, are not remembered at all. Nor are large ones: copying them
takes so long that describing them does not matter, and what is remembered stays in memory, even if replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from hippo.trainers.encoding import PLAIN, is_plain
from hippo.trainers.packing import Mark, Packer, Taken, Text
from hippo.trainers.stateful import keeps_to_custom, modules_in

Check = Callable[[], bool]

# What has changed so often in a row will change again.
_MOST_CHANGES = 3
_MOST_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Known:
    """What was written of an object, and the tensors that it refers to, numbered from `start` on.

    `parts` are the ids of the modules that it is made of.
    """

    value: object
    parts: frozenset[int]
    text: Text
    start: int
    tensors: Taken
    is_unchanged: Check


class Memory:
    """What was written of attributes, by their names."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._changes: Counter[str] = Counter()

    def recall(self, name: str, value: nn.Module | Optimizer, packer: Packer) -> Known | None:
        """Have a packer take an object's tensors, and return what else is known of it, if anything is."""
        known = self._known.get(name)
        if known is None or known.value is not value:
            return None
        if known.start == packer.mark[0] and known.is_unchanged() and packer.take_again(known.tensors):
            self._changes[name] = 0
            return known
        self._changes[name] += 1
        return None

    def remember(
        self, name: str, value: nn.Module | Optimizer, data: Any, packer: Packer, mark: Mark
    ) -> Text | None:
        """Return data as it is written, and remember it if that can be of use; otherwise None.

        It describes an object all of whose tensors a packer has taken since a mark.
        """
        self._known.pop(name, None)
        if self._changes[name] >= _MOST_CHANGES:
            return None
        tensors = packer.taken_since(mark)
        if tensors is None or tensors.bytes > _MOST_BYTES or (check := _check_of(value)) is None:
            return None
        parts = frozenset(map(id, modules_in(value)))
        known = self._known[name] = Known(value, parts, Text.of(data), mark[0], tensors, check)
        return known.text

    def forget_all_but(self, names: Container[str]) -> None:
        """Hold on to nothing of other names."""
        for name in [name for name in self._known if name not in names]:
            del self._known[name]


def _check_of(value: nn.Module | Optimizer) -> Check | None:
    """Return what says whether an object's description is still the same; None where nothing can."""
    return _Module.of(value) if isinstance(value, nn.Module) else _Optimizer.of(value)


@dataclass(frozen=True, slots=True)
class _Module:
    """A module and its parts, and all that they hold, end to end."""

    parts: list[nn.Module]
    kinds: list[type]
    versions: list[int]
    modes: list[bool]
    unsaved: list[frozenset[str]]
    lengths: list[int]
    names: list[str]
    held: list[Any]
    parameters: list[nn.Parameter]
    trainable: list[bool]

    @classmethod
    def of(cls, module: nn.Module) -> Check | None:
        parts = modules_in(module)
        if not all(map(keeps_to_custom, parts)):
            return None
        holders = _holders(parts)
        parameters = [one for part in parts for one in part._parameters.values() if one is not None]
        return cls(
            parts,
            kinds=list(map(type, parts)),
            versions=_versions(parts),
            modes=_modes(parts),
            unsaved=[frozenset(part._non_persistent_buffers_set) for part in parts],
            lengths=list(map(len, holders)),
            names=[*chain.from_iterable(holders)],
            held=_held(holders),
            parameters=parameters,
            trainable=_trainable(parameters),
        )

    def __call__(self) -> bool:
        parts = self.parts
        holders = _holders(parts)
        return (
            list(map(type, parts)) == self.kinds
            and _versions(parts) == self.versions
            and _modes(parts) == self.modes
            and not any(part._state_dict_hooks or part._state_dict_pre_hooks for part in parts)
            and list(map(len, holders)) == self.lengths
            and [*chain.from_iterable(holders)] == self.names
            and all(map(is_, _held(holders), self.held))
            and [part._non_persistent_buffers_set for part in parts] == self.unsaved
            and _trainable(self.parameters) == self.trainable
        )


@dataclass(frozen=True, slots=True)
class _Optimizer:
    """An optimizer's groups without their parameters, these, and what is kept for each of them."""

    optimizer: Optimizer
    kind: type
    groups: list[dict[str, Any]]
    parameters: list[list[Tensor]]
    keys: list[Tensor]
    entries: list[dict[str, Any]]

    @classmethod
    def of(cls, optimizer: Optimizer) -> Check | None:
        groups = [_without_parameters(group) for group in optimizer.param_groups]
        entries: list[Any] = list(optimizer.state.values())
        if (
            not _keeps_to_custom(optimizer)
            or not all(isinstance(key, Tensor) for key in optimizer.state)
            or not all(type(entry) is dict for entry in entries)
            or not all(_is_lasting(item) for part in (*groups, *entries) for item in part.values())
        ):
            return None
        parameters = [list(group["params"]) for group in optimizer.param_groups]
        return cls(
            optimizer, type(optimizer), groups, parameters, list(optimizer.state), list(map(dict, entries))
        )

    def __call__(self) -> bool:
        groups, state = self.optimizer.param_groups, self.optimizer.state
        return (
            len(groups) == len(self.groups)
            and all(map(_is_group_same, groups, self.groups, self.parameters))
            and len(state) == len(self.keys)
            and all(map(is_, state, self.keys))
            and all(map(_are_same, state.values(), self.entries))
            and type(self.optimizer) is self.kind
            and _keeps_to_custom(self.optimizer)
        )


def _is_group_same(now: dict[str, Any], then: dict[str, Any], parameters: list[Tensor]) -> bool:
    held = now["params"]
    is_held = len(held) == len(parameters) and all(map(is_, held, parameters))
    return is_held and _are_same(_without_parameters(now), then)


def _without_parameters(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _keeps_to_custom(optimizer: Any) -> bool:
    """Return whether an optimizer's state is just its groups and entries, as torch takes it."""
    hooked = optimizer._optimizer_state_dict_pre_hooks or optimizer._optimizer_state_dict_post_hooks
    own = type(optimizer).state_dict is not Optimizer.state_dict or "state_dict" in vars(optimizer)
    return not hooked and not own


def _is_lasting(value: Any) -> bool:
    """Return whether a value's description stays the same as long as it is the same object."""
    kind = type(value)
    return kind in PLAIN or isinstance(value, Tensor) or (kind is tuple and is_plain(value))


def _are_same(now: dict[str, Any], then: dict[str, Any]) -> bool:
    """Return whether two dicts hold the very same objects under the same names."""
    return now.keys() == then.keys() and all(map(is_, map(now.__getitem__, then), then.values()))


def _holders(parts: list[nn.Module]) -> list[dict[str, Any]]:
    return [holder for part in parts for holder in (part._parameters, part._buffers, part._modules)]


def _held(holders: list[dict[str, Any]]) -> list[Any]:
    return [value for holder in holders for value in holder.values()]


def _versions(parts: list[nn.Module]) -> list[int]:
    return [part._version for part in parts]


def _modes(parts: list[nn.Module]) -> list[bool]:
    return [part.training for part in parts]


def _trainable(parameters: list[nn.Parameter]) -> list[bool]:
    return [parameter.requires_grad for parameter in parameters]
