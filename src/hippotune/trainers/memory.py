"""Telling errors that say "no memory" from all others: the worker that raised one has to be replaced."""

from __future__ import annotations

import sys

from hippotune.causes import causes

# What allocators say that have no exception class of their own.
_PHRASES = ("out of memory", "can't allocate memory", "cannot allocate memory", "failed to allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error`, or what it was raised from, says that there was not enough memory."""
    return any(map(_says_no_memory, causes(error)))


def _says_no_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, *_torch_errors())):
        return True
    return isinstance(error, (RuntimeError, OSError)) and any(
        phrase in str(error).lower() for phrase in _PHRASES
    )


def _torch_errors() -> tuple[type[BaseException], ...]:
    """Return torch's own classes; where torch is not loaded, nothing can have raised one."""
    torch = sys.modules.get("torch")
    return (torch.OutOfMemoryError,) if torch is not None and hasattr(torch, "OutOfMemoryError") else ()
