"""How code gets to a server: by name, in a bundle, by value; and what is no code."""

from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import psutil
import pytest

import hippotune as hippo
from forked import Interpreter
from hippotune import GridSearch, InvalidInput, Study
from hippotune.executors.local import fork_server
from hippotune.identity.fingerprint import parts_of_object
from hippotune.serve.blobs import Blobs
from hippotune.serve.client.code import bundle
from hippotune.serve.definition import Code, Definition, Submission, TunerSpec, differences
from hippotune.tuners.base import Trials
from served.serving import serving

PROJECT = """
import hippotune as hippo

class Adds(hippo.Trainer):
    def build(self):
        self.total = 0.0
    def setup(self, hp):
        self.lr = hp["lr"]
    def train(self):
        self.total += self.lr
    def evaluate(self):
        return {"total": self.total}
"""
CLIENT = """
import sys
from adding.trainer import Adds
from hippotune import GridSearch, Study
study = Study("adds", Adds, url=sys.argv[1], code=sys.argv[2] if len(sys.argv) > 2 else None)
report = study.tune(GridSearch({"lr": [0.5, 1.0]}, metric="total", mode="max", max_steps=4))
print(report.best.metrics["total"], study._connection.definition.code.kind, study.key.digest)
study.close()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that git tracks, with a package and a large file."""
    root = tmp_path / "project"
    (root / "adding").mkdir(parents=True)
    (root / "adding" / "__init__.py").write_text("")
    (root / "adding" / "trainer.py").write_text(PROJECT)
    (root / "large.bin").write_bytes(b"x" * (11 << 20))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    (root / "untracked.py").write_text("raise RuntimeError")
    return root


def test_a_bundle_has_what_git_tracks_and_names_what_is_large(project: Path) -> None:
    content, left_out = bundle(project)
    assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["adding/__init__.py", "adding/trainer.py"]
    assert [name for name, _ in left_out] == ["large.bin"]
    assert bundle(project)[0] == content


def test_a_project_goes_in_a_bundle_and_is_the_same_plan_by_value(project: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "home") as running:
        found = []
        for kind in ([], ["value"]):
            command = [sys.executable, "-c", CLIENT, running.url, *kind]
            done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            found.append(done.stdout.split())
            left_out = "left out of the bundle, because it is large: large.bin (12 MB)"
            assert done.stderr.count(left_out) == (not kind)
    assert [each[0] for each in found] == ["4.0", "4.0"]
    assert [each[1] for each in found] == ["bundle", "value"]
    assert found[0][2] == found[1][2]


SETS = """
import sys
import numpy as np
from hippotune import GridSearch, Study
from rounding import Rounds
{statement}
with Study("rounds", Rounds, url=sys.argv[1]) as study:
    report = study.tune(GridSearch({{"lr": [0.5]}}, metric="total", mode="max", max_steps=2), progress=False)
    print(report.best.metrics["total"], study._connection.definition.code.kind)
"""


def test_what_a_script_sets_for_itself_alone_is_refused_by_name(tmp_path: Path, forking: Interpreter) -> None:
    trainer = PROJECT.replace("0.0", "np.round(0.0)").replace("Adds", "Rounds")
    (tmp_path / "rounding.py").write_text(f"import numpy as np\n{trainer}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])}

    def said(statement: str) -> tuple[int, str]:
        (tmp_path / "script.py").write_text(SETS.format(statement=statement))
        done = forking.run("script.py", running.url, cwd=tmp_path, env=environment)
        return done.returncode, done.stdout + done.stderr

    with serving(tmp_path / "home") as running:
        status, text = said("np.linalg.factor = 2")
        assert status == 1
        assert "so they would train without: np.linalg.factor = 2" in text
        status, text = said("np.seterr(all='raise')")
        assert status == 1
        assert "do not have the settings of the process that the study was started in: numpy.geterr()" in text
        assert said("np.set_printoptions(precision=3)") == (0, "1.0 value\n")


def test_an_installed_trainer_needs_no_code(tmp_path: Path) -> None:
    from study.walkers import Walker

    with serving(tmp_path, allow_code=False) as running:
        options = {"url": running.url, "code": "entry", "tuner": "client"}
        with Study("walks", Walker, **options) as study:  # type: ignore[arg-type]
            grid = GridSearch({"lr": [0.1], "bs": [16]}, metric="loss", mode="min", max_steps=2)
            assert study.tune(grid, progress=False).best.step == 2
        server = Study("walks", Walker, url=running.url, code="entry")
        with pytest.raises(hippo.HippoError, match="--allow-code"):
            server.tune(grid, progress=False)


@pytest.mark.parametrize("name", ["../up.py", "/top.py", "a/../../b.py"])
def test_a_bundle_that_reaches_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "x")
    content = file.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    blobs = Blobs(tmp_path / "code", allow_code=True)
    blobs.put(digest, content)
    with pytest.raises(InvalidInput, match="below one folder"):
        blobs.parcel(Code("bundle", "a.B", "a:B", digest))
    with pytest.raises(InvalidInput, match="as its address says"):
        blobs.put("0" * 64, content)


def test_code_that_was_not_used_for_a_day_is_removed_unless_it_is_in_use(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "code", allow_code=True)
    codes = []
    for number in range(4):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(f"module{number}.py", "")
        digest = hashlib.sha256(file.getvalue()).hexdigest()
        blobs.put(digest, file.getvalue())
        codes.append(Code("bundle", "a.B", "a:B", digest))
        blobs.parcel(codes[-1])
        os.utime(tmp_path / "code" / digest, (0, 0))
    running, used, sent = (str(code.digest) for code in codes[1:])
    blobs.parcel(codes[2])
    blobs.put(sent, (tmp_path / "code" / sent).read_bytes())
    blobs.remove_unused({running})
    for folder in ("code", "bundles"):
        assert {path.name for path in (tmp_path / folder).iterdir()} == {running, used, sent}
    with pytest.raises(InvalidInput, match="send it first"):
        blobs.parcel(codes[0])


class Quiet(GridSearch):
    """A tuner of a user's own that says nothing of what it has."""

    def __init__(self, hidden: object) -> None:
        super().__init__({"lr": [0.1]}, metric="loss", mode="min", max_steps=4)
        self.hidden = hidden

    def __repr__(self) -> str:
        return "Quiet()"


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (1, 1, 2),
        (np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2)),
        ([random.Random(1)], [random.Random(1)], [random.Random(2)]),
        (lambda step: step + 1, None, lambda step: step + 2),
    ],
    ids=["a number", "an object of a library", "one in a list", "a function"],
)
def test_tuners_that_look_alike_are_told_apart_by_what_they_have(
    one: object, same: object, other: object
) -> None:
    def submitted(hidden: object) -> Submission:
        tuned = TunerSpec("loss", "min", parts_of_object(Quiet(hidden)))
        return Submission(Definition("test", Code("entry", "Walker")), tuned)

    assert differences(submitted(one), submitted(same or one)) == []
    assert differences(submitted(one), submitted(other))


def test_tuners_that_say_nothing_of_their_parts_are_told_apart_by_their_files() -> None:
    one, other = (
        Submission(Definition("test", Code("entry", "Walker")), TunerSpec("loss", "min", digest=digit * 64))
        for digit in "01"
    )
    assert differences(one, one) == []
    assert any(each.startswith("digest: ") for each in differences(one, other))


class Family(hippo.Trainer):
    """Says what process its worker was forked from."""

    def build(self) -> None:
        self.steps = 0

    def setup(self, hp: dict[str, float]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.steps += 1

    def evaluate(self) -> dict[str, float]:
        return {"forked_from": psutil.Process().parent().ppid()}


class FamilyGrid(GridSearch):
    """Says, in a file, what process its own was forked from."""

    told: Path

    async def run(self, trials: Trials) -> None:
        self.told.write_text(str(psutil.Process().parent().ppid()))
        await super().run(trials)


@pytest.mark.skipif(not fork_server.is_possible(), reason="this system starts fresh interpreters")
def test_worker_and_tuner_of_a_study_are_forked_off_one_process(tmp_path: Path) -> None:
    tuner = FamilyGrid({"lr": [0.5]}, metric="forked_from", mode="max", max_steps=1)
    tuner.told = tmp_path / "told"
    with (
        serving(tmp_path / "home") as running,
        Study("family", Family, url=running.url, code="value", exact=False) as study,
    ):
        report = study.tune(tuner, progress=False)
    assert report.best.metrics["forked_from"] == int(tuner.told.read_text())
