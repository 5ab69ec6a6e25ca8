"""What is inferred beside the samples of the kit: Python numbers, keys, unknown lengths, refusals, own kernels, promotion."""

from __future__ import annotations

import importlib
import itertools
import math

import array_api_strict
import numpy as np
import pytest

import agrad as ag
from agrad.dtypes import name_of
from agrad.program.inference import infer
from agrad.program.outlines import FUNCTIONS, LINALG, Outline, namespace, result_type

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float32", "float64", "complex64", "complex128")


def spec(*shape, dtype="float64"):
    return ag.zeros(shape, dtype=dtype)._spec


def shapes(*found):
    return [(one.shape, str(one.dtype)) for one in found]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(DTYPES, DTYPES)))
def test_promotion_is_numpys(first, second):
    wanted = np.result_type(np.dtype(first), np.dtype(second))
    assert result_type(first, second) == wanted
    try:
        strict = array_api_strict.result_type(getattr(array_api_strict, first), getattr(array_api_strict, second))
    except TypeError:
        return  # the standard leaves it open
    assert result_type(first, second).name == name_of(strict)


@pytest.mark.parametrize("number", [True, 2, 2.5, 1j])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_give_way(dtype, number):
    assert result_type(dtype, number) == np.result_type(np.zeros(1, dtype), number)
    if dtype != "bool":
        (found,) = infer("add", (spec(2, dtype=dtype), number))
        assert found.dtype == (ag.zeros(2, dtype=dtype) + number).dtype


KEYS = [
    *(1, -1, slice(1), slice(None, None, -2), ..., None, (0, 2), (..., 0), (None, 1), (slice(1), None, ..., -1)),
    *(np.asarray([2, 0]), (np.asarray([[2], [0]]), slice(1, 3)), (0, np.asarray([1, 1]), 0), (slice(None), [0, 1], 0)),
    *(([0], slice(None), [[1], [0]]), (0, slice(None), [1, 0]), (..., np.asarray([1, 0]), None), [True, False, True]),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys_are_numpys(key):
    array = np.zeros((3, 4, 2))
    wanted = array[tuple(key) if isinstance(key, tuple) else key].shape
    (found,) = infer("getitem", (spec(3, 4, 2), key))
    assert len(found.shape) == len(wanted)
    assert all(one == n or math.isnan(one) for one, n in zip(found.shape, wanted, strict=True))


def test_unknown_lengths_stay_unknown():
    x = ag.Backend.spec(ag.namespace("numpy")._backend, np.zeros((2, 3)))
    unknown = type(x)(x.backend, (math.nan, 3), x.dtype, x.device)
    (total,) = infer("sum", (unknown,), {"axis": 1})
    (product,) = infer("matmul", (unknown, spec(3, 4)))
    assert math.isnan(total.shape[0])
    assert math.isnan(product.shape[0])
    assert product.shape[1] == 4
    (found,) = infer("nonzero", (spec(4),))
    assert math.isnan(found.shape[0])
    assert found.dtype == "int64"


REFUSED = [
    ("add", (spec(2), spec(3)), ValueError),
    ("matmul", (spec(2, 3), spec(2, 3)), ValueError),
    ("reshape", (spec(2, 3), (4,)), ValueError),
    ("broadcast_to", (spec(2, 3), (2, 4)), ValueError),
    ("sum", (spec(2),), IndexError),
    ("getitem", (spec(2), 5), IndexError),
    ("setitem", (spec(3), slice(2), spec(3)), ValueError),
    ("no such thing", (spec(2),), KeyError),
    ("add", (1.0, 2.0), ValueError),
]


@pytest.mark.parametrize(("op", "arguments", "error"), REFUSED, ids=[op for op, _, _ in REFUSED])
def test_what_does_not_go_together_is_an_error(op, arguments, error):
    with pytest.raises(error):
        infer(op, arguments, {"axis": 1} if op == "sum" else None)


def test_values_are_not_there():
    for ask in (bool, float, int, list, np.asarray):
        with pytest.raises(TypeError, match="depends on values"):
            ask(Outline((2,), "float64"))
    importlib.import_module("agrad.scipy.linalg")
    assert infer("scipy.logm", (spec(2, 2),)) is None


@ag.elementwise(name="inferred.halves", x=lambda xp, x: 0.5, kernel=lambda xp, x: xp.multiply(x, 0.5))
def halves(x, /):
    """Give x / 2."""


@ag.elementwise(name="inferred.mantissa", x=lambda xp, x: 0.5, kernel=lambda xp, x: np.frexp(x)[0])
def mantissa(x, /):
    """Give what NumPy alone has."""


def test_an_operation_of_ones_own():
    assert shapes(*infer("inferred.halves", (spec(2, dtype="float32"),))) == [((2,), "float32")]
    assert infer("inferred.mantissa", (spec(2),)) is None


def test_a_backend_that_knows_better(monkeypatch):
    x = spec(2)
    monkeypatch.setattr(type(x.backend), "infer", lambda self, op, arguments, parameters: [spec(7)], raising=True)
    assert shapes(*infer("sin", (x,))) == [((7,), "float64")]


def test_the_namespace_is_the_standards():
    every = {name for name in array_api_strict.__all__ if callable(getattr(array_api_strict, name))}
    every = {name for name in every if name.islower() and not name.startswith(("__", "set_", "get_", "reset_"))}
    missing = every - set(FUNCTIONS) - {"from_dlpack", "unique_all", "vecdot"} - set(dir(namespace()))
    assert missing <= {"bool", "array_api_strict", *DTYPES, "array_api_strict_flags", "ArrayAPIStrictFlags"}, missing
    assert not set(array_api_strict.linalg.__all__) - set(LINALG) - {"linalg"}


@pytest.mark.parametrize(("op", "operands", "parameters", "shape"), [
    ("scipy.solve_sylvester", ((2, 3, 3), (2, 2), (3, 2)), {}, (2, 3, 2)),
    ("scipy.solve_banded", ((4, 3, 5), (5, 2)), {"l": 1, "u": 1}, (4, 5, 2)),
])  # fmt: skip
def test_stacks_of_equations_meet_one_right_side(op, operands, parameters, shape):
    importlib.import_module("agrad.scipy.linalg")
    assert shapes(*infer(op, [spec(*one) for one in operands], parameters)) == [(shape, "float64")]
