"""The best model by a deadline: HyperSched against ASHA, narrow and wide, shared and trial by trial.

In virtual time: 144 configs, 8 workers, a step of 20 s on one worker, 5 s to start from a checkpoint or on
several workers, with ResNet-50's measured speed-ups (1.87 on 2 workers, 3.42 on 4, 5.60 on 8); reduction 4.
Four tuners: ASHA; ASHA with the width that HyperSched has; HyperSched on one worker a trial; HyperSched. ASHA
reports as often as HyperSched, and whatever it has measured by the deadline counts; HyperSched is taken at
the model that it hands over. 20 seeds, which decide curves and the order of trials; differences are of the
same seed, with the interval that holds their mean with 95 % confidence.

Made-up curves, at most 200 steps with rungs from step 2 on. A config's values decide how good it gets and how
  fast: crossing  trials that end well mostly take their time: the early order is a weak guide to the final
  one; parallel  all learn equally fast: the early order is the final one; early     all have learned what
  they can after some ten steps: to try many beats to train long; few       one config in twenty is good, and
  the good ones take their time. Recorded curves of small networks (bench/record.py; lower loss is better), at
  most 60 or 120 steps with rungs from step 5 on: `digits-144` are constants, `digits` and `letters`
  sequences; three training seeds, in turns.

Constants (9 learning rates × 4 weight decays × 4 momenta, as published) have nothing to share. Sequences (144
configs that part at steps 40 to 140, merge rate above 2) are tuned shared, and trial by trial.

For real, with `--real`: the digits demo on two workers with a deadline of 25 s.

Bars: on crossing curves, HyperSched is ahead of ASHA at every deadline, on both spaces, and ahead of itself
  trial by trial where it shares; with `--real`: the deadline ends it, within one step and one save, and the
  model that is handed over, loaded in a fresh process, has the metrics that were reported, to the last bit.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import ASHA, Config, Grid, HyperSched, Piecewise, Simulated, Study
from hippotune.scheduling import Allocation
from hippotune.sequences import Sequence
from paper_runs import StandIn

HERE = Path(__file__).parent
DEADLINES = (900, 1800, 3600)
USUAL = 1800
STEP_SECONDS = 20.0
SCALING = {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598}
MAX_STEPS, REDUCTION, TRIALS = 200, 4, 144

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
FAMILIES = ("crossing", "parallel", "early", "few")
RECORDED = {"digits-144": (False,), "digits": (False, True), "letters": (False, True)}
TUNERS = ("asha", "asha_wide", "narrow", "hypersched")


@dataclass(frozen=True)
class Case:
    """Curves, with a space, a deadline, and whether trials share."""

    curves: str
    space: str
    share: bool
    deadline: int

    @property
    def name(self) -> str:
        return f"{self.curves}.{self.space}.{'shared' if self.share else 'alone'}.{self.deadline}"


CASES = [
    *(Case("crossing", "constants", False, deadline) for deadline in DEADLINES),
    *(Case("crossing", "sequences", share, deadline) for share in (False, True) for deadline in DEADLINES),
    *(Case(family, "constants", False, USUAL) for family in FAMILIES[1:]),
    *(Case(family, "sequences", share, USUAL) for family in FAMILIES[1:] for share in (False, True)),
    *(Case("recorded", name, share, USUAL) for name, ways in RECORDED.items() for share in ways),
]
BARS = [
    *(Bar(f"{case.name}.lead", "at least", 0.001) for case in CASES if case.curves == "crossing"),
    *(Bar(f"crossing.sequences.shared.{deadline}.gain", "at least", 0.001) for deadline in DEADLINES),
]
REAL_BARS = [
    Bar("real.ended_by_deadline", "at least", 1),
    Bar("real.overrun_seconds_beyond_step_and_save", "at most", 0.0),
    Bar("real.metrics_that_differ", "at most", 0),
]


# In virtual time.


class Curves:
    """Learning curves of a family, all decided by a seed.

    How good a trial gets and how slowly it learns are averages of what its values bring, over all steps that
    it was trained: a function of the values before a step alone, so that trials that agree so far measure
    the same.
    """

    def __init__(self, family: str, seed: int) -> None:
        self._family, self._seed = family, seed
        self._drawn = lru_cache(maxsize=None)(self._draw)
        self._sums = lru_cache(maxsize=None)(self._sum_up)

    def __call__(self, config: Config, step: int) -> dict[str, float]:
        good, slow = self._trait("good", config, step), self._trait("slow", config, step)
        ceiling = 0.55 + 0.40 * good**20 if self._family == "few" else 0.70 + 0.25 * good
        pace = {"parallel": 35.0, "early": 1 + 3 * slow}.get(self._family, 5 + 60 * (0.7 * good + 0.3 * slow))
        learned = 1 - math.exp(-step / pace) if self._family == "early" else 1 - (1 + step / pace) ** -1.2
        noise = 0.005 * (self._drawn("noise", f"{good!r} {slow!r} {step}") - 0.5)
        return {"accuracy": 0.1 + (ceiling - 0.1) * learned + noise}

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


class ReportingASHA(ASHA):
    """ASHA that is heard on the way from one rung to the next, too."""

    @property
    def _reports(self) -> int:
        return self.min_steps


@cache
def recorded(name: str, seed: int) -> hippo.Recorded:
    return hippo.Recorded(HERE / "curves" / f"{name}-{seed}.json.gz", interpolate=True)


@dataclass(frozen=True)
class Run:
    """One tuning of a case."""

    case: Case
    tuner: str
    seed: int

    def best_and_trials(self) -> tuple[float, int]:
        """Return how good the best is, more being better, and how many trials were started."""
        case = self.case
        if case.curves == "recorded":
            from curve_spaces import METRIC, SEEDS, SPACES

            curves: Any = recorded(case.space, SEEDS[self.seed % len(SEEDS)])
            space, metric, mode, sign = SPACES[case.space].space, METRIC, "min", -1
            limits = (5, SPACES[case.space].steps, REDUCTION)
        else:
            curves = Curves(case.curves, self.seed)
            space = CONSTANTS if case.space == "constants" else SEQUENCES
            metric, mode, sign, limits = "accuracy", "max", 1, (2, MAX_STEPS, REDUCTION)
        is_asha = self.tuner.startswith("asha")
        more = {"max_width": 1} if self.tuner == "narrow" else {}
        kind = ReportingASHA if is_asha else HyperSched
        tuner = kind(space, metric, mode, *limits, trials=TRIALS, seed=self.seed, **more)
        width = Allocation("top") if self.tuner == "asha_wide" else None
        executor = Simulated(8, seconds_per_step=STEP_SECONDS, load=5.0, scaling=SCALING, metrics=curves)
        with Study("deadline", StandIn, executor=executor, share=case.share, width=width) as study:
            report = study.tune(tuner, deadline=case.deadline, progress=False)
        assert report.work.wall_seconds <= case.deadline + STEP_SECONDS  # what runs ends its step
        found = [report.best.metrics[metric]]
        if is_asha:
            found = [metrics[metric] for trial in report.trials for metrics in trial.metrics.values()]
        return sign * max(sign * value for value in found), len(report.trials)


def _quiet() -> None:
    """Print no notes of the tuners: there would be one for every run."""
    logging.getLogger("hippotune").setLevel(logging.ERROR)


def simulate(seeds: int) -> dict[str, Any]:
    """Run everything, on all cores; return the figures."""
    runs = [Run(case, tuner, seed) for case in CASES for tuner in TUNERS for seed in range(seeds)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), spawn, _quiet) as pool:
        came = dict(zip(runs, pool.map(Run.best_and_trials, runs, chunksize=4), strict=True))
    figures: dict[str, Any] = {"seeds": seeds, "merge_rate": SEQUENCES.merge_rate(MAX_STEPS)}
    for case in CASES:
        sign = -1 if case.curves == "recorded" else 1
        best = {tuner: [came[Run(case, tuner, seed)][0] for seed in range(seeds)] for tuner in TUNERS}
        for tuner, values in best.items():
            figures[f"{case.name}.{tuner}.best"] = statistics.mean(values)
            figures[f"{case.name}.{tuner}.spread"] = statistics.stdev(values)
            figures[f"{case.name}.{tuner}.trials"] = statistics.mean(
                came[Run(case, tuner, seed)][1] for seed in range(seeds)
            )
        figures |= _lead(f"{case.name}.lead", sign, best["hypersched"], best["asha"])
        figures |= _lead(f"{case.name}.lead_to_wide", sign, best["hypersched"], best["asha_wide"])
        if case.share:
            alone = Case(case.curves, case.space, False, case.deadline)
            other = [came[Run(alone, "hypersched", seed)][0] for seed in range(seeds)]
            figures |= _lead(f"{case.name}.gain", sign, best["hypersched"], other)
    return figures


def _lead(name: str, sign: int, ones: list[float], others: list[float]) -> dict[str, float]:
    """Return by how much ones are ahead of others, with half of the interval of that, and how often."""
    leads = [sign * (one - other) for one, other in zip(ones, others, strict=True)]
    half = 2.09 * statistics.stdev(leads) / math.sqrt(len(leads))  # Student's t for 19 degrees of freedom
    return {
        name: statistics.mean(leads),
        f"{name}_within": half,
        f"{name}_ahead": sum(each > 0 for each in leads),
        f"{name}_behind": sum(each < 0 for each in leads),
    }


def table(figures: Figures) -> str:
    """Return the best by case and tuner, and HyperSched's lead to ASHA."""
    lines = [f"{'':<38}" + "".join(f"{tuner:>12}" for tuner in TUNERS) + f"{'lead to ASHA':>22}"]
    for case in CASES:
        cells = "".join(f"{figures[f'{case.name}.{tuner}.best']:>12.4f}" for tuner in TUNERS)
        lead, within = figures[f"{case.name}.lead"], figures[f"{case.name}.lead_within"]
        lines.append(f"{case.name:<38}{cells}{lead:>+12.4f} ± {within:.4f}")
    return "\n".join([*lines, "means over seeds; recorded curves are losses, of which less is better", ""])


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
    from hippotune.trainers.session import Session

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
        step = report.work.worker_seconds / report.work.steps_trained  # as it was beside another worker
        session, files = Session(Digits, {}, 0), CheckpointFiles(Path(home) / "again")
        session.start(best.config, 0, None, False)
        session.advance()
        files.save(checkpoint_name(0, 1), session.snapshot())
        save = _timed(lambda: files.save(checkpoint_name(0, 2), session.snapshot()))
        place = pickle.dumps((best.config, best.step)).hex()
        command = [sys.executable, "-c", AGAIN, examples, home, place]
        fresh = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "real.deadline_seconds": seconds,
        "real.ended_by_deadline": int(report.ended_by == "deadline"),
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
    figures = simulate(options.seeds)
    if not options.json:
        print(table(figures))
    return figures


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--real", type=float, nargs="?", const=25.0, metavar="SECONDS", help="the digits demo"
    )
    parser.add_argument("--seeds", type=int, default=20, help="how often learning curves are drawn (20)")


if __name__ == "__main__":
    run(
        __doc__,
        measure,
        REAL_BARS if any(each.startswith("--real") for each in sys.argv) else BARS,
        arguments,
    )
