"""Names on a server: those of studies, which are any text, and those of functions, which are no values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from hippotune import Function, GridSearch, Study
from hippotune.errors import InvalidInput
from hippotune.serve.client.api import Api
from hippotune.serve.client.following import address
from hippotune.serve.records import StudyLine, StudyRecord
from served.serving import Running, ServerProcess, serving
from study.walkers import Walker

NAMES = ["a/b", "a", "a/events", "<script>alert(1)</script>", "..", ".", "%2F", "/", "ü?b#c d", "x" * 300]
NAMES += ["ü" * 500, "x" * 301]


def grid(rates: Sequence[object]) -> GridSearch:
    return GridSearch({"lr": [*rates], "bs": [16]}, metric="loss", mode="min", max_steps=2)


def recorded(running: Running) -> dict[str, StudyRecord]:
    api = Api(running.url)
    names = [line.name for line in api.call("GET", "/studies", None, list[StudyLine])]
    assert sorted(names) == sorted(NAMES)
    return {name: api.call("GET", address(name), None, StudyRecord) for name in names}


def test_a_study_may_have_any_name(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        for name in NAMES:
            with Study(name, Walker, url=running.url, code="entry") as study:
                assert len(study.tune(grid([0.1]), progress=False).trials) == 1
        known = recorded(running)
    assert {name: record.name for name, record in known.items()} == {name: name for name in NAMES}
    with serving(tmp_path) as running:
        assert recorded(running) == known


def halved(step: int) -> float:
    return 0.1 / (1 + step)


def test_a_function_is_sent_as_its_values(tmp_path: Path) -> None:
    places: list[Literal["server", "client"]] = ["server", "client"]
    with ServerProcess(tmp_path / "home") as server:
        for place in places:
            with (
                Study(f"named {place}", Walker, url=server.url, tuner=place, code="value") as study,
                pytest.raises(InvalidInput, match=r"is code.*pass steps="),
            ):
                study.tune(grid([Function(halved)]), progress=False)
            with Study(f"values {place}", Walker, url=server.url, tuner=place, code="value") as study:
                assert study.tune(grid([Function(halved, steps=2)]), progress=False).best.step == 2
