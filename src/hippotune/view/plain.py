"""Progress as plain lines, for files, pipes, notebooks and terminals that can do no more.

A line is written when something changed, and at most every ten seconds of the study's own time.
"""

from __future__ import annotations

from typing import TextIO

from hippotune import short
from hippotune.view.base import View
from hippotune.view.snapshot import Snapshot

PAUSE = 10.0
"""Seconds between two lines."""


class PlainView(View):
    """Writes lines to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: Snapshot | None = None
        self._written: Snapshot | None = None

    def note(self, text: str) -> None:
        """Write a line of its own."""
        print(text, file=self._stream, flush=True)

    def show(self, snapshot: Snapshot) -> None:
        """Write a line if it is due and there is anything new in it."""
        if not snapshot.trials:
            return
        self._last = snapshot
        if self._written is None or snapshot.seconds - self._written.seconds >= PAUSE:
            self._write(snapshot)

    def close(self) -> None:
        """Write how things ended."""
        if self._last is not None:
            self._write(self._last)

    def _write(self, snapshot: Snapshot) -> None:
        if self._written is None or _news(snapshot) != _news(self._written):
            self._written = snapshot
            self.note(line(snapshot))


def line(snapshot: Snapshot) -> str:
    """Return a snapshot in one line."""
    parts = [
        f"{snapshot.requests_answered:,} of {short.plural(snapshot.requests, 'request')} answered",
        f"{snapshot.steps_done:,} of {short.plural(snapshot.steps_unique, 'step')}"
        f" (merge rate {snapshot.merge_rate:.2f})",
    ]
    if snapshot.requests_failed:
        parts[0] += f", {snapshot.requests_failed:,} failed"
    if snapshot.requests_suspended:
        parts[0] += f", {snapshot.requests_suspended:,} suspended"
    if (best := snapshot.best) is not None:
        value = short.metric(best.metrics[snapshot.metric])
        proved = "" if best.is_proved else ", not proved yet"
        parts.append(f"best {snapshot.metric} {value} (trial {best.trial} at step {best.step}{proved})")
    if snapshot.utilisation:
        parts.append(f"workers {snapshot.utilisation:.0%} busy")
    if snapshot.requests_open and snapshot.seconds_left is not None:
        parts.append(f"about {short.roughly(snapshot.seconds_left)} left")
        parts += short.limits(snapshot.limits)
    return f"{snapshot.study}, {short.duration(snapshot.seconds)}: {'; '.join(parts)}"


def _news(snapshot: Snapshot) -> object:
    """Return what a line is written for."""
    best = snapshot.best and (snapshot.best.trial, snapshot.best.step, snapshot.best.is_proved)
    return snapshot.requests, snapshot.requests_answered, snapshot.steps_done, snapshot.steps_unique, best
