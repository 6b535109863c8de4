"""Mixtures of sources: the order is that of a plain loop, whatever changes on the way."""

from __future__ import annotations

import copy
import hashlib
import pickle
import struct
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Dataset, TensorDataset

from hippotune.errors import InvalidInput
from hippotune.trainers.torch.loader import Loader

SIZES = {"web": 7, "math": 3, "code": 5}
FIRST = {"web": 0, "math": 100, "code": 200}


class Plain:
    """One sample after the other, without batches, blocks or anything in advance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.count = 0
        self.positions = dict.fromkeys(SIZES, 0)
        self.seeds = dict.fromkeys(SIZES, seed)

    def sample(self, weights: dict[str, float]) -> int:
        block, place = divmod(self.count, 1024)
        chance = generator(named(self.seed, ""), block).random_sample(1024)[place] * sum(weights.values())
        self.count += 1
        bound = 0.0
        chosen = ""
        for name in SIZES:
            if weights.get(name):
                bound += weights[name]
                chosen = name
                if chance < bound:
                    break
        epoch, position = divmod(self.positions[chosen], SIZES[chosen])
        if position == 0:
            self.seeds[chosen] = self.seed
        order = generator(named(self.seeds[chosen], chosen), epoch).permutation(SIZES[chosen])
        self.positions[chosen] += 1
        return FIRST[chosen] + int(order[position])


def generator(seed: int, number: int) -> np.random.RandomState:
    return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, number])


def named(seed: int, name: str) -> int:
    text = struct.pack("<Q", seed) + name.encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def sources() -> dict[str, TensorDataset]:
    return {name: TensorDataset(torch.arange(size) + FIRST[name]) for name, size in SIZES.items()}


def taken(loader: Loader, batches: int) -> list[int]:
    return [int(sample) for (batch,) in loader.batches(batches) for sample in batch]


weights = st.fixed_dictionaries({name: st.integers(0, 5) for name in SIZES}).filter(
    lambda drawn: any(drawn.values())
)
steps = st.lists(
    st.tuples(
        weights,
        st.integers(1, 9),  # batch size
        st.integers(1, 4),  # batches
        st.sampled_from(["go on", "load", "state_dict"]),
        st.integers(0, 3),  # seed
    ),
    min_size=1,
    max_size=8,
)


@given(steps=steps, start=st.integers(0, 2_000))
def test_the_order_is_that_of_a_plain_loop(steps: list[Any], start: int) -> None:
    loader, plain = Loader(sources(), 1, seed=0, mixture={"web": 1}), Plain(0)
    loader._order.count = plain.count = start  # type: ignore[union-attr]
    for mixture, size, batches, how, seed in steps:
        if how == "load":
            loader = pickle.loads(pickle.dumps(loader))
        elif how == "state_dict":
            state = copy.deepcopy(loader.state_dict())
            loader = Loader(sources(), 3, seed=0, mixture={"code": 1})
            loader.load_state_dict(state)
        loader.mixture, loader.batch_size, loader.seed = mixture, size, seed
        plain.seed = seed
        exact = {name: weight / sum(mixture.values()) for name, weight in mixture.items()}
        assert taken(loader, batches) == [plain.sample(exact) for _ in range(size * batches)]
    assert loader.positions == plain.positions


def test_a_source_without_weight_stays_where_it_is() -> None:
    loader = Loader(sources(), 4, seed=1, mixture={"web": 1, "math": 1})
    taken(loader, 3)
    math = loader.positions["math"]
    loader.mixture = {"web": 1}
    taken(loader, 5)
    assert loader.positions["math"] == math
    assert loader.positions["web"] == 32 - math


def test_a_source_that_runs_out_begins_its_next_epoch() -> None:
    loader = Loader(sources(), 3, seed=1, mixture={"math": 1})
    epochs = [sorted(taken(loader, 1)) for _ in range(3)]
    assert epochs == [[100, 101, 102]] * 3


def test_mixtures_go_by_names_too() -> None:
    named_ones = {"even": {"web": 1, "math": 1}, "all code": {"code": 1}}
    loader = Loader(sources(), 2, mixture="even", mixtures=named_ones)
    assert loader.mixture == {"web": 0.5, "math": 0.5}
    loader.mixture = "all code"
    assert loader.mixture == {"code": 1.0}


class Noisy(Dataset[float]):
    """Samples with random numbers of their own."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(torch.rand(()))


def test_random_numbers_of_a_sample_do_not_depend_on_its_batch() -> None:
    def drawn(size: int, processes: int = 0) -> list[tuple[float, float]]:
        noisy = {"a": Noisy(5), "b": Noisy(8)}
        loader = Loader(noisy, size, seed=3, mixture={"a": 1, "b": 2}, num_workers=processes)
        pairs = list(loader.batches(24 // size))
        return [(float(i), float(x)) for index, noise in pairs for i, x in zip(index, noise, strict=True)]

    assert drawn(2) == drawn(6) == drawn(4, processes=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Loader(sources(), 2), "mixture is missing; expected the weights of 'code', 'math', 'web'"),
        (lambda: Loader({}, 2, mixture={"web": 1}), "an empty dict"),
        (lambda: Loader({"web": []}, 2, mixture={"web": 1}), r"the source 'web' \(list\) is empty"),
        (lambda: Loader(sources(), 2, mixture={"news": 1}), "mixture has 'news'; the sources are"),
        (
            lambda: Loader(sources(), 2, mixture={"web": 1}, mixtures={"late": {"news": 1}}),
            r"mixtures\['late'\] has 'news'; the sources are",
        ),
        (lambda: Loader(sources(), 2, mixture="odd"), "mixture is 'odd'; expected weights of"),
        (lambda: Loader(sources(), 2, mixture=3), "mixture is 3; expected weights of"),  # type: ignore[arg-type]
        (lambda: Loader(sources(), 2, mixture={"web": -1}), "expected a finite number at least 0"),
        (lambda: Loader(sources(), 2, mixture={"web": 0}), "expected at least one weight above 0"),
        (lambda: Loader([1, 2], 2, mixture={"web": 1}), "a mixture needs a dict of datasets"),
        (lambda: iter(Loader(sources(), 2, mixture={"web": 1})), r"a mixture has no epoch.*batches\(n\)"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()  # type: ignore[operator]
