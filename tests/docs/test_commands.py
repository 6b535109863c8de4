"""Commands on the pages are commands that there are, with arguments that they take."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from docs.pages import PAGES, ROOT, blocks_of
from hippotune.cli.described import described
from hippotune.cli.main import COMMANDS, _split, make_parser

PARSER = make_parser()
(SUBPARSERS,) = (action.choices for action in PARSER._actions if action.choices and "run" in action.choices)  # type: ignore[operator]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
ELSEWHERE = {"mkdir", "ln", "pg_dump", "kubectl"}
"""What is no program of this project."""


def lines(page: str) -> list[list[str]]:
    """Return the commands of a page's blocks, split into words."""
    found = [line for block in blocks_of(page, "sh") for line in block.text.splitlines()]
    return [shlex.split(part, comments=True) for line in found for part in line.split("&&")]


def mentions(page: str) -> list[list[str]]:
    """Return the commands that the page's text mentions, split into words."""
    text = re.sub(r"^```.*?^```$", "", PAGES[page].read_text(), flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`((?:hippo|make|pip|python|\.venv/bin/\w+) [^`]+)`", text)
    return [shlex.split(span.replace("\n", " ")) for span in spans]


def check(words: list[str]) -> None:
    """Check a command of a block: all of it."""
    program, *arguments = words
    if program == "hippo":
        own, _ = _split(arguments)
        PARSER.parse_args(own)
    else:
        check_mention(words)


def check_mention(words: list[str]) -> None:
    """Check a command that may be mentioned in part."""
    program, *arguments = words
    program = program.removeprefix(".venv/bin/")
    own, _ = _split(arguments)
    if program == "hippo":
        assert own[0] in COMMANDS
        known = SUBPARSERS[own[0]]._option_string_actions
        assert not [word for word in own[1:] if word.startswith("-") and word not in known]
    elif program == "make":
        assert arguments[0] in TARGETS
    elif program == "pip":
        (wanted,) = arguments[1:]
        extras = re.fullmatch(r"(?:hippotune|\.)\[([\w,]+)\]", wanted)
        assert not extras or set(extras[1].split(",")) <= set(EXTRAS)
    elif program in ("python", "pytest"):
        assert arguments[0] == "FILE" or (ROOT / arguments[0]).exists()
    else:
        assert program in {*ELSEWHERE, "pre-commit"}


@pytest.mark.parametrize("page", [page for page in PAGES if lines(page)])
def test_commands_in_blocks_are_understood(page: str) -> None:
    for words in lines(page):
        check(words)


def test_commands_in_the_text_are_understood() -> None:
    found = [words for page in PAGES for words in mentions(page)]
    assert len(found) > 30
    for words in found:
        check_mention(words)


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    kinds = {block.language for page in PAGES for block in blocks_of(page)}
    assert kinds == {"python", "sh", "text", "toml", "yaml", "ini"}
    fences = sum(len(re.findall(r"^ *```\w", path.read_text(), re.MULTILINE)) for path in PAGES.values())
    assert fences == sum(len(blocks_of(page)) for page in PAGES)


def test_the_study_in_toml_is_one(tmp_path: Path) -> None:
    (block,) = blocks_of("studies", "toml")
    (tmp_path / "study.toml").write_text(block.text)
    (tmp_path / "digits.py").write_text("import hippotune\n\n\nclass Digits(hippotune.Trainer): ...\n")
    study, tuner = described(tmp_path / "study.toml")
    assert study.name == "study"
    assert len(list(tuner.configs())) == 6


def test_what_is_shown_of_other_programs_can_be_read() -> None:
    (job,) = blocks_of("ray", "yaml")
    assert yaml.safe_load(job.text)["kind"] == "RayJob"
    (unit,) = blocks_of("server", "ini")
    parser = configparser.ConfigParser()
    parser.read_string(unit.text)
    program, *arguments = shlex.split(parser["Service"]["ExecStart"])
    assert program.endswith("/hippo")
    PARSER.parse_args(arguments)
