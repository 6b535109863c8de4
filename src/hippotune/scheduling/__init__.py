"""What to run next, and how wide: measured paces, and policies that share slots out."""

from hippotune.scheduling.allocation import Allocation
from hippotune.scheduling.policy import Contender, Fluid, WidthPolicy

__all__ = ["Allocation", "Contender", "Fluid", "WidthPolicy"]
