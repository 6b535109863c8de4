"""Programs that open users' code: forked where the system can, else fresh interpreters."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO

from hippotune.executors.kept import Kept, KeptProcess
from hippotune.executors.local import fork_server
from hippotune.executors.local.forked import ForkedProcess


def start_program(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    modules: Sequence[str],
    greeting: object,
    output: IO[bytes],
    user: str | None = None,
) -> Kept:
    """Start the function `main` of a module. It reads `greeting`, pickled; what it prints goes to `output`.

    With `user`, it is a fresh interpreter that runs as that user of the system. Otherwise it is forked off a
    process that has imported `modules`, where the system can do that.

    The thread that starts it has to last as long as the program: see `KeptProcess`.
    """
    with TemporaryFile() as source:
        pickle.dump(greeting, source, protocol=5)
        source.seek(0)
        if user is None and fork_server.is_possible():
            name = f"hippo-{module.rpartition('.')[2]}"
            return ForkedProcess(f"{module}:main", arguments, name, environment, modules, output, source)
        return KeptProcess(module, arguments, environment, output, source, user=user)
