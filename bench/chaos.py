"""What killing costs: a study whose processes are killed at random moments, and whose script is run again.

The study is `studies/noisy.py`: successive halving over schedules, and late branches. While its script runs,
either the script itself (which is the engine) or one of its workers is killed by SIGKILL, at moments spread
evenly from its first instruction to a good while after its first trained step. A script that was killed is
started again. When it has come to its end it is run once more, untouched, and what it prints is compared with
what an undisturbed run printed; then a new round begins in a new home, until all kills are spent.

What was trained is counted from a log that the trainer itself writes, a line for every step.

Bars, for any number of kills:
  no result and no trial's final state differs from the undisturbed run, and none is missing;
  no step is trained again while the plan has its checkpoint;
  no more steps are trained again than had been trained since the last durable checkpoint at the kills (and on
  the way of the one late branch that nobody expected);
  the untouched run at the end of a round trains nothing;
  it leaves no file behind that the plan does not know, and every checkpoint of the plan is whole;
  no process is left over.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from harness import Bar, Figures, run
from hippotune.errors import CheckpointError, StoreError
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config
from hippotune.shell.runtime import checkpoint_folder
from hippotune.store.catalog import FILE_NAME, open_store
from hippotune.store.files import CheckpointFiles
from hippotune.store.secret import FILE_NAME as KEY_NAME
from studies.noisy import states

SCRIPT = Path(__file__).parent / "studies" / "noisy.py"
MARK = "HIPPO_CHAOS"
AFTER_FIRST_STEP = 0.8
"""Kills come until so many seconds after a life would have trained its first step."""

PATIENCE = 300.0

BARS = [
    Bar(figure, "at most", 0)
    for figure in (
        "results_different",
        "results_missing",
        "states_different",
        "steps_in_spite_of_a_checkpoint",
        "steps_beyond_what_was_lost",
        "steps_of_untouched_runs",
        "files_unknown",
        "checkpoints_not_whole",
        "processes_left",
    )
]

Printed = list[dict[str, Any]]


class Life:
    """One run of the script, and the processes that belong to it."""

    def __init__(self, folder: Path, store: str | None) -> None:
        self._mark = secrets.token_hex(8)
        self._out, self._err = folder / "out", folder / "err"
        self.began = time.time()
        with self._out.open("w") as out, self._err.open("w") as err:
            self._script = subprocess.Popen(
                [
                    sys.executable,
                    str(SCRIPT),
                    str(folder / "home"),
                    str(folder / "log"),
                    *filter(None, [store]),
                ],
                stdout=out,
                stderr=err,
                env={**os.environ, MARK: self._mark, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

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

    def kill(self) -> bool:
        """Kill the script; return whether it was still running."""
        self._script.kill()
        return self._script.wait() != 0

    def left_over(self) -> int:
        """Wait for the processes to follow the script; return how many do not."""
        _, alive = psutil.wait_procs(self.workers(), timeout=10)
        for process in alive:
            process.kill()
        return len(alive)

    def printed(self) -> Printed:
        """Return what a script that has come to its end printed."""
        printed: Printed = json.loads(self._out.read_text())
        return printed


class Ledger:
    """What is known of one home from outside: steps from the trainer's log, checkpoints from the plan.

    A state stands for the values of all steps that led to it, so it is the same in every process and run.
    `unexpected` are those on the way to the branch that nobody expected, which are trained twice anyway.
    """

    def __init__(self, folder: Path, store: str | None, unexpected: Iterable[str] = ()) -> None:
        self.folder = folder
        self.store = store
        self.lost = 0
        self._unexpected = set(unexpected)
        folder.mkdir(exist_ok=True)
        self._accounted: set[int] = set()
        self._kept_since: dict[str, int] = {}
        self._ways: dict[Config, list[str]] = {}

    def trained(self) -> list[tuple[int, float, str]]:
        """Return all steps that were trained, in their order: in which process, when, and to which state."""
        log = self.folder / "log"
        parts = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(int(pid), float(moment), state) for pid, moment, state in parts]

    def secured(self, running: bool) -> set[str]:
        """Return the states that are in a checkpoint now, with all states on the way to them."""
        plan, _ = self._plan(running)
        known = len(self.trained())
        secured: set[str] = set()
        for position, _ in plan.checkpoints():
            config = plan[position.node].config
            way = self._ways.get(config, [])
            if len(way) < position.step:
                way = self._ways[config] = [state.hex() for state in islice(states(config), position.step)]
            self._kept_since.setdefault(way[position.step - 1], known)
            secured.update(way[: position.step])
        return secured

    def _plan(self, running: bool) -> tuple[Plan, Path]:
        """Return the plan, and the folder of its checkpoints.

        What a killed process has left of a file is read from a copy: to recover it is left to the next life.
        """
        home = self.folder / "home"
        with tempfile.TemporaryDirectory() as copy:
            if self.store is None and not running:
                for file in home.glob(f"{FILE_NAME}*"):
                    shutil.copy(file, copy)
            source = home if running else Path(copy)
            with suppress(StoreError), open_store(source, self.store, create=False) as catalog:
                for info in catalog.plans():
                    if str(self.folder) in info.key.settings:
                        return Plan.replay(catalog.view(info.key).read()), checkpoint_folder(home, info.key)
        return Plan(), home  # killed before there was one

    def bury(self, pids: set[int] | None, secured: set[str]) -> None:
        """Account for killed processes (None: all of them): what they trained and is not secured is lost.

        So is what they trained again on the way of the unexpected branch: checkpoints further along the way
        that it leaves do not help it.
        """
        known: set[str] = set()
        for number, (pid, _, state) in enumerate(self.trained()):
            if number not in self._accounted and (pids is None or pid in pids):
                self._accounted.add(number)
                self.lost += state not in secured or (state in self._unexpected and state in known)
            known.add(state)

    @property
    def trained_again(self) -> list[str]:
        """The steps that were trained and had been trained before, by the states that they led to."""
        times = Counter(state for _, _, state in self.trained())
        return list((times - Counter(times.keys())).elements())

    @property
    def trained_in_spite(self) -> int:
        """How many steps were trained while it was known that the plan has their checkpoint."""
        trained = enumerate(state for _, _, state in self.trained())
        return sum(number >= self._kept_since.get(state, number + 1) for number, state in trained)

    def audit(self) -> Counter[str]:
        """Compare the plan with the files below the home, when no process is at work."""
        plan, folder = self._plan(running=False)
        files = CheckpointFiles(folder)
        kept = {checkpoint.name: checkpoint for _, checkpoint in plan.checkpoints()}
        databases = (f"{FILE_NAME}{ending}" for ending in ("", "-wal", "-shm"))
        expected = {"checkpoints", "locks", KEY_NAME, *databases}
        found = Counter[str]()
        names = {f"{path.parent.name}/{path.name}" for path in folder.glob("*/*")}
        found["files_unknown"] = len(names - kept.keys())
        found["files_unknown"] += len({path.name for path in (self.folder / "home").iterdir()} - expected)
        for checkpoint in kept.values():
            try:
                files.verify(checkpoint)
            except CheckpointError:
                found["checkpoints_not_whole"] += 1
        return found


def untouched(folder: Path, store: str | None) -> tuple[Printed, float, int]:
    """Run the script to its end; return what it printed, when it was in training, and what was left over."""
    with Life(folder, store) as life:
        life.come_to_its_end()
        first = min((moment for _, moment, _ in Ledger(folder, store).trained()), default=time.time())
        return life.printed(), first - life.began, life.left_over()


def disturbed(
    life: Life, ledger: Ledger, chance: random.Random, span: float, kills: int
) -> tuple[Counter[str], bool]:
    """Kill one process after the other; return how many, and whether the script came to its end."""
    killed = Counter[str]()
    while killed.total() < kills:
        if life.ends_within(chance.uniform(0, span)):
            return killed, True
        workers = life.workers()
        if workers and chance.random() < 0.5:
            worker = chance.choice(workers)
            secured = ledger.secured(running=True)
            with suppress(psutil.NoSuchProcess):
                worker.kill()
                worker.wait()
                ledger.bury({worker.pid}, secured)
                killed["kills_of_workers"] += 1
        elif life.kill():
            killed["kills_of_engines"] += 1
            return killed, False
    life.come_to_its_end()
    return killed, True


def lives(ledger: Ledger, chance: random.Random, first_step: float, kills: int) -> Counter[str]:
    """Start the script again and again until it comes to its end; return the figures.

    `first_step` is how long a life takes to its first trained step, as it was last time.
    """
    figures = Counter[str]()
    spent, ended = 0, False
    while not ended:
        before = len(ledger.trained())
        with Life(ledger.folder, ledger.store) as life:
            killed, ended = disturbed(life, ledger, chance, first_step + AFTER_FIRST_STEP, kills - spent)
            figures["processes_left"] += life.left_over()
        if new := ledger.trained()[before:]:
            first_step = min(moment for _, moment, _ in new) - life.began
        if not ended:
            ledger.bury(None, ledger.secured(running=False))
        spent += killed.total()
        figures.update(killed)
        figures["lives"] += 1
    return figures


def compared(expected: Printed, found: Printed) -> Counter[str]:
    """Compare what two runs printed."""
    figures = Counter[str]()
    for place, trial in enumerate(expected):
        other = found[place] if place < len(found) else {"config": None, "metrics": {}, "state": None}
        figures["states_different"] += (trial["config"], trial["state"]) != (other["config"], other["state"])
        for step, metrics in trial["metrics"].items():
            figures["results_compared"] += 1
            figures["results_missing"] += step not in other["metrics"]
            figures["results_different"] += other["metrics"].get(step, metrics) != metrics
        figures["results_different"] += len(other["metrics"].keys() - trial["metrics"].keys())
    figures["results_different"] += max(len(found) - len(expected), 0)
    return figures


def played(ledger: Ledger, expected: Printed, anyway: int, *disturbance: Any) -> Counter[str]:
    """Play one round in a home of its own; return its figures."""
    figures = lives(ledger, *disturbance)
    trained = len(ledger.trained())
    found, _, left = untouched(ledger.folder, ledger.store)
    figures.update(compared(expected, found))
    figures.update(ledger.audit())
    figures["rounds"] += 1
    figures["processes_left"] += left
    figures["steps_trained"] += trained
    figures["steps_of_untouched_runs"] += len(ledger.trained()) - trained
    again = len(ledger.trained_again)
    figures["steps_trained_again"] += again
    figures["steps_lost"] += ledger.lost
    figures["steps_in_spite_of_a_checkpoint"] += ledger.trained_in_spite
    figures["steps_beyond_what_was_lost"] += max(again - ledger.lost - anyway, 0)
    return figures


def measure(options: argparse.Namespace) -> Figures:
    began = time.monotonic()
    chance = random.Random(options.seed)
    figures = Counter[str](dict.fromkeys(("kills_of_engines", "kills_of_workers", "rounds", "lives"), 0))
    with tempfile.TemporaryDirectory() as folder:
        first = Ledger(Path(folder) / "undisturbed", options.store)
        expected, first_step, figures["processes_left"] = untouched(first.folder, options.store)
        while (kills := figures["kills_of_engines"] + figures["kills_of_workers"]) < options.kills:
            print(f"{kills} of {options.kills} kills", file=sys.stderr)
            again = first.trained_again
            ledger = Ledger(Path(folder) / f"round-{figures['rounds']}", options.store, again)
            figures.update(played(ledger, expected, len(again), chance, first_step, options.kills - kills))
            shutil.rmtree(ledger.folder)
    barred = {bar.figure: figures.pop(bar.figure, 0) for bar in BARS}
    return {"trials": len(expected), **figures, **barred, "seconds": time.monotonic() - began}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=200, help="how many processes to kill (200)")
    parser.add_argument("--seed", type=int, default=0, help="decides what is killed when (0)")
    parser.add_argument("--store", help="a PostgreSQL URL, in place of SQLite")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
