"""``hippo export STUDY``: a study as a table, for other programs."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from hippotune.cli.command import Commands, add_command, write_page
from hippotune.cli.studies import add_study, opened, reading
from hippotune.errors import InvalidInput, MissingExtra
from hippotune.history.history import History
from hippotune.study.report import TrialReport
from hippotune.study.table import ResultTable

_DESCRIPTION = """\
Write a study as a table: a row for every trial and step at which it was measured, and one for every
trial that failed, at the step that it was asked for. With --logged, what its training logged."""

_EXAMPLES = """\
the columns:
  study, trial, step   which result it is
  config.NAME          a hyper-parameter: a constant's value, or the sequence as written in Python
  NAME                 a metric, or nothing where it was not measured (metric.NAME if NAME is taken)
  error                why the trial failed, or is suspended

with --logged:
  study, trial, step   a step on the trial's way, those that it shares with others included
  name, value          what train() logged there

the formats:
  csv        numbers in full
  json       a list of objects; what is not a finite number is null
  parquet    needs pandas and pyarrow: pip install 'hippotune[pandas]'

examples:
  hippo export digits > digits.csv
  hippo export digits -o digits.parquet
  hippo export digits --format json | jq '.[0]'
  hippo export digits --logged -o curves.parquet
  hippo export digits --html digits.html             the page in one file, to look at or to send"""

_FORMATS = ("csv", "json", "parquet")


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "export", "write a study as a table", _DESCRIPTION, _EXAMPLES, run)
    add_study(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write to this file (default: standard output)"
    )
    parser.add_argument(
        "--logged", action="store_true", help="write the numbers that train() logged, in place of the metrics"
    )
    parser.add_argument(
        "--unproved", action="store_true", help="write results though training was not proved to be exact"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write the study as a page in one file that stands alone"
    )
    parser.add_argument(
        "--format", choices=_FORMATS, help="the format (default: as the file's name ends, or csv)"
    )


def run(options: argparse.Namespace) -> int:
    """Read the study and write it."""
    if options.html is not None:
        return _write_page(options)
    output: Path | None = options.output
    chosen = _format(options.format, output)
    with reading(options) as stored:
        name, history = stored.info.name, stored.history
        if not (history.is_proved or options.unproved) and any(history.measurements()):
            raise InvalidInput(
                f"the results of {name} are provisional: {history.exactness}. Run the study to its end, or "
                "to write them as they are: --unproved"
            )
        table = LoggedTable(name, history) if options.logged else _results(name, history)
        _write(table, chosen, output)
    return 0


def _write_page(options: argparse.Namespace) -> int:
    from hippotune.page.bundle import alone
    from hippotune.page.source import StoredPlan, whole

    with opened(options) as (catalog, info, home):
        write_page(options.html, alone(whole(StoredPlan(catalog, info, home))))
    return 0


def _write(table: ResultTable | LoggedTable, chosen: str, output: Path | None) -> None:
    try:
        if chosen == "parquet" and output is not None:
            _write_parquet(table, output)
        else:
            with _opened(output) as file:
                (_write_csv if chosen == "csv" else _write_json)(table, file)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidInput(
            f"cannot write to {output or 'standard output'}: {error.strerror or error}"
        ) from error


def _format(given: str | None, output: Path | None) -> str:
    """Return the format that is meant."""
    chosen = given or ("csv" if output is None else output.suffix.removeprefix(".").lower())
    if chosen not in _FORMATS:
        endings = ", ".join(f".{name}" for name in _FORMATS)
        raise InvalidInput(
            f"the name {output} does not say the format; expected an ending among {endings}, or --format"
        )
    if chosen == "parquet" and output is None:
        raise InvalidInput("Parquet is not text, and is not written to standard output; name a file with -o")
    return chosen


class LoggedTable:
    """What training logged: a row for every number."""

    def __init__(self, study: str, history: History) -> None:
        self._study = study
        self._history = history
        self.columns = ["study", "trial", "step", "name", "value"]

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows, trial by trial, name by name and step by step."""
        for trial in self._history.trials:
            for name, numbers in self._history.logged(trial).items():
                for step, number in numbers:
                    yield [self._study, trial.number, step, name, number]


def _results(study: str, history: History) -> ResultTable:
    """Return what was measured."""
    return ResultTable(
        [
            TrialReport(trial.number, trial.config, trial.asked, trial.metrics(), trial.error)
            for trial in history.trials
        ],
        study,
    )


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
    else:
        with output.open("w", encoding="utf-8", newline="") as file:
            yield file


def _write_csv(table: ResultTable | LoggedTable, file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows())


def _write_json(table: ResultTable | LoggedTable, file: TextIO) -> None:
    separator = "["
    for row in table.rows():
        cells = (None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row)
        file.write(f"{separator}\n{json.dumps(dict(zip(table.columns, cells, strict=True)))}")
        separator = ","
    file.write("[]\n" if separator == "[" else "\n]\n")


def _write_parquet(table: ResultTable | LoggedTable, output: Path) -> None:
    try:
        import pandas

        rows = list(table.rows())
        columns = {name: _alike([row[place] for row in rows]) for place, name in enumerate(table.columns)}
        pandas.DataFrame(columns).to_parquet(output, engine="pyarrow", index=False)
    except ImportError as error:
        raise MissingExtra(
            f"writing Parquet needs pandas and pyarrow ({error}): pip install 'hippotune[pandas]'"
        ) from error


def _alike(cells: list[Any]) -> list[Any]:
    """Return a column whose cells are of one kind, as in Parquet they must be: as text, if they are not."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) < 2 or kinds == {int, float}:
        return cells
    return [None if cell is None else str(cell) for cell in cells]
