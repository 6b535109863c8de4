"""What width brings: when studies end, how busy workers are, and what it costs in worker time.

In virtual time, with the speed-ups measured for ResNet-50 (1.87 on 2 workers, 3.42 on 4, 5.60 on 8):

  The studies of the Hippo paper on 40 workers: trial by trial, shared, and shared with `Fluid(max_width=8)`.
  Learning curves of SHA and ASHA are those of the draw with the median ratio of GPU-hours, as in paper.py.
  Fluid's own setting, on 4 and 8 workers: nothing shared, and trials of which the longest takes eight times
  as long as the shortest. The baseline is this engine at width 1, which starts the longest first and lets
  trials go on as soon as they are certain to: there is no more to gain than its workers are idle.

On this machine, with two workers: a study with one long chain, without and with `Fluid(max_width=2)`. Its
plan is rehearsed before the clock is started; the proof of width is within the time.

Bars:
  A study of the paper ends sooner than trial by trial by at least the factor by which sharing alone cuts its
  GPU-hours, and takes at most 10 % more GPU-hours than that. BERT-Base cannot: its 40 equal trials keep all
  40 workers busy when trained one by one, its tree has 4 chains at first, and no schedule gets below the
  bound that is printed. It has to come within 5 % of that bound instead.
  The long chain ends at least 1.5 times sooner, and all metrics agree to 1e-5, relative.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.times import ScalingCurve
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.scheduling import Fluid, WidthPolicy
from hippotune.sequences.config import Config
from hippotune.shell.runtime import Runtime
from hippotune.stages.tree import stage_tree
from hippotune.store.memory import MemoryStore
from hippotune.tuners.base import TrialGroup, Trials, Tuner
from paper import GPUS, STUDIES, Cost, PaperStudy, _simulate
from tree_bound import earliest_end

HERE = Path(__file__).parent
SCALING = {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598}
WIDEST = 8
GRIDS = ("mobilenetv2_grid", "bert_grid")
BOUND = "bert_grid"
"""The study that cannot end as much sooner as its GPU-hours fall."""
OWN = {"grid": "grid", "halving": "successive halving", "hyperband": "Hyperband", "pbt": "PBT"}
OWN_WORKERS = (4, 8)
OWN_FIGURES = ("time_percent", "utilisation_percent", "utilisation_narrow", "utilisation")
BARS = [
    *(Bar(f"{each.name}.against_gpu_hours", "at least", 1.0) for each in STUDIES if each.name != BOUND),
    Bar(f"{BOUND}.against_bound", "at least", 0.95),
    *(Bar(f"{each.name}.gpu_hours_to_shared", "at most", 1.10) for each in STUDIES),
]
REAL_BARS = [Bar("real.speed_up", "at least", 1.5), Bar("real.largest_difference", "at most", 1e-5)]


# The paper's studies.


@dataclass(frozen=True)
class Run:
    """What a run took, and the time of its workers; in steps."""

    cost: Cost
    spans: list[SpanRecorded]

    @property
    def utilisation(self) -> float:
        return self.cost.work / self.cost.time / GPUS


def simulate(tuner: Tuner, study: PaperStudy, draw: int, share: bool, policy: WidthPolicy | None) -> Run:
    """Run a tuner on 40 workers, where a step takes a second on one."""
    from stand_in import StandIn

    executor = Simulated(GPUS, seed=draw, scaling=SCALING)
    store = MemoryStore()
    runtime = Runtime(store, executor, Job(StandIn), policy=policy)
    runtime.start()
    try:
        cost = runtime.run(_simulate(runtime, [tuner], share, study.further))
        return Run(cost, list(store.spans()))
    finally:
        runtime.close()


def compare(study: PaperStudy) -> tuple[dict[str, float], tuple[Run, Run]]:
    """Return what width brings to a study of the paper, and its runs without and with it."""
    tuner = importlib.import_module(study.name).tuner
    runs = []
    for draw in range(study.draws):
        alone = simulate(tuner, study, draw, False, None).cost
        shared = simulate(tuner, study, draw, True, None)
        runs.append((alone.work / shared.cost.work, draw, alone, shared))
    runs.sort(key=lambda each: each[:2])
    ratio, draw, alone, shared = runs[len(runs) // 2]
    wide = simulate(tuner, study, draw, True, Fluid(max_width=WIDEST, scaling=SCALING))
    speed_up = alone.time / wide.cost.time
    row = {
        "gpu_hour_ratio": ratio,
        "speed_up_shared": alone.time / shared.cost.time,
        "speed_up": speed_up,
        "against_gpu_hours": speed_up / ratio,
        "gpu_hours_to_shared": wide.cost.work / shared.cost.work,
        "utilisation_shared": shared.utilisation,
        "utilisation": wide.utilisation,
        "hours_per_step": study.published.gpu_hours[1] / alone.work,
    }
    if study.name in GRIDS:
        row["speed_up_at_most"] = alone.time / earliest(tuner, study.further)
        row["against_bound"] = speed_up / row["speed_up_at_most"]
    return row, (shared, wide)


def earliest(tuner: Any, further: int) -> float:
    """Return when a grid can be over at best; only then is it known which trial is to go further."""
    plan = Plan()
    asks = [(plan.place(config, tuner.max_steps)[0], tuner.max_steps) for config in tuner.configs()]
    return earliest_end(stage_tree(asks, scratch=True), GPUS, SCALING) + further / SCALING[WIDEST]


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
    from stand_in import StandIn

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


def report(rows: Mapping[str, Mapping[str, float]], own: Mapping[str, float]) -> str:
    lines = [
        f"{'on 40 workers':<22}{'-------- sooner than alone --------':>43}{'GPU-hours,':>13}{'busy,':>9}",
        f"{'':<22}{'needed':>10}{'shared':>10}{'wide':>10}{'at most':>13}{'to shared':>13}{'shared':>9}"
        f"{'wide':>7}",
    ]
    for study in STUDIES:
        row = rows[study.name]
        most = f"{row['speed_up_at_most']:.2f}" if study.name in GRIDS else ""
        lines.append(
            f"{study.title:<22}{row['gpu_hour_ratio']:>10.2f}{row['speed_up_shared']:>10.2f}"
            f"{row['speed_up']:>10.2f}{most:>13}{row['gpu_hours_to_shared']:>13.3f}"
            f"{row['utilisation_shared']:>9.0%}{row['utilisation']:>7.0%}"
        )
    heads = f"{'workers':>10}{'time':>10}{'utilisation':>13}{'busy at width 1':>19}{'busy':>7}"
    lines += ["", f"{'nothing shared':<22}{heads}"]
    for name, title in OWN.items():
        for workers in OWN_WORKERS:
            figures = {key: own[f"own.{name}_{workers}.{key}"] for key in OWN_FIGURES}
            lines.append(
                f"{title:<22}{workers:>10}{figures['time_percent']:>+9.0f}%"
                f"{figures['utilisation_percent']:>+12.0f}%{figures['utilisation_narrow']:>19.0%}"
                f"{figures['utilisation']:>7.0%}"
            )
    lines.append(f"{'  published':<32}{'-10…-70%':>10}{'+10…+100%':>13}")
    bert = rows[BOUND]
    remarks = (
        "Needed is what sharing alone saves in GPU-hours. At most: of a grid all is known in advance, so "
        "that there is a time before which no schedule ends, whatever it widens. BERT-Base needs "
        f"{bert['gpu_hour_ratio']:.2f} and cannot get more than {bert['speed_up_at_most']:.2f}: its tree has "
        f"4 chains at first, and training them fast enough takes more worker time. It gets "
        f"{bert['speed_up']:.2f}, with workers {bert['utilisation']:.0%} busy.",
        "ASHA decides by what has come in so far: at another pace it lets other trials go on, and GPU-hours "
        "differ for that reason too.",
    )
    for text in remarks:
        lines += ["", *textwrap.wrap(text, 106, break_on_hyphens=False)]
    return "\n".join([*lines, ""])


def measure(options: argparse.Namespace) -> Figures:
    figures: dict[str, float] = {}
    if options.virtual:
        sys.path.insert(0, str(HERE / "spaces"))
        rows, runs = {}, {}
        for study in STUDIES:
            rows[study.name], runs[study.name] = compare(study)
        own = own_setting()
        figures |= {f"{name}.{key}": value for name, row in rows.items() for key, value in row.items()} | own
        if not options.json:
            print(report(rows, own))
        if options.charts:
            from width_chart import draw

            busy = {
                study.title: [(run.spans, rows[study.name]["hours_per_step"]) for run in runs[study.name]]
                for study in STUDIES
            }
            for path in draw(busy, GPUS, options.out / "width"):
                print(f"chart: {path}", file=sys.stderr)
    if options.real:
        sys.path.insert(0, str(HERE / "studies"))
        figures |= real()
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--no-real", dest="real", action="store_false", help="leave out what trains for real")
    only.add_argument("--no-virtual", dest="virtual", action="store_false", help="only train for real")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="where charts go (default: bench/out)")
    parser.add_argument("--charts", action=argparse.BooleanOptionalAction, default=True, help="draw charts")


if __name__ == "__main__":
    bars = [] if "--no-virtual" in sys.argv else BARS
    run(__doc__, measure, bars if "--no-real" in sys.argv else [*bars, *REAL_BARS], arguments)
