"""The stage tree: what the open requests still need, and the longest chains in it."""

from hippo.stages.frontier import Frontier, Task
from hippo.stages.tree import Stage, StageTree, stage_tree

__all__ = ["Frontier", "Stage", "StageTree", "Task", "stage_tree"]
