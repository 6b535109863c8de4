"""What commands have in common: how they are added to the parser, and the arguments that many take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hippo.store.catalog import Catalog

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Run = Callable[[argparse.Namespace], int]


def add_command(
    commands: Commands, name: str, summary: str, description: str, examples: str, run: Run
) -> argparse.ArgumentParser:
    """Add a command; return its parser, for its arguments."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=run)
    return parser


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the argument FILE."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a Python file that defines `study` and `tuner`"
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the store is; `open_catalog` opens it."""
    parser.add_argument(
        "--home",
        metavar="FOLDER",
        type=Path,
        default=Path(".hippo"),
        help="the home of the studies (default: .hippo)",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="the database of the studies, such as postgresql://…, where it is not below their home",
    )


def open_catalog(options: argparse.Namespace) -> Catalog:
    """Open the store that the arguments name; nothing is made where there is none."""
    from hippo.store.catalog import open_store

    return open_store(options.home, options.store, create=False)


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a study of the store."""
    parser.add_argument("study", metavar="STUDY", help="the name of a study, as hippo ls shows it")
    parser.add_argument(
        "--plan",
        metavar="ID",
        help="what the study has in this plan, instead of the one that it used last",
    )
    add_store(parser)


def whole_number(text: str) -> int:
    """Read an argument that is a whole number from 1 on."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return number
