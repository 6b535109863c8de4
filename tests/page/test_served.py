"""The page of a server: studies of clients are watched, also when the server is killed and started again."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from hippotune import GridSearch, Study
from served.serving import ServerProcess, serving
from served.slow import SlowWalker

Open = Callable[..., Page]
ENDLESS = """
import time

import hippotune as hippo

class Endless(hippo.Trainer):
    def build(self): self.total = 0.0
    def setup(self, hp): self.lr = hp["lr"]
    def train(self):
        time.sleep(0.02)
        self.total += self.lr
    def evaluate(self): return {"total": self.total}

study = hippo.Study("endless", Endless, executor=hippo.Local(1))
tuner = hippo.GridSearch({"lr": [0.1]}, metric="total", mode="max", max_steps=1_000_000)
"""
SPACE = {"lr": [0.1, 0.2, 0.3], "bs": [16]}


def tuned(url: str, steps: int) -> threading.Thread:
    """Have a client tune a study on a server."""

    def tune() -> None:
        with Study("watched", SlowWalker, url=url, code="value") as study:
            study.tune(GridSearch(SPACE, metric="loss", mode="min", max_steps=steps), progress=False)

    thread = threading.Thread(target=tune)
    thread.start()
    return thread


def let_in(url: str, **headers: str) -> str:
    """Return an address that lets a browser in."""
    answer = httpx.post(f"{url}/logins", headers=headers)
    assert answer.status_code == 200
    return url + str(answer.json()["path"])


def test_a_study_on_a_server_is_watched_while_the_server_is_killed(open_page: Open, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "home") as server:
        client = tuned(server.url, 60)
        page = open_page(let_in(server.url))
        while page.locator("#tree canvas").count() == 0:  # until the study has a plan
            page.goto(let_in(server.url))
        expect(page.locator(".link-state")).to_contain_text("live")
        expect(page.locator("#tree")).to_contain_text("training now")
        server.kill()
        expect(page.locator(".banner")).to_contain_text("The server is gone.")
        server.start()
        expect(page.locator(".banner")).to_have_count(0)
        client.join()
        expect(page.locator(".tiles")).to_contain_text("3 done")
        expect(page.locator(".tile", has_text="Steps trained")).to_contain_text("100 %")


def test_a_study_on_a_server_is_stopped_by_its_page(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "endless.py"
    file.write_text(ENDLESS)
    with ServerProcess(tmp_path / "home") as server:
        submit = [sys.executable, "-m", "hippotune", "submit", str(file), "--url", server.url]
        subprocess.run(submit, check=True)
        page = open_page(let_in(server.url))
        while page.locator("#tree canvas").count() == 0:  # until the study has a plan
            page.goto(let_in(server.url))
        expect(page.locator("#tree")).to_contain_text("training now")
        page.get_by_role("button", name="Stop study").click()
        page.get_by_role("button", name="Yes").click()
        expect(page.locator(".head .said")).to_have_text("stopped")
        expect(page.locator(".tile", has_text="Workers busy")).to_contain_text("0 of 1")
        assert httpx.get(f"{server.url}/studies/endless").json()["state"] == "stopped"


def test_roles_count_on_the_page_too(tmp_path: Path) -> None:
    tokens = {"reader": ("read", "r" * 20), "writer": ("submit", "w" * 20)}
    file = tmp_path / "tokens"
    file.write_text("\n".join(f"{name} {role} {token}" for name, (role, token) in tokens.items()))
    file.chmod(0o600)
    with serving(tmp_path / "home", token_file=file) as running:
        assert httpx.post(f"{running.url}/logins").status_code == 401
        assert httpx.get(f"{running.url}/page/").status_code == 401
        assert httpx.get(f"{running.url}/page/", headers={"host": "evil.example"}).status_code == 400
        for name, (role, token) in tokens.items():
            with httpx.Client() as client:
                client.get(let_in(running.url, authorization=f"Bearer {token}"))
                session = client.get(f"{running.url}/page/any/session").json()
                headers = {"x-hippo-token": session["token"]}
                stop = {"kind": "stop study", "study": "x"}
                said = client.post(f"{running.url}/page/any/actions", json=stop, headers=headers)
                assert said.status_code == (403 if role == "read" else 409), name
