"""What people may do on a page, where its plan is open in this process. All of it becomes facts of the plan.

A request that is made here is one of the study's, like those of its tuner, and nothing waits for its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hippotune import short
from hippotune.errors import InvalidInput
from hippotune.page.feed import PageFeed
from hippotune.page.login import Visitor
from hippotune.plan.facts import Action, CheckpointPinned, Position, TrialStopped
from hippotune.protocol.events import ActionTaken, GroupSubmitted, Request
from hippotune.sequences.config import Config
from hippotune.shell.runtime import Runtime
from hippotune.spaces.written import read_notation

Check = Callable[[Visitor, str], None]
Stop = Callable[[str, str], Awaitable[None]]
"""Ends a study for a user, and records that in its plan's log."""


class PlanActions:
    """Acts on one plan. `check` raises where a visitor may not act for a study."""

    def __init__(self, runtime: Runtime, feed: PageFeed, stop: Stop, check: Check = lambda *_: None) -> None:
        self._runtime = runtime
        self._feed = feed
        self._stop = stop
        self._check = check

    async def act(self, said: Mapping[str, Any], visitor: Visitor) -> dict[str, Any]:
        """Do what a page has asked for."""
        match said:
            case {"kind": "stop study", "study": str(study)}:
                self._check(visitor, study)
                await self._stop(study, visitor.name)
                return {}
            case _:
                return await asyncio.to_thread(self._act, said, visitor)

    async def preview(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Say what training something further, or a branch, would be and cost."""
        return await asyncio.to_thread(self._preview, said)

    # On any thread but the engine's.

    def _act(self, said: Mapping[str, Any], visitor: Visitor) -> dict[str, Any]:
        by = visitor.name
        match said:
            case {"kind": "stop trial", "trial": int(row)}:
                self._check(visitor, self._feed.trial(row)[0])
                self._stop_trial(row, by)
            case {"kind": "pin", "node": int(node), "step": int(step), "pinned": bool(pinned)}:
                self._pin(Position(node, step), pinned, by)
            case {"kind": "train" | "branch"}:
                study, number, config, step = self._meant(said)
                self._check(visitor, study)
                self._runtime.ask(lambda: self._submit(study, number, config, step))
                return {"trial": number}
            case _:
                raise InvalidInput(
                    f"unknown action {dict(said)!r}; expected kind to be 'stop study', 'stop trial', "
                    "'pin', 'train' or 'branch', with what it is about"
                )
        return {}

    def _preview(self, said: Mapping[str, Any]) -> dict[str, Any]:
        study, _, config, step = self._meant(said)
        return self._runtime.ask(lambda: self._cost(study, config, step))

    def _meant(self, said: Mapping[str, Any]) -> tuple[str, int, Config, int]:
        match said:
            case {"kind": "train", "trial": int(row), "to": int(step)}:
                study, number, config = self._feed.trial(row)
            case {
                "kind": "branch",
                "trial": int(row),
                "at": int(at),
                "changes": dict(changes),
                "to": int(step),
            }:
                study, _, trunk = self._feed.trial(row)
                if at >= step:
                    raise InvalidInput(
                        f"the branch leaves at step {at} and ends at {step}; expected a later end"
                    )
                values = {str(name): _value(text) for name, text in changes.items()}
                config, number = trunk.branch(at, **values), self._feed.next_number(study)
            case _:
                raise InvalidInput(
                    "the request does not say what to train; expected a trial, a step to train to, "
                    "and changes"
                )
        if step < 1:
            raise InvalidInput(f"to is {step}; expected a step of at least 1")
        return study, number, config, step

    # On the engine's thread.

    def _now(self) -> float:
        return self._runtime.loop.executor.now()

    def _record(self, action: Action) -> None:
        self._runtime.ask(lambda: self._runtime.loop.handle(ActionTaken(action)))

    def _stop_trial(self, row: int, by: str) -> None:
        study, number, _ = self._feed.trial(row)
        self._record(TrialStopped(study, number, self._now(), by))
        whom = f"by {by}" if by else "on its page"
        self._runtime.ask(lambda: self._dismiss(study, number, f"the trial was stopped {whom}"))

    def _dismiss(self, study: str, number: int, error: str) -> None:
        loop = self._runtime.loop
        open_requests = [each.request for each in loop.engine.state.requests.values()]
        for request in open_requests:
            if (request.study, request.trial) == (study, number):
                loop.dismiss(request.id, request.step, error)

    def _pin(self, position: Position, pinned: bool, by: str) -> None:
        nodes = self._runtime.plan.nodes
        if not 0 <= position.node < len(nodes) or position.step not in nodes[position.node].checkpoints:
            raise InvalidInput(f"there is no checkpoint at step {position.step} of node {position.node}")
        self._record(CheckpointPinned(position, self._now(), pinned, by))

    def _submit(self, study: str, number: int, config: Config, step: int) -> None:
        loop = self._runtime.loop
        request = loop.new_request(lambda answer: None)
        loop.handle(GroupSubmitted((Request(request, study, number, config, step),)))

    def _cost(self, study: str, config: Config, step: int) -> dict[str, Any]:
        usual = self._runtime.loop.engine.profile.usual
        unshared = self._runtime.plan.unshared(config, step)
        return {
            "study": study,
            "config": {name: short.sequence(sequence) for name, sequence in config.items()},
            "steps": step,
            "unshared": unshared,
            "seconds": None if usual is None else usual * unshared,
        }


def _value(text: object) -> Any:
    """Read the text that a user wrote for a hyper-parameter: a number, a sequence by its name, or text."""
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return read_notation(text)
