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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from pickle import PickleError
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hippotune.errors import CheckpointError
from hippotune.trainers.encoding import REFERENCE

_MARK = b"hippo 4\n"
_HEAD = struct.Struct("<8sQ")
_ALIGNMENT = 16  # the largest item: two double floats
_OTHERS = "others"  # what has no plain bytes, as torch.save writes it
_EXTRA = "extra"  # bytes that come along
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
_kind = attrgetter("dtype", "shape", "device")


def to_text(data: Any) -> bytes:
    """Return data as it is written."""
    return _to_json(data).encode()


def named(name: str, data: Any) -> bytes:
    """Return data under its name, as it is written."""
    return to_text({name: data})[1:-1]


@dataclass(frozen=True, slots=True)
class Taken:
    """Tensors that a packer can take again if nothing but the numbers in them has changed.

    `flats` are their bytes, where they lie: as long as that memory is held here, nobody else gets it.
    """

    tensors: list[Tensor]
    forms: list[_Form]
    flats: list[Tensor]
    kinds: list[object]
    addresses: list[int]
    on_gpu: bool

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return sum(map(len, self.flats))

    @classmethod
    def joined(cls, parts: Sequence[Taken]) -> Taken:
        """Return the tensors of several, in this order."""

        def end_to_end(lists: Iterable[list[Any]]) -> list[Any]:
            return [*chain.from_iterable(lists)]

        return cls(
            end_to_end(part.tensors for part in parts),
            end_to_end(part.forms for part in parts),
            end_to_end(part.flats for part in parts),
            end_to_end(part.kinds for part in parts),
            end_to_end(part.addresses for part in parts),
            any(part.on_gpu for part in parts),
        )

    def is_unchanged(self) -> bool:
        """Return whether all are as they were, but for the numbers in them."""
        tensors = self.tensors
        return (
            list(map(_kind, tensors)) == self.kinds
            and list(map(Tensor.data_ptr, tensors)) == self.addresses
            and all(map(Tensor.is_contiguous, tensors))
        )


@dataclass(frozen=True, slots=True)
class Packed:
    """A copy of a state in main memory, complete once `ready` has come to pass. Nobody changes it."""

    pieces: list[memoryview]
    ready: torch.cuda.Event | None

    @property
    def is_complete(self) -> bool:
        """Whether nothing is still on its way from a GPU."""
        return self.ready is None

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
        self._flats: list[Tensor] = []
        self._others: list[Tensor] = []
        self._copies = 0
        self._on_gpu = False

    @property
    def mark(self) -> Mark:
        """How many tensors are kept for the blocks, and how many of all cannot be taken again."""
        return len(self._tensors), self._copies

    def taken_since(self, mark: Mark) -> Taken | None:
        """Return the tensors taken since a mark; None where not all can be taken again."""
        start, copies = mark
        if self._copies > copies:
            return None
        tensors = self._tensors[start:]
        return Taken(
            tensors,
            self._forms[start:],
            self._flats[start:],
            kinds=list(map(_kind, tensors)),
            addresses=list(map(Tensor.data_ptr, tensors)),
            on_gpu=any(tensor.is_cuda for tensor in tensors),
        )

    def take_again(self, taken: Taken) -> bool:
        """Take tensors that were taken before; False where one has another form now."""
        if not taken.is_unchanged():
            return False
        self._tensors += taken.tensors
        self._forms += taken.forms
        self._flats += taken.flats
        self._on_gpu |= taken.on_gpu
        return True

    def __call__(self, tensor: Tensor) -> dict[str, Any]:
        """Take a tensor; it must not change before `pack` is called."""
        if tensor.layout is not torch.strided or tensor.is_quantized:
            self._others.append(tensor.detach().cpu().clone())
            self._copies += 1
            return {REFERENCE: -len(self._others)}
        strides, given = None, tensor
        tensor = tensor.resolve_conj().resolve_neg()
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
        self._flats.append(tensor.detach().view(-1).view(torch.uint8))
        if tensor is not given or tensor.is_complex():  # whether that is conjugate, its memory does not tell
            self._copies += 1
        return {REFERENCE: len(self._tensors) - 1}

    def pack(self, data: Iterable[bytes], extra: bytes) -> Packed:
        """Return data, item by item as `named` writes it, with copies of all tensors taken.

        Copies from a GPU may still be on their way.
        """
        layout = _layout(tuple(self._forms), len(extra))
        flats = [self._flats[index] for index in layout.order]
        return _packed(layout, flats, self._on_gpu, data, extra, self._others)


@dataclass(frozen=True, slots=True)
class Repacker:
    """Packs the same tensors again and again."""

    taken: Taken
    extra: int
    layout: _Layout
    flats: list[Tensor]

    @classmethod
    def of(cls, taken: Taken, extra: int) -> Repacker:
        """Make one for these tensors, where so many bytes come along."""
        layout = _layout(tuple(taken.forms), extra)
        return cls(taken, extra, layout, [taken.flats[index] for index in layout.order])

    def can_pack(self, extra: bytes) -> bool:
        """Return whether nothing but numbers has changed."""
        return len(extra) == self.extra and self.taken.is_unchanged()

    def pack(self, data: Iterable[bytes], extra: bytes) -> Packed:
        """Do the same as a packer would do that had taken the tensors."""
        return _packed(self.layout, self.flats, self.taken.on_gpu, data, extra, [])


def _packed(
    layout: _Layout,
    flats: list[Tensor],
    on_gpu: bool,
    data: Iterable[bytes],
    extra: bytes,
    others: list[Tensor],
) -> Packed:
    block = _joined_from_gpu(flats) if on_gpu else _joined(flats)
    ready = torch.cuda.Event() if on_gpu else None  # type: ignore[no-untyped-call]
    if ready is not None:
        ready.record()
    blocks, places = [block.numpy().data, memoryview(extra)], layout.text
    if others:
        blocks.append(_saved(others))
        places = layout.text_with(len(blocks[-1]))
    # Not left to whoever writes: a thread that computes takes more time from training than this takes.
    text = b"%b\n{%b}" % (places, b",".join(data))
    padding = b" " * (-len(text) % _ALIGNMENT)
    head = _HEAD.pack(_MARK, len(text) + len(padding))
    return Packed([memoryview(head + text + padding), *blocks], ready)


@dataclass(frozen=True, slots=True)
class _Layout:
    """In which order the bytes of tensors of given forms lie in a file, and the text that says so."""

    order: list[int]
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
    types = sorted(groups, key=lambda dtype: -dtype.itemsize)
    order = [index for dtype in types for index in groups[dtype]]
    lengths = {_name(dtype): items[dtype] * dtype.itemsize for dtype in types} | {_EXTRA: extra}
    written = _to_json(places)
    text = f"{_to_json(lengths)}\n{written}".encode()
    return _Layout(order, lengths, written, text)


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
        return found, blocks[_EXTRA].numpy().tobytes()
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


def _joined(flats: list[Tensor]) -> Tensor:
    return torch.cat(flats) if flats else torch.empty(0, dtype=torch.uint8)


def _joined_from_gpu(flats: list[Tensor]) -> Tensor:
    lengths = list(map(len, flats))
    joined = torch.empty(sum(lengths), dtype=torch.uint8, pin_memory=True)
    for target, flat in zip(torch.split(joined, lengths), flats, strict=True):
        target.copy_(flat, non_blocking=True)
    return joined


def _saved(others: list[Tensor]) -> memoryview:
    file = io.BytesIO()
    torch.save(others, file)
    return file.getbuffer()


def _loaded(block: Tensor) -> list[Tensor]:
    others: list[Tensor] = torch.load(io.BytesIO(block.numpy().data), weights_only=True)
    return others


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
