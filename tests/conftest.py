"""What holds for all tests: Ctrl-C reaches the programs they start, and nothing fails for being slow."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import order
from forked import Interpreter, interpreter
from hippotune.executors.local import fork_server
from hippotune.gc_pause import gc_paused
from s3 import Server, s3_server

# Where tests are started in the background, programs that they start would not hear Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Threads of one process that wait for each other make it crawl where other processes want the cores too. What
# tests train is small. Set before anything imports torch or NumPy, and inherited by all that tests start.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Tests start interpreters by the hundred: what these import is compiled once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Ray sends no reports, and does not measure its own processes over and over. Set once for all tests, because
# processes with other variables do not share what they have imported.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("REPORTER_UPDATE_INTERVAL_MS", "600000")
# By itself it gives way to all else on a busy machine, and hardly gets on.
os.environ.setdefault("RAY_worker_niceness", "0")
# It starts workers ahead that no test uses.
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")

# Studies of many tests follow each other in one process: what their workers import is imported once.
fork_server.IDLE_SECONDS = 120.0

# How long an example takes says something about the machine, not about the code. Every run draws other
# examples; `pytest --hypothesis-profile=thorough` draws many.
settings.register_profile(
    "hippo",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", settings.get_profile("hippo"), max_examples=1000)
settings.load_profile("hippo")


class _ByGroup(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return order.group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Run each group of tests in one process, in the order of collection."""
    config.option.loadscopereorder = False
    return _ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with what takes longest."""
    items.sort(key=lambda item: order.rank(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import without the garbage collector, which takes a third of the time, and finds nothing."""
    with gc_paused():
        return (yield)


def pytest_collection_finish() -> None:
    """Keep what all tests have imported, which stays, out of the garbage collector's sight.

    Of the rest, most is freed without it: it need not look a hundred times in a test.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture
def unrehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have studies prove nothing: for tests about other things, whose trainers take long to load."""
    monkeypatch.setattr("hippotune.study.opening.ProofPolicy", lambda *_: None)


@pytest.fixture(scope="module")
def forking() -> Iterator[Interpreter]:
    """An interpreter that has imported Hippo, and forks programs."""
    with interpreter() as made:
        yield made


@pytest.fixture(scope="session")
def running_s3() -> Iterator[Server]:
    """An S3 server for all tests."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(running_s3: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The S3 server, found by clients in their environment."""
    for name, value in running_s3.environment.items():
        monkeypatch.setenv(name, value)
    return running_s3


@pytest.fixture(autouse=True)
def same_search_path() -> Iterator[None]:
    """Leave modules where they are found: workers search where this process does."""
    path = list(sys.path)
    yield
    sys.path[:] = path
