"""Operations on a part of a batch that have to be those on the whole: dropout, noise, batch normalization.

All ranks hold the same random state. What is drawn for the samples of a batch is drawn for the whole batch on
every rank, of which each keeps its part: sample by sample the numbers are those of width 1, and so is the
random state afterwards. What is not drawn for samples is drawn alike by all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from hippotune.trainers.parallel.normalization import batch_norm
from hippotune.trainers.parallel.ranks import Ranks

_Function = Callable[..., Any]

# Rows that are masked altogether are zero, as in torch's own attention.
_softmax: _Function = getattr(torch, "_safe_softmax", torch.softmax)


class ShardedRandomOps(TorchFunctionMode):
    """While it is entered, such operations take into account that this rank holds a part of the batch."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    def __torch_function__(
        self, func: _Function, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Stand in for any function of torch."""
        ours = _OURS.get(func)
        if ours is None or not self._ranks.batch.is_split:
            return func(*args, **kwargs or {})
        return ours(self._ranks, func, *args, **kwargs or {})


# Dropout.


def _dropout(
    ranks: Ranks, func: _Function, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    dimension = ranks.batch.dimension(input.shape)
    if dimension is None or not training or p in (0, 1):
        return func(input, p, training, inplace)
    mask = _part(ranks, func(_whole_like(ranks, input, dimension).fill_(1), p, True), dimension)
    return input.mul_(mask) if inplace else input * mask


def _plain_dropout(ranks: Ranks, func: _Function, input: Tensor, p: float, train: bool) -> Any:
    return _dropout(ranks, F.dropout, input, p, train, func is torch.dropout_)


def _alpha_dropout(
    ranks: Ranks, func: _Function, input: Tensor, p: float, training: bool, inplace: bool
) -> Any:
    dimension = ranks.batch.dimension(input.shape)
    if dimension is None or not training or p in (0, 1):
        return func(input, p, training, inplace)
    dropped = _part(ranks, func(_embedded(ranks, input, dimension), p, True), dimension)
    return input.copy_(dropped) if inplace else dropped


def _attention(
    ranks: Ranks,
    func: _Function,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    # Kernels for GPUs draw in an order of their own.
    if dropout_p == 0 or query.device.type != "cpu" or ranks.batch.dimension(query.shape) is None:
        return func(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        scores = (
            scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is torch.bool else scores + attn_mask
        )
    return _dropout(ranks, F.dropout, _softmax(scores, -1), dropout_p) @ value


def _multi_head_attention(ranks: Ranks, func: FunctionType, *args: Any, **kwargs: Any) -> Any:
    """Call torch's function with the functions above in place of those that it calls itself."""
    inner = {
        "has_torch_function": lambda _: False,
        "dropout": lambda *given, **named: _dropout(ranks, F.dropout, *given, **named),
        "scaled_dot_product_attention": lambda *given, **named: _attention(
            ranks, F.scaled_dot_product_attention, *given, **named
        ),
    }
    copy = FunctionType(
        func.__code__, {**func.__globals__, **inner}, func.__name__, func.__defaults__, func.__closure__
    )
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy(*args, **kwargs)


# Noise: only where the first dimension is as long as the part.


def _drawn_like(ranks: Ranks, func: _Function, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not _is_for_samples(ranks, input):
        return func(input, *args, **kwargs)
    return _part(ranks, func(_whole_like(ranks, input, 0), *args, **kwargs), 0)


def _drawn_in_place(ranks: Ranks, func: _Function, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not _is_for_samples(ranks, input) or any(isinstance(arg, Tensor) for arg in args):
        return func(input, *args, **kwargs)
    whole = func(_whole_like(ranks, input, 0), *args, **kwargs)
    return input.copy_(_part(ranks, whole, 0))


def _drawn_from(ranks: Ranks, func: _Function, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not _is_for_samples(ranks, input) or args or kwargs.keys() - {"generator"}:
        return func(input, *args, **kwargs)
    return _part(ranks, func(_embedded(ranks, input, 0), **kwargs), 0)


def _drawn(ranks: Ranks, func: _Function, *args: Any, **kwargs: Any) -> Any:
    bounds: tuple[Any, ...]
    if "size" in kwargs:
        bounds, shape = args, kwargs["size"]
    elif args and not isinstance(args[-1], int):
        bounds, shape = args[:-1], args[-1]
    else:  # rand(2, 3), not rand((2, 3))
        bounds, shape = (), args
    if not ranks.batch.is_first_dimension(shape) or kwargs.get("requires_grad") or "out" in kwargs:
        return func(*args, **kwargs)
    whole = shape[0] * ranks.share.width, *shape[1:]
    return _part(ranks, func(*bounds, **{**kwargs, "size": whole}), 0)


def _is_for_samples(ranks: Ranks, tensor: Tensor) -> bool:
    return not isinstance(tensor, nn.Parameter) and ranks.batch.is_first_dimension(tensor.shape)


# Batch normalization.


def _batch_norm(
    ranks: Ranks,
    func: _Function,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not training or not ranks.batch.is_part(input.shape[0]):
        return func(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return batch_norm(ranks, input, running_mean, running_var, weight, bias, momentum, eps)


_OURS: dict[Any, Callable[..., Any]] = {
    F.batch_norm: _batch_norm,
    F.multi_head_attention_forward: _multi_head_attention,
    F.scaled_dot_product_attention: _attention,
    torch.dropout: _plain_dropout,
    torch.dropout_: _plain_dropout,
    torch.bernoulli: _drawn_from,
    **dict.fromkeys((F.dropout, F.dropout1d, F.dropout2d, F.dropout3d), _dropout),
    **dict.fromkeys((F.alpha_dropout, F.feature_alpha_dropout), _alpha_dropout),
    **dict.fromkeys((torch.rand_like, torch.randn_like, torch.randint_like), _drawn_like),
    **dict.fromkeys((torch.rand, torch.randn, torch.randint), _drawn),
    **dict.fromkeys(
        (Tensor.normal_, Tensor.uniform_, Tensor.exponential_, Tensor.bernoulli_, Tensor.random_),
        _drawn_in_place,
    ),
}


# Parts and wholes.


def _whole_like(ranks: Ranks, part: Tensor, dimension: int) -> Tensor:
    """Return an empty tensor for the whole batch, in the same order in memory: numbers are drawn in that."""
    shape = list(part.shape)
    shape[dimension] *= ranks.share.width
    strides: tuple[int, ...] = part.stride()
    order = sorted(range(part.dim()), key=lambda at: (-strides[at], at == dimension))
    empty = torch.empty([shape[at] for at in order], dtype=part.dtype, device=part.device)
    return empty.permute([order.index(at) for at in range(part.dim())])


def _embedded(ranks: Ranks, part: Tensor, dimension: int) -> Tensor:
    """Return the whole batch, with zeros for what other ranks hold."""
    shape = list(part.shape)
    shape[dimension] *= ranks.share.rank
    before = part.new_zeros(shape)
    shape[dimension] = part.shape[dimension] * (ranks.share.width - ranks.share.rank - 1)
    return torch.cat([before, part, part.new_zeros(shape)], dimension)


def _part(ranks: Ranks, whole: Tensor, dimension: int) -> Tensor:
    """Return a copy of this rank's part, so that the rest need not be kept."""
    start, end = ranks.share.bounds(whole.shape[dimension])
    return whole.narrow(dimension, start, end - start).clone()
