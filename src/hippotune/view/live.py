"""Progress on a terminal: one frame that is drawn over itself.

A frame fits its terminal whatever the number of workers: what matters most comes first, rows of workers come
last, and where they are too many a strip shows all of them in one line. Colours are only ever added to what
can be read without them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from hippotune import short
from hippotune.view.base import View
from hippotune.view.contrast import Contrast
from hippotune.view.snapshot import Snapshot, WorkerLine

LABEL = 10
"""The width of the column of labels."""
PATH_BAR = 16
"""The width of the bar over a worker's path."""
MOST_ROWS = 16
"""More workers than this are shown as a strip."""
ROWS_BESIDE_STRIP = 8
"""How many of them still get a row of their own."""


class LiveView(View):
    """Draws frames on a terminal, from the first snapshot on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._contrast = Contrast()
        self._live: Live | None = None
        self._last: Snapshot | None = None

    def note(self, text: str) -> None:
        """Write a line above the frame."""
        self._console.print(Text(text))

    def show(self, snapshot: Snapshot) -> None:
        """Draw a frame."""
        if self._live is None:
            # What goes to a file must stay out of the terminal.
            redirect = sys.stdout.isatty()
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=redirect)
            self._live.start()
        self._last = snapshot
        for worker in snapshot.workers:
            if worker.config is not None:
                self._contrast.meet(worker.config)
        if snapshot.best is not None:
            self._contrast.meet(snapshot.best.config)
        self._live.update(Frame(snapshot, self._contrast), refresh=True)

    def close(self) -> None:
        """Leave a last frame, without workers."""
        if self._live is not None and self._last is not None:
            self._live.update(Frame(self._last, self._contrast, final=True))
            self._live.stop()
            self._live = None


class Frame:
    """One snapshot for one terminal. The last one, `final`, speaks of no workers and no time left."""

    def __init__(self, snapshot: Snapshot, contrast: Contrast, final: bool = False) -> None:
        self._snapshot = snapshot
        self._contrast = contrast
        self._final = final

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawing = _Drawing(options.max_width, options.ascii_only)
        lines = [*self._head(drawing), *self._best(drawing)]
        room = options.size.height - 1 - len(lines)
        if not self._final:
            lines += self._workers(drawing, room)
        for line in lines[: max(options.size.height - 1, 1)]:
            line.no_wrap = True
            line.truncate(options.max_width, overflow="crop" if options.ascii_only else "ellipsis")
            yield line

    def _head(self, drawing: _Drawing) -> Iterator[Text]:
        shot = self._snapshot
        times = short.duration(shot.seconds)
        if shot.requests_open and shot.seconds_left is not None and not self._final:
            times += f"{drawing.dot}about {short.roughly(shot.seconds_left)} left"
        if not self._final:
            times += "".join(f"{drawing.dot}{text}" for text in short.limits(shot.limits))
        yield drawing.apart(Text(shot.study, style="bold"), Text(times))
        steps = Text(f"{shot.steps_done:,} of {shot.steps_unique:,}")
        requests = Text(f"{shot.requests_answered:,} of {shot.requests:,}")
        if shot.requests_failed:
            requests.append(f", {shot.requests_failed:,} failed", style="red")
        if shot.requests_suspended:
            requests.append(f", {shot.requests_suspended:,} suspended", style="yellow")
        beside = max(len(steps), len(requests))
        yield drawing.bar("steps", shot.steps_done, shot.steps_unique, steps, beside)
        facts = [f"{shot.steps_requested:,} asked", f"merge rate {shot.merge_rate:.2f}"]
        if shot.steps_found:
            facts.append(f"{shot.steps_found:,} found")
        if shot.checkpoint_bytes:
            facts.append(f"{short.size(shot.checkpoint_bytes)} of checkpoints")
        if shot.utilisation:
            facts.append(f"workers {shot.utilisation:.0%} busy")
        yield drawing.labelled("", Text(drawing.dot.join(facts)))
        yield drawing.bar("requests", shot.requests_answered, shot.requests, requests, beside)

    def _best(self, drawing: _Drawing) -> Iterator[Text]:
        best = self._snapshot.best
        if best is None:
            return
        text = Text(f"{self._snapshot.metric} ")
        text.append(short.metric(best.metrics[self._snapshot.metric]), style="bold green")
        text.append(f"{drawing.dot}trial {best.trial} at step {best.step:,}")
        if not best.is_proved:
            text.append(f"{drawing.dot}not proved yet", style="yellow")
        yield drawing.labelled("best", text)
        names = best.config.names if self._final else self._contrast.names(best.config)
        yield drawing.labelled("", Text(drawing.plain(short.config(best.config, names))))

    def _workers(self, drawing: _Drawing, room: int) -> Iterator[Text]:
        shot = self._snapshot
        workers = shot.workers
        starting = shot.workers_expected - len(workers)
        if len(workers) + (starting > 0) <= min(room, MOST_ROWS):
            yield from self._rows(drawing, workers)
        else:
            idle = sum(worker.config is None for worker in workers)
            counts = f"{len(workers) - idle} at work, {idle} idle"
            yield drawing.strip(workers, f"{counts}, {starting} starting" if starting > 0 else counts)
            yield from self._rows(drawing, workers[: min(room - 1, ROWS_BESIDE_STRIP)])
            return
        if starting > 0:
            yield drawing.labelled("", Text(f"{short.plural(starting, 'worker')} starting", style="dim"))

    def _rows(self, drawing: _Drawing, workers: Sequence[WorkerLine]) -> Iterator[Text]:
        digits = max((len(f"{worker.end:,}") for worker in workers if worker.config), default=1)
        for worker in workers:
            label = f"worker {worker.worker}"
            if worker.config is None:
                yield drawing.labelled(label, Text("idle", style="dim"))
                continue
            if worker.leader is not None:
                yield drawing.labelled(label, Text(f"with worker {worker.leader}", style="dim"))
                continue
            names = self._contrast.names(worker.config)
            # The values that the step now under way is trained with; none comes after the last one.
            step = min(worker.at, worker.end - 1)
            text = Text(f"{worker.start:>{digits},} ")
            text += drawing.progress(worker.at - worker.start, worker.end - worker.start, PATH_BAR)
            text.append(f" {worker.end:<{digits},}  at {worker.at:<{digits},}  ")
            if worker.width != 1:
                text.append(f"width {worker.width}  ", style="bold")
            text.append(drawing.plain(short.values(worker.config, step, names)), style="cyan")
            yield drawing.labelled(label, text)


class _Drawing:
    """How things are drawn at one width, with or without characters beyond ASCII."""

    def __init__(self, width: int, ascii_only: bool) -> None:
        self._width = width
        self._ascii = ascii_only
        self.dot = ", " if ascii_only else " · "

    def plain(self, text: str) -> str:
        return text.replace(" · ", self.dot)

    def apart(self, left: Text, right: Text) -> Text:
        gap = self._width - len(left) - len(right)
        return Text.assemble(left, " " * max(gap, 2), right)

    def labelled(self, label: str, text: Text) -> Text:
        return Text.assemble((f"{label:<{LABEL}}", "dim"), text)

    def bar(self, label: str, done: int, total: int, text: Text, beside: int) -> Text:
        room = max(self._width - LABEL - beside - 2, 1)
        return self.labelled(label, self.progress(done, total, room) + Text("  ") + text)

    def progress(self, done: int, total: int, cells: int) -> Text:
        halves = min(2 * cells * done // total, 2 * cells) if total else 0
        full, half = divmod(halves, 2)
        if self._ascii:
            return Text("=" * full + "-" * (cells - full))
        return Text.assemble(("━" * full + "╸" * half, "green"), ("─" * (cells - full - half), "dim"))

    def strip(self, workers: Sequence[WorkerLine], counts: str) -> Text:
        levels, idle, rest = ("0123456789", ".", "+") if self._ascii else ("▁▂▃▄▅▆▇█", "·", "…")
        marks = ""
        for worker in workers[: max(self._width - LABEL - len(counts) - 4, 0)]:
            length = worker.end - worker.start
            along = (worker.at - worker.start) / length if length else 0.0
            marks += levels[min(int(along * len(levels)), len(levels) - 1)] if worker.config else idle
        more = rest if len(marks) < len(workers) else ""
        return self.labelled("workers", Text.assemble((marks, "green"), f"{more}  {counts}"))
