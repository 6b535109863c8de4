"""Figures: what they show follows from what they were given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import plotly.io._kaleido
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chromium
from examples import few_examples
from hippotune.errors import InvalidInput, MissingExtra
from hippotune.plan.facts import Checkpoint, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.plots import curves, save, timeline, tree, without_pauses
from hippotune.plots.style import hue, shade, time_unit
from hippotune.sequences import Config, MultiStep
from hippotune.study.report import TrialReport

SPANS = [
    SpanRecorded(0, 0, 0, "train", 0, 10, began=100.0, ended=110.0),
    SpanRecorded(1, 1, 1, "train", 4, 10, began=104.0, ended=110.0),
    SpanRecorded(0, 2, 2, "train", 10, 14, began=110.0, ended=120.0),
]


def asks(*decays: int, step: int = 10) -> list[tuple[Node, int]]:
    plan = Plan()
    return [(plan.place(Config({"lr": MultiStep(0.1, [at], 0.1)}), step)[0], step) for at in decays]


def bars_of(figure: Any) -> Any:
    (bars,) = (trace for trace in figure.data if trace.type == "bar")
    return bars


# Workers over time.


def test_a_timeline_has_a_bar_for_every_span_counted_from_the_first() -> None:
    bars = bars_of(timeline(SPANS))
    assert sorted(zip(bars.y, bars.base, bars.x, strict=True)) == [(0, 0, 10), (0, 10, 10), (1, 4, 6)]
    assert list(bars.text) == ["0–10", "10–14", "4–10"]


def test_a_timeline_tells_how_many_workers_were_busy_when() -> None:
    figure = timeline(SPANS, workers=4)
    busy = figure.data[0]
    assert list(zip(busy.x, busy.y, strict=True)) == [(0, 1), (4, 2), (10, 1), (20, 0)]
    assert "4 workers, 20 s, 32% busy" in figure.layout.title.text  # 26 of 80 worker-seconds


def test_stages_that_are_close_in_the_tree_have_similar_colours_and_tell_their_values() -> None:
    plan = Plan()
    for at in (4, 8):
        plan.place(Config({"lr": MultiStep(0.1, [at], 0.1)}), 10)
    plan.place(Config({"lr": 0.5}), 10)
    bars = bars_of(timeline(SPANS, nodes=plan.nodes))
    told = dict(zip(zip(bars.y, bars.base, strict=True), bars.customdata, strict=True))
    assert told[1, 4][0].endswith("lr 0.1")
    assert told[0, 10][0].endswith("lr 0.5")
    assert set(bars.marker.color) == {hue(0), hue(0.5), hue(1)}


def test_those_who_train_together_have_one_colour_and_are_all_busy() -> None:
    spans = [
        SpanRecorded(0, 0, 0, "train", 0, 10, 0.0, 10.0, width=2.0),
        SpanRecorded(1, 0, 0, "help", 0, 10, 0.0, 10.0, width=0.0),
        SpanRecorded(1, 1, 1, "train", 0, 10, 10.0, 20.0),
    ]
    figure = timeline(spans)
    bars = bars_of(figure)
    leader, helper, other = bars.marker.color
    assert leader == helper != other
    assert list(bars.text) == ["0–10", "", "0–10"]
    assert "width 2" in bars.customdata[0][0]
    assert list(figure.data[0].y) == [2, 1, 0]
    assert "2 workers, 20 s, 75% busy" in figure.layout.title.text


def test_leases_that_share_a_slot_share_its_row() -> None:
    spans = [
        SpanRecorded(0, 0, 0, "train", 0, 10, 0.0, 10.0, width=0.5),
        SpanRecorded(2, 1, 1, "train", 0, 10, 0.0, 10.0, width=0.5),
        SpanRecorded(1, 2, 2, "train", 0, 5, 0.0, 5.0),
        SpanRecorded(2, 3, 1, "train", 10, 15, 10.0, 15.0),
    ]
    figure = timeline(spans, workers=2)
    bars = bars_of(figure)
    placed = sorted(zip(bars.y, bars.base, bars.offset, bars.width, strict=True))
    assert placed == [(0, 0, -0.42, 0.42), (0, 0, 0.0, 0.42), (0, 10, -0.42, 0.84), (1, 0, -0.42, 0.84)]
    assert list(figure.data[0].y) == [2, 1, 1, 0]
    assert "2 workers, 15 s, 67% busy" in figure.layout.title.text


def test_many_workers_get_thinner_bars_without_text() -> None:
    spans = [SpanRecorded(worker, worker, 0, "train", 0, 5, 0.0, 5.0) for worker in range(40)]
    figure = timeline(spans)
    assert bars_of(figure).text is None
    assert figure.layout.height < 1400


# The stage tree.


def lines(figure: Any) -> list[tuple[int, int, int]]:
    """Return the row, first and last step of everything that is drawn as a stage."""
    found = []
    for trace in figure.data:
        if trace.mode == "lines" and trace.showlegend is not False:
            points = list(zip(trace.x, trace.y, strict=True))
            found += [(points[at][1], points[at][0], points[at + 2][0]) for at in range(0, len(points), 4)]
    return found


def connections(figure: Any) -> list[tuple[int, int, int]]:
    """Return the step, upper row and lower row of every branch."""
    (trace,) = (trace for trace in figure.data if trace.showlegend is False)
    return [(trace.x[at], trace.y[at], trace.y[at + 1]) for at in range(0, len(trace.x), 3)]


def test_a_tree_draws_every_unique_step_once() -> None:
    figure = tree(asks(4, 6, 20))
    assert sum(last - first for _, first, last in lines(figure)) == 10 + 6 + 4
    assert "3 trials ask for 30 steps; 20 are unique: merge rate 1.50" in figure.layout.title.text


def test_stages_are_told_apart_by_how_many_trials_share_them() -> None:
    figure = tree(asks(4, 6, 8, 20))
    assert {trace.name for trace in figure.data if trace.mode == "lines" and trace.name} == {
        "1 trial",
        "2–3 trials",
        "4–7 trials",
    }


def test_a_small_tree_says_what_a_branch_changes() -> None:
    figure = tree(asks(4, 20))  # the second leaves the first where that falls, and stays at 0.1
    assert [note.text for note in figure.layout.annotations] == ["lr 0.1"]


def test_what_is_kept_is_left_out_of_what_is_left() -> None:
    wanted = asks(4, 20)
    wanted[0][0].set_checkpoint(7, Checkpoint("x", 0, ""))
    assert sum(last - first for _, first, last in lines(tree(wanted, scratch=False))) < 16


@few_examples
@given(
    st.lists(
        st.tuples(st.sampled_from([0.1, 0.2]), st.integers(1, 30), st.integers(1, 30)),
        min_size=1,
        max_size=12,
        unique=True,
    )
)
def test_no_branch_of_a_tree_crosses_a_stage(trials: list[tuple[float, int, int]]) -> None:
    plan = Plan()
    wanted = []
    for value, decay, growth in trials:
        config = Config({"lr": MultiStep(value, [decay], 0.1), "bs": MultiStep(128, [growth], 2)})
        wanted.append((plan.place(config, 32)[0], 32))
    figure = tree(wanted)
    for step, upper, lower in connections(figure):
        for row, first, last in lines(figure):
            assert not (upper < row < lower and first < step < last)


# Learning curves.


def trial(number: int, metrics: dict[int, float]) -> TrialReport:
    measured = {step: {"acc": value} for step, value in metrics.items()}
    return TrialReport(number, Config({"lr": 0.1 * (number + 1)}), 10, measured)


@pytest.mark.parametrize(("mode", "best"), [("max", 1), ("min", 2)])
def test_the_best_trial_stands_out(mode: str, best: int) -> None:
    trials = [trial(0, {5: 0.5, 10: 0.6}), trial(1, {5: 0.4, 10: 0.7}), trial(2, {5: 0.3})]
    figure = curves(trials, "acc", mode)
    assert f"trial {best}" in figure.data[-1].text[0]
    assert f"trial {best}" in figure.layout.annotations[0].text
    assert "3 trials, 2 up to step 10" in figure.layout.title.text


def test_every_measurement_of_every_trial_is_drawn() -> None:
    trials = [trial(number, {5: 0.5, 10: number / 100}) for number in range(100)]
    figure = curves(trials, "acc")
    drawn = [(x, y) for trace in figure.data for x, y in zip(trace.x, trace.y, strict=True) if x is not None]
    assert sorted(drawn) == sorted([(5, 0.5)] * 100 + [(10, number / 100) for number in range(100)])
    assert len(figure.data) < 20


def test_a_metric_that_is_not_finite_is_left_out() -> None:
    figure = curves([trial(0, {5: float("nan"), 10: 0.5})], "acc")
    assert list(figure.data[-1].x) == [10]


def test_pauses_are_left_out_of_what_several_runs_recorded() -> None:
    second = SpanRecorded(1, 0, 1, "train", 0, 5, began=9000.0, ended=9005.0)
    moved = without_pauses([second, *SPANS])
    assert [(span.worker, span.began, span.ended) for span in moved] == [
        (0, 100.0, 110.0),
        (1, 104.0, 110.0),
        (0, 110.0, 120.0),
        (1, 120.0, 125.0),
    ]
    assert without_pauses([]) == []


# What is refused.


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InvalidInput, match="spans is empty"):
        timeline([])
    with pytest.raises(InvalidInput, match="asks is empty"):
        tree([])
    with pytest.raises(InvalidInput, match="no trial has a finite 'loss'"):
        curves([trial(0, {5: 0.5})], "loss")


def test_without_plotly_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hippotune\[plot\]'"):
        timeline(SPANS)


# Files and looks.


def test_a_figure_is_saved_as_a_page_that_needs_nothing_else(tmp_path: Path) -> None:
    page = save(timeline(SPANS), tmp_path / "new folder" / "timeline.html")
    assert "Plotly.newPlot" in page.read_text()
    with pytest.raises(InvalidInput, match=r"expected it to end in \.html, \.png"):
        save(timeline(SPANS), tmp_path / "timeline.docx")


def test_a_figure_is_saved_as_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", str(chromium.FOLDER / "chromium"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(chromium.FOLDER / "lib"))
    picture = save(timeline(SPANS), tmp_path / "timeline.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


DRAW = """
import sys
import plotly.graph_objects as go
from hippotune.errors import MissingExtra
from hippotune.plots import save

try:
    save(go.Figure(), sys.argv[1])
except MissingExtra as missing:
    print(missing)
"""


def drawn_without_a_browser(tmp_path: Path, **environment: str) -> str:
    """Return what a program says that draws a picture where there is no browser that starts."""
    paths = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", DRAW, str(tmp_path / "tree.png")]
    return subprocess.run(
        command, env=paths | environment, check=True, capture_output=True, text=True, timeout=300
    ).stdout


def test_without_a_browser_a_picture_says_what_to_install(tmp_path: Path) -> None:
    said = drawn_without_a_browser(tmp_path)
    assert said.startswith("tree.png cannot be drawn: no Chrome or Chromium was found; install one (")
    assert "plotly_get_chrome" in said
    assert said.endswith("An .html page needs neither.\n")


def test_a_browser_that_does_not_start_is_not_said_to_be_missing(tmp_path: Path) -> None:
    broken = tmp_path / "chrome"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    said = drawn_without_a_browser(tmp_path, BROWSER_PATH=str(broken))
    assert "the Chrome or Chromium that was found does not start" in said


def test_without_kaleido_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plotly.io._kaleido.kaleido_available()  # plotly remembers what it finds
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(MissingExtra, match=r"kaleido is not installed: pip install 'hippotune\[plot\]'"):
        save(timeline(SPANS), tmp_path / "timeline.png")


def test_colours_are_colours() -> None:
    for place in range(11):
        for colour in (hue(place / 10), shade(place / 10)):
            assert len(colour) == 7
            int(colour[1:], 16)


@pytest.mark.parametrize(("seconds", "unit"), [(1, "s"), (130, "min"), (7000, "min"), (7300, "h")])
def test_time_is_told_in_the_unit_that_fits(seconds: float, unit: str) -> None:
    assert time_unit(seconds)[0] == unit
