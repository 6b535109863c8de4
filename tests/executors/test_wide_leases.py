"""Several workers train one lease as one would: the same results, one voice, nobody waits for the dead."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Collection, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from hippotune.executors.base import Job
from hippotune.executors.local import fork_server
from hippotune.executors.local.executor import Local
from hippotune.executors.local.process import WorkerProcess
from hippotune.executors.shipping import encode, pack
from hippotune.executors.worker.wide import Part
from hippotune.plan.facts import Checkpoint
from hippotune.protocol.commands import RunLease, Segment, UpdateLease
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseFailed,
    LeaseFinished,
    MetricsReported,
    NumbersLogged,
    Progressed,
    WorkerJoined,
)
from hippotune.sequences.config import Config
from hippotune.store.files import CheckpointFiles
from hippotune.trainers.session import Session
from trainers.samples import state_of
from trainers.width_samples import Together

SECONDS = 300.0  # nothing takes so long unless it is broken
CONFIG: dict[str, Any] = {"model": "convolutions", "optimizer": "sgd", "bs": 8, "fault": "none", "pieces": 1}

E = TypeVar("E")


class Workers:
    """Worker processes, spoken to by hand."""

    def __init__(self, home: Path, workers: int = 2, settings: dict[str, Any] | None = None) -> None:
        self.home = home
        self.job = Job(Together, settings or {}, 7, home / "checkpoints")
        self._numbers = itertools.count()
        self._processes: dict[int, WorkerProcess] = {}
        self._unread: dict[int, list[Event]] = {}
        for worker in range(workers):
            self.bring_up(worker)
        for worker in range(workers):
            self.wait(WorkerJoined, worker)

    def bring_up(self, worker: int) -> None:
        # As Local does: forked off a process that has imported torch.
        environment, modules = Local(threads=1).environment(), fork_server.used_by(Together)
        process = WorkerProcess(worker, self.home / f"{worker}.log", environment, [], modules=modules)
        process.send_first(pickle.dumps(pack(self.job)))
        self._processes[worker], self._unread[worker] = process, []

    def replace(self, worker: int) -> None:
        self.bring_up(worker)
        self.wait(WorkerJoined, worker)

    def run(
        self,
        end: int,
        *,
        width: int = 2,
        start: int = 0,
        saves: Collection[int] = (),
        evaluations: Collection[int] = (),
        source: Checkpoint | None = None,
        warm: bool = False,
        **config: Any,
    ) -> int:
        """Start a lease that worker 0 leads."""
        number = next(self._numbers)
        lease = RunLease(
            lease=number,
            worker=0,
            config=Config({**CONFIG, **config}),
            start=start,
            end=end,
            segments=(Segment(number, start, end),),
            saves=frozenset(saves),
            evaluations=frozenset(evaluations),
            source=source,
            warm=warm,
            peers=tuple(range(1, width)),
            width=Fraction(width),
        )
        if width == 1:
            self._processes[0].send(encode(lease))
        for rank in range(width if width > 1 else 0):
            self._processes[rank].send(
                encode(Part(lease, rank, f"file://{self.home}/meeting-{number}", b"key"))
            )
        return number

    def update(self, lease: int, end: int) -> None:
        self._processes[0].send(encode(UpdateLease(lease, 0, end, frozenset(), frozenset())))

    def wait(self, kind: type[E], worker: int = 0, **fields: Any) -> E:
        """Return the first event of a kind that has these fields, from one worker."""
        unread = self._unread[worker]
        deadline = time.monotonic() + SECONDS
        while True:
            for event in unread:
                if isinstance(event, kind) and all(getattr(event, name) == fields[name] for name in fields):
                    unread.remove(event)
                    return event
            heard = self._heard(worker, deadline)
            assert heard is not None, f"waited for {kind.__name__} with {fields}; there was only {unread}"
            unread += heard

    def _heard(self, worker: int, deadline: float) -> list[Event] | None:
        return self._processes[worker].receive(deadline - time.monotonic())

    def end_of(self, worker: int) -> str:
        """Wait until a worker has ended; return why."""
        deadline = time.monotonic() + SECONDS
        try:
            while (heard := self._heard(worker, deadline)) is not None:
                self._unread[worker] += heard
        except EOFError:
            return self._processes[worker].reap()
        raise AssertionError(f"worker {worker} does not end; it said {self._unread[worker]}")

    def unread(self, worker: int) -> list[Event]:
        return self._unread[worker]

    def saved_state(self, lease: int, **config: Any) -> Any:
        """Wait for the checkpoint of a lease; return the state in it."""
        saved = self.wait(CheckpointSaved, lease=lease)
        session = Session(Together, self.job.settings, 7)
        with CheckpointFiles(self.job.checkpoints).read(saved.checkpoint) as file:
            session.start(Config({**CONFIG, **config}), saved.step, file, False)
        return state_of(session)

    def close(self) -> None:
        for process in self._processes.values():
            process.send(pickle.dumps(None))
        for process in self._processes.values():
            process.wait_closed()


def alone(steps: int, settings: dict[str, Any] | None = None, **config: Any) -> tuple[Any, dict[str, float]]:
    """Train a trial in this process; return its state and its metrics."""
    session = Session(Together, settings or {}, 7)
    session.start(Config({**CONFIG, **config}), 0, None, False)
    for _ in range(steps):
        session.advance()
    return state_of(session), session.evaluate()


def difference(one: Any, other: Any) -> float:
    """Return how far two states are apart, relative to what they hold; what is not a float must be equal."""
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.stride() == other.stride()
        if not one.is_floating_point():
            assert torch.equal(one, other)
            return 0.0
        return ((one - other).abs().max() / one.abs().max().clamp(min=1e-3)).item() if one.numel() else 0.0
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list):
        assert len(one) == len(other)
        return max((difference(*pair) for pair in zip(one, other, strict=True)), default=0.0)
    assert one == other
    return 0.0


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(tmp_path_factory.mktemp("workers"), settings={"num_workers": 1})
    yield workers
    workers.close()


@pytest.mark.parametrize(
    "config",
    [
        {"model": "convolutions", "optimizer": "sgd"},
        {"model": "convolutions", "optimizer": "adam", "pieces": 2},
        {"model": "attention", "optimizer": "adam"},
        {"model": "recurrence", "optimizer": "sgd", "pieces": 2},
        {"model": "convolutions", "optimizer": "sgd", "pieces": 2, "wrapped": True},
        {"model": "recurrence", "optimizer": "adam", "wrapped": True},
    ],
    ids=lambda config: "-".join(map(str, config.values())),
)
def test_two_workers_learn_what_one_learns(workers: Workers, config: dict[str, Any]) -> None:
    lease = workers.run(3, saves=[3], evaluations=[3], **config)
    metrics = workers.wait(MetricsReported, lease=lease).metrics
    workers.wait(LeaseFinished, lease=lease, step=3)
    expected, expected_metrics = alone(3, **config)
    assert difference(workers.saved_state(lease, **config), expected) < 1e-9
    assert metrics == pytest.approx(expected_metrics | {"width": 2}, rel=1e-9)


def test_what_the_first_of_them_logs_counts(workers: Workers) -> None:
    lease = workers.run(2)
    workers.wait(LeaseFinished, lease=lease)
    said = [event for event in workers.unread(0) if isinstance(event, NumbersLogged) and event.lease == lease]
    steps = [step for event in said for step in event.steps]
    assert steps == [1, 2]
    assert [number for event in said for number in event.numbers["rank"]] == [0.0, 0.0]
    assert not [event for event in workers.unread(1) if isinstance(event, NumbersLogged)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_width_may_change_on_the_way(
    workers: Workers, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIG, "wrapped", wrapped)
    lease = workers.run(1, width=1)
    workers.wait(LeaseFinished, lease=lease)
    lease = workers.run(2, start=1, warm=True, saves=[2])  # two workers, from what the lead holds
    workers.wait(LeaseFinished, lease=lease)
    wide = workers.wait(CheckpointSaved, lease=lease).checkpoint
    lease = workers.run(3, width=1, start=2, warm=True, saves=[3])
    workers.wait(LeaseFinished, lease=lease)
    from_memory = workers.saved_state(lease)
    lease = workers.run(3, width=1, start=2, source=wide, saves=[3])
    workers.wait(LeaseFinished, lease=lease)
    narrow = workers.wait(CheckpointSaved, lease=lease).checkpoint
    lease = workers.run(4, start=3, source=narrow, evaluations=[4], saves=[3, 4])
    assert difference(workers.saved_state(lease), from_memory) == 0
    expected, expected_metrics = alone(4)
    assert workers.wait(MetricsReported, lease=lease).metrics == pytest.approx(
        expected_metrics | {"width": 2}
    )
    assert difference(workers.saved_state(lease), expected) < 1e-9
    workers.wait(LeaseFinished, lease=lease)


def test_only_the_lead_speaks_and_it_takes_updates(workers: Workers) -> None:
    lease = workers.run(10**6)
    workers.wait(Progressed, lease=lease)
    workers.update(lease, 0)
    step = workers.wait(LeaseFinished, lease=lease).step
    workers.wait(CheckpointSaved, lease=lease, step=step)
    lease = workers.run(1)
    workers.wait(LeaseFinished, lease=lease)
    assert workers.unread(1) == []


@pytest.mark.parametrize(
    ("method", "rank", "step"),
    [("train", 0, 2), ("train", 1, 2), ("evaluate", 0, 2), ("evaluate", 1, 2), ("measure", 1, 2)],
)
def test_what_one_rank_raises_fails_the_lease_and_leaves_all_workers_ready(
    workers: Workers, method: str, rank: int, step: int
) -> None:
    lease = workers.run(3, evaluations=[1, 2], fault=f"{method}:{rank} broken")
    failed = workers.wait(LeaseFailed, lease=lease)
    assert (failed.step, failed.phase) == (step, "train" if method == "train" else "evaluate")
    assert f"ArithmeticError: broken by rank {rank}" in failed.error
    assert "width_samples.py" in failed.error
    assert ("worker 1, one of the 2" in failed.error) == (rank == 1)
    lease = workers.run(1)
    workers.wait(LeaseFinished, lease=lease)


@pytest.mark.parametrize(
    ("fault", "called"),
    [
        ("skip:-,1", ["rank 0 calls self.total()", "in train(), batch 2", "rank 1 calls backward()"]),
        ("skip:0,1", ["in train(), batch 2", "in train(), batch 1"]),  # as often, but not the same
        ("skip:-,2", ["backward(): the sum of float64", "rank 1 comes to the end of train()"]),
        (
            "skip:-,2 wrapped",
            ["calls backward(): gradients 0, float64 (", "rank 1 comes to the end of train()"],
        ),
        ("skip:2,-", ["rank 0 comes to the end of train()", "backward(): the sum of float64"]),
        ("shapes", ["self.total(): the sum of float32 (2,) on cpu", "the sum of float32 (3,) on cpu"]),
        ("large shapes", ["the sum of float32 (5000,) on cpu", "the sum of float32 (7000,) on cpu"]),
        ("types", ["the sum of float32 (2,) on cpu", "the sum of float64 (2,) on cpu"]),
        ("measure:0 total", ["self.total(): the sum of int64 ()", "rank 1 comes to the end of evaluate()"]),
    ],
)
def test_workers_that_do_not_do_the_same_notice_it_and_say_who_did_what(
    workers: Workers, fault: str, called: list[str]
) -> None:
    fault, wrapped = fault.removesuffix(" wrapped"), fault.endswith("wrapped")
    lease = workers.run(3, evaluations=[2], saves=[2], fault=fault, wrapped=wrapped)
    failed = workers.wait(LeaseFailed, lease=lease)
    assert (failed.kind, failed.replaced) == ("mismatch", ())
    assert (failed.step, failed.phase) == ((2, "evaluate") if "measure" in fault else (failed.step, "train"))
    for part in called:
        assert part in failed.error
    assert "width_samples.py:" in failed.error
    lease = workers.run(1)  # both are ready for the next one
    workers.wait(LeaseFinished, lease=lease)


def test_a_wrapper_that_is_kept_is_refused(workers: Workers) -> None:
    failed = workers.wait(LeaseFailed, lease=workers.run(1, fault="keep", wrapped=True))
    assert "Call it in train() each time, and keep it in a local variable" in failed.error
    lease = workers.run(1, width=1, fault="keep", wrapped=True)  # it is the model itself
    workers.wait(LeaseFinished, lease=lease)


def test_a_peer_without_memory_is_replaced_after_the_lead_has_said_so(workers: Workers) -> None:
    lease = workers.run(3, fault="train:1 memory")
    failed = workers.wait(LeaseFailed, lease=lease)
    assert (failed.step, failed.phase) == (2, "train")
    assert "MemoryError: no more" in failed.error
    assert "the error may come from the process itself" in workers.end_of(1)
    workers.replace(1)
    lease = workers.run(1)
    workers.wait(LeaseFinished, lease=lease)


def test_a_disk_that_is_full_for_a_peer_is_told_and_replaces_nothing(workers: Workers) -> None:
    failed = workers.wait(LeaseFailed, lease=workers.run(3, fault="train:1 overfill"))
    assert (failed.step, failed.kind, failed.replaced) == (2, "disk full", ())
    assert "on worker 1, one of the 2" in failed.error
    assert "No space left on device" in failed.error
    lease = workers.run(1)  # both are ready for the next one
    workers.wait(LeaseFinished, lease=lease)


def test_a_lead_whose_peer_dies_blames_nobody_and_ends(workers: Workers) -> None:
    lease = workers.run(3, fault="train:1 die")
    assert "another worker, which it trained a lease with, was lost" in workers.end_of(0)
    logs = [path.read_text() for path in workers.home.glob("*.log")]
    assert any("has lost one of its other workers (1)" in log for log in logs)
    assert not [event for event in workers.unread(0) if isinstance(event, LeaseFailed | LeaseFinished)]
    assert "SIGKILL" in workers.end_of(1)
    workers.replace(0)
    workers.replace(1)
    assert lease < workers.run(1)
    workers.wait(LeaseFinished)


def test_a_peer_whose_lead_dies_is_ready_for_the_next_lease(workers: Workers) -> None:
    workers.run(3, fault="train:0 die")
    assert "SIGKILL" in workers.end_of(0)
    workers.replace(0)
    lease = workers.run(1)
    workers.wait(LeaseFinished, lease=lease)
