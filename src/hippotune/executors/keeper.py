"""A program that runs another, and leaves nothing of it: ``python keeper.py PARENT LOCK MODULE ARGUMENTS…``.

The module runs in a child. When that ends, or the process PARENT, which started this one, does, all processes
that came of it are killed, also those that have left its group or session, and the folder that HIPPO_SCRATCH
names is removed. Then this process ends as the child did. SIGTERM has the child killed. The descriptor LOCK,
which says that the folder is used, stays open until then: without it, others would end this process.

It imports nothing of Hippo's: it stays small while the child, which is forked off at once, becomes large.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
_END_SECONDS = 5.0


def keep(run: Callable[[], None], parent: int, lock: int, status: int | None = None) -> None:
    """Fork a child, in which this runs `run` and returns; in this process it never returns.

    Where there is a descriptor `status`, how the child ended is written there.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at the keyboard: the parent decides what becomes of it
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _set(_PR_SET_CHILD_SUBREAPER, 1)
    _end_with(parent, signal.SIGTERM)
    keeper = os.getpid()
    if forked := os.fork():
        _stay(forked, os.environ["HIPPO_SCRATCH"], lock, status)
    _end_with(keeper, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    run()


def _stay(child: int, folder: str, lock: int, status: int | None) -> None:
    import shutil

    first = 3
    for kept in sorted({lock, lock if status is None else status}):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, 1 << 16)
    ended = _wait(child)
    _end_others()
    shutil.rmtree(folder, ignore_errors=True)
    if status is not None:
        with suppress(OSError):
            os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
        os._exit(0)
    _end_as(ended)


def _set(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value)


def _wait(child: int) -> int:
    """Return the status of the child when it has ended."""
    while True:
        if signal.sigwait(_SIGNALS) == signal.SIGTERM:
            os.kill(child, signal.SIGKILL)
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                return ended[1]


def _end_others() -> None:
    """Kill what the child has left: the system hands it over to this process."""
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        for process in _children():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _children() -> list[int]:
    found, mine = [], os.getpid()
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == mine:
                    found.append(int(name))
    return found


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
        os.kill(os.getpid(), -code)
    os._exit(code)


def _end_with(parent: int, number: signal.Signals) -> None:
    """Have the system send a signal when the parent ends; where it has ended already, end."""
    _set(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(0)


def _run(module: str, arguments: list[str]) -> None:
    import runpy

    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    keep(partial(_run, sys.argv[3], sys.argv[4:]), int(sys.argv[1]), int(sys.argv[2]))
