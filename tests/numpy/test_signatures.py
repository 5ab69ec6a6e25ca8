"""Calls drawn at random: shapes, dtypes and values are NumPy's, and what NumPy refuses is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agrad as ag
import agrad.numpy as anp

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "complex64", "complex128"]
REAL = [d for d in DTYPES if not d.startswith("complex")]
SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)

quick = settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


@st.composite
def arrays(draw, shapes=SHAPES, dtypes=DTYPES, low=-4, high=4):
    shape, dtype = draw(shapes), draw(st.sampled_from(dtypes))
    if dtype.startswith(("u", "b")):
        low = 0
    size = int(np.prod(shape))
    values = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    array = np.array(values, dtype=dtype).reshape(shape)
    if array.dtype.kind in "fc":
        array = array / array.dtype.type(2)
    if array.dtype.kind == "c":
        array = array * array.dtype.type(1 - 0.5j)
    return array


def outcome(function, *args, **kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except (
            TypeError,
            ValueError,
            IndexError,
            OverflowError,
            ZeroDivisionError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            return error


def same(name, found, expected):
    """Compare one result with NumPy's."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(name, f, e)
        return
    expected = np.asarray(expected)
    value = found.detach().numpy() if isinstance(found, ag.Tensor) else np.asarray(found)
    assert value.shape == expected.shape, name
    assert value.dtype == expected.dtype, name
    single = expected.dtype in (np.float32, np.complex64, np.float16)
    np.testing.assert_allclose(
        value,
        expected,
        rtol=1e-2 if expected.dtype == np.float16 else 1e-4 if single else 1e-9,
        atol=1e-3 if single else 1e-9,
    )


def compare(name, args, kwargs, more=()):
    """Call a function of NumPy's on arrays and on tensors, by both doors."""

    def part(module):
        found = module
        for each in name.split("."):
            found = getattr(found, each)
        return found

    expected = outcome(part(np), *args, *more, **kwargs)
    tensors = [ag.asarray(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    for module in (np, anp):
        found = outcome(part(module), *tensors, *more, **kwargs)
        if isinstance(expected, Exception):
            assert isinstance(found, Exception), f"NumPy raises {expected!r}"
        else:
            assert not isinstance(found, Exception), f"{found!r}\n NumPy gives {expected!r}"
            same(name, found, expected)


axes = st.one_of(st.none(), st.integers(-3, 3), st.lists(st.integers(-3, 2), max_size=3).map(tuple))
BINARY = [
    *(
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "remainder",
        "fmod",
        "floor_divide",
        "maximum",
        "minimum",
        "fmax",
    ),
    *("fmin", "arctan2", "hypot", "copysign", "logaddexp", "heaviside", "float_power", "equal", "less", "logical_and"),
    *("logical_xor", "bitwise_and", "bitwise_xor", "gcd", "nextafter", "greater_equal", "not_equal", "divmod"),
]
UNARY = [
    *("negative", "absolute", "fabs", "sign", "rint", "floor", "ceil", "trunc", "sqrt", "exp", "log1p", "sin", "tanh"),
    *("arctan", "square", "reciprocal", "conjugate", "isfinite", "isnan", "logical_not", "signbit", "invert", "cbrt"),
    *("exp2", "deg2rad", "degrees", "positive", "expm1", "arcsinh", "cosh", "modf"),
]


@quick
@given(name=st.sampled_from(UNARY), x=arrays())
def test_unary_ufuncs(name, x):
    compare(name, [x], {})


@quick
@given(
    name=st.sampled_from(BINARY),
    x=arrays(),
    y=st.one_of(arrays(), st.integers(0, 3), st.sampled_from([0.5, -1.5, 2.0])),
    swap=st.booleans(),
)
def test_binary_ufuncs(name, x, y, swap):
    if name in ("fmax", "fmin", "maximum", "minimum", "sign"):  # complex numbers have no order here
        x, y = (v.real if isinstance(v, np.ndarray) else v for v in (x, y))
    compare(name, [y, x] if swap else [x, y], {})


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_ufuncs_of_pythons_numbers(name):
    count = 1 if name in UNARY else 2
    for values in ((2, 3), (2.5, 1.5), (True, False), (3, 0.5)):
        expected = outcome(getattr(np, name), *values[:count])
        found = outcome(getattr(anp, name), *values[:count])
        if isinstance(expected, Exception):
            assert isinstance(found, Exception)
        else:
            same(name, found, expected)


@quick
@given(
    name=st.sampled_from(["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "hypot", "subtract"]),
    method=st.sampled_from(["reduce", "accumulate", "outer"]),
    x=arrays(dtypes=REAL),
    axis=st.integers(-2, 2),
)
def test_methods_of_ufuncs(name, method, x, axis):
    compare(f"{name}.{method}", [x, x] if method == "outer" else [x], {} if method == "outer" else {"axis": axis})


@quick
@given(data=st.data())
def test_reductions(data):
    name = data.draw(
        st.sampled_from(
            [
                "sum",
                "prod",
                "max",
                "min",
                "mean",
                "std",
                "var",
                "any",
                "all",
                "ptp",
                "nansum",
                "nanmean",
                "nanmax",
                "count_nonzero",
            ]
        )
    )
    x = data.draw(arrays(dtypes=REAL if name in ("max", "min", "ptp", "nanmax") else DTYPES))
    kwargs = {}
    if data.draw(st.booleans()):
        kwargs["axis"] = data.draw(axes)
    if data.draw(st.booleans()):
        kwargs["keepdims"] = data.draw(st.booleans())
    if name in ("std", "var") and data.draw(st.booleans()):
        kwargs["ddof"] = data.draw(st.integers(0, 1))
    if name in ("sum", "prod", "max", "min", "mean", "any", "all") and data.draw(st.booleans()):
        kwargs["where"] = data.draw(arrays(shapes=st.just(x.shape), dtypes=["bool"], high=1))
    if name in ("sum", "prod", "max", "min") and data.draw(st.booleans()):
        kwargs["initial"] = data.draw(st.integers(0, 2))
    if name in ("sum", "prod", "mean") and data.draw(st.booleans()):
        kwargs["dtype"] = data.draw(st.sampled_from(["float32", "float64"]))
    compare(name, [x], kwargs)


@quick
@given(data=st.data())
def test_order_statistics(data):
    name = data.draw(
        st.sampled_from(
            [
                "median",
                "quantile",
                "nanmedian",
                "nanquantile",
                "sort",
                "argsort",
                "cumsum",
                "cumprod",
                "argmax",
                "diff",
                "unique",
                "partition",
            ]
        )
    )
    x = data.draw(arrays(dtypes=[d for d in REAL if d != "bool"]))
    kwargs = {}
    if name != "unique" and data.draw(st.booleans()):
        kwargs["axis"] = data.draw(st.integers(-2, 2))
    more = ()
    if "quantile" in name:
        more = (data.draw(st.sampled_from([0.25, 0.5, [0.0, 0.6], 1.0])),)
        kwargs["method"] = data.draw(st.sampled_from(["linear", "lower", "hazen", "weibull", "midpoint"]))
    if name == "partition":
        more = (0,)
        x = np.sort(x, axis=kwargs.get("axis", -1)) if x.ndim and -x.ndim <= kwargs.get("axis", -1) < x.ndim else x
    if name == "argsort":
        kwargs["kind"] = "stable"
    compare(name, [x], kwargs, more)


@quick
@given(data=st.data())
def test_shapes(data):
    x = data.draw(arrays())
    axis, other = data.draw(st.integers(-2, 2)), data.draw(st.integers(-2, 2))
    calls = {
        "reshape": ((data.draw(st.sampled_from([-1, (x.size,), (1, -1), (2, -1)])),), {"order": data.draw(st.sampled_from("CF"))}),
        "ravel": ((), {"order": data.draw(st.sampled_from("CFAK"[:2]))}),
        "transpose": ((), {}),
        "swapaxes": ((axis, other), {}),
        "moveaxis": ((axis, other), {}),
        "expand_dims": ((axis,), {}),
        "squeeze": ((), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "flip": ((), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "roll": ((data.draw(st.sampled_from([1, -2, (1, 2)])),), data.draw(st.sampled_from([{}, {"axis": axis}, {"axis": (0, 1)}]))),
        "repeat": ((data.draw(st.sampled_from([0, 2, [1, 2]])),), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "tile": ((data.draw(st.sampled_from([2, (2, 1), (1, 2, 2)])),), {}),
        "tril": ((axis,), {}),
        "diagonal": ((axis,), {}),
        "trace": ((axis,), {}),
        "rot90": ((data.draw(st.integers(-1, 3)),), {}),
        "atleast_2d": ((), {}),
        "atleast_3d": ((), {}),
        "take": ((data.draw(st.sampled_from([0, [0, -1], [[0], [0]]])),), data.draw(st.sampled_from([{}, {"axis": axis}, {"mode": "wrap"}]))),
        "delete": ((0,), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "insert": ((0, 1), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "pad": ((data.draw(st.sampled_from([1, (1, 0), ((2, 1),)])),), {"mode": data.draw(st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "mean", "linear_ramp"]))}),
        "clip": ((0, data.draw(st.sampled_from([1, 2.5, None]))), {}),
        "round": ((data.draw(st.integers(-1, 2)),), {}),
        "nan_to_num": ((), {}),
        "real": ((), {}),
        "imag": ((), {}),
        "angle": ((), {}),
        "array_split": ((2,), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "nonzero": ((), {}),
        "argwhere": ((), {}),
        "resize": (((2, 3),), {}),
        "astype": (("float32",), {}),
        "ones_like": ((), {}),
        "diff": ((), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "gradient": ((), data.draw(st.sampled_from([{}, {"axis": axis}]))),
        "trim_zeros": ((), {}),
        "append": ((2,), {}),
    }  # fmt: skip
    name = data.draw(st.sampled_from(sorted(calls)))
    more, kwargs = calls[name]
    if x.dtype == bool and name in ("gradient", "round", "insert", "clip"):  # refused by NumPy, in part
        x = x.astype("int8")
    compare(name, [x], kwargs, more)


@quick
@given(
    name=st.sampled_from(["dot", "inner", "outer", "kron", "matmul", "vdot", "tensordot", "where", "append", "isclose", "allclose", "array_equal", "isin", "vecdot"]),
    x=arrays(),
    y=arrays(),
    same_shape=st.booleans(),
)  # fmt: skip
def test_two_operands(name, x, y, same_shape):
    y = np.resize(y, x.shape) if same_shape else y
    more = () if name != "tensordot" else (1,)
    compare(name, [x > 0, x, y] if name == "where" else [x, y], {}, more)


@quick
@given(data=st.data())
def test_joining(data):
    parts = data.draw(st.lists(arrays(shapes=st.sampled_from([(2,), (2, 3), (1, 3)])), min_size=1, max_size=3))
    name = data.draw(st.sampled_from(["concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"]))
    kwargs = (
        data.draw(st.sampled_from([{}, {"axis": 0}, {"axis": 1}, {"axis": -1}]))
        if name in ("concatenate", "stack")
        else {}
    )
    expected = outcome(getattr(np, name), parts, **kwargs)
    for module in (np, anp):
        found = outcome(getattr(module, name), [ag.asarray(p) for p in parts], **kwargs)
        if isinstance(expected, Exception):
            assert isinstance(found, Exception)
        else:
            assert not isinstance(found, Exception), found
            same(name, found, expected)
