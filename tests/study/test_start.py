"""Weights to start from: where they are found, what is read, and what does not fit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from hippotune.errors import CheckpointError, InvalidInput, TrainerError
from hippotune.study.start import find_start
from hippotune.trainers.starting import load_modules

CONTENT = b"weights" * 100


class Answers(BaseHTTPRequestHandler):
    """Sends all of the content, or breaks off."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:50] if "broken" in self.path else CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_url_is_fetched_once_and_counts_by_its_content(tmp_path: Path, url: str) -> None:
    (tmp_path / "copy.pt").write_bytes(CONTENT)
    fetched, copy = (find_start(given, tmp_path) for given in (f"{url}/whole.pt", tmp_path / "copy.pt"))
    assert fetched is not None
    assert copy is not None
    assert fetched.digest == copy.digest
    assert fetched.path.read_bytes() == CONTENT


def test_what_arrives_only_in_part_is_not_taken(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be fetched: .*got only 50 out of 700 bytes"):
        find_start(f"{url}/broken.pt", tmp_path)
    assert not list((tmp_path / "starts").iterdir())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("nothing.pt", "does not exist"),
        ("ftp://host/x.pt", "expected a path, or a URL of"),
        ("", "expected the"),
    ],
)
def test_what_is_no_start_is_named(tmp_path: Path, given: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        find_start(given, tmp_path)


@pytest.mark.parametrize("name", ["text.pt", "text.safetensors"])
def test_a_file_that_holds_no_weights_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("hello")
    start = find_start(tmp_path / name, tmp_path)
    assert start is not None
    with pytest.raises(TrainerError, match=r"text.*cannot read.*Expected the state_dict"):
        start.load()
    (tmp_path / name).write_text("something else")
    with pytest.raises(CheckpointError, match="has changed since the study was opened"):
        start.load()


def test_tied_weights_may_be_in_a_file_once(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    save_file({"0.weight": torch.eye(2)}, tmp_path / "tied.safetensors")
    start = find_start(tmp_path / "tied.safetensors", tmp_path)
    assert start is not None
    load_modules({"model": model}, start.load())
    assert torch.equal(model[1].weight, torch.eye(2))
    with pytest.raises(
        TrainerError, match=r"keys are 1 missing \('weight'\) and 1 unexpected \('0.weight'\)"
    ):
        load_modules({"model": nn.Linear(2, 2, bias=False)}, start.load())
