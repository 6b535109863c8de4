"""A report as HTML, for notebooks: the best trial, the work, and the stage tree as text.

Everything is in the page itself: no script, no style sheet and no picture is loaded from anywhere. All that
comes from the user is escaped.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from hippotune.sequences.constant import written
from hippotune.short import plural
from hippotune.stages.tree import stage_tree

if TYPE_CHECKING:
    from hippotune.plan.node import Node
    from hippotune.study.best import Best
    from hippotune.study.report import Report
    from hippotune.study.work import Work

_TREE_COLUMNS = 100


def report_html(report: Report, best: Best | None, asks: Sequence[tuple[Node, int]]) -> str:
    """Return a report as a piece of a page; `asks` is how far each of its trials was asked."""
    parts = [*_outcome(report, best), *_work(report.work), *_tree(asks)]
    return f'<div style="font-family: sans-serif; max-width: 60em">{"".join(parts)}</div>'


def _outcome(report: Report, best: Best | None) -> Iterator[str]:
    failed = f", {len(report.failed):,} failed" if report.failed else ""
    failed += f", {len(report.suspended):,} suspended" if report.suspended else ""
    trials = plural(len(report.trials), "trial")
    yield f"<h4>Study {escape(report.study)}: {trials}{failed}</h4>"
    if report.ended_by is not None:
        yield f"<p>Ended by the {report.ended_by}: {plural(len(report.cut), 'trial')} cut short.</p>"
    yield f"<p>Resumed trials: {escape(report.exactness)}</p>"
    if best is not None:
        yield f"<p><b>Best: trial {best.number} at step {best.step:,}</b></p>"
        metrics = ((name, f"{value:.6g}") for name, value in best.metrics.items())
        config = ((f"config.{name}", str(written(sequence))) for name, sequence in best.config.items())
        yield _table([*metrics, *config])
    else:
        yield "<p>No trial has a result.</p>"


def _work(work: Work) -> Iterator[str]:
    yield "<p><b>Work</b></p>"
    yield _table(
        [
            ("steps requested", f"{work.steps_requested:,}"),
            ("steps trained", f"{work.steps_trained:,}"),
            ("steps found", f"{work.steps_found:,}"),
            ("proofs", work.proofs),
            ("merge rate", f"{work.merge_rate:.2f}"),
            ("time", f"{work.wall_seconds:,.1f} s on {plural(work.workers, 'worker')}"),
            ("busy", f"{work.utilisation:.0%}"),
        ]
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td style="text-align: left">{escape(name)}</td>'
        f'<td style="text-align: left"><code>{escape(value)}</code></td></tr>'
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def _tree(asks: Sequence[tuple[Node, int]]) -> Iterator[str]:
    from rich.console import Console

    from hippotune.view.tree import TreeDrawing

    if asks:
        text = io.StringIO()
        console = Console(file=text, width=_TREE_COLUMNS, color_system=None, markup=False, emoji=False)
        console.print(TreeDrawing(stage_tree(asks, scratch=True)))
        yield "<p><b>Stage tree</b></p>"
        yield f'<pre style="line-height: 1.2">{escape(text.getvalue().rstrip())}</pre>'
