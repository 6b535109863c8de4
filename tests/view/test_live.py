import io
import os
import pty
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from hippotune.sequences import Config
from hippotune.view import Snapshot, WorkerLine, open_view
from hippotune.view.contrast import Contrast
from hippotune.view.live import Frame, LiveView
from hippotune.view.plain import PlainView
from view.snapshots import CONFIG, OTHER, a_snapshot, snapshots


def frame(
    snapshot: Snapshot, width: int = 80, height: int = 24, encoding: str = "utf-8", final: bool = False
) -> list[str]:
    """Draw a frame for a terminal of some size; return its lines without colours."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, height=height, color_system=None)
    console.print(Frame(snapshot, Contrast(), final))
    stream.seek(0)
    return stream.read().splitlines()


def workers(count: int, config: Config = CONFIG) -> tuple[WorkerLine, ...]:
    return tuple(WorkerLine(number, number, 0, number % 50, 50, config) for number in range(count))


def test_a_frame_shows_steps_requests_the_best_and_every_worker() -> None:
    lines = frame(a_snapshot(requests_failed=3))
    assert lines[0].split() == ["digits", "1", "min", "23", "s", "·", "about", "4", "min", "left"]
    assert lines[1].startswith("steps     ━━╸───")
    assert lines[1].endswith("  1,200 of 21,970")
    assert lines[2].strip() == "53,760 asked · merge rate 2.45 · 200 found · 12 MB of checkpoints"
    assert lines[3].startswith("requests  ━━━━━─")
    assert lines[3].endswith("  48 of 448, 3 failed")
    assert lines[4] == "best      val_acc 0.9312 · trial 17 at step 60"
    assert lines[5].strip() == "lr Warmup(5, Cosine(0.1, 115)) · bs 128"
    assert lines[6] == "worker 0  15 ━━━━━─────────── 60  at 30  lr 0.08879 · bs 128"
    assert lines[7:] == ["worker 1  idle"]


def test_a_frame_tells_who_trains_together_who_shares_a_slot_and_how_busy_all_are() -> None:
    lines = frame(
        a_snapshot(
            workers=(
                WorkerLine(0, 7, 15, 30, 60, CONFIG, Fraction(2)),
                WorkerLine(1, 7, 15, 30, 60, CONFIG, Fraction(2), leader=0),
                WorkerLine(2, 8, 0, 5, 60, OTHER, Fraction(1, 2)),
            ),
            workers_expected=3,
            utilisation=0.873,
        ),
        width=100,
    )
    assert lines[2].endswith("12 MB of checkpoints · workers 87% busy")
    assert "at 30  width 2  lr" in lines[6]
    assert lines[7] == "worker 1  with worker 0"
    assert "at 5   width 1/2  lr" in lines[8]


def test_workers_that_are_not_up_yet_are_counted() -> None:
    assert frame(a_snapshot(workers_expected=4))[-1].strip() == "2 workers starting"


def test_the_last_frame_speaks_of_no_workers_and_no_time_left() -> None:
    text = "\n".join(frame(a_snapshot(), final=True))
    assert "worker" not in text
    assert "left" not in text
    assert "val_acc 0.9312" in text


def test_the_deadline_is_shown_until_it_is_over() -> None:
    limited = a_snapshot(until_deadline=7200.0)
    assert frame(limited)[0].endswith("1 min 23 s · about 4 min left · deadline in 120 min")
    assert "deadline" not in "\n".join(frame(limited, final=True))


def test_many_workers_are_shown_as_a_strip_and_the_first_of_them_as_rows() -> None:
    lines = frame(a_snapshot(workers=(*workers(48), WorkerLine(48)), workers_expected=50))
    strip = next(line for line in lines if line.startswith("workers"))
    assert strip.split(maxsplit=1)[1].startswith("▁▁▁▁▁▁▁▂▂▂▂▂▂▃")
    assert strip.endswith("48 at work, 1 idle, 1 starting")
    assert sum(line.startswith("worker ") for line in lines) == 8


def test_without_unicode_a_frame_is_plain_ascii() -> None:
    lines = frame(a_snapshot(workers=workers(20), workers_expected=20), encoding="ascii")
    assert lines[1].startswith("steps     ==---")
    assert "workers   00000111112222233333  20 at work, 0 idle" in lines


@given(snapshots(), st.integers(20, 200), st.integers(2, 60), st.sampled_from(["utf-8", "ascii"]))
def test_a_frame_always_fits_its_terminal(snapshot: Snapshot, width: int, height: int, encoding: str) -> None:
    lines = frame(snapshot, width, height, encoding)
    assert 0 < len(lines) < height
    assert max(cell_len(line) for line in lines) <= width


def test_drawing_leaves_notes_above_and_the_cursor_as_it_was() -> None:
    stream = io.StringIO()
    with LiveView(Console(file=stream, force_terminal=True, width=80, height=24, color_system=None)) as view:
        view.note("found in the plan: 3 results")
        view.show(a_snapshot())
        view.note("worker 1 was replaced")
        view.show(a_snapshot(workers=(WorkerLine(0, 8, 0, 5, 60, OTHER),)))
    drawn = stream.getvalue()
    assert drawn.startswith("found in the plan: 3 results\n")
    assert drawn.count("worker 1 was replaced") == 1
    assert drawn.endswith("\x1b[?25h"), "the cursor is shown again"
    assert "worker 0" not in drawn[drawn.rindex("digits") :]


def test_a_view_that_was_shown_nothing_draws_nothing() -> None:
    stream = io.StringIO()
    with LiveView(Console(file=stream, force_terminal=True)):
        pass
    assert stream.getvalue() == ""


def test_no_progress_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with open_view(False) as view:
        view.note("something")
        view.show(a_snapshot())
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_lines_go_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with open_view(None) as view:
        assert isinstance(view, PlainView)
        view.show(a_snapshot())
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("digits, 1 min 23 s: 48 of 448 requests answered")


SHOWING = """
from hippotune.view import open_view
from view.snapshots import a_snapshot
with open_view(None) as view:
    view.show(a_snapshot())
    print("from the script", flush=True)
    view.show(a_snapshot())
"""


def on_a_terminal(**environment: str) -> tuple[str, str]:
    """Show a study with a terminal as standard error; return what it got, and what standard output got."""
    ours, theirs = pty.openpty()
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    try:
        done = subprocess.run(
            [sys.executable, "-c", SHOWING],
            env={**os.environ, "PYTHONPATH": path, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            check=True,
        )
    finally:
        os.close(theirs)
    with open(ours, encoding="utf-8", errors="replace", closefd=True) as terminal:
        text = ""
        try:
            while piece := terminal.read(1):
                text += piece
        except OSError:  # how the end of a terminal is told
            pass
    return text, done.stdout


def test_on_a_terminal_the_view_is_live_and_output_in_a_file_stays_in_the_file() -> None:
    terminal, output = on_a_terminal()
    assert "\x1b[2K" in terminal
    assert "worker 0" in terminal
    assert output == "from the script\n"


def test_on_a_dumb_terminal_the_view_is_plain_lines() -> None:
    terminal, _ = on_a_terminal(TERM="dumb")
    assert "\x1b" not in terminal
    assert terminal.startswith("digits, 1 min 23 s: ")


def test_without_colours_the_view_is_live_all_the_same() -> None:
    terminal, _ = on_a_terminal(NO_COLOR="1")
    assert "\x1b[2K" in terminal
    assert "\x1b[32m" not in terminal
