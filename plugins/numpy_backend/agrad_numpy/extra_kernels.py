"""Kernels of the NumPy backend for the functions beyond the standard, where NumPy has a faster way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad_numpy.kernels import in_single


def _axis_of(axis: int | None, x: Any) -> int:
    """The axis counted from the front; a 1-d operand need not name it."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"axis must be named for an operand of {x.ndim} axes")
    return 0 if axis is None else axis % x.ndim


def _running(ufunc: Any) -> Callable[..., Any]:
    def kernel(x: Any, /, *, axis: int | None = None) -> Any:
        return ufunc.accumulate(x, axis=_axis_of(axis, x))

    return kernel


@in_single
def _logcumsumexp(x: Any, /, *, axis: int | None = None) -> Any:
    return np.logaddexp.accumulate(x, axis=_axis_of(axis, x))


def _latest(mask: Any, axis: int) -> Any:
    """Return for each position the latest true one."""
    n = mask.shape[axis]
    lines = np.arange(n).reshape(tuple(-1 if i == axis else 1 for i in range(mask.ndim)))
    return np.maximum.accumulate(np.where(mask, lines, 0), axis=axis)


def _held(x: Any, mask: Any, /, *, axis: int) -> Any:
    axis %= x.ndim
    return np.take_along_axis(x, _latest(mask, axis), axis=axis)


def _gathered(x: Any, mask: Any, /, *, axis: int) -> Any:
    """Sums of runs; summed in double precision."""
    axis %= x.ndim
    n = x.shape[axis]
    if not x.size:
        return np.zeros_like(x)
    lines = np.moveaxis(_latest(mask, axis), axis, -1).reshape(-1, n)
    places = lines + n * np.arange(len(lines))[:, None]
    moved = np.moveaxis(x, axis, -1)
    sums = np.bincount(places.ravel(), weights=moved.ravel(), minlength=x.size)
    return np.moveaxis(sums.reshape(moved.shape).astype(x.dtype, copy=False), -1, axis)


#: Up to this many ranks are found by partition; more, by sorting.
FEW = 8


def _argrank(x: Any, /, ranks: tuple[int, ...]) -> Any:
    """Partition, if it finds the same elements as a stable sort: no element of these ranks has an equal."""
    n = x.shape[-1]
    if len(ranks) <= FEW and 2 * len(ranks) < n and x.size:
        places = np.argpartition(x, ranks, axis=-1)[..., list(ranks)]
        values = np.take_along_axis(x, places, axis=-1)
        if all(np.count_nonzero(x == values[..., i, None]) == x.size // n for i in range(len(ranks))):
            return places
    return np.argsort(x, axis=-1, kind="stable")[..., list(ranks)]


def _argtop(x: Any, /, k: int, largest: bool) -> Any:
    """Partition, if no element beyond those found equals the last of them."""
    n = x.shape[-1]
    if k > 0 and FEW * k < n and x.size:
        places = np.argpartition(x, n - k if largest else k - 1, axis=-1)
        places = np.sort(places[..., n - k :] if largest else places[..., :k], axis=-1)
        values = np.take_along_axis(x, places, axis=-1)
        last = (np.fmin if largest else np.fmax).reduce(values, axis=-1, keepdims=True)
        if np.all(last == last) and np.count_nonzero(x == last) == np.count_nonzero(values == last):  # noqa: PLR0124
            return np.take_along_axis(places, _argsort(values, largest), axis=-1)
    return _argsort(x, largest)[..., :k]


def _argsort(x: Any, descending: bool) -> Any:
    """Stable also in descending order."""
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]


def _convolve_full(x1: Any, x2: Any, /) -> Any:
    return np.convolve(x1, x2)


def _correlate_valid(x: Any, weights: Any, /) -> Any:
    return np.correlate(x, weights.conj() if weights.dtype.kind == "c" else weights, "valid")


#: By the op's name.
EXTRA_KERNELS: dict[str, Callable[..., Any]] = {
    "extra.argrank": _argrank,
    "extra.argtop": _argtop,
    "extra.convolve_full": _convolve_full,
    "extra.correlate_valid": _correlate_valid,
    "extra.cumulative_max": _running(np.maximum),
    "extra.cumulative_min": _running(np.minimum),
    "extra.gathered": _gathered,
    "extra.held": _held,
    "extra.logcumsumexp": _logcumsumexp,
}
