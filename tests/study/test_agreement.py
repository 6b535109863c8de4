"""What is simulated is what runs: a real worker takes the same leases in the same order as a virtual one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from hippotune import Config, Cosine, Exponential, Linear, MultiStep, Piecewise, Study, Warmup
from hippotune.executors.base import Executor
from hippotune.executors.simulated.recorded import Recorded
from hippotune.executors.worker import runner
from hippotune.study.report import Report
from hippotune.tuners import TrialGroup, Tuner
from study.walkers import Walker

SPACE = hippo.Grid(
    {
        "lr": [
            0.1,
            Exponential(0.1, 0.9),
            MultiStep(0.1, [6], 0.1),
            MultiStep(0.1, [6, 11], 0.1),
            Piecewise([0.1, 0.01], [9]),
            Warmup(4, Cosine(0.1, 12)),
            Linear(0.1, 0.01, 10),
        ],
        "bs": [16, MultiStep(16, [7], 2), MultiStep(16, [3], 2), 32, MultiStep(32, [8], 2)],
    }
)


def seconds_per_step(hp: Mapping[str, Any], width: float) -> float:
    return 1.0 + hp["bs"] / 16


class Clocked(Walker):
    """Sets the worker's clock, so that steps take exactly as long as they should on any machine.

    The clock belongs to the process: what a checkpoint holds must not turn it back.
    """

    def prepare(self) -> None:
        super().prepare()
        assert hasattr(runner, "perf_counter")
        runner.perf_counter = lambda: 0.0

    def train(self) -> None:
        super().train()
        now = runner.perf_counter() + seconds_per_step({"bs": self.bs}, 1)
        runner.perf_counter = lambda: now


class Rounds(Tuner):
    """Trains all trials a little, then the better half to the end.

    What was trained last is left out. A worker may go on from the state that it holds before others start,
    but only until that state is saved, and on a real disk this may be before or after the result is told.
    """

    metric, mode = "loss", "min"

    async def run(self, trials: hippo.tuners.Trials) -> None:
        trials.submit(TrialGroup(tuple((config, 8) for config in SPACE)))
        heard = [await trials.next() for _ in range(len(SPACE))]
        last = heard[-1].score("loss", "min")
        results = [result for result in heard if result.score("loss", "min") != last]
        results.sort(key=lambda result: (-result.score("loss", "min"), result.trial.number))
        trials.submit(TrialGroup(tuple((result.trial.config, 20) for result in results[: len(results) // 2])))
        while trials.open:
            await trials.next()


def leases_of(report: Report) -> list[list[tuple[int, int, int]]]:
    """Return the leases of a study that trained anything, in the order in which they began.

    One that trains nothing saves the best model where its state is held when it turns out to be the best.
    """
    spans = sorted(
        (span for span in report._trace.spans if span.last > span.first),
        key=lambda span: (span.lease, span.first),
    )
    return [
        [(span.node, span.first, span.last) for span in lease]
        for _, lease in groupby(spans, key=lambda span: span.lease)
    ]


@pytest.mark.parametrize(
    "tuner", [hippo.GridSearch(SPACE, "loss", "min", 20), Rounds()], ids=["grid", "rounds"]
)
def test_one_worker_takes_the_same_leases_in_the_same_order_in_real_and_virtual_time(
    tuner: Tuner, tmp_path: Path
) -> None:
    def rehearsed(executor: Executor) -> Report:
        """Tune after a rehearsal. Where that stops a lease depends on how quickly word of it gets there."""
        study = Study("agreed", Clocked, home=tmp_path, executor=executor, audit=0)
        study.eval(Config({"lr": 7.0, "bs": 16}), 3)
        return study.tune(tuner)

    real = rehearsed(hippo.Local(workers=1))
    recorded = Recorded(real)

    def measured(config: Config, step: int) -> Mapping[str, float]:
        return {"loss": 9.0} if config["lr"].value(0) == 7.0 else recorded(config, step, frozenset())

    virtual = rehearsed(hippo.Simulated(1, seconds_per_step=seconds_per_step, metrics=measured))
    assert len(real.trials) >= 30
    assert leases_of(virtual) == leases_of(real)
    assert virtual.work.steps_trained == real.work.steps_trained
    assert virtual.best.config == real.best.config
