"""A small trainer full of randomness, which does whatever a test wants to go wrong."""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import random
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hippotune.trainers.base import Trainer


def fall_ill(fault: str) -> None:
    """Do what a fault's name says."""
    match fault:
        case "raise":
            raise ZeroDivisionError("the trainer has had enough")
        case "exit":
            sys.exit("the trainer wants to leave")
        case "print":
            print("the trainer is fine")
        case "kill":
            print("these are the last words")
            os.kill(os.getpid(), signal.SIGKILL)
        case "exhaust":
            raise MemoryError
        case "disconnect":
            raise ConnectionResetError("the other end is gone")
        case "misread":
            raise OSError(errno.EIO, "the disk does not answer")
        case "overfill":
            Path("/dev/full").write_bytes(b"more")
        case "part":
            raise RuntimeError("NCCL error in: ProcessGroupNCCL.cpp, unhandled system error")
        case "segfault":
            ctypes.string_at(0)
        case "hang":
            signal.pause()
        case "orphan":
            if os.fork() == 0:
                signal.pause()
            os.kill(os.getpid(), signal.SIGKILL)


class Noisy(Trainer):
    """Takes a random walk. Every state depends on all that came before it, and every step logs some of it.

    Hyper-parameters: `rate`; `fault`, as in ``"train raise 3"``: what to do in which method after how many
    steps; `hold`, the step count from which on the gate is asked before each step.
    Settings: `gate`, the address of that gate.
    """

    volatile = frozenset({"pid"})

    def build(self) -> None:
        self.weights = np.zeros(3)
        self.generator = np.random.default_rng(self.seed)
        self.trained = 0
        self.values: dict[str, Any] = {}

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.values.update(hp)
        self.maybe("setup")

    def train(self) -> None:
        if self.trained >= self.values["hold"]:
            self.ask(self.settings["gate"])
        self.maybe("train")
        noise = self.generator.normal(size=3) + np.random.normal(size=3) + random.random()
        self.weights = 0.9 * self.weights + self.values["rate"] * noise
        self.trained += 1
        self.log(weight=-1, trained=self.trained)
        self.log(weight=self.weights[0], **({"even": 1.0} if self.trained % 2 == 0 else {}))

    def evaluate(self) -> Mapping[str, float]:
        self.maybe("evaluate")
        noise = np.random.normal() + random.random()  # put back afterwards by whoever calls
        metrics = {
            "sum": float(self.weights.sum()),
            "noise": noise,
            "trained": self.trained,
            "pid": os.getpid(),
            "order": hash("the order of strings in a set"),
        }
        if self.is_due("evaluate forget"):
            del metrics["sum"]
        return {**metrics, **({"sum": "much"} if self.is_due("evaluate babble") else {})}  # type: ignore[dict-item]

    def save(self, path: Path) -> None:
        self.maybe("save")
        path.write_bytes(pickle.dumps((self.weights, self.generator, self.trained, self.values)))

    def load(self, path: Path) -> None:
        values = self.values
        self.weights, self.generator, self.trained, self.values = pickle.loads(path.read_bytes())
        self.values = values
        self.maybe("load")

    def is_due(self, fault: str) -> bool:
        return bool(self.values["fault"] == f"{fault} {self.trained}")

    def maybe(self, where: str) -> None:
        place, _, fault = str(self.values.get("fault", "")).partition(" ")
        what, _, when = fault.partition(" ")
        if place == where and when == str(self.trained):
            fall_ill(what)

    def ask(self, address: str) -> None:
        with socket.socket(socket.AF_UNIX) as gate:
            gate.connect(address)
            gate.sendall(str(self.trained).encode())
            gate.recv(1)  # nothing ever comes; the other side hangs up
