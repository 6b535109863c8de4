"""Saving behind training: threads that make snapshots durable while the next step is being trained.

A thread beside the one that trains takes time from it whenever the two hand the interpreter to each other,
which saving a file does a dozen times. So a worker hands small snapshots over to the process that holds it,
which saves them; those that are large, or not complete yet, it saves itself.
"""

from __future__ import annotations

import logging
import pickle
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hippotune.executors.tracebacks import describe
from hippotune.plan.facts import Checkpoint
from hippotune.protocol.events import CheckpointSaved, Event, SaveFailed
from hippotune.store.files import CheckpointFiles, DiskFull, checkpoint_name

if TYPE_CHECKING:
    from hippotune.trainers.session import Snapshot

# One snapshot is being written, and one waits: whoever trains faster than the disk writes has to wait,
# so that snapshots do not pile up in memory.
_MOST = 2
# What is handed over is small, so that more of it may wait; what else a worker says waits behind it then.
MOST_HANDED_OVER = 64
# About what a line takes without waiting for its other end.
SMALL = 1 << 17

_log = logging.getLogger("hippotune")

_Save = Callable[[], Checkpoint]
Message = bytes


class Unsaved(NamedTuple):
    """What is to be saved of a lease under a name: a file of so many bytes, which follow in the message."""

    lease: int
    step: int
    name: str
    bytes: int

    def followed_by(self, content: Sequence[memoryview]) -> Message:
        """Return the message that hands it over: one, because each of them wakes its reader."""
        return b"".join((pickle.dumps(self, protocol=5), *content))

    def content_in(self, message: Message) -> memoryview:
        """Return what follows."""
        return memoryview(message)[len(message) - self.bytes :]


class Saver:
    """Saves in the order in which it is told to, and says what came of each."""

    def __init__(
        self, files: CheckpointFiles, send: Callable[[Sequence[Event]], None], most: int = _MOST
    ) -> None:
        self._files = files
        self._send = send
        self._most = most
        self._given_up = False
        self._thread: threading.Thread | None = None
        self._queue: queue.SimpleQueue[tuple[int, int, _Save] | None] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # a semaphore, at a tenth of its cost
        for _ in range(most):
            self._room.put(None)

    def save(self, lease: int, step: int, save: _Save) -> None:
        """Have something saved. Waits while there is too much else to save."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="saver", daemon=True)
            self._thread.start()
        self._room.get()
        self._queue.put((lease, step, save))

    def save_content(self, unsaved: Unsaved, content: memoryview) -> None:
        """Have that saved which was handed over."""
        self.save(unsaved.lease, unsaved.step, partial(self._files.save_content, unsaved.name, [content]))

    def finish(self) -> None:
        """Wait until everything is saved and announced."""
        for _ in range(self._most):
            self._room.get()
        for _ in range(self._most):
            self._room.put(None)

    def give_up(self) -> None:
        """Save nothing more: somebody else may be about to save under the same names. For any thread."""
        self._given_up = True

    def close(self) -> None:
        """End the thread, when everything is saved."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread = None

    def say_failed(self, lease: int, step: int, error: BaseException) -> None:
        """Announce that something could not be saved."""
        self._send([SaveFailed(lease, step, describe(error), isinstance(error, DiskFull))])

    def _work(self) -> None:
        while (waiting := self._queue.get()) is not None:
            try:
                if not self._given_up:
                    self._save(*waiting)
            except Exception:  # nobody is left to hear of it
                _log.exception("what became of a checkpoint could not be announced")
            finally:
                self._room.put(None)

    def _save(self, lease: int, step: int, save: _Save) -> None:
        try:
            checkpoint = save()
        except BaseException as error:
            self.say_failed(lease, step, error)
        else:
            self._send([CheckpointSaved(lease, step, checkpoint)])


class SnapshotSaver:
    """A worker's: has snapshots saved, by whoever holds the worker or by itself."""

    def __init__(
        self,
        files: CheckpointFiles,
        send: Callable[[Sequence[Event]], None],
        hand_over: Callable[[Message], None],
    ) -> None:
        self._files = files
        self._hand_over = hand_over
        self._saver = Saver(files, send)

    def save(self, lease: int, node: int, step: int, snapshot: Snapshot, alone: bool = True) -> None:
        """Have a snapshot saved; one that is not deferred is written at once, in this thread.

        What was not trained `alone` is not handed over: its lease may be over for others sooner than for
        this worker, whose saves have to end with it then.
        """
        name = checkpoint_name(node, step)
        try:
            draft = None if snapshot.deferred else self._files.draft(name, snapshot)
            content = snapshot.content(False) if snapshot.deferred else None
        except Exception as error:
            self._saver.say_failed(lease, step, error)
            return
        if draft is not None:
            self._saver.save(lease, step, partial(self._files.keep, draft))
        elif content is None:
            self._saver.save(lease, step, partial(self._save_deferred, name, snapshot))
        elif alone and (length := _length(content)) <= SMALL:
            self._hand_over(Unsaved(lease, step, name, length).followed_by(content))
        else:
            self._saver.save(lease, step, partial(self._save_content, name, content))

    def finish(self) -> None:
        """Wait until everything is saved and announced, or handed over."""
        self._saver.finish()

    def _save_deferred(self, name: str, snapshot: Snapshot) -> Checkpoint:
        if (content := snapshot.content(True)) is None:
            return self._files.save(name, snapshot)
        return self._save_content(name, content)

    def _save_content(self, name: str, content: Sequence[memoryview]) -> Checkpoint:
        if _length(content) <= SMALL:  # between two writes, training gets in the way
            content = [memoryview(b"".join(content))]
        return self._files.save_content(name, content)


def _length(content: Sequence[memoryview]) -> int:
    return sum(piece.nbytes for piece in content)
