"""A stranger's path: the wheel, the tutorial, the page, a kill, a branch, and the model.

Everything is typed as docs/tutorial.md has it, in an environment with the wheel and two of its extras.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx

import hippotune as hippo
from docs.pages import blocks_of
from installed import Installed, installed, run
from waiting import until

__all__ = ["installed"]

FILES = {block.title: block.text for block in blocks_of("tutorial", "python") if block.title.endswith(".py")}
CHANGES = [block.text for block in blocks_of("tutorial", "python") if not block.title.endswith(".py")]
PLANNED, RAN = (block.text.splitlines() for block in blocks_of("tutorial", "text"))
# Words for one interpreter: what is typed as several commands would import torch anew for each, and so would
# their workers.
TOGETHER = """
import runpy, sys
for number, words in enumerate(sys.argv[1:]):
    print("--\\n" if number else "", end="")
    sys.argv[:] = words.split()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        assert not end.code, end
"""
CHECKPOINTS = ".hippo/checkpoints/*/*/node-*"


def test_from_the_wheel_to_a_model(installed: Installed, tmp_path: Path) -> None:
    variables = dict(installed.with_extras(tmp_path / "links", "torch", "serve"))
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in FILES.items():
        # One worker, and few epochs of the plain script: what takes time here is to start processes.
        (folder / name).write_text(text.replace("workers=2", "workers=1").replace("range(60)", "range(2)"))

    def typed(*words: str) -> str:
        return run(installed.bin / words[0], *words[1:], cwd=folder, **variables)

    planned = typed("hippo", "plan", "study.py")
    assert [line for line in PLANNED if line not in planned] == []

    kill_in_the_middle(installed.bin / "hippo", folder, variables)

    again, show = (f"{installed.bin / 'hippo'} {words}" for words in ("run study.py", "show curve"))
    together = typed("python", "-c", TOGETHER, again, show, "best.py", "branch.py")
    resumed, shown_then, best, branched = together.split("--\n")
    shown = [line for line in RAN if not line.startswith("work:")]
    assert [line for line in shown if line not in resumed] == []
    asked, trained = map(int, re.findall(r"work: (\d+) steps requested, (\d+) trained", resumed)[0])
    assert (asked, trained < 260) == (480, True)
    assert re.search(r"unique steps +260 +merge rate 1.85", shown_then)
    without = TOGETHER + "assert 'hippotune' not in sys.modules"
    plain, used = typed("python", "-c", without, "train.py", "use.py").split("--\n")
    assert "tensor(0." in plain
    assert "val_acc" in best
    assert "tensor([[" in used
    assert "val_acc" in branched
    typed("hippo", "export", "curve", "--html", "curve.html")
    assert "<script" in (folder / "curve.html").read_text()
    assert "curve" in typed("hippo", "ls")


def kill_in_the_middle(program: Path, folder: Path, variables: dict[str, str]) -> None:
    """Run the study with its page; look at the page, and kill it when some of it is trained."""
    with subprocess.Popen(
        [program, "run", "study.py", "--page"],
        cwd=folder,
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stderr is not None
            url = next(found[0] for line in running.stderr if (found := re.findall(r"http://\S+", line)))
            page = httpx.get(url, follow_redirects=True)
            assert page.status_code == 200
            assert "<script" in page.text
            until(lambda: running.poll() is not None or len(list(folder.glob(CHECKPOINTS))) >= 3)
            assert running.poll() is None
        finally:
            running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL


def test_what_the_page_changes_in_the_study_is_a_study() -> None:
    names: dict[str, Any] = {}
    exec(FILES["study.py"], names)
    assert len(CHANGES) == 3
    for change in CHANGES:
        exec(change, names)
        assert isinstance(names["study"], hippo.Study)
        assert isinstance(names["tuner"], hippo.tuners.Tuner)
