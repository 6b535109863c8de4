"""What a trial's training printed, by the logs of its leases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from hippotune.executors.lease_log import Head
from hippotune.plan.node import Node

_MARK = re.compile(r"\[step (\d+)(, \w+)?\]")


def reaches_of(node: Node, reach: int) -> dict[int, int]:
    """Return how far each node is passed on the way to a step of a node."""
    reaches = {}
    for above in node.lineage():
        reaches[above.id], reach = reach, above.start
    return reaches


def printed(folder: Path, reaches: Mapping[int, int]) -> Iterator[str]:
    """Yield the lines that were printed along nodes up to these steps, lease by lease."""
    for path in sorted(folder.glob("*.log")):
        head = Head.read(path)
        lines = [] if head is None or head.proof else list(_on_the_way(path, head, reaches))
        if head is not None and lines:
            asked = f"study {head.study}, trial {head.trial}" if head.trial is not None else "a trial"
            yield ""
            yield f"{path}: lease {head.lease} on worker {head.worker}, for {asked}"
            yield from lines


def _on_the_way(path: Path, head: Head, reaches: Mapping[int, int]) -> Iterator[str]:
    step = head.segments[0][1]
    with path.open(errors="replace") as file:
        next(file)
        for line in file:
            if mark := _MARK.fullmatch(line.strip()):
                step = int(mark[1])
            if step <= reaches.get(head.node_at(step), -1):
                yield line.rstrip("\n")
