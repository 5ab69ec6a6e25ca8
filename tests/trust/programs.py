"""Random programs as data: how one is drawn, run and judged.

A program is leaves and a list of steps: calls of the kit's samples, arithmetic, updates in place, hooks, `Function`s,
and blocks of steps that are checkpointed, run without gradients, mapped over a batch or differentiated within the
program. It is run twice: by agrad on tensors (`Recorded`), and on plain arrays by NumPy's kernels, which know no
derivatives (`Plain`). Finite differences of the plain run judge the gradients; composition judges the rest: forward mode
against reverse mode, a checkpoint against none, a batch against a loop, Dask against NumPy.

What stops or scales a gradient (`detach`, `no_grad`, a hook) has no plain counterpart that a difference would show, so a
plain run *freezes* it: it notes the value ``t0`` of the first run, and gives ``t0 + factor * (t - t0)`` in runs beside it,
whose first and second derivatives are those of the hooked program. Factors that keep numbers small are frozen too.

Programs are drawn from a seed. A failure is shrunk by leaving out steps, which renumbers what the others refer to, as
long as it fails in the same way. It prints the program; ``judge(Program(...))`` runs it again.
"""

from __future__ import annotations

import functools
import math
import random
import time
import traceback
import warnings
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

import agrad as ag
from agrad.autograd import forward_ad
from agrad.autograd.function import once_differentiable
from agrad.autograd.graph import saved_tensors_hooks
from agrad.plugin.backend import Executor
from agrad.program.recording import Recorder
from agrad.testing.calls import SampleCall
from agrad.testing.samples import SAMPLES
from agrad.utils.checkpoint import checkpoint

# -- the model --------------------------------------------------------------------------------------------------------


class Unjudged(Exception):
    """The differences do not tell: a kink is near, or the program is too steep for them."""


@dataclass(frozen=True)
class Leaf:
    """A leaf: its shape and dtype, what its values are drawn with, and the chunks it has where it is on Dask."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    seed: int = 0
    chunks: tuple[tuple[int, ...], ...] | None = None

    def values(self):
        """Give its values."""
        rng = np.random.default_rng((self.seed, len(self.shape)))
        made = rng.uniform(0.3, 1.5, self.shape) * rng.choice([-1.0, 1.0], self.shape)
        return made + 1j * rng.uniform(-1.0, 1.0, self.shape) if self.dtype == "complex128" else made


@dataclass(frozen=True)
class Program:
    """Leaves, steps, how many of the last values count (0: all), and what it is judged by."""

    leaves: tuple[Leaf, ...]
    steps: tuple
    counted: int = 0
    judges: tuple[str, ...] = ()


def every_step(steps):
    """Give all steps, those within blocks too."""
    for step in steps:
        yield step
        if step[0] == "block":
            yield from every_step(step[3])


def nested(steps):
    """Give how deeply derivatives are nested in the values of a program: what differences lose grows with it."""
    inner = [
        nested(step[3]) + (1 + (step[1] == "hessian") if step[1] in DERIVATIVES else 0)
        for step in steps
        if step[0] == "block"
    ]
    return max(inner, default=0)


def traits(program):
    """Give what occurs in a program: names of steps, of blocks and of functions, and the ops called."""
    found = set()
    for step in every_step(program.steps):
        found.add(step[0])
        if step[0] in {"block", "function", "apply", "call", "hook", "update", "write"}:
            found.add(f"{step[0]} {step[1] if step[0] not in {'hook', 'write'} else step[2]}")
    return found


NUMBERS = {}


def numbers(path, shape, dtype="float64"):
    """Give numbers away from 0 that belong to a place in the program: weights, tangents, cotangents.

    They are made once: a compiled function looks them up, and sees nothing draw.
    """
    key = path, shape, dtype
    if key not in NUMBERS:
        NUMBERS[key] = _numbers(*key)
    return NUMBERS[key]


def _numbers(path, shape, dtype):
    rng = np.random.default_rng(zlib.crc32(repr((path, shape)).encode()))
    made = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    made = made + 1j * rng.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else made
    if isinstance(made, np.ndarray):
        made.flags.writeable = False
    return made


# -- what steps compute: the same text for plain arrays and for tensors ------------------------------------------------

#: How far the operands of a sample are moved. What comes of it is divided by it, so that derivatives keep their size.
REACH = 0.02


def is_complex(x):
    return "complex" in str(x.dtype)


def bounded(xp, x):
    """Map smoothly to numbers below 1."""
    return x / xp.sqrt(1.0 + xp.real(x) ** 2 + xp.imag(x) ** 2) if is_complex(x) else xp.tanh(x)


def fit(xp, x, shape, dtype):
    """Bring a value to a shape, by repeating or leaving out elements, and to a real or complex dtype."""
    n, size = math.prod(shape), math.prod(x.shape)
    if np.dtype(dtype).kind == "c":
        x = x * (1 + 0.5j)
    elif is_complex(x):
        x = xp.real(x) - 0.5 * xp.imag(x)
    if tuple(x.shape) == tuple(shape):
        return x
    if size == 0:
        return xp.broadcast_to(xp.sum(x), shape)
    flat = xp.reshape(x, (-1,))
    if n < size:
        flat = flat[:n]
    elif n > size:
        flat = xp.concat([flat] * -(-n // size))[:n]
    return xp.reshape(flat, shape)


def overwritten(xp, a, b):
    made = a * 1.0
    made[..., 0] = xp.sum(b) * 0.5
    return made


def grown(xp, a, b):
    made = a * 1.0
    kept = made * made
    made += fit(xp, b, a.shape, a.dtype)
    return made * kept


def shifted(xp, a, b):
    made = a * 1.0
    made[1:] -= made[:-1] * 0.5
    return made


APPLY = {
    "a + b": lambda xp, a, b: a + b,
    "a * b": lambda xp, a, b: a * b * 0.5,
    "a - b": lambda xp, a, b: a - b,
    "2 - a": lambda xp, a, b: 2.0 - a,
    "a / (1 + bb)": lambda xp, a, b: a / (b * b + 3.0),
    "sin": lambda xp, a, b: xp.sin(a),
    "exp(-aa)": lambda xp, a, b: xp.exp(-a * a),
    "tanh": lambda xp, a, b: xp.tanh(a * 0.5),
    "bounded": lambda xp, a, b: bounded(xp, a),
    "maximum": lambda xp, a, b: xp.maximum(a, b),
    "minimum": lambda xp, a, b: xp.minimum(a, b * 2.0),
    "sum * b": lambda xp, a, b: xp.sum(a[..., :], axis=-1, keepdims=True) * b,
    "mean * b": lambda xp, a, b: xp.mean(a) * b,
    "var": lambda xp, a, b: xp.var(a, axis=0) - xp.mean(b),
    "every other": lambda xp, a, b: a[..., ::2] * 3.0,
    "backwards": lambda xp, a, b: a[..., ::-1],
    "rows twice": lambda xp, a, b: a[[0, -1, 0]],
    "new axis": lambda xp, a, b: a[:, None] * b[..., None],
    "matmul": lambda xp, a, b: a @ b * 0.3,
    "a @ a.T": lambda xp, a, b: a @ xp.matrix_transpose(a),
    "transpose": lambda xp, a, b: xp.matrix_transpose(a),
    "reshape": lambda xp, a, b: xp.reshape(a, (-1,)),
    "concat": lambda xp, a, b: xp.concat([a, b]),
    "stack": lambda xp, a, b: xp.stack([a, a * b], axis=-1),
    "unstack": lambda xp, a, b: xp.unstack(a)[0] * a,
    "where": lambda xp, a, b: xp.where(a > b + 0.013, a, b * 2.0),
    "clip": lambda xp, a, b: xp.clip(a, -0.7, 1.2),
    "abs": lambda xp, a, b: xp.abs(a),
    "sort": lambda xp, a, b: xp.sort(a[..., :], axis=-1) * b,
    "max": lambda xp, a, b: xp.max(a[..., :], axis=-1),
    "power": lambda xp, a, b: (a * a + 0.5) ** xp.tanh(b),
    "square": lambda xp, a, b: a**2,
    "conj": lambda xp, a, b: xp.conj(a) * b,
    "real and imag": lambda xp, a, b: xp.real(a * (1 + 2j)) * xp.imag(b * 1j),
    "rotate": lambda xp, a, b: a * (0.6 + 0.8j),
    "mask": lambda xp, a, b: a[a > 0.013],
    "overwritten": overwritten,
    "grown": grown,
    "shifted": shifted,
    "cumulative": lambda xp, a, b: xp.cumulative_sum(a[..., :], axis=-1) * 0.5,
    "broadcast": lambda xp, a, b: xp.broadcast_to(a, (2, *a.shape)) * 0.7,
    "nothing": lambda xp, a, b: a[:0],
}
#: By name: on tensors, and the same on plain arrays.
UPDATE = {
    "x += y": (lambda x, y: x.__iadd__(y), lambda x, y: x + y),
    "x -= y": (lambda x, y: x.__isub__(y), lambda x, y: x - y),
    "x *= y": (lambda x, y: x.__imul__(y), lambda x, y: x * y),
    "x /= yy + 3": (lambda x, y: x.__itruediv__(y * y + 3.0), lambda x, y: x / (y * y + 3.0)),
    "x **= 2": (lambda x, y: x.__ipow__(2), lambda x, y: x**2),
    "x.add_(y, alpha=2)": (lambda x, y: x.add_(y, alpha=2), lambda x, y: x + 2 * y),
    "x.mul_(0.5)": (lambda x, y: x.mul_(0.5), lambda x, y: x * 0.5),
    "x.addcmul_(y, y)": (lambda x, y: x.addcmul_(y, y, value=0.5), lambda x, y: x + 0.5 * y * y),
    "x.sin_()": (lambda x, y: x.sin_(), lambda x, y: np.sin(x)),
    "x.copy_(y)": (lambda x, y: x.copy_(y), lambda x, y: y * 1.0),
    "x.zero_()": (lambda x, y: x.zero_(), lambda x, y: x * 0),
    "x.fill_(0.5)": (lambda x, y: x.fill_(0.5), lambda x, y: x * 0 + 0.5),
    "x.masked_fill_": (
        lambda x, y: x.masked_fill_(ag.real(y) > 0.013, 0.7),
        lambda x, y: np.where(np.real(y) > 0.013, 0.7, x),
    ),
}

WRITE = {
    "[...]": lambda xp, x: ...,
    "[0]": lambda xp, x: 0,
    "[..., ::2]": lambda xp, x: (..., slice(None, None, 2)),
    "[..., ::-1]": lambda xp, x: (..., slice(None, None, -1)),
    "[-1:]": lambda xp, x: slice(-1, None),
    "[[0, -1]]": lambda xp, x: [0, -1] if x.shape[0] > 1 else [0],
    "[real > 0.2]": lambda xp, x: xp.real(x) > 0.2,
    "[mask]": lambda xp, x: np.reshape(np.arange(math.prod(x.shape)) % 2 == 0, tuple(x.shape)),
    "[None]": lambda xp, x: None,
    "[:0]": lambda xp, x: slice(0, 0),
}


#: It has as many elements as the values say.
BY_VALUE = {"[real > 0.2]"}


# -- functions of the user's ------------------------------------------------------------------------------------------


class Cube(ag.Function):
    """One saved operand, and both derivatives by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3.0 * x * x * g

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3.0 * x * x * t


class Pair(ag.Function):
    """Two results, everything by hand, the context in `forward`."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return ag.sin(x) * y, x * y * y

    @staticmethod
    def backward(ctx, g, h):
        x, y = map(ag.conj, ctx.saved_tensors)
        return g * ag.cos(x) * y + h * y * y, g * ag.sin(x) + h * 2.0 * x * y


class Gauss(ag.Function):
    """A saved result, which `jvp` uses too; `setup_context`; may be mapped."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return ag.exp(-x * x) * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        x, _, z = map(ag.conj, ctx.saved_tensors)
        return g * -2.0 * x * z, g * ag.exp(-x * x)

    @staticmethod
    def jvp(ctx, dx, dy):
        x, _, z = ctx.saved_tensors
        return -2.0 * x * z * dx + ag.exp(-x * x) * dy


class Once(ag.Function):
    """May be differentiated once."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * x * y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, y = map(ag.conj, ctx.saved_tensors)
        return g * 2.0 * x * y, g * x * x


class Partial(ag.Function):
    """Undefined cotangents are None, a result is marked, an argument is no tensor."""

    @staticmethod
    def forward(ctx, x, y, factor):
        ctx.factor = factor
        ctx.set_materialize_grads(False)
        marks = ag.real(x) > 0
        ctx.mark_non_differentiable(marks)
        return x * factor, x + y, marks

    @staticmethod
    def backward(ctx, g, h, _):
        parts = [part for part in ((None if g is None else g * ctx.factor), h) if part is not None]
        return (sum(parts) if parts else None), h, None


class Doubled(ag.Function):
    """Changes its operand in place."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        x *= y
        ctx.mark_dirty(x)
        ctx.old = x.detach() / y.detach()
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * ag.conj(y), g * ag.conj(ctx.old)


#: By name: on tensors, on plain arrays.
FUNCTION = {
    "Pair": (lambda x, y: Pair.apply(x, y), lambda x, y: [np.sin(x) * y, x * y * y]),
    "Gauss": (lambda x, y: Gauss.apply(x, y), lambda x, y: [np.exp(-x * x) * y]),
    "Once": (lambda x, y: Once.apply(x, y), lambda x, y: [x * x * y]),
    "Partial": (lambda x, y: Partial.apply(x, y, 1.5)[:2], lambda x, y: [x * 1.5, x + y]),
    "Doubled": (lambda x, y: Doubled.apply(x * 1.0, y * y + 1.0), lambda x, y: [x * (y * y + 1.0)]),
}
ONCE = {"function Once", "function Doubled"}
NO_JVP = {"function Pair", "function Once", "function Partial", "function Doubled"}
NO_VMAP = {"function Pair", "function Once", "function Partial", "function Doubled"}
NO_VMAP |= {"apply mask", "write [real > 0.2]", "noise", "hook", "retain", "block no_grad", "move"}

# -- machines ---------------------------------------------------------------------------------------------------------

#: Blocks whose result is a derivative of their steps, and what they run as.
DERIVATIVES = ("jvp", "vjp", "grad", "jacrev", "jacfwd", "hessian", "value_and_grad")


def number_of(values, path):
    """Give the real number that a function to be differentiated ends in: weighted elements of its last value."""
    last = values[-1]
    xp = np if isinstance(last, np.ndarray | np.generic) else ag
    return xp.sum(xp.real(last * numbers(path, tuple(last.shape), "complex128" if is_complex(last) else "float64")))


class Machine:
    """Runs steps. ``xp`` is the namespace, and the tape keeps what the first run has frozen, by its place."""

    xp = None

    def __init__(self, tape, *, mode="reverse"):
        self.tape, self.mode, self.rows = tape, mode, ()

    def run(self, steps, env, path=()):
        """Run steps on an environment, which grows."""
        for number, step in enumerate(steps):
            place = (*path, number)
            for i, made in enumerate(getattr(self, step[0])(env, place, *step[1:])):
                env.append(self.scaled(made if self.xp is ag else np.asarray(made), (*place, i)))
        return env

    def scaled(self, x, path):
        """Keep numbers small by a factor frozen in the plain run."""
        factor = self.factor(x, path)
        return x if factor == 1.0 else x * factor

    def apply(self, env, path, name, i, j):
        return [APPLY[name](self.xp, env[i], env[j])]

    def call(self, env, path, op, number, places):
        """Call a sample's op, its operands moved by values of the program; give how far the results move."""
        sample = self.sample(op, number)
        operands = [
            array
            if place is None
            else array + REACH * bounded(self.xp, fit(self.xp, env[place], data.shape, data.dtype))
            for array, data, place in zip(sample.arrays, sample.operands, places, strict=True)
        ]
        base = self.base(sample, op, number)
        made = self.called(sample, operands)
        return [(x - x0) * (1 / REACH) for x, x0 in zip(made, base, strict=True) if np.asarray(x0).dtype.kind in "fc"]

    calls: dict = {}
    bases: dict = {}

    def sample(self, op, number):
        key = op, number
        if key not in self.calls:
            self.calls[key] = SampleCall(SAMPLES[op][number])
        return self.calls[key]

    def base(self, sample, op, number):
        key = op, number
        if key not in self.bases:
            self.bases[key] = sample.raw(sample.arrays)
        return self.bases[key]


class Plain(Machine):
    """On plain arrays."""

    xp = np

    def freeze(self, path, x):
        return self.tape.setdefault((path, self.rows), np.array(x))

    def factor(self, x, path):
        if path not in self.tape:
            size = float(np.max(np.abs(x), initial=0.0))
            if not math.isfinite(size):
                message = "not finite"
                raise ValueError(message)
            self.tape[path] = 1.0 if size < 4 else float(f"{2 / size:.2e}")
        return self.tape[path]

    def called(self, sample, operands):
        return sample.raw(operands)

    def update(self, env, path, name, i, j):
        y = fit(np, env[j], env[i].shape, env[i].dtype)
        made = UPDATE[name][1](env[i], y)
        env[i] = self.scaled(np.asarray(made), path)
        return []

    def write(self, env, path, i, name, value):
        x = np.array(env[i])
        key = WRITE[name](np, x)
        x[key] = (
            value
            if isinstance(value, float)
            else fit(np, env[value], () if name in BY_VALUE else x[key].shape, x.dtype)
        )
        env[i] = x
        return []

    def hook(self, env, path, i, kind, factor):
        x = env[i] * 1.0
        if self.mode == "reverse":
            x0 = self.freeze(path, x)
            x = x0 + factor * (x - x0)
        return [x]

    def retain(self, env, path, i):
        return []

    def detach(self, env, path, i):
        return [self.freeze(path, env[i])]

    def noise(self, env, path, i):
        if path not in self.tape:
            self.tape[path] = ag.rand(tuple(env[i].shape), dtype="float64").numpy() + 0.5
        return [env[i] * self.tape[path]]

    def move(self, env, path, i, device):
        return [env[i] * 1.0]

    def function(self, env, path, name, i, j):
        return FUNCTION[name][1](env[i], fit(np, env[j], env[i].shape, env[i].dtype))

    def block(self, env, path, kind, places, steps):
        inputs = [env[i] for i in places]

        def inner(values):
            return self.run(steps, [np.array(v) for v in values], path)

        if kind == "vmap":
            made = []
            before = self.rows
            for row in range(2):
                self.rows = (*before, row)
                made.append(inner([x * (1 - 0.2 * row) for x in inputs])[len(inputs) :][-1])
            self.rows = before
            return [np.stack(made)]
        if kind in DERIVATIVES:
            return self.derivative(kind, path, inputs, inner)
        made = inner(inputs)[len(inputs) :][-2:]
        if kind == "no_grad" and self.mode == "reverse":
            return [self.freeze((*path, "result", k), x) for k, x in enumerate(made)]
        return made

    def derivative(self, kind, path, inputs, inner):
        x, *rest = inputs

        def last(x):
            return np.real(inner([x, *rest])[len(inputs) :][-1])  # no result at all is an IndexError

        def loss(x):
            return number_of(inner([x, *rest])[len(inputs) :], path)

        if kind == "jvp":
            return [along(last, x, numbers(path, x.shape))]
        if kind in {"jacrev", "jacfwd"}:
            return [jacobian(last, x)]
        if kind == "vjp":
            made = jacobian(last, x)
            count = made.ndim - x.ndim
            return [np.tensordot(numbers(path, made.shape[:count]), made, axes=count)]
        if kind == "hessian":
            return [jacobian(lambda x: jacobian(loss, x), x)]
        return [*([loss(x)] if kind == "value_and_grad" else []), jacobian(loss, x)]


def along(f, x, direction, h=1e-3):
    """Give the derivative of a function along a direction by differences of fourth order, or raise `Unjudged`."""
    middle = f(x)  # first: what is frozen belongs to the middle
    below2, below, above, above2 = (f(x + s * h * direction) for s in (-2, -1, 1, 2))
    made = (below2 - 8 * below + 8 * above - above2) / (12 * h)
    bend, wider = np.abs(above - 2 * middle + below), np.abs(above2 - 2 * middle + below2)
    scale = 1 + np.abs(made)
    if (
        np.any(np.abs(made - (above - below) / (2 * h)) > 2e-5 * scale)
        or np.any(bend > 0.05 * h * scale)
        or np.any((bend > 1e-8 * scale) & (wider < 3 * bend))  # twice the bend at a kink, four times where it is smooth
    ):
        raise Unjudged  # a kink, or too steep
    return made


def jacobian(f, x):
    """Give the Jacobian of a function of a small array: the result's axes first."""
    rows = []
    for i in range(x.size):
        unit = np.zeros(x.size)
        unit[i] = 1.0
        rows.append(along(f, x, unit.reshape(x.shape)))
    shape = rows[0].shape if rows else np.shape(f(x))
    return np.reshape(np.stack(rows, axis=-1) if rows else np.zeros((*shape, 0)), (*shape, *x.shape))


def doubled(t):
    """Pack: another value, where it is no index or mask."""
    return t, t.detach() * 2.0 if t._spec.inexact else t


def halved(kept):
    """Unpack."""
    return kept[1] * 0.5 if kept[0]._spec.inexact else kept[1]


class Recorded(Machine):
    """On tensors. ``mixed``: values move between NumPy and Dask where a step says so."""

    xp = ag

    def __init__(self, tape, *, mode="reverse", mixed=False):
        super().__init__(tape, mode=mode)
        self.mixed, self.retained = mixed, []

    def run(self, steps, env, path=()):
        for number, step in enumerate(steps):
            place = (*path, number)
            for i, made in enumerate(getattr(self, step[0])(env, place, *step[1:])):
                x = self.scaled(made, (*place, i))
                env.append(x.clone() if any(x is other for other in env) else x)
        return env

    def factor(self, x, path):
        return self.tape[path]

    def called(self, sample, operands):
        return sample.tensors(operands, ag.asarray)

    def update(self, env, path, name, i, j):
        x = env[i]
        made = UPDATE[name][0](x, fit(ag, env[j], x.shape, self.dtype(x)))
        assert made is x, name
        factor = self.factor(x, path)
        if factor != 1.0:
            x *= factor
        return []

    @staticmethod
    def dtype(x):
        return "complex128" if is_complex(x) else "float64"

    def write(self, env, path, i, name, value):
        x = env[i]
        key = WRITE[name](ag, x)
        if isinstance(value, float):
            x[key] = value
        else:
            x[key] = fit(ag, env[value], () if name in BY_VALUE else x[key].shape, self.dtype(x))
        return []

    def hook(self, env, path, i, kind, factor):
        x = ag.unstack(ag.stack([env[i], env[i]]))[1] if kind == "output" else env[i] * 1.0
        if self.mode != "reverse" or not x.requires_grad:
            return [x]

        def scale(g):
            return g * factor

        def scale_all(gs, *_):
            return tuple(None if g is None else g * factor for g in gs)

        if kind == "node":
            x.grad_fn.register_hook(scale_all)
        elif kind == "prehook":
            x.grad_fn.register_prehook(scale_all)
        elif kind == "two":  # in the order of registration
            x.register_hook(lambda g: g + 1.0)
            x.register_hook(lambda g: scale(g) - factor)
        else:
            x.register_hook(scale)
        return [x]

    def retain(self, env, path, i):
        if self.mode == "reverse" and env[i].requires_grad and not env[i].is_leaf:
            env[i].retain_grad()
            self.retained.append(env[i])
        return []

    def detach(self, env, path, i):
        return [env[i].detach()]

    def noise(self, env, path, i):
        return [env[i] * (ag.rand(tuple(env[i].shape), dtype="float64") + 0.5)]

    def move(self, env, path, i, device):
        return [ag.to_device(env[i], device) if self.mixed else env[i] * 1.0]

    def function(self, env, path, name, i, j):
        made = FUNCTION[name][0](env[i], fit(ag, env[j], env[i].shape, self.dtype(env[i])))
        return list(made) if isinstance(made, tuple) else [made]

    def block(self, env, path, kind, places, steps):
        inputs = [env[i] for i in places]

        def inner(*values):
            return self.run(steps, list(values), path)[len(inputs) :]

        def two(*values):
            return tuple(inner(*values)[-2:])

        if kind == "checkpoint":
            return list(checkpoint(two, *inputs, use_reentrant=False))
        if kind == "saved":
            with saved_tensors_hooks(doubled, halved):
                return list(two(*inputs))
        if kind == "no_grad":
            with ag.no_grad():
                return list(two(*inputs))
        if kind == "vmap":
            batched = [ag.stack([x, x * 0.8], axis=x.ndim if x.ndim % 2 else 0) for x in inputs]
            axes = tuple(x.ndim if x.ndim % 2 else 0 for x in inputs)
            return [ag.vmap(lambda *values: inner(*values)[-1], in_dims=axes)(*batched)]
        return self.derivative(kind, path, inputs, inner)

    def derivative(self, kind, path, inputs, inner):
        x, *rest = inputs

        def last(x):
            return ag.real(inner(x, *rest)[-1])

        def loss(x):
            return number_of(inner(x, *rest), path)

        if kind == "jvp":
            return [ag.func.jvp(last, (x,), (ag.asarray(numbers(path, tuple(x.shape))),))[1]]
        if kind == "vjp":
            y, pull = ag.func.vjp(last, x)
            return [pull(ag.asarray(numbers(path, tuple(y.shape))))[0]]
        if kind == "value_and_grad":
            return list(ag.func.value_and_grad(loss)(x))
        if kind in {"grad", "hessian"}:
            return [getattr(ag.func, kind)(loss)(x)]
        return [getattr(ag.func, kind)(last)(x)]


# -- judging ----------------------------------------------------------------------------------------------------------


#: How a program can be judged beside its values, and what it must not have for that.
JUDGES = {
    "backward": set(),
    "grad": set(),
    "in parts": set(),
    "inputs": set(),
    "second": ONCE,
    "pushed": NO_JVP,
    "dual": NO_JVP,
    "pushed twice": NO_JVP,
    "pairing": NO_JVP | {"hook"},
    "over": NO_JVP | {"hook", "block no_grad"},
    "mapped": NO_VMAP,
    "checkpointed": set(),
    "saved": {"block vmap", "block jacrev", "block jacfwd", "block hessian"},
    "single": set(),
    "compiled": {"hook", "retain"},  # they run as they are
    "replayed": set(),
    "native": set(),
    "patterned": {"hook", "block no_grad"},
    "dask": {"apply mask"},
}
#: What every program on NumPy may be judged by.
ON_NUMPY = tuple(name for name in JUDGES if name not in {"dask", "native"})
#: Half the precision.
SINGLE = {"float64": np.float32, "complex128": np.complex64}
#: What agrad says in words that it does not do, as the third derivative of `gammainc` by its parameters.
REFUSED = (ag.UnsupportedOp, NotImplementedError)


class Judge:
    """One program, its plain runs, and the comparisons; ``tally`` counts what was compared and why not."""

    def __init__(self, program, tally):
        self.program, self.tally, self.tape = program, tally, {}
        self.values = [leaf.values() for leaf in program.leaves]
        self.directions = [numbers(("direction", i), leaf.shape, leaf.dtype) for i, leaf in enumerate(program.leaves)]
        self.traits = traits(program)
        with np.errstate(all="ignore"):
            ag.manual_seed(7)
            self.env = Plain(self.tape).run(program.steps, [x * 1.0 for x in self.values])
        self.slopes = {}

    # -- runs

    def counted(self, env):
        return env[-self.program.counted :] if self.program.counted else env

    def loss(self, env):
        """Give a real number in which every value that counts has a share."""
        total = 0.0
        for i, x in enumerate(self.counted(env)):
            total = number_of([x], ("loss", i)) + total
        return total

    def plain(self, mode):
        def at(step):
            moved = [x + step * v for x, v in zip(self.values, self.directions, strict=True)]
            with np.errstate(all="ignore"):
                return float(self.loss(Plain(self.tape, mode=mode).run(self.program.steps, moved)))

        return at

    def leaves(self, dtypes=None, requires_grad=True):
        return [
            ag.asarray(x if dtypes is None else x.astype(dtypes[x.dtype.name]), requires_grad=requires_grad, copy=True)
            for x in self.values
        ]

    def recorded(self, leaves, *, seeds=True, **options):
        if seeds:
            ag.manual_seed(7)
        machine = Recorded(self.tape, **options)
        return machine, machine.run(self.program.steps, list(leaves))

    def tangents(self):
        return tuple(ag.asarray(v) for v in self.directions)

    # -- what should come out

    def slope(self, mode):
        """Give the derivative along the directions and its uncertainty."""
        if mode not in self.slopes:
            self.slopes[mode] = slope(self.plain(mode))
        return self.slopes[mode]

    def along(self, gradients):
        return sum(
            float(np.sum(np.real(np.conj(host(g)) * v))) for g, v in zip(gradients, self.directions, strict=True)
        )

    def compare(self, what, got, wanted, uncertain, rtol=1e-6):
        slack = rtol * max(1.0, abs(wanted)) + 10 * uncertain
        assert abs(got - wanted) <= slack, f"{what}: {got!r}, by differences {wanted!r} (to {slack:.0e})"

    def alike(self, what, got, wanted, rtol=1e-8):
        for i, (one, other) in enumerate(zip(map(host, got), map(host, wanted), strict=True)):
            if one.shape != other.shape and "apply mask" in self.traits and nested(self.program.steps):
                raise Unjudged  # the plain run has inner derivatives by differences: a mask may fall either way
            assert one.shape == other.shape, f"{what}, {i}: shape {one.shape} for {other.shape}"
            scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * scale, err_msg=f"{what}, {i}")

    # -- the judges

    def judge(self):
        leaves = self.leaves()
        self.machine, env = self.recorded(leaves)
        self.alike("values", env, self.env, rtol=10.0 ** (-9 + 3 * nested(self.program.steps)))
        self.alike("leaves", leaves, self.values, rtol=0)
        loss = self.loss(env)
        if not loss.requires_grad:
            self.tally["nothing recorded"] += 1
            self.compare("nothing is recorded, but the gradient", 0.0, *self.slope("reverse"))
            return
        try:
            reference = ag.autograd.grad(loss, leaves, materialize_grads=True)
        except REFUSED as error:
            self.refused("gradient", error)
            raise Unjudged from None
        self.gradients = [host(g) for g in reference]
        for leaf, g in zip(leaves, reference, strict=True):
            assert g.shape == leaf.shape
            assert g.dtype == leaf.dtype
        told = True
        try:
            self.compare("gradient", self.along(self.gradients), *self.slope("reverse"))
        except Unjudged:
            told = False
        for name in self.program.judges:
            if self.traits & JUDGES[name]:
                continue
            self.tally[f"judge {name}"] += 1
            try:
                getattr(self, name.replace(" ", "_"))()
            except Unjudged:
                self.tally[f"unjudged {name}"] += 1
            except REFUSED as error:
                self.refused(name, error)
        if not told:
            raise Unjudged

    def refused(self, what, error):
        """Count what agrad says in words that it does not do."""
        self.tally[f"refused {what}: {str(error).splitlines()[0][:100]}"] += 1

    def committed(self, leaves, wanted, factor=1.0, rtol=1e-9):
        """Check every .grad; no gradient stands for zeros."""
        got = [np.zeros(leaf.shape) if leaf.grad is None else host(leaf.grad) for leaf in leaves]
        self.alike(".grad", got, [factor * g for g in wanted], rtol=rtol)

    def backward(self):
        leaves = self.leaves()
        machine, env = self.recorded(leaves)
        loss = self.loss(env)
        retained = list(machine.retained)  # a checkpoint adds those of its second run
        inner = ag.autograd.grad(loss, retained, retain_graph=True, allow_unused=True) if retained else []
        for x in retained:
            x.grad = None  # filled by `grad` too
        loss.backward(retain_graph=True)
        for x, g in zip(retained, inner, strict=True):
            assert (x.grad is None) == (g is None)
            if g is not None:
                self.alike("retained", [x.grad], [g], rtol=1e-12)
        self.committed(leaves, self.gradients)
        loss.backward()
        self.committed(leaves, self.gradients, 2.0)

    def grad(self):
        leaves = self.leaves()
        _, env = self.recorded(leaves)
        got = [ag.autograd.grad(self.loss(env), leaf, materialize_grads=True, retain_graph=True) for leaf in leaves]
        self.alike("one by one", [g[0] for g in got], self.gradients, rtol=1e-9)
        assert all(leaf.grad is None for leaf in leaves)

    def in_parts(self):
        """Several passes over one graph, which add up; the last frees it."""
        leaves = self.leaves()
        _, env = self.recorded(leaves)
        parts = [number_of([x], ("loss", i)) for i, x in enumerate(self.counted(env))]
        parts = [part for part in parts if part.requires_grad]
        for part in parts:
            part.backward(retain_graph=True)
        self.committed(leaves, self.gradients)
        if parts:
            ag.autograd.backward(parts)
            self.committed(leaves, self.gradients, 2.0)

    def inputs(self):
        leaves = self.leaves()
        _, env = self.recorded(leaves)
        loss = self.loss(env)
        loss.backward(inputs=leaves[:1])
        self.committed(leaves, [self.gradients[0], *(np.zeros(leaf.shape) for leaf in leaves[1:])])

    def second(self):
        bend, uncertain = curvature(self.plain("reverse"))
        leaves = self.leaves()
        _, env = self.recorded(leaves)
        first = ag.autograd.grad(self.loss(env), leaves, create_graph=True, materialize_grads=True)
        self.alike("with create_graph", first, self.gradients, rtol=1e-8)
        along = sum(ag.sum(ag.real(ag.conj(g) * v)) for g, v in zip(first, self.tangents(), strict=True))
        twice = ag.autograd.grad(along, leaves, materialize_grads=True) if along.requires_grad else first
        got = self.along(twice) if along.requires_grad else 0.0
        self.compare("second derivative", got, bend, uncertain, rtol=1e-5)

    def function(self, *leaves):
        return self.loss(self.recorded(leaves, mode="forward")[1])

    def pushed(self):
        wanted = self.slope("forward")
        leaves = self.leaves(requires_grad=False)
        self.compare("jvp", ag.func.jvp(self.function, tuple(leaves), self.tangents())[1].item(), *wanted)

    def pushed_twice(self):
        bend, uncertain = curvature(self.plain("forward"))

        def tangent(*leaves):
            return ag.func.jvp(self.function, leaves, self.tangents())[1]

        got = ag.func.jvp(tangent, tuple(self.leaves(requires_grad=False)), self.tangents())[1].item()
        self.compare("jvp of jvp", got, bend, uncertain, rtol=1e-5)

    def dual(self):
        wanted = self.slope("forward")
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(x, v)
                for x, v in zip(self.leaves(requires_grad=False), self.tangents(), strict=True)
            ]
            tangent = forward_ad.unpack_dual(self.function(*duals)).tangent
            self.compare("dual level", 0.0 if tangent is None else tangent.item(), *wanted)

    def pairing(self):
        """<J u, w> = <u, J^T w>, the values that count being the result."""

        def values(*leaves):
            return tuple(x * 1.0 for x in self.counted(self.recorded(leaves, mode="forward")[1]))

        if "block no_grad" in self.traits:
            return
        leaves = self.leaves(requires_grad=False)
        results, pull = ag.func.vjp(values, *leaves)
        weights = tuple(
            ag.asarray(numbers(("pair", i), tuple(x.shape), x.detach().numpy().dtype)) for i, x in enumerate(results)
        )
        pulled = pull(weights)
        _, pushed = ag.func.jvp(values, tuple(leaves), self.tangents())
        terms = [float(np.sum(np.real(np.conj(host(w)) * host(t)))) for w, t in zip(weights, pushed, strict=True)]
        one, other = self.along(pulled), sum(terms)
        scale = max(1.0, *map(abs, terms))
        assert abs(one - other) <= 1e-8 * scale, f"<u, J^T w> = {one!r}, <J u, w> = {other!r}"

    def over(self):
        """Forward over reverse and reverse over forward give the curvature."""
        bend, uncertain = curvature(self.plain("reverse"))
        leaves = tuple(self.leaves(requires_grad=False))
        places = tuple(range(len(leaves)))
        _, pushed = ag.func.jvp(ag.func.grad(self.function, argnums=places), leaves, self.tangents())
        self.compare("forward over reverse", self.along(pushed), bend, uncertain, rtol=1e-5)

        def tangent(*leaves):
            return ag.func.jvp(self.function, leaves, self.tangents())[1]

        pulled = ag.func.grad(tangent, argnums=places)(*leaves)
        self.compare("reverse over forward", self.along(pulled), bend, uncertain, rtol=1e-5)

    def mapped(self):
        """A batch against a loop."""
        leaves = self.leaves(requires_grad=False)
        places = tuple(range(len(leaves)))
        gradient = ag.func.grad(self.function, argnums=places)
        batch = [ag.stack([x, x * 1.001]) for x in leaves]
        got = ag.vmap(gradient)(*batch)
        rows = [gradient(*(x[row] for x in batch)) for row in range(2)]
        self.alike("vmap", got, [ag.stack([row[i] for row in rows]) for i in places])

    def checkpointed(self):
        leaves = self.leaves()
        loss = checkpoint(lambda *xs: self.loss(self.recorded(xs)[1]), *leaves, use_reentrant=False)
        loss.backward()
        self.committed(leaves, self.gradients, rtol=1e-12)

    def saved(self):
        leaves = self.leaves()
        with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), ag.asarray):
            _, env = self.recorded(leaves)
            loss = self.loss(env)
        loss.backward()
        self.committed(leaves, self.gradients, rtol=1e-12)

    def single(self):
        """Leaves of half the precision, which the operands of the rest promote."""
        leaves = self.leaves(SINGLE)
        _, env = self.recorded(leaves)
        got = ag.autograd.grad(self.loss(env), leaves, materialize_grads=True)
        for leaf, g in zip(leaves, got, strict=True):
            assert g.dtype == leaf.dtype
        self.slope("reverse")  # near a kink rounding decides
        scale = max(1.0, *(float(np.max(np.abs(g), initial=0.0)) for g in self.gradients))
        for one, other in zip(got, self.gradients, strict=True):
            np.testing.assert_allclose(host(one), other, rtol=1e-3, atol=2e-3 * scale, err_msg="float32")

    def everything(self, *leaves):
        """Give the values that count, the loss and the gradients."""
        _, env = self.recorded(leaves, seeds=False)
        loss = self.loss(env)
        return [*self.counted(env), loss, *ag.autograd.grad(loss, leaves, materialize_grads=True)]

    def captured(self, dtypes=None):
        """Give what `everything` gives, and a program of it that was captured with other values; None where there is none."""
        moved = [
            ag.asarray(
                x + 0.01 * v if dtypes is None else (x + 0.01 * v).astype(dtypes[x.dtype.name]), requires_grad=True
            )
            for x, v in zip(self.values, self.directions, strict=True)
        ]
        ag.manual_seed(7)
        wanted = self.everything(*self.leaves(dtypes))
        ag.manual_seed(7)
        self.everything(*moved)  # what agrad refuses by value, it refuses here
        ag.manual_seed(7)
        try:
            with arrays_as_constants():
                return wanted, ag.func.capture(self.everything)(*moved)
        except ag.func.CaptureError as error:
            reason = next((text for text in ("depends on values", "a hook is registered") if text in str(error)), None)
            if reason is None:
                raise
            self.tally[f"not captured: {reason}"] += 1
            return None

    def replayed(self):
        """Captured with other values, and replayed with these: bit for bit, if no complex product may round otherwise."""
        if (captured := self.captured()) is None:
            return
        wanted, program = captured
        kept = any(name.startswith("function") for name in self.traits)  # of a Function it holds no derivative
        for requires_grad in (False,) if kept else (False, True):
            ag.manual_seed(7)
            found = program(*self.leaves(requires_grad=requires_grad))
            if any("complex" in shape.dtype for shape in program.shapes.values()):
                self.alike("replayed", found, wanted, rtol=1e-10)
                continue
            for i, (one, other) in enumerate(zip(map(host, found), map(host, wanted), strict=True)):
                np.testing.assert_array_equal(one, other, err_msg=f"replayed, {i}", strict=True)

    def native(self):
        """Replayed as machine code, leaves of both precisions: bit for bit where that is asked, else to rounding."""
        by_steps, exact, own = executors()
        for dtypes in (None, SINGLE):
            if (captured := self.captured(dtypes)) is None:
                return
            wanted, program = captured
            found = []
            for executor in (by_steps, exact, own, exact, own):
                ag.manual_seed(7)
                with ag.func.use_executor(executor):
                    found.append([*map(host, program(*self.leaves(dtypes, requires_grad=False)))])
            if not any("complex" in shape.dtype for shape in program.shapes.values()):
                found[0] = [*map(host, wanted)]
            for again in (1, 3):
                for i, (one, other) in enumerate(zip(found[again], found[0], strict=True)):
                    assert same_bits(one, other), f"exact, {dtypes}, {i}: {one!r} for {other!r}"
            for i, (one, other) in enumerate(zip(found[2], found[4], strict=True)):
                assert same_bits(one, other), f"again, {dtypes}, {i}: {one!r} for {other!r}"
            self.slope("reverse")  # near a kink rounding decides
            self.alike(f"native, {dtypes}", found[2], found[0], rtol=1e-8 if dtypes is None else 2e-3)

    def patterned(self):
        """No element of the Jacobian, by backward passes, lies outside of the pattern of the captured program, and by colours it is the same."""

        def values(*leaves):
            ag.manual_seed(7)
            found = self.counted(self.recorded(leaves, seeds=False)[1])
            return [x * 1.0 for x in found if x._spec.inexact]

        leaves = self.leaves(requires_grad=False)
        if any(map(is_complex, leaves)):
            return
        places = tuple(range(len(leaves)))
        results = values(*leaves)
        if any(map(is_complex, results)):
            return
        try:
            with arrays_as_constants():
                program = ag.func.capture(values)(*leaves)
        except ag.func.CaptureError as error:
            if "depends on values" not in str(error):
                raise
            return
        rows = ag.func.jacrev(values, places)(*leaves)
        dense = np.concatenate(
            [
                np.concatenate(
                    [host(part).reshape(y.size, x.size) for part, x in zip(row, leaves, strict=False)], axis=1
                )
                for row, y in zip(rows, results, strict=False)
            ]
        )
        for local in (False, True):
            pattern = program.sparsity(*leaves, local=local).toarray()
            outside = (np.nan_to_num(dense) != 0) & ~pattern
            assert not outside.any(), f"outside of the pattern, local={local}: {np.argwhere(outside)[:5].tolist()}"
            self.tally[f"entries that may be 0, local={local}"] += int((~pattern).sum())
        if not np.isfinite(dense).all():
            return
        with arrays_as_constants():
            found = ag.func.sparse_jacobian(
                values, places, mode="reverse" if self.traits & (NO_JVP | NO_VMAP) else "mixed"
            )(*leaves)
        self.alike("by colours", [found.toarray()], [dense])
        self.tally["found by colours"] += 1

    def compiled(self):
        """Compiled, and called at several points: values and gradients are the function's."""

        def everything(*leaves):
            _, env = self.recorded(leaves, seeds=False)
            loss = self.loss(env)
            return [*self.counted(env), loss]

        function = ag.compile(everything, pure=True)
        for i in range(6):
            leaves = [
                ag.asarray(x + 0.003 * (i % 3) * v, requires_grad=True)
                for x, v in zip(self.values, self.directions, strict=True)
            ]
            found = []
            for run in (everything, function):
                ag.manual_seed(7)
                values = run(*leaves)
                got = ag.autograd.grad(values[-1], leaves, materialize_grads=True)
                found.append([*map(host, values), *map(host, got)])
            self.alike(f"compiled, call {i}", found[1], found[0], rtol=1e-9)
        self.tally["compiled to programs"] += bool(function.programs)

    def dask(self):
        """Some leaves on Dask, in chunks of their own."""
        import dask
        import dask.array as da

        self.slope("reverse")
        with dask.config.set(scheduler="synchronous"):
            leaves = [
                leaf
                if shape.chunks is None
                else ag.asarray(da.from_array(leaf.detach().numpy(), chunks=shape.chunks), requires_grad=True)
                for leaf, shape in zip(self.leaves(), self.program.leaves, strict=True)
            ]
            _, env = self.recorded(leaves, mixed=True)
            loss = self.loss(env)
            got = ag.autograd.grad(loss, leaves, materialize_grads=True, retain_graph=True)
            self.alike("values on Dask", env, self.env, rtol=1e-7)
            self.alike("gradients on Dask", got, self.gradients, rtol=1e-7)
            loss.backward()
            self.committed(leaves, self.gradients, rtol=1e-7)


@contextmanager
def arrays_as_constants():
    """Have captures take NumPy's arrays that a function makes for constants: they depend on nothing, here."""
    meet, inside = Recorder.meet, []

    def met(self, tensor):
        inside.append(tensor)
        try:
            meet(self, tensor)
        finally:
            inside.pop()

    take = Recorder.input

    def taken(self, array, backend=None):
        return take(self, array if inside else self.constant(array), backend)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "meet", met)
        patch.setattr(Recorder, "input", taken)
        yield


class BySteps(Executor):
    """Runs the steps of a program one by one."""

    name, backends, loops = "steps", ("numpy",), True

    def build(self, program, backend, values, **options):
        return program.function(backend)


@functools.cache
def executors():
    """Give what runs programs step by step, and as machine code: with the bits of the steps, and with functions of its own."""
    from agrad_numpy.native import NativeExecutor

    class Native(NativeExecutor):
        """Takes programs most of whose steps are NumPy's, too."""

        share = 1

        def __init__(self, exact):
            self.exact = exact

        def build(self, program, backend, values, **options):
            return super().build(program, backend, values, exact=self.exact)

    return BySteps(), Native(True), Native(False)


def same_bits(one, other):
    """Tell whether two arrays are the same bits, but for those of NaN."""
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    parts = [
        part(x).copy() for x in (one, other) for part in ((np.real, np.imag) if x.dtype.kind == "c" else (np.asarray,))
    ]
    for part in parts:
        if part.dtype.kind == "f":
            part[np.isnan(part)] = np.nan
    half = len(parts) // 2
    return all(a.tobytes() == b.tobytes() for a, b in zip(parts[:half], parts[half:], strict=True))


def host(x):
    """Give a value as a NumPy array."""
    return np.asarray(ag.asarray(x).detach().to_device("cpu").numpy()) if isinstance(x, ag.Tensor) else np.asarray(x)


def slope(f):
    """Give the derivative of a function of a number at 0 and its uncertainty, or raise `Unjudged`."""
    at = {}

    def of(step):
        if step not in at:
            try:
                at[step] = f(step)
            except ValueError as error:
                raise Unjudged from error  # a result's length changed
        return at[step]

    def difference(h):
        return (of(-2 * h) - 8 * of(-h) + 8 * of(h) - of(2 * h)) / (12 * h)

    def jump(h):
        return abs(of(h) - 2 * of(0.0) + of(-h)) / h

    if jump(4e-5) > 0.5 * jump(2e-4) and jump(4e-5) > 1e-8 * max(1.0, abs(of(0.0))):
        raise Unjudged
    for h in (1e-3, 2e-4):
        long, short = difference(h), difference(h / 5)
        if abs(long - short) <= 1e-7 * max(1.0, abs(short)):
            return short, abs(long - short)
    raise Unjudged


def curvature(f):
    """Give the second derivative of a function of a number at 0 and its uncertainty, or raise `Unjudged`."""
    slope(f)
    at = {k: f(k * 1e-3) for k in (-4, -2, -1, 0, 1, 2, 4)}

    def difference(k):
        return (-at[-2 * k] + 16 * at[-k] - 30 * at[0] + 16 * at[k] - at[2 * k]) / (12 * (k * 1e-3) ** 2)

    long, short = difference(2), difference(1)
    if not abs(long - short) <= 1e-6 * max(1.0, abs(short)):
        raise Unjudged
    return short, abs(long - short)


def judge(program, tally=None):
    """Run a program and judge it; raise AssertionError, or what agrad raised, where it is wrong."""
    tally = Counter() if tally is None else tally
    tally["programs"] += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Judge(program, tally).judge()
    except Unjudged:
        tally["unjudged"] += 1
    except REFUSED as error:
        tally["unjudged"] += 1
        tally[f"refused: {str(error).splitlines()[0][:100]}"] += 1
    else:
        tally["judged"] += 1


# -- drawing ----------------------------------------------------------------------------------------------------------

SHAPES = [(), (1,), (3,), (2, 3), (2, 3), (3, 2), (3, 3), (2, 1, 3), (0, 3)]
OPS = [op for op, samples in SAMPLES.items() if samples]
#: At most so many elements; in what is differentiated whole, so few, by how deeply it is nested.
LARGEST, SMALL = 60, (4, 2)


def leaf_of(rng):
    """Draw a leaf."""
    shape = rng.choice(SHAPES)
    dtype = rng.choice(["float64"] * 5 + ["complex128"])
    chunks = None
    if rng.random() < 0.5:
        chunks = tuple(rng.choice([(n,), (1,) * n or (0,), (1, n - 1) if n > 1 else (n,)]) for n in shape)
    return Leaf(shape, dtype, rng.randint(0, 30), chunks)


def recent(rng, last):
    """Draw a place, rather one of the last."""
    return last - int(rng.random() ** 2 * (last + 1))


def step_of(rng, env, fixed, depth, mapped):
    """Draw a step for an environment whose first ``fixed`` values must not be changed in place."""
    last = len(env) - 1

    def place():
        return recent(rng, last)

    kinds = ["apply"] * 7 + ["call"] * 7 + ["function", "detach"]
    if last >= fixed:
        kinds += ["update"] * 3 + ["write"] * 3
    if depth < 2:
        kinds += ["block"] * 3
    if not mapped:
        kinds += ["hook", "retain", "noise", "move"]
    kind = rng.choice(kinds)
    if kind == "apply":
        return kind, rng.choice(list(APPLY)), place(), place()
    if kind == "call":
        op = rng.choice(OPS)
        number = rng.randrange(len(SAMPLES[op]))
        count = len(Plain({}).sample(op, number).operands)
        if not count:
            return kind, op, number, ()
        moved = rng.randint(0, count - 1)
        return kind, op, number, tuple(place() if k == moved or rng.randint(0, 4) else None for k in range(count))
    if kind == "function":
        return kind, "Gauss" if mapped else rng.choice(list(FUNCTION)), place(), place()
    if kind == "update":
        return kind, rng.choice(list(UPDATE)), rng.randint(fixed, last), place()
    if kind == "write":
        value = rng.choice([0.5, None, None])
        name = rng.choice(list(WRITE))
        return kind, rng.randint(fixed, last), name, place() if value is None else value
    if kind == "hook":
        how = rng.choice(["tensor", "tensor", "output", "node", "prehook", "two"])
        return kind, place(), how, rng.choice([2.0, -0.5, 0.0])
    if kind == "move":
        return kind, place(), rng.choice(["numpy", "dask"])
    if kind != "block":
        return kind, place()
    return None


def block_of(rng, env, depth, mapped):
    """Draw a block with its steps, or None where its first value does not suit it."""
    last = len(env) - 1
    kinds = ["checkpoint"] * 3 + ["saved", "vmap", *DERIVATIVES]
    kind = rng.choice(kinds if mapped else [*kinds, "no_grad"])
    places = tuple(recent(rng, last) for _ in range(rng.randint(1, 2)))
    inputs = [np.array(env[i]) for i in places]
    whole = kind in DERIVATIVES
    if whole and (inputs[0].size > SMALL[depth] - (kind == "hessian") or inputs[0].dtype.kind == "c"):
        return None
    count = rng.randint(1, 3 if whole or kind == "vmap" else 6)
    steps = steps_of(rng, inputs, count, depth + 1, mapped=mapped or whole or kind == "vmap")
    return ("block", kind, places, steps) if steps else None


def steps_of(rng, env, count, depth=0, *, mapped=False):
    """Draw steps that a plain run allows; ``env`` grows by what they make."""
    fixed, steps = len(env), []
    for _ in range(2 * count):
        if len(steps) == count:
            break
        step = step_of(rng, env, fixed, depth, mapped) or block_of(rng, env, depth, mapped)
        if step is None or (mapped and (step[:2] == ("apply", "mask") or "[real > 0.2]" in step)):
            continue
        before = list(env)
        if steps_allowed([step], env):
            steps.append(step)
        else:
            env[:] = before
    return tuple(steps)


def steps_allowed(steps, env):
    """Tell whether a plain run takes the steps and its values suit; ``env`` grows by what they make."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            Plain({}).run(steps, env)
    except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError, Warning, Unjudged):
        return False
    return all(
        np.size(x) <= LARGEST and x.dtype.name in {"float64", "complex128"} and np.all(np.isfinite(x)) for x in env
    )


def drawn(seed, judges=tuple(JUDGES), longest=40):
    """Draw a program."""
    rng = random.Random(seed)
    leaves = tuple(leaf_of(rng) for _ in range(rng.randint(1, 3)))
    mapped = rng.random() < 0.4  # of what every transform can take
    steps = steps_of(rng, [leaf.values() for leaf in leaves], rng.randint(2, longest), mapped=mapped)
    found = traits(Program(leaves, steps))
    suited = [name for name in judges if not found & JUDGES[name]]
    chosen = tuple(rng.sample(suited, min(len(suited), rng.randint(1, 3))))
    return Program(leaves, steps, rng.choice([0, 0, 3]), chosen)


# -- shrinking --------------------------------------------------------------------------------------------------------


def moved(step, place):
    """Give a step with its places changed."""
    name, *rest = step
    if name in {"apply", "update", "function"}:
        return name, rest[0], place(rest[1]), place(rest[2])
    if name == "call":
        return name, *rest[:2], tuple(None if p is None else place(p) for p in rest[2])
    if name == "write":
        return name, place(rest[0]), rest[1], rest[2] if isinstance(rest[2], float) else place(rest[2])
    if name == "block":
        return name, rest[0], tuple(map(place, rest[1])), rest[2]
    return name, place(rest[0]), *rest[1:]


def variants(steps, env):
    """Give the steps with one less, in them or in one of their blocks; what used its results uses the value before."""
    env, before = list(env), []
    for step in steps:
        before.append(list(env))
        try:
            Plain({}).run([step], env)
        except Unjudged:  # at a kink: there is no plain run to go by
            return
    ends = [*map(len, before[1:]), len(env)]
    for k in reversed(range(len(steps))):
        start, end = len(before[k]), ends[k]

        def place(p, start=start, end=end):
            return p if p < start else p - (end - start) if p >= end else start - 1

        yield (*steps[:k], *(moved(step, place) for step in steps[k + 1 :]))
    for k, step in enumerate(steps):
        if step[0] == "block":
            for inner in variants(step[3], [np.array(before[k][p]) for p in step[2]]):
                if inner:
                    yield (*steps[:k], (*step[:3], inner), *steps[k + 1 :])


def runs(steps, env):
    """Tell whether a plain run allows the steps; operands of the program itself are not changed in place."""
    env, fixed = list(env), len(env)
    if any(step[0] == "update" and step[2] < fixed for step in steps):
        return False
    if any(step[0] == "write" and step[1] < fixed for step in steps):
        return False
    return steps_allowed(steps, env) and all(
        runs(step[3], [np.array(env[p]) for p in step[2]]) for step in steps if step[0] == "block"
    )


def shrunk(program, seconds=90.0):
    """Give a smaller program that fails in the same way."""

    def error_of(candidate):
        try:
            judge(candidate)
        except Exception as error:  # noqa: BLE001 (whatever agrad raises)
            where = traceback.extract_tb(error.__traceback__)[-1]
            return type(error), where.name, where.line
        return None

    def candidates(program):
        if len(program.judges) > 1:
            yield from (replace(program, judges=(name,)) for name in program.judges)
        for steps in variants(program.steps, env):
            if runs(steps, env):
                yield replace(program, steps=steps)

    kind, end = error_of(program), time.monotonic() + seconds
    if kind is None:  # only the first time in a process
        return program
    env = [leaf.values() for leaf in program.leaves]
    found = program
    while found is not None:
        program = found
        found = next((c for c in candidates(program) if time.monotonic() > end or error_of(c) == kind), None)
        if time.monotonic() > end:
            break
    return program
