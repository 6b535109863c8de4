"""Studies whose home is a URL: checkpoints in a bucket, all else in a folder of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import obstore
import pytest

import hippotune as hippo
from hippotune import Constant, GridSearch, Local, MultiStep, Simulated, Study
from hippotune.cli import main
from hippotune.errors import InvalidInput, MissingExtra, StorageUnavailable
from hippotune.store.objects import opened
from s3 import Server
from study.walkers import Walker

SPACE: dict[str, list[Any]] = {"lr": [0.1, MultiStep(0.1, [3], 0.1)], "bs": [16, Constant(32)]}


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "hippotune"


def tuned(home: str | Path, steps: int = 5) -> hippo.study.Report:
    with Study("walkers", Walker, home=home, executor=Local(workers=1)) as study:
        report = study.tune(GridSearch(SPACE, metric="loss", mode="min", max_steps=steps), progress=False)
        assert isinstance(report.best.load(), Walker)
        return report


def objects(url: str) -> set[str]:
    return {meta["path"] for page in obstore.list(opened(url)) for meta in page}


def test_a_study_in_a_bucket_gives_the_same_and_is_looked_at_by_its_url(
    s3: Server, tmp_path: Path, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{s3.new_bucket()}/walkers"
    here, there = tuned(tmp_path / "home"), tuned(url)
    assert [trial.metrics for trial in there.trials] == [trial.metrics for trial in here.trials]
    kept = objects(url)
    assert sum("/node-" in name for name in kept) >= len(there.trials)
    (folder,) = data_folder.iterdir()
    assert {path.name for path in folder.iterdir()} >= {"plans.sqlite", "key", "storage-url"}
    for cached in folder.rglob("checkpoints/*/??/node-*"):  # as on another machine, or in another year
        cached.unlink()

    again = tuned(url)
    assert again.work.steps_trained == 0
    assert again.best.metrics == there.best.metrics
    further = tuned(url, steps=6)
    assert further.work.steps_trained == len(further.trials), "it goes on from what is in the bucket"

    stray = sorted(name for name in kept if "/node-" in name)[0] + "-00000000"
    obstore.put(opened(url), stray, b"left by a killed process")
    kept = objects(url)
    for command in (["ls"], ["show", "walkers"], ["doctor"], ["gc", "--dry-run"], ["gc"], ["gc"]):
        assert main([*command, "--home", url]) == 0, command
    said = capsys.readouterr().out
    assert "removed 1 file that the plan" in said
    assert said.endswith("nothing to remove\n")
    assert objects(url) == kept - {stray}

    lost = sorted(name for name in objects(url) if "/node-" in name)[0]
    obstore.delete(opened(url), lost)
    assert main(["doctor", "--home", url]) == 1
    assert "is missing" in capsys.readouterr().out


def test_a_plan_that_no_study_uses_is_removed_from_the_bucket(
    s3: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{s3.new_bucket()}/walkers"
    for seed in (1, 2):
        with Study("walkers", Walker, home=url, executor=Local(workers=1), seed=seed) as study:
            study.eval({"lr": 0.1, "bs": 16}, 2)
    assert len({name.split("/")[1] for name in objects(url)}) == 2
    assert main(["gc", "--plans", "--yes", "--home", url]) == 0
    assert f"removed {url}/checkpoints/" in capsys.readouterr().out
    assert {name.split("/")[1] for name in objects(url)} == {study.key.digest}


def test_a_bucket_that_is_not_there_is_told_before_anything_is_trained(s3: Server) -> None:
    with (
        pytest.raises(StorageUnavailable, match="there is no such bucket; make it first"),
        Study("walkers", Walker, home="s3://no-such-bucket/walkers", executor=Local(workers=1)) as study,
    ):
        study.eval({"lr": 0.1, "bs": 16}, 2)


def test_what_cannot_be_a_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("ftp://host/x", "gs:bucket", "s3:bucket/x", "S3:/bucket/x", "s3:", "file:folder"):
        with pytest.raises(InvalidInput, match=f"home is '{home}'; expected a folder, or a URL such as"):
            Study("walkers", Walker, home=home)
    study = Study("walkers", Walker, home="memory:///x")
    with pytest.raises(InvalidInput, match="workers are other processes") as refused:
        study.eval({"lr": 0.1, "bs": 16}, 2)
    with pytest.raises(InvalidInput, match=str(refused.value)):  # the plan is free again
        study.eval({"lr": 0.1, "bs": 16}, 2)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hippotune\[storage\]'"):
        Study("walkers", Walker, home="s3://bucket/x").eval({"lr": 0.1, "bs": 16}, 2)


def test_virtual_time_keeps_nothing_wherever_its_home_is(data_folder: Path) -> None:
    study = Study("walkers", Walker, home="s3://bucket/x", executor=Simulated(workers=1))
    assert study.tune(GridSearch(SPACE, metric="loss", mode="min", max_steps=5)).best.path is None
    assert repr(study) == "Study('walkers', Walker, home='s3://bucket/x')"
    assert not data_folder.exists()
