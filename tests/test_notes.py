"""What workers have to say to a person is read once: on a view, or in the log."""

from __future__ import annotations

import logging
import queue
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from executors.noisy import Noisy
from executors.rig import CONFIG
from hippotune.executors.worker.fresh_lease import FreshInterpreter
from hippotune.executors.worker.runner import Inbox, Runner
from hippotune.executors.worker.saver import Saver
from hippotune.protocol.commands import RunLease, Segment
from hippotune.protocol.events import Event, LeaseFailed, LeaseFinished, WorkerNoted
from hippotune.sequences.config import Config
from hippotune.shell.notes import Notes
from hippotune.store.files import CheckpointFiles
from hippotune.trainers.session import Session
from stored import DECAYS, Asking, Falling


def test_what_is_told_while_nobody_reads_goes_to_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    with caplog.at_level(logging.WARNING, "hippotune"):
        notes.tell("100 % of the data is large")
        notes.tell("100 % of the data is large")
    assert [record.getMessage() for record in caplog.records] == ["100 % of the data is large"]


def test_what_is_told_while_somebody_reads_is_shown_once_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes, shown = Notes(), list[str]()
    with notes.read_by(shown.append) as catch_up:
        notes.tell("one")
        assert shown == []
        catch_up()
        assert shown == ["one"]
        notes.tell("one")
        notes.tell("two")
    assert shown == ["one", "two"]
    assert not caplog.records
    notes.tell("three")
    assert [record.getMessage() for record in caplog.records] == ["three"]


@pytest.mark.parametrize("fault", ["none", "train raise 1"])
def test_a_worker_passes_on_what_its_session_notes(tmp_path: Path, fault: str) -> None:
    said: list[Event] = []
    session, files = Session(Noisy, {"gate": ""}, 7), CheckpointFiles(tmp_path)
    inbox: Inbox = queue.SimpleQueue()
    saver = Saver(files, said.extend)
    lease = RunLease(
        lease=3,
        worker=5,
        config=Config({**CONFIG, "fault": fault}),
        start=0,
        end=2,
        segments=(Segment(0, 0, 2),),
        saves=frozenset(),
        evaluations=frozenset(),
    )
    session.notes += ["the data is large", "it should be prepared"]

    def hear(events: Sequence[Event]) -> None:
        said.extend(events)
        if isinstance(events[-1], LeaseFinished | LeaseFailed):
            inbox.put(None)

    inbox.put(lease)
    fresh = FreshInterpreter(5, b"", tmp_path / "log")
    Runner(session, files, saver, inbox, hear, fresh).serve()
    noted = [event for event in said if isinstance(event, WorkerNoted)]
    assert noted == [WorkerNoted(5, "the data is large"), WorkerNoted(5, "it should be prepared")]
    assert session.notes == []
    assert isinstance(said[-1], LeaseFinished) == (fault == "none")


class Telling(Falling):
    """Says what a session would say of it: its workers note the same text, each for itself."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        super().setup(hp)
        frame = sys._getframe()
        while frame is not None:
            if type(session := frame.f_locals.get("self")) is Session:
                session.notes.append("the data is large")
                return
            frame = frame.f_back


@pytest.mark.parametrize("progress", [True, False])
def test_a_study_shows_a_note_once_however_many_workers_say_it(
    tmp_path: Path, progress: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with hippo.Study("telling", Telling, home=tmp_path, executor=hippo.Local(2), version="1") as study:
        study.tune(Asking(DECAYS, 6), progress=progress)
    logged = [record.getMessage() for record in caplog.records]
    assert capsys.readouterr().err.splitlines().count("the data is large") == int(progress)
    assert logged.count("the data is large") == int(not progress)
