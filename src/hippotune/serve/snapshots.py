"""Snapshots of a study on their way to those who watch it."""

from __future__ import annotations

from dataclasses import fields

import msgspec
from msgspec import Struct

from hippotune.sequences.config import Config
from hippotune.serve.beats import line_of, read_line
from hippotune.serve.messages import ConfigJson, Line, Number, number, numbers, read_numbers
from hippotune.view.snapshot import BestLine, Snapshot


class BestSoFar(Struct):
    """The best result so far."""

    trial: int
    step: int
    config: ConfigJson
    metrics: dict[str, Number]
    is_proved: bool = True


class SnapshotJson(Struct):
    """A snapshot; see `view.Snapshot`. `numbers` are its fields that are numbers or text."""

    plain: dict[str, Number | None]
    workers: tuple[Line, ...]
    best: BestSoFar | None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot."""
    plain: dict[str, Number | None] = {}
    for field in fields(Snapshot):
        value = getattr(snapshot, field.name)
        if field.name not in ("workers", "best"):
            plain[field.name] = number(value) if isinstance(value, float) else value
    best = snapshot.best
    found = (
        None
        if best is None
        else BestSoFar(best.trial, best.step, best.config.to_json(), numbers(best.metrics), best.is_proved)
    )
    return msgspec.json.encode(SnapshotJson(plain, tuple(map(line_of, snapshot.workers)), found))


def decode_snapshot(data: bytes | str) -> Snapshot:
    """Read a snapshot."""
    given = msgspec.json.decode(data, type=SnapshotJson)
    kinds = {field.name: str(field.type) for field in fields(Snapshot)}
    plain = {
        name: float(value) if value is not None and "float" in kinds[name] else value
        for name, value in given.plain.items()
        if name in kinds
    }
    whole = {
        name: int(value) if kinds[name] == "int" and isinstance(value, float) else value
        for name, value in plain.items()
    }
    best = (
        None
        if given.best is None
        else BestLine(
            given.best.trial,
            given.best.step,
            Config.from_json(given.best.config),
            read_numbers(given.best.metrics),
            given.best.is_proved,
        )
    )
    return Snapshot(**whole, workers=tuple(map(read_line, given.workers)), best=best)  # type: ignore[arg-type]
