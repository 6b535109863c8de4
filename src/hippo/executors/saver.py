"""Saving behind training: a thread that makes snapshots durable while the next step is being trained."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial

from hippo.engine.events import CheckpointSaved, Event, SaveFailed
from hippo.executors.tracebacks import describe
from hippo.plan.facts import Checkpoint
from hippo.store.files import CheckpointFiles, DiskFull, checkpoint_name
from hippo.trainers.session import Snapshot

# One snapshot is being written, and one waits: whoever trains faster than the disk writes has to wait,
# so that snapshots do not pile up in memory.
_MOST = 2

_Save = Callable[[], Checkpoint]


class Saver:
    """Saves snapshots in the order in which they were taken, and says what came of each."""

    def __init__(self, files: CheckpointFiles, send: Callable[[Sequence[Event]], None]) -> None:
        self._files = files
        self._send = send
        self._queue: queue.SimpleQueue[tuple[int, int, _Save]] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # a semaphore, at a tenth of its cost
        for _ in range(_MOST):
            self._room.put(None)
        threading.Thread(target=self._work, name="saver", daemon=True).start()

    def save(self, lease: int, node: int, step: int, snapshot: Snapshot) -> None:
        """Have a snapshot saved.

        One that is not deferred is written at once, in this thread. Waits while there are too many others.
        """
        name = checkpoint_name(node, step)
        save: _Save
        if snapshot.deferred:
            save = partial(self._save_deferred, name, snapshot)
        else:
            try:
                save = partial(self._files.keep, self._files.draft(name, snapshot))
            except Exception as error:
                self._say_failed(lease, step, error)
                return
        self._room.get()
        self._queue.put((lease, step, save))

    def _save_deferred(self, name: str, snapshot: Snapshot) -> Checkpoint:
        if (content := snapshot.content()) is not None:
            return self._files.save_content(name, content)
        return self._files.save(name, snapshot)

    def finish(self) -> None:
        """Wait until everything is saved and announced."""
        for _ in range(_MOST):
            self._room.get()
        for _ in range(_MOST):
            self._room.put(None)

    def _work(self) -> None:
        while True:
            self._save(*self._queue.get())
            self._room.put(None)

    def _save(self, lease: int, step: int, save: _Save) -> None:
        try:
            checkpoint = save()
        except BaseException as error:
            self._say_failed(lease, step, error)
        else:
            self._send([CheckpointSaved(lease, step, checkpoint)])

    def _say_failed(self, lease: int, step: int, error: BaseException) -> None:
        self._send([SaveFailed(lease, step, describe(error), isinstance(error, DiskFull))])
