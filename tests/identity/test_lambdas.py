"""Functions that share a line, a name or a place: the one that is used decides, in every process alike."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys

import pytest

from hippotune import Function, Grid, GridSearch
from hippotune.identity.fingerprint import fingerprint, parts_of_object
from identity.cells import Cell

# In each of them IS_A chooses what training calls.
SHAPES = {
    "a condition": "act = (lambda v: v * 2) if IS_A else (lambda v: v * 3)",
    "a condition over lines": "act = (lambda v:\n    v * 2) if IS_A else (lambda v:\n    v * 3)",
    "two statements": "f = lambda v: v * 2; g = lambda v: v * 3\nact = f if IS_A else g",
    "a dict": 'act = {"a": lambda v: v * 2, "b": lambda v: v * 3}["a" if IS_A else "b"]',
    "a dict over lines": 'act = {\n"a": lambda v: v * 2,\n"b": lambda v: v * 3,\n}["a" if IS_A else "b"]',
    "a list": "acts = [lambda v: v * 2, lambda v: v * 3]\nact = acts[not IS_A]",
    "both, in another order": "acts = [lambda v: v * 2, lambda v: v * 3]\nact = acts[:: 1 if IS_A else -1]",
    "two names": "f, g = (lambda v: v * 2), (lambda v: v * 3)\nact = (f, g) if IS_A else (g, f)",
    "in a function": "def made():\n    return (lambda v: v * 2), (lambda v: v * 3)\nact = made()[not IS_A]",
    "in a lambda": "made = lambda: ((lambda v: v * 2), (lambda v: v * 3))\nact = made()[not IS_A]",
    "in a class": "class Acts:\n    both = (lambda v: v * 2), (lambda v: v * 3)\nact = Acts.both[not IS_A]",
    "a comprehension with defaults": "act = [lambda v, k=k: v * k for k in (2, 3)][not IS_A]",
    "a comprehension with closures": "act = [(lambda k: lambda v: v * k)(k) for k in (2, 3)][not IS_A]",
    "a comprehension over both": "act = [f for f in ((lambda v: v * 2), (lambda v: v * 3))][not IS_A]",
    "a comprehension of both": "act = [((lambda v: v * 2), (lambda v: v * 3)) for _ in 'x'][0][not IS_A]",
    "a generator": "act = list((lambda v: v * 2, lambda v: v * 3) for _ in 'x')[0][not IS_A]",
    "a partial": "import functools\nact = functools.partial((lambda v: 2) if IS_A else (lambda v: 3))",
    "a default": "def act(v, f=(lambda v: v * 2) if IS_A else (lambda v: v * 3)):\n    return f(v)",
    "a default by name": "def act(*, f=(lambda v: v * 2) if IS_A else (lambda v: v * 3)):\n    return f",
    "a closure": "def of(f): return lambda v: f(v)\nact = of((lambda v: 2) if IS_A else (lambda v: 3))",
    "an attribute": "def act(v):\n    return act.f(v)\nact.f = (lambda v: 2) if IS_A else (lambda v: 3)",
    "a decorator": (
        "def by(f):\n    return lambda g: lambda v: f(g(v))\n"
        "@by((lambda v: v * 2) if IS_A else (lambda v: v * 3))\ndef act(v):\n    return v"
    ),
    "a static method": "class act:\n    f = staticmethod((lambda v: v * 2) if IS_A else (lambda v: v * 3))",
    "a property": "class act:\n    f = property((lambda v: 2) if IS_A else (lambda v: 3))",
    "a method": "class act:\n    f = (lambda self: 2) if IS_A else (lambda self: 3)",
    "functions of one name": "if IS_A:\n    def act(v): return 2\nelse:\n    def act(v): return 3",
    "functions of two names": "def f(v): return v * 2\ndef g(v): return v * 3\nact = f if IS_A else g",
    "all arguments or one": "act = (lambda *v: v) if IS_A else (lambda v: v)",
    "all or all by name": "act = (lambda *v: v) if IS_A else (lambda **v: v)",
    "by name": "act = (lambda v, k: v) if IS_A else (lambda v, *, k: v)",
    "by place": "act = (lambda v, k: v) if IS_A else (lambda v, /, k: v)",
    "kinds of numbers": "act = (lambda v: v * 1) if IS_A else (lambda v: v * True)",
    "signs of zero": "act = (lambda v: v * 0.0) if IS_A else (lambda v: v * -0.0)",
    "names": "one = two = 1\nact = (lambda v: one) if IS_A else (lambda v: two)",
    "methods": "act = (lambda v: v.min()) if IS_A else (lambda v: v.max())",
}
TRAINER = "\nclass Digits:\n    def train(self):\n        return act\n"


def digest_of(shape: str, is_a: bool, has_source: bool = True) -> str:
    cell = Cell(SHAPES[shape] + TRAINER, IS_A=is_a)
    if not has_source:
        del linecache.cache[cell.file]
    return fingerprint(cell.trainer).digest


def all_digests() -> dict[str, list[str]]:
    return {shape: [digest_of(shape, True), digest_of(shape, False)] for shape in SHAPES}


@pytest.mark.parametrize("has_source", [True, False], ids=["with source", "without"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_is_not_taken_for_the_other_one(shape: str, has_source: bool) -> None:
    assert digest_of(shape, True, has_source) == digest_of(shape, True, has_source)
    assert digest_of(shape, True, has_source) != digest_of(shape, False, has_source)


def test_it_is_the_same_one_in_every_process() -> None:
    program = "import json\nfrom identity.test_lambdas import *\nprint(json.dumps(all_digests()))"
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
        assert json.loads(done.stdout) == all_digests()


def test_filters_and_sequences_of_a_tuner_that_share_a_line_are_told_apart() -> None:
    filters = (lambda hp: hp["lr"] > 0.1), (lambda hp: hp["lr"] < 0.3)
    curves = (lambda step: 0.1), (lambda step: 0.2)
    by_filter = [GridSearch(Grid({"lr": [0.1, 0.2, 0.3]}, each), "loss", "min", 4) for each in filters]
    by_curve = [GridSearch({"lr": [Function(each)]}, "loss", "min", 4) for each in curves]
    for one, other in (by_filter, by_curve):
        assert parts_of_object(one) == parts_of_object(one)
        assert parts_of_object(one) != parts_of_object(other)
