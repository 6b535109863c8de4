"""A study as it is read back from the store, without its trainer and without its lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune import Config
from hippotune.errors import InvalidInput
from hippotune.history.history import History
from hippotune.history.studies import find_study, read_study
from hippotune.plan.facts import Fact, RequestMade, SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.store.catalog import open_store
from hippotune.store.memory import MemoryStore
from hippotune.study.report import Report
from hippotune.tuners import Trials, Tuner
from hippotune.tuners.base import TrialGroup
from sequences.strategies import configs
from stored import DECAYS, LATE, Asking, study, trained

HEAVY: list[dict[str, Any]] = [{"lr": 0.5, "weight": weight} for weight in (1, 10, 20, 2)]


class Withdrawing(Tuner):
    """Asks for more than it waits for."""

    metric, mode = "height", "min"

    async def run(self, trials: Trials) -> None:
        (trial,) = trials.submit(TrialGroup.of([Config({"lr": 0.25})], 2))
        await trials.all([trial])
        trials.submit(TrialGroup.of([trial], 1_000_000))
        trials.withdraw(trial)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("history") / "home"


@pytest.fixture(scope="module")
def reports(home: Path) -> dict[str, Report]:
    """The reports of all studies in the home, by the names under which they are listed."""
    return {
        "decays": trained("decays", home, Asking(DECAYS, 2, 6, 8)),
        "alone (share=False)": trained("alone", home, Asking(DECAYS, 2, 6, 8), share=False),
        "further": trained("further", home, Asking(DECAYS[:1], 12, every=3)),
        "heavy": trained("heavy", home, Asking(HEAVY, 2, 5)),
        "withdrawn": trained("withdrawn", home, Withdrawing()),
    }


def read(home: Path, name: str, plan: str | None = None) -> History:
    with open_store(home, create=False) as catalog:
        return read_study(catalog, find_study(catalog, name, plan))


@pytest.mark.parametrize("name", ["decays", "alone (share=False)", "further", "heavy"])
def test_every_trial_has_what_its_report_has(home: Path, reports: dict[str, Report], name: str) -> None:
    history = read(home, name)
    assert len(history.trials) == len(reports[name].trials)
    for trial, report in zip(history.trials, reports[name].trials, strict=True):
        assert (trial.number, trial.config, trial.asked) == (report.number, report.config, report.asked)
        assert trial.metrics().items() >= report.metrics.items()
        assert list(trial.metrics()) == sorted(trial.metrics())
        assert trial.error == report.error
        last = trial.last()
        assert last is not None
        assert last == (max(trial.metrics()), trial.metrics()[last[0]])


@pytest.mark.parametrize("name", ["decays", "alone (share=False)", "further", "heavy"])
@pytest.mark.parametrize(("metric", "mode"), [("height", "min"), ("fallen", "max")])
def test_the_best_is_the_best_of_the_report(
    home: Path, reports: dict[str, Report], name: str, metric: str, mode: Any
) -> None:
    best, reported = read(home, name).best(metric, mode), reports[name].best
    assert best is not None
    assert (best.trial.number, best.step, best.metrics) == (reported.number, reported.step, reported.metrics)


def test_the_work_is_that_of_the_report(home: Path, reports: dict[str, Report]) -> None:
    for name in ("alone (share=False)", "heavy"):
        done, reported = read(home, name).work(), reports[name].work
        assert done.steps_requested == reported.steps_requested
        assert done.steps_unique == reported.steps_unique
        assert done.steps_trained == reported.steps_trained
        assert done.worker_seconds == pytest.approx(reported.worker_seconds)


def test_what_was_measured_for_others_on_the_way_counts_and_what_lies_beyond_does_not(
    home: Path, reports: dict[str, Report]
) -> None:
    first = read(home, "decays").trials[0]
    assert (first.steps, sorted(first.metrics())) == ((2, 6, 8), [2, 3, 6, 8])
    further = read(home, "further")
    assert sorted(further.trials[0].metrics()) == [2, 3, 6, 8, 9, 12]
    assert reports["further"].work.steps_trained == 4 + 1, "once more from 2 to 3, to measure there"
    assert further.work().steps_trained == 8 + 4 + 1
    assert read(home, "decays").work().steps_trained == reports["decays"].work.steps_trained + 1


def test_trials_that_do_not_share_keep_what_was_measured_to_themselves(
    home: Path, reports: dict[str, Report]
) -> None:
    trials = read(home, "alone (share=False)").trials
    assert [sorted(trial.metrics()) for trial in trials] == [[2, 6, 8], [2, 6], [2], [2]]


def test_a_trial_is_done_failed_or_unfinished_and_knows_how_far_it_is_trained(
    home: Path, reports: dict[str, Report]
) -> None:
    told = [(trial.state, trial.asked, trial.trained) for trial in read(home, "heavy").trials]
    assert told == [("done", 5, 5), ("failed", 5, 2), ("done", 2, 2), ("done", 2, 2)]
    assert "a weight of 10 is too much" in str(read(home, "heavy").trials[1].error)
    (withdrawn,) = read(home, "withdrawn").trials
    assert (withdrawn.state, withdrawn.asked) == ("unfinished", 1_000_000)
    assert withdrawn.last() == (2, {"height": 0.5625, "fallen": 0.4375})
    assert 2 <= withdrawn.trained < 1_000_000


def test_a_study_that_is_being_trained_can_be_read(home: Path, reports: dict[str, Report]) -> None:
    with study("decays", home):
        assert len(read(home, "decays").trials) == 4


def test_trials_that_several_tunings_ask_for_are_one_and_those_that_one_asks_for_are_not(
    tmp_path: Path,
) -> None:
    with study("twice", tmp_path) as opened:
        opened.tune(Asking([*DECAYS[:2], DECAYS[0]], 2), progress=False)
        opened.tune(Asking([DECAYS[1], {"lr": LATE}], 3), progress=False)
        opened.eval(DECAYS[1], 4)
    told = [(trial.number, trial.config, trial.steps) for trial in read(tmp_path, "twice").trials]
    first, second, third = (Config(values) for values in (*DECAYS[:2], {"lr": LATE}))
    assert told == [(0, first, (2,)), (1, second, (2, 3, 4)), (2, first, (2,)), (1, third, (3,))]


def test_a_study_is_found_by_its_name_and_by_its_earlier_plans(tmp_path: Path) -> None:
    trained("edited", tmp_path, Asking(DECAYS[:1], 2))
    trained("edited", tmp_path, Asking(DECAYS, 2), version="2")
    with open_store(tmp_path) as catalog:
        now, before = catalog.studies()
        assert find_study(catalog, "edited") == now
        assert find_study(catalog, "edited", before.key.digest[:8]) == before
        with pytest.raises(InvalidInput, match=f"its plans are: {now.key.digest}, {before.key.digest}"):
            find_study(catalog, "edited", "none")
        with pytest.raises(InvalidInput, match="no study 'other' in the store; its studies are: edited"):
            find_study(catalog, "other")
    assert len(read(tmp_path, "edited").trials) == 4
    assert len(read(tmp_path, "edited", before.key.digest).trials) == 1


# By what results are ranked.


def test_results_are_ranked_as_given_or_as_the_study_was_tuned(
    home: Path, reports: dict[str, Report]
) -> None:
    with study("asked", home) as asked:
        asked.eval({"lr": 0.5}, 2)
    tuned, other = read(home, "heavy"), read(home, "asked")
    assert tuned.aim() == ("height", "min")
    assert tuned.aim("height", "max") == ("height", "max")
    assert tuned.aim(mode="max") == ("height", "max")
    assert tuned.aim("fallen", "max") == ("fallen", "max")
    with pytest.raises(InvalidInput, match="mode is None for the metric 'fallen'; expected 'max' or 'min'"):
        tuned.aim("fallen")
    assert other.aim() is None, "nothing tuned it"
    with pytest.raises(InvalidInput, match="metric is None; expected one of fallen, height"):
        other.aim(mode="max")
    with pytest.raises(InvalidInput, match="metric is 'depth'; expected one of fallen, height"):
        other.aim("depth", "max")
    ranked = [trial.number for trial in tuned.ranked("height", "min")]
    assert ranked == [0, 1, 2, 3], "by what was last measured, those trained further first"


def test_nothing_measured_is_nothing_to_rank_by() -> None:
    store = MemoryStore()
    config = Config({"lr": 0.1})
    _, facts = Plan().place(config, 3)
    store.write([*facts, RequestMade("early", 0, config, 3)])
    history = History(store, "early", tuned_for=("loss", "min"))
    assert history.aim() is None
    assert history.best("loss", "min") is None
    with pytest.raises(InvalidInput, match="expected none yet: nothing has been measured"):
        history.aim("loss", "min")


def test_worker_time_on_nodes_that_came_while_others_were_read_is_passed_over() -> None:
    plan, store = Plan(), MemoryStore()
    config = Config({"lr": 0.1})
    node, facts = plan.place(config, 3)
    store.write([*facts, plan.measure(node.position(2), {"loss": 1.0}), RequestMade("now", 0, config, 3)])
    store.write([SpanRecorded(0, lease, lease, "train", 0, 2, 1.0, 3.0) for lease in (0, 1)])
    history = History(store, "now")
    assert [(trial.state, trial.trained) for trial in history.trials] == [("unfinished", 2)]
    assert (history.work().steps_trained, history.work().worker_seconds) == (2, 2.0)


# Where trials are in the plan.


@given(st.lists(st.tuples(configs(), st.integers(1, 24)), min_size=1, max_size=8), st.booleans())
def test_trials_are_where_the_plan_finds_them(asks: list[tuple[Config, int]], share: bool) -> None:
    plan, store = Plan(), MemoryStore()
    for number, (config, step) in enumerate(asks):
        facts: list[Fact] = plan.place(config, step, "" if share else str(number))[1]
        store.write([*facts, RequestMade("laws", number, config, step)])
    history = History(store, "laws", share)
    assert len(history.trials) == len(asks)
    for trial in history.trials:
        found = history.plan.find(trial.config, trial.asked, "" if share else str(trial.number))
        assert trial.node is found
    assert len(history.plan.nodes) == len(plan.nodes)
