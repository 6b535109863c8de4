"""What it costs to prove that trials resume exactly: rehearsal and audits, as a share of the work.

Two studies on local processes, with everything at its defaults: the demo (`examples/digits.py`: 24 trials by
successive halving on two workers), and 100 trials of 60 epochs of the same trainer, which drop their learning
rate at different times. What is counted is the workers' time in leases that repeat steps, with loading,
evaluating and comparing, over their time in all leases. Starting fresh interpreters is shown apart.

Bars:
  the demo: at most 5 % of its worker time;
  100 trials of 60 steps: at most 2 %.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import MultiStep
from hippotune.cli.script import load

DEMO = Path(__file__).parents[1] / "examples" / "digits.py"
STEPS = 60
SPACE = {
    "lr": [MultiStep(0.1, [drop], factor) for drop in range(36, 61) for factor in (0.5, 0.2, 0.1, 0.01)],
    "bs": [128],
    "momentum": [0.9],
}
BARS = [Bar("demo_percent", "at most", 5), Bar("hundred_percent", "at most", 2)]


def tuned(trainer: type[hippo.Trainer], tuner: hippo.tuners.Tuner) -> hippo.study.Work:
    with (
        tempfile.TemporaryDirectory() as home,
        hippo.Study("proofs", trainer, home=home, executor=hippo.Local(workers=2)) as study,
    ):
        report = study.tune(tuner, progress=False)
    assert report.exactness.startswith("exact: rehearsed"), report.exactness
    return report.work


def figures_of(name: str, work: hippo.study.Work) -> dict[str, float]:
    return {
        f"{name}_steps_requested": work.steps_requested,
        f"{name}_steps": work.steps_trained,
        f"{name}_steps_repeated": work.proof_steps,
        f"{name}_worker_seconds": work.worker_seconds + work.proof_seconds,
        f"{name}_proof_seconds": work.proof_seconds,
        f"{name}_interpreter_seconds": work.proof_startup_seconds,
        f"{name}_percent": 100 * work.proof_seconds / (work.worker_seconds + work.proof_seconds),
    }


def measure(options: argparse.Namespace) -> Figures:
    demo = load(str(DEMO))
    trainer = demo.study.trainer
    hundred = hippo.GridSearch(SPACE, "val_acc", "max", STEPS)
    return {
        **figures_of("demo", tuned(trainer, demo.tuner)),
        **figures_of("hundred", tuned(trainer, hundred)),
    }


if __name__ == "__main__":
    run(__doc__, measure, BARS)
