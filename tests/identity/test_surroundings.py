"""Arguments of the program and environment variables count where training code reads them."""

from __future__ import annotations

import sys

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
        '__import__("x") if os.environ.get("SCALE") else 0',
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
