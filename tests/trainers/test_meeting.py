"""How ranks meet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hippotune.trainers.parallel.meeting import any_gpu_twice, open_store
from hippotune.trainers.parallel.share import Share


@pytest.mark.parametrize(("gpus", "twice"), [(["node 0", "node 1"], False), (["node 0", "node 0"], True)])
def test_all_ranks_hear_whether_two_of_them_compute_on_one_gpu(
    gpus: list[str], twice: bool, tmp_path: Path
) -> None:
    def heard(rank: int) -> bool:
        share = Share(rank, len(gpus))
        return any_gpu_twice(open_store((tmp_path / "meeting").as_uri(), share), share, gpus[rank])

    with ThreadPoolExecutor(len(gpus)) as ranks:
        assert list(ranks.map(heard, range(len(gpus)))) == [twice] * len(gpus)
