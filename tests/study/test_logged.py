"""What a report says was logged along a trial is what the trial logs alone, whatever was shared or ended.

`test_promises` has this of random studies, whose workers die.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hippotune as hippo
from hippotune import Config, InvalidInput, MultiStep, Study
from hippotune.history.logged import Logged
from hippotune.plan.facts import NumbersRecorded
from hippotune.store.catalog import open_store
from study.test_promises import Groups, alone
from study.walkers import Walker

SHARED = [
    (Config({"lr": lr, "bs": 16}), 12) for lr in (0.1, MultiStep(0.1, [6], 0.1), MultiStep(0.1, [9], 0.1))
]


def logged_alone(config: Config, steps: int) -> Logged:
    return alone(config, steps)[1]


@pytest.mark.parametrize("share", [True, False])
def test_a_report_reads_what_was_logged_after_its_study_is_closed(tmp_path: Path, share: bool) -> None:
    executor = hippo.Local(1)
    with Study("closed", Walker, home=tmp_path, executor=executor, seed=5, share=share) as study:
        report = study.tune(Groups([SHARED]), progress=False)
    for trial in report.trials:
        assert report.logged(trial.number) == logged_alone(trial.config, 12)


def test_a_study_that_goes_on_where_another_ended_has_all_numbers(tmp_path: Path) -> None:
    with Study("short", Walker, home=tmp_path, executor=hippo.Local(1), seed=5) as study:
        study.tune(Groups([[(config, 7) for config, _ in SHARED]]), progress=False)
    with Study("long", Walker, home=tmp_path, executor=hippo.Local(1), seed=5) as study:
        report = study.tune(Groups([SHARED]), progress=False)
        assert report.work.steps_found > 0
        for trial in report.trials:
            assert report.logged(trial) == logged_alone(trial.config, 12)


def test_a_shared_step_is_stored_once(tmp_path: Path) -> None:
    with Study("once", Walker, home=tmp_path, executor=hippo.Local(2), seed=5) as study:
        report = study.tune(Groups([SHARED]), progress=False)
        with open_store(tmp_path, create=False) as catalog:
            store = catalog.view(study.key)
            facts: list[NumbersRecorded] = [fact for node in range(3) for fact in store.logged(node)]
    assert sum(len(fact.steps) for fact in facts) == report.work.steps_unique


def test_a_trial_that_is_not_in_the_report_is_named(tmp_path: Path) -> None:
    with Study("named", Walker, home=tmp_path, executor=hippo.Local(1), seed=5) as study:
        report = study.tune(Groups([SHARED[:1]]), progress=False)
    with pytest.raises(InvalidInput, match="trial is 7; expected one of the 1"):
        report.logged(7)
