"""What a check says where a trainer is not exact: what differs, between what, why, and what to do."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hippotune.errors import NotExact
from hippotune.testing.runs import Metrics, Name, Outcome
from hippotune.trainers.state.compare import Difference
from hippotune.trainers.state.parts import SET_ORDER

_OUTSIDE = (
    "a global, a class attribute, a file, the environment, or a library's own random numbers. Keep what "
    "training changes on self and make it in build(); draw random numbers from random, numpy.random or "
    "torch, or from a generator on self"
)


@dataclass(frozen=True)
class _Story:
    """How two runs are told apart: what was done, where each value was found, and what to make of it."""

    what: str
    one: str
    other: str
    cause: str


_STRAIGHT = "straight through"
_STORIES: Mapping[Name, _Story] = {
    "repeated": _Story(
        "is not deterministic: two runs in fresh interpreters, of the same config and seed, differ",
        "in the first run",
        "in the second",
        "Something draws random numbers that are not seeded (np.random.default_rng(), uuid, os.urandom), "
        "reads the clock, goes by id() of objects, or computes in an order that is not fixed (threads, GPU "
        "kernels, sets of objects). Seed it with self.seed, or keep it out of the state",
    ),
    "evaluated": _Story(
        "is not exact: a trial that is evaluated after every step differs from one that is evaluated at its "
        "end alone",
        "without evaluations",
        "with them",
        "evaluate() changes something that training or a later evaluate() uses, on self or outside: "
        "trials that share steps are evaluated at each other's steps. Let it work on copies",
    ),
    "again": _Story(
        "is not exact: the second trial in a process differs from the first",
        "in the first",
        "in the second",
        f"Every trial gets a new object, so the first left something behind elsewhere: {_OUTSIDE}. What goes "
        "by id() of objects differs too: their ids are others in every trial. An import "
        "within build() or train() can do it too, where the library draws random numbers as it is loaded: "
        "import it at the top of the file, or in prepare()",
    ),
    "unsaved": _Story(
        "is not exact: a trial of which checkpoints are saved differs from one without",
        "with checkpoints",
        "without",
        "Saving changes something: state_dict(), save() or a __getstate__() must leave the object as it is",
    ),
    "fresh": _Story(
        "is not exact: a trial that is cut after step {start} and goes on in a fresh process differs from "
        "one that is trained straight through",
        _STRAIGHT,
        "after the cut",
        "",
    ),
    "warm": _Story(
        "is not exact: a trial that is cut after step {start} and goes on in a process that has trained "
        "something else since differs from one that is trained straight through",
        _STRAIGHT,
        "after the cut",
        "",
    ),
}


def check(trainer: str, saves_itself: str | None, outcomes: Iterable[Outcome], truth: Outcome) -> None:
    """Raise `NotExact` for the first run that differs; `truth` has the metrics that all must have.

    `saves_itself` names what the trainer says its state by, where it does.
    """
    for outcome in outcomes:
        _check(trainer, saves_itself, outcome, truth)


def _check(trainer: str, saves_itself: str | None, outcome: Outcome, truth: Outcome) -> None:
    for step, found in sorted(outcome.by_evaluating.items()):
        raise _not_exact(
            f"evaluate() of {trainer} changes the state: after step {step}, "
            f"{found[0].told('before it', 'after it')}{_others(found)}. Trials that share steps are "
            "evaluated at each other's steps, so evaluate() has to leave everything as it is: let it work "
            "on copies",
            found[0],
            step,
        )
    story = _STORIES[outcome.name]
    begin = f"{trainer} {story.what.format(start=outcome.start)}. "
    state = min(outcome.states, default=None)
    metric = _first_metric(outcome.metrics, truth.metrics)
    if state is not None and (metric is None or state <= metric[0]):
        found = outcome.states[state]
        where = f"After step {state}, {found[0].told(story.one, story.other)}{_others(found)}. "
        raise _not_exact(
            begin + where + _cause(story, outcome, saves_itself, state, True), _nearest(found), state
        )
    if metric is not None:
        step, name, ours, theirs = metric
        where = (
            f"After step {step}, the metric {name!r} is {theirs} {story.one}, and {ours} {story.other}; "
            f"nothing {'on self' if saves_itself is None else f'that {saves_itself} saves'} differs. "
        )
        raise _not_exact(begin + where + _cause(story, outcome, saves_itself, step, False), None, step)


def _cause(story: _Story, outcome: Outcome, saves_itself: str | None, step: int, on_self: bool) -> str:
    if story.cause:
        return story.cause
    if on_self and step == outcome.start:
        return (
            "It is not the same after a load: a __setstate__(), a load() or a property of its class makes "
            "something else of what was saved"
        )
    lost = "; ".join(item.told("before", "after") for item in outcome.by_saving[:3])
    changed = f"A save and a load changes this: {lost}. " if lost else ""
    if saves_itself is not None:
        return (
            f"{changed}{saves_itself} of the trainer leaves out something that training uses, or training "
            f"uses something that is not on self: {_OUTSIDE}. Without {saves_itself}, everything on self is "
            "saved"
        )
    for item in (*outcome.by_saving, *outcome.states.get(step, ())):
        if item.one.startswith(SET_ORDER):
            return (
                f"{changed}{item.path} is a set: its order depends on how it was filled and emptied, and no "
                "copy of it keeps that. Go through sorted(it), or keep the items as keys of a dict, whose "
                "order is saved"
            )
    if lost:
        return (
            f"{changed}A __getstate__() or __reduce__() of its class leaves it out. If that is not the "
            f"cause, training uses something that is not on self: {_OUTSIDE}"
        )
    return (
        "Everything on self was the same at the cut, so training or evaluate() uses something that is not "
        f"on self: {_OUTSIDE}"
    )


def _first_metric(
    metrics: Mapping[int, Metrics], truth: Mapping[int, Metrics]
) -> tuple[int, str, str, str] | None:
    for step in sorted(metrics.keys() & truth.keys()):
        ours, theirs = metrics[step], truth[step]
        for name in (*theirs, *ours):
            if _bits(ours.get(name)) != _bits(theirs.get(name)):
                return step, name, _shown(ours.get(name)), _shown(theirs.get(name))
    return None


def _bits(value: float | None) -> bytes:
    return b"" if value is None else struct.pack("d", value)


def _shown(value: float | None) -> str:
    return "missing" if value is None else repr(value)


def _nearest(found: list[Difference]) -> Difference | None:
    return next((item for item in found if item.path.startswith("self")), None)


def _others(found: list[Difference]) -> str:
    if len(found) == 1:
        return ""
    listed = ", ".join(item.path for item in found[1:4])
    return f"; also different: {listed}{' and others' if len(found) > 4 else ''}"


def _not_exact(message: str, difference: Difference | None, step: int) -> NotExact:
    return NotExact(message, None if difference is None else difference.path, step)
