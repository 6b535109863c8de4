"""What a process keeps of the studies that it ran: nothing that grows from study to study."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any
from weakref import ReferenceType

import psutil
import pytest

from hippotune import Local, MultiStep, Retries, Study, SuccessiveHalving, Trainer

STUDIES = 4
SPACE = {"lr": [MultiStep(lr, [at], 0.5) for lr in (1, 2) for at in (1, 2)]}


class Mortal(Trainer):
    """Kills its process once in every study, in the middle of a stage."""

    def build(self) -> None:
        self.weight, self.lr = 0.0, 0.0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.weight += self.lr
        dead = Path(self.settings["dead"])
        if self.weight > 3 and not dead.exists():
            dead.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def evaluate(self) -> Mapping[str, float]:
        return {"weight": self.weight}


def run_study(home: Path) -> None:
    tuner = SuccessiveHalving(SPACE, metric="weight", mode="max", min_steps=1, max_steps=4, reduction=2)
    settings, retries = {"dead": str(home / "dead")}, Retries(pause=0.01)
    with Study(
        "kept", Mortal, home=home, executor=Local(workers=2), settings=settings, retries=retries
    ) as study:
        assert not study.tune(tuner, progress=False).failed
    assert (home / "dead").exists()


def held() -> Counter[object]:
    """Return how many objects of each type there are, and how many threads and descriptors."""
    gc.collect()
    objects: Counter[object] = Counter(map(type, gc.get_objects()))
    for cached in (set, ReferenceType, BuiltinFunctionType):  # abstract classes remember what they were asked
        del objects[cached]
    return objects + Counter(threads=threading.active_count(), descriptors=psutil.Process().num_fds())


def test_a_process_keeps_nothing_of_studies_whose_workers_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("hippotune"), "disabled", True)  # pytest keeps what is logged
    for number in range(2):
        run_study(tmp_path / f"first-{number}")
    before, growing = held(), None
    for number in range(STUDIES):
        run_study(tmp_path / str(number))
        now = held()
        grown = set(now - before)  # some of it is made once: what a study leaves grows with every one
        before, growing = now, grown if growing is None else growing & grown
    assert not growing
