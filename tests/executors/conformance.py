"""What every executor must do, whatever it runs on: the contract of `hippotune.executors.base` as tests.

An executor's own test module derives a class from `LeaseConformance`, or from `TrainingConformance` where
trainers really run, and says in `make_executor` how the executor is made. All tests of a class share one.
"""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from executors.rig import NEVER, Rig, logged_in
from hippotune.executors.base import Executor
from hippotune.protocol.events import (
    CheckpointSaved,
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Progressed,
    SaveFailed,
    StepsMissed,
    WorkerJoined,
    WorkerLost,
)
from hippotune.sequences.custom import Function, Table
from hippotune.store.files import CheckpointFiles


class LeaseConformance(ABC):
    """Leases run, are changed on their way, and are reported of in order."""

    @classmethod
    @abstractmethod
    def make_executor(cls) -> Executor:
        """Make an executor with two workers."""

    @pytest.fixture(scope="class")
    @classmethod
    def rig(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
        rig = Rig(cls.make_executor(), tmp_path_factory.mktemp("home"))
        rig.wait(WorkerJoined, worker=0)
        rig.wait(WorkerJoined, worker=1)
        yield rig
        rig.close()

    def hold(self, rig: Rig, step: int) -> None:
        """Have the lease that runs with ``hold=step`` come there, and stay until events are waited for."""
        rig.gate.wait_for(step)

    def test_it_says_how_many_workers_it_has(self, rig: Rig) -> None:
        assert rig.executor.workers == 2

    def test_its_clock_does_not_go_back(self, rig: Rig) -> None:
        before = rig.executor.now()
        rig.story(rig.run(3))
        assert rig.executor.now() >= before

    def test_a_lease_is_reported_of_in_the_order_of_its_steps(self, rig: Rig) -> None:
        lease = rig.run(6, evaluations=[2, 4, 6])
        story = rig.story(lease)
        assert isinstance(story[0], LeaseStarted)
        assert story[-1] == LeaseFinished(lease, 6)
        assert [event.step for event in story if isinstance(event, MetricsReported)] == [2, 4, 6]

    def test_progress_is_told_before_what_was_measured_there_and_counts_every_step_once(
        self, rig: Rig
    ) -> None:
        trained = 0
        for event in rig.story(rig.run(9, evaluations=[3, 7])):
            if isinstance(event, Progressed):
                trained += event.steps
                assert event.step == trained
                assert event.seconds >= 0
            elif isinstance(event, MetricsReported | LeaseFinished):
                assert event.step == trained
        assert trained == 9

    def test_checkpoints_are_saved_where_they_are_asked_for_and_nowhere_else(self, rig: Rig) -> None:
        lease = rig.run(6, saves=[2, 5])
        story = rig.story(lease)
        rig.saved(lease, 2)
        rig.saved(lease, 5)
        rig.story(rig.run(1))
        assert not [event for event in rig.unread_of(lease) if isinstance(event, CheckpointSaved)]
        assert not [event for event in story if isinstance(event, SaveFailed)]

    def test_both_workers_can_work_at_the_same_time(self, rig: Rig) -> None:
        held = rig.run(4, worker=0, hold=2)
        self.hold(rig, 2)
        free = rig.run(4, worker=1)
        assert rig.story(free)[-1] == LeaseFinished(free, 4)
        assert rig.story(held)[-1] == LeaseFinished(held, 4)

    def test_a_lease_without_steps_measures_what_a_checkpoint_holds(self, rig: Rig) -> None:
        first = rig.run(4, saves=[4], evaluations=[4])
        rig.story(first)
        second = rig.run(4, start=4, source=rig.saved(first, 4), evaluations=[4])
        story = rig.story(second)
        assert [type(event) for event in story] == [LeaseStarted, MetricsReported, LeaseFinished]
        assert story[-1] == LeaseFinished(second, 4)

    def test_an_update_ahead_of_the_worker_adds_a_save_and_an_evaluation(self, rig: Rig) -> None:
        lease = rig.run(40, hold=5)
        self.hold(rig, 5)
        rig.update(lease, 40, saves=[30], evaluations=[35])
        story = rig.story(lease)
        rig.saved(lease, 30)
        assert [event.step for event in story if isinstance(event, MetricsReported)] == [35]
        assert not [event for event in story if isinstance(event, StepsMissed)]

    def test_an_update_behind_the_worker_is_answered_with_the_steps_missed(self, rig: Rig) -> None:
        lease = rig.run(40, hold=5, saves=[2], evaluations=[2])
        self.hold(rig, 5)
        rig.update(lease, 40, saves=[1, 2, 3, 40], evaluations=[2, 4, 40])
        story = rig.story(lease)
        [missed] = [event for event in story if isinstance(event, StepsMissed)]
        assert missed == StepsMissed(lease, frozenset({4}), frozenset({1, 3}))
        assert [event.step for event in story if isinstance(event, MetricsReported)] == [2, 40]
        rig.saved(lease, 2)
        rig.saved(lease, 40)

    def test_an_update_takes_back_what_is_not_asked_for_any_more(self, rig: Rig) -> None:
        lease = rig.run(40, hold=5, evaluations=[30, 40])
        self.hold(rig, 5)
        rig.update(lease, 40, evaluations=[40])
        assert list(rig.metrics(lease)) == [40]

    def test_an_update_can_prolong_a_lease(self, rig: Rig) -> None:
        lease = rig.run(40, hold=5)
        self.hold(rig, 5)
        rig.update(lease, 50)
        assert rig.story(lease)[-1] == LeaseFinished(lease, 50)

    def test_a_lease_that_is_told_to_stop_saves_where_it_stops(self, rig: Rig) -> None:
        lease = rig.run(NEVER, hold=5)
        self.hold(rig, 5)
        rig.update(lease, 0)
        finished = rig.story(lease)[-1]
        assert isinstance(finished, LeaseFinished)
        assert 5 < finished.step < NEVER
        rig.saved(lease, finished.step)

    def test_a_lease_that_is_shortened_saves_at_its_new_end(self, rig: Rig) -> None:
        lease = rig.run(NEVER, hold=5)
        self.hold(rig, 5)
        rig.update(lease, 40)
        assert rig.story(lease)[-1] == LeaseFinished(lease, 40)
        rig.saved(lease, 40)

    def test_an_update_that_comes_too_late_is_told_which_saves_will_not_come(self, rig: Rig) -> None:
        lease = rig.run(6, saves=[2])
        assert rig.story(lease)[-1] == LeaseFinished(lease, 6)
        rig.update(lease, 9, saves=[2, 3, 6, 8], evaluations=[4])
        assert rig.wait(StepsMissed, lease=lease) == StepsMissed(lease, frozenset(), frozenset({3, 6}))


class TrainingConformance(LeaseConformance):
    """Trainers run, in processes of their own: nothing is lost between them, and nothing spreads."""

    def test_a_checkpoint_goes_on_elsewhere_exactly_as_if_nothing_had_happened(self, rig: Rig) -> None:
        whole = rig.run(8, worker=0, saves=[3], evaluations=[3, 5, 8])
        expected = rig.metrics(whole)
        rest = rig.run(8, worker=1, start=3, source=rig.saved(whole, 3), evaluations=[3, 5, 8])
        assert rig.metrics(rest) == expected

    def test_neither_saving_nor_measuring_changes_what_comes_after(self, rig: Rig) -> None:
        plain = rig.run(8, evaluations=[8])
        disturbed = rig.run(8, worker=1, saves=range(1, 9), evaluations=range(1, 9))
        assert rig.metrics(plain)[8] == rig.metrics(disturbed)[8]

    def test_a_saved_state_is_the_same_whichever_worker_saved_it(self, rig: Rig) -> None:
        first, second = rig.run(5, worker=0, saves=[5]), rig.run(5, worker=1, saves=[5])
        assert rig.saved(first, 5).checksum == rig.saved(second, 5).checksum

    def test_sets_of_strings_have_the_same_order_in_all_workers(self, rig: Rig) -> None:
        leases = [rig.run(1, worker=worker, evaluations=[1]) for worker in range(2)]
        first, second = [rig.metrics(lease)[1]["order"] for lease in leases]
        assert first == second

    def test_a_worker_goes_on_from_the_state_that_it_holds(self, rig: Rig) -> None:
        whole = rig.run(8, worker=1, evaluations=[8])
        first = rig.run(5, worker=0)
        assert rig.story(first)[-1] == LeaseFinished(first, 5)
        rest = rig.run(8, worker=0, start=5, warm=True, evaluations=[8])
        assert rig.metrics(rest) == rig.metrics(whole)

    def test_a_worker_starts_from_scratch_after_anything_else(self, rig: Rig) -> None:
        first = rig.metrics(rig.run(4, evaluations=[4]))
        rig.story(rig.run(9, rate=0.5))
        assert rig.metrics(rig.run(4, evaluations=[4])) == first

    def test_a_trainer_that_raises_fails_its_lease_with_the_users_traceback(self, rig: Rig) -> None:
        lease = rig.run(6, evaluations=[2], fault="train raise 3")
        story = rig.story(lease)
        failed = story[-1]
        assert isinstance(failed, LeaseFailed)
        assert (failed.step, failed.phase, failed.checkpoint_unreadable) == (4, "train", False)
        assert (failed.kind, failed.replaced) == ("raised", ())
        assert failed.error.startswith("Traceback (most recent call last):\n")
        assert failed.error.endswith("ZeroDivisionError: the trainer has had enough")
        assert "in train\n" in failed.error
        assert "session.py" not in failed.error
        assert [event.step for event in story if isinstance(event, MetricsReported)] == [2]
        assert sum(event.steps for event in story if isinstance(event, Progressed)) == 3

    @pytest.mark.parametrize(
        ("fault", "phase", "step"),
        [
            ("setup raise 0", "setup", 1),
            ("train exit 2", "train", 3),
            ("evaluate raise 4", "evaluate", 4),
        ],
    )
    def test_a_failure_is_told_with_its_place(self, rig: Rig, fault: str, phase: str, step: int) -> None:
        failed = rig.story(rig.run(6, evaluations=[4], fault=fault))[-1]
        assert isinstance(failed, LeaseFailed)
        assert (failed.phase, failed.step) == (phase, step)

    def test_a_worker_is_of_use_after_a_failure(self, rig: Rig) -> None:
        expected = rig.metrics(rig.run(4, evaluations=[4], worker=1))
        assert isinstance(rig.story(rig.run(4, fault="train raise 2"))[-1], LeaseFailed)
        assert rig.metrics(rig.run(4, evaluations=[4])) == expected

    def test_what_was_saved_before_a_failure_is_kept(self, rig: Rig) -> None:
        lease = rig.run(6, saves=[2, 6], fault="train raise 3")
        assert isinstance(rig.story(lease)[-1], LeaseFailed)
        rig.saved(lease, 2)

    def test_a_save_that_fails_does_not_stop_the_training(self, rig: Rig) -> None:
        lease = rig.run(6, saves=[3], fault="save raise 3")
        failed = rig.wait(SaveFailed, lease=lease)
        assert rig.story(lease)[-1] == LeaseFinished(lease, 6)
        assert failed.step == 3
        assert "ZeroDivisionError: the trainer has had enough" in failed.error
        assert failed.kind == "raised"

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
    def test_a_full_disk_is_told_apart(self, rig: Rig) -> None:
        lease = rig.run(6, saves=[3], fault="save overfill 3")
        failed = rig.wait(SaveFailed, lease=lease)
        assert failed.kind == "disk full"
        rig.story(lease)
        lease = rig.run(6, saves=[2], fault="train overfill 3")
        ended = rig.story(lease)[-1]
        assert isinstance(ended, LeaseFailed)
        assert (ended.step, ended.kind, ended.replaced) == (4, "disk full", ())
        rig.saved(lease, 2)

    @pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
    def test_a_damaged_checkpoint_is_told_apart_from_a_trainer_that_cannot_load(
        self, rig: Rig, damage: str
    ) -> None:
        lease = rig.run(4, saves=[4])
        rig.story(lease)
        checkpoint = rig.saved(lease, 4)
        state = CheckpointFiles(rig.checkpoints).verify(checkpoint)
        content = state.read_bytes()
        if damage == "missing":
            CheckpointFiles(rig.checkpoints).delete(checkpoint)
        else:
            state.write_bytes(content[:-1] if damage == "truncated" else content[:-1] + b"?")
        failed = rig.story(rig.run(6, start=4, source=checkpoint))[-1]
        assert isinstance(failed, LeaseFailed)
        assert (failed.step, failed.phase, failed.checkpoint_unreadable) == (4, "load", True)
        assert str(state) in failed.error

    def test_a_trainer_that_cannot_load_fails_its_lease(self, rig: Rig) -> None:
        lease = rig.run(4, saves=[4])
        checkpoint = rig.saved(lease, 4)
        rig.story(lease)
        failed = rig.story(rig.run(6, start=4, source=checkpoint, fault="load raise 4"))[-1]
        assert isinstance(failed, LeaseFailed)
        assert (failed.step, failed.phase, failed.checkpoint_unreadable) == (4, "load", False)
        assert "in load\n" in failed.error

    @pytest.mark.parametrize(
        ("fault", "words"),
        [
            ("evaluate forget 0", "sum"),
            ("evaluate babble 0", "much"),
            ("evaluate raise 0", "the trainer has had enough"),
        ],
    )
    def test_a_broken_contract_is_found_before_the_first_step(self, rig: Rig, fault: str, words: str) -> None:
        story = rig.story(rig.run(6, required=["sum"], probe=True, evaluations=[6], fault=fault))
        failed = story[-1]
        assert isinstance(failed, LeaseFailed)
        assert failed.phase == "contract"
        assert words in failed.error
        assert not [event for event in story if isinstance(event, Progressed)]

    def test_metrics_that_are_no_numbers_later_fail_the_evaluation(self, rig: Rig) -> None:
        work = rig.run(6, required=["sum"], probe=True, evaluations=[2, 4], fault="evaluate babble 4")
        failed = rig.story(work)[-1]
        assert isinstance(failed, LeaseFailed)
        assert (failed.phase, failed.step) == ("evaluate", 4)

    def test_metrics_that_are_missing_later_are_reported_as_they_are(self, rig: Rig) -> None:
        work = rig.run(6, required=["sum"], probe=True, evaluations=[2, 4], fault="evaluate forget 4")
        story = rig.story(work)
        assert isinstance(story[-1], LeaseFinished)
        (last,) = [event for event in story if isinstance(event, MetricsReported) and event.step == 4]
        assert "sum" not in last.metrics

    def test_a_probe_changes_nothing(self, rig: Rig) -> None:
        plain = rig.metrics(rig.run(4, evaluations=[4]))
        assert rig.metrics(rig.run(4, evaluations=[4], required=["sum"], probe=True)) == plain

    def test_a_worker_that_dies_is_announced_and_replaced(self, rig: Rig) -> None:
        expected = rig.metrics(rig.run(6, evaluations=[6], worker=1))
        lease = rig.run(6, evaluations=[6], saves=[2], fault="train kill 4")
        lost = rig.wait(WorkerLost, worker=0)
        assert "SIGKILL" in lost.reason
        assert lost.kind == "died"
        rig.wait(WorkerJoined, worker=0)
        assert not [event for event in rig.unread_of(lease) if isinstance(event, LeaseFinished | LeaseFailed)]
        assert rig.metrics(rig.run(6, evaluations=[6])) == expected

    def test_progress_is_told_before_every_save_and_where_the_path_goes_over_to_another_node(
        self, rig: Rig
    ) -> None:
        lease = rig.run(9, saves=[2, 5], fault="train kill 5")
        rig.wait(WorkerLost, worker=0)
        rig.wait(WorkerJoined, worker=0)
        heard = [event.step for event in rig.unread_of(lease) if isinstance(event, Progressed)]
        assert {2, 5} <= set(heard)
        lease = rig.run(9, branch=4, fault="train kill 4")
        rig.wait(WorkerLost, worker=0)
        rig.wait(WorkerJoined, worker=0)
        assert 4 in [event.step for event in rig.unread_of(lease) if isinstance(event, Progressed)]

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("exhaust", "out of memory"),
            ("disconnect", "transient"),
            ("misread", "transient"),
            ("part", "transient"),
        ],
    )
    def test_a_worker_whose_process_may_be_to_blame_fails_its_lease_and_is_replaced(
        self, rig: Rig, fault: str, kind: str
    ) -> None:
        lease = rig.run(6, saves=[2], fault=f"train {fault} 3")
        failed = rig.story(lease)[-1]
        assert isinstance(failed, LeaseFailed)
        assert (failed.step, failed.kind, failed.replaced) == (4, kind, (0,))
        rig.saved(lease, 2)
        assert "memory" in rig.wait(WorkerLost, worker=0).reason
        rig.wait(WorkerJoined, worker=0)
        again = rig.run(2)
        assert rig.story(again)[-1] == LeaseFinished(again, 2)

    def test_what_training_logs_arrives_once_for_every_step_across_branches_a_kill_and_a_resume(
        self, rig: Rig
    ) -> None:
        whole = rig.run(12, saves=[4], evaluations=[7])
        expected = logged_in(rig.story(whole))
        assert list(expected) == list(range(1, 13))
        assert [row["trained"] for row in expected.values()] == list(range(1, 13))
        assert [step for step, row in expected.items() if "even" in row] == [2, 4, 6, 8, 10, 12]
        branch = rig.run(12, worker=1, start=4, source=rig.saved(whole, 4), rate=0.5)
        assert list(logged_in(rig.story(branch))) == list(range(5, 13))
        killed = rig.run(NEVER, saves=[6], evaluations=[1], hold=8)
        process = int(rig.wait(MetricsReported, lease=killed).metrics["pid"])
        checkpoint = rig.saved(killed, 6)
        os.kill(process, signal.SIGKILL)
        rig.wait(WorkerLost, worker=0)
        rig.wait(WorkerJoined, worker=0)
        before = logged_in(rig.unread_of(killed))
        assert list(before) == list(range(1, len(before) + 1))
        assert len(before) >= 6, "what is saved is never trained again"
        resumed = logged_in(rig.story(rig.run(12, start=6, source=checkpoint)))
        assert list(resumed) == list(range(7, 13))
        assert {step: row for step, row in before.items() if step <= 12} | resumed == expected

    def test_a_step_that_fails_logs_nothing_and_those_before_it_do(self, rig: Rig) -> None:
        assert list(logged_in(rig.story(rig.run(6, fault="train raise 3")))) == [1, 2, 3]

    def test_a_sequence_may_be_a_function_that_only_this_process_has(self, rig: Rig) -> None:
        shift = 0.25
        shifted = rig.run(3, evaluations=[3], rate=Function(lambda step: shift + 0.1 * step))
        listed = rig.run(3, evaluations=[3], worker=1, rate=Table([0.25, 0.35, 0.45]))
        assert rig.metrics(shifted) == rig.metrics(listed)
