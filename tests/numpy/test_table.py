"""The table has every public name of NumPy's, with NumPy's signature, and each is what it says it is."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys

import numpy as np
import pytest
from numpy_calls import CALLS, CONSTANTS, CREATIONS, OPERANDS, OWN_CALLS, STEPS, calls

import agrad as ag
import agrad.numpy as anp
from agrad.numpy import _DTYPES
from agrad.numpy.table import DIFFERENTIATED, LIBRARY, REFUSED, name_of, table

TABLE = table()
ROOMS = {"": np, "linalg.": np.linalg, "fft.": np.fft}
NAMES = [
    f"{room}{name}"
    for room, module in ROOMS.items()
    for name in dir(module)
    if not name.startswith("_") and callable(getattr(module, name)) and name not in (*_DTYPES, "LinAlgError")
    if not (room and name == "test") and name not in ("float128", "complex256", "float96", "complex192")  # by platform
]
NAMES += [f"lib.stride_tricks.{name}" for name in ("sliding_window_view", "as_strided")]

#: The release that the table is of: others have a few names more or fewer.
of_this_release = pytest.mark.skipif(not np.__version__.startswith("2.4."), reason="the table is of NumPy 2.4")


def numpys(name):
    return functools.reduce(getattr, name.split("."), np)


@of_this_release
@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_numpys_is_here(name):
    assert name in TABLE


@of_this_release
def test_nothing_else_is_here():
    objects = {"c_", "index_exp", "mgrid", "ogrid", "r_", "s_"}
    assert set(TABLE) - set(NAMES) <= objects
    assert not set(TABLE) & set(_DTYPES)


@of_this_release
@pytest.mark.parametrize("name", [n for n in NAMES if n in TABLE and TABLE[n].status not in (LIBRARY, REFUSED)])
def test_signatures_are_numpys(name):
    function, ours = numpys(name), TABLE[name].function
    if isinstance(function, type):
        return
    if isinstance(function, np.ufunc):
        assert (ours.nin, ours.nout) == (function.nin, function.nout)
        assert ours.identity == function.identity
        return
    expected, found = (inspect.signature(f) for f in (function, ours))
    for (a, x), (b, y) in zip(expected.parameters.items(), found.parameters.items(), strict=True):
        assert (a, x.kind) == (b, y.kind)
        if x.default is not y.default and not {a} <= {"axes", "period", "dtype", "nan"}:
            assert repr(x.default) == repr(y.default), a


def test_what_is_differentiated_is_called_with_derivatives():
    called = {
        TABLE[
            name.partition(".")[0] if name.count(".") == 1 and name.split(".")[0] not in ("linalg", "fft") else name
        ].function
        for name, _ in calls(CALLS + OWN_CALLS)
    }
    never = [name for name, entry in TABLE.items() if entry.status == DIFFERENTIATED and entry.function not in called]
    assert never == []


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.status == REFUSED])
def test_what_is_refused_says_what_to_write(name):
    with pytest.raises(TypeError, match=f"numpy.{name} is not defined for tensors; .{{10}}"):
        getattr(anp, name)(ag.ones(3))


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.status == LIBRARY])
def test_what_is_the_librarys(name):
    found, expected = getattr(anp, name), getattr(np, name)
    if name in ("finfo", "iinfo"):  # by way of array-api-compat
        assert (
            found("int8" if name == "iinfo" else "float32").max
            == expected("int8" if name == "iinfo" else "float32").max
        )
    else:
        assert found is expected


def test_functions_are_found_by_numpys_own():
    for name in NAMES:
        function = numpys(name)
        if hasattr(function, "_implementation"):
            found = TABLE.get(name_of(function))
            assert found is not None, name
            if name.rpartition(".")[2] == function.__name__:
                assert found.function is TABLE[name].function


def test_constants_are_numpys():
    for name in ("e", "euler_gamma", "inf", "nan", "newaxis", "pi", "False_", "True_"):
        assert repr(float(getattr(anp, name) or 0)) == repr(float(getattr(np, name) or 0))
    for name in _DTYPES:
        assert np.dtype(getattr(anp, name)) == np.dtype(getattr(np, name))


def test_the_module_imports_no_array_library():
    source = """
        import sys
        import agrad.numpy as np
        from agrad.numpy import linalg, fft, random
        dir(np), np.sum, np.pi
        print([m for m in sys.modules if m.partition(".")[0] in ("numpy", "dask", "cupy")])
        np.zeros(3)
        print("numpy" in sys.modules)
    """
    import textwrap

    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue\n"


def test_agrad_does_not_fill_the_table():
    source = """
import sys, agrad
print(*sorted(m for m in sys.modules if m.startswith("agrad.numpy")), "numpy" in agrad.__all__, len(agrad.numpy.table._entries))
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "agrad.numpy agrad.numpy.protocol agrad.numpy.table False 0\n"


def test_arrays_are_of_the_modules_class():
    assert isinstance(ag.ones(2), anp.ndarray)
    assert isinstance(np.ones(2), anp.ndarray)
    assert not isinstance(np.float64(1.0), anp.ndarray)
    assert not isinstance([1.0], anp.ndarray)
    assert anp.ndarray((2, 3)).shape == (2, 3)


#: What `agrad.extra` and `agrad.numpy` have both.
TWICE = [name for name in ag.extra.__all__ if name in TABLE and name not in ("cumprod", "cumsum", "fill_diagonal")]


def run_of(call):
    """Give the functions of agrad.ops.extra that run in a call of NumPy's names."""
    names = {name: ag.asarray(value) for name, value in (OPERANDS | CONSTANTS).items()}
    seen = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("agrad.ops.extra"):
            seen.add(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        eval(call, {"np": anp, **names})
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize("name", TWICE)
def test_what_two_doors_have_is_defined_once(name):
    """But for cumsum and cumprod, which are the standard's functions in both, and for fill_diagonal: a copy, or in place."""
    function = getattr(anp, name)
    if isinstance(function, anp.ufunc):
        assert function._function is getattr(ag.extra, name)
        return
    found = [call for _, call in calls(CALLS + OWN_CALLS + STEPS + CREATIONS) if f"np.{name}(" in call]
    found += [f"np.{name}(x, y)"] if name in ("allclose", "array_equal") else []
    assert any(map(run_of, found)), found
