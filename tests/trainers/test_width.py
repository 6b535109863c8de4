"""Parts of batches are a rank's own, even, and make up the whole; at width 1 nothing is shared out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import TensorDataset

from hippotune import Config
from hippotune.trainers.base import Trainer
from hippotune.trainers.parallel.share import Batch, Share
from hippotune.trainers.session import Session
from hippotune.trainers.torch.loader import Loader
from hippotune.trainers.torch.order import Keys, MixedOrder, SampleOrder
from hippotune.trainers.torch.trainer import TorchTrainer
from trainers.samples import Plain, saved_by
from trainers.width_samples import Together


@given(st.integers(1, 9), st.integers(0, 200))
def test_parts_make_up_the_whole_and_differ_by_one_at_most(width: int, count: int) -> None:
    bounds = [Share(rank, width).bounds(count) for rank in range(width)]
    assert [start for start, _ in bounds] == [0, *(end for _, end in bounds[:-1])]
    assert bounds[-1][1] == count
    lengths = {end - start for start, end in bounds}
    assert max(lengths) - min(lengths) <= 1


@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
    st.integers(0, 39),
)
def test_each_batch_is_split_evenly_or_trained_whole_by_everybody(
    width: int, samples: int, batch_size: int, shuffle: bool, drop_last: bool, position: int
) -> None:
    order = SampleOrder(samples, 3, shuffle, drop_last, batch_size, position=min(position, samples))
    parts = []
    for rank in range(width):
        keys = Keys(order)
        keys.share = Share(rank, width)
        parts.append(list(keys))
    for whole, *shares in zip(list(order), *parts, strict=True):
        if len(whole.indices) % width == 0:
            assert [index for share in shares for index in share.indices] == whole.indices
            assert len({len(share.indices) for share in shares}) == 1
        else:
            assert all(share.indices == whole.indices for share in shares)
        assert all(share[:2] == whole[:2] for share in shares)


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=5))
def test_a_mixture_is_shared_out_as_one_dataset_is(width: int, batches: list[tuple[int, int]]) -> None:
    whole, *ranks = (MixedOrder({"web": 7, "math": 3}, 5, True, {}) for _ in range(width + 1))
    for math, batch_size in batches:  # weights and batch sizes change on the way
        for order in (whole, *ranks):
            order.weights, order.batch_size = {"web": 1.0, "math": float(math)}, batch_size
        expected = next(iter(whole))
        parts = []
        for rank, order in enumerate(ranks):
            keys = Keys(order)
            keys.share = Share(rank, width)
            parts.append(next(iter(keys)))
            order.advance()
        whole.advance()
        if batch_size % width == 0:
            assert [index for part in parts for index in part.indices] == expected.indices
            assert [origin for part in parts for origin in part.origins] == expected.origins
        else:
            assert all(part == expected for part in parts)
        assert all(order == whole for order in ranks)  # every rank is at the same place of every source


@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_was_prepared_for_one_width_is_not_handed_out_at_another(num_workers: int) -> None:
    loader = Loader(TensorDataset(torch.arange(24)), 4, shuffle=False, num_workers=num_workers)
    batches = loader.batches(4)
    taken = [next(batches)[0].tolist()]
    for share in (Share(1, 2), Share(0, 2), None):
        loader._source.keep_to(share)
        taken.append(loader._source.next_batch()[0].tolist())
    assert taken == [[0, 1, 2, 3], [6, 7], [4, 5], [4, 5, 6, 7]]
    assert loader.position == 4


def test_the_dimension_of_samples_is_the_one_as_long_as_the_part() -> None:
    batch = Batch(Share(0, 2))
    assert batch.dimension([4, 3]) is None
    batch.hand_out(1, 8)
    assert batch.dimension([4, 3]) == 0
    assert batch.dimension([7, 4, 3]) == 1  # time first
    assert batch.dimension([12, 5]) == 0  # tokens of samples, one after the other
    assert batch.dimension([7, 5]) is None
    assert batch.dimension([]) is None
    batch.hand_out(1, 7)  # which two cannot share
    assert not batch.is_split
    assert batch.dimension([7, 3]) is None


def test_a_whole_batch_beside_a_part_stays_whole() -> None:
    batch = Batch(Share(1, 2))
    assert batch.hand_out(1, 8) == (4, 8)
    assert batch.hand_out(2, 5) == (0, 5)
    assert batch.is_part(4)
    assert batch.is_part(12)
    assert not batch.is_part(5)
    batch.clear()
    assert not batch.is_part(4)


class Wide(TorchTrainer):
    """Has a width of its own: that of its layers."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.width = hp["width"]

    def train(self) -> None:
        assert self.shard([1, 2, 3]) == [1, 2, 3]
        assert self.total(2.5) == 2.5

    def evaluate(self) -> Mapping[str, float]:
        return {"width": self.width, "rank": self.rank, "items": len(self.shard(range(5)))}


def test_one_worker_has_everything_and_a_trainer_may_have_a_width_of_its_own() -> None:
    config = Config({"width": 64})
    session = Session(Wide, {}, 0)
    session.start(config, 0, None, False)
    session.advance()
    assert session.evaluate() == {"width": 64, "rank": 0, "items": 5}
    saved = saved_by(session)
    session = Session(Wide, {}, 0)
    session.start(config, 1, saved, False)
    assert session.evaluate()["width"] == 64


def test_only_widths_fit_that_divide_the_batch_size() -> None:
    assert TorchTrainer.widens
    assert Together.fits({"bs": 12, "lr": 0.1}, 3)
    assert not Together.fits({"batch_size": 12}, 8)
    assert Together.fits({"bs": 8.0}, 4)
    assert not Together.fits({"bs": "many"}, 2)
    assert Together.fits({"lr": 0.1}, 7)
    assert not Plain.widens
    assert Trainer.fits({"bs": 3}, 2)


def test_nothing_is_hooked_at_width_1() -> None:
    session = Session(Together, {}, 7)
    session.start(Config({"model": "attention", "optimizer": "sgd", "bs": 8}), 0, None, False)
    seen: list[Any] = []
    trainer = session.trainer
    assert isinstance(trainer, Together)
    parameter = trainer.model.head.weight
    parameter.register_hook(lambda _: seen.append(dict(parameter._post_accumulate_grad_hooks or {})))
    session.advance()
    assert seen == [{}] * 3
