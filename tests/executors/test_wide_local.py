"""Width for real: whole studies on local processes, wide, packed, resized and killed on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import hippotune as hippo
from executors.smooth import Smooth
from hippotune import Config, Fluid, MultiStep, Study
from hippotune.executors.base import Emit, Job
from hippotune.plan.facts import SpanRecorded
from hippotune.protocol.events import Event
from hippotune.trainers.session import Session
from hippotune.tuners import TrialGroup

CLOSE = 1e-5
REHEARSED = Config({"lr": 0.005})


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


def alone(config: Config, steps: int) -> dict[str, float]:
    """Train a trial in this process, from beginning to end."""
    session = Session(Smooth, {}, seed=3)
    session.start(config, 0, None, warm=False)
    for _ in range(steps):
        session.advance()
    return session.evaluate()


def opened(home: Path, width: Fluid, workers: int) -> Study:
    """A study whose plan is proved already: its proofs take slots."""
    settings = {"deaths": str(home)}
    executor = Punctual(workers)
    study = Study("wide", Smooth, home=home, executor=executor, seed=3, width=width, settings=settings)
    study.eval(REHEARSED, 2)
    return study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A study on two workers, which have loaded torch; tests differ in their learning rates."""
    with opened(tmp_path_factory.mktemp("wide"), Fluid(), workers=2) as study:
        yield study


def trained(report: hippo.study.Report, width: float) -> list[SpanRecorded]:
    """Return what was trained at a width."""
    return [span for span in report._trace.spans if span.kind == "train" and span.width == width]


def assert_close(report: hippo.study.Report) -> None:
    assert not report.failed
    for trial in report.trials:
        assert trial.metrics[trial.asked] == pytest.approx(alone(trial.config, trial.asked), rel=CLOSE)


def test_a_study_on_two_workers_learns_what_one_learns(study: Study) -> None:
    report = study.tune(Asks((Config({"lr": 0.01}), 300)), progress=False)
    assert_close(report)
    assert {span.kind for span in report._trace.spans} == {"train", "help"}
    # Its slots are shared out anew now and then, in the middle of a stage too: it stops, and goes on.
    assert {span.first for span in report._trace.spans} > {0}
    assert report.work.steps_trained == report.work.steps_unique == 300


def test_whatever_widths_come_and_go_nothing_is_lost_or_trained_twice(study: Study) -> None:
    long, drop, short = (Config({"lr": lr}) for lr in (0.012, MultiStep(0.012, [150], 0.1), 0.03))
    report = study.tune(Asks((long, 300), (drop, 170), (short, 8)), progress=False)
    assert_close(report)
    assert report.work.steps_trained == report.work.steps_unique == 300 + 20 + 8


@pytest.mark.parametrize(("rank", "lr"), [(0, 0.014), (1, 0.016)])
def test_a_study_outlives_the_sudden_death_of_one_of_two_that_train_together(
    study: Study, rank: int, lr: float
) -> None:
    death = study.home / str(rank)
    death.touch()
    report = study.tune(Asks((Config({"lr": lr}), 200)), progress=False)
    assert not death.exists(), "nobody died: the test tests nothing"
    assert_close(report)
    assert report.work.steps_trained >= report.work.steps_unique == 200


def test_packed_trials_are_bit_identical_to_trials_that_are_alone(tmp_path: Path) -> None:
    with opened(tmp_path, Fluid(packing=2), workers=1) as study:
        asks = [(Config({"lr": lr}), steps) for lr, steps in ((0.01, 12), (0.03, 12), (0.02, 40))]
        report = study.tune(Asks(*asks), progress=False)
    assert trained(report, 0.5)
    assert {span.worker for span in trained(report, 0.5)} == {0, 1}
    for trial in report.trials:
        assert trial.metrics[trial.asked] == alone(trial.config, trial.asked)
    assert report.work.steps_trained == report.work.steps_unique
