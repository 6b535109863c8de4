"""What the page costs: those who load it, those who look at it, and the engine that it follows.

Pages are looked at in a real browser, and are served as `hippo run --page` serves them.

Bars:
  all scripts and styles have at most 120 kB, compressed by gzip;
  a study of 10,000 trials is drawn, and answers to a click, 2 s after its page was asked for;
  while 1,000 facts come in a second, the page draws at least 30 frames a second;
  the engine's thread takes at most 5 % more CPU time with ten followers over HTTP than with none.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import Bar, Figures, run
from hippotune import Grid, Study
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.metrics import MadeUp
from hippotune.page.bundle import STATIC, asset
from hippotune.page.running import page_of
from hippotune.page.server import PageServer
from hippotune.plan.facts import Fact, MetricsRecorded, NodeAdded, Position, RequestMade, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from chromium import launched
from scale import STEPS, space
from watched_studies import NAMES, RATES, Net, halving

BARS = [
    Bar("kilobytes", "at most", 120),
    Bar("seconds_until_usable", "at most", 2),
    Bar("frames_per_second", "at least", 30),
    Bar("engine_cpu_ratio", "at most", 1.05),
]
FACTS_A_SECOND = 1000
FOLLOWERS = 10
_FRAMES = """seconds => new Promise(done => {
    const began = performance.now();
    let frames = 0;
    const next = now => {
        if (now - began > 1000 * seconds) return done(frames / seconds);
        frames++;
        requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
})"""
_FOLLOWER = """
import os, sys, threading, httpx
def follow(base, cookies):
    place = httpx.get(base + "snapshot", cookies=cookies).json()
    after = f"{place['incarnation']}:{place['number']}"
    more = {"params": {"after": after}, "cookies": cookies, "timeout": None}
    with httpx.stream("GET", base + "events", **more) as stream:
        os.write(1, b"following\\n")  # at once: ten of them write
        for _ in stream.iter_raw():
            pass
with httpx.Client(follow_redirects=True) as client:
    base = str(client.get(sys.argv[1]).url)
    cookies = dict(client.cookies)
for _ in range(int(sys.argv[2])):
    threading.Thread(target=follow, args=(base, cookies)).start()
"""


def kilobytes() -> float:
    return sum(len(gzip.compress(asset(name).encode(), 9)) for name in STATIC) / 1000


class Made:
    """A plan whose facts are made up: trials of a large space, their results and their workers' time."""

    def __init__(self, trials: int) -> None:
        self._facts = self._make()
        self.log: list[Fact] = []
        configs = 0
        while configs < trials:
            self.log.append(next(self._facts))
            configs += isinstance(self.log[-1], RequestMade)
        self.since: float | None = None

    def _make(self) -> Iterator[Fact]:
        plan, curves, order = Plan(), MadeUp(0), itertools.count(1)
        for number, config in enumerate(space(30)):
            node, added = plan.place(config, STEPS)
            yield from added
            yield RequestMade("made", number, config, STEPS)
            for step in (30, 60, STEPS):
                at = node.holder(step)
                if step not in at.metrics:
                    metrics = curves(config, step, NAMES)
                    at.set_metrics(step, 0, metrics)
                    yield MetricsRecorded(next(order), Position(at.id, step), metrics)
            if isinstance(added[-1] if added else None, NodeAdded):
                began = float(number // 64)
                yield SpanRecorded(
                    number % 64, number, node.id, "train", node.start, STEPS, began, began + 0.9
                )

    def grow(self) -> None:
        """Let facts come from now on."""
        self.since = time.monotonic()

    def incarnation(self) -> str:
        return "made"

    def about(self) -> dict[str, Any]:
        return {"plan": "made", "trainer": "Made", "study": "made", "studies": []}

    def facts(self, after: int) -> Iterator[tuple[int, Fact]]:
        if self.since is not None:
            due = int((time.monotonic() - self.since) * FACTS_A_SECOND)
            self.since += due / FACTS_A_SECOND
            self.log += itertools.islice(self._facts, due)
        return iter(list(enumerate(self.log[after:], after + 1)))

    def pulse(self) -> None:
        return

    def detail(self, node: Node, step: int) -> dict[str, Any]:
        return {}


def looked_at(trials: int) -> tuple[float, float]:
    """Return the seconds until a page of `trials` trials is usable, and frames a second while facts come."""
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        large = Made(trials)
        with PageServer("made", large, Path(folder), port=0) as server:
            page = browser.new_page(locale="en-US", viewport={"width": 1440, "height": 900})
            page.goto("about:blank")
            began = time.monotonic()
            page.goto(server.url)
            page.locator("#trials tbody tr[tabindex]").first.click()
            page.locator(".detail").wait_for()
            page.evaluate(
                "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
            usable = time.monotonic() - began
            page.close()
        small = Made(200)
        with PageServer("made", small, Path(folder), port=0) as server:
            page = browser.new_page(locale="en-US", viewport={"width": 1440, "height": 900})
            page.goto(server.url)
            page.locator("#tree canvas").wait_for()
            small.grow()
            frames = page.evaluate(_FRAMES, 8)
            page.close()
    return usable, frames


def engine_seconds(followers: int, trials: int) -> tuple[float, float]:
    """Return the CPU seconds of the engine's thread and of its process, for a study with followers."""
    decays = [1e-5 * (1 + number) for number in range(trials // len(RATES))]
    tuner = halving(Grid({"lr": RATES, "wd": decays}))
    executor = Simulated(
        64, seconds_per_step=1.0, metrics=lambda config, step: MadeUp(0)(config, step, NAMES)
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        Study("followed", Net, home=folder, executor=executor, exact=False, version="1") as study,
        page_of(study, tuner, port=0) as server,
    ):
        runtime = study._connection.open()
        program = [sys.executable, "-c", _FOLLOWER, server.url, str(followers)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            for _ in range(followers):
                assert reader.stdout.readline() == "following\n"
            before = runtime.ask(time.thread_time), time.process_time()
            study.tune(tuner, progress=False)
            seconds = runtime.ask(time.thread_time) - before[0], time.process_time() - before[1]
            server.close()
    return seconds


def measure(options: argparse.Namespace) -> Figures:
    usable, frames = looked_at(options.trials)
    alone, followed = [], []
    for _ in range(options.rounds):
        alone.append(engine_seconds(0, options.followed))
        followed.append(engine_seconds(FOLLOWERS, options.followed))
    return {
        "kilobytes": kilobytes(),
        "trials": options.trials,
        "seconds_until_usable": usable,
        "frames_per_second": frames,
        "engine_cpu_alone": min(alone)[0],
        "engine_cpu_followed": min(followed)[0],
        "engine_cpu_ratio": min(followed)[0] / min(alone)[0],
        "process_cpu_ratio": min(cpu for _, cpu in followed) / min(cpu for _, cpu in alone),
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=10_000, help="trials on the page that is drawn")
    parser.add_argument("--followed", type=int, default=2_000, help="trials of the study that is followed")
    parser.add_argument("--rounds", type=int, default=3, help="studies with and without followers, in turns")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
