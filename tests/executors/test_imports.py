"""The garbage collector rests while processes import; a trainer's modules may set it up as they like."""

from __future__ import annotations

import gc
import importlib
import os
from pathlib import Path

import pytest
import torch

import hippotune as hippo
from hippotune.executors.local import fork_server
from hippotune.gc_pause import gc_paused_for_imports
from hippotune.trainers.session import Session

TRAINER = """
import gc
from pathlib import Path

import hippotune as hippo

with Path(__file__).with_name("thresholds").open("a") as file:
    print(gc.get_threshold()[0], file=file)


class Seen(hippo.Trainer):
    def build(self): ...
    def setup(self, hp): self.lr = hp["lr"]
    def train(self): ...
    def evaluate(self): return {"training": gc.get_threshold()[0]}
"""

USUAL = gc.get_threshold()[0]  # in a process whose modules have set nothing


def test_the_collector_rests_while_processes_import_a_trainer_and_runs_while_they_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "collector_seen.py").write_text(TRAINER)
    monkeypatch.syspath_prepend(tmp_path)
    trainer = importlib.import_module("collector_seen").Seen
    with hippo.Study("seen", trainer, home=tmp_path, executor=hippo.Local(workers=1)) as study:
        found = study.eval({"lr": 0.1}, 1), study.alone({"lr": 0.1}, 1)
    here, *elsewhere = map(int, (tmp_path / "thresholds").read_text().split())
    assert here == gc.get_threshold()[0]
    assert found == ({"training": USUAL},) * 2
    assert len(elsewhere) >= 2
    assert min(elsewhere) > 1_000_000


@pytest.mark.parametrize("threshold", [5, 0])
def test_what_a_module_sets_up_when_it_is_imported_holds(threshold: int) -> None:
    before = gc.get_threshold()
    try:
        with gc_paused_for_imports():
            gc.disable()
            gc.set_threshold(threshold)
        assert not gc.isenabled()
        assert gc.get_threshold()[0] == threshold
    finally:
        gc.enable()
        gc.set_threshold(*before)


def test_the_collector_is_then_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ImportError), gc_paused_for_imports():
        importlib.import_module("no_module_of_this_name")
    assert gc.get_threshold() == before


def test_what_a_trainer_sets_in_this_process_has_nothing_imported_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = fork_server.warm_up(os.environ, ["json"])
    train_on_torch()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"]
    assert fork_server.warm_up(os.environ, ["json"]) is before


def train_on_torch() -> None:
    """Train a step here, as for a plain loop."""
    session = Session(OnTorch, {}, 0)
    session.start(hippo.Config({"lr": 0.1}), 0, None, warm=False)
    session.advance()


class OnTorch(hippo.TorchTrainer):
    def build(self) -> None:
        self.model = torch.nn.Linear(1, 1)

    def setup(self, hp: dict[str, float]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None: ...

    def evaluate(self) -> dict[str, float]:
        return {"loss": 0.0}
