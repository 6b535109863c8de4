"""The state of numpy's shared generator, had anew only where it has changed.

To have it takes numpy longer than all the other generators together, and few trainers draw from it. Whether
anybody has drawn shows in the memory in which the generator keeps its numbers, which is compared, and never
taken for anything.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

# What numpy draws from unless it is given something else. It keeps 624 words, and which of them is next.
_KIND = "MT19937"
_BYTES = 625 * 4


class NumpyState:
    """Remembers the latest state."""

    def __init__(self) -> None:
        self._generator: Any = None
        self._memory: Any = None
        self._seen = b""
        self._state: dict[str, Any] | None = None

    def get(self) -> dict[str, Any]:
        """Return the present state, which nobody may change."""
        generator = np.random.get_bit_generator()  # type: ignore[attr-defined, unused-ignore]
        if generator is not self._generator:
            self._watch(generator)
        seen = b"" if self._memory is None else self._memory.raw
        # Of two numbers with normal distribution, which are drawn together, the second waits elsewhere.
        if self._state is None or not seen or seen != self._seen or self._state["has_gauss"]:
            self._state, self._seen = np.random.get_state(legacy=False), seen
        return self._state

    def put(self, state: dict[str, Any]) -> None:
        """Put a state back."""
        np.random.set_state(state)
        self._state, self._seen = state, b"" if self._memory is None else self._memory.raw

    def _watch(self, generator: Any) -> None:
        self._generator, self._state = generator, None
        is_known = type(generator).__name__ == _KIND
        memory = ctypes.c_char * _BYTES
        self._memory = memory.from_address(generator.ctypes.state_address) if is_known else None
