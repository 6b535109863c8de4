"""What a server keeps of the studies that it tunes: who submitted what, and how it ended. A file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hippotune.durable import file_name, replacing
from hippotune.errors import StoreError
from hippotune.serve.clock import Moment
from hippotune.serve.definition import Submission
from hippotune.serve.messages import ConfigJson, ErrorBody, Number

MOST_NOTES = 1000
"""How many texts for people a request may bring."""
_LEAST = 0.01
_MOST_CHARACTERS = 230
State = Literal["running", "ended", "failed", "stopped"]


class TrialLine(Struct, omit_defaults=True):
    """A trial of a report; see `study.report.TrialReport`."""

    number: int
    config: ConfigJson
    asked: int
    metrics: dict[int, dict[str, Number]]
    error: str | None = None
    suspended: bool = False


class Ended(Struct, omit_defaults=True):
    """How a study ended: with an error, or with what its report is made from."""

    error: ErrorBody | None = None
    trials: tuple[TrialLine, ...] = ()
    work: dict[str, float] = {}
    best: tuple[int, int] | None = None
    path: str | None = None
    ended_by: str | None = None
    cut: tuple[int, ...] = ()
    deferred: tuple[int, ...] = ()
    proofs: tuple[dict[str, Any], ...] = ()
    key: str = ""
    first_fact: int = 0


class StudyRecord(Struct):
    """A study. Times are seconds since the epoch; its limit of time counts from when it `began`.

    `spent` are the worker-seconds that it has taken at least, where they are limited.
    """

    name: str
    user: str
    submission: Submission
    state: State
    made: float
    ended: float | None = None
    end: Ended | None = None
    began: Moment | None = None
    spent: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """What is left of its time; None where it has no limit."""
        seconds = self.submission.tuned.seconds
        if seconds is None:
            return None
        began = self.began or Moment("", 0.0, self.made)
        return max(seconds - began.passed(), _LEAST)

    @property
    def worker_seconds_left(self) -> float | None:
        """What is left of its worker time; None where it has no limit."""
        seconds = self.submission.tuned.worker_seconds
        return None if seconds is None else max(seconds - self.spent, _LEAST)


class StudyLine(Struct):
    """A study in a list."""

    name: str
    user: str
    state: State
    trainer: str
    metric: str
    mode: str
    made: float


def line_of(record: StudyRecord) -> StudyLine:
    """Return a study in short."""
    tuned, code = record.submission.tuned, record.submission.definition.code
    return StudyLine(
        record.name, record.user, record.state, code.trainer, tuned.metric, tuned.mode, record.made
    )


class Records:
    """The files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_all(self) -> list[StudyRecord]:
        """Return all studies."""
        return [_read(path) for path in sorted(self._folder.glob("*.json"))]

    def keep(self, record: StudyRecord) -> None:
        """Write a study down, before returning."""
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / f"{file_name(record.name, _MOST_CHARACTERS)}.json"
        with replacing(target) as temporary:
            temporary.write_bytes(msgspec.json.encode(record))


def _read(path: Path) -> StudyRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StudyRecord)
    except msgspec.DecodeError as error:
        raise StoreError(f"{path} is not what a server wrote: {error}; move it away") from error
