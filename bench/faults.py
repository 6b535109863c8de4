"""What a failing call costs: every SQL statement and every file call of a small study fails once.

`studies/faulty.py` says what a point is. At each of them, in the driver and in its worker, the process is
killed, or the call fails with EIO or with ENOSPC (a full disk); then the same is run again, undisturbed. The
scenarios are a study from its first call to its last, and ``hippo gc --plans``.

Bars, for all points:
  the second run ends, with the results of an undisturbed study, bit for bit;
  it leaves no file behind that the plan does not know, and every checkpoint of the plan is whole;
  a failing call ends the first run with a message, or not at all: no other exception, and nothing is stuck.

``--every N`` takes every N-th point only. Drivers are forked off this process, which has imported everything.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from harness import Bar, Figures, run
from hippotune.cli.main import main
from hippotune.errors import CheckpointError, HippoError
from hippotune.plan.facts import CheckpointKept
from hippotune.store.catalog import open_store
from hippotune.store.files import CheckpointFiles, checkpoint_folder
from studies.faulty import FAULT, arm, tuned

FAULTS = ("kill", "EIO", "ENOSPC")
PATIENCE = 120.0
_FAILED, _UNEXPLAINED, _STUCK = 3, 4, 5
BARS = [
    Bar(figure, "at most", 0)
    for figure in (
        "runs_again_failed",
        "results_different",
        "files_unknown",
        "checkpoints_not_whole",
        "plans_left",
        "errors_not_explained",
        "runs_stuck",
    )
] + [Bar("points", "at least", 1)]


@dataclass(frozen=True)
class Fault:
    """Which call fails, of which process, and how; `log` is where all calls are told."""

    home: str
    log: str
    token: str
    role: str = "nobody"
    place: int = 0
    fault: str = ""


def in_child(folder: Path, action: str, fault: Fault | None) -> int:
    """Run an action in a process of its own, with workers of its own; return its exit status."""
    if fault is not None:
        Path(fault.token).touch()
    process = get_context("fork").Process(target=_as_program, args=[folder, action, fault])
    process.start()
    process.join(PATIENCE)
    if (status := process.exitcode) is None:
        process.kill()
        process.join()
        return _STUCK
    return status


def _as_program(folder: Path, action: str, fault: Fault | None) -> None:
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        with (folder / name).open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    if fault is not None:
        os.environ[FAULT] = json.dumps(asdict(fault))
        arm()
    status = act(action, folder / "home")
    atexit._run_exitfuncs()  # which forked processes leave out
    sys.exit(status)


def act(action: str, home: Path) -> int:
    """Do what the process of `in_child` is for."""
    try:
        if action == "prepare":  # a plan that is in use, and one that is not any more
            tuned(home, "0")
            tuned(home, "1")
            return 0
        if action == "gc":
            return main(["gc", "--plans", "--yes", "--home", str(home)])
        print(tuned(home))
    except HippoError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return _FAILED
    except Exception:
        import traceback

        traceback.print_exc()
        return _UNEXPLAINED
    return 0


def audit(home: Path) -> Counter[str]:
    """Compare the plans of a home with its files."""
    found = Counter[str]()
    known = set()
    with open_store(home, create=False) as catalog:
        for info in catalog.plans():
            files = CheckpointFiles(checkpoint_folder(home, info.key))
            kept = [
                fact.checkpoint for fact in catalog.view(info.key).read() if isinstance(fact, CheckpointKept)
            ]
            known |= {files.directory / name for name in ("store.json", *(each.name for each in kept))}
            for checkpoint in kept:
                try:
                    files.verify(checkpoint)
                except CheckpointError:
                    found["checkpoints_not_whole"] += 1
        found["plans"] = len(catalog.plans())
    present = {
        path
        for path in (home / "checkpoints").glob("[0-9a-f]*/**/*")
        if not path.is_dir() and path.parent.name != "logs"
    }
    present |= {path for path in home.iterdir() if path.suffix == ".partial" or ".partial" in path.name}
    found["files_unknown"] = len(present - known)
    return found


class Scenario:
    """Something that is done to a home: from a template, with a fault, and again without one."""

    def __init__(self, folder: Path, action: str) -> None:
        self.folder = folder / action
        self.action = action
        self._template = self.folder / "template"
        self.folder.mkdir()
        if action == "gc":
            assert in_child(self.folder, "prepare", None) == 0, (self.folder / "err").read_text()
            (self.folder / "home").rename(self._template)

    def fresh(self) -> Path:
        home = self.folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        if self._template.exists():
            shutil.copytree(self._template, home, symlinks=True)
        return home

    def fault(self, role: str = "nobody", place: int = 0, fault: str = "") -> Fault:
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        return Fault(str(self.folder / "home"), str(log), str(self.folder / "token"), role, place, fault)

    def points(self) -> tuple[list[tuple[str, int, str]], str]:
        """Return all points of an undisturbed run, and what it prints."""
        self.fresh()
        fault = self.fault()
        status = in_child(self.folder, self.action, fault)
        assert status == 0, (self.folder / "err").read_text()
        lines = [line.split(maxsplit=2) for line in Path(fault.log).read_text().splitlines()]
        return [(role, int(place), what) for role, place, what in lines], (self.folder / "out").read_text()

    def disturb(self, role: str, place: int, what: str, fault: str, expected: str) -> Counter[str]:
        """Let one call fail, then run the same again; return the figures."""
        home = self.fresh()
        injected = self.fault(role, place, fault)
        figures = Counter[str]({"runs": 1})
        status = in_child(self.folder, self.action, injected)
        missed = Path(injected.token).exists()  # another order of calls: the run had fewer than the first
        figures["faults_injected"] += not missed
        figures["first_runs_that_ended_well"] += status == 0
        figures["errors_not_explained"] += status in (_UNEXPLAINED, 1) and fault != "kill"
        figures["runs_stuck"] += status == _STUCK
        report = (self.folder / "err").read_text()
        if status == 0 and self.action == "study":
            figures["results_different"] += (self.folder / "out").read_text() != expected
        again = in_child(self.folder, self.action, None)
        figures["runs_again_failed"] += again != 0
        report += (self.folder / "err").read_text()
        if again == 0:
            if self.action == "study":
                figures["results_different"] += (self.folder / "out").read_text() != expected
            checked = audit(home)
            figures["plans_left"] += checked.pop("plans") - 1
            figures.update(checked)
        if any(figures[bar.figure] for bar in BARS[:-1]):
            print(
                f"{self.action}, {fault} at {role} {place} ({what}): {dict(figures)}\n{report}",
                file=sys.stderr,
            )
        return figures


def measure(options: argparse.Namespace) -> Figures:
    began = time.monotonic()
    figures = Counter[str]()
    with ExitStack() as stack:
        folder = tempfile.mkdtemp()  # what a forked process does at its exit leaves it alone
        stack.callback(shutil.rmtree, folder)
        for action in options.only.split(","):
            scenario = Scenario(Path(folder), action)
            points, expected = scenario.points()
            figures["points"] += len(points)
            for role, _, what in points:
                figures[f"points_{action}_{role}_{what.split()[0]}"] += 1
            chosen = [(*point, fault) for point in points for fault in FAULTS][options.first :: options.every]
            for number, (role, place, what, fault) in enumerate(chosen):
                if number % 50 == 0:
                    print(f"{action}: {number} of {len(chosen)}", file=sys.stderr)
                figures.update(scenario.disturb(role, place, what, fault, expected))
    barred = {bar.figure: figures.pop(bar.figure, 0) for bar in BARS}
    return {**figures, **barred, "seconds": time.monotonic() - began}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", type=int, default=1, help="take every N-th fault only (1: all)")
    parser.add_argument("--first", type=int, default=0, help="begin with this one (0)")
    parser.add_argument("--only", default="study,gc", help="the scenarios: study, gc")


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    run(__doc__, measure, BARS, arguments)
