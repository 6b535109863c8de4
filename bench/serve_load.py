"""Many clients of one server at once: coroutines that submit, and followers of the log."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

import httpx
import psutil

from hippotune.serve.client.api import Api, AsyncApi, EventReader, ServerLost
from hippotune.serve.client.code import send_code
from hippotune.serve.definition import Definition, PlanOpened
from serve_rig import ServerProcess, Trivial


class Client:
    """One session: submits trials one after the other, each when the last is answered."""

    def __init__(self, number: int, api: AsyncApi, key: str, trials: int) -> None:
        self._number = number
        self._api = api
        self._address = f"/plans/{key}/sessions/{uuid.uuid4().hex}"
        self._trials = trials
        self.answers: list[tuple[int, float]] = []

    async def run(self) -> None:
        await self._api.call("PUT", self._address, {"study": f"load-{self._number}"})
        await self._say(1, {"type": "begin"})
        async with self._api.events(f"{self._address}/items?pulses=60", "") as events:
            await self._ask(0)
            async for event in events:
                for item in json.loads(event.data) if not event.kind else []:
                    if item["type"] == "answer" and item.get("final", True):
                        self.answers.append((item["request"], item["metrics"]["loss"]))
                        if len(self.answers) == self._trials:
                            await self._api.call("DELETE", self._address)
                            return
                        await self._ask(len(self.answers))

    async def _ask(self, trial: int) -> None:
        lr = 0.001 * (1 + (self._number * 7 + trial) % 400)  # others ask for the same
        request = {"id": trial, "trial": trial, "config": {"lr": lr}, "step": 1}
        await self._say(trial + 2, {"type": "submit", "requests": [request]})

    async def _say(self, number: int, message: dict[str, Any]) -> Any:
        body = {"first": number, "messages": [message]}
        while True:
            try:
                return await self._api.call("POST", f"{self._address}/messages", body)
            except ServerLost:  # sending again changes nothing
                await asyncio.sleep(0.05)


async def follow(url: str, key: str, numbers: list[int]) -> None:
    """Follow the log until cancelled, and note the numbers of facts."""
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("GET", f"{url}/plans/{key}/facts?follow=1") as response,
    ):
        reader = EventReader()
        async for line in response.aiter_lines():
            if (event := reader.take(line)) is not None:
                numbers.append(int(event.number.rpartition(":")[2]))


async def load(server: ServerProcess, clients: int, trials: int, followers: int) -> dict[str, Any]:
    """Have clients submit and followers follow; return what the server says of it."""
    api = Api(server.url)
    code = send_code(api, Trivial, "value", [])
    opened: PlanOpened = api.call("POST", "/plans", Definition("load", code, audit=0.0), PlanOpened)
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    heard: list[list[int]] = [[] for _ in range(followers)]
    follows = [asyncio.create_task(follow(server.url, opened.key, each)) for each in heard]
    lags: list[float] = []
    watch = asyncio.create_task(_watch(server.url, lags))
    began = time.monotonic()
    shared = api.asynchronous()
    working = [Client(each, shared, opened.key, trials) for each in range(clients)]
    halfway = asyncio.create_task(_halfway(working, clients * trials // 2, process))
    await asyncio.gather(*(client.run() for client in working))
    seconds = time.monotonic() - began
    after = process.memory_info().rss
    watch.cancel()
    last = httpx.get(f"{server.url}/plans/{opened.key}/facts?limit=1", timeout=60).json()["last"]
    until = time.monotonic() + 60
    while any(not each or each[-1] < last for each in heard) and time.monotonic() < until:
        await asyncio.sleep(0.1)
    for task in follows:
        task.cancel()
    await asyncio.gather(*follows, return_exceptions=True)
    numbers = httpx.get(f"{server.url}/metrics", timeout=60).text
    return {
        "load_clients": clients,
        "load_trials": clients * trials,
        "load_seconds": seconds,
        "submit_p99_ms": 1000 * quantile(numbers, "/plans/{key}/sessions/{id}/messages", 0.99),
        "loop_lag_ms": 1000 * max(lags),
        "memory_first_half_mb": (await halfway - before) / 1e6,
        "memory_second_half_mb": (after - await halfway) / 1e6,
        "facts": last,
        "followers_right": sum(each == list(range(1, last + 1)) for each in heard),
    }


async def _halfway(clients: list[Client], answers: int, process: psutil.Process) -> int:
    """Return the memory that a process has when there are this many answers."""
    while sum(len(client.answers) for client in clients) < answers:
        await asyncio.sleep(0.05)
    return int(process.memory_info().rss)


async def _watch(url: str, lags: list[float]) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        while True:
            text = (await client.get(f"{url}/metrics")).text
            lags += [
                float(line.split()[1]) for line in text.splitlines() if line.startswith("hippo_loop_lag")
            ]
            await asyncio.sleep(1)


def quantile(text: str, route: str, part: float) -> float:
    """Return a quantile of the time of requests, within the buckets of a histogram."""
    buckets = []
    for line in text.splitlines():
        if line.startswith("hippo_request_seconds_bucket") and f'route="{route}"' in line and '"200"' in line:
            edge = line.split('le="')[1].split('"')[0]
            buckets.append((float(edge), float(line.split()[-1])))
    wanted, low, below = part * buckets[-1][1], 0.0, 0.0
    for edge, count in buckets:
        if count >= wanted:
            return low + (edge - low) * (wanted - below) / max(count - below, 1e-9)
        low, below = edge, count
    return low
