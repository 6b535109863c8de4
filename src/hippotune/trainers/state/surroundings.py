"""Globals that training changes: found by what they hold, whatever name they were changed by.

No checkpoint holds them, so that trials in one process would change each other's results. What training code
reads is looked at before the first step of a process and after it, and then as often as that takes at most a
hundredth of the time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import fingerprint
from hippotune.identity.parts import differences, shown

_SHARE = 0.01


class WatchedGlobals:
    """What a trainer's code reads from outside itself, as it was before training."""

    def __init__(self, trainer: type) -> None:
        self._trainer = trainer
        self._before = self._look()
        self._looked = self._cost = 0.0

    def check(self) -> None:
        """Raise where something has changed. Looks only now and then; see the module's docstring."""
        began = time.perf_counter()
        if self._before is None or (self._looked and began - self._looked < self._cost / _SHARE):
            return
        now = self._look()
        if now is not None and (changed := differences(self._before, now)):
            raise TrainerError(
                f"training has changed what it reads from outside of self: {shown(changed)}. No checkpoint "
                "holds that, and trials that are trained in one process would change each other's results. "
                "Keep it on self, made in build(); or give the study a version= and answer for it"
            )
        self._looked = time.perf_counter()
        self._cost = self._looked - began

    def _look(self) -> Mapping[str, str] | None:
        try:
            return fingerprint(self._trainer).parts
        except TrainerError:  # some of it means nothing in this process
            return None
