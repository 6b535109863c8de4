"""How a study behaves as a guest on a Ray cluster: what it holds, what it gives back, what a lost node costs.

Slots: a study of one trial runs on a cluster with four. Once it trains, somebody else asks for the three
others. When it has come to its end, with everything as it is by default, its own slot is waited for.

Losses: a trial of 45 steps of 0.2 s, whose home is a bucket, is saved every two seconds. At a moment in the
middle its node is killed without notice, and it goes on on another. What was trained since the newest
checkpoint is trained again.

Bars: one slot while it runs; none 30 s after its end; what a loss costs is at most two seconds, one step and
one upload of the state (the slowest of five); the trial ends with the metrics of an undisturbed one.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from ray.util.placement_group import placement_group, remove_placement_group

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import Config
from hippotune.store.files import checkpoint_name
from hippotune.store.objects import CheckpointObjects

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from executors.ray_nodes import Nodes, is_on
from s3 import Server, s3_server

BARS = [
    Bar("slots_held_while_running", "at most", 1),
    Bar("seconds_to_none_after_end", "at most", 30),
    Bar("cost_over_bound", "at most", 1),
    Bar("metrics_different", "at most", 0),
]
STEPS, STEP, EVERY = 45, 0.2, 2.0
WEIGHTS = 1 << 20


class Slow(hippo.Trainer):
    """8 MB of numbers; says in a file which process has trained which step."""

    def build(self) -> None:
        self.weights = np.random.normal(size=WEIGHTS)
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.decay = hp["decay"]

    def train(self) -> None:
        time.sleep(STEP)
        self.weights = self.weights * self.decay + 0.001
        self.steps += 1
        with Path(self.settings["diary"]).open("a") as diary:
            print(self.steps, os.getpid(), file=diary)

    def evaluate(self) -> Mapping[str, float]:
        return {"mean": float(self.weights.mean())}


def study(home: str | Path, diary: Path, **options: Any) -> hippo.Study:
    executor = hippo.Ray(slot={"place": 1})
    diary.touch()
    return hippo.Study(
        "guest", Slow, home=home, executor=executor, settings={"diary": str(diary)}, audit=0, **options
    )


def tuner(decay: float) -> hippo.GridSearch:
    return hippo.GridSearch({"decay": [decay]}, metric="mean", mode="max", max_steps=STEPS)


def written(diary: Path) -> list[tuple[int, int]]:
    """Return the steps that were trained, and by which process."""
    lines = (line.split() for line in diary.read_text().splitlines())
    return [(int(step), int(process)) for step, process in lines]


def wait_for(is_so: Any) -> float:
    began = time.monotonic()
    while not is_so():
        time.sleep(0.05)
    return time.monotonic() - began


def slots(cluster: Nodes, folder: Path) -> Figures:
    cluster.have(4)
    diary = folder / "diary"
    with ThreadPoolExecutor() as pool, study(folder / "home", diary) as guest:
        tuned = pool.submit(guest.tune, tuner(0.99), progress=False)
        wait_for(lambda: written(diary))
        others = placement_group([{"place": 1}] * 3)
        waited = wait_for(lambda: others.wait(0.01))
        held = [len(cluster.actors)]
        while not tuned.done():
            held.append(len(cluster.actors))
            time.sleep(0.1)
        tuned.result()
        given_back = wait_for(lambda: not cluster.actors)
        remove_placement_group(others)
    return {
        "seconds_to_three_slots_for_others": waited,
        "slots_held_while_running": max(held),
        "seconds_to_none_after_end": given_back,
    }


def upload_seconds(server: Server, folder: Path, repeats: int = 5) -> float:
    """Return what saving the state takes, at worst."""
    content, times = os.urandom(8 * WEIGHTS), []
    files = CheckpointObjects(f"{server.new_bucket()}/home/plan", folder / "uploads")
    for number in range(repeats):
        began = time.perf_counter()
        files.save(checkpoint_name(0, number), lambda file: file.write(content) and None)
        times.append(time.perf_counter() - began)
    return max(times)


def losses(cluster: Nodes, server: Server, folder: Path, rounds: int, seed: int) -> Figures:
    chance, again, different, seconds = random.Random(seed), [], 0, []
    upload = upload_seconds(server, folder)
    for number in range(rounds):
        nodes, diary = cluster.have(2), folder / f"diary-{number}"
        url, moment = f"{server.new_bucket()}/study", chance.randint(STEPS // 3, STEPS - 5)
        config = Config({"decay": 0.9 + number / 1000})
        with ThreadPoolExecutor() as pool, study(url, diary, checkpoint_every=EVERY) as guest:
            began = time.monotonic()
            tuned = pool.submit(guest.tune, tuner(0.9 + number / 1000), progress=False)
            wait_for(lambda diary=diary, moment=moment: any(step >= moment for step, _ in written(diary)))
            worker = psutil.Process(written(diary)[-1][1])
            cluster.kill(next(node for node in nodes if is_on(node, worker)))
            report = tuned.result()
            seconds.append(time.monotonic() - began)
            again.append(report.work.steps_trained - STEPS)
            different += report.best.metrics != guest.alone(config, STEPS)
    cost = STEP * max(again)
    return {
        "steps_requested": STEPS,
        "rounds": rounds,
        "steps_trained_again": ", ".join(map(str, again)),
        "fewest_steps_trained_again": min(again),
        "most_steps_trained_again": max(again),
        "seconds_to_end": ", ".join(f"{each:.1f}" for each in seconds),
        "upload_seconds": upload,
        "most_seconds_trained_again": cost,
        "cost_over_bound": cost / (EVERY + STEP + upload),
        "metrics_different": different,
    }


def measure(options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as name, s3_server() as server:
        folder = Path(name)
        os.environ |= {**server.environment, "XDG_DATA_HOME": str(folder / "data")}
        cluster = Nodes()
        try:
            found = slots(cluster, folder)
            return {**found, **losses(cluster, server, folder, options.rounds, options.seed)}
        finally:
            cluster.close()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="how many nodes are lost (5)")
    parser.add_argument("--seed", type=int, default=0, help="decides when (0)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
