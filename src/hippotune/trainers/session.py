"""One trial after the other in one process: the order of calls that `hippotune.trainers.base` promises.

A session does no more than call the trainer: it starts no process and no thread, and knows nothing of leases.
What always holds:

* A state from scratch is a new object, one from a checkpoint the saved object; the one before is freed first.
* `evaluate` leaves random generators and settings, and `snapshot` everything, as they are.
* After an exception no state is held: the next `start` is from scratch or from a checkpoint.
* No state is reached in a process in which a trial has changed what others share, as far as `check` tells.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from hippotune import checks
from hippotune.errors import CheckpointError, IllegalTransition, InvalidInput, TrainerError
from hippotune.identity import library_settings
from hippotune.protocol.failures import metrics_lacking
from hippotune.trainers import seeding
from hippotune.trainers.base import Trainer, UserCall
from hippotune.trainers.hyperparameters import InForce, handed_over
from hippotune.trainers.logged import Logging, Numbers
from hippotune.trainers.making import make
from hippotune.trainers.metrics import MetricsMissing, checked_metrics
from hippotune.trainers.process_settings import Surroundings
from hippotune.trainers.starting import Start
from hippotune.trainers.state import formats
from hippotune.trainers.state.fingerprint import fingerprint
from hippotune.trainers.state.functions import is_found_by_name
from hippotune.trainers.state.large import LargeConstants
from hippotune.trainers.state.pickling import OWN, Known, Reference
from hippotune.trainers.state.prepared import PREPARED, NotPrepared, Prepared, Shared
from hippotune.trainers.state.surroundings import WatchedGlobals
from hippotune.trainers.unread import TrackedDict, check_read

if TYPE_CHECKING:
    from hippotune.protocol.fingerprint import Fingerprint
    from hippotune.sequences.config import Config

Write = Callable[[BinaryIO], None]

_SELF, _CLASS = "self", "class"
_BEFORE_TRAINING = (
    "evaluate() was called before the first step, to see whether it returns the metrics that the study "
    "needs: it has to work on a model that has not been trained yet"
)


class Session:
    """Drives trainers of one class; see the module's docstring for what holds.

    A `bare` session loads whole objects without what `prepare` left, so that it need not run: for looking at
    models, not for training. One that is to `watch` raises where a trial changes globals that training reads.
    With a `start`, trials from scratch begin with the weights in it.

    Attributes
    ----------
    phase : str
        Which of the user's methods was called last: where an exception came from.
    logged : list[tuple[int, dict[str, float]]] or None
        Steps with the numbers that training logged at them, for others to take; None keeps none.
    notes : list[str]
        What a person should read, once; for others to take.
    """

    def __init__(
        self,
        trainer_class: type[Trainer],
        settings: Mapping[str, Any] | None,
        seed: int,
        bare: bool = False,
        watch: bool = False,
        start: Start | None = None,
    ) -> None:
        checks.subclass("the trainer", trainer_class, Trainer, "a class that derives from hippo.Trainer")
        self.phase: UserCall | Literal["load"] = "build"
        self.logged: list[tuple[int, Numbers]] | None = None
        self.notes: list[str] = []
        self._class = trainer_class
        self._kind = formats.kind_of(trainer_class)
        self._settings = dict(settings or {})
        self._seed = seed
        self._bare = bare and self._kind == "object"
        self._watch = watch
        self._start = start
        self._start_state: Any = None
        self._globals: WatchedGlobals | None = None
        self._prepared: Prepared | None = None
        self._surroundings = Surroundings()
        self._shared_settings: Shared | None = None
        self._is_unchecked = False  # whether user code has run since the last check
        self._trainer: Trainer | None = None
        self._config: Config | None = None  # what the state held was trained with; None: no state is held
        self._step = 0
        self._names_checked = False
        self._large = LargeConstants()
        self._references: Known | None = None  # by the ids of the present trainer

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

    def start(self, config: Config, step: int, source: formats.Source | None, warm: bool) -> None:
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
            self.check()
            self.drop()
            self.prepare()
            if self._watch and self._globals is None:
                self._globals = WatchedGlobals(self._class)
            self._is_unchecked = True
            with self._surroundings.following_imports():
                if source is not None and self._kind == "object":
                    self._trainer = self._saved_object(source)
                else:
                    self._trainer = trainer = seeding.with_torch_seeded(partial(self._built, config))
                    self._setup(trainer, config.values(max(step - 1, 0)), complete=True)
                    if source is not None:
                        self._load(trainer, source)
        self._config, self._step = config, step

    def check(self) -> None:
        """Raise where a trial has changed what others share: before another state is reached, and saved."""
        if self._is_unchecked:
            self._look(urgent=True)
            self._is_unchecked = False

    def _look(self, urgent: bool) -> None:
        for watched in (self._prepared, self._shared_settings, self._globals):
            if watched is not None:
                watched.check(urgent)

    def prepare(self) -> None:
        """Run the trainer's `prepare`, where that is still to do."""
        if self._prepared is not None:
            return
        if self._bare:
            self._prepared = Prepared({})
            return
        self._prepared = Prepared(seeding.with_torch_seeded(self._left_by_prepare), self._class.__module__)
        settings = {"settings": self._settings} if self._settings else {}
        self._shared_settings = Shared(
            settings, self._class.__module__, "given as settings", "Change a copy of it, made in build()"
        )
        self._surroundings = Surroundings()

    def _left_by_prepare(self) -> dict[str, Any]:
        seeding.seed_all(self._seed)
        trainer = make(self._class, self._settings, self._seed)
        before = dict(vars(trainer))
        seeding.seed_all(self._seed)
        self.phase = "prepare"
        with Logging(trainer, "prepare"), trainer.around("prepare"):
            trainer.prepare()
        left = vars(trainer).items()
        return {name: value for name, value in left if name not in before or before[name] is not value}

    def advance(self) -> None:
        """Train one step, after putting into force what changes at it."""
        trainer, config = self.trainer, self._config
        assert config is not None
        self._is_unchecked = True
        with self._held_only_if_it_ends_well(), self._surroundings.following_imports():
            if self._step > 0 and (changes := config.changes(self._step)):
                self._setup(trainer, changes, complete=False)
            self.phase = "train"
            in_force = InForce(trainer, config, self._step)
            with Logging(trainer, "train") as numbers, in_force, trainer.around("train"):
                trainer.train()
            self._look(urgent=False)
        self._step += 1
        if numbers and self.logged is not None:
            self.logged.append((self._step, numbers))

    def evaluate(self) -> dict[str, float]:
        """Return the metrics of the present state; random generators and settings stay as they are."""
        trainer = self.trainer
        self._is_unchecked = True
        with self._held_only_if_it_ends_well(), self._surroundings.following_imports() as imported:
            self.phase = "evaluate"
            settings = library_settings.capture()
            with Logging(trainer, "evaluate"), seeding.put_back(), trainer.around("evaluate"):
                returned = trainer.evaluate()
            library_settings.restore(settings | imported)
        return checked_metrics(returned)

    def probe(self, required: frozenset[str]) -> None:
        """Evaluate once, before anything is spent on training; raise where a required metric is missing."""
        try:
            metrics = self.evaluate()
        except Exception as error:
            error.add_note(_BEFORE_TRAINING)
            raise
        if missing := required - metrics.keys():
            whose = f"evaluate() of {self._class.__name__}"
            raise MetricsMissing(metrics_lacking(missing, metrics, whose), missing)

    def snapshot(self) -> Write:
        """Return what writes the present state to a file: at any time, in any thread, whatever is trained."""
        trainer, prepared = self.trainer, self._prepared
        assert prepared is not None
        match self._kind:
            case "files":
                return formats.files_of(trainer)
            case "state_dict":
                content = formats.data_of(trainer)
                return partial(_write, content)
            case _:
                if (note := self._large.look(trainer, prepared)) is not None:
                    self.notes.append(note)
                return formats.Whole.of(trainer, self._known(trainer)).write

    def fingerprint(self) -> Fingerprint:
        """Return what the present state is, as plain data that can be compared; leaves it as it is."""
        trainer = self.trainer
        return fingerprint(trainer, self._known(trainer))

    def release(self) -> Trainer:
        """Hand the trainer over, ready for use, and forget it."""
        trainer = self.trainer
        trainer.finish()
        self._trainer = self._config = self._references = None
        return trainer

    def drop(self) -> None:
        """Forget the state, and free the object that holds it."""
        self._large.begin()
        if self._trainer is not None:
            alive = weakref.ref(self._trainer)
            self._trainer = self._config = self._references = None
            if alive() is not None:  # objects that refer to each other wait for the collector
                gc.collect()

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

    def _built(self, config: Config) -> Trainer:
        assert self._prepared is not None
        self.phase = "build"
        self._surroundings.put_back()
        seeding.seed_all(self._seed)
        trainer = make(self._class, self._settings, self._seed)
        vars(trainer).update(self._prepared.attributes)
        trainer.seed = seeding.of_trial(handed_over(config.values(0)), self._seed)
        seeding.seed_all(trainer.seed)
        with Logging(trainer, "build"), trainer.around("build"):
            trainer.build()
            if self._start is not None:
                if self._start_state is None:
                    self._start_state = self._start.load()
                trainer.load_start(self._start_state)
        return trainer

    def _saved_object(self, source: formats.Source) -> Trainer:
        self.phase = "load"
        self._surroundings.put_back()
        trainer = self._class.__new__(self._class)
        try:
            attributes, random, settings = formats.read_whole(source, partial(self._resolve, trainer))
        except CheckpointError:
            raise
        except Exception as error:
            raise TrainerError(
                f"the state of {self._class.__name__} was saved, but cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        vars(trainer).update(attributes)
        trainer.arrive(to_train=not self._bare)
        if not self._bare:
            seeding.restore(random)
            library_settings.restore(settings)
        return trainer

    def _load(self, trainer: Trainer, source: formats.Source) -> None:
        self.phase = "load"
        with trainer.around("setup"):
            put = formats.put_files if self._kind == "files" else formats.put_data
            put(trainer, source)

    def _known(self, trainer: Trainer) -> Known:
        """Return what a checkpoint refers to by name: the trainer, its class, and what prepare() left."""
        assert self._prepared is not None
        if self._references is not None and id(trainer) in self._references.names:
            return self._references
        prepared = self._prepared.known
        names: dict[int, Reference] = {id(trainer): (_SELF, "")}
        for index, cls in enumerate(self._class.__mro__):
            if not is_found_by_name(cls):
                names[id(cls)] = (_CLASS, index)
        self._references = replace(prepared, names={**prepared.names, **names})
        return self._references

    def _resolve(self, trainer: Trainer, reference: Reference) -> Any:
        kind, name = reference
        assert self._prepared is not None
        if kind == OWN:
            return self._prepared.attributes.get(*name)
        if kind == PREPARED:
            return NotPrepared(name) if self._bare else self._prepared.resolve(name)
        return trainer if kind == _SELF else self._class.__mro__[name]

    def _setup(self, trainer: Trainer, values: Mapping[str, Any], complete: bool) -> None:
        self.phase = "setup"
        hp = TrackedDict(handed_over(values), complete)
        read, alive = hp.read, weakref.ref(hp)
        with Logging(trainer, "setup"), trainer.around("setup"):
            trainer.setup(hp)
        del hp
        if complete and not self._names_checked:
            if alive() is None:  # what was kept may be read later
                check_read(self._class, values.keys() - {"seed"}, read)
            self._names_checked = True

    @contextmanager
    def _held_only_if_it_ends_well(self) -> Iterator[None]:
        config, self._config = self._config, None
        yield
        self._config = config


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)
