"""Models of real studies as files: on request, and of the best result by themselves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hippotune as hippo
from hippotune import Config, GridSearch, Study, TorchTrainer
from hippotune.cli.main import main
from hippotune.executors.local.executor import Local
from hippotune.study.exports import export_folder
from hippotune.study.report import Report
from stored import DECAYS, Asking, trained

SPACE = {"lr": [0.1, 0.01, 0.001]}

pytestmark = pytest.mark.usefixtures("unrehearsed")


class Fit(TorchTrainer):
    """A small regression."""

    def build(self) -> None:
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.inputs = torch.linspace(-1, 1, 16).view(8, 2)

    def train(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.loss().item()}

    def loss(self) -> torch.Tensor:
        return (self.model(self.inputs).sum(1) - self.inputs.sum(1)).square().mean()


def fit(home: Path, name: str = "fit", **more: Any) -> Study:
    return Study(name, Fit, home=home, executor=Local(workers=1), **{"version": "1", **more})


def tuned(study: Study, steps: int = 3, space: dict[str, Any] = SPACE) -> Report:
    return study.tune(GridSearch(hippo.Grid(space), "loss", "min", steps), progress=False)


def read(path: Path | None) -> Any:
    assert path is not None
    return torch.load(path, weights_only=True)


def assert_holds(path: Path | None, trainer: Any) -> None:
    """See that a file has the state of a trainer."""
    written = read(path)
    for kind, name in (("modules", "model"), ("optimizers", "optimizer")):
        expected = getattr(trainer, name).state_dict()
        torch.testing.assert_close(dict(written[kind][name]), dict(expected), rtol=0, atol=0)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A study whose worker has loaded torch; whatever is asked for in a test was maybe trained in another."""
    study = fit(tmp_path_factory.mktemp("home"))
    yield study
    study.close()


def test_the_best_result_is_exported_in_the_end_and_only_the_newest_stays(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.use_deterministic_algorithms(False)
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    before = [random.getstate()[1][:9], np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]  # type: ignore[index]
    report = tuned(study)
    after = [random.getstate()[1][:9], np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]  # type: ignore[index]
    assert after == before
    assert not torch.are_deterministic_algorithms_enabled()
    best = report.best
    assert best.exported == study.home / "exports" / "fit" / f"trial-{best.number}-step-3.pt"
    assert f"exported: {best.exported}" in str(report)
    assert_holds(best.exported, best.load())
    written = read(best.exported)
    assert (written["study"], written["step"], written["metrics"]) == ("fit", 3, dict(best.metrics))
    assert Config.from_json(written["config"]) == best.config
    further = tuned(study, 6)
    assert list((study.home / "exports" / "fit").iterdir()) == [further.best.exported]
    assert further.best.exported != best.exported
    assert main(["show", "fit", "--home", str(study.home), "--no-tree"]) == 0
    assert f"  exported: {further.best.exported}" in capsys.readouterr().out


def test_any_result_can_be_exported_and_read_back(study: Study, tmp_path: Path) -> None:
    best = tuned(study).best
    assert_holds(best.export(tmp_path / "best.pt"), best.load())
    config = Config({"lr": 0.02})
    path = study.export({"lr": 0.02}, 2, str(tmp_path / "other.pt"))
    assert_holds(path, study.load(config, 2))
    written = read(path)
    assert written["metrics"] == study.eval(config, 2)
    assert (Config.from_json(written["config"]), written["step"]) == (config, 2)


def test_an_export_that_fails_is_told_and_the_study_ends_well(study: Study) -> None:
    exports = study.home / "exports"
    shutil.rmtree(exports, ignore_errors=True)
    exports.touch()
    with pytest.warns(RuntimeWarning, match="the best result was not exported: .*exports"):
        best = tuned(study).best
    exports.unlink()
    assert best.exported is None
    assert best.metrics["loss"] > 0


def test_show_does_not_take_the_export_of_earlier_code_for_one_of_this_plan(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuned(study).best.exported is not None
    with fit(study.home, version="2") as changed:
        changed.eval({"lr": 0.1}, 1)
    named = ["fit", "--home", str(study.home), "--no-tree", "--metric", "loss", "--mode", "min"]
    assert main(["show", *named]) == 0
    printed = capsys.readouterr().out
    assert "best by loss" in printed
    assert "exported" not in printed


def test_studies_do_not_remove_each_others_exports(study: Study) -> None:
    with fit(study.home, share=False) as alone:
        exported = [tuned(each, 2).best.exported for each in (study, alone)]
    assert None not in exported
    assert len({path.parent for path in exported if path}) == 2
    for path in exported:
        assert path is not None
        assert path.is_file()
        assert path.parent.parent == study.home / "exports"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 400, "ü" * 100, "%2E"])
def test_the_folder_of_exports_is_always_one_below_the_home(tmp_path: Path, name: str) -> None:
    folder = export_folder(tmp_path, name)
    folder.mkdir(parents=True)
    assert folder.resolve().parent == tmp_path.resolve() / "exports"
    assert folder != export_folder(tmp_path, name + "x")


def test_a_trainer_with_nothing_to_export_has_no_export(tmp_path: Path) -> None:
    report = trained("decays", tmp_path, Asking(DECAYS[:1], 2))
    assert report.best.exported is None
    assert not (tmp_path / "exports").exists()
    with pytest.raises(hippo.HippoError, match=r"Falling has no torch module.*best\.load\(\)"):
        report.best.export(tmp_path / "best.pt")
