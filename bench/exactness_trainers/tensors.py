"""Tensors of every kind on self: layouts, types, subclasses, attributes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Tensor(Toy):
    cause = "tensors of every kind"


class SparseCoo(_Tensor):
    """A sparse tensor that is not coalesced."""

    def start(self) -> None:
        self.sparse = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (4,))

    def amount(self) -> float:
        self.sparse = self.sparse + torch.sparse_coo_tensor(torch.tensor([[2]]), torch.tensor([0.5]), (4,))
        return self.sparse.to_dense().sum().item()


class SparseCsr(_Tensor):
    """A sparse matrix by rows, whose values are written in place."""

    def start(self) -> None:
        self.sparse = torch.eye(4).to_sparse_csr()

    def amount(self) -> float:
        self.sparse.values().mul_(1.1)
        return (self.sparse @ torch.ones(4)).sum().item()


class ComplexTensor(_Tensor):
    """A complex tensor, and its real part as a view."""

    def start(self) -> None:
        self.phase = torch.ones(3, dtype=torch.complex64)
        self.real = self.phase.real

    def amount(self) -> float:
        self.phase *= 1 + 0.5j
        self.real.add_(0.1)
        return 1.0 + self.phase.abs().sum().item()


class ConjugateView(_Tensor):
    """A conjugate that is not carried out, and a negative view."""

    def start(self) -> None:
        self.phase = torch.full((2,), 1 + 1j)
        self.conjugate = self.phase.conj()
        self.negative = self.conjugate.imag

    def amount(self) -> float:
        self.phase.mul_(1 + 0.2j)
        return 2.0 + self.negative.sum().item() + self.conjugate.is_conj() + self.negative.is_neg()


class ExpandedTensor(_Tensor):
    """An expanded tensor, whose one row is written through another."""

    def start(self) -> None:
        self.row = torch.ones(1, 3)
        self.rows = self.row.expand(1000, 3)

    def amount(self) -> float:
        self.row.mul_(1.1)
        return self.rows[999].sum().item() + (self.rows.stride(0) == 0)


class InferenceTensor(_Tensor):
    """A tensor made in inference mode."""

    def start(self) -> None:
        with torch.inference_mode():
            self.frozen = torch.ones(3)

    def amount(self) -> float:
        with torch.inference_mode():
            self.frozen.mul_(1.1)
        return self.frozen.sum().item() + self.frozen.is_inference()


class SmallTypes(_Tensor):
    """Tensors of bfloat16, float16, int8, uint8 and bool."""

    def start(self) -> None:
        kinds = (torch.bfloat16, torch.float16, torch.int8, torch.uint8)
        self.small = [torch.ones(3, dtype=kind) for kind in kinds]
        self.mask = torch.tensor([True, False, False])

    def amount(self) -> float:
        self.mask = self.mask.roll(1)
        for tensor in self.small:
            tensor += tensor.roll(1) * self.mask
        return 1.0 + sum(tensor.float().sum().item() for tensor in self.small) / 20


class Float8Tensor(_Tensor):
    """A tensor of eight-bit floats."""

    def start(self) -> None:
        self.small = torch.ones(4).to(torch.float8_e4m3fn)

    def amount(self) -> float:
        self.small = (self.small.float() * 1.3).to(torch.float8_e4m3fn)
        return self.small.float().sum().item()


class ZeroDim(_Tensor):
    """A tensor without dimensions that counts, and an empty one that says how long it is."""

    def start(self) -> None:
        self.count, self.empty = torch.zeros((), dtype=torch.int64), torch.empty(0, 3)

    def amount(self) -> float:
        self.count += 1
        self.empty = torch.empty(0, self.empty.shape[1] + 1)
        return self.count.item() + self.empty.shape[1]


class NonContiguous(_Tensor):
    """A transposed tensor with gaps, whose strides training reads."""

    def start(self) -> None:
        self.matrix = torch.arange(24.0).reshape(4, 6).t()[::2]

    def amount(self) -> float:
        self.matrix.mul_(1.05)
        return self.matrix.sum().item() / 100 + self.matrix.stride(0)


class ChannelsLast(_Tensor):
    """A convolution whose weights are in channels_last order."""

    def make_model(self) -> nn.Module:
        convolution = nn.Conv2d(2, 2, 2).to(memory_format=torch.channels_last)
        return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 1), convolution, nn.Flatten())

    def loss(self) -> Tensor:
        is_last = self.model[2].weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[index]
        return nn.functional.mse_loss(self.model(self.x), self.y[:, :2]) * (2 if is_last else 1)


class Quantized(_Tensor):
    """A quantized tensor."""

    expect = "either"
    named = "quantized"

    def start(self) -> None:
        self.quantized = torch.quantize_per_tensor(torch.arange(4.0), 0.1, 2, torch.quint8)

    def amount(self) -> float:
        values = self.quantized.dequantize() * 1.1
        self.quantized = torch.quantize_per_tensor(values, self.quantized.q_scale() * 1.1, 2, torch.quint8)
        return self.quantized.dequantize().sum().item()


class Scaled(Tensor):
    """A tensor with a factor of its own."""

    factor: float


class TensorSubclass(_Tensor):
    """A subclass of Tensor with an attribute."""

    def start(self) -> None:
        self.scaled = torch.ones(3).as_subclass(Scaled)
        self.scaled.factor = 1.0

    def amount(self) -> float:
        self.scaled.factor *= 1.1
        self.scaled.data.mul_(1.1)
        return float(self.scaled.sum()) * self.scaled.factor * isinstance(self.scaled, Scaled)


class TensorWithAttribute(_Tensor):
    """A tensor and a parameter with attributes of their own."""

    def start(self) -> None:
        self.tensor = torch.ones(3)
        self.tensor.level = 1.0  # type: ignore[attr-defined]
        self.model.weight.level = [1.0]  # type: ignore[union-attr, assignment]

    def amount(self) -> float:
        self.tensor.level *= 1.2  # type: ignore[attr-defined]
        self.model.weight.level.append(0.5)  # type: ignore[union-attr, operator]
        return self.tensor.level + sum(self.model.weight.level)  # type: ignore


class LeafOutsideModule(_Tensor):
    """A leaf that is trained without a module, by the same optimizer."""

    def start(self) -> None:
        self.offset = torch.zeros(3, requires_grad=True)
        self.optimizer.add_param_group({"params": [self.offset]})

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x) + self.offset, self.y)


class ParameterOnSelf(_Tensor):
    """A bare parameter on self, and one in a ParameterDict."""

    def start(self) -> None:
        self.offset = nn.Parameter(torch.zeros(3))
        self.more = nn.ParameterDict({"scale": nn.Parameter(torch.ones(3))})
        self.optimizer.add_param_group({"params": [self.offset, *self.more.parameters()]})

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x) * self.more["scale"] + self.offset, self.y)


class MetaTensor(_Tensor):
    """A tensor without memory, whose shape training reads."""

    def start(self) -> None:
        self.shape = torch.empty(1, 2, device="meta")

    def amount(self) -> float:
        self.shape = torch.empty(self.shape.shape[0] + 1, 2, device="meta")
        return self.shape.numel()


class NestedTensor(_Tensor):
    """A nested tensor."""

    expect = "either"
    named = "nested"

    def start(self) -> None:
        parts = [torch.ones(2), torch.ones(3)]
        self.nested = torch.nested.nested_tensor(parts, layout=torch.jagged)

    def amount(self) -> float:
        self.nested = self.nested * 1.2
        return self.nested.values().sum().item()


class TorchSize(_Tensor):
    """A size, a dtype, a device and a layout."""

    def start(self) -> None:
        self.size, self.kind, self.place = torch.Size([1, 2]), torch.float32, torch.device("cpu")

    def amount(self) -> float:
        self.size = torch.Size([self.size[0] + 1, self.size[1]])
        after = {torch.float32: torch.float64, torch.float64: torch.float16, torch.float16: torch.float32}
        self.kind = after[self.kind]
        return torch.ones(self.size, dtype=self.kind, device=self.place).element_size() * self.size.numel()


class OwnTorchGenerator(_Tensor):
    """A torch.Generator."""

    cause = "random generators"

    def start(self) -> None:
        self.generator = torch.Generator().manual_seed(3)

    def amount(self) -> float:
        return 1.0 + torch.rand((), generator=self.generator).item()


class SharedTorchGenerator(_Tensor):
    """Draws from torch's shared generator, one normal number at a time."""

    cause = "random generators"

    def amount(self) -> float:
        return 1.0 + torch.randn(()).item() + torch.randperm(4)[0].item()


class DefaultGeneratorKept(_Tensor):
    """torch's shared generator, kept on self."""

    cause = "random generators"
    expect = "either"
    named = "generator"

    def start(self) -> None:
        self.generator = torch.default_generator

    def amount(self) -> float:
        return 1.0 + torch.rand((), generator=self.generator).item() + torch.rand(()).item()
