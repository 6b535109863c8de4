"""A home belongs to its store: whose checkpoints a folder holds, and what may be removed from it.

The folder of a plan's checkpoints carries a mark: the id of its store, and a token of the opening that last
saved there. The store holds the tokens of all its openings, so that it knows a folder as its own, and knows
that it is not older than the folder itself. Nothing is removed from a folder before it was claimed:

* A folder of another store is refused.
* Where the store is older than the folder (it was restored from a copy), checkpoints that it does not know
  are set aside: nothing is lost if the newer one comes back.

The token is in the store before it is in the mark. So a process that is killed anywhere in between leaves a
folder that the store knows.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.short import plural
from hippotune.store.database import Database
from hippotune.store.files import MARK
from hippotune.store.schema import OPENINGS, PLANS, STORE, begin_log_anew
from hippotune.store.storage import CheckpointStorage

_WHERE = "Nothing was removed. Put the right database back or name it with store=, or choose another home"


@dataclass(frozen=True, slots=True)
class Mark:
    """What is written in a folder: the id of its store, and the token of the last opening."""

    store: str
    opening: str

    @classmethod
    def of(cls, files: CheckpointStorage) -> Mark | None:
        """Read the mark of a folder; None where it has none."""
        try:
            text = files.read_mark()
            return None if text is None else cls(**json.loads(text))
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(
                f"{files.where}/{MARK}, which says which store the checkpoints belong to, cannot be read: "
                f"{error}. Nothing was removed. If they are this store's own, remove that file and run again"
            ) from error

    def write(self, files: CheckpointStorage) -> None:
        """Mark a folder."""
        files.write_mark(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class SetAside:
    """Checkpoints that a store does not know, because it is older than they are: how many, and where."""

    count: int
    folder: str

    def __str__(self) -> str:
        return (
            f"the database is older than this plan's checkpoints: it does not list "
            f"{plural(self.count, 'checkpoint')}, now kept in {self.folder}. If you have the newer database, "
            "put both back; otherwise delete that folder"
        )


def claim(
    database: Database,
    plan: int,
    files: CheckpointStorage,
    known: Callable[[], set[str]],
    look_only: bool = False,
) -> SetAside | None:
    """See that a folder belongs to the store, and mark it so; `known` names the plan's checkpoints.

    Raises `StoreError` where it does not. Where the store is older than the folder, the plan's log is another
    one from now on. The plan's lock has to be held. With `look_only`, nothing is changed, and what would be
    set aside is returned.
    """
    mark = Mark.of(files)
    with database.reading() as connection:
        mine = str(connection.execute(sa.select(STORE.c.id)).scalar_one())
        own = mark is not None and is_own(connection, mark)
    aside = None
    if mark is None:
        _refuse_strangers(files, known)
    elif mark.store != mine:
        raise StoreError(
            f"the checkpoints in {files.where} belong to another store (id {mark.store}) than "
            f"{database.name} (id {mine}). {_WHERE}. If that store is gone for good, move the folder away"
        )
    elif not own:
        moved, place = files.set_aside(known(), mark.opening, look_only)
        aside = SetAside(moved, place) if moved else None
    if not look_only:
        token = secrets.token_hex(8)
        with database.changing() as connection:
            connection.execute(sa.insert(OPENINGS).values(token=token))
            if mark is not None and not own:
                begin_log_anew(connection, PLANS.c.id == plan)
        Mark(mine, token).write(files)
    return aside


def is_own(connection: sa.Connection, mark: Mark) -> bool:
    """Whether the store itself marked a folder, and is not older than the mark."""
    query = sa.select(STORE.c.id).where(
        STORE.c.id == mark.store, sa.exists().where(OPENINGS.c.token == mark.opening)
    )
    return connection.execute(query).first() is not None


def _refuse_strangers(files: CheckpointStorage, known: Callable[[], set[str]]) -> None:
    """Refuse a folder without a mark, from before there were any, of which the store knows no checkpoint."""
    found = set(files.names())
    if found and not found & known():
        raise StoreError(
            f"{files.where} holds {len(found)} checkpoints, none of which is known to this store: they "
            f"belong to another one. {_WHERE}. If that store is gone for good, move the folder away"
        )
