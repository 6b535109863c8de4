"""How processes on the nodes of a cluster find each other, beside Ray.

The driver has a line to each actor: a call by Ray costs a hundred times as much as a message. An actor
listens, and its driver calls. Both have to prove that they know a secret before anything else is read.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from hippo.errors import HippoError
from hippo.executors.line import Line

_SIOCGIFADDR = 0x8915
# How long the other side may take to be there, and to prove that it knows the secret.
_CALL_SECONDS = 15
_PROOF_SECONDS = 5

Address = tuple[str, int]


def listen(host: str) -> socket.socket:
    """Return a socket that listens at a free port."""
    return socket.create_server((host, 0), family=_family(host))


def answer(listening: socket.socket, secret: bytes) -> Line:
    """Wait for a call of somebody who knows the secret. Others are hung up on."""
    while True:
        caller, _ = listening.accept()
        with suppress(OSError, EOFError, AuthenticationError), caller:
            return _proved(caller, secret, _PROOF_SECONDS, called=True)


def call(address: Address, secret: bytes) -> Line:
    """Call whoever listens at an address. Raises `HippoError` where nobody does who knows the secret."""
    try:
        with socket.create_connection(address, _CALL_SECONDS) as caller:
            return _proved(caller, secret, _CALL_SECONDS, called=False)
    except (OSError, EOFError, AuthenticationError) as error:
        host, port = address
        raise HippoError(
            f"the driver cannot speak with it at {host}, port {port} ({error or type(error).__name__}): "
            "between the nodes of a cluster all ports have to be open"
        ) from error


def _proved(end: socket.socket, secret: bytes, seconds: int, called: bool) -> Line:
    end.settimeout(None)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a message never waits for the next
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
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
    return Line(connection)


def reserved_port(address: str) -> socket.socket:
    """Return a socket that keeps a port for whoever listens there, as long as it is open.

    It is bound and never listens: on Linux another one may then be bound there too, if it says that it reuses
    the address, as torch's do. Nobody else gets the port.
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
