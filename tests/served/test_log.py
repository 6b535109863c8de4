"""The server's log: lines are written together, in order, whatever becomes of what they are written to."""

from __future__ import annotations

import io
import logging

import pytest

from hippotune.serve.log import LinesTogether


@pytest.fixture
def logger() -> logging.Logger:
    made = logging.Logger("test")
    made.propagate = False
    return made


def test_lines_are_written_together_and_in_order(logger: logging.Logger) -> None:
    stream = io.StringIO()
    logger.addHandler(handler := LinesTogether(stream))
    for number in range(3):
        logger.info("request %d", number)
    assert stream.getvalue() == ""
    handler.write()
    handler.write()
    assert stream.getvalue() == "request 0\nrequest 1\nrequest 2\n"


def test_a_log_that_cannot_be_written_ends_nothing(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    logger.addHandler(handler := LinesTogether(closed))
    logger.info("request")
    handler.write()
    assert "closed file" in capsys.readouterr().err
