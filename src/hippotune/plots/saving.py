"""Figures as files: pages that can be explored, or pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.causes import causes
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
        need = _need(error)
        if need is None:
            raise
        raise MissingExtra(f"{path.name} cannot be drawn: {need}. An .html page needs neither.") from error
    return path


_INSTALL = "(Debian and Ubuntu: apt install chromium; anywhere: plotly_get_chrome)"
# What plotly and kaleido raise, by the names of their errors, and what helps.
_NEEDS = {
    "ChromeNotFoundError": f"no Chrome or Chromium was found; install one {_INSTALL}",
    "BrowserDepsError": f"the Chrome or Chromium that was found lacks libraries; "
    f"install another one {_INSTALL}",
    "BrowserFailedError": "the Chrome or Chromium that was found does not start; "
    f"install another one {_INSTALL}, or set BROWSER_PATH to one that does",
}
# Which of them it is depends on how far it comes before the browser has ended.
_NEEDS["BrowserClosedError"] = _NEEDS["ChannelClosedError"] = _NEEDS["BrowserFailedError"]


def _need(error: BaseException) -> str | None:
    """Return what is missing and how to get it, where that is why a picture cannot be drawn."""
    try:
        import kaleido  # noqa: F401
    except ImportError:
        return f"kaleido is not installed: pip install 'hippotune[plot]'; it needs a Chrome, too {_INSTALL}"
    needs = (_NEEDS.get(type(link).__name__) for link in causes(error))
    return next((need for need in needs if need is not None), None)
