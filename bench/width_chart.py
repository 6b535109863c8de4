"""How many workers are busy over time, with and without width: a panel for each study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from charts import ALONE, SHARED, save_both
from hippotune.plan.facts import SpanRecorded
from hippotune.plots.style import dress, plotly_objects

Busy = Mapping[str, Sequence[tuple[Sequence[SpanRecorded], float]]]


def draw(runs: Busy, workers: int, path: Path) -> list[Path]:
    """Write a page, and a picture where one can be drawn; a run is its spans and the hours of a step."""
    scatter = plotly_objects().Scatter
    from plotly.subplots import make_subplots

    rows = -(-len(runs) // 2)
    figure = make_subplots(
        rows=rows, cols=2, subplot_titles=list(runs), vertical_spacing=0.14, horizontal_spacing=0.07
    )
    remark = f"{workers} workers in virtual time, with the speed-ups by width measured for ResNet-50"
    dress(figure, "Workers at work, from the start to the end of a study", remark, height=160 + 260 * rows)
    looks = (("shared", "#5b6b7b", ALONE), ("shared, with width", SHARED, "#93b4f5"))
    for place, pair in enumerate(runs.values()):
        for (spans, hours), (name, line, fill) in zip(pair, looks, strict=True):
            times, busy = _busy(spans)
            trace = scatter(
                x=[time * hours for time in times],
                y=busy,
                name=name,
                mode="lines",
                line={"shape": "hv", "width": 1, "color": line},
                fill="tozeroy",
                fillcolor=_see_through(fill),
                hovertemplate=f"%{{y:.0f}} of {workers} busy after %{{x:.2f}} h<extra>{name}</extra>",
                showlegend=place == 0,
            )
            figure.add_trace(trace, row=place // 2 + 1, col=place % 2 + 1)
    figure.update_xaxes(rangemode="tozero", showgrid=False)
    figure.update_yaxes(range=[0, workers * 1.08], nticks=5)
    for row in range(1, rows + 1):
        figure.update_yaxes(title_text="busy workers", row=row, col=1)
    for column in (1, 2):
        figure.update_xaxes(title_text="hours", row=rows, col=column)
    figure.update_annotations(font={"size": 14})
    figure.update_layout(
        margin_t=120,
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.06, "yanchor": "bottom"},
    )
    return save_both(figure, path)


def _busy(spans: Iterable[SpanRecorded]) -> tuple[list[float], list[float]]:
    """Return the moments at which the number of busy workers changes, and the number from each on."""
    changes: dict[float, float] = {}
    for span in spans:
        if span.ended > span.began:
            changes[span.began] = changes.get(span.began, 0.0) + span.width
            changes[span.ended] = changes.get(span.ended, 0.0) - span.width
    times, numbers, number = [], [], 0.0
    for time in sorted(changes):
        number += changes[time]
        times.append(time)
        numbers.append(number)
    return times, numbers


def _see_through(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.35)"
