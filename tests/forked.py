"""Programs in processes of their own, which are forked where what they share has been imported.

An interpreter that imports Hippo takes a quarter of a second, and torch with its optimizers three: a suite
that runs programs by the hundred takes most of its time for that. Here an interpreter imports once, and
forks: each program has its own arguments, environment, folder, output and end. Its workers, too, are forked
off processes that stay from one program to the next; they end with their program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HIPPO = """
import hippotune.cli.main, hippotune.cli.plan, hippotune.cli.run, hippotune.cli.show
import hippotune.executors.local.executor, hippotune.store.sqlite, hippotune.study.study, hippotune.tuners
import rich.console, rich.live, rich.table, rich.tree, sqlalchemy.dialects.sqlite
"""
TORCH = f"{HIPPO}\nimport hippotune.trainers.torch, torch._dynamo"
WORKERS = """
from hippotune.executors.local import fork_server
modules = sorted({"torch", "hippotune.trainers.torch"} & sys.modules.keys())
servers = [fork_server.ForkServer(os.environ, modules, idle=3600) for _ in range(2)]
def use(sockets):
    for server, socket in zip(servers, sockets):
        fork_server.ForkClient.__init__(server, socket)
    workers, fresh = servers
    fork_server.warm_up, fork_server.stand_by = lambda *_: workers, lambda *_: fresh
    fork_server.expect = lambda *_: None
"""

_PROGRAM = """
import atexit, gc, json, os, runpy, sys, threading
gc.disable()
servers = []
exec(sys.argv[1])
gc.freeze()
gc.enable()
while line := sys.stdin.readline():
    folder, program, variables, *streams = json.loads(line)
    sockets = [server.connect() for server in servers]
    if (child := os.fork()) == 0:
        break
    for each in sockets:
        each.close()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    for server in servers:
        server.close()
    sys.exit()
if servers:
    use(sockets)
for descriptor, stream in enumerate(streams):
    os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT), descriptor)
os.chdir(folder)
os.environ.clear()
os.environ.update(variables)
given = variables.get("PYTHONPATH", "").split(os.pathsep)
sys.path[1:1] = [each for each in given if each and each not in sys.path]
if program[0] == "-m":
    sys.path[0], sys.argv[:] = os.getcwd(), program[1:]
    run = runpy.run_module, program[1]
else:
    sys.path[0], sys.argv[:] = os.path.dirname(os.path.abspath(program[0])), program
    run = runpy.run_path, program[0]
def end(status):  # as an interpreter does, but for freeing one by one all objects that it has imported
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

del line, folder, program, variables, streams, child, given, descriptor, stream, sockets
try:
    run[0](run[1], run_name="__main__", **({"alter_sys": True} if run[0] is runpy.run_module else {}))
except SystemExit as exit:
    if not isinstance(exit.code, int | None):
        raise
    end((exit.code or 0) & 255)
end(0)
"""


class Interpreter:
    """An interpreter that has imported, and forks one process after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, *program: str | Path, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script, or ``-m`` a module, with arguments; return how it ended and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [str(word) for word in program]
        with tempfile.TemporaryDirectory() as folder:
            streams = [os.devnull, f"{folder}/output", f"{folder}/errors"]
            order = str(cwd), words, dict(os.environ if env is None else env), *streams
            self._process.stdin.write(f"{json.dumps(order)}\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(
                words, status, *(Path(name).read_text() for name in streams[1:])
            )


@contextmanager
def interpreter(
    imports: str = HIPPO + WORKERS, python: Path | str = sys.executable, env: Mapping[str, str] | None = None
) -> Iterator[Interpreter]:
    """Have an interpreter that imports this, until the end of the block."""
    with subprocess.Popen(
        [python, "-c", _PROGRAM, imports],
        env=None if env is None else dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Interpreter(process)
