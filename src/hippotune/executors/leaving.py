"""How forked programs end: without taking apart what they were forked with.

An interpreter that ends frees every object of every module. With torch that takes longer than many a stage: a
fork copies all the memory for it first.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import threading
import weakref
from contextlib import suppress
from typing import NoReturn

_BUFFERS = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
_frozen_files: weakref.WeakSet[io.IOBase] = weakref.WeakSet()


def freeze() -> None:
    """Have the garbage collector leave alone what was imported, which stays; files are still found."""
    _frozen_files.update(_open_files())
    gc.freeze()


def leave(status: int = 0) -> NoReturn:
    """End this process at once, without waiting for other threads; files are written to their end.

    They may hold what trials wrote that ended well.
    """
    try:
        for file in (sys.stdout, sys.stderr, *_frozen_files, *_open_files()):
            with suppress(Exception):
                file.flush()
    finally:
        os._exit(status)


def leave_well() -> NoReturn:
    """End as a program does whose last line was reached.

    Threads are waited for, exit handlers run, and what is in reference cycles is freed.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    for file in (*_frozen_files, *_open_files()):
        if not isinstance(file, _BUFFERS) and file not in (sys.stdin, sys.stdout, sys.stderr):
            with suppress(Exception):  # a compressed file has an end of its own
                file.close()
    leave()


def _open_files() -> list[io.IOBase]:
    # By type alone: objects that stand for others would make those.
    return [found for found in gc.get_objects() if issubclass(type(found), io.IOBase)]
