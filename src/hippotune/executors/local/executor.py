"""Workers on this machine: one process for each slot, warm from lease to lease.

The processes are not copies of this one: the user's script is not run again and needs no
``if __name__ == "__main__"``, and no thread or lock of this process is inherited in the middle of its work.
They are forked off one that has done nothing but imports (`fork_server.py`); where that is not possible, they
are fresh interpreters.
"""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from hippotune import checks, portable
from hippotune.errors import HippoError
from hippotune.executors import lease_log
from hippotune.executors.base import Emit, Executor, Job
from hippotune.executors.environment import shares_of_cores, shares_of_gpus, usual_threads
from hippotune.executors.local import fork_server
from hippotune.executors.local.hang_timeout import HangTimeout
from hippotune.executors.local.process import WorkerProcess
from hippotune.executors.local.slot import Slot
from hippotune.executors.local.worker_groups import WorkerGroups
from hippotune.executors.shipping import pack
from hippotune.executors.worker.wide import parts
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.trainers.base import Trainer


class Local(Executor):
    """Runs leases in processes on this machine.

    What a trainer prints is shown by ``hippo show STUDY --trial N --log``. A trainer that cannot be imported
    in a worker, and workers that die again and again before they can work, are announced as a lease that
    fails with phase "contract".

    On a machine with GPUs of NVIDIA, each worker sees one of them alone, as ``cuda:0``; where there are more
    workers than GPUs, several share one. Set ``CUDA_VISIBLE_DEVICES`` to leave GPUs out.

    Parameters
    ----------
    workers : int
        How many processes train at the same time.
    hang_after : float, optional
        A worker that finishes no step, evaluation, load or save for this many seconds while it has work is
        killed and replaced. By default 50 times the usual step, at least 10 minutes, and without a limit
        until the first step is finished. ``math.inf`` waits for ever. Give at least 1: workers report four
        times a second.
    threads : int, optional
        How many threads a worker computes with. By default the number that the plan was begun with: then, the
        machine's cores were shared out evenly. Bits of results depend on it, so that a number which is given
        here is part of the plan's identity.
    """

    def __init__(self, workers: int = 2, hang_after: float | None = None, threads: int | None = None) -> None:
        self._workers = checks.whole("workers", workers)
        self.hang_after = checks.hang_after(hang_after)
        self.threads = None if threads is None else checks.whole("threads", threads)
        self._slots: dict[int, Slot] = {}
        self._groups = WorkerGroups()
        self._make: Callable[[int], list[Slot]] | None = None
        self._end: weakref.finalize[[dict[int, Slot], int], Local] | None = None

    worker_user: str | None = None
    """The user of the system who runs the processes, where a server by root says so."""

    @property
    def workers(self) -> int:
        """The number of worker processes."""
        return self._workers

    @property
    def usual_threads(self) -> int:
        """An even share of the cores, or what ``OMP_NUM_THREADS`` says."""
        return usual_threads(os.environ, len(shares_of_cores(self._workers)[0]))

    def environment(self, threads: int | None = None) -> dict[str, str]:
        """Return the environment of a worker, which sees one GPU; that of slot 0."""
        return {**super().environment(threads), **shares_of_gpus(1, os.environ)[0]}

    def warm_up(self, trainer: type[Trainer]) -> None:
        """Start to import what workers need. Raises `HippoError` on a system that they do not run on."""
        if not hasattr(os, "fork"):
            raise HippoError(
                "hippo.Local trains on Linux and macOS; on this system use Linux in WSL, or Study(url=...) "
                "with a server on another machine"
            )
        if self.worker_user is None and fork_server.is_possible():
            fork_server.warm_up(self.environment(), fork_server.used_by(trainer))

    async def start(self, job: Job, emit: Emit) -> None:
        """Start all processes; they are announced as they come up."""
        self._prepare(job, emit)
        self.open(range(self._workers))

    def open(self, numbers: Iterable[int]) -> None:
        """Bring slots up."""
        if self._make is not None:
            for slot in [slot for number in numbers for slot in self._make(number)]:
                slot.start()

    def _prepare(
        self,
        job: Job,
        emit: Emit,
        closed: Callable[[int], None] = lambda worker: None,
    ) -> None:
        """Get ready to open slots for a job; `closed` is told of workers whose last process has ended."""
        if self._make is not None:
            raise HippoError("this executor is at work already: close it first, or make another")
        job = replace(job, checkpoints=job.checkpoints.absolute())
        greeting = pickle.dumps(pack(job), protocol=5)
        workers, count = self._workers, self._workers * job.packing
        threads = self.threads or job.threads or self.usual_threads
        shares = shares_of_cores(self._workers)
        environment = self.environment(threads)
        modules = fork_server.used_by(job.opened) if job.parcel is None else job.parcel.modules
        forks = self.worker_user is None and fork_server.is_possible()
        # What a rehearsal's interpreter needs is imported by a core that is idle until workers are up.
        stands_by = forks and job.rehearses and len(os.sched_getaffinity(0)) > 1
        begin = partial(
            _begin,
            logs=job.checkpoints / lease_log.FOLDER,
            shares=shares if threads <= len(shares[0]) else [[]] * workers,
            gpus=shares_of_gpus(workers, os.environ),
            environment=environment,
            user=self.worker_user,
            modules=modules if forks else None,
            standby=fork_server.stand_by(environment, modules) if stands_by else None,
        )
        if self.worker_user is not None:  # who writes checkpoints and logs, and reads nothing else
            (job.checkpoints / lease_log.FOLDER).mkdir(parents=True, exist_ok=True)
            for path in (job.checkpoints, *job.checkpoints.rglob("*")):
                os.chown(path, portable.user_named(self.worker_user)[0], -1, follow_symlinks=False)
        slots: dict[int, Slot] = {}
        groups, hang_after = WorkerGroups(), self.hang_after

        def make(number: int) -> list[Slot]:
            on = number if job.packing > 1 else None
            made = {
                worker: Slot(
                    worker, begin, greeting, emit, HangTimeout(hang_after), slots, groups, on, closed
                )
                for worker in range(number, count, workers)
            }
            slots.update(made)
            return list(made.values())

        self._slots, self._groups, self._make = slots, groups, make
        self._end = weakref.finalize(self, _abandon, slots, os.getpid())

    def carry_out(self, command: ExecutorCommand) -> None:
        """Send a command to its worker, and a lease with peers to all of them."""
        if command.worker not in self._slots:
            return  # closed
        if not isinstance(command, RunLease) or not command.peers:
            self._slots[command.worker].carry_out(command)
            return
        workers = command.workers
        if (folder := self._slots[command.worker].folder) is None:
            return  # it is lost, and that is announced
        meeting = Path(folder, f"lease-{command.lease}").as_uri()
        self._groups.form(command.lease, workers)
        for part in parts(command, meeting):
            if not self._slots[part.worker].carry_out(part):
                # It is lost already, and was not yet on the lease then.
                for other in self._groups.lose(part.worker):
                    self._slots[other].end(f"was ended: worker {part.worker}, which it trained with, is lost")
                return

    async def close(self) -> None:
        """Let saves that are under way finish, then end all processes."""
        import asyncio  # here, because workers import this module too, and have no use for it

        slots, self._slots, self._make = list(self._slots.values()), {}, None
        for slot in slots:
            slot.ask_to_close()
        for slot in slots:
            await asyncio.to_thread(slot.join)
        if self._end is not None:
            self._end.detach()
            self._end = None


def _begin(
    worker: int,
    logs: Path,
    shares: Sequence[Sequence[int]],
    gpus: Sequence[Mapping[str, str]],
    environment: Mapping[str, str],
    user: str | None,
    modules: Sequence[str] | None,
    standby: fork_server.ForkServer | None,
) -> WorkerProcess:
    slot = worker % len(shares)
    with nullcontext() if standby is None else standby.connect() or nullcontext() as connection:
        return WorkerProcess(
            worker,
            logs / f"worker-{worker}.log",
            {**environment, **gpus[slot]},
            shares[slot],
            user=user,
            modules=modules,
            standby=None if connection is None else connection.fileno(),
        )


def _abandon(slots: dict[int, Slot], owner: int) -> None:
    if os.getpid() == owner:  # and not in a fork of it
        for slot in list(slots.values()):
            slot.abandon()
