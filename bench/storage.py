"""What an object store costs: a home by URL, against an S3 server on this machine.

Waiting: a trainer of 32 MB trains and is saved, by files and by objects in turns, whenever what was saved
before is durable. Training waits for the snapshot; what comes after it goes on behind training.

Throughput: a checkpoint of 64 MB is saved, which writes it to a file with its digests, uploads that and
sees that it arrived. The client library alone uploads a file of the same size.

Kills: a study in a bucket is interrupted at random moments (`chaos_life.py`) and run again. After every
life, all checkpoints that the plan has are downloaded and checked. In the end every trial is what it is in
an undisturbed study in a folder, to the last bit.

Bars: training waits at most 1.1 times as long as with files; throughput is at least 0.8 of the client
library's; nothing that is recorded is missing or damaged, and no state differs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import obstore

import hippotune as hippo
from chaos_life import Life
from harness import Bar, Figures, run
from hippotune import Config
from hippotune.errors import CheckpointError, StoreError
from hippotune.executors.worker.saver import Saver
from hippotune.plan.plan import Plan
from hippotune.protocol.events import CheckpointSaved, Event
from hippotune.store.catalog import FILE_NAME, open_store
from hippotune.store.files import CheckpointFiles, checkpoint_name
from hippotune.store.homes import parse_home
from hippotune.store.objects import CheckpointObjects, opened
from hippotune.trainers.session import Session

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from s3 import Server, s3_server

BARS = [
    Bar("wait_to_files", "at most", 1.1),
    Bar("throughput_to_client_library", "at least", 0.8),
    Bar("recorded_and_missing", "at most", 0),
    Bar("states_different", "at most", 0),
]
KIND = "halving"
CONTENT = 64 << 20


class Holder(hippo.Trainer):
    """32 MB of numbers that change at every step."""

    def build(self) -> None:
        self.weights = np.random.normal(size=4 << 20)

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.decay = hp["decay"]

    def train(self) -> None:
        self.weights = self.weights * self.decay + 0.001

    def evaluate(self) -> Mapping[str, float]:
        return {"mean": float(self.weights.mean())}


class Trained:
    """A trainer and what saves it; `wait` is how long training stands still for one checkpoint."""

    def __init__(self, files: CheckpointFiles | CheckpointObjects) -> None:
        self._session = Session(Holder, {}, 0)
        self._session.start(Config({"decay": 0.999}), 0, None, warm=False)
        self.saved = 0
        self._saver = Saver(files, self._heard)

    def _heard(self, events: Any) -> None:
        said: list[Event] = list(events)
        assert all(isinstance(event, CheckpointSaved) for event in said), said
        self.saved += len(said)

    def wait(self) -> float:
        began = time.perf_counter()
        self._saver.save(0, 0, self._session.step, self._session.snapshot)
        waited = time.perf_counter() - began
        while not self._saver.is_idle:
            self._session.advance()
        return waited


def in_turns(one: Callable[[], float], other: Callable[[], float], repeats: int) -> tuple[float, float]:
    """Return what two take, measured in turns, with each going first half of the time.

    The lower quartile: what else runs on the machine can only make them slower.
    """
    times: dict[Callable[[], float], list[float]] = {one: [], other: []}
    for number in range(repeats):
        for each in (one, other) if number % 2 else (other, one):
            times[each].append(each())
    return statistics.quantiles(times[one])[0], statistics.quantiles(times[other])[0]


def waiting(server: Server, folder: Path, repeats: int) -> Figures:
    by_files = Trained(CheckpointFiles(folder / "files"))
    by_objects = Trained(CheckpointObjects(f"{server.new_bucket()}/home/plan", folder / "cache"))
    for each in (by_files, by_objects) * 2:  # the first snapshots look for large data that never changes
        each.wait()
    files, objects = in_turns(by_files.wait, by_objects.wait, repeats)
    assert by_files.saved == by_objects.saved == repeats + 2
    return {"wait_files_ms": 1e3 * files, "wait_objects_ms": 1e3 * objects, "wait_to_files": objects / files}


def throughput(server: Server, folder: Path, repeats: int) -> Figures:
    content = os.urandom(CONTENT)
    plain = folder / "plain"
    plain.write_bytes(content)
    url = f"{server.new_bucket()}/home"
    files, store = CheckpointObjects(f"{url}/plan", folder / "uploads"), opened(url)
    numbers = itertools.count()

    def by_us() -> float:
        began = time.perf_counter()
        files.save(checkpoint_name(0, next(numbers)), lambda file: file.write(content) and None)
        return time.perf_counter() - began

    def by_client() -> float:
        began = time.perf_counter()
        obstore.put(store, f"plain-{next(numbers)}", plain, chunk_size=8 << 20)
        return time.perf_counter() - began

    ours, theirs = in_turns(by_us, by_client, repeats)
    return {
        "hippo_megabytes_per_second": CONTENT / 1e6 / ours,
        "client_library_megabytes_per_second": CONTENT / 1e6 / theirs,
        "throughput_to_client_library": theirs / ours,
    }


def recorded(home: Path) -> Plan:
    """Return the plan as it is stored. A killed process's files are read from a copy."""
    with tempfile.TemporaryDirectory() as copy:
        for file in home.glob(f"{FILE_NAME}*"):
            shutil.copy(file, copy)
        with suppress(StoreError), open_store(Path(copy), create=False) as catalog:
            for info in catalog.plans():
                return Plan.replay(catalog.view(info.key).read())
    return Plan()


def missing(home: Path, url: str) -> tuple[int, int]:
    """Return how many checkpoints the plan has, and how many of them are not in the bucket as recorded."""
    plan, lost = recorded(home), 0
    found = list(plan.checkpoints())
    folders = [path.name for path in (home / "checkpoints").glob("*/")]
    with tempfile.TemporaryDirectory() as elsewhere:
        for _, checkpoint in found:
            (folder,) = folders
            try:
                CheckpointObjects(f"{url}/checkpoints/{folder}", Path(elsewhere)).verify(checkpoint)
            except CheckpointError as error:
                print(f"  {error}", file=sys.stderr)
                lost += 1
    return len(found), lost


def kills(server: Server, folder: Path, times: int, seed: int) -> Figures:
    chance, figures = random.Random(seed), Counter[str](attacks=0, recorded_and_missing=0, states_different=0)
    calm = folder / "calm"
    calm.mkdir()
    with Life(calm, KIND, None) as life:
        life.come_to_its_end()
        expected, span = life.printed()["trials"], time.time() - life.began
    while figures["attacks"] < times:
        url = f"{server.new_bucket()}/study"
        found = attacked(folder, url, chance, span, times, figures)
        figures["states_compared"] += len(expected)
        pairs = zip(found, expected, strict=True)
        figures["states_different"] += sum(mine != theirs for mine, theirs in pairs)
    return figures


def attacked(
    folder: Path, url: str, chance: random.Random, span: float, times: int, figures: Counter[str]
) -> list[Any]:
    """Interrupt a study until it comes to its end in spite of it; return what became of its trials."""
    home, _ = parse_home(url)
    ended = False
    while not ended:
        with Life(folder, KIND, None, url) as life:
            while not (ended := life.ends_within(chance.uniform(0, 0.7 * span))):
                if figures["attacks"] >= times:
                    life.come_to_its_end()
                    ended = True
                    break
                figures["attacks"] += 1
                if life.attack(chance)[1] is None:
                    break
            figures["processes_left"] += life.left_over()
        checked, lost = missing(home, url)
        figures.update(lives=1, checkpoints_checked=checked, recorded_and_missing=lost)
    trials: list[Any] = life.printed()["trials"]
    return trials


def measure(options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as name, s3_server() as server:
        folder = Path(name)
        os.environ |= {**server.environment, "XDG_DATA_HOME": str(folder / "data")}
        return {
            **waiting(server, folder, options.repeats),
            **throughput(server, folder, max(4, options.repeats // 2)),
            **kills(server, folder, options.kills, options.seed),
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=24, help="times that everything is measured (24)")
    parser.add_argument("--kills", type=int, default=20, help="how often the study is interrupted (20)")
    parser.add_argument("--seed", type=int, default=0, help="decides what is done when (0)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
