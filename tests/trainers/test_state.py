"""Whatever a trainer holds comes back as it was: identity, aliases, views, gradients. Or it is named."""

from __future__ import annotations

import ctypes
import enum
import functools
import gc
import io
import itertools
import logging
import queue
import random
import re
import socket
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.data import DataLoader

from hippotune.trainers.state.pickling import Known, Reference, dumps, loads
from hippotune.trainers.state.refusals import Unsavable

SENTINEL = object()


class Unset:
    """There to be told from everything else."""

    INSIDE = object()


@dataclass
class Plain:
    name: str
    steps: int = 0


def defaulted(value: object = object(), *, other: object = Unset()) -> tuple[object, object]:
    return value, other


def enclosed() -> Callable[[], object]:
    mark = object()
    return lambda: mark


defaulted.mark = Unset()  # type: ignore[attr-defined]
marked = enclosed()
UNSET, NOT_A_NUMBER, SIZES, TABLE = Unset(), float("nan"), ((1, 2.0), "words"), {"none": [Unset()]}
FAST, COUNTED = Plain("fast"), Plain("counted")
CONSTANTS = {
    "a bare object": lambda: SENTINEL,
    "an object without attributes": lambda: UNSET,
    "in a class": lambda: Unset.INSIDE,
    "in containers": lambda: TABLE["none"][0],
    "a default": lambda: defaulted()[0],
    "a default of a keyword": lambda: defaulted()[1],
    "an attribute of a function": lambda: defaulted.mark,  # type: ignore[attr-defined]
    "in a closure": marked,
    "an object of plain values": lambda: FAST,
    "of a library": lambda: MISSING,
    "NaN": lambda: NOT_A_NUMBER,
    "NaN of NumPy": lambda: np.nan,
    "a tuple": lambda: SIZES,
    "a masked value": lambda: np.ma.masked,
    "a module of a class of its own": lambda: torch.backends.cudnn,
}


class Holder:
    """Something that holds things, as a trainer does."""

    def __init__(self, **things: Any) -> None:
        vars(self).update(things)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def again(holder: Holder) -> Holder:
    """Return another holder, made from what was saved of one."""
    pickled = dumps(vars(holder), Known({id(holder): ("self", "")}), holder)
    other = Holder()

    def resolve(reference: Reference) -> Any:
        assert reference == ("self", "")
        return other

    vars(other).update(loads(pickled, resolve))
    return other


def test_a_holder_that_holds_itself_and_things_that_hold_it() -> None:
    holder = Holder(table={}, parts=[])
    holder.me, holder.table["up"] = holder, holder
    holder.parts += [holder.parts, holder.table]
    other = again(holder)
    assert other.me is other
    assert other.table["up"] is other
    assert other.parts[0] is other.parts
    assert other.parts[1] is other.table


class Activation(enum.Enum):
    SQUARE = functools.partial(lambda x: x * x)


class Options(enum.Flag):
    ONE, TWO = 1, 2


def test_members_of_enums_are_saved_by_their_names() -> None:
    other = again(Holder(activation=Activation.SQUARE, options=Options.ONE | Options.TWO))
    assert other.activation is Activation.SQUARE
    assert other.options is Options.ONE | Options.TWO


# Tensors.


def test_tensors_that_share_memory_share_it_again_with_their_strides() -> None:
    base = torch.arange(24.0).reshape(4, 6)
    holder = Holder(
        base=base, row=base[1], turned=base.T, wide=torch.ones(1).expand(3, 5), step=base[::2, 1::3]
    )
    other = again(holder)
    other.base.mul_(0)
    assert not other.row.any()
    assert not other.turned.any()
    assert not other.step.any()
    for name in vars(holder):
        assert vars(other)[name].stride() == vars(holder)[name].stride()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.empty(0, 3),
        torch.arange(3, dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        nn.Parameter(torch.ones(2), requires_grad=False),
        torch.ones(2, requires_grad=True),
    ],
)
def test_tensors_of_every_kind_come_back(tensor: Tensor) -> None:
    other = again(Holder(it=tensor)).it
    assert (type(other), other.dtype, other.layout, other.shape) == (
        *(type(tensor), tensor.dtype, tensor.layout, tensor.shape),
    )
    assert other.requires_grad == tensor.requires_grad
    dense = [each.detach().dequantize() if each.is_quantized else each.detach() for each in (tensor, other)]
    dense = [each if each.layout is torch.strided else each.to_dense() for each in dense]
    assert torch.equal(*dense)


def test_gradients_belong_to_their_tensors_and_inference_tensors_stay_that() -> None:
    model = nn.Linear(3, 2)
    model(torch.ones(1, 3)).sum().backward()
    with torch.inference_mode():
        inference = torch.ones(2)
    other = again(Holder(model=model, grad=model.weight.grad, inference=inference))
    assert other.model.weight.grad is other.grad
    assert torch.equal(other.grad, model.weight.grad)
    assert other.inference.is_inference()


def test_a_loaded_storage_can_grow_like_any_other() -> None:
    other = again(Holder(it=torch.ones(2))).it
    assert other.resize_(1000).shape == (1000,)


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    steps=st.lists(st.sampled_from([-2, -1, 1, 2]), min_size=3, max_size=3),
    order=st.sampled_from("CFK"),
)
def test_views_of_arrays_stay_views(shape: list[int], steps: list[int], order: Any) -> None:
    base = np.arange(float(np.prod(shape))).reshape(shape).transpose().copy(order=order)
    view = base[tuple(slice(None, None, step) for step in steps[: base.ndim])]
    other = again(Holder(base=base, view=view))
    for one, another in ((base, other.base), (view, other.view)):
        strides = zip(one.shape, one.strides, another.strides, strict=True)
        assert all(here == there for length, here, there in strides if length > 1)
    assert other.base.flags.owndata
    assert np.array_equal(other.view, view)
    other.base += 1
    assert np.array_equal(other.view, view + 1)


@pytest.mark.parametrize("first", ["tensor", "array"])
def test_arrays_and_tensors_share_memory_both_ways(first: str) -> None:
    array = np.arange(6.0)
    tensor = torch.from_numpy(array[2:])
    things = {"array": array, "tensor": tensor} if first == "array" else {"tensor": tensor, "array": array}
    own = torch.arange(4.0)
    other = again(Holder(**things, own=own, seen=own.numpy()[1:]))
    other.array[:] = 7
    assert other.tensor.tolist() == [7, 7, 7, 7]
    other.own.fill_(3)
    assert other.seen.tolist() == [3, 3, 3]


def test_arrays_of_objects_and_of_times_come_back_with_their_views() -> None:
    objects = np.array([[1], "two", None], dtype=object)
    times = np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]")
    other = again(Holder(objects=objects, last=objects[1:], times=times, part=times[1:]))
    other.objects[2] = "changed"
    assert other.last.tolist() == ["two", "changed"]
    other.times[1] = np.datetime64("2030-05-05")
    assert other.part.tolist() == [np.datetime64("2030-05-05").item()]


def test_a_mapped_file_that_is_only_read_is_mapped_again(tmp_path: Path) -> None:
    np.arange(8, dtype=np.int16).tofile(tmp_path / "data")
    mapped = np.memmap(tmp_path / "data", np.int16, "r", offset=4, shape=(2, 3))
    other = again(Holder(mapped=mapped, row=mapped[1]))
    assert isinstance(other.mapped, np.memmap)
    assert other.row.tolist() == [5, 6, 7]
    private = np.memmap(tmp_path / "data", np.int16, "c")
    private[0] = 99
    assert again(Holder(it=private)).it[0] == 99


# Torch's objects.


def test_optimizers_keep_their_own_attributes_and_their_parameters() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters())
    optimizer.note = ["mine"]  # type: ignore[attr-defined]
    other = again(Holder(model=model, optimizer=optimizer))
    assert other.optimizer._params[0] is other.model.weight
    assert other.optimizer.note == ["mine"]
    other.optimizer.step(lambda: other.model(torch.ones(1, 2)).sum())


def test_a_schedule_goes_on_with_its_optimizer() -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    optimizer.step()
    schedule.step()
    other = again(Holder(schedule=schedule, optimizer=optimizer))
    for each in (schedule, other.schedule):
        each.optimizer.step()
        each.step()
    assert other.schedule.optimizer is other.optimizer
    assert other.optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] == 0.025


@pytest.mark.parametrize(
    "wrap",
    [
        parametrizations.spectral_norm,
        parametrizations.weight_norm,
        parametrizations.orthogonal,
        functools.partial(prune.l1_unstructured, name="weight", amount=0.5),
        pytest.param(nn.utils.weight_norm, marks=pytest.mark.filterwarnings("ignore::FutureWarning")),
    ],
)
def test_modules_whose_weights_are_computed_from_others(wrap: Callable[[nn.Module], nn.Module]) -> None:
    module = wrap(nn.Linear(3, 3))
    module.eval()
    module(torch.ones(1, 3)).sum().backward()
    other = again(Holder(module=module)).module
    assert type(other).__name__ == type(module).__name__
    assert torch.equal(other(torch.ones(2, 3)), module(torch.ones(2, 3)))
    assert [name for name, _ in other.named_parameters()] == [name for name, _ in module.named_parameters()]


def test_what_was_compiled_is_compiled_again() -> None:
    module, function = nn.Linear(2, 2), torch.compile(lambda x: x + 1, backend="eager")
    inside = nn.Linear(2, 2)
    inside.compile(backend="eager")
    holder = Holder(
        whole=torch.compile(module, backend="eager"), plain=module, inside=inside, function=function
    )
    example = torch.ones(1, 2)
    other = again(holder)
    assert torch.equal(other.whole(example), module(example))
    assert other.whole._orig_mod is other.plain
    assert torch.equal(other.inside(example), inside(example))
    assert "_compiled_call_impl" in vars(other.inside)
    assert torch.equal(other.function(example), example + 1)


@pytest.mark.parametrize("taken", [0, 1, 3, 5])
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_iterator_of_a_loader_goes_on_with_the_same_batches(shuffle: bool, taken: int) -> None:
    torch.manual_seed(1)
    loader = DataLoader(list(range(10)), batch_size=2, shuffle=shuffle)  # type: ignore[arg-type]
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    state = torch.get_rng_state()
    other = again(Holder(loader=loader, iterator=iterator)).iterator
    rest = [batch.tolist() for batch in other]
    torch.set_rng_state(state)
    assert rest == [batch.tolist() for batch in iterator]
    assert len(rest) == 5 - taken


def test_saving_draws_nothing_from_the_generator_of_a_loader() -> None:
    def order(save: bool) -> list[list[int]]:
        generator = torch.Generator().manual_seed(3)
        loader = DataLoader(range(5), batch_size=2, shuffle=True, generator=generator)  # type: ignore[arg-type]
        holder = Holder(loader=loader, batches=iter(loader))
        first = next(holder.batches).tolist()
        holder = again(again(holder)) if save else holder
        rest = [batch.tolist() for batch in holder.batches]
        return [first, *rest, *(batch.tolist() for batch in holder.loader)]

    assert order(save=True) == order(save=False)


def test_generators_go_on_where_they_were_and_the_shared_one_stays_shared() -> None:
    holder = Holder(
        torch=torch.Generator().manual_seed(4),
        shared=torch.default_generator,
        numpy=np.random.default_rng(5),
        old=np.random.RandomState(6),
        python=random.Random(7),
    )
    other = again(holder)
    assert other.shared is torch.default_generator
    assert torch.rand(3, generator=other.torch).equal(torch.rand(3, generator=holder.torch))
    assert other.numpy.random() == holder.numpy.random()
    assert other.old.rand() == holder.old.rand()
    assert other.python.random() == holder.python.random()


# Functions, classes and everything else.


def counters() -> tuple[Callable[[], int], Callable[[], int]]:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    return add, lambda: count


def test_closures_share_their_variables_and_use_the_globals_of_their_module() -> None:
    add, get = counters()
    add()

    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    other = again(
        Holder(add=add, get=get, factorial=factorial, here=lambda value=SENTINEL: value is SENTINEL)
    )
    assert (other.add(), other.get(), get()) == (2, 2, 1)
    assert other.factorial(5) == 120
    assert other.here()
    assert other.here.__globals__ is globals()


def test_what_has_a_name_is_found_by_it() -> None:
    other = again(
        Holder(function=counters, cls=Holder, sentinel=SENTINEL, module=np, log=logging.getLogger("x"))
    )
    assert other.function is counters
    assert other.cls is Holder
    assert other.sentinel is SENTINEL
    assert other.module is np
    assert other.log is logging.getLogger("x")


@pytest.mark.parametrize("constant", CONSTANTS.values(), ids=CONSTANTS)
def test_what_code_compares_by_identity_is_the_same_after_a_load(constant: Callable[[], Any]) -> None:
    other = again(
        Holder(one=constant(), many=[constant(), {"it": constant()}], own=Unset(), nan=float("nan"))
    )
    assert other.one is other.many[0] is other.many[1]["it"] is constant()
    assert type(other.own) is Unset
    assert other.own is not UNSET
    assert other.nan is not NOT_A_NUMBER


def test_an_object_that_has_changed_since_is_as_it_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = dumps([COUNTED, COUNTED], Known(), Holder())
    monkeypatch.setattr(COUNTED, "steps", 1)
    first, second = loads(pickled, lambda _: None)
    assert first is second is not COUNTED
    assert first == Plain("counted", 0)


class Listed:
    """Has a slot, and is in its class."""

    __slots__ = ("content",)
    all: list[Listed] = []

    def __init__(self, content: object) -> None:
        self.content = content
        self.all.append(self)


@pytest.mark.parametrize(
    "make", [lambda: Listed(7), lambda: re.compile("a+")], ids=["slots", "of the library"]
)
def test_what_holds_more_than_attributes_is_saved_by_what_it_holds(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    monkeypatch.setitem(globals(), "held", [made])
    pickled = dumps([made], Known(), Holder())
    monkeypatch.setitem(globals(), "held", [Listed(8)])
    Listed.all[:] = [Listed(9)]
    (other,) = loads(pickled, lambda _: None)
    assert getattr(other, "content", other) == getattr(made, "content", made)
    Listed.all.clear()


def test_constants_are_found_in_large_modules_and_beside_what_stands_for_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = ModuleType("a_large_module")
    vars(large).update({f"name{number}": object() for number in range(3_000)}, proxy=weakref.proxy(Unset()))
    large.__file__ = __file__
    monkeypatch.setitem(sys.modules, "a_large_module", large)
    one = vars(large)["name2999"] = Unset()
    (other,) = loads(dumps([one], Known(), Holder()), lambda _: None)
    assert other is one


def test_a_constant_that_is_gone_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = dumps([UNSET, SIZES], Known(), Holder())
    monkeypatch.delitem(globals(), "UNSET")
    monkeypatch.setitem(globals(), "SIZES", (1,))
    unset, sizes = loads(pickled, lambda _: None)
    assert type(unset) is Unset
    assert sizes == ((1, 2.0), "words")


def test_instances_of_classes_made_in_a_function() -> None:
    class Local:
        made = 0

        def __init__(self, value: int) -> None:
            self.value = value

        def doubled(self) -> int:
            return 2 * self.value

    other = again(Holder(one=Local(3), two=Local(4)))
    assert (other.one.doubled(), other.two.doubled()) == (6, 8)
    assert type(other.one) is type(other.two)


@dataclass
class Slotted:
    __slots__ = ("inner",)
    inner: Any


@dataclass(frozen=True)
class Frozen:
    table: dict[str, int] = field(default_factory=dict)


class Forwarding:
    """Answers to every name by asking what it holds."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_objects_of_every_sort() -> None:
    holder = Holder(slotted=Slotted([1]), frozen=Frozen({"a": 1}), forwarding=Forwarding("text"))
    holder.iterator = itertools.cycle([1, 2, 3])
    next(holder.iterator)
    holder.queue = queue.Queue()
    holder.queue.put(5)
    holder.view = memoryview(bytearray(b"abc"))
    other = again(holder)
    assert other.slotted.inner == [1]
    assert other.frozen == holder.frozen
    assert other.forwarding.upper() == "TEXT"
    assert list(itertools.islice(other.iterator, 3)) == [2, 3, 1]
    assert other.queue.get() == 5
    other.view[0] = 0
    assert other.view.obj[0] == 0


def test_locks_are_made_anew_and_weak_references_lead_to_the_new_objects() -> None:
    model = nn.Linear(1, 1)
    holder = Holder(
        model=model,
        lock=threading.Lock(),
        condition=threading.Condition(),
        reference=weakref.ref(model),
        by_name=weakref.WeakValueDictionary({"model": model}),
        of_model=weakref.WeakKeyDictionary({model: 1}),
        dead=weakref.ref(nn.Linear(1, 1)),
    )
    holder.lock.acquire()
    other = again(holder)
    assert not other.lock.locked()
    assert other.reference() is other.model
    assert other.by_name["model"] is other.model
    assert other.of_model[other.model] == 1
    assert other.dead() is None
    with other.condition:
        other.condition.notify_all()


def test_views_of_a_dict_and_weak_proxies_stay_bound_to_what_they_show() -> None:
    class Target:
        level = 1

    table, ordered, target = {"a": 1}, OrderedDict(a=1), Target()
    holder = Holder(
        table=table,
        ordered=ordered,
        views=(table.keys(), table.values(), table.items(), ordered.values(), MappingProxyType(table)),
        target=target,
        proxy=weakref.proxy(target),
        members=weakref.WeakSet([target]),
    )
    other = again(holder)
    other.table["b"] = other.ordered["b"] = 2
    keys, values, items, of_ordered, proxy = other.views
    assert (list(keys), list(values), list(items)) == (["a", "b"], [1, 2], [("a", 1), ("b", 2)])
    assert list(of_ordered) == [1, 2]
    assert dict(proxy) == other.table
    other.proxy.level = 5
    assert other.target.level == 5
    assert list(other.members) == [other.target]
    del other.target
    assert len(other.members) == 0
    with pytest.raises(ReferenceError):
        _ = other.proxy.level


def test_the_shared_generators_of_python_and_numpy_stay_shared() -> None:
    numpy_shared = np.random.mtrand._rand  # type: ignore[attr-defined]
    other = again(Holder(draw=random.random, numpy=numpy_shared, own=random.Random(3)))
    assert other.draw.__self__ is random.random.__self__  # type: ignore[attr-defined]
    assert other.numpy is numpy_shared
    assert other.own.random() == random.Random(3).random()


def test_views_of_a_file_that_is_mapped_to_be_changed_in_memory(tmp_path: Path) -> None:
    np.arange(6.0).tofile(tmp_path / "data")
    mapped = np.memmap(tmp_path / "data", np.float64, "c")
    mapped[2] = 20
    other = again(Holder(whole=mapped, part=np.asarray(mapped)[2:4]))
    other.part *= 2
    assert other.whole.tolist() == [0, 1, 40, 6, 4, 5]


def test_a_file_that_is_read_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    with (tmp_path / "lines").open() as file:
        file.readline()
        other = again(Holder(file=file, out=sys.stdout))
        assert other.out is sys.stdout
        assert other.file.readline() == "two\n"
        other.file.close()


def test_saving_keeps_nothing_alive() -> None:
    holder = Holder(member=Holder())
    member = weakref.ref(holder.member)
    gc.disable()
    try:
        again(holder)
        del holder.member
        assert member() is None
    finally:
        gc.enable()


# What is refused.


def _hooked() -> Tensor:
    tensor = torch.ones(1, requires_grad=True)
    tensor.register_hook(lambda gradient: gradient)
    return tensor


def _generator() -> Iterator[int]:
    yield 1


def _persistent() -> DataLoader[int]:
    loader: DataLoader[int] = DataLoader([1, 2], num_workers=1, persistent_workers=True)  # type: ignore[arg-type]
    list(loader)
    return loader


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_generator, r"\(generator\) is a generator in the middle of its work.*__next__"),
        (lambda: torch.ones(1, requires_grad=True) * 2, r"live autograd graph.*detach\(\)"),
        (_hooked, r"has hooks, which are lost"),
        (socket.socket, r"\(socket\) is a network connection.*prepare\(\)"),
        (lambda: threading.Thread(target=print), r"\(Thread\) is a thread"),
        (queue.SimpleQueue, r"\(SimpleQueue\) cannot be saved: TypeError.*prepare\(\)"),
        (threading.local, r"\(_local\) cannot be saved"),
        (lambda: (ctypes.c_int * 4)(), r"is memory of ctypes.*NumPy"),
        (lambda: memoryview(b"abc")[1:], r"a view of a part of some memory"),
        (lambda: iter(DataLoader([1, 2], num_workers=1)), r"DataLoader with worker processes.*hippo.Loader"),  # type: ignore[arg-type]
        (_persistent, r"DataLoader with worker processes.*persistent_workers=False"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_cannot_be_saved_is_named_with_its_path_and_the_remedy(
    make: Callable[[], Any], words: str
) -> None:
    thing = make()
    with pytest.raises(Unsavable, match=rf"self\.agent\.parts\['a'\]\[0\] {words}|self\.agent.*{words}"):
        again(Holder(agent=Holder(parts={"a": [thing]})))


def test_a_file_open_for_writing_is_refused_and_one_in_memory_is_not(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file, pytest.raises(Unsavable, match=r"self\.logger\.file \(TextIO"):
        again(Holder(logger=Holder(file=file)))
    memory = io.BytesIO(b"abc")
    memory.read(1)
    assert again(Holder(it=memory)).it.read() == b"bc"


def test_a_file_mapped_for_writing_is_refused(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "data", np.int16, "w+", shape=(3,))
    with pytest.raises(Unsavable, match=r"self\.it \(memmap\) is a memory-mapped file open for writing"):
        again(Holder(it=mapped[1:]))
    shared = torch.from_file(str(tmp_path / "data"), shared=True, size=3, dtype=torch.int16)
    with pytest.raises(Unsavable, match=r"self\.it \(Tensor\) is memory shared with a file"):
        again(Holder(it=shared))


def test_a_chain_that_is_too_deep_is_told_so_shortly() -> None:
    chain: Mapping[str, Any] = {}
    for _ in range(100_000):
        chain = {"next": chain}
    with pytest.raises(Unsavable, match=r"self\.chain\[.next.\].* is nested too deeply") as refused:
        again(Holder(chain=chain))
    assert len(str(refused.value)) < 1000
