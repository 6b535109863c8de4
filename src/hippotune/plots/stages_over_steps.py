"""The stage tree over steps: where trials part, and how many of them share what was trained before.

Every node has a row of its own. A branch leaves downwards, and the later it leaves the closer it is to the
row that it leaves, so that no line crosses another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hippotune import short
from hippotune.errors import InvalidInput
from hippotune.plan.node import Node
from hippotune.plan.plan import unique_steps
from hippotune.plots.style import INK, QUIET, dress, plotly_objects, shade, values_in_force
from hippotune.stages.tree import Stage, stage_tree

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Up to this many rows there is room to write what a branch changes.
_ROOMY = 48


def tree(asks: Iterable[tuple[Node, int]], *, scratch: bool = True, title: str = "Stage tree") -> go.Figure:
    """Draw the stage tree of asks: pairs of a node and the step count to reach on it.

    With ``scratch=False`` only what is still to be trained is drawn, from the checkpoints that exist.
    """
    go = plotly_objects()
    wanted = list(asks)
    roots = stage_tree(wanted, scratch=scratch).roots
    if not roots:
        raise InvalidInput("asks is empty, or all of it is trained; expected at least one stage to draw")
    passing = _passing(roots)
    rows = _rows(roots)
    number = len(rows)
    height = 34 if number <= _ROOMY // 2 else 22 if number <= _ROOMY else max(2.5, min(12.0, 1100 / number))

    figure = go.Figure(_branches(roots, rows))
    most = max(passing.values()).bit_length()
    for bucket in range(1, most + 1):
        stages = [stage for stage in passing if passing[stage].bit_length() == bucket]
        if stages:
            line = {
                "color": shade((bucket - 1) / max(most - 1, 1)),
                "width": min(1.2 + 0.28 * height, 9) * (0.55 + 0.45 * bucket / most),
            }
            figure.add_trace(_bundle(stages, rows, passing, _trials(bucket), line))
    figure.add_trace(_asked(passing, rows, small=number > _ROOMY))
    if number <= _ROOMY:
        for label in _labels(rows, passing):
            figure.add_annotation(label)

    asked, unique = sum(step for _, step in wanted), unique_steps(wanted)
    rate = f"merge rate {asked / unique:.2f}"
    remark = f"{len(wanted):,} trials ask for {asked:,} steps; {unique:,} are unique: {rate}"
    dress(figure, title, remark, height=round(number * height) + 210)
    end = max(stage.end for stage in passing)
    figure.update_xaxes(title_text="step", range=[-end * 0.01, end * 1.02])
    figure.update_yaxes(visible=False, range=[number - 0.4, -0.8])
    figure.update_layout(
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "xanchor": "left",
            "itemsizing": "constant",
            "traceorder": "reversed",
        },
        margin_t=116,
        hovermode="closest",
    )
    return figure


def _passing(roots: list[Stage]) -> dict[Stage, int]:
    """Count the trials that pass every stage, including those that end with it."""
    stages = [stage for root in roots for stage in root.walk()]
    passing: dict[Stage, int] = {}
    for stage in reversed(stages):
        passing[stage] = stage.asks + sum(passing[below] for below in stage.below)
    return {stage: passing[stage] for stage in stages}


def _rows(roots: list[Stage]) -> dict[Node, int]:
    """Give every node a row below the one that it leaves: who leaves later comes first."""
    rows: dict[Node, int] = {}
    stack = list(reversed(roots))
    while stack:
        stage = stack.pop()
        rows.setdefault(stage.node, len(rows))
        branches: list[Stage] = []
        along: Stage | None = stage
        while along is not None:
            branches += [below for below in along.below if below.node is not stage.node]
            along = next((below for below in along.below if below.node is stage.node), None)
        stack.extend(branches)  # the last to leave is taken first
    return rows


def _branches(roots: list[Stage], rows: dict[Node, int]) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for root in roots:
        for stage in root.walk():
            for below in stage.below:
                if below.node is not stage.node:
                    x += [stage.end, stage.end, None]
                    y += [rows[stage.node], rows[below.node], None]
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "line": {"color": "#b8c4d0", "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _bundle(
    stages: list[Stage], rows: dict[Node, int], passing: dict[Stage, int], name: str, line: dict[str, Any]
) -> dict[str, Any]:
    """Return one trace for stages that are shared about equally often."""
    x: list[float | None] = []
    y: list[float | None] = []
    texts: list[str | None] = []
    for stage in stages:
        text = (
            f"<b>steps {stage.start:,}–{stage.end:,}</b>, {passing[stage]:,} trials<br>"
            f"{values_in_force(stage.node.config, stage.start)}"
        )
        x += [stage.start, (stage.start + stage.end) / 2, stage.end, None]
        y += [*[rows[stage.node]] * 3, None]
        texts += [text, text, text, None]
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "line": line,
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "name": name,
    }


def _asked(passing: dict[Stage, int], rows: dict[Node, int], small: bool) -> dict[str, Any]:
    ends = [stage for stage in passing if stage.asks]
    return {
        "type": "scatter",
        "x": [stage.end for stage in ends],
        "y": [rows[stage.node] for stage in ends],
        "mode": "markers",
        "marker": {
            "size": 3.5 if small else 7,
            "color": "white",
            "line": {"color": INK, "width": 0.7 if small else 1.2},
        },
        "text": [f"{stage.asks:,} asked for step {stage.end:,}" for stage in ends],
        "hovertemplate": "%{text}<extra></extra>",
        "name": "asked for",
    }


def _labels(rows: dict[Node, int], passing: dict[Stage, int]) -> Iterator[dict[str, Any]]:
    """Yield, for the beginning of every row, which values tell it from the row that it leaves."""
    begins: dict[Node, int] = {}
    for stage in passing:
        begins.setdefault(stage.node, stage.start)
    roots = [node for node in rows if node.parent not in rows]
    for node, row in rows.items():
        start = begins[node]
        above = [node.parent] if node.parent in rows else [root for root in roots if root is not node]
        others = [other.config.values(start) for other in above if other is not None]
        changed = [
            f"{name} {short.value(value)}"
            for name, value in node.config.values(start).items()
            if any(other.get(name) != value for other in others)
        ]
        if changed:
            yield {
                "x": start,
                "y": row,
                "text": ", ".join(changed),
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "bottom",
                "xshift": 4,
                "yshift": 1,
                "font": {"size": 11, "color": QUIET},
            }


def _trials(bucket: int) -> str:
    low, high = 1 << (bucket - 1), (1 << bucket) - 1
    return "1 trial" if high == 1 else f"{low:,}–{high:,} trials"
