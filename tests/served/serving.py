"""Servers for tests: real HTTP on loopback, with the workers and stores of real studies."""

from __future__ import annotations

import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from hippotune.executors.base import Executor
from hippotune.executors.local.executor import Local
from hippotune.sequences import custom
from hippotune.serve.program import Options, Server
from hippotune.store.homes import parse_home
from hippotune.store.served import ServedHome
from waiting import SECONDS, until


class Running:
    """A server on a thread of this process."""

    def __init__(self, home: Path | str, make: Callable[[], Executor] | None = None, **options: Any) -> None:
        make = make or (lambda: Local(workers=1))
        given = Options(home=home, make_executor=make, port=0, **{"allow_code": True, **options})
        self._home = ServedHome(parse_home(home)[0])
        self.said: list[str] = []
        self.server = Server(given, self._home, self.said.append)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        until(lambda: self.server.is_up)
        self.url = self.server.url

    def stop(self) -> None:
        self.server.stop()
        self._thread.join(SECONDS)
        self._home.release()
        custom._may_import = True  # the server runs no code of others; this process goes on with its own
        assert not self._thread.is_alive()


@contextmanager
def serving(
    home: Path | str, make: Callable[[], Executor] | None = None, **options: Any
) -> Iterator[Running]:
    running = Running(home, make, **options)
    try:
        yield running
    finally:
        running.stop()


class ServerProcess:
    """``hippo serve`` as a process of its own, which may be killed and started again at the same address."""

    def __init__(
        self,
        home: Path | str,
        *options: str,
        executor: str = "local:1",
        log: Path | None = None,
        certificate: Path | None = None,
        within: Sequence[str] = (),
        is_started: bool = True,
    ) -> None:
        self._home = home
        self._options = [*options, "--executor", executor, "--allow-code"]
        self._certificate = certificate
        self._within = within
        self._port = free_port()
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._port}"
        self.log = log or Path(home).parent / "server.log"
        self.process: subprocess.Popen[bytes]
        if is_started:
            self.start()

    def start(self) -> None:
        command = [*self._within, sys.executable, "-m", "hippotune", "serve", "--home", str(self._home)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--port", str(self._port), *self._options], stdout=output, stderr=output
            )
        until(self._is_up)

    def _is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=10).close()
            verify = ssl.create_default_context(cafile=self._certificate)
            return httpx.get(f"{self.url}/healthz", timeout=10, verify=verify).status_code == 200
        except (OSError, httpx.TransportError):
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(SECONDS)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "process") and self.process.poll() is None:
            self.terminate()


def fill(ballast: Path, room: int = 0) -> None:
    """Have a disk be full, but for `room` in bytes, until this file is removed."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while shutil.disk_usage(ballast.parent).free > room:
            file.write(bytes(4096))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class CuttingProxy:
    """Passes bytes on between clients and a server, and cuts connections at random places."""

    def __init__(self, url: str, seed: int, most: int) -> None:
        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._random = random.Random(seed)
        self._most = most
        self.cuts = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                theirs, _ = self._socket.accept()
            except OSError:
                return
            try:
                ours = socket.create_connection(self._target)
            except OSError:
                theirs.close()
                continue
            for one, other, limit in (
                (theirs, ours, self._random.randrange(1, self._most)),
                (ours, theirs, self._random.randrange(1, self._most)),
            ):
                threading.Thread(target=self._pass_on, args=[one, other, limit], daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, left: int) -> None:
        with suppress(OSError):
            while left > 0 and (data := one.recv(min(left, 4096))):
                other.sendall(data)
                left -= len(data)
        self.cuts += left == 0
        for sock in (one, other):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
