"""Forked programs end at once, and leave nothing unwritten."""

from __future__ import annotations

import importlib
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

import hippotune as hippo

PROGRAM = """
import atexit, gc, lzma, sys, threading, weakref
from pathlib import Path
from hippotune.executors.leaving import freeze, leave_well

class Kept:
    file = open("of a class", "w")

class Cycle:
    def __init__(self): self.me = self
    def __del__(self): print("freed", flush=True)

imported = open("frozen", "w")
gone = open("closed", "w")
freeze()
gone.close()
late = open("late", "wb")
packed = lzma.open("packed", "wt")
packed.write("e")
gc.disable()
for text, file in {"a": Kept.file, "b": imported}.items():
    file.write(text)
late.write(b"c")
Cycle()
event = threading.Event()
def work():
    event.wait()
    Path("thread").write_text("d")
threading.Thread(target=work).start()
atexit.register(lambda: print("exit handler"))
event.set()
leave_well()
"""


def test_threads_exit_handlers_cycles_and_files_come_to_their_end(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["exit handler", "freed"]
    assert lzma.decompress((tmp_path / "packed").read_bytes()) == b"e"
    (tmp_path / "packed").unlink()
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {"of a class": "a", "frozen": "b", "closed": "", "late": "c", "thread": "d"}


TRAINER = """
from pathlib import Path
import hippotune as hippo

class Telling(hippo.Trainer):
    file = Path(__file__).with_name("told").open("a")
    def build(self): ...
    def setup(self, hp): self.lr = hp["lr"]
    def train(self): print("a step", file=self.file)
    def evaluate(self): return {"lr": self.lr}
"""


def test_what_a_trainer_writes_to_a_file_of_its_module_is_there_when_the_study_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "telling.py").write_text(TRAINER)
    monkeypatch.syspath_prepend(tmp_path)
    trainer = importlib.import_module("telling").Telling
    options = {"home": tmp_path, "executor": hippo.Local(workers=1), "exact": False, "version": "1"}
    with hippo.Study("telling", trainer, **options) as study:
        study.eval({"lr": 0.1}, 7)
    assert (tmp_path / "told").read_text().count("a step") >= 7
