"""``hippo serve``: a server that has a home and its workers, for many clients."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.cli.command import Commands, add_command
from hippotune.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from hippotune.executors.base import Executor

_DESCRIPTION = """\
Serve the studies of a home: plans, scheduler and workers run here, and clients use them with
Study(url=...) or hippo submit. Studies of one trainer share what they train while they
run, from any client. Ctrl-C or SIGTERM saves what runs; the next server goes on from there."""

_EXAMPLES = """\
a token file has lines of NAME ROLE TOKEN, with a role of read, submit or admin, and mode 600

examples:
  hippo serve --executor local:8                        for this machine's own users
  hippo serve --allow-code                              take trainers that clients send
  hippo serve --host 0.0.0.0 --token-file tokens        for others, each with a token
  hippo serve --executor ray:auto --home /shared/hippo  train on a Ray cluster
  hippo serve --executor workers.py:pool                with the executor that a file makes"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "serve", "serve studies to clients", _DESCRIPTION, _EXAMPLES, run)
    parser.add_argument(
        "--home", metavar="FOLDER", default=".hippo", help="the home, a folder or a URL (default: .hippo)"
    )
    parser.add_argument(
        "--store", metavar="URL", help="the database, postgresql://…, if it is not in the home"
    )
    parser.add_argument(
        "--executor",
        metavar="WHERE",
        default="local:2",
        help="where to train: local:WORKERS, ray:ADDRESS or FILE:NAME (default: local:2)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to serve at (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8477, help="its port (default: 8477; 0 takes any)")
    parser.add_argument(
        "--token-file", metavar="FILE", type=Path, help="the users and their roles; see below"
    )
    parser.add_argument("--allow-code", action="store_true", help="let workers run code that clients send")
    parser.add_argument("--worker-user", metavar="USER", help="run code of clients as this user (needs root)")
    parser.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a further name of this host"
    )
    parser.add_argument("--hold", action="store_true", help="train nothing before POST /release")
    parser.add_argument("--tls-certificate", metavar="FILE", type=Path, help="use TLS, with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its key")


def run(options: argparse.Namespace) -> int:
    """Serve until told to end."""
    try:
        from hippotune.serve.log import log_to_stderr
        from hippotune.serve.program import Options, serve
    except ImportError as error:
        raise MissingExtra("hippo serve needs the extra serve: pip install 'hippotune[serve]'") from error

    log_to_stderr()
    given = Options(
        home=options.home,
        make_executor=executor_factory(options.executor),
        store=options.store,
        host=options.host,
        port=options.port,
        token_file=options.token_file,
        allow_code=options.allow_code,
        worker_user=options.worker_user,
        hold=options.hold,
        allow_hosts=tuple(options.allow_host),
        certificate=options.tls_certificate,
        key=options.tls_key,
    )
    serve(given, lambda text: print(text, flush=True))
    return 0


def executor_factory(text: str) -> Callable[[], Executor]:
    """Return what makes the executor of a plan, from local:8, ray:ADDRESS or FILE:NAME."""
    kind, _, rest = text.partition(":")
    if kind == "local" and rest.isdecimal() and int(rest) > 0:
        from hippotune.executors.local.pool import Pool

        pool = Pool(workers=int(rest))
        return pool.executor
    if kind == "ray":
        from hippotune.executors.ray.executor import Ray

        return lambda: Ray(address=rest or None)
    file, _, name = text.rpartition(":")
    if file.endswith(".py") and name:
        from hippotune.cli.script import run_file

        if not Path(file).is_file():
            raise InvalidInput(f"executor is {text!r}, but there is no file {file}; expected FILE.py:NAME")
        made = getattr(run_file(Path(file)), name, None)
        if not callable(made):
            raise InvalidInput(f"{name} in {file} is {made!r}; expected a function that returns an executor")
        return made  # type: ignore[no-any-return]
    raise InvalidInput(f"executor is {text!r}; expected local:WORKERS, ray:ADDRESS or FILE.py:NAME")
