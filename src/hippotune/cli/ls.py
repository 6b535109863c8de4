"""``hippo ls``: the studies of a store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hippotune import short
from hippotune.cli.columns import aligned, moment
from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_store, add_url, open_catalog

if TYPE_CHECKING:
    from hippotune.history.listing import Listed

_DESCRIPTION = """\
List the studies of a home, or of a database, the last used first. Nothing is changed, and studies
that are being trained are not disturbed."""

_EXAMPLES = """\
in the list:
  trials        how many trials the study has asked for
  results       how often its plan was measured, for this study or another one on the same plan
  checkpoints   what the checkpoints of its plan take
  best          the best result by the metric that the study was last tuned for

examples:
  hippo ls                                          the studies below .hippo
  hippo ls --home runs                              those below another home
  hippo ls --url http://host:8477                   those of a server
  hippo ls --store postgresql://me@host/database    those of a database"""

_HEADS = ("study", "trainer", "trials", "results", "checkpoints", "last used", "best")
_LEFT = (0, 1, 5, 6)


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "ls", "list the studies of a store", _DESCRIPTION, _EXAMPLES, run)
    add_store(parser)
    add_url(parser)


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    if options.url is not None:
        from hippotune.serve.client.catalog import remote_listing

        _print(remote_listing(options.url))
        return 0
    from hippotune.history.listing import listing

    with open_catalog(options.home, options.store) as catalog:
        found = listing(catalog)
        totals = catalog.totals()
        unused = [totals[info.key].bytes for info in catalog.unused()]
    _print(found)
    if unused:
        plans, size = short.plural(len(unused), "plan"), short.size(sum(unused))
        print(f"\nand {plans} that no study uses any more, with {size} of checkpoints: see hippo gc --help")
    return 0


def _print(found: list[Listed]) -> None:
    rows = [
        (
            each.info.name,
            each.info.key.trainer,
            f"{each.trials:,}",
            f"{each.results:,}",
            short.size(each.bytes),
            moment(each.info.used),
            each.best,
        )
        for each in found
    ]
    for line in aligned(_HEADS, rows, _LEFT):
        print(line)
