"""Leases that several workers on a Ray cluster train together, on slots that are placed together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from executors.ray_nodes import Nodes
from executors.rig import Rig
from hippotune import Ray
from hippotune.protocol.events import LeaseFailed, LeaseFinished, WorkerJoined, WorkerLost
from trainers.light import Light
from trainers.width_samples import Together
from waiting import until

CONFIG = {"model": "convolutions", "optimizer": "plain", "bs": 8, "fault": "none", "pieces": 1}


class LightTogether(Light, Together):
    """The same in a process that is up sooner."""


@pytest.fixture(scope="module")
def rig(cluster: Nodes, unhurried: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Two workers on two nodes, which are placed together."""
    cluster.have(2)
    home = tmp_path_factory.mktemp("wide")
    rig = Rig(Ray(workers=2), home, trainer=LightTogether, config=CONFIG, together=2)
    for worker in range(2):
        rig.wait(WorkerJoined, worker=worker)
    yield rig
    rig.close()


def test_workers_on_two_nodes_learn_together_what_one_learns(rig: Rig) -> None:
    [alone] = rig.metrics(rig.run(3, evaluations=[3])).values()
    [together] = rig.metrics(rig.run(3, evaluations=[3], worker=1, peers=[0])).values()
    assert together == pytest.approx({**alone, "width": 2}, rel=1e-9)


def test_workers_on_two_nodes_that_do_not_do_the_same_notice_it_and_live_on(rig: Rig) -> None:
    failed = rig.story(rig.run(3, peers=[1], fault="skip:-,1"))[-1]
    assert isinstance(failed, LeaseFailed)
    assert failed.kind == "mismatch"
    assert "rank 1 calls backward(): the sum of float64" in failed.error
    again = rig.run(1, peers=[1])
    assert rig.story(again)[-1] == LeaseFinished(again, 1)


@pytest.mark.parametrize("rank", [0, 1])
def test_workers_that_train_together_are_lost_together(rig: Rig, rank: int) -> None:
    lease = rig.run(5, peers=[1], fault=f"train:{rank} die")
    reasons = [rig.wait(WorkerLost, worker=worker).reason for worker in range(2)]
    # Where the lead finds out before the death of its peer is known, it ends itself.
    assert "SIGKILL" in reasons[rank] or "has lost one of its other workers (1)" in reasons[0]
    for worker in range(2):
        rig.wait(WorkerJoined, worker=worker)
    assert not [event for event in rig.unread_of(lease) if isinstance(event, LeaseFinished | LeaseFailed)]
    again = rig.run(2, peers=[1])
    assert rig.story(again)[-1] == LeaseFinished(again, 2)
    on_its_own = rig.run(2, worker=1)
    assert rig.story(on_its_own)[-1] == LeaseFinished(on_its_own, 2)


def test_slots_that_leases_need_together_are_asked_for_together_and_given_back_together(
    rig: Rig, cluster: Nodes
) -> None:
    assert cluster.gangs == {"hippo/rig/gang-0": "PACK"}
    rig.executor.demand({}, 1)
    rig.executor.release(0)
    until(lambda: len(cluster.actors) == 1)
    assert cluster.gangs
    rig.executor.release(1)
    until(lambda: not cluster.gangs)
