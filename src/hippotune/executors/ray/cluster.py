"""The Ray cluster as an executor sees it: joined and left, and how many slots it has room for.

What always holds: a cluster that the user joined (``ray.init``) is used as it is and left as it was. One that
Hippo joined is left when the last executor in this process lets go of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hippotune import checks
from hippotune.errors import HippoError, InvalidInput, MissingExtra

# Ray counts resources in ten-thousandths.
_UNITS = 10_000
_RAYS_OWN = ("CPU", "GPU", "memory")


class SlotResources:
    """What one slot takes of a node, by Ray's names: ``{"CPU": 1, "GPU": 0.5, "memory": 2**30}``."""

    def __init__(self, slot: Mapping[str, float]) -> None:
        if not isinstance(slot, Mapping) or not all(isinstance(name, str) and name for name in slot):
            raise InvalidInput(f'slot is {slot!r}; expected resources, such as {{"CPU": 1, "GPU": 0.5}}')
        for name, amount in slot.items():
            checks.number(f"slot[{name!r}]", amount, least=0)
            for own in _RAYS_OWN:
                if name != own and name.lower() == own.lower():
                    raise InvalidInput(f"slot has {name!r}; Ray calls it {own!r}")
            if name == "GPU" and amount > 1 and amount != int(amount):
                raise InvalidInput(f"slot['GPU'] is {amount!r}; a slot gets whole GPUs, or a part of one")
        self._units = {name: round(amount * _UNITS) for name, amount in slot.items() if amount}
        if not any(self._units.values()):
            raise InvalidInput(f'slot is {slot!r}; a slot takes something of its node, such as {{"CPU": 1}}')
        self.amounts = {name: amount for name, amount in slot.items() if amount}

    def __str__(self) -> str:
        return ", ".join(f"{amount:g} {name}" for name, amount in self.amounts.items())

    def covers(self, needs: Mapping[str, float]) -> bool:
        """Whether a slot has all that is needed."""
        return all(self.amounts.get(name, 0) >= amount for name, amount in needs.items())

    @property
    def cores(self) -> int:
        """How many threads a slot can keep busy."""
        return max(1, int(self.amounts.get("CPU", 1)))

    def options(self) -> dict[str, Any]:
        """Return the options of an actor that holds a slot."""
        named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
        others = {name: amount for name, amount in self.amounts.items() if name not in named}
        options: dict[str, Any] = {option: self.amounts.get(name, 0) for name, option in named.items()}
        if not options["memory"]:
            del options["memory"]
        return {**options, "resources": others}

    def fit_on(self, node: Mapping[str, float]) -> int:
        """Return how many slots a node with these resources has room for."""
        return min(self._fit(name, node.get(name, 0.0)) for name in self._units)

    def _fit(self, name: str, amount: float) -> int:
        need = self._units[name]
        if name == "GPU" and need < _UNITS:  # a part of one GPU, never of two
            return int(amount) * (_UNITS // need)
        return round(amount * _UNITS) // need


def slot_kinds(slot: Any) -> list[SlotResources]:
    """Return the kinds of slots that a user has asked for: one, or a list of them."""
    several = slot if isinstance(slot, list | tuple) and slot else [{"CPU": 1} if slot is None else slot]
    return [SlotResources(kind) for kind in several]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the cluster has: how many slots of each kind fit on its idle nodes, and what is free of what now.

    Nodes that are `draining` are about to go. `waiting` are the tasks, actors and bundles of all users that
    its nodes could hold and that it has no room for now.
    """

    nodes: frozenset[str]
    slots: tuple[int, ...]
    free: Mapping[str, float]
    total: Mapping[str, float]
    draining: frozenset[str] = frozenset()
    waiting: int = 0

    def describe(self, names: Iterable[str]) -> str:
        """Return what is free of some resources, for people to read."""
        return ", ".join(
            f"{self.free.get(name, 0):g} of {self.total.get(name, 0):g} {name}" for name in names
        )


class Cluster:
    """The cluster that this process is part of. Made by `join`.

    Attributes
    ----------
    carries_environment : bool
        Whether all that this process has done there gets the runtime environment that it joined with.
    dashboard : str or None
        The address of the cluster's web page, where that is known.
    """

    def __init__(self, ray: Any, carries_environment: bool = False, dashboard: str | None = None) -> None:
        self.ray = ray
        self.carries_environment = carries_environment
        self.dashboard = dashboard
        self._left = False

    @property
    def is_up(self) -> bool:
        """Whether this process is still part of it."""
        return not self._left and bool(self.ray.is_initialized())

    def state(self, kinds: Sequence[SlotResources]) -> ClusterState:
        """Ask the cluster what it has."""
        from ray._private.state import state
        from ray.autoscaler.v2.sdk import get_cluster_resource_state

        draining = frozenset(state.get_draining_nodes())
        nodes = {node["NodeID"]: node["Resources"] for node in self.ray.nodes() if node["Alive"]}
        lasting = [resources for node, resources in nodes.items() if node not in draining]
        wanted = get_cluster_resource_state(self.ray._private.worker.global_worker.gcs_client)
        single = [(one.request.resources_bundle, one.count) for one in wanted.pending_resource_requests]
        bundles = [one for gang in wanted.pending_gang_resource_requests for one in gang.requests]
        single += [(bundle.resources_bundle, 1) for bundle in bundles]
        return ClusterState(
            frozenset(nodes) - draining,
            tuple(sum(kind.fit_on(resources) for resources in lasting) for kind in kinds),
            self.ray.available_resources(),
            self.ray.cluster_resources(),
            draining,
            sum(count for request, count in single if any(_holds(node, request) for node in lasting)),
        )

    def refuse(self, folder: Path) -> None:
        """Raise where what is kept in a folder would be gone with the cluster's session."""
        session = Path(self.ray._private.worker._global_node.get_session_dir_path())
        if folder.is_relative_to(session) or folder.resolve().is_relative_to(session.resolve()):
            raise InvalidInput(
                f"the study's home is in {folder}, below the folder of Ray's session: results would be gone "
                "with the session, and not be found by the next job. Give it a place that lasts and that all "
                'nodes see: Study(home="/shared/hippo") or Study(home="s3://bucket/study")'
            )

    def uploaded(self, runtime_env: Mapping[str, Any]) -> dict[str, Any]:
        """Return a runtime environment whose local folders are in the cluster, as actors want it."""
        from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
        from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

        scratch = self.ray._private.worker._global_node.get_runtime_env_dir_path()
        ready = upload_working_dir_if_needed(dict(runtime_env), include_gitignore=True, scratch_dir=scratch)
        return dict(upload_py_modules_if_needed(ready, include_gitignore=True, scratch_dir=scratch))

    def namespaces(self, prefix: str) -> int:
        """Return how many namespaces that begin so have named actors, or wait for them."""
        actors = self.ray.util.list_named_actors(all_namespaces=True)
        return len({actor["namespace"] for actor in actors if actor["namespace"].startswith(prefix)})

    def leave(self) -> None:
        """Let go of the cluster. May be called twice."""
        global _users, _joined_here
        with _joining:
            if self._left:
                return
            self._left = True
            _users -= 1
            if _users == 0 and _joined_here:
                _joined_here = False
                self.ray.shutdown()


def _holds(node: Mapping[str, float], request: Mapping[str, float]) -> bool:
    return all(node.get(name, 0) >= amount for name, amount in request.items())


_joining = threading.Lock()
_users = 0
_joined_here = False


def load_ray() -> Any:
    """Import Ray, which takes its time."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("hippo.Ray needs Ray: pip install 'hippotune[ray]'") from error
    return ray


def join(address: str | None, runtime_env: Mapping[str, Any] | None) -> Cluster:
    """Become part of a cluster, as Ray finds it, or start one on this machine where there is none."""
    global _users, _joined_here
    ray = load_ray()
    with _joining:
        if ray.is_initialized():
            cluster = Cluster(ray)
        else:
            try:
                context = ray.init(
                    address=address,
                    runtime_env=dict(runtime_env) if runtime_env else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = "" if address is None else f" at {address!r}"
                raise HippoError(f"cannot join a Ray cluster{where}: {error}") from error
            url = context.dashboard_url
            cluster = Cluster(ray, carries_environment=True, dashboard=f"http://{url}" if url else None)
            _joined_here = True
        _users += 1
        return cluster
