"""Things of the operating system and of libraries in C that cannot be copied: refused by path, or exact."""

from __future__ import annotations

import contextlib
import ctypes
import io
import mmap
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Iterator

from exactness_trainers.base import Plain


class _Resource(Plain):
    cause = "open files, sockets and threads"
    expect = "named"


class OpenFile(_Resource):
    """A file that is open for writing."""

    named = "file"

    def start(self) -> None:
        self.file = tempfile.TemporaryFile("w+")  # noqa: SIM115

    def amount(self) -> float:
        self.file.write("xx")
        return self.file.tell()


class OpenFileInObject(_Resource):
    """A file that is open for writing, inside an object."""

    named = "writer"

    def start(self) -> None:
        self.writer = {"stream": [tempfile.TemporaryFile("wb")]}  # noqa: SIM115

    def amount(self) -> float:
        stream = self.writer["stream"][0]
        stream.write(b"xxx")
        return stream.tell()


class OpenFileForReading(_Resource):
    """A file that is read from line by line."""

    expect = "either"
    named = "file"

    def start(self) -> None:
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write("".join(f"{number}\n" for number in range(1, 20)))
        self.file = open(file.name)  # noqa: SIM115

    def amount(self) -> float:
        return float(self.file.readline())


class TextInMemory(_Resource):
    """A StringIO and a BytesIO, with their places."""

    expect = "exact"

    def start(self) -> None:
        self.text, self.bytes = io.StringIO("abcdefgh"), io.BytesIO()

    def amount(self) -> float:
        self.bytes.write(self.text.read(1).encode() * 2)
        return sum(self.bytes.getvalue()) / 100


class Socket(_Resource):
    """A pair of sockets with bytes on their way."""

    named = "ends"

    def start(self) -> None:
        self.ends = socket.socketpair()
        self.ends[0].sendall(b"\x01")

    def amount(self) -> float:
        (number,) = self.ends[1].recv(1)
        self.ends[0].sendall(bytes([number + 1]))
        return number


class Database(_Resource):
    """A database in memory."""

    named = "database"

    def start(self) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("create table counts (number)")

    def amount(self) -> float:
        self.database.execute("insert into counts values (2)")
        return self.database.execute("select sum(number) from counts").fetchone()[0]


class MappedMemory(_Resource):
    """An anonymous memory map."""

    expect = "either"
    named = "memory"

    def start(self) -> None:
        self.memory = mmap.mmap(-1, 16)

    def amount(self) -> float:
        self.memory[0] += 1
        return self.memory[0]


class CStructure(_Resource):
    """A buffer of ctypes."""

    expect = "either"
    named = "buffer"

    def start(self) -> None:
        self.buffer = (ctypes.c_int * 4)()

    def amount(self) -> float:
        self.buffer[1] += 1
        return self.buffer[1]


class RunningThread(_Resource):
    """A thread that has ended, with its result."""

    expect = "either"
    named = "thread"

    def start(self) -> None:
        self.count = 0

    def amount(self) -> float:
        self.thread = threading.Thread(target=self.add)
        self.thread.start()
        self.thread.join()
        return self.count

    def add(self) -> None:
        self.count += 1


class ExitCallbacks(_Resource):
    """An ExitStack with callbacks."""

    expect = "either"
    named = "stack"

    def start(self) -> None:
        self.stack, self.step, self.count = contextlib.ExitStack(), 0, 0

    def amount(self) -> float:
        self.stack.callback(self.add)
        self.step += 1
        if self.step % 3 == 0:
            self.stack.close()
        self.count += 1
        return self.count

    def add(self) -> None:
        self.count += 2


class Coroutine(_Resource):
    """A coroutine that has begun."""

    named = "coroutine"

    def start(self) -> None:
        async def counting() -> None:
            for number in range(100):
                self.count = number
                await Pause()

        self.count = 0
        self.coroutine = counting()

    def amount(self) -> float:
        self.coroutine.send(None)
        return self.count


class Pause:
    def __await__(self) -> Iterator[None]:
        yield
