"""How the ranks of a group find each other, and the connections that they have then."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import torch.distributed as dist

from hippotune.errors import InvalidInput
from hippotune.trainers.parallel.share import Share

# The last resort, where a machine is cut off. A rank that fails or dies elsewhere is noticed at once.
TIMEOUT = timedelta(minutes=30)
_INTERFACE = "GLOO_SOCKET_IFNAME"


def open_store(meeting: str, share: Share) -> Any:
    """Return the store that all ranks of a meeting see."""
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
    return dist.TCPStore(host, port, None, timeout=TIMEOUT, wait_for_workers=False, **options)  # type: ignore[attr-defined]


def any_gpu_twice(store: Any, share: Share, gpu: str) -> bool:
    """Tell all ranks which GPU this one computes on, and return whether two ranks name the same."""
    store.set(f"gpu {share.rank}", gpu)
    return len({store.get(f"gpu {rank}") for rank in range(share.width)}) < share.width


@contextmanager
def on_this_machine(only: bool) -> Iterator[None]:
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


def open_sockets() -> dict[int, int]:
    """Return the sockets of this process: the descriptor and inode of each."""
    found = {}
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the one that the list was read from is closed again
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(name)] = status.st_ino
    return found


def disconnect(descriptor: int) -> None:
    """Let the other end of a connection notice that it is over."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        if not line.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            line.shutdown(socket.SHUT_RDWR)
