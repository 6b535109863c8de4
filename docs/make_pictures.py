"""Takes the pictures in docs/pictures of the page and of what sharing is: ``make pictures``.

A study in virtual time is stopped halfway and looked at in a real browser. Another is drawn by its report.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import hippotune as hippo
from hippotune import Constant, Cosine, MedianStopping, MultiStep, Warmup

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from PIL import Image
from playwright.sync_api import Browser, Page

from chromium import launched
from watched_studies import SPACE, Net, paced, watched

FOLDER = Path(__file__).with_name("pictures")
HALFWAY = 760.0
"""Seconds of virtual time."""


Size = tuple[int, int]

_AT_REST = """() => new Promise(done => {
    let before = "", timer = 0;
    const look = () => {
        const now = document.querySelector(".tiles").textContent;
        if (now === before) return done(clearInterval(timer));
        before = now;
    };
    timer = setInterval(look, 2000);
})"""


@contextmanager
def opened(browser: Browser, url: str, scheme: str, size: Size = (1440, 1130)) -> Iterator[Page]:
    """Open the page of a study that is being trained."""
    context = browser.new_context(
        locale="en-US",
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=1.5,
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_text("training now").wait_for()
    page.evaluate(_AT_REST)
    yield page
    context.close()


def take(page: Page, name: str) -> None:
    """Take one picture, when everything is drawn."""
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    kept(page.screenshot(), name)


def kept(picture: bytes, name: str) -> None:
    """Keep a picture, in few colours: that takes a third of the room."""
    Image.open(BytesIO(picture)).convert("RGB").quantize(256).save(FOLDER / name, optimize=True)


def branch(page: Page) -> None:
    """Ask what a branch of the best trial would cost."""
    page.get_by_role("button", name="trial ").first.click()
    page.get_by_role("button", name="Branch from here…").click()
    form = page.locator("form.act")
    form.get_by_label("leave at step").fill("70")
    form.get_by_label("change").select_option("lr")
    form.get_by_label("to", exact=True).fill("Cosine(0.05, 60)")
    form.get_by_label("train to step").fill("130")
    form.get_by_text("to be trained").wait_for()


def draw_sharing(browser: Browser, home: Path) -> None:
    """Draw the stage tree of four trials, and two workers over time, alone and shared."""
    rates = [
        Constant(0.1),
        MultiStep(0.1, [60], 0.1),
        MultiStep(0.1, [90], 0.1),
        Warmup(10, Cosine(0.1, 110)),
    ]
    tuner = hippo.GridSearch({"lr": rates}, "val_acc", "max", max_steps=120)
    for share, name in ((False, "alone"), (True, "shared")):
        executor = hippo.Simulated(2, seconds_per_step=1.0, evaluate=1.0, startup=2.0)
        study = hippo.Study("lr", Net, home=home, executor=executor, share=share, exact=False, version="1")
        with study:
            report = study.tune(tuner, progress=False)
        draw(browser, report.plot_timeline(), f"timeline-{name}.png", 260)
    draw(browser, report.plot_tree(), "sharing.png", 300)


def draw(browser: Browser, figure: Any, name: str, height: int) -> None:
    """Draw a figure of a report."""
    page = browser.new_page(viewport={"width": 900, "height": height}, device_scale_factor=1.5)
    page.set_content(figure.update_layout(height=height).to_html(include_plotlyjs=True))
    page.locator(".main-svg").first.wait_for()
    kept(page.screenshot(), name)
    page.close()


def main() -> None:
    """Take all pictures."""
    tuner = MedianStopping(SPACE, "val_acc", "max", max_steps=120, every=5, warmup_steps=20)
    with tempfile.TemporaryDirectory() as home, watched(Path(home), paced(workers=4), tuner) as study:
        study.go(until=HALFWAY)
        address = study.server.visitor
        with launched() as browser:
            draw_sharing(browser, Path(home) / "sharing")
            for scheme in ("light", "dark"):
                with opened(browser, address(), scheme) as page:
                    take(page, f"page-{scheme}.png")
                    kept(page.locator("#tree").screenshot(), f"tree-{scheme}.png")
                with opened(browser, address(), scheme) as page:
                    branch(page)
                    take(page, f"page-branch-{scheme}.png")
            with opened(browser, address(), "light", (390, 844)) as page:
                take(page, "page-phone.png")


if __name__ == "__main__":
    main()
