"""One study under Ray Tune, Optuna and Hippo, in one run: a convolutional network on MNIST, two workers.

All engines train the same trials with the same code (`peers_study.py`). Hyper-parameters are schedules; the
trials of Ray Tune and Optuna take the values of each step from the same configs. A grid trains every trial to
the end. Successive halving lets the best third go on at every rung, until one is left. Ray Tune runs with and
without `reuse_actors`. Peers get the best for them that their documentation offers (`…_given` says what):

- One thread for a training process, two processes at a time. Images come from a file of tensors, made before.
- Metrics only where the algorithm asks for them, checkpoints only where it needs them, all on local disk.
- Ray's cluster is up before its time begins (`…_start_seconds`). The time includes the start of training
  processes: Ray's actors, Optuna's processes, Hippo's workers (`…_first_step_seconds` tells how long).
- Ray's halving is synchronous, the same algorithm as Hippo's. It runs once more with the ASHAScheduler, which
  its documentation prefers (`ray_asha`). Optuna has the SuccessiveHalvingPruner, asynchronous as well.
- Hippo makes results and checkpoints durable and hands the best model back. Peers keep no model that the
  algorithm does not need.

Each engine runs in a process of its own. Measured are training steps, by a log that the training code writes;
wall time; CPU-seconds of everything that the engine started, Ray's daemons included (`peers_process.py` says
how); the best metric; the bytes of all checkpoints at their peak. And it is checked that things are what they
seem: metrics of one trial at one step are the same, bit for bit, under all engines, and for the best trial
without any engine; and synchronous halving lets the same trials go on.

A chart is written to bench/out/peers.html, and to peers.png where pictures can be drawn.

Bars:
  on the grid Hippo trains exactly the unique steps, and its peers train every step of every trial;
  no metric differs, nor do the best metric and the trials that go on, wherever the algorithm is the same;
  grid and halving: Hippo takes at most the CPU-seconds, and at most the wall time, of the best peer in each.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import Bar, Figures, run
from peers_chart import draw
from peers_process import Measured, measured
from peers_study import METRIC, Algorithm, Task, prepare_data

GRID = {
    "hippo": "peers_hippo:Hippo",
    "optuna": "peers_optuna:Optuna",
    "ray": "peers_ray:RayTune:default",
    "ray_reuse": "peers_ray:RayTune:reuse",
}
ENGINES: Mapping[Algorithm, Mapping[str, str]] = {
    "grid": GRID,
    "halving": {**GRID, "ray_asha": "peers_ray:RayTune:asha"},
}
OTHER_ALGORITHM = {("halving", "optuna"), ("halving", "ray_asha")}
SPENT = ("cpu_seconds", "wall_seconds")
SAME = ("metrics", "bests", "decisions")
BARS = [
    Bar("grid_hippo_trained_to_unique", "at most", 1),
    Bar("grid_hippo_trained_to_unique", "at least", 1),
    Bar("grid_peers_trained_to_asked", "at least", 1),
    *(Bar(f"{algorithm}_{what}_that_differ", "at most", 0) for algorithm in ENGINES for what in SAME),
    *(Bar(f"{algorithm}_hippo_to_best_peer_{what}", "at most", 1) for algorithm in ENGINES for what in SPENT),
]
OUT = Path(__file__).parent / "out"

Row = Mapping[str, Any]


def measure(options: argparse.Namespace) -> Figures:
    if missing := [name for name in ("ray", "optuna", "mlxtend") if importlib.util.find_spec(name) is None]:
        raise SystemExit(f"{', '.join(missing)} missing: pip install 'hippotune[dev]'")
    os.environ["OMP_NUM_THREADS"] = "1"
    # So that everything started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    figures: dict[str, Any] = {name: version(name) for name in ("torch", "optuna", "ray")}
    rows: dict[str, dict[str, Row]] = {}
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        data = Path(folder, "mnist.pt")
        prepare_data(data)
        for algorithm in ENGINES:
            max_steps = options.steps if algorithm == "grid" else options.rung * options.trials
            task = Task(algorithm, options.trials, max_steps, data, Path(folder, algorithm))
            runs = _runs(task)
            rows[algorithm] = {engine: _row(task, each) for engine, each in runs.items()}
            figures |= _flat(algorithm, rows[algorithm]) | _agreement(task, runs)
    grid = rows["grid"]["hippo"]
    remark = (
        f"{options.trials} trials of a small network on MNIST, two workers; merge rate of the grid "
        f"{grid['steps_requested'] / grid['steps_unique']:.2f}; Ray's daemons count, their start does not"
    )
    draw(rows, remark, OUT / "peers")
    return figures


def _runs(task: Task) -> dict[str, Measured]:
    """Run all engines, one after the other."""
    runs = {}
    for engine, name in ENGINES[task.algorithm].items():
        runs[engine] = each = measured(name, replace(task, home=task.home / engine))
        if len(each.losses) != task.trials:
            raise SystemExit(f"{engine} has results for {len(each.losses)} of {task.trials} trials")
        print(f"{task.algorithm}, {engine}: {_told(each)}", file=sys.stderr, flush=True)
    return runs


def _told(each: Measured) -> str:
    """Return the figures of one run that matter most, for people who wait for the others."""
    return (
        f"{each.steps_trained:,} steps, {each.cpu_seconds:.1f} CPU-seconds, {each.wall_seconds:.1f} s, "
        f"{each.peak_checkpoint_bytes / 1e6:.1f} MB of checkpoints, {METRIC} {_best(each)[0]:.5f}"
    )


def _row(task: Task, each: Measured) -> Row:
    """Return the figures of one run."""
    asked = _asked(each)
    return {
        "given": each.given,
        "steps_requested": sum(asked.values()),
        "steps_unique": task.unique_steps(asked),
        "steps_trained": each.steps_trained,
        "cpu_seconds": each.cpu_seconds,
        "wall_seconds": each.wall_seconds,
        "first_step_seconds": each.first_step_seconds,
        "start_seconds": each.start_seconds,
        "peak_checkpoint_bytes": each.peak_checkpoint_bytes,
        f"best_{METRIC}": _best(each)[0],
    }


def _flat(algorithm: Algorithm, rows: Mapping[str, Row]) -> dict[str, Any]:
    """Return the figures of all engines by name, and how they compare."""
    figures = {f"{engine}_{name}": value for engine, row in rows.items() for name, value in row.items()}
    ours, peers = rows["hippo"], {engine: row for engine, row in rows.items() if engine != "hippo"}
    for name in ("steps_trained", *SPENT):
        for engine, row in peers.items():
            figures[f"{engine}_to_hippo_{name}"] = row[name] / ours[name]
        figures[f"hippo_to_best_peer_{name}"] = ours[name] / min(row[name] for row in peers.values())
    figures["hippo_trained_to_unique"] = ours["steps_trained"] / ours["steps_unique"]
    figures["peers_trained_to_asked"] = min(
        row["steps_trained"] / row["steps_requested"] for row in peers.values()
    )
    return {f"{algorithm}_{name}": value for name, value in figures.items()}


def _agreement(task: Task, runs: Mapping[str, Measured]) -> dict[str, Any]:
    """Return how far the runs agree: in every metric, in the best one, and in how far trials go."""
    ours, (best, best_trial, best_step) = _asked(runs["hippo"]), _best(runs["hippo"])
    plain = measured(f"peers_hippo:Plain:{best_trial}:{best_step}", replace(task, home=task.home / "plain"))
    found: dict[tuple[int, int], list[float]] = {}
    for each in (*runs.values(), plain):
        for trial, losses in each.losses.items():
            for step, loss in losses.items():
                found.setdefault((trial, step), []).append(loss)
    several = [losses for losses in found.values() if len(losses) > 1]
    exact = [each for engine, each in runs.items() if (task.algorithm, engine) not in OTHER_ALGORITHM]
    figures = {
        "metrics_compared": len(several),
        "metrics_that_differ": sum(len(set(losses)) > 1 for losses in several),
        "bests_that_differ": sum(_best(each)[0] != best for each in exact),
        "decisions_that_differ": sum(_asked(each)[trial] != ours[trial] for each in exact for trial in ours),
    }
    return {f"{task.algorithm}_{name}": value for name, value in figures.items()}


def _asked(each: Measured) -> dict[int, int]:
    """Return how far each trial was to be trained."""
    return {trial: max(losses) for trial, losses in each.losses.items()}


def _best(each: Measured) -> tuple[float, int, int]:
    """Return the best metric, with its trial and step."""
    return min((loss, trial, step) for trial, losses in each.losses.items() for step, loss in losses.items())


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, choices=(9, 27, 81), default=27, help="how many trials (27)")
    parser.add_argument("--steps", type=int, default=24, help="steps of every trial on the grid (24)")
    parser.add_argument("--rung", type=int, default=3, help="steps to the first rung of halving (3)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
