"""What width brings: when studies end, how busy workers are, and what it costs in worker time.

In virtual time, the studies of the Hippo paper on 40 workers, four ways: trial by trial, trial by trial with
`Fluid(max_width=8)`, shared, and shared with Fluid. Spaces and scores are drawn as in paper.py (scores
correlate along the tree); figures are means over draws. Loading, saving, evaluating and starting take what
was measured: 0.25 s and 0.6 s for a checkpoint of 30 MB (bench/checkpoint.py), 5 s for an evaluation (60 s
for BERT-Base), and 5 s for the start of a process or of a group. Speed-ups by width are those measured for
ResNet-50 (1.87 on 2 workers, 3.42 on 4, 5.60 on 8); in proportion to the width; of a network that waits for
communication (1.60, 2.20, 2.50); and the latter again, while Fluid is told ResNet-50's.

Fluid's own setting, on 4 and 8 workers: nothing shared, and trials of which the longest takes eight times as
long as the shortest. The baseline is this engine at width 1, which starts the longest first and lets trials
go on as soon as they are certain to: there is no more to gain than its workers are idle.

On this machine, with two workers: a study with one long chain, without and with `Fluid(max_width=2)`. Its
plan is rehearsed before the clock is started; the proof of width is within the time.

Bars, with ResNet-50's speed-ups: shared with Fluid, a study ends sooner than trial by trial by at least the
  factor by which sharing alone cuts its GPU-hours, and takes at most 10 % more GPU-hours than that. BERT-Base
  cannot: its 40 equal trials keep all 40 workers busy when trained one by one, and its tree has few chains at
  first. It has to come within 5 % of the time before which no schedule can end; the long chain ends at least
  1.5 times sooner, and all metrics agree to 1e-5, relative.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.times import ScalingCurve
from hippotune.plan.plan import Plan
from hippotune.scheduling import Fluid
from hippotune.sequences.config import Config
from hippotune.stages.tree import stage_tree
from hippotune.tuners.base import TrialGroup, Trials, Tuner
from paper import STUDIES
from paper_runs import GPUS, StandIn, Survivors, simulate
from tree_bound import earliest_end

HERE = Path(__file__).parent
SCALING = {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598}
WAITING = {1: 1.0, 2: 1.6, 4: 2.2, 8: 2.5}
CURVES = {
    "resnet50": (SCALING, SCALING),
    "linear": ({width: float(width) for width in SCALING},) * 2,
    "waiting": (WAITING, WAITING),
    "unexpected": (WAITING, SCALING),
}
"""Speed-ups by width: as they are, and as Fluid is told."""
WAYS = {
    "alone": (False, False),
    "alone_wide": (False, True),
    "shared": (True, False),
    "shared_wide": (True, True),
}
"""Whether trials share, and whether they are widened."""
STEPS = {"resnet56_sha": 13_540, "resnet56_asha": 13_540, "mobilenetv2_grid": 28_900, "bert_grid": 1_080_000}
"""What trial by trial trains, roughly: so long is a step that this takes the published GPU-hours."""
WIDEST = 8
GRIDS = ("mobilenetv2_grid", "bert_grid")
BOUND = "bert_grid"
"""The study that cannot end as much sooner as its GPU-hours fall."""
OWN = {"grid": "grid", "halving": "successive halving", "hyperband": "Hyperband", "pbt": "PBT"}
OWN_WORKERS = (4, 8)
BARS = [
    *(Bar(f"resnet50.{name}.against_gpu_hours", "at least", 1.0) for name in STUDIES if name != BOUND),
    Bar(f"resnet50.{BOUND}.against_bound", "at least", 0.95),
    *(Bar(f"resnet50.{name}.gpu_hours_to_shared", "at most", 1.10) for name in STUDIES),
]
REAL_BARS = [Bar("real.speed_up", "at least", 1.5), Bar("real.largest_difference", "at most", 1e-5)]


# The paper's studies.


@dataclass(frozen=True)
class Draw:
    """A study of the paper, as drawn from a seed, with a curve of speed-ups."""

    name: str
    curve: str
    seed: int

    def run(self) -> dict[str, float]:
        """Return what the four ways take, in steps, and how they compare."""
        study = STUDIES[self.name]
        space, scores = study.space.draw(self.seed), Survivors("subtree", self.seed)
        scaling, told = CURVES[self.curve]
        row: dict[str, float] = {}
        for way, (share, wide) in WAYS.items():
            policy = Fluid(max_width=WIDEST, scaling=told) if wide else None
            costs = {"scaling": scaling, **_costs(self.name)}
            cost, _ = simulate([study.tuner(space)], share, study.further, scores, policy, **costs)
            row |= {
                f"{way}.time": cost.time,
                f"{way}.work": cost.work,
                f"{way}.busy": cost.work / cost.time / GPUS,
                f"{way}.sooner": row.get("alone.time", cost.time) / cost.time,
                f"{way}.fewer_gpu_hours": row.get("alone.work", cost.work) / cost.work,
            }
        row["against_gpu_hours"] = row["shared_wide.sooner"] / row["shared.fewer_gpu_hours"]
        row["gpu_hours_to_shared"] = row["shared_wide.work"] / row["shared.work"]
        if self.name in GRIDS:
            earliest = _earliest(study.tuner(space), study.further, scaling)
            row["sooner_at_most"] = row["alone.time"] / earliest
            row["against_bound"] = row["shared_wide.sooner"] / row["sooner_at_most"]
        return row


def _costs(name: str) -> dict[str, float]:
    """Return what all but training takes, in steps."""
    step_seconds = STUDIES[name].gpu_hours[1] * 3600 / STEPS[name]
    seconds = {"startup": 5.0, "load": 0.25, "save": 0.6, "evaluate": 60.0 if name == BOUND else 5.0}
    return {what: each / step_seconds for what, each in seconds.items()}


def _earliest(tuner: Any, further: int, scaling: Mapping[float, float]) -> float:
    """Return when a grid can be over at best; only then is it known which trial is to go further."""
    plan = Plan()
    asks = [(plan.place(config, tuner.max_steps)[0], tuner.max_steps) for config in tuner.configs()]
    return earliest_end(stage_tree(asks, scratch=True), GPUS, scaling) + further / scaling[WIDEST]


def ablations(draws: int) -> dict[str, float]:
    """Return means over draws, and for what the bars are about the least and the most."""
    runs = [Draw(*each) for each in product(STUDIES, CURVES, range(draws))]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        came = dict(zip(runs, pool.map(Draw.run, runs), strict=True))
    figures: dict[str, float] = {"draws": draws}
    for name, curve in product(STUDIES, CURVES):
        rows = [row for draw, row in came.items() if (draw.name, draw.curve) == (name, curve)]
        for key in rows[0]:
            figures[f"{curve}.{name}.{key}"] = statistics.mean(row[key] for row in rows)
        sooner = [row["shared_wide.sooner"] for row in rows]
        figures |= {f"{curve}.{name}.sooner_least": min(sooner), f"{curve}.{name}.sooner_most": max(sooner)}
    return figures


# Fluid's own setting.


def uneven(values: Mapping[str, Any], width: float) -> float:
    """Return the seconds of a step."""
    return float(values["cost"]) / ScalingCurve(SCALING).speed_up(width)


def uneven_tuners() -> dict[str, Callable[[], Tuner]]:
    costs = [0.5 * 8 ** (number / 15) for number in range(16)]
    space = hippo.Grid({"cost": costs, "lr": [0.1, 0.01]})
    common: dict[str, Any] = {"metric": "score", "mode": "max", "max_steps": 27}
    return {
        "grid": lambda: hippo.GridSearch(space, **common),
        "halving": lambda: hippo.SuccessiveHalving(space, **common, min_steps=3, reduction=3),
        "hyperband": lambda: hippo.Hyperband(space, **common, min_steps=1, reduction=3),
        "pbt": lambda: hippo.PBT(space, **common, population=16, interval=9, explore={"lr"}),
    }


def own_setting() -> dict[str, float]:
    """Return what becomes of completion time and utilisation, in percent of what they are at width 1."""
    figures: dict[str, float] = {}
    for name, make in uneven_tuners().items():
        for workers in OWN_WORKERS:
            works = []
            for policy in (None, Fluid(max_width=WIDEST, scaling=SCALING)):
                executor = Simulated(workers, seconds_per_step=uneven, progress=1.0)
                with hippo.Study("own", StandIn, executor=executor, share=False, width=policy) as study:
                    works.append(study.tune(make(), progress=False).work)
            plain, wide = works
            figures |= {
                f"own.{name}_{workers}.time_percent": 100 * (wide.wall_seconds / plain.wall_seconds - 1),
                f"own.{name}_{workers}.utilisation_percent": 100 * (wide.utilisation / plain.utilisation - 1),
                f"own.{name}_{workers}.utilisation_narrow": plain.utilisation,
                f"own.{name}_{workers}.utilisation": wide.utilisation,
            }
    return figures


# For real.

LONG, SHORT = Config({"lr": 0.01, "bs": 256}), Config({"lr": 0.005, "bs": 256})
REHEARSED = Config({"lr": 0.02, "bs": 256})
LONG_STEPS, SHORT_STEPS, EVERY = 60, 4, 10


class OneLongChain(Tuner):
    """A long trial, and a short one beside it."""

    metric, mode = "loss", "min"

    async def run(self, trials: Trials) -> None:
        trials.submit(TrialGroup(((LONG, LONG_STEPS), (SHORT, SHORT_STEPS)), EVERY))
        while trials.open:
            await trials.next()


def real() -> dict[str, float]:
    """Train the study on two workers, without and with width."""
    from chain import Chain

    reports = []
    for policy in (None, Fluid(max_width=2)):
        with tempfile.TemporaryDirectory() as home:
            study = hippo.Study("chain", Chain, home=home, executor=hippo.Local(workers=2), width=policy)
            with study:
                wait_for_workers(study, 2)
                study.eval(REHEARSED, 2)
                reports.append(study.tune(OneLongChain(), progress=False))
    narrow, wide = reports
    pairs = [
        (value, wide.trials[trial.number].metrics[step][name])
        for trial in narrow.trials
        for step, metrics in trial.metrics.items()
        for name, value in metrics.items()
    ]
    return {
        "real.narrow_seconds": narrow.work.wall_seconds,
        "real.wide_seconds": wide.work.wall_seconds,
        "real.speed_up": narrow.work.wall_seconds / wide.work.wall_seconds,
        "real.narrow_utilisation": narrow.work.utilisation,
        "real.wide_utilisation": wide.work.utilisation,
        "real.metrics_compared": len(pairs),
        "real.largest_difference": max(abs(other / value - 1) for value, other in pairs),
    }


def wait_for_workers(study: hippo.Study, number: int) -> None:
    """Have all workers up before the clock starts."""
    runtime = study._connection.open()
    while runtime.ask(lambda: len(runtime.loop.engine.workers.idle)) < number:
        time.sleep(0.05)


# What is printed.


def report(figures: Mapping[str, float]) -> str:
    ways = "".join(f"{way:>14}" for way in WAYS)
    lines = [f"{'times sooner than alone':<34}{ways}{'at most':>10}{'GPU-hours to shared':>22}"]
    for curve, name in product(CURVES, STUDIES):
        cell = f"{curve}.{name}"
        most = figures.get(f"{cell}.sooner_at_most")
        lines.append(
            f"{f'{STUDIES[name].title}, {curve}':<34}"
            + "".join(f"{figures[f'{cell}.{way}.sooner']:>14.2f}" for way in WAYS)
            + (f"{most:>10.2f}" if most else f"{'':>10}")
            + f"{figures[f'{cell}.gpu_hours_to_shared']:>22.3f}"
        )
    return "\n".join([*lines, ""])


def measure(options: argparse.Namespace) -> Figures:
    figures: dict[str, float] = {}
    if options.virtual:
        figures |= ablations(options.draws)
        if not options.json:
            print(report(figures))
        figures |= own_setting()
    if options.real:
        sys.path.insert(0, str(HERE / "studies"))
        figures |= real()
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--no-real", dest="real", action="store_false", help="leave out what trains for real")
    only.add_argument("--no-virtual", dest="virtual", action="store_false", help="only train for real")
    parser.add_argument("--draws", type=int, default=3, help="how often each study is drawn (3)")


if __name__ == "__main__":
    bars = [] if "--no-virtual" in sys.argv else BARS
    run(__doc__, measure, bars if "--no-real" in sys.argv else [*bars, *REAL_BARS], arguments)
