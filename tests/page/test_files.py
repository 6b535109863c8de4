"""The page as one file, and a copy of Hippo that has no page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

import hippotune
from hippotune.cli.main import main
from processes import free_port, program
from stored import DECAYS, Asking, trained


def test_an_exported_file_needs_no_network(browser: Browser, tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "sent" / "falling.html"
    trained("falling", home, Asking([*DECAYS[:2], {"lr": 0.5, "weight": 10}], 6))
    file.parent.mkdir()
    assert main(["export", "falling", "--home", str(home), "--html", str(file)]) == 0
    shutil.rmtree(home)
    context = browser.new_context(locale="en-US", offline=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    expect(page.locator(".tiles")).to_contain_text("2 done")
    expect(page.locator(".failures")).to_contain_text("a weight of 10 is too much")
    expect(page.locator(".link-state")).to_contain_text("a copy")
    expect(page.get_by_role("button", name="Stop study")).to_have_count(0)
    page.locator("#trials tbody tr[tabindex]").first.click()
    expect(page.locator(".detail")).to_contain_text("Metrics")
    assert {url for url in asked if not url.startswith("data:")} == {file.as_uri()}
    context.close()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of Hippo for which the page was not built."""
    folder = tmp_path_factory.mktemp("bare")
    package = Path(hippotune.__file__).parent
    shutil.copytree(package, folder / "hippotune", ignore=shutil.ignore_patterns("static", "__pycache__"))
    return folder


@pytest.mark.parametrize(
    "command", [("show", "falling", "--web"), ("export", "falling", "--html", "falling.html")]
)
def test_commands_say_that_the_page_is_not_built(
    bare: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    trained("falling", tmp_path / "home", Asking(DECAYS[:1], 3))
    done = subprocess.run(
        [sys.executable, "-m", "hippotune", *command, "--home", str(tmp_path / "home")],
        env={**os.environ, "PYTHONPATH": str(bare)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "the page is not built" in done.stderr
    assert "make page" in done.stderr
    assert not (tmp_path / "falling.html").exists()


def test_a_server_says_that_the_page_is_not_built(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    trained("falling", home, Asking(DECAYS[:1], 3))
    monkeypatch.chdir(tmp_path)
    serve = ("serve", "--home", str(home), "--port", free_port(), "--executor", "local:1")
    with program(*serve, path=bare) as (url, _):
        login = httpx.post(f"{url}/logins").json()["path"]
        with httpx.Client(follow_redirects=True) as client:
            said = client.get(url + login)
        assert said.status_code == 503
        assert "the page is not built" in said.text
