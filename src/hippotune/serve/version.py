"""The version of the API. A client says its own in a header; one below the minimum is told what to do."""

from __future__ import annotations

VERSION = 1
MINIMUM = 1
HEADER = "hippo-api"
