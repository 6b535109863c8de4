"""A file is read while it is written: all of it, in parts of one length, or not to its end."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.store.growing import UNIT, GrowingFile, Unfinished


@given(st.lists(st.integers(1, 4 * UNIT), min_size=1, max_size=12), st.integers(1, 3), st.booleans())
def test_a_reader_gets_the_parts_as_they_come(
    tmp_path: Path, pieces: list[int], units: int, is_whole: bool
) -> None:
    part = units * UNIT
    path, content = tmp_path / "growing", os.urandom(sum(pieces))
    growing = GrowingFile(str(path), part)
    with ThreadPoolExecutor() as pool, path.open("wb", buffering=0) as file:
        read = pool.submit(list, growing)
        for piece in pieces:
            file.write(content[file.tell() : file.tell() + piece])
            growing.grow(file.tell())
        growing.end(is_whole)
        if is_whole:
            parts = read.result()
            assert b"".join(parts) == content
            assert {len(each) for each in parts[:-1]} <= {part}
        else:
            with pytest.raises(Unfinished):
                read.result()
