"""An S3 server of our own, on this machine alone: for tests and benchmarks."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from waiting import until

_PATIENCE = 120.0
_buckets = itertools.count()


@dataclass(frozen=True)
class Server:
    """A server: where it listens, and what clients find it by, in their environment."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "hippo",
            "AWS_SECRET_ACCESS_KEY": "hippo",
            "AWS_REGION": "us-east-1",
        }

    def new_bucket(self) -> str:
        """Make a bucket; return its URL."""
        name = f"bucket-{next(_buckets)}"
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=_PATIENCE).close()
        return f"s3://{name}"


@contextmanager
def s3_server() -> Iterator[Server]:
    """Run a server in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    start = partial(subprocess.Popen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process = start(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    try:
        until(lambda: process.poll() is not None or _is_up(f"http://127.0.0.1:{port}"))
        assert process.poll() is None, "the S3 server does not come up"
        yield Server(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def _is_up(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=_PATIENCE).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
