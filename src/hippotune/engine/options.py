"""How a plan is trained, as far as those who open it may choose."""

from __future__ import annotations

from dataclasses import dataclass

from hippotune.protocol.failures import Retries
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.policy import WidthPolicy


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an engine goes by for as long as its plan is open; see `hippo.Study` for each of these.

    `width` decides on widths; without one, every lease has one slot. `proofs` says what is proved of the
    trainer; without it, nothing is. `checkpoint_budget` is in bytes, `checkpoint_every` in seconds.
    """

    width: WidthPolicy | None = None
    proofs: ProofPolicy | None = None
    retries: Retries = Retries()  # noqa: RUF009
    checkpoint_every: float | None = None
    checkpoint_budget: int | None = None

    @property
    def packing(self) -> int:
        """How many leases may share a slot."""
        return 1 if self.width is None else self.width.packing
