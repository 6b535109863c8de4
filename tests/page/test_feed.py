"""What followers of a plan hear: everything once, in order, whoever comes and goes."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from hippotune import Config
from hippotune.errors import InvalidInput
from hippotune.page.feed import PageFeed
from hippotune.plan.facts import Fact, RequestMade
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan


class Growing:
    """A plan that grows by a trial whenever it is told to."""

    def __init__(self) -> None:
        self.id = "first"
        self.log: list[Fact] = []
        self._plan = Plan()

    def grow(self) -> None:
        config = Config({"lr": float(len(self.log) + 1)})
        self.log += [*self._plan.place(config, 5)[1], RequestMade("one", len(self.log), config, 5)]

    def incarnation(self) -> str:
        return self.id

    def about(self) -> dict[str, Any]:
        return {"plan": "p", "studies": []}

    def facts(self, after: int) -> Iterator[tuple[int, Fact]]:
        return iter(list(enumerate(self.log, 1))[after:])

    def pulse(self) -> dict[str, Any] | None:
        return {"now": 1.0, "leases": []}

    def detail(self, node: Node, step: int) -> dict[str, Any]:
        return {}


class Follower:
    """Reads a stream in the background."""

    def __init__(self, feed: PageFeed, after: str) -> None:
        self.events: list[tuple[str, Any]] = []
        self.grown = asyncio.Event()
        self.task = asyncio.create_task(self._read(feed, after))

    async def _read(self, feed: PageFeed, after: str) -> None:
        async for message in feed.follow(after):
            fields = dict(line.split(": ", 1) for line in message.decode().splitlines() if ": " in line)
            if "event" in fields:
                self.events.append((fields["event"], json.loads(fields["data"])))
                self.grown.set()

    async def until(self, number: int) -> None:
        """Wait until a delta has come that ends at a number."""
        while not any(kind == "delta" and said["number"] == number for kind, said in self.events):
            await self.grown.wait()
            self.grown.clear()

    @property
    def deltas(self) -> list[tuple[int, int]]:
        return [(said["after"], said["number"]) for kind, said in self.events if kind == "delta"]


async def read(feed: PageFeed) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(gzip.decompress(await feed.snapshot()))
    return said


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test, 120))


def test_a_snapshot_is_gone_on_with_from_where_it_ends() -> None:
    async def test() -> None:
        source = Growing()
        source.grow()
        feed = PageFeed(source, every=0.01)
        snapshot = await read(feed)
        assert (snapshot["number"], snapshot["incarnation"]) == (2, "first")
        followers = [Follower(feed, "first:2") for _ in range(3)]
        for _ in range(5):
            source.grow()
            await followers[0].until(len(source.log))
        for follower in followers:
            await follower.until(12)
            places = [2, *(end for _, end in follower.deltas)]
            assert follower.deltas == list(pairwise(places))
        late = Follower(feed, "first:4")
        await late.until(12)
        assert late.deltas == followers[0].deltas[1:]
        assert (await read(feed))["number"] == 12
        await feed.close()
        await asyncio.gather(*(each.task for each in (*followers, late)))
        assert followers[0].events[-1] == ("end", {"incarnation": "first", "number": 12})

    run(test())


def test_a_place_that_is_not_known_any_more_needs_a_new_snapshot() -> None:
    async def test() -> None:
        source = Growing()
        source.grow()
        feed = PageFeed(source, every=0.01)
        for place in ("second:2", "first:1", "first:99", "nonsense", ""):
            follower = Follower(feed, place)
            await follower.task
            assert follower.events == [("reset", {"incarnation": "first", "number": 2})]
        await feed.close()

    run(test())


def test_a_plan_that_was_begun_anew_is_told_anew() -> None:
    async def test() -> None:
        source = Growing()
        source.grow()
        feed = PageFeed(source, every=0.01)
        await feed.snapshot()
        follower = Follower(feed, "first:2")
        source.id, source.log, source._plan = "second", [], Plan()
        source.grow()
        while ("reset", {"incarnation": "second", "number": 2}) not in follower.events:
            await follower.grown.wait()
            follower.grown.clear()
        snapshot = await read(feed)
        assert (snapshot["incarnation"], snapshot["number"]) == ("second", 2)
        assert snapshot["columns"]["trials"]["number"] == [0]
        await feed.close()

    run(test())


def test_a_row_that_is_no_trial_s_is_refused() -> None:
    async def test() -> None:
        source = Growing()
        source.grow()
        feed = PageFeed(source)
        await feed.snapshot()
        assert feed.trial(0) == ("one", 0, Config({"lr": 1.0}))
        for row in (-1, 1):
            with pytest.raises(InvalidInput, match=f"no trial in row {row}"):
                feed.trial(row)
        await feed.close()

    run(test())


class Blocking(Growing):
    """A plan that answers how it is when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let, self.answered = threading.Event(), threading.Event(), threading.Event()

    def pulse(self) -> dict[str, Any] | None:
        self.asked.set()
        self.let.wait()
        self.answered.set()
        return None


@pytest.mark.parametrize("turns", range(8))
def test_a_feed_that_is_closed_while_its_plan_answers_ends(turns: int) -> None:
    async def test() -> None:
        source = Blocking()
        source.grow()
        feed = PageFeed(source, every=0.0)
        await feed.snapshot()
        follower = Follower(feed, "first:2")
        await asyncio.to_thread(source.asked.wait)
        source.let.set()
        source.answered.wait()  # with the loop held: the answer and the end come in one turn of it, or close
        for _ in range(turns):
            await asyncio.sleep(0)
        await feed.close()
        await follower.task
        late = Follower(feed, "first:2")
        await late.task
        for each in (follower, late):
            assert each.events[-1] == ("end", {"incarnation": "first", "number": 2})

    run(test())


def test_one_who_does_not_read_is_let_go_and_holds_nobody_up() -> None:
    async def test() -> None:
        source = Growing()
        source.grow()
        feed = PageFeed(source, every=0.0)
        await feed.snapshot()
        stuck = feed.follow("first:2")
        follower = Follower(feed, "first:2")
        assert b"event: pulse" in await anext(stuck)
        while feed.followers > 1:
            source.grow()
            await follower.until(len(source.log))
        heard = [message async for message in stuck]
        assert len(heard) < len(follower.deltas)
        await feed.close()

    run(test())
