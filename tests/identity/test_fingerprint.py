"""Which edits make another plan, and which do not."""

from __future__ import annotations

import importlib
import linecache
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hippotune.identity.fingerprint import fingerprint

STUDY = '''
import functools
import json
import random

import pieces
from pieces import noise, Block

HIDDEN = 32
LAYERS = {"first": [HIDDEN, 16], "second": None}
UNUSED = 1
space = {"lr": [0.1, 0.2]}
optimizer = Block(3)
activate = functools.partial(noise, scale=2)

def loss(x):
    """How far off."""
    return abs(x - target())  # the distance

def target():
    return 5

def space_size():
    return len(space)

def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

class Base:
    momentum = 0.9
    def build(self):
        self.net = pieces.Net(HIDDEN, LAYERS)

class Digits(Base):
    """Recognise digits."""

    width = pieces.WIDTH

    @logged
    def train(self, space=None):
        from pieces import late
        self.space = space
        self.random = json.dumps(late(loss(1.0)))
        return optimizer, activate

    @property
    def size(self):
        return [noise(i) for i in range(3)]

study = ("digits", Digits, space_size())
'''

PIECES = """
import os
WIDTH = 8
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

def noise(x, scale=1):
    return x * scale

def late(x):
    return x + 1, DATA

def unused():
    return 1

class Block:
    def __init__(self, n):
        self.n = n

class Net:
    depth = 3
    def __init__(self, *sizes):
        self.sizes = sizes
"""

Fingerprint = Callable[..., str]


@pytest.fixture
def fingerprint_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fingerprint:
    """Write the two files, import them afresh and return the fingerprint of `Digits`."""

    def made(study: str = STUDY, pieces: str = PIECES, folder: str = "project") -> str:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "digits_study.py").write_text(study)
        (place / "pieces.py").write_text(pieces)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(place))
            patch.setattr(sys, "dont_write_bytecode", True)
            for name in ("digits_study", "pieces"):
                patch.delitem(sys.modules, name, raising=False)
            linecache.clearcache()
            importlib.invalidate_caches()
            return fingerprint(importlib.import_module("digits_study").Digits).digest

    return made


def edited(source: str, old: str, new: str) -> str:
    assert source.count(old) >= 1, f"{old!r} is not in the source"
    return source.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.space = space", "self.space = [space]"),
        ("def train(self, space=None)", "def train(self, space=1)"),
        ("momentum = 0.9", "momentum = 0.8"),
        ("HIDDEN = 32", "HIDDEN = 64"),
        ('"second": None', '"second": 1'),
        ("abs(x - target())", "abs(x + target())"),
        ("return 5", "return 6"),
        ("optimizer = Block(3)", "optimizer = Block(4)"),
        ("scale=2", "scale=3"),
        ("return function(*args)", "return function(*args) + 1"),
        ("range(3)", "range(4)"),
    ],
)
def test_editing_what_trains_changes_it(fingerprint_of: Fingerprint, old: str, new: str) -> None:
    assert fingerprint_of(edited(STUDY, old, new)) != fingerprint_of()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WIDTH = 8", "WIDTH = 9"),
        ("return x * scale", "return x / scale"),
        ("return x + 1, DATA", "return x + 2, DATA"),
        ("self.n = n", "self.n = n + 1"),
        ("depth = 3", "depth = 4"),
        ('"data")', '"other data")'),
    ],
)
def test_editing_what_training_imports_changes_it(fingerprint_of: Fingerprint, old: str, new: str) -> None:
    assert fingerprint_of(pieces=edited(PIECES, old, new)) != fingerprint_of()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('space = {"lr": [0.1, 0.2]}', 'space = {"lr": [0.3]}'),
        ("UNUSED = 1", "UNUSED = 2"),
        ("return len(space)", "return len(space) + 1"),
        ('study = ("digits"', 'study = ("renamed"'),
        ("  # the distance", "  # another comment"),
        ('"""Recognise digits."""', '"""Tell digits apart."""\n\n    # at length'),
        ('"""How far off."""', ""),
        (
            "return [noise(i) for i in range(3)]",
            "return [\n            noise(i)\n            for i in range(3)\n        ]",
        ),
        ("import random\n", "import random, math\n"),
        ('"first"', "'first'"),
    ],
)
def test_editing_anything_else_does_not(fingerprint_of: Fingerprint, old: str, new: str) -> None:
    assert fingerprint_of(edited(STUDY, old, new)) == fingerprint_of()


def test_editing_what_training_does_not_use_of_a_module_does_not(fingerprint_of: Fingerprint) -> None:
    pieces = edited(PIECES, "def unused():\n    return 1", "def unused():\n    return 2")
    assert fingerprint_of(pieces=pieces) == fingerprint_of()


def test_moving_the_files_does_not(fingerprint_of: Fingerprint) -> None:
    assert fingerprint_of(folder="elsewhere") == fingerprint_of()


def test_it_is_the_same_in_a_script_as_in_a_module_and_in_every_process(
    fingerprint_of: Fingerprint, tmp_path: Path
) -> None:
    expected = fingerprint_of()
    script = (
        STUDY
        + "\nfrom hippotune.identity.fingerprint import fingerprint\nprint(fingerprint(Digits).digest)\n"
    )
    (tmp_path / "project" / "script.py").write_text(script)
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "project/script.py"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        assert done.stdout.strip() == expected, done.stderr


def test_a_trainer_that_is_made_in_a_function_counts_what_it_encloses() -> None:
    def made(size: int, other: int) -> type:
        class Digits:
            def train(self) -> int:
                return size

            def evaluate(self) -> int:
                other = [1]
                return sum(other)

        return Digits

    assert fingerprint(made(1, 1)) == fingerprint(made(1, 2))
    assert fingerprint(made(1, 1)) != fingerprint(made(2, 1))


CELL = "class Digits:\n    def train(self):\n        return helper({n})\n\ndef helper(x):\n    return x\n"


def test_a_notebook_cell_is_read_as_a_file_is() -> None:
    def cell(name: str, source: str) -> type:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        names = {"__name__": "__main__"}
        exec(compile(source, name, "exec"), names)
        return names["Digits"]  # type: ignore[return-value]

    first = cell("<cell 1>", CELL.format(n=1))
    assert fingerprint(first) == fingerprint(cell("<cell 2>", "# again\n\n" + CELL.format(n=1)))
    assert fingerprint(first) != fingerprint(cell("<cell 3>", CELL.format(n=2)))


def test_without_source_compiled_code_is_read() -> None:
    def typed(source: str) -> type:
        names = {"__name__": "__main__"}
        exec(source, names)
        return names["Digits"]  # type: ignore[return-value]

    first = typed(CELL.format(n=1))
    assert fingerprint(first) == fingerprint(typed("\n\n" + CELL.format(n=1)))
    assert fingerprint(first) != fingerprint(typed(CELL.format(n=2)))
    assert fingerprint(first) != fingerprint(typed(CELL.format(n=1).replace("return x", "return -x")))
    assert fingerprint(first) != fingerprint(
        typed(CELL.format(n=1).replace(":\n    def", ":\n    n = 1\n    def", 1))
    )
