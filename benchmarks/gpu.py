"""The cost of agrad on a GPU, compared with PyTorch on CUDA and CuPy by hand.

Run from an environment where agrad, its CuPy backend and PyTorch for CUDA are installed, on a machine with a GPU::

    python benchmarks/gpu.py                        # every workload, a minute or two
    python benchmarks/gpu.py --only chain --rounds 21
    python benchmarks/gpu.py --output gpu.txt       # into a file, too
    python benchmarks/gpu.py --dry-run              # tiny sizes on the CPU, NumPy in CuPy's place: does the script work?

Method. Runs are paired: every round takes a sample of each library in turn, the order rotates, ratios are formed within
a round, and the median over rounds is printed. A sample is one forward and backward pass, repeated until it takes at
least 20 ms; the clock is the wall clock, and each sample begins and ends with the device idle, so that queued work is
counted. Before the timing each library makes three steps, in which kernels are compiled, and the gradients of all are
compared; a library that is wrong gets the mark WRONG and no time. TF32 is off everywhere.

Columns: milliseconds per step, and the ratios agrad/torch and agrad/CuPy by hand. ``compiled`` is agrad's step as one
function of `ag.compile`, ``graph`` the same with ``mode="reduce-overhead"``: as a CUDA graph, if one can hold it and
has fewer launches (of the workloads only the ring does). Under ``--dry-run`` times are meaningless, and are not
printed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import itertools
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SAMPLE_SECONDS = 0.02
PEERS = ("agrad", "compiled", "graph", "torch", "CuPy")

Step = Callable[[], Sequence[Any]]


@dataclass
class Machine:
    """The libraries and their devices."""

    ag: Any
    torch: Any
    xp: Any  # CuPy, or NumPy for a dry run
    dry: bool

    def wait(self) -> None:
        """Wait until the device is idle."""
        if not self.dry:
            self.xp.cuda.runtime.deviceSynchronize()

    def host(self, array: Any) -> np.ndarray:
        """Return an array of any of the libraries as a NumPy array."""
        if isinstance(array, self.torch.Tensor):
            return array.detach().cpu().numpy()
        if isinstance(array, self.ag.Tensor):
            return array.detach().numpy()
        return array if self.dry else array.get()

    def leaves(self, peer: str, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Put arrays on the device; floating-point ones require gradients."""
        made = []
        for a in arrays:
            floating = a.dtype.kind == "f"
            if peer == "torch":
                made.append(self.torch.tensor(a, device="cpu" if self.dry else "cuda", requires_grad=floating))
            elif peer == "CuPy":
                made.append(self.xp.asarray(a))
            else:
                made.append(self.ag.asarray(self.xp.asarray(a), requires_grad=floating))
        return made


# --- workloads: the program for agrad and PyTorch, and by hand in CuPy -------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """One row.

    Attributes
    ----------
    name : str
        As the table shows it; ``{n}`` is the size.
    sizes : tuple of int
        On a GPU, and for a dry run.
    arrays : callable
        Returns the leaves and the data for a size.
    program : callable
        ``program(lib, *arrays)``: the loss, in the names that agrad and PyTorch share.
    by_hand : callable
        ``by_hand(xp, *arrays)``: the gradients of the floating-point arrays.
    """

    name: str
    sizes: tuple[int, int]
    arrays: Callable[[np.random.Generator, int], list[np.ndarray]]
    program: Callable[..., Any]
    by_hand: Callable[..., Sequence[Any]]


def single(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Give normal samples in single precision."""
    return rng.standard_normal(shape, dtype=np.float32)


def tiny(_: Any, x: Any, y: Any) -> Any:
    """Two operations on ten elements: the cost of a launch."""
    return (x * y).sum()


def tiny_by_hand(xp: Any, x: Any, y: Any) -> Sequence[Any]:
    """Give the gradients of `tiny`."""
    _ = (x * y).sum()
    g = xp.ones_like(x)
    return [g * y, g * x]


def chain(lib: Any, x: Any) -> Any:
    """Twelve elementwise operations."""
    y = lib.tanh(x)
    y = y * x + 0.5
    y = lib.exp(-y * 0.1)
    y = y / (x * x + 1.0)
    y = lib.sin(y) * 2.0
    return lib.sqrt(y * y + 1.0).sum()


def chain_by_hand(xp: Any, x: Any) -> Sequence[Any]:
    """Return the gradient of `chain`, with a kernel per operation."""
    t = xp.tanh(x)
    e = xp.exp((t * x + 0.5) * np.float32(-0.1))
    d = x * x + np.float32(1.0)
    q = e / d
    s = xp.sin(q) * np.float32(2.0)
    r = xp.sqrt(s * s + np.float32(1.0))
    g = s / r * np.float32(2.0) * xp.cos(q)
    ge, gd = g / d, -g * q / d
    gy = ge * e * np.float32(-0.1)
    return [gy * t + gy * x * (1 - t * t) + gd * 2 * x]


def network(lib: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, onehot: Any) -> Any:
    """784-256-128-10 with ReLU and the squared error."""
    F = lib.nn.functional
    h = F.relu(x @ w1 + b1)
    h = F.relu(h @ w2 + b2)
    return ((h @ w3 + b3 - onehot) ** 2).mean()


def network_by_hand(
    xp: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, onehot: Any
) -> Sequence[Any]:
    """Give the gradients of `network`."""
    h1 = xp.maximum(x @ w1 + b1, 0)
    h2 = xp.maximum(h1 @ w2 + b2, 0)
    g = (h2 @ w3 + b3 - onehot) * np.float32(2 / onehot.size)
    g2 = (g @ w3.T) * (h2 > 0)
    g1 = (g2 @ w2.T) * (h1 > 0)
    gx = g1 @ w1.T
    return [gx, x.T @ g1, g1.sum(0), h1.T @ g2, g2.sum(0), h2.T @ g, g.sum(0), -g]


def entropy(lib: Any, logits: Any, classes: Any) -> Any:
    """Softmax cross-entropy."""
    return lib.nn.functional.cross_entropy(logits, classes)


def entropy_by_hand(xp: Any, logits: Any, classes: Any) -> Sequence[Any]:
    """Give the gradient of `entropy`."""
    e = xp.exp(logits - logits.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    p[xp.arange(len(classes)), classes] -= 1
    return [p / np.float32(len(classes))]


def product(_: Any, a: Any, b: Any) -> Any:
    """A product of square matrices."""
    return (a @ b).sum()


def product_by_hand(xp: Any, a: Any, b: Any) -> Sequence[Any]:
    """Return the gradients of `product`, as products, like the other libraries."""
    g = xp.ones((a.shape[0], b.shape[1]), np.float32)
    _ = a @ b
    return [g @ b.T, a.T @ g]


def ring(lib: Any, x: Any) -> Any:
    """Sixty steps of a wave on a ring: many launches, each of a few elements."""
    v = x * 0.0
    for _ in range(60):
        v = v + 0.1 * (lib.concat([x[1:], x[:1]]) - lib.tanh(x))
        x = x + 0.1 * v
    return (x * x).sum()


def ring_by_hand(xp: Any, x: Any) -> Sequence[Any]:
    """Give the gradient of `ring`."""
    tenth = np.float32(0.1)
    v, slopes = xp.zeros_like(x), []
    for _ in range(60):
        t = xp.tanh(x)
        slopes.append(1 - t * t)
        v = v + tenth * (xp.concatenate([x[1:], x[:1]]) - t)
        x = x + tenth * v
    gx, gv = np.float32(2.0) * x, xp.zeros_like(x)
    for slope in reversed(slopes):
        gv = gv + tenth * gx
        gx = gx + tenth * (xp.concatenate([gv[-1:], gv[:-1]]) - gv * slope)
    return [gx]


def layers(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Return a batch, weights and biases, and the target output of the network."""
    widths = (784, 256, 128, 10)
    found = [single(rng, n, widths[0])]
    for i, o in itertools.pairwise(widths):
        found += [single(rng, i, o) * np.float32(i**-0.5), single(rng, o) * np.float32(0.1)]
    return [*found, np.eye(10, dtype=np.float32)[rng.integers(0, 10, n)]]


WORKLOADS = [
    Workload("tiny: x * y, sum, 10 elements", (10, 10), lambda r, n: [single(r, n), single(r, n)], tiny,
             tiny_by_hand),
    Workload("chain of 12 on {n} float32", (2**26, 2**8), lambda r, n: [single(r, n)], chain, chain_by_hand),
    Workload("MLP step, batch {n}", (1024, 8), layers, network, network_by_hand),
    Workload("softmax cross-entropy, {n} x 1000", (2**14, 8),
             lambda r, n: [single(r, n, 1000), r.integers(0, 1000, n)], entropy, entropy_by_hand),
    Workload("matmul {n} x {n}", (4096, 16), lambda r, n: [single(r, n, n), single(r, n, n)], product, product_by_hand),
    Workload("ring: 60 steps on {n} float32", (1000, 10), lambda r, n: [single(r, n)], ring, ring_by_hand),
]  # fmt: skip


# --- timing -----------------------------------------------------------------------------------------------------------


def step_of(machine: Machine, peer: str, workload: Workload, arrays: Sequence[np.ndarray]) -> Step:
    """Return a function that makes one step and returns the gradients."""
    leaves = machine.leaves(peer, arrays)
    if peer == "CuPy":
        return lambda: workload.by_hand(machine.xp, *leaves)
    lib: Any = machine.torch if peer == "torch" else machine.ag
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if peer in ("compiled", "graph"):

        def gradients(*leaves: Any) -> Sequence[Any]:
            loss = workload.program(lib, *leaves)
            return lib.autograd.grad(loss, [leaf for leaf in leaves if leaf.requires_grad])

        compiled = lib.compile(gradients, check=False, mode="reduce-overhead" if peer == "graph" else "default")
        return lambda: compiled(*leaves)

    def step() -> Sequence[Any]:
        workload.program(lib, *leaves).backward()
        found = [leaf.grad for leaf in wanted]
        for leaf in wanted:
            leaf.grad = None
        return found

    return step


def sample(machine: Machine, step: Step, repeat: int) -> float:
    """Return the seconds of one step, with the device idle before and after."""
    machine.wait()
    start = time.perf_counter()
    for _ in range(repeat):
        step()
    machine.wait()
    return (time.perf_counter() - start) / repeat


def repeats(machine: Machine, step: Step) -> int:
    """Return how many steps a sample takes."""
    count = 1
    while sample(machine, step, count) * count < SAMPLE_SECONDS:
        count *= 2
    return count


def agree(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    """Return whether gradients are the same to single precision."""
    return len(found) == len(expected) and all(
        a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())
        for a, b in zip(found, expected, strict=True)
    )


def measure(machine: Machine, workload: Workload, rounds: int) -> dict[str, list[float]] | None:
    """Return the seconds of each library in each round; None, with a printed line, if one is wrong."""
    n = workload.sizes[machine.dry]
    arrays = workload.arrays(np.random.default_rng(0), n)
    steps = {peer: step_of(machine, peer, workload, arrays) for peer in PEERS}
    gradients = {}
    for peer, step in steps.items():
        for _ in range(3):
            gradients[peer] = [machine.host(g) for g in step()]
    wrong = [peer for peer in PEERS if not agree(gradients[peer], gradients["CuPy"])]
    if wrong:
        print(f"{workload.name.format(n=n):40} WRONG: {', '.join(wrong)}")
        return None
    counts = {peer: 1 if machine.dry else repeats(machine, step) for peer, step in steps.items()}
    times: dict[str, list[float]] = {peer: [] for peer in PEERS}
    for i in range(rounds):
        for j in range(len(PEERS)):
            peer = PEERS[(i + j) % len(PEERS)]
            times[peer].append(sample(machine, steps[peer], counts[peer]))
    return times


def ratio(a: list[float], b: list[float]) -> float:
    """Return the median of the ratios within rounds."""
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def prepare(*, dry: bool) -> Machine:
    """Load the libraries.

    Raises
    ------
    SystemExit
        If one is missing, or there is no GPU: the message says which.
    """
    import agrad as ag

    if not dry:
        row = next((row for row in ag.backends() if row.name == "cupy"), None)
        if row is None or not row.available:
            why = "agrad-cupy is not installed" if row is None else row.reason
            sys.exit(f"nothing is measured: the cupy backend cannot be used here: {why}")
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        sys.exit(f"nothing is measured: PyTorch is not installed ({error})")
    if dry:
        return Machine(ag, torch, np, dry=True)
    if not torch.cuda.is_available():
        sys.exit("nothing is measured: this PyTorch is built without CUDA, or finds no device")
    torch.backends.cuda.matmul.allow_tf32 = False
    return Machine(ag, torch, importlib.import_module("cupy"), dry=False)


def heading(machine: Machine) -> str:
    """Return date, machine and versions."""
    import agrad

    parts = [f"agrad {agrad.__version__}", f"torch {machine.torch.__version__}", f"Python {platform.python_version()}"]
    if not machine.dry:
        device = machine.xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
        parts += [f"CuPy {machine.xp.__version__}", f"CUDA {machine.xp.cuda.runtime.runtimeGetVersion()}", device]
    return f"{dt.datetime.now(dt.UTC).date()}: {', '.join(parts)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the workloads; return 1 if a library was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", help="workloads whose name begins so; may be given several times")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--output", type=Path, help="a file that gets what is printed")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU, with NumPy in CuPy's place")
    given = parser.parse_args(argv)
    chosen = [w for w in WORKLOADS if not given.only or w.name.startswith(tuple(given.only))]
    if not chosen:
        parser.error("no workload has such a name")
    machine = prepare(dry=given.dry_run)
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    say(heading(machine))
    if machine.dry:
        say("a dry run on the CPU: that the gradients agree, and no times")
    else:
        say(f"{'ms per step':40} {' '.join(f'{peer:>9}' for peer in PEERS)} {'/torch':>8} {'/CuPy':>8}")
    failed = False
    for workload in chosen:
        times = measure(machine, workload, 1 if machine.dry else given.rounds)
        name = workload.name.format(n=workload.sizes[machine.dry])
        if times is None:
            failed = True
            lines.append(f"{name:40} WRONG")
        elif machine.dry:
            say(f"{name:40} agree")
        else:
            medians = " ".join(f"{statistics.median(times[peer]) * 1e3:9.3f}" for peer in PEERS)
            say(
                f"{name:40} {medians} {ratio(times['agrad'], times['torch']):8.2f} {ratio(times['agrad'], times['CuPy']):8.2f}"
            )
    if given.output:
        given.output.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
