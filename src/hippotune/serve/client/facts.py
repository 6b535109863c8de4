"""The facts of a plan on a server: all of them, put together as a store and a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from hippotune.plan.facts import Fact, SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.protocol.wire import decode_fact
from hippotune.sequences.config import Config
from hippotune.serve.bodies import FactPage
from hippotune.serve.client.api import Api
from hippotune.store.memory import MemoryStore
from hippotune.study.report import Trace

_PAGE = 5000


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
    facts: list[tuple[int, Fact]] = []
    after = 0
    while True:
        page: FactPage = api.call("GET", f"/plans/{key}/facts?after={after}&limit={_PAGE}", None, FactPage)
        facts += [(line.number, decode_fact(bytes(line.fact))) for line in page.facts]
        if len(page.facts) < _PAGE:
            break
        after = page.facts[-1].number
    store = MemoryStore()
    store.write([fact for _, fact in facts])
    return Replica(store, Plan.replay(store.read()), facts)


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
