"""The comparison as a picture: a row of panels for each algorithm, a bar for each engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from charts import ALONE, SHARED, save_both
from hippotune.plots.style import dress, plotly_objects

ALGORITHMS = {"grid": "Grid", "halving": "Successive halving"}
ENGINES = {
    "hippo": "Hippo",
    "optuna": "Optuna",
    "ray": "Ray Tune",
    "ray_reuse": "Ray Tune, reuse_actors",
    "ray_asha": "Ray Tune, reuse_actors, ASHA",
}
PANELS = {"steps_trained": "steps trained", "cpu_seconds": "CPU-seconds", "wall_seconds": "wall seconds"}


def draw(rows: Mapping[str, Mapping[str, Mapping[str, Any]]], remark: str, path: Path) -> list[Path]:
    """Write a page, and a picture where one can be drawn; `rows` has figures by algorithm and engine."""
    bar = plotly_objects().Bar
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(rows),
        cols=len(PANELS),
        row_heights=[len(engines) for engines in rows.values()],
        shared_yaxes=True,
        horizontal_spacing=0.03,
        vertical_spacing=0.12,
        subplot_titles=[f"{ALGORITHMS[algorithm]}: {what}" for algorithm in rows for what in PANELS.values()],
    )
    dress(figure, "One study, three engines", remark, height=180 + 44 * sum(map(len, rows.values())))
    for row, engines in enumerate(rows.values(), start=1):
        for column, name in enumerate(PANELS, start=1):
            values = [engine[name] for engine in engines.values()]
            trace = bar(
                x=values,
                y=[ENGINES[engine] for engine in engines],
                orientation="h",
                marker_color=[SHARED if engine == "hippo" else ALONE for engine in engines],
                text=[f"{value:,.0f}" for value in values],
                textposition="outside",
                cliponaxis=False,
                hoverinfo="skip",
            )
            figure.add_trace(trace, row=row, col=column)
            figure.update_xaxes(visible=False, range=[0, 1.2 * max(values)], row=row, col=column)
    figure.update_yaxes(autorange="reversed", showgrid=False, showline=False)
    figure.update_annotations(font={"size": 14})
    figure.update_layout(showlegend=False, bargap=0.35, margin={"l": 200, "t": 120, "b": 24})
    return save_both(figure, path)
