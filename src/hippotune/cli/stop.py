"""``hippo stop [STUDY]``: stop a study on a server, or the server."""

from __future__ import annotations

import argparse

from hippotune.cli.command import Commands, add_command
from hippotune.cli.server import add_server, url_of

_DESCRIPTION = """\
Stop a study that a server tunes. What it has trained is kept; submit it again to go on. Without
STUDY, stop the server: what runs is saved, and the next server goes on."""

_EXAMPLES = """\
examples:
  hippo stop digits                            a study on the server that has .hippo
  hippo stop --url http://host:8477            the server itself"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "stop", "stop a study or a server", _DESCRIPTION, _EXAMPLES, run)
    parser.add_argument("study", metavar="STUDY", nargs="?", help="the name of a study that was submitted")
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Stop what is meant."""
    from hippotune.serve.client.api import Api
    from hippotune.serve.client.following import stop

    url = url_of(options)
    api = Api(url)
    if options.study is None:
        api.call_once("POST", "/stop")
        print(f"the server at {url} saves what runs, and ends")
    else:
        stop(api, options.study)
        print(f"stopped: {options.study}")
    return 0
