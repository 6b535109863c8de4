"""``hippo gc``: remove what no plan knows, and plans that no study uses.

Files are removed only while the lock of their plan is held, so that nothing is taken from a study that is
being trained. A folder of checkpoints that belongs to no plan of the store is told and left alone: another
store, whose locks are not seen here, may use the same home.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.cli.columns import aligned, moment
from hippotune.cli.command import Commands, add_command
from hippotune.cli.studies import add_store, home_of, open_catalog
from hippotune.errors import InvalidInput
from hippotune.sizes import format_bytes
from hippotune.view import short

if TYPE_CHECKING:
    from hippotune.identity.key import PlanKey
    from hippotune.store.catalog import Catalog, PlanInfo

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
_SET_ASIDE = ".removed"


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
        cleaning = Cleaning(catalog, home_of(options.home), options.dry_run)
        for line in cleaning.lines(options.plans, ask=not options.yes):
            print(line)
            quiet = False
    if quiet:
        print("nothing to remove")
    return 0


class Cleaning:
    """Goes through the plans of a store and the checkpoints below one home. With `dry_run`, it only tells."""

    def __init__(self, catalog: Catalog, home: Path, dry_run: bool) -> None:
        self._catalog = catalog
        self._home = home
        self._dry_run = dry_run
        self._done = "would remove" if dry_run else "removed"

    def lines(self, plans: bool, ask: bool) -> Iterator[str]:
        """Remove one thing after the other, and tell it."""
        for folder in self._folders(_SET_ASIDE):  # of plans that are gone
            if not self._dry_run:
                shutil.rmtree(folder)
            yield f"{self._done} {folder}"
        if plans:
            yield from self._remove_plans(ask)
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
            size = format_bytes(holds.bytes)
            yield info.key.digest, info.key.trainer, names, f"{holds.results:,}", size, moment(used)

    def _remove_plan(self, key: PlanKey) -> str:
        from hippotune.shell.runtime import checkpoint_folder
        from hippotune.store.lock import PlanInUse

        folder = checkpoint_folder(self._home, key)
        aside = folder.with_name(folder.name + _SET_ASIDE)
        try:
            if self._dry_run:
                self._catalog.plan(key).close()
            else:
                with self._catalog.removing(key):
                    if folder.is_dir():  # in one go: a plan has all of its checkpoints, or is gone
                        folder.rename(aside)
        except PlanInUse as error:
            return f"left alone: {error}"
        except BaseException:
            if aside.is_dir():
                aside.rename(folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)
        return f"{self._done} the plan {key.digest} of {key.trainer}"

    # Files.

    def _remove_strays(self, key: PlanKey) -> Iterator[str]:
        from hippotune.shell.runtime import checkpoint_folder
        from hippotune.store.files import CheckpointFiles
        from hippotune.store.lock import PlanInUse

        files = CheckpointFiles(checkpoint_folder(self._home, key))
        if not files.directory.is_dir():
            return
        try:
            with closing(self._catalog.plan(key)) as store:
                known = {fact.checkpoint.name for fact in store.checkpoints()}
                strays = files.strays(known)
                if not self._dry_run:
                    files.sweep(known)
        except PlanInUse as error:
            yield f"left alone: {error}"
            return
        if strays:
            count, size = short.plural(len(strays), "file"), format_bytes(sum(strays.values()))
            yield f"{self._done} {count} that the plan {key.digest} of {key.trainer} does not know, {size}"

    def _unknown(self) -> Iterator[str]:
        """Name the folders of checkpoints that belong to no plan of the store."""
        known = {info.key.digest for info in self._catalog.plans()}
        for folder in self._folders(""):
            if folder.name not in known:
                size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
                yield (
                    f"left alone: {folder} ({format_bytes(size)}) belongs to no plan of this store; "
                    "if no other store has this home, it can be removed by hand"
                )

    def _folders(self, ending: str) -> Iterator[Path]:
        """Yield the folders below the home that are named after a plan, with something behind it."""
        name = re.compile("[0-9a-f]{16}" + re.escape(ending))
        for path in sorted((self._home / "checkpoints").glob("*/")):
            if name.fullmatch(path.name):
                yield path


def _agreed() -> bool:
    """Ask whether plans may be removed."""
    if not sys.stdin.isatty():
        raise InvalidInput(
            "nobody can be asked here whether to remove plans; say --yes, or --dry-run to look"
        )
    return input("Remove these plans, with all their results and checkpoints? [y/N] ").strip().lower() == "y"
