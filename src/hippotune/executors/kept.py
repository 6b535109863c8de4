"""Python processes that leave nothing behind, whatever they start and however they or their parent end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from hippotune.scratch import VARIABLE, Scratch, end_processes

_SOURCES = str(Path(__file__).resolve().parents[2])
_KEEPER = str(Path(__file__).with_name("keeper.py"))
_KILL_SECONDS = 10.0


class KeptProcess(subprocess.Popen[bytes]):
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
        stdin: int = subprocess.DEVNULL,
        descriptors: Sequence[int] = (),
        user: str | None = None,
    ) -> None:
        self._scratch = Scratch()
        self.folder = self._scratch.path
        lock = self._scratch.descriptor
        if user is not None:
            shutil.chown(self.folder, user)
            environment = {**environment, "HOME": str(self.folder), "USER": user, "LOGNAME": user}
        path = [_SOURCES, *filter(None, [environment.get("PYTHONPATH")])]
        try:
            super().__init__(
                # -P: a module in the working directory must not stand in for one of the standard library.
                [sys.executable, "-P", _KEEPER, str(os.getpid()), str(lock), module, *arguments],
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=[lock, *descriptors],
                env={**environment, "PYTHONPATH": os.pathsep.join(path), VARIABLE: str(self.folder)},
                process_group=0,  # Ctrl-C does not reach it
                user=user,
                extra_groups=None if user is None else [],
            )
        except BaseException:
            self._scratch.remove()
            raise
        self._scratch.let_go()

    def end(self) -> None:
        """End the process, and all that it started, at once."""
        if self.returncode is None:  # until it is waited for, its number is not used again
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGTERM)
                os.kill(self.pid, signal.SIGCONT)
            try:
                self.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self.folder.exists():  # the keeper was killed before it had done its work
            end_processes(self.folder)
        self._scratch.remove()
