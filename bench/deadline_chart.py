"""HyperSched and ASHA by deadline as a picture: a panel for each space, a bar for each tuner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from charts import ALONE, PUBLISHED, SHARED, save_both
from hippotune.plots.style import QUIET, dress, plotly_objects

PANELS = {
    "constants": (("ASHA", "constants", "asha", ALONE), ("HyperSched", "constants", "hypersched", SHARED)),
    "sequences": (
        ("ASHA", "shared", "asha", ALONE),
        ("HyperSched, trial by trial", "alone", "hypersched", PUBLISHED),
        ("HyperSched", "shared", "hypersched", SHARED),
    ),
}


def draw(figures: Mapping[str, Any], path: Path) -> list[Path]:
    """Write a page, and a picture where one can be drawn."""
    plotly_objects()
    from plotly.subplots import make_subplots

    deadlines = sorted({name.split(".")[1] for name in figures if name.startswith("constants.")}, key=int)
    titles = ("9 learning rates × 4 weight decays × 4 momenta", "144 configs that begin alike")
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.05)
    remark = (
        "best accuracy at the deadline; mean and standard deviation over seeds, in virtual time, 8 workers"
    )
    dress(figure, "The best model by a deadline", remark, height=460)
    for column, bars in enumerate(PANELS.values(), start=1):
        for name, case, tuner, colour in bars:
            values = [figures[f"{case}.{deadline}.{tuner}.best"] for deadline in deadlines]
            spreads = [figures[f"{case}.{deadline}.{tuner}.spread"] for deadline in deadlines]
            bar = {
                "type": "bar",
                "name": name,
                "legendgroup": name,
                "showlegend": column == 2,
                "x": [f"{deadline} s" for deadline in deadlines],
                "y": values,
                "error_y": {"type": "data", "array": spreads, "color": QUIET, "thickness": 1, "width": 3},
                "marker": {"color": colour},
                "text": [f"{value:.3f}" for value in values],
                "textposition": "inside",
                "insidetextanchor": "start",
                "textfont": {"size": 11},
            }
            figure.add_trace(bar, row=1, col=column)
    figure.update_yaxes(range=[0.4, 0.85])
    figure.update_xaxes(showgrid=False)
    figure.update_annotations(font={"size": 14})
    figure.update_layout(
        barmode="group",
        bargap=0.28,
        margin_t=120,
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.1, "yanchor": "bottom"},
    )
    return save_both(figure, path)
