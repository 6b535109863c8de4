"""Studies in virtual time that stop where they are told to, so that a page can be looked at on the way."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hippotune as hippo
from hippotune import Config, Constant, Cosine, Exponential, Grid, MultiStep, Study, SuccessiveHalving, Warmup
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.metrics import MadeUp
from hippotune.page.running import page_of
from hippotune.page.server import PageServer
from hippotune.tuners.base import Tuner


class Net(hippo.Trainer):
    """Stands for a network: in virtual time nothing of it is called."""

    def build(self) -> None: ...
    def setup(self, hp: Mapping[str, Any]) -> None: ...
    def train(self) -> None: ...
    def evaluate(self) -> Mapping[str, float]:
        return {}


class Paced(Simulated):
    """Virtual time that goes as far as it is let."""

    until = 0.0

    def advance(self) -> bool:
        """Let things happen, up to the time that was named."""
        return bool(self._due) and self._due[0][0] <= self.until and super().advance()

    @property
    def stands(self) -> bool:
        """Whether every worker trains, and nothing comes of it before the time that was named."""
        busy = bool(self._slots) and all(slot.timed is not None for slot in self._slots)
        return busy and self._due[0][0] > self.until


NAMES = frozenset({"val_acc", "val_loss"})
RATES = [MultiStep(0.1, [first, second], 0.1) for first in (40, 60) for second in (80, 100)]
RATES += [Constant(0.1), Exponential(0.1, 0.98), Exponential(0.1, 0.97), Warmup(5, Cosine(0.1, 115))]
SPACE = Grid({"lr": RATES, "bs": [64, 128, MultiStep(128, [70], 2)], "wd": [1e-4, 5e-4]})


def curves(config: Config, step: int) -> Mapping[str, float]:
    """Make metrics up; one kind of config diverges."""
    if step >= 30 and config["bs"].value(0) == 64 and "Warmup" in repr(config["lr"]):
        raise FloatingPointError(f"the loss is nan after {step} steps")
    return MadeUp(5)(config, step, NAMES)


def paced(workers: int = 6, metrics: Callable[[Config, int], Mapping[str, float]] = curves) -> Paced:
    """Make workers in virtual time."""
    return Paced(workers, seconds_per_step=2.0, evaluate=1.0, startup=6.0, metrics=metrics, progress=4.0)


def halving(space: Any = SPACE) -> Tuner:
    return SuccessiveHalving(space, "val_acc", "max", min_steps=15, max_steps=120, reduction=2)


class Watched:
    """A study with its page: `go(until)` lets its time pass, and `finish` lets it end."""

    def __init__(self, study: Study, tuner: Tuner, executor: Paced, server: PageServer) -> None:
        self.server = server
        self._study, self._tuner, self._executor = study, tuner, executor
        self._thread: threading.Thread | None = None

    def go(self, until: float = math.inf) -> None:
        """Let virtual time pass up to a moment."""
        runtime = self._study._connection.open()
        if self._thread is None:
            self._executor.until = until
            self._thread = threading.Thread(target=self._tune, daemon=True)
            self._thread.start()
        else:
            runtime.ask(lambda: self._let_go(runtime, until))

    def has_stopped(self) -> bool:
        """Whether time has passed up to that moment, with all workers busy: nothing changes any more."""
        return bool(self._study._connection.open().ask(lambda: self._executor.stands))

    def _let_go(self, runtime: Any, until: float) -> None:
        self._executor.until = until
        runtime.loop._push_time()

    def _tune(self) -> None:
        self._study.tune(self._tuner, progress=False)

    def finish(self) -> None:
        """Let the study come to its end."""
        self.go()
        assert self._thread is not None
        self._thread.join()


@contextmanager
def watched(home: Path, executor: Paced | None = None, tuner: Tuner | None = None) -> Iterator[Watched]:
    """Serve the page of a study in virtual time."""
    executor, tuner = executor or paced(), tuner or halving()
    with (
        Study("cifar", Net, home=home, executor=executor, exact=False, version="1") as study,
        page_of(study, tuner, port=0) as server,
    ):
        made = Watched(study, tuner, executor, server)
        try:
            yield made
        finally:
            if made._thread is not None:
                made.finish()
