"""Stores and the studies in them, as arguments of a command."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput, StoreError
from hippotune.history.history import History
from hippotune.history.studies import find_study, listed_as, read_study
from hippotune.study.exports import find_export

if TYPE_CHECKING:
    from hippotune.store.catalog import Catalog, StudyInfo

_HOME = Path(".hippo")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where a store is."""
    parser.add_argument(
        "--home",
        metavar="FOLDER",
        type=_home,
        help=f"the home of the studies, a folder or a URL (default: {_HOME})",
    )
    parser.add_argument(
        "--store", metavar="URL", help="their database, postgresql://…, if it is not in their home"
    )


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says where a server is."""
    parser.add_argument(
        "--url", metavar="URL", help="ask the server at this address instead, such as http://host:8477"
    )


def _home(given: str) -> Path:
    from hippotune.store.homes import parse_home

    return parse_home(given)[0]


def open_catalog(home: Path | None, url: str | None) -> Catalog:
    """Open the store that the arguments name; nothing is made where there is none."""
    from hippotune.store.catalog import open_store

    return open_store(home_of(home), url, create=False)


def home_of(given: Path | None) -> Path:
    """Return the home that is meant."""
    return given or _HOME


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a study of a store."""
    parser.add_argument(
        "study",
        metavar="STUDY",
        help="the name of a study, as hippo ls shows it, or the file that defines it",
    )
    parser.add_argument(
        "--plan", metavar="ID", help="the plan of the study to look at (default: the one that it used last)"
    )
    add_store(parser)
    add_url(parser)


@dataclass(frozen=True, slots=True)
class Stored:
    """A study as it is in its store, with `related` ones: on other plans, and other studies on its plan.

    `exported` is the file to which its best result was exported, where there is one.
    `changes` says what is different in the plan that is shown from each other plan of the study, by digest.
    `home` is where its files are.
    """

    info: StudyInfo
    history: History
    related: list[StudyInfo]
    exported: Path | None
    changes: Mapping[str, list[str]]
    home: Path


def read(options: argparse.Namespace) -> Stored:
    """Read the study that the arguments name."""
    with reading(options) as stored:
        return stored


@contextmanager
def reading(options: argparse.Namespace) -> Iterator[Stored]:
    """Read the study that the arguments name, and keep its store open for what is read when it is asked."""
    if options.url is not None:
        from hippotune.serve.client.catalog import remote_study

        info, history, related = remote_study(options.url, options.study, options.plan)
        yield Stored(info, history, related, None, {}, home_of(None))
        return
    with opened(options) as (catalog, info, home):
        related = [each for each in catalog.studies() if (each.name == info.name) != (each.key == info.key)]
        exported = find_export(home, info.name, info.made)
        changes = _changes(catalog, info, related)
        yield Stored(info, read_study(catalog, info), related, exported, changes, home_of(home))


def named(options: argparse.Namespace) -> tuple[str, Path | None, str | None]:
    """Return the study that the arguments name, with its home and its database: also by its file."""
    name, home, url = options.study, options.home, options.store
    if name.endswith((".py", ".toml")) and Path(name).exists():
        from hippotune.cli.script import load

        study = load(name).study
        name, home, url = listed_as(study.name, study.share), home or study.home, url or study._store_url
    return name, home, url


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[tuple[Catalog, StudyInfo, Path]]:
    """Open the store of the study that the arguments name; yields it, the study's entry, and the home."""
    name, home, url = named(options)
    with open_catalog(home, url) as catalog:
        try:
            yield catalog, find_study(catalog, name, options.plan), home_of(home)
        except StoreError as error:
            if not isinstance(error.__cause__, InvalidInput):
                raise
            # A function as a sequence: it is known where it is defined, and nowhere else.
            raise StoreError(f"{error}; name the file that defines the study in place of {name!r}") from error


def _changes(catalog: Catalog, info: StudyInfo, related: Sequence[StudyInfo]) -> dict[str, list[str]]:
    here = catalog.origin(info.key)
    others = {each.key.digest: catalog.origin(each.key) for each in related if each.name == info.name}
    return {
        digest: there.changes_to(here)
        for digest, there in others.items()
        if there is not None and here is not None
    }
