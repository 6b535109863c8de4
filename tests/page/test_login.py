"""Who may see a page."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hippotune.errors import StoreError
from hippotune.page.login import Logins, Visitor, kept_key
from watched_studies import watched


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with watched(tmp_path_factory.mktemp("home")) as study:
        yield study.server.address, study.server.url


def test_only_the_address_that_was_printed_lets_in_and_only_once(address: tuple[str, str]) -> None:
    base, url = address
    for path in ("", "x/", "x/snapshot", "x/events", "x/session", "x/static/page.js"):
        assert httpx.get(base + path).status_code == 401
    assert httpx.get(base + "login?code=guessed").status_code == 403
    with httpx.Client(follow_redirects=True) as client:
        page = client.get(url)
        assert page.status_code == 200
        cookie = page.history[0].headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert client.get(str(page.url) + "snapshot").json()["about"]["study"] == "cifar"
        assert client.get(str(page.url) + "static/../login.py").status_code == 404
        assert client.get(base + "elsewhere/snapshot").status_code == 404
    assert httpx.get(url).status_code == 403


def test_another_host_is_refused(address: tuple[str, str]) -> None:
    assert httpx.get(address[0], headers={"host": "evil.example"}).status_code == 400


def test_sessions_outlive_the_server_and_cannot_be_forged(tmp_path: Path) -> None:
    key = kept_key(tmp_path)
    assert (tmp_path / "page.key").stat().st_mode & 0o777 == 0o600
    logins = Logins(lambda: key)
    session = logins.redeem(logins.code(Visitor("kim", "submit")))
    assert session is not None
    cookies = {"hippo_page": session}
    after = Logins(lambda: kept_key(tmp_path))
    assert after.visitor(cookies) == Visitor("kim", "submit")
    assert after.is_own(cookies, {"x-hippo-token": logins.token(cookies)})
    assert not after.is_own(cookies, {})
    text, _, signature = session.rpartition(".")
    for forged in ("", "x", f"{text}x.{signature}", f"{text}.{signature[:-1]}0g"):
        assert after.visitor({"hippo_page": forged}) is None
    assert Logins(lambda: b"another").visitor(cookies) is None


def test_a_cookie_or_a_token_of_any_characters_is_not_believed() -> None:
    logins = Logins(lambda: b"key")
    assert logins.visitor({"hippo_page": "Zürich.Zürich"}) is None
    assert not logins.is_own({}, {"x-hippo-token": "Zürich"})


def test_a_key_is_whole_or_not_there_whoever_else_makes_one_or_is_killed_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = secrets.token_bytes

    def killed(_: int) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(secrets, "token_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        kept_key(tmp_path)
    others: list[bytes] = []

    def while_another_comes(size: int) -> bytes:
        monkeypatch.setattr(secrets, "token_bytes", draw)
        others.append(kept_key(tmp_path))
        return draw(size)

    monkeypatch.setattr(secrets, "token_bytes", while_another_comes)
    assert [kept_key(tmp_path)] == others
    assert [path.name for path in tmp_path.iterdir()] == ["page.key"]


def test_a_key_that_is_no_key_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "page.key").write_bytes(b"short")
    with pytest.raises(StoreError, match="remove it, and log in again"):
        kept_key(tmp_path)
