"""What commands have in common: how they are added to the parser, and the arguments that many take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from hippotune.errors import InvalidInput

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
    """Add the argument FILE, and what says how to read it."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a Python file that defines `study` and `tuner`, or a TOML file that describes them",
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="FILE is the name of a module, as package.module"
    )
    parser.set_defaults(takes_arguments=True)


def whole_number(text: str) -> int:
    """Read an argument that is a whole number from 1 on."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def write_page(path: Path, document: str) -> None:
    """Write a page that stands alone."""
    try:
        path.write_text(document, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {error.strerror or error}") from error
