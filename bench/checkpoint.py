"""What a checkpoint costs training: the demo's model, in steps of 20 ms, saved while it trains on.

A step with a save takes a snapshot, has it saved, and trains; the file is written, summed up and synced to
disk meanwhile, by the process that holds the worker. What such a step takes longer than the steps before and
after it is the snapshot, handing it over, and whatever the writing slows training down. How many mini-batches
make a step of 20 ms is found out again and again, because machines change their pace.

In the same run that process makes the same bytes durable in the same way while a step is trained, without
getting them from the worker. What that costs training (interrupts of the disk, the file system's own
threads) is the limit for all who write behind it, however they do it.

Bar: the median cost of a save is at most 5 % of a step.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from harness import Bar, Figures, run
from hippotune import Config
from hippotune.executors.saver import SMALL, Saver, SnapshotSaver, Unsaved
from hippotune.protocol.events import CheckpointSaved
from hippotune.store.files import CheckpointFiles, checkpoint_name
from hippotune.trainers.session import Session

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from digits import Digits

STEP_SECONDS = 0.02
_SAVES_AT_ONE_PACE = 40
BARS = [Bar("cost_percent", "at most", 5.0)]


class Timed(Digits):
    """Trains as many mini-batches in a step as fill 20 ms."""

    def train(self) -> None:
        for images, targets in self.loader.batches(self.settings["batches"]):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(images), targets).backward()
            self.optimizer.step()


def started(batches: int) -> Session:
    session = Session(Timed, {"batches": batches}, 0)
    session.start(Config({"lr": 0.1, "bs": 128, "momentum": 0.9}), 0, None, False)
    for _ in range(10):
        session.advance()
    return session


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def set_pace(session: Session) -> None:
    """Have a step take about 20 ms."""
    step = statistics.median(seconds(session.advance) for _ in range(15))
    settings = session.trainer.settings
    assert isinstance(settings, dict)
    settings["batches"] = max(1, round(settings["batches"] * STEP_SECONDS / step))


def hold(line: Connection, folder: str, content: bytes) -> None:
    """Save what a worker hands over, or the given content where it does not; say when it is done."""
    saver = Saver(CheckpointFiles(Path(folder)), lambda events: line.send(*events))
    for number in itertools.count():
        try:
            message = line.recv_bytes()
        except EOFError:
            return
        if message:
            unsaved = pickle.loads(message)
            saver.save_content(unsaved, unsaved.content_in(message))
        else:
            unsaved = Unsaved(0, number, checkpoint_name(2, number), len(content))
            saver.save_content(unsaved, memoryview(content))


@contextmanager
def holder(folder: str, content: bytes) -> Iterator[Connection]:
    """Have a process that holds this one, as a worker is held; yield the line to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(theirs, folder, content))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join()


def wait_for_save(line: Connection) -> None:
    event = line.recv()
    assert isinstance(event, CheckpointSaved), event


def measure(options: argparse.Namespace) -> Figures:
    torch.set_num_threads(1)  # as for one of two workers on two cores
    session = started(5)
    without, snapshots, costs, limits, batches = [], [], [], [], []
    content = b"".join(session.snapshot().content(True) or [])
    assert len(content) <= SMALL, "the demo's model is too large to be handed over"
    with tempfile.TemporaryDirectory() as folder, holder(folder, content) as line:
        files = CheckpointFiles(Path(folder))
        saver = SnapshotSaver(files, lambda events: None, line.send_bytes)
        for number in range(options.saves):
            if number % _SAVES_AT_ONE_PACE == 0:
                set_pace(session)
                batches.append(session.trainer.settings["batches"])
            before = seconds(session.advance)
            began = time.perf_counter()
            snapshot = session.snapshot()
            snapshots.append(time.perf_counter() - began)
            saver.save(0, 0, number, snapshot)
            session.advance()
            with_save = time.perf_counter() - began
            wait_for_save(line)
            after = seconds(session.advance)
            began = time.perf_counter()
            line.send_bytes(b"")
            session.advance()
            limits.append(time.perf_counter() - began - after)
            wait_for_save(line)
            without.append((before + after) / 2)
            costs.append(with_save - without[-1])
        pieces = [memoryview(content)]
        writing = [seconds(lambda: files.save_content("00/node-1-step-1", pieces)) for _ in range(100)]
    step, cost = statistics.median(without), statistics.median(costs)
    return {
        "cost_percent": 100 * cost / step,
        "cost_ms": 1000 * cost,
        "limit_percent": 100 * statistics.median(limits) / step,
        "snapshot_ms": 1000 * statistics.median(snapshots),
        "step_ms": 1000 * step,
        "write_ms": 1000 * statistics.median(writing),
        "checkpoint_bytes": len(content),
        "batches_in_a_step": statistics.median(batches),
        "saves": options.saves,
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--saves", type=int, default=600, help="how many saves to measure")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
