"""The log of a plan over HTTP: listed, followed, and refused to cursors of another incarnation."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx

from hippotune import Study
from hippotune.protocol.wire import decode_fact
from hippotune.serve.client.api import Api, EventReader
from hippotune.serve.client.facts import read_facts
from served.serving import Running, serving
from study.walkers import Walker
from waiting import until


def followed(url: str, heard: list[str], until: threading.Event) -> None:
    with httpx.stream("GET", url, headers={"accept": "text/event-stream"}, timeout=120) as response:
        reader = EventReader()
        for line in response.iter_lines():
            if (event := reader.take(line)) is not None:
                heard.append(event.number)
                decode_fact(event.data)
            if until.is_set():
                return


def evaluated(running: Running, *rates: float) -> str:
    with Study("test", Walker, url=running.url, tuner="client", code="value") as study:
        for rate in rates:
            study.eval({"lr": rate, "bs": 16}, 3)
        return study.key.digest


def test_facts_are_listed_and_followed_each_once_and_in_order(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        key = evaluated(running, 0.1)
        address = f"{running.url}/plans/{key}/facts"
        page = httpx.get(address, timeout=60).json()
        assert [line["number"] for line in page["facts"]] == list(range(1, page["last"] + 1))
        some = httpx.get(f"{address}?after=2&limit=3", timeout=60).json()
        assert [line["number"] for line in some["facts"]] == [3, 4, 5]
        heard: list[str] = []
        enough = threading.Event()
        thread = threading.Thread(target=followed, args=[address, heard, enough], daemon=True)
        thread.start()
        until(lambda: len(heard) >= page["last"])
        evaluated(running, 0.2, 0.3)
        last = httpx.get(address, timeout=60).json()["last"]
        assert last > page["last"]
        until(lambda: len(heard) >= last)
        enough.set()
        assert heard == [f"{page['incarnation']}:{number}" for number in range(1, len(heard) + 1)]
        plan = read_facts(Api(running.url), key).plan
        assert [dict(node.metrics)[3][1]["loss"] > 0 for node in plan.nodes] == [True] * 3


def test_a_cursor_of_another_incarnation_begins_anew(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        key = evaluated(running, 0.1)
        address = f"{running.url}/plans/{key}/facts"
        incarnation = httpx.get(address, timeout=60).json()["incarnation"]

        def status(cursor: str) -> int:
            return httpx.get(address, headers={"last-event-id": cursor}, timeout=60).status_code

        assert status(f"{incarnation}:1") == 200
        listed = httpx.get(address, headers={"last-event-id": f"{incarnation}:2"}, timeout=60).json()
        assert listed["facts"][0]["number"] == 3
        assert status(f"{incarnation}:x") == 410
        assert status(f"{incarnation}:") == 410
        assert status(f"{incarnation}:{10**30}") == 410
        assert status("another:1") == 410
        assert status(f"{incarnation}:999999") == 410
        assert httpx.get(f"{running.url}/plans/nothing/facts", timeout=60).status_code == 404
