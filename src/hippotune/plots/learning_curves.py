"""Learning curves: a metric over steps for every trial, the best one on top."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.plots.style import dress, plotly_objects, shade, values_in_force

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from hippotune.study.report import TrialReport

_BEST = "#d9480f"
_SHADES = 12
# Curves are drawn thinner from this many on.
_CROWDED = 60


class _Curve(NamedTuple):
    trial: TrialReport
    steps: list[int]
    values: list[float]


def curves(
    trials: Iterable[TrialReport], metric: str, mode: str = "max", *, title: str = "Learning curves"
) -> go.Figure:
    """Draw a metric over steps for all trials. Darker curves end better; the best result stands out."""
    go = plotly_objects()
    checks.text("metric", metric, "accuracy")
    drawn = [curve for trial in trials if (curve := _curve(trial, metric)).steps]
    if not drawn:
        raise InvalidInput(f"no trial has a finite {metric!r} at any step; expected at least one to draw")
    sign = 1 if mode == "max" else -1
    drawn.sort(key=lambda curve: (curve.steps[-1], sign * curve.values[-1]))
    best = max(drawn, key=lambda curve: max(sign * value for value in curve.values))
    others = [curve for curve in drawn if curve is not best]

    figure = go.Figure()
    for place in range(_SHADES):
        low, high = (len(others) * edge // _SHADES for edge in (place, place + 1))
        if low < high:
            figure.add_trace(_bundle(others[low:high], shade(place / (_SHADES - 1)), len(others) > _CROWDED))
    figure.add_trace(_highlight(best))
    figure.add_annotation(_label(best, metric, sign))

    longest = max(curve.steps[-1] for curve in drawn)
    ended = sum(curve.steps[-1] == longest for curve in drawn)
    remark = (
        f"{len(drawn):,} trials, {ended:,} up to step {longest:,}; darker: trained further, and ended better"
    )
    dress(figure, title, remark, height=560)
    figure.update_xaxes(title_text="step", rangemode="tozero")
    figure.update_yaxes(title_text=metric)
    figure.update_layout(hovermode="closest", showlegend=False)
    return figure


def _curve(trial: TrialReport, metric: str) -> _Curve:
    points = [
        (step, measured[metric])
        for step, measured in sorted(trial.metrics.items())
        if metric in measured and math.isfinite(measured[metric])
    ]
    return _Curve(trial, [step for step, _ in points], [value for _, value in points])


def _bundle(bundle: Sequence[_Curve], colour: str, crowded: bool) -> dict[str, Any]:
    """Return one trace for many curves: hundreds of traces would be slow to look at."""
    x: list[int | None] = []
    y: list[float | None] = []
    texts: list[str | None] = []
    for curve in bundle:
        text = f"<b>trial {curve.trial.number}</b><br>{values_in_force(curve.trial.config, 0)}"
        x += [*curve.steps, None]
        y += [*curve.values, None]
        texts += [*[text] * len(curve.steps), None]
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1 if crowded else 1.8},
        "marker": {"size": 3 if crowded else 5},
        "opacity": 0.55 if crowded else 0.85,
        "text": texts,
        "hovertemplate": "%{text}<br>step %{x}: %{y:.5g}<extra></extra>",
    }


def _highlight(best: _Curve) -> dict[str, Any]:
    text = f"<b>trial {best.trial.number}, the best</b><br>{values_in_force(best.trial.config, 0)}"
    return {
        "type": "scatter",
        "x": best.steps,
        "y": best.values,
        "mode": "lines+markers",
        "line": {"color": _BEST, "width": 3},
        "marker": {"size": 8, "color": "white", "line": {"color": _BEST, "width": 2.5}},
        "text": [text] * len(best.steps),
        "hovertemplate": "%{text}<br>step %{x}: %{y:.5g}<extra></extra>",
    }


def _label(best: _Curve, metric: str, sign: int) -> dict[str, Any]:
    value, step = max((sign * value, step) for step, value in zip(best.steps, best.values, strict=True))
    return {
        "x": step,
        "y": sign * value,
        "text": f"<b>trial {best.trial.number}</b>: {metric} {sign * value:.5g}",
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom" if sign > 0 else "top",
        "yshift": 8 * sign,
        "font": {"color": _BEST, "size": 13},
    }
