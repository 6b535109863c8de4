"""Values as data that ``torch.load(weights_only=True)`` reads back, and those values again.

Numbers, strings, tensors, lists, tuples and dicts stand for themselves. The rest (sets, arrays, random
generators, …) is a dict with the key `KIND`. Whatever comes back is a copy: it shares nothing with the data.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

KIND = "__hippo__"
PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size})
DICTS = (dict, OrderedDict)

Copy = Callable[[Tensor], Tensor]
GENERATORS: dict[type, str] = {
    random.Random: "random.Random",
    np.random.Generator: "numpy.random.Generator",
    np.random.RandomState: "numpy.random.RandomState",
    torch.Generator: "torch.Generator",
}


class Unsavable(Exception):
    """A value that has no place in a checkpoint; the message describes it."""


def encode(value: Any, copy: Copy) -> Any:
    """Return a value as data; raise `Unsavable` where it is not, or holds something that is not."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, Tensor) and not nn.parameter.is_lazy(value):
        return copy(value)
    if kind in DICTS:
        check_keys(value)
        return kind((key, encode(item, copy)) for key, item in value.items())
    if kind is list or kind is tuple:
        return (
            kind(value) if PLAIN.issuperset(map(type, value)) else kind(encode(item, copy) for item in value)
        )
    if kind is set or kind is frozenset:
        return {KIND: kind.__name__, "items": [encode(item, copy) for item in value]}
    if kind is deque:
        return {KIND: "deque", "items": [encode(item, copy) for item in value], "length": value.maxlen}
    if isinstance(value, (np.ndarray, np.generic)):
        return {KIND: "array" if kind is np.ndarray else "scalar", "value": _array(value)}
    if kind in GENERATORS:
        return {KIND: "generator", "class": GENERATORS[kind], "state": encode(_generator_state(value), copy)}
    raise Unsavable(f"{_shortened(value)} ({kind.__module__}.{kind.__qualname__})")


def decode(data: Any) -> Any:
    """Return the value that `encode` made `data` from."""
    kind = type(data)
    if isinstance(data, Tensor):
        return data.clone()
    if kind is list or kind is tuple:
        return kind(data) if PLAIN.issuperset(map(type, data)) else kind(map(decode, data))
    if kind not in DICTS:
        return data
    match data.get(KIND):
        case None:
            return kind((key, decode(item)) for key, item in data.items())
        case "set":
            return set(map(decode, data["items"]))
        case "frozenset":
            return frozenset(map(decode, data["items"]))
        case "deque":
            return deque(map(decode, data["items"]), data["length"])
        case "array":
            return data["value"].numpy().copy()
        case "scalar":
            return data["value"].numpy()[()]
        case "generator":
            return _new_generator(data["class"], decode(data["state"]))
        case other:
            raise Unsavable(f"something of the unknown kind {other!r}")


def check_keys(value: dict[Any, Any]) -> None:
    """Raise `Unsavable` where a dict's keys are not plain."""
    for key in value:
        if (
            not (type(key) in PLAIN or (type(key) is tuple and PLAIN.issuperset(map(type, key))))
            or key == KIND
        ):
            raise Unsavable(f"a dict with the key {_shortened(key)} ({type(key).__qualname__})")


def same(one: Any, other: Any) -> bool:
    """Return whether two pieces of data are equal; what holds NaN is not equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if isinstance(one, (list, tuple)):
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
        return torch.from_numpy(np.array(value))
    except (TypeError, ValueError) as error:
        raise Unsavable(f"an array of {value.dtype}") from error


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
