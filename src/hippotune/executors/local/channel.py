"""A channel between two processes: whole messages, both ways."""

from __future__ import annotations

import select
import threading
from collections import deque
from contextlib import suppress
from multiprocessing.connection import Connection

# A socket that can be written to takes a message of this size without waiting.
_SMALL = 1 << 15
_LONGEST_WAIT = 10_000.0


class Channel:
    """One end of a channel. Receiving is for one thread; `send` is for any.

    `put` is for one thread at a time, and not together with `send`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._readable = select.poll()
        self._readable.register(connection.fileno(), select.POLLIN)
        self._writable = select.poll()
        self._writable.register(connection.fileno(), select.POLLOUT)
        self._sending = threading.Lock()
        self._overflow: deque[bytes] = deque()

    def receive(self, timeout: float) -> bytes | None:
        """Return the next message; None after `timeout` seconds. Raises `EOFError` at the end."""
        if not self._readable.poll(min(timeout, _LONGEST_WAIT) * 1000):
            return None
        return self.wait()

    def wait(self) -> bytes:
        """Return the next message. Raises `EOFError` at the end."""
        try:
            return self._connection.recv_bytes()
        except OSError as error:
            raise EOFError from error

    def put(self, message: bytes) -> None:
        """Send a message; wait until there is room for it, or the other side is gone."""
        with suppress(OSError):
            self._connection.send_bytes(message)

    def send(self, message: bytes) -> None:
        """Send a message without waiting. It is lost if the other side is gone."""
        with self._sending:
            if self._overflow:
                self._overflow.append(message)
            elif len(message) <= _SMALL and self._writable.poll(0):
                self.put(message)
            else:
                self._overflow.append(message)
                threading.Thread(target=self._send_queued, name="sender", daemon=True).start()

    def _send_queued(self) -> None:
        while True:
            self.put(self._overflow[0])
            with self._sending:
                self._overflow.popleft()
                if not self._overflow:
                    return

    def close(self) -> None:
        """Close the channel. For the thread that receives."""
        with self._sending:  # nothing may write to a reused descriptor
            self._connection.close()
