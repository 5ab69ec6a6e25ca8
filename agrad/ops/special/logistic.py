"""The logistic function and related ones, and the sums of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from agrad.core.declare import custom, elementwise
from agrad.core.facts import Facts
from agrad.core.tensor import Tensor
from agrad.ops import nn
from agrad.ops.creation import asarray
from agrad.ops.elementwise import abs, exp, isfinite, log, real, sign
from agrad.ops.manipulation import permute_dims, reshape
from agrad.ops.searching import where
from agrad.ops.statistical import max, sum

__all__ = ["expit", "log_expit", "log_softmax", "logit", "logsumexp", "softmax", "softplus"]


@elementwise(
    name="special.expit",
    x=lambda xp, ans, x: ans * xp.special.expit(-x),
    kernel=lambda xp, x: xp.nn.sigmoid(x),
    memory="fresh",
)
def expit(x: Any, /) -> Tensor:
    """Logistic function.

    Returns: ``1 / (1 + exp(-x))``.
    The derivative is ``expit(x) * expit(-x)``, which keeps its digits in both tails.

    >>> ag.special.expit(ag.asarray([0.0, -100.0]))
    tensor([5.0000e-01, 3.7201e-44])
    """


@elementwise(
    name="special.logit", x=lambda x: 1 / (x * (1 - x)), kernel=lambda xp, x: xp.log(x / (1 - x)), memory="fresh"
)
def logit(x: Any, /) -> Tensor:
    """Inverse of `expit`.

    x: From 0 to 1.
    Returns: ``log(x / (1 - x))``.
    The derivative is ``1 / (x * (1 - x))``, infinite at 0 and 1.

    >>> ag.special.logit(ag.asarray([0.5, 1e-10]))
    tensor([  0.0000, -23.0259])
    """


@elementwise(
    name="special.log_expit",
    x=lambda xp, x: xp.special.expit(-x),
    kernel=lambda xp, x: xp.nn.log_sigmoid(x),
    memory="fresh",
)
def log_expit(x: Any, /) -> Tensor:
    """Logarithm of `expit`.

    Returns: ``-log(1 + exp(-x))``, without overflow.
    The derivative is ``expit(-x)``.

    >>> ag.special.log_expit(ag.asarray([0.0, -1e3]))
    tensor([-6.9315e-01, -1.0000e+03])
    """


def _logsumexp_kernel(xp: Any, a: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest terms are kept out of the sum, so that the contributions of the others are not rounded away."""
    if 0 in a.shape:  # the logarithm of an empty sum
        return xp.sum(a, axis=axis, keepdims=keepdims) - math.inf
    top = xp.max(a, axis=axis, keepdims=True)
    shift = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    tops = a == top
    e = xp.exp(xp.where(tops, xp.zeros_like(a), a - shift))
    count = xp.sum(xp.astype(tops, a.dtype), axis=axis, keepdims=True)
    rest = xp.sum(xp.where(tops, xp.zeros_like(e), e), axis=axis, keepdims=True)
    safe = xp.where(count > 0, count, xp.ones_like(count))  # there is no largest if one is NaN
    found = xp.log1p(rest / safe) + xp.log(safe) + top
    if keepdims:
        return found
    axes = range(a.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return xp.squeeze(found, axis=tuple(i % a.ndim for i in axes)) if a.ndim else found


def _wide(xp: Any, value: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    """Restore the axes that were summed."""
    if keepdims or not a.ndim:
        return value
    if isinstance(axis, int):
        place = axis % a.ndim
        return xp.reshape(value, (*a.shape[:place], 1, *a.shape[place + 1 :]))
    places = {i % a.ndim for i in (range(a.ndim) if axis is None else axis)}
    return xp.reshape(value, tuple(1 if i in places else n for i, n in enumerate(a.shape)))


def _shares_kernel(xp: Any, a: Any, /, *, axis: Any = None) -> Any:
    if 0 in a.shape:
        return xp.zeros_like(a)
    top = xp.max(a, axis=axis, keepdims=True)
    infinite = xp.isinf(top)
    e = xp.exp(xp.where(infinite, xp.zeros_like(a), a - xp.where(infinite, xp.zeros_like(top), top)))
    tops = xp.astype(infinite & (a == top) & (a > 0), a.dtype)
    count = xp.sum(tops, axis=axis, keepdims=True)
    shared = tops / xp.where(count > 0, count, xp.ones_like(count))
    return xp.where(infinite, shared, e / xp.sum(e, axis=axis, keepdims=True))


def _shares_product(xp: Any, v: Any, ans: Any, axis: Any) -> Any:
    """The (symmetric) Jacobian of the shares times a vector."""
    return ans * (v - xp.sum(ans * v, axis=axis, keepdims=True))


@custom(
    name="special.logsumexp_shares",
    vjp={"a": lambda xp, g, ans, axis: _shares_product(xp, g, ans, axis)},
    jvp=lambda xp, t_a, ans, axis: _shares_product(xp, t_a, ans, axis),
    kernel=_shares_kernel,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",)),
)
def logsumexp_shares(a: Any, /, *, axis: Any = None) -> Tensor:
    """The exponentials over their sum; 0 for -inf only, and infinite elements share everything."""


@custom(
    name="special.logsumexp_over",
    vjp={
        "a": lambda xp, g, a, axis, keepdims: (
            _wide(xp, g, a, axis, keepdims) * xp.special.logsumexp_shares(a, axis=axis)
        )
    },
    jvp=lambda xp, t_a, a, axis, keepdims: xp.sum(
        t_a * xp.special.logsumexp_shares(a, axis=axis), axis=axis, keepdims=keepdims
    ),
    kernel=_logsumexp_kernel,
    memory="fresh",
    facts=Facts(needs=("zero-size reductions",), sparsity="reduces"),
)
def logsumexp_over(a: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials of real numbers."""


def logsumexp(
    a: Any, axis: int | tuple[int, ...] | None = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Logarithm of a sum of exponentials, without overflow.

    a: Real or complex.
    axis : int or tuple of int, optional
        The axes to sum over. Default: all axes.
    b : Tensor, optional
        Factors of the exponentials, of either sign.
    keepdims : bool, optional
        Keep the summed axes with length 1.
    return_sign : bool, optional
        Return the sign of the sum in addition to the logarithm of its magnitude.
    Returns : Tensor or tuple of Tensor
        ``log(sum(b * exp(a)))``; NaN where that sum is negative, unless `return_sign`.
    The gradient is `softmax`. If all elements are -inf it is 0; for an infinite sum, the infinite elements get it.

    >>> ag.special.logsumexp(ag.asarray([1000.0, 1000.0]))
    tensor(1000.6931)
    >>> ag.special.logsumexp(ag.asarray([0.0, 1.0]), b=ag.asarray([1.0, -1.0]), return_sign=True)
    (tensor(0.5413), tensor(-1.))
    """
    a = asarray(a)
    a = a if a._spec.inexact else a * 1.0
    if b is None and not return_sign and not a._spec.is_complex:
        return logsumexp_over(a, axis=axis, keepdims=keepdims)
    levels = real(a) if a._spec.is_complex else a
    levels = levels.detach()
    if b is not None:
        b = asarray(b)
        levels = where(b == 0, levels * 0 - float("inf"), levels)
    top = (sum if 0 in levels.shape else max)(levels, axis=axis, keepdims=True)
    top = where(isfinite(top), top, top * 0)
    e = exp(a - top)
    total = sum(e if b is None else b * e, axis=axis, keepdims=True)
    signs = sign(total)
    found = log(abs(total) if return_sign else total) + top
    if not keepdims:
        shape = _narrow(found.shape, axis)
        found, signs = reshape(found, shape), reshape(signs, shape)
    return (found, signs) if return_sign else found


def _narrow(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    """The shape without the summed axes."""
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    places = {i % len(shape) for i in axes}
    return tuple(n for i, n in enumerate(shape) if i not in places)


def _over(function: Callable[..., Tensor], x: Any, axis: Any) -> Tensor:
    """Run a function of one axis over several or all: they are merged into the last one."""
    x = asarray(x)
    x = x if x._spec.inexact else x * 1.0
    if isinstance(axis, int):
        return function(x, axis=axis)
    axes = tuple(range(x.ndim)) if axis is None else tuple(i % x.ndim for i in axis)
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    order = (*rest, *axes)
    turned = permute_dims(x, order)
    lengths = tuple(x.shape[i] for i in rest)
    found = function(reshape(turned, (*lengths, math.prod(x.shape[i] for i in axes))), axis=-1)
    return permute_dims(reshape(found, turned.shape), tuple(order.index(i) for i in range(x.ndim)))


def softmax(x: Any, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Exponentials that sum to 1.

    axis : int or tuple of int, optional
        The axes to sum over. Default: all axes.
    Returns: ``exp(x - logsumexp(x))``.
    The same kernels and rule as `agrad.nn.functional.softmax`, which takes one axis.

    >>> ag.special.softmax(ag.asarray([0.0, 0.0, 1000.0]))
    tensor([0., 0., 1.])
    """
    return _over(nn.softmax, x, axis)


def log_softmax(x: Any, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Logarithm of `softmax`, without overflow or cancellation.

    axis : int or tuple of int, optional
        The axes to sum over. Default: all axes.
    Returns: ``x - logsumexp(x)``.
    The same kernels and rule as `agrad.nn.functional.log_softmax`, which takes one axis.

    >>> ag.special.log_softmax(ag.asarray([0.0, 1000.0]))
    tensor([-1000.,     0.])
    """
    return _over(nn.log_softmax, x, axis)


def softplus(x: Any) -> Tensor:
    """Smooth positive part.

    Returns: ``log(1 + exp(x))``, without overflow.
    The derivative is ``expit(x)``.

    >>> ag.special.softplus(ag.asarray([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0000e+03])
    """
    x = asarray(x)
    return -log_expit(-(x if x._spec.inexact else x * 1.0))
