"""What to run next, and how wide: measured paces, and policies that share slots out."""

from hippo.scheduling.policy import Contender, Fluid, WidthPolicy

__all__ = ["Contender", "Fluid", "WidthPolicy"]
