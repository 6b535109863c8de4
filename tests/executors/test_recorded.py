"""Curves in a file: what was recorded is what is replayed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import hippotune as hippo
from hippotune import Config, MultiStep
from hippotune.errors import InvalidInput
from tuners.test_conformance import Idle

SPACE = hippo.Grid({"lr": [MultiStep(0.1, [at], 0.5) for at in (3, 6, 9)], "bs": [16, 32]})


def score(config: Config, step: int) -> dict[str, float]:
    values = [float(config["lr"].value(at)) / int(config["bs"].value(at)) for at in range(step)]
    return {"score": sum(values), "steps": float(step)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    measured = {config: {step: score(config, step) for step in (5, 10)} for config in SPACE}
    return hippo.Recorded(measured).write(tmp_path / "curves.json.gz", digits=12)


def test_a_file_says_what_the_record_said(file: Path) -> None:
    again = hippo.Recorded(file)
    for config in SPACE:
        for step in (5, 10):
            assert again(config, step) == pytest.approx(score(config, step))


def test_what_configs_share_is_written_once_and_the_same_record_gives_the_same_bytes(file: Path) -> None:
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()][1:]
    measured = [(line["config"]["bs"], step) for line in lines for step in line["steps"]]
    assert measured.count((16, 5)) == 2, "those that change at 6 and 9 are one state at 5"
    first = file.read_bytes()
    assert hippo.Recorded(file).write(file, digits=12).read_bytes() == first


def test_it_is_replayed_in_virtual_time(file: Path) -> None:
    with hippo.Study("replayed", Idle, executor=hippo.Simulated(2, metrics=hippo.Recorded(file))) as study:
        report = study.tune(hippo.GridSearch(SPACE, "score", "max", 10), progress=False)
    assert {trial.config: trial.metrics[10] for trial in report.trials} == {
        config: pytest.approx(score(config, 10)) for config in SPACE
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b'{"format": "other"}\n', mtime=0)],
    ids=["empty", "no gzip", "another format"],
)
def test_another_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"other is no file that Recorded.write wrote"):
        hippo.Recorded(tmp_path / "other")
