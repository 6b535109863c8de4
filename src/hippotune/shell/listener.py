"""What the loop of a plan calls to tell tuners something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hippotune.protocol.commands import Answer

Deliver = Callable[[Answer], None]
"""Takes the answers to one request."""


class Listener(Protocol):
    """What the tuner of a study is told of, besides the answers to its requests."""

    @property
    def study(self) -> str:
        """The study's name."""

    def facts_committed(self) -> None:
        """More facts are durable: the loop's `committed` may have grown."""

    def broken(self, error: BaseException) -> None:
        """The loop cannot go on."""
