"""Settings of libraries are part of a trial's state: they reach no other, and checkpoints hold them."""

from __future__ import annotations

import decimal
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hippotune import Config, process_settings
from hippotune.trainers.base import Trainer
from hippotune.trainers.session import Session

SETTINGS: dict[str, Callable[[], object]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "gradients": lambda: torch.set_grad_enabled(False),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "denormals": lambda: torch.set_flush_denormal(True),
    "attention": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "a flag": lambda: setattr(torch.backends.mkldnn, "enabled", False),
    "numpy": lambda: np.seterr(all="raise"),
    "decimal": lambda: setattr(decimal.getcontext(), "prec", 5),
    "rounding": lambda: setattr(decimal.getcontext(), "rounding", decimal.ROUND_UP),
}


class Setting(Trainer):
    """Has one setting changed by its hyper-parameter, and says what is in force."""

    def build(self) -> None:
        self.at_build = process_settings.capture()

    def setup(self, hp: Mapping[str, Any]) -> None:
        if hp["changed"] != "nothing":
            SETTINGS[hp["changed"]]()

    def train(self) -> None:
        self.at_train = process_settings.capture()
        if self.settings.get("raises"):
            raise ArithmeticError("diverged")

    def evaluate(self) -> Mapping[str, float]:
        return {"changed": float(len(process_settings.capture()))}


@pytest.fixture(autouse=True)
def settings_left_alone() -> Iterator[None]:
    yield
    process_settings.restore({})


def begun(session: Session, changed: str) -> Session:
    session.start(Config({"changed": changed}), 0, None, warm=False)
    return session


@pytest.mark.parametrize("changed", SETTINGS)
def test_what_a_trial_sets_reaches_no_other_trial(changed: str) -> None:
    session = begun(Session(Setting, {}, 0), changed)
    session.advance()
    assert session.trainer.at_train  # type: ignore[attr-defined]
    begun(session, "nothing").advance()
    assert session.trainer.at_build == session.trainer.at_train == {}  # type: ignore[attr-defined]
    assert session.evaluate() == {"changed": 0}


@pytest.mark.parametrize("changed", SETTINGS)
def test_what_a_trial_has_set_is_in_its_checkpoint(changed: str) -> None:
    session = begun(Session(Setting, {}, 0), changed)
    session.advance()
    content = io.BytesIO()
    session.snapshot()(content)
    expected = session.trainer.at_train  # type: ignore[attr-defined]
    for other in (begun(session, "nothing"), Session(Setting, {}, 0)):
        process_settings.restore({})
        other.start(Config({"changed": changed}), 1, io.BytesIO(content.getvalue()), warm=False)
        other.advance()
        assert other.trainer.at_train == expected  # type: ignore[attr-defined]


def test_what_a_trial_had_set_when_it_failed_reaches_no_other() -> None:
    session = begun(Session(Setting, {"raises": True}, 0), "gradients")
    with pytest.raises(ArithmeticError):
        session.advance()
    assert begun(session, "nothing").trainer.at_build == {}  # type: ignore[attr-defined]


def test_a_setting_is_in_the_fingerprint_of_a_state() -> None:
    session = begun(Session(Setting, {}, 0), "numpy")
    leaves = {leaf.path: leaf.text for leaf in session.fingerprint().leaves}
    assert "'over': 'raise'" in leaves["the setting numpy.geterr()"]


class Careless(Setting):
    """Changes a setting while it evaluates."""

    def evaluate(self) -> Mapping[str, float]:
        np.seterr(all="raise")
        return {"loss": 1.0}


def test_evaluate_leaves_settings_as_they_are() -> None:
    session = begun(Session(Careless, {}, 0), "nothing")
    session.evaluate()
    assert process_settings.capture() == {}


class Prepared(Setting):
    """Has settings of its own from prepare() on."""

    def prepare(self) -> None:
        torch.set_default_dtype(torch.float64)


def test_what_prepare_sets_holds_for_every_trial() -> None:
    session = Session(Prepared, {}, 0)
    for changed in ("nothing", "numpy", "nothing"):
        built = begun(session, changed).trainer.at_build  # type: ignore[attr-defined]
        assert built == {"torch.get_default_dtype()": "torch.float64"}


class Importing(Setting):
    """Imports a module that sets something when it is imported, and sets something itself."""

    def build(self) -> None:
        import sets_a_dtype  # noqa: F401

        np.seterr(all="raise")
        self.at_build = process_settings.capture()


def test_what_is_set_by_what_build_imports_holds_for_every_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets_a_dtype.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\n")
    monkeypatch.syspath_prepend(tmp_path)
    session = Session(Importing, {}, 0)
    built = [begun(session, "nothing").trainer.at_build for _ in range(2)]  # type: ignore[attr-defined]
    assert [set(each) for each in built] == [{"torch.get_default_dtype()", "numpy.geterr()"}] * 2
    del sys.modules["sets_a_dtype"]


def test_a_trial_starts_in_the_folder_that_prepare_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = begun(Session(Setting, {}, 0), "nothing")
    os.chdir("/")
    begun(session, "nothing")
    assert Path.cwd() == tmp_path
