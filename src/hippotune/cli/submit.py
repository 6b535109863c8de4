"""``hippo submit FILE``: have a server tune a study, or a Ray cluster run it as a job."""

from __future__ import annotations

import argparse
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.cli.command import Commands, add_command, add_file
from hippotune.cli.script import load
from hippotune.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from hippotune.study.study import Study

_DESCRIPTION = """\
Have a server tune the study that FILE defines, in the background: this terminal may be closed.
Where no server has the study's home, one is started on this machine, with as many workers as the
study has, and with its store.

With --ray, FILE and what lies beside it are sent to a Ray cluster instead, and run there as a Ray
job. Folders named .hippo and large files stay here; the study's home has to last longer than the
job: a folder that all nodes see, or an object store."""

_EXAMPLES = """\
examples:
  hippo submit digits.py                             to the server that has the study's home
  hippo submit digits.py --url http://host:8477      to another one
  hippo submit digits.py --follow                    and watch it
  hippo submit --ray http://head:8265 digits.py      as a job of a Ray cluster
  hippo submit --ray http://head:8265 digits.py --pip scikit-learn mlxtend"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands, "submit", "have a server or a cluster run a study", _DESCRIPTION, _EXAMPLES, submit
    )
    add_file(parser)
    parser.add_argument("--url", metavar="URL", help="the server, such as http://host:8477")
    parser.add_argument("--follow", action="store_true", help="watch the study until it ends")
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="send it to the Ray cluster with this dashboard, such as http://head:8265",
    )
    parser.add_argument(
        "--pip",
        nargs="+",
        default=[],
        metavar="PACKAGE",
        help="with --ray: install these packages on its nodes",
    )


def submit(options: argparse.Namespace) -> int:
    """Submit a study, and say how to follow it."""
    if options.ray is not None:
        from hippotune.cli.ray_job import submit_to_ray

        return submit_to_ray(options)
    try:
        from hippotune.serve.client.connection import RemoteConnection
        from hippotune.serve.client.following import send_study
    except ImportError as error:
        raise MissingExtra("hippo submit needs the extra serve: pip install 'hippotune[serve]'") from error

    script = load(options.file, options.arguments, options.module)
    study = script.study
    url = options.url or study._url or _server_of(study)
    connection = RemoteConnection(study, url)
    connection.api.reach()
    send_study(connection, script.tuner, _description(options.file))
    where = f"--url {shlex.quote(url)}"
    print(f"submitted: {study.name} to {url}")
    for text in (*connection.notes, *connection.warnings):
        print(text)
    print(f"to follow it: hippo attach {shlex.quote(study.name)} {where}")
    print(f"to stop it:   hippo stop {shlex.quote(study.name)} {where}")
    if options.follow:
        from hippotune.cli.attach import attach

        return attach(url, study.name, None)
    return 0


def _server_of(study: Study) -> str:
    """Return the server that has a study's home, or start one with the study's workers and store."""
    from hippotune.cli.server import start_server
    from hippotune.store.served import served_at

    url = served_at(study.home)
    if url:
        return url
    url = start_server(study.home, _executor_of(study), study._storage, study._store_url)
    print(f"started a server for {study.home} at {url}; to end it: hippo stop --url {url}")
    return url


def _executor_of(study: Study) -> str:
    """Return the executor of a study as an argument of ``hippo serve``."""
    from hippotune.executors.local.executor import Local

    executor, what = study.executor, ""
    if type(executor) is not Local:
        what = f"the study's executor ({type(executor).__name__})"
    elif executor.threads is not None or executor.hang_after is not None:
        what = "threads= and hang_after= of the study's executor"
    if what:
        place = f"--home {study._storage or study.home}{' --store URL' if study._store_url else ''}"
        raise InvalidInput(
            f"hippo submit starts a server with hippo.Local(workers=N) and cannot pass on {what}. Start the "
            f"server yourself: hippo serve {place} --executor ray:ADDRESS, or --executor FILE.py:NAME with a "
            "function that returns an executor; then submit with --url"
        )
    return f"local:{executor.workers}"


def _description(file: str) -> dict[str, Any] | None:
    """Return what describes the tuner as data: that of a TOML file."""
    if not file.endswith(".toml"):
        return None
    content = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    return {"space": content.get("space"), "tuner": content.get("tuner")}
