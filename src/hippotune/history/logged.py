"""What training logged along a trial: the numbers of every step on its path, from the first.

Steps that a trial shares with others were trained, and logged, once; they are on the path of each.
"""

from __future__ import annotations

from functools import lru_cache

from hippotune.plan.node import Node
from hippotune.store.base import Store

Logged = dict[str, list[tuple[int, float]]]
"""Steps and numbers, in order, by name."""

_Columns = dict[str, dict[int, float]]
# Trials that are read one after the other have most of their nodes in common.
_NODES = 256


class LoggedNumbers:
    """Reads what was logged from a store, which has to be open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of = lru_cache(_NODES)(self._read)

    def along(self, node: Node, step: int) -> Logged:
        """Return what was logged up to `step`, which is on `node`."""
        parts: list[tuple[_Columns, int]] = []
        for above in node.lineage():
            parts.append((self._of(above.id), step))
            step = min(step, above.start)
        found: Logged = {}
        for columns, last in reversed(parts):
            for name, column in columns.items():
                known = found.setdefault(name, [])
                known += [(step, number) for step, number in column.items() if step <= last]
        return {name: known for name, known in found.items() if known}

    def _read(self, node: int) -> _Columns:
        """Return the numbers of all steps along a node, by name; what was recorded last counts."""
        columns: _Columns = {}
        for fact in self._store.logged(node):
            for name in {**columns, **fact.numbers}:
                column = columns.setdefault(name, {})
                numbers = fact.numbers.get(name, (None,) * len(fact.steps))
                for step, number in zip(fact.steps, numbers, strict=True):
                    if number is None:
                        column.pop(step, None)
                    else:
                        column[step] = number
        return {name: dict(sorted(column.items())) for name, column in columns.items()}
