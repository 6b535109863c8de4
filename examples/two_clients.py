"""Two people, one server: ``python examples/two_clients.py``, or ``make demo-server``.

A server is started; two processes submit studies of the same trainer whose spaces overlap, and end. The
studies go on. Each is shown when it has ended, and then what they shared: every step that both need is
trained once, and every result is what the study would have come to by itself.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo
from hippotune.cli.attach import attach
from hippotune.cli.server import start_server
from hippotune.serve.client.api import Api
from hippotune.serve.client.facts import read_facts


class Regression(hippo.Trainer):
    """Logistic regression by gradient descent, ten steps at a time."""

    def prepare(self) -> None:
        chance = np.random.default_rng(0)
        self.points = chance.normal(size=(2000, 20))
        self.labels = (self.points @ chance.normal(size=20) + chance.normal(size=2000) > 0).astype(float)

    def build(self) -> None:
        self.weights = np.zeros(20)

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        for _ in range(10):
            error = 1 / (1 + np.exp(-self.points @ self.weights)) - self.labels
            self.weights -= self.lr * self.points.T @ error / len(error)

    def evaluate(self) -> Mapping[str, float]:
        right = (self.points @ self.weights > 0) == (self.labels > 0)
        return {"accuracy": float(np.mean(right))}


STEPS = 60
DROPS = {"ann": [10, 20, 30, 40], "bob": [30, 40, 50, 55]}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = start_server(Path(folder) / "home", "local:2")
        api = Api(url)
        print(f"a server has started at {url}\n")
        try:
            command = [sys.executable, __file__, url]
            for client in [subprocess.Popen([*command, name]) for name in DROPS]:
                client.wait()
            for name in DROPS:
                print(f"\n== what came of {name}'s study")
                attach(url, name, False)
            keys = {api.call("GET", f"/studies/{name}", None, dict)["end"]["key"] for name in DROPS}
            spans = [span for key in keys for span in read_facts(api, key).store.spans()]
            trained = sum(span.last - span.first for span in spans if span.kind == "train")
            asked = sum(len(drops) * STEPS for drops in DROPS.values())
            print(
                f"\ntogether they asked for {asked} steps; {trained} were trained, on {len(keys)} plan: "
                "a step that both need, once"
            )
        finally:
            api.call_once("POST", "/stop")


def submit(url: str, name: str) -> None:
    from hippotune.serve.client.connection import RemoteConnection
    from hippotune.serve.client.following import send_study

    space = {"lr": [hippo.MultiStep(0.5, [drop], 0.1) for drop in DROPS[name]]}
    study = hippo.Study(name, Regression, url=url)
    tuner = hippo.GridSearch(space, metric="accuracy", mode="max", max_steps=STEPS)
    send_study(RemoteConnection(study, url), tuner)
    print(f"{name} has submitted a study of {len(DROPS[name])} trials, and goes home")


if __name__ == "__main__":
    submit(*sys.argv[1:]) if len(sys.argv) > 1 else main()
