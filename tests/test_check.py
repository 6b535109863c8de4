"""What is not exact is found, in real processes, and named; what is exact passes."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hippotune as hippo
from forked import Interpreter
from hippotune.errors import InvalidInput, NotExact, TrainerError, TrialFailed
from hippotune.testing import check_exact

SOURCES = Path(__file__).parents[1] / "src"
CONFIG = {"lr": hippo.MultiStep(0.5, [2], 0.1)}


class Walk(hippo.Trainer):
    """Exact: all that it changes is on self, or in the shared generators."""

    def prepare(self) -> None:
        self.goal = np.random.normal(size=3)

    def build(self) -> None:
        self.place = np.random.normal(size=3)
        self.seen: list[float] = []

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.place += self.lr * (self.goal - self.place) + random.random()
        self.seen.append(float(self.place[0]))

    def evaluate(self) -> Mapping[str, float]:
        random.random()
        return {"distance": float(np.linalg.norm(self.goal - self.place))}


COUNT = itertools.count()


class WithGlobal(Walk):
    def train(self) -> None:
        super().train()
        self.place += next(COUNT)


class WithClassAttribute(Walk):
    steps = 0

    def train(self) -> None:
        type(self).steps += 1

    def evaluate(self) -> Mapping[str, float]:
        return {"steps": self.steps}


class _Forgetful:
    def __init__(self) -> None:
        self.cache = 0

    def __getstate__(self) -> dict[str, int]:
        return {"cache": 0}


class WithForgetfulObject(Walk):
    def build(self) -> None:
        super().build()
        self.memory = _Forgetful()

    def train(self) -> None:
        self.memory.cache += 1
        self.place += self.memory.cache


class WithSet(Walk):
    def build(self) -> None:
        super().build()
        self.numbers = {number * 64 + 1 for number in range(5)}

    def train(self) -> None:
        self.numbers.add(1000)
        self.numbers.discard(1)
        self.numbers.add(65 + 64 * len(self.seen) * 7)
        self.seen.append(1.0)
        for number in self.numbers:
            self.place = 0.9 * self.place + number


class Unseeded(Walk):
    def train(self) -> None:
        self.place += np.random.default_rng().normal()


class Evaluating(Walk):
    def evaluate(self) -> Mapping[str, float]:
        self.seen.append(0.0)
        return {"seen": len(self.seen)}


class EvaluatingToTrain(Walk):
    """What evaluate() changes is not on self: each trial begins anew, but evaluations are counted."""

    calls = 0

    def build(self) -> None:
        super().build()
        type(self).calls = 0

    def evaluate(self) -> Mapping[str, float]:
        type(self).calls += 1
        return {"calls": self.calls}


class SaysLess(Walk):
    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


class SavingAdds(Walk):
    def state_dict(self) -> dict[str, Any]:
        self.seen.append(-1.0)
        return {"place": self.place, "seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place, self.seen = state["place"], state["seen"]

    def evaluate(self) -> Mapping[str, float]:
        return {"seen": len(self.seen)}


class WithGenerator(Walk):
    def build(self) -> None:
        super().build()
        self.numbers = (number for number in range(10))


class Failing(Walk):
    def prepare(self) -> None:
        self._fail_in("prepare")

    def build(self) -> None:
        self._fail_in("build")

    def train(self) -> None:
        self._fail_in("train")

    def _fail_in(self, method: str) -> None:
        if self.settings["fail_in"] == method:
            raise ValueError("no more data")

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": 0.0}


class FailingBeforeTraining(Walk):
    def evaluate(self) -> Mapping[str, float]:
        return {"last": self.seen[-1]}


def test_a_trainer_that_is_exact_passes_with_a_report() -> None:
    found = check_exact(Walk, CONFIG, steps=3)
    assert (found.trainer, found.steps, found.cuts, found.interpreters) == ("Walk", 3, 2, 5)
    assert "Walk is exact over 3 steps" in str(found)


@pytest.mark.parametrize(
    ("trainer", "path", "message"),
    [
        (
            WithGlobal,
            "self.place",
            r"(?s)the second trial in a process differs .* self\.place is"
            r".*the likely cause: WithGlobal\.train reads COUNT, of type itertools",
        ),
        (WithClassAttribute, None, r"'steps' is 3\.0 .* nothing on self differs.*a class attribute"),
        (WithSet, "self.place", r"self\.numbers is a set: its order depends .* sorted\(it\)"),
        (WithForgetfulObject, "self.place", r"cut after step 1 .* self\.memory\.cache is . before, and 0 a"),
        (Unseeded, "self.place", r"is not deterministic: two runs .*After step 1, self\.place"),
        (Evaluating, "self.seen", r"evaluate\(\) of \w+ changes the state: after step 1, self\.seen is"),
        (EvaluatingToTrain, None, r"evaluated after every step differs .* the metric 'calls' is"),
        (SaysLess, None, r"cut after step 1 .* nothing that state_dict\(\) saves differs.*self\.place is"),
    ],
)
def test_what_is_not_exact_is_named(trainer: type[hippo.Trainer], path: str | None, message: str) -> None:
    with pytest.raises(NotExact) as raised:
        check_exact(trainer, CONFIG, steps=3, quick=True)
    assert re.search(message, str(raised.value)), str(raised.value)
    assert raised.value.path == path


def test_saving_that_changes_something_is_found() -> None:
    with pytest.raises(NotExact, match="checkpoints are saved differs from one without"):
        check_exact(SavingAdds, CONFIG, steps=3, quick=True)


def test_a_state_that_cannot_be_saved_is_the_trainers_own_error() -> None:
    with pytest.raises(TrainerError, match=r"self\.numbers \(generator\) is a generator"):
        check_exact(WithGenerator, CONFIG, steps=2)


@pytest.mark.parametrize("method", ["prepare", "build", "train"])
def test_a_traceback_starts_at_the_users_code(method: str) -> None:
    with pytest.raises(TrialFailed) as raised:
        check_exact(Failing, CONFIG, steps=2, settings={"fail_in": method})
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("Traceback")
    assert f"in {method}" in lines[1]
    assert __file__ in lines[1]
    assert lines[-1] == "ValueError: no more data"


def test_an_error_of_evaluate_before_the_first_step_says_so() -> None:
    with pytest.raises(TrialFailed, match="evaluate\\(\\) was called before the first step"):
        check_exact(FailingBeforeTraining, CONFIG, steps=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 1}, "steps is 1; expected a whole number of at least 2"),
        ({"steps": 2, "processes": 0}, "processes is 0"),
        ({"steps": 5, "config": {"lr": hippo.Table([1, 2, 3])}}, "steps is 5; the config has values for 3"),
        ({"trainer": int}, "trainer is <class 'int'>; expected a class that extends hippo.Trainer"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_exact(**{"trainer": Walk, "config": CONFIG, **arguments})


# The command.

SCRIPT = """
import hippotune as hippo

STEPS = []

class Counter(hippo.Trainer):
    def build(self):
        self.count = 0.0
    def setup(self, hp):
        self.by = hp["by"]
    def train(self):
        self.count += self.by
        if self.by > 1:
            STEPS.append(self.by)
            self.count += len(STEPS)
    def evaluate(self):
        return {"count": self.count}

study = hippo.Study("counter", Counter, executor=hippo.Local(workers=1))
tuner = hippo.GridSearch({"by": [1, 2]}, "count", "max", max_steps=10)
"""


def hippo_check(forking: Interpreter, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "counter.py").write_text(SCRIPT)
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    return forking.run("-m", "hippotune", "check", "counter.py", *arguments, cwd=folder, env=environment)


def test_the_command_says_that_a_trial_is_exact(tmp_path: Path, forking: Interpreter) -> None:
    done = hippo_check(forking, tmp_path, "--steps", "3", "--quick")
    assert done.returncode == 0, done.stderr
    assert "study counter in counter.py, trial 0: Config({'by': 1})" in done.stdout
    assert "Counter is exact over 3 steps" in done.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["counter.py"]


def test_the_command_names_what_is_not_exact_in_another_trial(tmp_path: Path, forking: Interpreter) -> None:
    done = hippo_check(forking, tmp_path, "--steps", "2", "--trial", "1")
    assert done.returncode == 1
    assert "hippo: Counter is not exact: the second trial in a process" in done.stderr
    assert "self.count is 3.0 in the first, and 5.0 in the second" in done.stderr


def test_the_command_refuses_a_trial_that_there_is_not(tmp_path: Path, forking: Interpreter) -> None:
    done = hippo_check(forking, tmp_path, "--trial", "2")
    assert done.returncode == 2
    assert "--trial is 2; the tuner in counter.py has 2 trials, numbered from 0" in done.stderr
