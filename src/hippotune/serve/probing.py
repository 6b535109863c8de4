"""Asks what a trainer is, in a process that may open it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hippotune.errors import TrainerError
from hippotune.executors.base import Parcel
from hippotune.executors.fresh import died
from hippotune.executors.local.programs import start_program
from hippotune.identity.fingerprint import Fingerprint
from hippotune.scratch import Scratch
from hippotune.serve.messages import ErrorBody
from hippotune.serve.questions import Question, WhatIsIt
from hippotune.trainers.widths import splits_batch

_MOST_REMEMBERED = 256
_RULES: Mapping[str, Callable[[Mapping[str, Any], int], bool]] = {
    "any": lambda values, width: True,
    "batch": splits_batch,
}


@dataclass(frozen=True)
class Probed:
    """A trainer as a probe found it."""

    name: str
    qualified_name: str
    code: Fingerprint
    versions: Mapping[str, str]
    fits: Callable[[Mapping[str, Any], int], bool] | None


class Probes:
    """Starts probes; any thread may ask. What cannot change is asked once."""

    def __init__(self, environment: Callable[[], Mapping[str, str]], user: str | None = None) -> None:
        self._environment = environment
        self._user = user
        self._known: dict[Parcel, Probed] = {}
        self._asking: dict[Parcel, threading.Lock] = {}
        self._lock = threading.Lock()

    def identify(self, parcel: Parcel, fingerprinted: bool, is_fixed: bool) -> Probed:
        """Return what a trainer is; where its code `is_fixed`, what was found before."""
        if not (is_fixed and fingerprinted):
            return self._identified(parcel, fingerprinted)
        with self._lock:
            one_at_a_time = self._asking.setdefault(parcel, threading.Lock())
        with one_at_a_time:
            known = self._known.get(parcel)
            if known is None:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                known = self._known[parcel] = self._identified(parcel, fingerprinted)
        with self._lock:
            self._asking.pop(parcel, None)
        return known

    def _identified(self, parcel: Parcel, fingerprinted: bool) -> Probed:
        found = self.ask(parcel, WhatIsIt(fingerprinted))
        return Probed(
            found["name"],
            found["qualified"],
            Fingerprint(found["digest"], found["parts"], frozenset(found["imports"])),
            found["versions"],
            _RULES.get(found["fits"]),
        )

    def lend(self, folder: Path) -> None:
        """Let a process that opens parcels write to a folder."""
        if self._user is not None:
            shutil.chown(folder, self._user)

    def ask(self, parcel: Parcel, question: Question) -> dict[str, Any]:
        """Return the answer of a process that opens the parcel."""
        with Scratch() as folder:
            result, log = folder / "result", folder / "log"
            if self._user is not None:
                os.chmod(folder, 0o711)
                result.touch()
                os.chmod(result, 0o666)
            with log.open("wb") as output:
                process = start_program(
                    "hippotune.serve.probe",
                    [str(result)],
                    self._environment(),
                    parcel.modules,
                    (parcel, question),
                    output,
                    self._user,
                )
            try:
                status = process.wait()
            finally:
                process.end()
            return _read(parcel, result, log, status)


def _read(parcel: Parcel, result: Path, log: Path, status: int) -> dict[str, Any]:
    text = result.read_text() if result.exists() else ""
    if not text:
        raise TrainerError(died(parcel, status, log))
    found: dict[str, Any] = json.loads(text)
    if "error" in found:
        raise ErrorBody(**found["error"]).made()
    answer: dict[str, Any] = found["answer"]
    return answer
