"""Figures as files: pages that can be explored, or pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".webp")


def save(figure: go.Figure, path: str | Path, width: int = 1200) -> Path:
    """Write a figure to a file: an .html page with all it needs, or a picture, by the ending of `path`.

    Pictures are drawn by kaleido (in the extra ``plot``) with a Chrome or Chromium that is installed.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".html", *_PICTURES):
        raise InvalidInput(f"path is {str(path)!r}; expected it to end in .html, {', '.join(_PICTURES)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".html":
        figure.write_html(path, include_plotlyjs=True)
        return path
    try:
        figure.write_image(path, width=width, scale=2)
    except Exception as error:
        if not _is_missing(error):
            raise
        raise MissingExtra(
            f"{path.name} cannot be drawn: {_first_line(error)} Pictures need kaleido "
            "(pip install 'hippotune[plot]') and a Chrome or Chromium (Debian: apt install chromium; "
            "elsewhere: plotly_get_chrome). An .html page needs neither."
        ) from error
    return path


def _is_missing(error: Exception) -> bool:
    """Whether something is not installed: plotly and kaleido say so with errors of many kinds."""
    text = f"{type(error).__name__} {error}".lower()
    return any(word in text for word in ("kaleido", "chrome", "chromium", "browser"))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{lines[0].rstrip('.:')}." if lines else ""
