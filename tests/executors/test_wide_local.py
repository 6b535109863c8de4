"""Width for real: whole studies on local processes, wide, packed, resized and killed on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from executors.smooth import Smooth
from hippotune import Config, Fluid, Study
from hippotune.executors.base import Emit, Job
from hippotune.plan.facts import SpanRecorded
from hippotune.protocol.events import Event
from hippotune.trainers.session import Session
from hippotune.tuners import TrialGroup

CLOSE = 1e-5


def of(lr: float) -> Config:
    """Return the config of a learning rate. Tests that share a study have rates of their own."""
    return Config({"lr": lr, "bs": 64, "mix": {"left": 1, "right": 1}})


LONG, REHEARSED = of(0.01), of(0.005)


class Punctual(hippo.Local):
    """Announces its workers when all of them are up, so that it does not matter who is first."""

    async def start(self, job: Job, emit: Emit) -> None:
        joined: list[Event] = []
        everybody = self.workers * job.packing
        lock = threading.Lock()

        def together(event: Event) -> None:
            with lock:
                if len(joined) == everybody:
                    emit(event)
                    return
                joined.append(event)
                if len(joined) == everybody:
                    for each in joined:
                        emit(each)

        await super().start(job, together)


class Asks(hippo.tuners.Tuner):
    """Asks for everything at once."""

    metric, mode = "loss", "min"

    def __init__(self, *asks: tuple[Config, int]) -> None:
        self.asks = asks

    async def run(self, trials: hippo.tuners.Trials) -> None:
        trials.submit(TrialGroup(self.asks))
        while trials.open:
            await trials.next()


def alone(config: Config, steps: int, **settings: Any) -> dict[str, float]:
    """Train a trial in this process, from beginning to end."""
    session = Session(Smooth, settings, seed=3)
    session.start(config, 0, None, warm=False)
    for _ in range(steps):
        session.advance()
    return session.evaluate()


def opened(home: Path, width: Fluid, workers: int = 2, **settings: Any) -> Study:
    """Return a study whose plan is rehearsed, unless nothing is: that takes slots."""
    executor = Punctual(workers)
    study = Study("wide", Smooth, home=home, executor=executor, seed=3, width=width, settings=settings)
    study.eval(REHEARSED, 2)
    return study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A study on two workers, which have loaded torch."""
    home = tmp_path_factory.mktemp("wide")
    with opened(home, Fluid(), loss="shared sum") as study:
        yield study


def trained(report: hippo.study.Report, width: float) -> list[SpanRecorded]:
    """Return what was trained at a width."""
    return [span for span in report._trace.spans if span.kind == "train" and span.width == width]


def assert_close(report: hippo.study.Report, **settings: Any) -> None:
    assert not report.failed
    for trial in report.trials:
        expected = alone(trial.config, trial.asked, **settings)
        assert trial.metrics[trial.asked] == pytest.approx(expected, rel=CLOSE)


def test_a_study_on_two_workers_learns_what_one_learns(study: Study) -> None:
    report = study.tune(Asks((LONG, 300)), progress=False)
    assert_close(report, loss="shared sum")
    assert trained(report, 2)
    # Its slots are shared out anew now and then, in the middle of a stage too: it stops, and goes on.
    assert {span.first for span in report._trace.spans} > {0}
    assert report.work.steps_trained == report.work.steps_unique == 300
    # Nothing is trained at a width before a step of it was compared with the same step on one worker.
    spans = study._connection.open().store.spans()
    wide = [span for span in spans if span.width == 2]
    assert [span.kind for span in wide][:2] == ["proof", "train"]
    assert report.exactness == "exact: rehearsed"


@pytest.mark.parametrize("loss", ["sum", "time first"])
def test_what_learns_differently_on_two_workers_is_trained_by_one(
    tmp_path: Path, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, Fluid(), loss=loss) as study:
        report = study.tune(Asks((LONG, 40)), progress=False)
    assert not trained(report, 2)
    for trial in report.trials:
        assert trial.metrics[trial.asked] == alone(trial.config, trial.asked, loss=loss)
    (said,) = [record.message for record in caplog.records if "several workers" in record.message]
    assert "Smooth learns differently on several workers than on one. After step 1, self.model.0." in said
    assert " on one worker, and " in said
    assert "a loss sums over the batch" in said
    assert "Dropout needs the batch in a tensor's first dimension" in said
    assert "on one worker at a time: several learn differently" in report.exactness


def test_two_workers_that_fall_out_of_step_leave_the_rest_to_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, Fluid(), skips=True) as study:
        report = study.tune(Asks((LONG, 40)), progress=False)
    assert_close(report)
    (said,) = [record.message for record in caplog.records if "do not do the same" in record.message]
    assert said.startswith("Smooth was trained by 2 workers, and on the way to step ")
    assert "rank 0 comes to the end of train(), batch 4" in said
    assert "rank 1 calls backward(): the sum of float32" in said
    assert "smooth.py:" in said
    assert "on one worker at a time: several learn differently" in report.exactness


def test_whatever_widths_come_and_go_nothing_is_lost_or_trained_twice(study: Study) -> None:
    long = of(0.012)
    branch = long.branch(150, lr=0.001, bs=32, mix={"left": 3, "right": 1})
    report = study.tune(Asks((long, 300), (branch, 170), (of(0.03), 8)), progress=False)
    assert_close(report, loss="shared sum")
    assert report.work.steps_trained == report.work.steps_unique == 300 + 20 + 8


@pytest.mark.usefixtures("unrehearsed")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_study_outlives_the_sudden_death_of_one_of_two_that_train_together(
    tmp_path: Path, rank: int
) -> None:
    death = tmp_path / str(rank)
    death.touch()
    with opened(tmp_path, Fluid(), deaths=str(tmp_path)) as study:  # where no width has proved to be slow yet
        report = study.tune(Asks((LONG, 200)), progress=False)
    assert not death.exists(), "nobody died: the test tests nothing"
    assert_close(report)
    assert report.work.steps_trained >= report.work.steps_unique == 200


def test_packed_trials_are_bit_identical_to_trials_that_are_alone(tmp_path: Path) -> None:
    with opened(tmp_path, Fluid(packing=2), workers=1) as study:
        asks = (of(0.01), 12), (of(0.03), 12), (of(0.02), 40)
        report = study.tune(Asks(*asks), progress=False)
    assert trained(report, 0.5)
    assert {span.worker for span in trained(report, 0.5)} == {0, 1}
    for trial in report.trials:
        assert trial.metrics[trial.asked] == alone(trial.config, trial.asked)
    assert report.work.steps_trained == report.work.steps_unique
