"""Two object graphs are the same only where nothing that a program can see of them differs."""

from __future__ import annotations

import copy
import random
import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hippotune.trainers.state.compare import Difference, differences, first_difference


def holding(**attributes: Any) -> SimpleNamespace:
    return SimpleNamespace(**attributes)


def counter(start: int = 0) -> Callable[[], int]:
    count = start

    def call() -> int:
        nonlocal count
        count += 1
        return count

    return call


def nan(payload: int) -> float:
    value: float = struct.unpack("d", struct.pack("Q", 0x7FF8000000000000 | payload))[0]
    return value


def everything() -> SimpleNamespace:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    base = np.arange(12.0)
    made = holding(
        model=model,
        optimizer=optimizer,
        generators=[random.Random(1), np.random.default_rng(2), torch.Generator().manual_seed(3)],
        legacy=np.random.RandomState(4),
        table={"a": 1, 2: [3], (4, 5): {"b"}},
        views=[base, base[3:], base.reshape(3, 4).T],
        recent=deque([1, 2], maxlen=3),
        count=counter(),
        iterator=iter([1, 2, 3]),
        nan=nan(1),
        path=Path("a/b"),
        objects=np.array([1, "two", None], dtype=object),
        sparse=torch.eye(3).to_sparse(),
        method="abc".upper,
    )
    made.me = made
    return made


def test_two_graphs_that_were_made_alike_are_the_same() -> None:
    one, other = everything(), everything()
    other.path.parts  # noqa: B018 - it keeps what it has worked out
    assert differences(one, other) == []


DIFFERENT: list[tuple[Any, Any, str, str, str]] = [
    (1, 2, "self", "1", "2"),
    (1, True, "self", "1", "True"),
    (1, 1.0, "self", "1", "1.0"),
    (0.0, -0.0, "self", "0.0", "-0.0"),
    (nan(1), nan(2), "self", "nan", "nan"),
    (np.float32(0), np.float64(0), "self", "np.float32(0.0)", "np.float64(0.0)"),
    ([1, 2], [1, 3], "self[1]", "2", "3"),
    ([1, 2], [1], "self", "2 items long", "1 items long"),
    ({"a": 1}, {"a": 1, "b": 2}, "self['b']", "not there", "2"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "self", "a dict in the order 'a', 'b'", "in the order 'b', 'a'"),
    ({1: "a"}, {True: "a"}, "self[1]", "'a'", "not there"),
    ({}, OrderedDict(), "self", "a dict", "an OrderedDict"),
    ({1, 2}, {1, 3}, "self", "{1, 2}", "{1, 3}"),
    ({0, 8}, {8, 0}, "self", "a set that is gone through as 0, 8", "as 8, 0"),
    (deque([1], 2), deque([1], 3), "self", "a deque", "a deque"),
    (Path("a"), Path("b"), "self", "PosixPath('a')", "PosixPath('b')"),
    (counter(), counter(1), "self.<count>", "0", "1"),
    (lambda: 1, lambda: 2, "self", "<lambda>", "<lambda>"),
    (iter([1, 2]), iter([2]), "self", "2 items long", "1 items long"),
    (random.Random(1), random.Random(2), "self", "a random generator in one state", "in another"),
    (bytearray(b"a"), bytearray(b"b"), "self", "bytearray(b'a')", "bytearray(b'b')"),
    (np.zeros(2), np.zeros(3), "self", "an array with shape (2,)", "an array with shape (3,)"),
    (
        np.zeros((2, 2)),
        np.zeros((2, 2)).T.copy("F"),
        "self",
        "an array with strides (16, 8)",
        "an array with strides (8, 16)",
    ),
    (np.array([0.0]), np.array([-0.0]), "self", "0.0 at [0]", "-0.0"),
    (
        torch.zeros(2),
        torch.zeros(2, dtype=torch.float64),
        "self",
        "a tensor with dtype torch.float32",
        "a tensor with dtype torch.float64",
    ),
    (
        torch.zeros(2),
        torch.zeros(2, requires_grad=True),
        "self",
        "a tensor with requires_grad False",
        "a tensor with requires_grad True",
    ),
    (torch.zeros(()), -torch.zeros(()), "self", "0.0", "-0.0"),
    (torch.eye(2).to_sparse(), 2 * torch.eye(2).to_sparse(), "self._values()", "1.0 at [0]", "2.0"),
    (
        np.random.default_rng(1),
        np.random.default_rng(2),
        "self",
        "a random generator in one state",
        "in another",
    ),
    (len, min, "self", "len", "min"),
]


@pytest.mark.parametrize(("one", "other", "path", "here", "there"), DIFFERENT)
def test_a_difference_is_named_with_what_is_there_in_each(
    one: Any, other: Any, path: str, here: str, there: str
) -> None:
    found = first_difference(one, other)
    assert found is not None
    assert (found.path, found.one, found.other) == (path, here, there)
    assert first_difference(one, one) is None


def test_iterators_are_compared_by_what_they_still_yield() -> None:
    begun = iter([1, 2, 3])
    next(begun)
    assert first_difference(begun, iter([2, 3])) is None


def test_an_element_of_a_tensor_is_named_with_the_largest_difference() -> None:
    one = holding(agent=holding(target=nn.Sequential(nn.Linear(3, 4))))
    other = copy.deepcopy(one)
    with torch.no_grad():
        one.agent.target[0].weight.zero_()
        other.agent.target[0].weight.zero_()
        other.agent.target[0].weight[1, 2] += 0.5
        other.agent.target[0].weight[3, 0] -= 0.25
    found = first_difference(one, other)
    assert found == Difference(
        "self.agent.target.0.weight",
        "0.0 at [1, 2]",
        "0.5",
        "2 of 12 elements differ, torch.float32, by at most 0.5",
    )
    assert found.told("before", "after") == (
        "self.agent.target.0.weight is 0.0 at [1, 2] before, and 0.5 after "
        "(2 of 12 elements differ, torch.float32, by at most 0.5)"
    )


def test_an_optimizers_state_is_named_by_the_parameter() -> None:
    one, other = everything(), everything()
    other.optimizer.state[other.model[0].bias]["exp_avg"][2] += 1
    found = first_difference(one, other)
    assert found is not None
    assert found.path == "self.optimizer.state[self.model.0.bias]['exp_avg']"


def test_gradients_and_modules_that_differ_are_named() -> None:
    one, other = everything(), everything()
    other.model[0].bias.grad = None
    other.model[1].register_buffer("extra", None)
    found = differences(one, other)
    assert {item.path for item in found} == {"self.model.0.bias.grad", "self.model.1._buffers"}


def test_hooks_are_compared_in_their_order_and_not_by_their_numbers() -> None:
    one, other = everything(), everything()
    for graph in (one, other):
        graph.handle = graph.model.register_forward_hook(print)
    assert differences(one, other) == []
    other.model.register_forward_hook(max)
    found = first_difference(one, other)
    assert found is not None
    assert found.path == "self.model._forward_hooks"


def test_what_is_one_object_has_to_be_one_object_in_the_other() -> None:
    shared: list[int] = []
    alias, own = holding(a=shared, b=shared), holding(a=[], b=[])
    assert first_difference(alias, own) == Difference(
        "self.b", "the same object as self.a", "something of its own"
    )
    assert first_difference(own, alias) == Difference(
        "self.b", "something of its own", "the same object as self.a"
    )


def test_what_is_one_memory_has_to_be_one_memory_in_the_other() -> None:
    row, tensor = np.zeros(4), torch.zeros(4)
    for one, other in [
        (holding(a=row, b=row[1:]), holding(a=row.copy(), b=np.zeros(3))),
        (holding(a=tensor, b=tensor[1:]), holding(a=tensor.clone(), b=torch.zeros(3))),
    ]:
        found = first_difference(one, other)
        assert found is not None
        assert (found.path, found.one) == ("self.b", "a view of the memory of self.a")


def test_equal_tuples_and_numbers_have_no_identity() -> None:
    pair, number = (1, 2), 10**9
    one = holding(a=pair, b=pair, c=number, d=number)
    other = holding(a=(1, 2), b=tuple(range(1, 3)), c=int("1000000000"), d=int("1000000000"))
    assert first_difference(one, other) is None


def test_graphs_may_be_deep_and_go_in_circles() -> None:
    def chain(last: int) -> list[Any]:
        first: list[Any] = []
        link = first
        for _ in range(50_000):
            link.append([])
            link = link[0]
        link += [first, last]
        return first

    assert first_difference(chain(1), chain(1)) is None
    found = first_difference(chain(1), chain(2))
    assert found is not None
    assert found.path.endswith("[0][0][1]")


def test_nearer_differences_come_first_and_no_more_than_asked_for() -> None:
    one = holding(deep=[[1]], list=[1, 2, 3, 4], near=0)
    other = holding(deep=[[2]], list=[5, 6, 7, 8], near=1)
    assert [found.path for found in differences(one, other, most=3)] == [
        "self.near",
        "self.list[0]",
        "self.list[1]",
    ]
    assert len(differences(one, other)) == 6


def test_what_is_to_be_skipped_is_not_looked_into() -> None:
    one, other = holding(a=[1], b=deque([1])), holding(a=[1], b=deque([2]))
    assert first_difference(one, other, skip=lambda value: isinstance(value, deque)) is None


def test_objects_of_c_are_compared_by_what_pickle_saves_of_them() -> None:
    class Draws(np.random.PCG64):
        """Has attributes of its own beside a state in C."""

    one, other = Draws(1), Draws(1)
    assert first_difference(one, other) is None
    other.random_raw()
    assert first_difference(one, other) is not None
    one, other = (np.nditer(np.zeros(2)) for _ in range(2))  # cannot be pickled
    assert first_difference(one, other) is None
