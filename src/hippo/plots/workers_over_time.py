"""Workers over time: which worker trained what when, and how many were busy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hippo.errors import InvalidInput
from hippo.plan.facts import SpanRecorded
from hippo.plan.node import Node
from hippo.plots.style import ACCENT, QUIET, dress, hue, plotly_objects, time_unit, values_in_force

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Up to so many workers a bar has room for the steps that it stands for.
_ROOMY = 12
_BUSY_HEIGHT = 90


def timeline(
    spans: Iterable[SpanRecorded],
    *,
    nodes: Sequence[Node] | None = None,
    workers: int | None = None,
    title: str = "Workers over time",
) -> go.Figure:
    """Draw worker time: a bar for every span, and above them how many workers were busy.

    Parameters
    ----------
    spans : Iterable[SpanRecorded]
        What workers did, as a store's `spans` or a report tells it.
    nodes : Sequence[Node], optional
        The nodes of the plan, by id. With them, stages that are close in the tree have similar colours, and
        a bar tells the values that were in force.
    workers : int, optional
        How many workers there were, if more than the spans name.
    """
    go = plotly_objects()
    from plotly.subplots import make_subplots

    bars = sorted(spans, key=lambda span: (span.worker, span.began))
    if not bars:
        raise InvalidInput("spans is empty; expected the worker time of at least one lease")
    number = max(workers or 0, max(bar.worker for bar in bars) + 1)
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
    figure.add_trace(
        go.Scatter(
            x=[(time - first) / seconds for time in times],
            y=busy,
            mode="lines",
            line={"shape": "hv", "color": ACCENT, "width": 1.5},
            fill="tozeroy",
            fillcolor="rgba(29, 78, 216, 0.12)",
            hovertemplate=f"%{{y}} of {number} busy at %{{x:.3g}} {unit}<extra></extra>",
            showlegend=False,
        ),
        row=1,
        col=1,
    )
    figure.add_trace(
        go.Bar(
            orientation="h",
            y=[bar.worker for bar in bars],
            base=[(bar.began - first) / seconds for bar in bars],
            x=[(bar.ended - bar.began) / seconds for bar in bars],
            width=0.84,
            marker={
                "color": [colours[bar.node] if bar.kind == "train" else "#cbd2d9" for bar in bars],
                "line": {"color": "white", "width": 1 if number <= _ROOMY else 0.4},
            },
            text=[f"{bar.first}–{bar.last}" for bar in bars] if number <= _ROOMY else None,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": "#102a43", "size": 12},
            customdata=[[_told(bar, nodes, seconds, unit)] for bar in bars],
            hovertemplate="%{customdata[0]}<extra></extra>",
            showlegend=False,
        ),
        row=2,
        col=1,
    )
    utilisation = sum(bar.ended - bar.began for bar in bars) / max((last - first) * number, 1e-12)
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
        for step in sorted(node.branches):
            stack.extend(reversed(node.branches[step]))
    return order


def _busy(bars: Sequence[SpanRecorded]) -> tuple[list[float], list[int]]:
    """Return the moments at which the number of busy workers changes, and the number from each on."""
    changes: dict[float, int] = {}
    for bar in bars:
        changes[bar.began] = changes.get(bar.began, 0) + 1
        changes[bar.ended] = changes.get(bar.ended, 0) - 1
    times, numbers, number = [], [], 0
    for time in sorted(changes):
        number += changes[time]
        times.append(time)
        numbers.append(number)
    return times, numbers


def _told(bar: SpanRecorded, nodes: Sequence[Node] | None, seconds: float, unit: str) -> str:
    lines = [
        f"<b>worker {bar.worker}</b>, {bar.kind}, node {bar.node}",
        f"steps {bar.first:,}–{bar.last:,} in {(bar.ended - bar.began) / seconds:.3g} {unit}",
    ]
    if nodes is not None:
        lines.append(values_in_force(nodes[bar.node].config, bar.first))
    return "<br>".join(lines)
