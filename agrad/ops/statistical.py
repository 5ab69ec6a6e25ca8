"""Statistical and utility functions of the standard: reductions, running sums, differences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from agrad.core.cotangents import is_complex, promote
from agrad.core.declare import custom, linear, nondifferentiable
from agrad.core.errors import UnsupportedOp
from agrad.core.facts import Facts
from agrad.ops import pairs
from agrad.ops.batch_rules import reduced, running
from agrad.ops.docs import complete
from agrad.ops.missing import asked, how_many, there

if TYPE_CHECKING:
    from agrad.core.methods import Picked
    from agrad.core.tensor import Tensor

__all__ = ["all", "any", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]

Axis = int | tuple[int, ...] | None


def _axes(axis: Axis, rank: int) -> tuple[int, ...]:
    if axis is None or not rank:  # some libraries let an array without axes be reduced along 0
        return tuple(range(rank))
    return tuple(a % rank for a in (axis if isinstance(axis, tuple | list) else (axis,)))


def unreduce(xp: Any, g: Any, spec: Any, axis: Axis, keepdims: bool) -> Any:
    """Return the result of a reduction with the reduced axes restored, with length 1."""
    if keepdims or not spec.shape or (axis is None and not g.shape):
        return g
    axes = _axes(axis, len(spec.shape))
    return xp.reshape(g, tuple(1 if i in axes else n for i, n in enumerate(spec.shape)))


def _spread(xp: Any, g: Any, spec: Any, axis: Axis, keepdims: bool) -> Any:
    return xp.broadcast_like(unreduce(xp, g, spec, axis, keepdims), spec)


def count(spec: Any, axis: Axis) -> int:
    """Return how many elements a reduction combines into one."""
    n: int = math.prod(spec.shape[a] for a in _axes(axis, len(spec.shape)))
    if n != n:  # noqa: PLR0124 (nan: unknown to a lazy backend)
        reason = "the derivative divides by the number of elements, which is not known before they are computed"
        raise UnsupportedOp("mean or variance", spec.backend.name, reason)
    return n


def _sum_there(xp: Any, g: Any, x: Any, x_spec: Any, axis: Axis, keepdims: bool) -> Any:
    return there(xp, unreduce(xp, g, x_spec, axis, keepdims), x)


def _sum_there_jvp(xp: Any, t_x: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    return xp.sum(there(xp, t_x, x), axis=axis, keepdims=keepdims)


@linear(
    x=lambda xp, g, x_spec, axis, keepdims: _spread(xp, g, x_spec, axis, keepdims),
    batch=reduced,
    memory="fresh",
    facts=Facts(
        sparsity="reduces",
        direct=True,
        in_order=True,
        needs=("zero-size reductions",),
        missing={"vjp": {"x": _sum_there}, "jvp": _sum_there_jvp},
    ),
)
def sum(
    x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """Sum over axes, all by default.

    x: Numeric, any shape.
    Returns: Of the shape of `x` without the reduced axes, of `dtype`; 0 for an empty sum.
    Derivative: 1; the cotangent is spread over the summed axes. Nothing is saved but the shape.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.sum(x, axis=0)
    >>> y.detach()
    tensor([4., 6.])
    >>> ag.grad(y.sum(), x)[0]
    tensor([[1., 1.],
            [1., 1.]])
    """


#: The largest number of float16, exactly.
_HALF_MAX = 65504


def _mean_adjoint(xp: Any, g: Any, x_spec: Any, axis: Axis, keepdims: bool) -> Any:
    n = count(x_spec, axis) or 1
    share = g / n if n <= _HALF_MAX else g * (1 / n)
    return _spread(xp, share, x_spec, axis, keepdims)


def _mean_there(xp: Any, g: Any, x: Any, x_spec: Any, axis: Axis, keepdims: bool) -> Any:
    return there(xp, unreduce(xp, g, x_spec, axis, keepdims) / how_many(xp, x, axis), x)


def _mean_there_jvp(xp: Any, t_x: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    return xp.mean(there(xp, t_x, x), axis=axis, keepdims=keepdims)


@linear(
    x=_mean_adjoint,
    batch=reduced,
    memory="fresh",
    facts=Facts(
        sparsity="reduces",
        direct=True,
        in_order=True,
        needs=("zero-size reductions",),
        missing={"vjp": {"x": _mean_there}, "jvp": _mean_there_jvp},
    ),
)
def mean(x: Any, /, axis: Axis = None, *, keepdims: bool = False, dim: Axis = None, keepdim: bool = False) -> Tensor:
    """Mean over axes, all by default.

    x: Floating-point, real or complex, any shape.
    Returns: Of the shape of `x` without the reduced axes, of its dtype; NaN, with the backend's warning, where there is
        nothing to average.
    Derivative: ``1 / n`` with `n` the number of elements averaged.
    A lazy backend that does not know `n` before it computes raises `UnsupportedOp` in backward.

    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = ag.mean(x, axis=1)
    >>> y.detach()
    tensor([1.5000, 3.5000])
    >>> ag.grad(y.sum(), x)[0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """


def _prod_others(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Return, for each element, the product of the others along the axes; exact if some are zero.

    Exclusive running products from the left and from the right (the standard's cumulative_prod), multiplied.
    """
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    moved = xp.permute_dims(x, rest + axes)
    flat = xp.reshape(moved, (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes)))
    n = flat.shape[-1]
    head = xp.ones_like(flat[..., :1])
    left = xp.cumulative_prod(xp.concat([head, flat[..., : n - 1]], axis=-1), axis=-1)
    right = xp.cumulative_prod(xp.concat([head, xp.flip(flat, axis=-1)[..., : n - 1]], axis=-1), axis=-1)
    others = xp.reshape(left * xp.flip(right, axis=-1), moved.shape)
    order = rest + axes
    return xp.permute_dims(others, tuple(order.index(i) for i in range(x.ndim)))


def _prod_vjp(xp: Any, g: Any, x: Any, x_spec: Any, ans_spec: Any, axis: Axis, keepdims: bool) -> Any:
    if 0 in x_spec.shape:
        return xp.zeros_like(x)
    x = xp.astype(x, ans_spec.dtype, copy=False)
    others = _prod_others(xp, x, _axes(axis, len(x_spec.shape))) if x_spec.shape else xp.ones_like(x)
    if is_complex(xp, others):
        others = xp.conj(others)
    return xp.multiply(*promote(xp, unreduce(xp, g, x_spec, axis, keepdims), others))


def _prod_jvp(xp: Any, t_x: Any, x: Any, x_spec: Any, ans_spec: Any, axis: Axis, keepdims: bool) -> Any:
    x, t_x = xp.astype(x, ans_spec.dtype, copy=False), xp.astype(t_x, ans_spec.dtype, copy=False)
    if 0 in x_spec.shape or not x_spec.shape:
        return xp.sum(t_x, axis=axis, keepdims=keepdims)
    return xp.sum(t_x * _prod_others(xp, x, _axes(axis, len(x_spec.shape))), axis=axis, keepdims=keepdims)


def _prod_there(xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, ans_spec: Any, axis: Axis, keepdims: bool) -> Any:
    one = xp.extra.filled(x, 1.0)
    return there(xp, _prod_vjp(xp, asked(xp, g, ans), one, x_spec, ans_spec, axis, keepdims), x)


def _prod_there_jvp(xp: Any, t_x: Any, x: Any, x_spec: Any, ans: Any, ans_spec: Any, axis: Axis, keepdims: bool) -> Any:
    one = xp.extra.filled(x, 1.0)
    return there(xp, _prod_jvp(xp, asked(xp, t_x, x), one, x_spec, ans_spec, axis, keepdims), ans)


@custom(
    vjp={"x": _prod_vjp},
    jvp=_prod_jvp,
    batch=reduced,
    memory="fresh",
    facts=Facts(
        sparsity="reduces",
        direct=True,
        needs=("zero-size reductions",),
        missing={"vjp": {"x": _prod_there}, "jvp": _prod_there_jvp},
    ),
)
def prod(
    x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """Product over axes, all by default.

    x: Numeric, any shape.
    dtype: Dtype of the product and of the result. Default: that of `x`, the backend's default integer dtype for smaller
        integers.
    Returns: Of the shape of `x` without the reduced axes, of `dtype`; 1 for an empty product.
    Derivative: the product of the other elements, from running products and not by division: exact where elements are
    zero, however many, and to every order.
    Complex: holomorphic, so a cotangent is multiplied by the conjugate of the derivative.

    >>> x = ag.tensor([0.0, 2.0, 3.0], requires_grad=True)
    >>> ag.prod(x).detach(), ag.grad(ag.prod(x).sum(), x)[0]
    (tensor(0.), tensor([6., 0., 0.]))
    """


def _ties(xp: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, keepdims: bool) -> Any:
    """Weights that share one gradient evenly among the elements that attain the extremum."""
    best = unreduce(xp, ans, x_spec, axis, keepdims)
    equal = xp.astype((x == best) | ((x != x) & (best != best)), x_spec.dtype)  # noqa: PLR0124 (NaN attains NaN)
    return equal / xp.sum(equal, axis=axis, keepdims=True)


def _extremum_vjp(xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, keepdims: bool) -> Any:
    return unreduce(xp, g, x_spec, axis, keepdims) * _ties(xp, x, x_spec, ans, axis, keepdims)


def _extremum_jvp(xp: Any, t_x: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, keepdims: bool) -> Any:
    return xp.sum(t_x * _ties(xp, x, x_spec, ans, axis, keepdims), axis=axis, keepdims=keepdims)


@overload
def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor: ...
@overload
def max(x: Any, /, dim: int, keepdim: bool = False) -> Picked: ...
@overload
def max(x: Any, /, dim: Any, keepdim: bool = False) -> Any: ...
@custom(
    vjp={"x": _extremum_vjp},
    jvp=_extremum_jvp,
    batch=reduced,
    by_dim=pairs.largest,
    memory="fresh",
    facts=Facts(sparsity="reduces", direct=True, in_order=True, needs=("zero-size reductions",), missing=True),
)
def max(x: Any, /, dim: Any = None, keepdim: bool = False, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Largest element over axes, all by default.

    x: Real-valued, any shape.
    Returns: Of the shape of `x` without the reduced axes, of its dtype; NaN where one of the elements is.
    dim : int, optional
        PyTorch's: return the pair ``values``, ``indices`` along this axis; the gradient goes to the element picked, the
        first of equal ones. If a tensor is passed: `agrad.maximum` of the two.
    keepdim : bool, optional
        Together with `dim`, PyTorch's name of `keepdims`.
    ValueError: If there is nothing to choose from, on most backends.
    Derivative: 1 by the element that attains the extremum; elements that tie share the gradient evenly, as in PyTorch's
    `amax` and `amin` (NaNs tie with one another).

    >>> x = ag.tensor([1.0, 3.0, 3.0], requires_grad=True)
    >>> ag.max(x).detach(), ag.grad(ag.max(x).sum(), x)[0]
    (tensor(3.), tensor([0.0000, 0.5000, 0.5000]))
    """


@overload
def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor: ...
@overload
def min(x: Any, /, dim: int, keepdim: bool = False) -> Picked: ...
@overload
def min(x: Any, /, dim: Any, keepdim: bool = False) -> Any: ...
@custom(
    vjp={"x": _extremum_vjp},
    jvp=_extremum_jvp,
    batch=reduced,
    by_dim=pairs.smallest,
    memory="fresh",
    facts=Facts(sparsity="reduces", direct=True, in_order=True, needs=("zero-size reductions",), missing=True),
)
def min(x: Any, /, dim: Any = None, keepdim: bool = False, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Smallest element over axes, all by default.

    x: Real-valued, any shape.
    Returns: Of the shape of `x` without the reduced axes, of its dtype; NaN where one of the elements is.
    dim : int, optional
        PyTorch's: return the pair ``values``, ``indices`` along this axis; the gradient goes to the element picked, the
        first of equal ones. If a tensor is passed: `agrad.minimum` of the two.
    keepdim : bool, optional
        Together with `dim`, PyTorch's name of `keepdims`.
    ValueError: If there is nothing to choose from, on most backends.
    Derivative: 1 by the element that attains the extremum; elements that tie share the gradient evenly, as in PyTorch's
    `amax` and `amin` (NaNs tie with one another).

    >>> x = ag.tensor([1.0, 1.0, 3.0], requires_grad=True)
    >>> ag.min(x).detach(), ag.grad(ag.min(x).sum(), x)[0]
    (tensor(1.), tensor([0.5000, 0.5000, 0.0000]))
    """


def _divisor(spec: Any, axis: Axis, correction: float) -> float:
    n = count(spec, axis) - correction
    return n if n > 0 else math.nan


def _var_vjp(xp: Any, g: Any, x: Any, x_spec: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    centred = x - xp.mean(x, axis=axis, keepdims=True)
    g, centred = promote(xp, unreduce(xp, g, x_spec, axis, keepdims), centred)
    return g * (centred * (2 / _divisor(x_spec, axis, correction)))


def _var_jvp(xp: Any, t_x: Any, x: Any, x_spec: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    centred = x - xp.mean(x, axis=axis, keepdims=True)
    along = xp.real(t_x * xp.conj(centred)) if x_spec.is_complex else t_x * centred
    return xp.sum(along, axis=axis, keepdims=keepdims) * (2 / _divisor(x_spec, axis, correction))


def _weights_there(xp: Any, x: Any, axis: Axis, correction: float) -> Any:
    return (x - xp.mean(x, axis=axis, keepdims=True)) * (2 / (how_many(xp, x, axis) - correction))


def _var_there(xp: Any, g: Any, x: Any, x_spec: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    g, weights = promote(xp, unreduce(xp, g, x_spec, axis, keepdims), _weights_there(xp, x, axis, correction))
    return g * weights


def _var_there_jvp(xp: Any, t_x: Any, x: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    weights = _weights_there(xp, x, axis, correction)
    along = xp.real(t_x * xp.conj(weights)) if is_complex(xp, x) else t_x * weights
    return xp.sum(along, axis=axis, keepdims=keepdims)


@custom(
    vjp={"x": _var_vjp},
    jvp=_var_jvp,
    batch=reduced,
    memory="fresh",
    facts=Facts(
        sparsity="reduces", needs=("zero-size reductions",), missing={"vjp": {"x": _var_there}, "jvp": _var_there_jvp}
    ),
)
def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance over axes, all by default.

    x: Floating-point, any shape.
    Returns: Of the shape of `x` without the reduced axes, real, of the same precision.
    Derivative: ``2 * (x - mean(x)) / (n - correction)``; NaN where ``n <= correction``.
    Complex: the variance of a complex `x` is that of ``abs(x - mean(x))``; the same formula holds.

    >>> x = ag.tensor([1.0, 2.0, 6.0], requires_grad=True)
    >>> ag.var(x, correction=1).detach(), ag.grad(ag.var(x, correction=1).sum(), x)[0]
    (tensor(7.), tensor([-2., -1.,  3.]))
    """


def _slope(xp: Any, ans: Any) -> Any:
    """1 / ans, and 0 where ans is 0."""
    zero = ans == 0
    return xp.where(zero, xp.zeros_like(ans), 1 / xp.where(zero, xp.ones_like(ans), ans))


def _std_vjp(xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    return _var_vjp(xp, g * _slope(xp, ans) / 2, x, x_spec, axis, correction, keepdims)


def _std_jvp(xp: Any, t_x: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    return _var_jvp(xp, t_x, x, x_spec, axis, correction, keepdims) * _slope(xp, ans) / 2


def _std_there(xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    return _var_there(xp, g * _slope(xp, ans) / 2, x, x_spec, axis, correction, keepdims)


def _std_there_jvp(xp: Any, t_x: Any, x: Any, ans: Any, axis: Axis, correction: float, keepdims: bool) -> Any:
    return _var_there_jvp(xp, t_x, x, axis, correction, keepdims) * _slope(xp, ans) / 2


@custom(
    vjp={"x": _std_vjp},
    jvp=_std_jvp,
    batch=reduced,
    memory="fresh",
    facts=Facts(
        sparsity="reduces", needs=("zero-size reductions",), missing={"vjp": {"x": _std_there}, "jvp": _std_there_jvp}
    ),
)
def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviation over axes, all by default.

    x: Floating-point, any shape.
    Returns: Of the shape of `x` without the reduced axes, real, of the same precision.
    Derivative: ``(x - mean(x)) / ((n - correction) * std(x))``; 0 where the standard deviation is 0, NaN where ``n <=
    correction``.

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ag.std(x).detach(), ag.grad(ag.std(x).sum(), x)[0]
    (tensor(0.8165), tensor([-0.4082,  0.0000,  0.4082]))
    """


def _cumulative_sum_adjoint(xp: Any, g: Any, x_spec: Any, axis: int | None, include_initial: bool) -> Any:
    axis = 0 if axis is None else axis % len(x_spec.shape)
    if include_initial:
        g = g[(slice(None),) * axis + (slice(1, None), ...)]
    return xp.flip(xp.cumulative_sum(xp.flip(g, axis=axis), axis=axis), axis=axis)


def _cumulative_sum_there(
    xp: Any, g: Any, x: Any, x_spec: Any, ans: Any, axis: int | None, include_initial: bool
) -> Any:
    return there(xp, _cumulative_sum_adjoint(xp, asked(xp, g, ans), x_spec, axis, include_initial), x)


def _cumulative_sum_there_jvp(xp: Any, t_x: Any, x: Any, axis: int | None, include_initial: bool) -> Any:
    return xp.cumulative_sum(there(xp, t_x, x), axis=axis, include_initial=include_initial)


@linear(
    x=_cumulative_sum_adjoint,
    batch=running,
    least_axes=1,
    memory="fresh",
    facts=Facts(sparsity="running", missing={"vjp": {"x": _cumulative_sum_there}, "jvp": _cumulative_sum_there_jvp}),
)
def cumulative_sum(
    x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False, dim: int | None = None
) -> Tensor:
    """Running sum along an axis.

    x: Numeric, any shape.
    axis : int, optional
        The axis to run along. A 1-d operand need not name it.
    include_initial: Begin with the 0, so that the axis is longer by 1.
    Returns: Of the shape of `x` (longer by 1 along the axis with `include_initial`), of `dtype`.
    ValueError: If `axis` is left out and `x` has more than one.
    Derivative: the running sum of the cotangent from the far end. Nothing is saved but the shape.

    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ag.cumulative_sum(x).detach(), ag.grad(ag.cumulative_sum(x).sum(), x)[0]
    (tensor([1., 3., 6.]), tensor([3., 2., 1.]))
    """


def _run_back(xp: Any, factors: Any, terms: Any) -> Any:
    """Return s along the last axis, where ``s[i] = terms[i] + factors[i] * s[i + 1]`` and the last s is the last term.

    By doubling (Hillis, Steele: Data parallel algorithms, 1986): after a step every s covers twice as many terms, and
    every factor leads twice as far.
    """
    length, step = terms.shape[-1], 1
    while step < length:
        ahead = terms[..., : length - step] + factors[..., : length - step] * terms[..., step:]
        terms = xp.concat([ahead, terms[..., length - step :]], axis=-1)
        rest = length - 2 * step
        if rest > 0:
            factors = factors[..., :rest] * factors[..., step : step + rest]
        step *= 2
    return terms


def _before(xp: Any, x: Any) -> Any:
    """Return the product of the elements before each element along the last axis."""
    one = xp.ones_like(x[..., :1])
    return xp.cumulative_prod(xp.concat([one, x[..., : x.shape[-1] - 1]], axis=-1), axis=-1)


def _cumulative_prod_vjp(xp: Any, g: Any, x: Any, ans_spec: Any, axis: int | None, include_initial: bool) -> Any:
    x = xp.astype(x, ans_spec.dtype, copy=False)
    axis = 0 if axis is None else axis % x.ndim
    if include_initial:
        g = g[(slice(None),) * axis + (slice(1, None), ...)]
    if not x.shape[axis]:
        return g
    x, g = xp.moveaxis(x, axis, -1), xp.moveaxis(g, axis, -1)
    if is_complex(xp, x):
        x = xp.conj(x)
    return xp.moveaxis(_before(xp, x) * _run_back(xp, x[..., 1:], g), -1, axis)


def _cumulative_prod_jvp(xp: Any, t_x: Any, x: Any, ans_spec: Any, axis: int | None, include_initial: bool) -> Any:
    x, t_x = xp.astype(x, ans_spec.dtype, copy=False), xp.astype(t_x, ans_spec.dtype, copy=False)
    axis = 0 if axis is None else axis % x.ndim
    if x.shape[axis]:
        x, t_x = xp.moveaxis(x, axis, -1), xp.moveaxis(t_x, axis, -1)
        terms = xp.flip(_before(xp, x) * t_x, axis=-1)
        tangent = xp.flip(_run_back(xp, xp.flip(x, axis=-1), terms), axis=-1)
        t_x = xp.moveaxis(tangent, -1, axis)
    if not include_initial:
        return t_x
    return xp.concat([xp.zeros_like(xp.sum(t_x, axis=axis, keepdims=True)), t_x], axis=axis)


def _cumulative_prod_there(
    xp: Any, g: Any, x: Any, ans: Any, ans_spec: Any, axis: int | None, include_initial: bool
) -> Any:
    one = xp.extra.filled(x, 1.0)
    return there(xp, _cumulative_prod_vjp(xp, asked(xp, g, ans), one, ans_spec, axis, include_initial), x)


def _cumulative_prod_there_jvp(
    xp: Any, t_x: Any, x: Any, ans: Any, ans_spec: Any, axis: int | None, include_initial: bool
) -> Any:
    one = xp.extra.filled(x, 1.0)
    return there(xp, _cumulative_prod_jvp(xp, asked(xp, t_x, x), one, ans_spec, axis, include_initial), ans)


@custom(
    vjp={"x": _cumulative_prod_vjp},
    jvp=_cumulative_prod_jvp,
    batch=running,
    least_axes=1,
    memory="fresh",
    facts=Facts(
        sparsity="running",
        since="2024.12",
        missing={"vjp": {"x": _cumulative_prod_there}, "jvp": _cumulative_prod_there_jvp},
    ),
)
def cumulative_prod(
    x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False, dim: int | None = None
) -> Tensor:
    """Running product along an axis.

    x: Numeric, any shape.
    axis : int, optional
        The axis to run along. A 1-d operand need not name it.
    dtype: Dtype of the product and of the result. Default: that of `x`, the backend's default integer dtype for smaller
        integers.
    include_initial: Begin with the 1, so that the axis is longer by 1.
    Returns: Of the shape of `x` (longer by 1 along the axis with `include_initial`), of `dtype`.
    ValueError: If `axis` is left out and `x` has more than one.
    Derivative of the j-th product with respect to the i-th element, ``i <= j``: the product of the others up to j. It
    is computed without division, so it is exact at zeros.
    Complex: holomorphic, so a cotangent is multiplied by the conjugate of the derivative.

    >>> x = ag.tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> ag.cumulative_prod(x).detach(), ag.grad(ag.cumulative_prod(x).sum(), x)[0]
    (tensor([2., 0., 0.]), tensor([1., 8., 0.]))
    """


@nondifferentiable("x", batch=reduced, memory="fresh", facts=Facts(direct=True))
def all(x: Any, /, axis: Axis = None, *, keepdims: bool = False, dim: Axis = None, keepdim: bool = False) -> Tensor:
    """Whether all elements along axes are true.

    x: Any dtype; nonzero elements are true; any shape.
    Returns: Boolean; true if there is no element.
    No derivative: the result is boolean.
    Source: array API 2025.12, utility functions.

    >>> ag.all(ag.tensor([[True, False], [True, True]]), axis=1)
    tensor([False,  True])
    """


@nondifferentiable("x", batch=reduced, memory="fresh", facts=Facts(direct=True))
def any(x: Any, /, axis: Axis = None, *, keepdims: bool = False, dim: Axis = None, keepdim: bool = False) -> Tensor:
    """Whether any element along axes is true.

    x: Any dtype; nonzero elements are true; any shape.
    Returns: Boolean; false if there is no element.
    No derivative: the result is boolean.
    Source: array API 2025.12, utility functions.

    >>> ag.any(ag.tensor([[True, False], [False, False]]), axis=1)
    tensor([ True, False])
    """


complete(
    globals(),
    {
        "axis": "int or tuple of int, optional\n    The axes to reduce. Default: all.",
        "correction": "float, optional\n    The sum of squares is divided by the number of elements less this: 0 (the standard's default; PyTorch's is 1)\n    for a population, 1 for a sample.",
        "dtype": "DType, backend's dtype or str, optional\n    Dtype of the sum and of the result. Default: that of `x`, the backend's default integer dtype for smaller\n    integers.",
        "include_initial": "bool, optional",
        "keepdims": "bool, optional\n    Keep the reduced axes, with length 1.",
        "x": "Tensor or array",
    },
    source="Source: array API 2025.12, statistical functions.",
)
