"""The user's side: what a trainer must do, and what it may count on.

A trainer is one object that is moved between states. Every state is reached by the same calls in the same
order as in a run that nobody interrupted:

    from scratch        build()  setup(all values at step 0)              train() ...
    from a checkpoint   build()  setup(all values in force before it)  load(path)  setup(what changes now)  train() ...
    along the way       setup(what changes now)  train()

`build` runs once in a process; going back to scratch runs `reset` where a trainer defines it, and otherwise
makes a new object and builds again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Trainer(ABC):
    """Something that is trained in steps.

    Attributes
    ----------
    settings : Mapping[str, Any]
        What the study was given as ``settings=``: fixed for all trials, part of the plan's identity.
    seed : int
        The study's seed. Python's and NumPy's generators are seeded with it before `build`.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, seed: int = 0) -> None:
        self.settings: Mapping[str, Any] = dict(settings or {})
        self.seed = seed

    def build(self) -> None:  # noqa: B027 - optional
        """Load data, make the model: what is needed once in a process."""

    @abstractmethod
    def setup(self, hp: Mapping[str, Any]) -> None:
        """Put hyper-parameters into force. `hp` holds those that changed; before step 0, all of them."""

    @abstractmethod
    def train(self) -> None:
        """Train one step."""

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Measure the present state. Must not change it; random state is put back afterwards."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the whole state to `path`, a file or a folder that does not exist yet."""

    @abstractmethod
    def load(self, path: Path) -> None:
        """Take the whole state back from what `save` wrote."""
