"""``hippo retry STUDY``: have what failed or is suspended in a study tried again when it is next run.

Nothing is forgotten: that a failure is to be tried again is a further fact in the plan's log.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_study, home_of, named, opened
from hippotune.history.retrying import cleared
from hippotune.history.studies import read_study
from hippotune.short import plural
from hippotune.store.served import served_at

_DESCRIPTION = """\
Let failed and suspended trials of a study be tried again when it is next run. (A trial is suspended
when its workers were lost again and again.) Trials that share the steps that failed are tried
together. Then run or submit the study again. If a server has the home, the server is asked."""

_EXAMPLES = """\
examples:
  hippo retry digits               everything that failed or is suspended
  hippo retry digits --trial 7     one trial
  hippo retry digits --url http://host:8477     on a server
  hippo run digits.py              then, the study again"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    summary = "try failed and suspended trials again"
    parser = add_command(commands, "retry", summary, _DESCRIPTION, _EXAMPLES, run)
    add_study(parser)
    parser.add_argument(
        "--trial",
        metavar="NUMBER",
        type=int,
        help="only this trial, and those that share what failed",
    )


def run(options: argparse.Namespace) -> int:
    """Clear what keeps trials from going on, and say how many that are."""
    options.study, options.home, options.store = named(options)
    url = options.url or served_at(home_of(options.home))
    trials = _retry_there(url, options) if url else _retry_here(options)
    if trials:
        print(f"{plural(trials, 'trial')} of study {options.study}: tried again when it is next run")
    else:
        of = "" if options.trial is None else f" of trial {options.trial}"
        print(f"nothing{of} in study {options.study} has failed or is suspended")
    return 0


def _retry_here(options: argparse.Namespace) -> int:
    with opened(options) as (catalog, info, _), closing(catalog.plan(info.key)) as store:
        facts, trials = cleared(read_study(catalog, info), options.trial, time.time())
        store.write(facts)
    return trials


def _retry_there(url: str, options: argparse.Namespace) -> int:
    from hippotune.serve.client.catalog import remote_retry

    return remote_retry(url, options.study, options.plan, options.trial)
