"""The server as HTTP: who may do what, what is too much, and what its document says."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import json
import math
import os
import pickle
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

import hippotune as hippo
from hippotune.errors import HippoError, InvalidInput, StoreError
from hippotune.executors.local.process import said_by
from hippotune.identity.data import data_text
from hippotune.protocol.events import WorkerJoined
from hippotune.serve import health
from hippotune.serve.blobs import Blobs
from hippotune.serve.definition import Code
from hippotune.serve.guard import UserLimits
from hippotune.serve.health import Health
from hippotune.serve.model_routes import sent_file
from hippotune.serve.openapi import document
from hippotune.serve.program import Options, serve
from hippotune.serve.tokens import Tokens, User
from served.serving import Running, serving
from study.walkers import Walker
from waiting import until

TOKENS = {"reader": "r" * 20, "writer": "w" * 20, "boss": "b" * 20}
SUBMISSION = {"study": "x", "code": {"kind": "entry", "trainer": "a.B", "entry": "a:B"}}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "tokens"
    roles = {"reader": "read", "writer": "submit", "boss": "admin"}
    file.write_text("\n".join(f"{name} {roles[name]} {token}" for name, token in TOKENS.items()))
    file.chmod(0o600)
    limits = UserLimits(body_bytes=10_000, code_bytes=1000, sessions=2, studies=0)
    with serving(folder / "home", token_file=file, allow_code=False, limits=limits) as running:
        yield running


def ask(running: Running, method: str, path: str, user: str | None = None, **more: Any) -> httpx.Response:
    headers = {**({"authorization": f"Bearer {TOKENS[user]}"} if user else {}), **more.pop("headers", {})}
    return httpx.request(method, running.url + path, headers=headers, timeout=60, **more)


def test_everything_needs_a_token_that_is_known_and_a_role(guarded: Running) -> None:
    assert ask(guarded, "GET", "/plans").status_code == 401
    wrong = {"authorization": "Bearer " + "x" * 20}
    assert ask(guarded, "GET", "/plans", headers=wrong).status_code == 401
    assert ask(guarded, "GET", "/plans", "reader").json() == []
    assert ask(guarded, "POST", "/plans", "reader", json=SUBMISSION).status_code == 403
    assert ask(guarded, "POST", "/release", "writer").status_code == 403
    assert ask(guarded, "POST", "/release", "boss").status_code == 204


def test_a_token_that_a_process_was_given_ends_with_it() -> None:
    tokens = Tokens()
    token = tokens.issue("kim")
    assert tokens.user(f"Bearer {token}") == User("kim", "submit")
    tokens.revoke(token)
    assert tokens.user(f"Bearer {token}") is None


def test_a_study_of_another_user_is_not_spoken_for(guarded: Running) -> None:
    code = {"kind": "entry", "trainer": "study.walkers.Walker", "entry": "study.walkers:Walker"}
    definition = {"study": "mine", "code": code, "data": "v1"}  # data that has a name is shared
    (key,) = {
        ask(guarded, "POST", "/plans", user, json=definition).json()["key"] for user in ("writer", "boss")
    }

    def begin(user: str, session: str) -> int:
        address = f"/plans/{key}/sessions/{session}"
        return ask(guarded, "PUT", address, user, json={"study": "mine"}).status_code

    assert begin("writer", "one") == 200
    assert begin("boss", "two") == 422
    assert begin("boss", "one") == 422
    assert ask(guarded, "DELETE", f"/plans/{key}/sessions/one", "boss").status_code == 403
    nested: Any = 0.1
    for _ in range(400):
        nested = {"family": "Warmup", "steps": 1, "after": nested}
    asked = {"config": {"lr": nested}, "step": 1}
    assert ask(guarded, "POST", f"/plans/{key}/unshared", "reader", json=asked).status_code in (413, 422)
    for pulses in ("nan", "-1", "soon"):
        address = f"/plans/{key}/sessions/one/items?pulses={pulses}"
        assert ask(guarded, "GET", address, "writer").status_code == 422


def test_a_study_from_before_there_were_tokens_is_taken_up_by_the_first_who_submits_it(
    tmp_path: Path,
) -> None:
    code = {"kind": "entry", "trainer": "study.walkers.Walker", "entry": "study.walkers:Walker"}
    described = {
        "space": {"lr": [0.1], "bs": [16]},
        "tuner": {"kind": "GridSearch", "metric": "loss", "mode": "min", "max_steps": 2},
    }
    submission = {
        "definition": {"study": "old", "code": code, "data": "v1"},
        "tuned": {"metric": "loss", "mode": "min", "described": described},
    }
    with serving(tmp_path / "home") as running:
        assert ask(running, "PUT", "/studies/old", json=submission).json()["user"] == ""
    file = tmp_path / "tokens"
    file.write_text(f"kim submit {TOKENS['writer']}\nlee submit {TOKENS['reader']}\n")
    file.chmod(0o600)
    with serving(tmp_path / "home", token_file=file) as running:
        assert ask(running, "DELETE", "/studies/old", "writer").status_code == 204
        assert ask(running, "PUT", "/studies/old", "writer", json=submission).json()["user"] == "kim"
        refused = ask(running, "PUT", "/studies/old", "reader", json=submission)
        assert (refused.status_code, "'old' belongs to kim" in refused.json()["text"]) == (409, True)
        assert ask(running, "POST", "/studies/old/retry", "reader", json={}).status_code == 403
        until(lambda: ask(running, "GET", "/studies/old", "writer").json()["state"] == "ended")
        assert ask(running, "POST", "/studies/old/retry", "writer", json={}).json() == {"trials": 0}


def test_sessions_and_studies_of_one_user_are_limited(guarded: Running) -> None:
    code = {"kind": "entry", "trainer": "study.walkers.Walker", "entry": "study.walkers:Walker"}
    definition = {"study": "many", "code": code}
    opened = ask(guarded, "POST", "/plans", "boss", json=definition).json()

    def begin(session: str) -> httpx.Response:
        address = f"/plans/{opened['key']}/sessions/{session}"
        return ask(guarded, "PUT", address, "boss", json={"study": "many"})

    assert [begin(each).status_code for each in ("a", "b", "a", "c")] == [200, 200, 200, 429]
    assert "2 sessions of yours" in begin("c").json()["text"]
    ask(guarded, "DELETE", f"/plans/{opened['key']}/sessions/a", "boss")
    assert begin("c").status_code == 200
    described = {"space": {"lr": [0.1]}, "tuner": {"kind": "GridSearch"}}
    tuned = {"metric": "loss", "mode": "min", "described": described}
    submission = {"definition": definition, "tuned": tuned}
    answer = ask(guarded, "PUT", "/studies/many", "boss", json=submission)
    assert (answer.status_code, "0 studies of yours" in answer.json()["text"]) == (429, True)


def test_data_that_has_no_end_is_not_read() -> None:
    with pytest.raises(InvalidInput, match="no plain file"):
        data_text("/dev/zero", Path())


def test_many_clients_of_one_project_begin_at_once(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(50):
            archive.writestr(f"package/module{number}.py", f"number = {number}")
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    blobs = Blobs(tmp_path / "code", allow_code=True)
    blobs.put(digest, file.getvalue())
    code = Code("bundle", "package.B", "package:B", digest)
    with ThreadPoolExecutor(8) as threads:
        parcels = list(threads.map(lambda _: blobs.parcel(code), range(8)))
    assert len(set(parcels)) == 1


def test_what_needs_no_token_tells_nothing_of_studies(guarded: Running) -> None:
    assert ask(guarded, "GET", "/healthz").text == "well\n"
    assert ask(guarded, "GET", "/version").json()["version"] == 1


def test_other_hosts_and_origins_are_refused(guarded: Running) -> None:
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": guarded.url}, 200),
    ):
        assert ask(guarded, "GET", "/plans", "reader", headers=headers).status_code == status
    refusal = ask(guarded, "GET", "/plans", "reader", headers={"host": "evil.example"}).json()["text"]
    assert "not known as 'evil.example'; hippo serve --allow-host" in refusal
    assert "access-control-allow-origin" not in ask(guarded, "GET", "/plans", "reader").headers


def test_a_client_that_is_too_old_is_told_what_to_do(guarded: Running) -> None:
    answer = ask(guarded, "GET", "/version", headers={"hippo-api": "0"})
    assert answer.status_code == 426
    assert "install a newer hippotune" in answer.json()["text"]


def test_what_is_too_large_or_no_json_is_refused_with_words(guarded: Running) -> None:
    large = ask(guarded, "POST", "/plans", "writer", content=b" " * 20_000)
    assert (large.status_code, "bytes" in large.json()["text"]) == (413, True)
    assert ask(guarded, "POST", "/plans", "writer", content=b"{").status_code == 422
    assert ask(guarded, "POST", "/plans", "writer", json={"study": ""}).status_code == 422


def test_too_many_requests_are_asked_to_slow_down(tmp_path: Path) -> None:
    with serving(tmp_path, limits=UserLimits(rate=0.001, burst=3)) as running:
        answers = [ask(running, "GET", "/plans") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_without_allow_code_only_installed_code_is_run(guarded: Running) -> None:
    assert ask(guarded, "PUT", f"/code/{'0' * 64}", "writer", content=b"x").status_code == 403
    pickled = {"kind": "value", "trainer": "a.B", "digest": "0" * 64}
    refused = ask(guarded, "POST", "/plans", "writer", json={"study": "x", "code": pickled})
    assert refused.status_code == 403
    assert "--allow-code" in refused.json()["text"]


class Harmful:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_what_a_client_pickled_is_opened_by_processes_of_their_own_alone(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"__import__('pathlib').Path({str(mark)!r}).write_text(str(__import__('os').getpid()))"
    content = b"cbuiltins\nexec\n(V" + code.encode() + b"\ntR."
    digest = hashlib.sha256(content).hexdigest()
    with serving(tmp_path / "home") as running:
        assert ask(running, "PUT", f"/code/{digest}", content=content).status_code == 204
        assert not mark.exists()
        body = {"study": "x", "code": {"kind": "value", "trainer": "a.B", "digest": digest}}
        answer = ask(running, "POST", "/plans", json=body)
    assert answer.status_code == 422
    assert int(mark.read_text()) != os.getpid()  # the server is on a thread of this process


def test_what_code_of_clients_wrote_is_sent_if_it_is_no_link(tmp_path: Path) -> None:
    secret, link = tmp_path / "secret", tmp_path / "model.pt"
    secret.write_text("secret")
    link.symlink_to(secret)
    with pytest.raises(hippo.HippoError, match="cannot be read"):
        sent_file(link)


def test_a_whole_trainer_is_not_loaded_where_it_could_be_changed_on_its_way() -> None:
    with pytest.raises(HippoError, match="use https, or export the model"):
        hippo.Study("x", Walker, url="http://host.example:1").load({"lr": 0.1, "bs": 16}, 1)


def test_a_worker_is_believed_nothing_but_events(tmp_path: Path) -> None:
    assert said_by(pickle.dumps([WorkerJoined(1)])) == [WorkerJoined(1)]
    with pytest.raises(EOFError, match="no event"):
        said_by(pickle.dumps(Harmful(tmp_path / "mark")))
    assert not (tmp_path / "mark").exists()


def test_addresses_that_others_reach_need_a_token_file_of_the_owner_alone(tmp_path: Path) -> None:
    def options(**more: Any) -> Options:
        return Options(home=tmp_path, make_executor=lambda: hippo.Local(1), **more)

    with pytest.raises(InvalidInput, match="--token-file"):
        serve(options(host="0.0.0.0"), print)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"kim admin {'k' * 20}\n")
    tokens.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        serve(options(token_file=tokens), print)


def test_a_home_that_is_served_is_refused_and_its_server_named(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        with pytest.raises(StoreError, match=running.url):
            hippo.Study("x", Walker, home=tmp_path, executor=hippo.Local(1)).open()
        with pytest.raises(StoreError, match="in use"):
            Running(tmp_path)
    assert "allow-code" not in running.said[0]
    assert any("have a shell here" in line for line in running.said)


def test_the_document_says_what_is_served(guarded: Running) -> None:
    served = ask(guarded, "GET", "/openapi.json").json()
    table = guarded.server.app.table
    assert served == json.loads(json.dumps(document(table)))
    plain = [route for route in guarded.server.app.routed.routes if isinstance(route, Route)]
    routes = {(route.path, method) for route in plain for method in route.methods or ()}
    written = {(path, method.upper()) for path, methods in served["paths"].items() for method in methods}
    assert written == {route for route in routes if route[1] != "HEAD"}
    kept = Path(__file__).parents[2] / "docs" / "openapi.json"
    assert json.loads(kept.read_text()) == served, "run: python docs/make_openapi.py"


def test_health_is_red_while_the_event_loop_lags(guarded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MOST_LAG", -1.0)
    answer = ask(guarded, "GET", "/healthz")
    assert (answer.status_code, "the event loop lags" in answer.json()["text"]) == (503, True)
    monkeypatch.setattr(health, "_MOST_LAG", math.inf)
    assert ask(guarded, "GET", "/healthz").status_code == 200


def test_a_lag_is_what_the_event_loop_takes_longer_than_it_was_asked_to() -> None:
    async def watched(seconds: float) -> Health:
        looking = Health(clock=itertools.count(0.0, seconds).__next__)
        watch = asyncio.create_task(looking.watch())
        while not looking._lags:
            await asyncio.sleep(0)
        watch.cancel()
        return looking

    for lag, is_lagging in ((0.0, False), (health._MOST_LAG - 1, False), (health._MOST_LAG + 1, True)):
        found = asyncio.run(watched(health._LOOK_SECONDS + lag))
        assert (found.lag, found.is_lagging) == (pytest.approx(lag), is_lagging)


def test_health_is_red_while_the_store_does_not_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        until(lambda: ask(running, "GET", "/healthz").status_code == 200)
        for file in tmp_path.glob("plans.sqlite*"):
            file.unlink()
        (tmp_path / "plans.sqlite").mkdir()
        answer = ask(running, "GET", "/healthz")
        assert (answer.status_code, "plans.sqlite" in answer.json()["text"]) == (503, True)


def test_numbers_are_for_prometheus(guarded: Running) -> None:
    ask(guarded, "GET", "/metrics", "reader")  # which is counted when it is answered
    text = ask(guarded, "GET", "/metrics", "reader").text
    assert "hippo_loop_lag_seconds" in text
    assert 'hippo_request_seconds_count{method="GET"' in text


def test_functions_that_json_names_are_not_imported_by_a_server() -> None:
    import subprocess

    code = (
        "from hippotune.sequences.custom import refuse_functions; refuse_functions();"
        "from hippotune import Config; Config.from_json({'lr': {'family': 'Function', 'fn': 'this:s'}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "takes values only" in done.stderr


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(InvalidInput, match="url is 'host:1'"):
        hippo.Study("x", Walker, url="host:1")
    with pytest.raises(HippoError, match="the server has its own"):
        hippo.Study("x", Walker, url="http://host:1", executor=hippo.Local(1))
