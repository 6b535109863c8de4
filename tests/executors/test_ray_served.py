"""A server that trains on a Ray cluster: its plans' workers are actors, and gone with it."""

from __future__ import annotations

from pathlib import Path

from executors.ray_nodes import Nodes
from hippotune import GridSearch, Study
from served.serving import ServerProcess
from study.walkers import Walker
from waiting import until


def test_a_server_trains_on_a_cluster_and_leaves_nothing_there(cluster: Nodes, tmp_path: Path) -> None:
    cluster.have(2)  # each plan has a worker of its own
    grid = GridSearch({"lr": [0.1], "bs": [16]}, metric="loss", mode="min", max_steps=4)
    with ServerProcess(tmp_path / "home", executor=f"ray:{cluster.address}") as server:
        with Study("test", Walker, url=server.url, code="value") as study:
            report = study.tune(grid, progress=False)
            assert report.best.load().evaluate() == report.best.metrics
            assert cluster.actors
        with Study("alone", Walker, url=server.url, code="value", share=False) as alone:
            assert alone.eval(report.best.config, 4) == report.best.metrics
    until(lambda: not cluster.actors)
