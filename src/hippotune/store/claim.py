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
from pathlib import Path

import sqlalchemy as sa

from hippotune.durable import replacing
from hippotune.errors import StoreError
from hippotune.store.database import Database
from hippotune.store.files import CheckpointFiles, explained
from hippotune.store.schema import OPENINGS, STORE

_MARK = "store.json"
_WHERE = "Nothing was removed. Put the right database back or name it with store=, or choose another home"


@dataclass(frozen=True, slots=True)
class Mark:
    """What is written in a folder: the id of its store, and the token of the last opening."""

    store: str
    opening: str

    @classmethod
    def of(cls, folder: Path) -> Mark | None:
        """Read the mark of a folder; None where it has none."""
        file = folder / _MARK
        try:
            return cls(**json.loads(file.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(
                f"{file}, which says which store the checkpoints belong to, cannot be read: {error}. "
                "Nothing was removed. If they are this store's own, remove that file and run again"
            ) from error

    def write(self, folder: Path) -> None:
        """Mark a folder, which is made where it does not exist. The mark before stays until this is whole."""
        name = f"{_MARK}.partial"  # one name is enough: the plan's lock is held
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(folder / _MARK, name) as temporary:
                temporary.write_text(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class SetAside:
    """Checkpoints that a store does not know, because it is older than they are: how many, and where."""

    count: int
    folder: Path

    def __str__(self) -> str:
        return (
            f"the database is older than the checkpoints of this plan: {self.count} that it does not know "
            f"are kept in {self.folder}. If there is a newer database, put both back; if not, remove them"
        )


def claim(
    database: Database, files: CheckpointFiles, known: Callable[[], set[str]], look_only: bool = False
) -> SetAside | None:
    """See that a folder belongs to the store, and mark it so; `known` names the plan's checkpoints.

    Raises `StoreError` where it does not. The plan's lock has to be held. With `look_only`, nothing is
    changed, and what would be set aside is returned.
    """
    folder = files.directory
    if folder.is_symlink():
        raise StoreError(
            f"{folder} is a symbolic link, and nothing is removed through links: expected a folder. "
            "Link the home, or the folder 'checkpoints' in it, instead"
        )
    mark = Mark.of(folder)
    with database.reading() as connection:
        mine = str(connection.execute(sa.select(STORE.c.id)).scalar_one())
        own = mark is not None and is_own(connection, mark)
    aside = None
    if mark is None:
        _refuse_strangers(files, known)
    elif mark.store != mine:
        raise StoreError(
            f"the checkpoints in {folder} belong to another store (id {mark.store}) than {database.name} "
            f"(id {mine}). {_WHERE}. If that store is gone for good, move the folder away"
        )
    elif not own:
        place = folder.with_name(f"{folder.name}.unknown-{mark.opening}")
        moved = files.set_aside(known(), place, look_only)
        aside = SetAside(moved, place) if moved else None
    if not look_only:
        token = secrets.token_hex(8)
        with database.changing() as connection:
            connection.execute(sa.insert(OPENINGS).values(token=token))
        Mark(mine, token).write(folder)
    return aside


def is_own(connection: sa.Connection, mark: Mark) -> bool:
    """Whether the store itself marked a folder, and is not older than the mark."""
    query = sa.select(STORE.c.id).where(
        STORE.c.id == mark.store, sa.exists().where(OPENINGS.c.token == mark.opening)
    )
    return connection.execute(query).first() is not None


def _refuse_strangers(files: CheckpointFiles, known: Callable[[], set[str]]) -> None:
    """Refuse a folder without a mark, from before there were any, of which the store knows no checkpoint."""
    found = set(files.names())
    if found and not found & known():
        raise StoreError(
            f"{files.directory} holds {len(found)} checkpoints, none of which is known to this store: they "
            f"belong to another one. {_WHERE}. If that store is gone for good, move the folder away"
        )
