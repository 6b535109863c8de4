"""Arrays and tensors by their content. The libraries are asked only where they are loaded already."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

LARGE = 1 << 20
"""From how many bytes on an array is large."""

_leaves_out = ContextVar("leaves_out", default=False)


@contextmanager
def large_left_out() -> Iterator[None]:
    """Write large arrays and tensors without their content in the block."""
    token = _leaves_out.set(True)
    try:
        yield
    finally:
        _leaves_out.reset(token)


def array_text(value: Any) -> str | None:
    """Write an array, tensor, or a type or device of them; None where it is anything else."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and hasattr(torch, "Tensor"):
        if isinstance(value, torch.Tensor):
            return _tensor(torch, value)
        if isinstance(value, torch.device):
            return f"device({value.type!r})"  # which one of them changes nothing
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return str(value)
    if numpy is not None and hasattr(numpy, "ndarray"):
        if isinstance(value, numpy.generic) and value.dtype != object:
            return f"{value.dtype.str}({value.item()!r})"
        if isinstance(value, numpy.dtype):
            return f"dtype({value.descr if value.names else value.str!r})"
        if isinstance(value, numpy.ndarray) and not value.dtype.hasobject and not hasattr(value, "mask"):
            content = "large"
            if not _is_left_out(value):
                content = _digest(numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8))
            described = value.dtype.descr if value.dtype.names else value.dtype.str
            return f"array({described}, {value.shape}, {content})"
    return None


def _tensor(torch: Any, value: Any) -> str | None:
    if value.layout is not torch.strided:
        if value.layout is not torch.sparse_coo:
            return None
        whole = value.detach().coalesce()
        inner = f"{_tensor(torch, whole.indices())}, {_tensor(torch, whole.values())}"
        return f"sparse({tuple(value.shape)}, {inner})"
    if value.is_quantized or value.is_meta:
        return None
    content = "large"
    if not _is_left_out(value):
        flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        content = _digest(flat.view(torch.uint8).numpy()) if flat.numel() else ""
    grad = ", requires_grad" if value.requires_grad else ""
    return f"{type(value).__name__}({value.dtype}, {tuple(value.shape)}{grad}, {content})"


def _is_left_out(value: Any) -> bool:
    return bool(_leaves_out.get() and value.nbytes >= LARGE)


def _digest(content: Any) -> str:
    return hashlib.sha256(memoryview(content)).hexdigest()[:32]
