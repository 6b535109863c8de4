"""448 trials on 40 workers, replayed in virtual time: ``make demo-paper``.

The space is that of the study which the Hippo paper trains on 40 GPUs: 28 learning-rate schedules, batch
sizes, weight decays and optimizers that change on the way, by successive halving. The learning curves were
recorded: all of these trials were trained on the digits of scikit-learn (`bench/record.py`), with a step that
is taken for one of 108 s, as the paper's. The real tuner and the real engine run; only time is virtual.

    python examples/recorded.py             trial by trial, and shared
    hippo run examples/recorded.py --page   shared, with the page
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hippotune as hippo
from hippotune import Choice, Cyclic, Exponential, MultiStep, Piecewise, Warmup
from hippotune.spaces import Option

CURVES = Path(__file__).parents[1] / "bench" / "curves" / "digits-0.json.gz"
SECONDS_PER_STEP = 108.0
PEAKS = Choice(0.05, 0.15, 0.5)
MILESTONES = [(50, 80), (60, 90), (60, 100), (70, 100)]


class Recorded(hippo.Trainer):
    """Stands for the network: in virtual time nothing of it is called."""

    def build(self) -> None: ...
    def setup(self, hp: Mapping[str, Any]) -> None: ...
    def train(self) -> None: ...
    def evaluate(self) -> Mapping[str, float]:
        return {}


space = hippo.Grid(
    {
        "lr": [
            MultiStep(PEAKS, Choice(*MILESTONES), 0.1),
            Warmup(5, MultiStep(PEAKS, Choice(*(tuple(at - 5 for at in each) for each in MILESTONES)), 0.1)),
            Warmup(5, Exponential(PEAKS, 0.95)),
            Cyclic(0.001, 0.1, 20),
        ],
        "bs": [64, Piecewise([64, 128], [70])],
        "weight_decay": [1e-4, 1e-3],
        "optimizer": [
            "adam",
            "sgd",
            Option("momentum-sgd", {"momentum": [0.9, Piecewise([0.7, 0.8, 0.9], [40, 80])]}),
        ],
    }
)
tuner = hippo.SuccessiveHalving(space, "val_loss", "min", min_steps=15, max_steps=120, reduction=4)


def new_study(share: bool) -> hippo.Study:
    """Return the study on 40 workers in virtual time."""
    executor = hippo.Simulated(40, seconds_per_step=SECONDS_PER_STEP, metrics=hippo.Recorded(CURVES))
    return hippo.Study("recorded", Recorded, executor=executor, share=share)


study = new_study(share=True)

if __name__ == "__main__":
    print("448 trials by successive halving on 40 workers, in virtual time")
    print(f"{'':<16}{'steps':>8}{'worker-hours':>14}{'hours to the end':>18}{'best val_loss':>15}")
    for share, title in ((False, "trial by trial"), (True, "shared")):
        with new_study(share) as each:
            report = each.tune(tuner, progress=False)
        work, best = report.work, report.best.metrics["val_loss"]
        hours, end = work.worker_seconds / 3600, work.wall_seconds / 3600
        print(f"{title:<16}{work.steps_trained:>8,}{hours:>14.1f}{end:>18.2f}{best:>15.5f}")
