"""What an exception was raised from, or while."""

from __future__ import annotations

from collections.abc import Iterator


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
