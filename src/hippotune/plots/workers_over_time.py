"""Workers over time: which worker trained what when, and how many were busy.

A row is a slot. Where several workers train one lease together, each has its bar, all of one colour; where
several leases share a slot, their bars share its row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.node import Node
from hippotune.plots.style import ACCENT, QUIET, dress, hue, plotly_objects, time_unit, values_in_force

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Up to this many workers a bar has room for the steps that it stands for.
_ROOMY = 12
_BUSY_HEIGHT = 90
_BAR = 0.84


def timeline(
    spans: Iterable[SpanRecorded],
    *,
    nodes: Sequence[Node] | None = None,
    workers: int | None = None,
    title: str = "Workers over time",
) -> go.Figure:
    """Draw worker time: a bar for every span, and above them how many slots were busy.

    Parameters
    ----------
    spans : Iterable[SpanRecorded]
        What workers did, as a store's `spans` or a report tells it.
    nodes : Sequence[Node], optional
        The nodes of the plan, by id. With them, stages that are close in the tree have similar colours, and
        a bar tells the values that were in force.
    workers : int, optional
        How many slots there were, if more than the spans name, or fewer because leases shared them.
    """
    go = plotly_objects()
    from plotly.subplots import make_subplots

    bars = sorted(spans, key=lambda span: (span.worker, span.began))
    if not bars:
        raise InvalidInput("spans is empty; expected the worker time of at least one lease")
    rows = _Rows(bars, workers)
    number = rows.number
    first, last = min(bar.began for bar in bars), max(bar.ended for bar in bars)
    unit, seconds = time_unit(last - first)
    colours = _colours(bars, nodes)

    row = 44 if number <= _ROOMY else max(11, min(26, 900 // number))
    heights = [_BUSY_HEIGHT, row * number]
    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=28 / (sum(heights) + 28),
    )
    times, busy = _busy(bars)
    hover = f"%{{y:.3~g}} of {number} busy at %{{x:.3g}} {unit}<extra></extra>"
    figure.add_trace(
        go.Scatter(
            x=[(time - first) / seconds for time in times],
            y=busy,
            mode="lines",
            line={"shape": "hv", "color": ACCENT, "width": 1.5},
            fill="tozeroy",
            fillcolor="rgba(29, 78, 216, 0.12)",
            hovertemplate=hover,
            showlegend=False,
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Bar(
            orientation="h",
            y=[rows.of(bar) for bar in bars],
            base=[(bar.began - first) / seconds for bar in bars],
            x=[(bar.ended - bar.began) / seconds for bar in bars],
            width=[_BAR * _part(bar) for bar in bars],
            offset=[rows.offset(bar) for bar in bars],
            marker={
                "color": [colours[bar.node] for bar in bars],
                "line": {"color": "white", "width": 1 if number <= _ROOMY else 0.4},
            },
            text=[_label(bar) for bar in bars] if number <= _ROOMY else None,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": "#102a43", "size": 12},
            customdata=[[_hover_text(bar, nodes, seconds, unit)] for bar in bars],
            hovertemplate="%{customdata[0]}<extra></extra>",
            showlegend=False,
        ),
        row=2,
        col=1,
    )
    proofs = {(bar.lease, bar.began) for bar in bars if bar.kind == "proof"}
    worked = sum((bar.ended - bar.began) * _part(bar) for bar in bars if (bar.lease, bar.began) not in proofs)
    utilisation = worked / max((last - first) * number, 1e-12)
    length = (last - first) / seconds
    remark = f"{number:,} workers, {length:.3g} {unit}, {utilisation:.0%} busy"
    if nodes is not None:
        remark += "; similar colours are close in the stage tree"
    dress(figure, title, remark, height=sum(heights) + 28 + 148)
    figure.update_layout(barmode="overlay", uniformtext={"minsize": 9, "mode": "hide"})
    figure.update_yaxes(title_text="busy", range=[0, number * 1.08], nticks=4, tickformat=",d", row=1, col=1)
    figure.update_yaxes(
        title_text="worker",
        range=[number - 0.4, -0.6],
        dtick=1 if number <= 20 else 5 if number <= 100 else None,
        tick0=0,
        showgrid=False,
        row=2,
        col=1,
    )
    figure.update_xaxes(range=[0, length * 1.005])
    figure.update_xaxes(title_text=f"time in {unit}", row=2, col=1, ticks="outside", tickcolor=QUIET)
    return figure


def without_pauses(spans: Iterable[SpanRecorded]) -> list[SpanRecorded]:
    """Return spans as if work had never stopped: time in which no worker was busy is left out."""
    moved: list[SpanRecorded] = []
    ended, pauses = -math.inf, 0.0
    for span in sorted(spans, key=lambda span: span.began):
        if moved:
            pauses += max(span.began - ended, 0.0)
        ended = max(ended, span.ended)
        moved.append(replace(span, began=span.began - pauses, ended=span.ended - pauses))
    return moved


class _Rows:
    """The row of each worker, and its place in it."""

    def __init__(self, bars: Sequence[SpanRecorded], slots: int | None) -> None:
        most = max(bar.worker for bar in bars) + 1
        is_shared = any(_part(bar) < 1 for bar in bars) or max(_busy(bars)[1]) <= (slots or 0)
        self.number = slots if is_shared and slots is not None else max(slots or 0, most)

    def of(self, bar: SpanRecorded) -> int:
        """Return the slot that a worker is on; after the last slot, counting goes on at the first."""
        return bar.worker % self.number

    def offset(self, bar: SpanRecorded) -> float:
        """Return where a bar begins, from the middle of its row: packed ones lie one below the other."""
        lane = bar.worker // self.number if _part(bar) < 1 else 0
        return _BAR * (min(lane * _part(bar), 1 - _part(bar)) - 0.5)


def _part(bar: SpanRecorded) -> float:
    """Return how much of its own slot a worker had: all of it, or a share."""
    return 1.0 if bar.kind == "help" else min(bar.width, 1.0)


def _label(bar: SpanRecorded) -> str:
    return f"{bar.first}–{bar.last}" if bar.kind == "train" else ""


def _colours(bars: Sequence[SpanRecorded], nodes: Sequence[Node] | None) -> dict[int, str]:
    """Give every node a colour, by its place in the tree, or by its number where the tree is not known."""
    present = {bar.node for bar in bars}
    order = sorted(present) if nodes is None else [node for node in _in_tree_order(nodes) if node in present]
    return {node: hue(place / max(len(order) - 1, 1)) for place, node in enumerate(order)}


def _in_tree_order(nodes: Sequence[Node]) -> list[int]:
    order: list[int] = []
    stack = [node for node in reversed(nodes) if node.parent is None]
    while stack:
        node = stack.pop()
        order.append(node.id)
        stack += sorted(node.children.values(), key=lambda child: (child.start, -child.id))
    return order


def _busy(bars: Sequence[SpanRecorded]) -> tuple[list[float], list[float]]:
    """Return the moments at which the number of busy slots changes, and the number from each on."""
    changes: dict[float, Fraction] = {}
    for bar in bars:
        part = Fraction(_part(bar)).limit_denominator(1000)
        changes[bar.began] = changes.get(bar.began, Fraction(0)) + part
        changes[bar.ended] = changes.get(bar.ended, Fraction(0)) - part
    times, numbers, number = [], [], Fraction(0)
    for time in sorted(changes):
        number += changes[time]
        times.append(time)
        numbers.append(float(number))
    return times, numbers


def _hover_text(bar: SpanRecorded, nodes: Sequence[Node] | None, seconds: float, unit: str) -> str:
    share = "" if bar.width in (0, 1) else f", width {Fraction(bar.width).limit_denominator(1000)}"
    lines = [
        f"<b>worker {bar.worker}</b>, {bar.kind}, node {bar.node}{share}",
        f"steps {bar.first:,}–{bar.last:,} in {(bar.ended - bar.began) / seconds:.3g} {unit}",
    ]
    if nodes is not None:
        lines.append(values_in_force(nodes[bar.node].config, bar.first))
    return "<br>".join(lines)
