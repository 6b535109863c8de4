"""The stage tree: what the open requests still need, and the longest chains in it."""

from hippotune.stages.frontier import Frontier
from hippotune.stages.tasks import Task
from hippotune.stages.tree import Stage, StageTree, stage_tree

__all__ = ["Frontier", "Stage", "StageTree", "Task", "stage_tree"]
