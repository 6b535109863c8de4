"""Whatever a study asks for, one thing after the other, only its plan grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from hippotune import Config, Simulated, Study
from hippotune.executors.base import Executor
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
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


def test_a_thousand_evaluations_leave_everything_but_the_plan_as_large_as_it_was() -> None:
    with Study("many", Idle, executor=Simulated(2)) as study:
        for step in range(1, 31):
            study.eval(FLAT, step)
        loop = study._connection.open().loop
        before = study._connection.open().ask(lambda: sizes(loop))
        assert {"requests", "by_number", "_steps", "_deliver"} <= {name.split(".")[-1] for name in before}
        for step in range(1, 1001):
            study.eval(FLAT, 1 + step % 500)
        after = study._connection.open().ask(lambda: sizes(loop))
    assert {name: size for name, size in after.items() if size > before.get(name, 0)} == {}
