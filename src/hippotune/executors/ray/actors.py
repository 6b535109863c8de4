"""The actors of an executor: how they are made, heard and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from hippotune.executors.ray.actor import ActorSpec, Failed, RayWorker, Ready
from hippotune.executors.ray.cluster import Cluster, SlotResources

# How many calls an actor has at a time: the one that does not come back, and another.
_CALLS = 2


class Actors:
    """Makes actors on a cluster that know where they are posted. For any thread."""

    def __init__(
        self,
        cluster: Cluster,
        resources: SlotResources,
        runtime_env: Mapping[str, Any] | None,
        spec: ActorSpec,
    ) -> None:
        self._cluster = cluster
        options = {**resources.options(), "max_restarts": 0, "max_concurrency": _CALLS}
        if runtime_env and not cluster.carries_environment:
            options["runtime_env"] = dict(runtime_env)
        self._class = cluster.ray.remote(RayWorker).options(**options)
        self._posting = cluster.ray.put(spec)  # to every node once, however many slots it has

    def make(self, workers: Sequence[int]) -> Any:
        """Have an actor made that holds a slot; it comes up when there is room for it."""
        return self._class.remote(workers, self._posting)

    def settle(self, actor: Any) -> Ready | Failed:
        """Wait until an actor is up. Raises one of Ray's errors where it is gone."""
        found: Ready | Failed = self._cluster.ray.get(actor.settle.remote())
        return found

    def end(self, actor: Any) -> Future[None]:
        """Return what fails when an actor is gone, with one of Ray's errors."""
        end: Future[None] = actor.stay.remote().future()
        return end

    def kill(self, actor: Any) -> None:
        """End an actor at once, and with it its processes."""
        if self._cluster.is_up:
            with suppress(Exception):  # it may be dead already, and then it need not be killed
                self._cluster.ray.kill(actor)
