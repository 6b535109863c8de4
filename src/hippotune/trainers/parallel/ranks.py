"""The ranks that train one lease together: how they meet, what they tell each other, how they part.

A process belongs to one group at a time, as it has one default group in torch: collectives of the user's own
run in the same. What always holds:

* All ranks call the same collectives in the same order. Rank 0 leads: it says what comes next.
* A rank that fails leaves a note before it leaves the group; leaving or dying ends whatever the others wait
  for, with `Parted`. Once parted, a group stays so, even where the user's code passes over the exception.
"""

from __future__ import annotations

import os
import socket
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import torch
import torch.distributed as dist
from torch import Tensor

from hippotune.causes import causes
from hippotune.errors import InvalidInput, TrainerError
from hippotune.trainers.memory import is_out_of_memory
from hippotune.trainers.parallel.share import Batch, Share

# The last resort, where a machine is cut off. A rank that fails or dies elsewhere is noticed at once.
_TIMEOUT = timedelta(minutes=30)
_INTERFACE = "GLOO_SOCKET_IFNAME"
# How many collectives are kept when they are over, and of how many bytes at most.
_KEPT = 64
_SMALL = 1 << 16

_present: Ranks | None = None


class Parted(Exception):
    """The group has come apart: one of its ranks failed, died or did not answer."""


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
    """

    def __init__(self, meeting: str, rank: int, width: int) -> None:
        self.share = Share(rank, width)
        self.batch = Batch(self.share)
        self.doing: Literal["train", "evaluate"] | None = None
        self.parted = False
        self._agreed = False
        self._over: deque[Any] = deque(maxlen=_KEPT)
        with self._speaking(), _on_this_machine(meeting.startswith("file:")):
            self._store = _store(meeting, self.share)
            before = _open_sockets()
            # Messages go by gloo, on the CPU; gradients on a GPU go by NCCL.
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, store=self._store, rank=rank, world_size=width, timeout=_TIMEOUT)
            self._sockets = _open_sockets().items() - before.items()

    def leave(self) -> None:
        """Leave the group. The others notice at once."""
        global _present
        _present = None
        self._over.clear()
        # Torch closes its connections when nothing refers to the group any more: no frame of an exception, no
        # default argument of some function. The others shall not wait for that.
        for descriptor, _ in self._sockets & _open_sockets().items():
            _disconnect(descriptor)
        if dist.is_initialized():
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
        self.check()

    def check(self) -> None:
        """Raise `Parted` if the group has come apart and the user's code swallowed the error."""
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
            return self.sum(value.detach().to(kind, copy=True))
        number = value.item() if hasattr(value, "item") else value
        kind = torch.float64 if isinstance(number, float) else torch.int64
        return self.sum(torch.tensor(number, dtype=kind)).item()

    # Collectives.

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all ranks, in place where gloo or NCCL can reach it; return the sum."""
        there = tensor if tensor.device.type in ("cpu", "cuda") else tensor.cpu()
        with self._speaking():
            self._finish(dist.all_reduce(there, async_op=True), there)
        return there.to(tensor.device)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all ranks, stacked in the order of ranks."""
        there = tensor if tensor.device.type in ("cpu", "cuda") else tensor.cpu()
        every = [torch.empty_like(there) for _ in range(self.share.width)]
        with self._speaking():
            self._finish(dist.all_gather(every, there, async_op=True), there)
        return torch.stack(every).to(tensor.device)

    def check_alike(self, mark: int) -> None:
        """Check, once, that all ranks train the same: `mark` is a checksum of it."""
        if self._agreed:
            return
        marks = self.gather(torch.tensor(mark)).tolist()
        if len(set(marks)) > 1:
            raise TrainerError(
                "the workers that train together hold different parameters: build() and setup() have to make "
                "the same modules, in the same order, in every process. Otherwise set widens = False"
            )
        self._agreed = True

    def tell(self, order: int) -> None:
        """Tell all other ranks what comes next."""
        self._broadcast(torch.tensor(order))

    def hear(self) -> int:
        """Wait for what rank 0 tells."""
        return int(self._broadcast(torch.tensor(0)))

    def send(self, content: memoryview) -> None:
        """Send bytes to all other ranks."""
        self.tell(len(content))
        self._broadcast(torch.frombuffer(content, dtype=torch.uint8))

    def receive(self) -> bytes:
        """Wait for bytes that rank 0 sends."""
        content = self._broadcast(torch.empty(self.hear(), dtype=torch.uint8))
        return content.numpy().tobytes()

    def _broadcast(self, tensor: Tensor) -> Tensor:
        with self._speaking():
            self._finish(dist.broadcast(tensor, 0, async_op=True), tensor)
        return tensor

    def _finish(self, work: Any, tensor: Tensor) -> None:
        """Wait for a collective. A small one is kept for a while, for the sake of processes that are forked.

        Where gloo's thread is the last to let go of a tensor, it makes itself known to the interpreter. A
        process that is forked at that moment, such as a DataLoader's, waits for ever in Python 3.11.
        """
        work.wait()
        if tensor.nbytes <= _SMALL:
            self._over.append(work)

    # Notes, which outlast the group.

    def write_note(self, name: str, content: bytes) -> None:
        """Leave a note for the other ranks."""
        with suppress(RuntimeError):  # the group is gone
            self._store.set(name, content)

    def read_note(self, name: str) -> bytes | None:
        """Return a note, if there is one."""
        with suppress(RuntimeError):
            return self._store.get(name) if self._store.check([name]) else None
        return None

    def wait_for_note(self, name: str, seconds: float) -> None:
        """Wait for a note, or as long as that."""
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


def _store(meeting: str, share: Share) -> Any:
    url = urlsplit(meeting)
    if url.scheme == "file":
        return dist.FileStore(unquote(url.path), share.width)  # type: ignore[attr-defined]
    if url.scheme == "tcp" and url.hostname and url.port:
        address = url.hostname, url.port
        store = _tcp_store(*address) if share.rank else _server(*address)
        return dist.PrefixStore(url.path, store)  # type: ignore[attr-defined]
    raise InvalidInput(f"workers cannot meet at {meeting!r}; expected file:///path or tcp://host:port/name")


@cache  # a group that torch still holds would keep the address
def _server(host: str, port: int) -> Any:
    """Return the store that listens at one address: torch by itself would listen at all of them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family).detach()
    return _tcp_store(host, port, is_master=True, master_listen_fd=listening)


def _tcp_store(host: str, port: int, **options: Any) -> Any:
    return dist.TCPStore(host, port, None, timeout=_TIMEOUT, wait_for_workers=False, **options)  # type: ignore[attr-defined]


@contextmanager
def _on_this_machine(only: bool) -> Iterator[None]:
    """Have gloo listen on the loopback device alone: the machine's name may lead elsewhere, or nowhere."""
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if not only or loopback is None or _INTERFACE in os.environ:
        yield
        return
    os.environ[_INTERFACE] = loopback
    try:
        yield
    finally:
        del os.environ[_INTERFACE]


def _open_sockets() -> dict[int, int]:
    """Return the sockets of this process: the descriptor and inode of each."""
    found = {}
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the one that the list was read from is closed again
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(name)] = status.st_ino
    return found


def _disconnect(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        if not line.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            line.shutdown(socket.SHUT_RDWR)


def _after_fork() -> None:
    if _present is not None:
        _present.keep_from_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
