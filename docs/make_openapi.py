"""Writes docs/openapi.json from the server's code: ``python docs/make_openapi.py``."""

from __future__ import annotations

import json
from pathlib import Path

from hippotune.serve.app import document_of_all

if __name__ == "__main__":
    Path(__file__).with_name("openapi.json").write_text(
        json.dumps(document_of_all(), indent=1, sort_keys=True) + "\n"
    )
