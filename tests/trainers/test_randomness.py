"""What is captured of the shared generators is what they are at."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.trainers import randomness
from hippotune.trainers.randomness import RandomState


def drawn() -> list[Any]:
    return [random.random(), random.gauss(0, 1), np.random.random(), *np.random.normal(size=3)]


@given(
    st.lists(
        st.sampled_from(["seed", "seed otherwise", "normal", "uniform", "keep", "put back", "shuffle"]),
        max_size=12,
    )
)
def test_whatever_was_drawn_and_put_back_before(actions: list[str]) -> None:
    randomness.seed_all(5)
    kept: list[Any] = [np.random.get_state()]
    for action in actions:
        match action:
            case "seed":
                randomness.seed_all(5)
            case "seed otherwise":
                np.random.seed(6)
            case "normal":  # every other one comes out of store, and moves nothing else
                np.random.normal()
            case "uniform":
                np.random.random()
            case "keep":
                kept.append(np.random.get_state())
            case "put back":
                np.random.set_state(kept[-1])
            case "shuffle":
                kept.reverse()
        captured = randomness.capture()
        assert captured.to_bytes() == _as_numpy_says(captured).to_bytes()
        first = drawn()
        randomness.restore(RandomState.from_bytes(captured.to_bytes()))
        assert drawn() == first
        randomness.restore(captured)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.SFC64, np.random.Philox, np.random.MT19937])
def test_whatever_generator_numpy_was_given(kind: Any) -> None:
    before = np.random.get_bit_generator()  # type: ignore[attr-defined]
    try:
        randomness.seed_all(3)
        np.random.set_bit_generator(kind(3))  # type: ignore[attr-defined]
        captured = randomness.capture()
        first = drawn()
        randomness.restore(RandomState.from_bytes(captured.to_bytes()))
        assert drawn() == first
    finally:
        np.random.set_bit_generator(before)  # type: ignore[attr-defined]


def _as_numpy_says(state: RandomState) -> RandomState:
    return RandomState(state.python, np.random.get_state(legacy=False), state.torch)
