"""TPE and Lazy for real, on two cores: a language model, the same steps for both, three seeds.

The model of letters (curve_spaces.py) is trained by WSD schedules from a space without end. TPE trains its
trials on two workers; Lazy gets the steps that TPE trained. The worker-seconds that this took stand beside
it: they differ by what is loaded and saved, and by the load of the machine. What each finds is judged by its
own loss, and by that of its best config trained with two other seeds.

Bar: Lazy's best is no worse than TPE's, on average.

    python bench/search_real.py [--seeds 3] [--trials 40] [--check]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

import harness
import hippotune as hippo
from curve_spaces import METRIC, Letters
from harness import Bar
from hippotune import WSD, Choice, Int, LogUniform, Piecewise
from hippotune.spaces import Space
from hippotune.tuners import Tuner

STEPS = 120
SPACE = Space(
    {
        "lr": WSD(
            LogUniform(0.001, 0.05),
            STEPS,
            warmup=Int(4, 16),
            decay=Int(12, 72),
            shape=Choice("1-sqrt", "linear", "cosine"),
        ),
        "bs": [32, Piecewise([32, 96], [80])],
        "weight_decay": [0.0, 0.3],
    }
)


class Found(NamedTuple):
    """What a search trained, what that took, and what it found."""

    trials: int
    steps: int
    worker_seconds: float
    seconds: float
    loss: float
    elsewhere: float


def found(tuner: Tuner, seed: int) -> Found:
    with tempfile.TemporaryDirectory() as home:

        def study(training_seed: int) -> hippo.Study:
            executor = hippo.Local(workers=2, threads=1)
            return hippo.Study("letters", Letters, home=home, executor=executor, seed=training_seed)

        began = time.monotonic()
        with study(seed) as own:
            report = own.tune(tuner, progress=False)
        seconds = time.monotonic() - began
        losses = []
        for training_seed in (seed + 1, seed + 2):
            with study(training_seed) as other:
                losses.append(other.eval(report.best.config, STEPS)[METRIC])
    return Found(
        sum(trial.step == STEPS for trial in report.trials),
        report.work.steps_trained,
        report.work.worker_seconds,
        seconds,
        report.best.metrics[METRIC],
        float(np.mean(losses)),
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    columns = ("trials", "steps", "worker-s", "seconds", "loss", "loss elsewhere")
    print(f"  {'':<10}" + "".join(f"{column:>16}" for column in columns))
    apart = []
    for seed in range(options.seeds):
        tpe = found(hippo.OptunaSearch(SPACE, METRIC, "min", STEPS, options.trials, seed=seed), seed)
        lazy = found(hippo.Lazy(SPACE, METRIC, "min", STEPS, tpe.steps, seed=seed), seed)
        for name, each in (("TPE", tpe), ("Lazy", lazy)):
            numbers = "".join(f"{number:>16,.4g}" for number in each)
            print(f"  {name + ' ' + str(seed):<10}{numbers}", flush=True)
        apart.append((lazy.loss - tpe.loss, lazy.elsewhere - tpe.elsewhere))
    own, elsewhere = np.mean(apart, axis=0)
    return {
        "loss of Lazy's best over TPE's": float(own),
        "the same with other training seeds": float(elsewhere),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=40)


if __name__ == "__main__":
    harness.run(__doc__ or "", measure, [Bar("loss of Lazy's best over TPE's", "at most", 0.0)], arguments)
