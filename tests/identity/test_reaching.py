"""By whatever way training code reaches something: an edit makes another plan, nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from identity.reaching import CASES, HARMLESS

Found = dict[str, list[str]]


def found_with(seed: str) -> Found:
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "identity.reaching"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def found() -> list[Found]:
    return [found_with(seed) for seed in ("1", "2")]


@pytest.mark.parametrize("case", CASES)
def test_what_is_reached_counts_and_nothing_else_does(found: list[Found], case: str) -> None:
    plain, commented, edited = found[0][case]
    assert len(plain) == len(edited) == 32, (plain, edited)
    assert plain == commented
    assert plain != edited


@pytest.mark.parametrize("case", HARMLESS)
def test_what_reaches_no_result_does_not_count(found: list[Found], case: str) -> None:
    plain, commented, edited = found[0][case]
    assert len(plain) == 32, plain
    assert plain == commented == edited


@pytest.mark.parametrize("case", CASES | HARMLESS)
def test_it_is_the_same_in_every_process(found: list[Found], case: str) -> None:
    assert found[0][case] == found[1][case]
