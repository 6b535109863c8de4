"""A fingerprint says what a state is: the same after a load, and different in exactly what changed."""

from __future__ import annotations

import copy
import enum
import functools
import random
import struct
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

import hippotune as hippo
from hippotune.protocol.fingerprint import UNSAVED, Difference, Fingerprint, differences, explanations
from hippotune.trainers.session import Session
from hippotune.trainers.state.fingerprint import of_graph
from hippotune.trainers.state.pickling import Known, dumps, loads


def noted(value: Any, volatile: tuple[str, ...] = ()) -> Fingerprint:
    return Fingerprint(of_graph(value, volatile=volatile))


def found_between(one: Any, other: Any) -> list[Difference]:
    return differences(noted(one), noted(other))


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


def test_parameters_without_a_shape_are_told_from_those_that_a_first_batch_has_made() -> None:
    held = holding(model=nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()))
    before = noted(held)
    assert differences(before, noted(held)) == []
    held.model(torch.ones(2, 4))
    told = {item.path: item.told("before", "after") for item in differences(before, noted(held))}
    assert "an UninitializedParameter before, and a tensor of torch.float32" in told["self.model.0.weight"]


def test_two_graphs_that_were_made_alike_are_the_same() -> None:
    one, other = everything(), everything()
    other.path.parts  # noqa: B018 - it keeps what it has worked out
    assert found_between(one, other) == []


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.trainers.test_fingerprint import everything, noted
made = everything()
made.words = {"a", "bc", "def", "ghij"}
sys.stdout.buffer.write(noted(made).packed())
"""


def test_another_interpreter_comes_to_the_same_fingerprint() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[2])], capture_output=True, check=True
    )
    made = everything()
    made.words = {"a", "bc", "def", "ghij"}
    assert differences(noted(made), Fingerprint.unpacked(done.stdout)) == []


ARRAY = "an array of float64 with shape "
TENSOR = "a tensor of torch.float32 with shape (2,)"
DIFFERENT: list[tuple[Any, Any, str, str, str]] = [
    (1, 2, "self", "1", "2"),
    (1, True, "self", "1", "True"),
    (1, 1.0, "self", "1", "1.0"),
    (0.0, -0.0, "self", "0.0", "-0.0"),
    (nan(1), nan(2), "self", "nan", "nan with other content"),
    (np.float32(0), np.float64(0), "self", "np.float32(0.0)", "np.float64(0.0)"),
    ([1, 2], [1, 3], "self[1]", "2", "3"),
    ([1, 2], [1], "self", "a list of 2 items", "a list of 1 item"),
    ([0.5] * 99, [0.5] * 98 + [1.5], "self", "0.5 at [98]", "1.5"),
    ({"a": 1}, {"a": 1, "b": 2}, "self['b']", "not there", "2"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "self", "a dict with 'a', 'b'", "a dict with 'b', 'a'"),
    ({1: "a"}, {True: "a"}, "self[True]", "not there", "'a'"),
    ({}, OrderedDict(), "self", "an empty dict", "an OrderedDict"),
    (defaultdict(int), defaultdict(list), "self (2)", "builtins.int", "builtins.list"),
    ({1, 2}, {1, 3}, "self", "a set of 1, 2", "a set of 1, 3"),
    (deque([1], 2), deque([1], 3), "self", "a deque of 1 item", "a deque of 1 item with other content"),
    (Path("a"), Path("b"), "self", "PosixPath('a')", "PosixPath('b')"),
    (counter(), counter(1), "self.<count>", "0", "1"),
    (iter([1, 2]), iter([2]), "self", "an iterator of 2 items to come", "an iterator of 1 item to come"),
    (random.Random(1), random.Random(2), "self", "in one state", "in another"),
    (np.random.default_rng(1), np.random.default_rng(2), "self", "in one state", "in another"),
    (bytearray(b"a"), bytearray(b"b"), "self", "bytearray(b'a')", "bytearray(b'b')"),
    (np.zeros(2), np.zeros(3), "self", f"{ARRAY}(2,)", f"{ARRAY}(3,)"),
    (
        np.zeros((2, 2)),
        np.zeros((2, 2)).T.copy("F"),
        "self",
        f"{ARRAY}(2, 2)",
        f"{ARRAY}(2, 2), strides (8, 16)",
    ),
    (np.array([0.0]), np.array([-0.0]), "self", "0.0 at [0]", "-0.0"),
    (
        np.array([1, 2]),
        np.array([1, 3]),
        "self",
        "an array of int64 with shape (2,)",
        "an array of int64 with shape (2,) with other content",
    ),
    (torch.zeros(2), torch.zeros(2).double(), "self", TENSOR, "a tensor of torch.float64 with shape (2,)"),
    (torch.zeros(2), torch.zeros(2, requires_grad=True), "self", TENSOR, f"{TENSOR}, requires_grad"),
    (torch.zeros(()), -torch.zeros(()), "self", "0.0", "-0.0"),
    (torch.zeros(2).bfloat16(), torch.ones(2).bfloat16(), "self", "0.0 at [0]", "1.0"),
    (torch.eye(2).to_sparse(), 2 * torch.eye(2).to_sparse(), "self._values()", "1.0 at [0]", "2.0"),
    (len, min, "self", "len", "min"),
]


@pytest.mark.parametrize(("one", "other", "path", "here", "there"), DIFFERENT)
def test_a_difference_is_named_with_what_is_there_in_each(
    one: Any, other: Any, path: str, here: str, there: str
) -> None:
    found = found_between(one, other)[0]
    assert found.told("here", "there") == f"{path} is {here} here, and {there} there"
    assert found_between(one, one) == []


def test_functions_without_a_name_differ_by_their_code() -> None:
    assert found_between(lambda: 1, lambda: 1) == []
    assert len(found_between(lambda: 1, lambda: 2)) == 1


def test_iterators_are_the_same_where_they_still_yield_the_same() -> None:
    begun = iter([1, 2, 3])
    next(begun)
    assert found_between(begun, iter([2, 3])) == []
    assert found_between(iter({2: "a", 3: "b"}), iter([2, 3])) == []


def test_members_of_enums_are_the_same_by_their_names() -> None:
    def made() -> Any:
        return enum.Enum("Activation", {"SQUARE": functools.partial(lambda x: x * x), "OTHER": 2})

    assert not found_between(made().SQUARE, made().SQUARE)
    assert found_between(made().SQUARE, made().OTHER)


def test_an_element_of_a_tensor_is_named() -> None:
    one = holding(agent=holding(target=nn.Sequential(nn.Linear(3, 4))))
    other = copy.deepcopy(one)
    with torch.no_grad():
        one.agent.target[0].weight.zero_()
        other.agent.target[0].weight.zero_()
        other.agent.target[0].weight[1, 2] += 0.5
    (found,) = found_between(one, other)
    told = "self.agent.target.0.weight is 0.0 at [1, 2] before, and 0.5 after"
    assert found.told("before", "after") == told


def test_one_element_among_many_changes_the_digest_and_the_distance() -> None:
    one, other = np.linspace(-1, 1, 100_000), np.linspace(-1, 1, 100_000)
    other[77_777] += 1e-3
    (found,) = found_between(one, other)
    assert 0 < found.distance < 1e-6


def test_an_optimizers_state_is_named_by_the_parameter() -> None:
    one, other = everything(), everything()
    other.optimizer.state[other.model[0].bias]["exp_avg"][2] += 1
    (found,) = found_between(one, other)
    assert found.path == "self.optimizer.state[self.model.0.bias]['exp_avg']"


def test_gradients_and_modules_that_differ_are_named() -> None:
    one, other = everything(), everything()
    other.model[0].bias.grad = None
    other.model[1].register_buffer("extra", None)
    paths = {item.path for item in found_between(one, other)}
    assert paths == {"self.model.0.bias.grad", "self.model.1._buffers"}


def test_hooks_are_compared_in_their_order_and_not_by_their_numbers() -> None:
    one, other = everything(), everything()
    for graph in (one, other):
        graph.handle = graph.model.register_forward_hook(print)
    assert found_between(one, other) == []
    other.model.register_forward_hook(max)
    assert found_between(one, other)[0].path == "self.model._forward_hooks"


def test_what_is_one_object_has_to_be_one_object_in_the_other() -> None:
    shared: list[int] = []
    alias, own = holding(a=shared, b=shared), holding(a=[], b=[])
    (found,) = found_between(alias, own)
    told = "self.b is the same object as self.a here, and a list of 0 items there"
    assert found.told("here", "there") == told


def test_what_is_one_memory_has_to_be_one_memory_in_the_other() -> None:
    row, tensor = np.zeros(4), torch.zeros(4)
    for one, other in [
        (holding(a=row, b=row[1:]), holding(a=row.copy(), b=np.zeros(3))),
        (holding(a=tensor, b=tensor[1:]), holding(a=tensor.clone(), b=torch.zeros(3))),
    ]:
        (found,) = found_between(one, other)
        assert found.path == "self.b"
        assert found.one is not None
        assert "a view of the memory of self.a" in found.one.text


def test_equal_tuples_and_numbers_have_no_identity() -> None:
    pair, number = (1, 2), 10**9
    one = holding(a=pair, b=pair, c=number, d=number)
    other = holding(a=(1, 2), b=tuple(range(1, 3)), c=int("1000000000"), d=int("1000000000"))
    assert found_between(one, other) == []


def test_graphs_may_be_deep_and_go_in_circles() -> None:
    def chain(last: int) -> list[Any]:
        first: list[Any] = []
        link = first
        for _ in range(3_000):
            link.append([])
            link = link[0]
        link += [first, last]
        return first

    assert found_between(chain(1), chain(1)) == []
    assert len(found_between(chain(1), chain(2))) == 1


def test_nearer_differences_come_first() -> None:
    one = holding(deep=holding(a=holding(b=1)), list=[1, 2], near=0)
    other = holding(deep=holding(a=holding(b=2)), list=[5, 6], near=1)
    paths = [found.path for found in found_between(one, other)]
    assert paths == ["self.near", "self.list[0]", "self.list[1]", "self.deep.a.b"]


def test_the_order_of_a_set_explains_and_is_no_difference() -> None:
    one, other = noted(holding(items={0, 8})), noted(holding(items={8, 0}))
    assert differences(one, other) == []
    (found,) = explanations(one, other)
    assert found.told("here", "there").startswith("self.items is a set that is gone through as 0, 8 here")


class Forgetful:
    def __init__(self, cache: int) -> None:
        self.cache = cache
        self.kept = 1

    def __getstate__(self) -> dict[str, int]:
        return {"kept": self.kept}


def test_what_a_class_does_not_save_explains_and_is_no_difference() -> None:
    one, other = noted(Forgetful(1)), noted(Forgetful(2))
    assert differences(one, other) == []
    assert explanations(one, other)[0].told("here", "there") == "self.cache is 1 here, and 2 there"


def test_sets_of_objects_are_compared_by_what_is_in_them() -> None:
    def group(*names: str) -> SimpleNamespace:
        members = [Forgetful(0) for _ in names]
        for member, name in zip(members, names, strict=True):
            member.kept = name  # type: ignore[assignment]
        return holding(all=set(members), first=members[0])

    assert found_between(group("a", "b", "c"), group("a", "b", "c")) == []
    assert found_between(group("a", "b", "c"), group("a", "b", "d"))


def test_what_is_volatile_is_not_looked_into() -> None:
    one, other = holding(started=[1.5], model=[1]), holding(started=[2.5, 3.5], model=[1])
    volatile = ("self.started",)
    assert differences(noted(one, volatile), noted(other, volatile)) == []
    assert differences(noted(one), noted(other), volatile) == []


def test_objects_of_c_are_compared_by_what_pickle_saves_of_them() -> None:
    class Draws(np.random.PCG64):
        """Has attributes of its own beside a state in C."""

    one, other = Draws(1), Draws(1)
    assert found_between(one, other) == []
    other.random_raw()
    assert found_between(one, other)
    assert found_between(np.nditer(np.zeros(2)), np.nditer(np.zeros(2))) == []  # cannot be pickled


def test_a_fingerprint_of_many_objects_stays_small() -> None:
    one = holding(buffer=[(number, {"reward": 0.5}) for number in range(6_000)])
    other = holding(buffer=[(number, {"reward": 0.5}) for number in range(6_000)])
    other.buffer[-1][1]["reward"] = 1.5
    assert len(noted(one).leaves) < 21_000
    (found,) = found_between(one, other)
    assert found.path == "self.buffer (further in)"


class Adds(hippo.Trainer):
    """Says itself what its state is."""

    def prepare(self) -> None:
        self.data = np.arange(4.0)

    def build(self) -> None:
        self.total, self.hidden = 0.0, 0

    def setup(self, hp: Any) -> None:
        self.by = hp["by"]

    def train(self) -> None:
        self.total += self.by
        self.hidden += 1

    def evaluate(self) -> dict[str, float]:
        return {"total": self.total}


class AddsByDict(Adds):
    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class AddsByFile(AddsByDict):
    def save(self, path: Path) -> None:
        path.write_text(str(self.total))

    def load(self, path: Path) -> None:
        self.total = float(path.read_text())


@pytest.mark.parametrize(
    ("trainer", "saved_by", "differing"),
    [
        (Adds, "", ["self.total", "self.hidden"]),
        (AddsByDict, "state_dict()", ["state_dict()['total']"]),
        (AddsByFile, "save()", ["save() state"]),
    ],
)
def test_a_session_notes_what_its_trainer_saves(
    trainer: type[hippo.Trainer], saved_by: str, differing: list[str]
) -> None:
    session = Session(trainer, {}, 0)
    session.start(hippo.Config({"by": 1.5}), 0, None, warm=False)
    notes = []
    for _ in range(2):
        session.advance()
        notes.append(session.fingerprint())
    assert notes[0].saved_by == saved_by
    assert [item.path for item in differences(*notes)] == differing
    assert [item.path for item in explanations(*notes)] == (["self.total", "self.hidden"] if saved_by else [])
    assert not [leaf.path for leaf in notes[0].leaves if leaf.path.startswith("self.data.")]
    random.random()
    assert [item.path for item in differences(notes[1], session.fingerprint())] == [
        "the random generator of Python"
    ]


class Sparse(hippo.TorchTrainer):
    """A hook computes the weight anew in every call."""

    def build(self) -> None:
        self.model = nn.Linear(2, 2)
        prune.l1_unstructured(self.model, "weight", amount=1)

    def setup(self, hp: Any) -> None:
        self.by = hp["by"]

    def train(self) -> None:
        with torch.no_grad():
            self.model.weight_orig += self.by  # type: ignore[operator]

    def evaluate(self) -> dict[str, float]:
        return {"sum": self.model(torch.ones(1, 2)).sum().item()}


def test_evaluate_leaves_weights_that_hooks_compute_as_they_were() -> None:
    session = Session(Sparse, {}, 0)
    session.start(hippo.Config({"by": 1.5}), 0, None, warm=False)
    session.advance()
    before = session.trainer.model.weight  # type: ignore[attr-defined]
    session.evaluate()
    assert session.trainer.model.weight is before  # type: ignore[attr-defined]


# Laws.

atoms = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.booleans(),
    st.none(),
)
arrays = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(np.array)
tensors = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).map(torch.tensor)
graphs = st.recursive(
    st.one_of(atoms, arrays, tensors, st.sets(st.integers(), max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=4).map(
            lambda attributes: SimpleNamespace(**attributes)
        ),
        inner.map(lambda value: [value, value]),
    ),
    max_leaves=20,
)


@given(graphs)
def test_a_load_comes_to_the_same_fingerprint(graph: Any) -> None:
    loaded = loads(dumps(graph, Known(), graph), lambda reference: None)
    before, after = noted(graph), noted(loaded)
    assert differences(before, after) == []
    assert differences(before, Fingerprint.unpacked(before.packed())) == []


@given(graphs, st.data())
def test_a_single_change_changes_exactly_its_own_leaf(graph: Any, data: st.DataObject) -> None:
    root = holding(graph=graph, counter=1)
    before = noted(root)
    places = [(root, "counter"), *_places(graph)]
    holder, place = data.draw(st.sampled_from(places))
    _change(holder, place)
    after = noted(root)
    changed = {
        place[0]
        for place in before.by_place.keys() | after.by_place.keys()
        if before.by_place.get(place) != after.by_place.get(place)
    }
    assert len(changed) == 1
    assert [item.path for item in differences(before, after)] == [*changed]


def _places(graph: Any) -> list[tuple[Any, Any]]:
    """Return where in a graph something can be changed without changing its form."""
    found: list[tuple[Any, Any]] = []
    waiting, seen = [graph], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (np.ndarray, torch.Tensor)):
            found.append((value, 0))
        inside: list[tuple[Any, Any]] = []
        if isinstance(value, (list, tuple)):
            inside = list(enumerate(value))
        elif isinstance(value, dict):
            inside = list(value.items())
        elif isinstance(value, SimpleNamespace):
            inside = list(vars(value).items())
        for place, item in inside:
            waiting.append(item)
            if isinstance(item, (int, float, str)) and not isinstance(value, tuple):
                found.append((value, place))
    return found


def _change(holder: Any, place: Any) -> None:
    if isinstance(holder, SimpleNamespace):
        setattr(holder, place, _changed(getattr(holder, place)))
    else:
        holder[place] = _changed(holder[place])


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + "x" if isinstance(value, str) else value + 1 if abs(value) < 2**20 else 0 * value


class Dropping:
    """Leaves something out when it is saved."""

    def __init__(self) -> None:
        self.kept, self.dropped = 1, [2]

    def __getstate__(self) -> dict[str, int]:
        return {"kept": self.kept}


def test_what_a_library_leaves_out_is_told_from_what_the_user_does() -> None:
    loader = hippo.Loader(torch.utils.data.TensorDataset(torch.arange(8)), 2, seed=0)
    next(iter(loader.batches(1)))
    leaves = of_graph(SimpleNamespace(loader=loader, own=Dropping(), model=nn.Linear(1, 1)), unsaved=False)
    kinds = {leaf.path: leaf.kind for leaf in leaves if leaf.kind in UNSAVED}
    assert kinds["self.own.dropped"] == "unsaved"
    assert {kind for path, kind in kinds.items() if path.startswith(("self.loader", "self.model"))} == {
        "internal"
    }
    average = of_graph(SimpleNamespace(average=nn.Linear(1, 1), own=Dropping()), unsaved=True)
    kinds = {leaf.path: leaf.kind for leaf in average}
    assert kinds["self.average.weight"] == kinds["self.own.kept"] == "unsaved"
    assert kinds["self.average.training"] == "internal"


def test_a_masked_value_is_read_without_being_changed() -> None:
    assert noted(np.ma.masked) == noted(np.ma.masked)
