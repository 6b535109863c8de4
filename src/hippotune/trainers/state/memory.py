"""The memory of tensors: copied from many storages, kept as few tensors, and made many storages again.

A state has thousands of small storages: each as a record of its own would cost a file more than its content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_SMALL = 1 << 16


@dataclass(frozen=True)
class Memory:
    """Copies of storages in main memory: small ones one after the other in `packed`, the others apart.

    `sizes` has the bytes of each storage, in order.
    """

    sizes: Tensor
    packed: Tensor
    large: Sequence[Tensor]

    @classmethod
    def copied(cls, storages: Sequence[torch.UntypedStorage]) -> Memory:
        """Copy storages of any device."""
        sizes = [storage.nbytes() for storage in storages]
        small: list[Tensor] = []
        large: list[Tensor] = []
        for storage, size in zip(storages, sizes, strict=True):
            content = bytes_of(storage)
            if size <= _SMALL:
                small.append(content)
            else:
                large.append(content.clone())
        packed = torch.cat(small) if small else torch.empty(0, dtype=torch.uint8, device="cpu")
        return cls(torch.tensor(sizes, device="cpu"), packed, large)

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"sizes": self.sizes, "packed": self.packed, "large": list(self.large)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Memory:
        """Return what `data` returned."""
        return cls(data["sizes"], data["packed"], data["large"])

    def storages(self) -> list[torch.UntypedStorage]:
        """Return storages in main memory, each with memory of its own."""
        sizes = self.sizes.tolist()
        small = iter(torch.split(self.packed, [size for size in sizes if size <= _SMALL]))
        large = iter(self.large)
        return [
            next(small).clone().untyped_storage() if size <= _SMALL else next(large).untyped_storage()
            for size in sizes
        ]


def bytes_of(storage: torch.UntypedStorage) -> Tensor:
    """Return a storage's memory, or a copy in main memory, as a tensor of bytes."""
    content = storage if storage.device.type == "cpu" else storage.cpu()  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(content)
