"""How exceptions of user code are described."""

from __future__ import annotations

from hippotune.executors.worker.tracebacks import describe


def test_a_message_that_holds_a_whole_batch_is_shortened() -> None:
    try:
        raise ValueError("a batch: " + "0.5 " * 1_000_000 + "\nrow" * 100_000 + "\nthe end")
    except ValueError as error:
        text = describe(error)
    assert "ValueError: a batch: 0.5 0.5" in text
    assert "lines left out]" in text
    assert text.endswith("\nthe end")
    assert len(text) < 20_000
