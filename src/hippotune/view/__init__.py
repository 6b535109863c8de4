"""What people see of a study: live progress, plain lines, the stage tree. Nothing here changes anything."""

from hippotune.view.base import View, open_view
from hippotune.view.snapshot import BestLine, Snapshot, WorkerLine

__all__ = ["BestLine", "Snapshot", "View", "WorkerLine", "open_view"]
