"""A PostgreSQL database that goes away and comes back while facts are written to it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from hippotune.errors import StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointKept,
    Fact,
    MetricsRecorded,
    NodeAdded,
    Position,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.shell.writer import OutageLimits, Writer
from hippotune.store.catalog import open_store
from hippotune.store.sql import SqlStore
from store.conftest import Server

KEY = PlanKey("Digits", "version:1", "{}", 0)
CONFIG = Config({"lr": 0.1})
SECONDS = 300


def facts(first: int, count: int = 5) -> list[Fact]:
    """Return facts of every kind that is numbered or replaced, as the engine numbers them."""
    found: list[Fact] = [] if first else [NodeAdded(0, None, 0, CONFIG, "")]
    for n in range(first, first + count):
        position = Position(0, n)
        found += [
            RequestMade("study", n, CONFIG, n),
            CheckpointKept(position, Checkpoint(f"00/node-0-step-{n}", n, f"{n:064x}")),
            MetricsRecorded(n, position, {"loss": float(n)}),
            SpanRecorded(0, n, 0, "train", n, n + 1, float(n), n + 1.0, 1.0, 1.0),
        ]
    return found


class Writing:
    """A plan that is written to in the background."""

    def __init__(self, store: SqlStore, limits: OutageLimits) -> None:
        self.store = store
        self.notes: list[str] = []
        self.lost = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.writer = Writer(store, self.loop, self._hear, limits)
        self._handed: list[Fact] = []

    def _hear(self, text: str) -> None:
        self.notes.append(text)
        self.lost.set()

    def hand_over(self, count: int = 5) -> None:
        first = sum(isinstance(fact, MetricsRecorded) for fact in self._handed)
        self._handed += (more := facts(first, count))
        self.writer.submit(more, lambda error: None)

    def flush(self) -> None:
        """Wait until everything that was handed over is durable."""
        durable = self.loop.create_future()
        self.writer.submit((), durable.set_result)
        if (error := self.loop.run_until_complete(durable)) is not None:
            raise error

    def expect_all(self, view: SqlStore) -> None:
        """Everything that was handed over is stored, once and in order."""
        self.flush()
        spans = [fact for fact in self._handed if isinstance(fact, SpanRecorded)]
        assert list(view.spans()) == spans
        stored = list(view.read())
        assert [fact for fact in stored if fact in self._handed] == stored
        assert len(stored) == len(self._handed) - len(spans)
        assert list(view.facts()) == list(enumerate(self._handed, 1))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


Begin = Callable[..., Writing]


@pytest.fixture
def begin(home: Path, stack: ExitStack) -> Begin:
    def begin(url: str, limits: OutageLimits = OutageLimits(SECONDS)) -> Writing:  # noqa: B008
        catalog = stack.enter_context(open_store(home, url))
        writing = Writing(catalog.plan(KEY), limits)
        stack.callback(writing.store.close)
        stack.callback(writing.writer.close)
        return writing

    return begin


def terminate(url: str, where: str = "pid IN (SELECT session FROM hippo_holders)") -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE {where}")


def test_a_terminated_backend_costs_nothing(postgresql: str, begin: Begin) -> None:
    writing = begin(postgresql)
    for _ in range(3):
        writing.hand_over()
        writing.flush()
        terminate(postgresql)
    writing.hand_over()
    writing.expect_all(writing.store)
    assert "facts and logged numbers are kept in memory for at most 300 s" in writing.notes[0]
    assert any("the database is back" in note for note in writing.notes)


def test_a_server_that_is_restarted_costs_nothing(
    running_server: Server, postgresql: str, begin: Begin
) -> None:
    writing = begin(postgresql)
    writing.hand_over()
    writing.flush()
    running_server.stop()
    try:
        writing.hand_over()
        assert writing.lost.wait(SECONDS)
        writing.hand_over()
    finally:
        running_server.start()
    writing.expect_all(writing.store)


def test_connections_that_are_used_up_are_waited_for(postgresql: str, begin: Begin) -> None:
    with psycopg.connect(postgresql, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS few")
        owner.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 2")
        owner.execute("GRANT ALL ON SCHEMA public TO few")
    few = postgresql.replace("hippo@", "few@")
    writing = begin(few)
    writing.hand_over()
    writing.flush()
    terminate(postgresql, "usename = 'few'")
    others = [psycopg.connect(few) for _ in range(2)]
    writing.hand_over()
    assert writing.lost.wait(SECONDS)
    for other in others:
        other.close()
    writing.expect_all(writing.store)
    writing.store.close()
    with psycopg.connect(postgresql, autocommit=True) as owner:
        terminate(postgresql, "usename = 'few'")
        owner.execute("DROP OWNED BY few CASCADE")
        owner.execute("DROP ROLE few")


class Proxy:
    """A network between a client and a server, which can be cut without a word to either."""

    def __init__(self, server: str) -> None:
        (folder,) = parse_qs(urlsplit(server).query)["host"]
        self._server = f"{folder}/.s.PGSQL.5432"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self.swallow: Callable[[bytes, bool], bool] = lambda data, to_server: False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the server behind it, with a client that waits a second for an answer."""
        port = self._listening.getsockname()[1]
        return f"postgresql://hippo@127.0.0.1:{port}/postgres?tcp_user_timeout=1000&connect_timeout=2"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._ends += [client, server]
                cut = threading.Event()
                for one, other, to_server in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._carry, args=[one, other, to_server, cut], daemon=True
                    ).start()

    def _carry(self, one: socket.socket, other: socket.socket, to_server: bool, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if self.swallow(data, to_server):
                    cut.set()
                if not cut.is_set():
                    other.sendall(data)
            if not cut.is_set():
                other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.mark.parametrize("answer", [False, True], ids=["before it commits", "after it commits"])
def test_a_network_that_is_cut_without_a_word_is_noticed_and_nothing_is_written_twice(
    postgresql: str, begin: Begin, stack: ExitStack, home: Path, answer: bool
) -> None:
    proxy = Proxy(postgresql)
    stack.callback(proxy.close)
    writing = begin(proxy.url)
    writing.hand_over()
    writing.flush()
    committing, cuts = threading.Event(), iter([True])

    def swallow(data: bytes, to_server: bool) -> bool:
        if to_server and b"COMMIT" in data:
            committing.set()
        return committing.is_set() and to_server is not answer and next(cuts, False)

    proxy.swallow = swallow
    writing.hand_over()
    writing.hand_over()
    with open_store(home, postgresql) as catalog:
        writing.expect_all(catalog.view(KEY))
    assert writing.lost.is_set()


def test_a_plan_that_another_process_has_had_meanwhile_is_not_written_to(
    postgresql: str, begin: Begin, home: Path
) -> None:
    writing = begin(postgresql)
    writing.hand_over()
    writing.flush()
    terminate(postgresql)
    with open_store(home, postgresql) as catalog:
        other = catalog.plan(KEY)
        with psycopg.connect(postgresql, autocommit=True) as connection:  # as if on another machine
            connection.execute("UPDATE hippo_holders SET holder = replace(holder, 'pid', 'PID')")
        other.write(facts(5))
        other.close()
        writing.hand_over()
        with pytest.raises(StoreError, match=r"another process has used the plan .* run again"):
            writing.flush()
        assert len(list(catalog.view(KEY).spans())) == 10


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (OutageLimits(0.0), "0 s, or 1,000,000 of them"),
        (OutageLimits(SECONDS, 10), "300 s, or 10 of them"),
    ],
    ids=["time", "memory"],
)
def test_an_outage_beyond_its_limits_ends_the_writing_and_says_them(
    running_server: Server, postgresql: str, begin: Begin, limits: OutageLimits, limit: str
) -> None:
    writing = begin(postgresql, limits)
    writing.hand_over(1)
    writing.flush()
    running_server.stop()
    try:
        writing.hand_over(5)
        with pytest.raises(StoreError, match=f"at most {limit}.*run again when the database is back"):
            writing.flush()
    finally:
        running_server.start()
