import pytest

from hippotune.sizes import format_bytes


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_960, "10 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (34_000_000_000, "34 GB"),
        (10**18, "1000 PB"),
    ],
)
def test_a_size_keeps_two_or_three_digits(count: int, written: str) -> None:
    assert format_bytes(count) == written
