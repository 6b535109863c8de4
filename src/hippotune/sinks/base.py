"""The contract of a sink: it is given records, at least once, and shows every number once.

Contract
--------
* `open` is called first, and again after something went wrong. It returns how much of the log the target has
  taken in already: records of later facts are given again.
* `write` is given records in the order of the facts that they come from. A record may have been written
  before, in part too, by a process that was killed: it must not be shown twice. A number is known by its run,
  its name and its step.
* `save` says how far the log was written. After it, `open` returns that number, also in another process.
* What it raises is tried again, then the sink is dropped; training goes on.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from hippotune import checks
from hippotune.errors import MissingExtra
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.values import Value

RunsPer = Literal["trial", "stage"]


@dataclass(frozen=True, slots=True)
class Source:
    """Whose facts these are: a study, the digest of its plan, and the id of the plan's log."""

    study: str
    plan: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Run:
    """What the target shows as one run: a trial from its first step on, or a stretch of the plan's tree.

    Names are unique in a study, and the same whenever its facts are read. A stretch names its `parent` and
    the step at which it left it.
    """

    name: str
    config: Config
    trial: int | None = None
    parent: str | None = None
    start: int = 0

    def values(self) -> dict[str, Value]:
        """Return the config with plain values, and schedules as text: ``Exponential(0.1, 0.9)``."""
        return {
            name: sequence.arguments[0] if isinstance(sequence, Constant) else str(sequence)
            for name, sequence in self.config.items()
        }


class Row(NamedTuple):
    """Numbers at a step, and when they became known, in seconds since the epoch."""

    step: int
    time: float
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run is there: nothing of it came before."""

    run: Run
    time: float


@dataclass(frozen=True, slots=True)
class Points:
    """Numbers of a run. No run has two numbers of one name at one step."""

    run: Run
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The study has come to an end; a run that `failed` could not be trained as far as it was asked."""

    run: Run
    time: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """The file with the model of the best result."""

    run: Run
    path: Path


Record = RunStarted | Points | RunEnded | Model


class Sink(ABC):
    """Base of all sinks. `runs` says whether it shows a run for every trial or every stretch of the tree."""

    runs: RunsPer = "trial"

    @abstractmethod
    def open(self, source: Source) -> int:
        """Get ready; return the number of the last fact that the target has taken in."""

    @abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Take records in."""

    @abstractmethod
    def save(self, number: int) -> None:
        """Note that everything up to a number of the log was written."""

    def close(self) -> None:
        """Let go of the target."""
        return

    def __str__(self) -> str:
        return type(self).__name__


def runs_per(given: str) -> RunsPer:
    """Check an argument ``runs=``."""
    known: tuple[RunsPer, ...] = get_args(RunsPer)
    return checks.one_of("runs", given, known)


def need(module: str, sink: str, extra: str) -> None:
    """Raise `MissingExtra` where a library is not installed."""
    if find_spec(module) is None:
        raise MissingExtra(f"{sink} needs {module}: pip install 'hippotune[{extra}]'")


class CursorFile:
    """How far a log was written, in a small file beside a target that has no place for that."""

    def __init__(self, path: Path, source: Source) -> None:
        self._path = path
        self._source = source

    def read(self) -> int:
        """Return the number; 0 where there is none, or it is about another log."""
        try:
            known = json.loads(self._path.read_text())
            return int(known["number"]) if known["incarnation"] == self._source.incarnation else 0
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0

    def write(self, number: int) -> None:
        """Keep the number."""
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"incarnation": self._source.incarnation, "number": number}))
        os.replace(temporary, self._path)
