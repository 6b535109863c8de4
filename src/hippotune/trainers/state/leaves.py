"""Values that hold bits and no objects: numbers, texts, arrays and tensors, compared bit for bit.

NaN is the same as the same NaN; 0.0 and -0.0 differ. What differs is told in few words.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, NamedTuple

import numpy as np

from hippotune.trainers.state import walk

Array = np.ndarray[Any, Any]


class Told(NamedTuple):
    """What one value is, what the other is, and how far they are apart."""

    one: str
    other: str
    detail: str = ""


def same_atom(one: Any, other: Any) -> bool:
    """Return whether two plain values of one type are the same."""
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, complex):
        return struct.pack("dd", one.real, one.imag) == struct.pack("dd", other.real, other.imag)
    kinds: tuple[Any, ...] = (str, bytes, int)
    for kind in kinds:
        if isinstance(one, kind):  # and not by what a subclass takes for equal
            return bool(kind.__eq__(one, other))
    return bool(one == other)


def array_difference(one: Array, other: Array) -> Told | None:
    """Return how two arrays differ; what an array of objects holds is left to others."""
    for what in ("dtype", "shape", "strides", "writeable"):
        ours, theirs = _of_array(one, what), _of_array(other, what)
        if ours != theirs:
            return Told(f"an array with {what} {ours}", f"an array with {what} {theirs}")
    if one.dtype.names is not None:  # between fields there may be bytes that mean nothing
        for name in one.dtype.names:
            if (told := array_difference(one[name], other[name])) is not None:
                return told
        return None
    if one.dtype.hasobject:
        return None
    return _content_difference(_rows(one), _rows(other), one, other, str(one.dtype))


def _of_array(array: Array, what: str) -> Any:
    if what == "strides":
        return _strides(array.strides, array.shape)
    return array.flags.writeable if what == "writeable" else getattr(array, what)


def _strides(strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides that mean something: those of dimensions with several places."""
    if 0 in shape:
        return ()
    return tuple(stride for stride, length in zip(strides, shape, strict=True) if length > 1)


def _rows(array: Array) -> Array:
    """Return the bytes of an array, a row for each element."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if not array.dtype.itemsize:
        return np.empty((0, 0), np.uint8)
    return flat.view(np.uint8).reshape(flat.size, array.dtype.itemsize)


def _content_difference(ours: Array, theirs: Array, one: Any, other: Any, dtype: str) -> Told | None:
    if np.array_equal(ours, theirs):
        return None
    differs = (ours != theirs).any(axis=1)
    first = int(np.flatnonzero(differs)[0])
    shape = tuple(one.shape)
    place = ", ".join(str(int(index)) for index in np.unravel_index(first, shape)) if shape else ""
    detail = f"{int(differs.sum())} of {differs.size} elements differ, {dtype}"
    if (largest := _largest(one, other)) is not None:
        detail += f", by at most {largest:.3g}"
    at = f" at [{place}]" if place else ""
    return Told(f"{_element(one, first)}{at}", _element(other, first), detail)


def _element(values: Any, index: int) -> str:
    element = values.reshape(-1)[index]
    return walk.short(element.item() if hasattr(element, "item") else element)


def _largest(one: Any, other: Any) -> float | None:
    try:
        if isinstance(one, np.ndarray):
            if one.dtype.kind not in "biufc":
                return None
            kind: Any = complex if one.dtype.kind == "c" else float
            distance = np.abs(one.astype(kind) - other.astype(kind))
        else:
            distance = (one.to(_wide(one)) - other.to(_wide(one))).abs().numpy()
        return float(np.nanmax(distance)) if not np.isnan(distance).all() else None
    except (RuntimeError, TypeError, ValueError):  # a type that cannot be calculated with
        return None


# Tensors; torch is loaded where there are any.


def _wide(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    return torch.complex128 if tensor.is_complex() else torch.float64


_OF_TENSORS = ("dtype", "shape", "layout", "device", "requires_grad", "is_leaf")


def tensor_difference(one: Any, other: Any) -> Told | None:
    """Return how two tensors differ; gradients, and the parts of sparse tensors, are left to others."""
    torch = sys.modules["torch"]
    for what in _OF_TENSORS:
        ours, theirs = getattr(one, what), getattr(other, what)
        if ours != theirs:
            ours, theirs = (tuple(it) if what == "shape" else it for it in (ours, theirs))
            return Told(f"a tensor with {what} {ours}", f"a tensor with {what} {theirs}")
    if one.layout is not torch.strided or one.is_nested or one.is_quantized or one.device.type == "meta":
        return None
    strides = [_strides(tensor.stride(), tuple(tensor.shape)) for tensor in (one, other)]
    if strides[0] != strides[1]:
        return Told(f"a tensor with strides {strides[0]}", f"a tensor with strides {strides[1]}")
    ours, theirs = _plain(one), _plain(other)
    return _content_difference(_bytes_of(ours), _bytes_of(theirs), ours, theirs, str(one.dtype))


def _plain(tensor: Any) -> Any:
    return tensor.detach().resolve_conj().resolve_neg().cpu()


def _bytes_of(tensor: Any) -> Array:
    torch = sys.modules["torch"]
    flat = tensor.contiguous().reshape(-1)
    rows: Array = flat.view(torch.uint8).numpy().reshape(flat.numel(), tensor.element_size())
    return rows


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
