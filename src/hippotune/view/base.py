"""What a view is: somewhere to say how a study goes. It is shown snapshots and decides nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from hippotune.view.snapshot import Snapshot


class View(ABC):
    """Base of all views, used as a context manager from one thread.

    Attributes
    ----------
    is_silent : bool
        Whether it shows nothing, so that nothing need be gathered for it.
    """

    is_silent = False

    @abstractmethod
    def note(self, text: str) -> None:
        """Say something that stays: what was found, what changed, what failed."""

    @abstractmethod
    def show(self, snapshot: Snapshot) -> None:
        """Show how things are now. Called several times a second."""

    @abstractmethod
    def close(self) -> None:
        """Show how things ended, and restore the terminal. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Silent(View):
    """Shows nothing."""

    is_silent = True

    def note(self, text: str) -> None:
        """Say nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Leave nothing."""


def open_view(progress: bool | None = None) -> View:
    """Return the view that fits where this process writes to.

    That is a live one on a terminal, and plain lines in a file, a pipe or a notebook; none if `progress` is
    False.
    """
    if progress is False:
        return Silent()
    import sys

    from rich.console import Console

    from hippotune.view.live import LiveView
    from hippotune.view.plain import PlainView

    # Standard error, so that what a script prints can be piped; notebooks show that as if it were wrong.
    console = Console(stderr=True)
    if console.is_jupyter:
        return PlainView(sys.stdout)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveView(console)
    return PlainView(sys.stderr)
