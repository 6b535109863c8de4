"""One run of a study's script, the processes that belong to it, and what can be done to them."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psutil

SCRIPT = Path(__file__).parent / "studies" / "noisy.py"
MARK = "HIPPO_CHAOS"
PATIENCE = 300.0

Attack = Literal["worker", "engine", "both", "terminate", "interrupt", "stop_worker", "stop_engine"]
ATTACKS: dict[Attack, int] = {
    "worker": 38,
    "engine": 26,
    "both": 8,
    "terminate": 8,
    "interrupt": 8,
    "stop_worker": 6,
    "stop_engine": 6,
}
"""What is done how often: SIGKILL to a worker, to the engine or to both at once; SIGTERM and Ctrl-C (SIGINT)
to the engine; SIGSTOP, and a while later SIGCONT, to either. A stopped engine may lose a worker meanwhile.
"""


class Life:
    """One run of the script. Temporary files go to a folder of its own; its home is there, too, or a URL."""

    def __init__(self, folder: Path, kind: str, store: str | None, home: str | None = None) -> None:
        self._mark = secrets.token_hex(8)
        self._out, self._err = folder / "out", folder / "err"
        scratch = folder / "tmp"
        scratch.mkdir(exist_ok=True)
        self.began = time.time()
        arguments = [kind, home or str(folder / "home"), str(folder / "log"), *filter(None, [store])]
        ours = {MARK: self._mark, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(sys.path)}
        with self._out.open("w") as out, self._err.open("w") as err:
            self._script = subprocess.Popen(
                [sys.executable, str(SCRIPT), *arguments], stdout=out, stderr=err, env={**os.environ, **ours}
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._script.kill()
        self._script.wait()

    def workers(self) -> list[psutil.Process]:
        """Return all processes of this life but the script itself."""
        return [process for process in self._processes() if process.pid != self._script.pid]

    def _processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def ends_within(self, seconds: float) -> bool:
        """Wait; return whether the script has come to its end."""
        with suppress(subprocess.TimeoutExpired):
            self._script.wait(seconds)
        if self._script.returncode:
            raise RuntimeError(f"the script ended with {self._script.returncode}:\n{self._err.read_text()}")
        return self._script.returncode == 0

    def come_to_its_end(self) -> None:
        """Wait until the script ends by itself."""
        if not self.ends_within(PATIENCE):
            raise RuntimeError(f"the script is stuck for {PATIENCE} seconds:\n{self._err.read_text()}")

    def end(self, number: signal.Signals) -> bool:
        """Send the script a signal that ends it, and wait; return whether it had come to its end before."""
        self._script.send_signal(number)
        try:
            return self._script.wait(PATIENCE) == 0
        except subprocess.TimeoutExpired:
            said = self._err.read_text()
            raise RuntimeError(
                f"the script goes on for {PATIENCE} seconds after {number.name}:\n{said}"
            ) from None

    def attack(self, chance: random.Random) -> tuple[Attack, set[int] | None]:
        """Do something to the script or its workers; return what, and the processes that were killed.

        None stands for all of them: the script was ended.
        """
        attack: Attack = chance.choices(list(ATTACKS), list(ATTACKS.values()))[0]
        workers = self.workers()
        if not workers and attack in ("worker", "both", "stop_worker"):
            attack = "engine"
        match attack:
            case "worker":
                return attack, kill(chance.choice(workers))
            case "stop_worker" | "stop_engine":
                stopped = (
                    chance.choice(workers) if attack == "stop_worker" else psutil.Process(self._script.pid)
                )
                killed: set[int] = set()
                with suppress(psutil.NoSuchProcess):
                    stopped.suspend()
                    time.sleep(chance.uniform(0.05, 0.5))
                    if workers and attack == "stop_engine" and chance.random() < 0.5:
                        killed = kill(chance.choice(workers))
                    stopped.resume()
                return attack, killed
            case "both":
                self._script.kill()
                kill(chance.choice(workers))
                number = signal.SIGKILL
            case "engine" | "terminate" | "interrupt":
                number = {"engine": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}[
                    attack
                ]
        return attack, set() if self.end(number) else None

    def left_over(self) -> int:
        """Wait for the processes to follow the script; return how many do not."""
        _, alive = psutil.wait_procs(self.workers(), timeout=10)
        for process in alive:
            process.kill()
        return len(alive)

    def printed(self) -> dict[str, Any]:
        """Return what a script that has come to its end printed."""
        printed: dict[str, Any] = json.loads(self._out.read_text())
        return printed


def kill(process: psutil.Process) -> set[int]:
    """Kill a process and wait until it, and those that it keeps, run no more; return their numbers."""
    with suppress(psutil.NoSuchProcess):
        ended = [process, *process.children(recursive=True)]
        process.kill()
        deadline = time.monotonic() + PATIENCE
        while any(map(_is_running, ended)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {process.pid} was killed, and {ended} go on for {PATIENCE} s")
            time.sleep(0.005)
        return {each.pid for each in ended}
    return set()


def _is_running(process: psutil.Process) -> bool:
    """Whether a process lives. One that its parent, being stopped, has not taken note of yet does not."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
