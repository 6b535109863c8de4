"""What sinks cost: the demo with all four of them, against the demo without.

`examples/digits.py` on two local processes, with TensorBoard, MLflow (SQLite), Weights & Biases (offline) and
Trackio at once, and without, in turn. Every run is in a new process, so that it imports the tools' libraries,
and writes to new targets. Wall time is that of `Study.tune`, to the last number in the last sink, medians of
several runs; `overhead_percent` is what sinks add to it. `end_seconds` is what of that `tune` waits for sinks
when training has ended.

`first_cpu_seconds` is the processor time that sinks add to the tuning process in its first study: it imports
the libraries, and MLflow makes its database. `next_cpu_seconds` is the same for a second study there, to the
same targets: what the numbers alone cost. `alone_cpu_seconds` is for a first study with each sink by itself.
The service process of W&B is not in these, only in the wall times. ``--only`` measures some sinks.

Bar: at most 2 % of the demo's wall time, on a machine with nothing else to do. The demo takes ten seconds and
keeps two cores busy, so that the imports alone miss it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.cli.script import load

DEMO = Path(__file__).parents[1] / "examples" / "digits.py"
BARS = [Bar("overhead_percent", "at most", 2)]


SINKS: dict[str, Callable[[Path], hippo.sinks.Sink]] = {
    "tensorboard": lambda folder: hippo.sinks.TensorBoard(folder / "runs"),
    "mlflow": lambda folder: hippo.sinks.MLflow(f"sqlite:///{folder}/mlflow.db"),
    "wandb": lambda folder: hippo.sinks.WandB(folder=folder),
    "trackio": lambda folder: hippo.sinks.Trackio(),
}


class Spent(NamedTuple):
    """What one study took: in all, after its training, and of the processor in the tuning process."""

    wall: float
    end: float
    cpu: float


def tuned(names: Sequence[str]) -> tuple[Spent, Spent]:
    """Run the demo with some sinks, twice in this process, as two studies without anything in common."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRACKIO_DIR": folder, "WANDB_SILENT": "true"}
        return _study("first", names, Path(folder)), _study("next", names, Path(folder))


def _study(name: str, sinks: Sequence[str], folder: Path) -> Spent:
    demo = load(str(DEMO))
    executor = hippo.Local(workers=2)
    with hippo.Study(name, demo.study.trainer, home=folder / name, executor=executor) as study:
        study.open()
        fed = [SINKS[sink](folder) for sink in sinks]
        began, spent = time.perf_counter(), time.process_time()
        report = study.tune(demo.tuner, progress=False, sinks=fed)
        wall = time.perf_counter() - began
        return Spent(wall, wall - report.work.wall_seconds, time.process_time() - spent)


def measure(options: argparse.Namespace) -> Figures:
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:

        def anew(names: Sequence[str]) -> tuple[Spent, Spent]:
            return fresh.submit(tuned, names).result()

        pairs = [(anew(()), anew(options.only)) for _ in range(options.repeat)]
        alone = {name: anew([name])[0].cpu for name in options.only}
    (plain, plain_next), (fed, fed_next) = (
        tuple(
            Spent(*map(median, zip(*(pair[which][study] for pair in pairs), strict=True))) for study in (0, 1)
        )
        for which in (0, 1)
    )
    return {
        "without_seconds": plain.wall,
        "with_seconds": fed.wall,
        "overhead_percent": 100 * (fed.wall / plain.wall - 1),
        "end_seconds": fed.end - plain.end,
        "first_cpu_seconds": fed.cpu - plain.cpu,
        "next_cpu_seconds": fed_next.cpu - plain_next.cpu,
        "alone_cpu_seconds": {name: round(cpu - plain.cpu, 2) for name, cpu in alone.items()},
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=SINKS, default=list(SINKS), metavar="SINK")
    parser.add_argument(
        "--repeat", type=int, default=3, help="how many pairs of runs to take the median of (3)"
    )


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
