"""The search plan: what was asked, trained, measured and kept, as a tree that only grows."""

from hippo.plan.facts import Checkpoint, Fact, Position
from hippo.plan.node import Node
from hippo.plan.plan import Plan, unique_steps

__all__ = ["Checkpoint", "Fact", "Node", "Plan", "Position", "unique_steps"]
