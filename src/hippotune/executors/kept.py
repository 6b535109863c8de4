"""Python processes that leave nothing behind: no matter what they start, or how they or their parent end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from hippotune import portable
from hippotune.scratch import VARIABLE, Scratch, end_processes

_SOURCES = str(Path(__file__).resolve().parents[2])
_KEEPER = str(Path(__file__).with_name("keeper.py"))
_KILL_SECONDS = 10.0


def with_sources(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python finds this package, wherever it is."""
    path = [_SOURCES, *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(path)}


class Kept(ABC):
    """A process that leaves nothing behind. `folder` is removed at its end."""

    pid: int
    returncode: int | None
    folder: Path
    _scratch: Scratch

    @abstractmethod
    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended, when it has; `subprocess.TimeoutExpired` where that takes too long."""

    @abstractmethod
    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it has not ended."""

    def end(self) -> None:
        """End the process, and all that it started, at once."""
        if self.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                self.send_signal(signal.SIGTERM)
                self.send_signal(signal.SIGCONT)
            try:
                self.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self.folder.exists():  # the keeper was killed before it had done its work
            end_processes(self.folder)
        self._scratch.remove()


class KeptProcess(subprocess.Popen[bytes], Kept):
    """A module of Hippo's that runs as a program of its own. `folder` is removed at its end.

    With `user`, it runs as that user of the system, who owns the folder.

    The thread that starts it has to last as long as the process: the system ends it with that thread.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes],
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        descriptors: Sequence[int] = (),
        user: str | None = None,
    ) -> None:
        self._scratch = Scratch()
        self.folder = self._scratch.path
        lock = self._scratch.descriptor
        if user is not None:
            shutil.chown(self.folder, user)
            environment = {**environment, "HOME": str(self.folder), "USER": user, "LOGNAME": user}
        try:
            super().__init__(
                # -P: a module in the working directory must not stand in for one of the standard library.
                [sys.executable, "-P", _KEEPER, str(os.getpid()), str(lock), module, *arguments],
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=[lock, *descriptors],
                env={**with_sources(environment), VARIABLE: str(self.folder)},
                process_group=0,  # Ctrl-C does not reach it
                user=user,
                group=None if user is None else portable.user_named(user)[1],
                extra_groups=None if user is None else [],
            )
        except BaseException:
            self._scratch.remove()
            raise
        self._scratch.release_lock()
