"""Writing in the background."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hippotune.errors import StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Fact, MetricsRecorded, Position
from hippotune.shell.writer import Writer
from hippotune.store.catalog import open_store
from hippotune.store.memory import MemoryStore

KEY = PlanKey("Digits", "version:1", "{}", 0)


def fact(order: int) -> Fact:
    return MetricsRecorded(order, Position(0, order), {})


async def until_durable(writer: Writer) -> None:
    """Wait for all that was handed over; raise the error that it is answered with."""
    reached = asyncio.get_running_loop().create_future()

    def then(error: BaseException | None) -> None:
        reached.set_result(None) if error is None else reached.set_exception(error)

    writer.submit([], then)
    await reached


class SlowStore(MemoryStore):
    """Starts to commit only when told to, and remembers what it was given at once."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go = threading.Event()
        self.commits: list[list[Fact]] = []

    def write(self, facts: Sequence[Fact]) -> None:
        self.begun.set()
        assert self.go.wait(60)
        super().write(facts)
        self.commits.append([*facts])


def test_word_comes_back_on_the_loop_in_order_when_facts_are_durable(home: Path, url: str | None) -> None:
    heard: list[tuple[int, BaseException | None, int, bool]] = []

    async def main() -> None:
        with open_store(home, url) as catalog:
            store = catalog.plan(KEY)
            writer = Writer(store, asyncio.get_running_loop())

            def then(order: int) -> Callable[[BaseException | None], None]:
                def hear(error: BaseException | None) -> None:
                    heard.append((order, error, threading.get_ident(), fact(order) in list(store.read())))

                return hear

            for order in range(20):
                writer.submit([fact(order)], then(order))
            await until_durable(writer)
            writer.close()
            store.close()

    asyncio.run(main())
    assert heard == [(order, None, threading.get_ident(), True) for order in range(20)]


def test_what_comes_during_a_commit_goes_into_the_next_one_as_a_whole() -> None:
    store = SlowStore()

    async def main() -> None:
        writer = Writer(store, asyncio.get_running_loop())
        writer.submit([fact(0)], lambda error: None)
        await asyncio.to_thread(store.begun.wait)
        for order in range(1, 100):
            writer.submit([fact(order)], lambda error: None)
        store.go.set()
        await until_durable(writer)
        writer.close()

    asyncio.run(main())
    assert store.commits == [[fact(0)], [fact(order) for order in range(1, 100)]]


def test_a_submission_without_facts_waits_for_those_before_it() -> None:
    store = SlowStore()

    async def main() -> list[Fact]:
        loop = asyncio.get_running_loop()
        writer = Writer(store, loop)
        reached: asyncio.Future[list[Fact]] = loop.create_future()
        writer.submit([fact(0)], lambda error: None)
        await asyncio.to_thread(store.begun.wait)
        writer.submit([], lambda error: reached.set_result([*store.read()]))
        store.go.set()
        found = await reached
        writer.close()
        return found

    assert asyncio.run(main()) == [fact(0)]


def test_a_write_that_fails_is_told_to_all_that_are_not_durable_and_ends_the_writing() -> None:
    store = SlowStore()
    store.go.set()
    heard: list[tuple[int, BaseException | None]] = []

    async def main() -> None:
        writer = Writer(store, asyncio.get_running_loop())
        writer.submit([fact(0)], lambda error: heard.append((0, error)))
        await until_durable(writer)
        writer.submit([fact(0)], lambda error: heard.append((1, error)))
        with pytest.raises(StoreError, match="result 0 already"):
            await until_durable(writer)
        writer.submit([fact(2)], lambda error: heard.append((2, error)))
        writer.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert [order for order, _ in heard] == [0, 1, 2]
    assert heard[0][1] is None
    assert all(isinstance(error, StoreError) for _, error in heard[1:])
    assert list(store.read()) == [fact(0)]


def test_one_listener_that_raises_keeps_no_other_from_hearing() -> None:
    heard: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(str(context["exception"])))
        writer = Writer(MemoryStore(), loop)

        def fail(error: BaseException | None) -> None:
            raise ValueError("mine")

        writer.submit([fact(0)], fail)
        writer.submit([fact(1)], lambda error: heard.append("theirs"))
        writer.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert sorted(heard) == ["mine", "theirs"]


def test_closing_writes_what_was_handed_over_and_takes_no_more() -> None:
    store = MemoryStore()

    async def main() -> None:
        writer = Writer(store, asyncio.get_running_loop())
        for order in range(5):
            writer.submit([fact(order)], lambda error: None)
        writer.close()
        writer.close()
        with pytest.raises(StoreError, match="closed"):
            writer.submit([fact(9)], lambda error: None)

    asyncio.run(main())
    assert list(store.read()) == [fact(order) for order in range(5)]


def test_a_loop_that_is_gone_keeps_nothing_from_being_written() -> None:
    store = MemoryStore()

    async def main() -> Writer:
        return Writer(store, asyncio.get_running_loop())

    writer = asyncio.run(main())
    writer.submit([fact(0)], lambda error: None)
    writer.close()
    assert list(store.read()) == [fact(0)]
