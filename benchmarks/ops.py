"""Every op, forward and backward, on a thousand and on a million elements, compared with PyTorch and HIPS autograd.

Run from an environment where agrad, its NumPy backend, torch and autograd are installed::

    python benchmarks/ops.py                              # all ops, both sizes, some ten minutes
    python benchmarks/ops.py --only sin --only linalg.    # by name or by the beginning of a name
    python benchmarks/ops.py --size 1000 --dtype float32

Method: as in ``overhead.py``. One process and one thread, CPU time; each round takes a sample of every library in turn
and the ratio within the round; the median over the rounds is printed. A sample repeats the step until it takes about
two milliseconds. Before timing, agrad's gradients are compared with PyTorch's (if PyTorch has the function) or with
HIPS autograd's; a row that differs is marked WRONG.

A ratio above 1 means that agrad takes longer. Ops above 1.5 of PyTorch are listed at the end, with the cause if it is
known (`CAUSES`), and so are differentiable ops that have no row.
"""

from __future__ import annotations

import argparse
import gc
import math
import operator
import os
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402  (the thread counts above come first)

LIBRARIES = ("agrad", "torch", "HIPS")
SAMPLE = 2e-3  # seconds
SLOW = 1.5

Arrays = Callable[[int, np.random.Generator], list[np.ndarray]]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One op: its operands for a number of elements, and its call in each library (None if it has none)."""

    op: str
    operands: Arrays
    agrad: Function
    torch: Function | None
    hips: Function | None


CASES: list[Case] = []


def case(
    op: str, operands: Arrays, agrad: Function, torch: Function | None = None, hips: Function | None = None
) -> None:
    """Add a case; each function is called with its library's namespace and the operands."""
    CASES.append(Case(op, operands, agrad, torch, hips))


# -- operands ----------------------------------------------------------------------------------------------------------


def real(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of either sign, away from 0."""
    return rng.uniform(0.2, 2.0, n) * rng.choice([-1.0, 1.0], n)


def positive(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers from 0.3 to 2.5."""
    return rng.uniform(0.3, 2.5, n)


def inside(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers from -0.8 to 0.8."""
    return rng.uniform(-0.8, 0.8, n)


def above_one(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers from 1.3 to 3.5."""
    return rng.uniform(1.3, 3.5, n)


def unit(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers from 0.1 to 0.9."""
    return rng.uniform(0.1, 0.9, n)


def each(*draws: Callable[[int, np.random.Generator], np.ndarray]) -> Arrays:
    """One vector per draw."""
    return lambda n, rng: [draw(n, rng) for draw in draws]


def table(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A matrix that is about square."""
    rows = math.isqrt(n)
    return [real(rows * (n // rows), rng).reshape(rows, n // rows)]


def square(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Two square matrices."""
    side = math.isqrt(n)
    return [rng.standard_normal((side, side)) for _ in range(2)]


def stack_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """Well-conditioned square matrices, as many as each has rows."""
    side = round(n ** (1 / 3))
    return rng.standard_normal((side, side, side)) / side + np.eye(side) * np.linspace(1.0, 2.0, side)


def matrices(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A stack of matrices."""
    return [stack_of(n, rng)]


def definite(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A stack of positive definite matrices."""
    a = stack_of(n, rng)
    return [a @ a.transpose(0, 2, 1)]


def system(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A stack of matrices and one of right-hand sides."""
    a = stack_of(n, rng)
    return [a, rng.standard_normal(a.shape)]


# -- elementwise -------------------------------------------------------------------------------------------------------


def named(op: str, operands: Arrays, torch: str | None = "", hips: str | None = "") -> None:
    """Add an op that every library has as a function of the same operands, possibly under another name."""
    torch = op if torch == "" else torch
    hips = op if hips == "" else hips

    def call(name: str | None) -> Function | None:
        return None if name is None else lambda xp, *xs: operator.attrgetter(name)(xp)(*xs)

    own = call(op.replace("nn.", "nn.functional."))
    assert own is not None
    case(op, operands, own, call(torch), call(hips))


for _op, _draw, _torch, _hips in (
    ("abs", real, "", ""),
    ("acos", inside, "", "arccos"),
    ("acosh", above_one, "", "arccosh"),
    ("asin", inside, "", "arcsin"),
    ("asinh", real, "", "arcsinh"),
    ("atan", real, "", "arctan"),
    ("atanh", inside, "", "arctanh"),
    ("ceil", real, "", ""),
    ("cos", real, "", ""),
    ("cosh", real, "", ""),
    ("exp", real, "", ""),
    ("expm1", real, "", ""),
    ("floor", real, "", ""),
    ("log", positive, "", ""),
    ("log10", positive, "", ""),
    ("log1p", positive, "", ""),
    ("log2", positive, "", ""),
    ("negative", real, "", ""),
    ("positive", real, None, None),
    ("reciprocal", real, "", ""),
    ("round", real, "", None),
    ("sign", real, "", ""),
    ("sin", real, "", ""),
    ("sinh", real, "", ""),
    ("sqrt", positive, "", ""),
    ("square", real, "", ""),
    ("tan", inside, "", ""),
    ("tanh", real, "", ""),
    ("trunc", real, "", None),
    ("nn.relu", real, "nn.functional.relu", None),
    ("nn.leaky_relu", real, "nn.functional.leaky_relu", None),
    ("nn.elu", real, "nn.functional.elu", None),
    ("nn.sigmoid", real, "sigmoid", None),
    ("nn.softplus", real, "nn.functional.softplus", None),
    ("nn.silu", real, "nn.functional.silu", None),
    ("nn.gelu", real, "nn.functional.gelu", None),
):
    named(_op, each(_draw), _torch, _hips)

for _op, _first, _second, _torch, _hips in (
    ("add", real, real, "", ""),
    ("atan2", real, real, "", "arctan2"),
    ("copysign", real, real, "", None),
    ("divide", real, real, "", ""),
    ("floor_divide", real, positive, None, None),
    ("hypot", real, real, "", None),
    ("logaddexp", real, real, "", ""),
    ("maximum", real, inside, "", ""),
    ("minimum", real, inside, "", ""),
    ("multiply", real, real, "", ""),
    ("nextafter", real, real, None, None),
    ("pow", positive, real, "", "power"),
    ("remainder", real, positive, "", ""),
    ("subtract", real, real, "", ""),
):
    named(_op, each(_first, _second), _torch, _hips)

case(
    "nn.log_sigmoid",
    each(real),
    lambda xp, x: xp.nn.functional.logsigmoid(x),
    lambda xp, x: xp.nn.functional.logsigmoid(x),
)
case(
    "clip",
    each(real),
    lambda xp, x: xp.clip(x, -1.0, 1.0),
    lambda xp, x: xp.clamp(x, -1.0, 1.0),
    lambda xp, x: xp.clip(x, -1.0, 1.0),
)
case("astype", each(real), lambda xp, x: xp.astype(x, xp.complex128), lambda xp, x: x.to(xp.complex128), None)
for _op in ("conj", "real", "imag"):
    _complex: Arrays = lambda n, rng: [real(n, rng) + 1j * real(n, rng)]
    named(_op, _complex, None if _op == "conj" else "", "")
case(
    "where",
    each(real, real),
    lambda xp, x, y: xp.where(x > 0, x, y),
    lambda xp, x, y: xp.where(x > 0, x, y),
    lambda xp, x, y: xp.where(x > 0, x, y),
)

# -- manipulation and indexing -----------------------------------------------------------------------------------------

case(
    "reshape",
    table,
    lambda xp, x: xp.reshape(x, (-1,)),
    lambda xp, x: xp.reshape(x, (-1,)),
    lambda xp, x: xp.reshape(x, (-1,)),
)
case(
    "permute_dims",
    table,
    lambda xp, x: xp.permute_dims(x, (1, 0)),
    lambda xp, x: x.permute(1, 0),
    lambda xp, x: xp.transpose(x, (1, 0)),
)
case(
    "matrix_transpose",
    table,
    lambda xp, x: xp.matrix_transpose(x),
    lambda xp, x: x.mT,
    lambda xp, x: xp.swapaxes(x, -1, -2),
)
case(
    "moveaxis",
    table,
    lambda xp, x: xp.moveaxis(x, 0, 1),
    lambda xp, x: xp.moveaxis(x, 0, 1),
    lambda xp, x: xp.moveaxis(x, 0, 1),
)
case(
    "expand_dims",
    table,
    lambda xp, x: xp.expand_dims(x, axis=1),
    lambda xp, x: x.unsqueeze(1),
    lambda xp, x: xp.expand_dims(x, 1),
)
case(
    "squeeze",
    lambda n, rng: [real(n, rng)[None]],
    lambda xp, x: xp.squeeze(x, 0),
    lambda xp, x: x.squeeze(0),
    lambda xp, x: xp.squeeze(x, 0),
)
case("flip", table, lambda xp, x: xp.flip(x, axis=1), lambda xp, x: xp.flip(x, (1,)), lambda xp, x: xp.fliplr(x))
case("roll", table, lambda xp, x: xp.roll(x, 3, axis=1), lambda xp, x: xp.roll(x, 3, 1), lambda xp, x: xp.roll(x, 3, 1))
case(
    "broadcast_to",
    lambda n, rng: [real(math.isqrt(n), rng)],
    lambda xp, x: xp.broadcast_to(x, (x.shape[0],) * 2),
    lambda xp, x: xp.broadcast_to(x, (x.shape[0],) * 2),
    None,
)
case(
    "concat",
    each(real, real),
    lambda xp, x, y: xp.concat([x, y]),
    lambda xp, x, y: xp.concat([x, y]),
    lambda xp, x, y: xp.concatenate([x, y]),
)
case(
    "stack",
    each(real, real),
    lambda xp, x, y: xp.stack([x, y]),
    lambda xp, x, y: xp.stack([x, y]),
    lambda xp, x, y: xp.stack([x, y]),
)
case(
    "unstack",
    lambda n, rng: [real(n, rng).reshape(4, -1)],
    lambda xp, x: xp.unstack(x)[1],
    lambda xp, x: xp.unbind(x)[1],
    None,
)
case(
    "repeat",
    table,
    lambda xp, x: xp.repeat(x, 2, axis=1),
    lambda xp, x: xp.repeat_interleave(x, 2, 1),
    lambda xp, x: xp.repeat(x, 2, 1),
)
case(
    "tile", table, lambda xp, x: xp.tile(x, (2, 1)), lambda xp, x: xp.tile(x, (2, 1)), lambda xp, x: xp.tile(x, (2, 1))
)
case("tril", table, lambda xp, x: xp.tril(x), lambda xp, x: xp.tril(x), lambda xp, x: xp.tril(x))
case("triu", table, lambda xp, x: xp.triu(x), lambda xp, x: xp.triu(x), lambda xp, x: xp.triu(x))
case("getitem", table, lambda xp, x: x[1:, ::2], lambda xp, x: x[1:, ::2], lambda xp, x: x[1:, ::2])
case("getitem (mask)", each(real), lambda xp, x: x[x > 0], lambda xp, x: x[x > 0], lambda xp, x: x[x > 0])
case("setitem", each(real), lambda xp, x: _assigned(x * 1.0), lambda xp, x: _assigned(x * 1.0), None)
case("diff", each(real), lambda xp, x: xp.diff(x), lambda xp, x: xp.diff(x), lambda xp, x: xp.diff(x))


def _assigned(y: Any) -> Any:
    y[::2] = 0.0
    return y


_INDICES: dict[tuple[str, int], Any] = {}


def indices(xp: Any, x: Any) -> Any:
    """As many random positions of a vector as it has elements, drawn once."""
    size = x.shape[0]
    key = (xp.__name__, size)
    if key not in _INDICES:
        places = np.random.default_rng(1).integers(0, size, size)
        _INDICES[key] = places if xp.__name__ == "autograd.numpy" else xp.asarray(places)
    return _INDICES[key]


case(
    "getitem (integers)",
    each(real),
    lambda xp, x: x[indices(xp, x)],
    lambda xp, x: x[indices(xp, x)],
    lambda xp, x: x[indices(xp, x)],
)
case(
    "take",
    each(real),
    lambda xp, x: xp.take(x, indices(xp, x), axis=0),
    lambda xp, x: xp.index_select(x, 0, indices(xp, x)),
    None,
)
case(
    "take_along_axis",
    each(real),
    lambda xp, x: xp.take_along_axis(x, indices(xp, x), axis=0),
    lambda xp, x: xp.take_along_dim(x, indices(xp, x), 0),
    None,
)

# -- reductions and sorting --------------------------------------------------------------------------------------------

for _op, _torch, _hips in (
    ("sum", "sum", "sum"),
    ("mean", "mean", "mean"),
    ("max", "amax", "max"),
    ("min", "amin", "min"),
    ("prod", "prod", "prod"),
    ("cumulative_sum", "cumsum", "cumsum"),
    ("cumulative_prod", "cumprod", None),
):

    def _reduction(name: str, keyword: str) -> Function:
        return lambda xp, x: getattr(xp, name)(x, **{keyword: 1})

    case(_op, table, _reduction(_op, "axis"), _reduction(_torch, "dim"), _reduction(_hips, "axis") if _hips else None)
case("sum (all)", table, lambda xp, x: xp.sum(x), lambda xp, x: xp.sum(x), lambda xp, x: xp.sum(x))
for _op in ("var", "std"):

    def _spread(name: str) -> tuple[Function, Function, Function]:
        return (
            lambda xp, x: getattr(xp, name)(x, axis=1),
            lambda xp, x: getattr(xp, name)(x, 1, correction=0),
            lambda xp, x: getattr(xp, name)(x, 1),
        )

    case(_op, table, *_spread(_op))
case("sort", table, lambda xp, x: xp.sort(x), lambda xp, x: xp.sort(x).values, lambda xp, x: xp.sort(x))
case("nn.softmax", table, lambda xp, x: xp.nn.functional.softmax(x, 1), lambda xp, x: xp.softmax(x, 1))
case("nn.log_softmax", table, lambda xp, x: xp.nn.functional.log_softmax(x, 1), lambda xp, x: xp.log_softmax(x, 1))

# -- linear algebra ----------------------------------------------------------------------------------------------------

case(
    "matmul",
    square,
    lambda xp, a, b: xp.matmul(a, b),
    lambda xp, a, b: xp.matmul(a, b),
    lambda xp, a, b: xp.matmul(a, b),
)
case(
    "tensordot",
    square,
    lambda xp, a, b: xp.tensordot(a, b, axes=((0,), (1,))),
    lambda xp, a, b: xp.tensordot(a, b, ((0,), (1,))),
    lambda xp, a, b: xp.tensordot(a, b, ((0,), (1,))),
)
case(
    "vecdot",
    square,
    lambda xp, a, b: xp.vecdot(a, b),
    lambda xp, a, b: xp.linalg.vecdot(a, b),
    lambda xp, a, b: xp.sum(a * b, -1),
)
case(
    "linalg.outer",
    lambda n, rng: [real(math.isqrt(n), rng) for _ in range(2)],
    lambda xp, a, b: xp.linalg.outer(a, b),
    lambda xp, a, b: xp.outer(a, b),
    lambda xp, a, b: xp.outer(a, b),
)
case(
    "linalg.cholesky",
    definite,
    lambda xp, a: xp.linalg.cholesky(a),
    lambda xp, a: xp.linalg.cholesky(a),
    lambda xp, a: xp.linalg.cholesky(a),
)
case(
    "linalg.inv",
    matrices,
    lambda xp, a: xp.linalg.inv(a),
    lambda xp, a: xp.linalg.inv(a),
    lambda xp, a: xp.linalg.inv(a),
)
case("linalg.pinv", matrices, lambda xp, a: xp.linalg.pinv(a), lambda xp, a: xp.linalg.pinv(a), None)
case(
    "linalg.det",
    matrices,
    lambda xp, a: xp.linalg.det(a),
    lambda xp, a: xp.linalg.det(a),
    lambda xp, a: xp.linalg.det(a),
)
case(
    "linalg.slogdet",
    matrices,
    lambda xp, a: xp.linalg.slogdet(a)[1],
    lambda xp, a: xp.linalg.slogdet(a)[1],
    lambda xp, a: xp.linalg.slogdet(a)[1],
)
case(
    "linalg.solve",
    system,
    lambda xp, a, b: xp.linalg.solve(a, b),
    lambda xp, a, b: xp.linalg.solve(a, b),
    lambda xp, a, b: xp.linalg.solve(a, b),
)
case("linalg.qr", matrices, lambda xp, a: xp.linalg.qr(a)[1], lambda xp, a: xp.linalg.qr(a)[1], None)
case(
    "linalg.eigh",
    definite,
    lambda xp, a: _first_and_square(*xp.linalg.eigh(a)),
    lambda xp, a: _first_and_square(*xp.linalg.eigh(a)),
    lambda xp, a: _first_and_square(*xp.linalg.eigh(a)),
)
case("linalg.eigvalsh", definite, lambda xp, a: xp.linalg.eigvalsh(a), lambda xp, a: xp.linalg.eigvalsh(a), None)
case(  # each library orders eigenvalues in its own way
    "linalg.eigvals",
    matrices,
    lambda xp, a: xp.sum(xp.abs(xp.linalg.eigvals(a))),
    lambda xp, a: xp.sum(xp.abs(xp.linalg.eigvals(a))),
    None,
)
case(
    "linalg.svd",
    matrices,
    lambda xp, a: _first_and_square(*xp.linalg.svd(a)[1::-1]),
    lambda xp, a: _first_and_square(*xp.linalg.svd(a)[1::-1]),
    lambda xp, a: _first_and_square(*xp.linalg.svd(a)[1::-1]),
)
case("linalg.svdvals", matrices, lambda xp, a: xp.linalg.svdvals(a), lambda xp, a: xp.linalg.svdvals(a), None)
case(
    "linalg.cross",
    lambda n, rng: [real(n - n % 3, rng).reshape(-1, 3) for _ in range(2)],
    lambda xp, a, b: xp.linalg.cross(a, b),
    lambda xp, a, b: xp.linalg.cross(a, b),
    lambda xp, a, b: xp.cross(a, b),
)
case(
    "linalg.diagonal",
    matrices,
    lambda xp, a: xp.linalg.diagonal(a),
    lambda xp, a: xp.linalg.diagonal(a),
    lambda xp, a: xp.diagonal(a, axis1=-2, axis2=-1),
)
case(
    "linalg.trace",
    matrices,
    lambda xp, a: xp.linalg.trace(a),
    lambda xp, a: xp.diagonal(a, dim1=-2, dim2=-1).sum(-1),
    lambda xp, a: xp.trace(a, axis1=-2, axis2=-1),
)
case(
    "linalg.vector_norm",
    table,
    lambda xp, a: xp.linalg.vector_norm(a, axis=1),
    lambda xp, a: xp.linalg.vector_norm(a, dim=1),
    lambda xp, a: xp.linalg.norm(a, axis=1),
)
case(
    "linalg.matrix_norm",
    matrices,
    lambda xp, a: xp.linalg.matrix_norm(a),
    lambda xp, a: xp.linalg.matrix_norm(a),
    lambda xp, a: xp.linalg.norm(a, axis=(1, 2)),
)
case(
    "linalg.matrix_power",
    matrices,
    lambda xp, a: xp.linalg.matrix_power(a, 3),
    lambda xp, a: xp.linalg.matrix_power(a, 3),
    None,
)


def _first_and_square(values: Any, vectors: Any) -> Any:
    """A loss of values and vectors that does not depend on the vectors' signs."""
    return (values[..., None, :] * vectors * vectors).sum()


# -- Fourier transforms ------------------------------------------------------------------------------------------------

for _op in ("fft", "ifft", "rfft", "ihfft"):
    named(f"fft.{_op}", each(real), hips=f"fft.{_op}" if _op in ("fft", "ifft") else None)
for _op in ("irfft", "hfft"):
    named(f"fft.{_op}", lambda n, rng: [real(n // 2 + 1, rng) + 1j * real(n // 2 + 1, rng)], hips=None)
for _op in ("fftn", "ifftn", "rfftn", "fftshift", "ifftshift"):
    named(f"fft.{_op}", table, hips=f"fft.{_op}" if _op in ("fftn", "ifftn") else None)
named("fft.irfftn", lambda n, rng: [table(n // 2, rng)[0] + 1j * table(n // 2, rng)[0]], hips=None)

# -- special functions -------------------------------------------------------------------------------------------------

_HIPS_SPECIAL = ("gammaln", "digamma", "erf", "erfc", "erfinv", "expit", "logit", "i0", "i1")
for _op, _draws, _torch in (
    ("gammaln", (positive,), "special.gammaln"),
    ("digamma", (positive,), "special.digamma"),
    ("erf", (real,), "special.erf"),
    ("erfc", (real,), "special.erfc"),
    ("erfcx", (positive,), "special.erfcx"),
    ("erfinv", (inside,), "special.erfinv"),
    ("ndtr", (real,), "special.ndtr"),
    ("ndtri", (unit,), "special.ndtri"),
    ("log_ndtr", (real,), "special.log_ndtr"),
    ("expit", (real,), "special.expit"),
    ("logit", (unit,), "special.logit"),
    ("entr", (positive,), "special.entr"),
    ("xlogy", (real, positive), "special.xlogy"),
    ("xlog1py", (real, positive), "special.xlog1py"),
    ("sinc", (real,), "special.sinc"),
    ("i0", (real,), "special.i0"),
    ("i0e", (real,), "special.i0e"),
    ("i1", (real,), "special.i1"),
    ("i1e", (real,), "special.i1e"),
):
    named(f"special.{_op}", each(*_draws), _torch, f"scipy.special.{_op}" if _op in _HIPS_SPECIAL else None)
for _op in ("gamma", "j0", "j1", "y0", "y1", "erfcinv"):  # PyTorch has no derivative of these
    named(f"special.{_op}", each(unit if _op == "erfcinv" else above_one), None, f"scipy.special.{_op}")
for _op in ("beta", "betaln"):
    named(f"special.{_op}", each(positive, positive), None, f"scipy.special.{_op}")

# -- losses and layers -------------------------------------------------------------------------------------------------

case(
    "nn.linear", square, lambda xp, x, w: xp.nn.functional.linear(x, w), lambda xp, x, w: xp.nn.functional.linear(x, w)
)
case(
    "nn.layer_norm",
    table,
    lambda xp, x: xp.nn.functional.layer_norm(x, (x.shape[1],)),
    lambda xp, x: xp.nn.functional.layer_norm(x, (x.shape[1],)),
)
case(
    "nn.mse_loss",
    each(real, real),
    lambda xp, x, y: xp.nn.functional.mse_loss(x, y),
    lambda xp, x, y: xp.nn.functional.mse_loss(x, y),
)
case(
    "nn.l1_loss",
    each(real, real),
    lambda xp, x, y: xp.nn.functional.l1_loss(x, y),
    lambda xp, x, y: xp.nn.functional.l1_loss(x, y),
)
case(
    "nn.binary_cross_entropy_with_logits",
    each(real, unit),
    lambda xp, x, y: xp.nn.functional.binary_cross_entropy_with_logits(x, y),
    lambda xp, x, y: xp.nn.functional.binary_cross_entropy_with_logits(x, y),
)
case(
    "nn.binary_cross_entropy",
    each(unit, unit),
    lambda xp, x, y: xp.nn.functional.binary_cross_entropy(x, y),
    lambda xp, x, y: xp.nn.functional.binary_cross_entropy(x, y),
)


def rows(xp: Any, x: Any) -> Any:
    """A class for each row of a matrix."""
    return indices(xp, x) % x.shape[1]


case(
    "nn.cross_entropy",
    table,
    lambda xp, x: xp.nn.functional.cross_entropy(x, rows(xp, x)),
    lambda xp, x: xp.nn.functional.cross_entropy(x, rows(xp, x)),
)
case(
    "nn.nll_loss",
    table,
    lambda xp, x: xp.nn.functional.nll_loss(x, rows(xp, x)),
    lambda xp, x: xp.nn.functional.nll_loss(x, rows(xp, x)),
)

_KERNEL = "NumPy's own function takes longer than PyTorch's, forward and in the derivative"
_PASSES = "made of NumPy's exp or tanh and some passes over memory, where PyTorch has one pass"
_SCIPY = "SciPy's function takes longer than PyTorch's"

#: Why an op is above `SLOW` times PyTorch, by op.
CAUSES: dict[str, str] = {
    **dict.fromkeys(
        [
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atan2",
            "atanh",
            "cos",
            "cosh",
            "exp",
            "expm1",
            "log",
            "log10",
            "log1p",
            "log2",
            "sin",
            "sinh",
            "tan",
            "tanh",
            "hypot",
        ],
        _KERNEL,
    ),
    **dict.fromkeys(["logaddexp", "remainder"], _KERNEL),
    **dict.fromkeys(
        [
            "nn.elu",
            "nn.sigmoid",
            "nn.softplus",
            "nn.silu",
            "nn.gelu",
            "nn.log_sigmoid",
            "nn.softmax",
            "nn.log_softmax",
            "nn.layer_norm",
        ],
        _PASSES,
    ),
    **dict.fromkeys(["nn.binary_cross_entropy", "nn.binary_cross_entropy_with_logits", "nn.cross_entropy"], _PASSES),
    **dict.fromkeys(["nn.relu", "nn.leaky_relu", "clip"], "a mask and a product, where PyTorch has one pass"),
    "nn.nll_loss": "gathers and scatters through index arrays, and checks the classes",
    "prod": "running products from both sides, exact at zeros; PyTorch divides where there are none",
    "cumulative_prod": "ten doublings for a thousand elements, exact at zeros; PyTorch divides where there are none",
    "cumulative_sum": "NumPy's cumsum, and two reversals in the derivative",
    "sort": "the derivative sorts twice more; PyTorch keeps the permutation",
    "setitem": "a copy of the value",
    "expand_dims": "a view either way: the sum of the cotangent is what is timed",
    "unstack": "one array per row in Python",
    "linalg.qr": "several small products per matrix in Python",
    "linalg.cross": "NumPy's cross is written in Python",
    "linalg.diagonal": "the derivative chooses by where over whole matrices",
    "linalg.trace": "as linalg.diagonal",
    "linalg.eigvals": "computes the vectors too, for the derivative",
    "linalg.eigvalsh": "computes the vectors too, for the derivative",
    "fft.irfftn": "NumPy's transform takes longer than PyTorch's",
    "fft.rfftn": "NumPy's transform takes longer than PyTorch's",
    **dict.fromkeys(
        (
            f"special.{n}"
            for n in [
                "digamma",
                "erf",
                "erfc",
                "erfcx",
                "expit",
                "log_ndtr",
                "logit",
                "ndtr",
                "sinc",
                "i0",
                "i0e",
                "i1",
                "i1e",
            ]
        ),
        _SCIPY,
    ),
}

# -- measuring ---------------------------------------------------------------------------------------------------------


def namespaces() -> dict[str, Any]:
    """Import the libraries."""
    import autograd.numpy
    import autograd.scipy.special
    import torch

    import agrad

    torch.set_num_threads(1)
    autograd.numpy.scipy = autograd.scipy  # one namespace, as the others have
    return {"agrad": agrad, "torch": torch, "HIPS": autograd.numpy}


Step = Callable[[], list[Any]]


def step_of(library: str, xp: Any, function: Function, operands: Sequence[np.ndarray]) -> Step:
    """Return the function that runs an op forward and backward once and returns its gradients."""
    if library == "HIPS":
        import autograd

        def hips() -> list[Any]:
            vjp, y = autograd.make_vjp(lambda xs: function(xp, *xs))(tuple(operands))
            return list(vjp(cotangent(y)))

        made: dict[Any, Any] = {}

        def cotangent(y: Any) -> Any:
            if "g" not in made:
                made["g"] = _waves(np.asarray(y))
            return made["g"]

        return hips
    leaves = [xp.tensor(a, requires_grad=True) for a in operands]
    g = xp.asarray(_waves(to_numpy(function(xp, *leaves).detach())))

    def step() -> list[Any]:
        function(xp, *leaves).backward(g)
        found = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return found

    return step


def to_numpy(g: Any) -> np.ndarray:
    """Return a gradient as a NumPy array."""
    return np.asarray(g.resolve_conj() if hasattr(g, "resolve_conj") else g)


def _waves(y: np.ndarray) -> np.ndarray:
    """A cotangent without symmetry."""
    return (np.cos(np.arange(y.size, dtype=y.real.dtype)).reshape(y.shape) + 2).astype(y.dtype)


def measure(chosen: Case, size: int, dtype: str, rounds: int, libraries: dict[str, Any]) -> dict[str, list[float]]:
    """Return the seconds of each library, round by round; raise if gradients differ."""
    operands = chosen.operands(size, np.random.default_rng(0))
    operands = [
        a.astype({"float32": {"c": "complex64"}}.get(dtype, {"c": "complex128"}).get(a.dtype.kind, dtype))
        for a in operands
    ]
    functions = {"agrad": chosen.agrad, "torch": chosen.torch, "HIPS": chosen.hips}
    steps: dict[str, Step] = {}
    results = {}
    for name, xp in libraries.items():
        function = functions[name]
        if function is None:
            continue
        try:
            step = step_of(name, xp, function, operands)
            results[name] = [None if g is None else to_numpy(g) for g in step()]
        except (NotImplementedError, TypeError):
            if name != "HIPS":  # which lacks some derivatives, or some arguments of its functions
                raise
        else:
            steps[name] = step
    peer = next((name for name in ("torch", "HIPS") if name in results), None)
    if peer is not None:
        for mine, theirs in zip(results["agrad"], results[peer], strict=True):
            if mine is None or theirs is None:
                continue
            tolerance = (1e-3 if dtype == "float32" else 1e-7) * (np.max(np.abs(theirs)) + 1e-30)
            if not np.allclose(mine, theirs, rtol=0, atol=tolerance):
                raise ArithmeticError(f"gradients differ from those of {peer}")
    clock = time.process_time
    repeats = {}
    for name, step in steps.items():
        start = time.perf_counter()
        step()
        repeats[name] = max(1, int(SAMPLE / max(time.perf_counter() - start, 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            step = steps[name]
            step()
            start = clock()
            for _ in range(repeats[name]):
                step()
            found[name].append((clock() - start) / repeats[name])
    return found


def ratio(times: dict[str, list[float]], peer: str) -> float | None:
    """Return the median over the rounds of the ratio of agrad's time to another's."""
    if peer not in times:
        return None
    return statistics.median(a / b for a, b in zip(times["agrad"], times[peer], strict=True))


def cell(value: float | None) -> str:
    """Write a ratio."""
    return "-" if value is None else f"{value:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and list slow ops; the exit status says whether a gradient was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--only", action="append", metavar="NAME", help="an op, or the beginning of some names")
    parser.add_argument("--size", action="append", type=int, help="elements (default: 1000 and 1000000)")
    parser.add_argument("--dtype", default="float64", choices=("float32", "float64"))
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args(argv)
    sizes = arguments.size or [1000, 10**6]
    libraries = namespaces()
    ag, torch = libraries["agrad"], libraries["torch"]
    np.seterr(all="ignore")
    print(
        f"agrad {ag.__version__}, torch {torch.__version__}, NumPy {np.__version__}; {arguments.dtype}, 1 thread, CPU time"
    )
    print("medians of paired ratios: agrad's time to the other's, forward and backward\n")
    heads = [f"{peer} {size:,}" for size in sizes for peer in ("torch", "HIPS")]
    print(f"{'op':36}" + "".join(f"{head:>18}" for head in heads))
    slow: list[str] = []
    wrong = 0
    gc.collect()
    gc.freeze()
    for chosen in CASES:
        if arguments.only and not any(chosen.op.startswith(name) for name in arguments.only):
            continue
        cells = []
        for size in sizes:
            try:
                times = measure(chosen, size, arguments.dtype, arguments.rounds, libraries)
            except Exception as error:
                wrong += 1
                cells += [f"WRONG {type(error).__name__}", ""]
                slow.append(f"{chosen.op}, {size:,}: {error}")
                continue
            to_torch = ratio(times, "torch")
            cells += [cell(to_torch), cell(ratio(times, "HIPS"))]
            if to_torch is not None and to_torch > SLOW:
                slow.append(f"{chosen.op}, {size:,}: {to_torch:.2f}  {CAUSES.get(chosen.op, '(cause not known)')}")
        print(f"{chosen.op:36}" + "".join(f"{c:>18}" for c in cells), flush=True)
    print(f"\nabove {SLOW} of PyTorch:" if slow else f"\nno op above {SLOW} of PyTorch")
    print("\n".join(f"  {line}" for line in slow))
    timed = {chosen.op.split(" ")[0] for chosen in CASES}
    missing = [name for name, rule in ag.rules.items() if rule.kind != "none" and name not in timed]
    print("\nno row of their own (layers: see layers.py; the rest have no peer with a derivative, or serve others):")
    print(textwrap.fill(", ".join(missing), 118, initial_indent="  ", subsequent_indent="  "))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
