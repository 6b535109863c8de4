"""Where leases run: the contract of every executor.

An executor owns worker slots, and on each a worker, or several where leases are packed. It is told `RunLease`
and `UpdateLease` and answers with events, through the `emit` function that it is given at the start. It
decides nothing.

Contract
--------
* `start` returns once `emit` may be called; every slot is announced by `WorkerJoined` when it can work.
* `carry_out` never blocks. At most one lease is unfinished on a worker at a time.
* For one lease the events come in the order in which things happened, except that `CheckpointSaved` may
  come later than its step, even after `LeaseFinished`: saving overlaps training.
* What training logs (`NumbersLogged`) comes before, or with, the word that the steps concerned are trained,
  and before what was measured or saved there. Virtual executors train nothing, and log nothing.
* A worker that dies or hangs is announced by `WorkerLost`; nothing of its unfinished leases is
  announced afterwards. A replacement is announced by `WorkerJoined` under the same number.
* A lease with peers is trained by all its workers together; events come from its leader, `worker`. Where
  one of them is lost, all are ended, and each is announced by `WorkerLost`.
* A lease that fails (`LeaseFailed`) leaves its worker able to take the next lease, from scratch or from a
  checkpoint; where the process had to be replaced for that, `WorkerLost` and `WorkerJoined` follow.
* Where `release_after` says that slots are given back, there are as many as `demand` has asked for; others
  have all of theirs from the start. A worker that is to go is announced by `WorkerLeaving`, and goes after
  `release`, without another word.
* Where slots are shared with other plans, `OthersWait` says how many this one may keep.
* `emit` may be called from any thread.
* `now` is the executor's clock in seconds: it never jumps, also where the machine's clock is set. Virtual
  time moves only in `advance`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

from hippotune.executors.environment import alike
from hippotune.protocol.commands import ExecutorCommand
from hippotune.protocol.events import Event
from hippotune.scheduling.pool import Served
from hippotune.sequences.config import Config
from hippotune.trainers.base import Trainer
from hippotune.trainers.starting import Start

Emit = Callable[[Event], None]

# What the monotonic clock shows at the epoch: people read times that were measured with it.
_EPOCH = time() - monotonic()


@dataclass(frozen=True, slots=True)
class Parcel:
    """A trainer on its way to another process, as plain values: only there is it opened.

    It is found by `entry`, as ``package.module:Class``, or else pickled in `content`; classes of the modules
    `by_value` are in there as code. `path` is where modules are searched, `arguments` the program's own.
    `modules` are worth importing before anything is forked that opens it. `process` are settings of the
    user's process that the other one must have too, as pairs; None where they are unknown.
    """

    trainer: str
    content: bytes = b""
    entry: str = ""
    by_value: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    process: tuple[tuple[str, str], ...] | None = None
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What workers need to know before the first lease: the trainer and where its checkpoints live.

    Where the trainer is not to be opened in this process, there is a `parcel` in its place; `fits` is then
    what its `Trainer.fits` is known to be, None where its stages stay narrow.

    `packing` is how many workers there should be on every slot, and `threads` how many threads each computes
    with: the plan's number, the same for all its workers for ever. None leaves it to the executor. `code` are
    the parts of the trainer's fingerprint, which workers must find again. `start` is what trials from scratch
    begin with. `study` is for people: whose job it was at first. Where checkpoints are in an object store,
    `storage` is their URL, and the folder is a cache. Where `rehearses`, a fresh interpreter will be needed.
    `process` are settings of the user's process that workers must have too.
    """

    trainer: type[Trainer] | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    checkpoints: Path = Path(".")
    packing: int = 1
    threads: int | None = None
    code: Mapping[str, str] = field(default_factory=dict)
    start: Start | None = None
    study: str = ""
    storage: str | None = None
    parcel: Parcel | None = None
    fits: Callable[[Mapping[str, Any], int], bool] | None = None
    rehearses: bool = False
    process: Mapping[str, str] | None = None

    @property
    def opened(self) -> type[Trainer]:
        """The trainer, in a process that may open it."""
        assert self.trainer is not None
        return self.trainer


class Executor(ABC):
    """Base of all executors; see the module's contract.

    `virtual` executors train nothing: their studies keep nothing on disk.
    """

    virtual = False

    threads: int | None = None
    """The threads of a worker, where the user gave their number."""

    release_after: float | None = None
    """How long a slot may be idle before it is given back; None where slots are the executor's own."""

    @property
    def usual_threads(self) -> int | None:
        """How many threads a worker of a new plan gets; None where that means nothing."""
        return None

    @property
    @abstractmethod
    def workers(self) -> int:
        """The number of slots that the executor is meant to have."""

    @property
    def identity(self) -> str:
        """Whose workers these are: executors of one identity are the same to a plan."""
        return f"{type(self).__name__} {id(self)}"

    def environment(self, threads: int | None = None) -> dict[str, str]:
        """Return the environment of a worker: what has to be around a trial for it to give the same bits."""
        return {**os.environ, **alike(os.environ, threads or self.threads or self.usual_threads or 1)}

    def warm_up(self, trainer: type[Trainer]) -> None:  # noqa: B027
        """Workers for a trainer are about to be wanted: what takes long may begin. Returns at once."""

    @abstractmethod
    async def start(self, job: Job, emit: Emit) -> None:
        """Bring the workers up for one job. Raises `TrainerError` where the trainer cannot be shipped."""

    @abstractmethod
    def carry_out(self, command: ExecutorCommand) -> None:
        """Start or change a lease."""

    def demand(self, slots: Mapping[int, int], together: int) -> None:  # noqa: B027
        """There is work for this many slots of each kind; one lease may have up to `together` of them."""

    def serve(self, studies: Iterable[Served]) -> None:  # noqa: B027
        """These studies want something now: what says whose turn it is, where plans share slots."""

    @property
    def suitable(self) -> Callable[[Config], frozenset[int]] | None:
        """Which kinds of slots suit a config; None where all are alike."""
        return None

    def release(self, worker: int) -> None:  # noqa: B027
        """Let go of a worker that was announced as leaving, when its saves are over."""

    @abstractmethod
    async def close(self) -> None:
        """Let saves that are under way finish, then end all workers. May be called twice."""

    def now(self) -> float:
        """Return the executor's time in seconds: since the epoch, as the machine's clock was at first."""
        return _EPOCH + monotonic()

    def alarm(self, time: float, call: Callable[[], None]) -> None:
        """Have something called when virtual time has come to `time`; not for executors in real time."""
        raise NotImplementedError

    def advance(self) -> bool:
        """Move virtual time to the next event and emit it; False where it moves by itself or none is due."""
        return False
