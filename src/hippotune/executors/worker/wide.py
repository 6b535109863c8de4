"""One lease on several workers: what the one that leads and its peers do beyond a lease on one worker.

    lead   meet ── start ── send the state ── tell ─ train ─ tell ─ evaluate ─ … ─ tell "finish" ─ leave
    peer   meet ── prepare ── take the state ── hear ─ train ─ hear ─ evaluate ─ … ─ hear "finish" ─ leave

Only the lead speaks with the parent. A peer that fails leaves a note for the lead and goes back to its inbox;
a peer whose lead fails goes back quietly. A lead that loses a peer without a note cannot go on and has nobody
to blame: it ends its process, so that the parent sees the lease as lost.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from hippotune.executors.worker.failures import failure_of
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import LeaseFailed
from hippotune.protocol.lease_run import LeaseRun
from hippotune.sequences.config import Config
from hippotune.trainers.session import Session
from hippotune.trainers.state.formats import Source

if TYPE_CHECKING:  # it imports torch
    from hippotune.trainers.parallel.ranks import Ranks

# What a lead tells its peers is the place in this list.
_Order = Literal["finish", "train", "evaluate", "probe"]
_ORDERS: tuple[_Order, ...] = ("finish", "train", "evaluate", "probe")
# A peer that is to be replaced lives on until the lead has said why the lease failed, but not for ever.
_HEARD_SECONDS = 10.0
_HEARD = "heard"


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's part in a wide lease: rank 0 is the lead, the others follow in the order of its peers.

    All meet at `meeting`: ``file:///path`` on one machine, an unused path, or
    ``tcp://host:port``, where the lead listens.
    """

    lease: RunLease
    rank: int
    meeting: str

    @property
    def width(self) -> int:
        """How many workers train the lease."""
        return 1 + len(self.lease.peers)


class PeerFailed(Exception):
    """The user's code raised in a peer. `failure` is what to say of it; `heard` is called afterwards."""

    def __init__(self, failure: LeaseFailed, heard: Callable[[], None]) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.heard = heard


class PeerLost(Exception):
    """A peer died or stopped answering; this process had better be replaced, and the lease with it."""


class Lead:
    """A session whose every move the peers make too. To be entered before anything else."""

    def __init__(self, session: Session, part: Part) -> None:
        self._session = session
        self._part = part
        self._group: Ranks | None = None

    def start(self, config: Config, step: int, source: Source | None, warm: bool) -> None:
        """Reach a state, as `Session.start` does, and hand it to all peers."""
        self._session.start(config, step, source, warm)
        content = io.BytesIO()
        self._session.snapshot()(content)
        self._ranks.send(content.getbuffer())

    def probe(self, required: frozenset[str]) -> None:
        """As `Session.probe`."""
        self._tell("probe")
        self._session.probe(required)

    def advance(self) -> None:
        """As `Session.advance`."""
        self._tell("train")
        self._session.advance()

    def evaluate(self) -> dict[str, float]:
        """As `Session.evaluate`."""
        self._tell("evaluate")
        return self._session.evaluate()

    def __enter__(self) -> Lead:
        from hippotune.trainers.parallel.ranks import Parted, meet

        try:
            self._group = meet(self._part.meeting, self._part.rank, self._part.width)
        except Parted as error:
            raise PeerLost(self._loss(error)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send the peers home. Where they are gone already, raise `PeerFailed` or `PeerLost`."""
        from hippotune.trainers.parallel.ranks import Parted

        ranks = self._ranks
        if error is None:
            with suppress(Parted):  # all is done
                self._tell("finish")
            ranks.leave()
            return
        ranks.leave()
        if not ranks.have_parted(error):
            return
        for rank in range(1, self._part.width):
            if (note := ranks.read_note(_note_of(rank))) is not None:
                failure = pickle.loads(note)
                raise PeerFailed(failure, lambda: ranks.write_note(_HEARD, b"")) from None
        raise PeerLost(self._loss(error)) from error

    @property
    def _ranks(self) -> Ranks:
        assert self._group is not None, "a Lead has to be entered first"
        return self._group

    def _tell(self, order: _Order) -> None:
        self._ranks.tell(_ORDERS.index(order))

    def _loss(self, error: BaseException) -> str:
        workers = ", ".join(map(str, self._part.lease.peers))
        return f"lease {self._part.lease.lease} has lost one of its other workers ({workers}): {error}"


def follow(session: Session, part: Part, run: LeaseRun) -> bool:
    """Take part in a lease as a peer, to its end; return whether this process is to be replaced after it."""
    from hippotune.trainers.parallel.ranks import Parted, meet

    try:
        ranks = meet(part.meeting, part.rank, part.width)
    except Parted:
        return False
    failure: LeaseFailed | None = None
    try:
        _follow(session, ranks, run)
        session.drop()
        ranks.leave()
    except BaseException as error:
        if not ranks.have_parted(error):
            failure = _by_rank(part, failure_of(run, error, session.phase))
            ranks.write_note(_note_of(part.rank), pickle.dumps(failure))
        session.drop()
        ranks.leave()
    if failure is None or failure.kind == "raised":
        return False
    ranks.wait_for_note(_HEARD, _HEARD_SECONDS)
    return True


def _follow(session: Session, ranks: Ranks, run: LeaseRun) -> None:
    run.begin("start")
    session.prepare()  # while the lead gets ready
    state = io.BytesIO(ranks.receive())
    session.start(run.lease.config, run.lease.start, state, warm=False)
    run.done()
    while (order := _ORDERS[ranks.hear()]) != "finish":
        run.begin(order)
        if order == "train":
            session.advance()
        else:
            session.evaluate()
        run.done()


def _by_rank(part: Part, failure: LeaseFailed) -> LeaseFailed:
    worker = part.lease.peers[part.rank - 1]
    where = f"on worker {worker}, one of the {part.width} that trained it together"
    # What a peer loads is the lead's state, whatever that was made from: no checkpoint is to blame.
    return replace(
        failure,
        error=f"{where}:\n{failure.error}",
        checkpoint_unreadable=False,
        replaced=(worker,) if failure.replaced else (),
    )


def _note_of(rank: int) -> str:
    return f"failure of rank {rank}"
