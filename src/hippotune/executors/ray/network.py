"""Connections between processes on the nodes of a cluster, beside Ray.

The driver has a channel to each actor: a call by Ray costs many times as much as a message. An actor listens,
and its driver connects. Both prove that they know a secret before anything else is read.
"""

from __future__ import annotations

import os
import queue
import socket
import struct
import sys
import threading
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from hippotune.errors import HippoError
from hippotune.executors.local.channel import Channel

_SIOCGIFADDR = 0x8915
# How long connecting may take, and each answer while the other side proves that it knows the secret.
_CALL_SECONDS = 15
_PROOF_SECONDS = 5
# What a wrong proof raises: the standard library asserts some of it.
_NOT_PROVED = (OSError, EOFError, AuthenticationError, AssertionError, ValueError)
# Keep-alive probes of an idle channel: the first after 30 s, then every 10 s, three in all.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}

Address = tuple[str, int]


def listen(host: str) -> socket.socket:
    """Return a socket that listens at a free port."""
    return socket.create_server((host, 0), family=_family(host))


def answer(listening: socket.socket, secret: bytes) -> Channel:
    """Wait for a peer that knows the secret. Others are disconnected, and delay nothing."""
    proved: queue.SimpleQueue[Channel] = queue.SimpleQueue()

    def prove(caller: socket.socket) -> None:
        with suppress(*_NOT_PROVED), caller:
            proved.put(_proved(caller, secret, _PROOF_SECONDS, called=True))

    def accept() -> None:
        with suppress(OSError):  # listening has ended
            while True:
                caller, _ = listening.accept()
                threading.Thread(target=prove, args=[caller], name="proof", daemon=True).start()

    threading.Thread(target=accept, name="calls", daemon=True).start()
    channel = proved.get()
    listening.shutdown(socket.SHUT_RDWR)
    return channel


def call(address: Address, secret: bytes) -> Channel:
    """Connect to an address. Raises `HippoError` unless a peer listens there that knows the secret."""
    try:
        with socket.create_connection(address, _CALL_SECONDS) as caller:
            return _proved(caller, secret, _CALL_SECONDS, called=False)
    except _NOT_PROVED as error:
        host, port = address
        raise HippoError(
            f"the driver cannot speak with it at {host}, port {port} ({error or type(error).__name__}): "
            "between the nodes of a cluster all ports have to be open"
        ) from error


def _proved(end: socket.socket, secret: bytes, seconds: int, called: bool) -> Channel:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a message never waits for the next
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has all of them
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
    connection = Connection(os.dup(end.fileno()))
    try:
        for prove in (
            (deliver_challenge, answer_challenge) if called else (answer_challenge, deliver_challenge)
        ):
            prove(connection, secret)
    except BaseException:
        connection.close()
        raise
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    return Channel(connection)


def reserved_port(address: str) -> socket.socket:
    """Return a socket that reserves a port while it is open.

    It is bound and never listens: on Linux another one may then be bound there too, if it says that it reuses
    the address, as torch's do. No other program gets the port.
    """
    keeper = socket.socket(_family(address))
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind((address, 0))
    return keeper


def interface_of(address: str) -> str | None:
    """Return the network interface that has an address; None where that is not known.

    Left to itself, gloo takes the one that the machine's own name leads to, which is often the loopback.
    """
    if sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no such address
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
