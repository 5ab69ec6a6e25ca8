"""Ops for signals: convolutions over all axes, and filters of finite and infinite response along the last one.

`agrad.scipy.signal` has them under SciPy's signatures.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from agrad.core.cotangents import promote
from agrad.core.declare import custom, multilinear
from agrad.ops.batch_rules import BatchedCall
from agrad.ops.matrices import conj

if TYPE_CHECKING:
    from agrad.core.tensor import Tensor

__all__ = ["all_pole", "convolve_full", "correlate_valid", "fir"]


# -- convolution -------------------------------------------------------------------------------------------------------


def _valid_kernel(xp: Any, x: Any, weights: Any, /, *, lead: int = 0) -> Any:
    """Add up shifted parts, one per weight, or build few sums of windows; the leading axes correspond element by element."""
    x, weights = promote(xp, x, weights)
    shape = weights.shape[lead:]
    sizes = [n - m + 1 for n, m in zip(x.shape[lead:], shape, strict=True)]
    if math.prod(sizes) < math.prod(shape):
        axes = tuple(range(lead, x.ndim))
        windows = (
            x[(..., *(slice(i, i + m) for i, m in zip(place, shape, strict=True)))]
            for place in itertools.product(*map(range, sizes))
        )
        rows = xp.stack([xp.sum(window * weights, axis=axes) for window in windows], axis=-1)
        return xp.reshape(rows, (*rows.shape[:-1], *sizes))
    total: Any = 0
    for place in itertools.product(*map(range, shape)):
        part = x[(..., *(slice(i, i + n) for i, n in zip(place, sizes, strict=True)))]
        weight = weights[(..., *(slice(i, i + 1) for i in place))] if lead else weights[place]
        total = total + part * weight
    return total


def _full_kernel(xp: Any, x1: Any, x2: Any, /, *, lead: int = 0) -> Any:
    x1, x2 = promote(xp, x1, x2)
    if math.prod(x1.shape[lead:]) < math.prod(x2.shape[lead:]):
        x1, x2 = x2, x1
    for axis, n in list(enumerate(x2.shape))[lead:]:
        none = xp.zeros_like(x1[(*(slice(None),) * axis, slice(0, 1), ...)])
        if n > 1:
            ends = xp.concat([none] * (n - 1), axis=axis)
            x1 = xp.concat([ends, x1, ends], axis=axis)
    return _valid_kernel(xp, x1, xp.flip(x2, axis=tuple(range(lead, x2.ndim))), lead=lead)


def _convolve_batch(call: BatchedCall, x1: Any, x2: Any, /) -> Any:
    """Turn the batch into an axis of the signals, of length 1 for operands that are not batched; two batches become a sum of shifts."""
    if call.has(x1) and call.has(x2):
        return _full_kernel(call.xp, call.data(x1), call.data(x2), lead=1)
    return call.kernel(*(x.data if call.has(x) else call.xp.expand_dims(call.array(x), axis=0) for x in (x1, x2)))


def _correlate_batch(call: BatchedCall, x: Any, weights: Any, /) -> Any:
    if call.has(weights):
        return _valid_kernel(call.xp, call.data(x), call.data(weights), lead=1)
    return call.kernel(x.data, call.xp.expand_dims(call.array(weights), axis=0))


@multilinear(
    name="scipy.convolve_full",
    x1=lambda xp, g, x2: xp.scipy.correlate_valid(g, conj(xp, x2)),
    x2=lambda xp, g, x1: xp.scipy.correlate_valid(g, conj(xp, x1)),
    kernel=_full_kernel,
    batch=_convolve_batch,
    memory="fresh",
)
def convolve_full(x1: Any, x2: Any, /) -> Tensor:
    """The convolution of two arrays of as many axes: ``y[k] = sum over i + j = k of x1[i] x2[j]``. Neither is empty."""


@multilinear(
    name="scipy.correlate_valid",
    x=lambda xp, g, weights: xp.scipy.convolve_full(g, conj(xp, weights)),
    weights=lambda xp, g, x: xp.scipy.correlate_valid(conj(xp, x), g),
    kernel=_valid_kernel,
    batch=_correlate_batch,
    memory="fresh",
)
def correlate_valid(x: Any, weights: Any, /) -> Tensor:
    """Weighted sums of all windows: ``y[k] = sum over j of x[k + j] weights[j]``. `weights` is not longer along any axis."""


# -- filters -----------------------------------------------------------------------------------------------------------


def _later(xp: Any, x: Any, k: int) -> Any:
    """Return signals shifted back by `k` elements, with zeros in front."""
    if not k:
        return x
    none = xp.zeros_like(x[..., :k])
    return xp.concat([none, x[..., : x.shape[-1] - k]], axis=-1) if k < x.shape[-1] else none


def _lagged(xp: Any, w: Any, y: Any, lags: range) -> Any:
    """Return for each lag the sum of the products with an earlier signal, conjugated."""
    w, y = promote(xp, w, conj(xp, y))
    size = w.shape[-1]
    return xp.stack([xp.sum(w[..., min(k, size) :] * y[..., : max(size - k, 0)]) for k in lags])


def _fir_kernel(xp: Any, b: Any, x: Any, /) -> Any:
    b, x = promote(xp, b, x)
    total = x * b[..., :1]
    for k in range(1, b.shape[-1]):
        total = total + _later(xp, x, k) * b[..., k : k + 1]
    return total


def _all_pole_kernel(xp: Any, a: Any, x: Any, /) -> Any:
    a, x = promote(xp, a, x)
    found: list[Any] = []
    for n in range(x.shape[-1]):
        y = x[..., n]
        for k in range(1, min(n, a.shape[-1]) + 1):
            y = y - a[..., k - 1] * found[n - k]
        found.append(y)
    return xp.stack(found, axis=-1) if found else x


def _backwards(xp: Any, op: Any, coefficients: Any, g: Any) -> Any:
    """Run the adjoint of a filter: the filter of conjugated coefficients, from the end."""
    return xp.flip(op(*promote(xp, conj(xp, coefficients), xp.flip(g, axis=-1))), axis=-1)


def _filtered_batch(call: BatchedCall, coefficients: Any, x: Any, /) -> Any:
    """Filter all examples by one filter; each by its own, in the standard's functions."""
    if not call.has(coefficients):
        return call.kernel(coefficients, call.data(x))
    data, count = call.data(coefficients), coefficients.shape[0]
    kernel = _fir_kernel if call.name == "scipy.fir" else _all_pole_kernel
    return kernel(call.xp, call.xp.reshape(data, (call.size, *(1,) * (x.ndim - 1), count)), call.data(x))


@multilinear(
    name="scipy.fir",
    b=lambda xp, g, x, b_spec: _lagged(xp, g, x, range(b_spec.shape[0])),
    x=lambda xp, g, b: _backwards(xp, xp.scipy.fir, b, g),
    kernel=_fir_kernel,
    batch=_filtered_batch,
    memory="fresh",
)
def fir(b: Any, x: Any, /) -> Tensor:
    """The weighted sums ``y[n] = sum over k of b[k] x[n - k]`` along the last axis, zeros before the first element."""


def _all_pole_by_coefficients(xp: Any, g: Any, ans: Any, a: Any) -> Any:
    back = _backwards(xp, xp.scipy.all_pole, a, g)
    return -_lagged(xp, back, ans, range(1, a.shape[0] + 1))


def _all_pole_jvp(xp: Any, t_a: Any, t_x: Any, ans: Any, a: Any) -> Any:
    change = t_x
    if t_a is not None:
        zero = xp.zeros_like(t_a[:1])
        moved = xp.scipy.fir(*promote(xp, xp.concat([zero, t_a]), ans))
        change = -moved if change is None else change - moved
    return xp.scipy.all_pole(*promote(xp, a, change))


@custom(
    name="scipy.all_pole",
    vjp={"a": _all_pole_by_coefficients, "x": lambda xp, g, a: _backwards(xp, xp.scipy.all_pole, a, g)},
    jvp=_all_pole_jvp,
    kernel=_all_pole_kernel,
    source="Oppenheim and Schafer, Discrete-time signal processing, 2010, section 6.2: the adjoint runs backwards in time",
    batch=_filtered_batch,
    memory="fresh",
)
def all_pole(a: Any, x: Any, /) -> Tensor:
    """The recursion ``y[n] = x[n] - sum over k of a[k - 1] y[n - k]`` along the last axis; `a` is not empty."""
