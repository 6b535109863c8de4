"""``hippo ls``: the studies of a store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hippotune import short
from hippotune.cli.columns import aligned, moment
from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_store, open_catalog
from hippotune.errors import StoreError
from hippotune.history.studies import asked_as, read_study
from hippotune.plan.trials import trials_of

if TYPE_CHECKING:
    from hippotune.store.catalog import Catalog, StudyInfo
    from hippotune.store.totals import PlanTotals

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
  hippo ls --store postgresql://me@host/database    those of a database"""

_HEADS = ("study", "trainer", "trials", "results", "checkpoints", "last used", "best")
_LEFT = (0, 1, 5, 6)


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "ls", "list the studies of a store", _DESCRIPTION, _EXAMPLES, run)
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    from hippotune.store.catalog import latest

    with open_catalog(options.home, options.store) as catalog:
        totals = catalog.totals()
        rows = [_row(catalog, info, totals[info.key]) for info in latest(catalog.studies())]
        unused = [totals[info.key].bytes for info in catalog.unused()]
    for line in aligned(_HEADS, rows, _LEFT):
        print(line)
    if unused:
        plans, size = short.plural(len(unused), "plan"), short.size(sum(unused))
        print(f"\nand {plans} that no study uses any more, with {size} of checkpoints: see hippo gc --help")
    return 0


def _row(catalog: Catalog, info: StudyInfo, totals: PlanTotals) -> tuple[str, ...]:
    name, share = asked_as(info)
    asked = totals.asked.get(name, ())
    return (
        info.name,
        info.key.trainer,
        f"{len(set(trials_of(asked).values()) if share else asked):,}",
        f"{totals.results:,}",
        short.size(totals.bytes),
        moment(info.used),
        _best(catalog, info),
    )


def _best(catalog: Catalog, info: StudyInfo) -> str:
    """Return the best result, where it is known by what, and where it can be read."""
    if info.metric is None:
        return ""
    try:
        history = read_study(catalog, info)
    except StoreError:
        return ""
    aim = history.aim()
    best = None if aim is None else history.best(*aim)
    if best is None:
        return ""
    value = f"{info.metric} {short.metric(best.metrics[info.metric])}"
    return value if history.is_proved else f"{value}, not proved"
