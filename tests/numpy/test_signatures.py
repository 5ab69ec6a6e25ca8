"""Calls drawn at random: shapes, dtypes and values are NumPy's, and what NumPy refuses is refused."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy_calls import CALLS, CONSTANTS, STEPS, calls, operands
from numpy_checks import done, on, run, used
from numpy_checks import value as on_host
from support import some_of

import agrad as ag
import agrad.numpy as anp
from agrad.numpy import reductions
from agrad.numpy.table import table
from agrad.numpy.ufuncs import ufunc

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


def same(name, found, expected, single=False):
    """Compare one result with NumPy's, to the digits of `single` precision perhaps."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(name, f, e, single)
        return
    expected = np.asarray(expected)
    value = on_host(found) if isinstance(found, ag.Tensor) else np.asarray(found)
    assert value.shape == expected.shape, name
    assert value.dtype == expected.dtype, name
    single = single or expected.dtype in (np.float32, np.complex64, np.float16)
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
TABLE = table()
UFUNCS = {entry.function.__name__: entry.function for entry in TABLE.values() if isinstance(entry.function, ufunc)}
UNARY = [name for name, f in UFUNCS.items() if f.nin == 1]
#: Those of whole axes, as matmul, are drawn below with shapes that fit.
BINARY = [name for name, f in UFUNCS.items() if f.nin == 2 and not f._core]
#: Of ldexp's reductions NumPy has loops of its own by the dtype of the exponent.
REDUCING = [name for name in BINARY if UFUNCS[name].nout == 1 and name != "ldexp"]
REDUCTIONS = [name for name, entry in TABLE.items() if getattr(entry.function, "__module__", "") == reductions.__name__]

#: Functions of complex numbers in NumPy's lexicographic order are refused, or left to the array library.
ORDERED = {"fmax", "fmin", "maximum", "minimum", "max", "amax", "min", "amin", "ptp", "median", "nanmax", "nanmin"}


@quick
@given(name=st.sampled_from(UNARY), x=arrays())
def test_unary_ufuncs(name, x):
    if name == "spacing" and x.dtype.itemsize == 1:  # of negative halves NumPy's is positive, against its own rule
        x = abs(x)
    compare(name, [x], {})


@quick
@given(
    name=st.sampled_from(BINARY),
    x=arrays(),
    y=st.one_of(arrays(), st.integers(0, 3), st.sampled_from([0.5, -1.5, 2.0])),
    swap=st.booleans(),
)
def test_binary_ufuncs(name, x, y, swap):
    if name in ORDERED:
        x, y = (v.real if isinstance(v, np.ndarray) else v for v in (x, y))
    swap = swap and name != "ldexp"  # whose Python number would take the dtype of an exponent
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
    name=st.sampled_from(REDUCING),
    method=st.sampled_from(["reduce", "accumulate", "outer", "reduceat"]),
    x=arrays(),
    axis=st.integers(-2, 2),
    dtype=st.sampled_from([None, None, "float32", "float64"]),
)
def test_methods_of_ufuncs(name, method, x, axis, dtype):
    if name in ORDERED:
        x = x.real
    if x.dtype == bool and getattr(outcome(getattr(np, name), x, x), "dtype", np.int8) != np.bool_:
        x = x.astype("int8")  # one truth value alone would be left as it is
    more = {"outer": (x,), "reduceat": ([0, 0],)}.get(method, ())
    kwargs = {} if method == "outer" else {"axis": axis, "dtype": dtype}
    compare(f"{name}.{method}", [x], kwargs, more)


@quick
@given(data=st.data())
def test_reductions(data):
    name = data.draw(st.sampled_from(REDUCTIONS))
    numbers = [d for d in DTYPES if d != "bool"] if "quantile" in name or "percentile" in name else DTYPES
    x = data.draw(arrays(dtypes=[d for d in numbers if d in REAL] if name in ORDERED else numbers))
    takes = inspect.signature(getattr(np, name)).parameters
    kwargs = {}
    if "axis" in takes and data.draw(st.booleans()):
        kwargs["axis"] = data.draw(axes)
    if "keepdims" in takes and data.draw(st.booleans()):
        kwargs["keepdims"] = data.draw(st.booleans())
    if "ddof" in takes and data.draw(st.booleans()):
        kwargs["ddof"] = data.draw(st.integers(0, 1))
    if "where" in takes and data.draw(st.booleans()):
        kwargs["where"] = data.draw(arrays(shapes=st.just(x.shape), dtypes=["bool"], high=1))
    if "initial" in takes and data.draw(st.booleans()):
        kwargs["initial"] = data.draw(st.sampled_from([0, 1, 2, 0.5]))
    if "dtype" in takes and data.draw(st.booleans()):
        kwargs["dtype"] = data.draw(st.sampled_from(["float32", "float64", "complex128"]))
    if "include_initial" in takes and data.draw(st.booleans()):
        kwargs["include_initial"] = True
    more = ({"quantile": 0.3, "percentile": 30}[name.removeprefix("nan")],) if "q" in takes else ()
    compare(name, [x], kwargs, more)


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


# -- every name that has a call ----------------------------------------------------------------------------------------

ROWS: dict[str, list[str]] = {}
for row, line in calls(CALLS + STEPS):
    ROWS.setdefault(row, []).append(line)
STEPPED = {line for _, line in calls(STEPS)}

LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "steps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
}

#: Values of keywords that a call is given beside its own, where NumPy's signature has them.
MORE = {"axis": ("-1", "0", "1"), "keepdims": ("True",), "dtype": ("'float32'", "'complex128'")}

#: Names of which only the layouts are drawn. The order of equal elements is open, and of equal absolute values (roots);
#: of polynomials NumPy drops leading zeros and imaginary parts by the values, which a shape or dtype here does not
#: depend on; a product with the transpose is Hermitian of real numbers alone; of complex values polyfit's covariance is
#: complex here.
PLAIN = {"argsort", "argpartition", "lexsort", "roots", "polymul", "polydiv", "poly", "linalg.cholesky", "polyfit"}

#: What is refused, although NumPy computes it, by the words of the error.
REFUSES = [
    "of complex numbers is not defined",  # NumPy's lexicographic order
    "takes real numbers",
    "ufunc 'fm(ax|in)' not supported for the input types: complex",
    "No loop matching .* for ufunc fm(ax|in)",
    "truth values",  # whose sums are disjunctions, whose differences are errors
    "numpy boolean (negative|subtract)",
    "can't be cast to the desired output type",  # a write that loses a part
    "Cannot cast ufunc 'absolute' input from .*complex(64|128)",  # to the dtype of the result
]
#: What array-api-strict refuses: operands of several kinds, and what the standard leaves out.
STRICT_REFUSES = [
    "Only .* dtypes? (is|are) allowed",
    "cannot be type promoted",
    "should not be permitted",
    "can only be promoted",
    "same device",
    "special.i0 is not",
]


def in_dtype(array, dtype):
    """Return an array in another dtype: floats as halves in integers, complex numbers only in complex ones."""
    if dtype.startswith(("int", "uint", "bool")):
        array = np.nan_to_num(array.real * 2)
        return (abs(array) if dtype == "uint8" else array).astype(dtype)
    return array if array.dtype.kind == "c" and dtype.startswith("float") else array.astype(dtype)


@st.composite
def drawn_calls(draw, name, dtypes):
    """Draw a call, perhaps with a keyword more, and its operands."""
    call = draw(st.sampled_from(ROWS[name]))
    tree = ast.parse(call, mode="eval").body
    if isinstance(tree, ast.Call) and name not in PLAIN and draw(st.booleans()):
        function = eval(ast.unparse(tree.func), {"np": np, "numpy": np, "done": done})
        takes = inspect.signature(function).parameters.keys() - {keyword.arg for keyword in tree.keywords}
        more = [f"{key}={each}" for key in MORE if key in takes for each in MORE[key]]
        call = f"{call[:-1]}, {draw(st.sampled_from(more))})" if more else call
    drawn = operands(np.random.default_rng(draw(st.integers(0, 1000))))
    values = {}
    for each in used(call):
        dtype = draw(st.sampled_from([None, None, None, *dtypes]))
        array = drawn[each] if dtype is None or name in PLAIN else in_dtype(drawn[each], dtype)
        # matrices stay regular, and places in rising order
        layouts = [k for k in LAYOUTS if k != "broadcast" or not (each in "mho" or name in PLAIN)]
        values[each] = LAYOUTS[draw(st.sampled_from(layouts))](array) if array.ndim else array
    return call, values


def slopes(call, found, values, leaves, backend):
    """Return a derivative in one direction, and the same by central differences."""
    rng = np.random.default_rng(1)

    def noise(array):
        return rng.normal(size=array.shape) + (1j * rng.normal(size=array.shape) if array.dtype.kind == "c" else 0)

    def flattened(result):
        return np.where(finite, result, 0)

    finite = np.isfinite(on_host(found))
    weight = np.asarray(noise(on_host(found)))
    # elements that are one in memory move together
    steps = {
        k: np.broadcast_to(noise(values[k])[:1], values[k].shape) if 0 in values[k].strides else noise(values[k])
        for k in leaves
    }
    total = ag.real(ag.sum(ag.where(on(backend, finite), found, 0.0) * on(backend, np.conj(weight))))
    grads = ag.autograd.grad(total, list(leaves.values()), allow_unused=True)
    ours = sum(
        np.nansum((np.where(np.isnan(values[k]), 0, on_host(grad)) * np.conj(steps[k])).real)
        for k, grad in zip(leaves, grads, strict=True)
        if grad is not None
    )

    def at(t):
        with np.errstate(all="ignore"):
            moved = run(call, np, CONSTANTS | values | {k: values[k] + t * step for k, step in steps.items()})
        return np.sum((flattened(moved) * np.conj(weight)).real)

    return ours, (at(1e-6) - at(-1e-6)) / 2e-6


def check_drawn(call, values, backend):
    expected = outcome(run, call, np, CONSTANTS | values)
    tensors = {k: on(backend, array) for k, array in (CONSTANTS | values).items()}
    leaves = {k: tensors[k].requires_grad_() for k in values if values[k].dtype in (np.float64, np.complex128)}
    with ag.use_backend(backend):
        found = outcome(run, call, anp, tensors)
    if isinstance(expected, Exception):
        assert isinstance(found, Exception), f"NumPy raises {expected!r}"
        return
    if isinstance(found, Exception):
        words = REFUSES + STRICT_REFUSES * (backend == "strict")
        assert any(re.search(each, str(found)) for each in words), f"{found!r}\n NumPy gives {expected!r}"
        return
    if call.startswith("np.unique_values"):  # in no order
        found, expected = anp.sort(found), np.sort(expected)
    same(call, found, expected, single=any(a.dtype in (np.float32, np.complex64) for a in values.values()))
    if (
        leaves
        and call not in STEPPED
        and np.asarray(expected).dtype in (np.float64, np.complex128)
        and found.requires_grad
    ):
        ours, slope = slopes(call, found, values, leaves, backend)
        assert ours == pytest.approx(slope, rel=1e-5, abs=1e-5)


#: On Dask some, which `test_calls.py` has all of.
ON_DASK = some_of([(name, "dask") for name in ROWS], 4)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # outside of domains, also in Dask's tasks
@pytest.mark.parametrize(
    ("name", "backend"), [*itertools.product(ROWS, ["numpy", "strict"]), *ON_DASK], indirect=["backend"]
)
def test_every_name(name, backend):
    exact = ["int64"] if backend == "strict" else ["int64", "int8", "uint8", "bool"]  # strict has no half precision

    @settings(quick, max_examples=2 if backend == "dask" else 3, phases=[Phase.generate])
    @given(drawn_calls(name, ["float32", "complex64", "complex128", *exact]))
    def drawn(row):
        check_drawn(*row, backend)

    drawn()
