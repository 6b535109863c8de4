"""Every block of Python in docs/branching.md runs, in its order, and does what the page says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

import hippotune as hippo
from docs.pages import python
from hippotune.executors.base import Job
from hippotune.executors.local.executor import Local
from hippotune.study.alone import train_alone

TRAINER, *FIRST, EPOCHS = python("branching")

# What the page takes for granted.
GRANTED = """
import torch
from torch import nn
from torch.utils.data import TensorDataset


def read_pieces(name):
    count = {"web": 200, "math": 30, "held out": 8}[name]
    letters = torch.arange(count * 9).reshape(count, 9) * (1 + len(name)) % 7
    return TensorDataset(letters[:, :-1], letters[:, 1:])


def make_model():
    return nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7))
"""


@pytest.mark.usefixtures("unrehearsed")
def test_the_page_goes_from_a_script_to_a_finished_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes, use = EPOCHS.split("\n\n\n")
    # One worker a study: what takes time here is to start processes.
    monkeypatch.setattr(Local.__init__, "__defaults__", (1, *Local.__init__.__defaults__[1:]))  # type: ignore[misc, index]
    (tmp_path / "branching_page.py").write_text("\n\n".join([GRANTED, TRAINER, classes]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = dict(vars(importlib.import_module("branching_page")))
    try:
        for block in [*FIRST, use]:
            exec(compile(block.replace("workers=2", "workers=1"), "branching.md", "exec"), names)
    finally:
        for made in [made for made in names.values() if isinstance(made, hippo.Study)]:
            made.close()
        sys.modules.pop("branching_page")

    report = names["report"]
    assert (report.work.steps_requested, report.work.steps_unique) == (120, 27)
    job = Job(names["LanguageModel"], {}, 0)
    for trial in report.trials:
        assert trial.metrics[20] == train_alone(job, (trial.config, (20,)))[20]
    assert names["horizons"].work.steps_unique == 40 + 1 + 3
    late = names["study"]._completion(names["late"])
    assert names["metrics"] == train_alone(job, (late, (20,)))[20]
    assert names["found"]["val_loss"] != report.best.metrics["val_loss"]
    assert set(torch.load(tmp_path / "mean.pt", weights_only=True)["modules"]) == {"model"}
    assert len(names["mean"].configs) == 3
    assert names["epochs"]["val_loss"] > 0
