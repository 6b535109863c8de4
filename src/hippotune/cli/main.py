"""The command ``hippo``: finds the command that is meant, and says what went wrong in words for a person.

Exit status: 0 done; 1 the user's own code raised, a check has found something, or the output was closed;
2 the request cannot be met, as the message says; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import hippotune as hippo
from hippotune.cli.script import ScriptError
from hippotune.errors import HippoError, TrainerError

COMMANDS = (
    "init",
    "run",
    "plan",
    "check",
    "serve",
    "submit",
    "attach",
    "stop",
    "ls",
    "show",
    "log",
    "export",
    "retry",
    "gc",
    "doctor",
    "backup",
)
"""The modules of the commands. Only the one that is meant is imported: none waits for what others need."""

_DESCRIPTION = """\
Hyper-parameter studies that train every shared prefix once.

Every FILE is a Python file that defines `study` (a hippo.Study) and `tuner` (such as
hippo.SuccessiveHalving), or a TOML file that describes both. Arguments after -- are passed on to it.
Every STUDY is the name of a study that has been run."""

_EPILOG = """\
examples:
  hippo init                   write a study to start from
  hippo plan digits.py         what would be shared and what it would cost; trains nothing
  hippo check digits.py        whether trials can be cut and moved without changing a bit
  hippo run digits.py          train; after an interruption, the same command goes on
  hippo submit digits.py       the same by a server, in the background; hippo attach digits shows it
  hippo ls                     the studies that have been run
  hippo show digits            what came of one of them
  hippo log digits --to tensorboard:runs    the same in TensorBoard, MLflow, W&B or Trackio
  hippo retry digits           try its failed and suspended trials again
  hippo run --help             all about one command"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    own, arguments = _split(given)
    parser = make_parser(own[:1] if own and own[0] in COMMANDS else COMMANDS)
    options, unknown = parser.parse_known_args(own)
    if unknown:
        own_of_file = f"; arguments of FILE itself come after --, as in -- {' '.join(unknown)}"
        hint = own_of_file if hasattr(options, "takes_arguments") else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if options.command is None:
        parser.print_help()
        return 2
    if arguments is not None and not hasattr(options, "takes_arguments"):
        parser.error("only commands that take a FILE take arguments after --")
    options.arguments = arguments or []
    before = sys.argv
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show, warnings.showwarning)
            status: int = options.command(options)
        sys.stdout.flush()
        return status
    except ScriptError as error:
        print(error, file=sys.stderr)
        return 1
    except TrainerError as error:
        gap = "\n" if str(error).startswith("Traceback") else " "
        print(f"hippo: nothing can be trained:{gap}{error}", file=sys.stderr)
        return 2
    except HippoError as error:
        print(f"hippo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("hippo: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        sys.argv = before


def _show(
    show: Callable[..., None], message: Warning | str, category: type[Warning], filename: str, *others: Any
) -> None:
    """Show a warning: one of Hippo's own as a message like any other, without a line of its source."""
    if Path(filename).is_relative_to(Path(__file__).parents[1]):
        print(f"hippo: {message}", file=sys.stderr)
    else:
        show(message, category, filename, *others)


def _split(given: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return Hippo's own arguments, and those of the user's file: all after ``--``."""
    if "--" not in given:
        return list(given), None
    place = list(given).index("--")
    return list(given[:place]), list(given[place + 1 :])


def make_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Make the parser with these commands."""
    parser = argparse.ArgumentParser(
        prog="hippo",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hippo {hippo.__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in names:
        import_module(f"hippotune.cli.{name}").add_to(commands)
    return parser
