"""What studies survive: kills, Ctrl-C, damage, full disks, small budgets. Real processes and real files."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import hippotune as hippo
from forked import Interpreter
from hippotune import Config, GridSearch, Local, MultiStep, Study, SuccessiveHalving
from hippotune.cli.main import main
from hippotune.errors import CheckpointError, NotExact, StoreError
from hippotune.plan.facts import Fact, StateRecorded, StudyEnded
from hippotune.plan.plan import Plan, unique_steps
from hippotune.store.catalog import open_store
from hippotune.store.files import CheckpointFiles, checkpoint_folder
from hippotune.trainers.session import Session
from processes import below
from survivor import SPACE, Survivor

ROOT = Path(__file__).parents[1]
SCRIPT = Path(__file__).parent / "survivor.py"
PATIENCE = 300  # seconds: nothing takes so long unless it is stuck
WIDER = {"lr": [*SPACE["lr"], MultiStep(0.5, [4], 0.2), 0.25], "scale": [2, 3]}


Ran = Callable[..., tuple[Any, str]]


# The script, in a process of its own.


def arguments(folder: Path, steps: int, script: Path) -> list[str]:
    return [str(script), str(folder / "home"), str(folder / "log"), str(steps)]


def start(folder: Path, steps: int, script: Path = SCRIPT, gate: Path | None = None) -> subprocess.Popen[str]:
    """Start the script, with its home and its log in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if gate is not None:
        environment["HIPPO_GATE"] = str(gate)
    return subprocess.Popen(
        [sys.executable, *arguments(folder, steps, script)],
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


@pytest.fixture(scope="module")
def ran(forking: Interpreter) -> Ran:
    """Run the script to its end where nothing interrupts it; return what it printed, and what it said."""

    def run(folder: Path, steps: int, script: Path = SCRIPT) -> tuple[Any, str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = forking.run(*arguments(folder, steps, script), cwd=Path.cwd(), env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    return run


class Gate:
    """Where a training step of the script waits in the middle."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("here", "go"):
            os.mkfifo(folder / name)
        self._here, self._go = (os.open(folder / name, os.O_RDWR) for name in ("here", "go"))

    def wait(self) -> None:
        """Wait until somebody stands at the gate."""
        assert self._somebody_comes_within(PATIENCE), "no step came to the gate"

    def open_once(self) -> None:
        """Let somebody through."""
        os.write(self._go, b".")

    def open_until_the_end_of(self, process: subprocess.Popen[str]) -> None:
        """Let whoever stands at the gate through, one after the other, until a process has ended."""
        self.open_once()
        while process.poll() is None:
            if self._somebody_comes_within(0.1):
                self.open_once()

    def _somebody_comes_within(self, seconds: float) -> bool:
        come = select.select([self._here], [], [], seconds)[0]
        return bool(come and os.read(self._here, 1))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, ran: Ran) -> Any:
    """What the script prints where nothing goes wrong."""
    return ran(tmp_path_factory.mktemp("undisturbed"), 10)[0]


# The steps of a plan that are repeated as proofs: three in its rehearsal, two more where no lease could be
# its reference, and one at each of its first branches.
PROOFS = 7


def trained(folder: Path) -> list[str]:
    """Return all steps that were trained, each as the values that led to it."""
    return (folder / "log").read_text().splitlines()


def trained_once(folder: Path) -> int:
    """Return how many different steps were trained; none of them was trained twice but as a proof."""
    steps = trained(folder)
    assert len(steps) - len(set(steps)) <= PROOFS
    return len(set(steps))


def trained_again(folder: Path) -> set[str]:
    steps = trained(folder)
    return {step for step in steps if steps.count(step) > 1}


def test_killed_at_random_moments_and_run_again_a_study_gives_the_same_and_trains_what_was_lost() -> None:
    command = [sys.executable, str(ROOT / "bench" / "chaos.py"), "--kills", "5", "--check", "--json"]
    command += ["--kinds", "halving", "--no-postgresql"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["attacks"] == 5


def test_calls_that_fail_anywhere_are_survived_with_a_message_and_run_again_all_is_right() -> None:
    command = [sys.executable, str(ROOT / "bench" / "faults.py"), "--every", "801", "--check", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["faults_injected"] >= 3


def test_killed_in_a_long_stage_a_study_goes_on_from_where_that_was_saved_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    expected, _ = ran(undisturbed, 60)
    monkeypatch.setenv("HIPPO_EVERY", "0.001")
    gate = Gate(tmp_path / "gate")
    process = start(tmp_path, 60, gate=gate.folder)
    last_branch, end = 6, 60
    while not any(last_branch < at.step < end - 2 for at in stored_plan(tmp_path).interim):
        gate.wait()
        gate.open_once()
    process.kill()
    process.communicate()
    plan = stored_plan(tmp_path)
    saved = max(plan.interim, key=lambda position: position.step)
    config = plan[saved.node].config
    found, _ = ran(tmp_path, 60)
    assert found == expected
    values = [[config["lr"].value(step), config["scale"].value(step)] for step in range(saved.step)]
    before = {json.dumps(values[:steps]) for steps in range(1, saved.step + 1)}
    assert len(before & trained_again(tmp_path)) <= PROOFS
    assert not stored_plan(tmp_path).interim


def stored_plan(folder: Path) -> Plan:
    """Return what is stored of the script's plan now."""
    with suppress(StoreError), open_store(folder / "home", create=False) as catalog:
        for info in catalog.plans():
            return Plan.replay(catalog.view(info.key).read())
    return Plan()


def test_ctrl_c_stops_at_the_end_of_a_step_and_run_again_only_the_rest_is_trained(
    tmp_path: Path, undisturbed: Any, ran: Ran
) -> None:
    gate = Gate(tmp_path / "gate")
    process = start(tmp_path, 10, gate=gate.folder)
    gate.wait()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping at the end of the running steps" not in (line := process.stderr.readline()):
        assert line, "the script ended without a word"
    gate.open_until_the_end_of(process)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert said.endswith(f"stopped; everything is kept in {tmp_path / 'home'}: run the same again to go on\n")
    assert "Traceback" not in said
    assert 3 <= len(trained(tmp_path)) < 10
    with open_store(tmp_path / "home", create=False) as catalog:
        (plan,) = catalog.plans()
        outcomes = [
            fact.outcome for _, fact in catalog.view(plan.key).facts() if isinstance(fact, StudyEnded)
        ]
    assert outcomes == ["interrupted"]
    printed, said = ran(tmp_path, 10)
    assert printed == undisturbed
    # Steps may end before the word to stop arrives: then a branch on the way has its checkpoint too.
    assert re.search(r"found in the plan: 0 results, \d checkpoints?\n", said)
    assert trained_once(tmp_path) == unique((SPACE, 10))


def facts_in(home: Path) -> list[Fact]:
    """Return all facts but states, which go when they have served as proofs."""
    with open_store(home, create=False) as catalog:
        (plan,) = catalog.plans()
        facts = [fact for _, fact in catalog.view(plan.key).facts()]
        return [fact for fact in facts if not isinstance(fact, StateRecorded)]


def test_a_backup_that_is_made_while_a_step_is_trained_holds_all_until_then_and_is_gone_on_from(
    tmp_path: Path, undisturbed: Any, ran: Ran
) -> None:
    gate = Gate(tmp_path / "gate")
    process = start(tmp_path, 10, gate=gate.folder)
    gate.wait()
    for _ in range(8):
        gate.open_once()
        gate.wait()
    home, backup = tmp_path / "home", tmp_path / "backup" / "plans.sqlite"
    backup.parent.mkdir()
    assert main(["backup", str(backup), "--home", str(home)]) == 0
    gate.open_until_the_end_of(process)
    assert finish(process)[0] == undisturbed
    early, late = facts_in(backup.parent), facts_in(home)
    assert 0 < len(early) < len(late)
    assert early == late[: len(early)]
    for file in home.glob("plans.sqlite*"):
        file.unlink()
    backup.rename(home / "plans.sqlite")
    printed, said = ran(tmp_path, 10)
    assert printed == undisturbed
    assert "the database is older than this plan's checkpoints" in said


BLOCKED = """
import sys, threading
from hippotune.shell.runtime import Runtime
from hippotune.store.sql import SqlStore
from survivor import main

spawn = Runtime.spawn

def spawn_and_wait(runtime, coroutine):
    future = spawn(runtime, coroutine)
    if coroutine.__name__ == "_run":
        threading.Event().wait()
    return future

def write(store, facts):
    if any(type(fact).__name__ == "MetricsRecorded" for fact in facts):
        print("blocked", flush=True)
        threading.Event().wait()

SqlStore.write = write
if sys.argv[1] == "on its way":
    Runtime.spawn = spawn_and_wait
main(*sys.argv[2:])
"""


@pytest.mark.parametrize("moment", ["on its way", "waited for"])
def test_ctrl_c_twice_ends_the_process_whatever_blocks(moment: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BLOCKED, moment, str(tmp_path / "home"), str(tmp_path / "log"), "10"]
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "blocked\n"
            process.send_signal(signal.SIGINT)
            while "stopping at the end of the running steps" not in (line := process.stderr.readline()):
                assert line, "the script ended without a word"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        assert process.returncode == -signal.SIGINT
        assert said == ""


def test_a_home_in_use_is_refused_by_naming_the_holder_and_free_when_that_is_killed(
    tmp_path: Path, undisturbed: Any, ran: Ran
) -> None:
    gate = Gate(tmp_path / "gate")
    holder = start(tmp_path, 10, gate=gate.folder)
    gate.wait()
    second = start(tmp_path, 10)
    _, said = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1
    refusal = said.splitlines()[-1]
    assert f"is in use by process {holder.pid} on {socket.gethostname()}" in refusal
    assert SCRIPT.name in refusal
    holder.kill()
    holder.communicate()
    assert ran(tmp_path, 10)[0] == undisturbed


def edited(folder: Path, old: str, new: str) -> Path:
    """Return the script with something changed in it."""
    text = SCRIPT.read_text()
    assert old in text
    script = folder / SCRIPT.name
    script.write_text(text.replace(old, new))
    return script


def test_edited_training_code_begins_a_new_plan_and_says_so(tmp_path: Path, ran: Ran) -> None:
    before, _ = ran(tmp_path, 4)
    after, said = ran(tmp_path, 4, edited(tmp_path, "0.01 * noise", "0.02 * noise"))
    assert "changed (Survivor.train: source changed) since study 'survivor' last ran: a new plan" in said
    assert after != before
    steps = trained(tmp_path)
    assert 0 <= len(steps) - 2 * unique((SPACE, 4)) <= 2 * PROOFS
    assert ran(tmp_path, 4)[0] == before
    assert trained(tmp_path) == steps


def test_an_edited_search_space_goes_on_with_the_same_plan(tmp_path: Path, ran: Ran) -> None:
    ran(tmp_path, 4, edited(tmp_path, '"scale": [1, 2]', '"scale": [1]'))
    _, said = ran(tmp_path, 4)
    assert "a new plan begins" not in said
    assert "found in the plan" in said
    assert trained_once(tmp_path) == unique((SPACE, 4))


# Studies in this process.


def study_at(folder: Path, name: str = "survivor", trainer: type[Survivor] = Survivor, **more: Any) -> Study:
    folder.mkdir(exist_ok=True)
    log = {"log": str(folder / "log")}
    return Study(name, trainer, home=folder / "home", executor=Local(workers=2), settings=log, **more)


def grid(steps: int, space: Mapping[str, Any] = SPACE) -> GridSearch:
    return GridSearch(space, metric="loss", mode="min", max_steps=steps)


def unique(*asks: tuple[Mapping[str, Any], int]) -> int:
    """Return the steps that it takes to train all configs of some spaces, each as far as is said."""
    return unique_of([(config, steps) for space, steps in asks for config in hippo.Grid(space)])


def unique_of(asks: list[tuple[Config, int]]) -> int:
    plan = Plan()
    return unique_steps([(plan.place(config, steps)[0], steps) for config, steps in asks])


def check_results(report: hippo.study.Report, trainer: type[Survivor] = Survivor) -> None:
    """See that every trial has its results, and that they are as if it had been trained alone."""
    for trial in report.trials:
        session = Session(trainer, {"log": os.devnull}, seed=0)
        session.logged = []
        session.start(trial.config, 0, None, warm=False)
        alone = {}
        for step in range(1, trial.asked + 1):
            session.advance()
            if step in trial.metrics:
                alone[step] = session.evaluate()
        assert trial.asked in alone
        assert trial.metrics == alone
        logged = [(step, numbers["first"]) for step, numbers in session.logged]
        assert report.logged(trial) == {"first": logged}


def test_a_second_study_trains_exactly_what_the_first_one_has_not(tmp_path: Path) -> None:
    with study_at(tmp_path) as first:
        check_results(first.tune(grid(8), progress=False))
    assert trained_once(tmp_path) == unique((SPACE, 8))
    with study_at(tmp_path, "second") as second:
        check_results(second.tune(grid(12, WIDER), progress=False))
    assert trained_once(tmp_path) == unique((SPACE, 8), (WIDER, 12))


def test_studies_tuned_together_train_the_steps_of_both_once(tmp_path: Path) -> None:
    studies = [study_at(tmp_path, "one"), study_at(tmp_path, "two")]
    halving = SuccessiveHalving(WIDER, metric="loss", mode="min", min_steps=5, max_steps=12, reduction=3)
    reports = hippo.tune_together(zip(studies, [grid(10), halving], strict=True), progress=False)
    for study in studies:
        study.close()
    for report in reports:
        check_results(report)
    asks = [(trial.config, trial.asked) for report in reports for trial in report.trials]
    assert trained_once(tmp_path) == unique_of(asks)


# Checkpoints that are not what they were.


def plan_of(study: Study) -> Plan:
    with open_store(study.home, create=False) as catalog:
        return Plan.replay(catalog.view(study.key).read())


def kept(study: Study) -> dict[str, Path]:
    """Return the states that the plan has checkpoints of, as the log would have them, and where these are."""
    plan, folder = plan_of(study), checkpoint_folder(study.home, study.key)
    found: dict[str, Path] = {}
    for position, checkpoint in plan.checkpoints():
        values = [plan[position.node].config.values(step) for step in range(position.step)]
        found[json.dumps([[each["lr"], each["scale"]] for each in values])] = folder / checkpoint.name
    return found


def check_files(study: Study) -> None:
    """See that the files are those of the plan, and whole."""
    files = CheckpointFiles(checkpoint_folder(study.home, study.key))
    checkpoints = {checkpoint.name: checkpoint for _, checkpoint in plan_of(study).checkpoints()}
    assert files.strays(set(checkpoints)) == {}
    for checkpoint in checkpoints.values():
        files.verify(checkpoint)


def cut_short(checkpoint: Path) -> None:
    os.truncate(checkpoint, checkpoint.stat().st_size // 2)


def turn_a_bit(checkpoint: Path) -> None:
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.write_bytes(content)


DAMAGES: list[Callable[[Path], None]] = [os.remove, cut_short, turn_a_bit]


def test_checkpoints_that_are_damaged_between_runs_are_noticed_told_and_trained_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with study_at(tmp_path) as study:
        study.tune(grid(8), progress=False)
        whole = kept(study)
    damaged = {state for state in whole if len(json.loads(state)) == 8}
    for state, damage in zip(sorted(damaged), itertools.cycle(DAMAGES), strict=False):
        damage(whole[state])
    with study_at(tmp_path) as study:
        check_results(study.tune(grid(12), progress=False))
    for state in damaged:
        assert re.search(rf"checkpoint {whole[state]} is (damaged|missing).*trained again", caplog.text)
    assert damaged <= trained_again(tmp_path)
    assert not trained_again(tmp_path) & (whole.keys() - damaged)
    check_files(study)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_best_model_is_trained_again_where_its_checkpoint_is_damaged(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    def weights(best: hippo.study.Best) -> bytes:
        model = best.load()
        assert isinstance(model, Survivor)
        return model.weights.tobytes()

    with study_at(tmp_path) as study:
        best = study.tune(grid(8), progress=False).best
    assert best.path is not None
    expected = weights(best)
    damage(best.path)
    with study_at(tmp_path) as study:
        again = study.tune(grid(8), progress=False)
    assert again.work.steps_trained > 0
    assert weights(again.best) == expected
    assert weights(best) == expected  # its file is gone
    assert again.best.path is not None
    damage(again.best.path)
    assert weights(again.best) == expected
    study.close()
    check_files(study)


# Disks that are full.


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Mount a real file system of 4 MB."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here, only files of limited size are tested: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, room: int) -> Path:
    """Leave only so many bytes of room on the disk that a folder is on."""
    ballast = place / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(place).free - room))
    return ballast


def check_going_on(study: Study, folder: Path) -> None:
    """See that a study goes on after something ran out, and that nothing that was kept is trained again."""
    durable = kept(study)
    check_results(study.tune(grid(12), progress=False))
    again = {step for step in trained_again(folder) if len(json.loads(step)) > 2}  # but for the rehearsal
    assert not again & durable.keys()
    study.close()
    check_files(study)


def test_a_disk_too_full_for_checkpoints_stops_a_study_and_with_room_made_it_goes_on(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    with small_disk(tmp_path / "home" / "checkpoints"):
        study.open()
        ballast = fill(tmp_path / "home" / "checkpoints", 40_000)
        for _ in range(2):
            with pytest.raises(CheckpointError, match="the disk is full; make room and run the same"):
                study.tune(grid(12), progress=False)
        assert kept(study)
        ballast.unlink()
        check_going_on(study, tmp_path)


def test_a_disk_too_full_for_the_store_stops_a_study_and_with_room_made_it_goes_on(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with small_disk(tmp_path / "home"):
        (tmp_path / "home" / "checkpoints").symlink_to(tmp_path / "elsewhere")
        study.tune(grid(2), progress=False)
        ballast = fill(tmp_path / "home", 20_000)
        for _ in range(2):
            with pytest.raises(StoreError, match="room"):
                study.tune(grid(12), progress=False)
        ballast.unlink()
        check_going_on(study, tmp_path)


def test_where_files_may_not_grow_a_study_stops_and_when_they_may_again_it_goes_on(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    study.tune(grid(4), progress=False)
    files = list((tmp_path / "home" / "checkpoints").rglob("node-*-step-*"))
    most = max(path.stat().st_size for path in files)
    for process in below():
        with suppress(psutil.Error):  # one that has ended
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
    with pytest.raises(hippo.HippoError, match="File too large"):
        study.tune(grid(200), progress=False)
    study.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((study.home / "plans.sqlite").stat().st_size, hard))
    try:
        with pytest.raises(StoreError, match="room"):
            study.tune(grid(8), progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check_going_on(study, tmp_path)


class OutOfRoom(Survivor):
    """Writes something of its own to a disk that is full."""

    def train(self) -> None:
        if Path(self.settings["log"]).with_name("full").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        super().train()


def test_a_disk_that_is_full_for_the_trainer_itself_fails_no_trial(tmp_path: Path) -> None:
    study = study_at(tmp_path, trainer=OutOfRoom)
    (tmp_path / "full").touch()
    with study, pytest.raises(hippo.TrainerError, match="No space left on device"):
        study.tune(grid(4), progress=False)
    (tmp_path / "full").unlink()
    with study:
        check_results(study.tune(grid(4), progress=False))


class OutOfRoomAgain(Survivor):
    """Finds the disk full when a step is trained that was trained before."""

    def train(self) -> None:
        log = Path(self.settings["log"])
        line = json.dumps([*self.values, (self.lr, self.scale)])
        if log.with_name("full").exists() and log.exists() and line in log.read_text().splitlines():
            raise OSError(errno.ENOSPC, "No space left on device")
        super().train()


def test_a_disk_that_is_full_while_a_step_is_repeated_refutes_nothing(tmp_path: Path) -> None:
    study = study_at(tmp_path, trainer=OutOfRoomAgain)
    (tmp_path / "full").touch()
    with study, pytest.raises(hippo.TrainerError, match="No space left on device") as ended:
        study.tune(grid(4), progress=False)
    assert not isinstance(ended.value, NotExact)
    (tmp_path / "full").unlink()
    with study:
        report = study.tune(grid(4), progress=False)
    check_results(report)
    assert report.exactness.startswith("exact")


# Budgets.


class Weighed(Survivor):
    """Notes at every step how much all checkpoints take."""

    size = 5_000

    def train(self) -> None:
        super().train()
        total = 0
        checkpoints = Path(self.settings["log"]).with_name("home") / "checkpoints"
        for folder, _, files in os.walk(checkpoints):  # passes over what others delete meanwhile
            for file in files:
                with suppress(FileNotFoundError):
                    total += (Path(folder) / file).stat().st_size
        with Path(self.settings["log"]).with_name("sizes").open("a") as sizes:
            sizes.write(f"{total}\n")


def test_a_quarter_of_the_room_is_enough_for_the_same_results_and_never_outgrown(tmp_path: Path) -> None:
    space = {"lr": [*WIDER["lr"], 0.1, 0.2], "scale": [1, 2, 3, 4]}
    halving = SuccessiveHalving(space, metric="loss", mode="min", min_steps=3, max_steps=12, reduction=2)
    with study_at(tmp_path / "unlimited", trainer=Weighed) as study:
        study.tune(halving, progress=False)
    sizes = [checkpoint.bytes for _, checkpoint in plan_of(study).checkpoints()]
    budget, one = sum(sizes) // 4, max(sizes)
    with study_at(tmp_path / "limited", trainer=Weighed, checkpoint_budget=budget) as study:
        check_results(study.tune(halving, progress=False), Weighed)
    sampled = [int(line) for line in (tmp_path / "limited" / "sizes").read_text().splitlines()]
    assert len(sampled) * one > 2 * budget, "nothing had to go: the test tests nothing"
    assert max(sampled) <= budget + one
    check_files(study)
