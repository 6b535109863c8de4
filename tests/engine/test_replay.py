"""Logs of real studies, replayed: an engine that is told the same commands the same, in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log import Recorder, read
from engine.record import rungs
from hippotune import Simulated, Study
from hippotune.engine.validation import validate
from hippotune.protocol.events import DeadlineSet, GroupSubmitted, WidthChanged, WorkerLost
from hippotune.shell import runtime
from tuners.test_conformance import Idle

LOGS = {path.stem: path for path in sorted((Path(__file__).parent / "logs").glob("*.jsonl"))}


@pytest.mark.parametrize("name", LOGS)
def test_a_recorded_study_leads_to_the_same_commands_and_facts(name: str) -> None:
    log = read(LOGS[name])
    for commands, expected in log.replay():
        assert commands == expected
        validate(log.engine)
    assert log.engine.trained > 0
    assert log.engine.leases == {}


def test_a_study_is_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "Engine", Recorder)
    with Study("recorded", Idle, executor=Simulated(2)) as study:
        study.tune(rungs(), progress=False)
    Recorder.made.write(tmp_path / "recorded.jsonl")
    log = read(tmp_path / "recorded.jsonl")
    assert all(commands == expected for commands, expected in log.replay())
    assert log.engine.trained == Recorder.made.trained > 0


def test_the_logs_hold_what_can_happen_to_real_studies() -> None:
    heard = {name: [event for _, event, _ in read(path).entries] for name, path in LOGS.items()}
    assert any(isinstance(event, WorkerLost) for event in heard["with_a_worker_lost"])
    assert any(isinstance(event, DeadlineSet) and event.at for event in heard["with_a_deadline"])
    assert any(isinstance(event, WidthChanged) for event in heard["with_a_deadline"])
    wide = [commands for _, _, commands in read(LOGS["with_widths"]).entries]
    assert any("peers" in command.get("RunLease", {}) for commands in wide for command in commands)
    dropped = [commands for _, _, commands in read(LOGS["with_little_room"]).entries]
    assert any("DropCheckpoint" in command for commands in dropped for command in commands)
    again = read(LOGS["run_again"]).engine
    assert again.plan.order > 0
    assert any(node.checkpoints for node in again.plan.nodes)
    asked = (each.requests for each in heard["with_two_studies"] if isinstance(each, GroupSubmitted))
    assert len({request.study for group in asked for request in group}) == 2
