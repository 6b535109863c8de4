"""The program of a study's tuner on a server: ``python -m hippotune.serve.tuner``.

It gets the study and the trainer's parcel on its standard input, as workers do, and is then a client of the
server like any other. What goes on is posted for those who watch; the end is recorded before it ends.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from hippotune.errors import HippoError
from hippotune.executors.shipping import unpack
from hippotune.executors.worker.tracebacks import describe
from hippotune.protocol.wire import encode_value
from hippotune.sequences.config import Config
from hippotune.sequences.custom import refuse_functions
from hippotune.serve.client.api import Api
from hippotune.serve.client.connection import RemoteConnection
from hippotune.serve.client.following import address
from hippotune.serve.client.waiting import ServerLost
from hippotune.serve.definition import Submission
from hippotune.serve.messages import ErrorBody
from hippotune.serve.records import MOST_NOTES, Ended
from hippotune.serve.reports import ended_of
from hippotune.study.limits import Limits
from hippotune.study.study import Study
from hippotune.study.tune import tune
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Tuner
from hippotune.tuners.described import described_tuner
from hippotune.view.base import View
from hippotune.view.snapshot import Snapshot

_POST_SECONDS = 0.25


class PostedView(View):
    """Posts snapshots and notes to the server, the latest snapshot a few times a second."""

    def __init__(self, api: Api, study: str, spent: Callable[[], float]) -> None:
        self._api = api
        self._spent = spent
        self._address = f"{address(study)}/progress"
        self._snapshot: Snapshot | None = None
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._posted = 0.0

    def note(self, text: str) -> None:
        """Post a text."""
        with self._lock:
            self._notes.append(text)
        self._post()

    def show(self, snapshot: Snapshot) -> None:
        """Post how things are, unless that was done just now."""
        self._snapshot = snapshot
        if time.monotonic() - self._posted >= _POST_SECONDS:
            self._post()

    def _post(self) -> None:
        self._posted = time.monotonic()
        with self._lock:
            notes, self._notes = self._notes[:MOST_NOTES], self._notes[MOST_NOTES:]
        body: dict[str, object] = {"notes": notes}
        if self._snapshot is not None:
            body["snapshot"] = msgspec.Raw(encode_value(self._snapshot))
            body["spent"] = self._spent()
        try:
            self._api.call_once("POST", self._address, body)
        except ServerLost:  # it is said again when the server is back
            with self._lock:
                self._notes = (notes + self._notes)[-MOST_NOTES:]
        except HippoError:  # refused: it would be again
            pass

    def close(self) -> None:
        """Post how things ended."""
        self._post()


def made_study(submission: Submission, trainer: type[Trainer], url: str) -> Study:
    """Make the study that a submission defines, with its tuner in this process."""
    given, tuned = submission.definition, submission.tuned
    return Study(
        given.study,
        trainer,
        **given.arguments,
        keep_best=tuned.keep_best,
        defaults=Config.from_json(tuned.defaults),
        url=url,
        tuner="client",
    )


def run(submission: Submission, trainer: type[Trainer], tuner: Tuner, limits: Limits, api: Api) -> Ended:
    """Tune to the end, and return what came of it."""
    study = made_study(submission, trainer, api.url)
    connection = RemoteConnection.of(study)
    connection.use(api, submission.definition)
    for trunk in submission.tuned.trunks:
        study.trunk(Config.from_json(trunk))
    view = PostedView(api, study.name, lambda: connection.remote.loop.readings.spent(study.name))
    try:
        report = tune(study, tuner, limits, view)
        return ended_of(report, connection.remote.key, connection.remote.first_fact)
    except HippoError as error:
        return Ended(ErrorBody.of(error))
    except Exception as error:
        return Ended(ErrorBody("HippoError", f"the tuner failed:\n{describe(error)}"))
    finally:
        study.close()


def main() -> None:
    """Do what the server asks for."""
    parcel, text, content, limits, (url, token, certificate) = pickle.loads(sys.stdin.buffer.read())
    submission = msgspec.json.decode(text, type=Submission)
    api = Api(url, token, certificate=certificate)
    refuse_functions()
    try:
        trainer = unpack(parcel).opened
        if content is None:
            tuner = described_tuner(submission.tuned.described or {})
        else:
            tuner = pickle.loads(content)
        end = run(submission, trainer, tuner, limits, api)
    except HippoError as error:
        end = Ended(ErrorBody.of(error))
    except Exception as error:
        end = Ended(ErrorBody("HippoError", f"the tuner cannot be loaded:\n{describe(error)}"))
    api.call("POST", f"{address(submission.definition.study)}/end", end)


if __name__ == "__main__":
    main()
