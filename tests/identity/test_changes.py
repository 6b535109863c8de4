"""What training code changes outside of its trainer is refused by name; nothing else is."""

from __future__ import annotations

import pytest
import torch

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import fingerprint
from identity.cells import Cell

FRAME = """
import collections, logging, os, random, types
import numpy as np
import torch
from sys import path
COUNT = 0
CACHE = []
STATE = {{"x": 1, "inner": [1]}}
DEFAULTS = collections.defaultdict(list)
ARRAY = np.zeros(3)
TENSOR = torch.zeros(3)
MODEL = torch.nn.Linear(1, 1)
SPACE = types.SimpleNamespace(n=1)
LOG = logging.getLogger("x")

class Tracker:
    def __init__(self):
        self.seen = []
        self.n = 0
    def update(self, x):
        self.n += x
    def add(self, x):
        self.seen.append(x)
    def indirectly(self, x):
        self.add(x)
    def mean(self):
        found = list(self.seen)
        found.append(1)
        return found
TRACKER = Tracker()

REGISTRY = {{}}
def register(cls):
    REGISTRY[cls.__name__] = cls
    return cls

class Base:
    registry = {{}}
    made = []
    def __init_subclass__(cls):
        Base.registry[cls.__name__] = cls
    @classmethod
    def announce(cls, other):
        cls.registry["other"] = other
        return other

def helper(x, seen=[], *, known={{}}):
    {helper}
    return x

@register
@Base.announce
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
        {tally}
"""


def refused(train: str = "pass", helper: str = "pass", tally: str = "pass") -> str:
    cell = Cell(FRAME.format(train=train, helper=helper, tally=tally))
    with pytest.raises(TrainerError) as error:
        fingerprint(cell.trainer)
    assert "Keep it on self" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("train", "name"),
    [
        ("global COUNT; COUNT += 1", "the global COUNT"),
        ("global COUNT; COUNT = 3", "the global COUNT"),
        ("global NEW; NEW = 3", "the global NEW"),
        ("CACHE.append(1)", "the global CACHE"),
        ("CACHE[0] = 1", "the global CACHE"),
        ("del CACHE[0]", "the global CACHE"),
        ('STATE["x"] = 1', "the global STATE"),
        ('STATE["x"] += 1', "the global STATE"),
        ('STATE["inner"].append(1)', "the global STATE"),
        ('DEFAULTS["x"].append(1)', "the global DEFAULTS"),
        ("STATE.setdefault('x', 1)", "the global STATE"),
        ("ARRAY[0] = 1", "the global ARRAY"),
        ("ARRAY.fill(1)", "the global ARRAY"),
        ("TENSOR.add_(1)", "the global TENSOR"),
        ("MODEL.zero_grad()", "the global MODEL"),
        ("SPACE.n = 2", "the global SPACE.n"),
        ("helper.calls = 1", "the global helper.calls"),
        ("TRACKER.update(1)", "the global TRACKER"),
        ("TRACKER.indirectly(1)", "the global TRACKER"),
        ("TRACKER.seen.append(1)", "the global TRACKER.seen"),
        ("Digits.count += 1", "the global Digits.count"),
        ("type(self).count += 1", "Digits.count"),
        ("self.__class__.count = 1", "Digits.count"),
        ("__class__.count = 1", "the variable __class__.count"),
        ("self.history.append(1)", "Digits.history, an attribute of the class,"),
        ("self.made[0] = 1", "Digits.made, an attribute of the class,"),
        ("[CACHE.append(x) for x in range(3)]", "the global CACHE"),
        ("(lambda: CACHE.append(1))()", "the global CACHE"),
        ("for STATE['x'] in range(3): pass", "the global STATE"),
    ],
)
def test_a_change_outside_of_the_trainer_is_refused_by_name(train: str, name: str) -> None:
    assert f"changes {name}" in refused(train)


def test_a_change_in_what_training_calls_is_refused() -> None:
    assert "helper changes the global CACHE" in refused("helper(1)", helper="CACHE.append(x)")
    assert "the default of its argument 'seen'" in refused("helper(1)", helper="seen.append(x)")
    assert "the default of its argument 'known'" in refused("helper(1)", helper="known[x] = 1")
    assert "Digits.tally changes Digits.count" in refused("self.tally()", tally="cls.count += 1")


@pytest.mark.parametrize("change", ["nonlocal n; n += 1", "seen.append(1)"])
def test_a_change_of_what_is_enclosed_is_refused(change: str) -> None:
    source = (
        "def make():\n    n, seen = 0, []\n    class Digits:\n        def train(self):\n"
        f"            {change}\n            return n, seen\n    return Digits\nDigits = make()\n"
    )
    with pytest.raises(TrainerError, match=r"changes the variable (n|seen)"):
        fingerprint(Cell(source).trainer)


@pytest.mark.parametrize(
    "train",
    [
        "CACHE = []; CACHE.append(1); CACHE[0] = 1",
        "for CACHE in [[]]: CACHE.append(1)",
        "[CACHE.append(1) for CACHE in [[]]]",
        "self.items.append(1); self.count = 1; self.x = {}; self.x['a'] = 1",
        "self.own.append(1)",
        "self.count += 1",
        "torch.backends.cudnn.benchmark = True",
        "os.environ['X'] = '1'",
        "path.append('x'); path[0] = 'y'",
        "random.seed(1); np.random.seed(1); torch.manual_seed(1)",
        "LOG.info('x'); LOG.handlers.append(1)",
        "TRACKER.mean()",
        "CACHE.index(1); STATE.get('x'); CACHE.copy().append(1)",
        "MODEL.eval(); TENSOR.add(1); ARRAY.sum()",
        "found = {}; found['a'] = CACHE; found.update(STATE)",
        "def inner(n):\n            n = 1\n            def deeper():\n                nonlocal n\n"
        "                n += 1\n            return deeper",
    ],
)
def test_nothing_else_is(train: str) -> None:
    fingerprint(Cell(FRAME.format(train=train, helper="pass", tally="pass")).trainer)


def test_functions_that_only_run_at_import_may_fill_registries() -> None:
    cell = Cell(FRAME.format(train="return REGISTRY", helper="pass", tally="cls.count += 1"))
    assert cell.names["REGISTRY"]
    fingerprint(cell.trainer)


def test_an_optimizer_among_the_globals_is_refused_where_it_steps() -> None:
    source = "class Digits:\n    def train(self): OPTIMIZER.step()\n"
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1)
    with pytest.raises(TrainerError, match="the global OPTIMIZER"):
        fingerprint(Cell(source, OPTIMIZER=optimizer).trainer)
