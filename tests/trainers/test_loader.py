"""A loader's order, place and samples depend on (seed, epoch) and on what was handed out, on nothing else."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset, default_collate

from hippotune import InvalidInput
from hippotune.trainers.torch.loader import Loader
from trainers.samples import Images


class Numbers(Dataset[int]):
    """Its samples are their own indices."""

    def __init__(self, count: int = 10) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


class Drawing(Numbers):
    """Every sample is three random numbers, times a factor that may be changed."""

    factor = 1.0

    def __getitem__(self, index: int) -> Any:
        drawn = [random.random(), np.random.rand(), torch.rand(()).item()]
        return self.factor * torch.tensor([index, *drawn], dtype=torch.float64)


def lists(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def flat(batches: Any) -> list[Any]:
    return [sample for batch in batches for sample in batch.tolist()]


def test_an_epoch_is_every_sample_once_in_an_order_of_its_seed_and_number() -> None:
    loader = Loader(Numbers(), 3, seed=5)
    first, second = flat(loader), flat(loader)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert loader.epoch == 2
    again = Loader(Numbers(), 7, seed=5)
    assert [flat(again), flat(again)] == [first, second]
    assert flat(Loader(Numbers(), 3, seed=6)) != first


def test_without_shuffling_samples_come_in_the_order_of_the_dataset() -> None:
    assert lists(Loader(Numbers(7), 3, shuffle=False)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_the_last_batch_is_smaller_or_left_out_and_batches_never_cross_an_epochs_end() -> None:
    loader = Loader(Numbers(), 4, shuffle=False)
    assert [len(batch) for batch in loader.batches(4)] == [4, 4, 2, 4]
    assert (loader.epoch, loader.position, len(loader)) == (1, 4, 3)
    dropping = Loader(Numbers(), 4, shuffle=False, drop_last=True)
    assert lists(dropping.batches(3)) == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]
    assert len(dropping) == 2


def test_iterating_goes_on_where_the_last_time_stopped_and_ends_with_the_epoch() -> None:
    loader = Loader(Numbers(), 3, shuffle=False)
    assert lists(loader.batches(1)) == [[0, 1, 2]]
    for batch in loader:
        assert batch.tolist() == [3, 4, 5]
        break
    assert loader.position == 6
    assert lists(loader) == [[6, 7, 8], [9]]
    assert lists(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_a_new_batch_size_goes_on_at_the_same_sample_also_inside_a_loop() -> None:
    loader = Loader(Numbers(), 2, shuffle=False)
    seen = []
    for batch in loader:
        seen.append(batch.tolist())
        if loader.position == 4:
            loader.batch_size = 5
    assert seen == [[0, 1], [2, 3], [4, 5, 6, 7, 8], [9]]


def test_where_a_larger_batch_no_longer_fits_and_the_last_is_dropped_the_epoch_ends() -> None:
    loader = Loader(Numbers(), 3, shuffle=False, drop_last=True)
    seen = []
    for batch in loader:
        seen.append(batch.tolist())
        loader.batch_size = 8
    assert seen == [[0, 1, 2]]
    assert lists(loader) == [[0, 1, 2, 3, 4, 5, 6, 7]]


actions = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5), st.booleans()), max_size=8)


@given(actions=actions, count=st.integers(9, 25), drop_last=st.booleans(), seed=st.integers(0, 2**70))
def test_saving_and_loading_anywhere_changes_nothing(
    actions: list[tuple[int, int, bool]], count: int, drop_last: bool, seed: int
) -> None:
    def new() -> Loader:
        return Loader(Numbers(count), 1, seed=seed, drop_last=drop_last)

    straight, moved = new(), new()
    for batch_size, batches, move in actions:
        straight.batch_size = moved.batch_size = batch_size
        assert lists(straight.batches(batches)) == lists(moved.batches(batches))
        if move:
            state = moved.state_dict()
            moved = new()
            moved.load_state_dict(state)
    assert straight.state_dict() == moved.state_dict()


@given(sizes=st.lists(st.integers(1, 10), min_size=1, max_size=6))
def test_random_samples_are_the_same_whatever_batches_they_come_in(sizes: list[int]) -> None:
    whole = flat(Loader(Drawing(), 10, seed=3))
    loader = Loader(Drawing(), 10, seed=3)
    seen: list[Any] = []
    while loader.epoch == 0:
        loader.batch_size = sizes[len(seen) % len(sizes)]
        seen += flat(loader.batches(1))
    assert seen == whole


def test_random_samples_differ_between_epochs_and_between_samples() -> None:
    loader = Loader(Drawing(), 5, seed=3)
    drawn = [tuple(sample[1:]) for sample in flat(loader) + flat(loader)]
    assert len(set(drawn)) == 20


def test_preparing_samples_leaves_the_random_numbers_of_the_training_alone() -> None:
    def states() -> Any:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]

    before = states()
    list(Loader(Drawing(), 3, seed=1))
    list(Loader(TensorDataset(torch.arange(4)), 3, seed=1))
    assert states() == before


def test_collating_may_draw_random_numbers_too() -> None:
    def mixed(samples: list[int]) -> Any:
        return default_collate(samples) + torch.rand(()) + random.random()

    def new() -> Loader:
        return Loader(Numbers(), 4, seed=2, collate_fn=mixed)

    whole = lists(new())
    parted = new()
    first = lists(parted.batches(1))
    torch.manual_seed(1)
    assert first + lists(parted) == whole
    assert len({batch[0] % 1 for batch in whole}) == 3


def test_worker_processes_prepare_the_same_batches_and_what_they_prefetch_does_not_count() -> None:
    def taken(num_workers: int) -> list[Any]:
        loader = Loader(Drawing(12), 2, seed=4, num_workers=num_workers, persistent_workers=num_workers > 0)
        seen = flat(loader.batches(2))
        state = loader.state_dict()
        loader.batch_size = 3
        seen += flat(loader.batches(1))
        loader.load_state_dict(state)
        return seen + flat(loader)

    assert taken(2) == taken(0)


def test_worker_processes_see_what_setup_changes_in_the_dataset() -> None:
    dataset = Drawing(6)
    loader = Loader(dataset, 2, shuffle=False, num_workers=1)
    assert next(iter(loader.batches(1)))[1][0] == 1.0
    dataset.factor = 10.0
    assert next(iter(loader.batches(1)))[1][0] == 30.0


def test_tensors_are_cut_into_the_batches_that_collating_makes() -> None:
    images = Images()
    tensors = TensorDataset(images.images, images.labels)
    for dataset in (tensors, Subset(Subset(tensors, range(1, 31)), torch.arange(20).flip(0))):  # type: ignore[arg-type]
        quick = list(Loader(dataset, 8, seed=1))
        collated = list(Loader(dataset, 8, seed=1, collate_fn=default_collate))
        for ours, theirs in zip(quick, collated, strict=True):
            assert type(ours) is type(theirs)
            assert all(map(torch.equal, ours, theirs))


# What is refused.


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


class Keeping(Numbers):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)


@pytest.mark.parametrize("value", [0, -1, 2.5, float("inf"), float("nan"), True, "8", None])
def test_a_batch_size_is_a_whole_number(value: Any) -> None:
    loader = Loader(Numbers(), 4)
    with pytest.raises(InvalidInput, match=r"batch_size is .*expected a whole number of at least 1"):
        loader.batch_size = value
    loader.batch_size = 4.0  # type: ignore[assignment]
    assert loader.batch_size == 4


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(InvalidInput, match="batch_size is 11, but the dataset has only 10 samples"):
        Loader(Numbers(), 11)


def test_datasets_without_places_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match="the dataset is a Stream; expected one with __len__ and __getitem__"
    ):
        Loader(Stream(), 1)
    with pytest.raises(InvalidInput, match="is empty"):
        Loader(Numbers(0), 1)


def test_a_dataset_with_a_generator_of_its_own_is_refused_where_processes_would_copy_it() -> None:
    Loader(Keeping(), 1)
    with pytest.raises(InvalidInput, match="keeps a random generator, 'generator'"):
        Loader(Keeping(), 1, num_workers=1)


def test_an_order_of_another_making_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a Loader takes no sampler"):
        Loader(Numbers(), 1, sampler=[1, 2])
    with pytest.raises(InvalidInput, match="samples was 10 and is 12 here"):
        Loader(Numbers(12), 1).load_state_dict(Loader(Numbers(10), 1).state_dict())


@given(before=st.integers(0, 30), seed=st.integers(0, 5), size=st.integers(1, 4))
def test_a_new_seed_counts_from_the_next_epoch_on(before: int, seed: int, size: int) -> None:
    loader, old, new = (Loader(Numbers(), size, seed=of) for of in (0, 0, seed))
    for each in (loader, old, new):
        list(each.batches(before))
    begun = loader.position > 0
    loader.seed = seed
    rest = torch.cat(list(loader)) if begun else None
    assert rest is None or rest.equal(torch.cat(list(old)))
    if begun:
        list(new)
    assert torch.cat(list(loader)).equal(torch.cat(list(new)))
