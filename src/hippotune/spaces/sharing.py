"""How much of a set of configs is shared, and which hyper-parameter stands in the way of more.

The answer is that of a plan in which all configs are placed, each for its own length. It is found without
one, because spaces are large while the sequences in them are few: two configs share a step exactly if, for
each hyper-parameter, their sequences do. So only the sequences of one hyper-parameter are compared with each
other, and then the configs are parted, step by step, wherever sequences part.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hippotune import checks
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config

Numbers = NDArray[np.int64]


class Column:
    """One hyper-parameter of many configs: which of its sequences each config has, and where those part."""

    def __init__(self, name: str, configs: Sequence[Config], lengths: Numbers) -> None:
        self.name = name
        alone = [Config({name: config[name]} if name in config else {}) for config in configs]
        distinct = {one: place for place, one in enumerate(dict.fromkeys(alone))}
        self._sequence_of: Numbers = np.array([distinct[one] for one in alone], dtype=np.int64)
        self._sequences = len(distinct)
        self._partings: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        longest: Numbers = np.zeros(len(distinct), dtype=np.int64)
        np.maximum.at(longest, self._sequence_of, lengths)
        plan = Plan()
        for one, place in distinct.items():
            node, _ = plan.place(one, int(longest[place]))
            for above in node.lineage():
                self._partings[above.start].append((place, above.id))

    def walk(self) -> Iterator[tuple[int, Numbers]]:
        """Yield the steps where sequences part, with a number for each config: equal where they share."""
        classes: Numbers = np.zeros(self._sequences, dtype=np.int64)
        for step in sorted(self._partings):
            for place, node in self._partings[step]:
                classes[place] = node
            yield step, classes[self._sequence_of]


class Outcome(NamedTuple):
    """What sharing comes to: the merge rate, and how many of the trials differ from all others."""

    merge_rate: float
    distinct: int


def outcome(configs: Sequence[Config], max_steps: int | Sequence[int]) -> Outcome:
    """Return what comes of training configs for `max_steps`: one number for all, or one for each."""
    lengths = _lengths(configs, max_steps)
    return _outcome(_columns(configs, lengths), lengths)


def merge_rate(configs: Sequence[Config], max_steps: int | Sequence[int]) -> float:
    """Return the steps of all configs without sharing over the unique ones, each trained for `max_steps`."""
    return outcome(configs, max_steps).merge_rate


def sharing(configs: Sequence[Config], max_steps: int | Sequence[int]) -> dict[str, float]:
    """Return, for every hyper-parameter, the merge rate that there would be if it were the same for all.

    What costs the most sharing comes first.
    """
    lengths = _lengths(configs, max_steps)
    columns = _columns(configs, lengths)
    rates = {
        column.name: _outcome([other for other in columns if other is not column], lengths).merge_rate
        for column in columns
    }
    return dict(sorted(rates.items(), key=lambda item: (-item[1], item[0])))


class Together(NamedTuple):
    """The most configs that are one state at a step, and the step at which they part; None if they do not."""

    trials: int
    until: int | None


def together(configs: Sequence[Config], steps: Sequence[int], max_steps: int) -> Together | None:
    """Return the largest group of configs that have not parted at the first of `steps` that has such."""
    columns = _columns(configs, _lengths(configs, max_steps))
    groups: Numbers = np.zeros(len(configs), dtype=np.int64)
    members: NDArray[np.bool_] | None = None
    stops = ((step, None) for step in sorted(steps))
    for step, classes in heapq.merge(*(column.walk() for column in columns), stops, key=itemgetter(0)):
        if classes is not None:
            groups = _parted(groups, classes)
            if members is not None and len(np.unique(groups[members])) > 1:
                return Together(int(members.sum()), step)
        elif members is None:
            values, counts = np.unique(groups, return_counts=True)
            if counts.max() > 1:
                members = groups == values[counts.argmax()]
    return None if members is None else Together(int(members.sum()), None)


def _parted(groups: Numbers, classes: Numbers) -> Numbers:
    """Return groups of configs, parted where they are in different classes."""
    parted: Numbers = np.unique(groups * (int(classes.max()) + 1) + classes, return_inverse=True)[1]
    return parted


def _lengths(configs: Sequence[Config], max_steps: int | Sequence[int]) -> Numbers:
    each = [max_steps] * len(configs) if isinstance(max_steps, int) else max_steps
    return np.array([checks.whole("max_steps", length) for length in each], dtype=np.int64)


def _columns(configs: Sequence[Config], lengths: Numbers) -> list[Column]:
    names = sorted({name for config in configs for name in config})
    return [Column(name, configs, lengths) for name in names]


def _outcome(columns: Sequence[Column], lengths: Numbers) -> Outcome:
    groups: Numbers = np.zeros(len(lengths), dtype=np.int64)
    ends = ((int(length), None) for length in np.unique(lengths))
    apart, unique, reached, distinct = 1, 0, 0, 0
    for step, classes in heapq.merge(ends, *(column.walk() for column in columns), key=itemgetter(0)):
        unique += apart * (step - reached)
        reached = step
        if classes is None:
            distinct += len(np.unique(groups[lengths == step]))
        else:
            groups = _parted(groups, classes)
        apart = len(np.unique(groups[lengths > step]))
    return Outcome(int(lengths.sum()) / unique, distinct)
