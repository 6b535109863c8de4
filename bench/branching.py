"""What branching is worth for real: the trials of examples/anneal.py, shared against each trained alone.

The same 18 trials are trained twice in one run, by studies that differ in `share` alone, on one worker: where
several work, a study can end no sooner than its trunk, which is one chain (`bound.py` is about that). Opening
a study and proving that its trainer is exact come before the clock is started: a trial of another peak is
trained for three steps first.

Bars:
  every metric of every trial is identical bit for bit;
  the time alone over the time shared is at least 0.85 of the merge rate.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.cli.script import Script, load

EXAMPLE = Path(__file__).parents[1] / "examples" / "anneal.py"
BARS = [Bar("metrics_that_differ", "at most", 0), Bar("time_ratio_per_merge_rate", "at least", 0.85)]


def tuned(script: Script, home: str, share: bool) -> hippo.study.Report:
    study = hippo.Study(
        "anneal", script.study.trainer, home=home, share=share, executor=hippo.Local(workers=1, threads=1)
    )
    with study:
        study.eval({"lr": 1e-3, "mix": {"old": 1}}, 3)
        return study.tune(script.tuner, progress=False)


def measured(report: hippo.study.Report) -> dict[tuple[int, int, str], str]:
    """Return every metric by trial, step and name, to the last bit."""
    return {
        (trial.number, step, name): value.hex()
        for trial in report.trials
        for step, metrics in trial.metrics.items()
        for name, value in metrics.items()
    }


def measure(options: argparse.Namespace) -> Figures:
    script = load(str(EXAMPLE))
    with tempfile.TemporaryDirectory() as home:
        shared, alone = (tuned(script, home, share) for share in (True, False))
    expected, found = measured(alone), measured(shared)
    different = sum(found.get(at) != expected.get(at) for at in expected.keys() | found.keys())
    ratio = alone.work.wall_seconds / shared.work.wall_seconds
    rate = shared.work.merge_rate
    return {
        "trials": len(shared.trials),
        "steps_requested": shared.work.steps_requested,
        "steps_shared": shared.work.steps_trained,
        "steps_alone": alone.work.steps_trained,
        "metrics": len(expected),
        "metrics_that_differ": different,
        "seconds_shared": shared.work.wall_seconds,
        "seconds_alone": alone.work.wall_seconds,
        "merge_rate": rate,
        "time_ratio": ratio,
        "time_ratio_per_merge_rate": ratio / rate,
    }


if __name__ == "__main__":
    run(__doc__, measure, BARS)
