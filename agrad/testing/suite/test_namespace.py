"""The namespace as agrad uses it: functions without derivatives, promotion, dtypes, 0-d results, constants.

Expected values are plain Python numbers. Functions with a derivative are in `test_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import agrad as ag
from agrad.core.errors import UnsupportedOp
from agrad.testing.needs import of_dtype
from agrad.testing.suite.base import Conformance, named

A, B = [1, 5, 2, 5], [2, 5, 1, 0]
X, Y = [1.5, -2.0, 0.0, 3.0], [1.5, 2.0, -1.0, math.inf]
M = [[3, 1, 2], [9, 7, 8]]
LOST = [[1.0, math.nan], [2.0, 3.0]]

#: For each function: the call, and its result as (nested) lists; "shape" marks those whose shape depends on data.
CALLS: dict[str, tuple[Callable[..., Any], Any]] = {
    "equal": (lambda xp, t: xp.equal(t(A), t(B)), [False, True, False, False]),
    "not_equal": (lambda xp, t: xp.not_equal(t(A), t(B)), [True, False, True, True]),
    "less": (lambda xp, t: xp.less(t(X), t(Y)), [False, True, False, True]),
    "less_equal": (lambda xp, t: xp.less_equal(t(X), t(Y)), [True, True, False, True]),
    "greater": (lambda xp, t: xp.greater(t(X), t(Y)), [False, False, True, False]),
    "greater_equal": (lambda xp, t: xp.greater_equal(t(X), 0.0), [True, False, True, True]),
    "logical_and": (lambda xp, t: xp.logical_and(t([True, True]), t([True, False])), [True, False]),
    "logical_or": (lambda xp, t: xp.logical_or(t([False, True]), t([False, False])), [False, True]),
    "logical_xor": (lambda xp, t: xp.logical_xor(t([True, True]), t([True, False])), [False, True]),
    "logical_not": (lambda xp, t: xp.logical_not(t([True, False])), [False, True]),
    "bitwise_and": (lambda xp, t: xp.bitwise_and(t([6, 3]), t([3, 1])), [2, 1]),
    "bitwise_or": (lambda xp, t: xp.bitwise_or(t([6, 3]), t([3, 1])), [7, 3]),
    "bitwise_xor": (lambda xp, t: xp.bitwise_xor(t([6, 3]), t([3, 1])), [5, 2]),
    "bitwise_invert": (lambda xp, t: xp.bitwise_invert(t([0, 5])), [-1, -6]),
    "bitwise_left_shift": (lambda xp, t: xp.bitwise_left_shift(t([1, 3]), t([2, 1])), [4, 6]),
    "bitwise_right_shift": (lambda xp, t: xp.bitwise_right_shift(t([8, 5]), t([2, 1])), [2, 2]),
    "isfinite": (lambda xp, t: xp.isfinite(t(Y)), [True, True, True, False]),
    "isinf": (lambda xp, t: xp.isinf(t(Y)), [False, False, False, True]),
    "isnan": (lambda xp, t: xp.isnan(t([1.0, math.nan])), [False, True]),
    "signbit": (lambda xp, t: xp.signbit(t([1.0, -2.0])), [False, True]),
    "all": (lambda xp, t: xp.all(t([[True, False], [True, True]]), axis=1), [False, True]),
    "any": (lambda xp, t: xp.any(t([[False, False], [True, False]]), axis=1), [False, True]),
    "argmax": (lambda xp, t: xp.argmax(t(M), axis=1), [0, 0]),
    "argmin": (lambda xp, t: xp.argmin(t(M), axis=1), [1, 1]),
    "argmax of all": (lambda xp, t: xp.argmax(t(M)), 3),
    "argsort": (lambda xp, t: xp.argsort(t(M), axis=-1), [[1, 2, 0], [1, 2, 0]]),
    "argsort, falling": (lambda xp, t: xp.argsort(t(M), axis=1, descending=True), [[0, 2, 1], [0, 2, 1]]),
    "count_nonzero": (lambda xp, t: xp.count_nonzero(t([[0, 1], [2, 3]]), axis=0), [1, 2]),
    "searchsorted": (lambda xp, t: xp.searchsorted(t([1.0, 2.0, 3.0]), t([0.5, 2.0, 9.0])), [0, 1, 3]),
    "floor_divide": (lambda xp, t: xp.floor_divide(t([7, -7]), t([2, 2])), [3, -4]),
    "remainder": (lambda xp, t: xp.remainder(t([7, -7]), t([3, 3])), [1, 2]),
    "sum of integers": (lambda xp, t: xp.sum(t(M), axis=0), [12, 8, 10]),
    "max of integers": (lambda xp, t: xp.max(t(M), axis=1), [3, 9]),
    "sort of integers": (lambda xp, t: xp.sort(t(M), axis=1), [[1, 2, 3], [7, 8, 9]]),
    "sum of small integers": (lambda xp, t: xp.sum(t([100, 100, 100], "int8")), 300),
    "prod of small integers": (lambda xp, t: xp.prod(t([16, 16, 2], "uint8")), 512),
    "cumulative_sum of small integers": (lambda xp, t: xp.cumulative_sum(t([100, 100], "int8")), [100, 200]),
    "all of integers": (lambda xp, t: xp.all(t([[2, 1], [0, 3]]), axis=1), [True, False]),
    "any of integers": (lambda xp, t: xp.any(t([[0, 2], [0, 0]]), axis=1), [True, False]),
    "any, by two axes": (lambda xp, t: xp.any(t([[[0, 0], [0, 4]], [[0, 0], [0, 0]]]), axis=(0, 2)), [False, True]),
    "all of nothing": (lambda xp, t: xp.all(xp.zeros((0,), dtype="bool")), True),
    "any of nothing": (lambda xp, t: xp.any(xp.zeros((2, 0), dtype="bool"), axis=1), [False, False]),
    "sum of nothing": (lambda xp, t: xp.sum(xp.zeros((2, 0), dtype="float32"), axis=1), [0.0, 0.0]),
    "prod of nothing": (lambda xp, t: xp.prod(xp.zeros((0,), dtype="float32")), 1.0),
    "max, with NaN": (lambda xp, t: xp.isnan(xp.max(t(LOST), axis=1)), [True, False]),
    "min, with NaN": (lambda xp, t: xp.isnan(xp.min(t(LOST), axis=1)), [True, False]),
    "maximum, with NaN": (lambda xp, t: xp.isnan(xp.maximum(t(LOST[0]), t(LOST[0][::-1]))), [True, True]),
    "minimum, with NaN": (lambda xp, t: xp.isnan(xp.minimum(t(LOST[0]), t(LOST[0][::-1]))), [True, True]),
    "clip, with NaN": (lambda xp, t: xp.isnan(xp.clip(t(LOST), 0.0, 1.0)), [[False, True], [False, False]]),
    "sign, with NaN": (lambda xp, t: xp.isnan(xp.sign(t(LOST))), [[False, True], [False, False]]),
    "equal, with NaN": (lambda xp, t: xp.equal(t(LOST), t(LOST)), [[True, False], [True, True]]),
    "round to even": (lambda xp, t: xp.round(t([0.5, 1.5, 2.5, -1.5])), [0.0, 2.0, 2.0, -2.0]),
    "astype to integers": (lambda xp, t: xp.astype(t([1.7, -1.7, 0.0]), "int32"), [1, -1, 0]),
    "astype to booleans": (lambda xp, t: xp.astype(t([2, 0, -1]), "bool"), [True, False, True]),
    "log1p of little": (lambda xp, t: xp.log1p(t([2.0**-60])), [2.0**-60]),
    "expm1 of little": (lambda xp, t: xp.expm1(t([2.0**-60])), [2.0**-60]),
    "logaddexp of much": (lambda xp, t: xp.logaddexp(t([2.0**100]), t([0.0])), [2.0**100]),
    "hypot of much": (lambda xp, t: xp.hypot(t([2.0**100], "float32"), t([0.0], "float32")), [2.0**100]),
    "argsort of equals": (lambda xp, t: xp.argsort(t([1, 0, 1, 0])), [1, 3, 0, 2]),
    "argsort of equals, falling": (lambda xp, t: xp.argsort(t([1, 0, 1, 0]), descending=True), [0, 2, 1, 3]),
    "searchsorted, right": (lambda xp, t: xp.searchsorted(t([1.0, 2.0]), t([1.0, 2.0]), side="right"), [1, 2]),
    "isin": (lambda xp, t: xp.isin(t(A), t([5, 7])), [False, True, False, True]),
    "linalg.matrix_rank": (lambda xp, t: xp.linalg.matrix_rank(t([[1.0, 2.0], [2.0, 4.0]])), 1),
    "broadcast_arrays": (lambda xp, t: xp.broadcast_arrays(t([[1], [2]]), t([3, 4]))[0], [[1, 1], [2, 2]]),
}

#: As `CALLS`, with results whose shape depends on the data.
DATA_DEPENDENT: dict[str, tuple[Callable[..., Any], Any]] = {
    "nonzero": (lambda xp, t: xp.nonzero(t([0, 3, 0, 4]))[0], [1, 3]),
    "unique_values": (lambda xp, t: xp.sort(xp.unique_values(t(A))), [1, 2, 5]),
    "unique_counts": (lambda xp, t: xp.sort(xp.unique_counts(t(A)).counts), [1, 1, 2]),
    "unique_inverse": (lambda xp, t: xp.unique_inverse(t(A)).inverse_indices, [0, 2, 1, 2]),
    "unique_all": (lambda xp, t: xp.unique_all(t(A)).inverse_indices, [0, 2, 1, 2]),
}


def of(calls: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("call", calls)


class TestNamespace(Conformance):
    """The namespace as agrad uses it."""

    def check(self, calls: dict[str, tuple[Callable[..., Any], Any]], call: str) -> None:
        function, expected = calls[call]
        try:
            result = function(self.xp, self.tensor)
        except UnsupportedOp as error:
            self.lacking(error)
        assert result._spec.backend is self.backend
        self.check_spec(result, result._spec, "the result")
        assert self.host(result).tolist() == expected

    @of(CALLS)
    def test_without_derivative(self, call: str) -> None:
        """Functions without a derivative return the standard's results."""
        self.require(*(["linalg"] if call.startswith("linalg.") else []))
        self.require(*(["zero-size reductions"] if call.endswith("of nothing") else []))
        self.check(CALLS, call)

    @of(DATA_DEPENDENT)
    def test_shapes_of_data(self, call: str) -> None:
        """Functions whose result's shape depends on the data."""
        self.require("data-dependent shapes")
        self.check(DATA_DEPENDENT, call)

    @pytest.mark.parametrize(
        "dtype", ["bool", "int8", "int32", "int64", "uint8", "float32", "float64", "complex64", "complex128"]
    )
    def test_dtypes(self, dtype: str) -> None:
        """Each dtype by name, in the library's own form, and back; a tensor has the requested one."""
        self.require(*of_dtype(dtype))
        native = self.backend.dtype(dtype)
        assert self.backend.dtype_name(native) == dtype
        made = self.xp.zeros((2,), dtype=getattr(ag, dtype))
        assert made.dtype == native
        assert made.dtype == getattr(self.xp, dtype)
        assert self.host(made).dtype.name == dtype
        kind = "bool" if dtype == "bool" else "int" if "int" in dtype else "float" if "float" in dtype else "complex"
        assert self.backend.kind(native) == kind
        assert made._spec.inexact == (kind in ("float", "complex"))

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_half_precision(self, dtype: str) -> None:
        """A dtype beyond the standard: conversion and back, Python numbers next to it, promotion, and gradients."""
        self.require(dtype)
        native = self.backend.dtype(dtype)
        assert (self.backend.dtype_name(native), self.backend.kind(native)) == (dtype, "float")
        leaf = self.tensor([1.0, 2.5, -3.0], "float32", requires_grad=True)
        x = ag.astype(leaf, dtype)
        y = x * 2.0 + x * x
        assert self.backend.dtype_name(y.dtype) == dtype
        self.close(ag.astype(y.detach(), "float32"), [3.0, 11.25, 3.0], 0.0)
        assert (x + leaf).dtype == leaf.dtype
        by_x, by_leaf = ag.autograd.grad(y.sum(), [x, leaf])
        self.check_spec(by_x, x._spec, "the gradient")
        self.check_spec(by_leaf, leaf._spec, "the gradient through the cast")
        self.close(by_leaf, [4.0, 7.0, -4.0], 0.0)
        made = self.xp.ones((2,), dtype=dtype)
        assert self.backend.dtype_name(made.dtype) == dtype

    @pytest.mark.parametrize(
        ("dtype", "scalar", "expected"),
        [
            ("float32", 2.5, "float32"),
            ("float32", 2, "float32"),
            ("int32", 2, "int32"),
            ("int8", 2, "int8"),
            ("float32", 1j, "complex64"),
            ("float64", 2.5, "float64"),
            ("float64", 1j, "complex128"),
            ("complex64", 2.5, "complex64"),
            ("bool", True, "bool"),
        ],
    )
    def test_python_scalars(self, dtype: str, scalar: complex, expected: str) -> None:
        """A Python number takes the dtype of the array next to it, or the complex one of its precision."""
        for name in (dtype, expected):
            self.require(*of_dtype(name))
        x = self.tensor([1, 0], dtype)
        values: list[complex] = [True, False] if dtype == "bool" else [scalar, 0]
        result = ag.logical_and(x, scalar) if dtype == "bool" else x * scalar
        assert self.backend.dtype_name(result.dtype) == expected
        self.check_spec(result, result._spec, "the result")
        assert self.host(result).tolist() == values

    def test_promotion(self) -> None:
        """Two arrays have the promoted dtype of the standard's table."""
        table = [("int8", "int32", "int32"), ("uint8", "int8", "int16"), ("float32", "float32", "float32")]
        if self.real == "float64":
            table.append(("float32", "float64", "float64"))
        for first, second, expected in table:
            result = self.tensor([1, 2], first) + self.tensor([3, 4], second)
            found = self.backend.dtype_name(result.dtype)
            assert found == expected, f"{first} + {second} is {found}, expected {expected}"
            assert self.backend.dtype_name(self.xp.result_type(getattr(ag, first), getattr(ag, second))) == expected

    @pytest.mark.parametrize("call", ["max", "min", "argmax", "argmin"])
    def test_nothing_has_no_largest(self, call: str) -> None:
        """The maximum of no elements is an error, not a number."""
        self.require("zero-size reductions")
        with pytest.raises((ValueError, TypeError, IndexError, RuntimeError)):
            self.host(getattr(self.xp, call)(self.xp.zeros((0,), dtype="float32")))

    def test_results_of_no_axes_are_arrays(self) -> None:
        """Reductions and single elements are arrays of the library, not its scalar objects."""
        x = self.tensor([[1.0, 2.0], [3.0, 4.0]])
        kinds = type(x._raw)
        for what, made in {
            "sum": ag.sum(x),
            "element": x[0, 1],
            "max": ag.max(x),
            "sin": ag.sin(self.tensor(0.5)),
        }.items():
            assert made.shape == ()
            assert isinstance(made._raw, kinds), (
                f"{what} gives {named(type(made._raw), kinds)}, expected {named(kinds)}"
            )

    def test_python_numbers(self) -> None:
        """item(), float(), int(), bool() and tolist() return Python numbers."""
        assert self.tensor([[1.5, 2.0]]).tolist() == [[1.5, 2.0]]
        assert type(self.tensor([1.5]).tolist()[0]) is float
        assert type(self.tensor(3, "int64" if self.real == "float64" else "int32").item()) is int
        assert float(self.tensor(2.5)) == 2.5
        assert int(self.tensor(3, "int32")) == 3
        assert bool(self.tensor(True)) is True

    def test_complex_numbers(self) -> None:
        """item() of a complex array is a Python complex."""
        self.require("complex64")
        assert self.tensor(1.5 - 2j, "complex64").item() == 1.5 - 2j

    def test_constants_and_info(self) -> None:
        """Constants, and the properties of dtypes."""
        assert (self.xp.pi, self.xp.e, self.xp.newaxis) == (math.pi, math.e, None)
        assert self.xp.inf == math.inf
        assert self.xp.finfo(self.xp.float32).bits == 32
        assert self.xp.iinfo(self.xp.int32).max == 2**31 - 1
        assert self.xp.isdtype(self.xp.float32, "real floating")
        assert not self.xp.isdtype(self.xp.int32, "real floating")

    def test_array_namespace(self) -> None:
        """A tensor's ``__array_namespace__`` is agrad bound to the backend."""
        assert self.tensor([1.0]).__array_namespace__() is self.xp
        assert self.xp.zeros((2,)).device == self.backend.default_device()
