"""The command as people use it: real processes, real files."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forked import Interpreter
from hippotune.cli.main import COMMANDS, main
from hippotune.cli.run import _deadline

SOURCES = Path(__file__).parents[1] / "src"

STUDY = '''
import os
import pickle
from pathlib import Path

import hippotune as hippo
from hippotune.executors.local.executor import Local
from hippotune.spaces import Grid
from hippotune.tuners import GridSearch

print("loaded as", __name__)

class Ball:
    """A class of the file itself, which goes into checkpoints."""

    def __init__(self):
        self.height, self.steps = 1.0, 0

class Falling(hippo.Trainer):
    def build(self):
        self.ball, self.hp = Ball(), {}

    def setup(self, hp):
        self.hp.update(hp)

    def train(self):
        self.ball.height *= 1 - self.hp["lr"] * self.hp["scale"]
        self.ball.steps += 1
        gate = os.environ.get("GATE")
        if gate and self.ball.steps == 3:
            (Path(gate) / "here").write_text("here")  # a pipe: waits for a reader
            (Path(gate) / "go").read_text()

    def evaluate(self):
        return {"height": self.ball.height}

    def save(self, path):
        path.write_bytes(pickle.dumps((self.ball, self.hp)))

    def load(self, path):
        self.ball, self.hp = pickle.loads(path.read_bytes())

decays = [0.5, hippo.MultiStep(0.5, [6], 0.1), hippo.MultiStep(0.5, [6, 8], 0.1)]
space = Grid({"lr": decays, "scale": [0.5, 1.0]})
study = hippo.Study("falling", Falling, executor=Local(workers=1))
tuner = GridSearch(space, metric="height", mode="min", max_steps=10)

if __name__ == "__main__":
    raise SystemExit("the command runs the study, not the file")
'''


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hippotune", *arguments]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a study in it, in which commands are run."""
    (tmp_path / "falling.py").write_text(STUDY)
    return tmp_path


Hippo = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hippo(forking: Interpreter) -> Hippo:
    """Run a command in a folder, forked where Hippo has been imported."""

    def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return forking.run("-m", "hippotune", *arguments, cwd=folder, env=environment(**more))

    return run


def figures(output: str) -> dict[str, int]:
    """Read the table of `hippo plan`."""
    found = re.findall(r"^  ([a-z][a-z ]+?)  +([\d,]+)(?:   .*)?$", output, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in found}


# hippo run


def test_run_trains_the_study_and_prints_the_report(folder: Path, hippo: Hippo) -> None:
    typed, own = command("run", "falling.py"), environment()
    done = subprocess.run(typed, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "study falling: 6 trials, 0 failed" in done.stdout
    assert "best: trial 1 at step 10: height 0.000976562" in done.stdout
    assert "falling, 0 s: " in done.stderr or "requests answered" in done.stderr
    assert (folder / ".hippo").is_dir()
    assert done.stdout.count("loaded as hippo_file_falling") == 1
    logs = "".join(log.read_text() for log in (folder / ".hippo").rglob("*.log"))
    assert "loaded as" not in logs, "workers get the classes, and do not run the file"

    again = hippo(folder, "run", "falling.py", "--no-progress")
    assert again.returncode == 0, again.stderr
    assert " 0 trained" in again.stdout
    assert "best: trial 1 at step 10: height 0.000976562" in again.stdout
    assert again.stderr == ""


def test_a_file_that_reads_the_command_line_does_not_see_what_is_for_hippo(
    folder: Path, hippo: Hippo
) -> None:
    parsing = "import argparse, sys\nargparse.ArgumentParser().parse_args()\nprint('given', sys.argv[1:])\n"
    (folder / "parsing.py").write_text(parsing + (folder / "falling.py").read_text())
    done = hippo(folder, "plan", "parsing.py", "--workers", "1,2")
    assert done.returncode == 0, done.stderr
    assert "given []" in done.stdout


def test_what_follows_two_dashes_is_the_files_own(folder: Path, hippo: Hippo) -> None:
    parsing = (
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--scale', type=float)\n"
        "parser.add_argument('--deadline')\n"
        "args = parser.parse_args()\n"
    )
    text = (folder / "falling.py").read_text().replace('self.hp["scale"]', "args.scale")
    (folder / "parsing.py").write_text(parsing + text.replace(', "scale": [0.5, 1.0]', ""))
    own = ("--", "--scale", "1.0", "--deadline", "never")
    done = hippo(folder, "run", "parsing.py", "--no-progress", *own)
    assert done.returncode == 0, done.stderr
    assert "best: trial 0 at step 10: height 0.000976562" in done.stdout
    assert figures(hippo(folder, "plan", "parsing.py", "--no-tree", *own).stdout)["steps left"] == 0
    other = hippo(folder, "plan", "parsing.py", "--no-tree", "--", "--scale", "0.5")
    assert figures(other.stdout)["steps left"] > 0, "another argument, another plan"
    refused = hippo(folder, "ls", "--", "more")
    assert refused.returncode == 2
    assert "only commands that take a FILE" in refused.stderr


def test_a_module_of_a_package_runs_with_relative_imports(folder: Path, hippo: Hippo) -> None:
    package = folder / "balls"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text("NAME = 'relative'")
    text = STUDY.replace(
        "import hippotune as hippo\n", "import hippotune as hippo\nfrom .names import NAME\n"
    )
    (package / "falling.py").write_text(text.replace('"falling"', "NAME"))
    done = hippo(folder, "run", "-m", "balls.falling", "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "study relative: 6 trials, 0 failed" in done.stdout
    assert "loaded as balls.hippo_file_falling" in done.stdout
    missing = hippo(folder, "run", "-m", "balls.flying")
    assert missing.returncode == 2
    assert "no module balls.flying is found" in missing.stderr
    bare = hippo(folder, "run", "-m", "balls")
    assert bare.returncode == 2
    assert "balls is a package without a __main__.py; expected a module of it: -m balls.MODULE" in bare.stderr
    file = hippo(folder, "run", "balls/falling.py")
    assert file.returncode == 1
    assert "name it as a module instead" in file.stderr
    assert "-m PACKAGE.falling" in file.stderr


DESCRIBED = """
name = "described"
trainer = "balls.py:Falling"

[space]
lr = [0.5, "MultiStep(0.5, [6], 0.1)", "MultiStep(0.5, milestones=[6, 8], gamma=0.1)"]
scale = [0.5, 1.0]

[tuner]
kind = "GridSearch"
metric = "height"
mode = "min"
max_steps = 10

[executor]
kind = "Local"
workers = 1
"""


def test_a_study_can_be_described_in_toml(folder: Path, hippo: Hippo) -> None:
    (folder / "balls.py").write_text(STUDY[: STUDY.index("decays =")])
    (folder / "falling.toml").write_text(DESCRIBED)
    done = hippo(folder, "run", "falling.toml", "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "study described: 6 trials, 0 failed" in done.stdout
    assert "best: trial 1 at step 10: height 0.000976562" in done.stdout
    assert "(merge rate" in done.stdout


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('trainer = "balls.py:Falling"', "", "trainer is None; expected a name, as digits.py:Digits"),
        ("balls.py:Falling", "balls.py:Flying", "there is no Flying in balls.py"),
        ("balls.py:Falling", "flying.py:Falling", "there is no file"),
        ('"GridSearch"', '"Grid"', "tuner.kind is 'Grid'; expected one of ASHA"),
        ("max_steps", "steps", "tuner GridSearch cannot be made of metric, mode, steps"),
        ("max_steps", "steps", "it takes space, metric, mode, max_steps"),
        ("[space]", "[spaces]", "'spaces' is unknown; expected name, trainer, home"),
        ("MultiStep(0.5, [6], 0.1)", "MultiStep(0.5, [6], 0.1", "'MultiStep(0.5, [6], 0.1' cannot be read"),
        ("MultiStep(0.5, [6], 0.1)", "MultiStep(0.5, [6]) + 1", "has more than names, numbers"),
        ("[6], 0.1)", "milestone=[6])", "MultiStep takes value, milestones, gamma"),
        ("MultiStep(0.5, [6], 0.1)", "exit(1)", "'exit(1)' calls exit; expected one of Branches"),
        ("MultiStep(0.5, [6], 0.1)", "Constant(open)", "has more than names, numbers, text and lists"),
        ("[space]", "[space", "is not valid TOML"),
        ('kind = "Local"', 'kind = "Cloud"', "executor.kind is 'Cloud'"),
    ],
)
def test_what_is_wrong_in_a_description_is_named(
    folder: Path, before: str, after: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "balls.py").write_text(STUDY[: STUDY.index("decays =")])
    (folder / "falling.toml").write_text(DESCRIBED.replace(before, after))
    assert main(["plan", str(folder / "falling.toml")]) == 2
    assert message in capfd.readouterr().err


def test_run_takes_a_deadline_and_a_budget(folder: Path, hippo: Hippo) -> None:
    done = hippo(folder, "run", "falling.py", "--deadline", "1e-6", "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "ended by the deadline: " in done.stdout
    limits = ("--deadline", "2999-12-31T17:00", "--budget", "9")
    done = hippo(folder, "run", "falling.py", *limits, "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "best: trial 1 at step 10" in done.stdout
    assert "ended by" not in done.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--deadline", "0"), "deadline is 0.0; expected a timedelta, a datetime or seconds above 0"),
        (("--deadline", "1999-01-01"), "which has passed"),
        (("--deadline", "soon"), "'soon' is no time; expected seconds or a moment"),
        (("--budget", "-1"), "budget is -1.0; expected worker-hours above 0"),
    ],
)
def test_limits_that_cannot_be_met_are_named(
    folder: Path, given: tuple[str, str], message: str, hippo: Hippo
) -> None:
    done = hippo(folder, "run", "falling.py", *given)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_time_of_day_is_the_next_one() -> None:
    now = datetime.now()
    for hours in (-1, 1):
        text = (now + timedelta(hours=hours)).strftime("%H:%M")
        moment = _deadline(text)
        assert isinstance(moment, datetime)
        assert timedelta(0) < moment - now <= timedelta(days=1)
    zoned = _deadline("17:00+02:00")
    assert isinstance(zoned, datetime)
    assert zoned > datetime.now(UTC)
    assert _deadline("90") == 90.0


def test_ctrl_c_keeps_everything_and_the_same_command_goes_on(folder: Path, hippo: Hippo) -> None:
    for name in ("here", "go"):
        os.mkfifo(folder / name)
    process = subprocess.Popen(
        command("run", "falling.py"),
        cwd=folder,
        env=environment(GATE=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process:
        (folder / "here").read_text()  # the worker is in the middle of step 3
        process.send_signal(signal.SIGINT)
        stopping = next(line for line in process.stderr if "stopping" in line)
        assert "end of the running steps" in stopping
        (folder / "go").write_text("go")
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.rstrip().endswith("To go on: hippo run falling.py")
    assert "Traceback" not in errors

    assert figures(hippo(folder, "plan", "falling.py").stdout)["steps left"] < 40
    done = hippo(folder, "run", "falling.py")
    assert done.returncode == 0, done.stderr
    assert "best: trial 1 at step 10: height 0.000976562" in done.stdout


def test_what_lies_beside_the_file_can_be_imported(folder: Path, hippo: Hippo) -> None:
    (folder / "names.py").write_text("NAME = 'beside'")
    text = STUDY.replace(
        "import hippotune as hippo\n", "import hippotune as hippo\nfrom names import NAME\n"
    ).replace('"falling"', "NAME")
    (folder / "below").mkdir()
    (folder / "falling.py").write_text(text)
    done = hippo(folder / "below", "run", "../falling.py", "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "study beside: 6 trials" in done.stdout


def with_in_train(line: str) -> str:
    return STUDY.replace("def train(self):", f"def train(self):\n        {line}")


def test_a_failing_trial_is_explained_and_others_go_on(folder: Path, hippo: Hippo) -> None:
    (folder / "falling.py").write_text(with_in_train("1 / (self.hp['scale'] - 0.5)"))
    done = hippo(folder, "run", "falling.py", "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "6 trials, 3 failed" in done.stdout
    assert "trial 0 failed (the first of 3):\nTraceback (most recent call last):" in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: float division by zero")
    assert "hippo/executors" not in done.stderr


def test_where_every_trial_fails_the_command_fails_too(folder: Path, hippo: Hippo) -> None:
    (folder / "falling.py").write_text(with_in_train("1 / 0"))
    done = hippo(folder, "run", "falling.py", "--no-progress")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_a_trainer_that_cannot_work_at_all_is_explained(folder: Path, hippo: Hippo) -> None:
    (folder / "falling.py").write_text(STUDY.replace("def build(self):", "def build(self):\n        1 / 0"))
    done = hippo(folder, "run", "falling.py", "--no-progress")
    assert done.returncode == 2
    assert done.stderr.startswith("hippo: nothing can be trained:\nTraceback (most recent call last):\n")
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


# hippo plan


def test_plan_says_what_would_be_shared_and_trains_nothing(folder: Path, hippo: Hippo) -> None:
    done = hippo(folder, "plan", "falling.py")
    assert done.returncode == 0, done.stderr
    assert figures(done.stdout) == {
        "trials": 6,
        "steps requested": 60,
        "unique steps": 32,
        "steps left": 32,
        "longest chain": 10,
    }
    assert "merge rate 1.88" in done.stdout
    tree = done.stdout.splitlines()[-10:]
    assert [line.partition("[")[0].rstrip() for line in tree] == [
        "scale 0.5",
        "├╴lr 0.5",
        "╰╴lr 0.05",
        *["  ├╴lr 0.05", "  ╰╴lr 0.005"],
        "scale 1",
        "├╴lr 0.5",
        "╰╴lr 0.05",
        *["  ├╴lr 0.05", "  ╰╴lr 0.005"],
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["falling.py"], "no home is made"


def test_plan_says_which_hyper_parameter_costs_most_sharing(folder: Path, hippo: Hippo) -> None:
    lines = hippo(folder, "plan", "falling.py", "--no-tree").stdout.splitlines()
    assert lines[-3:] == ["merge rate if all trials had the same:", "  scale  3.75", "  lr     3.00"]
    assert lines[-8:-4] == [
        "2 branches at step 0, where the first trials part; the largest:",
        "  scale 0.5  16 steps for 3 trials, 50% of all",
        "  scale 1    16 steps for 3 trials, 50% of all",
        "another branch at step 0 costs 10 steps; one at step 8, 2 steps",
    ]


def test_plan_advises_schedules_that_share_more(folder: Path, hippo: Hippo) -> None:
    ladder = """
horizons = [100, 200, 400]
asks = [({"lr": hippo.Warmup(10, hippo.Cosine(0.5, steps - 10)), "scale": 1}, steps) for steps in horizons]
tuner = hippo.TrialList(asks, "height", "min")
"""
    (folder / "falling.py").write_text(STUDY + ladder)
    shown = hippo(folder, "plan", "falling.py", "--no-tree").stdout
    assert "of 100 to 400 steps each" in shown
    assert "merge rate 1.03" in shown
    title, advice = shown.splitlines()[-2:]
    assert title == "merge rate with other schedules, all trials still different:"
    assert advice.strip() == (
        "lr: a WSD that decays in its last tenth, not at once (now until 100, 200, 400)  1.64"
    )


def test_plan_leaves_out_what_is_done(folder: Path, hippo: Hippo) -> None:
    assert hippo(folder, "run", "falling.py", "--no-progress").returncode == 0
    done = hippo(folder, "plan", "falling.py", "--workers", "1").stdout
    assert figures(done)["steps left"] == 0
    assert "inf" not in done
    assert "nothing is left to train" in done
    assert "measured over 32 steps of the plan" in done
    further = hippo(folder, "plan", "falling.py", "--steps", "12").stdout
    assert figures(further)["steps left"] == 6 * 2
    assert re.search(r"about \S.* on 1 worker, at \S+ s a step", further)


def test_plan_of_a_study_that_does_not_share_has_a_merge_rate_of_one(folder: Path, hippo: Hippo) -> None:
    (folder / "falling.py").write_text(STUDY.replace("Falling, executor", "Falling, share=False, executor"))
    done = hippo(folder, "plan", "falling.py", "--no-tree")
    assert figures(done.stdout)["unique steps"] == 60
    assert "merge rate 1.00: the study does not share" in done.stdout


def test_plan_refuses_a_tuner_without_a_space(folder: Path, hippo: Hippo) -> None:
    (folder / "falling.py").write_text(
        STUDY
        + """
class Own(hippo.tuners.Tuner):
    metric, mode = "height", "min"
    async def run(self, trials):
        pass
tuner = Own()
"""
    )
    done = hippo(folder, "plan", "falling.py")
    assert done.returncode == 2
    assert done.stderr.startswith("hippo: `tuner` in falling.py is of the kind Own, which makes up configs")
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_has_seen_enough_is_met_with_silence(folder: Path) -> None:
    (folder / "falling.py").write_text(STUDY.replace('print("loaded as", __name__)', ""))
    with subprocess.Popen(
        command("plan", "falling.py"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


# What is wrong with a file.


def told(folder: Path, text: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a file with this text; return the exit status and what was said about it."""
    file = folder / "wrong.py"
    file.write_text(text)
    status = main(["plan", str(file)])
    return status, capfd.readouterr().err.replace(f"{folder}{os.sep}", "")


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_missing_names_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, message = told(tmp_path, "study = 1", capfd)
    assert status == 2
    assert message == (
        "hippo: wrong.py defines no `tuner`; expected at its top level: "
        "study = hippo.Study(...) and tuner = a tuner, such as hippo.SuccessiveHalving(...)\n"
    )
    assert "no `study` and no `tuner`" in told(tmp_path, "", capfd)[1]


def test_names_that_are_something_else_are_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, message = told(tmp_path, "study = tuner = 'mine'", capfd)
    assert (status, message) == (2, "hippo: `study` in wrong.py is 'mine'; expected a hippo.Study\n")


def test_an_error_in_the_file_is_shown_as_python_shows_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, message = told(tmp_path, "def deep():\n    return {}['key']\n\ndeep()\n", capfd)
    assert status == 1
    assert message.splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "wrong.py", line 4, in <module>',
    ]
    assert message.splitlines()[-1] == "KeyError: 'key'"
    assert "hippo" not in message


def test_a_syntax_error_shows_the_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, message = told(tmp_path, "study = (\ntuner = 1\n", capfd)
    assert status == 1
    assert message.splitlines()[0] == '  File "wrong.py", line 1'
    assert "SyntaxError" in message.splitlines()[-1]


def test_an_argument_that_hippo_refuses_is_one_line_with_its_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, message = told(tmp_path, "import hippotune as hippo\n\nlr = hippo.MultiStep(0.1, [-5])\n", capfd)
    assert status == 2
    assert message.startswith("hippo: wrong.py, line 3: MultiStep: ")
    assert len(message.splitlines()) == 1


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, what in (("nowhere.py", "does not exist"), (".", "is a folder")):
        assert main(["run", str(tmp_path / name)]) == 2
        assert f"{what}; expected a Python or TOML file" in capfd.readouterr().err


# Help.


def test_hippo_alone_and_its_help_name_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capfd.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"^    {name} ", shown, re.MULTILINE)
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    assert capfd.readouterr().out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_examples_and_fits(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    lines = capfd.readouterr().out.splitlines()
    assert f"usage: hippo {name} " in lines[0]
    assert any(line.startswith(f"  hippo {name} ") for line in lines[lines.index("examples:") :])
    assert max(map(len, lines)) <= 100


def test_a_count_below_one_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["plan", "falling.py", "--steps", "0"])
    assert end.value.code == 2
    assert "argument --steps: '0' is not a whole number of at least 1" in capfd.readouterr().err


def test_the_version_is_told() -> None:
    done = subprocess.run(command("--version"), env=environment(), capture_output=True, text=True, check=True)
    assert re.fullmatch(r"hippo \d+\.\d+\.\d+\n", done.stdout)
