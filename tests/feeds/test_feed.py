"""How sinks are fed: what fails is tried again, and nothing of it reaches training."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hippotune as hippo
from examples import few_examples
from feeds import programs
from feeds.facts import example, expected, shown
from hippotune import GridSearch, InvalidInput, Local, MultiStep, Study
from hippotune.cli import main
from hippotune.sinks import Model, Record, RunEnded, Sink, Source, TensorBoard, WandB
from hippotune.sinks.feed import Feed
from hippotune.sinks.wandb import read_history
from hippotune.store.base import Store
from hippotune.store.memory import MemoryStore
from hippotune.tuners.base import Result
from study.walkers import Walker


class Kept(Sink):
    """Keeps what it is given, and fails at some of its calls."""

    def __init__(self, failing: Sequence[int] = ()) -> None:
        self.failing = set(failing)
        self.calls = 0
        self.number = 0
        self.closed = 0
        self.records: list[Record] = []

    def open(self, source: Source) -> int:
        self.opened = source
        return self.number

    def write(self, records: Sequence[Record]) -> None:
        self.calls += 1
        if self.calls in self.failing:
            raise OSError("the target is away")
        self.records += records

    def save(self, number: int) -> None:
        self.number = number

    def close(self) -> None:
        self.closed += 1


def filled() -> MemoryStore:
    store = MemoryStore()
    store.write(example())
    return store


def feed(
    sink: Sink, store: Store, warnings: list[str], model: Path | None = None, patience: float = 60
) -> None:
    @contextmanager
    def opened() -> Iterator[Store]:
        yield store

    fed = Feed(sink, opened, "study", "digest", True, warnings.append, pauses=(0.0, 0.0), at_once=10)
    fed.start()
    fed.finish(None if model is None else (2, model), patience)


@pytest.mark.parametrize("failing", [(), (1,), (1, 2, 4, 5)])
def test_what_fails_is_tried_again_from_where_the_target_is(failing: Sequence[int], tmp_path: Path) -> None:
    sink, store, warnings = Kept(failing), filled(), list[str]()
    feed(sink, store, warnings, tmp_path / "model.pt")
    assert warnings == []
    assert shown(sink.records) == pytest.approx(expected(store), nan_ok=True)
    assert sink.opened == Source("study", "digest", store.incarnation)
    assert sink.number == store.last_number
    assert [record.run.name for record in sink.records if isinstance(record, RunEnded)] == [
        f"trial-{number}" for number in range(5)
    ]
    (model,) = [record for record in sink.records if isinstance(record, Model)]
    assert (model.run.name, model.path) == ("trial-2", tmp_path / "model.pt")


def test_a_sink_that_goes_on_failing_is_dropped_with_a_warning() -> None:
    sink, warnings = Kept(range(1, 9)), list[str]()
    feed(sink, filled(), warnings)
    assert len(warnings) == 1
    assert "Kept was dropped: OSError: the target is away" in warnings[0]
    assert "hippo log study" in warnings[0]
    assert sink.closed == 3


def test_a_sink_that_blocks_is_left_alone_with_a_warning() -> None:
    free = threading.Event()

    class Blocked(Kept):
        def write(self, records: Sequence[Record]) -> None:
            free.wait()

    warnings: list[str] = []
    feed(Blocked(), filled(), warnings, patience=0.2)
    free.set()
    assert len(warnings) == 1
    assert "Blocked wrote nothing" in warnings[0]


@few_examples
@given(cut=st.integers(0, 5000))
def test_event_files_that_were_cut_anywhere_are_made_whole(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, store, warnings = tmp_path_factory.mktemp("cut"), filled(), list[str]()
    feed(TensorBoard(folder / "runs"), store, warnings)
    for path in (folder / "runs" / "study").glob("trial-*/*"):
        with path.open("ab") as file:
            file.truncate(min(cut, path.stat().st_size))
    (folder / "runs" / "study" / "hippo.json").unlink()
    feed(TensorBoard(folder / "runs"), store, warnings)
    assert warnings == []
    numbers, _ = programs.tensorboard(folder)
    assert len(numbers) == len(expected(store))
    assert {(run, name, step): value for run, name, step, value in numbers} == pytest.approx(
        expected(store), rel=1e-6, nan_ok=True
    )


@pytest.mark.parametrize("size", [0, 5, 7, 40])
def test_a_file_of_wandb_that_was_cut_anywhere_holds_what_is_before(size: int, tmp_path: Path) -> None:
    import wandb  # takes two seconds, in each process that collects tests

    store, warnings = filled(), list[str]()
    feed(WandB(folder=tmp_path), store, warnings)
    wandb.teardown()  # its service process writes what it still has, and ends
    paths = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    whole = [len(list(read_history(path))) for path in paths]
    with paths[0].open("ab") as file:
        file.truncate(size)
    (cursor,) = tmp_path.glob("wandb/hippo-*.json")
    cursor.unlink()
    feed(WandB(folder=tmp_path), store, warnings)
    wandb.teardown()
    assert warnings == []
    assert len(list(read_history(paths[0]))) == 0
    counted = Counter(
        path.stem for path in tmp_path.glob("wandb/offline-run-*/*.wandb") for _ in read_history(path)
    )
    assert counted == dict(zip((path.stem for path in paths), whole, strict=True))


class Told(hippo.Callback):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, int, int]] = []

    def on_result(self, result: Result) -> None:
        self.notes.append(("result", result.trial.number, result.step))

    def on_trial_end(self, result: Result) -> None:
        self.notes.append(("end", result.trial.number, result.step))

    def on_best(self, result: Result) -> None:
        self.notes.append(("best", result.trial.number, result.step))


class Stops(Told):
    """Ends the tuning at its second result."""

    def on_result(self, result: Result) -> None:
        super().on_result(result)
        if len(self.notes) > 3:
            raise InterruptedError("enough")


def test_a_study_feeds_its_sinks_and_tells_its_callbacks_the_same_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    def tuner() -> GridSearch:
        space = {"lr": [0.1, MultiStep(0.1, [4], 0.1), MultiStep(0.1, [6], 0.1)], "bs": [16]}
        return GridSearch(space, metric="loss", mode="min", max_steps=8)

    home, stopped, resumed, again = tmp_path / "home", Stops(), Told(), Told()
    with Study("study", Walker, home=home, executor=Local(workers=1)) as study:
        sinks = [TensorBoard(tmp_path / "runs")]
        with pytest.raises(InterruptedError, match="enough"):
            study.tune(tuner(), progress=False, sinks=sinks, callbacks=[stopped])
        report = study.tune(tuner(), progress=False, sinks=sinks, callbacks=[resumed])
        study.tune(tuner(), progress=False, callbacks=[again])
        with pytest.raises(InvalidInput, match=r"sinks is 'runs'; expected a list of sinks"):
            study.tune(tuner(), sinks=["runs"])  # type: ignore[list-item]
    assert stopped.notes == resumed.notes[: len(stopped.notes)]
    assert again.notes == resumed.notes
    assert [note for note in again.notes if note[0] == "end"] == [("end", number, 8) for number in range(3)]
    best = [number for kind, number, _ in again.notes if kind == "best"][-1]
    assert best == report.best.number
    before, _ = programs.tensorboard(tmp_path)
    losses = {
        (f"trial-{trial.number}", "loss", step): metrics["loss"]
        for trial in report.trials
        for step, metrics in trial.metrics.items()
    }
    found = {(run, name, step): value for run, name, step, value in before if name == "loss"}
    assert found == pytest.approx(losses, rel=1e-6)
    for target in ("runs", "other"):  # one that has it all already, and one that has nothing
        assert main(["log", "study", "--home", str(home), "--to", f"tensorboard:{tmp_path / target}"]) == 0
    assert programs.tensorboard(tmp_path)[0] == before
    (tmp_path / "copy").mkdir()
    (tmp_path / "other").rename(tmp_path / "copy" / "runs")
    assert sorted(programs.tensorboard(tmp_path / "copy")[0]) == sorted(before)


def test_an_unknown_target_is_refused_by_naming_those_that_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["log", "study", "--to", "paper:here"]) == 2
    assert "expected one of tensorboard, mlflow, wandb, trackio" in capsys.readouterr().err


def test_what_sinks_need_is_not_imported_before_they_are_used() -> None:
    tools = "{'tensorboard', 'mlflow', 'wandb', 'trackio'}"
    code = (
        "import sys, hippotune as hippo; hippo.Study; hippo.sinks.TensorBoard('runs'); "
        f"hippo.sinks.MLflow(); hippo.sinks.WandB(); hippo.sinks.Trackio(); print({tools} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said == "set()\n"
