"""Where leases run."""

from hippo.executors.base import Executor, Job
from hippo.executors.local import Local

__all__ = ["Executor", "Job", "Local"]
