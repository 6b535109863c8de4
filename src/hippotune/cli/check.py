"""``hippo check FILE``: whether trials of a study give the same bits however they are cut and moved."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from itertools import islice

from hippotune.cli.command import Commands, add_command, add_file, whole_number
from hippotune.cli.script import Script, load
from hippotune.errors import InvalidInput, NotExact
from hippotune.sequences.config import Config

_DESCRIPTION = """\
Check that the trainer of the study that FILE defines is exact: that a trial comes to the same
bits straight through, cut after any step and continued in another process, after other trials
in the same process, and with evaluations or without. Sharing relies on it.

One trial is trained a few steps, many times over, in fresh processes. Every metric and every
attribute of the trainer is compared; what differs is named. Nothing is kept."""

_EXAMPLES = """\
exit status:
  0  exact
  1  not exact: the message names what differs, why, and what to do
  2  the check could not be made: the trainer's state cannot be saved, or its own code failed

examples:
  hippo check digits.py                the first trial of the tuner's space, over 4 steps
  hippo check digits.py --steps 8      longer, so that schedules change on the way
  hippo check digits.py --trial 12     another trial: other hyper-parameters, other code
  hippo check digits.py --quick        all cuts in one process, where starting one takes long"""

_STEPS = 4


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    summary = "check that trials can be cut, moved and shared without changing a bit"
    parser = add_command(commands, "check", summary, _DESCRIPTION, _EXAMPLES, run)
    add_file(parser)
    parser.add_argument(
        "--steps",
        metavar="N",
        type=whole_number,
        help=f"how many steps to train (default: {_STEPS}, or what the trial has); about N * N are trained "
        "in all",
    )
    parser.add_argument(
        "--trial", metavar="K", type=int, default=0, help="which trial of the space, from 0 on (default: 0)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="go on from all cuts in one fresh process, instead of one process for each",
    )


def run(options: argparse.Namespace) -> int:
    """Check one trial and say what came of it."""
    from hippotune.testing import check_exact

    script = load(options.file, options.arguments, options.module)
    study = script.study
    config = _config(script, options.trial)
    steps = options.steps or min(_STEPS, config.limit or _STEPS)
    print(f"study {study.name} in {script.file}, trial {options.trial}: {config}")
    sys.stdout.flush()
    try:
        found = check_exact(
            study.trainer,
            config,
            steps,
            study.settings,
            study.seed,
            quick=options.quick,
            environment=study.executor.environment(),
        )
    except NotExact as error:
        print(f"hippo: {error}", file=sys.stderr)
        return 1
    print(found)
    return 0


def _config(script: Script, number: int) -> Config:
    from hippotune.tuners.space_tuner import SpaceTuner
    from hippotune.tuners.trial_list import TrialList

    tuner = script.tuner
    if not isinstance(tuner, SpaceTuner | TrialList):
        raise InvalidInput(
            f"`tuner` in {script.file} is of the kind {type(tuner).__name__}, which has no space to take a "
            "trial from; hippo.testing.check_exact(Trainer, config, steps=4) checks any config"
        )
    if isinstance(tuner, SpaceTuner) and tuner.trials is None:
        configs: Iterable[Config] = tuner.space.configs()  # may be many: they are not listed for one of them
    else:
        configs = tuner.configs()
    config = next(islice(configs, number, None), None) if number >= 0 else None
    if config is None:
        raise InvalidInput(
            f"--trial is {number}; the tuner in {script.file} has {tuner.number} trials, numbered from 0"
        )
    return config
