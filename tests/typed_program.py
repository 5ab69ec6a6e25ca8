"""A user's file with four mistakes on its last lines: what type checkers make of it is tested in `test_typing`."""

from __future__ import annotations

from collections.abc import Iterator

import agrad as ag
import agrad.nn.functional as F
import agrad.numpy as np
import agrad_dask
from agrad import func, nn, optim
from agrad.optim import lr_scheduler
from agrad.utils.data import DataLoader, TensorDataset


class Network(nn.Module):
    """Two layers, and what is dropped between them."""

    def __init__(self, features: int, hidden: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.second = nn.Linear(hidden, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: ag.Tensor, scale: float = 1.0) -> ag.Tensor:
        hidden = self.drop(F.relu(self.first(x)))
        return self.second(hidden).squeeze(-1) * scale


@ag.elementwise(x=lambda xp, ans: 1 - ans * ans, kernel=lambda xp, x: xp.tanh(x))
def squashed(x: ag.Tensor, /) -> None:
    """Hyperbolic tangent."""


class Clamped(ag.Function):
    """A value that is not differentiated outside of the unit interval."""

    @staticmethod
    def forward(ctx: object, x: ag.Tensor) -> ag.Tensor:
        return ag.clip(x, 0.0, 1.0)


def batches(x: ag.Tensor, y: ag.Tensor) -> Iterator[tuple[ag.Tensor, ag.Tensor]]:
    for part in range(0, x.shape[0], 32):
        yield x[part : part + 32], y[part : part + 32]


def train(model: Network, x: ag.Tensor, y: ag.Tensor, epochs: int = 3) -> list[float]:
    loss_of = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    schedule = lr_scheduler.StepLR(optimizer, step_size=1)
    losses: list[float] = []
    for _ in range(epochs):
        for rows, targets in batches(x, y):
            optimizer.zero_grad()
            loss = loss_of(model(rows), targets)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.item()))
        schedule.step()
    return losses


def squared(w: ag.Tensor, x: ag.Tensor, y: ag.Tensor) -> ag.Tensor:
    return ag.mean((squashed(x @ w) - y) ** 2)


def newton(w: ag.Tensor, x: ag.Tensor, y: ag.Tensor) -> ag.Tensor:
    value, gradient = func.value_and_grad(squared)(w, x, y)
    bend = func.hessian(squared)(w, x, y)
    if not bool(ag.isfinite(value)):
        return w
    return w - ag.linalg.solve(bend, gradient)


def penalty(weights: dict[str, ag.Tensor]) -> ag.Tensor:
    total = ag.asarray(0.0)
    for weight in weights.values():
        total = total + ag.sum(weight * weight)
    return total


def main() -> None:
    ag.manual_seed(0)
    x = ag.randn(256, 4)
    y = ag.sin(x[:, 0]) + 0.1 * ag.randn(256)
    model = Network(4)
    losses = train(model, x, y)
    print(min(losses), model(x, scale=2.0).shape, model.first.weight.dtype)
    w = newton(ag.zeros(4), x, y)
    slopes = func.grad(penalty)({"w": w})
    print(np.sum(np.array([w[0] ** 2, np.sin(w[1])])).item(), np.linalg.norm(w, axis=0), np.float32, np.pi)
    print(slopes["w"].tolist(), ag.grad(lambda v: (v * v).sum())(w))
    rows = func.vmap(func.grad(squared), in_dims=(None, 0, 0))(w, x, y)
    print(rows.shape, ag.compile(squared)(w, x, y))
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    print(sum(1 for _ in loader))
    data = agrad_dask.from_zarr("rows.zarr")
    print(ag.sum(data, axis=0), ag.optim.LBFGS([w]))
    planted = nn.Lineer(4, 1)
    print(planted, ag.nanmean(x, dim=0))
    wrong: str = model(x)
    print(wrong)
    print(np.meann(x))
