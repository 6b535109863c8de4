"""What training changes outside of its trainer is refused by name, whatever name it was changed by."""

from __future__ import annotations

import pytest

from hippotune.errors import TrainerError
from identity.cells import Cell, trained

FRAME = """
import collections, random, types
import numpy as np
COUNT = 0
CACHE = [0]
STATE = {{"x": 1, "inner": [1]}}
DEFAULTS = collections.defaultdict(list)
ARRAY = np.zeros(3)
SPACE = types.SimpleNamespace(n=1)

class Tracker:
    def __init__(self):
        self.seen = []
        self.n = 0
    def update(self, x):
        self.n += x
    def indirectly(self, x):
        self.seen.append(x)
    def mean(self):
        found = list(self.seen)
        found.append(1)
        return found
TRACKER = Tracker()

def helper(x, seen=[], *, known={{}}):
    {helper}
    return x

class Base:
    made = [0]

class Digits(Base):
    count = 0
    history = []
    own = []
    def build(self):
        self.own = []
        self.items = []
    def train(self):
        {train}
    @classmethod
    def tally(cls):
        cls.count += 1
"""


def refused(train: str, helper: str = "pass") -> str:
    with pytest.raises(TrainerError, match=r"training has changed .*Keep it on self") as error:
        trained(Cell(FRAME.format(train=train, helper=helper)).trainer)
    return str(error.value)


@pytest.mark.parametrize(
    ("train", "change"),
    [
        ("global COUNT; COUNT += 1", "COUNT: 0 -> 1"),
        ("CACHE.append(1)", "CACHE: [0] -> [0, 1]"),
        ("CACHE[0] = 1", "CACHE: [0] -> [1]"),
        ("del CACHE[0]", "CACHE: [0] -> []"),
        ('STATE["x"] = 2', "STATE: "),
        ('STATE["inner"].append(1)', "STATE: "),
        ('DEFAULTS["x"].append(1)', "DEFAULTS: "),
        ("STATE.setdefault('y', 1)", "STATE: "),
        ("ARRAY[0] = 1", "ARRAY: "),
        ("ARRAY.fill(1)", "ARRAY: "),
        ("SPACE.n += 1", "SPACE: "),
        ("helper.calls = 1", "helper.calls: new"),
        ("TRACKER.update(1)", "TRACKER: "),
        ("TRACKER.indirectly(1)", "TRACKER: "),
        ("TRACKER.seen.append(1)", "TRACKER: "),
        ("Digits.count += 1", "Digits.count: 0 -> 1"),
        ("type(self).count += 1", "Digits.count: 0 -> 1"),
        ("self.__class__.count = 1", "Digits.count: 0 -> 1"),
        ("__class__.count = 1", "Digits.count: 0 -> 1"),
        ("self.tally()", "Digits.count: 0 -> 1"),
        ("self.history.append(1)", "Digits.history: [] -> [1]"),
        ("self.made[0] = 1", "Base.made: [0] -> [1]"),
        ("[CACHE.append(x) for x in range(3)]", "CACHE: [0] -> [0, 0, 1, 2]"),
        ("(lambda: CACHE.append(1))()", "CACHE: [0] -> [0, 1]"),
        ("for STATE['x'] in range(3): pass", "STATE: "),
        ("known = CACHE; known.append(1)", "CACHE: [0] -> [0, 1]"),
    ],
)
def test_a_change_outside_of_the_trainer_is_refused_by_name(train: str, change: str) -> None:
    assert change in refused(train)


@pytest.mark.parametrize(
    ("helper", "change"),
    [
        ("CACHE.append(x)", "CACHE: [0] -> [0, 1]"),
        ("seen.append(x)", "helper(seen=): [] -> [1]"),
        ("known[x] = 1", "helper(known=): {} -> {1: 1}"),
    ],
)
def test_a_change_in_what_training_calls_is_refused(helper: str, change: str) -> None:
    assert change in refused("helper(1)", helper)


@pytest.mark.parametrize("change", ["nonlocal n; n += 1", "seen.append(1)"])
def test_a_change_of_what_is_enclosed_is_refused(change: str) -> None:
    source = (
        "def make():\n    n, seen = 0, []\n    class Digits:\n        def build(self): pass\n"
        f"        def train(self):\n            {change}\n            return n, seen\n    return Digits\n"
        "Digits = make()\n"
    )
    with pytest.raises(TrainerError, match=r"train\[(n|seen)\]: (0 -> 1|\[\] -> \[1\])"):
        trained(Cell(source).trainer)


@pytest.mark.parametrize(
    "train",
    [
        "CACHE = []; CACHE.append(1); CACHE[0] = 1",
        "[CACHE.append(1) for CACHE in [[]]]",
        "self.items.append(1); self.count = 1; self.x = {}; self.x['a'] = 1",
        "self.own.append(1)",
        "self.count += 1",
        "random.random(); np.random.rand()",
        "TRACKER.mean()",
        "CACHE.index(0); STATE.get('x'); CACHE.copy().append(1)",
        "ARRAY.sum()",
        "found = {}; found['a'] = CACHE; found.update(STATE)",
    ],
)
def test_nothing_else_is(train: str) -> None:
    trained(Cell(FRAME.format(train=train, helper="pass")).trainer)
