"""What sinks cost: the demo with all four of them, against the demo without.

`examples/digits.py` on two local processes, with TensorBoard, MLflow (SQLite), Weights & Biases (offline) and
Trackio at once, and without, in turn; every run begins anew. Wall time is that of `Study.tune`, to the last
number in the last sink, medians of several runs. `cpu_seconds` is what the tuning process spends more.

Bar: at most 2 % of the demo's wall time. It holds on a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.cli.script import load

DEMO = Path(__file__).parents[1] / "examples" / "digits.py"
BARS = [Bar("overhead", "at most", 0.02)]


def all_sinks(folder: Path) -> list[hippo.sinks.Sink]:
    return [
        hippo.sinks.TensorBoard(folder / "runs"),
        hippo.sinks.MLflow(f"sqlite:///{folder}/mlflow.db"),
        hippo.sinks.WandB(folder=folder),
        hippo.sinks.Trackio(folder.name),
    ]


def tuned(with_sinks: bool) -> tuple[float, float]:
    """Return the wall time and the processor time of one run."""
    demo = load(str(DEMO))
    with tempfile.TemporaryDirectory() as home:
        executor = hippo.Local(workers=2)
        with hippo.Study("digits", demo.study.trainer, home=home, executor=executor) as study:
            study.open()
            sinks: Sequence[hippo.sinks.Sink] = all_sinks(Path(home)) if with_sinks else ()
            began, spent = time.perf_counter(), time.process_time()
            study.tune(demo.tuner, progress=False, sinks=sinks)
            return time.perf_counter() - began, time.process_time() - spent


def measure(options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRACKIO_DIR": folder, "WANDB_SILENT": "true"}
        pairs = [(tuned(False), tuned(True)) for _ in range(options.repeat)]
    without, fed = (median(pair[which][0] for pair in pairs) for which in (0, 1))
    return {
        "without_seconds": without,
        "with_seconds": fed,
        "overhead": fed / without - 1,
        "cpu_seconds": median(pair[1][1] - pair[0][1] for pair in pairs),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeat", type=int, default=3, help="take the median of so many pairs of runs (3)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
