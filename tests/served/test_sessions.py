"""Sessions of one plan: what one of them ends, and what it leaves to the others."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hippotune import Config, Study
from hippotune.engine.state import State
from hippotune.errors import StoreError
from hippotune.protocol import events
from hippotune.serve.app import repeated
from hippotune.serve.client.connection import RemoteConnection
from hippotune.serve.client.runtime import RemoteRuntime
from hippotune.serve.definition import PlanOpened
from hippotune.serve.served_plan import ServedPlan
from hippotune.shell.loop_thread import PlanClosed
from hippotune.shell.notes import REMEMBERED
from served.serving import Running, serving
from study.walkers import Walker
from waiting import SECONDS, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("home")) as running:
        yield running


def opened(server: Running, name: str = "test") -> tuple[Study, RemoteRuntime]:
    """Begin a session of a study."""
    study = Study(name, Walker, url=server.url, code="value", tuner="client", exact=False)
    return study, cast("RemoteRuntime", study._connection.open())


def plan_of(server: Running) -> ServedPlan:
    (plan,) = server.server._hub.plans
    return plan


def test_the_end_of_a_session_leaves_what_other_sessions_of_its_study_have_set(server: Running) -> None:
    one, session = opened(server)
    state: State = plan_of(server).runtime.loop.engine.state
    session.ask(lambda: session.loop.handle(events.DeadlineSet("test", None, 1e9)))
    session.ask(lambda: session.loop.require(frozenset({"loss"})))
    until(lambda: "test" in state.requirements)
    opened(server)[0].close()
    assert "test" in state.deadlines
    assert "test" in state.requirements
    opened(server, "another")[0].close()
    one.close()
    assert "test" not in state.deadlines
    assert "test" not in state.requirements


def test_trainings_of_one_study_at_the_same_time_are_answered_each(server: Running) -> None:
    study, _ = opened(server)

    async def trained() -> list[int]:
        configs = [Config({"lr": lr, "bs": 16}) for lr in (0.1, 0.2)]
        groups = [study.train([(config, 2)]) for config in configs]
        both = await asyncio.wait_for(asyncio.gather(*groups), SECONDS)
        return [result.step for results in both for result in results]

    with study:
        assert asyncio.run(trained()) == [2, 2]


def test_a_new_client_is_told_the_last_notes_of_a_plan_and_not_all(server: Running) -> None:
    study, _ = opened(server)
    with study:
        plan = plan_of(server)
        for number in range(2 * REMEMBERED):
            plan.noted(f"note {number}")
        connection = RemoteConnection.of(study)
        told: PlanOpened = connection.api.call("POST", "/plans", connection.definition, PlanOpened)
    assert list(told.notes) == [f"note {number}" for number in range(REMEMBERED, 2 * REMEMBERED)]


def test_what_a_server_does_now_and_then_goes_on_after_it_failed(caplog: pytest.LogCaptureFixture) -> None:
    errors = [StoreError("the disk is full"), PlanClosed("closed"), concurrent.futures.CancelledError()]
    done = asyncio.Event()

    def fail() -> None:
        raise errors.pop()

    async def work() -> None:
        if errors:
            await asyncio.to_thread(fail)
        done.set()

    async def main() -> None:
        job = asyncio.create_task(repeated(0.0, work))
        await asyncio.wait_for(done.wait(), SECONDS)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    asyncio.run(main())
    assert len([record for record in caplog.records if record.exc_info]) == 3


def test_a_question_to_a_plan_that_is_closed_meanwhile_is_refused_in_words(tmp_path: Path) -> None:
    with serving(tmp_path) as server, opened(server)[0]:
        plan = plan_of(server)

        async def asked() -> None:
            answer = asyncio.create_task(plan._on_engine(asyncio.sleep(SECONDS)))
            await asyncio.sleep(0)
            await asyncio.to_thread(plan.runtime.halt)
            await answer

        with pytest.raises(PlanClosed, match="closed meanwhile"):
            asyncio.run(asked())
