"""What ranks say before they exchange anything: blocks of one size, so that calls which differ are noticed.

Gloo pairs the n-th collective of one rank with the n-th of another, whatever these are. Where lengths differ,
it ends the process, or fills a part of what was asked for; where kinds differ, both wait. So every exchange
begins with a block of one size from each rank, which says what is called. Small content travels in the block
and costs no extra message.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

_BYTES = 4096
_CALL = 192  # of these, for what is called
ROOM = _BYTES - _CALL

_NOT_THE_USERS = tuple(
    str(folder)
    for folder in (Path(__file__).parents[2], Path(torch.__file__).parent, sysconfig.get_path("stdlib"))
)


def described(tensor: Tensor) -> str:
    """Return type, shape and place of a tensor."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)} on {tensor.device.type}"


def written(call: str, content: Tensor | None = None) -> Tensor:
    """Return a block."""
    block = bytearray(_BYTES)
    text = call.encode()[:_CALL]
    block[: len(text)] = text
    if content is not None:
        block[_CALL : _CALL + content.nbytes] = content.detach().reshape(-1).view(torch.uint8).numpy().data
    return torch.frombuffer(block, dtype=torch.uint8)


def empty(width: int) -> Tensor:
    """Return where the blocks of all ranks are put, a row for each."""
    return torch.empty(width, _BYTES, dtype=torch.uint8, device="cpu")


def are_alike(every: Tensor) -> bool:
    """Whether all ranks call the same."""
    calls = every.numpy()[:, :_CALL]
    return bool((calls == calls[0]).all())


def calls_in(every: Tensor) -> list[str]:
    """Return what each rank says that it calls."""
    return [bytes(row[:_CALL]).rstrip(b"\0").decode(errors="replace") for row in every.numpy()]


def contents_in(every: Tensor, like: Tensor) -> Tensor:
    """Return what the ranks send, stacked: it has the type and the shape of one's own."""
    contents = every[:, _CALL : _CALL + like.nbytes].clone(memory_format=torch.contiguous_format)
    return contents.view(like.dtype).view(len(every), *like.shape)


def mismatch(calls: Sequence[str], sites: Sequence[str]) -> str:
    """Say which rank does what."""
    ranks: dict[str, list[int]] = {}
    for rank, (call, site) in enumerate(zip(calls, sites, strict=True)):
        ranks.setdefault(call + (f" ({site})" if site else ""), []).append(rank)
    told = (f"rank {', '.join(map(str, those))} {call}" for call, those in ranks.items())
    return f"the workers that train together do not do the same: {'; '.join(told)}"


def call_site() -> str:
    """Return the line of the user's code that is being run; nothing where none is."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        frame, code = caller, caller.f_code
        if not code.co_filename.startswith(("<", *_NOT_THE_USERS)):
            return f"{Path(code.co_filename).name}:{frame.f_lineno}, {code.co_name}"
    return ""
