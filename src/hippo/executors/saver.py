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

# One snapshot being written and one that waits: whoever trains faster than the disk writes has to wait,
# so that snapshots do not pile up in memory.
_WAITING = 1

_Save = Callable[[], Checkpoint]


class Saver:
    """Saves snapshots in the order in which they were taken, and says what came of each."""

    def __init__(self, files: CheckpointFiles, send: Callable[[Sequence[Event]], None]) -> None:
        self._files = files
        self._send = send
        self._queue: queue.Queue[tuple[int, int, _Save]] = queue.Queue(_WAITING)
        threading.Thread(target=self._work, name="saver", daemon=True).start()

    def save(self, lease: int, node: int, step: int, snapshot: Snapshot) -> None:
        """Have a snapshot saved.

        One that is not deferred is written at once, in this thread. Waits while others fill the queue.
        """
        name = checkpoint_name(node, step)
        save: _Save
        if snapshot.deferred:
            save = partial(self._files.save, name, snapshot)
        else:
            try:
                save = partial(self._files.keep, self._files.draft(name, snapshot))
            except Exception as error:
                self._say_failed(lease, step, error)
                return
        self._queue.put((lease, step, save))

    def finish(self) -> None:
        """Wait until everything is saved and announced."""
        self._queue.join()

    def _work(self) -> None:
        while True:
            self._save(*self._queue.get())
            self._queue.task_done()

    def _save(self, lease: int, step: int, save: _Save) -> None:
        try:
            checkpoint = save()
        except BaseException as error:
            self._say_failed(lease, step, error)
        else:
            self._send([CheckpointSaved(lease, step, checkpoint)])

    def _say_failed(self, lease: int, step: int, error: BaseException) -> None:
        self._send([SaveFailed(lease, step, describe(error), isinstance(error, DiskFull))])
