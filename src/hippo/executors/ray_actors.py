"""The actors of an executor: how they are made, heard and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hippo.executors.ray_cluster import Cluster, SlotResources
from hippo.executors.ray_worker import Posting, RayWorker

# How many calls an actor can look at at a time: one that waits, and those that bring orders.
_CALLS = 4


class Actors:
    """Makes actors on a cluster that know where they are posted. For any thread."""

    def __init__(
        self,
        cluster: Cluster,
        resources: SlotResources,
        runtime_env: Mapping[str, Any] | None,
        posting: Posting,
    ) -> None:
        self._cluster = cluster
        options = {**resources.options(), "max_restarts": 0, "max_concurrency": _CALLS}
        if runtime_env and not cluster.carries_environment:
            options["runtime_env"] = dict(runtime_env)
        self._class = cluster.ray.remote(RayWorker).options(**options)
        self._posting = cluster.ray.put(posting)  # to every node once, however many slots it has

    def make(self, workers: Sequence[int]) -> Any:
        """Have an actor made that holds a slot; it comes up when there is room for it."""
        return self._class.remote(workers, self._posting)

    def get(self, reference: Any) -> Any:
        """Wait for a call to come back. Raises one of Ray's errors where the actor is gone."""
        return self._cluster.ray.get(reference)

    def kill(self, actor: Any) -> None:
        """End an actor at once, and with it its processes."""
        if self._cluster.is_up:
            with suppress(Exception):  # it may be dead already, and then it need not be killed
                self._cluster.ray.kill(actor)
