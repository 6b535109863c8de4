"""Lines between processes on the nodes of a cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from executors.rig import SECONDS
from hippotune.errors import HippoError
from hippotune.executors.local.channel import Channel
from hippotune.executors.ray.network import answer, call, listen

SECRET = b"between us"
Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    with listen("127.0.0.1") as listening, ThreadPoolExecutor() as pool:
        answered = pool.submit(answer, listening, SECRET)
        ours = call(listening.getsockname(), SECRET)
        theirs = answered.result(SECONDS)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_messages_go_both_ways_whole_and_in_order(ends: Ends) -> None:
    ours, theirs = ends
    for sender, receiver in (ours, theirs), (theirs, ours):
        messages = [b"", b"short", b"\0" * 5]
        for message in messages:
            sender.put(message)
        assert [receiver.wait() for _ in messages] == messages
        assert receiver.receive(0) is None


def test_sending_never_waits_for_somebody_who_does_not_listen(ends: Ends) -> None:
    ours, theirs = ends
    messages = [bytes([number]) * (1 << 20) for number in range(32)]  # far more than the system would hold
    for message in messages:
        ours.send(message)
    assert [theirs.wait() for _ in messages] == messages


def test_hanging_up_ends_it_for_both_and_what_is_sent_then_is_lost(ends: Ends) -> None:
    ours, theirs = ends
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(end.wait) for end in ends]
        ours.disconnect()
        for end in waiting:
            assert isinstance(end.exception(SECONDS), EOFError)
    ours.send(b"lost")
    theirs.close()
    theirs.disconnect()


def test_strangers_are_hung_up_on_and_do_not_keep_others_away() -> None:
    with listen("127.0.0.1") as listening, ThreadPoolExecutor() as pool:
        address = listening.getsockname()
        answered = pool.submit(answer, listening, SECRET)
        with ExitStack() as strangers:
            for _ in range(5):  # they say nothing at all
                strangers.enter_context(socket.create_connection(address))
            with pytest.raises(HippoError, match=f"127.0.0.1, port {address[1]} .*ports have to be open"):
                call(address, b"a guess")
            ours = call(address, SECRET)
        theirs = answered.result(SECONDS)
        ours.put(b"hello")
        assert theirs.wait() == b"hello"
        ours.close()
        theirs.close()


@pytest.mark.parametrize("greeting", [b"", b"\0\0\0\5hello", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_who_answers_with_something_else_is_nobody_to_speak_with(greeting: bytes) -> None:
    def greet() -> None:
        caller, _ = listening.accept()
        with caller:
            caller.sendall(greeting)

    with listen("127.0.0.1") as listening, ThreadPoolExecutor() as pool:
        greeted = pool.submit(greet)
        with pytest.raises(HippoError, match="the driver cannot speak with it"):
            call(listening.getsockname(), SECRET)
        greeted.result(SECONDS)


def test_where_nobody_listens_it_is_said_what_has_to_be_open() -> None:
    with listen("127.0.0.1") as listening:
        address = listening.getsockname()
    with pytest.raises(HippoError, match=f"port {address[1]} .*refused.*: between the nodes of a cluster"):
        call(address, SECRET)
