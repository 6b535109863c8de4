"""What a tuning may look at of a plan on a server: the last pulse, and a plan of its own trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic
from typing import cast

from hippotune.engine.core import ProofWork
from hippotune.engine.deadlines import Limit
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.events import Request
from hippotune.sequences.config import Config
from hippotune.serve.beats import pulse_of, read_counters
from hippotune.serve.messages import Counted, PulseBody
from hippotune.shell.pulse import Pulse
from hippotune.shell.readings import Counters, Pace

_ZERO = Counters(0, 0.0, ProofWork(0, 0.0, 0.0))


class RemoteReadings:
    """See the module. Counters, and what a study has spent, go on where another server begins anew."""

    suitable = None

    def __init__(self, unshared: Callable[[Config, int], int]) -> None:
        self._unshared = unshared
        self._plan = Plan()
        self._beat: PulseBody | None = None
        self._at = 0.0
        self._counters = self._ahead = _ZERO
        self._spent_ahead = 0.0
        self._left: int | None = None

    def renewed(self, beat: PulseBody) -> None:
        """Another session has begun."""
        self._ahead = read_counters(beat.counters).minus(self.counters())
        spent = 0.0 if self._beat is None else self._beat.spent - self._spent_ahead
        self._spent_ahead = beat.spent - spent
        self.beats(beat)

    def beats(self, beat: PulseBody) -> None:
        """A pulse has come."""
        self._beat, self._at = beat, monotonic()
        self.counted(beat.counters)

    def counted(self, counted: Counted) -> None:
        """Counters have come."""
        self._counters = read_counters(counted)

    def place(self, requests: Iterable[Request]) -> None:
        """Place requests in the plan of this tuning's own trials."""
        for request in requests:
            self._plan.place(request.config, request.step, request.isolation_key)

    @property
    def _last(self) -> PulseBody:
        assert self._beat is not None
        return self._beat

    @property
    def is_out(self) -> bool:
        """Whether a limit keeps anything more from coming."""
        return self._last.out_of is not None

    def now(self) -> float:
        """Return the server's time."""
        return self._last.now + monotonic() - self._at

    @property
    def workers(self) -> int:
        """How many workers there are meant to be."""
        return self._last.workers

    def find(self, config: Config, step: int, isolation_key: str) -> Node:
        """Return the node of a trial in its own plan."""
        return self._plan.find(config, step, isolation_key)

    def unshared(self, config: Config, step: int) -> int:
        """Ask the server how far a config is away."""
        return self._unshared(config, step)

    def spent(self, study: str) -> float:
        """Return the worker-seconds that the study has taken since the first session began."""
        return self._last.spent - self._spent_ahead

    def as_there(self, worker_seconds: float) -> float:
        """Return a limit of what the study may take as the present server counts it."""
        return worker_seconds + self._spent_ahead

    def out_of(self, study: str) -> Limit | None:
        """Return the limit by which nothing more comes."""
        return cast("Limit | None", self._last.out_of)

    def counters(self) -> Counters:
        """Return what was counted, since the first session began."""
        return self._counters.minus(self._ahead)

    def pace(self) -> Pace:
        """Return what training takes."""
        return Pace(self._last.step_seconds, self._last.startup, self._last.widest)

    def pulse(self, since: float, asks: Iterable[tuple[Node, int]] | None) -> Pulse:
        """Return how training goes.

        All steps are counted here: a session that was begun anew has heard only of what is open.
        """
        counters, pulse = self.counters(), pulse_of(self._last)
        if pulse.unique:
            self._left = pulse.left
        unique = None if asks is None else unique_steps(asks)
        left = unique if unique is None or self._left is None else min(unique, self._left)
        return replace(
            pulse,
            trained=counters.trained,
            worker_seconds=counters.worker_seconds,
            unique=unique,
            left=left,
        )
