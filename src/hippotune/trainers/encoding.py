"""Values as data, and those values again. Data is what JSON can hold, with tensors in it.

None, booleans, numbers, strings, lists, and dicts with strings for keys stand for themselves; the rest
(tuples, sets, arrays, random generators, …) is a dict with the key `KIND`. Whatever comes back is a copy: it
shares nothing with the data.
"""

from __future__ import annotations

import base64
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hippotune.errors import CheckpointError

KIND = "__hippo__"
REFERENCE = "__tensor__"  # stands for a tensor where data is written out
PLAIN = frozenset({type(None), bool, int, float, str})
_STRINGS = frozenset({str})
SEQUENCES: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
DICTS: dict[str, type[dict[Any, Any]]] = {"dict": dict, "OrderedDict": OrderedDict}
GENERATORS: dict[type, str] = {
    random.Random: "random.Random",
    np.random.Generator: "numpy.random.Generator",
    np.random.RandomState: "numpy.random.RandomState",
    torch.Generator: "torch.Generator",
}

Copy = Callable[[Tensor], Any]  # a copy, or what stands for one


class Unsavable(Exception):
    """A value that has no place in a checkpoint; the message describes it."""


def encode(value: Any, copy: Copy) -> Any:
    """Return a value as data; raise `Unsavable` where it is not, or holds something that is not."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, Tensor):
        return copy(value)
    if kind is list:
        return _encode_items(value, copy)
    if kind is dict or kind is OrderedDict:
        return _encode_dict(value, copy)
    if kind.__name__ in SEQUENCES and SEQUENCES[kind.__name__] is kind:
        return {KIND: kind.__name__, "items": _encode_items(value, copy)}
    if kind is deque:
        return {KIND: "deque", "items": _encode_items(value, copy), "length": value.maxlen}
    if isinstance(value, (np.ndarray, np.generic)):
        return {KIND: "array" if kind is np.ndarray else "scalar", "value": copy(_array(value))}
    if kind in GENERATORS:
        return {KIND: "generator", "class": GENERATORS[kind], "state": encode(_generator_state(value), copy)}
    return _encode_rare(value)


def _encode_items(items: Collection[Any], copy: Copy) -> list[Any]:
    return list(items) if is_plain(items) else [encode(item, copy) for item in items]


def _encode_rare(value: Any) -> dict[str, Any]:
    match value:
        case complex():
            return {KIND: "complex", "value": [value.real, value.imag]}
        case bytes():
            return {KIND: "bytes", "value": base64.b64encode(value).decode()}
        case torch.dtype():
            return {KIND: "dtype", "value": str(value).removeprefix("torch.")}
        case torch.device():
            return {KIND: "device", "value": str(value)}
        case torch.Size():
            return {KIND: "size", "value": list(value)}
    kind = type(value)
    raise Unsavable(f"{_shortened(value)} ({kind.__module__}.{kind.__qualname__})")


def decode(data: Any) -> Any:
    """Return the value that `encode` made `data` from."""
    if isinstance(data, Tensor):
        return data.clone()
    if isinstance(data, list):
        return list(_decode_items(data))
    if not isinstance(data, dict):
        return data
    kind = data.get(KIND)
    if kind is None:
        return {key: decode(item) for key, item in data.items()}
    if kind in DICTS:
        return DICTS[kind]((decode(key), decode(item)) for key, item in data["items"])
    if kind in SEQUENCES:
        return SEQUENCES[kind](_decode_items(data["items"]))
    match kind:
        case "deque":
            return deque(_decode_items(data["items"]), data["length"])
        case "array":
            return data["value"].numpy().copy()
        case "scalar":
            return data["value"].numpy()[()]
        case "generator":
            return _new_generator(data["class"], decode(data["state"]))
        case "complex":
            return complex(*data["value"])
        case "bytes":
            return base64.b64decode(data["value"])
        case "dtype":
            return getattr(torch, data["value"])
        case "device":
            return torch.device(data["value"])
        case "size":
            return torch.Size(data["value"])
    raise CheckpointError(f"a checkpoint holds something of the kind {kind!r}, which is not known here")


def _decode_items(items: list[Any]) -> Iterable[Any]:
    return items if is_plain(items) else map(decode, items)


def is_plain(items: Collection[Any]) -> bool:
    """Return whether there is nothing but plain values in a collection."""
    return PLAIN.issuperset(map(type, items))


def encode_dict(value: dict[Any, Any], encode_item: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Return a dict as data, given how its items are encoded."""
    if _is_simple(value):
        return {key: encode_item(key, item) for key, item in value.items()}
    items = [[_encode_key(key), encode_item(key, item)] for key, item in value.items()]
    return {KIND: type(value).__name__, "items": items}


def _encode_dict(value: dict[Any, Any], copy: Copy) -> dict[str, Any]:
    if _is_simple(value):
        return {key: item if type(item) in PLAIN else encode(item, copy) for key, item in value.items()}
    items = [[_encode_key(key), encode(item, copy)] for key, item in value.items()]
    return {KIND: type(value).__name__, "items": items}


def is_plain_dict(value: Any) -> bool:
    """Return whether a value stands for itself: a dict with strings for keys and nothing but plain values."""
    return type(value) is dict and is_plain(value.values()) and _is_simple(value)


def _is_simple(value: dict[Any, Any]) -> bool:
    """Return whether a dict can stand for itself."""
    is_named = type(value) is dict and _STRINGS.issuperset(map(type, value))
    return is_named and KIND not in value and REFERENCE not in value


def _encode_key(key: Any) -> Any:
    if type(key) in PLAIN:
        return key
    if type(key) is tuple and PLAIN.issuperset(map(type, key)):
        return {KIND: "tuple", "items": list(key)}
    raise Unsavable(f"a dict with the key {_shortened(key)} ({type(key).__qualname__})")


def same(one: Any, other: Any) -> bool:
    """Return whether two pieces of data are equal; what holds NaN is not equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def set_generator_state(generator: Any, state: Any) -> None:
    """Put a random generator into a state that was taken from one of its class."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.get_state()


def _new_generator(kind: str, state: Any) -> Any:
    generator: Any
    match kind:
        case "random.Random":
            generator = random.Random()
        case "numpy.random.RandomState":
            generator = np.random.RandomState(getattr(np.random, state["bit_generator"])())
        case "numpy.random.Generator":
            generator = np.random.Generator(getattr(np.random, state["bit_generator"])())
        case _:
            generator = torch.Generator()
    set_generator_state(generator, state)
    return generator


def _array(value: np.ndarray[Any, Any] | np.generic) -> Tensor:
    try:
        return torch.from_numpy(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise Unsavable(f"an array of {value.dtype}") from error


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
