"""The user's side: what a trainer must do, and what it may count on.

A trainer object is one trial's state. Every state is reached by the same calls in the same order as in a run
that was never interrupted:

    once in a process   prepare()
    from scratch        a new object   build()  setup(all values at step 0)  train() ...
    from a checkpoint   the saved object        setup(what changes now)      train() ...
    along the way                               setup(what changes now)      train()

A checkpoint is the whole object: everything on ``self``, except what `prepare` left there. Nothing of an
earlier trial is left over in a later one. All calls come from one thread, a process's main thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal

from hippotune.errors import TrainerError
from hippotune.trainers.hyperparameters import value_in_force
from hippotune.trainers.logged import log

UserCall = Literal["prepare", "build", "setup", "train", "evaluate"]


class Trainer(ABC):
    """Something that is trained in steps.

    Subclasses write `setup`, `train` and `evaluate`, and usually `prepare` and `build`. Everything on
    ``self`` is saved, whatever it is: models, optimizers, estimators, arrays, counters, objects of your own.

    A trainer that wants to say itself what its state is defines ``state_dict()`` and
    ``load_state_dict(state)`` (data only: numbers, strings, tensors, arrays and containers of them), or
    ``save(path)`` and ``load(path)``. Then a trial that starts from a checkpoint gets a new object, `build`,
    `setup` with the values in force, and after that ``load_state_dict`` or ``load``.

    The random generators of Python's ``random`` and ``numpy.random``, and those of torch where it is loaded,
    belong to the state: they are seeded with the study's seed before `prepare`, with the trial's before
    `build`, kept with every checkpoint, and put back after `evaluate`.

    Attributes
    ----------
    widens : bool
        Whether several workers can train one trial together, and learn the same as one. It takes an adapter
        that shares out batches and gradients.
    volatile : frozenset[str]
        What differs each time and means nothing to training: attributes, as ``"self.started"``, with all
        that they hold, and metrics, as ``"seconds"``. They are saved, but not compared.
    settings : Mapping[str, Any]
        What the study was given as ``settings=``, sorted by name: fixed for all trials, part of the plan's
        identity.
    seed : int
        The trial's seed: the value of a hyper-parameter ``seed`` at its first step, or else the study's seed.
    """

    widens: ClassVar[bool] = False
    volatile: ClassVar[Set[str]] = frozenset()

    def __init__(self, settings: Mapping[str, Any] | None = None, seed: int = 0) -> None:
        self.settings: Mapping[str, Any] = dict(
            sorted((settings or {}).items(), key=lambda item: str(item[0]))
        )
        self.seed = seed

    def prepare(self) -> None:  # noqa: B027 - optional
        """Load data, tokenizers, whatever is read-only: once in a process.

        What it leaves on ``self`` is on every trainer object of the process, and is saved as a reference
        only. It must not change in training, and knows no hyper-parameters.
        """

    def build(self) -> None:  # noqa: B027 - optional
        """Make the model, the optimizer, the loader, counters: at the start of every trial."""

    def load_start(self, state: Any) -> None:
        """Take over the weights that every trial starts from: what the file of ``Study(start=...)`` holds.

        It is called after `build`, at the start of every trial. What it is handed must be left as it is.
        """
        raise TrainerError(
            f"the study has a start, and {type(self).__name__} does not say what to do with it: define "
            "load_start(state)"
        )

    @abstractmethod
    def setup(self, hp: Mapping[str, Any]) -> None:
        """Put hyper-parameters into force. `hp` holds those that changed; before step 0, all of them."""

    @abstractmethod
    def train(self) -> None:
        """Train one step."""

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Measure the present state, and leave it as it is; the random state is put back afterwards.

        It is called at any step, before the first one too: there it shows whether the metrics are there that
        the tuner needs.
        """

    def hp(self, name: str, part: int = 0) -> Any:
        """Return a hyper-parameter's value in the present step. To be called in `train`.

        In a study with ``substeps=k``, `part` from 0 to k - 1 says where in the step:
        ``self.hp("lr", part)`` is the value at step + part / k.
        """
        return value_in_force(self, name, part)

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
        """Return whether as many workers can share steps with these hyper-parameters out among them."""
        return True

    # For adapters.

    def finish(self) -> None:  # noqa: B027 - optional
        """Get ready for use: called before the trained model is handed to the user."""

    def around(self, call: UserCall) -> AbstractContextManager[None]:
        """Return a context in which one of the user's methods is called: what an adapter adds to it."""
        return nullcontext()

    def nudge(self) -> None:  # noqa: B027 - optional
        """Change what is trained in its last bits, to see how much of it a step makes."""

    def arrive(self, to_train: bool = True) -> None:  # noqa: B027 - optional
        """Adapt to this process: called on a new object, and on one that comes from a checkpoint.

        One that is not `to_train` is only looked at: it leaves the process as it is.
        """
