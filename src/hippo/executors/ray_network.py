"""Where the workers of a wide lease meet, on a node of a cluster."""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress

_SIOCGIFADDR = 0x8915


def reserved_port(address: str) -> socket.socket:
    """Return a socket that keeps a port for whoever listens there, as long as it is open.

    It is bound and never listens: on Linux another one may then be bound there too, if it says that it reuses
    the address, as torch's do. Nobody else gets the port.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    keeper = socket.socket(family)
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
