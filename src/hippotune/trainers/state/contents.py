"""Values that hold bits and no objects: numbers, texts, arrays and tensors, each as a digest and few words.

NaN is the same as the same NaN; 0.0 and -0.0 differ. Floats have samples beside the digest, for messages and
for telling how far two of them are apart.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from hippotune.protocol.fingerprint import Kind, sample_place
from hippotune.trainers.state import walk

Array = np.ndarray[Any, Any]

_NUMBERS = (bool, int, float, complex, Decimal, Fraction, np.generic, timedelta)
_BY_REPR = (
    *(str, bytes, bytearray, int, float, complex, PurePath, Enum, Decimal, Fraction, date, time, timedelta),
    *(tzinfo, np.dtype),
)
_OF_TORCH = ("dtype", "device", "layout", "memory_format")
_ELEMENTS = 16
_BLOCKS = 8
_LONG = 32


class Content(NamedTuple):
    """What a leaf has beside its path, kind and text; see `Leaf`."""

    digest: str
    shape: tuple[int, ...] = ()
    samples: tuple[float, ...] = ()
    elements: int = 0
    scale: float = 0.0


Described = tuple[Kind, str, Content]


def digest(content: Any) -> str:
    """Return a digest of bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def plain(value: Any) -> Described | None:
    """Return what a plain value is, or a long row of plain values; None for anything else."""
    kind = type(value)
    if kind in walk.ATOMS:
        return _atom(value)
    if kind in (list, tuple, deque) and len(value) > _LONG:
        return _row(value)
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        _, _, content = _array(np.asarray(value))
        content = content._replace(digest=digest(f"{kind.__qualname__}{content.digest}".encode()))
        return "number", walk.short(value), content
    return None


def _atom(value: Any) -> Described:
    if type(value) is float:
        return "number", repr(value), _floats(np.array(value), "float")
    return _kind(value), _short(value), Content(_digest_of_repr(value))


def _kind(value: Any) -> Kind:
    if isinstance(value, (bytes, bytearray)) and len(value) > _LONG:
        return "array"  # a model that a library has written, rather than a name
    return "number" if isinstance(value, _NUMBERS) else "text"


def _short(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)) and len(value) > _LONG:
        return f"{len(value):,} bytes"
    return walk.short(value)


def by_repr(value: Any) -> Described | None:
    """Return what an object is that its repr says all of: a path, a date, a number of another class."""
    if any(walk.is_torch(value, name) for name in _OF_TORCH):
        return "text", str(value), Content(digest(str(value).encode()))
    if not isinstance(value, _BY_REPR):
        return None
    if isinstance(value, Enum) and value._name_ is not None:  # its value may have an address in its repr
        text = f"{type(value).__qualname__}.{value._name_}"
        return _kind(value), text, Content(digest(text.encode()))
    bases: tuple[Any, ...] = (str, bytes, bytearray, int, float, complex)
    for base in bases:
        if isinstance(value, base) and not isinstance(value, Enum):  # and not by what a subclass writes
            value, text = base(value), _short(value)
            break
    else:
        text = walk.short(value)
    return _kind(value), text, Content(_digest_of_repr(value))


def _digest_of_repr(value: Any) -> str:
    return digest(f"{type(value).__qualname__} {value!r}".encode("utf-8", "surrogatepass"))


def _row(values: Any) -> Described | None:
    kinds = set(map(type, values))
    if not kinds <= walk.ATOMS:
        return None
    name = type(values).__name__
    text = f"a {name} of {len(values):,} items"
    if kinds == {float}:
        return "number", text, _floats(np.array(values), name)
    kind: Kind = "number" if all(issubclass(it, _NUMBERS) for it in kinds) else "text"
    return kind, text, Content(_digest_of_repr(values), (len(values),))


def array(value: Any) -> Described | None:
    """Return what an array or a tensor is; None for anything else, and for one that holds objects."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _array(value)
    return _tensor(value) if walk.is_tensor(value) else None


def _array(value: Array) -> Described:
    strides = _strides(value.strides, value.shape)
    text = f"an array of {value.dtype} with shape {value.shape}"
    if strides != _strides(np.empty(value.shape, np.int8).strides, value.shape, value.itemsize):
        text += f", strides {strides}"
    if not value.flags.writeable:
        text += ", read-only"
    if value.dtype.names is None:
        return "array", text, _bits(np.ascontiguousarray(value), text)
    fields = "".join(_array(value[name])[2].digest for name in value.dtype.names)  # not what is between them
    return "array", text, Content(digest(f"{text} {fields}".encode()), value.shape)


def _strides(strides: tuple[int, ...], shape: tuple[int, ...], size: int = 1) -> tuple[int, ...]:
    """Return the strides that mean something: those of dimensions with several places."""
    if 0 in shape:
        return ()
    return tuple(stride * size for stride, length in zip(strides, shape, strict=True) if length > 1)


def _tensor(tensor: Any) -> Described:
    torch = sys.modules["torch"]
    if tensor.is_nested:  # its parts follow
        text = f"a nested tensor of {tensor.dtype}"
        return "array", text, Content(digest(text.encode()))
    text = f"a tensor of {tensor.dtype} with shape {tuple(tensor.shape)}"
    for said, is_so in (
        (f"on {tensor.device.type}", tensor.device.type != "cpu"),
        ("requires_grad", tensor.requires_grad),
        ("computed from others", not tensor.is_leaf),
        (str(tensor.layout), tensor.layout is not torch.strided),
    ):
        text += f", {said}" if is_so else ""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return "array", text, Content(digest(text.encode()), tuple(tensor.shape))
    strides = _strides(tensor.stride(), tuple(tensor.shape))
    if strides != _strides(torch.empty(tensor.shape, device="meta").stride(), tuple(tensor.shape)):
        text += f", strides {strides}"
    with torch.no_grad():
        held = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        flat = held.reshape(-1)
        content: Array = (flat.float() if flat.dtype in _small_floats() else flat.view(torch.uint8)).numpy()
        if flat.dtype in (torch.float32, torch.float64):
            content = flat.numpy()
    return "array", text, _bits(content.reshape(-1), text, tuple(tensor.shape))


def _small_floats() -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    return torch.float16, torch.bfloat16


def _bits(content: Array, text: str, shape: tuple[int, ...] | None = None) -> Content:
    shape = content.shape if shape is None else shape
    if content.dtype.kind == "f":
        return _floats(content, text, shape)
    return Content(_digest_of_bytes(content, text), shape)


def _digest_of_bytes(content: Array, text: str) -> str:
    found = hashlib.blake2b(text.encode(), digest_size=8)
    if content.nbytes:
        found.update(content.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _floats(content: Array, text: str, shape: tuple[int, ...] | None = None) -> Content:
    shape = content.shape if shape is None else shape
    found = _digest_of_bytes(content, text)
    flat = content.reshape(-1)
    if not flat.size:
        return Content(found, shape)
    count = min(flat.size, _ELEMENTS)
    elements = [float(flat[sample_place(flat.size, index, count)]) for index in range(count)]
    means: list[float] = []
    with np.errstate(all="ignore"):
        magnitudes = np.abs(flat)
        scale = float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=0.0))
        if flat.size > _ELEMENTS:
            bounds = [flat.size * block // _BLOCKS for block in range(_BLOCKS + 1)]
            sums = np.add.reduceat(flat, bounds[:-1], dtype=np.float64).tolist()
            means = [each / (end - start) for each, start, end in zip(sums, bounds, bounds[1:], strict=False)]
    return Content(found, shape, (*elements, *means), count, scale)


def tensor_parts(tensor: Any) -> list[tuple[str, Any]]:
    """Return the tensors that a tensor is made of, where it is not one row of memory."""
    torch = sys.modules["torch"]
    if tensor.is_nested:
        return [(f"[{index}]", part) for index, part in enumerate(tensor.detach().unbind())]
    if tensor.is_quantized:
        return [(".int_repr()", tensor.int_repr()), (" (quantized)", str(tensor.detach()[..., :0]))]
    detached = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        return [
            ("._indices()", detached._indices()),
            ("._values()", detached._values()),
            (".is_coalesced()", tensor.is_coalesced()),
        ]
    names = {
        torch.sparse_csr: ("crow_indices", "col_indices", "values"),
        torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
        torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
        torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
    }.get(tensor.layout, ())
    return [(f".{name}()", getattr(detached, name)()) for name in names]
