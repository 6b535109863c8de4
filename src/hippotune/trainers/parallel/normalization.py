"""Batch normalization over the whole batch, of which each rank holds a part.

Statistics and gradients are those of the batch at width 1, up to the order of summation. One message a layer
in each direction; all else is done by torch's own kernels. On CUDA it is what torch's `SyncBatchNorm` does,
which torch has for no other device; the modules stay what they are.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.modules._functions import SyncBatchNorm

from hippotune.trainers.parallel.blocks import described
from hippotune.trainers.parallel.ranks import Ranks


def batch_norm(
    ranks: Ranks,
    features: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Do what ``torch.nn.functional.batch_norm`` does in training, over all that the ranks hold."""
    if features.device.type == "cuda":
        ranks.announce(f"calls batch_norm(), {described(features)}")
        statistics = running_mean, running_var, eps, momentum
        everybody = dist.group.WORLD, ranks.share.width
        synced: Tensor = SyncBatchNorm.apply(features, weight, bias, *statistics, *everybody)  # type: ignore[no-untyped-call]
        return synced
    with torch.no_grad():
        mean, variance, count = _statistics(ranks, features)
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            unbiased = variance * (count / (count - 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    given = features, weight, bias, mean, variance, count, eps, ranks
    normalized: Tensor = _Normalize.apply(*given)  # type: ignore[no-untyped-call]
    return normalized


def _statistics(ranks: Ranks, features: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return mean, variance and the number of values for each channel of the whole batch."""
    exact = features if features.dtype in (torch.float32, torch.float64) else features.float()
    own_mean, own_variance = _own_statistics(exact)
    own_count = own_mean.new_tensor([features.numel() / features.shape[1]])
    every = ranks.gather(torch.cat([own_mean, own_variance, own_count]), "batch_norm()")
    means, variances, counts = torch.split(every, [len(own_mean), len(own_mean), 1], dim=1)
    count = counts.sum()
    mean = (means * counts).sum(0) / count
    variance = ((variances + (means - mean).square()) * counts).sum(0) / count
    return mean, variance, count.item()


def _own_statistics(features: Tensor) -> tuple[Tensor, Tensor]:
    if features.device.type == "cpu":  # three times as quick
        mean, variance = torch.batch_norm_update_stats(features, None, None, 0.0)
    else:
        dimensions = [0, *range(2, features.dim())]
        variance, mean = torch.var_mean(features, dimensions, correction=0)
    return mean, variance


class _Normalize(torch.autograd.Function):
    """Normalization by given statistics, which depend on all values of all ranks."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        count: float,
        eps: float,
        ranks: Ranks,
    ) -> Tensor:
        ctx.save_for_backward(features, weight, mean, variance)
        ctx.count, ctx.eps, ctx.ranks = count, eps, ranks
        return torch.nn.functional.batch_norm(features, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, mean, variance = ctx.saved_tensors
        _, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, features, weight, mean, variance, None, None, False, ctx.eps, [False, True, True]
        )
        sums = ctx.ranks.sum(torch.stack([of_weight, of_bias]), "backward() of batch_norm()") / ctx.count
        # A value counts by itself, and moves mean and variance, and with them all values of all ranks.
        spread = torch.rsqrt(variance + ctx.eps)
        scale = spread if weight is None else spread * weight
        slope = -scale * spread * sums[0]
        offset = -scale * sums[1] - slope * mean
        shape = [1, -1] + [1] * (features.dim() - 2)
        of_features = torch.addcmul(offset.view(shape), features, slope.view(shape))
        of_features.addcmul_(gradient, scale.view(shape))
        return (
            of_features.to(features.dtype),
            of_weight if ctx.needs_input_grad[1] else None,
            of_bias if ctx.needs_input_grad[2] else None,
            *[None] * 5,
        )
