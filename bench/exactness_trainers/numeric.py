"""NumPy arrays whose memory, layout and views matter, and learning written in NumPy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from exactness_trainers.base import Plain


class _Array(Plain):
    cause = "NumPy arrays"


class ArrayInPlace(_Array):
    """An array that is written in place."""

    def start(self) -> None:
        self.weights = np.ones(4)

    def amount(self) -> float:
        self.weights[1:] += self.weights[:-1]
        return float(self.weights.sum())


class ArrayView(_Array):
    """An array and a view of it, both written."""

    def start(self) -> None:
        self.whole = np.ones(6)
        self.part = self.whole[1:5:2]

    def amount(self) -> float:
        self.part += 1
        self.whole[1] *= 1.5
        return float(self.part[0] + self.whole[3])


class ViewsWithoutBase(_Array):
    """Two overlapping views of an array that is nowhere else."""

    def start(self) -> None:
        whole = np.arange(6.0)
        self.one, self.other = whole[:4], whole[2:]

    def amount(self) -> float:
        self.one *= 1.1
        self.other += 1
        return float(self.one.sum() - self.other[0])


class ViewOfOtherType(_Array):
    """The same memory as floats and as bytes."""

    def start(self) -> None:
        self.floats = np.ones(2, np.float32)
        self.bytes = self.floats.view(np.uint8)

    def amount(self) -> float:
        self.bytes[2] ^= 64
        self.floats[1] *= 1.5
        self.floats[0] += self.floats[1]
        return float(self.floats[0])


class TransposedView(_Array):
    """A matrix in Fortran order, and its transpose."""

    def start(self) -> None:
        self.matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        self.transpose = self.matrix.T

    def amount(self) -> float:
        self.transpose[1, 0] += 1
        self.matrix[0] *= 1.25
        return float(self.matrix[0, 1]) + 10 * self.matrix.flags.f_contiguous


class BroadcastView(_Array):
    """A row that stands for many, written through its base."""

    def start(self) -> None:
        self.row = np.ones(3)
        self.rows = np.broadcast_to(self.row, (1000, 3))

    def amount(self) -> float:
        self.row += [1, 2, 3]
        return float(self.rows[999].sum())


class ReadOnlyArray(_Array):
    """An array that is read-only; training asks whether it is."""

    def start(self) -> None:
        self.fixed = np.arange(4.0)
        self.fixed.flags.writeable = False
        self.count = 0

    def amount(self) -> float:
        self.count += 1
        return self.count + 5 * self.fixed.flags.writeable


class StructuredArray(_Array):
    """An array of records."""

    def start(self) -> None:
        self.records = np.zeros(3, dtype=[("count", "i4"), ("mean", "f8")])

    def amount(self) -> float:
        self.records["count"][1] += 1
        self.records[1]["mean"] += self.records["count"][1] / 2
        return float(self.records["mean"].sum())


class MaskedArray(_Array):
    """A masked array whose mask changes."""

    def start(self) -> None:
        self.masked = np.ma.masked_array(np.arange(8.0), mask=[False] * 8)

    def amount(self) -> float:
        self.masked[int(self.masked.argmin())] = np.ma.masked
        return float(self.masked.sum())


class ObjectArray(_Array):
    """An array of lists, one of which is also on self."""

    def start(self) -> None:
        self.list = [1]
        self.objects = np.empty(2, object)
        self.objects[:] = [self.list, [2, 3]]

    def amount(self) -> float:
        self.objects[0].append(len(self.list))
        return sum(self.list)


class ScalarsAndDates(_Array):
    """NumPy numbers of several types, and a date."""

    def start(self) -> None:
        self.half, self.day = np.float16(1.1), np.datetime64("2024-02-27")
        self.zero_dim = np.array(1.0)

    def amount(self) -> float:
        self.half *= np.float16(1.3)
        self.day += np.timedelta64(1, "D")
        self.zero_dim += 1
        return float(self.half) + float(self.zero_dim) + int(self.day.astype(int)) % 31


class ArraySubclass(np.ndarray):
    """An array with an attribute that slices keep."""

    level: float

    def __array_finalize__(self, other: object) -> None:
        self.level = getattr(other, "level", 1.0)

    def __reduce__(self) -> Any:
        make, arguments, state = super().__reduce__()
        return make, arguments, (state, self.level)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        self.level = state[1]


class SubclassOfArray(_Array):
    """An array of a class of its own, with an attribute."""

    def start(self) -> None:
        self.weights = np.ones(3).view(ArraySubclass)

    def amount(self) -> float:
        self.weights.level *= 1.5
        return float(self.weights.sum() * self.weights.level)


class _Mapped(_Array):
    mode: ClassVar[str] = "c"
    cause = "memory-mapped arrays"

    def start(self) -> None:
        path = Path(tempfile.mkdtemp(), "numbers")
        np.arange(8.0).tofile(path)
        self.numbers = np.memmap(path, dtype=np.float64, mode=self.mode)


class MappedReadOnly(_Mapped):
    """A memory-mapped file that is only read."""

    expect = "either"
    named = "numbers"
    mode = "r"

    def amount(self) -> float:
        self.at = getattr(self, "at", 0) + 1
        return float(self.numbers[self.at])


class MappedCopyOnWrite(_Mapped):
    """A memory-mapped file whose changes stay in memory."""

    expect = "either"
    named = "numbers"

    def amount(self) -> float:
        self.numbers[1] *= 1.5
        return float(self.numbers[1])


class MappedForWriting(_Mapped):
    """A memory-mapped file that training writes to."""

    expect = "either"
    named = "numbers"
    mode = "r+"

    def amount(self) -> float:
        self.numbers[1] *= 1.5
        return float(self.numbers[1])


class MappedView(_Mapped):
    """A view of a memory-mapped file, as a plain array."""

    expect = "either"
    named = "part"

    def start(self) -> None:
        super().start()
        self.part = np.asarray(self.numbers)[2:4]

    def amount(self) -> float:
        self.part *= 1.5
        return float(self.numbers[2])
