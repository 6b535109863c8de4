"""Trainers get into worker processes, wherever they were written, or it is said why not."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
import torch

from executors.noisy import Noisy
from executors.rig import Rig
from hippotune.errors import TrainerError
from hippotune.executors.local.executor import Local
from hippotune.executors.shipping import dumped
from hippotune.protocol.events import LeaseFailed, WorkerJoined
from processes import below
from waiting import SECONDS

# A trainer that pickles a class of its own module in its checkpoints, as whole models often are.
MODULE = """
import pickle
from hippotune.trainers.base import Trainer

START = 3

class Model:
    def __init__(self):
        self.weight = START

def grow(model, rate):
    model.weight += rate

class Growing(Trainer):
    def build(self):
        self.model = Model()
    def setup(self, hp):
        self.values = {**getattr(self, "values", {}), **hp}
    def train(self):
        grow(self.model, self.values["rate"])
    def evaluate(self):
        return {"weight": self.model.weight}
    def save(self, path):
        path.write_bytes(pickle.dumps(self.model))
    def load(self, path):
        self.model = pickle.loads(path.read_bytes())
"""

SCRIPT = """
print("the script runs")
import sys
from pathlib import Path
from executors.rig import Rig
from hippotune.protocol.events import WorkerJoined
from hippotune.executors.local.executor import Local

{module}

rig = Rig(Local(workers=2), Path(sys.argv[1]), trainer=Growing)
rig.wait(WorkerJoined, worker=0), rig.wait(WorkerJoined, worker=1)
first = rig.run(2, worker=0, saves=[2])
second = rig.run(4, worker=1, start=2, source=rig.saved(first, 2), evaluations=[4], rate=0.5)
print("the weight is", rig.metrics(second)[4]["weight"])
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    """A module that was loaded by its path, so that nobody can import it by its name."""
    file = tmp_path / "growing.py"
    file.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("growing_by_path", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["growing_by_path"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["growing_by_path"]


def grown(rig: Rig) -> float:
    """Train on one worker and go on, from a checkpoint, on the other."""
    rig.wait(WorkerJoined, worker=0)
    rig.wait(WorkerJoined, worker=1)
    first = rig.run(2, worker=0, saves=[2])
    second = rig.run(4, worker=1, start=2, source=rig.saved(first, 2), evaluations=[4])
    return rig.metrics(second)[4]["weight"]


def refusal(rig: Rig) -> str:
    """Return how a lease fails on a trainer that nobody can train."""
    rig.wait(WorkerJoined)
    failed = rig.story(rig.run(3))[-1]
    assert isinstance(failed, LeaseFailed)
    assert failed.phase == "contract"
    return failed.error


UNNAMED = """
import dataclasses
from hippotune.trainers.base import Trainer

@dataclasses.dataclass(frozen=True)
class Options:
    initial: object = lambda: 1.0

OPTIONS = Options()

class Growing(Trainer):
    def build(self):
        self.options = OPTIONS
        self.weight = self.options.initial()
    def setup(self, hp):
        self.rate = hp["rate"]
    def train(self):
        self.weight += self.rate
    def evaluate(self):
        return {"weight": self.weight}

from hippotune.executors.shipping import wrap
open("parcel", "wb").write(pickle.dumps(wrap(Growing)))
"""

RESUMED = """
from hippotune import Config
from hippotune.executors.shipping import unpack
from hippotune.trainers.session import Session

session = Session(unpack(pickle.load(open("parcel", "rb"))).trainer, {}, 0, watch=True)
session.start(Config({"rate": 1}), 0, None, False)
session.advance()
session.snapshot()(state := io.BytesIO())
state.seek(0)
session.start(Config({"rate": 1}), 1, state, False)
session.advance()
session.check()
print(session.evaluate())
"""


def test_a_class_that_came_by_value_stays_as_it_is_where_a_state_is_loaded(tmp_path: Path) -> None:
    for source in (UNNAMED, RESUMED):
        (tmp_path / "script.py").write_text(f"import io, pickle\n{source}")
        ran = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "{'weight': 3.0}\n"


def run_script(source: str, tmp_path: Path) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(source)
    return subprocess.Popen(
        [sys.executable, script, tmp_path],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("ending", ["rig.close()", ""], ids=["closed", "not closed"])
def test_a_script_without_a_guard_is_run_once(tmp_path: Path, ending: str) -> None:
    script = run_script(SCRIPT.format(module=MODULE) + ending, tmp_path)
    output, _ = script.communicate(timeout=SECONDS)
    assert script.returncode == 0
    assert output.splitlines() == ["the script runs", "the weight is 4.2"]


def test_workers_do_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    source = SCRIPT.format(module=MODULE) + "print('ready', flush=True)\nsys.stdin.read()"
    script = run_script(source, tmp_path)
    assert script.stdout is not None
    while script.stdout.readline() != "ready\n":
        assert script.poll() is None
    workers = below(psutil.Process(script.pid))
    assert len(workers) == 4, "two workers and their keepers"
    script.send_signal(signal.SIGKILL)
    script.communicate()
    assert psutil.wait_procs(workers, SECONDS)[1] == []


def test_a_trainer_of_a_file_that_was_loaded_by_its_path_is_shipped(
    module: ModuleType, tmp_path: Path
) -> None:
    rig = Rig(Local(workers=2), tmp_path, trainer=module.Growing)
    assert grown(rig) == pytest.approx(3.4)
    rig.close()


def test_a_trainer_that_is_defined_in_a_function_is_shipped(tmp_path: Path) -> None:
    rate = 3.0

    class Steady(Noisy):
        def evaluate(self) -> dict[str, float]:
            return {"weight": rate * self.trained}

    rig = Rig(Local(workers=2), tmp_path, trainer=Steady)
    assert grown(rig) == 12.0
    rig.close()


def test_cached_properties_of_a_trainer_and_of_its_classes_are_cached_anew_in_workers(tmp_path: Path) -> None:
    class Property(functools.cached_property):  # type: ignore[type-arg]
        def __init__(self, function: Any, unit: str) -> None:
            super().__init__(function)
            self.unit = unit

    class Model:
        calls = 0

        @functools.cached_property
        def weight(self) -> int:
            Model.calls += 1
            return Model.calls

    class Caching(Noisy):
        size = Property(lambda self: 5, "steps")

        def evaluate(self) -> dict[str, float]:
            model = Model()
            unit = type(self).size.unit  # type: ignore[attr-defined]
            return {"weight": model.weight + model.weight, "size": self.size, "unit": len(unit)}

    rig = Rig(Local(workers=1), tmp_path, trainer=Caching)
    rig.wait(WorkerJoined)
    assert rig.metrics(rig.run(1, evaluations=[1]))[1] == {"weight": 2, "size": 5, "unit": 5}
    rig.close()


def test_a_trainer_that_cannot_be_pickled_is_refused_at_the_start(tmp_path: Path) -> None:
    class Locked(Noisy):
        lock = threading.Lock()

    with pytest.raises(
        TrainerError, match=r"Locked cannot be sent .* cannot pickle '_thread.lock' .* in build\(\)"
    ):
        Rig(Local(workers=1), tmp_path, trainer=Locked)


def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{name}.py").write_text(MODULE)
    return importlib.import_module(name)


def test_a_trainer_that_cannot_be_imported_again_fails_every_lease_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importable(tmp_path, monkeypatch, "growing_once")
    (tmp_path / "growing_once.py").write_text("raise RuntimeError('not a second time')")
    rig = Rig(Local(workers=1), tmp_path, trainer=module.Growing)
    error = refusal(rig)
    assert "growing_once.Growing cannot be loaded in a worker: RuntimeError: not a second time" in error
    assert f'{tmp_path / "growing_once.py"}", line 1' in error
    rig.close()


def test_workers_that_die_again_and_again_at_the_start_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importable(tmp_path, monkeypatch, "growing_never")
    (tmp_path / "growing_never.py").write_text("import os\nprint('starting', flush=True)\nos.abort()")
    rig = Rig(Local(workers=2), tmp_path, trainer=module.Growing)
    error = refusal(rig)
    assert "die before they can work, 3 in a row" in error
    assert "killed by SIGABRT" in error
    assert "    starting" in error
    rig.close()
    for worker in range(2):
        logs = list((tmp_path / "checkpoints" / "logs").glob(f"*-worker-{worker}.log"))
        assert [log.read_text().splitlines()[0] for log in logs] == ["starting"] * 3


def test_workers_see_the_module_search_path_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importable(tmp_path, monkeypatch, "growing_here")
    rig = Rig(Local(workers=2), tmp_path, trainer=module.Growing)
    assert grown(rig) == pytest.approx(3.4)
    rig.close()


def test_a_module_of_a_class_of_its_own_goes_by_its_name() -> None:
    assert pickle.loads(dumped([torch.backends.cudnn, math], [])) == [torch.backends.cudnn, math]
