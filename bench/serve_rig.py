"""What `serve.py` measures with: a trainer, servers and clients as processes, a proxy that cuts."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

import hippotune as hippo

STEPS = 12
HERE = Path(__file__).parent


class Trivial(hippo.Trainer):
    """Costs nothing to train; what it measures follows from every value that it was trained with."""

    def build(self) -> None:
        self.total = 0.0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.total = self.total * 0.99 + self.lr
        if pause := self.settings.get("seconds"):
            time.sleep(pause)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": 1 / (1 + self.total)}


def space_of(client: int) -> dict[str, list[Any]]:
    """Return a client's space: half of it is its neighbour's too, and all begin alike."""
    drops = [hippo.MultiStep(0.1, [2 + (client + place) % STEPS], 0.5) for place in range(4)]
    return {"lr": [*drops, hippo.MultiStep(0.1, [4, 8], 0.1 * (client + 2) / 10)]}


def tuner_of(client: int) -> hippo.GridSearch:
    return hippo.GridSearch(space_of(client), metric="loss", mode="min", max_steps=STEPS)


class ServerProcess:
    """``hippo serve`` at an address that stays the same when it is killed and started again."""

    def __init__(self, home: Path, *options: str, workers: int = 2) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._home = home
        self._options = ["--allow-code", "--executor", f"local:{workers}", *options]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "hippotune", "serve", "--home", str(self._home)]
        with (self._home.parent / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), *self._options], stdout=log, stderr=log
            )
        until = time.monotonic() + 600
        while time.monotonic() < until:
            with suppress(httpx.TransportError):
                httpx.get(f"{self.url}/version", timeout=60)
                return
            time.sleep(0.05)
        raise RuntimeError("the server does not come up; see server.log")

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}{path}", timeout=60).json()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(120)


class ClientProcess:
    """A study in a process of its own: ``serve.py --client NUMBER URL``. Its results are its last line."""

    def __init__(self, number: int, url: str, seconds: float = 0.0, tuner: str = "client") -> None:
        self.number = number
        command = [sys.executable, str(HERE / "serve.py"), "--client", str(number), "--url", url]
        self.process = subprocess.Popen(
            [*command, "--step-seconds", str(seconds), "--tuner", tuner],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(HERE)},
        )

    def results(self) -> Any:
        out, _ = self.process.communicate(timeout=600)
        if self.process.returncode:
            raise RuntimeError(f"client {self.number} ended with status {self.process.returncode}")
        return json.loads(out.splitlines()[-1])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def run_client(number: int, seconds: float, tuner: str, **where: Any) -> list[Any]:
    """Tune a client's study, and return what was measured."""
    settings = {"seconds": seconds} if seconds else {}
    if "url" in where:
        where |= {"tuner": tuner, "code": "value"}
    with hippo.Study(f"client-{number}", Trivial, settings=settings, **where) as study:
        report = study.tune(tuner_of(number), progress=False)
    return [[trial.number, trial.metrics[STEPS]["loss"]] for trial in report.trials]


class CuttingProxy:
    """Passes bytes on, and cuts connections at random places."""

    def __init__(self, port: int, seed: int, most: int = 4_000) -> None:
        self._target, self._random, self._most = ("127.0.0.1", port), random.Random(seed), most
        self.cuts = 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            theirs, _ = self._socket.accept()
            try:
                ours = socket.create_connection(self._target)
            except OSError:
                theirs.close()
                continue
            for one, other in ((theirs, ours), (ours, theirs)):
                left = self._random.randrange(1, self._most)
                threading.Thread(target=self._pass_on, args=[one, other, left], daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, left: int) -> None:
        with suppress(OSError):
            while left > 0 and (data := one.recv(min(left, 4096))):
                other.sendall(data)
                left -= len(data)
        self.cuts += left == 0
        for sock in (one, other):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
