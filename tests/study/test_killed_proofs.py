"""Kills in the middle of a proof: it is made again, decided once, and no result is another one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from forked import Interpreter
from hippotune.plan.facts import ProofRecorded
from hippotune.sequences.config import Config
from hippotune.spaces.space import Grid
from hippotune.store.catalog import open_store
from hippotune.trainers.session import Session
from study.mortal_proofs import BRANCH, SPACE, STEPS, Walk

SCRIPT = Path(__file__).parent / "mortal_proofs.py"


def run(forking: Interpreter, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return forking.run(SCRIPT, *arguments, cwd=Path.cwd(), env=environment)


def alone(home: Path, config: Config) -> dict[str, float]:
    """Train a trial in this process, from beginning to end."""
    session = Session(Walk, {"folder": str(home), "victim": "worker", "step": 0}, seed=0)
    session.start(config, 0, None, warm=False)
    for _ in range(STEPS):
        session.advance()
    return session.evaluate()


@pytest.mark.parametrize("victim", ["worker", "driver"])
@pytest.mark.parametrize("step", [2, BRANCH + 1], ids=["rehearsal", "audit"])
def test_a_proof_that_is_killed_is_made_again_and_decided_once(
    tmp_path: Path, forking: Interpreter, victim: str, step: int
) -> None:
    home = tmp_path / "home"
    done = run(forking, home, victim, str(step))
    assert (home / "death").exists(), "nobody died: the test tests nothing"
    if victim == "driver":
        assert done.returncode == -signal.SIGKILL
        done = run(forking, home, victim, str(step))
    assert done.returncode == 0, done.stderr
    found, exactness = json.loads(done.stdout)
    assert found == [alone(home, config) for config in Grid(SPACE)]
    with open_store(home) as catalog:
        (plan,) = catalog.plans()
        facts = list(catalog.view(plan.key).read())
    recorded = [fact for fact in facts if isinstance(fact, ProofRecorded)]
    assert {fact.outcome for fact in recorded} == {"exact"}
    decided = Counter((fact.kind, fact.position) for fact in recorded)
    assert set(decided.values()) == {1}
    audits = sum(kind == "audit" for kind, _ in decided)
    assert len(decided) == 1 + audits
    # Audits get a share of the time: where none was killed, a slow machine may come to the end without one.
    assert audits or step == 2
    steps = {0: "", 1: ", 1 step repeated at branches"}
    assert exactness == "exact: rehearsed" + steps.get(audits, f", {audits} steps repeated at branches")
