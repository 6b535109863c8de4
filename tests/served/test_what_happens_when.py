"""The table in docs/server.md, row by row: what happens when something ends, breaks or is cut."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import hippotune as hippo
from hippotune import Exponential, GridSearch, MultiStep, Study
from hippotune.serve.client.api import Api, ServerRefused
from hippotune.serve.client.facts import read_facts
from hippotune.serve.client.following import follow, send_study
from hippotune.serve.reports import report_of
from hippotune.study.report import Report
from hippotune.view.base import Silent
from served.serving import CuttingProxy, ServerProcess, serving, wait_for
from served.slow import SlowWalker
from study.walkers import Mortal, Walker

SPACE = {"lr": [0.1, Exponential(0.1, 0.9), MultiStep(0.1, [4], 0.1)], "bs": [16]}
UNIQUE = 8 + 7 + 4


def grid(space: Any = SPACE, steps: int = 8) -> GridSearch:
    return GridSearch(space, metric="loss", mode="min", max_steps=steps)


def study_at(url: str, trainer: type[hippo.Trainer] = Walker, name: str = "test", **more: Any) -> Study:
    return Study(name, trainer, url=url, code="value", **{"tuner": "client", **more})


def results(report: Report) -> list[dict[int, Any]]:
    return [dict(trial.metrics) for trial in report.trials]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[int, Any]]:
    """What comes of the study in one process."""
    home = tmp_path_factory.mktemp("alone")
    with Study("test", Walker, home=home, executor=hippo.Local(1)) as study:
        return results(study.tune(grid(), progress=False))


def check_facts(url: str, key: str) -> None:
    """Every fact is there once, in order, and no step was trained twice."""
    replica = read_facts(Api(url), key)
    assert [number for number, _ in replica.numbered] == list(range(1, len(replica.numbered) + 1))
    spans = [span for span in replica.store.spans() if span.kind == "train"]
    steps = [(span.node, step) for span in spans for step in range(span.first, span.last)]
    assert len(steps) == len(set(steps))


CLIENT = """
import sys
from served.slow import SlowWalker
from hippotune import GridSearch, Study
space = {"lr": [0.1, 0.2, 0.3], "bs": [16]}
study = Study("left", SlowWalker, url=sys.argv[1], code="value")
study.tune(GridSearch(space, metric="loss", mode="min", max_steps=10), progress=False)
"""


def test_a_client_dies_and_its_study_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, running.url], cwd=Path(__file__).parents[1])
        api = Api(running.url)
        wait_for(lambda: [plan for plan in api.call("GET", "/plans", None, list) if plan["trained"] > 0])
        client.kill()
        client.wait()
        record = follow(api, "left", Silent())
        report = report_of(api, record, None)
    assert [trial.step for trial in report.trials] == [10, 10, 10]
    assert report.best.metrics


def test_streams_that_are_cut_lose_nothing_and_tell_nothing_twice(
    tmp_path: Path, expected: list[dict[int, Any]]
) -> None:
    with serving(tmp_path) as running:
        proxy = CuttingProxy(running.url, seed=3, most=2500)
        with study_at(proxy.url) as study:
            report = study.tune(grid(), progress=False)
            key = study._connection.remote.key
        proxy.close()
        assert results(report) == expected
        assert proxy.cuts > 2
        check_facts(running.url, key)


@pytest.mark.parametrize("tuner", ["client", "server"])
def test_a_server_is_killed_and_everyone_waits_and_goes_on(tmp_path: Path, tuner: str) -> None:
    with ServerProcess(tmp_path / "home") as server:
        study = study_at(server.url, SlowWalker, tuner=tuner)
        reports: list[Report] = []
        thread = threading.Thread(target=lambda: reports.append(study.tune(grid(), progress=False)))
        thread.start()
        api = Api(server.url)
        wait_for(lambda: [plan for plan in api.call("GET", "/plans", None, list) if plan["trained"] > 2])
        server.kill()
        server.start()
        thread.join(240)
        study.close()
        assert reports
        with Study("test", SlowWalker, home=tmp_path / "alone", executor=hippo.Local(1)) as alone:
            assert results(reports[0]) == results(alone.tune(grid(), progress=False))


def test_a_worker_is_lost_and_its_stage_is_trained_again(tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    settings = {"deaths": str(deaths)}
    with (
        serving(tmp_path / "home") as running,
        study_at(running.url, Mortal, settings=settings, retries=hippo.Retries(50, 0.01)) as study,
    ):
        report = study.tune(grid(steps=20), progress=False)
    assert [trial.step for trial in report.trials] == [20, 20, 20]


def test_two_studies_of_one_name_that_differ_are_told_apart(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        study = study_at(running.url, SlowWalker, tuner="server")
        send_study(study, grid(steps=100))
        send_study(study, grid(steps=100))  # the same again is the same study
        with pytest.raises(ServerRefused, match=r"tuner: 'GridSearch .*409") as refused:
            send_study(study, grid(steps=50))
        assert refused.value.status == 409
        Api(running.url).call("DELETE", "/studies/test")
        send_study(study, grid(steps=2))
        assert follow(Api(running.url), "test", Silent()).state == "ended"


def test_a_new_server_takes_over_what_the_old_one_saved(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "home") as server:
        study = study_at(server.url, SlowWalker, tuner="server")
        send_study(study, grid())
        api = Api(server.url)
        wait_for(lambda: [plan for plan in api.call("GET", "/plans", None, list) if plan["trained"] > 2])
        assert server.terminate() == 0
        server.start()
        record = follow(api, "test", Silent())
        assert record.end is not None
        check_facts(server.url, record.end.key)


def test_a_full_disk_is_said(small_disk: Path) -> None:
    with serving(small_disk / "home") as running, study_at(running.url) as study:
        study.eval({"lr": 0.1, "bs": 16}, 2)
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free))
        content = b"x" * 100_000
        answer = httpx.put(f"{running.url}/code/{hashlib.sha256(content).hexdigest()}", content=content)
        assert answer.status_code == 507
        assert "space" in answer.json()["text"]
        ballast.unlink()
        again = httpx.put(f"{running.url}/code/{hashlib.sha256(content).hexdigest()}", content=content)
        assert again.status_code < 300
        assert study.eval({"lr": 0.5, "bs": 16}, 3)["loss"] > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
