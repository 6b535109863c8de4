"""Every view of the page, in a real browser: what it shows, how views are linked, and who can use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from hippotune import Constant, Grid, GridSearch, MultiStep, Study
from hippotune.page.bundle import alone
from hippotune.page.source import RunningPlan, whole
from watched_studies import SPACE, Net, halving, paced

Open = Callable[..., Page]
DRAWN = ["tree", "timeline", "parallel", "curves", "progress"]
OTHERS = Grid({"lr": [Constant(0.1), MultiStep(0.1, [40, 80], 0.1)], "bs": [128], "wd": [1e-4, 1e-3]})


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two studies of one plan, as a file that stands alone."""
    folder = tmp_path_factory.mktemp("document")
    executor = paced()
    executor.until = float("inf")
    more: dict[str, Any] = {"home": folder, "executor": executor, "exact": False, "version": "1"}
    with Study("cifar", Net, **more) as cifar, Study("ablation", Net, **more) as ablation:
        source = RunningPlan(cifar._connection.open(), _about())
        cifar.tune(halving(), progress=False)
        ablation.tune(GridSearch(OTHERS, "val_loss", "min", max_steps=120), progress=False)
        content = alone(whole(source))
    path = folder / "study.html"
    path.write_text(content, encoding="utf-8")
    return path.as_uri()


def _about() -> dict[str, Any]:
    studies = [
        {"name": "cifar", "metric": "val_acc", "mode": "max"},
        {"name": "ablation", "metric": "val_loss", "mode": "min"},
    ]
    return {"plan": "0123456789", "trainer": "Net", "study": "cifar", "studies": studies}


@pytest.fixture
def page(open_page: Open, document: str) -> Page:
    return open_page(document)


def panel(page: Page, name: str) -> Locator:
    return page.locator(f"#{name}")


def canvas_of(page: Page, view: str) -> Locator:
    """Return the canvas of a view, in sight and painted."""
    expect(page.locator("#timeline canvas, #effects tbody, #parallel canvas")).to_have_count(3)
    canvas = page.locator(f"#{view} canvas").first
    canvas.scroll_into_view_if_needed()
    page.wait_for_function(
        "view => { const c = document.querySelector(`#${view} canvas`); return c.width === c.clientWidth; }",
        arg=view,
    )
    return canvas


def drawn(page: Page, view: str) -> str:
    """Return what a canvas looks like, as text that can be compared."""
    return str(canvas_of(page, view).evaluate("canvas => canvas.toDataURL()"))


def test_the_overview_says_how_the_study_stands(page: Page) -> None:
    tiles = page.locator(".tiles")
    trials = len(list(SPACE))
    expect(tiles).to_contain_text("Best val_acc")
    expect(tiles).to_contain_text("at step 120, more is better")
    expect(tiles).to_contain_text("100 %")
    expect(tiles).to_contain_text(f"{trials - 1} done")
    expect(tiles).to_contain_text("1 failed")
    expect(page.locator(".failures")).to_contain_text("FloatingPointError: the loss is nan after 30 steps")
    expect(page.locator("#progress .uplot")).to_be_visible()
    assert page.title() == "cifar · Hippo"


@pytest.mark.parametrize("view", DRAWN)
def test_every_canvas_has_a_table_behind_it(page: Page, view: str) -> None:
    shown = panel(page, view)
    expect(shown.locator("canvas").first).to_be_visible()
    shown.get_by_role("button", name="Table").click()
    expect(shown.locator("canvas")).to_have_count(0)
    assert shown.locator("tbody tr").count() > 3
    shown.get_by_role("button", name="Table").click()
    expect(shown.locator("canvas").first).to_be_visible()


@pytest.mark.parametrize("view", ["tree", "curves", "timeline", "parallel"])
def test_what_is_selected_lights_up_in_all_views(page: Page, view: str) -> None:
    before = drawn(page, view)
    page.locator("#trials tbody tr").nth(2).dispatch_event("pointerenter")
    expect(page.locator("#trials tr.lit")).to_have_count(1)
    page.wait_for_function(
        "([view, was]) => document.querySelector(`#${view} canvas`).toDataURL() !== was", arg=[view, before]
    )
    page.locator("#trials .scroll").dispatch_event("pointerleave")
    expect(page.locator("#trials tr.lit")).to_have_count(0)


def test_a_stage_is_selected_with_the_keyboard_alone(page: Page) -> None:
    page.locator("#tree canvas").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator("#tree .caption")).to_contain_text("steps")
    page.keyboard.press("Enter")
    detail = page.locator(".detail")
    expect(detail).to_contain_text("shared by")
    expect(detail).to_contain_text("Its trials, the best first")
    assert page.locator("#trials tr.lit").count() > 0
    page.keyboard.press("Escape")
    expect(detail).to_have_count(0)


@pytest.mark.parametrize("drawing", ["#curves .plot", "#parallel canvas"])
def test_trials_are_gone_through_by_rank_with_the_keyboard(page: Page, drawing: str) -> None:
    page.locator(drawing).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    lit = page.locator("#trials tr.lit")
    expect(lit).to_have_count(1)
    expect(lit.locator("td").nth(2)).to_have_text("2")
    page.keyboard.press("Enter")
    expect(page.locator(".detail h2")).to_contain_text("Trial")
    expect(page.locator(".detail .sub").first).to_contain_text("rank 2 of")


def test_workers_and_time_are_gone_through_with_the_keyboard(page: Page) -> None:
    canvas_of(page, "timeline").focus()
    everything = panel(page, "timeline").get_by_role("button", name="All")
    page.keyboard.press("+")
    expect(everything).to_be_enabled()
    before = drawn(page, "timeline")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "before => document.querySelector('#timeline canvas').toDataURL() !== before", arg=before
    )
    page.keyboard.press("0")
    expect(everything).to_be_disabled()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".detail h2")).to_have_text("Worker 1")


def test_a_worker_is_selected_on_its_row(page: Page) -> None:
    canvas_of(page, "timeline").click(position={"x": 20, "y": 10})
    expect(page.locator(".detail h2")).to_have_text("Worker 0")


def test_any_window_of_time_can_be_looked_at(page: Page) -> None:
    canvas = canvas_of(page, "timeline")
    everything = panel(page, "timeline").get_by_role("button", name="All")
    expect(everything).to_be_disabled()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 320, box["y"] + 20, steps=4)
    page.mouse.up()
    expect(everything).to_be_enabled()
    canvas.dblclick(position={"x": 300, "y": 20})
    expect(everything).to_be_disabled()


def test_trials_are_filtered_and_sorted(page: Page) -> None:
    rows = page.locator("#trials tbody tr[tabindex]")
    ranks = page.locator("#trials tbody tr[tabindex] td:nth-child(3)")
    expect(ranks.first).to_have_text("★ 1")
    page.locator("#trials th button", has_text="val_acc").click()
    page.locator("#trials th button", has_text="val_acc").click()
    expect(ranks.first).to_have_text("★ 1")
    field = page.get_by_label("Filter the rows")
    field.fill("failed")
    expect(rows).to_have_count(1)
    field.fill("wd<0.0002 at>=120")
    expect(page.locator("#trials .count")).to_contain_text("of")
    assert 0 < rows.count() < len(list(SPACE))


def test_a_trial_shows_its_config_metrics_way_and_error(page: Page) -> None:
    page.get_by_label("Filter the rows").fill("failed")
    page.locator("#trials tbody tr[tabindex]").first.click()
    detail = page.locator(".detail")
    expect(detail).to_contain_text("Warmup(5, Cosine(0.1, 115))")
    expect(detail.locator(".error")).to_contain_text("FloatingPointError")
    expect(detail.locator("td").first).to_have_text("15")
    expect(detail.locator(".path li").first).to_contain_text("steps 0–")


def test_two_trials_are_put_side_by_side(page: Page) -> None:
    rows = page.locator("#trials tbody tr[tabindex]")
    rows.nth(0).click()
    rows.nth(3).click(modifiers=["Shift"])
    detail = page.locator(".detail")
    expect(detail.locator("h2")).to_contain_text(" and trial ")
    expect(detail).to_contain_text("They share")
    expect(detail.locator("tr.differs").first).to_be_visible()
    expect(detail.locator("tr.shared").first).to_contain_text("shared")


def test_an_axis_is_brushed_to_choose_trials(page: Page) -> None:
    canvas = canvas_of(page, "parallel")
    box = canvas.bounding_box()
    assert box is not None
    axis, top, bottom = box["x"] + box["width"] - 60, box["y"] + 30, box["y"] + 120
    page.mouse.move(axis, top)
    page.mouse.down()
    page.mouse.move(axis, bottom, steps=6)
    page.mouse.up()
    expect(panel(page, "parallel")).to_contain_text("chosen")
    expect(page.locator(".detail")).to_contain_text("within the ranges that were marked")


def test_hyper_parameters_are_ranked_by_what_they_explain(page: Page) -> None:
    rows = panel(page, "effects").locator("tbody tr")
    assert sorted(rows.locator("th").all_text_contents()) == ["bs", "lr", "wd"]
    shares = [int(text.split()[0]) for text in rows.locator(".percent").all_text_contents()]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0


def test_studies_of_one_plan_say_what_they_share(page: Page) -> None:
    rows = panel(page, "studies").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("cifar")
    assert rows.nth(0).locator("td").nth(3).text_content() != "0 0 %"
    page.locator("label", has_text="study").locator("select").select_option("ablation")
    expect(page.locator(".tiles")).to_contain_text("Best val_loss")
    expect(page.locator("h1")).to_have_text("ablation")


def test_when_nothing_runs_it_says_so(page: Page) -> None:
    expect(panel(page, "next")).to_contain_text("Everything that was asked for is trained.")
    expect(page.locator(".link-state")).to_contain_text("a copy")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_nothing_keeps_people_from_using_it(
    browser: Browser, document: str, serious: Callable[[Page], list[Any]], scheme: Any, width: int
) -> None:
    context = browser.new_context(
        locale="en-US", viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(document)
    expect(page.locator("#parallel canvas")).to_have_count(1)
    faults = {"drawings": serious(page)}
    rows = page.locator("#trials tbody tr[tabindex]")
    rows.first.press("Enter")
    expect(page.locator(".detail h2")).to_contain_text("Trial")
    faults["a trial"] = serious(page)
    rows.nth(2).press("Shift+Enter")
    expect(page.locator(".detail h2")).to_contain_text(" and trial ")
    faults["two trials"] = serious(page)
    page.keyboard.press("Escape")
    for view in DRAWN:
        panel(page, view).get_by_role("button", name="Table").press("Enter")
    expect(page.locator("#tree tbody tr[tabindex]").first).to_be_attached()
    faults["tables"] = serious(page)
    page.locator("#tree tbody tr[tabindex]").first.press("Enter")
    expect(page.locator(".detail")).to_contain_text("shared by")
    faults["a stage"] = serious(page)
    page.locator("#timeline tbody tr[tabindex]").first.press("Enter")
    expect(page.locator(".detail h2")).to_contain_text("Worker")
    faults["a worker"] = serious(page)
    assert faults == {state: [] for state in faults}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_what_a_user_wrote_is_text_and_nothing_else(open_page: Open, tmp_path: Path) -> None:
    about = {**_about(), "trainer": "</script><script>document.title='pwned'</script><b>Net"}
    path = tmp_path / "written.html"
    path.write_text(alone({"about": about, "columns": {}, "incarnation": "x", "number": 0}))
    page = open_page(path.as_uri())
    expect(page.locator(".head")).to_contain_text("</script><script>")
    expect(panel(page, "tree")).to_contain_text("The tree grows with the first one.")
    assert page.title() == "cifar · Hippo"
