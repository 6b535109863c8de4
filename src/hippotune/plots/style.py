"""What all figures have in common: one look, and colours that are equally strong to the eye."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hippotune import short
from hippotune.errors import MissingExtra
from hippotune.sequences.config import Config

if TYPE_CHECKING:
    import plotly.graph_objects as go

INK = "#1f2933"
QUIET = "#7b8794"
LINES = "#e4e7eb"
ACCENT = "#1d4ed8"
FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif"


def plotly_objects() -> Any:
    """Return plotly's module of figures, or say which extra brings it."""
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise MissingExtra("figures need plotly: pip install 'hippotune[plot]'") from error
    return plotly.graph_objects


def dress(figure: go.Figure, title: str, remark: str, height: int) -> None:
    """Give a figure the common look, a title and a remark below it."""
    figure.update_layout(
        title={
            "text": f"<b>{title}</b><br><span style='font-size:13px;color:{QUIET}'>{remark}</span>",
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 30},
            "font": {"size": 18},
        },
        height=height,
        margin={"l": 64, "r": 32, "t": 88, "b": 56},
        paper_bgcolor="white",
        plot_bgcolor="white",
        font={"family": FONT, "size": 13, "color": INK},
        hoverlabel={"bgcolor": "white", "bordercolor": LINES, "font": {"family": FONT, "color": INK}},
    )
    axes = {
        "showgrid": True,
        "gridcolor": LINES,
        "zeroline": False,
        "linecolor": QUIET,
        "tickcolor": QUIET,
        "title_font": {"size": 13, "color": QUIET},
    }
    figure.update_xaxes(**axes)
    figure.update_yaxes(**axes)


def hue(fraction: float) -> str:
    """Return the colour at a place around the wheel, from 0 to 1; all are equally light and equally vivid."""
    angle = math.radians(25 + 315 * fraction)
    return _oklab(0.72, 0.13 * math.cos(angle), 0.13 * math.sin(angle))


def shade(fraction: float) -> str:
    """Return a blue, from a light one at 0 to a dark one at 1."""
    angle = math.radians(232 + 32 * fraction)
    chroma = 0.08 + 0.08 * fraction
    return _oklab(0.84 - 0.48 * fraction, chroma * math.cos(angle), chroma * math.sin(angle))


def _oklab(lightness: float, a: float, b: float) -> str:
    """Return an Oklab colour as sRGB, as its author publishes the conversion."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    red, green, blue = (round(255 * _gamma(min(max(each, 0.0), 1.0))) for each in linear)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def values_in_force(config: Config, step: int) -> str:
    """Return all values of a config at a step, a line for each."""
    return "<br>".join(f"{name} {short.value(value)}" for name, value in config.values(step).items())


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the best unit for a length of time, and its seconds."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return unit, length
    return "s", 1.0
