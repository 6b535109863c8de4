"""A study whose tuner runs on the server: submitted, followed until its end is recorded, and reported."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from hippotune.executors.shipping import dumped
from hippotune.identity.fingerprint import parts_of_object
from hippotune.protocol.wire import decode_value
from hippotune.serve.client.api import Api, Event
from hippotune.serve.client.code import in_reach, send
from hippotune.serve.client.connection import RemoteConnection
from hippotune.serve.client.facts import ServedLog
from hippotune.serve.client.waiting import ServerLost
from hippotune.serve.definition import PlanOpened, Submission, TunerSpec
from hippotune.serve.records import StudyLine, StudyRecord
from hippotune.serve.reports import report_of
from hippotune.shell.interrupts import ending_in_order
from hippotune.sinks.base import Sink
from hippotune.store.base import Store
from hippotune.study.feeding import Feeds
from hippotune.study.limits import Limits
from hippotune.study.report import Report
from hippotune.study.tuning import NO_LIMITS
from hippotune.tuners.base import Tuner
from hippotune.view import Snapshot, View, open_view

if TYPE_CHECKING:
    from hippotune.study.study import Study


def tune_there(
    study: Study, tuner: Tuner, limits: Limits, show: bool | None, sinks: Sequence[Sink] = ()
) -> Report:
    """Have a server tune a study, and wait for its end; `sinks` are fed from here."""
    connection = RemoteConnection.of(study)
    api = connection.api
    was_sent = False

    def left() -> str:
        again = f"hippo attach {shlex.quote(study.name)} --url {shlex.quote(api.url)}"
        if not was_sent:
            return f"left before the server at {api.url} had study {study.name!r}: run the same again"
        if api.outage.is_away:
            return f"left; study {study.name!r} goes on when a server is at {api.url} again: {again}"
        return f"left; study {study.name!r} goes on at {api.url}: {again}"

    with ending_in_order(left), open_view(show) as view:
        connection.notes.clear()  # those of the plan: the tuner's process tells them
        send_study(connection, tuner, limits=limits)
        was_sent = True
        for text in connection.notes:
            view.note(text)
        connection.notes.clear()
        feeds = _feeds(study, connection, sinks)
        with feeds.fed():
            record = follow(api, study.name, view)
            report = report_of(api, record, connection.models)
        feeds.finish(report._best, is_away=True)
        connection.warn(view)
        return report


def _feeds(study: Study, connection: RemoteConnection, sinks: Sequence[Sink]) -> Feeds:
    key = ""
    if sinks:
        opened: PlanOpened = connection.api.call("POST", "/plans", connection.definition, PlanOpened)
        key = opened.key

    def log() -> AbstractContextManager[Store]:
        return nullcontext(ServedLog(connection.api, key))

    return Feeds(sinks, log, study.name, key, study.share, connection.warnings.append)


def send_study(
    connection: RemoteConnection,
    tuner: Tuner,
    described: dict[str, Any] | None = None,
    limits: Limits = NO_LIMITS,
) -> StudyLine:
    """Submit a study to a server; a tuner that is described as data is no code."""
    study = connection.study
    connection.forget_definition()
    definition = connection.definition
    content = (
        None if described is not None else dumped(tuner, definition.code.by_value, in_reach(definition.code))
    )
    tuned = TunerSpec(
        metric=tuner.metric,
        mode=tuner.mode,
        tuner=parts_of_object(tuner),
        digest=None if content is None else send(connection.api, content),
        described=described,
        seconds=limits.seconds,
        worker_seconds=limits.worker_seconds,
        defaults=study.defaults.to_json(),
        trunks=tuple(trunk.to_json() for trunk in study._trunks),
        keep_best=study.keep_best,
    )
    line: StudyLine = connection.api.call(
        "PUT", address(study.name), Submission(definition, tuned), StudyLine
    )
    return line


def address(name: str) -> str:
    """Return where a study is found on a server."""
    return f"/studies/{quote(name, safe='').replace('.', '%2E')}"  # .. would be the address above


def follow(api: Api, name: str, view: View) -> StudyRecord:
    """Show how a study goes until its end is recorded."""
    after = 0
    with api.new_pause() as pause:
        while True:
            try:
                for event in api.events(f"{address(name)}/events", str(after)):
                    pause.over()
                    after = _shown(event, view, after)
                record: StudyRecord = api.call("GET", address(name), None, StudyRecord)
                if record.state != "running":
                    return record
                raise ServerLost("the server ends the stream of a study")
            except ServerLost as error:
                after = 0
                time.sleep(pause.next(error))


def _shown(event: Event, view: View, after: int) -> int:
    if event.kind == "pulse":
        if event.data != "null" and not view.is_silent:
            view.show(decode_value(event.data, Snapshot))
        return after
    for item in msgspec.json.decode(event.data):
        if item.get("type") == "note":
            view.note(item["text"])
    return int(event.number)


def stop(api: Api, name: str) -> None:
    """End a study where it is."""
    api.call("DELETE", address(name))
