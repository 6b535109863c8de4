"""Data as a file's content, and back: a text and a few long rows of bytes.

Copied and written one by one, many small tensors cost time in which training cannot run. So all tensors of a
type lie end to end in one block, and the text, which is JSON, says where. Only data comes back, never code.

A file is, in this order:

    16 bytes   a mark with the version of the format, and the length of the text
    text       three lines of JSON: each block's length in bytes, by its name; what is known of each tensor,
               in the order in which the data refers to them; the data; then spaces to fill 16 bytes
    blocks     those of large items first, so that each begins at a multiple of its items' size; at the end
               what is kept as bytes
"""

from __future__ import annotations

import io
import json
import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pickle import PickleError
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors

from hippo.errors import CheckpointError
from hippo.trainers.encoding import REFERENCE

_MARK = b"hippo 4\n"
_HEAD = struct.Struct("<8sQ")
_ALIGNMENT = 16  # the largest item: two double floats
_OTHERS = "others"  # what has no plain bytes, as torch.save writes it
_EXTRA = "extra"  # bytes that come along
# Up to here one write of a copy is quicker than many writes: between two of them, training gets in the way.
_FEW_BYTES = 1 << 18
_READ_ERRORS = (
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    PickleError,
)
_to_json = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode

_Form = tuple[torch.dtype, torch.Size, tuple[int, ...] | None]  # with strides where it is not contiguous
Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Text:
    """Data as it is written."""

    json: bytes

    @classmethod
    def of(cls, data: Any) -> Text:
        """Write data."""
        return data if isinstance(data, Text) else cls(_to_json(data).encode())


@dataclass(frozen=True, slots=True)
class Taken:
    """Tensors that a packer can take again if their forms are what they were."""

    tensors: list[Tensor]
    forms: list[_Form]
    devices: list[torch.device]
    on_gpu: bool

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def is_unchanged(self) -> bool:
        """Return whether all are as they were, but for the numbers in them."""
        return (
            [(tensor.dtype, tensor.shape, None) for tensor in self.tensors] == self.forms
            and [tensor.device for tensor in self.tensors] == self.devices
            and all(map(Tensor.is_contiguous, self.tensors))
        )


@dataclass(frozen=True, slots=True)
class Packed:
    """A copy of a state in main memory, complete once `ready` has come to pass. Nobody changes it."""

    pieces: list[memoryview]
    ready: torch.cuda.Event | None

    def content(self) -> list[memoryview]:
        """Return the content of a file, in pieces."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.pieces


class Packer:
    """Takes tensors, for each of which it returns a reference to put in its place in the data."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._forms: list[_Form] = []
        self._others: list[Tensor] = []
        self._copies = 0
        self._on_gpu = False

    @property
    def mark(self) -> Mark:
        """How many tensors are kept for the blocks, and how many of all could only be kept as copies."""
        return len(self._tensors), self._copies

    def taken_since(self, mark: Mark) -> Taken | None:
        """Return the tensors taken since a mark; None where not all can be taken again."""
        start, copies = mark
        if self._copies > copies:
            return None
        tensors = self._tensors[start:]
        on_gpu = any(tensor.is_cuda for tensor in tensors)
        return Taken(tensors, self._forms[start:], [tensor.device for tensor in tensors], on_gpu)

    def take_again(self, taken: Taken) -> bool:
        """Take tensors that were taken before; False where one has another form now."""
        if not taken.is_unchanged():
            return False
        self._tensors += taken.tensors
        self._forms += taken.forms
        self._on_gpu |= taken.on_gpu
        return True

    def __call__(self, tensor: Tensor) -> dict[str, Any]:
        """Take a tensor; it must not change before `pack` is called."""
        if tensor.layout is not torch.strided or tensor.is_quantized:
            self._others.append(tensor.detach().cpu().clone())
            self._copies += 1
            return {REFERENCE: -len(self._others)}
        strides, given = None, tensor
        if not tensor.is_contiguous():
            dense = tensor.detach().clone()  # no gaps, and the order in memory stays
            strides = dense.stride()
        self._forms.append((tensor.dtype, tensor.shape, strides))
        if strides is not None:
            tensor = dense.as_strided((dense.numel(),), (1,))
        if not tensor.is_cpu:
            self._on_gpu |= tensor.is_cuda
            tensor = tensor if tensor.is_cuda else tensor.cpu()
        self._tensors.append(tensor)
        if tensor is not given:
            self._copies += 1
        return {REFERENCE: len(self._tensors) - 1}

    def pack(self, data: dict[str, Any], extra: bytes) -> Packed:
        """Return data with copies of all tensors taken; those from a GPU may still be on their way."""
        layout = _layout(tuple(self._forms), len(extra))
        join = _joined_from_gpu if self._on_gpu else _joined
        with torch.no_grad():
            blocks = [_bytes(join([self._tensors[index] for index in group])) for group in layout.groups]
        ready = torch.cuda.Event() if self._on_gpu else None  # type: ignore[no-untyped-call]
        if ready is not None:
            ready.record()
        blocks.append(memoryview(extra))
        head = layout.text
        if self._others:
            blocks.append(_saved(self._others))
            head = layout.text_with(len(blocks[-1]))
        # Not left to whoever writes: a thread that computes takes more time from training than this takes.
        items = [b"%b:%b" % (_to_json(name).encode(), Text.of(item).json) for name, item in data.items()]
        text = b"%b\n{%b}" % (head, b",".join(items))
        padding = b" " * (-len(text) % _ALIGNMENT)
        pieces = [memoryview(_HEAD.pack(_MARK, len(text) + len(padding)) + text + padding), *blocks]
        if ready is None and sum(map(len, pieces)) <= _FEW_BYTES:
            pieces = [memoryview(b"".join(pieces))]
        return Packed(pieces, ready)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How tensors of given forms lie in blocks: which of them in each, and the text that says so."""

    groups: list[list[int]]
    lengths: dict[str, int]
    places: str
    text: bytes

    def text_with(self, others: int) -> bytes:
        """Return the text where there is a block of others too, so many bytes long."""
        return f"{_to_json(self.lengths | {_OTHERS: others})}\n{self.places}".encode()


@lru_cache(maxsize=8)  # from one snapshot to the next, forms hardly ever change
def _layout(forms: tuple[_Form, ...], extra: int) -> _Layout:
    groups: dict[torch.dtype, list[int]] = {}
    items: dict[torch.dtype, int] = {}
    places = []
    for index, (dtype, shape, strides) in enumerate(forms):
        start = items.get(dtype, 0)
        groups.setdefault(dtype, []).append(index)
        items[dtype] = start + math.prod(shape)
        places.append([_name(dtype), start, shape, *([strides] if strides is not None else [])])
    order = sorted(groups, key=lambda dtype: -dtype.itemsize)
    lengths = {_name(dtype): items[dtype] * dtype.itemsize for dtype in order} | {_EXTRA: extra}
    written = _to_json(places)
    text = f"{_to_json(lengths)}\n{written}".encode()
    return _Layout([groups[dtype] for dtype in order], lengths, written, text)


def read(path: Path) -> tuple[Any, bytes]:
    """Return the data in a file, with the tensors that it refers to, and the bytes that came along."""
    try:
        content = np.fromfile(path, np.uint8)
        head = content[: _HEAD.size].tobytes()
        if not head.startswith(_MARK):
            raise CheckpointError(f"{path} is not a checkpoint of a TorchTrainer of this version")
        start = _HEAD.size + _HEAD.unpack(head)[1]
        lengths, places, data = content[_HEAD.size : start].tobytes().split(b"\n")
        blocks = _blocks(torch.from_numpy(content), start, json.loads(lengths))
        tensors = [_cut(blocks[name], *place) for name, *place in json.loads(places)]
        tensors += reversed(_loaded(blocks[_OTHERS]) if _OTHERS in blocks else [])  # counted from the end
        found = json.loads(
            data, object_hook=lambda item: tensors[item[REFERENCE]] if REFERENCE in item else item
        )
        return found, bytes(_bytes(blocks[_EXTRA]))
    except _READ_ERRORS as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error


def _blocks(content: Tensor, start: int, lengths: dict[str, int]) -> dict[str, Tensor]:
    end = start + sum(lengths.values())
    if end != len(content):
        raise ValueError(f"it has {len(content)} bytes, and should have {end}")
    blocks = {}
    for name, length in lengths.items():
        block = content[start : start + length]
        blocks[name] = block if name in (_OTHERS, _EXTRA) else block.view(getattr(torch, name))
        start += length
    return blocks


def _cut(block: Tensor, start: int, shape: list[int], strides: list[int] | None = None) -> Tensor:
    piece = block[start : start + math.prod(shape)]
    return piece.view(shape) if strides is None else piece.as_strided(shape, strides)


def _joined(parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:  # torch would hand back the very memory
        return parts[0].reshape(-1).clone()
    joined: Tensor = _flatten_dense_tensors(parts)  # type: ignore[no-untyped-call]
    return joined


def _joined_from_gpu(parts: list[Tensor]) -> Tensor:
    lengths = [part.numel() for part in parts]
    joined = torch.empty(sum(lengths), dtype=parts[0].dtype, pin_memory=True)
    for target, part in zip(torch.split(joined, lengths), parts, strict=True):
        target.copy_(part.view(-1), non_blocking=True)
    return joined


def _bytes(block: Tensor) -> memoryview:
    return block.view(torch.uint8).numpy().data


def _saved(others: list[Tensor]) -> memoryview:
    file = io.BytesIO()
    torch.save(others, file)
    return file.getbuffer()


def _loaded(block: Tensor) -> list[Tensor]:
    others: list[Tensor] = torch.load(io.BytesIO(_bytes(block)), weights_only=True)
    return others


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
