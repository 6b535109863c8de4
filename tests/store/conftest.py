"""Real databases for the tests: SQLite in a temporary home, PostgreSQL on a server that is started here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from hippotune.identity.key import PlanKey
from hippotune.store.base import Store
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.memory import MemoryStore
from postgres import Server, postgresql_server

_names = itertools.count()


def new_key() -> PlanKey:
    """Return the key of a plan that no other test uses."""
    return PlanKey("Digits", f"version:{next(_names)}", "{}", 0)


@pytest.fixture(scope="session")
def running_server() -> Iterator[Server]:
    with postgresql_server() as server:
        yield server


@pytest.fixture
def server(running_server: Server) -> str:
    """The URL of a PostgreSQL server, without a database."""
    return running_server.url


@pytest.fixture
def postgresql(server: str) -> str:
    """The URL of a PostgreSQL database without tables."""
    with psycopg.connect(server % "postgres") as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server % "postgres"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """What `open_store` takes for each kind of database."""
    return None if request.param == "sqlite" else str(request.getfixturevalue("postgresql"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def catalog(home: Path, url: str | None) -> Iterator[Catalog]:
    """An open store of each kind, without plans."""
    with open_store(home, url) as catalog:
        yield catalog


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def new_store(request: pytest.FixtureRequest, home: Path) -> Iterator[Callable[[], Store]]:
    """Make stores of each kind, each for a plan of its own."""
    if request.param == "memory":
        yield MemoryStore
        return
    url = None if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with open_store(home, url) as catalog:
        yield lambda: catalog.plan(new_key())
