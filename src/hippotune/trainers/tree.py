"""Attributes as data, and back, with the lists, tuples and dicts that hold them.

In the data that an `Encoder` makes, beyond the kinds of `hippotune.trainers.encoding`:

    state    what an object with state_dict() keeps; put back into the object that is there
    tensor   a tensor that needs more said of it: to be filled in place, on a device, with a gradient
    made     nothing: the object that is there is the right one
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hippotune.errors import CheckpointError, TrainerError
from hippotune.trainers.encoding import (
    DICTS,
    GENERATORS,
    KIND,
    PLAIN,
    Copy,
    Unsavable,
    decode,
    encode,
    encode_dict,
    is_plain,
    set_generator_state,
)
from hippotune.trainers.stateful import is_stateful, modules_in, put_state, state_of

MISSING = object()


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield, with their names, the values below `value` that are not plain and not a list, tuple or dict."""
    kind = type(value)
    if kind is list or kind is tuple:
        if not is_plain(value):
            for index, item in enumerate(value):
                yield from leaves(item, f"{name}[{index}]")
    elif kind is dict or kind is OrderedDict:
        for key, item in value.items():
            yield from leaves(item, f"{name}[{key!r}]")
    elif kind not in PLAIN:
        yield name, value


class Encoder:
    """One pass over attributes.

    Parameters
    ----------
    copy
        How a tensor is copied.
    was_made
        Whether an object was made by build() or setup(), so that one like it is there when it is put back.
    is_constant
        Whether an object that build() made is still as it was then, and need not be saved.

    Attributes
    ----------
    relied_on : list[tuple[str, object]]
        Names and objects that have to be there, as they are or to take their state, when data is put back.
    """

    def __init__(
        self, copy: Copy, was_made: Callable[[object], bool], is_constant: Callable[[object], bool]
    ) -> None:
        self.relied_on: list[tuple[str, object]] = []
        self._copy = copy
        self._was_made = was_made
        self._is_constant = is_constant
        self._met: set[int] = set()

    def encode_all(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes as data."""
        return {name: self.encode(value, name) for name, value in attributes.items()}

    def encode(self, value: Any, name: str) -> Any:
        """Return one attribute as data."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if self._is_constant(value):
            return {KIND: "made"}
        try:
            if kind is list or kind is tuple:
                items = self._encode_items(value, name)
                return items if kind is list else {KIND: "tuple", "items": items}
            if kind is dict or kind is OrderedDict:
                return encode_dict(value, lambda key, item: self.encode(item, f"{name}[{key!r}]"))
            if is_stateful(value):
                return self._encode_stateful(value, name)
            data = encode(value, self._copy)
        except Unsavable:
            self.relied_on.append((name, value))
            return {KIND: "made"}
        return self._marked(value, data)

    def _encode_items(self, items: Collection[Any], name: str) -> list[Any]:
        if is_plain(items):
            return list(items)
        return [self.encode(item, f"{name}[{index}]") for index, item in enumerate(items)]

    def _marked(self, value: Any, data: Any) -> Any:
        """Say of a tensor or an array how it is put back, where that is not simply by a new one."""
        marks: dict[str, Any] = {}
        if isinstance(value, (Tensor, np.ndarray)) and self._was_made(value):
            marks["in_place"] = True
        if not isinstance(value, Tensor):
            return data | marks if marks else data
        if value.requires_grad:
            marks["requires_grad"] = True
        if value.device.type != "cpu":
            marks["device"] = str(value.device)
        return {KIND: "tensor", "value": data, **marks} if marks else data

    def has_met(self, value: object) -> bool:
        """Return whether the state of an object is there already, also as a part of a module."""
        return id(value) in self._met

    def rely_on(self, name: str, value: object, parts: Iterable[int]) -> None:
        """Take it that the state of an object is there, and with it that of parts with these ids."""
        self.relied_on.append((name, value))
        self._met.add(id(value))
        self._met.update(parts)

    def _encode_stateful(self, value: Any, name: str) -> Any:
        is_there = self.has_met(value)
        self.rely_on(name, value, map(id, modules_in(value)))
        if is_there:
            return {KIND: "made"}
        try:
            return {KIND: "state", "value": state_of(value, self._copy)}
        except Unsavable as error:
            raise TrainerError(
                f"the state_dict() of self.{name} ({type(value).__name__}) holds {error}, which cannot "
                "be saved; expected numbers, strings, tensors, arrays and lists, tuples, dicts, sets of these"
            ) from error


def put(data: Any, present: Any, name: str) -> Any:
    """Return what an attribute is to be: `present`, with `data` put back into it, or something new."""
    if isinstance(data, list):
        return _put_list(data, present, name)
    if not isinstance(data, dict):
        return decode(data)
    kind = data.get(KIND)
    if kind is None:
        return _put_dict(dict, list(data.items()), present, name)
    if kind in DICTS:
        return _put_dict(DICTS[kind], [(decode(key), item) for key, item in data["items"]], present, name)
    if kind == "tuple":
        there = list(present) if type(present) is tuple else []
        return tuple(_put_list(data["items"], there, name))
    return _put_kind(kind, data, present, name)


def _put_list(items: list[Any], present: Any, name: str) -> list[Any]:
    there = present if type(present) is list else []
    there[:] = [
        put(item, there[index] if index < len(there) else MISSING, f"{name}[{index}]")
        for index, item in enumerate(items)
    ]
    return there


def _put_dict(kind: type[dict[Any, Any]], items: list[tuple[Any, Any]], present: Any, name: str) -> Any:
    there = present if type(present) is kind else kind()
    new = {key: put(item, there.get(key, MISSING), f"{name}[{key!r}]") for key, item in items}
    there.clear()
    there.update(new)
    return there


def _put_kind(kind: str, data: dict[str, Any], present: Any, name: str) -> Any:
    match kind:
        case "made":
            _check_there(present, name)
            return present
        case "state":
            _check_there(present, name)
            if not is_stateful(present):
                raise CheckpointError(
                    f"self.{name} is {present!r}, which cannot take back the state of an object"
                )
            put_state(present, data["value"], name)
            return present
        case "tensor":
            return _put_tensor(data, present)
        case "array":
            value = decode(data)
            if data.get("in_place") and type(present) is np.ndarray and _fits(present, value):
                present[...] = value
                return present
            return value
        case "generator" if GENERATORS.get(type(present)) == data["class"]:
            set_generator_state(present, decode(data["state"]))
            return present
    return decode(data)


def _put_tensor(data: Mapping[str, Any], present: Any) -> Tensor:
    value: Tensor = data["value"]
    if data.get("in_place") and isinstance(present, Tensor) and _fits(present, value):
        with torch.no_grad():
            present.copy_(value)
        return present.requires_grad_(data.get("requires_grad", False)) if present.is_leaf else present
    return value.to(_device_there(data.get("device", "cpu")), copy=True).requires_grad_(
        data.get("requires_grad", False)
    )


def _fits(present: Any, value: Any) -> bool:
    return bool(present.shape == value.shape and present.dtype == value.dtype)


def _device_there(name: str) -> str:
    """Return a device that exists: the CPU takes over for a GPU that is not there."""
    return name if not name.startswith("cuda") or torch.cuda.is_available() else "cpu"


def _check_there(present: object, name: str) -> None:
    if present is MISSING:
        raise TrainerError(
            f"self.{name} was there when the state was saved, but build() and setup() do not make it: "
            "setup() has to make it from the values that it is given, whatever was in force before"
        )
