"""The random generators of a process: seeded, captured and put back together.

They are Python's ``random``, ``numpy.random`` and, where torch is loaded, torch's generators of the CPU and
of every device in use. One rule holds: all are seeded with the study's seed right before `prepare`, and with
the trial's right before `build`; from there on a trial draws from them in its own order, and a checkpoint
keeps them. The trial's seed is the hyper-parameter ``seed`` at its first step, or else the study's.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from hippotune import checks
from hippotune.errors import InvalidInput

_NUMPY_SEEDS = 2**32

T = TypeVar("T")

RandomState = dict[str, Any]
"""The state of all shared generators at one moment: plain values, and tensors of torch's."""


def checked(seed: object) -> int:
    """Return a seed that all generators take."""
    if (found := checks.whole("seed", seed, least=0)) >= 2**64:
        raise InvalidInput(f"seed is {seed!r}; expected a whole number below 2**64")
    return found


def of_trial(values: Mapping[str, Any], seed: int) -> int:
    """Return a trial's seed: the study's, unless its first `values` have one that all generators take."""
    own = values.get("seed")
    return own if isinstance(own, int) and 0 <= own < 2**64 else seed


def seed_all(seed: int) -> None:
    """Seed every shared generator, those of devices included."""
    random.seed(seed)
    np.random.seed(seed % _NUMPY_SEEDS)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


def with_torch_seeded(make: Callable[[], T]) -> T:
    """Return what a function makes; made once more where it has loaded torch, which was not there to seed."""
    had_torch = "torch" in sys.modules
    made = make()
    return make() if not had_torch and "torch" in sys.modules else made


def capture(devices: bool = True) -> RandomState:
    """Return the present state; without `devices`, of the generators on the CPU alone."""
    state: RandomState = {"python": random.getstate(), "numpy": _numpy_state()}
    if (torch := sys.modules.get("torch")) is not None:
        state["cpu"] = torch.get_rng_state()
        if devices and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
        if devices and torch.backends.mps.is_available():
            state["mps"] = torch.mps.get_rng_state()
    return state


def _numpy_state() -> dict[str, Any]:
    """Return the state of NumPy's generator, its words as a tuple: an array takes far longer to restore."""
    state = dict(np.random.get_state(legacy=False))
    inner = state["state"].items()
    state["state"] = {
        name: tuple(words.tolist()) if isinstance(words, np.ndarray) else words for name, words in inner
    }
    return state


def restore(state: RandomState) -> None:
    """Put captured generators back; a device that is not there any more is passed over."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    if (torch := sys.modules.get("torch")) is None or "cpu" not in state:
        return
    torch.set_rng_state(state["cpu"])
    for index, words in enumerate(state.get("cuda", ())):
        if index < torch.cuda.device_count():
            torch.cuda.set_rng_state(words, index)
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


def same(one: RandomState, other: RandomState) -> bool:
    """Return whether two states are the same."""
    return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "tobytes") or hasattr(one, "numpy"):
        return bool((one == other).all())
    return bool(one == other)


@contextmanager
def put_back(devices: bool = True) -> Iterator[None]:
    """Put the generators back to where they are now, however the block ends."""
    state = capture(devices)
    try:
        yield
    finally:
        restore(state)
