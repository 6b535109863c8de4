"""The page's own files, which are built from `page/` and come with the package; and a study as one file.

A file that stands alone holds the page and one snapshot. It loads nothing from anywhere.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from hippotune.errors import MissingExtra

STATIC = ("page.js", "worker.js", "style.css")


class NotBuilt(MissingExtra):
    """The page was not built when this copy of Hippo was set up."""


def asset(name: str) -> str:
    """Return the text of one of the page's files."""
    try:
        return files(__package__).joinpath("static", name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotBuilt(
            "the page is not built: in a checkout of Hippo, `make page` builds it where npm and its registry "
            "can be reached; wheels of Hippo have it. `hippo show` prints the same in a terminal"
        ) from None


def alone(snapshot: dict[str, Any]) -> str:
    """Return a document that shows a snapshot by itself."""
    # What a user wrote must neither end the element that it is in nor begin another one.
    data = json.dumps(snapshot, separators=(",", ":")).replace("<", "\\u003c")
    script = asset("page.js").replace("</script", "<\\/script")
    return _filled(
        asset("index.html"),
        style=f"<style>{asset('style.css')}</style>",
        script=f'<script id="data" type="application/json">{data}</script><script>{script}</script>',
    )


def _filled(document: str, **parts: str) -> str:
    """Return a document with its marked places filled."""
    return re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", lambda found: parts[found[1]], document, flags=re.S)
