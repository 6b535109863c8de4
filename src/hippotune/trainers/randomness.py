"""The random generators that everybody shares: seeded, captured and put back together.

They are Python's ``random``, ``numpy.random`` and, where torch is loaded, torch's generators of the CPU and
of every device in use. Written out they are data alone. A device that was not in use is not captured: its
generator is as `seed_all` left it, and so it is again after seeding and restoring.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune.errors import CheckpointError

if TYPE_CHECKING:
    import torch

_NUMPY_SEEDS = 2**32
_MERSENNE_BYTES = 4 * (624 + 1)  # the words, and which of them is next
_LENGTH = struct.Struct("<Q")
_ARRAY = "bytes of an array"
_WORD = np.dtype(np.uint32).str
_to_json = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class RandomState:
    """The state of all shared generators at one moment; `torch` maps a device's name to its bytes."""

    python: tuple[Any, ...]
    numpy: dict[str, Any]
    torch: dict[str, torch.Tensor]

    def to_bytes(self) -> bytes:
        """Return the state as bytes: a length, so much JSON, and the arrays that it speaks of, end to end."""
        version, words, gauss = self.python
        numpy, arrays = _numpy.written(self.numpy)
        torch = [state.numpy().tobytes() for state in self.torch.values()]
        said = "null" if gauss is None else repr(gauss)
        head = _head(version, len(words), said, numpy, tuple(self.torch), *map(len, torch))
        return b"".join((head, struct.pack(f"={len(words)}I", *words), *arrays, *torch))

    @classmethod
    def from_bytes(cls, content: bytes) -> RandomState:
        """Return the state that `to_bytes` made `content` from; `CheckpointError` where it is not."""
        try:
            parts = _parts(content)
            python = parts["python"]
            words = tuple(python["words"].tolist())
            return cls((python["version"], words, python["gauss"]), parts["numpy"], _tensors(parts["torch"]))
        except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
            raise CheckpointError(f"a random state cannot be read: {error}") from error


class _Numpy:
    """NumPy's shared generator. To copy its state takes NumPy long, and most training never draws from it.

    So the state right after seeding is noted, and with it the memory that the generator keeps it in: as long
    as that is the same, nobody has drawn, and there is no normal number in store for the next draw either
    (whoever draws one moves the generator; only a state put together by hand could have both).
    """

    def __init__(self) -> None:
        self._generator: object = None
        self._address = 0
        self._memory: bytes | None = None
        self._noted: dict[str, Any] = {}
        self._noted_written: tuple[str, list[bytes]] = "", []

    def note(self) -> None:
        """Note the state, right after seeding."""
        generator = self._generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
        self._address = 0
        if type(generator) is np.random.MT19937:  # and nobody has chosen another
            self._address = generator.ctypes.state_address
            self._memory = self._present_memory()
            self._noted = np.random.get_state(legacy=False)
            self._noted_written = _written(self._noted)

    def state(self) -> dict[str, Any]:
        """Return the present state, for reading only."""
        is_same = np.random.get_bit_generator() is self._generator  # type: ignore[attr-defined]
        if is_same and self._address and self._present_memory() == self._memory:
            return self._noted
        return np.random.get_state(legacy=False)

    def written(self, state: dict[str, Any]) -> tuple[str, list[bytes]]:
        """Return a state as JSON, and the arrays that it speaks of."""
        return self._noted_written if state is self._noted else _written(state)

    def _present_memory(self) -> bytes:
        return ctypes.string_at(self._address, _MERSENNE_BYTES)


_numpy = _Numpy()


def seed_all(seed: int) -> None:
    """Seed every shared generator, those of devices included."""
    random.seed(seed)
    np.random.seed(seed % _NUMPY_SEEDS)
    _numpy.note()
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


def devices_in_use() -> tuple[str, ...]:
    """Return the names of all devices that torch has generators on which can be captured."""
    if (torch := sys.modules.get("torch")) is None:
        return ()
    if not torch.cuda.is_initialized():
        return _without_cuda()
    return "cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))


@cache
def _without_cuda() -> tuple[str, ...]:
    torch = sys.modules["torch"]
    return ("cpu", "mps") if torch.backends.mps.is_available() else ("cpu",)


def capture(devices: bool = True) -> RandomState:
    """Return the present state; without `devices`, of the generators on the CPU alone."""
    states: dict[str, torch.Tensor] = {}
    for name in devices_in_use() if devices else devices_in_use()[:1]:
        torch = sys.modules["torch"]
        if name == "cpu":
            states[name] = torch.get_rng_state()
        elif name == "mps":
            states[name] = torch.mps.get_rng_state()
        else:
            states[name] = torch.cuda.get_rng_state(name)
    return RandomState(random.getstate(), _numpy.state(), states)


def restore(state: RandomState) -> None:
    """Put captured generators back; a device that is not there any more is passed over."""
    random.setstate(state.python)
    np.random.set_state(state.numpy)
    if (torch := sys.modules.get("torch")) is None:
        return
    for name, words in state.torch.items():
        if name == "cpu":
            torch.set_rng_state(words)
        elif name == "mps":
            if torch.backends.mps.is_available():
                torch.mps.set_rng_state(words)
        elif int(name.removeprefix("cuda:")) < torch.cuda.device_count():
            torch.cuda.set_rng_state(words, name)


@contextmanager
def put_back(devices: bool = True, state: RandomState | None = None) -> Iterator[None]:
    """Put the generators back to where they are now, however the block ends. `state` is that, if known."""
    if state is None:
        state = capture(devices)
    try:
        yield
    finally:
        restore(state)


def read(path: Path) -> RandomState:
    """Return the state in a file; raise `CheckpointError` where it cannot be read."""
    try:
        return RandomState.from_bytes(path.read_bytes())
    except (OSError, CheckpointError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


@lru_cache(maxsize=4)  # it hardly ever changes
def _head(version: int, words: int, gauss: str, numpy: str, devices: tuple[str, ...], *lengths: int) -> bytes:
    python = f'{{"version":{version},"words":{_to_json(_stand_in(4 * words, _WORD))},"gauss":{gauss}}}'
    torch = _to_json({name: _stand_in(length, "|u1") for name, length in zip(devices, lengths, strict=True)})
    text = f'{{"python":{python},"numpy":{numpy},"torch":{torch}}}'.encode()
    return _LENGTH.pack(len(text)) + text


def _stand_in(length: int, kind: str) -> dict[str, Any]:
    return {_ARRAY: length, "type": kind}


def _written(state: dict[str, Any]) -> tuple[str, list[bytes]]:
    arrays: list[bytes] = []
    return _to_json(_apart(state, arrays)), arrays


def _apart(value: Any, arrays: list[bytes]) -> Any:
    """Return a value with what stands for the arrays in it, and append their bytes to `arrays`."""
    if isinstance(value, dict):
        return {name: _apart(part, arrays) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        arrays.append(value.tobytes())
        return _stand_in(len(arrays[-1]), value.dtype.str)
    return value


def _parts(content: bytes) -> dict[str, Any]:
    (length,) = _LENGTH.unpack_from(content)
    at = _LENGTH.size + length

    def take(item: dict[str, Any]) -> Any:
        nonlocal at
        if _ARRAY not in item:
            return item
        begin, at = at, at + item[_ARRAY]
        return np.frombuffer(content[begin:at], item["type"])

    parts: dict[str, Any] = json.loads(content[_LENGTH.size : at], object_hook=take)
    return parts


def _tensors(arrays: dict[str, Any]) -> dict[str, torch.Tensor]:
    torch = sys.modules.get("torch")
    if torch is None:  # nothing here draws from it
        return {}
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
