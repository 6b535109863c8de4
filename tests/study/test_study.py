"""What users hold: studies, reports, and the errors that they get before anything is trained."""

from __future__ import annotations

import asyncio
import gc
import math
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from hippotune import (
    Config,
    Exponential,
    GridSearch,
    InvalidInput,
    Local,
    MultiStep,
    Simulated,
    Study,
    TrainerError,
)
from hippotune.errors import StoreError
from hippotune.history.studies import find_study, read_study
from hippotune.plan.facts import Fact, MetricsRecorded, SpanRecorded, StudyBegan, StudyEnded
from hippotune.store.catalog import open_store
from hippotune.tuners.base import TrialGroup, Trials
from study.walkers import Walker
from waiting import until

SPACE = {"lr": [0.1, Exponential(0.1, 0.9), MultiStep(0.1, [4], 0.1)], "bs": [16]}


def grid(space: Mapping[str, Any] = SPACE, metric: str = "loss", steps: int = 8) -> GridSearch:
    return GridSearch(space, metric=metric, mode="min", max_steps=steps)


def study_of(trainer: type[hippo.Trainer], home: Path, **more: Any) -> Study:
    return Study("test", trainer, home=home, executor=Local(workers=1), **more)


class ReturnsText(Walker):
    def evaluate(self) -> Mapping[str, float]:
        return {"loss": "low"}  # type: ignore[dict-item]


class LeavesOut(Walker):
    """One trial has no loss, from a step on."""

    def evaluate(self) -> Mapping[str, float]:
        metrics = dict(super().evaluate())
        if self.lr == 0.2 and self.walked >= 4:
            del metrics["loss"]
        return metrics

    def build(self) -> None:
        super().build()
        self.walked = 0

    def train(self) -> None:
        super().train()
        self.walked += 1


class Reported(GridSearch):
    """A grid that hears of its trials at every second step too."""

    async def run(self, trials: Trials) -> None:
        await trials.all(trials.submit(TrialGroup.of(self.configs(), self.max_steps, every=2)))


class Plain(GridSearch):
    """A grid that asks for its trials by dicts."""

    async def run(self, trials: Trials) -> None:
        configs = [dict(config.values(0)) for config in self.configs()]
        await trials.all(trials.submit(TrialGroup.of(configs, self.max_steps)))


class Forgetful(Walker):
    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]
        self.bs = 16


class Diverges(Walker):
    def evaluate(self) -> Mapping[str, float]:
        return {"loss": {0.1: math.nan, 0.2: math.inf, 0.3: -math.inf}.get(self.lr, self.lr)}


class Explodes(Walker):
    def train(self) -> None:
        if self.lr < 0.02:
            raise RuntimeError("the gradient exploded")
        super().train()


class SaysThatItTrains(Walker):
    def train(self) -> None:
        super().train()
        Path(self.settings["trains"]).touch()


class CannotBuild(Walker):
    def build(self) -> None:
        raise FileNotFoundError("the data is not here")


def test_a_tuner_may_ask_for_a_trial_by_a_dict(tmp_path: Path) -> None:
    space = {"lr": [0.1, 0.2], "bs": [16]}
    with study_of(Walker, tmp_path) as study:
        first = study.tune(grid(space, steps=4), progress=False)
        second = study.tune(Plain(space, metric="loss", mode="min", max_steps=4), progress=False)
    assert [trial.config for trial in second.trials] == [trial.config for trial in first.trials]
    assert second.work.steps_trained == 0


def told(home: Path) -> list[Fact]:
    """Return the log of the study's plan."""
    with open_store(home, create=False) as catalog:
        return [fact for _, fact in catalog.view(find_study(catalog, "test").key).facts()]


def test_the_log_says_when_a_study_was_tuned_and_how_that_ended(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        study.tune(grid(), progress=False)
        study.tune(grid(), progress=False, deadline=1000)
    facts = told(tmp_path)
    first, last = facts[0], facts[-1]
    assert isinstance(first, StudyBegan)
    assert isinstance(last, StudyEnded)
    assert (first.tuning, first.metric, first.definition) == (1, "loss", {"tuner": "GridSearch"})
    assert (last.tuning, last.outcome) == (2, "finished")
    times = [fact.time for fact in facts if isinstance(fact, MetricsRecorded)]
    assert all(time is not None and first.time <= time <= last.time for time in times)
    with study_of(CannotBuild, tmp_path / "other") as study, pytest.raises(TrainerError):
        study.tune(grid(), progress=False)
    (failed,) = [fact for fact in told(tmp_path / "other") if isinstance(fact, StudyEnded)]
    assert failed.outcome == "failed"
    assert "the data is not here" in failed.text


def test_the_report_says_what_was_best_and_loads_it(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        report = study.tune(grid(), progress=False)
    best = min(report.trials, key=lambda trial: trial.metrics[8]["loss"])
    assert report.best.config == best.config
    assert report.best.metrics == best.metrics[8]
    loaded = report.best.load()
    assert loaded.evaluate() == report.best.metrics
    assert "merge rate" in str(report)
    frame = report.frame()
    assert list(frame["trial"]) == [0, 1, 2]
    assert list(frame.columns) == ["trial", "step", "config.bs", "config.lr", "loss", "first", "error"]
    assert list(frame["config.lr"]) == [0.1, "Exponential(0.1, 0.9)", "MultiStep(0.1, [4])"]


def test_hyper_parameters_and_metrics_of_one_name_have_columns_of_their_own(tmp_path: Path) -> None:
    def both(config: Config, step: int) -> dict[str, float]:
        return {"lr": 7.0, "step": 8.0, "error": 9.0}

    with simulated("names", tmp_path, metrics=both) as study:
        frame = study.tune(grid({"lr": [0.1], "step": [3]}, metric="lr"), progress=False).frame()
    assert frame.to_dict("records") == [
        {
            "trial": 0,
            "step": 8,
            "config.lr": 0.1,
            "config.step": 3,
            "lr": 7.0,
            "metric.step": 8.0,
            "metric.error": 9.0,
            "error": None,
        }
    ]


def test_a_study_that_is_opened_again_knows_how_long_a_step_takes(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        report = study.tune(grid(), progress=False)
    spans = [span for span in report._trace.spans if span.kind == "train"]
    seconds, steps = sum(span.seconds or 0 for span in spans), sum(span.last - span.first for span in spans)
    assert steps == report.work.steps_trained
    with study_of(Walker, tmp_path) as again:
        usual = again._connection.open().loop.readings.pace().step
    assert usual == pytest.approx(seconds / steps, rel=0.2)


def test_a_study_that_is_run_again_draws_what_was_recorded(tmp_path: Path) -> None:
    for _ in range(2):
        with study_of(Walker, tmp_path) as study:
            study.eval({"lr": 0.7, "bs": 16}, 5)  # which the tuning has nothing to do with
            report = study.tune(grid(), progress=False)
    assert report.work.steps_trained == 0
    assert not report._trace.spans
    figure = report.plot_timeline()
    drawn = dict(zip(figure.data[1].text, figure.data[1].customdata, strict=True))
    assert sorted(filter(None, drawn)) == ["0–8", "1–8", "4–8"]  # proofs have no label
    assert "as recorded" in figure.layout.title.text


def test_a_study_that_goes_on_draws_what_was_trained_before_too(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        study.tune(grid(), progress=False)
    with study_of(Walker, tmp_path) as study:
        report = study.tune(grid(steps=10), progress=False)
    assert report.work.steps_trained == 3 * 2
    figure = report.plot_timeline()
    drawn = sorted(filter(None, figure.data[1].text))
    assert drawn == sorted(["0–8", "1–8", "4–8", "8–10", "8–10", "8–10"])
    assert "as recorded" in figure.layout.title.text


def simulated(name: str, home: Path, **options: Any) -> Study:
    return Study(name, Walker, home=home, executor=Simulated(2, **options))


def test_a_study_that_printed_nothing_leaves_no_log(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        study.tune(grid(), progress=False)
    (logs,) = tmp_path.glob("checkpoints/*/logs")
    assert not list(logs.iterdir())


def test_steps_beyond_what_32_bits_count(tmp_path: Path) -> None:
    far = 2**31
    space = {"lr": [MultiStep(0.1, [far - 5], 0.1), MultiStep(0.1, [far + 5], 0.1)], "bs": [16]}
    with simulated("far", tmp_path, seconds_per_step=1e-6) as study:
        report = study.tune(grid(space, steps=far + 10), progress=False)
    assert [list(trial.metrics) for trial in report.trials] == [[far + 10]] * 2
    assert report.work.steps_trained == far + 10 + 15
    with simulated("further", tmp_path) as study, pytest.raises(InvalidInput, match=r"below 2\*\*63"):
        study.eval({"lr": 0.1, "bs": 16}, 2**63)


def test_studies_in_virtual_time_share_where_real_ones_would(tmp_path: Path) -> None:
    with simulated("first", tmp_path) as first, simulated("second", tmp_path) as second:
        assert first.tune(grid(), progress=False).work.steps_trained == 8 + 7 + 4
        again = second.tune(grid(), progress=False)
        assert again.work.steps_trained == 0
        assert again.plot_timeline().data
    others = (
        simulated("elsewhere", tmp_path / "elsewhere"),
        simulated("slower", tmp_path, seconds_per_step=2.0),
        simulated("otherwise", tmp_path, seed=1),
        simulated("by formula", tmp_path, metrics=lambda config, step: {"loss": 1.0}),
        simulated("opened again", tmp_path),
    )
    with simulated("third", tmp_path, load=1.0) as third:
        third.tune(grid(), progress=False)
        for other in others:
            with other:
                assert other.tune(grid(), progress=False).work.steps_trained > 0, other.name


def test_studies_in_virtual_time_are_tuned_together_on_the_workers_of_the_first(tmp_path: Path) -> None:
    with simulated("first", tmp_path) as first, simulated("second", tmp_path) as second:
        reports = hippo.tune_together([(first, grid()), (second, grid())], progress=False)
        assert {report.work.steps_trained for report in reports} == {8 + 7 + 4}
        assert first.executor is second.executor


def test_a_study_that_asks_for_what_the_trainer_cannot_do_ends_alone(tmp_path: Path) -> None:
    def loss(config: Config, step: int) -> dict[str, float]:
        return {"loss": 1.0}

    right, wrong = (simulated(name, tmp_path, metrics=loss) for name in ("right", "wrong"))
    with right, wrong:
        with pytest.raises(TrainerError, match="does not return 'accuracy'"):
            hippo.tune_together([(right, grid()), (wrong, grid(metric="accuracy"))], progress=False)
        assert right.tune(grid(), progress=False).work.steps_found == 8 + 7 + 4


def test_a_plan_that_cannot_be_opened_does_not_hold_up_another_one(tmp_path: Path) -> None:
    wrong = Study("wrong", Walker, home=tmp_path / "home")
    (tmp_path / "home").touch()  # where a folder is to be
    with simulated("one", tmp_path) as one, simulated("two", tmp_path) as two:
        with pytest.raises(StoreError, match="choose another home"):
            hippo.tune_together([(each, grid()) for each in (one, two, wrong)], progress=False)
        assert one.tune(grid(), progress=False).work.steps_trained == 8 + 7 + 4


def test_one_trial_can_be_asked_for(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        metrics = study.eval({"lr": 0.1, "bs": 16}, 5)
        assert study.eval(Config({"lr": Exponential(0.1, 1.0), "bs": 16}), 5) == metrics
        with pytest.raises(InvalidInput, match="step is 0"):
            study.eval({"lr": 0.1, "bs": 16}, 0)


def test_a_group_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> list[hippo.tuners.Result]:
        return await study.train([({"lr": 0.1, "bs": 16}, 3), ({"lr": 0.2, "bs": 16}, 4)])

    with study_of(Walker, tmp_path) as study:
        results = asyncio.run(main())
    assert [(result.trial.number, result.step) for result in results] == [(0, 3), (1, 4)]


def test_a_group_that_is_cancelled_leaves_the_worker_to_others(tmp_path: Path) -> None:
    trains = tmp_path / "trains"

    async def main() -> None:
        task = asyncio.create_task(study.train([({"lr": 0.1, "bs": 16}, 10**9)]))
        await asyncio.to_thread(until, trains.exists)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    with study_of(SaysThatItTrains, tmp_path, settings={"trains": str(trains)}) as study:
        asyncio.run(main())
        assert study.eval({"lr": 0.2, "bs": 16}, 2)


def test_several_tuners_one_after_the_other_share_everything(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        study.tune(grid(), progress=False)
        more = study.tune(grid({**SPACE, "lr": [*SPACE["lr"], 0.3]}), progress=False)
    assert more.work.steps_trained == 8
    assert more.work.steps_found == more.work.steps_unique - 8


def test_studies_at_once_share_one_plan_and_one_pool(tmp_path: Path) -> None:
    executor = Local(workers=2)
    one = Study("one", Walker, home=tmp_path, executor=executor)
    two = Study("two", Walker, home=tmp_path, executor=Local(workers=1))
    other = grid({"lr": [*SPACE["lr"], 0.3], "bs": [16]})
    first, second = hippo.tune_together([(one, grid()), (two, other)], progress=False)
    one.close()
    two.close()
    assert len(first.trials) == 3
    assert len(second.trials) == 4
    assert {trial.metrics[8]["loss"] for trial in first.trials} < {
        t.metrics[8]["loss"] for t in second.trials
    }


def test_a_trial_that_raises_fails_with_the_users_traceback_and_others_go_on(tmp_path: Path) -> None:
    with study_of(Explodes, tmp_path) as study:
        report = study.tune(grid(), progress=False)
    (failed,) = report.failed
    assert failed.config["lr"] == MultiStep(0.1, [4], 0.1)
    assert "the gradient exploded" in (failed.error or "")
    assert "in train" in (failed.error or "")
    assert report.best.metrics["loss"] > 0


@pytest.mark.parametrize("mode", ["max", "min"])
def test_nan_and_infinities_are_results_and_the_worst_wherever_results_are_ranked(
    mode: str, tmp_path: Path
) -> None:
    space = {"lr": [0.1, 0.2, 0.3, 0.4], "bs": [16]}
    with study_of(Diverges, tmp_path) as study:
        report = study.tune(GridSearch(space, metric="loss", mode=mode, max_steps=8), progress=False)
        theirs = study.to_optuna()
    assert [trial.metrics[8]["loss"] for trial in report.trials[1:]] == [math.inf, -math.inf, 0.4]
    assert math.isnan(report.trials[0].metrics[8]["loss"])
    assert not report.failed
    assert report.best.number == 3
    assert theirs.best_trial.number == 3
    with open_store(tmp_path, create=False) as catalog:
        history = read_study(catalog, find_study(catalog, study.name))
        best = history.best("loss", report.mode)
        assert best is not None
        assert best.trial.number == history.ranked("loss", report.mode)[0].number == 3


@pytest.mark.parametrize(
    ("trainer", "metric", "message"),
    [
        (Walker, "val_acc", r"does not return 'val_acc'; it returns 'loss', 'first'"),
        (ReturnsText, "loss", r"'loss'"),
        (Forgetful, "loss", r"'bs'"),
        (CannotBuild, "loss", r"the data is not here"),
    ],
)
def test_a_trainer_that_cannot_work_ends_the_study_before_anything_is_trained(
    tmp_path: Path, trainer: type[hippo.Trainer], metric: str, message: str
) -> None:
    with study_of(trainer, tmp_path) as study, pytest.raises(TrainerError, match=message):
        study.tune(grid(metric=metric), progress=False)
    facts = told(tmp_path)
    assert not [fact for fact in facts if isinstance(fact, MetricsRecorded)]
    assert not [fact for fact in facts if isinstance(fact, SpanRecorded) and fact.last > fact.first]


@pytest.mark.parametrize("tuner", [GridSearch, Reported], ids=["at the end", "on the way"])
def test_a_trial_without_the_metric_that_its_tuner_reads_fails_alone(
    tmp_path: Path, tuner: type[GridSearch]
) -> None:
    space = {"lr": [0.1, 0.2, 0.3], "bs": [16]}
    for _ in range(2):  # run again, it is so too
        with study_of(LeavesOut, tmp_path) as study:
            report = study.tune(tuner(space, "loss", "min", max_steps=8), progress=False)
        assert [trial.number for trial in report.failed] == [1]
        assert "evaluate() does not return 'loss'; it returns 'first'" in str(report.trials[1].error)
        assert [trial.step for trial in report.trials] == [8, 0, 8]
    with study_of(LeavesOut, tmp_path) as study:  # others may read what is there
        assert not study.tune(grid(space, metric="first"), progress=False).failed
        study.tune(grid(space), progress=False)
    with open_store(tmp_path, create=False) as catalog:
        history = read_study(catalog, find_study(catalog, study.name))
    assert [trial.number for trial in history.trials if trial.error is not None] == [1]


def test_a_metric_that_recorded_results_lack_is_named(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        study.tune(grid(), progress=False)
    with study_of(Walker, tmp_path) as study, pytest.raises(TrainerError, match=r"'acc'.*'loss', 'first'"):
        study.tune(grid(metric="acc"), progress=False)


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    for option, value, says in (
        ("home", None, "home is None; expected a folder, or a URL such as"),
        ("settings", "cuda", "settings is 'cuda'; expected a mapping"),
        ("share", "no", "share is 'no'; expected True or False"),
        ("store", 3, "store is 3; expected text"),
        ("version", 2, "version is 2; expected text"),
        ("keep_best", "3", "keep_best is '3'; expected a whole number of at least 0"),
        ("defaults", [], "a config is made from a mapping"),
        ("exact", None, "exact is None; expected True or False"),
        ("retries", True, "retries is True; expected a whole number of at least 0"),
    ):
        with pytest.raises(InvalidInput, match=says):
            Study("x", Walker, **{option: value})  # type: ignore[arg-type]
    for pause in (True, math.inf, "soon"):
        with pytest.raises(InvalidInput, match=r"pause is .*; expected seconds at least 0"):
            hippo.Retries(pause=pause)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="sinks is 3; expected a list"):
        Study("x", Walker).tune(grid(), sinks=3)  # type: ignore[arg-type]
    says = r"group\[0\] is 'lr'; expected a config and a step"
    with simulated("x", tmp_path) as study, pytest.raises(InvalidInput, match=says):
        asyncio.run(study.train(["lr"]))  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match=r"pairs\[0\] is None; expected a study and a tuner"):
        hippo.tune_together([None])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="trainer"):
        Study("x", dict)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="name"):
        Study("", Walker)
    with pytest.raises(InvalidInput, match="seed"):
        Study("x", Walker, seed=-1)
    with pytest.raises(InvalidInput, match="checkpoint_budget is '20 parsecs'"):
        Study("x", Walker, checkpoint_budget="20 parsecs")
    with pytest.raises(InvalidInput, match="checkpoint_every is 0; expected seconds above 0"):
        Study("x", Walker, checkpoint_every=0)
    with pytest.raises(InvalidInput, match="tuner"):
        Study("x", Walker).tune("grid")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"empty|no values|no config"):
        grid({"lr": []})
    with pytest.raises(InvalidInput, match="max_steps"):
        hippo.SuccessiveHalving(SPACE, metric="loss", mode="min", min_steps=10, max_steps=5, reduction=2)


def test_importing_hippo_is_quick_because_heavy_packages_wait() -> None:
    import subprocess
    import sys

    heavy = "torch, ray, optuna, pandas, plotly, sqlalchemy, rich, numpy"
    code = f"import sys, hippotune; print([name for name in '{heavy}'.split(', ') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_nothing_of_a_closed_plan_is_kept(tmp_path: Path) -> None:
    with study_of(Walker, tmp_path) as study:
        study.eval({"lr": 0.5, "bs": 2}, 2)
        runtime = weakref.ref(study._connection.runtime)
        assert runtime() is not None
    gc.collect()
    assert runtime() is None


SETTINGS = {"most": math.inf, "names": {1: "one", "()": [None]}, "sizes": ((1, 2.0), True)}


class TellsItsSettings(Walker):
    def evaluate(self) -> Mapping[str, float]:
        return {"same": float(repr(self.settings) == repr(SETTINGS))}


def test_settings_reach_training_as_they_were_given(tmp_path: Path) -> None:
    with study_of(TellsItsSettings, tmp_path, settings=SETTINGS) as study:
        assert study.eval({"lr": 0.1, "bs": 16}, 1) == {"same": 1.0}
