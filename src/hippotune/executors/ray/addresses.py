"""Where workers that train one lease together meet: on the interface of their node that Ray uses."""

from __future__ import annotations

import socket


def reserved_port(address: str) -> socket.socket:
    """Return a socket that reserves a port while it is open.

    It is bound and never listens: on Linux another one may then be bound there too, if it says that it reuses
    the address, as the lead of a lease does. No other program gets the port.
    """
    keeper = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind((address, 0))
    return keeper


def interface_of(address: str) -> str | None:
    """Return the network interface that has an address; None where that is not known.

    Left to itself, gloo takes the one that the machine's own name leads to, which is often the loopback.
    """
    import psutil

    for name, found in psutil.net_if_addrs().items():
        if any(each.address == address for each in found):
            return str(name)
    return None
