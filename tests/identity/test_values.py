"""Whatever training code reads is part of the plan's identity, or refused by name."""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import os
import random
import re
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import Fingerprint, fingerprint
from identity.cells import Cell

READS = """
class Digits:
    def train(self):
        return helper(VALUE)

def helper(x):
    return x
"""

PRELUDE = """
import dataclasses, enum, collections

@dataclasses.dataclass
class Config:
    lr: float = 0.1
    sizes: list = dataclasses.field(default_factory=list)

class Color(enum.Enum):
    RED = 1
    BLUE = 2

class Slotted:
    __slots__ = ("x",)
    def __init__(self, x):
        self.x = x

class Words(list):
    pass

class Data:
    def __init__(self, *items):
        self.items = list(items)
    def __len__(self):
        return len(self.items)
    @functools.cached_property
    def total(self):
        return sum(self.items)

def added(data):
    data.total
    return data

Point = collections.namedtuple("Point", "x y")

def scaled(n):
    def inner(x):
        return x * n
    return inner
"""


def of(source: str, **names: Any) -> Fingerprint:
    return fingerprint(Cell(source, **names).trainer)


def made(expression: str) -> Fingerprint:
    names: dict[str, Any] = {"np": np, "functools": functools, "types": types, "re": re}
    return of(f"{PRELUDE}\nVALUE = {expression}\n{READS}", **names, Path=Path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("True", "1"),
        ("'a'", "b'a'"),
        ("[1, [2]]", "[1, [3]]"),
        ("{'a': {1, 2}}", "{'a': {1, 3}}"),
        ("Config(0.1)", "Config(0.2)"),
        ("Config(0.1, [1])", "Config(0.1, [2])"),
        ("Color.RED", "Color.BLUE"),
        ("Slotted(1)", "Slotted(2)"),
        ("Words('a')", "Words('b')"),
        ("Point(1, 2)", "Point(1, 3)"),
        ("types.SimpleNamespace(a=1)", "types.SimpleNamespace(a=2)"),
        ("Path('a')", "Path('b')"),
        ("re.compile('a')", "re.compile('a', re.I)"),
        ("np.arange(3)", "np.arange(3.0)"),
        ("np.array([1, 'a'], dtype=object)", "np.array([1, 'b'], dtype=object)"),
        ("np.float32(1)", "np.float64(1)"),
        ("functools.partial(int, base=2)", "functools.partial(int, base=3)"),
        ("functools.lru_cache(scaled(1))", "functools.lru_cache(scaled(2))"),
        ("lambda x: x", "lambda x: -x"),
        ("scaled(1)", "scaled(2)"),
        ("[scaled(1), scaled(2)]", "[scaled(2), scaled(1)]"),
        ("scaled", "scaled(1)"),
        ("Data(1)", "Data(2)"),
        ("functools.reduce", "functools.partial"),
        ("range(3)", "range(4)"),
    ],
)
def test_a_global_counts_by_its_content(one: str, other: str) -> None:
    assert made(one) == made(one)
    assert made(one).digest != made(other).digest


def test_what_a_cached_property_has_kept_does_not_count() -> None:
    assert made("added(Data(1, 2))") == made("Data(1, 2)")


def test_an_object_that_refers_to_itself_can_be_identified() -> None:
    assert made("(lambda d: (d.items.append(d), d)[1])(Data(1))") == made(
        "(lambda d: (d.items.append(d), d)[1])(Data(1))"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (logging.getLogger("a"), logging.getLogger("a")),
        (threading.Lock(), threading.Lock()),
        (threading.Event(), threading.Event()),
        (sys.stdout, sys.stdout),
        (random.random, random.random),
        (random.randint, random.randint),
        (np.random.rand, np.random.rand),
        (os, os),
    ],
)
def test_modules_loggers_locks_and_streams_count_by_name(one: Any, other: Any) -> None:
    assert of(READS, VALUE=one) == of(READS, VALUE=other)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (iter([1]), r"VALUE, of type builtins.list_iterator.*iterator"),
        ((x for x in ()), r"VALUE, of type builtins.generator"),
        (itertools.count(), r"itertools.count"),
        (random.Random(0), r"VALUE, of type random.Random.*random generator.*build\(\)"),
        (np.random.default_rng(0), r"numpy.random.*random generator"),
        (
            {"a": [threading.local()]},
            r"VALUE \(at VALUE\['a'\]\[0\]\), of type _thread._local.*cannot be pickled",
        ),
        (types.SimpleNamespace(x=memoryview(b"")), r"VALUE.x"),
    ],
)
def test_what_cannot_be_identified_is_refused_by_name_and_type(value: object, message: str) -> None:
    with pytest.raises(TrainerError, match=message) as error:
        of(READS, VALUE=value)
    assert "Digits.train reads VALUE" in str(error.value)
    assert "settings=" in str(error.value)
    assert "version=" in str(error.value)


ARGUMENTS = """
class Digits:
    def train(self):
        return args.lr * args.inner.scale
"""
WHOLE = ARGUMENTS + "    def evaluate(self):\n        return vars(args)\n"


def test_of_a_namespace_the_attributes_that_are_read_count() -> None:
    def namespace(**given: Any) -> argparse.Namespace:
        inner = argparse.Namespace(scale=given.pop("scale", 1), other=given.pop("other", 1))
        return argparse.Namespace(**{"lr": 0.1, "out": "a", "inner": inner, **given})

    before = of(ARGUMENTS, args=namespace())
    assert before.parts["args.inner.scale"] == "1"
    assert of(ARGUMENTS, args=namespace(out="b", other=2)) == before
    assert of(ARGUMENTS, args=namespace(lr=0.2)).digest != before.digest
    assert of(ARGUMENTS, args=namespace(scale=10)).digest != before.digest
    assert of(WHOLE, args=namespace(out="a")).digest != of(WHOLE, args=namespace(out="b")).digest


@pytest.mark.parametrize(
    "source",
    [
        "class Digits:\n    n = {}\n    def train(self): return self.n\n",
        "class Base:\n    n = [{}]\nclass Digits(Base):\n    def train(self): return 1\n",
        "class Digits:\n    def train(self, n={}): return n\n",
        "class Digits:\n    def train(self, *, n=({},)): return n\n",
        "def add(x, n={}): return x + n\nclass Digits:\n    def train(self): return add(1)\n",
        "def make(n):\n    class Digits:\n        def train(self): return n\n    return Digits\n"
        "Digits = make({})\n",
        "class Digits:\n    def train(self): return helper.n\ndef helper(): pass\nhelper.n = {}\n",
        "class Inner:\n    n = {}\nclass Digits:\n    def train(self): return Inner().n\n",
    ],
)
def test_defaults_closures_and_attributes_of_classes_and_functions_count(source: str) -> None:
    first = of(source.replace("{}", "3"))
    assert first == of(source.replace("{}", "3"))
    assert first.digest != of(source.replace("{}", "4")).digest


def test_values_count_as_they_are_now_and_not_as_they_were_written() -> None:
    cell = Cell("RATE = 1\nclass Digits:\n    size = 1\n    def train(self): return RATE\n")
    before = fingerprint(cell.trainer)
    cell.names["RATE"] = 2
    after = fingerprint(cell.trainer)
    assert (before.parts["RATE"], after.parts["RATE"]) == ("1", "2")
    cell.trainer.size = 2  # type: ignore[attr-defined]
    assert fingerprint(cell.trainer).digest != after.digest


def test_a_decorator_counts_as_what_it_makes() -> None:
    source = """
import functools
def times(n):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(self):
            return n * function(self)
        return wrapper
    return decorate
class Digits:
    @times(N)
    def train(self):
        return 1
"""
    assert of(source, N=1) == of(source, N=1)
    assert of(source, N=1).digest != of(source, N=2).digest
    assert of(source, N=1).digest != of(source.replace("return 1", "return 2"), N=1).digest
    assert of(source, N=1).digest != of(source.replace("return n *", "return n +"), N=1).digest


def test_source_that_was_edited_since_it_was_run_does_not_speak_for_the_code(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text("class Digits:\n    def train(self):\n        return 1\n")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    before = fingerprint(names["Digits"])
    file.write_text("class Digits:\n    def train(self):\n        return 20\n")
    assert fingerprint(names["Digits"]) == before
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert fingerprint(names["Digits"]).digest != before.digest


def test_secrets_are_not_written_down() -> None:
    source = "class Digits:\n    def train(self): return API_TOKEN\n"
    assert "hush" not in str(of(source, API_TOKEN="hush").parts)
