"""``hippo doctor``: whether everything that a store holds is what was written."""

from __future__ import annotations

import argparse

from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_store, open_catalog
from hippotune.short import plural

_DESCRIPTION = """\
Examine a store: the database file, the check value of every fact, the digest of every checkpoint.
Say what is damaged or lost, and what to do. Nothing is changed, and studies that are being trained
are not disturbed. With --repair, remove what is damaged: it is trained or measured again where it
is needed; plans in use are passed over. Exit status: 0 if nothing is wrong, or all was repaired;
1 if something is left."""

_EXAMPLES = """\
examples:
  hippo doctor                 examine the studies below .hippo
  hippo doctor --repair        and remove what is damaged"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    summary = "examine a store and its checkpoints, and repair them"
    parser = add_command(commands, "doctor", summary, _DESCRIPTION, _EXAMPLES, run)
    add_store(parser)
    parser.add_argument("--repair", action="store_true", help="remove what is damaged")


def run(options: argparse.Namespace) -> int:
    """Examine, and say what was found."""
    from hippotune.store.examination import Examination

    found, left, skipped = 0, 0, 0
    with open_catalog(options.home, options.store) as catalog:
        examination = Examination(catalog, options.repair)
        for finding in examination.findings():
            print(finding)
            found += finding.is_problem
            left += finding.is_problem and not finding.is_repaired
            skipped += not finding.is_problem
    facts, checkpoints = plural(examination.facts, "fact"), plural(examination.checkpoints, "checkpoint")
    result = f"{plural(found, 'problem')}, {left} left" if found else "nothing is wrong"
    besides = f"; {plural(skipped, 'plan')} in use, not examined" if skipped else ""
    print(f"examined {facts} and {checkpoints}: {result}{besides}")
    return 1 if left else 0
