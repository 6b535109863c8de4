"""Which hyper-parameters of a config are worth the room that they take."""

from __future__ import annotations

from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant


class Contrast:
    """Finds out, from the configs that it is shown, which hyper-parameters are worth the room they take."""

    FEW = 4
    """Up to this many hyper-parameters are always shown."""

    def __init__(self) -> None:
        self._first: Config | None = None
        self._differing: set[str] = set()

    def meet(self, of: Config) -> None:
        """Take in one more config."""
        first = self._first = self._first or of
        if of.names is not first.names:
            self._differing.update(set(of.names) ^ set(first.names))
        for name, one in of.items():
            if name in first and one is not first[name] and one != first[name]:
                self._differing.add(name)

    def names(self, of: Config) -> list[str]:
        """Return what to show of a config, the most telling first.

        That is what differs between trials and what changes over the steps; the rest, if it is little.
        """
        changing = {name for name in of.names if not isinstance(of[name], Constant)}
        ranked = sorted(of.names, key=lambda name: (name not in self._differing, name not in changing, name))
        telling = [name for name in ranked if name in self._differing or name in changing]
        return ranked if len(of) <= self.FEW or not telling else telling
