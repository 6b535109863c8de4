"""The best model by a deadline: HyperSched against ASHA, shared and trial by trial.

In virtual time: 144 configs, 8 workers, deadlines of 900, 1800 and 3600 s, a step of 20 s on one worker, 5 s
to start from a checkpoint or on several workers, with ResNet-50's measured speed-ups (1.87 on 2 workers, 3.42
on 4, 5.60 on 8); at most 200 steps, rungs from step 2 on, reduction 4. Learning curves are drawn from a seed
such that the early order is a weak guide to the final one: trials that end well mostly take their time.
Figures are means over 20 seeds, with the standard deviation beside.

  constants: 9 learning rates × 4 weight decays × 4 momenta, as published; nothing to share;
  sequences: 144 configs that part at steps 40 to 140, with a merge rate above 2; shared, and trial by trial.

ASHA reports every two steps, as HyperSched does, and whatever it has measured by the deadline counts.
HyperSched is taken at the model that it hands over.

For real, with `--real`: the digits demo on two workers with a deadline of 60 s.

Bars:
  HyperSched is ahead of ASHA at every deadline, on both spaces;
  on the second, HyperSched that shares is ahead of HyperSched that trains trial by trial, at every deadline;
  with `--real`: it ends within one step and one save of the deadline, and the model that is handed over,
  loaded in a fresh process, has the metrics that were reported, to the last bit.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import ASHA, Config, Grid, HyperSched, Piecewise, Simulated, Study
from hippotune.sequences import Sequence

HERE = Path(__file__).parent
DEADLINES = (900, 1800, 3600)
STEP_SECONDS = 20.0
SCALING = {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598}
MIN_STEPS, MAX_STEPS, REDUCTION, TRIALS = 2, 200, 4, 144
PUBLISHED = {900: (0.833, 0.879, 35, 14), 1800: (0.886, 0.916, 51, 20), 3600: (0.908, 0.938, 90, 33)}
"""ResNet50 on CIFAR-10, 8 GPUs: accuracy of ASHA and of HyperSched, and the trials that each started."""

CONSTANTS = Grid(
    {
        "lr": [10 ** (-4 + power / 2) for power in range(9)],
        "weight_decay": [0.0, 1e-4, 1e-3, 1e-2],
        "momentum": [0.0, 0.8, 0.9, 0.99],
    }
)
SEQUENCES = Grid(
    {
        "lr": [
            rate if at is None else Piecewise([rate, rate / 10], [at])
            for rate in (0.3, 0.1, 0.03)
            for at in (None, 40, 80, 120)
        ],
        "bs": [128, Piecewise([128, 256], [100]), Piecewise([128, 256], [140])],
        "weight_decay": [1e-4, 1e-3],
        "momentum": [0.8, 0.9],
    }
)
CASES = {"constants": (CONSTANTS, True), "alone": (SEQUENCES, False), "shared": (SEQUENCES, True)}
ALLOCATIONS = ("uniform", "top", "softmax")

BARS = [
    *(Bar(f"{case}.{deadline}.lead", "at least", 0.001) for case in CASES for deadline in DEADLINES),
    *(Bar(f"sharing.{deadline}.gain", "at least", 0.001) for deadline in DEADLINES),
]
REAL_BARS = [
    Bar("real.overrun_seconds_beyond_step_and_save", "at most", 0.0),
    Bar("real.metrics_that_differ", "at most", 0),
]


# In virtual time.


class Curves:
    """Learning curves, all decided by a seed.

    How good a trial gets and how slowly it learns are averages of what its values bring, over all steps that
    it was trained: a function of the values before a step alone, so that trials that agree so far measure
    the same.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = lru_cache(maxsize=None)(self._draw)
        self._sums = lru_cache(maxsize=None)(self._sum_up)

    def __call__(self, config: Config, step: int) -> dict[str, float]:
        good, slow = self._trait("good", config, step), self._trait("slow", config, step)
        ceiling = 0.70 + 0.25 * good
        pace = 5 + 60 * (0.7 * good + 0.3 * slow)
        noise = 0.005 * (self._drawn("noise", f"{good!r} {slow!r} {step}") - 0.5)
        return {"accuracy": 0.1 + (ceiling - 0.1) * (1 - (1 + step / pace) ** -1.2) + noise}

    def _trait(self, trait: str, config: Config, step: int) -> float:
        """Return a number between 0 and 1, spread evenly over configs that stay as they are."""
        total = sum(self._sums(trait, name, config[name])[step] for name in config.names)
        deviation = math.sqrt(1 / 12 / len(config))
        return 0.5 + 0.5 * math.erf((total / step / len(config) - 0.5) / deviation / math.sqrt(2))

    def _sum_up(self, trait: str, name: str, sequence: Sequence) -> list[float]:
        each = (self._drawn(trait, f"{name} {sequence.value(step)}") for step in range(MAX_STEPS))
        return list(accumulate(each, initial=0.0))

    def _draw(self, trait: str, what: str) -> float:
        digest = blake2b(f"{self._seed} {trait} {what}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64


class Widened(hippo.Trainer):
    """Stands for a network that several workers can train; learns nothing."""

    widens = True

    def setup(self, hp: Mapping[str, Any]) -> None:
        pass

    def train(self) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {}


class ReportingASHA(ASHA):
    """ASHA that is heard on the way from one rung to the next, too."""

    _reports = MIN_STEPS


@dataclass(frozen=True)
class Run:
    """One tuning: of a case, by a deadline, with ASHA, HyperSched or one of its allocations, of a seed."""

    case: str
    deadline: int
    tuner: str
    seed: int

    def best_and_trials(self) -> tuple[float, int]:
        space, share = CASES[self.case]
        kind = ReportingASHA if self.tuner == "asha" else HyperSched
        more = {} if self.tuner in ("asha", "hypersched") else {"allocation": self.tuner}
        limits = (MIN_STEPS, MAX_STEPS, REDUCTION)
        tuner = kind(space, "accuracy", "max", *limits, trials=TRIALS, seed=self.seed, **more)
        curves = Curves(self.seed)
        executor = Simulated(8, seconds_per_step=STEP_SECONDS, load=5.0, scaling=SCALING, metrics=curves)
        with Study("deadline", Widened, executor=executor, share=share) as study:
            report = study.tune(tuner, deadline=self.deadline, progress=False)
        assert report.work.wall_seconds <= self.deadline + STEP_SECONDS  # what runs ends its step
        best = report.best.metrics["accuracy"]
        if self.tuner == "asha":
            best = max(metrics["accuracy"] for trial in report.trials for metrics in trial.metrics.values())
        return best, len(report.trials)


def simulate(tuners: list[str], seeds: int) -> dict[str, Any]:
    """Run everything, on all cores; return the figures."""
    runs = [Run(*each) for each in product(CASES, DEADLINES, tuners, range(seeds))]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        came = dict(zip(runs, pool.map(Run.best_and_trials, runs, chunksize=4), strict=True))
    figures: dict[str, Any] = {"seeds": seeds, "merge_rate": SEQUENCES.merge_rate(MAX_STEPS)}
    best: dict[tuple[str, int, str], list[float]] = {}
    for case, deadline, tuner in product(CASES, DEADLINES, tuners):
        results = [came[Run(case, deadline, tuner, seed)] for seed in range(seeds)]
        values = best[case, deadline, tuner] = [value for value, _ in results]
        name = f"{case}.{deadline}.{tuner}"
        figures[f"{name}.best"] = statistics.mean(values)
        figures[f"{name}.spread"] = statistics.stdev(values)
        figures[f"{name}.trials"] = statistics.mean(trials for _, trials in results)
    for case, deadline in product(CASES, DEADLINES):
        leads = _differences(best[case, deadline, "hypersched"], best[case, deadline, "asha"])
        figures[f"{case}.{deadline}.lead"] = statistics.mean(leads)
        figures[f"{case}.{deadline}.seeds_ahead"] = sum(each > 0 for each in leads)
    for deadline in DEADLINES:
        gains = _differences(best["shared", deadline, "hypersched"], best["alone", deadline, "hypersched"])
        figures[f"sharing.{deadline}.gain"] = statistics.mean(gains)
        figures[f"sharing.{deadline}.seeds_ahead"] = sum(each > 0 for each in gains)
    return figures


def _differences(ones: list[float], others: list[float]) -> list[float]:
    """Return by how much each is ahead of the other of the same seed."""
    return [one - other for one, other in zip(ones, others, strict=True)]


TITLES = {"constants": "constants", "alone": "sequences, trial by trial", "shared": "sequences, shared"}


def table(figures: Figures, tuners: list[str]) -> str:
    """Return the figures beside the published ones."""
    lines = [f"{'':<27}{'deadline':>9}" + "".join(f"{tuner:>25}" for tuner in tuners)]
    for case, deadline in product(CASES, DEADLINES):
        cells = (
            "{best:.4f} ± {spread:.4f} ({trials:.0f})".format(
                **{
                    each: figures[f"{case}.{deadline}.{tuner}.{each}"]
                    for each in ("best", "spread", "trials")
                }
            )
            for tuner in tuners
        )
        lines.append(f"{TITLES[case]:<27}{deadline:>7} s" + "".join(f"{cell:>25}" for cell in cells))
    for deadline, (asha, hypersched, few, fewer) in PUBLISHED.items():
        cells = (f"{asha:.3f} ({few})", f"{hypersched:.3f} ({fewer})")
        lines.append(f"{'published, ResNet50':<27}{deadline:>7} s" + "".join(f"{cell:>25}" for cell in cells))
    lines.append("mean best accuracy ± standard deviation over seeds (trials started)")
    return "\n".join(lines)


# For real.

AGAIN = """
import json, pickle, sys
sys.path.insert(0, sys.argv[1])
import hippotune as hippo
from digits import Digits
config, step = pickle.loads(bytes.fromhex(sys.argv[3]))
with hippo.Study("digits", Digits, home=sys.argv[2], executor=hippo.Local(1)) as study:
    model = study.load(config, step)
print(json.dumps(dict(model.evaluate())))
"""


def real(seconds: float) -> dict[str, Any]:
    """Tune the digits demo with a deadline; see when it ends, and whether its model is what it says."""
    import pickle

    from hippotune.store.files import CheckpointFiles, checkpoint_name

    examples = str(HERE.parent / "examples")
    sys.path.insert(0, examples)
    from digits import Digits, space

    with tempfile.TemporaryDirectory() as home:
        with Study("digits", Digits, home=home, executor=hippo.Local(2)) as study:
            began = time.monotonic()
            tuner = HyperSched(space, "val_acc", "max", min_steps=5, max_steps=120, reduction=4)
            report = study.tune(tuner, deadline=seconds)
            took = time.monotonic() - began
        print(report, file=sys.stderr)
        best = report.best
        model = best.load()
        step = report.work.worker_seconds / report.work.steps_trained  # as it was beside another worker
        files = CheckpointFiles(Path(home) / "again")
        files.save(checkpoint_name(0, 1), model.save)
        save = _timed(lambda: files.save(checkpoint_name(0, 2), model.save))
        place = pickle.dumps((best.config, best.step)).hex()
        command = [sys.executable, "-c", AGAIN, examples, home, place]
        fresh = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "real.ended_by": report.ended_by,
        "real.seconds": took,
        "real.step_seconds": step,
        "real.save_seconds": save,
        "real.overrun_seconds_beyond_step_and_save": took - seconds - step - save,
        "real.best_step": best.step,
        "real.best": best.metrics["val_acc"],
        "real.trials": len(report.trials),
        "real.metrics_that_differ": sum(fresh[name] != value for name, value in best.metrics.items()),
    }


def _timed(call: Any) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def measure(options: argparse.Namespace) -> Figures:
    if options.real:
        return real(options.real)
    tuners = ["asha", "hypersched", *(ALLOCATIONS if options.allocations else ())]
    figures = simulate(tuners, options.seeds)
    if not options.json:
        print(table(figures, tuners))
    if options.charts:
        from deadline_chart import draw

        for path in draw(figures, options.out / "deadline"):
            print(f"chart: {path}", file=sys.stderr)
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--real", type=float, nargs="?", const=60.0, metavar="SECONDS", help="the digits demo"
    )
    parser.add_argument("--seeds", type=int, default=20, help="how often learning curves are drawn")
    parser.add_argument("--allocations", action="store_true", help="compare HyperSched's allocations as well")
    parser.add_argument("--charts", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=Path, default=HERE / "out", help="where charts go")


if __name__ == "__main__":
    run(
        __doc__,
        measure,
        REAL_BARS if any(each.startswith("--real") for each in sys.argv) else BARS,
        arguments,
    )
