"""A program that was forked off a fork server, with its keeper, as the process that wanted it sees it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import IO

from hippotune.executors.kept import Kept, with_sources
from hippotune.executors.local.fork_server import ForkClient, ForkRequest, fork
from hippotune.scratch import VARIABLE, Scratch


class ForkedProcess(Kept):
    """See the module. The keeper says how the program ended; one that is killed says nothing.

    `program` is a function, as ``package.module:name``; see `ForkRequest` for the rest.
    It is forked off a server that has imported `modules`, or off a given one.
    """

    def __init__(
        self,
        program: str,
        arguments: Sequence[object],
        name: str,
        environment: Mapping[str, str],
        modules: Sequence[str] | ForkClient,
        output: IO[bytes],
        source: IO[bytes] | None = None,
        descriptors: Mapping[str, int] = {},
    ) -> None:
        self.returncode = None
        self._lock = threading.Lock()
        self._scratch = Scratch()
        self.folder = self._scratch.path
        own = {**with_sources(environment), VARIABLE: str(self.folder)}
        request = ForkRequest(
            program, tuple(arguments), name, self.folder, os.getcwd(), own, tuple(descriptors)
        )
        self._status, status = os.pipe()
        try:
            with open(os.devnull, "rb") if source is None else nullcontext(source) as given:
                handles = [self._scratch.descriptor, status, given.fileno(), output.fileno()]
                handles += descriptors.values()
                if isinstance(modules, ForkClient):
                    self.pid, self._process = modules.fork(request, handles)
                else:
                    self.pid, self._process = fork(request, environment, modules, handles)
        except BaseException:
            os.close(self._status)
            self._scratch.remove()
            raise
        finally:
            os.close(status)
        weakref.finalize(self, _close, self._status, self._process).atexit = False
        self._scratch.release_lock()

    def wait(self, timeout: float | None = None) -> int:
        """Return how the program ended, when nothing is left of it."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._process, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            with self._lock:
                if self.returncode is None:
                    self.returncode = int(os.read(self._status, 32) or -signal.SIGKILL)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send the keeper a signal, if it has not ended."""
        with self._lock:
            if self.returncode is None:
                signal.pidfd_send_signal(self._process, sig)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
