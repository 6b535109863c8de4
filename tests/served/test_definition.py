"""What a study is made with travels to a server, and makes the same study there."""

from __future__ import annotations

import inspect
import math
import re
from collections import OrderedDict, namedtuple
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np
import pytest

import hippotune as hippo
from hippotune.errors import InvalidInput
from hippotune.serve.definition import Code, Definition, Submission, TunerSpec
from hippotune.serve.tuner import made_study
from hippotune.study.opening import StudyOptions
from study.walkers import Walker

CODE = Code("entry", "Walker", "walkers:Walker")
Size = namedtuple("Size", "width height")


class Plain(dict[str, int]):
    """Looks as a dict does."""


class Mode(IntEnum):
    FAST = 1


URL = "http://127.0.0.1:1"  # nothing is asked of it
# All arguments of a study that a server goes by, each another one than by default.
GIVEN: dict[str, Any] = {
    "settings": {
        "device": "cpu",
        "sizes": (1, 2),
        "names": {1: [], "()": {}},
        "most": math.inf,
        "type": ["mlp", 3],
    },
    "seed": 7,
    "share": False,
    "version": "2",
    "data": "digits-v2",
    "checkpoint_budget": 10_000,
    "width": hippo.Fluid(2, 4, {2: 1.5}, dynamic=False),
    "start": "https://example.com/start.pt",
    "substeps": 4,
    "exact": False,
    "audit": 0.5,
    "retries": hippo.Retries(5, pause=2.0),
    "checkpoint_every": 60.0,
}
# Those of the tuner, and those that are not the server's business.
OTHERS = {"keep_best", "defaults", "name", "trainer", "home", "executor", "store", "url", "tuner", "code"}


def test_a_study_that_was_written_down_is_made_again_with_the_same_arguments() -> None:
    parameters = inspect.signature(hippo.Study).parameters
    assert set(parameters) == GIVEN.keys() | OTHERS
    assert not [name for name, value in GIVEN.items() if value == parameters[name].default]
    defaults = {"lr": hippo.Linear(0.1, 0.2, 10)}
    study = hippo.Study("test", Walker, url=URL, defaults=defaults, keep_best=5, **GIVEN)
    definition = Definition.of(study, CODE)
    assert repr(definition.arguments) == repr({name: GIVEN[name] for name in definition.arguments})
    assert definition.arguments.keys() == GIVEN.keys()
    tuned = TunerSpec("loss", "min", defaults=study.defaults.to_json(), keep_best=study.keep_best)
    text = msgspec.json.encode(Submission(definition, tuned))
    again = made_study(msgspec.json.decode(text, type=Submission), Walker, URL)
    assert Definition.of(again, CODE) == definition
    assert (again.defaults, again.keep_best) == (study.defaults, study.keep_best)


def test_the_engine_of_a_plan_goes_by_the_same_in_this_process_and_on_a_server() -> None:
    study = hippo.Study("test", Walker, **{**GIVEN, "start": None, "width": None})
    here = StudyOptions.of(study)
    there = Definition.of(study, CODE)
    assert there.engine_options("Walker") == here.engine


@pytest.mark.parametrize(
    ("given", "there"),
    [
        (np.float64(0.5), "0.5"),
        (Plain(a=1), "{'a': 1}"),
        (OrderedDict(a=1), "{'a': 1}"),
        (Mode.FAST, "1"),
        ([Size(1, 2)], "[(1, 2)]"),
    ],
)
def test_settings_that_a_server_would_get_as_something_else_are_refused(given: object, there: str) -> None:
    study = hippo.Study("test", Walker, url=URL, settings={"plain": 1, "value": given})
    with pytest.raises(InvalidInput, match=re.escape(f"settings['value'] is {given!r}")) as refused:
        Definition.of(study, CODE)
    assert f"which a server would get as {there}" in str(refused.value)


@pytest.mark.parametrize("written", [{".": "abc"}, {"{}": [1]}, {"{}": [[[1], 2]]}, {"()": 1, ".": "x"}])
def test_settings_that_nobody_has_written_are_refused(written: object) -> None:
    definition = Definition("test", CODE, {"value": written})
    if isinstance(written, dict) and len(written) > 1:
        assert definition.trainer_settings == {"value": written}
    else:
        with pytest.raises(InvalidInput, match="not as Hippo writes them"):
            assert definition.trainer_settings
