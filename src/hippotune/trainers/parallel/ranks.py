"""The ranks that train one lease together: how they meet, what they tell each other, how they part.

A process belongs to one group at a time, as it has one default group in torch: collectives of the user's own
run in the same. What always holds:

* All ranks call the same in the same order. Rank 0 leads: it says what comes next. Every call begins with a
  block (`blocks.py`), and every step and evaluation ends with one: where ranks do not call the same, each of
  them raises `Mismatch`, which says who did what, before any of it counts.
* A rank that fails leaves an entry before it leaves the group; leaving or dying ends whatever the others wait
  for, with `Parted`. Once parted, a group stays so, even where the user's code passes over the exception.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from hippotune import portable
from hippotune.causes import causes
from hippotune.errors import TrainerError
from hippotune.trainers.memory import is_out_of_memory
from hippotune.trainers.parallel import blocks
from hippotune.trainers.parallel.meeting import (
    TIMEOUT,
    any_gpu_twice,
    disconnect,
    on_this_machine,
    open_sockets,
    open_store,
)
from hippotune.trainers.parallel.share import Batch, Share

# How many collectives are kept when they are over, and of how many bytes at most.
_KEPT = 64
_SMALL = 1 << 16
_TOTAL = "self.total()"

_present: Ranks | None = None
# The group that was left last. Without this, the wrapper of a model that failed may be the last to refer to
# it: it would end the group's threads while it holds the interpreter's lock, which one of them may wait for.
# What is released when the next group is left has no work under way, and does not hold that lock.
_last_group: Any = None


class Parted(Exception):
    """The group has come apart: one of its ranks failed, died or did not answer."""


class Mismatch(Parted):
    """The ranks of the group do not call the same."""


def present() -> Ranks | None:
    """Return the group that this process trains in; None at width 1."""
    return _present


def in_training() -> Ranks | None:
    """Return the group while one of its steps is being trained."""
    return _present if _present is not None and _present.doing == "train" else None


def meet(meeting: str, rank: int, width: int) -> Ranks:
    """Form a group with the others that come to `meeting`: ``file:///path``, or ``tcp://host:port/name``."""
    global _present
    _present = Ranks(meeting, rank, width)
    return _present


class Ranks:
    """A group as one of its ranks sees it.

    Attributes
    ----------
    share : Share
        Which rank this is, and of how many.
    batch : Batch
        What this rank was handed in the present step.
    doing : str or None
        Which of the user's methods is being called.
    parted : bool
        Whether the group has come apart.
    mismatch : str or None
        Which rank did what, where they did not do the same.
    wrappers : dict[int, Any]
        Models that are wrapped for this group, by their ids.
    exchanged : set[int]
        The ids of parameters that wrappers have exchanged the gradients of, in the present backward().
    """

    def __init__(self, meeting: str, rank: int, width: int) -> None:
        self.share = Share(rank, width)
        self.batch = Batch(self.share)
        self.doing: Literal["train", "evaluate"] | None = None
        self.parted = False
        self.mismatch: str | None = None
        self.wrappers: dict[int, Any] = {}
        self.exchanged: set[int] = set()
        self._agreed = False
        self._over: deque[Any] = deque(maxlen=_KEPT)
        with self._speaking(), on_this_machine(meeting.startswith("file:")):
            self._store = open_store(meeting, self.share)
            before = open_sockets()
            # Messages go by gloo, on the CPU; gradients on a GPU go by NCCL, which wants a GPU for each rank.
            gpu = f"{socket.gethostname()} {os.environ.get('CUDA_VISIBLE_DEVICES', f'of rank {rank}')}"
            by_nccl = torch.cuda.is_available() and not any_gpu_twice(self._store, self.share, gpu)
            backend = "cpu:gloo,cuda:nccl" if by_nccl else "gloo"
            dist.init_process_group(backend, store=self._store, rank=rank, world_size=width, timeout=TIMEOUT)
            self._sockets = open_sockets().items() - before.items()

    def leave(self) -> None:
        """Leave the group. The others notice at once."""
        global _last_group, _present
        _present = None
        self._over.clear()
        self.wrappers.clear()
        # Torch closes its connections when nothing refers to the group any more: no frame of an exception, no
        # default argument of some function. The others do not wait for that.
        for descriptor, _ in self._sockets & open_sockets().items():
            disconnect(descriptor)
        if dist.is_initialized():
            _last_group = dist.group.WORLD
            with suppress(RuntimeError):
                dist.destroy_process_group()

    @contextmanager
    def during(self, doing: Literal["train", "evaluate"]) -> Iterator[None]:
        """Around one of the user's methods."""
        self.doing = doing
        self.batch.clear()
        try:
            yield
        finally:
            self.doing = None
        self._agree(f"comes to the end of {doing}(), batch {self.batch.handed_out}")

    def check(self) -> None:
        """Raise `Parted` if the group has come apart and the user's code swallowed the error."""
        if self.mismatch is not None:
            raise Mismatch(self.mismatch)
        if self.parted:
            raise Parted("the workers that trained together have come apart")

    def have_parted(self, error: BaseException) -> bool:
        """Return whether an exception says that the group has come apart, maybe in the user's own call."""
        return self.parted or any(
            isinstance(link, dist.DistError) or "gloo/transport" in str(link) for link in causes(error)
        )

    def keep_from_child(self) -> None:
        """In a forked process, such as a DataLoader's: while it held connections, no death would be seen."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor, _ in self._sockets:  # not closed: nothing else may get a number that torch uses
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    # What users share out and sum up.

    def part_of(self, items: Any) -> Any:
        """Return this rank's part of something with a length that can be cut."""
        count = len(items)
        if self.doing == "train":
            start, end = self.batch.hand_out(0, count)
        elif self.doing == "evaluate":
            start, end = self.share.bounds(count)
        else:
            return items
        return items[start:end]

    def total_of(self, value: Any) -> Any:
        """Return the sum of a number or a tensor over the parts; itself, where all hold the whole."""
        if not (self.doing == "evaluate" or self.batch.is_split):
            return value
        if isinstance(value, Tensor):
            kind = torch.int64 if value.dtype is torch.bool else value.dtype
            return self.sum(value.detach().to(kind, copy=True), _TOTAL)
        number = value.item() if hasattr(value, "item") else value
        kind = torch.float64 if isinstance(number, float) else torch.int64
        return self.sum(torch.tensor(number, dtype=kind, device="cpu"), _TOTAL).item()

    # Collectives.

    def sum(self, tensor: Tensor, purpose: str) -> Tensor:
        """Add up a tensor over all ranks; return the sum. A large one is changed."""
        there = tensor if tensor.device.type in ("cpu", "cuda") else tensor.cpu()
        every = self._agree(f"calls {purpose}: the sum of {blocks.described(there)}", there)
        if every is not None:
            return every.sum(0, dtype=there.dtype).to(tensor.device)
        with self._speaking():
            self._finish(dist.all_reduce(there, async_op=True), there)
        return there.to(tensor.device)

    def gather(self, tensor: Tensor, purpose: str) -> Tensor:
        """Return the tensors of all ranks, stacked in the order of ranks."""
        there = tensor if tensor.device.type in ("cpu", "cuda") else tensor.cpu()
        every = self._agree(f"calls {purpose}: all of {blocks.described(there)}", there)
        if every is None:
            parts = [torch.empty_like(there) for _ in range(self.share.width)]
            with self._speaking():
                self._finish(dist.all_gather(parts, there, async_op=True), there)
            every = torch.stack(parts)
        return every.to(tensor.device)

    def check_alike(self, mark: int) -> None:
        """Check, once, that all ranks train the same: `mark` is a checksum of it."""
        if self._agreed:
            return
        marks = self.gather(torch.tensor(mark, device="cpu"), "train()").tolist()
        if len(set(marks)) > 1:
            raise TrainerError(
                "the workers that train together hold different parameters: build() and setup() have to make "
                "the same modules, in the same order, in every process. Otherwise set widens = False"
            )
        self._agreed = True

    def tell(self, order: int) -> None:
        """Tell all other ranks what comes next."""
        self._said_by_lead(order)

    def hear(self) -> int:
        """Wait for what rank 0 tells."""
        return self._said_by_lead(0)

    def send(self, content: memoryview) -> None:
        """Send bytes to all other ranks."""
        self.tell(len(content))
        self._broadcast(torch.frombuffer(content, dtype=torch.uint8))

    def receive(self) -> bytes:
        """Wait for bytes that rank 0 sends."""
        content = self._broadcast(torch.empty(self.hear(), dtype=torch.uint8, device="cpu"))
        return content.numpy().tobytes()

    def _said_by_lead(self, number: int) -> int:
        every = self._agree("waits for what comes next", torch.tensor(number, device="cpu"))
        assert every is not None
        return int(every[0])

    def _broadcast(self, tensor: Tensor) -> Tensor:
        with self._speaking():
            self._finish(dist.broadcast(tensor, 0, async_op=True), tensor)
        return tensor

    def announce(self, call: str) -> None:
        """See that all ranks do the same, before they do it."""
        self._agree(call)

    def _agree(self, call: str, content: Tensor | None = None) -> Tensor | None:
        """See that all ranks call the same; return what they send, stacked, where that goes with it."""
        if self.doing is not None:
            call += f" in {self.doing}(), batch {self.batch.handed_out}"
        if content is not None and (content.device.type != "cpu" or content.nbytes > blocks.ROOM):
            content = None
        every = self._exchanged(blocks.written(call, content))
        if not blocks.are_alike(every):
            sites = self._exchanged(blocks.written(blocks.call_site()))
            self.parted, self.mismatch = True, blocks.mismatch(blocks.calls_in(every), blocks.calls_in(sites))
            self.check()
        return None if content is None else blocks.contents_in(every, content)

    def _exchanged(self, block: Tensor) -> Tensor:
        """Return the blocks of all ranks."""
        every = blocks.empty(self.share.width)
        with self._speaking():
            self._finish(dist.all_gather(list(every), block, async_op=True), block)
        return every

    def _finish(self, work: Any, tensor: Tensor) -> None:
        """Wait for a collective. A small one is kept for a while, for the sake of processes that are forked.

        Where gloo's thread is the last to let go of a tensor, it makes itself known to the interpreter. A
        process that is forked at that moment, such as a DataLoader's, waits for ever in Python 3.11.
        """
        work.wait()
        if tensor.nbytes <= _SMALL:
            self._over.append(work)

    # Entries, which outlast the group.

    def write_entry(self, name: str, content: bytes) -> None:
        """Leave an entry for the other ranks."""
        with suppress(RuntimeError):  # the group is gone
            self._store.set(name, content)

    def read_entry(self, name: str) -> bytes | None:
        """Return an entry, if there is one."""
        with suppress(RuntimeError):
            return self._store.get(name) if self._store.check([name]) else None
        return None

    def wait_for_entry(self, name: str, seconds: float) -> None:
        """Wait for an entry, or as long as that."""
        with suppress(RuntimeError):
            self._store.wait([name], timedelta(seconds=seconds))

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.parted = True
            raise Parted(f"the workers that trained together have come apart: {error}") from error


def _after_fork() -> None:
    if _present is not None:
        _present.keep_from_child()


portable.after_fork(_after_fork)
