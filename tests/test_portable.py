"""Where there are no forks, POSIX locks and numbers of users, all can be imported, and says what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hippotune import portable

WINDOWS = """
import os, signal, socket, select, sys
import asyncio, multiprocessing.connection, subprocess, tempfile, uuid
import httpx, numpy, rich.console, sqlalchemy, uvicorn

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for holder, names in {
    os: "fork register_at_fork geteuid getuid setsid setpgid killpg fchmod fchown pread pwrite O_NOFOLLOW "
    "O_CLOEXEC O_NONBLOCK pidfd_open sched_getaffinity sched_setaffinity waitpid WNOHANG",
    signal: "SIGCHLD SIGKILL SIGCONT SIGSTOP SIGHUP pthread_sigmask sigwait pidfd_send_signal",
    socket: "SOCK_SEQPACKET send_fds recv_fds",
    select: "poll epoll",
}.items():
    for name in names.split():
        vars(holder).pop(name, None)
"""
IMPORTS = """
import importlib, pkgutil
import hippotune
skipped = ("hippotune.executors.keeper", "hippotune.cli.templates")  # a program; files for users
for found in pkgutil.walk_packages(hippotune.__path__, "hippotune."):
    if not found.name.startswith((*skipped, *sys.argv[1:])) and not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
STUDY = """
import hippotune as hippo

class Walk(hippo.Trainer):
    def build(self): self.place = 0
    def setup(self, hp): self.lr = hp["lr"]
    def train(self): self.place += self.lr
    def evaluate(self): return {"loss": self.place}

tuner = hippo.GridSearch({"lr": [1, 2]}, "loss", "min", max_steps=3)
report = hippo.Study("walk", Walk, executor=hippo.Simulated(workers=1)).tune(tuner, progress=False)
assert len(report.trials) == 2
try:
    hippo.Study("walk", Walk, executor=hippo.Local(workers=1)).tune(tuner, progress=False)
except hippo.errors.HippoError as error:
    assert "hippo.Local trains on Linux and macOS" in str(error), error
else:
    raise AssertionError
"""
NEED_MORE = (
    "hippotune.adapters",
    "hippotune.executors.ray",
    "hippotune.trainers",
    "hippotune.sinks",
    "hippotune.plots",
)
"""Modules that import torch and other large libraries, which were not made for such a system here."""


def test_all_is_imported_and_virtual_time_runs(tmp_path: Path) -> None:
    program = [sys.executable, "-c", WINDOWS + STUDY + IMPORTS, *NEED_MORE]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_lock_is_one_process_s_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    portable.lock(first)
    with pytest.raises(BlockingIOError):
        portable.lock(second, shared=True)
    os.close(first)
    portable.lock(second, shared=True)
    os.close(second)
