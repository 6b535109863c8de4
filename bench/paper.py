"""The studies of the Hippo paper on 40 GPUs in virtual time: trial by trial against shared.

The real tuners and the real engine run; time and scores are made up. A step takes the same time everywhere;
loading, saving and evaluating take none. What the paper's tables leave open is drawn at the published merge
rate (`paper_spaces.py`, `paper_sets.py`), and so are scores (`paper_runs.py`): random, and correlated along
the tree. Each draw gives a ratio of GPU-hours; reported are the mean over draws, the range that holds nine
tenths of them, and the share of draws at or above the published figure. Rungs are the paper's own: places of
trials, not of states. The best trial of an image study is trained 100 epochs further at the end, on the same
clock.

Ratios against trial by trial stand beside the paper's trial by trial; ratios against Ray Tune beside Ray
Tune's. By successive halving and on grids Ray Tune trains what trial by trial trains; its ASHA does not, and
is run here by its own rule (`paper_runs.RayASHA`). What Ray Tune itself costs is not modelled.

Bars:
  a grid's GPU-hours fall by its merge rate, within 1 %, as far as the last 100 epochs let them;
  all draws have the published number of trials, and merge rates within 1 % (sets of studies: 5 %).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from harness import Bar, Figures, run
from hippotune import ASHA, Grid, GridSearch, SuccessiveHalving
from hippotune.spaces.sharing import merge_rate
from hippotune.tuners import Tuner
from paper_runs import KINDS, METRIC, Kind, RayASHA, Survivors, simulate
from paper_sets import SETS
from paper_sets import STEPS as SET_STEPS
from paper_sets import TRIALS as SET_TRIALS
from paper_spaces import BERT, MOBILENETV2, RESNET56, Published

FURTHER = 100


@dataclass(frozen=True)
class PaperStudy:
    """A study, and the published GPU-hours and hours to the end: Ray Tune, trial by trial, shared."""

    title: str
    space: Published
    gpu_hours: tuple[float, float, float]
    hours: tuple[float, float, float]
    tuner: Callable[[Grid], Tuner]
    ray_tuner: Callable[[Grid], Tuner] | None = None
    further: int = FURTHER
    kinds: tuple[Kind, ...] = KINDS


def _halving(space: Grid) -> Tuner:
    return SuccessiveHalving(space, METRIC, "max", 15, 120, reduction=4, rungs="trials")


def _asha(kind: type[ASHA]) -> Callable[[Grid], Tuner]:
    return lambda space: kind(space, METRIC, "max", 15, 120, reduction=4, rungs="trials", trials=len(space))


STUDIES = {
    "resnet56_sha": PaperStudy(
        "ResNet56, SHA", RESNET56, (402.66, 404.95, 83.7), (13.92, 12.89, 5.76), _halving
    ),
    "resnet56_asha": PaperStudy(
        "ResNet56, ASHA", RESNET56, (544.36, 374.82, 139.03), (17.6, 13.58, 7.4), _asha(ASHA), _asha(RayASHA)
    ),
    "mobilenetv2_grid": PaperStudy(
        "MobileNetV2, grid",
        MOBILENETV2,
        (917.11, 944.88, 291.48),
        (28.82, 30.29, 10.43),
        lambda space: GridSearch(space, METRIC, "max", 120),
        kinds=("random",),
    ),
    "bert_grid": PaperStudy(
        "BERT-Base, grid",
        BERT,
        (835.03, 808.21, 404.21),
        (25.18, 24.1, 11.93),
        lambda space: GridSearch(space, METRIC, "max", 27_000),
        further=0,
        kinds=("random",),
    ),
}
SET_BEST = {"first": (6.77, 3.53), "second": (2.32, 1.99)}
"""The largest published ratios of GPU-hours and of hours, of eight studies at once."""
SETS_BY_NAME = {f"{name}_{each.studies}": each for name, sets in SETS.items() for each in sets}
BARS = [
    *(Bar(f"{name}.random.off_merge_rate", "at most", 0.01) for name in STUDIES if name.endswith("grid")),
    *(Bar(f"{name}.random.rate_off", "at most", 0.01) for name in STUDIES),
    *(Bar(f"{name}.random.trials_off", "at most", 0) for name in (*STUDIES, *SETS_BY_NAME)),
    *(Bar(f"{name}.random.rate_off", "at most", 0.05) for name in SETS_BY_NAME),
]

Row = dict[str, float]


@dataclass(frozen=True)
class Draw:
    """One draw of a study, or of a set of studies: its spaces and scores follow from the seed."""

    name: str
    seed: int

    def run(self) -> dict[Kind, Row]:
        """Return the ratios of this draw, by kind of scores."""
        if self.name in STUDIES:
            study = STUDIES[self.name]
            spaces, tuner, further = [study.space.draw(self.seed)], study.tuner, study.further
            published, steps, ray_tuner = study.space.merge_rate, study.space.steps, study.ray_tuner
            trials = study.space.trials
        else:
            drawn = SETS_BY_NAME[self.name]
            spaces, tuner, further = drawn.draw(self.seed), _halving, FURTHER
            published, steps, ray_tuner = drawn.together, SET_STEPS, None
            trials = SET_TRIALS
        rate = merge_rate([config for space in spaces for config in space.configs()], steps)
        rows: dict[Kind, Row] = {}
        for kind in kinds_of(self.name):
            scores = Survivors(kind, self.seed)
            alone, shared = (
                simulate([tuner(space) for space in spaces], share, further, scores)[0]
                for share in (False, True)
            )
            last = further * len(spaces)
            explored = (alone.work - last) / (shared.work - last)
            rows[kind] = {
                "ratio": alone.work / shared.work,
                "hour_ratio": alone.time / shared.time,
                "explored": explored,
                "rate_off": abs(rate / published - 1),
                "trials_off": max(abs(len(space) - trials) for space in spaces),
                "off_merge_rate": abs(explored / rate - 1),
                "chain_of_time": (steps + further) / shared.time,
            }
            if ray_tuner is not None:
                ray, _ = simulate([ray_tuner(space) for space in spaces], False, further, scores)
                rows[kind] |= {
                    "ray_ratio": ray.work / shared.work,
                    "ray_hour_ratio": ray.time / shared.time,
                    "ray_to_alone": ray.work / alone.work,
                }
        return rows


def kinds_of(name: str) -> tuple[Kind, ...]:
    """Return the kinds of scores that matter: a grid asks for none."""
    return STUDIES[name].kinds if name in STUDIES else KINDS


def summed_up(rows: Sequence[Row], published: Mapping[str, float]) -> Row:
    """Return means, the range of nine tenths of the draws, and the share that gets to what is published."""
    figures: Row = {"draws": len(rows)}
    for name in ("ratio", "ray_ratio", "hour_ratio", "ray_hour_ratio", "explored", "ray_to_alone"):
        values = sorted(row[name] for row in rows if name in row)
        if not values:
            continue
        cut = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
        figures |= {f"{name}.mean": statistics.mean(values), f"{name}.low": cut[0], f"{name}.high": cut[-1]}
        figures[f"{name}.most"] = values[-1]
        if name in published:
            figures[f"{name}.published"] = published[name]
            figures[f"{name}.share"] = sum(value >= published[name] for value in values) / len(values)
    return {
        **figures,
        "rate_off": max(row["rate_off"] for row in rows),
        "trials_off": max(row["trials_off"] for row in rows),
        "off_merge_rate": max(row["off_merge_rate"] for row in rows),
        "chain_of_time": statistics.mean(row["chain_of_time"] for row in rows),
    }


def claims(study: PaperStudy) -> dict[str, float]:
    """Return the published ratios. On a grid, and by SHA, Ray Tune trains what trial by trial trains."""
    (ray, alone, shared), (ray_time, alone_time, shared_time) = study.gpu_hours, study.hours
    own = {"ratio": alone / shared, "hour_ratio": alone_time / shared_time}
    return {**own, "ray_ratio": ray / shared, "ray_hour_ratio": ray_time / shared_time}


def measure(options: argparse.Namespace) -> Figures:
    draws = [Draw(name, seed) for name in SETS_BY_NAME for seed in range(options.set_draws)]
    draws += [Draw(name, seed) for name in STUDIES for seed in range(options.draws)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        came = list(zip(draws, pool.map(Draw.run, draws), strict=True))
    rows: dict[str, Row] = {}
    for name in (*STUDIES, *SETS_BY_NAME):
        published = claims(STUDIES[name]) if name in STUDIES else {}
        for kind in kinds_of(name):
            rows[f"{name}.{kind}"] = summed_up(
                [row[kind] for draw, row in came if draw.name == name], published
            )
    if not options.json:
        print(report(rows))
    return {f"{name}.{key}": value for name, row in rows.items() for key, value in row.items()}


def report(rows: Mapping[str, Row]) -> str:
    """Return a table of the ratios beside the published ones."""
    heads = f"{'published':>11}{'mean':>8}{'nine tenths':>16}{'at or above':>13}"
    lines = [f"{'GPU-hours: times fewer when shared':<52}{heads}"]
    for name, row in rows.items():
        case, kind = name.split(".")
        title = STUDIES[case].title if case in STUDIES else _set_title(case)
        for key, against in (("ratio", "trial by trial"), ("ray_ratio", "Ray Tune")):
            if f"{key}.mean" in row:
                lines.append(f"{f'{title}, {kind}, to {against}':<52}{_told(row, key)}")
    lines += ["", f"{'hours to the end: times sooner':<52}{heads}"]
    for name, row in rows.items():
        case, kind = name.split(".")
        title = STUDIES[case].title if case in STUDIES else _set_title(case)
        lines.append(f"{f'{title}, {kind}':<52}{_told(row, 'hour_ratio')}")
    return "\n".join([*lines, ""])


def _set_title(case: str) -> str:
    overlap, number = case.rsplit("_", 1)
    return f"{overlap} set, {number} studies"


def _told(row: Row, key: str) -> str:
    published, share = row.get(f"{key}.published"), row.get(f"{key}.share")
    span = f"{row[f'{key}.low']:.2f} to {row[f'{key}.high']:.2f}"
    beside = (f"{published:.2f}", f"{share:.0%}") if published and share is not None else ("", "")
    return f"{beside[0]:>11}{row[f'{key}.mean']:>8.2f}{span:>16}{beside[1]:>13}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=50, help="how often each study is drawn (50)")
    parser.add_argument(
        "--set-draws", type=int, default=10, help="how often each set of studies is drawn (10)"
    )


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
