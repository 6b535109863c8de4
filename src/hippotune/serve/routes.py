"""What a request may ask for: the table that the application and its OpenAPI document are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hippotune.serve.guard import Handler
from hippotune.serve.tokens import Role

Content = Literal["json", "bytes", "events", "text", "none"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query."""

    name: str
    kind: type
    text: str


@dataclass(frozen=True)
class Route:
    """One address and method.

    `body` is what a request brings as JSON, `bytes` for a plain file; `answer` is what is answered as JSON.
    One that `follows` answers with events too, where it is asked to. `statuses` are those of refusals,
    besides what holds for every route. The docstring of the handler is what the document says of it.
    """

    method: Literal["GET", "PUT", "POST", "DELETE"]
    path: str
    role: Role
    handler: Handler
    body: Any = None
    answer: Any = None
    content: Content = "json"
    follows: bool = False
    query: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What it is called in numbers and in the document."""
        return f"{self.method} {self.path}"

    @property
    def text(self) -> str:
        """What it does, in words."""
        return " ".join((self.handler.__doc__ or "").split()).removesuffix(".")
