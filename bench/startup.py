"""How long it takes from a command to the first trained step, beside a bare script that does the same.

The bare script imports torch, builds a network and its optimizer, and trains one mini-batch. Hippo does that
by ``hippo run`` with 1, 2 and 8 workers (`studies/starting.py`), in a new home. The clock runs from before a
process is started to the end of its first step. All take turns; medians count.

Bar: with two workers, at most 1.3 times as long as the bare script.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from harness import Bar, Figures, run

WORKERS = (1, 2, 8)
BARS = [Bar("two_workers_to_bare", "at most", 1.3)]
STUDIES = Path(__file__).parent / "studies"


def seconds(command: list[str], folder: Path) -> float:
    """Return how long a program takes until it says that it has trained a step, and end it."""
    told = folder / "trained"
    environment = {**os.environ, "HIPPO_BENCH_TOLD": str(told), "OMP_NUM_THREADS": "1"}
    began = time.time()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not told.exists() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        process.wait()
    return float(told.read_text()) - began


def once(workers: int) -> float:
    """Start once; without workers, the bare script."""
    with tempfile.TemporaryDirectory() as name:
        bare = [sys.executable, str(STUDIES / "starting_bare.py")]
        study = [sys.executable, "-m", "hippotune", "run", str(STUDIES / "starting.py"), "--no-progress"]
        arguments = ["--", str(workers), str(Path(name, "home"))]
        return seconds([*study, *arguments] if workers else bare, Path(name))


def measure(options: argparse.Namespace) -> Figures:
    times: dict[int, list[float]] = {workers: [] for workers in (0, *WORKERS)}
    for _ in range(options.repeat + 1):  # the first is for the files to be in memory
        for workers, taken in times.items():
            taken.append(once(workers))
    typical = {workers: median(taken[1:]) for workers, taken in times.items()}
    return {
        "bare_seconds": typical[0],
        **{f"seconds_with_{workers}": typical[workers] for workers in WORKERS},
        **{f"seconds_with_{workers}_most": max(times[workers][1:]) for workers in WORKERS},
        "bare_seconds_most": max(times[0][1:]),
        "one_worker_to_bare": typical[1] / typical[0],
        "two_workers_to_bare": typical[2] / typical[0],
        "eight_workers_to_bare": typical[8] / typical[0],
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeat", type=int, default=5, help="how often each is started")


if __name__ == "__main__":
    run(__doc__ or "", measure, BARS, arguments)
