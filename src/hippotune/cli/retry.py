"""``hippo retry STUDY``: have what failed or is suspended in a study tried again when it is next run.

Nothing is forgotten: that a failure is to be tried again is a further fact in the plan's log.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_study, opened
from hippotune.cli.trial import trials_numbered
from hippotune.errors import InvalidInput
from hippotune.history.studies import read_study
from hippotune.plan.facts import Fact
from hippotune.short import plural

_DESCRIPTION = """\
Have trials of a study tried again that failed, or that are suspended because they were lost with
their workers. What keeps a trial from going on may lie on a beginning that it shares with others:
then they are tried again with it. Run the study again afterwards: it trains what is missing."""

_EXAMPLES = """\
examples:
  hippo retry digits               everything that failed or is suspended
  hippo retry digits --trial 7     one trial
  hippo run digits.py              then, the study again"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    summary = "have failed and suspended trials tried again"
    parser = add_command(commands, "retry", summary, _DESCRIPTION, _EXAMPLES, run)
    add_study(parser)
    parser.add_argument(
        "--trial", metavar="NUMBER", type=int, help="only what keeps this trial from going on"
    )


def run(options: argparse.Namespace) -> int:
    """Clear what keeps trials from going on, and say how many that are."""
    if options.url is not None:
        raise InvalidInput("hippo retry is for a home: run it where that is, while its server is not")
    with opened(options) as (catalog, info, _), closing(catalog.plan(info.key)) as store:
        history = read_study(catalog, info)
        plan, hindered = history.plan, [trial for trial in history.trials if trial.error is not None]
        chosen = history.trials if options.trial is None else trials_numbered(history, options.trial)
        now = time.time()
        cleared: list[Fact] = [
            plan.clear(position, now)
            for trial in chosen
            for position in plan.obstacles(trial.node, trial.asked)
        ]
        store.write(cleared)
    freed = [trial for trial in hindered if not plan.obstacles(trial.node, trial.asked)]
    if cleared:
        number = max(len(freed), 1)  # what failed may have been a report on the way, which is not listed
        print(f"to be tried again when study {info.name} is next run: {plural(number, 'trial')}")
    else:
        of = "" if options.trial is None else f" of trial {options.trial}"
        print(f"nothing{of} in study {info.name} has failed or is suspended")
    return 0
