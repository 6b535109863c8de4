"""Where code stands: what names mean in it, and what is said of code that hides what it reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from hippotune.errors import TrainerError
from hippotune.identity.members import Brought

REMEDY = "pass it as settings=, make it in prepare() or build(), or give the study a version="


@dataclass(frozen=True)
class Place:
    """A function of the user's, and what names mean in it."""

    label: str
    code: CodeType
    names: Mapping[str, Any]
    module: str
    brought: Sequence[Brought] = ()

    def meanings(self, name: str) -> list[Any]:
        """Return what a name may stand for in it."""
        around = [self.names[name]] if name in self.names else []
        return [*(each.value for each in self.brought if each.alias == name), *around]

    def texts_of(self, key: object) -> list[object]:
        """Return what a key may be that was written as a text or as a name."""
        return (self.meanings(key.id) or [None]) if isinstance(key, ast.Name) else [key]


def unnamed(place: Place) -> TrainerError:
    """Say that code reads variables of the environment, and not which."""
    return TrainerError(
        f"{place.label} reads environment variables whose names are not in the code; which they are decides "
        'about results: read each by its name, as os.environ["NAME"], pass what is needed as settings=, '
        "or give the study a version="
    )


def hidden(place: Place, means: str) -> TrainerError:
    """Say that code looks things up by text, so that it is not known what it reads."""
    return TrainerError(
        f"{place.label} looks things up with {means}: Hippo cannot see what it finds, and results depend on "
        f"it. Write the names in the code, or {REMEDY}"
    )
