"""The server's log: lines are written together, in order, whatever becomes of what they are written to."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from hippotune.serve.log import BatchHandler


@pytest.fixture
def logger() -> logging.Logger:
    made = logging.Logger("test")
    made.propagate = False
    return made


def test_lines_are_written_together_and_in_order(logger: logging.Logger) -> None:
    stream = io.StringIO()
    logger.addHandler(handler := BatchHandler(stream))
    for number in range(3):
        logger.info("request %d", number)
    assert stream.getvalue() == ""
    handler.flush()
    handler.flush()
    assert stream.getvalue() == "request 0\nrequest 1\nrequest 2\n"


def test_a_log_that_cannot_be_written_ends_nothing(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    logger.addHandler(handler := BatchHandler(closed))
    logger.info("request")
    handler.flush()
    assert "closed file" in capsys.readouterr().err


def test_the_last_lines_are_written_at_the_end_of_the_process() -> None:
    script = """
import logging
from hippotune.serve.log import log_to_stderr
log_to_stderr()
logging.getLogger("hippotune.serve").info("the last line")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("INFO the last line\n")
