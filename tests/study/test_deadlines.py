"""Deadlines and budgets: for every tuner, in virtual time and for real."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from forked import Interpreter
from hippotune import (
    ASHA,
    Config,
    GridSearch,
    HippoError,
    HyperSched,
    InvalidInput,
    Local,
    MultiStep,
    Simulated,
    Study,
    tune_together,
)
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.study.limits import Limits
from hippotune.tuners import Tuner
from study.walkers import Walker
from tuners.test_conformance import TUNERS, Idle

every_tuner = pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS)


class Watched(Simulated):
    """Virtual workers, and when each lease was given to them."""

    def __init__(self, workers: int, **more: Any) -> None:
        super().__init__(workers, **more)
        self.given: list[tuple[float, RunLease]] = []

    def carry_out(self, command: ExecutorCommand) -> None:
        if isinstance(command, RunLease):
            self.given.append((self.now(), command))
        super().carry_out(command)


def level(config: Config, step: int) -> dict[str, float]:
    return {"score": float(config["n"].value(0)) + step / 1000}


def numbered(count: int) -> dict[str, list[int]]:
    return {"n": list(range(count))}


def tuned(tuner: Tuner, workers: int = 1, **limits: Any) -> hippo.study.Report:
    """Tune in virtual time, at one second a step."""
    with Study("virtual", Idle, executor=Simulated(workers, metrics=level)) as study:
        return study.tune(tuner, progress=False, **limits)


# What can be given.


@pytest.mark.parametrize(
    "deadline", [0, -5, math.nan, "soon", True, timedelta(seconds=-1), datetime(2020, 1, 1)]
)
def test_a_deadline_has_to_lie_ahead(deadline: Any, tmp_path: Path) -> None:
    study = Study("past", Walker, home=tmp_path / "home")
    with pytest.raises(InvalidInput, match="deadline is"):
        study.tune(GridSearch(numbered(2), "loss", "min", 3), deadline=deadline)
    assert not (tmp_path / "home").exists(), "nothing was opened or started"


@pytest.mark.parametrize("budget", [0, -1.0, math.nan, "much", False])
def test_a_budget_is_more_than_nothing(budget: Any) -> None:
    with pytest.raises(InvalidInput, match=r"budget is .*; expected worker-hours above 0"):
        tuned(GridSearch(numbered(2), "score", "max", 3), budget=budget)


def test_deadlines_are_seconds_timedeltas_or_moments() -> None:
    assert Limits.of(90, 0.5) == Limits(90.0, 1800.0)
    assert Limits.of(timedelta(minutes=2), None) == Limits(120.0)
    for zone in (None, UTC, timezone(timedelta(hours=-7))):
        moment = Limits.of(datetime.now(zone) + timedelta(hours=1), None).seconds
        assert moment == pytest.approx(3600, abs=60)
    assert not Limits.of(math.inf, math.inf).any


# In virtual time.


@every_tuner
def test_every_tuner_ends_at_its_deadline_and_reports(make: Any) -> None:
    def study() -> Study:
        return Study("limited", Idle, executor=Watched(workers=3))

    with study() as whole:
        full = whole.tune(make("max"), progress=False)
    deadline = full.work.wall_seconds * 0.6
    with study() as limited:
        report = limited.tune(make("max"), deadline=deadline, progress=False)
        executor = limited.executor
    assert report.ended_by == "deadline"
    assert report.work.wall_seconds <= deadline + 1, "what ran went to the end of its step"
    assert report.best.step <= full.work.wall_seconds
    assert f"ended by the deadline: {len(report.cut)} of {len(report.trials)} trials" in str(report)
    assert report.work.steps_trained < full.work.steps_trained
    assert isinstance(executor, Watched)
    for began, lease in executor.given:
        if began > 0 and lease.evaluations:
            speed = 1.0 if lease.width <= 1 else float(lease.width)
            first = began + (min(lease.evaluations) - lease.start) / speed
            assert first <= deadline + 1e-6, "it was started, and could not be heard of"


def test_no_step_is_repeated_as_a_proof_that_would_end_after_the_deadline() -> None:
    space = {"lr": [MultiStep(0.1, [10 + 3 * n], n / 100) for n in range(1, 9)]}
    repeated = 0
    for deadline in range(20, 61):
        executor = Watched(
            workers=3, seconds_per_step=1.0, load=0.5, metrics=lambda config, step: {"score": 1.0}
        )
        with Study("branching", Idle, executor=executor) as study:
            report = study.tune(GridSearch(space, "score", "max", 40), deadline=deadline, progress=False)
        assert report.ended_by == "deadline"
        assert report.work.wall_seconds <= deadline + 1 + 1e-6, "what ran went to the end of its step"
        audits = [began for began, lease in executor.given if lease.proof and lease.start >= 10]
        assert all(began + 1.5 <= deadline + 1e-6 for began in audits)
        repeated += len(audits)
    assert repeated


@every_tuner
def test_a_deadline_that_is_far_away_changes_no_result(make: Any) -> None:
    reports = []
    for limits in ({}, {"deadline": 1e6, "budget": 1e6}):
        with Study("free", Idle, executor=Simulated(workers=3)) as study:
            reports.append(study.tune(make("max"), progress=False, **limits))
    free, far = reports
    assert far.ended_by is None
    assert not far.cut
    if not isinstance(make("max"), HyperSched):  # which spends the time that there is
        assert [trial.metrics for trial in far.trials] == [trial.metrics for trial in free.trials]


def test_nothing_is_waited_for_when_nothing_can_be_heard_in_time() -> None:
    report = tuned(GridSearch(numbered(5), "score", "max", 10), deadline=42)
    # The first trial was stopped to be rehearsed; what is left of it is shorter than the others.
    assert [trial.step for trial in report.trials] == [0, 10, 10, 10, 0]
    assert report.ended_by == "deadline"
    assert report.work.wall_seconds == 36
    assert (report.work.steps_trained, report.work.proof_steps) == (33, 3)
    assert [trial.number for trial in report.cut] == [0, 4]


@pytest.mark.parametrize("step", [0.1, 1 / 3, 1.0, 7.7])
def test_what_comes_exactly_at_the_deadline_counts(step: float) -> None:
    executor = Simulated(1, seconds_per_step=step, metrics=level)
    with Study("exact", Idle, executor=executor) as study:
        report = study.tune(
            GridSearch(numbered(5), "score", "max", 3), deadline=(3 * 3 + 3) * step, progress=False
        )  # three steps of the first trial are repeated
    assert [trial.step for trial in report.trials] == [3, 3, 3, 0, 0]
    assert report.best.number == 2


def test_a_tuner_that_ends_exactly_at_its_deadline_was_not_cut() -> None:
    report = tuned(GridSearch(numbered(3), "score", "max", 10), deadline=33)
    assert report.best.number == 2
    assert not report.cut


@pytest.mark.parametrize("limits", [{"deadline": 0.5}, {"budget": 0.5 / 3600}])
@pytest.mark.parametrize("known", [False, True], ids=["at first", "when steps are known"])
def test_where_there_is_no_time_for_one_step_there_is_no_best_and_a_clear_word(
    limits: dict[str, float], known: bool
) -> None:
    with Study("short", Idle, executor=Simulated(2, metrics=level)) as study:
        if known:
            study.eval({"n": 99}, 3)
        report = study.tune(GridSearch(numbered(4), "score", "max", 3), progress=False, **limits)
        name = "deadline" if "deadline" in limits else "budget"
        assert report.ended_by == name
        with pytest.raises(HippoError, match=f"has no best trial: none has a result before the {name} was"):
            _ = report.best
        assert len(report.cut) == 4
        again = study.tune(GridSearch(numbered(4), "score", "max", 3), progress=False)
    assert again.best.number == 3, "the study goes on as if nothing had been"


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("known", [False, True], ids=["at first", "when steps are known"])
def test_a_budget_is_what_workers_take_together(workers: int, known: bool) -> None:
    with Study("budget", Idle, executor=Simulated(workers, metrics=level)) as study:
        if known:
            study.eval({"n": 99}, 5)
        report = study.tune(ASHA(numbered(99), "score", "max", 2, 32, 4), budget=60 / 3600, progress=False)
    assert report.ended_by == "budget"
    assert 60 - 32 <= report.work.worker_seconds <= 60 + workers
    assert report.work.wall_seconds == pytest.approx(report.work.worker_seconds / workers, abs=32)


def test_a_budget_is_used_to_the_end_by_one_worker_if_there_is_too_little_for_two() -> None:
    report = tuned(GridSearch(numbered(9), "score", "max", 10), workers=4, budget=64 / 3600)
    # Before anything is known, all workers start; after that, only what can still be paid for.
    assert sum(trial.step == 10 for trial in report.trials) == 6
    assert report.work.worker_seconds == pytest.approx(60)


def test_a_slow_trial_that_runs_has_the_first_claim_to_a_budget() -> None:
    def slow_first(hp: hippo.Hyperparameters, width: float) -> float:
        return 1.0 if hp["n"] else 10.0

    executor = Simulated(2, metrics=level, seconds_per_step=slow_first, progress=10.0)
    with Study("slow", Idle, executor=executor, audit=0) as study:
        study.eval({"n": 99}, 50)
        study.eval({"n": 0}, 5)  # how long steps take is known
        grid = GridSearch(numbered(9), "score", "max", 100)
        report = study.tune(grid, budget=1250 / 3600, progress=False)
    assert report.ended_by == "budget"
    assert report.trials[0].step == 100
    assert report.work.worker_seconds <= 1250


def test_whichever_limit_comes_first_ends_it() -> None:
    grid = GridSearch(numbered(9), "score", "max", 10)
    assert tuned(grid, workers=2, deadline=35, budget=1.0).ended_by == "deadline"
    assert tuned(grid, workers=2, deadline=3600, budget=45 / 3600).ended_by == "budget"
    assert tuned(grid, workers=2, deadline=3600, budget=1.0).ended_by is None


def test_studies_together_keep_their_limits_and_share() -> None:
    executor = Simulated(2, metrics=level)
    studies = [Study(name, Idle, executor=executor) for name in ("one", "two", "free")]
    grid = GridSearch(numbered(8), "score", "max", 10)
    reports = tune_together([(study, grid) for study in studies], deadline=25, progress=False)
    for study in studies:
        study.close()
    for report in reports:
        assert report.ended_by == "deadline"
        assert report.work.wall_seconds <= 25
        assert [trial.step for trial in report.trials] == [10] * 4 + [0] * 4


def test_one_study_may_have_a_limit_and_another_none() -> None:
    executor = Simulated(2, metrics=level)
    hurried, patient = Study("hurried", Idle, executor=executor), Study("patient", Idle, executor=executor)

    class Patient(GridSearch):
        """Waits before it asks for more."""

    with hurried, patient:
        patient_grid = Patient(numbered(6), "score", "max", 20)
        first = hurried.tune(GridSearch(numbered(6), "score", "max", 10), deadline=16, progress=False)
        second = patient.tune(patient_grid, progress=False)
    assert first.ended_by == "deadline"
    assert second.ended_by is None
    assert [trial.step for trial in second.trials] == [20] * 6
    assert second.work.steps_found >= 20, "what the hurried one had trained"


def test_a_tuner_that_survives_every_exception_ends_all_the_same() -> None:
    class Stubborn(GridSearch):
        async def run(self, trials: hippo.tuners.Trials) -> None:
            trials.submit(hippo.tuners.TrialGroup.of(self.configs(), self.max_steps))
            while trials.open:
                try:
                    await trials.next()
                except Exception:  # whatever it is
                    continue

    report = tuned(Stubborn(numbered(9), "score", "max", 10), deadline=35)
    assert sum(trial.step == 10 for trial in report.trials) == 3


def test_what_came_while_a_tuner_waited_for_something_else_counts() -> None:
    class Particular(GridSearch):
        async def run(self, trials: hippo.tuners.Trials) -> None:
            asked = trials.submit(hippo.tuners.TrialGroup.of(self.configs(), self.max_steps))
            await trials.all(asked[-1:])

    report = tuned(Particular(numbered(9), "score", "max", 10), deadline=35)
    assert [trial.step for trial in report.trials[:3]] == [10] * 3
    assert report.best.number == 2


def test_a_policy_that_a_tuner_brings_goes_with_it() -> None:
    class Wide(Idle):
        widens = True

    with Study("lent", Wide, executor=Simulated(4, metrics=level)) as study:
        study.tune(HyperSched(numbered(9), "score", "max", 2, 8), deadline=50, progress=False)
        report = study.tune(GridSearch({"n": [100]}, "score", "max", 20), progress=False)
    assert {span.width for span in report._trace.spans} == {1.0}


# For real.


RATES = [0.1, MultiStep(0.1, [40], 0.1), MultiStep(0.1, [60], 0.1), 0.2]
ENDLESS = 10**8


def test_for_real_the_best_so_far_is_handed_over_and_loads(tmp_path: Path) -> None:
    executor = Local(workers=2)
    with Study("real", Walker, home=tmp_path, executor=executor, checkpoint_budget="1MB") as study:
        tuner = HyperSched({"lr": RATES, "bs": [16]}, "loss", "min", 20, ENDLESS, every=200)

        def tuned(**limit: float) -> hippo.study.Report:
            """Tune until something has come of it: on a busy machine, going on from what there was."""
            while True:
                report = study.tune(tuner, progress=False, **limit)
                if report.cut and any(trial.metrics for trial in report.trials):
                    return report

        report = tuned(deadline=1)
        assert report.ended_by == "deadline"
        best = report.best
        assert best.path is not None
        assert best.path.exists()
        assert best.load().evaluate() == best.metrics
        goes_on = tuned(budget=1 / 3600)
        assert goes_on.ended_by == "budget"
        results = [
            {(one.config, at): one.metrics[at] for one in each.trials for at in one.metrics}
            for each in (report, goes_on)
        ]
        assert results[0].keys() & results[1].keys()
        assert all(results[1][at] == results[0][at] for at in results[0].keys() & results[1].keys())
        assert goes_on.best.load().evaluate() == goes_on.best.metrics
    alone = Study("alone", Walker, home=tmp_path / "other", executor=Local(workers=1), share=False)
    with alone:
        assert alone.eval(best.config, best.step) == best.metrics


def test_for_real_a_deadline_before_the_first_result_is_a_clear_outcome(tmp_path: Path) -> None:
    with Study("brief", Walker, home=tmp_path, executor=Local(workers=1)) as study:
        grid = GridSearch({"lr": RATES, "bs": [16]}, "loss", "min", ENDLESS)
        report = study.tune(grid, deadline=0.2, progress=False)
        assert report.ended_by == "deadline"
        with pytest.raises(HippoError, match="before the deadline"):
            _ = report.best
        assert study.eval({"lr": 0.1, "bs": 16}, 3), "the worker is free again"


SCRIPT = """
import os, signal, sys
from pathlib import Path
import hippotune as hippo
from study.walkers import Walker

home, mark = Path(sys.argv[1]), Path(sys.argv[2])
mark.with_name("engine").write_text(str(os.getpid()))

class Assassin(Walker):
    def train(self):
        super().train()
        self.steps = getattr(self, "steps", 0) + 1
        mark = Path(self.settings["mark"])
        if self.steps == 60 and not mark.exists():
            mark.touch()
            os.kill(int(mark.with_name("engine").read_text()), signal.SIGKILL)

tuner = hippo.HyperSched({"lr": [0.1, 0.2, 0.3], "bs": [16]}, "loss", "min", 5, 80, 2)
executor = hippo.Local(workers=1)
with hippo.Study("killed", Assassin, home=home, executor=executor, settings={"mark": str(mark)}) as study:
    report = study.tune(tuner, deadline=600, progress=False)
print(report.ended_by, report.work.steps_found > 0, report.best.load().evaluate() == report.best.metrics)
"""


def test_a_study_with_a_deadline_that_was_killed_goes_on(tmp_path: Path, forking: Interpreter) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = (script, tmp_path / "home", tmp_path / "mark")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = forking.run(*command, cwd=tmp_path, env=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = forking.run(*command, cwd=tmp_path, env=environment)
    assert again.stdout.split() == ["None", "True", "True"], again.stderr


CLOCK_SET = """
    import sys, time

    real, ahead = time.time, 0.0
    time.time = lambda: real() + ahead

    import hippotune as hippo

    class Steps(hippo.Trainer):
        def build(self):
            self.n = 0
        def setup(self, hp):
            self.lr = hp["lr"]
        def train(self):
            self.n += 1
        def evaluate(self):
            return {"n": self.n}

    class Setting(hippo.tuners.Tuner):
        metric, mode = "n", "max"
        async def run(self, trials):
            global ahead
            for step, jump in ((1, 86_400.0), (2, -86_400.0), (3, 0.0)):
                await trials.all(trials.submit(hippo.tuners.TrialGroup.of([hippo.Config({"lr": 0.1})], step)))
                ahead = jump

    with hippo.Study("clock", Steps, home=sys.argv[1], executor=hippo.Local(workers=1)) as study:
        report = study.tune(Setting(), deadline=3600, progress=False)
        print(report.ended_by, report.trials[-1].step, 0 <= report.work.wall_seconds < 3600)
"""


def test_a_machine_whose_clock_is_set_changes_no_deadline(tmp_path: Path) -> None:
    script = tmp_path / "clock.py"
    script.write_text(textwrap.dedent(CLOCK_SET))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(tmp_path / "home")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.stdout.split() == ["None", "3", "True"], ran.stderr
