"""The browser that `make test` gets from npm's registry, driven by Playwright."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(sys.prefix) / "browser"
_OPTIONS = ("--headless=shell", "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage")


@contextmanager
def launched() -> Iterator[Browser]:
    """Start the browser, and end it with the block."""
    program = FOLDER / "chromium"
    if not program.exists():
        raise SystemExit(f"there is no browser at {program}; get one with: make browser")
    environment: dict[str, str | float | bool] = {**os.environ, "LD_LIBRARY_PATH": str(FOLDER / "lib")}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_OPTIONS, env=environment)
        try:
            yield browser
        finally:
            browser.close()
