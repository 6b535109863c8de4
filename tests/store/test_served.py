"""A server whose plans are in PostgreSQL: killed in the middle, the next one goes on from what is there."""

from __future__ import annotations

import threading
from pathlib import Path

from hippotune import GridSearch, Study
from hippotune.serve.client.api import Api
from hippotune.store.catalog import open_store
from hippotune.study.report import Report
from served.serving import ServerProcess
from served.slow import SlowWalker
from waiting import until


def test_a_server_keeps_its_plans_in_postgresql(tmp_path: Path, postgresql: str) -> None:
    grid = GridSearch({"lr": [0.1, 0.2], "bs": [16]}, metric="loss", mode="min", max_steps=8)
    reports: list[Report] = []
    with ServerProcess(tmp_path / "home", "--store", postgresql) as server:
        study = Study("test", SlowWalker, url=server.url, code="value")
        thread = threading.Thread(target=lambda: reports.append(study.tune(grid, progress=False)))
        thread.start()
        api = Api(server.url)
        until(lambda: [plan for plan in api.call("GET", "/plans", None, list) if plan["trained"] > 2])
        server.kill()
        server.start()
        thread.join(240)
        assert [trial.step for trial in reports[0].trials] == [8, 8]
        study.close()
    with open_store(tmp_path / "home", postgresql) as catalog:
        (plan,) = catalog.plans()
        assert catalog.view(plan.key).last_number > 0
    assert not list((tmp_path / "home").glob("*.sqlite"))
