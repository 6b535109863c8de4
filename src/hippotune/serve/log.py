"""The server's log: a line for each request, and what goes wrong.

Lines are written together, a few times a second, by a thread of their own: a request neither waits for the
one who reads them nor wakes a thread. (`MemoryHandler` writes in the thread that logs, and keeps others from
logging meanwhile; `QueueListener` is woken by each line.)
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from typing import TextIO

_WRITE_SECONDS = 0.2
_MOST_RECORDS = 100_000  # the oldest go where standard error is not read


class BatchHandler(logging.Handler):
    """Keeps records until `flush`, which `logging` calls at the end of the process too."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._records: deque[logging.LogRecord] = deque(maxlen=_MOST_RECORDS)
        self._writing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self._records.append(record)

    def flush(self) -> None:
        """Write what is kept."""
        with self._writing:
            records = [self._records.popleft() for _ in range(len(self._records))]
            if records:
                try:
                    self._stream.write("".join(f"{self.format(each)}\n" for each in records))
                    self._stream.flush()
                except Exception:  # a full disk, say: the server goes on
                    self.handleError(records[-1])


def log_to_stderr() -> None:
    """Write the log to standard error."""
    handler = BatchHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("hippotune", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if name == "hippotune" else logging.WARNING)
    threading.Thread(target=_write, args=[handler], name="log", daemon=True).start()


def _write(handler: BatchHandler) -> None:
    while True:
        time.sleep(_WRITE_SECONDS)
        handler.flush()
