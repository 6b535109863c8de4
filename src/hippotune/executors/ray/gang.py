"""Slots that are placed together, for leases that need several: on one node where possible.

The cluster holds the whole of a gang or nothing of it, and an autoscaler sees what it needs at once. What it
holds it gives back when the last slot of the gang lets go.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hippotune.executors.ray.cluster import Cluster, SlotResources


class Gang:
    """A placement group with a bundle for each slot."""

    def __init__(self, cluster: Cluster, resources: SlotResources, size: int, name: str) -> None:
        from ray.util.placement_group import placement_group

        self._cluster = cluster
        self._group = placement_group([resources.amounts] * size, strategy="PACK", name=name)
        self._members = set(range(size))

    def options(self, member: int) -> dict[str, Any]:
        """Return how the actor of a slot is placed."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return {"scheduling_strategy": PlacementGroupSchedulingStrategy(self._group, member)}

    def release(self, member: int) -> None:
        """A slot is not needed any more."""
        self._members.discard(member)
        if not self._members and self._cluster.is_up:
            from ray.util.placement_group import remove_placement_group

            with suppress(Exception):  # the cluster may be gone
                remove_placement_group(self._group)

    def hold(self, member: int) -> None:
        """A slot that had let go is needed again."""
        self._members.add(member)

    @property
    def is_over(self) -> bool:
        """Whether all slots have let go."""
        return not self._members
