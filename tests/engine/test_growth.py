"""Whatever a study asks for, one thing after the other, only its plan grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from hippotune import Config, GridSearch, Local, Pool, Simulated, Study
from hippotune.executors.base import Executor
from hippotune.executors.local.pool import Pooled
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.scheduling.pool import Served, SlotPool
from hippotune.shell.notes import Notes
from tuners.test_conformance import Idle

FLAT = Config({"lr": 0.1})
OURS = ("hippotune.engine", "hippotune.stages", "hippotune.scheduling", "hippotune.shell")


def sizes(root: object) -> dict[str, int]:
    """Return the sizes of all containers that an object holds, by how they are reached; not the plan."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        name, each = stack.pop()
        if id(each) in seen or isinstance(each, Plan | Node | Config | Executor | str):
            continue
        seen.add(id(each))
        if isinstance(each, Mapping):
            found[name] = len(each)
            stack += [(f"{name}[]", value) for value in each.values()]
        elif isinstance(each, list | set | frozenset | tuple | deque):
            found[name] = len(each)
            stack += [(f"{name}[]", value) for value in each]
        elif type(each).__module__.startswith(OURS):
            slots = [slot for kind in type(each).__mro__ for slot in getattr(kind, "__slots__", ())]
            names = [*getattr(each, "__dict__", ()), *slots]
            stack += [(f"{name}.{attribute}", getattr(each, attribute)) for attribute in names]
    return found


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in after.items() if size > before.get(name, 0)}


def measured(study: Study) -> dict[str, int]:
    """Return the sizes of everything that a study's plan is trained with."""
    runtime = study._connection.open()
    return runtime.ask(lambda: sizes((runtime.loop, runtime.notes)))


def test_a_thousand_evaluations_leave_everything_but_the_plan_as_large_as_it_was() -> None:
    with Study("many", Idle, executor=Simulated(2)) as study:
        for step in range(1, 31):
            study.eval(FLAT, step)
        before = measured(study)
        assert {"requests", "by_number", "_steps", "_deliver"} <= {name.split(".")[-1] for name in before}
        for step in range(1, 1001):
            study.eval(FLAT, 1 + step % 500)
        assert grown(before, measured(study)) == {}


def test_studies_that_have_ended_leave_only_what_they_were_charged_and_how_long_steps_took() -> None:
    with Study("first", Idle, executor=Simulated(2)) as first:

        def tune(numbers: range) -> None:
            for number in numbers:
                with Study(f"study {number}", Idle, executor=first.executor) as study:
                    study.eval(FLAT, 1 + number)
                    grid = GridSearch({"lr": [0.1, 1.0 + number]}, "score", "max", 3)
                    study.tune(grid, progress=False)

        tune(range(20))
        before = measured(first)
        tune(range(20, 120))
        more = grown(before, measured(first))
        assert [name for name in more if not (".accounts." in name or name.endswith("._per_node"))] == []


def test_a_thousand_loads_leave_everything_but_the_plan_as_large_as_it_was() -> None:
    other = Config({"lr": 0.2})
    with Study("loads", Idle, executor=Simulated(1, load=1.0)) as study:
        for step in range(1, 251):
            study.eval(FLAT, step)
            study.eval(other, step)
        before = measured(study)
        assert any(size for name, size in before.items() if name.endswith("._starts"))
        for step in range(251, 501):
            study.eval(FLAT, step)
            study.eval(other, step)
        assert grown(before, measured(study)) == {}


def test_plans_that_leave_a_pool_leave_nothing_behind() -> None:
    pool = SlotPool(2)
    for plan in range(100):
        pool.enter(plan)
        pool.demand(plan, 2)
        pool.serve(plan, [Served("a", "anne", 5.0 + plan, True), Served("b", "bert", 2.0, False)])
        pool.decide(0.0)
        pool.leave(plan)
        if plan == 0:
            before = sizes(pool)
    assert grown(before, sizes(pool)) == {}


def test_plans_that_leave_before_their_processes_are_up_leave_nothing_behind() -> None:
    pool, executors = Pool(workers=2), list[Local]()
    for _ in range(5):
        executors.append(executor := pool.executor())
        assert isinstance(executor, Pooled)
        plan = pool.enter(executor, lambda event: None)
        pool.demand(plan, 2)
        pool.leave(plan)
    assert not pool._opened
    assert not pool._plans


def test_notes_are_not_remembered_for_ever() -> None:
    notes = Notes()
    with notes.read_by(lambda text: None) as catch_up:
        for number in range(5000):
            notes.tell(f"{number}")
            catch_up()
    assert max(sizes(notes).values()) < 1000
