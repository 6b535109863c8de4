"""The earliest moment at which a stage tree can be trained, whatever the schedule, with speed-ups by width.

Stages of one path come one after the other, so their times add up to no more than the whole. Trained faster,
a stage takes more worker time: `w / S(w)` for a step at width w. The least worker time that a tree needs
within a given time is a convex function of that time, made of straight pieces: one for every change of width
of every stage. No schedule can end before that much worker time has gone by on all workers together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hippotune.stages.tree import Stage, StageTree

# Corners (time, worker time), from the shortest time on; worker time falls, ever more slowly, and then stays.
Curve = list[tuple[float, float]]


def earliest_end(tree: StageTree, workers: int, scaling: Mapping[float, float]) -> float:
    """Return the time before which a tree cannot be trained, in steps on one worker."""
    curves: dict[Stage, Curve] = {}
    for stage in reversed(list(tree.stages())):
        own = _trained(stage.steps, scaling)
        below = [curves.pop(each) for each in stage.below]
        curves[stage] = _in_a_row(own, _at_once(below)) if below else own
    whole = _at_once([curves[root] for root in tree.roots])
    early, late = whole[0][0], max(whole[-1][0], whole[0][1] / workers)
    for _ in range(100):
        middle = (early + late) / 2
        if _value(whole, middle) > workers * middle:
            early = middle
        else:
            late = middle
    return late


def _trained(steps: int, scaling: Mapping[float, float]) -> Curve:
    """Return the curve of a stage: at the widest first."""
    corners = sorted((steps / speed, steps * width / speed) for width, speed in scaling.items())
    hull: Curve = []
    for corner in corners:  # of widths in turns, everything between two of them can be had
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], corner):
            hull.pop()
        if not hull or corner[1] < hull[-1][1]:
            hull.append(corner)
    return hull


def _in_a_row(one: Curve, other: Curve) -> Curve:
    """Return the curve of two things one after the other: time goes first where it saves most."""
    corner = (one[0][0] + other[0][0], one[0][1] + other[0][1])
    pieces = sorted([*pairwise(one), *pairwise(other)], key=lambda piece: _slope(*piece))
    curve = [corner]
    for (start, high), (end, low) in pieces:
        corner = (corner[0] + end - start, corner[1] + low - high)
        curve.append(corner)
    return curve


def _at_once(curves: Sequence[Curve]) -> Curve:
    """Return the curve of several things side by side, all within the same time."""
    first = max(curve[0][0] for curve in curves)
    times = sorted({first, *(time for curve in curves for time, _ in curve if time > first)})
    return [(time, sum(_value(curve, time) for curve in curves)) for time in times]


def _value(curve: Curve, time: float) -> float:
    for (start, high), (end, low) in pairwise(curve):
        if time < end:
            return high + (low - high) * (time - start) / (end - start)
    return curve[-1][1]


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0]) if other[0] > one[0] else -float("inf")
