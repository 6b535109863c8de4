"""Saving behind training: a thread that makes snapshots durable while the next step is being trained.

At most one snapshot is in memory: where the one before is still being written, training waits for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO

from hippotune.executors.worker.failures import kind_of
from hippotune.executors.worker.tracebacks import describe
from hippotune.protocol.events import CheckpointSaved, Event, SaveFailed
from hippotune.store.files import new_name
from hippotune.store.storage import CheckpointStorage

_log = logging.getLogger("hippotune")

Write = Callable[[BinaryIO], None]


class Saver:
    """Saves one state after the other, and reports each.

    `writing` is the lease and the step of what is being saved.
    """

    def __init__(self, files: CheckpointStorage, send: Callable[[Sequence[Event]], None]) -> None:
        self._files = files
        self._send = send
        self._idle = threading.Event()
        self._idle.set()
        self.writing: tuple[int, int] | None = None
        self._queue: queue.SimpleQueue[tuple[int, int, str, Write, bool]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def is_idle(self) -> bool:
        """Whether everything is saved and announced."""
        return self._idle.is_set()

    def save(
        self, lease: int, node: int, step: int, snapshot: Callable[[], Write], interim: bool = False
    ) -> None:
        """Take a snapshot and have it saved. Waits for the one before."""
        self.finish()
        write = snapshot()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="saver", daemon=True)
            self._thread.start()
        self._idle.clear()
        self.writing = (lease, step)
        self._queue.put((lease, step, new_name(node, step), write, interim))

    def finish(self) -> None:
        """Wait until everything is saved and announced."""
        self._idle.wait()

    def _work(self) -> None:
        while True:
            waiting = self._queue.get()
            try:
                self._save(*waiting)
            except Exception:  # nothing reads the report any more
                _log.exception("what became of a checkpoint could not be announced")
            finally:
                del waiting
                self.writing = None
                self._idle.set()

    def _save(self, lease: int, step: int, name: str, write: Write, interim: bool) -> None:
        try:
            checkpoint = self._files.save(name, write)
        except BaseException as error:
            self._send([SaveFailed(lease, step, describe(error), kind_of(error), interim)])
        else:
            self._send([CheckpointSaved(lease, step, replace(checkpoint, interim=interim))])
