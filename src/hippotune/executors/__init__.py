"""Where leases run."""

from hippotune.executors.base import Executor, Job
from hippotune.executors.local import Local

__all__ = ["Executor", "Job", "Local"]
