"""Steps of training and derivatives as people write them, in agrad: the use cases of `ag.compile`.

`STEPS` has for each a function that returns one: the function to call, and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import agrad as ag
import agrad.nn.functional as F
from agrad import nn

import workloads as w  # isort: skip (as the other benchmarks have it)

Step = tuple[Callable[..., Any], tuple[Any, ...]]

STEPS: dict[str, Callable[[], Step]] = {}


def listed(make: Callable[[], Step]) -> Callable[[], Step]:
    """List the constructors of steps."""
    STEPS[make.__name__.replace("_", " ")] = make
    return make


def normal(*shape: int) -> ag.Tensor:
    """Return random numbers, the same in every process."""
    return ag.asarray(np.random.default_rng(shape).normal(size=shape))


def classes(count: int, of: int = 10) -> ag.Tensor:
    """Return random labels."""
    return ag.asarray(np.random.default_rng(count).integers(0, of, count))


def trainer(net: nn.Module, optimizer: Any, loss: Callable[..., Any]) -> Callable[[Any, Any], float]:
    """Return the step that everybody writes."""

    def step(x: Any, y: Any) -> float:
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        return value.item()

    return step


# -- networks ----------------------------------------------------------------------------------------------------------


@listed
def mlp_by_sgd_with_momentum() -> Step:
    """A perceptron of three layers."""
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = ag.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    return trainer(net, optimizer, F.mse_loss), (normal(16, 8), normal(16, 1))


@listed
def dropout_norm_schedule_clipping() -> Step:
    """A user-defined module with batch norm and dropout, clipped gradients and a schedule."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 32), nn.Linear(32, 4)
            self.drop, self.norm = nn.Dropout(0.1), nn.BatchNorm1d(32)

        def forward(self, x: Any) -> Any:
            return self.b(self.drop(ag.relu(self.norm(self.a(x)))))

    net = Net()
    optimizer = ag.optim.Adam(net.parameters(), lr=1e-3)
    schedule = ag.optim.lr_scheduler.StepLR(optimizer, 10)

    def step(x: Any, y: Any) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return float(loss.detach())

    return step, (normal(16, 8), classes(16, 4))


@listed
def convolutions() -> Step:
    """A small convolutional network."""
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
    return trainer(net, ag.optim.AdamW(net.parameters(), lr=1e-3), F.cross_entropy), (normal(8, 1, 8, 8), classes(8))


@listed
def transformer_layers() -> Step:
    """Four layers of a transformer in a list."""
    layers = nn.ModuleList([nn.TransformerEncoderLayer(16, 4, 32, batch_first=True) for _ in range(4)])
    head = nn.Linear(16, 4)
    optimizer = ag.optim.Adam([*layers.parameters(), *head.parameters()], lr=1e-3)

    def step(x: Any, y: Any) -> float:
        optimizer.zero_grad()
        h = x
        for layer in layers:
            h = layer(h)
        loss = ((head(h) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, (normal(4, 6, 16), normal(4, 6, 4))


@listed
def recurrent() -> Step:
    """A gated recurrent unit and a head."""
    net, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)
    optimizer = ag.optim.RMSprop([*net.parameters(), *head.parameters()], lr=1e-3)

    def step(x: Any, y: Any) -> float:
        optimizer.zero_grad()
        outputs, _ = net(x)
        loss = F.mse_loss(head(outputs[:, -1]), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, (normal(4, 10, 4), normal(4, 1))


@listed
def adversarial() -> Step:
    """Two networks against each other, with draws."""
    make = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    judge = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.1), nn.Linear(8, 1))
    of_make, of_judge = (ag.optim.Adam(net.parameters(), lr=1e-3) for net in (make, judge))
    loss = nn.BCEWithLogitsLoss()

    def step(x: Any) -> tuple[float, float]:
        made, ones, zeros = make(ag.randn(16, 2)), ag.ones((16, 1)), ag.zeros((16, 1))
        of_judge.zero_grad()
        judged = loss(judge(x), ones) + loss(judge(made.detach()), zeros)
        judged.backward()
        of_judge.step()
        of_make.zero_grad()
        fooled = loss(judge(made), ones)
        fooled.backward()
        of_make.step()
        return judged.item(), fooled.item()

    return step, (normal(16, 2),)


@listed
def average_of_weights() -> Step:
    """A step, and a running average of the parameters."""
    net = nn.Linear(4, 4)
    average = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = ag.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> float:
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        with ag.no_grad():
            for name, p in net.named_parameters():
                average[name].mul_(0.9).add_(p, alpha=0.1)
        return loss.item()

    return step, (normal(3, 4),)


@listed
def accumulation() -> Step:
    """Gradients of four parts of a batch, added up before a step."""
    net = nn.Linear(8, 4)
    optimizer = ag.optim.Adam(net.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> float:
        optimizer.zero_grad()
        total = 0.0
        for rows, labels in zip(x.chunk(4), y.chunk(4), strict=True):
            loss = F.cross_entropy(net(rows), labels) / 4
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return step, (normal(16, 8), classes(16, 4))


@listed
def einops_inside() -> Step:
    """Patches by `rearrange`."""
    from agrad.einops import rearrange

    net = nn.Linear(16, 4)
    optimizer = ag.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> float:
        optimizer.zero_grad()
        loss = net(rearrange(x, "n (a h) (b w) -> n (a b) (h w)", h=4, w=4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, (normal(2, 8, 8),)


@listed
def every_tenth_epoch() -> Step:
    """A penalty by a counter that is kept outside."""
    net = nn.Linear(4, 1)
    optimizer = ag.optim.SGD(net.parameters(), lr=0.1)
    epoch = 20

    def step(x: Any) -> float:
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        if epoch % 10 == 0:
            loss = loss + 0.01 * sum(p.pow(2).sum() for p in net.parameters())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, (normal(3, 4),)


@listed
def trainer_object() -> Step:
    """A method of an object that holds everything."""

    class Trainer:
        def __init__(self) -> None:
            self.net, self.loss = nn.Linear(4, 1), nn.MSELoss()
            self.optimizer = ag.optim.Adam(self.net.parameters(), lr=1e-3)

        def step(self, x: Any, y: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.loss(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            return loss

    return Trainer().step, (normal(3, 4), normal(3, 1))


# -- by hand -----------------------------------------------------------------------------------------------------------


@listed
def parameters_in_a_dict() -> Step:
    """Functional training: parameters are passed in, and returned."""
    start = {"w1": normal(8, 16), "b1": normal(16), "w2": normal(16, 1)}

    def loss(p: Any, x: Any, y: Any) -> Any:
        return ag.mean((ag.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)

    value_and_grad = ag.func.value_and_grad(loss)

    def step(p: Any, x: Any, y: Any) -> Any:
        value, slopes = value_and_grad(p, x, y)
        return value, {name: p[name] - 0.1 * slopes[name] for name in p}

    return step, (start, normal(5, 8), normal(5, 1))


@listed
def loss_differentiated_outside() -> Step:
    """A loss alone."""
    weight = normal(8, 4).requires_grad_()

    def energy(x: Any) -> Any:
        return ag.sum(ag.tanh(x @ weight) ** 2)

    return energy, (normal(5, 8),)


@listed
def descent_with_a_rate() -> Step:
    """The update written out, the rate an argument."""
    weight = normal(8, 4).requires_grad_()

    def step(x: Any, rate: float) -> float:
        weight.grad = None
        loss = ag.sum(ag.tanh(x @ weight) ** 2)
        loss.backward()
        with ag.no_grad():
            weight.sub_(rate * weight.grad)
        return loss.item()

    return step, (normal(5, 8), 0.1)


@listed
def configuration_in_a_dataclass() -> Step:
    """Layers, an operation by name and a rate from a configuration."""

    @dataclass
    class Config:
        rate: float = 0.1
        act: str = "tanh"
        layers: int = 3

    config, weights = Config(), [normal(8, 8).requires_grad_() for _ in range(3)]

    def step(x: Any) -> float:
        for layer in range(config.layers):
            x = getattr(ag, config.act)(x @ weights[layer])
        loss = x.pow(2).mean()
        loss.backward()
        with ag.no_grad():
            for weight in weights:
                weight.sub_(config.rate * weight.grad)
                weight.grad = None
        return loss.item()

    return step, (normal(5, 8),)


@listed
def history_in_a_list() -> Step:
    """A list that grows at every call: this must run uncompiled."""
    weight, history = normal(8, 4).requires_grad_(), []

    def step(x: Any) -> Any:
        weight.grad = None
        loss = ag.sum(ag.tanh(x @ weight) ** 2)
        loss.backward()
        history.append(loss.item())
        return loss

    return step, (normal(5, 8),)


# -- derivatives and loops ---------------------------------------------------------------------------------------------


@listed
def hessians_by_vmap() -> Step:
    """The Hessian for each row."""

    def f(x: Any) -> Any:
        return ag.sum(ag.sin(x) ** 3)

    def hessians(rows: Any) -> Any:
        return ag.func.vmap(ag.func.hessian(f))(rows)

    return hessians, (normal(4, 5),)


@listed
def differential_equation() -> Step:
    """Twenty steps of Euler's method, and a loss of the final state."""
    theta = normal(3).requires_grad_()

    def loss(start: Any) -> Any:
        y = start
        for _ in range(20):
            y = y + 0.05 * (theta * ag.sin(y))
        return ag.sum(y**2)

    return loss, (normal(3),)


@listed
def physics_loss() -> Step:
    """A derivative by the input within the loss, and a step."""
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = ag.optim.Adam(net.parameters(), lr=1e-3)

    def step(x: Any) -> Any:
        place = x.clone().requires_grad_()
        u = net(place)
        (slope,) = ag.autograd.grad(u.sum(), place, create_graph=True)
        loss = (slope - u).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (normal(16, 1),)


@listed
def branches_by_value() -> Step:
    """A branch and a loop that depend on a computed value."""
    weight = normal(4)

    def f(x: Any) -> Any:
        y = x * weight
        if ag.sum(y) > 0:
            y = y * 2
        while ag.max(ag.abs(y)) > 1:
            y = y * 0.5
        return y

    return f, (normal(4),)


def program(make: Callable[[], w.Program]) -> Callable[[], Step]:
    """Make a step of a program of `workloads`."""
    return lambda: (make().step("agrad", ag), ())


STEPS |= {
    f"workloads: {name}": program(make)
    for name, make in {
        "chain of 100": lambda: w.Chain(100),
        "chain of 1000": lambda: w.Chain(1000),
        "leaves": lambda: w.Leaves(20),
        "shifts": lambda: w.Shifts(20),
        "elementwise": lambda: w.Elementwise(1000),
        "mlp": lambda: w.Mlp(32),
        "plain mlp": lambda: w.PlainMlp(32),
        "descent": lambda: w.Descent(w.Mlp(32)),
        "descent written out": lambda: w.Descent(w.Mlp(32), optimizer=False),
        "logistic": lambda: w.Logistic(100, 10),
        "least squares": lambda: w.LeastSquares(100, 10),
        "rnn": lambda: w.Rnn(10),
        "transformer": w.Transformer,
        "cnn": w.Cnn,
        "hessian product": lambda: w.HessianProduct(10),
    }.items()
}
