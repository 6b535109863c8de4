"""What sinks have written, read back with the tools' own readers, after kills too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from feeds import programs
from feeds.facts import example, expected
from feeds.programs import KEY
from hippotune.store.catalog import open_store


def start(kind: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    # Not with the service of another test in this process: that one is not killed with it.
    own = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    environment = own | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TRACKIO_DIR": str(folder / "trackio"),
        "WANDB_SILENT": "true",
    }
    command = [sys.executable, programs.__file__, kind, str(folder), *options]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait for those that it has started to end by themselves, having written all."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    psutil.wait_procs(children, timeout=120)


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow", "wandb", "trackio"])
def test_every_number_is_shown_once_and_none_is_missing_also_after_a_kill(kind: str, tmp_path: Path) -> None:
    facts = example()
    with open_store(tmp_path / "home") as catalog:
        with closing(catalog.plan(KEY)) as store:
            store.write(facts[: len(facts) // 2])
        killed = start(kind, tmp_path, "--stepwise")
        assert killed.stdout is not None
        assert killed.stdin is not None
        for _ in range(3):
            assert int(killed.stdout.readline()) > 0
            killed.stdin.write("\n")
            killed.stdin.flush()
        kill(killed)
        with closing(catalog.plan(KEY)) as store:
            store.write(facts[len(facts) // 2 :])
            numbers = expected(store)
    said, _ = start(kind, tmp_path).communicate()
    shown, configs = json.loads(said.splitlines()[-1])
    assert {(run, name, step): value for run, name, step, value in shown} == pytest.approx(
        numbers, rel=1e-6, nan_ok=True
    )
    assert Counter(map(tuple, (entry[:3] for entry in shown))).most_common(1)[0][1] == 1
    assert configs == {
        "trial-0": {"lr": 0.1, "optimizer": "sgd"},
        "trial-1": {"lr": "MultiStep(0.1, [3])", "optimizer": "sgd"},
        "trial-2": {"lr": "MultiStep(0.1, [5])", "optimizer": "sgd"},
        "trial-3": {"lr": "Exponential(0.1, 0.9)", "optimizer": "sgd"},
        "trial-4": {"lr": 0.1, "optimizer": "adam"},
    }
