"""State outside of the trainer: globals, class attributes, caches, the environment, files.

No checkpoint reaches it, so that each of these has to be named.
"""

from __future__ import annotations

import contextvars
import decimal
import functools
import itertools
import logging
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from exactness_trainers.base import Plain
from exactness_trainers.closures import counting

# No object leads there: the finding lists where state can be.
_ELSEWHERE = "a global, a class attribute, a file, the environment"


class _Outside(Plain):
    cause = "globals and class attributes"
    expect = "named"
    found = _ELSEWHERE


class _World(Plain):
    cause = "files and environment"
    expect = "named"
    found = _ELSEWHERE


TOTAL = 0
HISTORY: list[int] = []
CACHE: dict[str, Any] = {}
NUMBERS = itertools.count(1)
FOLLOWING = counting()
GENERATOR = random.Random(3)
NUMPY_GENERATOR = np.random.default_rng(3)
WEIGHTS = np.ones(3)
LEVEL: contextvars.ContextVar[int] = contextvars.ContextVar("LEVEL", default=0)


class GlobalCounter(_Outside):
    """Counts in a global of the module."""

    named = "TOTAL"

    def amount(self) -> float:
        global TOTAL
        TOTAL += 1
        return TOTAL


class GlobalList(_Outside):
    """Appends to a global list."""

    named = "HISTORY"

    def amount(self) -> float:
        HISTORY.append(len(HISTORY))
        return sum(HISTORY) + 1


def remembered(name: str) -> list[int]:
    return CACHE.setdefault(name, [])


class GlobalThroughFunction(_Outside):
    """A function that keeps lists in a global dict."""

    named = "CACHE"

    def amount(self) -> float:
        remembered("a").append(2)
        return sum(remembered("a"))


class GlobalKeptOnSelf(_Outside):
    """A global list that is also on self."""

    expect = "either"
    named = "HISTORY"
    found = "self.history"

    def start(self) -> None:
        self.history = HISTORY

    def amount(self) -> float:
        self.history.append(1)
        return len(HISTORY)


class GlobalCount(_Outside):
    """An itertools.count in a global."""

    named = "NUMBERS"

    def amount(self) -> float:
        return next(NUMBERS)


class GlobalClosure(_Outside):
    """A global function that counts in a closure cell."""

    named = "following[count]"

    def amount(self) -> float:
        return FOLLOWING()


class GlobalRandom(_Outside):
    """A random.Random in a global."""

    named = "GENERATOR"

    def amount(self) -> float:
        return GENERATOR.random()


class GlobalGenerator(_Outside):
    """A numpy Generator in a global."""

    named = "NUMPY_GENERATOR"

    def amount(self) -> float:
        return float(NUMPY_GENERATOR.random())


class GlobalArray(_Outside):
    """An array in a global that is written in place."""

    named = "WEIGHTS"

    def amount(self) -> float:
        WEIGHTS[0] *= 1.5
        return float(WEIGHTS[0])


class ContextVariable(_Outside):
    """A context variable."""

    named = "LEVEL"

    def amount(self) -> float:
        LEVEL.set(LEVEL.get() + 1)
        return LEVEL.get()


class ClassCounter(_Outside):
    """Counts in a class attribute of the trainer."""

    named = "count"
    count: ClassVar[int] = 0

    def amount(self) -> float:
        type(self).count += 1
        return self.count


class ClassList(_Outside):
    """Appends to a list that is a class attribute of the trainer."""

    named = "seen"
    seen: ClassVar[list[int]] = []

    def amount(self) -> float:
        self.seen.append(len(self.seen))
        return sum(self.seen) + 1


class Shared:
    count = 0
    only: Shared | None = None

    @classmethod
    def next(cls) -> int:
        cls.count += 1
        return cls.count

    @classmethod
    def single(cls) -> Shared:
        if cls.only is None:
            cls.only = cls()
        return cls.only


class HelperClassCounter(_Outside):
    """Counts in a class attribute of another class."""

    named = "Shared"

    def amount(self) -> float:
        return Shared.next()


class Singleton(_Outside):
    """Counts in an object that a class keeps for all."""

    named = "Shared"

    def amount(self) -> float:
        single = Shared.single()
        single.level = getattr(single, "level", 0) + 1  # type: ignore[attr-defined]
        return single.level  # type: ignore[attr-defined]


def collected(number: int, seen: list[int] = []) -> int:  # noqa: B006
    seen.append(number)
    return sum(seen)


class MutableDefault(_Outside):
    """A module's function that collects in a default argument."""

    named = "collected"

    def amount(self) -> float:
        return collected(2)


class MethodDefault(_Outside):
    """A method that collects in a default argument."""

    named = "collect"

    def collect(self, seen: list[int] = []) -> int:  # noqa: B006
        seen.append(1)
        return len(seen)

    def amount(self) -> float:
        return self.collect()


@functools.lru_cache
def table(name: str) -> list[int]:
    return [len(name)]


class ModuleCache(_Outside):
    """A module's lru_cache, whose results are lists that training changes."""

    named = "table"

    def amount(self) -> float:
        table("a").append(1)
        return sum(table("a"))


def called() -> int:
    called.calls += 1  # type: ignore[attr-defined]
    return called.calls  # type: ignore[attr-defined]


called.calls = 0  # type: ignore[attr-defined]


class FunctionAttribute(_Outside):
    """A module's function that counts in an attribute of its own."""

    named = "called"

    def amount(self) -> float:
        return called()


class ClassRegistered(_Outside):
    """Training makes subclasses, which their base knows."""

    named = "CACHE"

    def amount(self) -> float:
        CACHE.setdefault("classes", []).append(type("Another", (Shared,), {}))
        return len(Shared.__subclasses__())


class OtherModule(_Outside):
    """Counts in an attribute of another module."""

    named = "exactness_count"

    def amount(self) -> float:
        sys.exactness_count = getattr(sys, "exactness_count", 0) + 1  # type: ignore[attr-defined]
        return sys.exactness_count  # type: ignore[attr-defined]


class DecimalContext(_Outside):
    """Changes the precision of all decimals."""

    named = "getcontext"

    def amount(self) -> float:
        decimal.getcontext().prec = decimal.getcontext().prec % 12 + 1
        return float(decimal.Decimal(1) / decimal.Decimal(3) * 10**6) % 1 * 1e6


class LogHandler(_Outside):
    """Counts in a handler of a logger."""

    named = "logger"

    def start(self) -> None:
        self.logger = logging.getLogger("exactness.counted")

    def amount(self) -> float:
        self.logger.addHandler(logging.NullHandler())
        return len(self.logger.handlers)


class EnvironmentVariable(_World):
    """Counts in an environment variable."""

    named = "EXACTNESS_COUNT"

    def amount(self) -> float:
        os.environ["EXACTNESS_COUNT"] = str(int(os.environ.get("EXACTNESS_COUNT", "0")) + 1)
        return int(os.environ["EXACTNESS_COUNT"])


class FileOnDisk(_World):
    """Appends to a file whose path is on self."""

    named = "self.path"

    def start(self) -> None:
        self.path = Path(tempfile.mkdtemp(), "log")

    def amount(self) -> float:
        with self.path.open("a") as file:
            file.write("x")
        return len(self.path.read_text())


class WorkingDirectory(_World):
    """Changes the working directory."""

    named = "self.home"

    def start(self) -> None:
        self.home = Path(tempfile.mkdtemp(), *"abcdefgh")
        self.home.mkdir(parents=True)
        os.chdir(self.home)

    def amount(self) -> float:
        os.chdir("..")
        return len(self.home.resolve().parts) - len(Path.cwd().parts)
