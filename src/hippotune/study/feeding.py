"""The sinks of one `Study.tune`: fed while it runs, and in the end with the model of its best result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hippotune.errors import HippoError, NothingToExport
from hippotune.scratch import Scratch
from hippotune.sinks.base import Sink
from hippotune.sinks.feed import Feed, OpenStore
from hippotune.study.best import Best


class Feeds:
    """Feeds the sinks of a tuning, each on a thread of its own."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        open_store: OpenStore,
        study: str,
        plan: str,
        share: bool,
        warn: Callable[[str], None],
    ) -> None:
        self._warn = warn
        self._feeds = [Feed(sink, open_store, study, plan, share, warn) for sink in sinks]

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Feed while the block runs. Where it is left by an exception, what is left is fed all the same."""
        for feed in self._feeds:
            feed.start()
        try:
            yield
        except BaseException:
            for feed in self._feeds:
                feed.finish(patience=10.0)
            raise

    def finish(self, best: Best | None, is_away: bool = False) -> None:
        """Feed what is left, and the model of the best result, which is fetched where it `is_away`."""
        if not self._feeds:
            return
        with Scratch() as folder:
            path = None if best is None else best.exported
            if best is not None and best.path is not None and is_away:
                path = self._fetched(best, folder / f"trial-{best.number}-step-{best.step}.pt")
            for feed in self._feeds:
                feed.finish(None if best is None or path is None else (best.number, path))

    def _fetched(self, best: Best, path: Path) -> Path | None:
        try:
            return best.export(path)
        except NothingToExport:
            return None
        except HippoError as error:
            self._warn(f"the sinks were not given the best model: {error}")
            return None
