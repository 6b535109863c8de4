"""A session calls a trainer in the promised order, and says clearly what is wrong with one."""

from __future__ import annotations

import io
import itertools
import math
import pickle
import random
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from hippotune import Config, InvalidInput, Piecewise, TrainerError
from hippotune.errors import CheckpointError, IllegalTransition
from hippotune.trainers.base import Trainer
from hippotune.trainers.session import Session
from trainers.samples import Convolutional, Plain, saved_by

CONFIG = Config({"lr": Piecewise([0.1, 0.01], [2]), "bs": 8})


class Logged(Trainer):
    """Writes down how it is called; its state is the number of steps."""

    calls: ClassVar[list[Any]] = []  # of all objects
    metrics: ClassVar[Any] = {"loss": 0.5}

    def prepare(self) -> None:
        self.calls.append("prepare")

    def build(self) -> None:
        self.calls.append("build")

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.calls.append(("setup", dict(hp)))

    def train(self) -> None:
        self.calls.append("train")

    def evaluate(self) -> Mapping[str, float]:
        self.calls.append("evaluate")
        return self.metrics  # type: ignore[no-any-return]


class Filed(Logged):
    """Writes its state itself."""

    def save(self, path: Path) -> None:
        self.calls.append("save")
        path.write_text("saved")

    def load(self, path: Path) -> None:
        self.calls.append(("load", path.read_text()))


class Stated(Logged):
    """Says itself what its state is."""

    def state_dict(self) -> dict[str, Any]:
        return {"said": [1, 2.5, "three"], "array": np.arange(3)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.calls.append(("load_state_dict", state["said"], state["array"].tolist()))


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    Logged.calls.clear()


def new_session(trainer: type[Trainer] = Logged) -> Session:
    return Session(trainer, {}, 0)


def calls_during(action: Callable[[], object]) -> list[Any]:
    Logged.calls.clear()
    action()
    return list(Logged.calls)


def advance(session: Session, steps: int) -> Session:
    for _ in range(steps):
        session.advance()
    return session


def from_scratch(steps: int = 0, trainer: type[Trainer] = Logged) -> Session:
    session = new_session(trainer)
    session.start(CONFIG, 0, None, False)
    return advance(session, steps)


# The order of calls.


def test_making_a_session_calls_nothing() -> None:
    assert calls_during(new_session) == []


def test_from_scratch_the_order_is_prepare_build_setup_train_and_later_setup_gets_changes_alone() -> None:
    assert calls_during(lambda: from_scratch(3)) == [
        "prepare",
        "build",
        ("setup", {"lr": 0.1, "bs": 8}),
        "train",
        "train",
        ("setup", {"lr": 0.01}),
        "train",
    ]


def test_from_a_checkpoint_the_saved_object_goes_on_with_the_changes() -> None:
    saved = saved_by(from_scratch(2))
    session = new_session()
    assert calls_during(lambda: session.start(CONFIG, 2, saved, False)) == ["prepare"]
    assert session.step == 2
    assert calls_during(session.advance) == [("setup", {"lr": 0.01}), "train"]
    assert session.step == 3


@pytest.mark.parametrize(
    ("trainer", "loaded"),
    [(Filed, ("load", "saved")), (Stated, ("load_state_dict", [1, 2.5, "three"], [0, 1, 2]))],
)
def test_a_trainer_that_saves_itself_is_built_and_set_up_before_it_loads(
    trainer: type[Trainer], loaded: object
) -> None:
    saved = saved_by(from_scratch(2, trainer))
    session = new_session(trainer)
    assert calls_during(lambda: session.start(CONFIG, 2, saved, False)) == [
        "prepare",
        "build",
        ("setup", {"lr": 0.1, "bs": 8}),
        loaded,
    ]
    assert calls_during(session.advance) == [("setup", {"lr": 0.01}), "train"]


def test_a_warm_start_calls_nothing_and_goes_on_with_the_new_config() -> None:
    session = from_scratch(2)
    branch = Config({"lr": Piecewise([0.1, 0.001], [2]), "bs": 8})
    assert calls_during(lambda: session.start(branch, 2, None, True)) == []
    assert calls_during(session.advance) == [("setup", {"lr": 0.001}), "train"]


def test_every_start_from_scratch_is_a_new_object_and_the_old_one_is_freed_first() -> None:
    class Counting(Logged):
        alive: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()

        def build(self) -> None:
            assert not self.alive
            self.alive.add(self)
            self.me = self  # a cycle, which only the collector frees

    session = from_scratch(1, Counting)
    session.start(CONFIG, 0, None, False)
    assert len(Counting.alive) == 1


def test_prepare_runs_once_and_what_it_leaves_is_on_every_object() -> None:
    class Preparing(Logged):
        def prepare(self) -> None:
            super().prepare()
            self.data = [random.random()]

        def train(self) -> None:
            self.calls.append(id(self.data))

    session = from_scratch(1, Preparing)
    saved = saved_by(session)
    session.start(CONFIG, 0, None, False)
    advance(session, 1)
    session.start(CONFIG, 1, saved, False)
    advance(session, 1)
    assert Logged.calls.count("prepare") == 1
    assert len({call for call in Logged.calls if isinstance(call, int)}) == 1


@pytest.mark.parametrize(
    ("prepared", "used"),
    [
        (lambda: random.Random(3), random.Random.random),
        (lambda: np.random.default_rng(3), np.random.Generator.random),
        (lambda: torch.Generator(), lambda generator: torch.rand(1, generator=generator)),
        (lambda: itertools.count(), next),
        (lambda: iter([1, 2, 3]), next),
        (lambda: (number for number in range(9)), next),
    ],
)
def test_a_prepared_generator_that_training_draws_from_is_named(
    prepared: Callable[[], Any], used: Callable[[Any], Any]
) -> None:
    class Preparing(Logged):
        def prepare(self) -> None:
            self.source = prepared()

        def train(self) -> None:
            used(self.source)

    with pytest.raises(TrainerError, match=r"self\.source was left by prepare\(\) and has changed"):
        saved_by(from_scratch(1, Preparing))


def test_after_a_drop_the_next_start_builds() -> None:
    session = from_scratch(1)
    session.drop()
    with pytest.raises(IllegalTransition, match="no state is held"):
        session.advance()
    assert calls_during(lambda: session.start(CONFIG, 0, None, False))[0] == "build"


# What cannot be started from.


def test_a_warm_start_is_refused_where_another_state_is_held() -> None:
    session = from_scratch(1)
    with pytest.raises(IllegalTransition, match="the state after 1 steps is held"):
        session.start(CONFIG, 2, None, True)
    with pytest.raises(IllegalTransition, match="was trained with"):
        session.start(Config({"lr": 0.5, "bs": 8}), 1, None, True)
    with pytest.raises(IllegalTransition, match="no state is held"):
        new_session().start(CONFIG, 1, None, True)


def test_a_start_in_the_middle_needs_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="after 3 steps needs a checkpoint"):
        new_session().start(CONFIG, 3, None, False)
    with pytest.raises(CheckpointError, match="a checkpoint cannot be read"):
        new_session().start(CONFIG, 3, io.BytesIO(b"something else"), False)


@pytest.mark.parametrize("content", [{"hippo": 99, "graph": b""}, {"weights": 1}, [1]])
def test_a_file_of_another_form_is_no_checkpoint(content: object) -> None:
    with pytest.raises(CheckpointError, match=r"a checkpoint (is not of the form|holds a list)"):
        new_session().start(CONFIG, 1, io.BytesIO(pickle.dumps(content)), False)


def test_a_folder_that_a_trainer_writes_comes_back_as_it_was() -> None:
    class Foldered(Logged):
        def save(self, path: Path) -> None:
            path.mkdir()
            (path / "state").write_text("mine")
            (path / "random").write_text("mine too")

        def load(self, path: Path) -> None:
            self.calls.append(sorted(entry.read_text() for entry in path.iterdir()))

    saved = saved_by(from_scratch(1, Foldered))
    new_session(Foldered).start(CONFIG, 1, saved, False)
    assert Foldered.calls[-1] == ["mine", "mine too"]


def test_a_save_that_writes_elsewhere_or_nothing_is_told_so() -> None:
    class Appending(Filed):
        def save(self, path: Path) -> None:
            np.save(path, np.zeros(1))

    class Forgetting(Filed):
        def save(self, path: Path) -> None:
            pass

    with pytest.raises(TrainerError, match=r"Appending wrote nothing to .*, state; it wrote state\.npy"):
        from_scratch(1, Appending).snapshot()
    with pytest.raises(TrainerError, match=r"Forgetting wrote nothing to the path"):
        from_scratch(1, Forgetting).snapshot()


@pytest.mark.parametrize(
    ("name", "missing"), [("save", "load"), ("load", "save"), ("state_dict", "load_state_dict")]
)
def test_half_of_a_way_to_save_is_refused(name: str, missing: str) -> None:
    with pytest.raises(TrainerError, match=rf"Half defines {name}\(\) but not {missing}\(\)"):
        new_session(type("Half", (Logged,), {name: lambda self, *_: None}))


def test_a_state_dict_that_is_not_data_is_refused() -> None:
    class Wild(Stated):
        def state_dict(self) -> dict[str, Any]:
            return {"session": Session}

    with pytest.raises(
        TrainerError, match=r"state_dict\(\) of Wild returns something that cannot be saved as data"
    ):
        from_scratch(1, Wild).snapshot()


@pytest.mark.parametrize("phase", ["prepare", "build", "setup", "train", "evaluate", "load"])
def test_an_exception_passes_through_tells_its_phase_and_leaves_no_state(phase: str) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("user code")

    saved = saved_by(from_scratch(1, Filed))
    session = new_session(type("Broken", (Filed,), {phase: fail}))
    with pytest.raises(ZeroDivisionError, match="user code"):  # noqa: PT012 - any of them
        session.start(CONFIG, 0, None, False)
        session.evaluate()
        session.advance()
        session.start(CONFIG, 1, saved, False)
    assert session.phase == phase
    with pytest.raises(IllegalTransition, match="no state is held"):
        session.start(CONFIG, session.step, None, True)


def test_a_class_that_is_no_trainer_or_not_finished_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected a class that derives from"):
        Session(dict, {}, 0)  # type: ignore[arg-type]
    forgetful = type("Forgetful", (Logged,), {"__init__": lambda self, settings, seed: None})
    with pytest.raises(TrainerError, match=r"Forgetful has to call super\(\)\.__init__"):
        new_session(forgetful).start(CONFIG, 0, None, False)
    unfinished = type("Unfinished", (Trainer,), {"setup": Logged.setup})
    with pytest.raises(TrainerError, match=r"Unfinished does not define evaluate\(\), train\(\)"):
        new_session(unfinished).start(CONFIG, 0, None, False)


# Snapshots.


@pytest.mark.parametrize("trainer", [Convolutional, Plain, Stated])
def test_a_snapshot_is_of_the_moment_it_was_taken_at(trainer: type[Trainer]) -> None:
    values: dict[str, Any] = (
        {"lr": 0.1, "optimizer": "sgd", "bs": 8} if trainer is Convolutional else {"rate": 1}
    )
    session = Session(trainer, {}, 0)
    session.start(Config(values), 0, None, False)
    session.advance()
    early, at_once = session.snapshot(), session.snapshot()
    files = io.BytesIO(), io.BytesIO()
    at_once(files[0])
    session.advance()
    early(files[1])
    assert files[0].getvalue() == files[1].getvalue()


# Metrics.


@pytest.mark.parametrize(
    "value",
    [0.25, np.float32(0.25), np.float64(0.25), np.array(0.25), torch.tensor(0.25), torch.tensor(0.25).half()],
)
def test_scalars_of_numpy_and_torch_are_numbers(value: object) -> None:
    session = from_scratch(0, type("Measured", (Logged,), {"metrics": {"loss": value, "count": np.int64(3)}}))
    assert session.evaluate() == {"loss": 0.25, "count": 3.0}
    assert set(map(type, session.evaluate().values())) == {float}


def test_nan_and_infinity_are_numbers() -> None:
    session = from_scratch(
        0, type("Diverged", (Logged,), {"metrics": {"a": math.nan, "b": torch.tensor(-math.inf)}})
    )
    metrics = session.evaluate()
    assert math.isnan(metrics["a"])
    assert metrics["b"] == -math.inf


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (None, r"evaluate\(\) returned None \(NoneType\); expected a mapping"),
        (0.5, r"returned 0\.5 \(float\); expected a mapping"),
        ({"acc": "high"}, r"returned 'high' \(str\) as 'acc'; expected a real number"),
        ({"acc": True}, r"returned True \(bool\) as 'acc'"),
        ({"acc": torch.tensor(True)}, r"tensor\(True\) \(Tensor\) as 'acc'"),
        ({"acc": np.bool_(True)}, r"as 'acc'"),
        ({"acc": None}, r"returned None \(NoneType\) as 'acc'"),
        ({"acc": 1j}, r"returned 1j \(complex\) as 'acc'"),
        ({"acc": torch.zeros(2)}, r"\(Tensor of shape \(2,\)\) as 'acc'"),
        ({"acc": 10**400}, r"\(int\) as 'acc'"),
        ({3: 0.5}, r"a metric named 3; expected a name"),
        ({}, r"evaluate\(\) returned no metric; expected at least one"),
    ],
)
def test_what_is_not_a_metric_is_named_with_its_type_and_value(metrics: object, message: str) -> None:
    session = from_scratch(0, type("Odd", (Logged,), {"metrics": metrics}))
    with pytest.raises(TrainerError, match=message):
        session.evaluate()


def test_a_probe_names_the_metric_that_is_missing_and_those_that_are_there() -> None:
    session = from_scratch()
    session.probe(frozenset({"loss"}))
    with pytest.raises(TrainerError, match=r"Logged does not return 'val_acc'; it returns 'loss'"):
        session.probe(frozenset({"loss", "val_acc"}))


def test_an_error_of_evaluate_before_the_first_step_says_when_it_was_called() -> None:
    class Early(Logged):
        def evaluate(self) -> Mapping[str, float]:
            return {"loss": self.loss}  # type: ignore[attr-defined]

    with pytest.raises(AttributeError) as raised:
        from_scratch(0, Early).probe(frozenset({"loss"}))
    assert "evaluate() was called before the first step" in raised.value.__notes__[0]


def test_evaluating_puts_random_generators_back_even_where_it_fails() -> None:
    class Drawing(Logged):
        def evaluate(self) -> Mapping[str, float]:
            drawn = random.random() + np.random.rand() + torch.rand(()).item()
            raise RuntimeError(drawn)

    session = from_scratch(0, Drawing)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    with pytest.raises(RuntimeError):
        session.evaluate()
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]


# Random numbers of plain trainers.


def test_every_trial_is_seeded_before_build() -> None:
    class Seeded(Logged):
        def build(self) -> None:
            self.drawn = [random.random(), np.random.rand(), torch.rand(()).item()]

        def setup(self, hp: Mapping[str, Any]) -> None:
            self.drawn += [random.random(), np.random.rand(), torch.rand(()).item(), len(dict(hp))]

    drawn = []
    for seed in (5, 5, 6):
        random.seed()
        session = Session(Seeded, {}, seed)
        session.start(CONFIG, 0, None, False)
        drawn.append(session.trainer.drawn)  # type: ignore[attr-defined]
    assert drawn[0] == drawn[1] != drawn[2]


def test_where_build_is_the_first_to_load_torch_it_runs_again_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = sys.modules["torch"]

    class Loading(Logged):
        def build(self) -> None:
            self.calls.append("build")
            sys.modules["torch"] = loaded
            self.first = loaded.rand(()).item()

    monkeypatch.delitem(sys.modules, "torch")
    late = from_scratch(0, Loading).trainer
    assert Logged.calls.count("build") == 2
    assert late.first == from_scratch(0, Loading).trainer.first  # type: ignore[attr-defined]


# Hyper-parameters that nobody reads.


def started(setup: Callable[[Any, Any], object], **values: Any) -> None:
    new_session(type("Reader", (Logged,), {"setup": setup})).start(Config(values), 0, None, False)


def test_a_hyper_parameter_that_setup_never_looks_at_is_named_with_those_it_read() -> None:
    def setup(self: Any, hp: Any) -> None:
        self.rate = hp["rate"]

    with pytest.raises(TrainerError, match=r"Reader never looks at 'ratte', 'zeal'; it read 'rate'\. Trials"):
        started(setup, rate=0.1, ratte=0.2, zeal=3)


def keep(self: Any, hp: Any) -> None:
    self.kept = hp


def keep_deeply(self: Any, hp: Any) -> None:
    self.later = lambda: hp["odd_name"]


@pytest.mark.parametrize(
    "setup",
    [
        lambda self, hp: hp.items(),
        lambda self, hp: list(hp),
        lambda self, hp: dict(hp),
        lambda self, hp: dict(**hp),
        lambda self, hp: {**hp},
        lambda self, hp: self.__dict__.update(hp),
        lambda self, hp: hp | {},
        lambda self, hp: hp == {},
        lambda self, hp: hp.copy(),
        lambda self, hp: [hp.get(name) for name in ("odd" + "_name",)],
        lambda self, hp: ("odd" + "_name") in hp,
        lambda self, hp: hp.pop("odd" + "_name"),
        keep,
        keep_deeply,
    ],
)
def test_every_way_of_looking_at_a_value_counts(setup: Callable[[Any, Any], object]) -> None:
    started(setup, odd_name=1)


def test_names_that_train_puts_together_for_hp_count_as_read_and_others_do_not() -> None:
    def setup(self: Any, hp: Any) -> None:
        pass

    def computed(self: Any) -> None:
        self.sum = sum(self.hp(f"rate_{name}") for name in "ab")

    def constant(self: Any) -> None:
        self.sum = self.hp("rate_a", 0)

    values = Config({"rate_a": 1, "rate_b": 2})
    session = new_session(type("Reader", (Logged,), {"setup": setup, "train": computed}))
    session.start(values, 0, None, False)
    session.advance()
    assert vars(session.trainer)["sum"] == 3
    reader = type("Reader", (Logged,), {"setup": setup, "train": constant})
    with pytest.raises(TrainerError, match=r"never looks at 'rate_b'; .* by self\.hp\('rate_b'\)"):
        new_session(reader).start(values, 0, None, False)


def test_a_name_that_is_read_under_another_condition_is_no_mistake() -> None:
    def setup(self: Any, hp: Any) -> None:
        if hp["optimizer"] == "sgd":
            self.momentum = hp["momentum"]

    started(setup, optimizer="adam", momentum=0.9)


def test_a_plain_trainer_starts_alike_in_a_used_session_and_in_a_new_one() -> None:
    config = Config({"rate": 0.1})
    used = Session(Plain, {}, 3)
    used.start(Config({"rate": 0.5}), 0, None, False)
    advance(used, 3)
    new = Session(Plain, {}, 3)
    for session in (used, new):
        session.start(config, 0, None, False)
        advance(session, 2)
    assert used.evaluate() == new.evaluate()


# Globals.

STATE = {"count": 0}


class ThroughSelf(Trainer):
    """Changes a global by the name that it has on self."""

    def build(self) -> None:
        self.state = STATE

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.values = dict(hp)

    def train(self) -> None:
        self.state["count"] += 1

    def evaluate(self) -> Mapping[str, float]:
        return {"count": self.state["count"]}


def test_a_global_that_training_changes_by_any_name_is_refused() -> None:
    session = Session(ThroughSelf, {}, 0, watch=True)
    session.start(CONFIG, 0, None, False)
    with pytest.raises(TrainerError, match=r"training has changed what it reads .*STATE.*Keep it on self"):
        session.advance()


class Late(ThroughSelf):
    """Changes it in its second step only."""

    def build(self) -> None:
        super().build()
        self.steps = 0

    def train(self) -> None:
        self.steps += 1
        self.state["count"] += self.steps == 2


class AtFirst(ThroughSelf):
    """Changes it in every build()."""

    def build(self) -> None:
        super().build()
        self.state["count"] += 1

    def train(self) -> None: ...


@pytest.mark.parametrize("end", ["another trial", "a checkpoint"])
def test_a_global_that_was_changed_since_the_last_look_is_named_before_a_state_is_kept_or_reached(
    end: str,
) -> None:
    session = Session(Late, {}, 0, watch=True)

    def train() -> None:
        session.start(CONFIG, 0, None, False)
        session.advance()
        session.advance()
        session.check() if end == "a checkpoint" else session.start(CONFIG, 0, None, False)

    with pytest.raises(TrainerError, match=r"training has changed .*STATE"):
        train()


class Failing(Late):
    """Fails right after it has changed it."""

    def train(self) -> None:
        super().train()
        if self.steps == 2:
            raise ValueError


def test_a_global_that_was_changed_by_a_trial_that_failed_is_named_before_another_starts() -> None:
    session = Session(Failing, {}, 0, watch=True)
    session.start(CONFIG, 0, None, False)
    session.advance()
    session.check()
    with pytest.raises(ValueError, match=r"^$"):
        session.advance()
    with pytest.raises(TrainerError, match=r"training has changed .*STATE"):
        session.start(CONFIG, 0, None, False)


LARGE = np.zeros(1_000_000)


class ReadingMuch(Late):
    """Reads a large array too."""

    def build(self) -> None:
        super().build()
        self.large = LARGE


def test_a_small_global_is_looked_at_beside_large_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hippotune.trainers.state.pace.QUICK", 0.0)  # every look at everything is slow
    session = Session(ReadingMuch, {}, 0, watch=True)

    def train() -> None:
        session.start(CONFIG, 0, None, False)
        session.advance()
        session.advance()
        session.check()

    with pytest.raises(TrainerError, match=r"training has changed .*STATE[^;]*No checkpoint"):
        train()


def test_a_global_that_the_first_build_changes_is_named() -> None:
    session = Session(AtFirst, {}, 0, watch=True)
    session.start(CONFIG, 0, None, False)
    with pytest.raises(TrainerError, match=r"training has changed .*STATE"):
        session.advance()


def test_what_the_first_build_imports_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_late.py").write_text("import json\nRATE = 2\n")

    class Importing(ThroughSelf):
        def build(self) -> None:
            super().build()
            import imported_late  # type: ignore[import-not-found]

            self.rate = imported_late.RATE

        def train(self) -> None: ...

    session = Session(Importing, {}, 0, watch=True)
    session.start(CONFIG, 0, None, False)
    session.advance()
    session.start(CONFIG, 0, None, False)


def test_a_session_goes_on_beyond_what_32_bits_count() -> None:
    far = 2**31
    session = new_session()
    session.start(CONFIG, 0, None, warm=False)
    state = saved_by(session)
    Logged.calls.clear()
    session.start(Config({"lr": Piecewise([0.1, 0.01], [far]), "bs": 8}), far - 1, state, warm=False)
    session.advance()
    session.advance()
    assert session.step == far + 1
    assert Logged.calls[-3:] == ["train", ("setup", {"lr": 0.01}), "train"]
