"""Arguments of the program and environment variables count where training code reads them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import Fingerprint, fingerprint
from identity.cells import Cell

READS = """
import argparse, os, sys
from os import environ, getenv
NAME = "SCALE"
def parse():
    return argparse.ArgumentParser().parse_args()
class Digits:
    def train(self):
        return {}
"""


def of(expression: str) -> Fingerprint:
    return fingerprint(Cell(READS.format(expression)).trainer)


@pytest.mark.parametrize(
    "expression",
    [
        'os.environ["SCALE"]',
        'os.environ.get("SCALE", "1")',
        'os.getenv("SCALE")',
        'environ["SCALE"]',
        'getenv("SCALE", default=None)',
        '"SCALE" in os.environ',
        "os.environ[NAME]",
        'os.environ.setdefault("SCALE", "1")',
        'float(os.environ["SCALE"]) + 1',
        '(lambda: os.environ["SCALE"])()',
        'len("x") if os.environ.get("SCALE") else 0',
    ],
)
def test_a_variable_that_is_read_counts(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    monkeypatch.setenv("SCALE", "1")
    before = of(expression)
    assert before.parts["$SCALE"] == "'1'"
    monkeypatch.setenv("OTHER", "2")
    assert of(expression) == before
    monkeypatch.setenv("SCALE", "10")
    assert of(expression).digest != before.digest


def test_a_variable_counts_where_the_function_imports_os_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'class Digits:\n    def train(self):\n        import os\n        return os.environ["SCALE"]\n'
    monkeypatch.setenv("SCALE", "1")
    before = fingerprint(Cell(source).trainer)
    monkeypatch.setenv("SCALE", "2")
    assert fingerprint(Cell(source).trainer).digest != before.digest


def test_a_variable_counts_without_source_too(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"__name__": "__main__"}
    exec(READS.format('os.environ["SCALE"]'), names)
    monkeypatch.setenv("SCALE", "1")
    before = fingerprint(names["Digits"])  # type: ignore[arg-type]
    monkeypatch.setenv("SCALE", "2")
    assert fingerprint(names["Digits"]).digest != before.digest  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "RANK", "LOCAL_RANK", "HOME", "HF_TOKEN", "WANDB_API_KEY", "HIPPO_X"]
)
def test_devices_ranks_paths_and_credentials_are_left_aside(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    before = of(f'os.environ["{name}"]')
    monkeypatch.setenv(name, "2")
    assert of(f'os.environ["{name}"]') == before


@pytest.mark.parametrize("expression", ["dict(os.environ)", "os.environ[self.name]", "os.environ.copy()"])
def test_reading_variables_without_their_names_is_refused(expression: str) -> None:
    with pytest.raises(TrainerError, match=r"Digits.train reads environment variables.*os.environ\[.NAME.\]"):
        of(expression)


def test_setting_a_variable_is_not_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'import os\nclass Digits:\n    def build(self):\n        os.environ["SCALE"] = "1"\n'
    assert "$SCALE" not in fingerprint(Cell(source).trainer).parts


@pytest.mark.parametrize("expression", ["sys.argv", "sys.argv[1]", "parse()"])
def test_arguments_count_where_they_are_read(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/study.py", "--scale", "1"])
    before = of(expression)
    monkeypatch.setattr(sys, "argv", ["/elsewhere/study.py", "--scale", "1"])
    assert of(expression) == before
    monkeypatch.setattr(sys, "argv", ["/elsewhere/study.py", "--scale", "10"])
    assert of(expression).digest != before.digest
    assert of("1") == of("1")


def test_arguments_do_not_count_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    before = of("1")
    monkeypatch.setattr(sys, "argv", ["study.py", "--scale", "10"])
    assert of("1") == before


@pytest.mark.parametrize(
    "expression",
    [
        'globals()["NAME"]',
        'eval("NAME")',
        'exec("NAME")',
        '__import__("models")',
        "sys.modules[__name__].NAME",
        'getattr(sys.modules["__main__"], "NAME")',
        "importlib.import_module(self.name)",
        'importlib.import_module(name="models")',
        "map(importlib.import_module, self.names)",
    ],
)
def test_looking_things_up_by_texts_is_refused(expression: str) -> None:
    with pytest.raises(
        TrainerError, match=r"Digits.train looks things up with .* Write the names in the code"
    ):
        fingerprint(Cell("import importlib\n" + READS.format(expression)).trainer)


def test_looking_things_up_is_refused_without_source_too() -> None:
    names = {"__name__": "__main__"}
    exec("import importlib\n" + READS.format('importlib.import_module("models")'), names)
    with pytest.raises(TrainerError, match=r"importlib\.import_module"):
        fingerprint(names["Digits"])  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", ["self.model.eval()", "torch.exec()", "self.globals()", "locals()"])
def test_methods_of_such_names_are_others(expression: str) -> None:
    assert of(expression).digest


def test_a_module_that_is_imported_by_its_name_as_a_text_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = "import importlib\n" + READS.format('importlib.import_module("models_by_text").RATE')
    seen = set()
    for rate in (1, 2):
        (tmp_path / "models_by_text.py").write_text(f"RATE = {rate}{'0' * rate}\n")
        monkeypatch.delitem(sys.modules, "models_by_text", raising=False)
        importlib.invalidate_caches()
        seen.add(fingerprint(Cell(source).trainer).digest)
    assert len(seen) == 2
    assert fingerprint(Cell("import importlib\n" + READS.format('importlib.import_module("json")')).trainer)
