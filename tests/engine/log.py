"""Logs of what engines were told and what they commanded, as text: one JSON object a line.

The first line is what the engine was made with, the facts of its plan included, and the configs, which the
other lines name by their places in the list. Every other line is an event, its time, and the commands that it
led to.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hippotune import Fluid
from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.plan import facts
from hippotune.plan.plan import Plan
from hippotune.protocol import events
from hippotune.protocol.commands import Command
from hippotune.protocol.events import Event
from hippotune.protocol.fingerprint import Fingerprint, Leaf
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.allocation import Allocation
from hippotune.sequences import Config
from hippotune.trainers.base import Trainer

OTHERS = (events.Request, facts.Checkpoint, Fingerprint, Leaf, ProofPolicy)
KINDS = {kind.__name__: kind for kind in (*Event.__args__, *facts.Fact.__args__, *OTHERS)}


class Recorder(Engine):
    """An engine that keeps its log. Where its plan is not a new one, `found` are the facts of that."""

    made: Recorder
    found: Sequence[facts.Fact] = ()

    def __init__(self, *given: Any, **named: Any) -> None:
        made_with = inspect.signature(Engine).bind(*given, **named).arguments
        made_with["measured"] = list(made_with.get("measured", ()))
        super().__init__(**made_with)
        assert not made_with["plan"].nodes or self.found
        options: EngineOptions = made_with["options"]
        self.head: dict[str, Any] = {"budget": options.checkpoint_budget, "policy": options.width}
        self.head |= {"proofs": options.proofs, "checkpoint_every": options.checkpoint_every}
        self.head["measured"], self.head["facts"] = made_with["measured"], list(self.found)
        self.head["widens"] = made_with.get("fits") is not None
        self.log: list[tuple[float, Event, list[Command]]] = []
        Recorder.made = self

    def handle(self, event: Event, now: float) -> list[Command]:
        if isinstance(event, events.WorkerLost):  # what follows names folders of this machine
            reason = event.reason.splitlines()[0]
            event = dataclasses.replace(event, reason=reason)
        commands = super().handle(event, now)
        self.log.append((now, event, list(commands)))
        return commands

    def write(self, path: Path) -> None:
        configs: dict[Config, int] = {}
        lines = [
            {"now": now, "event": encoded(event, configs), "commands": encoded(commands, configs)}
            for now, event, commands in self.log
        ]
        head = encoded(self.head, configs)
        head["configs"] = [config.to_json() for config in configs]
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in (head, *lines))
        path.write_text(text + "\n")


@dataclass(frozen=True)
class Log:
    """A log that was read."""

    engine: Engine
    entries: list[tuple[float, Event, list[Any]]]
    configs: dict[Config, int]

    def replay(self) -> Iterable[tuple[list[Any], list[Any]]]:
        """Tell a new engine the same; yield what it commands, and what was commanded then."""
        for now, event, expected in self.entries:
            commands = self.engine.handle(event, now)
            yield json.loads(json.dumps(encoded(commands, self.configs))), expected


def read(path: Path) -> Log:
    head, *lines = map(json.loads, path.read_text().splitlines())
    configs = [Config.from_json(config) for config in head["configs"]]
    fits = Trainer.fits if head["widens"] else None
    proofs = decoded(head.get("proofs"), configs)
    policy, every = decoded(head["policy"], configs), head.get("checkpoint_every")
    plan = Plan.replay(decoded(head.get("facts", []), configs))
    measured = [facts.MeasuredSteps(*each) for each in head.get("measured", [])]
    options = EngineOptions(policy, proofs, checkpoint_every=every, checkpoint_budget=head["budget"])
    engine = Engine(plan, options, fits, measured)
    entries = [(line["now"], decoded(line["event"], configs), line["commands"]) for line in lines]
    return Log(engine, entries, {config: number for number, config in enumerate(configs)})


def encoded(value: Any, configs: dict[Config, int]) -> Any:
    if isinstance(value, Config):
        return {"config": configs.setdefault(value, len(configs))}
    if isinstance(value, Fluid):
        return {"Fluid": {"packing": value.packing, "max_width": value.max_width, "dynamic": value.dynamic}}
    if isinstance(value, Allocation):
        return {"Allocation": {"kind": value.kind, "max_width": value.max_width}}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, facts.Position):
        return {"position": list(value)}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list | tuple):
        return [encoded(each, configs) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, int) for key in value):
        return {"numbered": [[key, encoded(each, configs)] for key, each in value.items()]}
    if isinstance(value, Mapping):
        return {key: encoded(each, configs) for key, each in value.items()}
    if dataclasses.is_dataclass(value):
        fields = [(field.name, field.default) for field in dataclasses.fields(value) if field.compare]
        changed = {
            name: encoded(getattr(value, name), configs)
            for name, default in fields
            if getattr(value, name) != default
        }
        return {type(value).__name__: changed}
    assert value is None or isinstance(value, bool | int | float | str), value
    return value


def decoded(value: Any, configs: list[Config]) -> Any:
    if isinstance(value, list):
        return tuple(decoded(each, configs) for each in value)
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((kind, content),) = value.items()
        match kind:
            case "config":
                return configs[content]
            case "fraction":
                return Fraction(content)
            case "position":
                return facts.Position(*content)
            case "set":
                return frozenset(content)
            case "bytes":
                return bytes.fromhex(content)
            case "numbered":
                return {key: decoded(each, configs) for key, each in content}
            case "Fluid" | "Allocation":
                return {"Fluid": Fluid, "Allocation": Allocation}[kind](**content)
        if kind in KINDS:
            return KINDS[kind](**{name: decoded(each, configs) for name, each in content.items()})
    return {key: decoded(each, configs) for key, each in value.items()}
