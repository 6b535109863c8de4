"""NumPy arrays as state: views stay views of one memory, and arrays own their memory as they did.

NumPy's own pickling makes a copy of every view and returns arrays that do not own their memory.
"""

from __future__ import annotations

import mmap
import pickle
from typing import Any, cast

import numpy as np

from hippotune.trainers.state.refusals import Refused

Array = np.ndarray[Any, Any]
Reduced = tuple[Any, ...]


def root_of(array: Array) -> Any:
    """Return what owns an array's memory: an array, a torch tensor, bytes; for a mapped file, the map."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and (base := cast(Any, owner.base)) is not None:
        if isinstance(base, mmap.mmap):
            return owner
        owner = base
    return owner


def address(array: Array) -> int:
    """Return where an array's first element is."""
    return int(array.__array_interface__["data"][0])


def extent(array: Array) -> tuple[int, int]:
    """Return where an array's memory begins, and where it ends."""
    spans = [
        (length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True) if length
    ]
    start = address(array)
    low, high = sum(span for span in spans if span < 0), sum(span for span in spans if span > 0)
    return start + low, start + high + array.itemsize


def reduce_view(array: Array, owner: Array) -> Reduced:
    """Return how an array is made again that is a view of a part of another one's memory."""
    place = address(array) - address(_flat(owner))
    return _view, (owner, place, array.dtype, array.shape, array.strides, array.flags.writeable)


def reduce(array: Array) -> Reduced | None:
    """Return how an array is made again, for pickle; None where NumPy's own way is right."""
    if type(array) not in (np.ndarray, np.memmap):
        return None
    root = root_of(array)
    if array.dtype.hasobject:
        return None if root is array or type(root) is not np.ndarray else _reduce_view_of_objects(array, root)
    if isinstance(root, np.memmap):
        if root is array or root.mode in ("r+", "w+"):
            return _reduce_map(array, root)
    elif root is array:
        return _reduce_owned(array)
    layout = (array.dtype, array.shape, array.strides)
    if isinstance(root, np.ndarray):
        return reduce_view(array, root)
    if isinstance(root, (bytes, bytearray)) and root:
        return _view_of_bytes, (root, address(array) - address(np.frombuffer(root, np.uint8)), *layout)
    if hasattr(root, "untyped_storage") and root.device.type == "cpu":
        storage = root.untyped_storage()
        return _view_of_storage, (storage, address(array) - storage.data_ptr(), *layout)
    return _reduce_owned(array.copy())  # something that shows nothing of itself owns the memory


def _reduce_view_of_objects(array: Array, root: Array) -> Reduced:
    flat = _flat(root)
    place = (address(array) - address(flat)) // root.itemsize
    return _view_of_objects, (root, place, array.shape, array.strides)


def _reduce_owned(array: Array) -> Reduced:
    content = pickle.PickleBuffer(cast(Any, _flat(array).view(np.uint8)))
    return _owned, (content, array.dtype, array.shape, array.strides, array.flags.writeable)


def _reduce_map(array: Array, root: np.memmap[Any, Any]) -> Reduced:
    if root.mode in ("r+", "w+"):
        raise Refused(
            array,
            f"is a memory-mapped file open for writing ({root.filename}): what is written to it cannot be "
            'taken back when a trial starts from a checkpoint. Map it with mode="r" or "c", or np.load() it',
        )
    if root.mode == "c":  # what was written to it is in memory only
        return _reduce_owned(np.array(array))
    is_fortran = root.flags.f_contiguous and not root.flags.c_contiguous
    place = (root.filename, root.dtype, "r", root.offset, root.shape, "F" if is_fortran else "C")
    return np.memmap, place


def _flat(array: Array) -> Array:
    """Return the memory of an array that owns it as one row, in the order of addresses."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(order).reshape(-1)


# Called by pickle when a checkpoint is loaded.


def _owned(content: Any, dtype: Any, shape: Any, strides: Any, writeable: bool) -> Array:
    model = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
    array = np.empty_like(model, subok=False)  # with the same order of axes in memory
    if array.size:
        _flat(array)[...] = np.frombuffer(content, dtype)
    array.flags.writeable = writeable
    return array


def _view(root: Array, offset: int, dtype: Any, shape: Any, strides: Any, writeable: bool) -> Array:
    array: Array = np.ndarray(shape, dtype, _flat(root), offset, strides)
    if array.flags.writeable != writeable:
        array.flags.writeable = writeable
    return array


def _view_of_objects(root: Array, place: int, shape: Any, strides: Any) -> Array:
    start = _flat(root)[place:]
    return np.lib.stride_tricks.as_strided(start, shape, strides)


def _view_of_bytes(root: Any, offset: int, dtype: Any, shape: Any, strides: Any) -> Array:
    return np.ndarray(shape, dtype, root, offset, strides)


def _view_of_storage(storage: Any, offset: int, dtype: Any, shape: Any, strides: Any) -> Array:
    import torch

    memory = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage).numpy()
    return np.ndarray(shape, dtype, memory, offset, strides)
