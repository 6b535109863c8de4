"""Other processes that use a store: each is this file, run with what to do, a home and a URL.

They say on their output what they have done, one line at a time, and go on only while their input is open.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Checkpoint, MetricsRecorded, NodeAdded, Position
from hippotune.sequences.config import Config
from hippotune.store.catalog import open_store
from hippotune.store.secret import Secret

KEY = PlanKey("Digits", "version:1", "{}", 0)
BATCH = 3


@contextmanager
def running(action: str, home: Path, url: str | None) -> Iterator[subprocess.Popen[str]]:
    """Run one of the actions below in a process of its own, which is killed in the end."""
    command = [sys.executable, __file__, action, str(home), url or ""]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def write(home: Path, url: str | None) -> None:
    """Write small batches for ever, and say after each which was the last."""
    store = open_store(home, url).plan(KEY)
    store.write([NodeAdded(0, None, 0, Config({"lr": 0.1}))])
    order = 0
    while True:
        store.write([MetricsRecorded(order + i, Position(0, order + i), {"x": 1.0}) for i in range(BATCH)])
        print(order, flush=True)
        order += BATCH


def hold(home: Path, url: str | None) -> None:
    """Hold the plan."""
    store = open_store(home, url).plan(KEY)
    print("held", flush=True)
    sys.stdin.read()
    store.close()


def fork(home: Path, url: str | None) -> None:
    """Hold the plan, and leave a forked child behind that lives until the input is closed."""
    store = open_store(home, url).plan(KEY)
    if os.fork() == 0:
        print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)
    os.wait()
    store.close()


def create(home: Path, url: str | None) -> None:
    """Open a store as soon as the input is closed, and say so."""
    print("ready", flush=True)
    sys.stdin.read()
    open_store(home, url).close()
    print("opened", flush=True)


def seal(home: Path, url: str | None) -> None:
    """Open the home's key as soon as the input is closed, and say what it makes of a checkpoint."""
    print("ready", flush=True)
    sys.stdin.read()
    print(Secret.of(home).check_of("plan", Position(0, 1), Checkpoint("one", 1, "abc")), flush=True)


if __name__ == "__main__":
    actions = {"write": write, "hold": hold, "fork": fork, "create": create, "seal": seal}
    actions[sys.argv[1]](Path(sys.argv[2]), sys.argv[3] or None)
