"""The checkpoints of one plan in a database, each with a keyed check.

One whose check is missing or wrong was not written by this plan's own workers: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import sqlalchemy as sa

from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Checkpoint, CheckpointKept, Position
from hippotune.store.database import Database, rows_of
from hippotune.store.schema import CHECKPOINTS
from hippotune.store.secret import Secret


class CheckpointRows:
    """See the module. `refused` are the positions of those that reading has passed over."""

    def __init__(
        self, database: Database, plan: int, key: PlanKey, open_secret: Callable[[], Secret | None]
    ) -> None:
        self.refused: list[Position] = []
        self._database = database
        self._plan = plan
        self._key = key
        self._open_secret = open_secret

    @cached_property
    def _secret(self) -> Secret | None:
        return self._open_secret()

    def open_key(self) -> None:
        """Open the key now. Raises `StoreError` where it cannot be used."""
        _ = self._secret

    def change(self, connection: sa.Connection, changes: Mapping[Position, Checkpoint | None]) -> None:
        """Keep checkpoints in place of what was there before; None drops it."""
        places = [{"at_plan": self._plan, "at_node": node, "at_step": step} for node, step in changes]
        connection.execute(_DELETE, places)
        kept = [
            (
                self._plan,
                *position,
                checkpoint.name,
                checkpoint.bytes,
                checkpoint.checksum,
                self._check_of(position, checkpoint),
                checkpoint.platform,
                int(checkpoint.interim),
            )
            for position, checkpoint in changes.items()
            if checkpoint is not None
        ]
        if kept:
            self._database.insert(connection, CHECKPOINTS, kept)

    def _check_of(self, position: Position, checkpoint: Checkpoint) -> str:
        assert self._secret is not None
        return self._secret.check_of(self._key.digest, position, checkpoint)

    def read(self, connection: sa.Connection, checked: bool = True) -> Iterator[CheckpointKept]:
        """Yield the checkpoints in the order of their positions; unless they are `checked`, all of them."""
        secret = self._secret if checked else None
        if checked:
            self.refused.clear()
        columns = ("node", "step", "name", "bytes", "checksum", "keyed_check", "platform", "interim")
        query = (
            sa.select(*(CHECKPOINTS.c[name] for name in columns))
            .where(CHECKPOINTS.c.plan == self._plan)
            .order_by(CHECKPOINTS.c.node, CHECKPOINTS.c.step)
        )
        for rows in rows_of(connection, query):
            for node, step, name, size, checksum, check, platform, interim in rows:
                position = Position(node, step)
                checkpoint = Checkpoint(name, size, checksum, platform or "", bool(interim))
                if secret is None or secret.accepts(check, self._key.digest, position, checkpoint):
                    yield CheckpointKept(position, checkpoint)
                else:
                    self.refused.append(position)


_DELETE = sa.delete(CHECKPOINTS).where(
    CHECKPOINTS.c.plan == sa.bindparam("at_plan"),
    CHECKPOINTS.c.node == sa.bindparam("at_node"),
    CHECKPOINTS.c.step == sa.bindparam("at_step"),
)
