"""Why training ends early, and how often it is tried again.

An error of user code is a lasting failure of its trial. All other failures are not the trial's fault: the
stage is tried again by `Retries`, after growing pauses, and then suspended until a user retries it.

* ``raised``: by user code; lasting.
* ``out of memory``: tried once more in a fresh process, alone on its slot; then as if raised.
* ``mismatch``: workers that train together called different collectives; goes on at width 1, for good.
* ``transient``: an error of a device, a disk or a connection; tried again in a fresh process.
* ``disk full``: no trial's fault, and another try does not help: the study ends, and goes on when run again.
* ``died``: the worker's process is gone: killed, crashed or ended by the system.
* ``hung``: a worker finished nothing for too long; tried again with twice the patience.
* ``infrastructure``: the worker's machine, or the way to it, is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hippotune import checks
from hippotune.short import listed

ErrorKind = Literal["raised", "out of memory", "transient", "mismatch", "disk full"]
LossKind = Literal["died", "hung", "infrastructure"]
FailureKind = ErrorKind | LossKind
# What the user's code was doing.
Phase = Literal["prepare", "build", "setup", "train", "evaluate", "load", "contract"]

_LONGEST_PAUSE = 60.0


def metrics_lacking(missing: Iterable[str], returned: Iterable[str], whose: str = "evaluate()") -> str:
    """Say that evaluate() does not return metrics that a tuner reads."""
    return (
        f"{whose} does not return {listed(missing)}; it returns {', '.join(map(repr, returned))}. "
        "Name one of these as the tuner's metric, or return the missing one"
    )


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a stage whose worker was lost is tried again, and after which pause: twice as long each time.

    Parameters
    ----------
    times : int
        How many losses are followed by another try; after one more, the stage is suspended.
    pause : float
        The seconds before the first retry.
    """

    times: int = 3
    pause: float = 1.0

    def __post_init__(self) -> None:
        checks.whole("times", self.times, least=0)
        checks.number("pause", self.pause, least=0, what="seconds")

    def pause_after(self, losses: int) -> float:
        """Return the seconds between a number of losses and the next try."""
        return min(self.pause * 2.0 ** min(losses - 1, 30), max(_LONGEST_PAUSE, self.pause))
