"""The one family of exceptions: everything that Hippo raises on purpose is a `HippoError`.

A message says what was given, what was expected and what to do about it.
"""

from __future__ import annotations


class HippoError(Exception):
    """Base of every error that Hippo raises on purpose."""


class InvalidInput(HippoError, ValueError):
    """An argument that cannot be used: the message names it, shows it and says what fits."""


class MissingExtra(HippoError, ImportError):
    """An optional dependency is not installed: the message says which extra brings it."""


class TrainerError(HippoError):
    """The trainer breaks its contract in a way that concerns every trial; nothing can be trained."""


class NotExact(TrainerError):
    """A trial does not come to the same result however it is cut, moved and evaluated.

    `path` names what differs, such as ``self.agent.count``; None where nothing on the trainer does. `step` is
    the step after which it was seen.
    """

    def __init__(self, message: str, path: str | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.step = step


class NotGiven(HippoError, KeyError):
    """A hyper-parameter that `setup` asks for is not there: misspelt, or it does not change at this step."""

    def __str__(self) -> str:
        return str(self.args[0])


class TrialFailed(HippoError):
    """One trial failed; the message ends with the traceback of the user's code."""


class CheckpointError(HippoError):
    """A checkpoint cannot be written or read: missing, damaged, or made by another model."""


class NothingToExport(HippoError):
    """A trainer has nothing that can be written as plain data."""


class StoreError(HippoError):
    """The store of facts cannot be used: unreachable, locked, or of a newer version."""


class StorageUnavailable(StoreError):
    """The place of checkpoints cannot be reached, or refuses; that may change."""


class IllegalTransition(HippoError):
    """An event that cannot follow from the engine's state; the message carries the history."""
