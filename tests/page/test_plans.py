"""Pages of all plans of a home, some of which are open."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from hippotune.page.app import page_app
from hippotune.page.login import Logins, Visitor
from hippotune.page.plans import HomePlans
from hippotune.store.catalog import open_store
from stored import DECAYS, Asking, study, trained


def test_every_plan_of_a_home_has_its_page_below_where_it_is_mounted(tmp_path: Path) -> None:
    trained("one", tmp_path, Asking(DECAYS[:1], 3))
    trained("two", tmp_path, Asking(DECAYS[:2], 3), seed=7)
    with open_store(tmp_path) as catalog, study("two", tmp_path, seed=7) as opened:
        keys = {info.name: info.key.digest for info in catalog.studies()}
        runtime = opened._connection.open()
        stopped: list[tuple[str, str]] = []

        async def stop(study: str, by: str) -> None:
            stopped.append((study, by))

        plans = HomePlans(lambda: open_store(tmp_path), tmp_path, {keys["two"]: runtime}.get, stop)
        logins = Logins(lambda: b"key")
        app = Starlette(routes=[Mount("/page", page_app(plans, logins))])
        asyncio.run(looked_at(app, plans, logins, keys))
    assert stopped == [("two", "kim")]


async def looked_at(app: Any, plans: HomePlans, logins: Logins, keys: dict[str, str]) -> None:
    transport = httpx.ASGITransport(app)
    base = "http://localhost/page/"
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        page = await client.get(f"{base}login", params={"code": logins.code(Visitor("kim", "submit"))})
        assert str(page.url) == f"{base}{keys['two']}/"
        code = logins.code(Visitor("kim", "submit"))
        page = await client.get(f"{base}login", params={"code": code, "plan": keys["one"]})
        assert str(page.url) == f"{base}{keys['one']}/"
        for name, key in keys.items():
            snapshot = (await client.get(f"{base}{key}/snapshot")).json()
            assert snapshot["about"]["study"] == name
            others = {other: of for other, of in keys.items() if other != name}
            assert {each["name"]: each["plan"] for each in snapshot["about"]["others"]} == others
            assert len(snapshot["columns"]["trials"]["number"]) == (1 if name == "one" else 2)
        assert (await client.get(f"{base}nothing/snapshot")).status_code == 404
        session = (await client.get(f"{base}{keys['two']}/session")).json()
        assert session["acts"]
        assert not (await client.get(f"{base}{keys['one']}/session")).json()["acts"]
        headers = {"x-hippo-token": session["token"]}
        stop = json.dumps({"kind": "stop study", "study": "two"})
        for name, status in (("two", 200), ("one", 409)):
            said = await client.post(f"{base}{keys[name]}/actions", content=stop, headers=headers)
            assert said.status_code == status
        feed = await plans.feed(keys["two"])
        assert feed is not None
        place = (await client.get(f"{base}{keys['two']}/snapshot")).json()
        stream = feed.follow(f"{place['incarnation']}:{place['number']}")
        heard = b""
        while b"event: pulse" not in heard:
            heard += await anext(stream)
        assert json.loads(heard.split(b"data: ")[-1])["leases"] == []
        left = await plans.feed(keys["one"])
        await plans.close_unused()
        assert await plans.feed(keys["one"]) is left
        for _ in range(2):
            await plans.close_unused()
        assert await plans.feed(keys["one"]) is not left, "nobody has looked at it for long"
        assert await plans.feed(keys["two"]) is feed, "it is followed"
    await plans.close()
