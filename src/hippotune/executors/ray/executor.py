"""Workers on a Ray cluster: an actor for each slot, warm from lease to lease.

The same study runs here as on one machine, with bit-identical results: each actor keeps the same worker
process that `Local` would, and what surrounds it (threads, the order of sets) is decided by the driver.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hippotune import __version__, checks
from hippotune.errors import HippoError, InvalidInput
from hippotune.executors.base import Emit, Executor, Job
from hippotune.executors.environment import alike, usual_threads
from hippotune.executors.ray.actor import ActorSpec
from hippotune.executors.ray.cluster import Cluster, join, slot_kinds
from hippotune.executors.ray.pool import RayPool, Wanted
from hippotune.executors.shipping import pack
from hippotune.protocol.commands import ExecutorCommand
from hippotune.sequences.config import Config

_MARKER = ".seen-by-all-nodes-"


class Ray(Executor):
    """Runs leases on a Ray cluster.

    Slots that the cluster has no room for at the moment are waited for. Nodes that join are used; where one
    leaves, the steps since the last checkpoints are trained again elsewhere. Checkpoints must lie on storage
    that all nodes see at the same path. What a trainer prints is shown by
    ``hippo show STUDY --trial N --log``.

    Where this process is part of a cluster already (``ray.init``), that one is used, and left as it was.

    Parameters
    ----------
    address : str, optional
        The cluster, as for ``ray.init``. By default the one that ``RAY_ADDRESS`` names or that runs on this
        machine, or else a new one on this machine alone.
    slot : Mapping[str, float] or Sequence[Mapping[str, float]]
        What a worker takes of its node, by Ray's names: ``{"CPU": 1, "GPU": 0.5}`` puts two on each GPU. A
        list has several kinds of slots, the most modest first, for trials that differ in their needs.
    resources : Callable, optional
        What a trial needs, by the values of its hyper-parameters at its first step:
        ``lambda hp: {"GPU": 1} if hp["layers"] > 12 else {"CPU": 1}``. It gets a slot of the first kind that
        has it; by default any.
    workers : int, optional
        How many workers there may be; there are as many as there is work for. By default as many as the
        cluster's nodes have room for, also when that changes. A cluster with an autoscaler grows to hold the
        number that is given.
    runtime_env : Mapping[str, Any], optional
        What Ray brings to the nodes, such as ``{"working_dir": "."}`` for modules beside the script.
    hang_after : float, optional
        As for `Local`.
    threads : int, optional
        How many threads a worker computes with. By default the number that the plan was begun with: then, as
        many as its slot had CPUs. As for `Local`, a number that is given here is part of the plan's identity.
    release_after : float
        After how many idle seconds a slot is given back to the cluster, while a tuner is at work; not before
        it has been idle for as long as a worker takes to start. Afterwards all are, within seconds.
    """

    def __init__(
        self,
        address: str | None = None,
        slot: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        workers: int | None = None,
        *,
        resources: Callable[[Mapping[str, Any]], Mapping[str, float]] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        hang_after: float | None = None,
        threads: int | None = None,
        release_after: float = 60.0,
    ) -> None:
        if address is not None and checks.text("address", address, "10.0.0.1:6379").startswith("ray://"):
            raise InvalidInput(
                f"address is {address!r}: a study's driver runs inside its cluster, not behind a Ray client; "
                "have Ray run the script there: ray job submit --working-dir . -- python SCRIPT"
            )
        if resources is not None and not callable(resources):
            raise InvalidInput(
                f"resources is {resources!r}; expected a function of a trial's hyper-parameters that returns "
                'what it needs, such as lambda hp: {"GPU": 1}. What every worker takes is slot='
            )
        if runtime_env is not None and not isinstance(runtime_env, Mapping):
            raise InvalidInput(
                f'runtime_env is {runtime_env!r}; expected a dict, such as {{"working_dir": "."}}'
            )
        self._address = address
        self._kinds = slot_kinds(slot)
        self._resources = resources
        self._workers = None if workers is None else checks.whole("workers", workers)
        self._runtime_env = runtime_env
        self._hang_after = checks.hang_after(hang_after)
        self.threads = None if threads is None else checks.whole("threads", threads)
        self._release_after = checks.number("release_after", release_after, least=0)
        self._cluster: Cluster | None = None
        self._pool: RayPool | None = None
        self._marker: Path | None = None
        self._end: weakref.finalize[..., Ray] | None = None

    @property
    def workers(self) -> int:
        """The number of workers there may be: as given, or what the cluster has room for now."""
        if self._workers is not None:
            return self._workers
        return 1 if self._pool is None else self._pool.capacity

    @property
    def release_after(self) -> float:  # type: ignore[override]
        """How long a slot may be idle: as given, but no less than it takes to have it again."""
        return max(self._release_after, 0.0 if self._pool is None else self._pool.restart_seconds)

    @property
    def dashboard(self) -> str | None:
        """The address of the web page of the cluster that was joined; None where it has none."""
        return self._cluster.dashboard if self._cluster is not None else None

    @property
    def usual_threads(self) -> int:
        """As many as a slot of the first kind has CPUs, or what ``OMP_NUM_THREADS`` says."""
        return usual_threads(os.environ, self._kinds[0].cores)

    @property
    def suitable(self) -> Callable[[Config], frozenset[int]] | None:
        """Which kinds of slots have what a config needs."""
        return None if self._resources is None else self._suit

    def _suit(self, config: Config) -> frozenset[int]:
        assert self._resources is not None
        values = config.values(0)
        needs = self._resources(values)
        if not isinstance(needs, Mapping):
            raise InvalidInput(f'resources(...) returned {needs!r}; expected resources, such as {{"GPU": 1}}')
        kinds = frozenset(number for number, kind in enumerate(self._kinds) if kind.covers(needs))
        if not kinds:
            raise InvalidInput(
                f"resources(...) returned {needs!r} for {values}, which no kind of slot has: "
                f"{', or '.join(map(str, self._kinds))}; give slot= another kind"
            )
        return kinds

    async def start(self, job: Job, emit: Emit) -> None:
        """Join the cluster and have actors made; their workers are announced as they come up."""
        if self._pool is not None:
            raise HippoError("this executor is at work already: close it first, or make another")
        # Where a link leads: nodes see the storage behind it, and not the link.
        given, job = job.checkpoints.absolute(), replace(job, checkpoints=job.checkpoints.resolve())
        spec = ActorSpec(
            parcel=pack(job),
            checkpoints=job.checkpoints,
            in_bucket=job.storage is not None,
            marker=f"{_MARKER}{secrets.token_hex(8)}",
            environment=alike(os.environ, self.threads or job.threads or self.usual_threads),
            hang_after=self._hang_after,
            version=__version__,
        )
        self._cluster = join(self._address, self._runtime_env)
        try:
            self._cluster.refuse(given)
            self._marker = job.checkpoints / spec.marker
            self._marker.parent.mkdir(parents=True, exist_ok=True)
            for left_over in self._marker.parent.glob(f"{_MARKER}*"):  # by a driver that was killed
                left_over.unlink(missing_ok=True)
            self._marker.touch()
            wanted = Wanted(self._kinds, self._workers, job.packing, self._runtime_env)
            pool = RayPool(self._cluster, wanted, spec, job.study, emit)
            self._end = weakref.finalize(self, _abandon, pool, os.getpid())
            self._pool = pool
            pool.start()
        except BaseException:
            await self.close()
            raise

    def carry_out(self, command: ExecutorCommand) -> None:
        """Send a command to its worker."""
        if self._pool is not None:  # otherwise closed
            self._pool.carry_out(command)

    def demand(self, slots: Mapping[int, int], together: int) -> None:
        """Have as many slots as there is work for."""
        if self._pool is not None:
            self._pool.demand(slots, together)

    def release(self, worker: int) -> None:
        """Give back the slot of a worker, if it has no other."""
        if self._pool is not None:
            self._pool.release(worker)

    async def close(self) -> None:
        """Let saves that are under way finish, then end all actors, and leave the cluster as it was."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.close)
        if self._end is not None:
            self._end.detach()
            self._end = None
        if self._marker is not None:
            with suppress(OSError):
                self._marker.unlink(missing_ok=True)
            self._marker = None
        if self._cluster is not None:
            self._cluster.leave()
            self._cluster = None


def _abandon(pool: RayPool, owner: int) -> None:
    if os.getpid() == owner:  # and not in a fork of it
        pool.abandon()
