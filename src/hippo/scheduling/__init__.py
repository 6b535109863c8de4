"""What to run next, and how wide: measured paces, and policies that share slots out."""

from hippo.scheduling.allocation import Allocation
from hippo.scheduling.policy import Contender, Fluid, WidthPolicy

__all__ = ["Allocation", "Contender", "Fluid", "WidthPolicy"]
