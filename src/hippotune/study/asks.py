"""What a tuner asks for, before it becomes a request: checked, with the steps to report and to keep."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from hippotune import checks, sequences
from hippotune.errors import InvalidInput
from hippotune.protocol.events import BranchesForeseen, Request
from hippotune.sequences.base import FOREVER
from hippotune.sequences.config import Config
from hippotune.study.plan_loop import PlanLoop
from hippotune.study.trunk import likely_branches


def check_ask(config: Config, step: int, every: int | None) -> None:
    """Raise `InvalidInput` where a config cannot be trained to a step, or cannot be stored."""
    if checks.whole("step", step) >= FOREVER:
        raise InvalidInput(f"step is {step}; expected a step below 2**63")
    if every is not None:
        checks.whole("every", every)
    for sequence in dict(config).values():
        _check_storable(sequence)
    if config.limit is not None and step > config.limit:
        raise InvalidInput(
            f"a trial was asked for step {step}, but its config has only {config.limit} steps of values: "
            f"{config!r}"
        )


@lru_cache(maxsize=1 << 16)
def _check_storable(sequence: sequences.Sequence) -> None:
    sequence.to_json()  # raises where it could not be stored


def report_steps(heard: int, step: int, every: int | None) -> tuple[int, ...]:
    """Return the steps on the way to `step` at which metrics are due: from the last one heard on."""
    if every is None:
        return ()
    return tuple(range(heard // every * every + every, step, every))


def keep_for_branches(loop: PlanLoop, trunks: Iterable[Config], requests: Iterable[Request]) -> None:
    """Keep checkpoints along trunks where branches are likely."""
    last = max((request.step for request in requests), default=0)
    for trunk in trunks:
        loop.handle(BranchesForeseen(trunk, likely_branches(last)))
