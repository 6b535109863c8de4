"""What the tests of adapters have in common: data, studies, and a kill in the middle of one."""

from __future__ import annotations

import io
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
from hippotune.protocol.fingerprint import EXPLAINS
from hippotune.trainers.session import Session

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
    """Kill this worker at a step, and the process of the study if it asks for that; but only once."""
    mark = Path(trainer.settings.get("mark", "/"))
    if step == 4 and not mark.exists():
        mark.touch()
        if "HIPPO_TO_KILL" in os.environ:
            os.kill(int(os.environ["HIPPO_TO_KILL"]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def tuned_through_a_kill(
    trainer: type[hippo.Trainer], space: Mapping[str, Any], home: Path
) -> tuple[hippo.Study, hippo.study.Report]:
    """Tune; the worker is killed in the middle, and another goes on from its last checkpoint."""
    study = study_of(trainer, str(home), {"mark": str(home / "mark")})
    report = tune(study, space)
    assert (home / "mark").exists()
    assert len(report.trials) == 8
    assert report.work.steps_trained < report.work.steps_requested
    assert report.exactness.startswith("exact")
    return study, report


def killed_with_its_process(trainer: type[hippo.Trainer], home: Path) -> None:
    """Tune ``SPACE`` in a process of its own, which is killed in the middle."""
    program = (
        "import os; os.environ['HIPPO_TO_KILL'] = str(os.getpid()); "
        "from adapters.common import study_of, tune; "
        f"from {trainer.__module__} import {trainer.__name__} as trainer, SPACE; "
        f"tune(study_of(trainer, {str(home)!r}, {{'mark': {str(home / 'mark')!r}}}), SPACE)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def straight_through(trainer: type[hippo.Trainer], config: hippo.Config, steps: int) -> Session:
    """Train without a cut and without an evaluation."""
    session = Session(trainer, {}, SEED)
    session.start(config, 0, None, False)
    for _ in range(steps):
        session.advance()
    return session


def cut_after_every_step(trainer: type[hippo.Trainer], config: hippo.Config, steps: int) -> Session:
    """Train, evaluate, save, and go on in a new session, after every step."""
    session = straight_through(trainer, config, 0)
    for step in range(1, steps + 1):
        session.advance()
        session.evaluate()
        saved = io.BytesIO()
        session.snapshot()(saved)
        saved.seek(0)
        session = Session(trainer, {}, SEED)
        session.start(config, step, saved, False)
    return session


def state_of(session: Session) -> dict[str, str]:
    """Return all of a state that a checkpoint keeps."""
    return {leaf.path: leaf.digest for leaf in session.fingerprint().leaves if leaf.kind not in EXPLAINS}


def found_in(report: hippo.study.Report, name: str = "bits") -> dict[hippo.Config, float]:
    """Return a metric of every trial at the last step."""
    return {trial.config: trial.metrics[STEPS][name] for trial in report.trials}
