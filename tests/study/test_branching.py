"""Trunks, branches, mixtures, starts and substeps in studies with real workers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import hippotune as hippo
from hippotune import Config, Decay, InvalidInput, Linear, TrainerError, Warmup
from hippotune.executors.base import Job
from hippotune.study.alone import train_alone
from hippotune.study.start import find_start
from study.branching import Mixed
from study.walkers import Fine


def alone(study: hippo.Study, config: Config, step: int) -> dict[str, float]:
    """Train by a plain loop in this process: many times quicker than in a fresh one."""
    job = Job(study.trainer, study.settings, study.seed, start=find_start(study.start, study.home))
    return train_alone(job, (study._completion(config), (step,)))[step]


TRUNK = Config({"lr": Warmup(2, 0.1), "mix": "up"})


def study(home: Path, **options: object) -> hippo.Study:
    options.setdefault("executor", hippo.Local(workers=1))
    return hippo.Study("branching", Mixed, home=home, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shared(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hippo.Study]:
    """A study whose workers have loaded torch; tests differ in their learning rates, and share no step.

    It proves nothing itself, which would load torch once more: the tests compare it with trials alone.
    """
    executor, defaults = hippo.Local(workers=2), {"mix": "up", "seed": 0}
    with study(tmp_path_factory.mktemp("home"), executor=executor, defaults=defaults) as shared:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hippotune.study.opening.ProofPolicy", lambda *_: None)
            shared._connection.open()
        yield shared


def test_branches_equal_the_same_trials_alone_and_train_only_their_own_steps(shared: hippo.Study) -> None:
    ends = [Decay(0.1, 4, end=end) for end in (0.0, 0.01)]
    mixtures = [{"up": 1, "down": 1}, {"down": 1}]
    space = hippo.Branches(TRUNK, at=[8], changes={"mix": mixtures, "lr": ends})
    report = shared.tune(hippo.GridSearch(space, metric="slope", mode="max", max_steps=12), progress=False)
    assert (report.work.steps_requested, report.work.steps_trained) == (48, 22)
    for trial in report.trials:
        assert trial.metrics[12] == alone(shared, trial.config, 12)
    # A branch that comes after the end of the study trains its own steps, and no others.
    late = shared.trunk(TRUNK).branch(8, lr=Linear(0.1, 0.05, 4))
    again = shared.tune(
        hippo.GridSearch({name: late[name] for name in late}, metric="slope", mode="max", max_steps=12),
        progress=False,
    )
    assert again.work.steps_trained == 4
    assert again.best.metrics == alone(shared, late, 12)


def test_defaults_give_a_value_before_the_branch(shared: hippo.Study, tmp_path: Path) -> None:
    plain = Config({"lr": 0.3})
    trunk = shared.trunk(plain)
    assert trunk.train(4) == alone(shared, TRUNK.branch(0, lr=0.3), 4)
    branch = trunk.branch(4, mix={"down": 1})
    assert shared.eval(branch, 6) == alone(shared, plain.branch(4, mix={"down": 1}), 6)
    without = study(tmp_path, executor=hippo.Simulated(workers=1))
    with pytest.raises(InvalidInput, match=r"the trunk has no hyper-parameter 'mix'.*defaults"):
        without.trunk(plain).branch(4, mix="up")
    with without, pytest.raises(InvalidInput, match="'mix' has no value before step 4"):
        without.eval(plain.branch(4, mix="up"), 6)


def test_a_space_that_is_refused_leaves_no_tuner_at_work(tmp_path: Path) -> None:
    trunk = Config({"lr": Warmup(2, 0.1)}).branch(4, mix="up")
    space = hippo.Branches(trunk, at=[5], changes={"lr": [0.1]})
    tuner = hippo.GridSearch(space, metric="slope", mode="max", max_steps=8)
    with study(tmp_path, executor=hippo.Simulated(workers=1)) as virtual:
        with pytest.raises(InvalidInput, match="'mix' has no value before step 4"):
            virtual.tune(tuner, progress=False)
        runtime = virtual._connection.runtime
        assert runtime is not None
        assert not runtime.busy
        assert virtual.eval(TRUNK, 2)


def test_a_trunk_keeps_checkpoints_where_branches_are_likely(tmp_path: Path) -> None:
    with study(tmp_path, executor=hippo.Simulated(workers=1)) as shared:
        shared.trunk(TRUNK).train(40)
        (node,) = shared._connection.runtime.plan.nodes  # type: ignore[union-attr]
        kept = sorted(node.checkpoints.keys() - {40})  # the last one may still be on its way
        assert kept == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 23, 27, 32, 38]


def test_a_branch_without_a_checkpoint_says_what_is_trained_again(tmp_path: Path) -> None:
    with study(tmp_path, executor=hippo.Simulated(workers=1)) as shared:
        trunk = shared.trunk(TRUNK)
        trunk.train(40)
        runtime = shared._connection.runtime
        assert runtime is not None
        said: list[str] = []
        with runtime.notes.read_by(said.append) as show:
            shared.eval(trunk.branch(30, lr=0.05), 31)
            show()
        assert said == [
            "a branch at step 30 has no checkpoint there: its trunk is trained again from step 27 to 30"
        ]


def test_branches_that_are_drawn_later_find_checkpoints_where_they_begin(tmp_path: Path) -> None:
    space = hippo.Branches(TRUNK, at=[5, 10], changes={"lr": hippo.Uniform(0.01, 0.1)})
    tuner = hippo.OptunaSearch(space, metric="slope", mode="max", max_steps=12, trials=8)
    with study(tmp_path, executor=hippo.Simulated(workers=1)) as virtual:
        work = virtual.tune(tuner, progress=False).work
        assert work.steps_trained == work.steps_unique


@pytest.mark.usefixtures("unrehearsed")
def test_a_study_starts_from_weights_by_their_content(tmp_path: Path) -> None:
    weights = torch.nn.Linear(1, 1).state_dict()
    torch.save(weights, tmp_path / "one.pt")
    shutil.copy(tmp_path / "one.pt", tmp_path / "copy.pt")
    with study(tmp_path / "home", start=tmp_path / "one.pt") as shared:
        slope = shared.eval(TRUNK.branch(0, lr=0.0), 1)["slope"]
        assert slope == weights["weight"].item()
        assert shared.eval(TRUNK, 3) == alone(shared, TRUNK, 3)
        copy = study(tmp_path / "home", start=f"file://{tmp_path}/copy.pt")
        assert copy.key == shared.key != study(tmp_path / "home").key
        exported = shared.export(TRUNK, 3, tmp_path / "exported.pt")
    further = study(tmp_path / "next", start=exported)
    assert alone(further, TRUNK.branch(0, lr=0.0), 1)["slope"] == alone(shared, TRUNK, 3)["slope"]


def test_a_start_that_does_not_fit_is_named(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1, 1), "extra": torch.zeros(1)}, tmp_path / "odd.pt")
    odd = study(tmp_path / "home", start=tmp_path / "odd.pt")
    with pytest.raises(TrainerError, match=r"1 missing \('bias'\) and 1 unexpected \('extra'\)"):
        alone(odd, TRUNK, 1)


def test_substeps_are_values_within_a_step_and_part_of_the_plan(tmp_path: Path) -> None:
    fine = hippo.Study("fine", Fine, home=tmp_path, executor=hippo.Local(workers=1), substeps=4)
    line = {"lr": Linear(0.0, 1.0, 10)}
    with fine:
        total = fine.eval(line, 10)["total"]
        assert total == pytest.approx(sum(part / 40 for part in range(40)))
        assert total == alone(fine, Config(line), 10)["total"]
    assert fine.key != hippo.Study("fine", Fine, home=tmp_path).key
    with pytest.raises(InvalidInput, match="substeps is 0; expected a whole number"):
        hippo.Study("fine", Fine, substeps=0)


def test_averages_of_branches_are_evaluated_and_exported(shared: hippo.Study, tmp_path: Path) -> None:
    branches = [Config({"lr": 0.15, "mix": "up"}).branch(4, lr=lr) for lr in (0.01, 0.2)]
    mean = shared.average(branches, 6)
    slopes = [shared.eval(branch, 6)["slope"] for branch in branches]
    assert mean.metrics["slope"] == torch.tensor(slopes).double().mean().float().item()
    path = mean.export(tmp_path / "mean.pt")
    weights = torch.load(path, weights_only=True)["modules"]
    assert {module["weight"].item() for module in weights.values()} == {mean.metrics["slope"]}
    with pytest.raises(InvalidInput, match="configs is empty"):
        shared.average([], 6)


def test_a_seed_may_change_at_a_branch(shared: hippo.Study) -> None:
    branches = [Config({"lr": 0.07, "mix": "up"}).branch(4, seed=seed) for seed in (0, 1)]
    results = [shared.eval(branch, 40) for branch in branches]
    assert results == [alone(shared, branch, 40) for branch in branches]
    assert results[0] != results[1]
