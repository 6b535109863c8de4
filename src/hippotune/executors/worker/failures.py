"""What a worker says of an error that came up while it ran a lease."""

from __future__ import annotations

from typing import Literal

from hippotune.errors import CheckpointError, TrainerError
from hippotune.executors.worker.tracebacks import describe
from hippotune.protocol.events import LeaseFailed
from hippotune.protocol.lease_run import LeaseRun
from hippotune.store.files import says_disk_full
from hippotune.trainers.memory import is_out_of_memory

Phase = Literal["prepare", "build", "setup", "train", "evaluate", "load", "contract"]


def failure_of(run: LeaseRun, error: BaseException, phase: Phase) -> LeaseFailed:
    """End a run with an error that came up in a phase of the user's code; return what to say of it."""
    unreadable = run.doing == "start" and isinstance(error, CheckpointError)
    if unreadable:
        phase = "load"
    elif isinstance(error, TrainerError) or run.doing == "probe" or says_disk_full(error):
        phase = "contract"  # also where a disk is full: that is no trial's fault
    text, no_memory = describe(error), is_out_of_memory(error)
    return LeaseFailed(run.lease.lease, run.fail(), text, phase, unreadable, no_memory)
