"""Studies as users write them, for `chaos.py` to interrupt: ``python noisy.py KIND HOME LOG [STORE]``.

The trainer draws from NumPy's and from Python's generators at every step, and its state remembers all values
that it was trained with. It appends a line to LOG after every step, so that others can count what was trained
without asking Hippo. In the end the script prints every trial's metrics, and the state behind the last one.

The kinds are tuners; "branches" is successive halving and late branches, "fluid" is on workers that are
widened, and those on torch have another trainer (`fitted.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from time import time
from typing import Any

import numpy as np

import hippotune as hippo
from hippotune import Config, Cosine, Exponential, Linear, MultiStep, Piecewise, Warmup
from hippotune import tuners as tuning

SAMPLES, FEATURES, CLASSES = 500, 64, 10

RATES = [
    rate
    for peak in (0.1, 0.05)
    for rate in (
        peak,
        Exponential(peak, 0.95),
        MultiStep(peak, [12, 36], 0.1),
        MultiStep(peak, [12, 24], 0.1),
        Warmup(5, Cosine(peak, 60)),
        Warmup(5, Linear(peak, 0.01, 30)),
        Linear(peak, 0.01, 48),
    )
]
MOMENTA = [0.9, Piecewise([0.9, 0.7], [9])]
FIRST = {"lr": RATES, "bs": [64, MultiStep(64, [18], 2)], "momentum": MOMENTA[:1]}
# Asked for when the rest is done: one that leaves where others did, one that is known, one of its own.
LATE = {"lr": [MultiStep(0.1, [12], 0.3), 0.1, 0.03], "bs": [64], "momentum": [0.9]}
# Asked for at the very end: it branches off where no branch was expected.
LAST = {"lr": [Piecewise([0.1, 0.02], [21])], "bs": [64], "momentum": [0.9]}


def chained(before: bytes, values: Mapping[str, Any]) -> bytes:
    """Return what stands for one more step, trained with these values."""
    return hashlib.blake2b(before + json.dumps(values, sort_keys=True).encode(), digest_size=16).digest()


def states(config: Config) -> Iterator[bytes]:
    """Yield what stands for the state after one step of a config, after two, and so on."""
    values: dict[str, Any] = {}
    state = b""
    for step in count():
        values |= config.changes(step)
        state = chained(state, values)
        yield state


class Noisy(hippo.Trainer):
    """Softmax regression with noise: one step too many, too few or out of place changes every later bit."""

    def build(self) -> None:
        self.inputs = np.random.normal(size=(SAMPLES, FEATURES))
        truth = np.random.normal(size=(FEATURES, CLASSES))
        self.labels = np.argmax(self.inputs @ truth + np.random.normal(size=(SAMPLES, CLASSES)), axis=1)
        self.weights = np.zeros((FEATURES, CLASSES))
        self.velocity = np.zeros_like(self.weights)
        self.values: dict[str, Any] = {}
        self.trained_with = b""

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.values |= {name: hp[name] for name in hp}

    def train(self) -> None:
        for _ in range(20):
            chosen = random.sample(range(SAMPLES), self.values["bs"])
            inputs = self.inputs[chosen] * (np.random.random((len(chosen), FEATURES)) > 0.2)
            gradient = inputs.T @ (self._probabilities(inputs) - np.eye(CLASSES)[self.labels[chosen]])
            change = self.values["lr"] * gradient / len(chosen)
            self.velocity = self.values["momentum"] * self.velocity - change
            self.weights = self.weights + self.velocity
        self.trained_with = chained(self.trained_with, self.values)
        with open(self.settings["log"], "ab", 0) as log:
            log.write(f"{os.getpid()} {time():.6f} {self.trained_with.hex()}\n".encode())

    def evaluate(self) -> Mapping[str, float]:
        sample = np.random.choice(SAMPLES, 500)  # evaluation may draw: it must change nothing
        probabilities = self._probabilities(self.inputs)
        loss = -np.log(probabilities[np.arange(SAMPLES), self.labels] + 1e-12)
        return {"loss": float(loss.mean()), "sampled": float(loss[sample].mean())}

    def arrays(self) -> list[np.ndarray]:
        """Return all arrays of the state."""
        return [self.inputs, self.labels, self.weights, self.velocity]

    def _probabilities(self, inputs: np.ndarray) -> np.ndarray:
        scores = inputs @ self.weights
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))


TORCH = ("halving on torch", "fluid")
WALL_SECONDS = 4.0
WIDE = {"lr": [0.05, MultiStep(0.05, [6], 0.5), Linear(0.05, 0.01, 12)], "momentum": [0.9]}
DRAWN = {"lr": hippo.LogUniform(1e-2, 0.3), "bs": [32, 64], "momentum": hippo.Uniform(0.5, 0.95)}
PARTED = {"lr": RATES, "bs": [64], "momentum": MOMENTA}


def tuners(kind: str) -> list[tuning.Tuner]:
    """Return what a kind of study is tuned by, one after the other."""
    aim = {"metric": "loss", "mode": "min"}
    match kind:
        case "branches":
            return [
                tuning.SuccessiveHalving(FIRST, **aim, min_steps=6, max_steps=48, reduction=2),
                tuning.GridSearch(LATE, **aim, max_steps=30),
                tuning.GridSearch(LAST, **aim, max_steps=40),
            ]
        case "halving" | "hypersched":
            tuner = tuning.SuccessiveHalving if kind == "halving" else tuning.HyperSched
            return [tuner(PARTED, **aim, min_steps=3, max_steps=27, reduction=3)]
        case "asha":
            return [tuning.ASHA(PARTED, **aim, min_steps=3, max_steps=27, reduction=3)]
        case "hyperband":
            return [tuning.Hyperband(DRAWN, **aim, min_steps=3, max_steps=27, reduction=3)]
        case "pbt":
            return [tuning.PBT(DRAWN, **aim, interval=6, max_steps=24, population=8)]
        case "tpe":
            return [tuning.OptunaSearch(DRAWN, **aim, max_steps=16, trials=20)]
        case "bohb":
            return [tuning.BOHB(DRAWN, **aim, min_steps=3, max_steps=27)]
        case "halving on torch":
            return [tuning.SuccessiveHalving(WIDE, **aim, min_steps=4, max_steps=16, reduction=2)]
        case "fluid":
            return [tuning.GridSearch(WIDE, **aim, max_steps=24)]
    raise SystemExit(f"there is no study of the kind {kind!r}")


def trainer_of(kind: str) -> type[hippo.Trainer]:
    """Return the trainer of a kind of study; only those on torch import it."""
    if kind not in TORCH:
        return Noisy
    from fitted import Fitted

    return Fitted


def digest(model: Any) -> str:
    """Return what stands for the whole state of a trainer, and for the generators'."""
    if not isinstance(model, Noisy):
        return str(model.digest())
    found = hashlib.sha256(b"".join(array.tobytes() for array in model.arrays()))
    found.update(repr((model.values, model.trained_with)).encode())
    found.update(repr((np.random.random(4).tolist(), random.random())).encode())
    return found.hexdigest()


def told(study: hippo.Study, report: hippo.study.Report) -> list[dict[str, Any]]:
    """Return what came of every trial: its metrics, and the bytes of its last state as a digest."""
    trials = []
    for trial in report.trials:
        assert trial.error is None, trial.error
        heard = {"config": repr(trial.config), "json": trial.config.to_json(), "metrics": dict(trial.metrics)}
        if trial.metrics and report.ended_by is None:
            heard["state"] = digest(study.load(trial.config, max(trial.metrics)))
        trials.append(heard)
    return trials


def main(kind: str, home: str, log: str, store: str | None = None) -> None:
    """Tune; print what came of all trials, and how many leases are left."""
    trainer = trainer_of(kind)
    settings = {"log": log} if trainer is Noisy else {}
    width = hippo.Fluid(max_width=2) if kind == "fluid" else None
    study = hippo.Study(
        *("noisy", trainer),
        home=home,
        store=store,
        settings=settings,
        width=width,
        executor=hippo.Local(workers=2),
        retries=hippo.Retries(1000, pause=0.05),  # more losses than a trial that is at fault would have
        checkpoint_every=0.03,  # stages last that long
    )
    deadline = WALL_SECONDS if kind == "hypersched" else None
    with study:
        reports = [study.tune(tuner, deadline=deadline) for tuner in tuners(kind)]
        trials = [trial for report in reports for trial in told(study, report)]
        print(json.dumps({"trials": trials, "leases": len(study._connection.open().loop.engine.leases)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
