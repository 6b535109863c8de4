"""How a worker reports an error that came up while it ran a lease."""

from __future__ import annotations

import errno

from hippotune.errors import CheckpointError, HippoError, StorageUnavailable, TrainerError
from hippotune.executors.worker.tracebacks import describe
from hippotune.protocol.events import LeaseFailed
from hippotune.protocol.failures import ErrorKind, Phase
from hippotune.protocol.lease_run import LeaseRun
from hippotune.store.files import says_disk_full
from hippotune.trainers.memory import is_out_of_memory
from hippotune.trainers.metrics import MetricsMissing, NotMetrics

# Errors of the system that another try does not change: the call itself was wrong.
_ABOUT_PATHS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
_ABOUT_USE = (errno.EINVAL, errno.ENAMETOOLONG, errno.EROFS, errno.ELOOP, errno.EBADF)
# Messages about devices and connections, of libraries that have no exception class for them.
_PHRASES = ("nccl", "cuda error", "connection reset", "connection refused", "connection closed", "timed out")


class OutOfStep(Exception):
    """The workers of a lease did different things; the message says which of them did what."""


def failure_of(run: LeaseRun, error: BaseException, phase: Phase) -> LeaseFailed:
    """End a run with an error that came up in a phase of the user's code; return what to say of it."""
    unreadable = run.doing == "start" and isinstance(error, CheckpointError)
    if unreadable:
        phase = "load"
    elif run.doing == "probe" or (isinstance(error, TrainerError) and not isinstance(error, NotMetrics)):
        phase = "contract"
    kind = kind_of(error)
    replaced = (run.lease.worker,) if may_lie_in_process(kind) else ()
    text = str(error) if unreadable or kind == "mismatch" else describe(error)
    missing = error.missing if isinstance(error, MetricsMissing) else frozenset()
    return LeaseFailed(run.lease.lease, run.fail(), text, phase, unreadable, kind, replaced, missing)


def may_lie_in_process(kind: ErrorKind) -> bool:
    """Return whether a process had better be replaced after an error of a kind."""
    return kind in ("out of memory", "transient")


def kind_of(error: BaseException) -> ErrorKind:
    """Return whether an error is the code's own, or may be gone in another process or at another time."""
    if isinstance(error, OutOfStep):
        return "mismatch"
    if is_out_of_memory(error):
        return "out of memory"
    if says_disk_full(error):
        return "disk full"
    link: BaseException | None = error
    while link is not None:
        if _is_transient(link):
            return "transient"
        link = link.__cause__
    return "raised"


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, StorageUnavailable):
        return True
    if isinstance(error, HippoError):
        return False
    if isinstance(error, OSError):
        return not isinstance(error, _ABOUT_PATHS) and error.errno not in _ABOUT_USE
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in _PHRASES)
