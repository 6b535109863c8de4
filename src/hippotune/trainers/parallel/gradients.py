"""Gradients of the whole batch, where each rank computes those of its part.

They are averaged over the ranks at the end of every backward(), so that whatever comes after it (clipping, a
scaler, the optimizer) sees what it would see at width 1. Averaging is idempotent: gradients that add up over
several calls are right after each of them.

Every call averages the same tensors, in the same order, on every rank: all that require a gradient, whether
this very backward() reached them on this rank or not, but for those that a wrapper of torch's has exchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress

import torch
from torch import Tensor

from hippotune.trainers.parallel.ranks import Ranks

_MOST_BYTES = 64 << 20  # in one message, which is copied


@contextmanager
def averaged(parameters: Sequence[Tensor], ranks: Ranks) -> Iterator[None]:
    """Average the gradients of these leaf tensors at the end of every backward()."""
    ranks.check_alike(_mark(parameters))
    averaging = _Averaging(parameters, ranks)
    hooks = []
    for index, parameter in enumerate(parameters):
        is_trained = parameter.requires_grad
        parameter.requires_grad_(True)  # one that is frozen now may be thawed within the step
        add = partial(averaging.add, index)
        hooks.append(parameter.register_post_accumulate_grad_hook(add))  # type: ignore[no-untyped-call]
        parameter.requires_grad_(is_trained)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Averaging:
    """What the backward() that is under way has reached."""

    def __init__(self, parameters: Sequence[Tensor], ranks: Ranks) -> None:
        self._parameters = parameters
        self._ranks = ranks
        self._reached: set[int] = set()
        self._expected: set[int] = set()  # calls of backward(), by number, that end with an average

    def add(self, index: int, parameter: Tensor) -> None:
        """Note that a parameter has got its gradient."""
        self._reached.add(index)
        call = torch._C._current_graph_task_id()
        if call not in self._expected:
            self._expected.add(call)
            torch.autograd.Variable._execution_engine.queue_callback(partial(self._average, call))

    def _average(self, call: int) -> None:
        self._expected.discard(call)
        reached, self._reached = self._reached, set()
        with torch.no_grad():
            for indices in self._buckets():
                self._average_bucket(indices, reached)
        self._ranks.exchanged.clear()

    def _buckets(self) -> Iterator[list[int]]:
        """Yield parameters that fit into one message."""
        open_buckets: dict[tuple[torch.dtype, torch.device], list[int]] = {}
        sizes: dict[tuple[torch.dtype, torch.device], int] = {}
        for index, parameter in enumerate(self._parameters):
            if not parameter.requires_grad or id(parameter) in self._ranks.exchanged:
                continue
            kind = parameter.dtype, parameter.device
            size = parameter.numel() * parameter.element_size()
            if kind in open_buckets and sizes[kind] + size > _MOST_BYTES:
                yield open_buckets.pop(kind)
            if kind not in open_buckets:
                open_buckets[kind], sizes[kind] = [], 0
            open_buckets[kind].append(index)
            sizes[kind] += size
        yield from open_buckets.values()

    def _average_bucket(self, indices: list[int], reached: set[int]) -> None:
        parameters = [self._parameters[index] for index in indices]
        gradients = [_gradient_of(parameter) for parameter in parameters]
        flags = gradients[0].new_tensor([index in reached for index in indices])
        flat = torch.cat([*(gradient.reshape(-1) for gradient in gradients), flags])
        flat.div_(self._ranks.share.width)  # before the sum: half floats end early
        flat = self._ranks.sum(flat, "backward()")
        *pieces, flags = torch.split(flat, [*(gradient.numel() for gradient in gradients), len(indices)])
        is_new = flags.tolist()  # whether some rank has got a gradient
        for parameter, gradient, piece in compress(zip(parameters, gradients, pieces, strict=True), is_new):
            _put_gradient(parameter, gradient, piece)


def _gradient_of(parameter: Tensor) -> Tensor:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient if gradient.layout is torch.strided else gradient.to_dense()


def _put_gradient(parameter: Tensor, gradient: Tensor, piece: Tensor) -> None:
    average = piece.view(parameter.shape)
    if parameter.grad is gradient:
        gradient.copy_(average)
    elif parameter.grad is None:
        parameter.grad = gradient.copy_(average)
    else:
        parameter.grad = average.to_sparse(parameter.grad.sparse_dim())


def _mark(parameters: Sequence[Tensor]) -> int:
    """Return a number that tells lists of parameters apart."""
    described = [(tuple(parameter.shape), str(parameter.dtype)) for parameter in parameters]
    return int.from_bytes(hashlib.blake2b(repr(described).encode(), digest_size=7).digest(), "little")
