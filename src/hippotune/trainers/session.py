"""One trainer object, driven through leases: the order of calls that `hippotune.trainers.base` promises.

A session does no more than call the trainer: it starts no process and no thread, and knows nothing of leases.
What always holds:

* The state after s steps is the same, bit for bit, whether it was reached from scratch, from a checkpoint or
  warm, as far as the trainer's `save` and `load` keep all of it. The session keeps the random generators.
* `evaluate` and `snapshot` leave the state as it is.
* After an exception no state is held: the next `start` is from scratch or from a checkpoint.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hippotune.errors import CheckpointError, IllegalTransition, InvalidInput, TrainerError
from hippotune.trainers import randomness
from hippotune.trainers.base import Trainer, UserCall
from hippotune.trainers.logged import Logging, NoLogging, Numbers
from hippotune.trainers.metrics import checked_metrics
from hippotune.trainers.reading import Values, mentioned_names

if TYPE_CHECKING:
    from hippotune.sequences.config import Config

# A trainer that does not save the random generators, but draws from them: its checkpoint is a folder of what
# it wrote and of these.
_STATE = "state"
_RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A function that writes the state at one moment to a path that does not exist yet.

    Where it is `deferred`, it may be called at any time, in any thread, while training goes on. Otherwise it
    must be called before the trainer trains again, in the trainer's thread. What would be written can be had
    as `content`, where it is one file and known in advance: at once, or, if told to wait, in a while.
    """

    deferred: bool
    write: Callable[[Path], None]
    content: Callable[[bool], Sequence[memoryview] | None] = lambda wait: None

    def __call__(self, path: Path) -> None:
        """Write the state to `path`."""
        self.write(path)


class Session:
    """Drives one trainer; see the module's docstring for what holds.

    Attributes
    ----------
    phase : str
        Which of the user's methods was called last: where an exception came from.
    logged : list[tuple[int, dict[str, float]]] | None
        Steps with the numbers that training logged at them, for whoever drives the session to take; None,
        as at first, keeps none.
    notes : list[str]
        What a person should read once, for whoever drives the session to take.
    """

    def __init__(self, trainer_class: type[Trainer], settings: Mapping[str, Any] | None, seed: int) -> None:
        if not (isinstance(trainer_class, type) and issubclass(trainer_class, Trainer)):
            raise InvalidInput(
                f"the trainer is {trainer_class!r}; expected a class that derives from hippotune.Trainer"
            )
        self.phase: UserCall | Literal["load"] = "build"
        self.logged: list[tuple[int, Numbers]] | None = None
        self.notes: list[str] = []
        self._class = trainer_class
        self._settings = dict(settings or {})
        self._seed = seed
        self._trainer: Trainer | None = None
        self._config: Config | None = None  # what the state held was trained with; None: no state is held
        self._step = 0
        self._names_checked = False
        self._seeded: dict[tuple[str, ...], bytes] = {}  # what seeding gives, by the devices in use

    @property
    def step(self) -> int:
        """The number of steps trained in the present state."""
        return self._step

    @property
    def trainer(self) -> Trainer:
        """The trainer that holds the present state."""
        if self._trainer is None or self._config is None:
            raise IllegalTransition(
                "no state is held: start() has not been called, or the trainer raised since"
            )
        return self._trainer

    def start(self, config: Config, step: int, source: Path | None, warm: bool) -> None:
        """Reach the state of `config` after `step` steps.

        That state is held already (`warm`), or is loaded from `source`, or `step` is 0.
        """
        if warm:
            self._check_held(config, step)
        elif source is None and step != 0:
            raise InvalidInput(
                f"the state after {step} steps needs a checkpoint to start from; none was given"
            )
        else:
            self._config = None
            trainer = self._ready(scratch=source is None)
            self._seed_all()
            self._setup(trainer, config.values(max(step - 1, 0)), complete=True)
            if source is not None:
                self._load(trainer, source)
        self._config, self._step = config, step

    def build(self) -> None:
        """Build the trainer, where that is still to do, so that the next start is quicker."""
        if self._trainer is None:
            self._ready(scratch=True)

    def advance(self) -> None:
        """Train one step, after putting into force what changes at it."""
        trainer, config = self.trainer, self._config
        assert config is not None
        with self._held_only_if_it_ends_well():
            if self._step > 0 and (changes := config.changes(self._step)):
                self._setup(trainer, changes, complete=False)
            self.phase = "train"
            with Logging(trainer) as numbers, trainer.around("train"):
                trainer.train()
        self._step += 1
        if numbers and self.logged is not None:
            self.logged.append((self._step, numbers))

    def evaluate(self) -> dict[str, float]:
        """Return the metrics of the present state, and leave it as it is."""
        trainer = self.trainer
        with self._held_only_if_it_ends_well():
            self.phase = "evaluate"
            with NoLogging(trainer, "evaluate"), randomness.put_back(), trainer.around("evaluate"):
                returned = trainer.evaluate()
        return checked_metrics(returned)

    def probe(self, required: frozenset[str]) -> None:
        """Evaluate once, before anything is spent on training; raise where a required metric is missing."""
        metrics = self.evaluate()
        if missing := sorted(required - metrics.keys()):
            returned = ", ".join(map(repr, metrics)) or "nothing"
            raise TrainerError(
                f"evaluate() of {self._class.__name__} does not return {', '.join(map(repr, missing))}; "
                f"it returns {returned}. Name one of these as the tuner's metric, or return the missing one"
            )

    def snapshot(self) -> Snapshot:
        """Return a function that writes the present state to a path."""
        trainer, config, step = self.trainer, self._config, self._step
        now = None if trainer.saves_random_state else randomness.capture()
        random = None if now is None else now.to_bytes()
        drawn = now is not None and random != self._seeded.get(tuple(now.torch))
        copy = trainer.snapshot()

        def write_copy(path: Path) -> None:
            _write(path, random, drawn, lambda state: trainer.write(copy, state))

        def save_now(path: Path) -> None:
            if self._trainer is not trainer or self._config is not config or self._step != step:
                raise IllegalTransition(
                    f"the snapshot of step {step} was not written before the trainer went on; "
                    f"{self._class.__name__} has no snapshot(), so that its snapshots are not deferred"
                )
            with randomness.put_back(state=now):
                _write(path, random, drawn, trainer.save)

        if copy is None:
            return Snapshot(deferred=False, write=save_now)
        return Snapshot(True, write_copy, lambda wait: None if drawn else trainer.content(copy, wait))

    def release(self) -> Trainer:
        """Hand the trainer over, ready for use, and forget it."""
        trainer = self.trainer
        trainer.finish()
        self.drop()
        return trainer

    def drop(self) -> None:
        """Forget the trainer, and with it the state; the next start builds anew."""
        self._trainer = None
        self._config = None

    def let_go(self) -> None:
        """Hold no state any more. The trainer stays: where it can be reset, the next start need not build."""
        self._config = None

    # Ways to a state.

    def _check_held(self, config: Config, step: int) -> None:
        before = max(step - 1, 0)
        if self._config is None:
            held = "no state is held"
        elif self._step != step:
            held = f"the state after {self._step} steps is held"
        elif self._config.key(before) != config.key(before):
            held = (
                f"the state held was trained with {self._config.values(before)}, not {config.values(before)}"
            )
        else:
            return
        raise IllegalTransition(f"a warm start from step {step} is not possible: {held}")

    def _ready(self, scratch: bool) -> Trainer:
        """Return a trainer in the state right after build(), or one whose load() does not depend on that."""
        if self._trainer is not None and not self._trainer.reset():
            defines_reset = self._class.reset is not Trainer.reset
            if scratch or defines_reset:
                self._trainer = None
        if self._trainer is None:
            had_torch = "torch" in sys.modules
            self._trainer = self._build()
            if not had_torch and "torch" in sys.modules:
                # What build() drew from torch came from a generator that nobody had seeded.
                self._trainer = self._build()
        return self._trainer

    def _build(self) -> Trainer:
        self.phase = "build"
        self._names_checked = False
        randomness.seed_all(self._seed)
        try:
            trainer = self._class(self._settings, self._seed)
        except TypeError as error:
            raise TrainerError(f"{self._class.__name__} cannot be made: {error}") from error
        if not hasattr(trainer, "settings"):
            raise TrainerError(
                f"__init__() of {self._class.__name__} has to call super().__init__(settings, seed)"
            )
        with NoLogging(trainer, "build"), trainer.around("build"):
            trainer.build()
        return trainer

    def _setup(self, trainer: Trainer, values: Mapping[str, Any], complete: bool) -> None:
        self.phase = "setup"
        hp = Values(values)
        read, alive = hp.read, weakref.ref(hp)
        with NoLogging(trainer, "setup"), trainer.around("setup"):
            trainer.setup(hp)
        del hp
        if complete and not self._names_checked:
            is_kept = alive() is not None  # what was kept may be read later
            if not is_kept:
                self._check_names(set(values), read)
            self._names_checked = True

    def _check_names(self, given: set[str], read: set[str]) -> None:
        unread = given - read
        if unread and (unread := unread - mentioned_names(self._class)):
            names = ", ".join(map(repr, sorted(unread)))
            what = ", ".join(map(repr, sorted(given & read))) or "nothing"
            raise TrainerError(
                f"setup() of {self._class.__name__} never looks at {names}; it read {what}. Trials that "
                "differ there alone would all be the same: put it into force in setup(), or take it "
                "out of the space"
            )

    def _seed_all(self) -> None:
        randomness.seed_all(self._seed)
        devices = randomness.devices_in_use()
        if devices not in self._seeded:
            self._seeded[devices] = randomness.capture().to_bytes()

    def _load(self, trainer: Trainer, source: Path) -> None:
        self.phase = "load"
        wrapped = source.is_dir() and not trainer.saves_random_state
        state = source / _STATE if wrapped else source
        if not state.exists():
            raise CheckpointError(f"checkpoint {source} is missing or not whole: there is no {state}")
        random = randomness.read(source / _RANDOM) if wrapped else None
        trainer.load(state)
        if random is not None:
            randomness.restore(random)
        elif not trainer.saves_random_state:
            randomness.seed_all(self._seed)

    @contextmanager
    def _held_only_if_it_ends_well(self) -> Iterator[None]:
        config, self._config = self._config, None
        yield
        self._config = config


def _write(path: Path, random: bytes | None, drawn: bool, write: Callable[[Path], None]) -> None:
    """Let a trainer write its state, and put a folder around that with the `random` state where it matters.

    It does not where nobody has drawn anything since the seed, which is known.
    """
    write(path)
    if random is not None and path.exists() and (drawn or path.is_dir()):
        inner = path.with_name(f"{path.name}-{_STATE}")
        path.rename(inner)
        path.mkdir()
        inner.rename(path / _STATE)
        (path / _RANDOM).write_bytes(random)
