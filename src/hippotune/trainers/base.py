"""The user's side: what a trainer must do, and what it may count on.

A trainer is one object that is moved between states. Every state is reached by the same calls in the same
order as in a run that nobody interrupted:

    from scratch        build()  setup(all values at step 0)  train() ...
    from a checkpoint   build()  setup(all values in force before it)  load(path)
                        setup(what changes now)  train() ...
    along the way       setup(what changes now)  train()

`build` runs once in a process, as far as possible. Going back to scratch, or to a checkpoint, runs `reset`;
where that returns False, a new object is made and built. A trainer that does not define `reset` is built anew
to go back to scratch only: its `load` meets an object that has trained something else, and must leave nothing
of that behind.

All calls come from one thread, except `write`, which runs beside training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal

from hippotune.errors import TrainerError
from hippotune.trainers.logged import log

UserCall = Literal["build", "setup", "train", "evaluate"]


class Trainer(ABC):
    """Something that is trained in steps.

    Subclasses write `setup`, `train`, `evaluate`, `save` and `load`, and usually `build`.

    The random generators of Python's ``random`` and ``numpy.random``, and those of torch where it is loaded,
    belong to the state: they are seeded with the study's seed before `build` and again before the first
    `setup`, kept with every checkpoint, and put back after `evaluate`. A trainer that draws from them has
    nothing to do for it; generators of its own are for its `save` and `load`.

    Attributes
    ----------
    saves_random_state : bool
        Whether `save` and `load` take care of the shared generators themselves. Otherwise they are kept
        beside what `save` writes, if anything was drawn from them.
    widens : bool
        Whether several workers can train one trial together, and learn the same as one. It takes an adapter
        that shares out batches and gradients.
    settings : Mapping[str, Any]
        What the study was given as ``settings=``: fixed for all trials, part of the plan's identity.
    seed : int
        The study's seed.
    """

    saves_random_state: ClassVar[bool] = False
    widens: ClassVar[bool] = False

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

    def log(self, /, **numbers: Any) -> None:
        """Record numbers of the present step: ``self.log(train_loss=loss)``. To be called in `train`.

        They are kept with the step, as metrics are, and are shown along every trial that passes it. A number
        is a float, an int, or a scalar of NumPy or torch; NaN and infinity are allowed. Where a name is
        logged several times in a step, the last number counts. Where several workers train together, the
        first one's numbers count: sum up what all of them have with ``self.total()`` first.

        What is logged is no part of the state. A trainer in a loop of your own may log too; the numbers are
        checked then, and kept nowhere.
        """
        log(self, numbers)

    @classmethod
    def fits(cls, values: Mapping[str, Any], width: int) -> bool:
        """Return whether so many workers can share steps with these hyper-parameters out among them."""
        return True

    # Optional: for speed.

    def reset(self) -> bool:
        """Go back to exactly the state right after `build`; False where that cannot be done."""
        return False

    def snapshot(self) -> object | None:
        """Return a copy of the whole state that further training leaves alone, for `write`; quickly.

        None says that there is no such thing; training then waits while `save` runs.
        """
        return None

    def write(self, snapshot: Any, path: Path) -> None:
        """Write what `snapshot` returned to `path`, for `load`. Runs in another thread, beside training."""
        raise TrainerError(
            f"{type(self).__name__} defines snapshot() but not write(): "
            "write(snapshot, path) has to write what snapshot() returns"
        )

    def content(self, snapshot: Any, wait: bool = True) -> Sequence[memoryview] | None:
        """Return the content of the file that `write` would write, in pieces, which saves reading it again.

        None, where `write` makes a folder or has to do it itself. Without `wait` it is called in training's
        own thread, and None is returned also where it would take a while; with it, in another thread.
        """
        return None

    def finish(self) -> None:  # noqa: B027 - optional
        """Get ready for use: called before the trained model is handed to the user."""

    # For adapters.

    def around(self, call: UserCall) -> AbstractContextManager[None]:
        """Return a context in which one of the user's methods is called: what an adapter adds to it."""
        return nullcontext()
