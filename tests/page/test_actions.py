"""What can be done on a page: every action in a real browser, and who may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from playwright.sync_api import Page, expect

from hippotune.plan.facts import CheckpointPinned, RequestMade, StudyStopped, TrialStopped
from processes import free_port, program
from stored import DECAYS, Asking, trained
from watched_studies import Watched, watched

Open = Callable[..., Page]
F = TypeVar("F")


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
    page = open_page(study.server.url)
    study.go(until=240)
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
        assert "expected kind to be" in said.json()["error"]
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
