"""Data as a file's content, and back: a text and a few long tensors, which ``torch.save`` writes quickly.

Copied and saved one by one, many small tensors cost time in which training cannot run. So all tensors of a
type lie end to end in one, and the text, which is JSON, says where. Only data comes back, never code.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from hippo.trainers.encoding import REFERENCE

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Packed:
    """Data that refers to tensors, and these in main memory, complete once `ready` has come to pass."""

    data: Any
    tensors: dict[str, Tensor]
    others: list[Tensor]
    ready: torch.cuda.Event | None

    def content(self) -> dict[str, Any]:
        """Return what ``torch.save`` is to write."""
        if self.ready is not None:
            self.ready.synchronize()
        text = json.dumps(self.data)
        return {"format": FORMAT, "text": text, "tensors": self.tensors, "others": self.others}


class Packer:
    """Takes tensors, for each of which it returns a reference to put in its place in the data."""

    def __init__(self) -> None:
        self._parts: dict[torch.dtype, list[Tensor]] = {}
        self._lengths: dict[torch.dtype, int] = {}
        self._others: list[Tensor] = []

    def __call__(self, tensor: Tensor) -> dict[str, Any]:
        """Take a tensor; it must not change before `pack` is called."""
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.is_quantized:
            self._others.append(tensor.cpu().clone())
            return {REFERENCE: ["", len(self._others) - 1]}
        dtype = tensor.dtype
        start = self._lengths.get(dtype, 0)
        place: list[Any] = [_name(dtype), start, tensor.shape]
        if tensor.is_contiguous():
            part = tensor.view(-1)
        else:
            dense = tensor.clone()  # no gaps, and the order in memory stays
            part = dense.as_strided((dense.numel(),), (1,))
            place.append(dense.stride())
        self._lengths[dtype] = start + part.numel()
        self._parts.setdefault(dtype, []).append(part)
        return {REFERENCE: place}

    def pack(self, data: Any) -> Packed:
        """Return data with copies of all tensors taken; those from a GPU may still be on their way."""
        on_gpu = any(part.is_cuda for parts in self._parts.values() for part in parts)
        tensors = {
            _name(dtype): _joined_from_gpu(parts) if on_gpu else torch.cat([part.cpu() for part in parts])
            for dtype, parts in self._parts.items()
        }
        ready = torch.cuda.Event() if on_gpu else None  # type: ignore[no-untyped-call]
        if ready is not None:
            ready.record()
        return Packed(data, tensors, self._others, ready)


def unpack(content: dict[str, Any]) -> Any:
    """Return the data, with the tensors that it refers to."""

    def restored(item: dict[str, Any]) -> Any:
        if REFERENCE not in item:
            return item
        name, start, *form = item[REFERENCE]
        if not name:
            return content["others"][start]
        joined: Tensor = content["tensors"][name]
        if len(form) == 2:
            shape, stride = form
            return joined.as_strided(shape, stride, start)
        return joined[start : start + math.prod(form[0])].view(form[0])

    return json.loads(content["text"], object_hook=restored)


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _joined_from_gpu(parts: list[Tensor]) -> Tensor:
    lengths = [part.numel() for part in parts]
    joined = torch.empty(sum(lengths), dtype=parts[0].dtype, pin_memory=True)
    for target, part in zip(torch.split(joined, lengths), parts, strict=True):
        target.copy_(part, non_blocking=True)
    return joined
