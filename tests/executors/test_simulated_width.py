"""Width in virtual time: what several slots, or a part of one, make of a step's time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

import pytest

from executors.virtual import Asks, Outcome, tune
from hippotune import Fluid, Trainer
from hippotune.errors import IllegalTransition
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.protocol.commands import RunLease, Segment
from hippotune.protocol.events import (
    Event,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Progressed,
    WorkerJoined,
    WorkerLost,
)
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Config, MultiStep

RESNET = {1: 1, 2: 1.870, 4: 3.421, 8: 5.598}
A, B = Config({"lr": 0.1}), Config({"lr": 0.5})


def started(outcome: Outcome) -> list[tuple[float, float]]:
    """Return when each lease began, and its width."""
    firsts: dict[int, tuple[float, float]] = {}
    for span in outcome.spans:
        if span.kind == "train":
            firsts.setdefault(span.lease, (span.began, span.width))
    return list(firsts.values())


class Clock:
    """Three workers, driven by hand; what they say, and when."""

    def __init__(self, **times: Any) -> None:
        self.executor = Simulated(3, seconds_per_step=2.0, load=5.0, scaling=RESNET, **times)
        self.heard: list[tuple[float, Event]] = []
        job = Job(Trainer)
        asyncio.run(self.executor.start(job, lambda event: self.heard.append((self.executor.now(), event))))
        self.go_on(until=WorkerJoined, times=3)

    def run(self, end: int, worker: int = 0, peers: Collection[int] = ()) -> int:
        lease = sum(isinstance(event, LeaseStarted) for _, event in self.heard)
        segments, evaluations = (Segment(0, 0, end),), frozenset([end])
        self.executor.carry_out(
            RunLease(
                lease, worker, A, 0, end, segments, frozenset(), evaluations,
                peers=tuple(peers), width=Fraction(1 + len(peers)),
            )
        )  # fmt: skip
        return lease

    def go_on(self, until: type, times: int = 1) -> None:
        """Let time go by until something has been said so often."""
        while sum(isinstance(event, until) for _, event in self.heard) < times:
            assert self.executor.advance(), f"nobody ever says {until.__name__}"

    def times(self, kind: type) -> list[tuple[float, Any]]:
        return [(now, event) for now, event in self.heard if isinstance(event, kind)]


def test_a_wide_lease_is_faster_by_what_was_measured() -> None:
    clock = Clock()
    clock.run(10, peers=[2])
    clock.go_on(until=LeaseFinished)
    assert clock.times(LeaseStarted) == [(5.0, LeaseStarted(0, 5.0))]  # its peers have to be given the state
    ((_, progressed),) = clock.times(Progressed)
    assert progressed.seconds == pytest.approx(20 / 1.870)
    assert clock.executor.now() == pytest.approx(5 + 20 / 1.870)


def test_what_is_measured_does_not_depend_on_the_width() -> None:
    clock = Clock()
    for times, peers in enumerate([[], [1], [1, 2]], start=1):
        clock.run(5, peers=peers)
        clock.go_on(until=LeaseFinished, times=times)
    alone, *together = [event.metrics for _, event in clock.times(MetricsReported)]
    assert together == [alone, alone]


@pytest.mark.parametrize("leader", [0, 1])
def test_workers_that_train_together_are_lost_together(leader: int) -> None:
    clock = Clock(losses=[(40.0, 1, 7.0)], startup=1.0)
    clock.run(1000, leader, peers=[1 - leader])
    clock.go_on(until=WorkerJoined, times=5)
    (_, first), (_, second) = clock.times(WorkerLost)
    assert [now for now, _ in clock.times(WorkerLost)] == [40.0, 40.0]
    assert (first.worker, second.worker) == (1, 0)
    assert "worker 1, which it trained with, is lost" in second.reason
    assert [(now, event.worker) for now, event in clock.times(WorkerJoined)[3:]] == [(41.0, 0), (47.0, 1)]
    assert not clock.times(LeaseFinished) + clock.times(MetricsReported)
    again = clock.run(3, peers=[1, 2])
    clock.go_on(until=LeaseFinished)
    assert clock.heard[-1][1] == LeaseFinished(again, 3)


def test_a_worker_that_is_at_work_with_others_takes_nothing_else() -> None:
    clock = Clock()
    clock.run(10, peers=[2])
    with pytest.raises(IllegalTransition, match="worker 2 was given"):
        clock.run(10, worker=2)


def test_one_long_trial_ends_sooner_on_all_workers() -> None:
    wide = tune(Simulated(8, scaling=RESNET), Asks((A, 100)), width=Fluid(max_width=8, scaling=RESNET))
    assert wide.trained == 100
    narrow = [began for began, width in started(wide) if width < 8]
    assert wide.seconds == pytest.approx(100 / 5.598, abs=1.0 + len(narrow))  # workers join one by one
    assert wide.worker_seconds == pytest.approx(8 * 100 / 5.598, rel=0.05)


def test_the_proof_of_a_width_takes_its_time() -> None:
    """After the rehearsal, which goes on beside training, comes one step at width 2 that is no training."""
    times = {"seconds_per_step": 10.0, "load": 2.0, "startup": 1.0}
    plain = tune(Simulated(2, **times), Asks((A, 100)), width=Fluid())
    proved = tune(Simulated(2, **times), Asks((A, 100)), width=Fluid(), proofs=ProofPolicy("Net"))
    (wide,) = [span for span in proved.spans if span.kind == "proof" and span.width == 2]
    assert (wide.last - wide.first, wide.ended - wide.began) == (1, 5.0 + 2.0)
    first = min(span.began for span in proved.spans if span.kind == "train" and span.width == 2)
    assert first == wide.ended
    assert proved.trained == plain.trained == 100
    assert plain.seconds < proved.seconds < plain.seconds + 60
    assert [result.metrics for result in proved.results] == [result.metrics for result in plain.results]


def test_packed_leases_share_a_slot() -> None:
    plain = tune(Simulated(1), Asks((A, 10), (B, 10)))
    packed = tune(Simulated(1), Asks((A, 10), (B, 10)), width=Fluid(packing=2))
    assert started(packed) == [(0.0, 0.5), (0.0, 0.5)]
    assert packed.seconds == plain.seconds == 20.0
    assert packed.worker_seconds == pytest.approx(plain.worker_seconds)


def test_packing_pays_where_two_on_a_slot_are_faster_than_one_after_the_other() -> None:
    scaling = {0.5: 0.8, 1: 1}
    asks = Asks(*[(Config({"lr": float(rate)}), 10) for rate in range(1, 9)])
    plain = tune(Simulated(2, scaling=scaling), asks)
    packed = tune(Simulated(2, scaling=scaling), asks, width=Fluid(packing=2, scaling=scaling))
    assert plain.seconds == 40.0
    assert packed.seconds < plain.seconds
    assert packed.trained == plain.trained


def test_a_change_of_width_waits_until_it_pays_for_its_restart() -> None:
    asks = Asks((A, 100), (B, 20))
    quick = tune(Simulated(2, load=0.0), asks, width=Fluid())
    dear = tune(Simulated(2, load=200.0), asks, width=Fluid())
    assert 2.0 in {width for _, width in started(quick)}
    assert quick.seconds < 75
    assert len(started(dear)) <= len(started(quick))
    assert dear.trained == quick.trained == 120


def test_trials_of_another_pace_are_widened_once_that_is_known() -> None:
    """What takes longer than the engine thinks looks finished to it, unless workers say how far they are."""

    def slow(values: Mapping[str, Any], width: float) -> float:
        return (5.0 if values["lr"] == 0.1 else 1.0) / width

    asks = Asks((A, 40), (B, 40))
    silent = tune(Simulated(2, seconds_per_step=slow), asks, width=Fluid())
    told = tune(Simulated(2, seconds_per_step=slow, progress=1.0), asks, width=Fluid())
    assert silent.trained == told.trained == 80
    assert told.seconds < 0.8 * silent.seconds
    steps = [event.steps for _, event in told.heard if isinstance(event, Progressed)]
    assert sum(steps) == 80


def test_a_lost_peer_costs_time_and_no_result() -> None:
    asks = Asks((A, 100), (Config({"lr": MultiStep(0.1, [50], 0.1)}), 80))
    whole = tune(Simulated(4), asks, width=Fluid())
    for time in (3.5, 12.0, 20.25):
        lossy = tune(Simulated(4, losses=[(time, 2, 1.0)]), asks, width=Fluid())
        assert lossy.times(WorkerLost)[0] == time
        assert {(r.trial.config, r.step): r.metrics for r in lossy.results} == {
            (r.trial.config, r.step): r.metrics for r in whole.results
        }
        assert lossy.trained >= whole.trained == 130


def test_the_same_study_gives_the_same_events_at_any_width() -> None:
    asks = Asks((A, 60), (B, 30), (Config({"lr": MultiStep(0.1, [20], 0.1)}), 50))
    runs = [tune(Simulated(3, load=0.5), asks, width=Fluid(packing=2, max_width=2)) for _ in range(2)]
    assert runs[0].heard == runs[1].heard
