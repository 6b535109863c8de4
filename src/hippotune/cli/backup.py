"""``hippo backup FILE``: a copy of a store's database, also while studies run."""

from __future__ import annotations

import argparse
from pathlib import Path

from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_store, home_of, open_catalog
from hippotune.short import plural

_DESCRIPTION = """\
Write everything that a store knows (studies, configs, results) to FILE, as it is at this moment;
studies go on meanwhile. Checkpoints stay where they are: what they hold can be trained again. To
put a backup back, copy it to plans.sqlite in the home, and remove plans.sqlite-wal and -shm there."""

_EXAMPLES = """\
examples:
  hippo backup plans.backup                    the store below .hippo
  hippo backup --home runs /mnt/plans.backup   another one"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "backup", "copy a store to a file", _DESCRIPTION, _EXAMPLES, run)
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write, or to replace")
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Make the copy."""
    from hippotune.store.backup import back_up

    with open_catalog(options.home, options.store) as catalog:
        back_up(catalog.database, options.file)
        plans = plural(len(catalog.plans()), "plan")
    print(f"{plans} in {options.file}; checkpoints and the file 'key' stay in {home_of(options.home)}")
    return 0
