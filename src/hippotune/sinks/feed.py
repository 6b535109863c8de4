"""Feeds a sink on a thread of its own: what it does, and how long it takes, is nothing to training.

It reads the plan's log in the store from where the target is, about once in a second, and once more at the
end. A sink that raises is opened again and given the same again; one that goes on failing, or that does not
come to an end, is dropped with a warning. Nothing is lost: ``hippo log`` goes on where the target is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from hippotune.sinks.base import Model, Record, Sink, Source
from hippotune.sinks.projection import Projection
from hippotune.store.base import Store

OpenStore = Callable[[], AbstractContextManager[Store]]
_EVERY, _MOST_PAUSE = 1.0, 30.0
_PAUSES = (0.1, 1.0, 5.0)
_RECORDS_AT_ONCE = 1000
_PATIENCE = 60.0


class Feed:
    """See the module. `start` it, and `finish` it when the study has ended."""

    def __init__(
        self,
        sink: Sink,
        open_store: OpenStore,
        study: str,
        plan: str,
        share: bool,
        warn: Callable[[str], None],
        pauses: Sequence[float] = _PAUSES,
        at_once: int = _RECORDS_AT_ONCE,
    ) -> None:
        self._sink = sink
        self._open_store = open_store
        self._study = study
        self._plan = plan
        self._share = share
        self._warn = warn
        self._pauses = pauses
        self._at_once = at_once
        self._ending = threading.Event()
        self._model: tuple[int, Path] | None = None
        self._given = 0
        self._thread = threading.Thread(target=self._run, name=f"hippo-sink-{sink}", daemon=True)

    def start(self) -> None:
        """Begin to feed."""
        self._thread.start()

    def finish(self, model: tuple[int, Path] | None = None, patience: float = _PATIENCE) -> None:
        """Feed what is left, and the best `model` with its trial; wait as long as the sink gets on.

        `patience` is for a sink that is stuck: that other processes keep the cores from it does not count.
        """
        self._model = model
        self._ending.set()
        left = patience
        while self._thread.is_alive() and left > 0:
            given, began, waited = self._given, time.monotonic(), _waited_for_cores()
            self._thread.join(0.1)
            stuck = time.monotonic() - began - (_waited_for_cores() - waited).total() / 1e9
            left = patience if self._given > given else min(patience, left - stuck)
        if self._thread.is_alive():
            self._warn(
                f"the sink {self._sink} wrote nothing for {patience:.0f} s and was abandoned. "
                f"Write the rest with: hippo log {self._study} --to …"
            )

    def _run(self) -> None:
        failures, given, cause = 0, 0, ""
        while True:
            try:
                with self._open_store() as store:
                    self._feed(store)
                return
            except Exception as error:
                failures, given = (1 if self._given > given else failures + 1), self._given
                if failures == 1:  # what comes next may follow from it
                    cause = f"{type(error).__name__}: {error}"
                if failures > len(self._pauses):
                    self._warn(
                        f"the sink {self._sink} was dropped: {cause}. "
                        f"Write the rest with: hippo log {self._study} --to …"
                    )
                    return
                time.sleep(self._pauses[failures - 1])

    def _feed(self, store: Store) -> None:
        """Feed from where the target is, until the end."""
        sink = self._sink
        cursor = sink.open(Source(self._study, self._plan, store.incarnation))
        try:
            projection, number = Projection(store, self._study, self._share, sink.runs), 0
            is_last = False
            while not is_last:
                is_last, began = self._ending.is_set(), time.monotonic()
                records: list[Record] = []
                for number, fact in store.facts(number):  # noqa: B020
                    records += projection.take(fact, quiet=number <= cursor)
                    if len(records) >= self._at_once:
                        self._give(records, number)
                        records = []
                if number > cursor:
                    self._give(records, number)
                    cursor = number
                if is_last and self._model is not None:
                    run = projection.run_of(self._model[0])
                    if run is not None:
                        sink.write([Model(run, self._model[1])])
                if not is_last:  # a tenth of the time at most
                    self._ending.wait(max(_EVERY, min(9 * (time.monotonic() - began), _MOST_PAUSE)))
        finally:
            sink.close()

    def _give(self, records: Sequence[Record], number: int) -> None:
        if records:
            self._sink.write(records)
        self._sink.save(number)
        self._given += 1


def _waited_for_cores() -> Counter[Path]:
    """Return for how many nanoseconds each thread of this process waited for a core; of Linux only."""
    waited = Counter[Path]()
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):  # it has ended
            waited[thread] = int(thread.read_text().split()[1])
    return waited
