"""Functions beyond the standard: values against NumPy and SciPy, derivatives against finite differences."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.spatial.distance
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck

E = ag.extra
NAN, INF = math.nan, math.inf


@pytest.fixture(params=["numpy", "strict", "dask"])
def backend(request):
    return request.getfixturevalue(f"{request.param}_backend")


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def as_list(result):
    return list(result) if isinstance(result, list | tuple) else [result]


rng = np.random.default_rng(5)


def real(*shape):
    """Numbers that lie apart, so that no step of finite differences passes a kink."""
    return (rng.permutation(math.prod(shape)) * 0.31 - 1.07).reshape(shape)


def cplx(*shape):
    return real(*shape) + 1j * real(*shape)


def with_nan(*shape):
    made = real(*shape)
    made.ravel()[1::4] = NAN
    return made


V, W, M, N, T = real(5), real(3), real(3, 4), real(4, 2), real(2, 3, 4)
MASK = [[True, False, True, False], [False] * 4, [True] * 4]
POINTS = np.array([-1.0, 0.5, 1.0, 2.5, 4.0])

# name, agrad's function, NumPy's, arrays that are differentiated
CASES = {
    # products
    "dot of vectors": (E.dot, np.dot, (V, V[::-1].copy())),
    "dot of matrices": (E.dot, np.dot, (M, N)),
    "dot of stacks": (E.dot, np.dot, (T, real(2, 4, 3))),
    "dot with a vector": (E.dot, np.dot, (T, real(4))),
    "dot with a scalar": (E.dot, np.dot, (M, np.array(2.5))),
    "dot of complex": (E.dot, np.dot, (cplx(3), cplx(3))),
    "inner": (E.inner, np.inner, (T, M)),
    "inner with a scalar": (E.inner, np.inner, (np.array(2.0), V)),
    "outer": (E.outer, np.outer, (M, W)),
    "kron": (E.kron, np.kron, (M, N)),
    "kron of ranks": (E.kron, np.kron, (T, W)),
    "kron with a scalar": (E.kron, np.kron, (np.array(3.0), W)),
    "vander": (E.vander, np.vander, (V,)),
    "vander rising": (lambda x: E.vander(x, 3, increasing=True), lambda x: np.vander(x, 3, increasing=True), (V,)),
    "norm": (E.norm, np.linalg.norm, (T,)),
    "norm of vectors": (lambda x: E.norm(x, 3, 1), lambda x: np.linalg.norm(x, 3, 1), (T,)),
    "norm of a vector": (lambda x: E.norm(x, INF), lambda x: np.linalg.norm(x, INF), (V,)),
    "norm of matrices": (
        lambda x: E.norm(x, "nuc", (0, 2), keepdims=True),
        lambda x: np.linalg.norm(x, "nuc", (0, 2), keepdims=True),
        (T,),
    ),
    "norm of a matrix": (lambda x: E.norm(x, 1), lambda x: np.linalg.norm(x, 1), (M,)),
    "norm of two axes": (lambda x: E.norm(x, axis=(0, 1)), lambda x: np.linalg.norm(x, axis=(0, 1)), (T,)),
    "cdist": (E.cdist, scipy.spatial.distance.cdist, (M, real(2, 4))),
    "cdist of order 1": (
        lambda a, b: E.cdist(a, b, p=1),
        lambda a, b: scipy.spatial.distance.cdist(a, b, "cityblock"),
        (M, real(2, 4) + 0.05),
    ),
    # axes
    "swapaxes": (lambda x: E.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1), (T,)),
    **{
        f"rot90 by {k}": (lambda x, k=k: E.rot90(x, k=k), lambda x, k=k: np.rot90(x, k), (M,)) for k in (-1, 0, 1, 2, 3)
    },
    "rot90 of axes": (lambda x: E.rot90(x, axes=(2, 0)), lambda x: np.rot90(x, axes=(2, 0)), (T,)),
    "ravel": (E.ravel, np.ravel, (T,)),
    "flatten": (lambda x: E.flatten(x, 1), lambda x: x.reshape(2, 12), (T,)),
    "flatten a scalar": (E.flatten, np.ravel, (np.array(2.0),)),
    "unflatten": (lambda x: E.unflatten(x, -1, (2, -1)), lambda x: x.reshape(2, 3, 2, 2), (T,)),
    "atleast_1d": (E.atleast_1d, np.atleast_1d, (np.array(1.5), V)),
    "atleast_2d": (E.atleast_2d, np.atleast_2d, (np.array(1.5), V, M)),
    "atleast_3d": (E.atleast_3d, np.atleast_3d, (np.array(1.5), V, M, T)),
    # joining and splitting
    "cat": (lambda *a: E.cat(a, 1), lambda *a: np.concatenate(a, 1), (M, real(3, 2))),
    "hstack of vectors": (lambda *a: E.hstack(a), lambda *a: np.hstack(a), (V, np.array(2.0), W)),
    "hstack": (lambda *a: E.hstack(a), lambda *a: np.hstack(a), (M, real(3, 1))),
    "vstack": (lambda *a: E.vstack(a), lambda *a: np.vstack(a), (M, real(4))),
    "dstack": (lambda *a: E.dstack(a), lambda *a: np.dstack(a), (M, real(3, 4))),
    "dstack of vectors": (lambda *a: E.dstack(a), lambda *a: np.dstack(a), (W, W + 1)),
    "column_stack": (lambda *a: E.column_stack(a), lambda *a: np.column_stack(a), (W, real(3, 2))),
    "append": (E.append, np.append, (M, V)),
    "append along": (lambda a, b: E.append(a, b, axis=1), lambda a, b: np.append(a, b, axis=1), (M, real(3, 1))),
    "split": (lambda x: E.split(x, 2, axis=1), lambda x: np.split(x, 2, axis=1), (M,)),
    "split at": (lambda x: E.split(x, [1, 1, 3], axis=-1), lambda x: np.split(x, [1, 1, 3], axis=-1), (M,)),
    "array_split": (lambda x: E.array_split(x, 3), lambda x: np.array_split(x, 3), (V,)),
    "array_split into more": (lambda x: E.array_split(x, 4), lambda x: np.array_split(x, 4), (W,)),
    "hsplit": (lambda x: E.hsplit(x, 2), lambda x: np.hsplit(x, 2), (M,)),
    "hsplit of a vector": (lambda x: E.hsplit(x, [2]), lambda x: np.hsplit(x, [2]), (V,)),
    "vsplit": (lambda x: E.vsplit(x, 2), lambda x: np.vsplit(x, 2), (N,)),
    "chunk": (lambda x: E.chunk(x, 3, -1), lambda x: [x[:, :2], x[:, 2:]], (M,)),
    "delete": (lambda x: E.delete(x, [0, -1], axis=1), lambda x: np.delete(x, [0, -1], axis=1), (M,)),
    "delete a slice": (lambda x: E.delete(x, slice(1, None, 2)), lambda x: np.delete(x, slice(1, None, 2)), (M,)),
    "delete one": (lambda x: E.delete(x, 1, axis=0), lambda x: np.delete(x, 1, axis=0), (M,)),
    "delete by a mask": (
        lambda x: E.delete(x, [True, False, True, False, False]),
        lambda x: np.delete(x, [True, False, True, False, False]),
        (V,),
    ),
    "insert": (lambda x, v: E.insert(x, [1, 3, 3], v), lambda x, v: np.insert(x, [1, 3, 3], v), (V, W)),
    "insert one": (lambda x, v: E.insert(x, 2, v), lambda x, v: np.insert(x, 2, v), (V, np.array(9.0))),
    "insert at the end": (lambda x, v: E.insert(x, [5, -5], v), lambda x, v: np.insert(x, [5, -5], v), (V, W[:2])),
    "insert several at one": (lambda x, v: E.insert(x, [2], v), lambda x, v: np.insert(x, [2], v), (V, W)),
    "insert a column": (lambda x, v: E.insert(x, 1, v, axis=1), lambda x, v: np.insert(x, 1, v, axis=1), (M, W)),
    "insert columns": (
        lambda x, v: E.insert(x, [1], v, axis=1),
        lambda x, v: np.insert(x, [1], v, axis=1),
        (M, real(3, 2)),
    ),
    "insert rows": (
        lambda x, v: E.insert(x, [0, 2], v, axis=0),
        lambda x, v: np.insert(x, [0, 2], v, axis=0),
        (M, real(4)),
    ),
    "select": (
        lambda x: E.select([x < 0, x > 1.0], [x * x, 2 * x], 3.0),
        lambda x: np.select([x < 0, x > 1.0], [x * x, 2 * x], 3.0),
        (M,),
    ),
    # diagonals
    **{
        f"diag {k} of {x.shape}": (lambda x, k=k: E.diag(x, k=k), lambda x, k=k: np.diag(x, k), (x,))
        for x in (W, M, N)
        for k in (-4, -1, 0, 2)
    },
    "diagflat": (lambda x: E.diagflat(x, k=1), lambda x: np.diagflat(x, 1), (N,)),
    "diag_embed": (E.diag_embed, lambda x: np.stack([np.diag(row) for row in x]), (M,)),
    "diag_embed elsewhere": (
        lambda x: E.diag_embed(x, -1, 0, 2),
        lambda x: np.stack([np.diag(row, -1) for row in x], axis=1),
        (M,),
    ),
    "fill_diagonal": (E.fill_diagonal, lambda x, v: filled(x, v), (M, np.array(7.0))),
    "fill_diagonal of a tall one": (E.fill_diagonal, lambda x, v: filled(x, v), (real(5, 2), W[:2])),
    "fill_diagonal of three axes": (E.fill_diagonal, lambda x, v: filled(x, v), (real(2, 2, 2), W[:2])),
    # padding
    **{
        f"pad {mode} {widths}": (
            lambda x, w=widths, m=mode: E.pad(x, w, m),
            lambda x, w=widths, m=mode: np.pad(x, w, m),
            (M,),
        )
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
        for widths in ((0, 2), ((7, 9), (8, 0)))
    },
    "pad a number": (
        lambda x: E.pad(x, ((1, 0), (0, 1)), constant_values=2.5),
        lambda x: np.pad(x, ((1, 0), (0, 1)), constant_values=2.5),
        (M,),
    ),
    "pad by an array": (lambda x: E.pad(x, np.array([[1, 2]])), lambda x: np.pad(x, np.array([[1, 2]])), (M,)),
    "pad by axis": (lambda x: E.pad(x, {-1: (1, 2)}), lambda x: np.pad(x, ((0, 0), (1, 2))), (M,)),
    "pad one element": (lambda x: E.pad(x, 2, "reflect"), lambda x: np.pad(x, 2, "reflect"), (W[:1],)),
    # without NaN
    **{
        f"{name} {kwargs}": (
            functools.partial(getattr(E, name), **kwargs),
            functools.partial(getattr(np, name), **kwargs),
            (with_nan(2, 3, 4),),
        )
        for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")
        for kwargs in ({}, {"axis": (0, -1), "keepdims": True})
    },
    "nanvar with a correction": (
        lambda x: E.nanvar(x, correction=1),
        lambda x: np.nanvar(x, ddof=1),
        (with_nan(3, 4),),
    ),
    "nanstd with a correction": (
        lambda x: E.nanstd(x, correction=1),
        lambda x: np.nanstd(x, ddof=1),
        (with_nan(3, 4),),
    ),
    "nancumsum": (lambda x: E.nancumsum(x, axis=1), lambda x: np.nancumsum(x, axis=1), (with_nan(3, 4),)),
    "nansum of complex": (E.nansum, np.nansum, (cplx(3) * [1, NAN, 1],)),
    "nanmean of complex": (E.nanmean, np.nanmean, (cplx(3) * [1, NAN, 1],)),
    # statistics
    "ptp": (lambda x: E.ptp(x, axis=1), lambda x: np.ptp(x, axis=1), (M,)),
    "average": (lambda x: E.average(x, axis=0), lambda x: np.average(x, axis=0), (M,)),
    "average of weights": (
        lambda x, w: E.average(x, axis=1, weights=w),
        lambda x, w: np.average(x, axis=1, weights=w),
        (M, np.abs(real(4))),
    ),
    "average of all weights": (
        lambda x, w: E.average(x, weights=w),
        lambda x, w: np.average(x, weights=w),
        (M, real(3, 4)),
    ),
    "average over two axes": (
        lambda x, w: E.average(x, axis=(2, 0), weights=w, keepdims=True),
        lambda x, w: np.average(x, axis=(2, 0), weights=w, keepdims=True),
        (T, np.abs(real(4, 2))),
    ),
    "median of odd": (E.median, np.median, (V,)),
    "median of even": (lambda x: E.median(x, axis=1), lambda x: np.median(x, axis=1), (M,)),
    "median over two axes": (
        lambda x: E.median(x, axis=(0, 2), keepdims=True),
        lambda x: np.median(x, axis=(0, 2), keepdims=True),
        (T,),
    ),
    **{
        f"quantile {method}": (
            lambda x, m=method: E.quantile(x, [0.0, 0.2, 0.5, 0.625, 1.0], axis=-1, method=m),
            lambda x, m=method: np.quantile(x, [0.0, 0.2, 0.5, 0.625, 1.0], axis=-1, method=m),
            (T,),
        )
        for method in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "quantile of all": (lambda x: E.quantile(x, 0.3), lambda x: np.quantile(x, 0.3), (T,)),
    "quantile kept": (
        lambda x: E.quantile(x, [0.3], axis=0, keepdims=True),
        lambda x: np.quantile(x, [0.3], axis=0, keepdims=True),
        (T,),
    ),
    "percentile": (lambda x: E.percentile(x, 30, axis=1), lambda x: np.percentile(x, 30, axis=1), (T,)),
    "cumsum": (E.cumsum, np.cumsum, (M,)),
    "cumsum along": (lambda x: E.cumsum(x, 0), lambda x: np.cumsum(x, 0), (M,)),
    "cumprod": (E.cumprod, np.cumprod, (V,)),
    "cumulative_max": (lambda x: E.cumulative_max(x, axis=1), lambda x: np.maximum.accumulate(x, axis=1), (T,)),
    "cumulative_max of rows": (lambda x: E.cumulative_max(x, axis=0), lambda x: np.maximum.accumulate(x, axis=0), (T,)),
    "cumulative_min": (E.cumulative_min, np.minimum.accumulate, (V,)),
    "logcumsumexp": (lambda x: E.logcumsumexp(x, axis=0), lambda x: np.log(np.cumsum(np.exp(x), axis=0)), (M,)),
    "cov": (E.cov, np.cov, (M,)),
    "cov of one": (E.cov, np.cov, (V,)),
    "cov of columns": (lambda x: E.cov(x, rowvar=False, correction=0), lambda x: np.cov(x, rowvar=False, ddof=0), (M,)),
    "cov of complex": (E.cov, np.cov, (cplx(2, 4),)),
    "cov with weights": (
        lambda x, w: E.cov(x, fweights=[1, 2, 3, 1], aweights=w),
        lambda x, w: np.cov(x, fweights=[1, 2, 3, 1], aweights=w),
        (M, np.abs(real(4))),
    ),
    "corrcoef": (E.corrcoef, np.corrcoef, (np.vstack([real(3, 5) ** 2, real(5)]),)),
    "corrcoef of complex": (E.corrcoef, np.corrcoef, (cplx(2, 4) ** 2,)),
    # numerical analysis
    "gradient": (E.gradient, np.gradient, (real(4, 3),)),
    "gradient of order 2": (
        lambda x: E.gradient(x, edge_order=2),
        lambda x: np.gradient(x, edge_order=2),
        (real(4, 3),),
    ),
    "gradient of spacings": (
        lambda x: E.gradient(x, 0.5, 2.0),
        lambda x: np.gradient(x, 0.5, 2.0),
        (real(4, 3),),
    ),
    "gradient at coordinates": (
        lambda x, t: E.gradient(x, t, axis=1, edge_order=2),
        lambda x, t: np.gradient(x, t, axis=1, edge_order=2),
        (real(2, 5), POINTS),
    ),
    "gradient at coordinates of order 1": (lambda x, t: E.gradient(x, t), lambda x, t: np.gradient(x, t), (V, POINTS)),
    "gradient of two elements": (E.gradient, np.gradient, (W[:2],)),
    "trapezoid": (lambda y: E.trapezoid(y, dx=0.5, axis=0), lambda y: np.trapezoid(y, dx=0.5, axis=0), (M,)),
    "trapezoid at": (E.trapezoid, np.trapezoid, (real(2, 5), POINTS)),
    "trapezoid at all": (E.trapezoid, np.trapezoid, (real(2, 5), np.cumsum(np.abs(real(2, 5)), axis=1))),
    "cumulative_trapezoid": (
        lambda y, x: E.cumulative_trapezoid(y, x, axis=0),
        lambda y, x: scipy.integrate.cumulative_trapezoid(y, x, axis=0),
        (real(5, 2), POINTS),
    ),
    "cumulative_trapezoid from 0": (
        lambda y: E.cumulative_trapezoid(y, dx=2.0, initial=0),
        lambda y: scipy.integrate.cumulative_trapezoid(y, dx=2.0, initial=0),
        (M,),
    ),
    "unwrap": (E.unwrap, np.unwrap, (real(3, 4) * 4,)),
    "unwrap along": (
        lambda x: E.unwrap(x, axis=0, period=3.0, discont=2.0),
        lambda x: np.unwrap(x, axis=0, period=3.0, discont=2.0),
        (real(6, 2) * 4,),
    ),
    "interp": (E.interp, np.interp, (np.array([[-2.0, 0.1], [0.7, 3.9], [1.7, 5.5]]), POINTS, V)),
    "interp with ends": (
        lambda x, xp, fp, l, r: E.interp(x, xp, fp, left=l, right=r),
        lambda x, xp, fp, l, r: np.interp(x, xp, fp, l, r),
        (np.array([-2.0, 0.1, 3.9, 5.5]), POINTS, V, np.array(7.0), np.array(8.0)),
    ),
    "interp with a period": (
        lambda x, xp, fp: E.interp(x, xp, fp, period=6.5),
        lambda x, xp, fp: np.interp(x, xp, fp, period=6.5),
        (np.array([-7.0, 0.1, 3.9, 5.45, 11.0]), POINTS[[3, 0, 4, 1, 2]], V),
    ),
    "interp of one point": (
        lambda x, fp: E.interp(x, [1.0], fp, right=5.0),
        lambda x, fp: np.interp(x, [1.0], fp, right=5.0),
        (np.array([0.0, 2.0]), W[:1]),
    ),
    "polyval": (E.polyval, np.polyval, (W, M)),
    **{
        f"{name} {mode} of {n} and {m}": (
            functools.partial(getattr(E, name), mode=mode),
            functools.partial(getattr(np, name), mode=mode),
            (real(n), real(m)),
        )
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for n, m in ((5, 3), (3, 5), (2, 6))
    },
    "convolve of complex": (E.convolve, np.convolve, (cplx(4), cplx(2))),
    "correlate of complex": (E.correlate, np.correlate, (cplx(2), cplx(4))),
    # elements
    "deg2rad": (E.deg2rad, np.deg2rad, (M,)),
    "rad2deg": (E.rad2deg, np.rad2deg, (M,)),
    "fmax": (E.fmax, np.fmax, (np.array([1.0, NAN, 3.0, NAN]), np.array([2.0, 0.5, NAN, NAN]))),
    "fmin": (E.fmin, np.fmin, (np.array([1.0, NAN, 3.0, 2.0]), np.array([2.0, 0.5, NAN, 7.0]))),
    "nan_to_num": (E.nan_to_num, np.nan_to_num, (np.array([1.0, NAN, INF, -INF, -2.0]),)),
    "nan_to_num by": (
        lambda x: E.nan_to_num(x, nan=3.0, posinf=4.0, neginf=5.0),
        lambda x: np.nan_to_num(x, nan=3.0, posinf=4.0, neginf=5.0),
        (np.array([1.0, NAN, INF, -INF, -2.0]),),
    ),
    "nan_to_num of complex": (
        E.nan_to_num,
        np.nan_to_num,
        (np.array([1.0 + 2j, complex(NAN, 3.0), complex(1.0, INF)]),),
    ),
    "lerp": (E.lerp, lambda a, b, w: a + w * (b - a), (M, real(3, 4), np.abs(real(4)))),
    "lerp by a number": (lambda a, b: E.lerp(a, b, 0.3), lambda a, b: a + 0.3 * (b - a), (M, real(3, 4))),
    # selecting
    "masked_fill": (lambda x: E.masked_fill(x, MASK, 2.5), lambda x: np.where(MASK, 2.5, x), (M,)),
    "masked_select": (lambda x: E.masked_select(x, MASK), lambda x: x[np.array(MASK)], (M,)),
    "masked_select broadcast": (
        lambda x: E.masked_select(x, MASK),
        lambda x: np.broadcast_to(x, (3, 4))[np.array(MASK)],
        (real(4),),
    ),
    "index_select": (lambda x: E.index_select(x, 1, [2, 0, 2]), lambda x: x[:, [2, 0, 2]], (M,)),
    "gather": (
        lambda x: E.gather(x, 0, [[0, 2, 1], [2, 2, 0]]),
        lambda x: np.take_along_axis(x[:, :3], np.array([[0, 2, 1], [2, 2, 0]]), 0),
        (M,),
    ),
    "scatter_add": (
        lambda x, s: E.scatter_add(x, 1, [[0, 1, 0], [3, 3, 3]], s),
        lambda x, s: added(x, ([[0], [1]], [[0, 1, 0], [3, 3, 3]]), s),
        (M, real(2, 3)),
    ),
    "topk": (lambda x: E.topk(x, 2).values, lambda x: -np.sort(-x, axis=-1)[:, :2], (M,)),
    "topk of the smallest": (lambda x: E.topk(x, 2, 0, largest=False).values, lambda x: np.sort(x, axis=0)[:2], (M,)),
    "bincount": (
        lambda w: E.bincount([0, 3, 3, 1, 0], w, length=5),
        lambda w: np.bincount([0, 3, 3, 1, 0], w, minlength=5),
        (V,),
    ),
}


def filled(x, v):
    made = x.copy()
    np.fill_diagonal(made, v)
    return made


def added(x, key, values):
    made = x.copy()
    np.add.at(made, key, values)
    return made


def quietly(function, arrays):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        return as_list(function(*arrays))


def check(found, expected):
    assert len(found) == len(expected)
    for f, e in zip(map(host, found), map(np.asarray, expected), strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=1e-11, atol=1e-13, strict=True)


HOLES = ("nan", "fm")
SMOOTH = [c for c in CASES if not c.startswith(HOLES)]


@pytest.mark.parametrize("case", CASES)
def test_on_numpy(case):
    """Values, and where there is no NaN, derivatives in both modes against finite differences."""
    function, reference, arrays = CASES[case]
    tensors = [ag.tensor(a, requires_grad=True) for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        check([r.detach() for r in as_list(function(*tensors))], quietly(reference, arrays))
    if case in SMOOTH:
        assert gradcheck(function, tensors, check_forward_ad=True, check_grad_dtypes=True, fast_mode=True)


def inner(first, second):
    return sum(float(np.sum((np.conj(a) * b).real)) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("backend", ["strict", "dask"], indirect=True)
@pytest.mark.parametrize("case", CASES)
def test_on_other_backends(case, backend, make):
    """Values, and gradients along one direction against the change of NumPy's function."""
    function, reference, arrays = CASES[case]
    leaves = [make(a, requires_grad=True, chunks=3) for a in arrays]
    results = as_list(function(*leaves))
    expected = quietly(reference, arrays)
    check([r.detach() for r in results], expected)
    if case not in SMOOTH:
        return
    draw = np.random.default_rng(len(case)).uniform
    directions = [draw(0.5, 1.5, a.shape) for a in arrays]
    weights = [np.asarray(draw(0.5, 1.5, e.shape), e.dtype) for e in map(np.asarray, expected)]
    above, below = (
        as_list(reference(*(a + h * d for a, d in zip(arrays, directions, strict=True)))) for h in (1e-6, -1e-6)
    )
    wanted = inner(weights, [(np.asarray(a) - b) / 2e-6 for a, b in zip(above, below, strict=True)])
    gradients = ag.autograd.grad(results, leaves, [make(w, chunks=3) for w in weights])
    np.testing.assert_allclose(inner([host(g) for g in gradients], directions), wanted, rtol=1e-6, atol=1e-7)


#: Of the rest, each derivative is that of a linear function.
CURVED = (
    *("average of", "cdist", "convolve", "corrcoef", "correlate", "cov", "cumprod", "dot of", "gradient at", "inner"),
    *("interp", "kron", "lerp", "logcumsumexp", "norm", "outer", "polyval", "select", "trapezoid at", "vander"),
)


@pytest.mark.parametrize("case", [c for c in SMOOTH if c.startswith(CURVED)])
def test_second_derivatives(case):
    function, _, arrays = CASES[case]
    tensors = [ag.tensor(a, requires_grad=True) for a in arrays]
    assert gradgradcheck(function, tensors, fast_mode=True)


# -- NaN --------------------------------------------------------------------------------------------------------------

NAN_FUNCTIONS = {
    "nansum": E.nansum,
    "nanprod": E.nanprod,
    "nanmean": E.nanmean,
    "nanvar": E.nanvar,
    "nanstd": E.nanstd,
    "nanmax": E.nanmax,
    "nanmin": E.nanmin,
    "nancumsum": E.nancumsum,
    "nan_to_num": E.nan_to_num,
    "fmax": lambda x: E.fmax(x, 0.123),
    "fmin": lambda x: E.fmin(0.123, x),
    "masked_fill": lambda x: E.masked_fill(x, ag.isnan(x), 0.5),
    "masked_select": lambda x: E.masked_select(x, ag.logical_not(ag.isnan(x))),
}


@pytest.mark.parametrize("name", NAN_FUNCTIONS)
def test_the_gradient_is_0_at_nan(name, backend, make):
    """The others get what they would without the NaN, in first and second order."""
    function = NAN_FUNCTIONS[name]
    data = np.array([0.5, NAN, -1.5, 2.0, NAN, 0.7])
    keep = ~np.isnan(data)

    def pulled(array):
        x = make(array, requires_grad=True)
        y = ag.sum(function(x) ** 2)
        (first,) = ag.autograd.grad(y, x, create_graph=True)
        (second,) = ag.autograd.grad(ag.sum(first * first), x)
        return host(first.detach()), host(second)

    if name in ("fmax", "fmin", "nan_to_num", "nancumsum", "masked_fill"):
        # the results at NaN differ, so compare with numbers in their places that pass nothing on
        found = pulled(data)
        for values in found:
            assert np.all(values[~keep] == 0)
            assert np.all(np.isfinite(values))
        return
    for values, wanted in zip(pulled(data), pulled(data[keep]), strict=True):
        assert np.all(values[~keep] == 0)
        np.testing.assert_allclose(values[keep], wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd", "nanmax", "nanmin"])
def test_nothing_but_nan(name, backend, make):
    x = make([[NAN, NAN], [1.0, 3.0]], requires_grad=True)
    found = getattr(E, name)(x, axis=1)
    assert np.isnan(host(found.detach())[0])
    (g,) = ag.autograd.grad(found[1], x)
    assert np.all(np.isfinite(host(g)))
    (g,) = ag.autograd.grad(getattr(E, name)(x, axis=1).sum(), x)
    np.testing.assert_array_equal(host(g)[0], [0.0, 0.0])


def test_nan_functions_of_integers(backend, make):
    x = make([[1, 2], [3, 5]])
    for name in ("nansum", "nanprod", "nanmax", "nanmin"):
        assert host(getattr(E, name)(x, axis=0)).tolist() == getattr(np, name)([[1, 2], [3, 5]], axis=0).tolist()
    assert E.nancumsum(x).tolist() == [1, 3, 6, 11]


# -- ties and kinks ---------------------------------------------------------------------------------------------------


def slope(function, data, backend, weights=None):
    x = ag.asarray(np.asarray(data, float), device=backend, requires_grad=True)
    y = function(x)
    g = ag.ones_like(y.detach()) if weights is None else ag.asarray(np.asarray(weights, float), device=backend)
    return host(ag.autograd.grad(y, x, g)[0]).tolist()


@pytest.mark.parametrize(
    ("function", "data", "weights", "wanted"),
    [
        (E.nanmax, [2.0, 2.0, 1.0, NAN], None, [0.5, 0.5, 0.0, 0.0]),
        (E.nanmin, [2.0, 1.0, 1.0, NAN], None, [0.0, 0.5, 0.5, 0.0]),
        (E.nanmax, [-INF, NAN], None, [1.0, 0.0]),
        (E.ptp, [1.0, 3.0, 3.0], None, [-1.0, 0.5, 0.5]),
        (E.cumulative_max, [1.0, 1.0, 0.0, 2.0], [1, 10, 100, 1000], [1.0, 110.0, 0.0, 1000.0]),
        (E.cumulative_min, [1.0, 1.0, 2.0], [1, 10, 100], [1.0, 110.0, 0.0]),
        (E.cumulative_max, [1.0, NAN, 5.0], [1, 10, 100], [1.0, 110.0, 0.0]),
        (E.median, [2.0, 2.0, 2.0], None, [0.0, 1.0, 0.0]),
        (E.median, [7.0, 2.0, 2.0, 0.0], None, [0.0, 0.5, 0.5, 0.0]),
        (lambda x: E.quantile(x, 0.25), [3.0, 3.0, 3.0], None, [0.5, 0.5, 0.0]),
        (lambda x: E.topk(x, 1).values, [3.0, 5.0, 5.0], None, [0.0, 1.0, 0.0]),
        (lambda x: E.fmax(x, 1.0), [1.0, 2.0, NAN], None, [0.5, 1.0, 0.0]),
        (lambda x: E.fmin(x, 1.0), [1.0, 2.0, NAN], None, [0.5, 0.0, 0.0]),
        (lambda x: E.heaviside(x, 0.5), [-1.0, 0.0, 1.0], None, [0.0, 0.0, 0.0]),
        (
            lambda x: E.interp(x, [0.0, 1.0, 3.0], [0.0, 2.0, 8.0]),
            [-1.0, 0.0, 1.0, 3.0, 4.0],
            None,
            [0.0, 2.0, 3.0, 3.0, 0.0],
        ),
        (E.norm, [0.0, 0.0], None, [0.0, 0.0]),
        (lambda x: E.cdist(x[None, :], x[None, :]), [1.0, 2.0], None, [0.0, 0.0]),
        (lambda x: E.lerp(x, 3.0, 1.0), [1.0, 2.0], None, [0.0, 0.0]),
        (E.nanstd, [2.0, 2.0, NAN], None, [0.0, 0.0, 0.0]),
        (E.vander, [0.0], None, [0.0]),
        (lambda x: E.vander(x, 2), [0.0, 3.0], None, [1.0, 1.0]),
        (lambda x: E.logcumsumexp(x), [-INF, -INF, 0.0, -INF], [1, 1, 1, 1], [0.0, 0.0, 2.0, 0.0]),
    ],
)
def test_conventions(function, data, weights, wanted, backend):
    assert slope(function, data, backend, weights) == wanted


def test_logcumsumexp_far_apart(backend, close, make):
    """Differences of 1e3 neither overflow nor lose the gradient; the expected numbers are the limits."""
    x = make([-1000.0, 1000.0, -1000.0], requires_grad=True)
    y = E.logcumsumexp(x)
    close(y, np.array([-1000.0, 1000.0, 1000.0]))
    (g,) = ag.autograd.grad(y, x, make([1.0, 10.0, 100.0]))
    close(g, np.array([1.0, 110.0, 0.0]))


def test_heaviside(backend, make, close):
    x, v = make([-1.5, 0.0, 2.0, NAN]), make([3.0, 4.0, 5.0, 6.0], requires_grad=True)
    close(E.heaviside(x, v), np.heaviside([-1.5, 0.0, 2.0, NAN], [3.0, 4.0, 5.0, 6.0]))
    (g,) = ag.autograd.grad(E.heaviside(x, v)[:3].sum(), v)
    close(g, np.array([0.0, 1.0, 0.0, 0.0]))


# -- ranks: shapes, ties and NaN drawn at random ----------------------------------------------------------------------


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(
    data=st.lists(st.sampled_from([0.0, 1.0, 1.5, -2.0, 7.0, INF, NAN]), min_size=1, max_size=24),
    q=st.lists(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]), min_size=1, max_size=3),
    method=st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]),
)
def test_quantiles_are_numpys(data, q, method):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = np.quantile(data, q, method=method)
        found = host(E.quantile(ag.tensor(data), q, method=method))
    finite = np.isfinite(expected)  # NumPy gives NaN between infinities
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-15, atol=1e-15)
    assert np.isnan(found).all() == np.isnan(data).any()


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(data=st.lists(st.integers(0, 3), min_size=1, max_size=30), axis=st.sampled_from([0, 1]))
def test_ranks_are_those_of_a_stable_sort(data, axis):
    """Whatever way the backend finds them, ties included."""
    from agrad.ops.extra.statistics import argrank

    n = len(data)
    x = np.array(data * 2, float).reshape(2, n) if axis else np.array(data, float)
    ranks = tuple(sorted({0, n // 2, n - 1}))
    found = host(argrank(ag.tensor(x), ranks))
    np.testing.assert_array_equal(found, np.argsort(x, axis=-1, kind="stable")[..., list(ranks)])


def test_median_of_infinities():
    assert E.median(ag.tensor([INF, INF])).item() == INF


def test_quantile_of_integers_and_of_a_tensor(backend, make):
    assert E.median(make([1, 2, 4, 5])).item() == 3.0
    levels = ag.asarray([0.0, 0.5], device=backend)
    assert E.quantile(make([1.0, 2.0, 4.0]), levels).tolist() == [1.0, 2.0]
    assert E.quantile(make([1.0, 2.0]), []).shape == (0,)
    with pytest.raises(RuntimeError, match="no derivative in q"):
        E.quantile(make([1.0]), levels.requires_grad_())


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(
    data=st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.5, -1.0, INF, NAN]), min_size=9, max_size=40),
    k=st.integers(0, 4),
    largest=st.booleans(),
)
def test_topk_is_part_of_a_stable_sort(data, k, largest):
    x = np.array(data)
    keys = [(-v if largest else v) if v == v else (-INF if largest else INF) for v in data]
    if largest:  # NaN counts as the largest: also before infinity
        keys = [(v == v, key) for v, key in zip(data, keys, strict=True)]
    else:
        keys = [(v != v, key) for v, key in zip(data, keys, strict=True)]
    wanted = sorted(range(len(data)), key=keys.__getitem__)[:k]
    assert E.topk(ag.tensor(x), k, largest=largest).indices.tolist() == wanted


# -- the rest ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=2),
    widths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=2),
    mode=st.sampled_from(["edge", "reflect", "symmetric", "wrap", "constant"]),
)
def test_pad_is_numpys(shape, widths, mode):
    x = np.arange(math.prod(shape)).reshape(shape)
    widths = widths[: len(shape)]
    found = host(E.pad(ag.tensor(x), widths, mode))
    np.testing.assert_array_equal(found, np.pad(x, widths, mode), strict=True)


@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)
def test_scatter_puts_the_last(make, backend, close):
    """Of several elements at one place the last counts, and gets the gradient."""
    x, s = make(np.zeros((2, 3)), requires_grad=True), make([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = E.scatter(x, 1, np.array([[0, 0], [2, 1]]), s)
    close(y, np.array([[2.0, 0.0, 0.0], [0.0, 4.0, 3.0]]))
    g, h = ag.autograd.grad(y, [x, s], ag.ones_like(y.detach()))
    close(g, np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]))
    close(h, np.array([[0.0, 1.0], [1.0, 1.0]]))


@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)
def test_scatter_takes_the_start_of_a_larger_source(make, close):
    """As PyTorch: the index says how much of the source is used; the rest gets no gradient."""
    index = np.array([[2, 0]])
    for function, old in ((E.scatter, 0.0), (E.scatter_add, 1.0)):
        x, s = make(np.ones((2, 3))), make(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
        y = function(x, 1, index, s)
        close(y, np.array([[2.0 + old, 1.0, 1.0 + old], [1.0, 1.0, 1.0]]))
        y.sum().backward()
        close(s.grad, np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_results_along_an_axis(make, close, name):
    values = np.array([[1.5, 2.0, 4.0], [5.0, 9.0, 0.5]])
    for axis in (0, 1, -1):
        close(getattr(E, name)(make(values), axis=axis), getattr(np, name)(values, axis=axis))
    found = getattr(E, name)(make(values), axis=1, dtype=ag.float32)
    close(found, getattr(np, name)(values, axis=1, dtype=np.float32), rtol=1e-6)


@pytest.mark.parametrize("backend", ["numpy"], indirect=True)  # array-api-strict takes no mean of integers
@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_deviations_of_integers(make, close, name):
    values = np.array([[1, 2, 4], [5, 9, 9]])
    for words in ({"axis": 1, "keepdims": True}, {"axis": 0}, {}):
        expected = getattr(np, name)(values, ddof=1, **words)
        close(getattr(E, name)(make(values), correction=1, **words), np.asarray(expected))


def test_scatter_of_a_number(make, close, numpy_backend):
    x = ag.zeros((2, 2))
    assert E.scatter(x, 0, [[1, 0]], 5.0).tolist() == [[0.0, 5.0], [5.0, 0.0]]


def test_topk_gives_indices(backend, make):
    values, indices = E.topk(make([[1.0, 3.0, 2.0], [3.0, 3.0, 0.0]], requires_grad=True), 2)
    assert values.tolist() == [[3.0, 2.0], [3.0, 3.0]]
    assert indices.tolist() == [[1, 2], [0, 1]]
    assert not indices.requires_grad


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0.0, 1.0, 2.5, 4.0], [4.0, 2.5, 1.0, 0.0], [1.0, 1.0]])
def test_digitize(bins, right, backend, make):
    x = np.array([[0.2, 6.4, 3.0], [1.0, -1.0, 2.5]])
    assert host(E.digitize(make(x), bins, right=right)).tolist() == np.digitize(x, bins, right=right).tolist()
    with pytest.raises(ValueError, match="monotonically"):
        E.digitize(make(x), [1.0, 0.0, 2.0])


def test_bincount(make, numpy_backend, strict_backend):
    for device in ("numpy", "strict"):
        x = ag.asarray(np.array([0, 2, 2, 5]), device=device)
        assert E.bincount(x).tolist() == [1, 0, 2, 0, 0, 1]
        assert E.bincount(x, minlength=8).tolist() == [1, 0, 2, 0, 0, 1, 0, 0]
        assert E.bincount(x[:0]).tolist() == []
        with pytest.raises(ValueError, match="non-negative"):
            E.bincount(ag.asarray(np.array([-1]), device=device))
        with pytest.raises(ValueError, match="below length=3"):
            E.bincount(x, length=3)


def test_bincount_on_a_lazy_backend(never_computes):
    import dask.array as da

    x = ag.asarray(da.from_array(np.array([0, 2, 2]), chunks=2))
    with pytest.raises(ag.UnsupportedOp, match="pass it as length="):
        E.bincount(x)
    assert E.bincount(x, length=3).shape == (3,)


@pytest.mark.parametrize("k", [-3, -1, 0, 2])
@pytest.mark.parametrize(("n", "m"), [(3, 3), (2, 4), (4, 2), (0, 2)])
def test_triangle_indices(n, m, k, backend):
    for ours, numpys in ((E.tril_indices, np.tril_indices), (E.triu_indices, np.triu_indices)):
        found = ours(n, k=k, m=m, device=backend)
        for f, e in zip(found, numpys(n, k=k, m=m), strict=True):
            np.testing.assert_array_equal(host(f), e)


def test_closeness(backend, make):
    a = np.array([1.0, 2.0, INF, INF, NAN, 1e10, 0.0, 1.0])
    b = np.array([1.000001, 2.1, INF, -INF, NAN, 1.00001e10, 1e-9, INF])
    for equal_nan in (False, True):
        found = E.isclose(make(a), make(b), equal_nan=equal_nan)
        assert found.tolist() == np.isclose(a, b, equal_nan=equal_nan).tolist()
    assert E.isclose(make([1, 5]), make([1, 6])).tolist() == [True, False]
    assert E.isclose(make([True, False]), make([True, True])).tolist() == [True, False]
    assert E.isclose(make([1 + 1j]), make([1 + 1.0000001j])).tolist() == [True]
    assert E.allclose(make([1.0, 2.0]), [1.0, 2.0 + 1e-9])
    assert not E.allclose(make([1.0, 2.0]), [1.0, 2.1])
    assert E.allclose(make([1.0, 2.0]), [1.0, 2.1], atol=0.2)
    assert E.array_equal(make([1, 2]), [1, 2])
    assert not E.array_equal(make([1, 2]), [1, 2, 3])
    assert not E.array_equal(make([NAN]), make([NAN]))
    assert E.array_equal(make([NAN]), make([NAN]), equal_nan=True)


def test_integers_stay_integers(backend, make):
    x = make([[1, 2], [3, 4]])
    for result, wanted in (
        (E.kron(x, [[1, 1]]), [[1, 1, 2, 2], [3, 3, 4, 4]]),
        (E.pad(x, ((0, 0), (1, 0)), constant_values=9), [[9, 1, 2], [9, 3, 4]]),
        (E.convolve(make([1, 2]), [1, 1]), [1, 3, 2]),
        (E.cumulative_max(make([1, 3, 2])), [1, 3, 3]),
        (E.fill_diagonal(x, 0), [[0, 2], [3, 0]]),
        (E.insert(make([1, 2]), 1, 5), [1, 5, 2]),
        (E.vander(make([2, 3])), [[2, 1], [3, 1]]),
    ):
        assert result.tolist() == wanted
        assert ag.isdtype(result.dtype, "integral")


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_differences_of_integers_do_not_wrap_around(dtype, close, numpy_backend):
    nine, five, places = (np.array(v, dtype) for v in ([9], [5], [9, 5, 200]))
    w = ag.tensor(0.25, requires_grad=True)
    close(E.lerp(nine, five, w).detach(), [8.0])
    close(ag.grad(E.lerp(nine, five, w).sum(), w)[0], -4.0)
    close(E.lerp(nine, five, 0.25), [8.0])
    close(E.lerp(1.0, 2.0, nine), [10.0])
    y = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    close(E.trapezoid(y, places).detach(), scipy.integrate.trapezoid([1.0, 2.0, 3.0], places.astype(float)))
    close(ag.grad(E.trapezoid(y, places), y)[0], [-2.0, 95.5, 97.5])
    close(E.cumulative_trapezoid(y, places).detach(), [-6.0, 481.5])
    close(ag.special.softplus(ag.asarray(nine)), np.logaddexp(0.0, [9.0]))


def test_cov_with_a_divisor_that_is_not_positive(close, numpy_backend):
    for correction in (2, 3):
        close(E.cov([1.0, 3.0], correction=correction), INF)
        with np.errstate(divide="ignore"):
            close(E.cov([1.0, 3.0], correction=correction, fweights=[1, 1]), INF)


def test_forward_mode_of_masks_and_picks():
    """What is picked by detached values still takes the tangents along."""
    x = ag.tensor([0.5, 4.0, 7.9, 1.0], requires_grad=True)
    for function in (E.unwrap, E.median, lambda x: E.topk(x, 2).values, lambda x: E.interp(x, [0.0, 9.0], [1.0, 3.0])):
        assert gradcheck(function, x, check_forward_ad=True, check_backward_ad=False)


# -- laziness ---------------------------------------------------------------------------------------------------------

#: The backward pass of what picks elements needs the values of its indices (see the tests of the backend).
COMPUTES = ("gather", "masked_select", "median", "percentile", "quantile", "scatter", "topk")


@pytest.mark.parametrize("case", list({c.split()[0]: c for c in CASES if not c.startswith(COMPUTES)}.values()))
def test_nothing_is_computed(case, never_computes):
    import dask.array as da

    function, _, arrays = CASES[case]
    leaves = [ag.asarray(da.from_array(a, chunks=3 if a.ndim else ())).requires_grad_() for a in arrays]
    results = [r for r in as_list(function(*leaves)) if r.requires_grad]
    gradients = ag.autograd.grad(results, leaves, [ag.ones_like(r.detach()) for r in results], allow_unused=True)
    assert all(isinstance(g._raw, da.Array) for g in gradients if g is not None)


# -- errors -----------------------------------------------------------------------------------------------------------

A, B = ag.tensor(M), ag.tensor(V)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: E.swapaxes(A, 0, 2), IndexError, "Dimension out of range"),
        (lambda: E.rot90(A, axes=(0, 0)), ValueError, "must be different"),
        (lambda: E.flatten(A, 1, 0), RuntimeError, "start_dim cannot come after"),
        (lambda: A.flatten(1, 0), RuntimeError, "start_dim cannot come after"),
        (lambda: A.flatten(5), IndexError, "Dimension out of range"),
        (lambda: A.flatten("Q"), ValueError, "order must be one of"),
        (lambda: E.unflatten(A, 1, (3, -1)), RuntimeError, "don't multiply up"),
        (lambda: E.hstack([]), ValueError, "non-empty"),
        (lambda: E.cat(A), TypeError, "list or tuple"),
        (lambda: E.split(A, 3, axis=1), ValueError, "array_split can"),
        (lambda: E.array_split(A, 0), ValueError, "larger than 0"),
        (lambda: E.vsplit(B, 1), ValueError, "2 or more dimensions"),
        (lambda: E.chunk(A, 0), RuntimeError, "greater than 0"),
        (lambda: E.delete(B, 9), IndexError, "index 9 is out of bounds"),
        (lambda: E.delete(B, [True]), ValueError, "mask of 1 elements"),
        (lambda: E.insert(B, 6, 1.0), IndexError, "index 6 is out of bounds"),
        (lambda: E.select([], []), ValueError, "same length"),
        (lambda: E.diag(ag.zeros((2, 2, 2))), RuntimeError, "Supports 1D or 2D"),
        (lambda: E.diag_embed(B, 0, 1, 1), RuntimeError, "cannot be identical"),
        (lambda: E.fill_diagonal(ag.zeros((2, 3, 2)), 0.0), ValueError, "one length"),
        (lambda: E.pad(A, 1, "linear_ramp"), ValueError, "'linear_ramp' is not supported"),
        (lambda: E.pad(A, -1), ValueError, "negative"),
        (lambda: E.pad(A, ((1, 1), (1, 1), (1, 1))), ValueError, "do not fit"),
        (lambda: E.pad(ag.zeros((0,)), 1, "edge"), ValueError, "can't extend empty axis 0"),
        (lambda: E.average(A, axis=1, weights=B), ValueError, "fit neither"),
        (lambda: E.quantile(A, 1.5), ValueError, r"range \[0, 1\]"),
        (lambda: E.percentile(A, 150), ValueError, r"range \[0, 100\]"),
        (lambda: E.quantile(A, 0.5, method="hazen"), ValueError, "'hazen' is not supported"),
        (lambda: E.median(ag.zeros((0,))), ValueError, "empty axis"),
        (lambda: E.median(ag.tensor([1j])), TypeError, "takes real numbers"),
        (lambda: E.cumulative_max(A), ValueError, "axis must be named"),
        (lambda: E.logcumsumexp(A), ValueError, "axis must be named"),
        (lambda: E.cov(A, aweights=[1.0]), ValueError, "must have the shape"),
        (lambda: E.cov(A, fweights=[1.0] * 4), TypeError, "must be integers"),
        (lambda: E.gradient(A, 1.0, 2.0, 3.0), TypeError, "3 spacings given for 2 axes"),
        (lambda: E.gradient(A, [1.0] * 3), TypeError, "one vector"),
        (lambda: E.gradient(B, [1.0, 2.0]), ValueError, "do not fit"),
        (lambda: E.gradient(ag.zeros((2,)), edge_order=2), ValueError, "shape too small"),
        (lambda: E.trapezoid(A, [1.0]), ValueError, "do not fit"),
        (lambda: E.cumulative_trapezoid(A, initial=1), ValueError, "must be 0 or None"),
        (lambda: E.interp(B, [1.0], [1.0, 2.0]), ValueError, "one length"),
        (lambda: E.polyval(A, B), ValueError, "must be a vector"),
        (lambda: E.convolve(A, B), ValueError, "two vectors"),
        (lambda: E.convolve(B, B, "some"), ValueError, "mode must be"),
        (lambda: E.vander(A), ValueError, "takes a vector"),
        (lambda: E.norm(ag.zeros((2, 2, 2)), 2), ValueError, "improper number of dimensions"),
        (lambda: E.norm(B, "fro", 0), ValueError, "invalid norm order"),
        (lambda: E.cdist(A, B), RuntimeError, "same number of columns"),
        (lambda: E.masked_fill(B, [1, 0, 1, 0, 1], 0.0), TypeError, "boolean masks"),
        (lambda: E.gather(A, 0, [0]), RuntimeError, "same number of dimensions"),
        (lambda: E.gather(A, 0, [[0] * 5]), RuntimeError, "Size does not match at dimension 1"),
        (lambda: E.scatter(A, 0, [[0, 1]], [[1.0]]), RuntimeError, "no larger than src"),
        (
            lambda: E.scatter(A, 0, [0], 1.0),
            RuntimeError,
            r"scatter\(\): Index tensor must have the same number of dim",
        ),
        (lambda: E.scatter(A, 0, [[0] * 5], 1.0), RuntimeError, r"scatter\(\): Size does not match at dimension 1"),
        (lambda: E.topk(B, 9), RuntimeError, "selected index k out of range"),
        (lambda: E.bincount(B), ValueError, "integral inputs"),
        (lambda: E.digitize(B, A), ValueError, "bins must be a vector"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_messages_name_the_line():
    with pytest.raises(ValueError, match="mode must be") as caught:
        E.convolve(B, B, "some")
    assert f"Called at {__file__}" in str(caught.value)


def test_every_function_is_reached_from_bound_namespaces(numpy_backend):
    xp = ag.namespace("numpy")
    for name in E.__all__:
        assert callable(getattr(xp.extra, name))
        assert getattr(E, name).__doc__
