"""How much of a set of configs is shared, and which hyper-parameter stands in the way of more.

The answer is that of a plan in which all configs are placed. It is found without one, because spaces are
large while the sequences in them are few: two configs share a step exactly if, for each hyper-parameter,
their sequences do. So only the sequences of one hyper-parameter are compared with each other, and then the
configs are parted, step by step, wherever sequences part.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from hippotune.errors import InvalidInput
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config

Numbers = NDArray[np.int64]


class Column:
    """One hyper-parameter of many configs: which of its sequences each config has, and where those part."""

    def __init__(self, name: str, configs: Sequence[Config], max_steps: int) -> None:
        self.name = name
        alone = [Config({name: config[name]} if name in config else {}) for config in configs]
        distinct = {one: place for place, one in enumerate(dict.fromkeys(alone))}
        self._sequence_of: Numbers = np.array([distinct[one] for one in alone], dtype=np.int64)
        self._sequences = len(distinct)
        self._partings: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        plan = Plan()
        for one, place in distinct.items():
            node, _ = plan.place(one, max_steps)
            for above in node.lineage():
                self._partings[above.start].append((place, above.id))

    def walk(self) -> Iterator[tuple[int, Numbers]]:
        """Yield the steps where sequences part, with a number for each config: equal where they share."""
        classes: Numbers = np.zeros(self._sequences, dtype=np.int64)
        for step in sorted(self._partings):
            for place, node in self._partings[step]:
                classes[place] = node
            yield step, classes[self._sequence_of]


def merge_rate(configs: Sequence[Config], max_steps: int) -> float:
    """Return the steps of all configs without sharing over the unique ones, each trained for `max_steps`."""
    return _merge_rate(_columns(configs, max_steps), len(configs), max_steps)


def sharing(configs: Sequence[Config], max_steps: int) -> dict[str, float]:
    """Return, for every hyper-parameter, the merge rate that there would be if it were the same for all.

    What costs the most sharing comes first.
    """
    columns = _columns(configs, max_steps)
    rates = {
        column.name: _merge_rate([other for other in columns if other is not column], len(configs), max_steps)
        for column in columns
    }
    return dict(sorted(rates.items(), key=lambda item: (-item[1], item[0])))


def _columns(configs: Sequence[Config], max_steps: int) -> list[Column]:
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise InvalidInput(f"max_steps is {max_steps!r}; expected a whole number of at least 1")
    names = sorted({name for config in configs for name in config})
    return [Column(name, configs, max_steps) for name in names]


def _merge_rate(columns: Sequence[Column], configs: int, max_steps: int) -> float:
    groups: Numbers = np.zeros(configs, dtype=np.int64)
    apart = 1
    unique = reached = 0
    for step, classes in heapq.merge(*(column.walk() for column in columns), key=itemgetter(0)):
        unique += apart * (step - reached)
        reached = step
        kinds, groups = np.unique(groups * (int(classes.max()) + 1) + classes, return_inverse=True)
        apart = len(kinds)
    return configs * max_steps / (unique + apart * (max_steps - reached))
