"""Telling errors that say "no memory" from all others: the worker that raised one has to be replaced."""

from __future__ import annotations

import sys

# What allocators say that have no exception class of their own.
_PHRASES = ("out of memory", "can't allocate memory", "cannot allocate memory", "failed to allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error`, or what it was raised from, says that there was not enough memory."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, (MemoryError, *_torch_errors())):
            return True
        if isinstance(link, (RuntimeError, OSError)) and any(
            phrase in str(link).lower() for phrase in _PHRASES
        ):
            return True
        link = link.__cause__ or link.__context__
    return False


def _torch_errors() -> tuple[type[BaseException], ...]:
    """Return torch's own classes; where torch is not loaded, nothing can have raised one."""
    torch = sys.modules.get("torch")
    return (torch.OutOfMemoryError,) if torch is not None and hasattr(torch, "OutOfMemoryError") else ()
