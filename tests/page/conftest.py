"""A real browser, for tests of what people see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from chromium import launched

# How long something takes to be shown says something about the machine, not about the page.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, for the tests of a file: as long as it is there, the thread has a running event loop."""
    with launched() as made:
        yield made


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open pages, each in a browser of its own; what goes wrong in their scripts fails the test."""
    wrong: list[str] = []
    contexts = []

    def opened(url: str, **more: Any) -> Page:
        context = browser.new_context(locale="en-US", viewport={"width": 1440, "height": 1000}, **more)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


Fault = tuple[str, list[str], str]


@pytest.fixture(scope="session")
def serious() -> Callable[[Page], list[Fault]]:
    """Find what keeps people from using a page: the serious faults, where they are, and what to do."""
    script = (Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js").read_text()

    def found(page: Page) -> list[Fault]:
        page.evaluate(script)
        return [
            (fault["id"], node["target"], node["failureSummary"])
            for fault in page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]

    return found
