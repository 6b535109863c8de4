"""What scripts do at their top, with real studies: refused, warned of, or none of a plan's business."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forked import TORCH, WORKERS, Interpreter, interpreter

PREAMBLE = """
import argparse, logging, os, random, warnings
import numpy as np
import torch
{top}

import hippotune as hippo

class Walker(hippo.Trainer):
    def build(self):
        self.at = torch.zeros(()) + np.zeros(())
    def setup(self, hp):
        self.lr = hp["lr"]
    def train(self):
        self.at = self.at + self.lr
    def evaluate(self):
        return {{"at": float(self.at)}}

study = hippo.Study("walk", Walker, executor=hippo.Local(workers=1))
study.tune(hippo.GridSearch(hippo.Grid({{"lr": [0.5]}}), "at", "max", max_steps=2), progress=False)
study.close()
"""
HARMLESS = """
logging.basicConfig(level=logging.INFO)
warnings.filterwarnings("ignore", category=DeprecationWarning)
np.set_printoptions(precision=3)
os.makedirs("out", exist_ok=True)
os.environ["TOKENIZERS_PARALLELISM"] = "false"
random.seed(0); np.random.seed(0); torch.manual_seed(0); torch.set_num_threads(1)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.use_deterministic_algorithms(True)
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=1)
args = parser.parse_args()
print("arguments", args)
np.save("curve.npy", [1.0]); torch.save([1.0], "curve.pt")
"""


Said = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def on_torch() -> Iterator[Interpreter]:
    """An interpreter that has imported torch too."""
    with interpreter(TORCH + WORKERS) as made:
        yield made


@pytest.fixture
def said_of(tmp_path: Path, on_torch: Interpreter) -> Said:
    """What runs a script that has statements at its top, and returns its status and what it says."""

    def run(top: str) -> tuple[int, str]:
        (tmp_path / "top.py").write_text(PREAMBLE.format(top=top))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = on_torch.run("top.py", cwd=tmp_path, env=environment)
        return done.returncode, done.stderr

    return run


@pytest.mark.parametrize(
    ("top", "messages"),
    [
        (
            "torch.set_default_dtype(torch.float64)\ntorch.set_default_device('meta')\n"
            "np.seterr(all='raise')\ntorch.set_flush_denormal(True)",
            [
                "torch.set_flush_denormal: True -> False",
                "get_default_dtype(): torch.float64 -> torch.float32",
                "torch.get_default_device(): meta -> cpu",
                "numpy.geterr(): {",
            ],
        ),
        (
            "torch.nn.Linear.factor = 2",
            ["so they would train without: torch.nn.Linear.factor = 2"],
        ),
    ],
)
def test_what_a_script_sets_for_itself_alone_is_refused_by_name(
    said_of: Said, top: str, messages: list[str]
) -> None:
    status, said = said_of(top)
    assert status == 1
    assert [message for message in messages if message not in said] == [], said
    assert "build() or prepare()" in said


def test_what_workers_do_not_call_is_warned_of_and_nothing_is_said_of_what_training_does_not_need(
    said_of: Said,
) -> None:
    status, said = said_of(f"{HARMLESS}torch.set_flush_denormal(False)")
    assert status == 0
    warning, _line_of_the_script = said.splitlines()
    assert "torch.set_flush_denormal(False) is not called in them" in warning


def test_a_script_that_imports_its_trainer_is_looked_at_too(tmp_path: Path, on_torch: Interpreter) -> None:
    trainer, rest = PREAMBLE.format(top="").split("study = ", 1)
    (tmp_path / "models.py").write_text(trainer)
    (tmp_path / "patches.py").write_text("import numpy as np\nnp.linalg.factor = 2\n")
    script = "import hippotune as hippo\nimport patches\nfrom models import Walker\nstudy = "
    (tmp_path / "script.py").write_text(script + rest)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = on_torch.run("script.py", cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert "so they would train without: np.linalg.factor = 2" in done.stderr
