"""TPE and Lazy for real, on two cores: a language model, the same worker-hours for both, three seeds.

The model is that of curve_spaces.py with twice the context and seven times the weights, so that a step takes
a few milliseconds and all six searches take a few minutes; its WSD schedules come from a space without end.
TPE trains its trials on two workers. Lazy gets the steps that TPE trained, on the same two workers, and
counts for what it has found by the time at which TPE had ended: both hold two workers all the time, so equal
times are equal worker-hours. What a search takes to start, to choose, to load and to save is in them. Where
other programs run beside it, times say little; what Lazy has found after the same steps stands beside it. A
best is judged by its loss, and by the loss of that config trained with two other seeds.

Bar: Lazy's best is no worse than TPE's, on average.

    python bench/search_real.py [--seeds 3] [--trials 40] [--check] [--json FILE]
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
from hippotune.tuners import Result, Trials
from hippotune.tuners.space_tuner import SpaceTuner

STEPS = 120
WORKERS = 2
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


class LongLetters(Letters):
    """The next letter of a text, from the sixteen before it."""

    context, width, hidden = 16, 16, 128


class Timed(SpaceTuner):
    """Another tuner, with notes of what it has heard at the last step, and when."""

    def __init__(self, tuner: SpaceTuner) -> None:
        super().__init__(tuner.space, METRIC, "min", STEPS, trials=1)
        self._tuner = tuner
        self._began = time.monotonic()
        self.found: list[tuple[float, float, hippo.Config]] = []

    async def run(self, trials: Trials) -> None:
        hear = trials.next

        async def note() -> Result:
            result = await hear()
            if result.step == STEPS and result.metrics is not None:
                now = time.monotonic() - self._began
                self.found.append((now, result.metrics[METRIC], result.trial.config))
            return result

        trials.next = note
        await self._tuner.run(trials)


class Search(NamedTuple):
    """What a search trained, what that took, and what it had found: in the end, and within the time."""

    trials: int
    steps: int
    seconds: float
    worker_seconds: float
    loss_in_the_end: float
    loss: float
    elsewhere: float


def searched(tuner: SpaceTuner, seed: int, limit: float | None = None) -> Search:
    """Search for real; what was found after `limit` seconds does not count."""
    with tempfile.TemporaryDirectory() as home:

        def study(training_seed: int) -> hippo.Study:
            executor = hippo.Local(workers=WORKERS, threads=1)
            return hippo.Study("letters", LongLetters, home=home, executor=executor, seed=training_seed)

        timed = Timed(tuner)
        with study(seed) as own:
            report = own.tune(timed, progress=False)
        seconds = timed.found[-1][0]
        in_time = [(loss, config) for at, loss, config in timed.found if at <= (limit or seconds)]
        best, config = min(in_time, key=lambda each: each[0])
        elsewhere = []
        for training_seed in (seed + 1, seed + 2):
            with study(training_seed) as other:
                elsewhere.append(other.eval(config, STEPS)[METRIC])
    return Search(
        len(in_time),
        report.work.steps_trained,
        seconds,
        report.work.worker_seconds,
        min(loss for _, loss, _ in timed.found),
        best,
        float(np.mean(elsewhere)),
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    columns = ("trials", "steps", "seconds", "worker-s", "in the end", "loss", "elsewhere")
    print(f"  {'':<10}" + "".join(f"{column:>12}" for column in columns))
    pairs = []
    for seed in range(options.seeds):
        tpe = searched(hippo.OptunaSearch(SPACE, METRIC, "min", STEPS, options.trials, seed=seed), seed)
        lazy = searched(hippo.Lazy(SPACE, METRIC, "min", STEPS, tpe.steps, seed=seed), seed, tpe.seconds)
        for name, each in (("TPE", tpe), ("Lazy", lazy)):
            numbers = "".join(f"{number:>12,.5g}" for number in each)
            print(f"  {name + ' ' + str(seed):<10}{numbers}", flush=True)
        pairs.append((tpe, lazy))
    figures = {
        f"{name}.{seed}.{field}": value
        for seed, pair in enumerate(pairs)
        for name, search in zip(("TPE", "Lazy"), pair, strict=True)
        for field, value in search._asdict().items()
    }

    def apart(field: str) -> float:
        return float(np.mean([getattr(lazy, field) - getattr(tpe, field) for tpe, lazy in pairs]))

    return figures | {
        "loss of Lazy's best over TPE's": apart("loss"),
        "the same after the same steps": apart("loss_in_the_end"),
        "the same with other training seeds": apart("elsewhere"),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=40)


if __name__ == "__main__":
    harness.run(__doc__ or "", measure, [Bar("loss of Lazy's best over TPE's", "at most", 0.0)], arguments)
