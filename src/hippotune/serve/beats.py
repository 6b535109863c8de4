"""Pulses on their way to clients, and back."""

from __future__ import annotations

from fractions import Fraction

from hippotune.engine.core import ProofWork
from hippotune.sequences.config import Config
from hippotune.serve.messages import Counted, PulseBody, WorkerLineBody
from hippotune.shell.pulse import Pulse
from hippotune.shell.readings import Counters, Readings
from hippotune.view.snapshot import WorkerLine


def counted(counters: Counters) -> Counted:
    """Write counters."""
    return Counted(counters.trained, counters.worker_seconds, *counters.proof_work)


def read_counters(given: Counted) -> Counters:
    """Read counters."""
    proofs = ProofWork(given.proof_steps, given.proof_seconds, given.proof_startup_seconds)
    return Counters(given.trained, given.worker_seconds, proofs)


def beat_of(readings: Readings, study: str, pulse: Pulse, steps: tuple[int | None, int | None]) -> PulseBody:
    """Write a pulse, with what the loop shows to one study."""
    pace = readings.pace()
    return PulseBody(
        now=pulse.now,
        workers=readings.workers,
        step_seconds=pace.step,
        startup=pace.startup,
        widest=pace.widest,
        counters=counted(readings.counters()),
        spent=readings.spent(study),
        out_of=readings.out_of(study),
        slots=pulse.slots,
        lines=tuple(map(line_of, pulse.workers)),
        workers_expected=pulse.workers_expected,
        running_seconds=pulse.running_seconds,
        chain=pulse.chain,
        checkpoint_bytes=pulse.checkpoint_bytes,
        is_proved=pulse.is_proved,
        unique=steps[0],
        left=steps[1],
    )


def pulse_of(beat: PulseBody) -> Pulse:
    """Read a pulse."""
    return Pulse(
        now=beat.now,
        workers=tuple(map(read_line, beat.lines)),
        workers_expected=beat.workers_expected,
        slots=beat.slots,
        trained=beat.counters.trained,
        worker_seconds=beat.counters.worker_seconds,
        running_seconds=beat.running_seconds,
        chain=beat.chain,
        step_seconds=beat.step_seconds,
        checkpoint_bytes=beat.checkpoint_bytes,
        is_proved=beat.is_proved,
        unique=beat.unique,
        left=beat.left,
    )


def line_of(line: WorkerLine) -> WorkerLineBody:
    """Write what a worker is at."""
    config = None if line.config is None else line.config.to_json()
    width = line.width.numerator, line.width.denominator
    return WorkerLineBody(line.worker, line.lease, line.start, line.at, line.end, config, width, line.leader)


def read_line(line: WorkerLineBody) -> WorkerLine:
    """Read what a worker is at."""
    config = None if line.config is None else Config.from_json(line.config)
    width = Fraction(*line.width)
    return WorkerLine(line.worker, line.lease, line.start, line.at, line.end, config, width, line.leader)
