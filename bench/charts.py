"""Charts of benchmark figures, in the look of Hippo's own plots; a page and a picture of each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hippotune.errors import MissingExtra
from hippotune.plots import save
from hippotune.plots.style import QUIET, dress, plotly_objects

ALONE, SHARED, PUBLISHED = "#b8c4d0", "#1d4ed8", "#93b4f5"

Row = Mapping[str, float]


def save_both(figure: Any, path: Path) -> list[Path]:
    """Write a page, and a picture where one can be drawn here."""
    written = [save(figure, path.with_suffix(".html"))]
    try:
        written.append(save(figure, path.with_suffix(".png")))
    except MissingExtra as error:
        print(error, file=sys.stderr)
    return written


def paper_chart(
    rows: Mapping[str, Row], sets: Mapping[str, Row], studies: Iterable[Any], out: Path
) -> list[Path]:
    """Draw the paper's studies: GPU-hours and hours to the end, alone, shared and as published."""
    plotly_objects()
    from plotly.subplots import make_subplots

    listed = list(studies)
    titles = (
        "GPU-hours",
        "hours to the end",
        "studies at once: GPU-hours",
        "studies at once: hours to the end",
    )
    figure = make_subplots(
        rows=2, cols=2, subplot_titles=titles, vertical_spacing=0.16, horizontal_spacing=0.08
    )
    names = [study.title for study in listed]
    set_names = [f"{row['studies']:.0f} studies<br>{_overlap(name)}" for name, row in sets.items()]
    for column, key, place in ((1, "gpu_hours", 2), (2, "hours", 2)):
        published = [getattr(study.published, key)[place] for study in listed]
        trace = {"showlegend": column == 1}
        _bars(
            figure,
            1,
            column,
            names,
            [rows[s.name][f"{key}_alone"] for s in listed],
            "trial by trial",
            ALONE,
            trace,
        )
        _bars(
            figure, 1, column, names, [rows[s.name][f"{key}_shared"] for s in listed], "shared", SHARED, trace
        )
        _bars(figure, 1, column, names, published, "shared, as published", PUBLISHED, trace)
        hidden = {"showlegend": False}
        _bars(figure, 2, column, set_names, [row[f"{key}_alone"] for row in sets.values()], "", ALONE, hidden)
        _bars(
            figure, 2, column, set_names, [row[f"{key}_shared"] for row in sets.values()], "", SHARED, hidden
        )
    remark = "in virtual time; steps take as long as makes trial-by-trial GPU-hours those of the paper"
    dress(figure, "The studies of the Hippo paper on 40 GPUs", remark, height=820)
    figure.update_layout(
        barmode="group",
        bargap=0.28,
        bargroupgap=0.06,
        margin_t=128,
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.06, "yanchor": "bottom"},
    )
    figure.update_annotations(font={"size": 14})
    figure.update_xaxes(showgrid=False, tickangle=0, tickfont={"size": 11})
    return save_both(figure, out / "paper")


def _bars(
    figure: Any,
    row: int,
    column: int,
    x: list[str],
    y: list[float],
    name: str,
    colour: str,
    more: Mapping[str, Any],
) -> None:
    figure.add_trace(
        {
            "type": "bar",
            "x": x,
            "y": y,
            "name": name,
            "marker": {"color": colour},
            "text": [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in y],
            "textposition": "outside",
            "textfont": {"size": 11, "color": QUIET},
            "cliponaxis": False,
            "hovertemplate": f"%{{x}}: %{{y:,.2f}} h<extra>{name}</extra>",
            **more,
        },
        row=row,
        col=column,
    )


def _overlap(name: str) -> str:
    return "more overlap" if name.startswith("high") else "less overlap"
