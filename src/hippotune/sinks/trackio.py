"""Trackio: a project of runs in its local database; ``trackio show`` shows them.

A row has an id that follows from its run, its step and its names, and Trackio keeps one row of an id: what is
written again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hippotune.sinks.base import CursorFile, Points, Record, RunStarted, Sink, Source, need, runs_per


class Trackio(Sink):
    """Runs of Trackio, on this machine (below ``TRACKIO_DIR``, or in its cache)."""

    def __init__(self, project: str | None = None, runs: str = "trial") -> None:
        need("trackio", "sinks.Trackio", "trackio")
        self.project = project
        self.runs = runs_per(runs)
        self._project = ""
        self._source: Source
        self._cursor: CursorFile

    def open(self, source: Source) -> int:
        """Make the database."""
        from trackio.sqlite_storage import SQLiteStorage

        self._source = source
        self._project = self.project or source.study
        file = SQLiteStorage.init_db(self._project)
        self._cursor = CursorFile(file.with_name(f"{file.stem}.{source.plan}.{self.runs}.hippo.json"), source)
        return self._cursor.read()

    def write(self, records: Sequence[Record]) -> None:
        """Add rows."""
        from trackio.sqlite_storage import SQLiteStorage

        rows: dict[str, list[tuple[dict[str, float], int, str, str]]] = {}
        configs: dict[str, dict[str, Any]] = {}
        for record in records:
            name = record.run.name
            if isinstance(record, RunStarted):
                parent = (
                    {} if record.run.parent is None else {"parent": f"{record.run.parent}@{record.run.start}"}
                )
                configs[name] = {**record.run.values(), **parent, "study": self._source.study}
                number = f"{self._id(name)}:config"
                rows.setdefault(name, []).append(({}, 0, _moment(record.time), number))
            elif isinstance(record, Points):
                rows.setdefault(name, []).extend(
                    (
                        {key: float(value) for key, value in numbers.items()},
                        step,
                        _moment(time),
                        f"{self._id(name)}:{step}:{','.join(sorted(numbers))}",
                    )
                    for step, time, numbers in record.rows
                )
        for name, listed in rows.items():
            numbers, steps, times, ids = (list(column) for column in zip(*listed, strict=True))
            SQLiteStorage.bulk_log(
                self._project, name, numbers, steps, times, configs.get(name), ids, run_id=self._id(name)
            )

    def _id(self, run: str) -> str:
        return f"{self._source.study}:{self._source.plan}:{self.runs}:{run}"

    def save(self, number: int) -> None:
        """Note the number in a file beside the database."""
        self._cursor.write(number)


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat()
