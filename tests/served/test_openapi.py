"""The server keeps to its OpenAPI document, whatever it is asked: schemathesis draws requests from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hippotune import GridSearch, Study
from hippotune.serve.app import document_of_all
from hippotune.serve.client.api import Api
from hippotune.serve.client.connection import RemoteConnection
from hippotune.serve.client.following import follow, send_study
from hippotune.view.base import Silent
from served.serving import Running, serving
from study.walkers import Walker

if TYPE_CHECKING:  # which takes a second, in each process that collects tests
    from schemathesis import Case

DOCUMENT = document_of_all()
# What ends the server is asked by other tests.
OPERATIONS = [
    label
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if (label := f"{method.upper()} {path}") != "POST /stop"
]
# What is asked here starts a process for each request that is as it should be.
STARTS_PROCESSES = {"POST /plans", "PUT /studies/{name}"}
# What is known is still to be known afterwards.
ENDS_WHAT_IS_KNOWN = {"DELETE /plans/{key}/sessions/{id}", "PUT /studies/{name}"}
DESCRIBED = {
    "space": {"lr": [0.1], "bs": [16]},
    "tuner": {"kind": "GridSearch", "metric": "loss", "mode": "min", "max_steps": 2},
}


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    """Return the operations as schemathesis reads them."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(DOCUMENT)
    return {result.ok().label: result.ok() for result in schema.get_all_operations()}


@pytest.fixture(scope="module")
def checks() -> list[Any]:
    """Return what every answer has to pass."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    return [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    """A server with a plan, a session and a study; and what these are called."""
    with (
        serving(tmp_path_factory.mktemp("home"), allow_code=False) as running,
        Study("known", Walker, url=running.url, code="entry") as study,
    ):
        study.eval({"lr": 0.1, "bs": 16}, 2)
        grid = GridSearch({"lr": [0.1], "bs": [16]}, metric="loss", mode="min", max_steps=2)
        send_study(RemoteConnection.of(study), grid, described=DESCRIBED)
        follow(Api(running.url), "known", Silent())
        address = RemoteConnection.of(study).remote.loop.address
        yield running, {"key": study.key.digest, "id": address.rpartition("/")[2], "name": "known"}


def asked(case: Case, url: str) -> requests.Response:
    """Make a request; a stream is let go when its answer begins."""
    given = case.as_transport_kwargs(base_url=url)
    given["headers"].pop("Authorization", None)  # who may do what is the matter of other tests
    with requests.request(**given, stream=True, timeout=60) as answer:
        if "text/event-stream" in answer.headers.get("content-type", ""):
            answer._content = next(answer.iter_content(64))
        else:
            assert answer.content is not None
        return answer


@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_makes_the_server_fail(
    label: str, operations: dict[str, Any], checks: list[Any], served: tuple[Running, dict[str, str]]
) -> None:
    from schemathesis import GenerationMode

    running, names = served
    operation = operations[label]
    cases: Any = st.one_of(
        operation.as_strategy(generation_mode=mode)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    )

    @settings(
        max_examples=8 if label in STARTS_PROCESSES else 30,  # each of them a request, or a process
        phases=[Phase.generate],  # a request that failed is not sent in smaller forms
        derandomize=True,
        suppress_health_check=list(HealthCheck),  # most of what a schema excludes is thrown away
        database=None,
    )
    @given(case=cases, is_unknown=st.integers(0, 4))
    def check(case: Case, is_unknown: int) -> None:
        if is_unknown and label not in ENDS_WHAT_IS_KNOWN:
            parameters = case.path_parameters or {}
            case.path_parameters = {name: names.get(name, given) for name, given in parameters.items()}
            if label.endswith("/messages") and isinstance(case.body, dict) and "first" in case.body:
                address = f"{running.url}/plans/{names['key']}/sessions/{names['id']}/messages"
                taken = httpx.post(address, json={"first": 0, "messages": []}, timeout=60).json()
                case.body["first"] = taken["expected"]
        case.validate_response(asked(case, running.url), checks=checks)

    check()
    assert httpx.get(f"{running.url}/version", timeout=60).status_code == 200
