"""``hippo run FILE``: train a study to its end, or as far as it is let."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.cli.command import Commands, add_command, add_file, whole_number, write_page
from hippotune.cli.script import Script, load
from hippotune.errors import InvalidInput
from hippotune.executors.local.ahead import expect_workers_of

if TYPE_CHECKING:
    from hippotune.study.report import Report

_DESCRIPTION = """\
Train the study that FILE defines: run study.tune(tuner) and print the report.

Everything trained is kept below the study's home. Ctrl-C stops at the end of the running
steps; the same command goes on from there, and takes every result that is there already."""

_EXAMPLES = """\
FILE defines `study` and `tuner`:
  import hippotune as hippo

  class Digits(hippo.TorchTrainer):
      ...

  space = hippo.Grid({"lr": [0.1, hippo.Exponential(0.1, 0.95)], "bs": [64, 128]})
  study = hippo.Study("digits", Digits, executor=hippo.Local(workers=2))
  tuner = hippo.SuccessiveHalving(space, "val_acc", "max", min_steps=15, max_steps=120)

examples:
  hippo run digits.py                  live progress on a terminal, plain lines elsewhere
  hippo run digits.py > report.txt     progress on the terminal, the report in a file
  hippo run digits.py --no-progress    only the report
  hippo run digits.py --page           watch the tree grow in a browser
  hippo run digits.py --html page.html the same as a file, when it has ended
  hippo run digits.py --deadline 3600  the best model in an hour
  hippo run digits.py --deadline 17:00 the best model by five o'clock
  hippo run digits.py --budget 2       the best model for two worker-hours
  hippo run digits.py -- --data small  what follows -- is the file's own: its sys.argv
  hippo run -m package.digits          a module of a package, with relative imports
  hippo run digits.toml                a study described in TOML: trainer, space, tuner, executor"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "run", "train a study", _DESCRIPTION, _EXAMPLES, run)
    add_file(parser)
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show progress on standard error (default)",
    )
    parser.add_argument(
        "--deadline",
        type=_deadline,
        metavar="WHEN",
        help="end after this many seconds, or at a time: 3600, 17:00, 2030-01-31T17:00",
    )
    parser.add_argument(
        "--page", action="store_true", help="serve a page of the study on this machine while it is trained"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write the page of the study to one file when it has ended"
    )
    parser.add_argument("--port", type=whole_number, help="with --page: serve it on this port")
    parser.add_argument("--budget", type=float, metavar="HOURS", help="end after this many worker-hours")


def _deadline(text: str) -> float | datetime:
    """Read seconds, a time of day to come, or a moment."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    with suppress(ValueError):
        at = time.fromisoformat(text)
        now = datetime.now(at.tzinfo)
        moment = datetime.combine(now, at)
        return moment if moment > now else moment + timedelta(days=1)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no time; expected seconds or a moment, such as 3600, 17:00 or 2030-01-31T17:00"
    )


def run(options: argparse.Namespace) -> int:
    """Tune and report."""
    if not options.module:
        expect_workers_of(Path(options.file))
    script = load(options.file, options.arguments, options.module)
    if options.html is not None:
        _check_page(options.html)
    try:
        with _page(script, options.port) if options.page else nullcontext():
            report = script.study.tune(
                script.tuner, deadline=options.deadline, budget=options.budget, progress=options.progress
            )
        if options.html is not None:
            write_page(options.html, _document(script))
    except KeyboardInterrupt:
        kept = f"everything is kept in {script.study.home}"
        print(f"stopped; {kept}. To go on: hippo run {shlex.join(script.command)}", file=sys.stderr)
        return 130
    finally:
        script.study.close()
    print(report)
    status = tell_failures(report)
    if options.progress is not False and not script.study.executor.virtual:
        sys.stdout.flush()
        shown = shlex.join(script.command if len(script.command) == 1 else (script.study.name,))
        page = "--web shows it in a browser, hippo export writes tables and a page"
        print(f"to look at it again: hippo show {shown}; {page}", file=sys.stderr)
    return status


@contextmanager
def _page(script: Script, port: int | None) -> Iterator[None]:
    from hippotune.page.running import page_of

    with page_of(script.study, script.tuner, port) as server:
        print(f"the page of {script.study.name}: {server.url}", file=sys.stderr, flush=True)
        yield


def _check_page(path: Path) -> None:
    """Refuse to train for a page that could not be written in the end."""
    from hippotune.page.bundle import asset

    asset("index.html")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write to {path}: there is no folder {path.parent}")


def _document(script: Script) -> str:
    """Return the page of what was tuned, as one file."""
    from hippotune.page.bundle import alone
    from hippotune.page.running import source_of
    from hippotune.page.source import whole

    with source_of(script.study, script.tuner) as source:
        return alone(whole(source))


def tell_failures(report: Report) -> int:
    """Show why trials failed, by the first of them; that none has come to anything is the exit status too."""
    failed = report.failed
    if failed:
        others = f" (the first of {len(failed)})" if len(failed) > 1 else ""
        print(f"\ntrial {failed[0].number} failed{others}:\n{failed[0].error}", file=sys.stderr)
    return 1 if report.trials and all(trial.error is not None for trial in report.trials) else 0
