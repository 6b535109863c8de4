"""What sinks cost: the demo with all four of them, against the demo without.

`examples/digits.py` on two local processes, with TensorBoard, MLflow (SQLite), Weights & Biases (offline) and
Trackio at once, and without, in turn; every run begins anew. Wall time is that of `Study.tune`, to the last
number in the last sink, medians of several runs. `end_seconds` is what of that `tune` waits for sinks when
training has ended. `cpu_seconds` is what the tuning process spends more, most of it to import the tools'
libraries and to make MLflow's database. ``--only`` measures some of the sinks.

Bar: at most 2 % of the demo's wall time, on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.cli.script import load

DEMO = Path(__file__).parents[1] / "examples" / "digits.py"
BARS = [Bar("overhead", "at most", 0.02)]


SINKS: dict[str, Callable[[Path], hippo.sinks.Sink]] = {
    "tensorboard": lambda folder: hippo.sinks.TensorBoard(folder / "runs"),
    "mlflow": lambda folder: hippo.sinks.MLflow(f"sqlite:///{folder}/mlflow.db"),
    "wandb": lambda folder: hippo.sinks.WandB(folder=folder),
    "trackio": lambda folder: hippo.sinks.Trackio(folder.name),
}


class Spent(NamedTuple):
    """What one run took: in all, after its training, and of the processor in this process."""

    wall: float
    end: float
    cpu: float


def tuned(names: Sequence[str]) -> Spent:
    """Run the demo with some sinks."""
    demo = load(str(DEMO))
    with tempfile.TemporaryDirectory() as home:
        executor = hippo.Local(workers=2)
        with hippo.Study("digits", demo.study.trainer, home=home, executor=executor) as study:
            study.open()
            sinks = [SINKS[name](Path(home)) for name in names]
            began, spent = time.perf_counter(), time.process_time()
            report = study.tune(demo.tuner, progress=False, sinks=sinks)
            wall = time.perf_counter() - began
            end = wall - report.work.wall_seconds
            return Spent(wall, end, time.process_time() - spent)


def measure(options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRACKIO_DIR": folder, "WANDB_SILENT": "true"}
        pairs = [(tuned(()), tuned(options.only)) for _ in range(options.repeat)]
    without, fed = (median(pair[which].wall for pair in pairs) for which in (0, 1))
    return {
        "without_seconds": without,
        "with_seconds": fed,
        "overhead": fed / without - 1,
        "end_seconds": median(fed.end - plain.end for plain, fed in pairs),
        "cpu_seconds": median(fed.cpu - plain.cpu for plain, fed in pairs),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=SINKS, default=list(SINKS), metavar="SINK")
    parser.add_argument("--repeat", type=int, default=3, help="take the median of so many pairs of runs (3)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
