"""Globals that training changes: found by what they hold, whatever name they were changed by.

No checkpoint holds them, so that trials in one process would change each other's results. What training code
reads is looked at before the first trial of a process and after its first step, and then at the pace of
`hippotune.trainers.state.pace`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from hippotune.errors import TrainerError
from hippotune.identity.arrays import large_left_out
from hippotune.identity.fingerprint import parts_read
from hippotune.identity.parts import differences, shown
from hippotune.trainers.state.pace import Pace


class WatchedGlobals:
    """What a trainer's code reads from outside itself, as it was before training."""

    def __init__(self, trainer: type) -> None:
        self._trainer = trainer
        loaded = len(sys.modules)
        self._before = self._look()
        if len(sys.modules) > loaded:  # imports within functions: what they bring may be read elsewhere too
            self._before = self._look()
        self._pace = Pace()
        with large_left_out():
            self._small_before = self._look()
        self._pace_of_small = Pace()

    def check(self, urgent: bool) -> None:
        """Raise where something has changed. Looks only at its pace, at large arrays less often."""
        if self._pace.is_due(urgent):
            with self._pace.look():
                self._compare(self._before, self._look())
        elif urgent and self._pace_of_small.is_due(urgent):
            with self._pace_of_small.look(), large_left_out():
                self._compare(self._small_before, self._look())

    def _compare(self, before: Mapping[str, str] | None, now: Mapping[str, str] | None) -> None:
        if before is not None and now is not None and (changed := differences(before, now)):
            raise TrainerError(
                f"training has changed what it reads from outside of self: {shown(changed)}. No checkpoint "
                "holds that, and trials that are trained in one process would change each other's results. "
                "Keep it on self, made in build(); or give the study a version= and answer for it"
            )

    def _look(self) -> Mapping[str, str] | None:
        try:
            return parts_read(self._trainer)
        except TrainerError:  # some of it means nothing in this process
            return None
