"""``hippo init [FILE]``: write a small study that runs, to be changed into one's own."""

from __future__ import annotations

import argparse
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from hippotune.cli.command import Commands, add_command
from hippotune.errors import InvalidInput

_DESCRIPTION = """\
Write a study to start from: a trainer, a space and a tuner, in a file that runs as it is.
With torch installed the trainer is a torch one; --plain needs NumPy alone."""

_EXAMPLES = """\
examples:
  hippo init                   writes study.py
  hippo init spirals.py        another name
  hippo plan study.py          then: what would be shared
  hippo run study.py           and train it"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "init", "write a study to start from", _DESCRIPTION, _EXAMPLES, run)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="study.py", help="the file to write (default: study.py)"
    )
    parser.add_argument("--plain", action="store_true", help="write a trainer that needs no torch")


def run(options: argparse.Namespace) -> int:
    """Write the file, where there is none yet."""
    file = Path(options.file)
    if file.suffix != ".py":
        raise InvalidInput(f"FILE is {options.file!r}; expected the name of a Python file, such as study.py")
    kind = "plain" if options.plain or find_spec("torch") is None else "torch"
    template = (files("hippotune.cli") / "templates" / f"{kind}_study.py").read_text()
    try:
        with file.open("x") as new:
            new.write(template.replace("{study}", file.stem).replace("{file}", str(file)))
    except FileExistsError:
        raise InvalidInput(f"{file} exists already and was left as it is; give another name") from None
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None
    print(f"wrote {file}. Next:\n  hippo plan {file}\n  hippo run {file}")
    return 0
