"""Models in torch's own `DistributedDataParallel`: it exchanges gradients while backward() still runs.

A wrapper is made anew in every group, and is no part of a trainer's state. It wraps the parameters that are
trained when it is asked for; what it does not exchange in a backward() is averaged at its end, as without it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from hippotune.trainers.parallel.blocks import described
from hippotune.trainers.parallel.ranks import Ranks


def wrapped(model: nn.Module, ranks: Ranks) -> nn.Module:
    """Return the wrapper of a model in a group; the model itself where nothing of it is trained."""
    trained = [parameter.requires_grad for parameter in model.parameters()]
    if not any(trained):
        return model
    known = ranks.wrappers.get(id(model))
    if known is None or known[0] is not model or known[1] != trained:
        ranks.announce(f"calls self.parallel() with {sum(trained)} of {len(trained)} parameters trained")
        # All hold the same already, and batch norms see the whole batch. A rank may leave parameters out.
        wrapper = DistributedDataParallel(
            model, init_sync=False, broadcast_buffers=False, find_unused_parameters=True
        )
        # Torch wants to see the class GradBucket in an annotation, not its name; or no annotation.
        wrapper.register_comm_hook(None, lambda _, bucket: _exchange(ranks, bucket))
        known = ranks.wrappers[id(model)] = (model, trained, wrapper)
    wrapper = known[2]
    wrapper.training = model.training  # of the model, each module has its own
    return wrapper


def _exchange(ranks: Ranks, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    ranks.announce(f"calls backward(): gradients {bucket.index()}, {described(bucket.buffer())}")
    ranks.exchanged.update(map(id, bucket.parameters()))
    return allreduce_hook(None, bucket)  # type: ignore[arg-type]
