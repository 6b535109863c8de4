"""One lease on several workers: what the one that leads and its peers do beyond a lease on one worker.

    lead   meet ── start ── send the state ── tell ─ train ─ tell ─ evaluate ─ … ─ tell "finish" ─ leave
    peer   meet ── prepare ── take the state ── hear ─ train ─ hear ─ evaluate ─ … ─ hear "finish" ─ leave

Only the lead speaks with the parent. A peer that fails tells the lead why and goes back to its inbox; a peer
whose lead fails goes back quietly. A lead that loses a peer that told nothing cannot go on and does not know
the cause: it ends its process, so that the parent sees the lease as lost. Where ranks do different things,
all of them find out at once: the lead reports it, and no process has to be replaced.

Messages between ranks outside of torch's collectives are data, sealed with a key of the lease that only its
workers know: others on their network can disturb them, but cannot forge a message.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import msgspec

from hippotune.errors import HippoError
from hippotune.executors.worker.failures import OutOfStep, failure_of
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import LeaseFailed
from hippotune.sequences.config import Config

if TYPE_CHECKING:  # who only sends parts imports neither NumPy nor torch
    from hippotune.protocol.lease_run import LeaseRun
    from hippotune.trainers.parallel.ranks import Ranks
    from hippotune.trainers.session import Session
    from hippotune.trainers.state.formats import Source

# A lead sends its peers an index into this list.
_Action = Literal["finish", "train", "evaluate", "probe"]
_ACTIONS: tuple[_Action, ...] = ("finish", "train", "evaluate", "probe")
# A peer that is to be replaced lives on until the lead has said why the lease failed, but not for ever.
_HEARD_SECONDS = 10.0
_HEARD = "heard"
_SEAL = "sha256"
_SEAL_BYTES = hashlib.new(_SEAL).digest_size


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's part in a wide lease: rank 0 is the lead, the others follow in the order of its peers.

    All meet at `meeting`: ``file:///path`` on one machine, an unused path, or
    ``tcp://host:port/name``, where the lead listens; the name is the lease's own.
    """

    lease: RunLease
    rank: int
    meeting: str
    key: bytes = field(repr=False)

    @property
    def worker(self) -> int:
        """The worker whose part it is."""
        return self.lease.workers[self.rank]

    @property
    def width(self) -> int:
        """How many workers train the lease."""
        return 1 + len(self.lease.peers)


def parts(lease: RunLease, meeting: str) -> Iterator[Part]:
    """Yield the parts of all workers of a lease, with a key of their own."""
    key = secrets.token_bytes(_SEAL_BYTES)
    for rank in range(1 + len(lease.peers)):
        yield Part(lease, rank, meeting, key)


class PeerFailed(Exception):
    """The user's code raised in a peer. `failure` is what to say of it; `heard` is called afterwards."""

    def __init__(self, failure: LeaseFailed, heard: Callable[[], None]) -> None:
        super().__init__(failure.error)
        self.failure = failure
        self.heard = heard


class PeerLost(Exception):
    """A peer died or stopped answering; this process had better be replaced, and the lease with it."""


class Lead:
    """A session whose actions the peers carry out too. It has to be entered before anything else."""

    def __init__(self, session: Session, part: Part) -> None:
        self._session = session
        self._part = part
        self._group: Ranks | None = None

    def start(self, config: Config, step: int, source: Source | None, warm: bool) -> None:
        """Reach a state, as `Session.start` does, and hand it to all peers."""
        self._session.start(config, step, source, warm)
        content = io.BytesIO()
        self._session.snapshot()(content)
        content.write(_seal(self._part, content.getbuffer()))
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
        """Release the peers. Where they are gone already, raise `PeerFailed`, `PeerLost` or `OutOfStep`."""
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
        if ranks.mismatch is not None:
            raise OutOfStep(ranks.mismatch) from None
        for rank in range(1, self._part.width):
            failure = _read(self._part, ranks.read_entry(_failure_of(rank)))
            if failure is not None:
                raise PeerFailed(failure, lambda: ranks.write_entry(_HEARD, b"")) from None
        raise PeerLost(self._loss(error)) from error

    @property
    def _ranks(self) -> Ranks:
        assert self._group is not None, "a Lead has to be entered first"
        return self._group

    def _tell(self, order: _Action) -> None:
        self._ranks.tell(_ACTIONS.index(order))

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
        _follow(session, ranks, part, run)
        session.drop()
        ranks.leave()
    except BaseException as error:
        if not ranks.have_parted(error):
            failure = _by_rank(part, failure_of(run, error, session.phase))
            ranks.write_entry(_failure_of(part.rank), _written(part, failure))
        session.drop()
        ranks.leave()
    if failure is None or failure.kind in ("raised", "disk full"):
        return False
    ranks.wait_for_entry(_HEARD, _HEARD_SECONDS)
    return True


def _follow(session: Session, ranks: Ranks, part: Part, run: LeaseRun) -> None:
    run.begin("start")
    session.prepare()  # while the lead gets ready
    state = _opened(part, ranks.receive())
    if state is None:
        raise HippoError(f"the state that came for lease {run.lease.lease} is not from its lead")
    session.start(run.lease.config, run.lease.start, io.BytesIO(state), warm=False)
    run.done()
    while (order := _ACTIONS[ranks.hear()]) != "finish":
        run.begin(order)
        if order == "train":
            session.advance()
        else:
            session.evaluate()
        run.done()


def _by_rank(part: Part, failure: LeaseFailed) -> LeaseFailed:
    where = f"on worker {part.worker}, one of the {part.width} that trained it together"
    # A peer loads the lead's state, not a checkpoint: no checkpoint is to blame.
    return replace(
        failure,
        error=f"{where}:\n{failure.error}",
        checkpoint_unreadable=False,
        replaced=(part.worker,) if failure.replaced else (),
    )


def _seal(part: Part, content: bytes | memoryview) -> bytes:
    return hmac.digest(part.key, content, _SEAL)


def _opened(part: Part, sealed: bytes) -> bytes | None:
    """Return what was sealed by a worker of the lease; None where it was not."""
    content, seal = sealed[:-_SEAL_BYTES], sealed[-_SEAL_BYTES:]
    return content if hmac.compare_digest(seal, _seal(part, content)) else None


def _written(part: Part, failure: LeaseFailed) -> bytes:
    content = msgspec.json.encode(failure)
    return content + _seal(part, content)


def _read(part: Part, sealed: bytes | None) -> LeaseFailed | None:
    if sealed is None or (content := _opened(part, sealed)) is None:
        return None
    return msgspec.json.decode(content, type=LeaseFailed)


def _failure_of(rank: int) -> str:
    return f"failure of rank {rank}"
