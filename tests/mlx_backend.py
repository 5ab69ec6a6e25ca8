"""MLX's arrays as a backend of the tests, on its CPU wheels; on Metal nothing of this has been tried.

What stands here is what MLX does otherwise than the standard: mostly names and keywords. It is used where MLX is installed.
MLX computes when a value is read, by itself, so this is a backend like one in memory. Of float64 most functions have the
digits of float32, and Metal has none at all, so agrad is told that there is none.
"""

from __future__ import annotations

import importlib.metadata
import math
import random
from types import SimpleNamespace

import mlx.core as mx
import numpy as np

import agrad as ag
from agrad.core.kernels import check_bounds, key_parts
from agrad.plugin.hookspecs import hookimpl

# -- the standard's names and keywords ------------------------------------------------------------------------------------


def made(function):
    """Return a creation function that takes ``device=``, of which there is one."""
    return lambda *args, device=None, **parameters: function(*args, **parameters)


def axes_of(x, axis):
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(a % x.ndim for a in axes)


def large(dtype):
    """Return the dtype in which integers of a dtype are summed."""
    if dtype == mx.bool_ or mx.issubdtype(dtype, mx.signedinteger):
        return mx.int64
    return mx.uint64 if mx.issubdtype(dtype, mx.unsignedinteger) else dtype


def total(function):
    """Return a sum or product in a dtype that holds it."""
    reduce = of_some(function, int(function is mx.prod))
    return lambda x, /, *, axis=None, dtype=None, keepdims=False: reduce(
        x.astype(dtype or large(x.dtype)), axis=axis, keepdims=keepdims
    )


def of_some(function, empty):
    """Return a reduction that gives what it is of no elements without MLX, whose at times never end (0.32.4)."""

    def reduced(x, /, *, axis=None, keepdims=False):
        if x.size:
            return function(x, axis=axis, keepdims=keepdims)
        axes = axes_of(x, axis)
        shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes]
        return mx.full(shape, empty, mx.bool_ if type(empty) is bool else x.dtype)

    return reduced


mean = of_some(mx.mean, math.nan)


def running(function):
    """Return a cumulative sum or product that can begin with that of no elements."""

    def accumulated(x, /, *, axis=None, dtype=None, include_initial=False):
        axis = (axis or 0) % x.ndim
        x = x.astype(dtype or large(x.dtype))
        if include_initial:  # of no elements the sum is 0, the product 1
            shape = [1 if a == axis else n for a, n in enumerate(x.shape)]
            start = mx.full(shape, int(function is mx.cumprod), x.dtype)
            return mx.concat([start, function(x, axis)], axis) if x.shape[axis] else start
        return function(x, axis) if x.size else x

    return accumulated


def spread(x, /, *, axis=None, correction=0.0, keepdims=False):
    axes = axes_of(x, axis)
    squares = mx.square(mx.abs(x - mean(x, axis=axes, keepdims=True)))
    squares = mx.real(squares) if squares.dtype == mx.complex64 else squares
    count = math.prod(x.shape[a] for a in axes) - correction
    return total(mx.sum)(squares, axis=axes, keepdims=keepdims) / mx.array(count, squares.dtype)


def ordered(function):
    """Return a sort or its places: stable ones, also falling; NaN last."""

    def sorted_(x, /, *, axis=-1, descending=False, stable=True):
        order = argsort(x, axis, descending)
        return order if function == "argsort" else mx.take_along_axis(x, order, axis)

    return sorted_


def argsort(x, axis, descending):
    if not x.ndim or not x.size:
        return mx.zeros(x.shape, mx.int64)
    if not descending:
        return mx.argsort(x, axis).astype(mx.int64)
    turned = mx.argsort(mx.flip(x, axis), axis).astype(mx.int64)
    return x.shape[axis] - 1 - mx.flip(turned, axis)


def matmul(x, y, /):
    if mx.issubdtype(mx.result_type(x, y), mx.inexact):
        return mx.matmul(x, y)
    left = x[None] if x.ndim == 1 else x  # MLX multiplies no matrices of integers
    right = y[:, None] if y.ndim == 1 else y
    product = total(mx.sum)(left[..., None] * right[..., None, :, :], axis=-2, dtype=mx.result_type(x, y))
    product = product[..., 0, :] if x.ndim == 1 else product
    return product[..., 0] if y.ndim == 1 else product


def expm1(x, /):
    if x.dtype != mx.complex64:
        return mx.expm1(x)
    a, b = mx.real(x), mx.imag(x)
    return mx.expm1(a) * mx.cos(b) - 2 * mx.sin(b / 2) ** 2 + mx.exp(a) * mx.sin(b) * mx.array(1j)


def hypot(x, y, /):
    large = mx.maximum(mx.abs(x), mx.abs(y))
    safe = mx.where((large == 0) | mx.isinf(large), mx.ones_like(large), large)
    return mx.where(
        mx.isinf(x) | mx.isinf(y), mx.array(math.inf, safe.dtype), safe * mx.sqrt((x / safe) ** 2 + (y / safe) ** 2)
    )


def norm(x, /, *, axis=None, keepdims=False, ord=2):
    axes = axes_of(x, axis)
    x = mx.abs(x)
    if ord in (math.inf, -math.inf):
        return (mx.max if ord > 0 else mx.min)(x, axis=axes, keepdims=keepdims)
    if ord == 0:
        return total(mx.sum)((x != 0).astype(x.dtype), axis=axes, keepdims=keepdims)
    return total(mx.sum)(x**ord, axis=axes, keepdims=keepdims) ** (1 / ord)


def transform(function):
    """Return a Fourier transform whose parameters come by keyword."""

    def transformed(x, /, *, n=None, axis=-1, norm="backward"):
        return function(x, n=n, axis=axis, norm=norm)

    return transformed


OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    return mx.fft.irfft(mx.conj(x), n=n, axis=axis, norm=OPPOSITE[norm])


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    return mx.conj(mx.fft.rfft(x, n=n, axis=axis, norm=OPPOSITE[norm]))


def concat(arrays, /, *, axis=0):
    dtype = mx.result_type(*arrays)
    arrays = [a.astype(dtype) for a in arrays]
    return mx.concat([a.reshape(-1) for a in arrays], 0) if axis is None else mx.concat(arrays, axis)


def searchsorted(x, values, /, *, side="left", sorter=None):
    x = x if sorter is None else mx.take(x, sorter)
    return mx.searchsorted(x, values, side=side).astype(mx.int64)


def place(function):
    """Return a search for a place, counted in int64."""
    return lambda x, /, *, axis=None, keepdims=False: function(x, axis=axis, keepdims=keepdims).astype(mx.int64)


class Namespace(SimpleNamespace):
    """The standard's functions as MLX has them, and those of `OTHERWISE` under its names and keywords."""

    __name__ = "mlx"

    def __getattr__(self, name):
        return getattr(mx, name)


def full(shape, value, *, dtype=None, device=None):
    dtype = dtype or {bool: mx.bool_, int: mx.int64, float: mx.float32, complex: mx.complex64}[type(value)]
    return mx.full(shape, value, dtype)


def eye(n, m=None, /, *, k=0, dtype=mx.float32, device=None):
    return mx.eye(n, m, k, dtype or mx.float32)


def iinfo(dtype, /):
    found = mx.iinfo(dtype)
    bits = (int(found.max) - int(found.min)).bit_length()
    return SimpleNamespace(bits=bits, max=found.max, min=found.min, dtype=found.dtype)


def clip(x, /, min=None, max=None):
    low = x if min is None else mx.maximum(x, min)
    return low if max is None else mx.minimum(low, max)


def reshape(x, /, shape, *, copy=None):
    return mx.reshape(x, shape)


def repeat(x, repeats, /, *, axis=None):
    if isinstance(repeats, int):
        return mx.repeat(x, repeats, axis)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    places = np.repeat(np.arange(x.shape[axis]), np.array(repeats))  # the shape depends on values
    return mx.take(x, mx.array(places), axis)


def moveaxis(x, source, destination, /):
    source, destination = (axes_of(x, axis) for axis in (source, destination))
    order = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source, strict=True)):
        order.insert(to, a)
    return mx.transpose(x, order)


def vecdot(x, y, /, *, axis=-1):
    x = mx.conj(x) if x.dtype == mx.complex64 else x
    return total(mx.sum)(x * y, axis=axis, dtype=mx.result_type(x, y))


OTHERWISE = {
    "bool": mx.bool_,
    **{name: made(getattr(mx, name)) for name in ("asarray", "arange", "empty", "ones", "zeros", "linspace")},
    **{name: made(getattr(mx, name)) for name in ("empty_like", "full_like", "ones_like", "zeros_like")},
    "full": full,
    "astype": lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype),
    "iinfo": iinfo,
    "sign": lambda x, /: mx.where(mx.isnan(x), x, mx.sign(x)),
    "eye": eye,
    "clip": clip,
    "reshape": reshape,
    "repeat": repeat,
    "moveaxis": moveaxis,
    "vecdot": vecdot,
    "concat": concat,
    "sum": total(mx.sum),
    "prod": total(mx.prod),
    "mean": mean,
    "all": of_some(mx.all, True),
    "any": of_some(mx.any, False),
    "cumulative_sum": running(mx.cumsum),
    "cumulative_prod": running(mx.cumprod),
    "var": spread,
    "std": lambda x, /, **p: mx.sqrt(spread(x, **p)),
    "sort": ordered("sort"),
    "argsort": ordered("argsort"),
    "searchsorted": searchsorted,
    "argmax": place(mx.argmax),
    "argmin": place(mx.argmin),
    "matmul": matmul,
    "expm1": expm1,
    "hypot": hypot,
    "signbit": lambda x, /: (x < 0) | ((x == 0) & (1 / x < 0)),
    "copysign": lambda x, y, /: mx.where((y < 0) | ((y == 0) & (1 / y < 0)), -mx.abs(x), mx.abs(x)),
    "isin": lambda x, y, /: mx.any(x[..., None] == y.reshape(-1), axis=-1),
}


def pinv(x, /, *, rtol=None):
    u, s, v = thin(x, *mx.linalg.svd(x))
    rtol = max(x.shape[-2:]) * mx.finfo(x.dtype).eps if rtol is None else rtol
    kept = s > rtol * mx.max(s, axis=-1, keepdims=True)
    return mx.swapaxes(mx.where(kept, 1 / s, 0)[..., :, None] * v, -1, -2) @ mx.swapaxes(u, -1, -2)


def solve(x, y, /):
    if y.ndim == 1:
        return solve(x, y[:, None])[..., 0]
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return mx.linalg.solve(*(mx.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (x, y)))


def matrix_power(x, n, /):
    made = mx.broadcast_to(mx.eye(x.shape[-1], dtype=x.dtype), x.shape)
    x = mx.linalg.inv(x) if n < 0 else x
    for _ in range(abs(n)):
        made = made @ x
    return made


def qr(x, /, *, mode="reduced"):
    if mode != "reduced" and x.shape[-2] > x.shape[-1]:
        raise ag.UnsupportedOp("linalg.qr", "mlx", "MLX has no complete decomposition of a tall matrix")
    return mx.linalg.qr(x)


def matrix_rank(x, /, *, rtol=None):
    s = mx.linalg.svd(x, compute_uv=False)
    rtol = max(x.shape[-2:]) * mx.finfo(x.dtype).eps if rtol is None else rtol
    return mx.sum((s > rtol * mx.max(s, axis=-1, keepdims=True)).astype(mx.int64), axis=-1)


def thin(x, u, s, v):
    """Leave out the vectors of a full decomposition that belong to no singular value."""
    k = min(x.shape[-2:])
    return u[..., :, :k], s, v[..., :k, :]


LINALG = {
    "matmul": matmul,
    "matrix_transpose": mx.matrix_transpose,
    "tensordot": mx.tensordot,
    "vecdot": vecdot,
    "solve": solve,
    "outer": mx.outer,
    "pinv": pinv,
    "matrix_power": matrix_power,
    "qr": qr,
    "matrix_rank": matrix_rank,
    "vector_norm": norm,
    "svdvals": lambda x, /: mx.linalg.svd(x, compute_uv=False),
    "svd": lambda x, /, *, full_matrices=True: thin(x, *mx.linalg.svd(x)) if not full_matrices else mx.linalg.svd(x),
    "diagonal": lambda x, /, *, offset=0: mx.diagonal(x, offset, -2, -1),
    "trace": lambda x, /, *, offset=0, dtype=None: total(mx.sum)(mx.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype),
}

FFT = {
    **{name: transform(getattr(mx.fft, name)) for name in ("fft", "ifft", "rfft", "irfft")},
    "hfft": hfft,
    "ihfft": ihfft,
}


class Chapter(SimpleNamespace):
    """A part of the namespace: functions of ours, and else the library's."""

    def __init__(self, library, **otherwise):
        super().__init__(library=library, **otherwise)

    def __getattr__(self, name):
        return getattr(self.library, name)


xp = Namespace(**OTHERWISE, linalg=Chapter(mx.linalg, **LINALG), fft=Chapter(mx.fft, **FFT))


# -- the backend ----------------------------------------------------------------------------------------------------------


class MlxBackend(ag.Backend):
    """MLX's arrays on the CPU."""

    name = "mlx"
    capabilities = {
        "float16": True,
        "bfloat16": True,
        "float64": "MLX's functions compute it in float32 on the CPU, and Metal has none",
        "complex linalg": "MLX solves and decomposes real matrices only",
        "boolean indexing": "MLX has none as yet",
        "data-dependent shapes": "MLX has no such functions",
        "threads": "an array of MLX can be computed by the thread alone that made it",
    }
    lacks = {"nextafter": "MLX has no such function"}

    def namespace(self):
        return xp

    def availability(self):
        return True, importlib.metadata.version("mlx")

    def kind(self, dtype):
        kinds = {"bool": "bool", "int": "int", "uint": "int", "float": "float", "bfloat": "float", "complex": "complex"}
        return kinds[self.dtype_name(dtype).rstrip("0123456789")]

    def from_host(self, buffer, device):
        host = np.array(buffer, order="C")  # a copy: MLX may take the memory
        return mx.array(host, dtype=self.dtype(host.dtype))

    def to_host(self, array):
        return np.array(array)

    def kernel(self, op):
        return getitem if op == "getitem" else None

    def setitem(self, array, key, value):
        check_bounds(array.shape, key)
        made = mx.array(array)
        made[key] = value
        return made

    def scatter_add(self, spec, key, values):
        zeros = mx.zeros(spec.shape, values.dtype)
        if not spec.shape:  # where every place is the one
            return total(mx.sum)(values)
        return zeros.at[key].add(values) if values.size else zeros

    def item(self, array):
        return array.item()

    def tolist(self, array):
        return array.tolist()

    def random(self, kind, shape, key, *, dtype, device, **p):
        source = source_of(key) if isinstance(key, tuple) else key
        if kind == "permutation":
            return mx.random.permutation(p["n"], key=source).astype(dtype)
        if kind == "integers":
            return mx.random.randint(p["low"], p["high"], shape, key=source).astype(dtype)
        draw = mx.random.uniform if kind == "uniform" else mx.random.normal
        return draw(shape=shape, key=source).astype(dtype)


def source_of(key):
    """Return MLX's own key for one of agrad's."""
    return mx.random.key(random.Random(f"{key[0]}:{key[1]}").getrandbits(63))


def getitem(x, key, /):
    check_bounds(x.shape, key)
    if sum(part is not None and part is not ... for part in key_parts(key)) > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    return x[key]


class MlxPlugin:
    backend = MlxBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "mlx" if array_type.__module__ == "mlx.core" and array_type.__name__ == "array" else None


class CompilingBackend(MlxBackend):
    """The same, whose programs go through ``mx.compile``; on the CPU it calls a C++ compiler for what it joins."""

    def compile(self, program, *, exact=False, **options):
        if exact:
            return None
        run = mx.compile(program.function(self))
        return lambda *values: run(*(source_of(v) if isinstance(v, tuple) else v for v in values))


class CompilingPlugin(MlxPlugin):
    backend = CompilingBackend()

    @hookimpl
    def agrad_harness(self, backend):
        return "agrad.testing:InexactHarness" if backend == "mlx" else None
