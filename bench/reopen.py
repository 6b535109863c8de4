"""How soon a large study is there again: 10,000 trials with 100,000 metrics in SQLite.

The store is built once, through its own interface, as a study of the space of `scale.py` leaves it: trials of
120 steps, measured on their way, a checkpoint at the end of each, and the time that workers spent on every
node. Then the plan is read and replayed, as it is when a study is opened; and `hippo show` is run, from the
start of its process to its end.

Times are medians of several runs on the wall clock: they hold on a machine with nothing else to do.

Bars:
  a study is opened again in at most 2 s;
  `hippo show` takes at most 2 s in all.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import Bar, Figures, run
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Checkpoint, Fact, RequestMade, SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.scheduling.profile import Profile
from hippotune.store.catalog import open_store
from hippotune.store.files import checkpoint_name
from scale import STEPS, space

STUDY, KEY = "reopen", PlanKey("Digits", "version:1", "{}", 0)
EVERY = 6
BARS = [Bar("reopen_seconds", "at most", 2), Bar("show_seconds", "at most", 2)]


def facts(trials: int, metrics: int) -> Iterator[Fact]:
    """Yield what a study leaves that asked for everything, and trained it."""
    plan, chance = Plan(), random.Random(0)
    configs = space(trials // 1000)
    for number, config in enumerate(configs):
        yield from plan.place(config, STEPS)[1]
        yield RequestMade(STUDY, number, config, STEPS)
    for config in configs:
        node = plan.find(config, STEPS)
        for step in range(EVERY, STEPS + 1, EVERY):
            if plan.order < metrics and step not in node.holder(step).metrics:
                values = {"accuracy": chance.random(), "loss": chance.expovariate(1.0)}
                yield plan.measure(node.position(step), values)
        end = Checkpoint(checkpoint_name(node.id, STEPS), 100_000, f"{chance.getrandbits(128):032x}")
        yield plan.keep(node.position(STEPS), end)
    for lease, node in enumerate(plan.nodes):
        yield SpanRecorded(0, lease, node.id, "train", node.start, STEPS, lease, lease + 1.0, 1.0, 1.0)


def build(home: Path, trials: int, metrics: int) -> None:
    with open_store(home) as catalog:
        catalog.bind(STUDY, KEY)
        store = catalog.plan(KEY)
        batch: list[Fact] = []
        for fact in facts(trials, metrics):
            batch.append(fact)
            if len(batch) == 10_000:
                store.write(batch)
                batch = []
        store.write(batch)
        store.close()


def reopen(home: Path) -> Plan:
    with open_store(home) as catalog:
        store = catalog.plan(KEY)
        plan = Plan.replay(store.read())
        Profile().recall(plan.nodes, store.step_times())
        store.close()
    return plan


def show(home: Path) -> None:
    command = [sys.executable, "-m", "hippotune", "show", STUDY, "--home", str(home)]
    subprocess.run([*command, "--metric", "accuracy", "--mode", "max"], check=True, stdout=subprocess.DEVNULL)


def seconds(action: Callable[[Path], object], home: Path, repeat: int) -> float:
    taken = []
    for _ in range(repeat):
        gc.collect()
        began = time.perf_counter()
        action(home)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def measure(options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        build(home, options.trials, options.metrics)
        plan = reopen(home)
        kept, count = sum(1 for _ in plan.checkpoints()), len(plan.nodes)
        figures = {"trials": options.trials, "metrics": plan.order, "nodes": count, "checkpoints": kept}
        del plan
        return {
            **figures,
            "store_mb": (home / "plans.sqlite").stat().st_size / 1e6,
            "reopen_seconds": seconds(reopen, home, options.repeat),
            "show_seconds": seconds(show, home, options.repeat),
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=10_000, help="trials of the study (10,000)")
    parser.add_argument("--metrics", type=int, default=100_000, help="positions that were measured (100,000)")
    parser.add_argument("--repeat", type=int, default=5, help="how many runs to take the median of (5)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
