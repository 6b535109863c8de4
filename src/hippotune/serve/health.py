"""Whether the server is well, and its numbers for Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_LOOK_SECONDS = 0.05
_KEPT_LOOKS = 200
_MOST_LAG = 2.0
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Health:
    """Looks at the event loop that it runs on, and counts requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lags: deque[float] = deque(maxlen=_KEPT_LOOKS)
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "hippo_request_seconds",
            "Time from a request to the start of its answer",
            ["route", "method", "status"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._lag = Gauge(
            "hippo_loop_lag_seconds",
            "Longest lag of the event loop in the last seconds",
            registry=self._registry,
        )
        self._lag.set_function(lambda: self.lag)
        self.facts = Counter("hippo_facts", "Facts sent to followers", registry=self._registry)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a number under a name."""
        Gauge(f"hippo_{name}", text, registry=self._registry).set_function(value)

    def served(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._seconds.labels(route, method, str(status)).observe(seconds)

    @property
    def lag(self) -> float:
        """The longest lag of the event loop that was seen in the last seconds."""
        return max(self._lags, default=0.0)

    @property
    def is_lagging(self) -> bool:
        """Whether requests wait for the event loop."""
        return self.lag > _MOST_LAG

    async def watch(self) -> None:
        """Look at the event loop over and over."""
        while True:
            asked = self._clock()
            await asyncio.sleep(_LOOK_SECONDS)
            self._lags.append(max(self._clock() - asked - _LOOK_SECONDS, 0.0))

    def numbers(self) -> bytes:
        """Return all numbers as Prometheus reads them."""
        return generate_latest(self._registry)
