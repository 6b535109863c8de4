"""What is not exact is caught by a plain study, with a message that its author can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

import hippotune as hippo
from hippotune import GridSearch, MultiStep
from hippotune.cli.main import main
from hippotune.errors import HippoError, NotExact
from study import proved

SPACE = {"lr": [0.1, MultiStep(0.1, [5], 0.5)]}

CAUGHT: dict[type[hippo.Trainer], tuple[str, ...]] = {
    proved.Unseeded: (
        "Unseeded is not deterministic: the same step, trained twice from the same start, differs each time. "
        "After step 1, self.value is ",
        "draws random numbers that are not seeded (np.random.default_rng(), uuid, os.urandom)",
        "Seed it with self.seed",
    ),
    proved.Late: (
        "Late is not exact: a step that was repeated from the checkpoint of a branch after step 5 differs",
        "After step 6, self.value is 1.8",
        "self.buffer.items is a list of 6 items before, and a list of 1 item after",
        "A __getstate__(), __setstate__() or __reduce__() of its class leaves it out",
    ),
    proved.Counting: (
        "training has changed what it reads from outside of self: count: 0 -> 1",
        "Keep it on self, made in build()",
    ),
    proved.Resetting: (
        "evaluate() of Resetting changes the state: after step 2, self.losses is ",
        "evaluate() has to leave everything as it is: let it work on copies",
        "volatile = {'self.losses'}",
    ),
    proved.Best: (
        "evaluate() of Best changes the state: before the first step, self.best is -inf before it, and 0.0",
        "volatile = {'self.best'}",
    ),
    proved.BestOfZero: (
        "evaluate() of BestOfZero changes the state: after step 6, self.best is 0.0 before it, and 3.0",
        "Trials that share steps are evaluated at each other's steps",
    ),
    proved.Boosting: (
        "Boosting is not exact: a trial that is cut after step 1 and goes on in a ",
        "Everything on self was the same at the cut",
        "a library's own random numbers",
    ),
}


@pytest.mark.parametrize("trainer", CAUGHT, ids=lambda trainer: trainer.__name__)
def test_a_trainer_that_is_not_exact_is_caught_by_a_plain_study(
    trainer: type[hippo.Trainer], tmp_path: Path
) -> None:
    with (
        hippo.Study("caught", trainer, home=tmp_path, executor=hippo.Local(workers=1)) as study,
        pytest.raises(HippoError) as raised,
    ):
        study.tune(GridSearch(SPACE, "loss", "min", 8), progress=False)
    assert [part for part in CAUGHT[trainer] if part not in str(raised.value)] == [], str(raised.value)
    if isinstance(raised.value, NotExact):  # a fact of the plan: nothing is trained to find it out again
        with pytest.raises(NotExact) as again:
            hippo.Study("caught", trainer, home=tmp_path).open()
        assert str(again.value) == str(raised.value)


def test_a_study_whose_processes_have_temporary_folders_goes_on_in_others(tmp_path: Path) -> None:
    for steps in (4, 6):
        with hippo.Study("folders", proved.InFolder, home=tmp_path, executor=hippo.Local(workers=1)) as study:
            report = study.tune(GridSearch({"lr": [0.1, 0.2]}, "loss", "min", steps), progress=False)
        assert report.exactness == "exact: rehearsed"
        assert [trial.error for trial in report.trials] == [None, None]


def test_what_is_not_saved_and_matters_late_is_told_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = hippo.Local(workers=1)
    with hippo.Study("told", proved.Forgetful, home=tmp_path, executor=executor) as study:
        report = study.tune(GridSearch(SPACE, "loss", "min", 8), progress=False)
    assert report.exactness == "exact: rehearsed, 1 step repeated at branches (1 finding: hippo show)"
    assert main(["show", "told", "--home", str(tmp_path)]) == 0
    assert "Forgetful does not save self.momentum: a step after a cut" in capsys.readouterr().out


def test_nothing_provisional_is_reported_as_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = hippo.Local(workers=1)
    with (
        hippo.Study("refuted", proved.Unseeded, home=tmp_path, executor=executor) as study,
        pytest.raises(NotExact),
    ):
        study.tune(GridSearch(SPACE, "loss", "min", 8), progress=True)
    shown = capsys.readouterr().err
    assert "answered" in shown
    assert all("not proved yet" in line for line in shown.splitlines() if "best loss" in line)
    assert "best loss" not in [line for line in shown.splitlines() if "answered" in line][-1]
    at_home = ["refuted", "--home", str(tmp_path)]
    assert main(["export", *at_home]) == 2
    assert "the results of refuted are provisional: not exact: self.value differs" in capsys.readouterr().err
    assert main(["export", "--unproved", *at_home]) == 0
    assert capsys.readouterr().out.startswith("study,trial,step")
    assert main(["show", *at_home]) == 0
    assert "best by loss (min), not proved: provisional" in capsys.readouterr().out
    assert main(["ls", "--home", str(tmp_path)]) == 0
    assert "not proved" in capsys.readouterr().out
