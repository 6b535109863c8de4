"""What width brings: time to the end, and what it costs in worker time.

In virtual time, with ResNet-50's measured speed-ups (1.87 on 2 workers, 3.42 on 4, 5.60 on 8):

  the studies of the Hippo paper on 40 workers, shared, with and without width, against trial by trial. The
  curves of SHA and ASHA are those of the draw with the median ratio of GPU-hours, as in paper.py;
  Fluid's own setting, without sharing: grid, successive halving, Hyperband and PBT with trials of uneven
  length on 4 and 8 workers (published: completion time down by 10 to 70 %, utilisation up by 10 to 100 %).

For real, with `--real`: one long chain on two workers of this machine, at width 1 and at width 2.

Bars:
  of the paper's studies: the end comes sooner, against trial by trial, by at least as much as sharing alone
  cuts GPU-hours, and GPU-hours are at most 10 % above those of sharing alone. BERT-Base is left out of the
  first: its 40 equal trials keep 40 workers busy to the end when trained one by one, so that the bar could
  only be reached by a tree with 40 chains from its first step on; its bound is printed;
  with `--real`: at least 1.5 times sooner, metrics equal to 1e-5.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import hippo
from harness import Bar, Figures, run
from hippo.executors.base import Job
from hippo.executors.simulated import Simulated
from hippo.plan.facts import SpanRecorded
from hippo.runtime import Runtime
from hippo.scheduling import Fluid, WidthPolicy
from hippo.sequences.config import Config
from hippo.store.memory import MemoryStore
from hippo.tuners.base import Tuner
from paper import GPUS, STUDIES, Cost, PaperStudy, _simulate

HERE = Path(__file__).parent
SCALING = {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598}
WIDEST = 8
BARS = [
    *(
        Bar(f"{study.name}.speed_up_to_gpu_hour_ratio", "at least", 1.0)
        for study in STUDIES
        if study.name != "bert_grid"
    ),
    *(Bar(f"{study.name}.gpu_hours_to_plain", "at most", 1.10) for study in STUDIES),
]
REAL_BARS = [Bar("real.speed_up", "at least", 1.5), Bar("real.largest_difference", "at most", 1e-5)]

Spans = list[SpanRecorded]


# The paper's studies.


def simulate(
    tuner: Tuner, share: bool, further: int, draw: int, policy: WidthPolicy | None
) -> tuple[Cost, Spans]:
    """Run a tuner on 40 workers, where a step takes a second on one."""
    from stand_in import StandIn

    executor = Simulated(GPUS, seed=draw, scaling=SCALING)
    runtime = Runtime(MemoryStore(), executor, Job(StandIn), policy=policy)
    runtime.start()
    try:
        cost = runtime.run(_simulate(runtime, [tuner], share, further))
        return cost, list(runtime.loop.engine.spans)
    finally:
        runtime.close()


def compare(study: PaperStudy) -> tuple[dict[str, float], Spans, Spans]:
    """Return what width brings to a study of the paper, and worker time without and with it."""
    tuner = importlib.import_module(study.name).tuner
    runs = []
    for draw in range(study.draws):
        alone, _ = simulate(tuner, False, study.further, draw, None)
        plain, spans = simulate(tuner, True, study.further, draw, None)
        runs.append((alone.work / plain.work, draw, alone, plain, spans))
    runs.sort(key=lambda each: each[0])
    ratio, draw, alone, plain, narrow = runs[len(runs) // 2]
    wide, spans = simulate(tuner, True, study.further, draw, Fluid(max_width=WIDEST, scaling=SCALING))
    speed_up = alone.time / wide.time
    return (
        {
            "gpu_hour_ratio": ratio,
            "speed_up_plain": alone.time / plain.time,
            "speed_up": speed_up,
            "speed_up_to_gpu_hour_ratio": speed_up / ratio,
            "gpu_hours_to_plain": wide.work / plain.work,
            "utilisation_plain": plain.work / plain.time / GPUS,
            "utilisation": wide.work / wide.time / GPUS,
            # All workers busy all the time, and every stage as efficient as on one worker.
            "speed_up_bound": alone.time / (plain.work / GPUS),
        },
        narrow,
        spans,
    )


# Fluid's own setting.


def uneven(values: Mapping[str, Any], width: float) -> float:
    """Return the seconds of a step: trials differ by up to eight times."""
    return float(values["cost"]) / speed_of(width)


def speed_of(width: float) -> float:
    """Return ResNet-50's speed-up, straight between what was measured."""
    known = sorted(SCALING.items())
    for (low, slow), (high, fast) in pairwise(known):
        if width <= high:
            return width if width <= 1 else slow + (fast - slow) * (width - low) / (high - low)
    return known[-1][1]


def uneven_tuners() -> dict[str, Callable[[], Tuner]]:
    costs = [0.5 * 8 ** (number / 15) for number in range(16)]
    space = hippo.Grid({"cost": costs, "lr": [0.1, 0.01]})
    common: dict[str, Any] = {"metric": "score", "mode": "max"}
    return {
        "grid": lambda: hippo.GridSearch(space, **common, max_steps=27),
        "sha": lambda: hippo.SuccessiveHalving(space, **common, min_steps=3, max_steps=27, reduction=3),
        "hyperband": lambda: hippo.Hyperband(space, **common, min_steps=1, max_steps=27, reduction=3),
        "pbt": lambda: hippo.PBT(space, **common, population=16, interval=9, max_steps=27, explore={"lr"}),
    }


def own_setting() -> dict[str, float]:
    """Return completion time and utilisation against width 1, without sharing."""
    from stand_in import StandIn

    figures: dict[str, float] = {}
    for name, make in uneven_tuners().items():
        for workers in (4, 8):
            costs = []
            for policy in (None, Fluid(packing=1, max_width=workers, scaling=SCALING)):
                executor = Simulated(workers, seconds_per_step=uneven)
                with hippo.Study("own", StandIn, executor=executor, share=False, width=policy) as study:
                    work = study.tune(make(), progress=False).work
                costs.append((work.wall_seconds, work.worker_seconds / work.wall_seconds / workers))
            (plain, busy), (wide, busier) = costs
            figures[f"own.{name}_{workers}.completion_percent"] = 100 * (wide / plain - 1)
            figures[f"own.{name}_{workers}.utilisation_percent"] = 100 * (busier / busy - 1)
    return figures


# For real.


def real() -> dict[str, float]:
    """Train one long chain on two workers at width 1 and at width 2."""
    from chain import Chain

    seconds: dict[str, float] = {}
    losses: dict[str, float] = {}
    config = Config({"lr": 0.01, "bs": 256})
    for name, policy in (("narrow", None), ("wide", Fluid(max_width=2))):
        with tempfile.TemporaryDirectory() as home:
            executor = hippo.Local(workers=2)
            with hippo.Study("chain", Chain, home=home, executor=executor, width=policy) as study:
                study.eval(config, 1)  # workers are up, and paces known
                began = time.perf_counter()
                losses[name] = study.eval(config, 41)["loss"]
                seconds[name] = time.perf_counter() - began
    return {
        "real.narrow_seconds": seconds["narrow"],
        "real.wide_seconds": seconds["wide"],
        "real.speed_up": seconds["narrow"] / seconds["wide"],
        "real.largest_difference": abs(losses["wide"] / losses["narrow"] - 1),
    }


def chart(rows: Mapping[str, tuple[Spans, Spans]], out: Path) -> None:
    """Draw how many workers are busy over time, with and without width."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = [study.title for study in STUDIES if study.name in rows]
    figure = make_subplots(rows=len(rows), cols=1, subplot_titles=titles, vertical_spacing=0.08)
    for row, (narrow, wide) in enumerate(rows.values(), start=1):
        for spans, label, colour in ((narrow, "width 1", "#9aa5b1"), (wide, "Fluid", "#2f6f9f")):
            end = max(span.ended for span in spans)
            edges = [end * index / 200 for index in range(201)]
            busy = [0.0] * 200
            for span in spans:
                first = min(int(span.began / end * 200), 199)
                last = min(math.ceil(span.ended / end * 200), 200)
                for index in range(first, last):
                    shared = min(edges[index + 1], span.ended) - max(edges[index], span.began)
                    busy[index] += max(shared, 0.0) * span.width / (end / 200)
            line = {"color": colour, "shape": "hv"}
            figure.add_trace(
                go.Scatter(x=edges[:-1], y=busy, name=label, line=line, showlegend=row == 1), row=row, col=1
            )
        figure.update_yaxes(title_text="busy workers", range=[0, GPUS * 1.05], row=row, col=1)
    figure.update_xaxes(title_text="time, in steps on one worker", row=len(rows), col=1)
    figure.update_layout(template="plotly_white", height=260 * len(rows), width=1000)
    out.mkdir(exist_ok=True)
    figure.write_html(out / "width.html")
    try:
        figure.write_image(out / "width.png", scale=2)
    except Exception as error:  # no browser to draw with
        print(f"no picture: {error}", file=sys.stderr)


def measure(options: argparse.Namespace) -> Figures:
    sys.path.insert(0, str(HERE / "spaces"))
    if options.real:
        sys.path.insert(0, str(HERE / "studies"))
        return real()
    figures: dict[str, float] = {}
    drawn: dict[str, tuple[Spans, Spans]] = {}
    for study in STUDIES:
        row, narrow, wide = compare(study)
        drawn[study.name] = (narrow, wide)
        figures.update({f"{study.name}.{key}": value for key, value in row.items()})
    figures.update(own_setting())
    if options.charts:
        chart(drawn, HERE / "out")
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--real", action="store_true", help="train one long chain for real instead")
    parser.add_argument("--no-charts", dest="charts", action="store_false", help="draw nothing")


if __name__ == "__main__":
    run(__doc__, measure, REAL_BARS if "--real" in sys.argv else BARS, arguments)
