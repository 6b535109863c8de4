"""A PostgreSQL database behind a URL: durable settings, and how a connection that is lost is noticed."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import sqlalchemy as sa

from hippotune.errors import InvalidInput, MissingExtra

_SETTINGS = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'",
    # A machine that vanished lets go of its plans within a minute, not within hours.
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
# A server that vanished is noticed within a minute too. What a URL says counts instead.
_ARGUMENTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# What a server says of connections that it ends, or has no room for; anything else is wrong with a statement.
_LOST = re.compile("08...|57P..|25P03|53300")
LOCK_SPACE = 0x48697070
"""The first half of the keys of advisory locks; the second is the number of a plan, or 0 for the catalog."""


def open_url(url: str) -> tuple[sa.Engine, str, float | None]:
    """Open a database; return it, its URL without the password, and after how many seconds it is lost."""
    shown = _without_password(url)
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = sa.URL.create("none")
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InvalidInput(
            f"store is {shown!r}; expected a URL such as postgresql://user@host/database, "
            "or nothing at all for SQLite below the study's home"
        )
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"store is {shown!r}, but the driver for PostgreSQL cannot be imported ({error}); "
            "install it with: pip install 'hippotune[postgres]'"
        ) from error
    arguments = {**_ARGUMENTS, **parsed.query}
    engine = sa.create_engine(
        parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=arguments
    )
    try:
        seconds = float(str(arguments["tcp_user_timeout"])) / 1000 or None
    except ValueError:
        seconds = None
    sa.event.listen(engine, "connect", partial(_set_up, seconds))
    return engine, shown, seconds


def _without_password(url: str) -> str:
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:@/]*:).*@", r"\1***@", url))


def _set_up(seconds: float | None, connection: Any, _: object) -> None:
    with ended_after(seconds, connection):
        for setting in _SETTINGS:
            connection.execute(setting)
        connection.commit()


def says_lost(error: BaseException) -> bool:
    """Return whether an error of the driver says that the connection is lost."""
    code = getattr(error, "sqlstate", None)
    return code is None or _LOST.fullmatch(code) is not None


@contextmanager
def ended_after(seconds: float | None, connection: Any) -> Iterator[None]:
    """Shut a driver's connection down if the block takes too long; none on this machine can be cut."""
    if seconds is None or connection.info.host.startswith("/"):
        yield
        return
    # By a descriptor of its own: the driver may close its one, and another file may get that number.
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        timer = threading.Timer(seconds, _shut_down, [end])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _shut_down(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
