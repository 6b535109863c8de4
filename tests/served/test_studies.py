"""The processes of tuners on a server: when they are started again, when no more, and what they tell."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from hippotune.errors import HippoError
from hippotune.serve import studies
from hippotune.serve.blobs import Blobs
from hippotune.serve.client.waiting import ServerLost
from hippotune.serve.definition import Code, Definition, Submission, TunerSpec
from hippotune.serve.records import MOST_NOTES
from hippotune.serve.studies import Studies
from hippotune.serve.tokens import Tokens
from hippotune.serve.tuner import PostedView
from waiting import until

SUBMISSION = Submission(Definition("x", Code("entry", "a.B", "a:B")), TunerSpec("loss", "min", described={}))


class Ending:
    """A tuner's process that has ended before anyone waits for it."""

    def __init__(self) -> None:
        self.signals: list[int] = []

    def send_signal(self, sig: int) -> None:
        self.signals.append(sig)

    def wait(self) -> None: ...

    def end(self) -> None: ...


class Starts:
    """Counts the processes of a study; `on_start` is called with the studies while each is started."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, on_start: Callable[[Starts], None] = lambda _: None
    ) -> None:
        self.processes: list[Ending] = []
        self._on_start = on_start
        patch.setattr(studies, "start_program", self._start)
        identify = cast("Any", None)
        self.studies = Studies(folder, Blobs(folder, allow_code=True), identify, Tokens(), dict, str)

    def _start(self, *_: object) -> Ending:
        self._on_start(self)
        self.processes.append(Ending())
        return self.processes[-1]

    def submit(self, meanwhile: Callable[[], None] = lambda: None) -> str:
        """Submit a study, and wait until nothing tends it; return what became of it."""

        async def main() -> None:
            self.studies.begin()
            self.studies.submit("x", SUBMISSION, "", 1)
            meanwhile()
            until(lambda: not any(thread.name == "tuner" for thread in threading.enumerate()))

        asyncio.run(main())
        return self.studies.get("x").record.state

    def stop(self) -> None:
        self.studies.stop("x")


def test_a_study_that_is_stopped_between_two_processes_has_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts(tmp_path, monkeypatch)

    def stop() -> None:
        until(lambda: starts.processes and starts.studies.get("x").process is None)
        starts.stop()

    assert starts.submit(stop) == "stopped"
    assert len(starts.processes) == 1


def test_a_study_that_is_stopped_while_its_process_starts_is_not_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts(tmp_path, monkeypatch, Starts.stop)
    assert starts.submit() == "stopped"
    assert [process.signals for process in starts.processes] == [[signal.SIGTERM]]


def test_a_process_that_ends_again_and_again_ends_its_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "_PAUSE_SECONDS", 0.0)
    starts = Starts(tmp_path, monkeypatch)
    assert starts.submit() == "failed"
    assert len(starts.processes) == studies._MOST_STARTS


def test_processes_that_ran_for_long_do_not_count_as_ended_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(studies, "_LONG_SECONDS", 0.0)
    many = 3 * studies._MOST_STARTS
    starts = Starts(tmp_path, monkeypatch, lambda each: each.stop() if len(each.processes) == many else None)
    assert starts.submit() == "stopped"
    assert len(starts.processes) == many + 1


class Away:
    """A server that answers a request only where it is there; it notes what it was told."""

    def __init__(self) -> None:
        self.error: HippoError | None = ServerLost("it is away")
        self.told: list[list[str]] = []

    def call_once(self, method: str, path: str, body: dict[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(body["notes"])


def test_notes_wait_for_a_server_that_is_away_and_are_not_said_again_where_they_are_refused() -> None:
    server = Away()
    view = PostedView(cast("Any", server), "x", lambda: 0.0)
    oldest, *newest = [str(number) for number in range(MOST_NOTES + 1)]
    for text in (oldest, *newest):
        view.note(text)
    server.error = None
    view.close()
    view.close()
    assert server.told == [newest, []]
    server.error = HippoError("the study is another user's")
    view.note("one more")
    server.error = None
    view.close()
    assert server.told[2:] == [[]]
