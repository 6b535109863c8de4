"""A folder of event files for TensorBoard: one folder for each run, hyper-parameters in its HPARAMS tab.

Event files are appended to. A run that is taken up again gets another file, and what its files hold already,
up to the last whole record, is not written again.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hippotune.sinks.base import CursorFile, Points, Record, Run, RunStarted, Sink, Source, need, runs_per


class TensorBoard(Sink):
    """Event files in a folder: ``tensorboard --logdir runs`` shows them."""

    def __init__(self, folder: str | Path = "runs", runs: str = "trial") -> None:
        need("tensorboard", "sinks.TensorBoard", "tensorboard")
        self.folder = Path(folder)
        self.runs = runs_per(runs)
        self._place = self.folder
        self._cursor: CursorFile
        self._files: dict[str, _EventFile] = {}

    def open(self, source: Source) -> int:
        """Make the study's folder."""
        self._place = self.folder / quote(source.study, safe=" ")
        self._place.mkdir(parents=True, exist_ok=True)
        self._cursor = CursorFile(self._place / "hippo.json", source)
        self._files.clear()
        return self._cursor.read()

    def write(self, records: Sequence[Record]) -> None:
        """Append events to the files of their runs, each of which is opened once."""
        by_run: dict[str, list[Any]] = {}
        for record in records:
            if isinstance(record, RunStarted | Points):
                by_run.setdefault(record.run.name, []).extend(_events(record))
        for name, events in by_run.items():
            if name not in self._files:
                self._files[name] = _EventFile(self._place / name)
            self._files[name].append(events)

    def save(self, number: int) -> None:
        """Note the number in a file beside the runs."""
        self._cursor.write(number)


class _EventFile:
    """The event file that this process writes in a folder; `known` is what others there hold."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._known = {key for path in folder.glob("*tfevents*") for key in _keys_in(path)}
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._path = folder / name

    def append(self, events: Sequence[Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        new = [event for event in events if _key(event) not in self._known]
        if not new:
            return
        with self._path.open("ab") as file:
            writer = RecordWriter(file)
            if file.tell() == 0:
                writer.write(
                    Event(wall_time=new[0].wall_time, file_version="brain.Event:2").SerializeToString()
                )
            for event in new:
                writer.write(event.SerializeToString())


def _keys_in(path: Path) -> Iterator[tuple[str, int]]:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for event in LegacyEventFileLoader(str(path)).Load():
        if event.HasField("summary"):
            yield _key(event)


def _key(event: Any) -> tuple[str, int]:
    """Return what an event is known by; each has one value."""
    return event.summary.value[0].tag, event.step


def _events(record: RunStarted | Points) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    if isinstance(record, RunStarted):
        summary = _hyperparameters(record.run, record.time)
        for value in summary.value:
            yield Event(wall_time=record.time, step=0, summary=Summary(value=[value]))
        return
    for step, moment, numbers in record.rows:
        for name, number in numbers.items():
            value = Summary.Value(tag=name, simple_value=number)
            yield Event(wall_time=moment, step=step, summary=Summary(value=[value]))


def _hyperparameters(run: Run, moment: float) -> Any:
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    values: dict[str, Any] = dict(run.values())
    if run.parent is not None:
        values |= {"parent": run.parent, "parent_step": run.start}
    return hparams_pb(values, trial_id=run.name, start_time_secs=moment)
