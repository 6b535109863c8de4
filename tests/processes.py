"""Processes that tests start, and those that are below a process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil


@contextmanager
def program(
    *arguments: str, path: Path = Path(__file__).parent
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `hippo`, with modules of `path`, until the block ends; yields the first address that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    with subprocess.Popen(
        [sys.executable, "-m", "hippotune", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as running:
        try:
            assert running.stdout is not None
            yield address_in(running.stdout), running
        finally:
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=120)


def address_in(output: IO[str]) -> str:
    said = []
    for line in output:
        said.append(line)
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise AssertionError("".join(said))


def below(root: psutil.Process | None = None) -> set[psutil.Process]:
    """Return all processes that run below one, without fork servers, which may wait for further work."""
    found = set()
    for child in (root or psutil.Process()).children():
        with suppress(psutil.NoSuchProcess):
            if "hippotune.executors.local.fork_server" not in child.cmdline():
                found.add(child)
            found.update(child.children(recursive=True))
    return {process for process in found if _runs(process)}


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def free_port() -> str:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return str(made.getsockname()[1])
