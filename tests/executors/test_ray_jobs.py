"""Studies that are submitted to a Ray cluster as jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from executors.ray_nodes import Nodes
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


study = hippo.Study("walk", Walk, home=HOME, executor=hippo.Ray(slot={"CPU": 1}, workers=1), version="1")
tuner = hippo.GridSearch({"rate": RATES}, metric="at", mode="max", max_steps=3)
"""


@pytest.fixture
def dashboard(cluster: Nodes) -> Iterator[str]:
    with cluster.dashboard() as address:
        yield address


def test_a_study_is_submitted_with_what_lies_beside_it_and_without_what_is_large(
    dashboard: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.job_submission import JobStatus, JobSubmissionClient

    home, folder = tmp_path / "home", tmp_path / "code"
    folder.mkdir()
    (folder / "beside.py").write_text("RATES = [0.5, 1.5]\n")
    (folder / "walk.py").write_text(STUDY.replace("HOME", repr(str(home))))
    with (folder / "data.bin").open("wb") as file:
        file.truncate(11 << 20)
    command = ["submit", "--ray", dashboard, str(folder / "walk.py")]
    until(lambda: main(command) == 0, pause=0.1)  # a cluster that has just come up takes no jobs yet
    said = capsys.readouterr().out
    assert "left out, because it is large: data.bin (12 MB)" in said
    [job] = [line.split(": ")[1] for line in said.splitlines() if line.startswith("submitted")]
    assert job.startswith("hippo-walk-")
    assert f"ray job logs --address {dashboard} --follow {job}" in said
    client = JobSubmissionClient(dashboard)
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
