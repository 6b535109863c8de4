"""What a study has left of its time and of its budget, whatever becomes of its server and of clocks."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from hippotune.serve import clock
from hippotune.serve.client.readings import RemoteReadings
from hippotune.serve.clock import Moment
from hippotune.serve.definition import Code, Definition, Submission, TunerSpec
from hippotune.serve.messages import Counted, PulseBody
from hippotune.serve.records import Records, StudyRecord


@pytest.fixture
def record(tmp_path: Path) -> StudyRecord:
    """A study with a hundred seconds and fifty of workers, as the next server reads it."""
    tuned = TunerSpec("loss", "min", seconds=100.0, worker_seconds=50.0)
    submission = Submission(Definition("test", Code("entry", "Walker")), tuned)
    made = StudyRecord("test", "", submission, "running", time.time(), began=Moment.now())
    Records(tmp_path).keep(made)
    (read,) = Records(tmp_path).read_all()
    return read


def set_clocks(patch: pytest.MonkeyPatch, machine: float, wall: float) -> None:
    """Have time go by, on each clock by itself."""
    machine_then, wall_then = time.clock_gettime, time.time
    patch.setattr(clock.time, "clock_gettime", lambda kind: machine_then(kind) + machine)
    patch.setattr(clock.time, "time", lambda: wall_then() + wall)


@pytest.mark.parametrize("wall", [-5000.0, 0.0, 5000.0])
def test_a_deadline_does_not_move_with_the_clock_on_the_wall(
    record: StudyRecord, monkeypatch: pytest.MonkeyPatch, wall: float
) -> None:
    set_clocks(monkeypatch, machine=30.0, wall=wall)
    assert 0.01 < (record.seconds_left or 0) <= 70


def test_a_deadline_goes_on_while_the_machine_starts_anew(
    record: StudyRecord, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "boot").write_text("another\n")
    monkeypatch.setattr(clock, "_BOOT", tmp_path / "boot")
    set_clocks(monkeypatch, machine=-1e6, wall=40.0)
    assert 0.01 < (record.seconds_left or 0) <= 60


def test_a_study_whose_time_is_up_ends_at_once(record: StudyRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clocks(monkeypatch, machine=200.0, wall=0.0)
    assert record.seconds_left == 0.01


@pytest.mark.parametrize(("spent", "left"), [(0.0, 50.0), (20.0, 30.0), (80.0, 0.01)])
def test_what_a_study_spent_on_one_server_it_does_not_have_on_the_next(
    record: StudyRecord, tmp_path: Path, spent: float, left: float
) -> None:
    Records(tmp_path).keep(msgspec.structs.replace(record, spent=spent))
    (read,) = Records(tmp_path).read_all()
    assert read.worker_seconds_left == left
    assert record.worker_seconds_left == 50.0


def test_a_client_goes_on_counting_what_it_spent_when_another_server_begins_at_nothing() -> None:
    def beat(spent: float) -> PulseBody:
        return PulseBody(
            0.0, 1, None, 0.0, 1, Counted(0, 0.0, 0, 0.0, 0.0), spent, None, 1, (), 1, 0.0, 0.0, 0
        )

    readings = RemoteReadings(lambda config, step: 0)
    readings.renewed(beat(100.0))  # by an earlier study of that name
    assert (readings.spent("test"), readings.as_there(50.0)) == (0.0, 150.0)
    readings.beats(beat(120.0))
    readings.renewed(beat(0.0))
    assert (readings.spent("test"), readings.as_there(50.0)) == (20.0, 30.0)
    readings.beats(beat(5.0))
    assert readings.spent("test") == 25.0
