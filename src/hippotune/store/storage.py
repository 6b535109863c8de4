"""Where checkpoints are kept: the contract of files and of objects in a bucket.

Contract
--------
* A name holds either nothing or a whole checkpoint, at every moment.
* What `save` returned from is there after any crash, of the process or of the machine, and its content is
  what was written.
* Many processes may save at the same time, each under names of its own.
* What is read was checked against the checkpoint's digest before it is handed out.
* A mark says whose checkpoints these are; nothing is removed before it was looked at (`claim`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from hippotune.plan.facts import Checkpoint
from hippotune.store.digests import VerifiedFile

Write = Callable[[BinaryIO], None]


class CheckpointStorage(ABC):
    """The checkpoints of one plan. Where they are `is_remote`, asking for them takes a while."""

    is_remote = False

    @property
    @abstractmethod
    def where(self) -> str:
        """The folder or the URL."""

    @abstractmethod
    def save(self, name: str, write: Write) -> Checkpoint:
        """Let `write` write a checkpoint, and keep it under `name`, durably, before returning.

        What was there under that name is replaced. Where `write` raises, nothing is left behind and the
        exception is passed on; a disk that is full raises `DiskFull`.
        """

    @abstractmethod
    def read(self, checkpoint: Checkpoint) -> VerifiedFile:
        """Return a checkpoint's content; each piece is checked as it is read.

        Raises `CheckpointError`, at once or while it is read, where that is not what was written.
        """

    @abstractmethod
    def verify(self, checkpoint: Checkpoint) -> Path:
        """Return a file with a checkpoint, having read all of it; `CheckpointError` where it is not whole."""

    @abstractmethod
    def local_path(self, checkpoint: Checkpoint) -> Path:
        """Return where a checkpoint's file is, or would be, on this machine."""

    @abstractmethod
    def delete(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint; one that is not there is as good as removed."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Yield the names of all checkpoints there are."""

    @abstractmethod
    def strays(self, known: set[str]) -> dict[str, int]:
        """Return what `sweep` would remove, and how many bytes it takes."""

    @abstractmethod
    def sweep(self, known: set[str]) -> list[str]:
        """Remove what is not among the `known` names, and what killed processes left; return those names.

        Only while nothing is saved there.
        """

    @abstractmethod
    def set_aside(self, known: set[str], mark: str, look_only: bool = False) -> tuple[int, str]:
        """Move whole checkpoints that are not `known` to a place of their own; return how many, and where.

        Killed on the way, it can be called again with the same mark.
        """

    @abstractmethod
    def read_mark(self) -> str | None:
        """Return what is written in the mark; None where there is none."""

    @abstractmethod
    def write_mark(self, text: str) -> None:
        """Mark the place, and make it where it does not exist. The mark before stays until this is whole."""


class StorageHome(ABC):
    """All plans' checkpoints below one home, by the names of their folders: to remove what is left over."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of all folders there are."""

    @abstractmethod
    def of(self, folder: str) -> CheckpointStorage:
        """Return the checkpoints in a folder."""

    @abstractmethod
    def size(self, folder: str) -> int:
        """Return how many bytes a folder takes."""

    @abstractmethod
    def retire(self, folder: str) -> str:
        """Rename a folder, so that a new start of its plan does not find it; return the name to remove."""

    @abstractmethod
    def remove(self, folder: str) -> None:
        """Remove a folder that was retired, now or by a process that was killed."""
