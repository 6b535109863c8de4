"""Sinks of studies on a server: fed by who tunes or asks, from the log that the server has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import hippotune as hippo
from feeds import programs
from hippotune import GridSearch, InvalidInput, MultiStep, Study
from hippotune.cli import main
from hippotune.sinks import MLflow, Sink, TensorBoard, WandB
from served.serving import CuttingProxy, serving


class Slope(hippo.TorchTrainer):
    """Fits a line."""

    def build(self) -> None:
        self.model = torch.nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self) -> None:
        x = torch.linspace(-1, 1, 8).unsqueeze(1)
        loss = ((self.model(x) - 3 * x) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.log(train_loss=loss.item())

    def evaluate(self) -> dict[str, float]:
        return {"gap": abs(self.model.weight.item() - 3)}


def tuner() -> GridSearch:
    space = {"lr": [0.1, MultiStep(0.1, [4], 0.1), MultiStep(0.1, [6], 0.1)]}
    return GridSearch(space, metric="gap", mode="min", max_steps=8)


def shown(folder: Path) -> list[Any]:
    return sorted(programs.tensorboard(folder)[0])


@pytest.mark.parametrize("where", ["server", "client"])
def test_a_study_on_a_server_feeds_its_sinks_here(where: Any, tmp_path: Path) -> None:
    sinks: list[Sink] = [TensorBoard(tmp_path / "runs")]
    keeping = [MLflow(f"sqlite:///{tmp_path}/mlflow.db"), WandB(folder=tmp_path)] if where == "server" else []
    sinks += keeping
    with serving(tmp_path / "home") as running:
        with Study("study", Slope, url=running.url, tuner=where, code="value") as study:
            report = study.tune(tuner(), progress=False, sinks=sinks)
            assert study.to_optuna("gap", "min").best_trial.number == report.best.number
        expected = {
            (f"trial-{trial.number}", "gap", step): metrics["gap"]
            for trial in report.trials
            for step, metrics in trial.metrics.items()
        }
        expected |= {
            (f"trial-{trial.number}", "train/train_loss", step): value
            for trial in report.trials
            for step, value in report.logged(trial.number)["train_loss"]
        }
        found = {(run, name, step): value for run, name, step, value in shown(tmp_path) if "time" not in name}
        assert found == pytest.approx(expected, rel=1e-6)
        model = f"trial-{report.best.number}-step-8.pt"
        kept = [*tmp_path.rglob(model)]
        assert len(kept) == len(keeping)
        for path in kept:
            weight = torch.load(path, weights_only=True)["modules"]["model"]["weight"]
            assert abs(weight.item() - 3) == report.best.metrics["gap"]
        proxy = CuttingProxy(running.url, seed=1, most=60_000)
        try:
            arguments = ["log", "study", "--url", proxy.url, "--to", f"tensorboard:{tmp_path}/copy/runs"]
            with_model = ["--to", f"mlflow:sqlite:///{tmp_path}/copy/mlflow.db"] if keeping else []
            assert main([*arguments, *with_model]) == 0
        finally:
            proxy.close()
        assert shown(tmp_path / "copy") == shown(tmp_path)
        assert len([*(tmp_path / "copy").rglob(model)]) == len(with_model[1:])


def test_callbacks_are_called_where_the_tuner_is() -> None:
    study = Study("study", Slope, url="http://localhost:1")
    with pytest.raises(InvalidInput, match=r"the server at http://localhost:1: .* tuner='client'"):
        study.tune(tuner(), callbacks=[hippo.Callback()])
