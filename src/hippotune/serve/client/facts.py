"""The facts of a plan on a server, put together as a store and a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hippotune.errors import StoreError
from hippotune.history.logged import Logged, LoggedNumbers
from hippotune.plan.facts import Fact, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.protocol.wire import decode_fact
from hippotune.sequences.config import Config
from hippotune.serve.bodies import FactPage
from hippotune.serve.client.api import Api
from hippotune.store.memory import MemoryStore
from hippotune.study.report import Trace

_PAGE = 5000


class ServedLog(MemoryStore):
    """The log of a plan on a server: what is new there is read whenever its facts are asked for."""

    def __init__(self, api: Api, key: str) -> None:
        super().__init__()
        self._api = api
        self._key = key
        self._incarnation = ""
        self._read_on()

    def facts(self, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Fact]]:
        """Yield the facts after a number, those that are new on the server included."""
        self._read_on()
        return super().facts(after, limit)

    def _read_on(self) -> None:
        while True:
            path = f"/plans/{self._key}/facts?after={self.last_number}&limit={_PAGE}"
            page: FactPage = self._api.call("GET", path, None, FactPage)
            if self._incarnation not in ("", page.incarnation):
                raise StoreError(
                    f"plan {self._key} was begun anew at {self._api.url}: read it from its start"
                )
            self._incarnation = page.incarnation
            self.write([decode_fact(bytes(line.fact)) for line in page.facts])
            if len(page.facts) < _PAGE:
                return


@dataclass(frozen=True)
class Replica:
    """A plan as it is on a server, with the numbers of its facts."""

    store: MemoryStore
    plan: Plan
    numbered: list[tuple[int, Fact]]

    def spans_after(self, number: int) -> tuple[SpanRecorded, ...]:
        """Return the worker time that was recorded after a fact."""
        return tuple(fact for at, fact in self.numbered if at > number and isinstance(fact, SpanRecorded))


def read_facts(api: Api, key: str) -> Replica:
    """Read all facts of a plan."""
    store = ServedLog(api, key)
    numbered = list(MemoryStore.facts(store))
    return Replica(store, Plan.replay(store.read()), numbered)


def read_logged(api: Api, key: str, node: Node, step: int) -> Logged:
    """Return what training logged on the way to a state."""
    return LoggedNumbers(read_facts(api, key).store).along(node, step)


def read_trace(
    api: Api, key: str, asked: Sequence[tuple[Config, int, str]], first: int
) -> Callable[[], Trace]:
    """Return what reads, once, what pictures of a tuning are drawn from: one that began after a fact."""

    @cache
    def read() -> Trace:
        replica = read_facts(api, key)
        asks = tuple((replica.plan.find(*ask), ask[1]) for ask in asked)
        spans = replica.spans_after(first)
        return Trace(spans, asks, tuple(replica.plan.nodes), replica.store.spans)

    return read
