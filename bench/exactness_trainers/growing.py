"""Models that grow and shrink in training, and their parameter groups."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exactness_trainers.torch_base import Toy


class _Growing(Toy):
    cause = "growing models and parameter groups"

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def start(self) -> None:
        self.step = 0

    def amount(self) -> float:
        self.step += 1
        self.grow()
        return 1.0

    def grow(self) -> None:
        raise NotImplementedError

    def add(self, module: nn.Module) -> None:
        lr = self.optimizer.param_groups[0]["lr"]
        self.optimizer.add_param_group({"params": list(module.parameters()), "lr": lr})


class LayersAppended(_Growing):
    """A layer is appended to a Sequential at every second step."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3))

    def grow(self) -> None:
        if self.step % 2 == 0:
            layer = nn.Linear(3, 3)
            self.model.append(layer)  # type: ignore[operator]
            self.add(layer)


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 3)])

    def forward(self, x: Tensor) -> Tensor:
        return sum((layer(x) for layer in self.layers), torch.zeros(()))


class ModuleListGrows(_Growing):
    """A ModuleList gets another layer in every step, and loses its first at step 4."""

    def make_model(self) -> nn.Module:
        return Listed()

    def grow(self) -> None:
        layer = nn.Linear(4, 3)
        self.model.layers.append(layer)  # type: ignore[union-attr, operator]
        self.add(layer)
        if self.step == 4:
            del self.model.layers[0]  # type: ignore[union-attr, operator]


class ModuleAdded(_Growing):
    """A module is added by name at step 3, as an attribute at step 4."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3))

    def grow(self) -> None:
        if self.step in (3, 4):
            layer = nn.Linear(3, 3)
            if self.step == 3:
                self.model.add_module("extra", layer)
            else:
                self.model.another = layer
            self.add(layer)


class LayerWidened(_Growing):
    """A layer is replaced by a wider one that keeps its weights."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 3))

    def grow(self) -> None:
        old_in, old_out = self.model[0], self.model[2]  # type: ignore[index]
        width = old_in.out_features + 1
        new_in, new_out = nn.Linear(4, width), nn.Linear(width, 3)
        with torch.no_grad():
            new_in.weight[:-1].copy_(old_in.weight)
            new_out.weight[:, :-1].copy_(old_out.weight)
        self.model[0], self.model[2] = new_in, new_out  # type: ignore[index]
        lr = self.optimizer.param_groups[0]["lr"]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)


class ParameterResized(_Growing):
    """A parameter whose .data gets another row in every step."""

    def make_model(self) -> nn.Module:
        self.table = nn.Parameter(torch.ones(2, 3))
        return nn.Linear(4, 3)

    def grow(self) -> None:
        self.table.data = torch.cat([self.table.data * 0.9, torch.ones(1, 3)])

    def loss(self) -> Tensor:
        return super().loss() * self.table.detach().sum() / 5


class HeadSwapped(_Growing):
    """The last layer is swapped for another one that was kept aside, at every second step."""

    def make_model(self) -> nn.Module:
        self.aside = nn.Linear(4, 3)
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))

    def make_optimizer(self) -> torch.optim.Optimizer:
        parameters = [*self.model.parameters(), *self.aside.parameters()]
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def grow(self) -> None:
        if self.step % 2 == 0:
            self.model[1], self.aside = self.aside, self.model[1]  # type: ignore[index]


class LayerDropped(_Growing):
    """Layers are removed one by one; the optimizer keeps training's memory of them."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)), nn.Linear(4, 3))

    def grow(self) -> None:
        if len(self.model) > 2 and self.step > 1:  # type: ignore[arg-type]
            del self.model[0]  # type: ignore[attr-defined]


class GroupAdded(_Growing):
    """A parameter group with settings of its own is added at step 3."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model[1].parameters(), lr=0.1)  # type: ignore[index]

    def grow(self) -> None:
        if self.step == 3:
            lr = self.optimizer.param_groups[0]["lr"]
            group = {"params": self.model[0].parameters(), "lr": lr / 2, "betas": (0.5, 0.9)}  # type: ignore
            self.optimizer.add_param_group(group)


class AdapterAttached(_Growing):
    """A low-rank adapter is put around a layer at step 2 and merged into it at step 5."""

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3))

    def grow(self) -> None:
        if self.step == 2:
            self.model[0] = Adapter(self.model[0])  # type: ignore[index]
            self.add(self.model[0].parts)  # type: ignore[index]
        if self.step == 5:
            adapter = self.model[0]  # type: ignore[index]
            adapter.inner.weight.data += adapter.delta().detach()
            self.model[0] = adapter.inner.requires_grad_(True)  # type: ignore[index]


class Adapter(nn.Module):
    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.parts = nn.ParameterList([torch.ones(3, 1) * 0.1, torch.ones(1, 4) * 0.1])

    def delta(self) -> Tensor:
        return self.parts[0] @ self.parts[1]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x) + x @ self.delta().T
        return out
