"""The table in docs/server.md, row by row: what happens when something ends, breaks or is cut."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import hippotune as hippo
from hippotune import Exponential, GridSearch, MultiStep, Study
from hippotune.serve import hub
from hippotune.serve.client.api import Api, ServerRefused
from hippotune.serve.client.connection import RemoteConnection
from hippotune.serve.client.facts import read_facts
from hippotune.serve.client.following import follow, send_study
from hippotune.serve.records import StudyRecord
from hippotune.serve.reports import report_of
from hippotune.study.limits import Limits
from hippotune.study.report import Report
from hippotune.study.tune import tune
from hippotune.study.tuning import NO_LIMITS
from hippotune.view.base import Silent
from hippotune.view.snapshot import Snapshot
from served.serving import CuttingProxy, ServerProcess, fill, serving
from served.slow import SlowWalker
from study.walkers import Mortal, Walker
from waiting import until

SPACE = {"lr": [0.1, Exponential(0.1, 0.9), MultiStep(0.1, [4], 0.1)], "bs": [16]}


def grid(space: Any = SPACE, steps: int = 8) -> GridSearch:
    return GridSearch(space, metric="loss", mode="min", max_steps=steps)


def study_at(url: str, trainer: type[hippo.Trainer] = Walker, name: str = "test", **more: Any) -> Study:
    return Study(name, trainer, url=url, code="value", **{"tuner": "client", **more})


def results(report: Report) -> list[dict[int, Any]]:
    return [dict(trial.metrics) for trial in report.trials]


@contextmanager
def tuned_meanwhile(study: Study) -> Iterator[list[Report]]:
    """Tune a study while the block runs; its report is there afterwards."""
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(study.tune(grid(), progress=False)))
    thread.start()
    yield reports
    thread.join(240)
    study.close()
    assert reports


def wait_for_steps(url: str, steps: int) -> None:
    """Wait until more steps than these were trained."""
    api = Api(url)
    until(lambda: [plan for plan in api.call("GET", "/plans", None, list) if plan["trained"] > steps])


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
        wait_for_steps(running.url, 0)
        client.kill()
        client.wait()
        api = Api(running.url)
        record = follow(api, "left", Silent())
        report = report_of(api, record, None)
    assert [trial.step for trial in report.trials] == [10, 10, 10]
    assert report.best.metrics


def test_a_client_with_its_own_tuner_dies_and_run_again_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as running:
        script = CLIENT.replace('code="value"', 'code="value", tuner="client"')
        client = subprocess.Popen([sys.executable, "-c", script, running.url], cwd=Path(__file__).parents[1])
        wait_for_steps(running.url, 2)
        client.kill()
        client.wait()
        wait_for_steps(running.url, 29)  # what it asked for goes on
        with study_at(running.url, SlowWalker, name="left") as study:
            space = {"lr": [0.1, 0.2, 0.3], "bs": [16]}
            report = study.tune(grid(space, steps=10), progress=False)
            check_facts(running.url, study.key.digest)
        assert (report.work.steps_trained, report.work.steps_found) == (0, 30)
        monkeypatch.setattr(hub, "SESSION_SECONDS", 0.0)
        api = Api(running.url)
        until(lambda: not any(plan["sessions"] for plan in api.call("GET", "/plans", None, list)))


def test_streams_that_are_cut_lose_nothing_and_tell_nothing_twice(
    tmp_path: Path, expected: list[dict[int, Any]]
) -> None:
    with serving(tmp_path) as running:
        proxy = CuttingProxy(running.url, seed=3, most=2500)
        with study_at(proxy.url) as study:
            report = study.tune(grid(), progress=False)
            key = RemoteConnection.of(study).remote.key
        proxy.close()
        assert results(report) == expected
        assert proxy.cuts > 2
        check_facts(running.url, key)


@pytest.mark.parametrize("tuner", ["client", "server"])
def test_a_server_is_killed_and_everyone_waits_and_goes_on(
    tmp_path: Path, expected: list[dict[int, Any]], tuner: str
) -> None:
    with ServerProcess(tmp_path / "home") as server:
        with tuned_meanwhile(study_at(server.url, SlowWalker, tuner=tuner)) as reports:
            wait_for_steps(server.url, 2)
            server.kill()
            server.start()
        assert results(reports[0]) == expected


def test_a_budget_is_not_given_again_by_the_next_server(tmp_path: Path) -> None:
    def record() -> StudyRecord:
        found: StudyRecord = Api(server.url).call("GET", "/studies/test", None, StudyRecord)
        return found

    with ServerProcess(tmp_path / "home") as server:
        study = study_at(server.url, SlowWalker, tuner="server")
        send_study(RemoteConnection.of(study), grid(steps=1000), limits=Limits(worker_seconds=2.0))
        until(lambda: record().spent)
        server.kill()
        server.start()
        kept = record()
        assert kept.spent > 0
        assert kept.worker_seconds_left == 2.0 - kept.spent
        ended = follow(Api(server.url), "test", Silent())
        assert ended.end is not None
        assert ended.end.ended_by == "budget"


def test_what_was_answered_and_not_durable_when_the_server_was_killed_is_asked_again(
    tmp_path: Path, expected: list[dict[int, Any]]
) -> None:
    home, config = tmp_path / "home", {"lr": 0.1, "bs": 16}
    with ServerProcess(home) as server, study_at(server.url) as study:
        study.eval({"lr": 0.5, "bs": 16}, 1)
        loop = RemoteConnection.of(study).remote.loop
        with closing(sqlite3.connect(home / "plans.sqlite", isolation_level=None)) as store:
            store.execute("BEGIN IMMEDIATE")  # nothing becomes durable
            with ThreadPoolExecutor() as threads:
                evaluated = threads.submit(study.eval, config, 8)
                until(lambda: loop._not_durable)
                server.kill()
                store.rollback()
                server.start()
        assert evaluated.result() == expected[0][8]


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
        send_study(RemoteConnection.of(study), grid(steps=100))
        send_study(RemoteConnection.of(study), grid(steps=100))  # the same again is the same study
        with pytest.raises(ServerRefused, match=r"max_steps: 100 -> 50.*409") as refused:
            send_study(RemoteConnection.of(study), grid(steps=50))
        assert refused.value.status == 409
        Api(running.url).call("DELETE", "/studies/test")
        send_study(RemoteConnection.of(study), grid(steps=2))
        assert follow(Api(running.url), "test", Silent()).state == "ended"


def test_a_best_result_that_the_server_cannot_find_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Api.call_once

    def nothing_located(api: Api, method: str, path: str, *more: Any) -> Any:
        if path.endswith("/located"):
            raise ServerRefused("there is no checkpoint", 404)
        return call(api, method, path, *more)

    with serving(tmp_path) as running, study_at(running.url) as study:
        monkeypatch.setattr(Api, "call_once", nothing_located)
        with pytest.raises(ServerRefused, match="no checkpoint"):
            study.tune(grid(), progress=False)
        study.eval({"lr": 0.5, "bs": 16}, 2)  # the server hears of this after all before
        (plan,) = running.server._hub.plans
        checkpoints, kept = plan.runtime.loop.engine.checkpoints, plan.runtime.plan.checkpoints()
        assert not [position for position, _ in kept if checkpoints.is_pinned(position)]


def test_a_new_server_takes_over_what_the_old_one_saved(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "home") as server:
        study = study_at(server.url, SlowWalker, tuner="server")
        send_study(RemoteConnection.of(study), grid())
        wait_for_steps(server.url, 2)
        assert server.terminate() == 0
        server.start()
        record = follow(Api(server.url), "test", Silent())
        assert record.end is not None
        check_facts(server.url, record.end.key)


@pytest.mark.parametrize("tuner", ["client", "server"])
def test_a_disk_is_full_and_all_goes_on_after_room_is_made(
    small_disk: Path, expected: list[dict[int, Any]], tuner: str
) -> None:
    with serving(small_disk / "home") as running:
        with tuned_meanwhile(study_at(running.url, SlowWalker, tuner=tuner)) as reports:
            wait_for_steps(running.url, 2)
            ballast = small_disk / "ballast"
            fill(ballast)
            content = b"x" * 100_000
            address = f"{running.url}/code/{hashlib.sha256(content).hexdigest()}"
            answer = httpx.put(address, content=content, timeout=60)
            assert answer.status_code == 507
            assert "space" in answer.json()["text"]
            until(lambda: refusals(running.url, "/plans", 507))
            ballast.unlink()
        assert results(reports[0]) == expected


class Watching(Silent):
    """Keeps what it is shown."""

    is_silent = False

    def __init__(self) -> None:
        self.shown: list[Snapshot] = []

    def show(self, snapshot: Snapshot) -> None:
        self.shown.append(snapshot)


def test_progress_counts_the_same_steps_after_a_server_was_killed(tmp_path: Path) -> None:
    apart, view = {"lr": [0.1, 0.2, 0.3], "bs": [16]}, Watching()
    with ServerProcess(tmp_path / "home") as server, study_at(server.url, SlowWalker) as study:
        thread = threading.Thread(target=tune, args=[study, grid(apart), NO_LIMITS, view])
        thread.start()
        until(lambda: view.shown and view.shown[-1].requests_answered)
        server.kill()
        server.start()
        thread.join(240)
    counted = {(shot.steps_requested, shot.steps_unique) for shot in view.shown}
    assert counted == {(24, 24)}, "they share nothing"


def refusals(url: str, route: str, status: int) -> bool:
    """Whether the server has refused a request with a status."""
    lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
    return any(f'route="{route}"' in line and f'status="{status}"' in line for line in lines)


def test_a_study_that_asks_for_what_the_trainer_cannot_do_ends_alone(
    tmp_path: Path, expected: list[dict[int, Any]]
) -> None:
    wrong = GridSearch(SPACE, metric="accuracy", mode="max", max_steps=8)
    with serving(tmp_path, hold=True) as running:
        errors: list[BaseException] = []

        def fail() -> None:
            with study_at(running.url, name="wrong") as study:
                try:
                    study.tune(wrong, progress=False)
                except hippo.TrainerError as error:
                    errors.append(error)

        thread = threading.Thread(target=fail)
        thread.start()
        with tuned_meanwhile(study_at(running.url)) as reports:
            api = Api(running.url)
            until(lambda: sum(plan["requests"] for plan in api.call("GET", "/plans", None, list)) == 6)
            api.call("POST", "/release")
        thread.join(240)
        assert results(reports[0]) == expected
        assert "does not return 'accuracy'" in str(errors[0])
