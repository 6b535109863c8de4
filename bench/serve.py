"""A server for plans: what sharing saves between clients, what HTTP costs, and what kills and cuts change.

* Several client processes with overlapping spaces, submitted while the server holds: the steps trained are
  the unique steps of the union, and every client's results are those of its study alone, bit for bit.
* The same clients one after the other, each while the others train: the steps trained are those of the union
  and those that the log shows to be trained again, because what they start from was not kept.
* 100 trivial trials through a server that runs, beside the same in one process.
* 100 clients, coroutines of one generator, that submit 100 trials each, one by one, and ten followers of the
  log: times by the server's own clock.
* Server and clients are killed at random moments, and a proxy cuts their streams: same answers.

Bars:
  steps trained beside the union's, and beside those trained again: none; clients whose results differ: none;
  100 trials take at most 1.5 times as long as in one process;
  a submit takes at most 50 ms (99 %), and the event loop lags at most 20 ms;
  the server's memory grows by at most 20 MB in the second half of that; all ten followers get every fact,
  once, in order;
  clients whose results differ after kills and cuts: none; numbers in the logs of their plans that are not the
  next ones, and results that are recorded twice: none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune.plan.facts import MetricsRecorded
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.wire import decode_fact
from hippotune.serve.bodies import CatalogLine, FactPage
from hippotune.serve.client.api import Api
from hippotune.serve.client.facts import read_facts
from serve_load import load
from serve_rig import (
    STEPS,
    ClientProcess,
    CuttingProxy,
    ServerProcess,
    Trivial,
    run_client,
    space_of,
    tuner_of,
)

# Where the tuners of clients are that are killed.
TUNERS = ("client", "server")
BARS = {
    "held": [Bar("steps_beside_the_union", "at most", 0), Bar("results_that_differ", "at most", 0)],
    "staggered": [Bar("steps_unaccounted_for", "at most", 0), Bar("staggered_that_differ", "at most", 0)],
    "overhead": [Bar("times_in_process", "at most", 1.5)],
    "load": [
        Bar("submit_p99_ms", "at most", 50),
        Bar("loop_lag_ms", "at most", 20),
        Bar("memory_second_half_mb", "at most", 20),
        Bar("followers_right", "at least", 10),
    ],
    "kills": [Bar("differ_after_kills", "at most", 0), Bar("faults_in_logs", "at most", 0)],
}


def alone(number: int, folder: Path) -> list[Any]:
    """Return what a client's study comes to by itself, in one process."""
    return run_client(number, 0.0, "", home=folder / f"alone-{number}", executor=hippo.Local(1))


def union(clients: int) -> tuple[int, int]:
    """Return the steps that clients ask for, and the unique ones of all together."""
    plan = Plan()
    configs = [config for number in range(clients) for config in tuner_of(number).space.configs()]
    asks = [(plan.place(config, STEPS)[0], STEPS) for config in configs]
    return len(asks) * STEPS, unique_steps(asks)


def plans_of(api: Api) -> set[str]:
    """Return all plans of a server; those without a client are closed by now."""
    return {line.key.made().digest for line in api.call("GET", "/catalog", None, list[CatalogLine])}


def trained_steps(server: ServerProcess) -> Counter[tuple[str, int, int]]:
    """Return how often each step of each plan was trained, by the logs."""
    api = Api(server.url)
    return Counter(
        (key, span.node, step)
        for key in plans_of(api)
        for span in read_facts(api, key).store.spans()
        if span.kind == "train"
        for step in range(span.first, span.last)
    )


def faults_in_logs(server: ServerProcess) -> int:
    """Count numbers of facts that are not the next ones, and results that are recorded twice."""
    api, faults = Api(server.url), 0
    for key in plans_of(api):
        page: FactPage = api.call("GET", f"/plans/{key}/facts?limit=10000", None, FactPage)
        faults += sum(line.number != number for number, line in enumerate(page.facts, 1))
        faults += page.last - len(page.facts)
        facts = [decode_fact(bytes(line.fact)) for line in page.facts]
        results = Counter(fact.position for fact in facts if isinstance(fact, MetricsRecorded))
        faults += results.total() - len(results)
    return faults


def held(clients: int, folder: Path) -> dict[str, Any]:
    """Submit studies while the server holds, and let it train them."""
    with ServerProcess(folder / "home", "--hold") as server:
        processes = [ClientProcess(number, server.url) for number in range(clients)]
        trials = sum(len(space_of(number)["lr"]) for number in range(clients))
        while sum(plan["requests"] for plan in server.get("/plans")) < trials:
            time.sleep(0.05)
        httpx.post(f"{server.url}/release")
        results = [process.results() for process in processes]
        trained = trained_steps(server).total()
    asked, unique = union(clients)
    differ = sum(result != alone(number, folder) for number, result in enumerate(results))
    return {
        f"asked_{clients}": asked,
        f"unique_{clients}": unique,
        f"trained_{clients}": trained,
        f"ratio_{clients}": asked / trained,
        f"q_{clients}": asked / unique,
        f"differ_{clients}": differ,
    }


def staggered(clients: int, folder: Path) -> dict[str, Any]:
    """Start studies one after the other, each while the others train."""
    with ServerProcess(folder / "home") as server:
        processes = []
        for number in range(clients):
            processes.append(ClientProcess(number, server.url, seconds=0.05))
            while trained_steps(server).total() < 3 * number:
                time.sleep(0.05)
        results = [process.results() for process in processes]
        steps = trained_steps(server)
    again = steps.total() - len(steps)
    differ = sum(result != alone(number, folder) for number, result in enumerate(results))
    return {
        f"staggered_trained_{clients}": steps.total(),
        f"staggered_again_{clients}": again,
        f"unaccounted_{clients}": abs(steps.total() - union(clients)[1] - again),
        f"differ_{clients}": differ,
    }


def overhead(folder: Path, repeat: int) -> dict[str, Any]:
    """Time 100 trivial trials in one process, and through a server that runs."""
    space = {"lr": [0.001 * (1 + trial) for trial in range(100)]}

    def timed(study: hippo.Study) -> float:
        with study:
            study.eval({"lr": 1.0}, 1)  # workers are up, and the rehearsal is over
            began = time.monotonic()
            study.tune(hippo.GridSearch(space, metric="loss", mode="min", max_steps=STEPS), progress=False)
            return time.monotonic() - began

    here, there = [], []
    with ServerProcess(folder / "home") as server:
        for seed in range(repeat):
            local = {"home": folder / "in-process", "executor": hippo.Local(2)}
            here.append(timed(hippo.Study("here", Trivial, seed=seed, **local)))
            remote = {"url": server.url, "tuner": "client", "code": "value"}
            there.append(timed(hippo.Study("there", Trivial, seed=seed, **remote)))
    ours, theirs = statistics.median(here), statistics.median(there)
    return {"in_process_seconds": ours, "server_seconds": theirs, "times_in_process": theirs / ours}


def killed(kills: int, folder: Path, seed: int) -> dict[str, Any]:
    """Kill the server and clients at random, behind a proxy that cuts, until there were enough kills."""
    chance, done, differ, rounds = random.Random(seed), 0, 0, 0
    expected = [alone(number, folder) for number in range(2)]
    with ServerProcess(folder / "home") as server:
        proxy = CuttingProxy(server.port, seed)
        while done < kills or rounds == 0:
            httpx.get(f"{server.url}/healthz")
            rounds += 1
            seconds = 0.01 + rounds * 1e-6  # another plan each round
            clients = [ClientProcess(number, proxy.url, seconds, TUNERS[number]) for number in range(2)]
            for _ in range(min(4, kills - done)):
                time.sleep(chance.uniform(0.5, 3.0))
                done += 1
                victim = chance.randrange(3)
                if victim == 2:
                    server.kill()
                    server.start()
                elif clients[victim].process.poll() is None:
                    clients[victim].kill()
                    clients[victim] = ClientProcess(victim, proxy.url, seconds, TUNERS[victim])
            differ += sum(client.results() != expected[client.number] for client in clients)
        faults = faults_in_logs(server)
    counted = {"kills": done, "cuts": proxy.cuts, "kill_rounds": rounds}
    return {**counted, "differ_after_kills": differ, "faults_in_logs": faults}


def measure(options: argparse.Namespace) -> Figures:
    if options.client is not None:
        where = {"url": options.url}
        print(json.dumps(run_client(options.client, options.step_seconds, options.tuner, **where)))
        raise SystemExit
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for part in BARS if options.only is None else [options.only]:
            (folder := Path(name) / part).mkdir()
            figures |= globals()[f"measure_{part}"](options, folder)
    return figures


def measure_held(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for clients in (2, 4, 8):
        (place := folder / str(clients)).mkdir()
        figures |= held(clients, place)
    beside = [abs(figures[f"trained_{n}"] - figures[f"unique_{n}"]) for n in (2, 4, 8)]
    differ = [figures.pop(f"differ_{n}") for n in (2, 4, 8)]
    return {**figures, "steps_beside_the_union": sum(beside), "results_that_differ": sum(differ)}


def measure_staggered(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for clients in (2, 4, 8):
        (place := folder / str(clients)).mkdir()
        figures |= staggered(clients, place)
    beside = [figures.pop(f"unaccounted_{n}") for n in (2, 4, 8)]
    differ = [figures.pop(f"differ_{n}") for n in (2, 4, 8)]
    return {**figures, "steps_unaccounted_for": sum(beside), "staggered_that_differ": sum(differ)}


def measure_overhead(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return overhead(folder, options.repeat)


def measure_load(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with ServerProcess(folder / "home") as server:
        return asyncio.run(load(server, options.clients, options.trials, 10))


def measure_kills(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return killed(options.kills, folder, options.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clients", type=int, default=100, help="coroutines that submit (100)")
    parser.add_argument("--trials", type=int, default=100, help="trials of each (100)")
    parser.add_argument("--kills", type=int, default=100, help="SIGKILLs of server and clients (100)")
    parser.add_argument("--repeat", type=int, default=3, help="how many runs to take the median of (3)")
    parser.add_argument("--only", choices=BARS, help="measure one part, and check its bars")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of kills and cuts")
    for name, kind in (("client", int), ("url", str), ("step-seconds", float), ("tuner", str)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)


def bars(only: str | None) -> list[Bar]:
    """Return the bars of a part, or of all."""
    return [bar for part in BARS for bar in BARS[part]] if only is None else BARS[only]


if __name__ == "__main__":
    given = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv[:-1] else None
    run(__doc__, measure, bars(given), arguments)
