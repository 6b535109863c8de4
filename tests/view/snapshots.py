"""Snapshots to show: one that can be varied, and any at all."""

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from hippotune.sequences import Config, Cosine, Exponential, Warmup
from hippotune.view import BestLine, Snapshot, WorkerLine

CONFIG = Config({"lr": Warmup(5, Cosine(0.1, 115)), "bs": 128})
OTHER = Config({"lr": Exponential(0.1, 0.95), "bs": 256})


def a_snapshot(**changes: Any) -> Snapshot:
    """A study in the middle of its work."""
    usual: dict[str, Any] = {
        "study": "digits",
        "metric": "val_acc",
        "mode": "max",
        "trials": 448,
        "requests_open": 400,
        "requests_answered": 48,
        "requests_failed": 0,
        "requests_suspended": 0,
        "steps_requested": 53_760,
        "steps_unique": 21_970,
        "steps_trained": 1_000,
        "steps_found": 200,
        "workers": (WorkerLine(0, 7, 15, 30, 60, CONFIG), WorkerLine(1)),
        "workers_expected": 2,
        "best": BestLine(17, 60, CONFIG, {"val_acc": 0.9312, "loss": 0.2}),
        "seconds": 83.0,
        "seconds_left": 250.0,
        "checkpoint_bytes": 12_345_678,
    }
    return Snapshot(**{**usual, **changes})


@st.composite
def worker_lines(draw: st.DrawFn, worker: int) -> WorkerLine:
    if draw(st.booleans()):
        return WorkerLine(worker)
    start, at, end = sorted(draw(st.lists(st.integers(0, 10**6), min_size=3, max_size=3)))
    width = draw(st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(16)]))
    leader = draw(st.none() | st.integers(0, 99))
    config = draw(st.sampled_from([CONFIG, OTHER]))
    return WorkerLine(worker, worker, start, at, end + 1, config, width, leader)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    count = st.integers(0, 10**9)
    unique = draw(count)
    workers = draw(st.integers(0, 100))
    return a_snapshot(
        study=draw(st.text("abc ", max_size=100)),
        trials=draw(count),
        requests_open=draw(count),
        requests_answered=draw(count),
        requests_failed=draw(count),
        requests_suspended=draw(count),
        steps_requested=unique + draw(count),
        steps_unique=unique,
        steps_trained=draw(count),
        steps_found=draw(count),
        workers=tuple(draw(worker_lines(number)) for number in range(workers)),
        workers_expected=workers + draw(st.integers(0, 3)),
        best=draw(st.sampled_from([None, BestLine(1, 5, OTHER, {"val_acc": float("nan")})])),
        seconds=draw(st.floats(0, 10**8)),
        seconds_left=draw(st.none() | st.floats(0, 10**8)),
        checkpoint_bytes=draw(st.integers(0, 10**16)),
        utilisation=draw(st.floats(0, 1)),
    )
