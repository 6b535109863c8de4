"""What goes wrong in a first study is said in words: what was found, what was expected, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from hippotune.cli.main import main
from hippotune.errors import InvalidInput

STUDY = """
import hippotune as hippo

class Walk(hippo.Trainer):
    def build(self):
        self.place = 0.0

    def setup(self, hp):
        self.lr = hp["lr"]

    def train(self):
        self.place += self.lr

    def evaluate(self):
        return {"loss": self.place}

space = {"lr": [0.1, 0.2]}
tuner = hippo.GridSearch(space, "loss", "min", max_steps=3)
study = hippo.Study("first", Walk, home=HOME, executor=hippo.Local(workers=1))
"""
SETUP = STUDY[STUDY.index("    def setup") : STUDY.index("    def train")]
FAULTS = {
    "no metrics returned": (
        'return {"loss": self.place}',
        "pass",
        "expected a mapping from names to numbers",
    ),
    "a metric by another name": ('"loss", "min"', '"los", "min"', "does not return 'los'; it returns 'loss'"),
    "a forgotten super().__init__": (
        "    def build(self):",
        "    def __init__(self, settings, seed):\n        self.mine = 1\n\n    def build(self):",
        "__init__() of Walk has to call super().__init__(settings, seed); or leave it out",
    ),
    "an __init__ of its own": (
        "    def build(self):",
        "    def __init__(self):\n        self.mine = 1\n\n    def build(self):",
        "__init__() of Walk cannot be called with settings and seed: too many positional arguments",
    ),
    "a misspelt hyper-parameter": (
        '{"lr":',
        '{"lrr":',
        "NotGiven: 'lr' is no hyper-parameter of this trial; these are: 'lrr'",
    ),
    "a hyper-parameter that does not change": (
        'hp["lr"]',
        'hp["lr"] * hp["bs"]',
        "space = {",
        'space = {"bs": [1], ',
        "0.2]}",
        "hippo.MultiStep(0.1, [2])]}",
        "NotGiven: 'bs' does not change at this step; hp holds what does: 'lr'. Ask with: if 'bs' in hp",
    ),
    "a hyper-parameter that is never read": (
        'hp["lr"]',
        "0.1",
        "setup() of Walk never looks at 'lr'",
    ),
    "a function without a name beside another value": (
        "[0.1, 0.2]",
        "[0.1, hippo.Function(lambda step: 0.2)]",
        "pass steps= to ",
    ),
    "no setup": (SETUP, "", "Walk does not define setup(); a trainer needs setup(hp)"),
    "no tuner": ("tuner =", "tuned =", "defines no `tuner`; expected at its top level"),
    "a misspelt name": (
        "hippo.GridSearch",
        "hippo.Gridsearch",
        "has no attribute 'Gridsearch'; did you mean 'GridSearch'?",
    ),
    "another mode": ('"min"', '"minimize"', "mode is 'minimize'; expected one of 'max', 'min'"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all scripts are: workers of one path are forked off one process."""
    return tmp_path_factory.mktemp("scripts")


@pytest.mark.usefixtures("unrehearsed")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(
    fault: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    *changes, said = FAULTS[fault]
    text = STUDY.replace("HOME", repr(str(tmp_path)))
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    Path("study.py").write_text(text)
    main(["run", "study.py"])
    found = capsys.readouterr().err
    assert said in found
    assert "hippotune/" not in found  # no file of Hippo's own


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"executor": "local"}, "executor is 'local'; expected an executor, such as hippo.Local(workers=2)"),
        ({"executor": hippo.Local}, "expected an executor, such as hippo.Local"),
        ({"home": __file__}, "which is a file; expected a folder"),
    ],
)
def test_a_study_says_what_it_expected_before_anything_runs(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        hippo.Study("first", hippo.Trainer, **given)
    assert said in str(error.value)
