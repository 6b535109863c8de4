"""The search plan: what was asked, trained, measured and kept, as a tree that only grows."""

from hippotune.plan.facts import Checkpoint, Fact, Position
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, unique_steps

__all__ = ["Checkpoint", "Fact", "Node", "Plan", "Position", "unique_steps"]
