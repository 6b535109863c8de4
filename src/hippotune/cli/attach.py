"""``hippo attach STUDY``: watch a study that a server tunes."""

from __future__ import annotations

import argparse

from hippotune.cli.command import Commands, add_command
from hippotune.cli.server import add_server, url_of

_DESCRIPTION = """\
Watch a study that a server tunes, until it ends, and print its report. Ctrl-C stops watching: the
study goes on."""

_EXAMPLES = """\
examples:
  hippo attach digits                            on the server that has .hippo
  hippo attach digits --url http://host:8477     on another one"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "attach", "watch a study on a server", _DESCRIPTION, _EXAMPLES, run)
    parser.add_argument("study", metavar="STUDY", help="the name of a study that was submitted")
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show progress on standard error (default)"
    )
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Follow, and report."""
    return attach(url_of(options), options.study, options.progress)


def attach(url: str, study: str, progress: bool | None) -> int:
    """Follow a study to its end, and print its report."""
    from hippotune.cli.run import tell_failures
    from hippotune.serve.client.api import Api
    from hippotune.serve.client.following import follow
    from hippotune.serve.reports import report_of
    from hippotune.view import open_view

    api = Api(url)
    api.reach()
    with open_view(progress) as view:
        record = follow(api, study, view)
    report = report_of(api, record, None)
    print(report)
    return tell_failures(report)
