"""`hippo` in a process of its own that prints an address and serves a page there."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def program(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `hippo` until the block ends; yields the address that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
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


def free_port() -> str:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return str(made.getsockname()[1])
