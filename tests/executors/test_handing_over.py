"""Who saves a snapshot: the process that holds a worker, or, where it is large, the worker itself."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from executors.rig import SECONDS, Rig
from hippotune.executors import Local
from hippotune.executors.saver import Saver, Unsaved
from hippotune.plan.facts import Checkpoint
from hippotune.protocol.events import CheckpointSaved, LeaseFinished, SaveFailed, WorkerJoined, WorkerLost
from hippotune.store.files import CheckpointFiles, DiskFull, checkpoint_name
from hippotune.trainers.base import Trainer

SMALL, LARGE = 1000, 1 << 20


class Counting(Trainer):
    """Counts steps. Its state takes as many `bytes` as a hyper-parameter says; `ends` is its last step."""

    saves_random_state = True  # there is nothing random

    def build(self) -> None:
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.bytes, self.ends, self.is_slow = hp["bytes"], hp["ends"], hp["slow"]

    def train(self) -> None:
        if self.steps == self.ends:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1

    def evaluate(self) -> Mapping[str, float]:
        return {"steps": self.steps}

    def save(self, path: Path) -> None:
        self.write(self.snapshot(), path)

    def load(self, path: Path) -> None:
        self.steps = int(path.read_bytes())

    def snapshot(self) -> bytes:
        return str(self.steps).encode().ljust(self.bytes)

    def write(self, snapshot: bytes, path: Path) -> None:
        path.write_bytes(snapshot)

    def content(self, snapshot: bytes, wait: bool = True) -> Sequence[memoryview] | None:
        if self.bytes < 0:
            raise ZeroDivisionError("the content is beyond words")
        whole = memoryview(snapshot)
        cut = len(whole) // 2 // 4 * 4
        return None if self.is_slow and not wait else [whole[:cut].cast("i"), whole[cut:]]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    config = {"bytes": SMALL, "ends": -1, "slow": False}
    rig = Rig(Local(workers=1), tmp_path_factory.mktemp("home"), Counting, config=config)
    rig.wait(WorkerJoined)
    yield rig
    rig.close()


@pytest.fixture
def saved_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what this process, which holds the worker, saves."""
    names: list[str] = []
    save_content = CheckpointFiles.save_content

    def save(self: CheckpointFiles, name: str, content: Sequence[memoryview]) -> Checkpoint:
        names.append(name)
        return save_content(self, name, content)

    monkeypatch.setattr(CheckpointFiles, "save_content", save)
    return names


@pytest.mark.parametrize(
    ("config", "is_handed_over"),
    [({}, True), ({"slow": True}, False), ({"bytes": LARGE}, False), ({"bytes": LARGE, "slow": True}, False)],
)
def test_what_is_small_and_complete_is_handed_over(
    rig: Rig, saved_here: list[str], config: dict[str, Any], is_handed_over: bool
) -> None:
    lease = rig.run(9, saves=range(1, 10), **config)
    rig.story(lease)
    checkpoints = [rig.saved(lease, step) for step in range(1, 10)]
    for step, checkpoint in enumerate(checkpoints, 1):
        content = CheckpointFiles(rig.checkpoints).verify(checkpoint).read_bytes()
        assert content == str(step).encode().ljust(config.get("bytes", SMALL))
    assert saved_here == [checkpoint.name for checkpoint in checkpoints] * is_handed_over
    resumed = rig.run(7, start=5, source=checkpoints[4], evaluations=[7], **config)
    assert rig.metrics(resumed) == {7: {"steps": 7.0}}


def test_what_a_dead_worker_has_handed_over_is_saved_before_its_loss_is_announced(rig: Rig) -> None:
    lease = rig.run(9, saves=[3], ends=3)
    rig.wait(WorkerLost)
    assert [event.step for event in rig.unread_of(lease) if isinstance(event, CheckpointSaved)] == [3]
    rig.wait(WorkerJoined)


def test_what_cannot_be_saved_does_not_stop_training(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(*_: object) -> Checkpoint:
        raise DiskFull("there is no room left")

    monkeypatch.setattr(CheckpointFiles, "save_content", save)
    lease = rig.run(4, saves=[2])
    failed = rig.wait(SaveFailed, lease=lease)
    assert (failed.step, failed.disk_full) == (2, True)
    assert "there is no room left" in failed.error
    assert rig.story(lease)[-1] == LeaseFinished(lease, 4)


def test_a_content_that_cannot_be_had_does_not_stop_training(rig: Rig) -> None:
    lease = rig.run(4, saves=[2], bytes=-1)
    failed = rig.wait(SaveFailed, lease=lease)
    assert "the content is beyond words" in failed.error
    assert rig.story(lease)[-1] == LeaseFinished(lease, 4)


@pytest.mark.parametrize("pieces", [[], [b""], [b"", b"abc"], [b"abc", b"defg"]])
def test_a_message_holds_what_is_handed_over(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    message = Unsaved(1, 2, "00/node-1-step-2", len(content)).followed_by([*map(memoryview, pieces)])
    assert bytes(pickle.loads(message).content_in(message)) == content


def test_what_nobody_hears_of_is_saved_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def send(_: object) -> None:
        raise RuntimeError("the loop is closed")

    files = CheckpointFiles(tmp_path)
    saver = Saver(files, send)
    names = [checkpoint_name(1, step) for step in range(5)]
    for step, name in enumerate(names):
        saver.save_content(Unsaved(0, step, name, 1), memoryview(b"a"))
    saver.finish()
    assert sorted(files.names()) == sorted(names)
    assert "the loop is closed" in caplog.text
    saver.give_up()
    saver.save_content(Unsaved(0, 9, checkpoint_name(1, 9), 1), memoryview(b"a"))
    saver.finish()
    assert checkpoint_name(1, 9) not in set(files.names())
    saver.close()


def test_no_thread_is_left_of_an_executor_that_is_closed(tmp_path: Path) -> None:
    before = threading.active_count()
    rig = Rig(Local(workers=1), tmp_path, Counting, config={"bytes": SMALL, "ends": -1, "slow": False})
    rig.wait(WorkerJoined)
    lease = rig.run(2, saves=[1, 2])
    rig.saved(lease, 2)
    rig.close()
    deadline = time.monotonic() + SECONDS
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_what_is_handed_over_is_saved_before_an_executor_is_closed(tmp_path: Path) -> None:
    rig = Rig(Local(workers=1), tmp_path, Counting, config={"bytes": 1 << 16, "ends": -1, "slow": False})
    rig.wait(WorkerJoined)
    lease = rig.run(30, saves=range(1, 31))
    rig.wait(LeaseFinished, lease=lease)
    rig.close()
    for step in range(1, 31):
        CheckpointFiles(rig.checkpoints).verify(rig.saved(lease, step))
