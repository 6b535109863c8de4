"""What the tests of adapters have in common: data, studies, and a kill in the middle of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo
from hippotune import Exponential, MultiStep

STEPS = 6
SEED = 3
RATES = [0.3, MultiStep(0.3, [4], 0.5), Exponential(0.3, 0.9), MultiStep(0.3, [2], 0.5)]

_draws = np.random.RandomState(1)
X = _draws.normal(size=(300, 6))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * _draws.normal(size=300) > 0).astype(int)


def bits(values: Any) -> float:
    """Return a number that is another one where a bit is."""
    return float(zlib.crc32(np.ascontiguousarray(values).tobytes()))


def study_of(trainer: type[hippo.Trainer], home: str, settings: Mapping[str, Any]) -> hippo.Study:
    """Return a study with one worker."""
    executor = hippo.Local(workers=1, threads=1)
    return hippo.Study("adapted", trainer, home=home, executor=executor, settings=settings, seed=SEED)


def tune(study: hippo.Study, space: Mapping[str, Any]) -> hippo.study.Report:
    """Train all of a space to the end."""
    return study.tune(hippo.GridSearch(space, metric="loss", mode="min", max_steps=STEPS), progress=False)


def kill_once(trainer: hippo.Trainer, step: int) -> None:
    """Kill the process that runs the study and this worker, at a step, where that was not done before."""
    mark = Path(trainer.settings.get("mark", "/"))
    if step == 4 and not mark.exists():
        mark.touch()
        os.kill(int(os.environ["HIPPO_TO_KILL"]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def killed_and_resumed(
    trainer: type[hippo.Trainer], space: Mapping[str, Any], home: Path
) -> tuple[hippo.Study, hippo.study.Report]:
    """Tune in a process of its own, which is killed, and then here."""
    settings = {"mark": str(home / "mark")}
    program = (
        "import os; os.environ['HIPPO_TO_KILL'] = str(os.getpid()); "
        f"from adapters.common import study_of, tune; from {trainer.__module__} import "
        f"{trainer.__name__} as trainer, SPACE; tune(study_of(trainer, {str(home)!r}, {settings!r}), SPACE)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    study = study_of(trainer, str(home), settings)
    return study, tune(study, space)
