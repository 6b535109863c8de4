"""The studies that are tuned on a server: each tuner in a process of its own, a client of this very server.

So a client may go: its study goes on. A server that was killed starts the tuners again; they hear from the
plan's facts what they had heard, and decide as they did.
"""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from hippotune.errors import HippoError, InvalidInput
from hippotune.executors.kept import Kept
from hippotune.executors.local.programs import start_program
from hippotune.identity.key import Identity
from hippotune.identity.parts import shown
from hippotune.serve.blobs import Blobs
from hippotune.serve.clock import Moment
from hippotune.serve.definition import Definition, Submission, differences
from hippotune.serve.guard import Refused
from hippotune.serve.hub import NotHere
from hippotune.serve.messages import ErrorBody
from hippotune.serve.outbox import Outbox
from hippotune.serve.records import Ended, Records, State, StudyRecord
from hippotune.serve.tokens import Tokens
from hippotune.study.limits import Limits

# A process that ends so often in a row is not started again; one that ran for long begins another row.
_MOST_STARTS = 3
_LONG_SECONDS = 600.0
_PAUSE_SECONDS = 1.0
_LAST_LINES = 20
# What a study spends is written down when it has spent this part of its budget again.
_PART_OF_BUDGET = 0.01


class TunedStudy:
    """A study that this server knows: its record, and what is told of it while it is tuned."""

    def __init__(self, record: StudyRecord, aio: asyncio.AbstractEventLoop) -> None:
        self.record = record
        self.outbox = Outbox(aio)
        self.snapshot: bytes = b""
        self.process: Kept | None = None
        self.is_over = threading.Event()
        self.spent_before = record.spent

    @property
    def is_running(self) -> bool:
        """Whether it is being tuned."""
        return self.record.state == "running"

    def end_process(self) -> None:
        """Have the process of its tuner end, where there is one, and no other begin."""
        self.is_over.set()
        if (process := self.process) is not None:
            with suppress(OSError):
                process.send_signal(signal.SIGTERM)


class Studies:
    """See the module. `url` is where tuner processes reach this server, which has this `certificate`.

    `identify` works out what the plan of a user's study is found by.
    """

    def __init__(
        self,
        folder: Path,
        blobs: Blobs,
        identify: Callable[[Definition, str], Identity],
        tokens: Tokens,
        environment: Callable[[], Mapping[str, str]],
        url: Callable[[], str],
        worker_user: str | None = None,
        certificate: Path | None = None,
    ) -> None:
        self._records = Records(folder)
        self._blobs = blobs
        self._identify = identify
        self._tokens = tokens
        self._environment = environment
        self._url = url
        self._worker_user = worker_user
        self._certificate = certificate
        self._studies: dict[str, TunedStudy] = {}
        self._lock = threading.RLock()
        self._aio: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Take up the studies that were running when the last server ended."""
        self._aio = asyncio.get_running_loop()
        for record in self._records.read_all():
            live = self._studies[record.name] = TunedStudy(record, self._aio)
            if live.is_running:
                self._start(live)
            else:
                live.outbox.close()

    def list(self) -> list[StudyRecord]:
        """Return all studies, the newest first."""
        return sorted((live.record for live in self._studies.values()), key=lambda each: -each.made)

    @property
    def code_in_use(self) -> set[str | None]:
        """The files of running studies, by their digests."""
        running = [live.record.submission for live in list(self._studies.values()) if live.is_running]
        return {digest for each in running for digest in (each.definition.code.digest, each.tuned.digest)}

    def get(self, name: str) -> TunedStudy:
        """Return a study; `NotHere` where there is none."""
        if name not in self._studies:
            known = ", ".join(sorted(self._studies)) or "none"
            raise NotHere(f"there is no study {name!r} on this server; its studies are: {known}")
        return self._studies[name]

    def submit(self, name: str, submission: Submission, user: str, most: int) -> StudyRecord:
        """Tune a study, unless that is done already. One of the same name has to be the same.

        Each is a process: a user has `most` of them at the same time.
        """
        if submission.definition.study != name:
            raise InvalidInput(f"the study is {submission.definition.study!r}, and its address says {name!r}")
        if submission.tuned.digest is not None:
            self._blobs.check_allowed("a tuner that is pickled")
            self._blobs.get(submission.tuned.digest)
        elif submission.tuned.described is None:
            raise InvalidInput("the submission has no tuner: expected a digest, or a description")
        self._blobs.parcel(submission.definition.code)
        while True:
            known = self._studies.get(name)
            if known is not None:
                self._check_same(known, submission, user)  # without the lock: it may have to open code
            with self._lock:
                if self._studies.get(name) is known:
                    if known is not None and known.is_running:
                        return known.record
                    return self._begun(name, submission, user, most)

    def _begun(self, name: str, submission: Submission, user: str, most: int) -> StudyRecord:
        running = [each for each in self._studies.values() if each.is_running]
        if sum(each.record.user == user for each in running) >= most:
            raise Refused(429, f"{most:,} studies of yours are being tuned: wait until one has ended", 60.0)
        record = StudyRecord(name, user, submission, "running", time.time(), began=Moment.now())
        self._records.keep(record)
        assert self._aio is not None
        live = self._studies[name] = TunedStudy(record, self._aio)
        self._start(live)
        return record

    def _check_same(self, known: TunedStudy, submission: Submission, user: str) -> None:
        record = known.record
        if not owned(record, user):
            raise Refused(409, f"study {record.name!r} belongs to {record.user}: give yours another name")
        if known.is_running and (
            differ := _differences(lambda each: self._identify(each, user), record.submission, submission)
        ):
            raise Refused(
                409,
                f"study {record.name!r} is being tuned with another definition ({shown(differ)}): give "
                "this one another name, or end that one first with hippo stop",
            )

    def end(self, name: str, end: Ended, state: State | None = None) -> None:
        """Record how a study ended: from now on it has."""
        live = self.get(name)
        with self._lock:
            if live.is_running:
                state = state or ("ended" if end.error is None else "failed")
                record = msgspec.structs.replace(live.record, state=state, ended=time.time(), end=end)
                self._records.keep(record)
                live.record = record
                live.outbox.put(msgspec.json.encode({"type": "end", "state": state}))
                live.outbox.close()

    def add_spent(self, name: str, seconds: float) -> None:
        """Write down the worker-seconds that a study's tuner process has taken, now and then."""
        live = self.get(name)
        with self._lock:
            budget = live.record.submission.tuned.worker_seconds or math.inf
            spent = live.spent_before + seconds
            if live.is_running and spent - live.record.spent >= _PART_OF_BUDGET * budget:
                record = msgspec.structs.replace(live.record, spent=spent)
                self._records.keep(record)
                live.record = record

    def stop(self, name: str) -> None:
        """End a study where it is; what it has trained stays, and submitted again it goes on."""
        live = self.get(name)
        self.end(name, Ended(ErrorBody("HippoError", f"study {name!r} was stopped by hippo stop")), "stopped")
        live.end_process()

    def close(self) -> None:
        """End all tuner processes; their studies go on with the next server."""
        for live in list(self._studies.values()):
            live.end_process()
            live.outbox.close()

    # Tuner processes.

    def _start(self, live: TunedStudy) -> None:
        # The system ends a process with the thread that started it: that one waits.
        threading.Thread(target=self._tend, args=[live], name="tuner", daemon=True).start()

    def _tend(self, live: TunedStudy) -> None:
        said, starts = "", 0
        while starts < _MOST_STARTS:
            began = time.monotonic()
            try:
                said = self._run(live)
            except (HippoError, OSError) as error:  # no memory, or no room for a file
                said = str(error)
            starts = 1 if time.monotonic() - began >= _LONG_SECONDS else starts + 1
            if not live.is_running or live.is_over.wait(starts * _PAUSE_SECONDS):
                return
        failure = ErrorBody("HippoError", f"the tuner's process ended {_MOST_STARTS} times in a row:\n{said}")
        with suppress(NotHere):
            self.end(live.record.name, Ended(failure))

    def _run(self, live: TunedStudy) -> str:
        """Run a tuner's process to its end; return its last words."""
        record = live.record
        live.spent_before = record.spent
        tuned = record.submission.tuned
        content = None if tuned.digest is None else self._blobs.get(tuned.digest)
        token = None if self._tokens.is_open else self._tokens.issue(record.user)
        parcel = self._blobs.parcel(record.submission.definition.code)
        submission = msgspec.json.encode(record.submission)
        certificate = None if self._certificate is None else self._certificate.read_text()
        server = self._url(), token, certificate
        limits = Limits(record.seconds_left, record.worker_seconds_left)
        greeting = parcel, submission, content, limits, server
        with TemporaryFile() as log:
            live.process = process = start_program(
                "hippotune.serve.tuner",
                [],
                self._environment(),
                parcel.modules,
                greeting,
                log,
                self._worker_user,
            )
            if live.is_over.is_set():  # since before there was a process to end
                live.end_process()
            try:
                process.wait()
            finally:
                live.process = None
                process.end()
                if token is not None:
                    self._tokens.revoke(token)
            log.seek(0)
            return "\n".join(log.read().decode(errors="replace").splitlines()[-_LAST_LINES:])


def owned(record: StudyRecord, user: str) -> bool:
    """Whether a study is a user's. One from when there were no tokens is everyone's, until one begins it."""
    return record.user in ("", user)


def _differences(identify: Callable[[Definition], Identity], one: Submission, other: Submission) -> list[str]:
    """Say what differs in what the plans are found by, and in everything else."""
    rest = differences(one, other)
    if one.definition == other.definition:
        return rest
    before, now = identify(one.definition), identify(other.definition)
    if before.key == now.key:
        return rest
    return before.changes_to(now) + rest or ["training code: changed"]
