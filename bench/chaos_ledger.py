"""What an observer of one home knows: steps from the trainer's log, checkpoints and trials from the plan."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from hippotune.errors import CheckpointError, StoreError
from hippotune.plan.facts import Fact, RequestMade, SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config
from hippotune.store.catalog import FILE_NAME, open_store
from hippotune.store.files import CheckpointFiles, checkpoint_folder
from studies.noisy import states


class Ledger:
    """What is known of one home from outside: steps from the trainer's log, checkpoints from the plan.

    A state stands for the values of all steps that led to it, so it is the same in every process and run.
    `unexpected` are those on the way to the unexpected branch, which are trained twice anyway.
    """

    def __init__(self, folder: Path, store: str | None, unexpected: Iterable[str] = ()) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.store = store
        self.lost = 0
        self._unexpected = set(unexpected)
        folder.mkdir(exist_ok=True)
        self._accounted: set[int] = set()
        self._buried: set[int] = set()
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
        for position, checkpoint in plan.checkpoints():
            config = plan[position.node].config
            way = self._ways.get(config, [])
            if len(way) < position.step:
                way = self._ways[config] = [state.hex() for state in islice(states(config), position.step)]
            if not checkpoint.interim:  # those go when their stage ends
                self._kept_since.setdefault(way[position.step - 1], known)
            secured.update(way[: position.step])
        return secured

    def _plan(self, running: bool) -> tuple[Plan, Path]:
        """Return the plan, and the folder of its checkpoints."""
        facts, folder = self._facts(running)
        return Plan.replay(facts), folder

    def _facts(self, running: bool) -> tuple[list[Fact], Path]:
        """Return the facts of the home's one plan but for logged numbers, and the folder of its checkpoints.

        What a killed process has left of a file is read from a copy: to recover it is left to the next life.
        """
        with tempfile.TemporaryDirectory() as copy:
            if self.store is None and not running:
                for file in self.home.glob(f"{FILE_NAME}*"):
                    shutil.copy(file, copy)
            source = self.home if running else Path(copy)
            with suppress(StoreError), open_store(source, self.store, create=False) as catalog:
                for info in catalog.plans():
                    view = catalog.view(info.key)
                    return [*view.read(), *view.spans()], checkpoint_folder(self.home, info.key)
        return [], self.home  # killed before there was one

    def trials_asked_twice(self) -> int:
        """Count the trials that were one config in one life, and another in a later one.

        Number 0 says nothing: models that are loaded in the end are asked for under it.
        """
        configs: dict[int, set[Config]] = {}
        for fact in self._facts(running=False)[0]:
            if isinstance(fact, RequestMade) and fact.trial > 0:
                configs.setdefault(fact.trial, set()).add(fact.config)
        return sum(len(asked) > 1 for asked in configs.values())

    def bury(self, pids: set[int] | None, secured: set[str]) -> None:
        """Account for killed processes (None: all of them): what they trained and is not secured is lost.

        So is what they trained again on the way of the unexpected branch: checkpoints further along the way
        that it leaves do not help it.
        """
        known: set[str] = set()
        for number, (pid, _, state) in enumerate(self.trained()):
            if number not in self._accounted and (pids is None or pid in pids):
                self._accounted.add(number)
                self._buried.add(pid)
                self.lost += state not in secured or (state in self._unexpected and state in known)
            known.add(state)

    @property
    def trained_again(self) -> list[str]:
        """The steps that were trained and had been trained before, by the states that they led to."""
        times = Counter(state for _, _, state in self.trained())
        return list((times - Counter(times.keys())).elements())

    def proved(self) -> int:
        """Return how many steps were trained once more to prove exactness, by processes that lived on."""
        spans = [fact for fact in self._facts(running=False)[0] if isinstance(fact, SpanRecorded)]
        return sum(span.last - span.first for span in spans if span.kind == "proof")

    def excused(self) -> int:
        """Return how many steps may have been trained once more to prove exactness, also in vain.

        What a killed process was at is not known: it may have been a proof of two steps.
        """
        in_vain = Counter(pid for pid in self._in_spite() if pid in self._buried)
        return self.proved() + sum(min(steps, 2) for steps in in_vain.values())

    @property
    def trained_in_spite(self) -> int:
        """How many steps were trained while it was known that the plan has their checkpoint."""
        return len(self._in_spite())

    def _in_spite(self) -> list[int]:
        """Return the processes that trained such steps."""
        trained = enumerate(self.trained())
        return [pid for number, (pid, _, at) in trained if number >= self._kept_since.get(at, number + 1)]

    def names(self) -> set[str]:
        """Return what is in the home, but for the files that a database has beside it while it is open."""
        return {path.name for path in self.home.iterdir()} - {f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}

    def audit(self, expected: set[str]) -> Counter[str]:
        """Compare the plan with the files below the home, when no process is at work."""
        plan, folder = self._plan(running=False)
        files = CheckpointFiles(folder)
        kept = {checkpoint.name: checkpoint for _, checkpoint in plan.checkpoints()}
        found = Counter[str]()
        names = {f"{path.parent.name}/{path.name}" for path in folder.glob("*/*")}
        names = {name for name in names if not re.match(r"logs/\d+-", name)}  # what was printed is kept
        unknown = sorted((names - kept.keys()) | (self.names() - expected))
        found["files_unknown"] = len(unknown)
        if unknown:
            print(f"  unknown files: {unknown}", file=sys.stderr)
        for checkpoint in kept.values():
            try:
                files.verify(checkpoint)
            except CheckpointError:
                found["checkpoints_not_whole"] += 1
        return found
