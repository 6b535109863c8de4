"""The texts about two runs that differ: how they were trained, why they may differ, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hippotune.protocol.fingerprint import Difference
from hippotune.protocol.proof import Name

OUTSIDE = (
    "a global, a class attribute, a file, the environment, or a library's own random numbers. Keep what "
    "training changes on self and make it in build(); draw random numbers from random, numpy.random or "
    "torch, or from a generator on self"
)
PLAIN = ("number", "text")
METRIC = "the metric "
_STRAIGHT = "straight through"
_MOST_LISTED = 5


@dataclass(frozen=True)
class Story:
    """How two runs are told apart: what was done, where each value was found, and what to make of it."""

    what: str
    one: str
    other: str
    cause: str = ""


_UNSEEDED = (
    "Something draws random numbers that are not seeded (np.random.default_rng(), uuid, os.urandom), reads "
    "the clock, goes by id() of objects, or computes in an order that is not fixed (threads, GPU kernels, "
    "sets of objects). Seed it with self.seed, or keep it out of the state"
)
STORIES: Mapping[Name, Story] = {
    "twice": Story(
        "is not deterministic: two runs in fresh interpreters, of the same config and seed, differ",
        "in the first run",
        "in the second",
        _UNSEEDED,
    ),
    "evaluated": Story(
        "is not exact: a trial that is evaluated after every step differs from one that is evaluated at its "
        "end alone",
        "without evaluations",
        "with them",
        "evaluate() changes something that training or a later evaluate() uses, on self or outside: "
        "trials that share steps are evaluated at each other's steps. Let it work on copies",
    ),
    "again": Story(
        "is not exact: the second trial in a process differs from the first",
        "in the first",
        "in the second",
        f"Every trial gets a new object, so the first left something behind elsewhere: {OUTSIDE}. What goes "
        "by id() of objects differs too: their ids are others in every trial. An import "
        "within build() or train() can do it too, where the library draws random numbers as it is loaded: "
        "import it at the top of the file, or in prepare()",
    ),
    "unsaved": Story(
        "is not exact: a trial of which checkpoints are saved differs from one without",
        "with checkpoints",
        "without",
        "Saving changes something: state_dict(), save() or a __getstate__() must leave the object as it is",
    ),
    "fresh": Story(
        "is not exact: a trial that is cut after step {start} and goes on in a fresh process differs from "
        "one that is trained straight through",
        _STRAIGHT,
        "after the cut",
    ),
    "warm": Story(
        "is not exact: a trial that is cut after step {start} and goes on in a process that has trained "
        "something else since differs from one that is trained straight through",
        _STRAIGHT,
        "after the cut",
    ),
    "repeated": Story(
        "is not exact: a step that was repeated from the checkpoint of a branch after step {start} differs "
        "from the same step trained straight through",
        _STRAIGHT,
        "from the checkpoint",
    ),
    "wide": Story("learns differently on several workers than on one", "on one worker", "on several"),
}
# Where nothing tells whether two interpreters would agree.
ANEW = Story(
    "is not exact: a second trial of the same config and seed, in a process that has trained, differs from "
    "the first",
    "in the first",
    "in the second",
    f"{_UNSEEDED}. Or the first trial has left something behind: {OUTSIDE}",
)
NOT_DETERMINISTIC = Story(
    "is not deterministic: the same step, trained twice from the same start, differs each time",
    "in one run",
    "in another",
    f"{_UNSEEDED}. Or training changes something that is not on self, and uses it: {OUTSIDE}",
)
WIDE = (
    "So it is trained by one worker at a time. Of several, each has a part of the batch, and the mean of "
    "their gradients is used: that is another gradient where a loss sums over the batch, leaves out padding, "
    "weighs classes, or compares samples with each other (mixup, contrastive losses). Multiply what is "
    "summed over a part by self.width and divide it by self.total(count), the count of the whole batch; "
    "count samples by self.total() too. Dropout needs the batch in a tensor's first dimension"
)
NOT_TRAINED = ". What nothing depends on can be declared: volatile = {{{path!r}}} in the class"
RAISED_WIDE = (
    "{trainer} cannot be trained by several workers: the same step raised there, and not on one worker. So "
    "it is trained by one worker at a time. {error}"
)
OUT_OF_STEP = (
    "{trainer} was trained by {width} workers, and on the way to step {step} {error}. So it is trained by "
    "one worker at a time from now on. All of them have to call backward(), self.total() and batch norms "
    "equally often and in the same order: decide to skip a batch by what is the same on all of them, such as "
    "self.total(loss.detach())"
)
RAISED = "{trainer} is not exact: {run} raised where training straight through did not. {error}"
RUNS: Mapping[Name, str] = {
    "fresh": "going on from the checkpoint of step {start} in a fresh process",
    "warm": "going on from the checkpoint of step {start} in a process that has trained since",
    "repeated": "going on from the checkpoint of step {start}",
}
EVALUATE = (
    "evaluate() of {trainer} changes the state: {when}, {told}. Trials that share steps are "
    "evaluated at each other's steps, so evaluate() has to leave everything as it is: let it work on copies, "
    "and make in build() what its first call would make. "
    "What nothing depends on can be declared: volatile = {{{path!r}}} in the class"
)
_VOLATILE = (
    "{names} of {trainer} {differ} each time the same step is trained, and {are} left out of the comparison. "
    "If that is intended, declare volatile = {declared} in the class; if training or a result depends on it, "
    "the trainer is not exact"
)
_FORGOTTEN = (
    "{trainer} does not save {names}: a step after a cut, {told}. No metric and no saved value differs "
    "because of it yet, but what training computes from it later will. {remedy}, or declare "
    "volatile = {declared} in the class if nothing depends on it"
)
NOISY = (
    "{trainer} is exact up to the noise of its kernels: {path} differs by {spread:.1g} of its scale between "
    "two runs of the same step, and runs from checkpoints by no more than ten times that. "
    "torch.use_deterministic_algorithms(True) in prepare() makes it exact where there are such kernels"
)


def volatile(trainer: str, paths: Sequence[str]) -> str:
    """Say what differs by itself, and how to declare it."""
    names = sorted({container(path) for path in paths})
    many = len(names) > 1
    return _VOLATILE.format(
        names=_listed(names),
        trainer=trainer,
        differ="differ" if many else "differs",
        are="are" if many else "is",
        declared=_as_set(map(declared, paths)),
    )


def forgotten(trainer: str, items: Sequence[Difference], saved_by: str) -> str:
    """Say what is not saved, and not missed yet; `saved_by` is the trainer's method that says what is."""
    names = sorted({attribute(item.path) for item in items})
    remedy = "Have the __getstate__() or __reduce__() of its class keep it"
    if saved_by:
        load = "load_state_dict()" if saved_by == "state_dict()" else "load()"
        remedy = f"Put it into {saved_by}, and back in {load}"
    return _FORGOTTEN.format(
        trainer=trainer,
        names=_listed(names),
        told=items[0].told(_STRAIGHT, "from the checkpoint"),
        remedy=remedy,
        declared=_as_set(names),
    )


def remedy(item: Difference) -> str:
    """Say how to declare a value that differs each time and means nothing."""
    if item.leaf.kind not in PLAIN:
        return ""
    return (
        ". If nothing depends on it (a clock, a path, a process number), "
        f"volatile = {_as_set([declared(item.path)])} in the class leaves it out"
    )


def cause_of_a_cut(lost: Sequence[Difference], orders: Sequence[str], saved_by: str) -> str:
    """Say why a trial that goes on from a checkpoint may differ.

    `lost` is what a save and a load changes, `orders` are the sets whose order does.
    """
    said = "; ".join(item.told("before", "after") for item in lost[:3])
    changed = f"A save and a load changes this: {said}. " if said else ""
    if saved_by:
        return (
            f"{changed}{saved_by} of the trainer leaves out something that training uses, or training "
            f"uses something that is not on self: {OUTSIDE}. Without {saved_by}, everything on self is saved"
        )
    if orders:
        return (
            f"{changed}{orders[0]} is a set: its order depends on how it was filled and emptied, and no "
            "copy of it keeps that. Go through sorted(it), or keep the items as keys of a dict, whose "
            "order is saved"
        )
    if lost:
        return (
            f"{changed}A __getstate__(), __setstate__() or __reduce__() of its class leaves it out or makes "
            f"something else of it. If that is not the cause, training uses something that is not on self: "
            f"{OUTSIDE}"
        )
    return (
        "Everything on self was the same at the cut, so training or evaluate() uses something that is not "
        f"on self: {OUTSIDE}"
    )


# Names.


def container(path: str) -> str:
    """Return what holds a volatile value: in a list that grows, the next one has another path."""
    return re.sub(r"(\[\d+\]| \(\d+\))$", "", path)


def attribute(path: str) -> str:
    """Return the attribute that something is in."""
    return re.split(r"[\[ ]", path, maxsplit=1)[0]


def declared(path: str) -> str:
    """Return the name by which a class declares something to be volatile."""
    name = container(path)
    return name.removeprefix(METRIC).strip("'") if name.startswith(METRIC) else name


def nearest(found: Sequence[Difference]) -> str | None:
    """Return the first that is on the trainer."""
    return next((item.path for item in found if item.path.startswith("self")), None)


def others(found: Sequence[Difference]) -> str:
    """Say what differs besides the first."""
    if len(found) == 1:
        return ""
    listed = ", ".join(item.path for item in found[1:4])
    return f"; also different: {listed}{' and others' if len(found) > 4 else ''}"


def _as_set(names: Iterable[str]) -> str:
    return "{" + ", ".join(map(repr, sorted(set(names)))) + "}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} others" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more
