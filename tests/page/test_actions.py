"""What can be done on a page: every action in a real browser, and who may."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from playwright.sync_api import Page, expect

from hippotune.plan.facts import (
    CheckpointPinned,
    RequestMade,
    StudyEnded,
    StudyStopped,
    TrialStopped,
)
from hippotune.store.catalog import open_store
from processes import free_port, program
from stored import DECAYS, Asking, trained
from waiting import until
from watched_studies import Watched, watched

Open = Callable[..., Page]
F = TypeVar("F")

SLOW = """
import time
from pathlib import Path

import hippotune as hippo


class Slow(hippo.Trainer):
    def build(self): self.done = 0
    def setup(self, hp): self.lr = hp["lr"]
    def train(self):
        self.done += 1
        while self.done == 6 and not Path({gate!r}).exists():
            Path({there!r}).touch()
            time.sleep(0.01)
    def evaluate(self): return {{"done": self.done * self.lr}}


study = hippo.Study("slow", Slow, home={home!r}, executor=hippo.Local(workers=1), version="1")
tuner = hippo.GridSearch({{"lr": [0.1]}}, "done", "max", max_steps=100_000)
"""


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path) as made:
        yield made


def selected(page: Page, number: str) -> None:
    """Select a trial by its number."""
    expect(page.locator(".link-state")).to_contain_text("live")
    page.get_by_label("Filter the rows").fill(f"trial={number}")
    rows = page.locator("#trials tbody tr[tabindex]")
    expect(rows).to_have_count(1)
    rows.click()
    expect(page.locator(".detail h2")).to_contain_text(f"Trial {number}")


def test_a_branch_is_shown_with_its_cost_before_it_is_trained(open_page: Open, study: Watched) -> None:
    page = open_page(study.server.url)
    study.go(until=240)
    selected(page, "2")
    page.get_by_role("button", name="Branch from here…").click()
    form = page.locator("form.act")
    form.get_by_label("leave at step").fill("30")
    form.get_by_label("change").select_option("lr")
    form.get_by_label("to", exact=True).fill("Exponential(0.05, 0.9)")
    form.get_by_label("train to step").fill("50")
    expect(form).to_contain_text(".then(Exponential(0.05, 0.9)")
    expect(form).to_contain_text("to be trained of 50")
    form.get_by_label("to", exact=True).fill("open('/etc/passwd')")
    expect(form.locator(".said")).to_contain_text("expected one of")
    expect(form.locator(".cost")).to_have_count(0)
    form.get_by_label("to", exact=True).fill("0.01")
    form.get_by_role("button", name="Train it").click()
    expect(form.locator(".said")).to_contain_text("asked for, as trial 48")
    study.finish()
    expect(page.locator(".tiles")).to_contain_text("48 done")
    assert facts(study, RequestMade)[-1].step == 50


def test_the_step_of_a_branch_is_picked_on_a_curve(open_page: Open, study: Watched) -> None:
    page = open_page(study.server.url)
    study.go(until=240)
    selected(page, "2")
    page.get_by_role("button", name="Branch from here…").click()
    step = page.locator("form.act").get_by_label("leave at step")
    plot = page.locator("#curves .plot")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    caption = page.locator("#curves .caption")
    expect(caption).to_contain_text("is picked")
    picked = re.findall(r"step (\d+) is picked", caption.inner_text())[0]
    expect(step).to_have_value(picked)
    page.keyboard.press("ArrowLeft")
    expect(step).not_to_have_value(picked)
    box = page.locator("#curves .u-over").bounding_box()
    assert box is not None
    for part in (0.1, 0.3):
        page.mouse.click(box["x"] + part * box["width"], box["y"] + 8)  # beside all curves
        expect(step).to_have_value(str(round(part * 120)))
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_have_count(0)
    box = page.locator("#curves .u-over").bounding_box()  # there is more room now
    assert box is not None
    for part in range(50):  # from the top down to the first curve
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + part * box["height"] / 50)
        if page.locator("#curves .caption", has_text="lit up").count():
            break
    page.mouse.down()
    page.mouse.up()
    expect(page.locator(".detail")).to_be_visible()


def test_a_trial_is_trained_further(open_page: Open, study: Watched) -> None:
    page = open_page(study.server.url)
    study.go(until=100)
    selected(page, "1")
    page.get_by_role("button", name="Train further…").click()
    form = page.locator("form.act")
    form.get_by_label("train to step").fill("130")
    form.get_by_role("button", name="Train it").click()
    expect(form.locator(".said")).to_contain_text("asked for, as trial 1")
    expect(page.locator(".detail .sub").first).to_contain_text("of 130 steps")
    study.finish()
    expect(page.locator(".detail .sub").first).to_contain_text("130 of 130 steps")


def test_a_trial_is_stopped_and_the_study_goes_on(open_page: Open, study: Watched) -> None:
    study.go(until=240)
    until(study.has_stopped)  # a trial that is done before it is selected could not be stopped
    page = open_page(study.server.url)
    page.get_by_label("Filter the rows").fill("running")
    page.locator("#trials tbody tr[tabindex]").first.click()
    page.get_by_role("button", name="Stop this trial").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator(".detail .sub").first).to_contain_text("stopped")
    expect(page.locator(".tiles")).to_contain_text("1 stopped")
    study.finish()
    assert len(facts(study, TrialStopped)) == 1


def test_a_checkpoint_is_pinned_and_let_go(open_page: Open, study: Watched) -> None:
    page = open_page(study.server.url)
    study.go(until=240)
    expect(page.locator(".link-state")).to_contain_text("live")
    page.locator("#tree").get_by_role("button", name="Table").click()
    page.locator("#tree tbody tr[tabindex]").first.click()
    detail = page.locator(".detail")
    for press, after in (("Pin", "pinned"), ("Unpin", "Pin")):
        detail.get_by_role("button", name=press, exact=True).first.click()
        detail.get_by_role("button", name="Yes").click()
        expect(detail.locator(".list").last).to_contain_text(after)
    assert [fact.pinned for fact in facts(study, CheckpointPinned)] == [True, False]


@contextmanager
def opened_at_last(gate: Path) -> Iterator[None]:
    """Let training through a gate when the block ends, however it does."""
    try:
        yield
    finally:
        gate.touch()


def test_a_study_is_stopped_at_the_end_of_its_running_steps(open_page: Open, tmp_path: Path) -> None:
    file, home, gate, there = (tmp_path / name for name in ("slow.py", "home", "gate", "there"))
    file.write_text(SLOW.format(home=str(home), gate=str(gate), there=str(there)))
    with (
        program("run", str(file), "--page", "--no-progress", "--port", free_port()) as (url, running),
        opened_at_last(gate),
    ):
        page = open_page(url)
        until(there.exists)
        page.get_by_role("button", name="Stop study").click()
        page.get_by_role("button", name="Yes").click()
        head = page.locator(".head")
        expect(head).to_contain_text("stopping at the end of the running steps")
        expect(head.get_by_role("button", name="Stop study")).to_have_count(0)
        expect(page.locator(".tile", has_text="Workers")).to_contain_text("1 of 1")
        answer = page.request.post(
            f"{page.url}actions",
            data={"kind": "stop study", "study": "slow"},
            headers={"x-hippo-token": page.request.get(f"{page.url}session").json()["token"]},
        )
        assert answer.ok, "asked twice, it is not ended the hard way"
        gate.touch()
        expect(page.locator(".link-state")).to_contain_text("ended")
        assert running.wait(timeout=120) == 130
    with open_store(home) as catalog:
        log = [fact for _, fact in catalog.view(catalog.studies()[0].key).facts()]
    assert [fact.study for fact in log if isinstance(fact, StudyStopped)] == ["slow"]
    assert [fact.outcome for fact in log if isinstance(fact, StudyEnded)] == ["interrupted"]


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_keeps_people_from_acting(
    open_page: Open, study: Watched, serious: Callable[[Page], list[object]], width: int
) -> None:
    page = open_page(study.server.url)
    page.set_viewport_size({"width": width, "height": 900})
    assert serious(page) == [], "before the first trial"
    study.go(until=240)
    selected(page, "2")
    page.get_by_role("button", name="Branch from here…").press("Enter")
    form = page.locator("form.act")
    form.get_by_label("leave at step").fill("30")
    form.get_by_label("to", exact=True).fill("0.01")
    form.get_by_label("train to step").fill("50")
    expect(form).to_contain_text("to be trained of")
    page.get_by_role("button", name="Stop study").press("Enter")
    expect(page.get_by_role("button", name="Yes")).to_be_visible()
    assert serious(page) == []


def test_nothing_is_done_for_other_sites_or_for_those_who_may_only_look(
    study: Watched, tmp_path: Path
) -> None:
    stop = {"kind": "stop study", "study": "cifar"}
    with httpx.Client(follow_redirects=True) as client:
        base = str(client.get(study.server.url).url)
        assert client.post(base + "actions", json=stop).status_code == 403
        session = client.get(base + "session").json()
        assert session["acts"]
        headers = {"x-hippo-token": session["token"]}
        said = client.post(base + "actions", json={"kind": "dance"}, headers=headers)
        assert said.status_code == 422
        assert "unknown action {'kind': 'dance'}; expected kind to be" in said.json()["error"]
        for body in ("nonsense", "[]", '"text"'):
            assert client.post(base + "actions", content=body, headers=headers).status_code == 422
        assert client.post(base + "actions", content=b" " * 2_000_000, headers=headers).status_code == 413
    trained("falling", tmp_path / "home", Asking(DECAYS[:1], 3))
    show = ("show", "falling", "--home", str(tmp_path / "home"), "--web", "--port", free_port())
    with program(*show) as (url, _), httpx.Client(follow_redirects=True) as client:
        base = str(client.get(url).url)
        session = client.get(base + "session").json()
        assert not session["acts"]
        headers = {"x-hippo-token": session["token"]}
        assert client.post(base + "actions", json=stop, headers=headers).status_code == 403
    assert not facts(study, StudyStopped)


def facts(study: Watched, kind: type[F]) -> list[F]:
    """Return the facts of a kind in the plan's log."""
    store = study._study._connection.open().store
    return [fact for _, fact in store.facts() if isinstance(fact, kind)]
