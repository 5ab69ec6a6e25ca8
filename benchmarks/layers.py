"""The cost of network layers compared with PyTorch on the CPU, one thread each.

Run from an environment where agrad, its NumPy backend and torch are installed::

    python benchmarks/layers.py                     # every layer, some minutes
    python benchmarks/layers.py --only conv2d       # by a part of the name; may be given several times
    python benchmarks/layers.py --dtype float64 --rounds 15 --split
    python benchmarks/layers.py --only "[small]" --compiled   # layers of few numbers, and compiled

Method: that of ``overhead.py``. Runs are paired in one process, the order alternates, the clock is the CPU time of the
process, and ratios are formed within a round; medians are printed. A sample is one forward pass, one backward pass from a
fixed cotangent and the freeing of both; leaves are not timed. Before the timing the values and gradients of both libraries
are compared; where they differ the mark is WRONG. ``--split`` prints the forward pass alone, too; ``--compiled`` the same
step through ``agrad.compile``, without and with ``executor="native"`` (which needs llvmlite), beside PyTorch's eager mode.

The mark is judged by the ratio agrad/torch: at most 3 for convolutions, 2 for the rest; 1.25 for the rows marked [small],
whose compiled columns may be at most 1.
"""

from __future__ import annotations

import argparse
import gc
import math
import operator
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from measuring import Samples, cell, describe, in_turn, load_peer, version_of  # isort: skip (sets the number of threads)

import numpy as np

PEERS = ("agrad", "torch")
SAMPLE_SECONDS = 0.02  # at least this long is a sample, in repeated steps
CHECKS = {"float32": 2e-4, "float64": 1e-10}


@dataclass(frozen=True)
class Layer:
    """One row: a function of a library and leaves, the shapes of the leaves, and the ratio that is allowed.

    With `module`, which makes a module of a library, the function is called with that in place of the library, and the
    module's parameters are leaves too.
    """

    title: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    goal: float = 2.0
    module: Callable[[Any], Any] | None = None


def conv(
    images: tuple[int, ...], out: int, window: int | tuple[int, int], *, bias: bool = True, groups: int = 1, **how: Any
) -> Layer:
    """Return a convolution of images (N, C, H, W) to `out` channels."""
    kh, kw = (window, window) if isinstance(window, int) else window
    shapes = (images, (out, images[1] // groups, kh, kw), (out,))
    extra = "".join(f" {key}={value}" for key, value in {"groups": groups, **how}.items() if value != 1)
    kind = "depthwise" if groups == images[1] and groups > 1 else "grouped" if groups > 1 else "dense"
    title = f"conv2d {kind} {'x'.join(map(str, images))} to {out}, {kh}x{kw}{extra}"
    return Layer(
        title, lambda lib, *t: lib.nn.functional.conv2d(*t, groups=groups, **how), shapes if bias else shapes[:2], 3.0
    )


def simple(name: str, shape: tuple[int, ...], *args: Any, note: str = "", **how: Any) -> Layer:
    """Return a function of ``nn.functional`` with one leaf."""
    return Layer(
        f"{name} {'x'.join(map(str, shape))}{note}",
        lambda lib, x: getattr(lib.nn.functional, name)(x, *args, **how),
        (shape,),
    )


def norm(rows: tuple[int, ...], length: int) -> Layer:
    """Return a layer norm with weight and bias."""
    return Layer(
        f"layer_norm {'x'.join(map(str, rows))}x{length}",
        lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (length,), w, b),
        ((*rows, length), (length,), (length,)),
    )


def lookup(count: int, rows: int, width: int) -> Layer:
    """Return an embedding of `count` random indices in a table."""
    indices = np.random.default_rng(1).integers(0, rows, count)
    kept: dict[str, Any] = {}

    def function(lib: Any, weight: Any) -> Any:
        if lib.__name__ not in kept:
            kept[lib.__name__] = lib.asarray(indices)
        return lib.nn.functional.embedding(kept[lib.__name__], weight)

    return Layer(f"embedding {count} of {rows}x{width}", function, ((rows, width),))


def classes(rows: int, count: int) -> Layer:
    """Return the cross entropy of random classes."""
    target = np.random.default_rng(1).integers(0, count, rows)
    kept: dict[str, Any] = {}

    def function(lib: Any, x: Any) -> Any:
        if lib.__name__ not in kept:
            kept[lib.__name__] = lib.asarray(target)
        return lib.nn.functional.cross_entropy(x, kept[lib.__name__])

    return Layer(f"cross_entropy {rows}x{count}", function, ((rows, count),))


def dropped(shape: tuple[int, ...]) -> Layer:
    """Return a dropout; the values of the libraries differ."""
    return simple("dropout", shape, 0.5)


#: Of a layer of few numbers, where the overhead of calls is what it costs.
SMALL = 1.25


def small(layer: Layer) -> Layer:
    """Mark a layer as one of few numbers."""
    return replace(layer, title=f"{layer.title} [small]", goal=SMALL)


def batch_norm(*shape: int) -> Layer:
    """Give a batch norm in training, with running values."""
    name = "BatchNorm2d" if len(shape) == 4 else "BatchNorm1d"
    title = f"{name} {'x'.join(map(str, shape))}"
    return small(Layer(title, lambda norm, x: norm(x), (shape,), module=lambda lib: getattr(lib.nn, name)(shape[1])))


def recurrent(name: str, length: int, batch: int, width: int, hidden: int, layers: int = 1) -> Layer:
    """Give a recurrent network over a whole sequence."""
    title = f"{name} {length}x{batch}x{width} to {hidden}" + (f", {layers} layers" if layers > 1 else "")
    return small(
        Layer(
            title,
            lambda net, x: net(x)[0],
            ((length, batch, width),),
            module=lambda lib: getattr(lib.nn, name)(width, hidden, layers),
        )
    )


def sinkhorn(lib: Any, x: Any, y: Any, *, eps: float = 0.5, rounds: int = 50) -> Any:
    """Give the cost of moving points x to y, by Sinkhorn's iteration in logarithms."""
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    n, m = cost.shape
    g = lib.zeros(m, dtype=cost.dtype)
    for _ in range(rounds):
        f = -eps * (lib.logsumexp((g[None, :] - cost) / eps, 1) + math.log(n))
        g = -eps * (lib.logsumexp((f[:, None] - cost) / eps, 0) + math.log(m))
    plan = lib.exp((f[:, None] + g[None, :] - cost) / eps)
    return (plan * cost).sum()


def soft_dtw(lib: Any, x: Any, y: Any, *, gamma: float = 0.5) -> Any:
    """Give the soft distance of two series under dynamic time warping (Cuturi and Blondel 2017), cell by cell."""
    cost = (x[:, None] - y[None, :]) ** 2
    far = lib.full((), 1e4, dtype=cost.dtype)
    before = [lib.zeros((), dtype=cost.dtype), *[far] * len(y)]
    for i in range(len(x)):
        row = [far]
        for j in range(len(y)):
            ways = lib.stack([before[j], before[j + 1], row[j]])
            row.append(cost[i, j] - gamma * lib.logsumexp(ways / -gamma, 0))
        before = row
    return before[-1]


LAYERS = (
    # few numbers
    batch_norm(4, 512, 1, 1),
    batch_norm(4, 256, 2, 2),
    batch_norm(4, 64, 7, 7),
    batch_norm(64, 128),
    recurrent("LSTM", 28, 64, 28, 64),
    recurrent("LSTM", 35, 20, 200, 200, layers=2),
    recurrent("GRU", 28, 64, 28, 64),
    recurrent("GRU", 35, 20, 200, 200, layers=2),
    small(conv((4, 64, 7, 7), 64, 3, padding=1)),
    small(conv((4, 512, 1, 1), 512, 3, padding=1)),
    small(conv((4, 256, 2, 2), 512, 3, padding=1, stride=2)),
    small(conv((4, 256, 2, 2), 512, 1, stride=2)),
    small(Layer("logsumexp 30x40", lambda lib, x: lib.logsumexp(x, 1), ((30, 40),))),
    small(Layer("Sinkhorn 30 to 40 points, 50 rounds", sinkhorn, ((30, 2), (40, 2)))),
    small(Layer("soft-DTW 20 and 20", soft_dtw, ((20,), (20,)))),
    # dense
    conv((64, 1, 28, 28), 16, 3, padding=1),
    conv((64, 1, 8, 8), 16, 3),
    conv((32, 16, 28, 28), 32, 3, padding=1),
    conv((8, 64, 14, 14), 64, 3, padding=1),
    conv((8, 64, 28, 28), 128, 3, padding=1, stride=2),
    conv((4, 256, 7, 7), 256, 3, padding=1),
    conv((4, 3, 112, 112), 32, 7, padding=3, stride=2),
    conv((1, 3, 224, 224), 16, 3, padding=1),
    conv((2, 16, 128, 128), 16, 3, padding=1),
    conv((8, 32, 28, 28), 32, 5, padding=2),
    conv((8, 32, 28, 28), 32, 3, padding=2, dilation=2),
    conv((2, 32, 64, 64), 32, 3, padding=4, dilation=4),
    conv((16, 32, 1, 256), 32, (1, 5), padding=(0, 2)),
    conv((16, 3, 32, 32), 64, 4, stride=4),
    conv((8, 64, 28, 28), 128, 1),
    conv((4, 256, 7, 7), 512, 1),
    conv((8, 64, 28, 28), 128, 1, stride=2),
    conv((2, 16, 112, 112), 32, 1),
    # groups
    conv((8, 64, 28, 28), 64, 3, padding=1, groups=4),
    conv((8, 128, 14, 14), 128, 3, padding=1, groups=32),
    conv((8, 64, 28, 28), 128, 3, padding=1, stride=2, groups=8),
    conv((2, 32, 56, 56), 32, 5, padding=2, groups=2),
    conv((8, 64, 28, 28), 64, 1, groups=8),
    # depthwise
    conv((8, 32, 28, 28), 32, 3, padding=1, groups=32),
    conv((8, 128, 14, 14), 128, 3, padding=1, groups=128),
    conv((8, 256, 7, 7), 256, 3, padding=1, groups=256),
    conv((1, 32, 112, 112), 32, 3, padding=1, groups=32),
    conv((2, 64, 56, 56), 64, 3, padding=1, stride=2, groups=64),
    conv((8, 64, 28, 28), 64, 5, padding=2, groups=64),
    conv((8, 96, 14, 14), 96, 7, padding=3, groups=96),
    conv((8, 64, 28, 28), 64, 3, padding=2, dilation=2, groups=64),
    conv((8, 32, 28, 28), 64, 3, padding=1, groups=32),
    conv((16, 64, 1, 256), 64, (1, 5), padding=(0, 2), groups=64),
    conv((1, 256, 14, 14), 256, 3, padding=1, groups=256),
    conv((1, 512, 7, 7), 512, 3, padding=1, groups=512),
    conv((1, 384, 7, 7), 384, 7, padding=3, groups=384),
    conv((2, 32, 112, 112), 32, 3, padding=1, stride=2, groups=32),
    conv((8, 16, 16, 16), 16, 2, stride=2, groups=16),
    conv((1, 3, 512, 512), 3, 5, padding=2, groups=3),
    conv((4, 8, 1024, 1), 8, (9, 1), padding=(4, 0), groups=8),
    # pooling
    simple("max_pool2d", (32, 16, 28, 28), 2, note=", 2x2"),
    simple("max_pool2d", (8, 64, 56, 56), 3, 2, 1, note=", 3x3 stride 2 padding 1"),
    simple("avg_pool2d", (32, 16, 28, 28), 2, note=", 2x2"),
    simple("avg_pool2d", (8, 64, 28, 28), 3, 1, 1, note=", 3x3 stride 1 padding 1"),
    # rows
    norm((64,), 128),
    norm((32, 128), 256),
    norm((16, 128), 768),
    norm((4096,), 32),
    simple("softmax", (64, 10), -1),
    simple("softmax", (4096, 128), -1),
    simple("softmax", (256, 4096), -1),
    simple("log_softmax", (4096, 128), -1),
    classes(64, 10),
    classes(4096, 128),
    classes(256, 10000),
    lookup(1024, 1000, 64),
    lookup(8192, 10000, 128),
    lookup(8192, 50, 128),
    lookup(64, 50000, 64),
    # elementwise
    simple("gelu", (64, 128)),
    simple("gelu", (2048, 1024)),
    simple("gelu", (2048, 1024), approximate="tanh", note=", tanh"),
    simple("relu", (2048, 1024)),
    simple("silu", (2048, 1024)),
    dropped((64, 128)),
    dropped((2048, 1024)),
    Layer("clip 64x128", lambda lib, x: lib.clip(x, -0.5, 0.5), ((64, 128),)),
    Layer("clip 2048x1024", lambda lib, x: lib.clip(x, -0.5, 0.5), ((2048, 1024),)),
    Layer("clip 2048x1024, min only", lambda lib, x: lib.clip(x, -0.5), ((2048, 1024),)),
)


class Steps:
    """The timed function for one layer and library."""

    def __init__(self, layer: Layer, lib: Any, dtype: str) -> None:
        rng = np.random.default_rng(0)
        self.lib, self.function = lib, layer.function
        self.operands = [
            lib.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True) for shape in layer.shapes
        ]
        self.leaves = self.operands
        if layer.module is not None:
            self.lib = layer.module(lib).to(getattr(lib, dtype))
            self.leaves = [*self.operands, *self.lib.parameters()]
            for parameter in self.lib.parameters():
                size = 1 / math.sqrt(parameter.shape[-1])
                parameter.data = lib.asarray((size * rng.standard_normal(tuple(parameter.shape))).astype(dtype))
        y = self.function(self.lib, *self.operands)
        self.cotangent = lib.asarray(rng.standard_normal(tuple(y.shape)).astype(dtype))

    def both(self) -> list[Any]:
        """Forward and backward; return the value and the gradients, which the leaves do not keep.

        Without the value, a compiled step would leave out the products of layers whose gradients do not need it.
        """
        y = self.function(self.lib, *self.operands)
        y.backward(self.cotangent)
        found = [y.detach(), *(leaf.grad for leaf in self.leaves)]
        for leaf in self.leaves:
            leaf.grad = None
        return found

    def forward(self) -> None:
        """Forward, recorded."""
        self.function(self.lib, *self.operands)

    def results(self, dtype: str) -> list[Any]:
        """Values and gradients, to be compared."""
        return [np.asarray(made.tolist(), dtype) for made in self.both()]


def differs(one: Sequence[Any], other: Sequence[Any], dtype: str) -> bool:
    """Return whether any array differs, relative to its largest element."""
    tolerance = CHECKS[dtype]
    return any(
        a.shape != b.shape or np.abs(a - b).max() > tolerance * max(1.0, np.abs(b).max())
        for a, b in zip(one, other, strict=True)
    )


def measure(steps: dict[str, Callable[[], None]], rounds: int) -> Samples:
    """Time the libraries, in turn."""
    samples = Samples()
    clock = time.process_time
    repeats = 1
    for step in steps.values():
        step()
        start = clock()
        step()
        repeats = max(repeats, int(SAMPLE_SECONDS / max(clock() - start, 1e-6) / 2))
    repeats = min(repeats, 200)
    for number, order in in_turn(list(steps), rounds, ()):
        gc.collect()
        for peer in order:
            step = steps[peer]
            step()
            start = clock()
            for _ in range(repeats):
                step()
            samples.values.setdefault(peer, {})[number] = (clock() - start) / repeats
    return samples


def compiled_steps(steps: Steps, ag: Any) -> dict[str, Callable[[], list[Any]]]:
    """Give the step of a layer as `compile` runs it, on NumPy and as machine code."""
    made = {"compiled": ag.compile(steps.both), "native": ag.compile(steps.both, executor="native")}
    for step in made.values():
        for _ in range(3):  # what compiles, does so at its first calls
            step()
    return made


def row(layer: Layer, libs: dict[str, Any], dtype: str, rounds: int, options: argparse.Namespace) -> list[str]:
    """Measure one layer, and give what is printed."""
    steps = {peer: Steps(layer, lib, dtype) for peer, lib in libs.items()}
    known = {peer: s.results(dtype) for peer, s in steps.items()}
    timed: dict[str, Callable[[], Any]] = {peer: s.both for peer, s in steps.items()}
    compiled = compiled_steps(steps["agrad"], libs["agrad"]) if options.compiled else {}
    for peer, step in compiled.items():
        known[peer] = [np.asarray(made.tolist(), dtype) for made in step()]
    random = layer.title.startswith("dropout")
    wrong = not random and any(differs(found, known["torch"], dtype) for found in known.values())
    samples = measure(timed | compiled, rounds)
    ratios = {peer: samples.paired(operator.truediv, peer, "torch") or math.inf for peer in ("agrad", *compiled)}
    numbers = [cell((samples.median(peer) or 0) * 1e3) for peer in (*PEERS, *compiled)]
    columns = [layer.title, *numbers, *(f"{ratio:.2f}" for ratio in ratios.values())]
    if options.split:
        alone = measure({peer: s.forward for peer, s in steps.items()}, rounds)
        columns.append(f"{alone.paired(operator.truediv, *PEERS):.2f}")
    over = [
        f"{peer} over {goal:g}"
        for peer, goal in {"agrad": layer.goal, **dict.fromkeys(compiled, 1.0)}.items()
        if ratios[peer] > goal
    ]
    return [*columns, "WRONG" if wrong else ", ".join(over) or "pass"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the layers and print the table; return 1 if any was wrong."""
    parser = argparse.ArgumentParser(description="What layers cost beside PyTorch.", allow_abbrev=False)
    parser.add_argument("--only", action="append", metavar="PART", help="layers whose title holds this")
    parser.add_argument("--dtype", choices=tuple(CHECKS), default="float32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--split", action="store_true", help="also the ratio of the forward pass alone")
    parser.add_argument("--compiled", action="store_true", help="also agrad.compile, by NumPy and as machine code")
    arguments = parser.parse_args(argv)
    libs = {peer: load_peer(peer) for peer in PEERS}
    versions = ", ".join(f"{name} {version_of(lib)}" for name, lib in libs.items())
    print(
        f"Python {platform.python_version()}, {versions}, NumPy {version_of(np)}; {arguments.dtype}, 1 thread, CPU time\n"
    )
    compiled = ["compiled", "native"] * arguments.compiled
    ratios = ["ratio", *(f"{title[:3]}/torch" for title in compiled)]
    titles = [*PEERS, *compiled, *ratios, *["forward"] * arguments.split]
    print(f"{'ms, forward and backward':<66}" + "".join(f"{title:>10}" for title in titles) + "  mark")
    bad = False
    for layer in LAYERS:
        if arguments.only and not any(part in layer.title for part in arguments.only):
            continue
        try:
            columns = row(layer, libs, arguments.dtype, arguments.rounds, arguments)
        except Exception as error:  # the other rows are worth printing
            columns, bad = [layer.title, describe(error)], True
        bad |= columns[-1] == "WRONG"
        numbers = "".join(f"{column:>10}" for column in columns[1:-1])
        print(f"{columns[0]:<66}{numbers}  {columns[-1]}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
