"""Fields of an optimizer's parameter groups: ``lr``, ``weight_decay``, …"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim import Optimizer


def set_group_field(optimizer: Optimizer, name: str, value: Any) -> bool:
    """Set a field in the groups that have it; return whether any has."""
    found = False
    for group in optimizer.param_groups:
        if name in group and name not in ("params", "param_names"):
            if isinstance(group[name], Tensor):
                group[name].fill_(value)
            else:
                group[name] = value
            found = True
        elif name == "momentum" and "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
            found = True
    return found


def fields_of(optimizer: Optimizer) -> set[str]:
    """Return the fields that its groups have."""
    return {name for group in optimizer.param_groups for name in group} - {"params", "param_names"}
