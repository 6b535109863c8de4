"""Which part of a batch is whose, where several ranks train together.

The batch of a step is the same at every width; each rank trains an even part of it, and the parts lie one
after the other. A batch that cannot be split evenly is trained whole by every rank: the average of equal
gradients is the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """One rank's part of what `width` ranks share."""

    rank: int
    width: int

    def bounds(self, count: int) -> tuple[int, int]:
        """Return where this rank's part of `count` items begins and ends; parts differ by one at most."""
        return count * self.rank // self.width, count * (self.rank + 1) // self.width

    def even_bounds(self, count: int) -> tuple[int, int]:
        """Return the same where all parts are equally long, and everything otherwise."""
        return self.bounds(count) if count % self.width == 0 else (0, count)


class Batch:
    """What a rank has been handed in the present step: parts of batches, and batches that are whole.

    `handed_out` says how many of them there were.
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._parts: dict[int, int] = {}  # how many samples, by who handed them out
        self._wholes: dict[int, int] = {}
        self.handed_out = 0

    def clear(self) -> None:
        """Begin a step."""
        self._parts.clear()
        self._wholes.clear()
        self.handed_out = 0

    def hand_out(self, source: int, count: int) -> tuple[int, int]:
        """Note that `count` samples of a source are trained next; return the bounds of this rank's part."""
        self.handed_out += 1
        start, end = self._share.even_bounds(count)
        is_part = end - start < count
        (self._parts if is_part else self._wholes)[source] = end - start
        (self._wholes if is_part else self._parts).pop(source, None)
        return start, end

    @property
    def is_split(self) -> bool:
        """Whether this rank trains a part of something, so that sums over ranks are sums over the batch."""
        return bool(self._parts)

    def is_part(self, samples: int) -> bool:
        """Return whether this many samples are a part of a batch, and not a whole one."""
        return self.is_split and (samples in self._parts.values() or samples not in self._wholes.values())

    def dimension(self, shape: Sequence[int]) -> int | None:
        """Return which dimension of a tensor runs over the samples of a part; None where none seems to.

        The first, if it is as long as the part; else the second of three or more; else the first, if it is
        a multiple: samples times tokens, or times heads.
        """
        lengths = self._parts.values()
        if not lengths or not shape:
            return None
        if shape[0] in lengths:
            return 0
        if len(shape) > 2 and shape[1] in lengths:
            return 1
        if any(shape[0] % length == 0 for length in lengths) and shape[0] not in self._wholes.values():
            return 0
        return None

    def is_first_dimension(self, shape: Sequence[int]) -> bool:
        """Return whether the first dimension is as long as a part; a single number is never meant."""
        return len(shape) > 0 and shape[0] in self._parts.values() and any(size != 1 for size in shape)
