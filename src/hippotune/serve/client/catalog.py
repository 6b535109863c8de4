"""The studies of a server, for the command line: read over HTTP, and shown as those of a home are."""

from __future__ import annotations

from collections.abc import Mapping

from hippotune.history.history import History
from hippotune.history.listing import Listed
from hippotune.history.studies import asked_as, chosen_study
from hippotune.serve.bodies import CatalogLine, NodeSteps, Retried, Retry
from hippotune.serve.client.api import Api
from hippotune.serve.client.facts import read_facts
from hippotune.store.catalog import StudyInfo


def remote_listing(url: str) -> list[Listed]:
    """Return the studies of a server in short."""
    return [
        Listed(_info(line), line.trials, line.results, line.bytes, line.best) for line in _lines(Api(url))
    ]


def remote_info(api: Api, name: str, plan: str | None) -> StudyInfo:
    """Return the entry of a study on a server."""
    return chosen_study([_info(line) for line in _lines(api)], name, plan)


def remote_study(url: str, name: str, plan: str | None) -> tuple[StudyInfo, History, list[StudyInfo]]:
    """Read a study of a server, and return its entry, what came of it, and related studies."""
    api = Api(url)
    known = [_info(line) for line in _lines(api)]
    info = chosen_study(known, name, plan)
    related = [each for each in known if (each.name == info.name) != (each.key == info.key)]
    store = read_facts(api, info.key.digest).store
    return info, History(store, *asked_as(info), (info.metric, info.mode)), related


def remote_retry(url: str, name: str, plan: str | None, number: int | None) -> int:
    """Have a server try trials of a study again, all or those with a number; return how many."""
    from hippotune.serve.client.following import address

    api = Api(url)
    info = remote_info(api, name, plan)
    path = f"{address(asked_as(info)[0])}/retry"
    found: Retried = api.call_once("POST", path, Retry(info.key.digest, number), Retried)
    return found.trials


def remote_printed(url: str, info: StudyInfo, reaches: Mapping[int, int]) -> list[str]:
    """Return what training printed along nodes of a study's plan."""
    path = f"/plans/{info.key.digest}/printed"
    lines: list[str] = Api(url).call_once("POST", path, NodeSteps(dict(reaches)), list[str])
    return lines


def _lines(api: Api) -> list[CatalogLine]:
    lines: list[CatalogLine] = api.call_once("GET", "/catalog", None, list[CatalogLine])
    return lines


def _info(line: CatalogLine) -> StudyInfo:
    return StudyInfo(line.name, line.key.made(), line.made, line.used, line.metric, line.mode)
