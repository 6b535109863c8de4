"""Pages that are watched while a study goes on: in virtual time, for real, and when the server is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from processes import free_port, program
from stored import DECAYS, Asking, trained
from watched_studies import SPACE, watched

Open = Callable[..., Page]

REAL = """
import asyncio
from pathlib import Path

from stored import DECAYS, Asking, study as made


class Watched(Asking):
    async def run(self, trials):
        while not Path({gate!r}).exists():
            await asyncio.sleep(0.01)
        await super().run(trials)


study = made("falling", {home!r})
tuner = Watched(DECAYS, 3, 6, 12)
"""


def test_a_study_in_virtual_time_is_watched_to_its_end(open_page: Open, tmp_path: Path) -> None:
    with watched(tmp_path) as study:
        page = open_page(study.server.url)
        expect(page.locator("#tree")).to_contain_text("No trial has been asked for yet")
        expect(page.locator(".link-state")).to_contain_text("live")
        study.go(until=60)
        expect(page.locator(".tiles")).to_contain_text("6 of 6")
        expect(page.locator("#tree")).to_contain_text("training now")
        expect(page.locator("#next li").first).to_contain_text("in one chain")
        steps = page.locator(".tile", has_text="Steps trained").locator(".value")
        early = steps.text_content()
        study.go(until=240)
        expect(steps).not_to_have_text(early or "")
        second = page.context.new_page()
        second.goto(page.url)
        expect(second.locator(".link-state")).to_contain_text("live")
        assert study.server.followers == 1, "two tabs share one stream"
        study.finish()
        for each in (page, second):
            expect(each.locator(".tiles")).to_contain_text(f"{len(list(SPACE)) - 1} done")
            expect(each.locator(".tile", has_text="Steps trained")).to_contain_text("100 %")
    expect(page.locator(".link-state")).to_contain_text("ended")


def test_a_real_study_is_watched_to_its_end(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "falling.py"
    gate = tmp_path / "gate"
    file.write_text(REAL.format(home=str(tmp_path / "home"), gate=str(gate)))
    with program("run", str(file), "--page", "--no-progress", "--port", free_port()) as (url, _):
        page = open_page(url)
        expect(page.locator(".link-state")).to_contain_text("live")
        gate.touch()
        expect(page.locator(".link-state")).to_contain_text("ended")
        expect(page.locator(".tiles")).to_contain_text("4 done")
        expect(page.locator(".tile", has_text="Resumed trials")).to_contain_text("exact")
        expect(page.locator("#timeline")).to_contain_text("worker")


def test_a_page_goes_on_when_its_server_is_back(open_page: Open, tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    trained("falling", home, Asking(DECAYS[:2], 6))
    show = ("show", "falling", "--home", str(home), "--web", "--port", port)
    with program(*show) as (url, server):
        page = open_page(url)
        expect(page.locator(".tiles")).to_contain_text("2 done")
        page.locator("#trials tbody tr[tabindex]").first.click()
        page.locator(".log summary").click()
        expect(page.locator(".log th", has_text="height")).to_be_visible()
        expect(page.locator(".log")).to_contain_text("it has printed nothing")
        server.kill()
        server.wait()
        expect(page.locator(".banner")).to_contain_text("The server is gone.")
        expect(page.locator(".tiles")).to_contain_text("2 done")
    trained("falling", home, Asking(DECAYS, 6))
    with program(*show):
        expect(page.locator(".tiles")).to_contain_text("4 done")
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.locator(".link-state")).to_contain_text("live")
        trained("falling", home, Asking(DECAYS, 6, 12))  # by another process than the one that serves it
        expect(page.locator("#trials tbody tr[tabindex]").first).to_contain_text("12")


def test_a_browser_that_is_not_known_any_more_is_told_so(open_page: Open, tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    trained("falling", home, Asking(DECAYS[:1], 6))
    show = ("show", "falling", "--home", str(home), "--web", "--port", port)
    with program(*show) as (url, server):
        page = open_page(url)
        expect(page.locator(".link-state")).to_contain_text("live")
        server.kill()
        server.wait()
    (home / "page.key").unlink()
    with program(*show):
        expect(page.locator(".banner")).to_contain_text("open the address that it has printed")
