"""Workers that start at once: forks of a process that has imported everything and has run nothing.

Where there is no fork server, an engine starts a worker as ``python -P keeper.py PARENT LOCK MODULE
ARGUMENTS``, and a worker starts a fresh interpreter so too. Inside `warm_workers` there is none, and
``sys.executable`` is a small program that hands its arguments, environment and open files over to such a
process, and waits for the fork that runs the module. To the engine both are one process: they end with one
status, and with the process that started them.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from hippotune.executors.local import fork_server

_LAUNCHER = """#!{python} -IS
import ctypes, json, os, socket, sys
ctypes.CDLL(None).prctl(1, 15)
fds = [0, 1, 2] + [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
kept = []
for fd in fds:
    try:
        os.fstat(fd)
        kept.append(fd)
    except OSError:
        pass
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
said = json.dumps([sys.argv[1:], dict(os.environ), os.getpgrp(), kept]).encode()
socket.send_fds(line, [len(said).to_bytes(8, "big")], kept)
line.sendall(said)
for fd in kept[3:]:
    os.close(fd)
status = int(line.recv(16) or b"1")
sys.exit(status) if status >= 0 else os.kill(os.getpid(), -status)
"""


@contextlib.contextmanager
def warm_workers(folder: Path) -> Iterator[None]:
    """Have workers that are started inside be forks of this process as it is now."""
    address = str(folder / "workers")
    launcher = folder / "python"
    launcher.write_text(_LAUNCHER.format(python=sys.executable, address=address))
    launcher.chmod(0o700)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    python, sys.executable = sys.executable, str(launcher)
    is_possible, fork_server.is_possible = fork_server.is_possible, lambda: False
    server = os.fork()
    if server == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _serve(listening)
    listening.close()
    try:
        yield
    finally:
        sys.executable, fork_server.is_possible = python, is_possible
        os.kill(server, 15)
        os.waitpid(server, 0)


def _serve(listening: socket.socket) -> None:
    """Fork twice for every call, so that a worker's end is waited for beside further calls."""
    while True:
        line, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            asked = _asked(line)
            worker = os.fork()
            if worker == 0:
                line.close()
                try:
                    _run(*asked)
                finally:  # also where the study has ended it before it began: its group is gone
                    os._exit(1)
            ended = os.pidfd_open(worker)
            ready, _, _ = select.select([ended, line], [], [])
            if ended not in ready:  # its other half is gone
                os.kill(worker, 9)
            _, status = os.waitpid(worker, 0)
            with contextlib.suppress(OSError):
                line.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        line.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _asked(line: socket.socket) -> tuple[list[str], dict[str, str], int, list[int], list[int]]:
    """Return arguments, environment, group, and the numbers that open files have there and here."""
    head, sent = _received(line)
    said = b""
    while len(said) < head:
        said += line.recv(head - len(said))
    arguments, environment, group, numbers = json.loads(said)
    return arguments, environment, group, numbers, sent


def _run(
    arguments: list[str], environment: dict[str, str], group: int, numbers: list[int], sent: list[int]
) -> None:
    os.setpgid(0, group)
    for fd in sent:  # out of the way first: a number may be taken by another one's copy
        os.set_inheritable(fd, False)
    high = [os.dup(fd) for fd in sent]
    while high and min(high) <= max(numbers):
        high = [os.dup(fd) for fd in high]
    for fd, number in zip(high, numbers, strict=True):
        os.dup2(fd, number)
    os.environ.clear()
    os.environ.update(environment)
    _, _, _, _, module, *others = arguments
    sys.argv = [module, *others]
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _received(line: socket.socket) -> tuple[int, list[int]]:
    fds = array.array("i")
    head, ancillary, _, _ = line.recvmsg(8, socket.CMSG_LEN(64 * fds.itemsize))
    for _, _, data in ancillary:
        fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return int.from_bytes(head, "big"), list(fds)
