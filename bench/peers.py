"""The same studies under Ray Tune, Optuna and Hippo, in one run: a small network on MNIST, two workers.

All engines train the same trials with the same code (`peers_study.py`): a grid of 12 learning rates, of which
nothing (merge rate 1), half (2) or three quarters (4) is shared, with steps of about 20 and 200 ms; the
trials of Ray Tune and Optuna take the values of each step from the same configs. With `--halving`, successive
halving instead: 27 trials of which the best third goes on at every rung, until one is left. Ray Tune runs
with and without `reuse_actors`. Peers get the best for them that their documentation offers (`…given` says
what):

- One thread for a training process, two processes at a time. Images come from a file of tensors, made before.
- Metrics only where the algorithm asks for them, checkpoints only where it needs them, all on local disk.
- Ray's cluster is up before its time begins (`…start_seconds`). The time includes the start of training
  processes: Ray's actors, Optuna's processes, Hippo's workers (`…first_step_seconds` tells how long).
- Ray's halving is synchronous, the same algorithm as Hippo's. It runs once more with the ASHAScheduler, which
  its documentation prefers (`ray_asha`). Optuna has the SuccessiveHalvingPruner, asynchronous as well.
- Hippo makes results and checkpoints durable, rehearses the plan, audits branches (`…proof_seconds`) and
  hands the best model back. Peers keep no model that the algorithm does not need.

Ray Tune's default runs at one merge rate: what it does is the same at all of them. Where nothing is shared,
these are run five times at 20 ms, and the medians of their wall times count: two processes with a bare loop
over the trainer's methods, Hippo, Hippo on a plan that was rehearsed before, and Optuna. Hippo's overhead is
what its workers take from one step to the next over what the bare loops take: the mean, and beside it the
median, and the mean with what is done between two trials of 40 steps (evaluating, a durable checkpoint, the
next lease). The machine's own speed changes within a minute by more than that, so the two run in turns of
half a second, each while the other is stopped (`peers_turns.py`).

Each engine runs in a process of its own. Measured are training steps, by a log that the training code writes
(those that proofs repeat are told apart); wall time; CPU-seconds of everything that the engine started, Ray's
daemons included (`peers_process.py` says how); the best metric; the bytes of all checkpoints at their peak.
And it is checked that things are what they seem: metrics of one trial at one step are the same, bit for bit,
under all engines, and for the best trial without any engine; and synchronous halving lets the same trials go
on.

Bars: on a grid Hippo trains exactly the unique steps, and its peers train every step of every trial; no
  metric differs, nor do the best metric and the trials that go on, wherever the algorithm is the same; where
  half or more is shared, and by halving: Hippo takes at most the CPU-seconds, and at most the wall time, of
  the best peer; where nothing is shared, with steps of 20 ms: Hippo's overhead is at most 2 % of a step, and
  its wall time, with start-up, on a plan that was rehearsed before, at most that of Optuna. What it is with
  the rehearsal is printed beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import Bar, Figures, run
from peers_process import Measured, measured
from peers_study import BATCH, METRIC, Mnist, Task, prepare_data, seed_all
from peers_turns import Turn, difference, in_turns

ENGINES = {
    "hippo": "peers_hippo:Hippo",
    "optuna": "peers_optuna:Optuna",
    "ray": "peers_ray:RayTune:default",
    "ray_reuse": "peers_ray:RayTune:reuse",
}
UNSHARED = {
    "bare": "peers_hippo:Bare",
    "hippo": ENGINES["hippo"],
    "rehearsed": "peers_hippo:Rehearsed",
    "optuna": ENGINES["optuna"],
}
HALVING = {**ENGINES, "ray_asha": "peers_ray:RayTune:asha"}
OTHER_ALGORITHM = {"optuna", "ray_asha"}  # by halving
RATES = (1, 2, 4)
DEFAULT_AT = 2
STEPS_OF = {20: 40, 200: 10}
"""Steps of a trial, by the milliseconds of a step: such that all runs together take a few minutes."""
UNSHARED_AT = 20
TRIALS, HALVING_TRIALS, RUNG, HALVING_SAMPLES = 12, 27, 3, 1024
REPEATED = 5
TRIALS_IN_TURNS = 100
SPENT = ("cpu_seconds", "wall_seconds")
SAME = ("metrics", "bests", "decisions")
UNSHARED_BARS = [Bar("overhead_percent", "at most", 2.0), Bar("unshared_hippo_to_optuna", "at most", 1.0)]
HALVING_BARS = [
    *(Bar(f"halving.{what}_that_differ", "at most", 0) for what in SAME),
    *(Bar(f"halving.hippo_to_best_peer_{what}", "at most", 1) for what in SPENT),
]

Row = Mapping[str, Any]


def bars_of(milliseconds: int) -> list[Bar]:
    """Return the bars of the grids with steps of one length."""
    bars = []
    for rate in RATES:
        case = f"{rate}_{milliseconds}ms"
        bars += [
            Bar(f"{case}.hippo_trained_to_unique", "at most", 1),
            Bar(f"{case}.hippo_trained_to_unique", "at least", 1),
            Bar(f"{case}.peers_trained_to_asked", "at least", 1),
            *(Bar(f"{case}.{what}_that_differ", "at most", 0) for what in SAME),
        ]
        if rate > 1:
            bars += [Bar(f"{case}.hippo_to_best_peer_{what}", "at most", 1) for what in SPENT]
    return [*bars, *UNSHARED_BARS] if milliseconds == UNSHARED_AT else bars


def measure(options: argparse.Namespace) -> Figures:
    if missing := [name for name in ("ray", "optuna", "mlxtend") if importlib.util.find_spec(name) is None]:
        raise SystemExit(f"{', '.join(missing)} missing: pip install 'hippotune[dev]'")
    os.environ["OMP_NUM_THREADS"] = "1"
    figures: dict[str, Any] = {name: version(name) for name in ("torch", "optuna", "ray")}
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        data = Path(folder, "mnist.pt")
        prepare_data(data)
        if options.halving:
            task = Task(
                "halving",
                HALVING_TRIALS,
                RUNG * HALVING_TRIALS,
                1,
                HALVING_SAMPLES,
                data,
                Path(folder, "halving"),
            )
            return figures | _compared("halving", task, _runs(task, HALVING))
        for ms in options.milliseconds:
            steps, samples = STEPS_OF[ms], _samples(data, ms)
            figures[f"samples_{ms}ms"] = samples
            for rate in RATES:
                case = f"{rate}_{ms}ms"
                task = Task("grid", TRIALS, steps, rate, samples, data, Path(folder, case))
                once = {"ray"} if rate != DEFAULT_AT else set()  # whose work does not depend on the rate
                engines = {engine: name for engine, name in ENGINES.items() if engine not in once}
                figures |= _compared(case, task, _runs(task, engines))
                if rate == 1 and ms == UNSHARED_AT:
                    figures |= _unshared(task)
    return figures


def _samples(data: Path, milliseconds: int) -> int:
    """Return how many samples a step of this length trains on, here: whole batches, on one thread."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "data": str(data),
            "log": str(Path(folder, "log")),
            "samples": 16 * BATCH,
            "device": "cpu",
        }
        trainer = Mnist(settings, 0)
        seed_all()
        trainer.prepare()
        trainer.build()
        times = []
        for _ in range(30):
            began = time.perf_counter()
            trainer.train()
            times.append(time.perf_counter() - began)
    return BATCH * max(1, round(milliseconds / 1000 / (statistics.median(times) / 16)))


def _unshared(task: Task) -> dict[str, float]:
    """Return what Hippo costs where nothing is shared: beside bare loops, and beside Optuna."""
    walls: dict[str, list[float]] = {engine: [] for engine in UNSHARED}
    for turn in range(REPEATED):
        for engine, name in UNSHARED.items():
            each = measured(name, replace(task, home=task.home / f"{engine}-{turn}"))
            walls[engine].append(each.wall_seconds)
            print(f"nothing shared, {engine}: {each.wall_seconds:.1f} s", file=sys.stderr, flush=True)
    wall = {engine: statistics.median(times) for engine, times in walls.items()}
    return {
        **_overhead(task),
        **{f"unshared_{engine}_wall_seconds": value for engine, value in wall.items()},
        "unshared_hippo_to_optuna": wall["rehearsed"] / wall["optuna"],
        "unshared_hippo_to_optuna_least": min(walls["rehearsed"]) / max(walls["optuna"]),
        "unshared_hippo_to_optuna_most": max(walls["rehearsed"]) / min(walls["optuna"]),
        "unshared_first_study_to_optuna": wall["hippo"] / wall["optuna"],
    }


def _overhead(task: Task) -> dict[str, float]:
    """Return what a step takes in Hippo's workers and in bare loops, in turns."""
    engines = {engine: UNSHARED[engine] for engine in ("bare", "rehearsed")}
    tasks = {
        engine: replace(task, trials=TRIALS_IN_TURNS, home=task.home / f"{engine}-in-turns")
        for engine in engines
    }
    turns = in_turns(engines, tasks)
    bare, hippo = turns["bare"], turns["rehearsed"]
    found = {
        "overhead_percent": difference(hippo, bare, _mean_within),
        "overhead_usual_percent": difference(hippo, bare, _usual),
        "overhead_with_changes_of_trials_percent": difference(hippo, bare, _mean),
    }
    return {
        "unshared_turns": len(bare),
        "unshared_bare_ms_a_step": 1000 * statistics.median(map(_mean_within, bare)),
        "unshared_hippo_ms_a_step": 1000 * statistics.median(map(_mean_within, hippo)),
        **{name: each.percent for name, each in found.items()},
        **{f"{name}_low": each.low for name, each in found.items()},
        **{f"{name}_high": each.high for name, each in found.items()},
    }


def _usual(turn: Turn) -> float:
    return statistics.median(step.seconds for step in turn)


def _mean(turn: Turn) -> float:
    return statistics.fmean(step.seconds for step in turn)


def _mean_within(turn: Turn) -> float:
    return statistics.fmean(step.seconds for step in turn if step.is_within)


def _runs(task: Task, engines: Mapping[str, str]) -> dict[str, Measured]:
    """Run all engines, one after the other."""
    runs = {}
    for engine, name in engines.items():
        runs[engine] = each = measured(name, replace(task, home=task.home / engine))
        if len(each.losses) != task.trials:
            raise SystemExit(f"{engine} has results for {len(each.losses)} of {task.trials} trials")
        print(f"{task.home.name}, {engine}: {_told(each)}", file=sys.stderr, flush=True)
    return runs


def _told(each: Measured) -> str:
    """Return the figures of one run that matter most, for people who wait for the others."""
    return (
        f"{each.steps_trained:,} steps, {each.cpu_seconds:.1f} CPU-seconds, {each.wall_seconds:.1f} s, "
        f"{each.peak_checkpoint_bytes / 1e6:.1f} MB of checkpoints, {METRIC} {_best(each)[0]:.5f}"
    )


def _compared(case: str, task: Task, runs: Mapping[str, Measured]) -> dict[str, Any]:
    """Return the figures of all engines by name, and how they compare."""
    rows = {engine: _row(task, each) for engine, each in runs.items()}
    figures = {f"{engine}.{name}": value for engine, row in rows.items() for name, value in row.items()}
    ours, peers = rows["hippo"], {engine: row for engine, row in rows.items() if engine != "hippo"}
    for name in ("steps_trained", *SPENT):
        for engine, row in peers.items():
            figures[f"{engine}_to_hippo_{name}"] = row[name] / ours[name]
        figures[f"hippo_to_best_peer_{name}"] = ours[name] / min(row[name] for row in peers.values())
    figures["hippo_trained_to_unique"] = ours["steps_trained"] / ours["steps_unique"]
    figures["peers_trained_to_asked"] = min(
        row["steps_trained"] / row["steps_requested"] for row in peers.values()
    )
    return {f"{case}.{name}": value for name, value in (figures | _agreement(task, runs)).items()}


def _row(task: Task, each: Measured) -> Row:
    """Return the figures of one run."""
    asked = _asked(each)
    return {
        "given": each.given,
        "steps_requested": sum(asked.values()),
        "steps_unique": task.unique_steps(asked),
        "steps_trained": each.steps_trained - round(each.own.get("proof_steps", 0)),
        "cpu_seconds": each.cpu_seconds,
        "wall_seconds": each.wall_seconds,
        "first_step_seconds": each.first_step_seconds,
        "start_seconds": each.start_seconds,
        "peak_checkpoint_bytes": each.peak_checkpoint_bytes,
        f"best_{METRIC}": _best(each)[0],
        **each.own,
    }


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
    exact = [
        each for engine, each in runs.items() if task.algorithm == "grid" or engine not in OTHER_ALGORITHM
    ]
    return {
        "metrics_compared": len(several),
        "metrics_that_differ": sum(len(set(losses)) > 1 for losses in several),
        "bests_that_differ": sum(_best(each)[0] != best for each in exact),
        "decisions_that_differ": sum(_asked(each)[trial] != ours[trial] for each in exact for trial in ours),
    }


def _asked(each: Measured) -> dict[int, int]:
    """Return how far each trial was to be trained."""
    return {trial: max(losses) for trial, losses in each.losses.items()}


def _best(each: Measured) -> tuple[float, int, int]:
    """Return the best metric, with its trial and step."""
    return min((loss, trial, step) for trial, losses in each.losses.items() for step, loss in losses.items())


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--halving", action="store_true", help="27 trials by successive halving instead")
    parser.add_argument(
        "--milliseconds",
        type=int,
        nargs="+",
        choices=STEPS_OF,
        default=list(STEPS_OF),
        help="how long steps are (20 and 200)",
    )


def bars(options: argparse.Namespace) -> list[Bar]:
    if options.halving:
        return HALVING_BARS
    return [bar for milliseconds in options.milliseconds for bar in bars_of(milliseconds)]


if __name__ == "__main__":
    run(__doc__, measure, bars, arguments)
