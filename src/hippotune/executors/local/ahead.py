"""Guesses, before a file is run, what the workers of its study will need, and has that imported meanwhile.

The file imports its libraries, and so does the process that workers are forked from. One after the other,
that takes twice as long. A wrong guess changes no result: workers whose libraries, environment or search path
are others are forked from another process.
"""

from __future__ import annotations

import ast
import os
import sys
from contextlib import suppress
from pathlib import Path

from hippotune.executors.environment import alike, shares_of_cores, usual_threads
from hippotune.executors.local import fork_server

_ELSEWHERE = {"Ray", "Simulated"}
_USUAL_WORKERS = 2


def expect_workers_of(file: Path) -> None:
    """Start to import what the file imports, if it looks like a study on local workers."""
    if not fork_server.is_possible() or file.suffix != ".py":
        return
    with suppress(OSError, SyntaxError, ValueError):  # which running it will tell
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.id for node in nodes if isinstance(node, ast.Name)}
        given = {node.arg: node.value for node in nodes if isinstance(node, ast.keyword)}
        if names & _ELSEWHERE or "url" in given:
            return
        modules = [name for name in fork_server.SLOW if name in _imported(nodes)]
        folder = os.path.dirname(os.path.abspath(file))
        sys.path.insert(0, folder)  # as it is when the file is run
        try:
            fork_server.expect(_environment(given.get("workers")), modules)
        finally:
            sys.path.remove(folder)


def _imported(nodes: list[ast.AST]) -> set[str]:
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    return {name.partition(".")[0] for name in names}


def _environment(workers: ast.expr | None) -> dict[str, str]:
    number = workers.value if isinstance(workers, ast.Constant) else _USUAL_WORKERS
    if not isinstance(number, int) or number < 1:
        number = _USUAL_WORKERS
    threads = usual_threads(os.environ, len(shares_of_cores(number)[0]))
    return {**os.environ, **alike(os.environ, threads)}
