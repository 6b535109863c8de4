"""What studies survive: kills, Ctrl-C, damage, full disks and small budgets, with real processes and real files."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import hippo
from hippo import Config, GridSearch, Local, MultiStep, Study, SuccessiveHalving
from hippo.plan.plan import Plan, unique_steps
from hippo.runtime import checkpoint_folder
from hippo.store.catalog import open_store
from hippo.store.files import CheckpointFiles
from survivor import SPACE, Survivor

ROOT = Path(__file__).parents[1]
SCRIPT = Path(__file__).parent / "survivor.py"
PATIENCE = 60


def start(folder: Path, steps: int, script: Path = SCRIPT, gate: Path | None = None) -> subprocess.Popen[str]:
    """Start the script, with its home and its log in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if gate is not None:
        environment["GATE"] = str(gate)
    return subprocess.Popen(
        [sys.executable, str(script), str(folder / "home"), str(folder / "log"), str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process: subprocess.Popen[str]) -> tuple[Any, str]:
    """Wait for a script that ends well; return what it printed, and what it said meanwhile."""
    printed, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return json.loads(printed), said


def trained(folder: Path) -> list[str]:
    """Return all steps that were trained, each as the values that led to it."""
    return (folder / "log").read_text().splitlines()


class Gate:
    """Where a training step waits in the middle."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("here", "go"):
            os.mkfifo(folder / name)
        self._here, self._go = (os.open(folder / name, os.O_RDWR) for name in ("here", "go"))

    def wait(self) -> None:
        """Wait until somebody stands at the gate."""
        assert select.select([self._here], [], [], PATIENCE)[0], "no step came to the gate"
        os.read(self._here, 1)

    def open(self) -> None:
        """Let one through."""
        os.write(self._go, b".")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the script prints where nothing goes wrong."""
    return finish(start(tmp_path_factory.mktemp("undisturbed"), 10))[0]


# Processes that end.


def test_killed_at_random_moments_and_run_again_a_study_gives_the_same_and_trains_no_more_than_was_lost() -> None:
    command = [sys.executable, str(ROOT / "bench" / "chaos.py"), "--kills", "10", "--check", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["kills_of_engines"] + figures["kills_of_workers"] == 10


def test_ctrl_c_stops_at_the_end_of_a_step_and_run_again_only_the_rest_is_trained(
    tmp_path: Path, undisturbed: Any
) -> None:
    gate = Gate(tmp_path / "gate")
    process = start(tmp_path, 10, gate=gate.folder)
    gate.wait()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping at the end of the running steps" not in (line := process.stderr.readline()):
        assert line, "the script ended without a word"
    gate.open()
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert f"everything is kept in {tmp_path / 'home'}: run the same again to go on" in said
    assert len(trained(tmp_path)) == 3
    printed, said = finish(start(tmp_path, 10))
    assert printed == undisturbed
    assert "found in the plan" in said
    assert len(trained(tmp_path)) == len(set(trained(tmp_path))) == 40


def test_a_home_in_use_is_refused_by_naming_the_holder_and_free_when_that_is_killed(
    tmp_path: Path, undisturbed: Any
) -> None:
    gate = Gate(tmp_path / "gate")
    holder = start(tmp_path, 10, gate=gate.folder)
    gate.wait()
    second = start(tmp_path, 10)
    _, said = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1
    refusal = said.splitlines()[-1]
    for part in (f"is in use by process {holder.pid} on {socket.gethostname()}", SCRIPT.name):
        assert part in refusal
    holder.kill()
    holder.communicate()
    assert finish(start(tmp_path, 10))[0] == undisturbed


# Plans.


def edited(tmp_path: Path, old: str, new: str) -> Path:
    text = SCRIPT.read_text()
    assert old in text
    script = tmp_path / SCRIPT.name
    script.write_text(text.replace(old, new))
    return script


def test_edited_training_code_begins_a_new_plan_and_says_so(tmp_path: Path) -> None:
    before, _ = finish(start(tmp_path, 4, edited(tmp_path, "0.01 * noise", "0.01 * noise")))
    after, said = finish(start(tmp_path, 4, edited(tmp_path, "0.01 * noise", "0.02 * noise")))
    assert "code, settings or seed changed since study 'survivor' last ran: a new plan begins" in said
    assert after != before
    unique = len(set(trained(tmp_path)))
    assert len(trained(tmp_path)) == 2 * unique
    assert finish(start(tmp_path, 4, edited(tmp_path, "0.01 * noise", "0.01 * noise")))[0] == before
    assert len(trained(tmp_path)) == 2 * unique


def test_an_edited_search_space_goes_on_with_the_same_plan(tmp_path: Path) -> None:
    finish(start(tmp_path, 4, edited(tmp_path, '"scale": [1, 2]', '"scale": [1]')))
    first = trained(tmp_path)
    _, said = finish(start(tmp_path, 4, edited(tmp_path, '"scale": [1, 2]', '"scale": [1, 2]')))
    assert "a new plan begins" not in said
    assert "found in the plan" in said
    assert len(trained(tmp_path)) == len(set(trained(tmp_path))) == 2 * len(first)


# Studies in this process.


def study_at(folder: Path, name: str = "survivor", workers: int = 2, **more: Any) -> Study:
    folder.mkdir(exist_ok=True)
    executor = Local(workers=workers)
    return Study(name, Survivor, home=folder / "home", executor=executor, settings={"log": str(folder / "log")}, **more)


def grid(steps: int, space: Mapping[str, Any] = SPACE) -> GridSearch:
    return GridSearch(space, metric="loss", mode="min", max_steps=steps)


def unique(*asks: tuple[Mapping[str, Any], int]) -> int:
    """Return the steps that it takes to train all configs of some spaces, each as far as is said."""
    plan = Plan()
    nodes = [(plan.place(config, steps)[0], steps) for space, steps in asks for config in hippo.Grid(space)]
    return unique_steps(nodes)


def metrics_of(report: hippo.Report) -> dict[Config, Mapping[int, Mapping[str, float]]]:
    return {trial.config: trial.metrics for trial in report.trials}


WIDER = {"lr": [*SPACE["lr"], MultiStep(0.5, [4], 0.2), 0.25], "scale": [2, 3]}


def test_a_second_study_trains_exactly_what_the_first_one_has_not(tmp_path: Path) -> None:
    with study_at(tmp_path) as first:
        first.tune(grid(8), progress=False)
    assert len(trained(tmp_path)) == unique((SPACE, 8))
    with study_at(tmp_path, "second") as second:
        report = second.tune(grid(12, WIDER), progress=False)
    assert len(trained(tmp_path)) == len(set(trained(tmp_path))) == unique((SPACE, 8), (WIDER, 12))
    with study_at(tmp_path / "alone") as alone:
        assert metrics_of(report) == metrics_of(alone.tune(grid(12, WIDER), progress=False))


def test_studies_tuned_together_train_the_steps_of_both_once_and_each_has_its_own_results(tmp_path: Path) -> None:
    studies = [study_at(tmp_path, "one"), study_at(tmp_path, "two")]
    halving = SuccessiveHalving(WIDER, metric="loss", mode="min", min_steps=5, max_steps=12, reduction=3)
    together = hippo.tune_together(zip(studies, [grid(10), halving], strict=True), progress=False)
    for study in studies:
        study.close()
    assert len(trained(tmp_path)) == len(set(trained(tmp_path)))
    for number, tuner in enumerate([grid(10), halving]):
        with study_at(tmp_path / str(number)) as alone:
            report = alone.tune(tuner, progress=False)
        assert metrics_of(report) == metrics_of(together[number])
        assert set(trained(tmp_path / str(number))) <= set(trained(tmp_path))
    both = set(trained(tmp_path / "0")) | set(trained(tmp_path / "1"))
    assert both == set(trained(tmp_path))


# Checkpoints that are not what they were.


def plan_of(study: Study) -> Plan:
    with open_store(study.home, create=False) as catalog:
        return Plan.replay(catalog.view(study.key).read())


def files_of(study: Study) -> CheckpointFiles:
    return CheckpointFiles(checkpoint_folder(study.home, study.key))


def kept(study: Study) -> dict[str, Path]:
    """Return the states that the plan has checkpoints of, as the log would have them, and where these are."""
    plan, files = plan_of(study), files_of(study)
    found: dict[str, Path] = {}
    for position, checkpoint in plan.checkpoints():
        values = [plan[position.node].config.values(step) for step in range(position.step)]
        found[json.dumps([[each["lr"], each["scale"]] for each in values])] = files.directory / checkpoint.name
    return found


def trained_again(folder: Path) -> set[str]:
    steps = trained(folder)
    return {step for step in steps if steps.count(step) > 1}


def cut_short(checkpoint: Path) -> None:
    os.truncate(checkpoint / "state", (checkpoint / "state").stat().st_size // 2)


def turn_a_bit(checkpoint: Path) -> None:
    content = bytearray((checkpoint / "state").read_bytes())
    content[len(content) // 2] ^= 1
    (checkpoint / "state").write_bytes(content)


@pytest.mark.parametrize("damage", [shutil.rmtree, cut_short, turn_a_bit])
def test_a_checkpoint_that_is_damaged_between_runs_is_noticed_and_trained_again(tmp_path: Path, damage: Any) -> None:
    with study_at(tmp_path) as study:
        study.tune(grid(8), progress=False)
        whole = kept(study)
    ends = {state: path for state, path in whole.items() if len(json.loads(state)) == 8}
    for path in ends.values():
        damage(path)
    with study_at(tmp_path) as study:
        report = study.tune(grid(12), progress=False)
    with study_at(tmp_path / "alone") as alone:
        assert metrics_of(report) == metrics_of(alone.tune(grid(12), progress=False))
    assert set(ends) <= trained_again(tmp_path)
    assert not trained_again(tmp_path) & (whole.keys() - ends.keys())
    for _, checkpoint in plan_of(study).checkpoints():
        files_of(study).verify(checkpoint)


@pytest.mark.parametrize("damage", [shutil.rmtree, cut_short, turn_a_bit])
def test_the_best_model_is_trained_again_where_its_checkpoint_is_damaged(tmp_path: Path, damage: Any) -> None:
    with study_at(tmp_path) as study:
        first = study.tune(grid(8), progress=False)
        weights = first.best.load().weights.tobytes()
    assert first.best.path is not None
    damage(first.best.path)
    with study_at(tmp_path) as study:
        second = study.tune(grid(8), progress=False)
    assert second.best.path == first.best.path
    assert second.best.load().weights.tobytes() == weights
    damage(first.best.path)
    assert first.best.load().weights.tobytes() == weights
    assert metrics_of(first) == metrics_of(second)


# Disks that are full.


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Mount a real file system of 4 MB."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, room: int) -> Path:
    """Leave only so many bytes of room on the disk that a folder is on."""
    ballast = place / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(place).free - room))
    return ballast


def test_a_disk_too_full_for_checkpoints_stops_the_study_and_with_room_made_it_goes_on(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    with small_disk(tmp_path / "home" / "checkpoints"), study:
        study.open()
        ballast = fill(tmp_path / "home" / "checkpoints", 200_000)
        with pytest.raises(hippo.CheckpointError, match="the disk is full; make room and run the same"):
            study.tune(grid(12), progress=False)
        durable = kept(study)
        assert durable
        ballast.unlink()
        report = study.tune(grid(12), progress=False)
        assert not trained_again(tmp_path) & durable.keys()
        for _, checkpoint in plan_of(study).checkpoints():
            files_of(study).verify(checkpoint)
        assert files_of(study).strays({checkpoint.name for _, checkpoint in plan_of(study).checkpoints()}) == {}
    with study_at(tmp_path / "alone") as alone:
        assert metrics_of(report) == metrics_of(alone.tune(grid(12), progress=False))


def test_a_disk_too_full_for_the_store_stops_the_study_and_with_room_made_it_goes_on(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with small_disk(tmp_path / "home"):
        (tmp_path / "home" / "checkpoints").symlink_to(tmp_path / "elsewhere")
        study.tune(grid(2), progress=False)
        ballast = fill(tmp_path / "home", 20_000)
        with pytest.raises(hippo.StoreError, match="make room and run again: all that was acknowledged is kept"):
            study.tune(grid(12), progress=False)
        with pytest.raises(hippo.StoreError, match="room"):
            study.tune(grid(12), progress=False)
        ballast.unlink()
        durable = kept(study)
        report = study.tune(grid(12), progress=False)
        assert not trained_again(tmp_path) & durable.keys()
        study.close()
    with study_at(tmp_path / "alone") as alone:
        assert metrics_of(report) == metrics_of(alone.tune(grid(12), progress=False))


# Budgets.


class Weighed(Survivor):
    """Notes at every save how much all checkpoints take."""

    size = 20_000

    def save(self, path: Path) -> None:
        super().save(path)
        total = 0
        for file in path.parents[2].rglob("*"):
            with suppress(FileNotFoundError):
                total += 0 if file.is_dir() else file.stat().st_size
        with Path(self.settings["log"]).with_name("sizes").open("a") as sizes:
            sizes.write(f"{total}\n")


def test_within_a_quarter_of_the_room_results_are_the_same_and_no_save_outgrows_the_budget(tmp_path: Path) -> None:
    def tuned(folder: Path, budget: int | None) -> tuple[hippo.Report, int, list[int], int]:
        folder.mkdir()
        settings = {"log": str(folder / "log")}
        executor = Local(workers=2)
        study = Study(
            "weighed", Weighed, home=folder, executor=executor, settings=settings, checkpoint_budget=budget, keep_best=1
        )
        with study:
            space = {"lr": [*WIDER["lr"], 0.1, 0.2, 0.3], "scale": [1, 2, 3, 4]}
            tuner = SuccessiveHalving(space, metric="loss", mode="min", min_steps=3, max_steps=24, reduction=2)
            report = study.tune(tuner, progress=False)
        sizes = [int(line) for line in (folder / "sizes").read_text().splitlines()]
        checkpoints = [checkpoint.bytes for _, checkpoint in plan_of(study).checkpoints()]
        return report, sum(checkpoints), sizes, max(checkpoints)

    unlimited, total, _, one = tuned(tmp_path / "unlimited", None)
    limited, left, sizes, _ = tuned(tmp_path / "limited", total // 4)
    assert metrics_of(limited) == metrics_of(unlimited)
    assert left <= total // 4
    assert max(sizes) <= total // 4 + one
    print(total//4, one, sizes, limited.work)
