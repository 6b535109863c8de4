"""``hippo gc``: remove what no plan knows, and plans that no study uses.

Files are removed only while the lock of their plan is held, so that nothing is taken from a study that is
being trained, and only from folders that the store knows as its own, as when a study is opened. A folder
that belongs to no plan of the store is told and left alone: another store, whose locks are not seen here, may
use the same home.

A plan is first forgotten in the store, then its folder is removed: a folder that carries the store's mark and
has no plan is left over, and is removed the next time.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from hippotune import short
from hippotune.cli.columns import aligned, moment
from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_store, open_catalog
from hippotune.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    from hippotune.identity.key import PlanKey
    from hippotune.store.catalog import Catalog, PlanInfo
    from hippotune.store.claim import SetAside

_DESCRIPTION = """\
Remove checkpoint files that no plan knows, and temporary files that killed processes left behind.
With --plans, also plans that no study uses any more, such as those of earlier training code, with
all their results and checkpoints. Plans that are being trained on are left alone."""

_EXAMPLES = """\
examples:
  hippo gc --dry-run            say what would be removed
  hippo gc                      remove files that no plan knows
  hippo gc --plans              also plans that no study uses any more, after asking
  hippo gc --plans --yes        the same without asking"""

_HEADS = ("plan", "trainer", "studies", "results", "checkpoints", "last used")


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "gc", "remove what is no longer of use", _DESCRIPTION, _EXAMPLES, run)
    add_store(parser)
    parser.add_argument("--plans", action="store_true", help="remove plans that no study uses any more, too")
    parser.add_argument("--yes", action="store_true", help="do not ask before plans are removed")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be removed, and remove nothing"
    )


def run(options: argparse.Namespace) -> int:
    """Remove, and say what was removed."""
    quiet = True
    with open_catalog(options.home, options.store) as catalog:
        cleaning = Cleaning(catalog, options.dry_run)
        for line in cleaning.lines(options.plans, ask=not options.yes):
            print(line)
            quiet = False
    if quiet:
        print("nothing to remove")
    return 0


class Cleaning:
    """Goes through the plans of a store and the checkpoints below one home. With `dry_run`, it only tells."""

    def __init__(self, catalog: Catalog, dry_run: bool) -> None:
        self._catalog = catalog
        self._storage = catalog.storage
        self._dry_run = dry_run
        self._done = "would remove" if dry_run else "removed"

    def lines(self, plans: bool, ask: bool) -> Iterator[str]:
        """Remove one thing after the other, and tell it."""
        if plans:
            yield from self._remove_plans(ask)
        yield from self._remove_leftovers()
        for info in self._catalog.plans():
            yield from self._remove_strays(info.key)
        yield from self._unknown()

    # Plans.

    def _remove_plans(self, ask: bool) -> Iterator[str]:
        unused = self._catalog.unused()
        if not unused:
            return
        yield from aligned(_HEADS, self._rows(unused), left=(0, 1, 2))
        if ask and not self._dry_run and not _agreed():
            yield "the plans are kept"
            return
        for info in unused:
            yield self._remove_plan(info.key)

    def _rows(self, plans: Iterable[PlanInfo]) -> Iterator[tuple[str, ...]]:
        totals, studies = self._catalog.totals(), self._catalog.studies()
        for info in plans:
            users = [study for study in studies if study.key == info.key]
            names = ", ".join(sorted(study.name for study in users))
            used = max((study.used for study in users), default=info.made)
            holds = totals[info.key]
            size = short.size(holds.bytes)
            yield info.key.digest, info.key.trainer, names, f"{holds.results:,}", size, moment(used)

    def _remove_plan(self, key: PlanKey) -> str:
        """Remove what is known of a plan. Its files, by which the store knows its own, are then leftovers."""
        try:
            self._claimed(key)
            if not self._dry_run:
                self._catalog.remove(key)
        except StoreError as error:
            return f"left alone: {error}"
        return f"{self._done} the plan {key.digest} of {key.trainer}"

    def _claimed(self, key: PlanKey) -> tuple[dict[str, int], SetAside | None]:
        """Remove what a plan does not know from its folder; return that, and what was set aside."""
        files = self._catalog.checkpoints(key)
        with closing(self._catalog.plan(key)) as store:
            if files.read_mark() is None and not files.strays(set()):
                return {}, None
            aside = store.claim(files, look_only=self._dry_run)
            known = {fact.checkpoint.name for fact in store.checkpoints()}
            strays = {} if aside is not None and self._dry_run else files.strays(known)
            if not self._dry_run:
                files.sweep(known)
            return strays, aside

    # Files.

    def _remove_leftovers(self) -> Iterator[str]:
        """Remove the folders of plans that were removed, now or by a `gc` that was killed."""
        from hippotune.store.files import RETIRED

        half_removed = [*self._folders(rf"(\.[0-9a-f]{{8}})?{re.escape(RETIRED)}")]
        for folder in self._folders(""):
            files = self._storage.of(folder)
            with self._catalog.without_plan(folder, files) as is_left_over:
                # While it is locked: a new start of the plan finds nothing of it.
                retired = self._storage.retire(folder) if is_left_over and not self._dry_run else folder
            if is_left_over:
                yield self._remove(files.where, retired)
        for folder in half_removed:
            yield self._remove(self._storage.of(folder).where, folder)

    def _remove(self, where: str, folder: str) -> str:
        if not self._dry_run:
            self._storage.remove(folder)
        return f"{self._done} {where}"

    def _remove_strays(self, key: PlanKey) -> Iterator[str]:
        try:
            strays, aside = self._claimed(key)
        except StoreError as error:
            yield f"left alone: {error}"
            return
        if aside is not None:
            yield str(aside)
        if strays:
            count, size = short.plural(len(strays), "file"), short.size(sum(strays.values()))
            yield f"{self._done} {count} that the plan {key.digest} of {key.trainer} does not know, {size}"

    def _unknown(self) -> Iterator[str]:
        """Name the folders of checkpoints that belong to no plan of the store."""
        known = {info.key.digest for info in self._catalog.plans()}
        for folder in self._folders(r"(\.unknown-.*)?"):
            if folder not in known:
                where, size = self._storage.of(folder).where, self._storage.size(folder)
                yield (
                    f"left alone: {where} ({short.size(size)}) belongs to no plan of this store; "
                    "if no other store has this home, it can be removed by hand"
                )

    def _folders(self, ending: str) -> Iterator[str]:
        """Yield the folders that are named after a plan, with something behind it."""
        name = re.compile("[0-9a-f]{16}" + ending)
        return (folder for folder in self._storage.folders() if name.fullmatch(folder))


def _agreed() -> bool:
    """Ask whether plans may be removed."""
    if not sys.stdin.isatty():
        raise InvalidInput(
            "removing plans needs a confirmation, and there is no terminal to ask on; "
            "use --yes, or --dry-run to look"
        )
    return input("Remove these plans, with all their results and checkpoints? [y/N] ").strip().lower() == "y"
