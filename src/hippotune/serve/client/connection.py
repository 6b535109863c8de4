"""A study's connection to its plan on a server; it has the surface of `study.connection.Connection`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from hippotune.executors.shipping import is_importable
from hippotune.history.logged import Logged
from hippotune.identity.fingerprint import fingerprint
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import ProofRecorded, SpanRecorded
from hippotune.plan.node import Node
from hippotune.serve.bodies import SessionStart
from hippotune.serve.client.api import Api, ServerRefused
from hippotune.serve.client.code import send_code
from hippotune.serve.client.facts import ServedLog, read_logged, read_trace
from hippotune.serve.client.models import RemoteModels
from hippotune.serve.client.runtime import RemoteRuntime
from hippotune.serve.definition import Definition, PlanOpened
from hippotune.shell.interrupts import ending_in_order
from hippotune.shell.runtime import Runtime
from hippotune.store.base import Store
from hippotune.study.connection import Connection
from hippotune.study.recorded import ending
from hippotune.study.report import Trace
from hippotune.study.unsent import refuse_unsent

if TYPE_CHECKING:
    from hippotune.study.limits import Limits
    from hippotune.study.study import Study
    from hippotune.study.tuning import Tuning
    from hippotune.tuners.base import Tuner


class RemoteConnection(Connection):
    """See the module."""

    is_virtual = False

    def __init__(self, study: Study, url: str) -> None:
        super().__init__(study)
        self.api = Api(url)
        self._remote: RemoteRuntime | None = None
        self._definition: Definition | None = None
        self._is_given = False

    @staticmethod
    def of(study: Study) -> RemoteConnection:
        """Return the connection of a study that is on a server."""
        assert isinstance(study._connection, RemoteConnection)
        return study._connection

    @property
    def key(self) -> PlanKey:
        """What the plan is found by, as the server worked it out."""
        self.open()
        return self.remote.opened.parts.made()

    @property
    def place(self) -> str:
        """The server."""
        return self.api.url

    @property
    def definition(self) -> Definition:
        """The study as data; its code is sent at the first use."""
        if self._definition is None:
            trainer = self.study.trainer
            if self.study._version is None:
                self.warnings += refuse_unsent(trainer.__module__, fingerprint(trainer), is_importable)
            code = send_code(self.api, trainer, self.study._code, self.notes)
            self._definition = Definition.of(self.study, code)
        return self._definition

    def use(self, api: Api, definition: Definition) -> None:
        """Go by a definition that the server has already."""
        self.api, self._definition, self._is_given = api, definition, True

    def open(self) -> Runtime:
        """Open the plan on the server."""
        if self._remote is None or self._remote.closed or self._remote.loop.error is not None:
            self.close()
            opened: PlanOpened = self.api.call("POST", "/plans", self.definition, PlanOpened)
            self.notes += opened.notes
            self.warnings += opened.warnings
            self._remote = RemoteRuntime(self.api, self.definition, opened)
            self._remote.aim = self._aim
            self._remote.start()
            self.runtime = cast("Runtime", self._remote)
        return cast("Runtime", self._remote)

    @property
    def remote(self) -> RemoteRuntime:
        """The plan, which is open."""
        assert self._remote is not None
        return self._remote

    def set_aim(self, metric: str, mode: str) -> None:
        """Have the server remember what the study is tuned for."""
        if self._aim != (metric, mode):
            self._aim = self.remote.aim = metric, mode
            start = SessionStart(self.study.name, metric, mode)
            try:
                self.api.call("PUT", self.remote.loop.address, start)
            except ServerRefused as error:
                if error.status != 404:  # another server has come: the session that begins there says it
                    raise

    def close(self) -> None:
        """End the session; the definition is made anew at the next use."""
        if self._remote is not None:
            self._remote.close()
            self._remote = self.runtime = None
        self.forget_definition()

    def forget_definition(self) -> None:
        """Have the code sent as it is at the next use."""
        if not self._is_given:
            self._definition = None

    def ending_in_order(self) -> AbstractContextManager[None]:
        """Let Ctrl-C end what runs in the block in order, and in one line."""
        return ending_in_order(f"stopped; everything is kept at {self.api.url}: run the same again to go on")

    @property
    def models(self) -> RemoteModels:
        """The trained models of the study."""
        return RemoteModels(self.study, self)

    @contextmanager
    def recorded(self, runtime: Any, tuner: Tuner, limits: Limits, tuning: Tuning) -> Iterator[None]:
        """Have the plan's log say that a tuning begins, and how it ended."""
        self.remote.loop.tuning_begins(tuner, limits)
        with ending(tuning, self.remote.loop.tuning_ends):
            yield

    def trace(self, runtime: Any, tuning: Tuning, spans: list[SpanRecorded]) -> Callable[[], Trace]:
        """Return what reads, when it is needed, what pictures are drawn from."""
        asked = [
            (trial.config, step, tuning.placement.isolation_key(trial))
            for trial, step in tuning.asked.items()
        ]
        return read_trace(self.api, self.remote.key, asked, self.remote.first_fact)

    def reading(self, runtime: Any) -> AbstractContextManager[Store]:
        """Open the log of the plan for reading, on any thread."""
        return nullcontext(ServedLog(self.api, self.remote.key))

    def proofs(self, runtime: Any) -> tuple[ProofRecorded, ...]:
        """Return what was proved of the trainer."""
        return self.remote.loop.proofs

    def logged(self, runtime: Any) -> Callable[[Node, int], Logged]:
        """Return what reads what training logged on the way to a state."""
        return partial(read_logged, self.api, self.remote.key)
