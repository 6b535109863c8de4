"""By whatever way training code reaches something: an edit makes another plan, nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from identity.reaching import CASES, HARMLESS

Found = dict[str, list[str]]


def found_with(seed: str, *which: str) -> Found:
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "identity.reaching", *which]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def found() -> Found:
    return found_with("1")


@pytest.fixture(scope="module")
def found_elsewhere() -> Found:
    """What another process finds, whose sets and hashes have another order."""
    return found_with("2", "plain")


@pytest.mark.parametrize("case", CASES)
def test_what_is_reached_counts_and_nothing_else_does(found: Found, case: str) -> None:
    plain, commented, edited = found[case]
    assert len(plain) == len(edited) == 32, (plain, edited)
    assert plain == commented
    assert plain != edited


@pytest.mark.parametrize("case", HARMLESS)
def test_what_reaches_no_result_does_not_count(found: Found, case: str) -> None:
    plain, commented, edited = found[case]
    assert len(plain) == 32, plain
    assert plain == commented == edited


@pytest.mark.parametrize("case", CASES | HARMLESS)
def test_it_is_the_same_in_every_process(found: Found, found_elsewhere: Found, case: str) -> None:
    assert found[case][:1] == found_elsewhere[case]
