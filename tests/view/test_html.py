"""A report in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from hippotune import Config, GridSearch, MultiStep, Simulated, Study
from hippotune.study.report import Report
from study.walkers import Walker


class Reader(HTMLParser):
    """Reads a page: its text, its cells, and whether every element that begins also ends."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.cells: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self._open:
            self.cells[-1] += data


def report(home: Path, metrics: Any, **limits: float) -> Report:
    space = {"lr": [0.1, MultiStep(0.1, [4], 0.1)], "kind": ["<script>alert(1)</script>"]}
    executor = Simulated(2, metrics=metrics)
    with Study("a <b>bold</b> name", Walker, home=home, executor=executor) as study:
        return study.tune(GridSearch(space, "loss", "min", 8), progress=False, **limits)


def test_a_report_shows_its_best_its_work_and_its_tree(tmp_path: Path) -> None:
    page = report(tmp_path, lambda config, step: {"loss": config["lr"].value(step)})._repr_html_()
    read = Reader(page)
    shown = dict(zip(read.cells[::2], read.cells[1::2], strict=True))
    assert "Best: trial 1 at step 8" in read.text
    assert shown["loss"] == "0.01"
    assert shown["config.lr"] == "MultiStep(0.1, [4])"
    assert (shown["steps requested"], shown["steps trained"]) == ("16", "12")
    assert shown["merge rate"] == "1.33"
    tree = [line.split("[")[0].strip() for line in read.text.splitlines() if "[" in line]
    assert tree[-2:] == ["├╴lr 0.1", "╰╴lr 0.01"]


def test_it_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    page = report(tmp_path, lambda config, step: {"loss": 1.0})._repr_html_()
    read = Reader(page)
    assert "<script" not in page
    assert "http" not in page
    assert read.attributes == {"style"}
    assert "a <b>bold</b> name" in read.text
    assert "<script>alert(1)</script>" in read.text


def test_a_report_without_a_result_says_so(tmp_path: Path) -> None:
    def fails(config: Config, step: int) -> dict[str, float]:
        raise ValueError("no")

    read = Reader(report(tmp_path, fails)._repr_html_())
    assert "2 trials, 2 failed" in read.text
    assert "No trial has a result." in read.text
    cut = Reader(report(tmp_path, lambda config, step: {"loss": 1.0}, deadline=0.5)._repr_html_())
    assert "Ended by the deadline: 2 trials cut short." in cut.text
