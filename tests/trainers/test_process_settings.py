"""Settings of libraries are part of a trial's state: they reach no other, and checkpoints hold them."""

from __future__ import annotations

import decimal
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hippotune import Config
from hippotune.identity import library_settings
from hippotune.trainers.base import Trainer
from hippotune.trainers.loading import load_trainer
from hippotune.trainers.session import Session

Change = Callable[[], object]
Read = Callable[[], object]

TINY, ONE = 5e-324, 1.0


def flag(path: str, value: object) -> tuple[Change, Read]:
    """A setting that is an attribute of torch."""
    owner, name = path.rsplit(".", 1)
    return lambda: setattr(attrgetter(owner)(torch), name, value), lambda: attrgetter(path)(torch)


SETTINGS: dict[str, tuple[Change, Read]] = {
    "dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "medium": (lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision),
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "anomalies": (lambda: torch.autograd.set_detect_anomaly(True), torch.is_anomaly_enabled),
    "denormals": (lambda: torch.set_flush_denormal(True), lambda: TINY * ONE > 0),
    "autocast": (
        lambda: torch.set_autocast_enabled("cpu", True),
        lambda: torch.is_autocast_enabled("cpu"),
    ),
    "attention": (
        lambda: torch.backends.cuda.enable_flash_sdp(False),
        torch.backends.cuda.flash_sdp_enabled,
    ),
    "fast path": (
        lambda: torch.backends.mha.set_fastpath_enabled(False),
        torch.backends.mha.get_fastpath_enabled,
    ),
    "oneDNN": flag("backends.mkldnn.enabled", False),
    "TF32": flag("backends.cuda.matmul.allow_tf32", True),
    "precision": flag("backends.fp32_precision", "tf32"),
    "precision on CPU": flag("backends.mkldnn.matmul.fp32_precision", "bf16"),
    "precision of convolutions": flag("backends.cudnn.conv.fp32_precision", "ieee"),
    "numpy": (lambda: np.seterr(all="raise"), np.geterr),
    "decimal": (
        lambda: setattr(decimal.getcontext(), "prec", 5),
        lambda: decimal.getcontext().prec,
    ),
    "rounding": (
        lambda: setattr(decimal.getcontext(), "rounding", decimal.ROUND_UP),
        lambda: decimal.getcontext().rounding,
    ),
}


def in_force() -> dict[str, str]:
    """What the libraries themselves say."""
    found = {}
    for name, (_, read) in SETTINGS.items():
        with suppress(RuntimeError):  # torch does not say what the old functions mean beside the new fields
            found[name] = str(read())
    return found


USUAL = in_force()


class Setting(Trainer):
    """Has one setting changed by its hyper-parameter, and says what is in force."""

    def build(self) -> None:
        self.at_build = in_force()

    def setup(self, hp: Mapping[str, Any]) -> None:
        if hp["changed"] != "nothing":
            SETTINGS[hp["changed"]][0]()

    def train(self) -> None:
        self.at_train = in_force()
        if self.settings.get("raises"):
            raise ArithmeticError("diverged")

    def evaluate(self) -> Mapping[str, float]:
        return {"changed": float(in_force() != USUAL)}


@pytest.fixture(autouse=True)
def settings_left_alone() -> Iterator[None]:
    before = library_settings.capture()
    yield
    library_settings.restore(before)


def begun(session: Session, changed: str) -> Session:
    session.start(Config({"changed": changed}), 0, None, warm=False)
    return session


@pytest.mark.parametrize("changed", SETTINGS)
def test_what_a_trial_sets_reaches_no_other_trial(changed: str) -> None:
    session = begun(Session(Setting, {}, 0), changed)
    session.advance()
    assert session.trainer.at_train != USUAL  # type: ignore[attr-defined]
    begun(session, "nothing").advance()
    assert session.trainer.at_build == session.trainer.at_train == USUAL  # type: ignore[attr-defined]
    assert session.evaluate() == {"changed": 0}


@pytest.mark.parametrize("changed", SETTINGS)
def test_what_a_trial_has_set_is_in_its_checkpoint(changed: str) -> None:
    session = begun(Session(Setting, {}, 0), changed)
    session.advance()
    content = io.BytesIO()
    session.snapshot()(content)
    expected = session.trainer.at_train  # type: ignore[attr-defined]
    for other in (begun(session, "nothing"), Session(Setting, {}, 0)):
        other.start(Config({"changed": changed}), 1, io.BytesIO(content.getvalue()), warm=False)
        other.advance()
        assert other.trainer.at_train == expected  # type: ignore[attr-defined]


def test_what_a_trial_had_set_when_it_failed_reaches_no_other() -> None:
    session = begun(Session(Setting, {"raises": True}, 0), "gradients")
    with pytest.raises(ArithmeticError):
        session.advance()
    assert begun(session, "nothing").trainer.at_build == USUAL  # type: ignore[attr-defined]


class Careless(Setting):
    """Changes a setting while it evaluates."""

    def evaluate(self) -> Mapping[str, float]:
        np.seterr(all="raise")
        return {"loss": 1.0}


def test_evaluate_leaves_settings_as_they_are() -> None:
    session = begun(Session(Careless, {}, 0), "nothing")
    session.evaluate()
    assert in_force() == USUAL


class Prepared(Setting):
    """Has settings of its own from prepare() on."""

    def prepare(self) -> None:
        torch.set_default_dtype(torch.float64)


def test_what_prepare_sets_holds_for_every_trial() -> None:
    session = Session(Prepared, {}, 0)
    for changed in ("nothing", "numpy", "nothing"):
        built = begun(session, changed).trainer.at_build  # type: ignore[attr-defined]
        assert built == USUAL | {"dtype": "torch.float64"}


class Importing(Setting):
    """Imports a module of the user's where it is told to."""

    def _import(self, where: str) -> None:
        if self.settings["where"] == where:
            import sets_a_dtype  # noqa: F401

    def build(self) -> None:
        self._import("build")
        super().build()

    def setup(self, hp: Mapping[str, Any]) -> None:
        super().setup(hp)
        self._import("setup")

    def train(self) -> None:
        self._import("train")
        super().train()

    def evaluate(self) -> Mapping[str, float]:
        self._import("evaluate")
        return super().evaluate()


@pytest.fixture
def module_that_sets_a_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "sets_a_dtype.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("sets_a_dtype", None)


@pytest.mark.usefixtures("module_that_sets_a_dtype")
@pytest.mark.parametrize("where", ["build", "setup", "train", "evaluate"])
def test_what_an_import_sets_holds_from_then_on(where: str) -> None:
    session = begun(Session(Importing, {"where": where}, 0), "nothing")
    session.advance()
    session.evaluate()
    assert in_force()["dtype"] == "torch.float64"
    begun(session, "numpy").advance()
    assert session.trainer.at_build == USUAL | {"dtype": "torch.float64"}  # type: ignore[attr-defined]


class Both(Setting):
    """Imports a module that sets nothing in the call that sets something."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        super().setup(hp)
        import sets_nothing  # noqa: F401


@pytest.mark.parametrize("changed", ["dtype", "numpy"])
def test_a_module_that_sets_nothing_makes_a_trials_settings_nobody_elses(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets_nothing.py").write_text("import sets_nothing_either\n")
    (tmp_path / "sets_nothing_either.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    session = begun(Session(Both, {}, 0), changed)
    monkeypatch.delitem(sys.modules, "sets_nothing")
    session.advance()
    assert begun(session, "nothing").trainer.at_build == USUAL  # type: ignore[attr-defined]


class Failing(Importing):
    def train(self) -> None:
        super().train()
        raise ArithmeticError("diverged")


@pytest.mark.usefixtures("module_that_sets_a_dtype")
def test_what_an_import_sets_holds_where_the_trial_fails_that_imported() -> None:
    session = begun(Session(Failing, {"where": "train"}, 0), "nothing")
    with pytest.raises(ArithmeticError):
        session.advance()
    built = begun(session, "nothing").trainer.at_build  # type: ignore[attr-defined]
    assert built == USUAL | {"dtype": "torch.float64"}


@pytest.mark.parametrize("first", SETTINGS)
def test_whatever_is_changed_is_put_back_to_any_state(first: str) -> None:
    SETTINGS[first][0]()
    before, captured = in_force(), library_settings.capture()
    for change, _ in SETTINGS.values():
        change()
    library_settings.restore(captured)
    assert before.items() <= in_force().items()  # an old function may be readable that was not


class Held:
    """Imports a module where it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _held, ()


def _held() -> Held:
    import sets_a_dtype  # noqa: F401

    return Held()


class Holding(Setting):
    def build(self) -> None:
        super().build()
        self.held = Held()


@pytest.mark.usefixtures("module_that_sets_a_dtype")
def test_what_a_load_imports_holds_from_then_on() -> None:
    session, content = begun(Session(Holding, {}, 0), "nothing"), io.BytesIO()
    session.advance()
    session.snapshot()(content)
    sys.modules.pop("sets_a_dtype", None)
    other = Session(Holding, {}, 0)
    other.start(Config({"changed": "nothing"}), 1, io.BytesIO(content.getvalue()), warm=False)
    begun(other, "nothing")
    assert other.trainer.at_build["dtype"] == "torch.float64"  # type: ignore[attr-defined]


def test_a_state_that_a_user_loads_leaves_the_settings_of_the_process_alone() -> None:
    session, content = begun(Session(Setting, {}, 0), "dtype"), io.BytesIO()
    session.snapshot()(content)
    config = Config({"changed": "dtype"})
    library_settings.restore({"torch.get_default_dtype()": "torch.float32"})

    def opened() -> io.BytesIO:
        return io.BytesIO(content.getvalue())

    loaded = load_trainer(Setting, {}, 0, None, config, 0, opened)
    assert isinstance(loaded, Setting)
    assert in_force() == USUAL


def test_a_trial_starts_in_the_folder_that_prepare_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = begun(Session(Setting, {}, 0), "nothing")
    os.chdir("/")
    begun(session, "nothing")
    assert Path.cwd() == tmp_path
