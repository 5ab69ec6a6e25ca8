"""No keyword of NumPy's is ever ignored: each is what NumPy makes of it, or refused by its name."""

from __future__ import annotations

import ast
import inspect
import warnings

import numpy as np
import pytest
from numpy_calls import (
    CALLS,
    CONSTANTS,
    CREATIONS,
    KEYWORD_CALLS,
    KEYWORD_CREATIONS,
    KEYWORD_STEPS,
    OPERANDS,
    OWN_CALLS,
    OWN_KEYWORD_CALLS,
    STEPS,
    calls,
)
from numpy_checks import check, check_steps, on, run, used, value

import agrad as ag
import agrad.numpy as anp
from agrad.numpy.table import CREATION, DIFFERENTIATED, STEP, table
from agrad.numpy.ufuncs import ufunc

TABLE = table()
FOLLOWED = [call for _, call in calls(KEYWORD_CALLS)]
OWN = [call for _, call in calls(OWN_KEYWORD_CALLS)]
STEPPED = [call for _, call in calls(KEYWORD_STEPS)]
MADE = [call for _, call in calls(KEYWORD_CREATIONS)]
EVERY = [
    call
    for text in (CALLS, OWN_CALLS, STEPS, CREATIONS, KEYWORD_CALLS, OWN_KEYWORD_CALLS, KEYWORD_STEPS, KEYWORD_CREATIONS)
    for _, call in calls(text)
]


@pytest.mark.parametrize("call", FOLLOWED)
def test_numpys_functions(call):
    check(call, np, "numpy")


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("call", FOLLOWED + OWN)
def test_the_modules(call, backend):
    check(call, anp, backend)


@pytest.mark.parametrize("call", FOLLOWED + OWN)
def test_on_strict(call, strict_backend):
    lacks = {"CONST": "same device", "np.intersect1d": "in isin", "np.setdiff1d": "in isin", "np.setxor1d": "in isin"}
    words = next((words for part, words in lacks.items() if part in call), None)
    if words is None:
        check(call, anp, strict_backend)
        return
    with pytest.raises((TypeError, ag.BackendError), match=words):  # NumPy's array; a set of floats
        check(call, anp, strict_backend)


@pytest.mark.parametrize("call", STEPPED)
def test_numpys_functions_without_a_derivative(call):
    check_steps(call, np, "numpy")


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("call", STEPPED)
def test_the_modules_without_a_derivative(call, backend):
    check_steps(call, anp, backend)


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("call", MADE)
def test_what_makes_arrays(call, backend):
    check_steps(call, anp, backend)


# -- none is left out --------------------------------------------------------------------------------------------------

#: Keywords that change no value, whatever they are.
NO_EFFECT = {
    "assume_unique": "a promise by which NumPy saves a pass",
    "cache": "nothing is called beforehand",
    "copy": "see test_copies",
    "device": "see test_places",
    "doc": "a text",
    "kind": "see test_sorting.py",
    "like": "see test_places",
    "max_work": "an effort",
    "order": "the layout in memory, or refused where it is the name of a field",
    "out": "see test_out",
    "overwrite_input": "an operand that may be spoiled: it is not",
    "sorted": "values are sorted",
    "stable": "see test_sorting.py",
    "subok": "there are no subclasses",
}

#: By function: keywords without effect there.
NO_EFFECT_THERE = {
    ("einsum_path", "optimize"): "einsum plans by itself",
    ("ascontiguousarray", "dtype"): "see OWN_KEYWORD_CALLS",
    ("histogram_bin_edges", "weights"): "NumPy looks at them for no rule that takes them",
}

#: What is refused, with what the message says.
REFUSED = {
    "np.quantile(x, 0.5, weights=p, method='inverted_cdf')": "weights=",
    "np.percentile(x, 50, weights=p, method='inverted_cdf')": "weights=",
    "np.nanquantile(x, 0.5, weights=p, method='inverted_cdf')": "weights=",
    "np.nanpercentile(x, 50, weights=p, method='inverted_cdf')": "weights=",
    "np.quantile(x, 0.5, method='inverted_cdf')": "method='inverted_cdf'",
    "np.unique(x, axis=0)": "axis=",
    "np.sort(x, order='f')": "order=",
    "np.argsort(x, order='f')": "order=",
    "np.partition(x, 0, order='f')": "order=",
    "np.argpartition(x, 0, order='f')": "order=",
    "np.array_repr(s, max_line_width=5)": "options",
    "np.array_repr(s, precision=5)": "options",
    "np.array_repr(s, suppress_small=True)": "options",
    "np.array_str(s, max_line_width=5)": "options",
    "np.array_str(s, precision=5)": "options",
    "np.array_str(s, suppress_small=True)": "options",
    "np.vectorize(abs, signature='(n)->(n)')": "signature=",
    "np.ndarray((2,), buffer=x)": "memory",
    "np.array([[1.0, 2.0]], ndmax=1)": "ndmax=",
    "np.einsum_path('ij->i', x, einsum_call=True)": "einsum_call=",
    "np.sort(x, kind='fast')": "kind",
    "np.lib.stride_tricks.sliding_window_view(x, 2, 0, writeable=True)": "writeable=",
    "np.reshape(x, -1, 'Z')": "order must be one of",
}

#: Of what gives no array: by call what NumPy gives.
ANSWERS = """
allclose: np.allclose(x, x + 0.01, rtol=0.9); np.allclose(x, x + 0.01, atol=0.1); np.allclose(n, n, equal_nan=True); np.allclose(x, x + 0.01)
array_equal: np.array_equal(n, n, equal_nan=True); np.array_equal(n, n); np.array_equiv(x, x)
size: np.size(x, axis=1); np.size(x); np.size(x, axis=(0, 1)); np.ndim(x); np.shape(c)
can_cast: np.can_cast("float64", "float32", casting="same_kind"); np.can_cast("float64", "float32"); np.can_cast("float64", "int8", "unsafe"); np.can_cast("int8", "int16", "no")
unique: len(np.unique_all(i)); len(np.unique(i, True, True, True))
meshgrid: len(np.meshgrid(v, w, copy=False)); len(np.broadcast_arrays(x, v, subok=True))
"""


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.parametrize("backend", ["numpy", "dask"])
def test_what_is_refused_is_named(call, backend):
    operands = {name: on(backend, array) for name, array in OPERANDS.items()}
    with pytest.raises((TypeError, ValueError), match=REFUSED[call]):
        run(call, anp, operands)


@pytest.mark.parametrize("call", [call for _, call in calls(ANSWERS)])
@pytest.mark.parametrize("backend", ["numpy", "dask"])
def test_answers(call, backend):
    operands = {name: on(backend, array) for name, array in (CONSTANTS | OPERANDS).items()}
    assert run(call, anp, operands) == run(call, np, CONSTANTS | OPERANDS)


def dotted(node):
    """Return the name of what is called, None if it is not NumPy's."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(parts[::-1]) if isinstance(node, ast.Name) and node.id == "np" else None


def called(node):
    """Return the function of the table that a call calls, its bound arguments, and how many others come first."""
    skipped = int(isinstance(node.func, ast.Name) and node.func.id == "done")
    name = dotted(node.args[0] if skipped else node.func)
    function = TABLE[name].function if name in TABLE else None
    if function is None or isinstance(function, ufunc) or not callable(function):
        return None
    try:
        bound = inspect.signature(function).bind(*node.args[skipped:], **{k.arg: k.value for k in node.keywords})
    except TypeError:  # a call of a class of the table's, by what it makes
        return None
    return function, bound.arguments, skipped


def without(call, node, parameter, skipped):
    """Return a call without one of its arguments; those behind it by keyword."""
    tree = ast.parse(call, mode="eval")
    each = next(k for k in ast.walk(tree) if isinstance(k, ast.Call) and ast.dump(k) == ast.dump(node))
    names = list(inspect.signature(called(node)[0]).parameters)[: len(each.args) - skipped]
    each.keywords = [k for k in each.keywords if k.arg != parameter]
    if parameter in names:
        at = names.index(parameter)
        behind = zip(names[at + 1 :], each.args[skipped + at + 1 :], strict=True)
        each.args = each.args[: skipped + at]
        each.keywords += [ast.keyword(name, argument) for name, argument in behind]
    return ast.unparse(ast.fix_missing_locations(tree))


def outcome(call):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(call, np, CONSTANTS | OPERANDS)
        except (TypeError, ValueError, IndexError) as error:
            return str(error)


def alike(a, b):
    if isinstance(a, str) or isinstance(b, str):
        return type(a) is type(b) and a == b
    if isinstance(a, tuple | list) or isinstance(b, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def test_every_keyword_is_in_a_call_that_it_changes():
    """To ignore a keyword would give another result than NumPy's in some call that is checked above."""
    told = set()
    for call in EVERY + [call for _, call in calls(ANSWERS)]:
        for node in (n for n in ast.walk(ast.parse(call)) if isinstance(n, ast.Call)):
            found = called(node)
            if found is None:
                continue
            function, arguments, skipped = found
            for parameter in arguments:
                default = inspect.signature(function).parameters[parameter].default
                if default is inspect.Parameter.empty or (function, parameter) in told:
                    continue
                if not alike(outcome(call), outcome(without(call, node, parameter, skipped))):
                    told.add((function, parameter))
    for call in REFUSED:
        node = ast.parse(call).body[0].value
        function, arguments, _ = called(node)
        told.update((function, parameter) for parameter in arguments)
    untold = [
        (name, parameter)
        for name, entry in TABLE.items()
        if entry.status in (DIFFERENTIATED, STEP, CREATION) and inspect.isfunction(entry.function)
        for parameter, each in inspect.signature(entry.function).parameters.items()
        if each.default is not inspect.Parameter.empty and parameter not in NO_EFFECT
        if (name, parameter) not in NO_EFFECT_THERE and (entry.function, parameter) not in told
    ]
    assert not untold, untold


# -- out=, device=, like=, copy= ---------------------------------------------------------------------------------------


def with_out():
    """Return for each function with ``out=`` a call of it, by its name."""
    found = {}
    for call in EVERY:
        node = ast.parse(call, mode="eval").body
        if isinstance(node, ast.Call) and dotted(node.func) in TABLE:
            name = dotted(node.func)
            entry = called(node)
            if entry is not None and "out" in inspect.signature(entry[0]).parameters and "out" not in entry[1]:
                made = ast.parse(call, mode="eval")
                made.body.keywords.append(ast.keyword("out", ast.Name("target")))
                found.setdefault(name, (call, ast.unparse(ast.fix_missing_locations(made))))
    return found


OUTS = with_out()


def test_out_of_every_function_is_tried():
    functions = {TABLE[name].function for name in OUTS}
    missing = [
        name
        for name, entry in TABLE.items()
        if inspect.isfunction(entry.function) and "out" in inspect.signature(entry.function).parameters
        if entry.function not in functions
    ]
    assert missing == []


@pytest.mark.parametrize("name", OUTS)
@pytest.mark.parametrize("module", [np, anp], ids=["numpy", "module"])
def test_out(name, module):
    call, to_target = OUTS[name]
    expected = np.asarray(run(call, np, CONSTANTS | OPERANDS))
    followed = {each: on("numpy", array) for each, array in CONSTANTS.items()}
    followed |= {each: on("numpy", OPERANDS[each]).requires_grad_() for each in used(call)}
    target = ag.zeros(expected.shape, dtype=expected.dtype.name)
    found = run(to_target, module, CONSTANTS | OPERANDS | followed | {"target": target})
    assert found is target
    np.testing.assert_allclose(value(found), expected, rtol=1e-6, atol=1e-12)
    assert target.requires_grad == run(call, module, CONSTANTS | OPERANDS | followed).requires_grad
    for wrong, words in ((np.zeros_like(expected), "out= takes a tensor"), (ag.zeros((7, 7, 7)), "wrong shape")):
        with pytest.raises((TypeError, ValueError), match=words):
            run(to_target, module, CONSTANTS | OPERANDS | followed | {"target": wrong})


def test_places():
    for make in (
        lambda **kw: anp.zeros(2, **kw),
        lambda **kw: anp.full(2, 1.0, **kw),
        lambda **kw: anp.eye(2, **kw),
        lambda **kw: anp.arange(2.0, **kw),
        lambda **kw: anp.asarray([1.0], **kw),
    ):
        assert make(device="dask").device == "dask"
        assert make(like=ag.zeros(1, device="dask")).device == "dask"
        assert make(device="cpu").device == "numpy"
        with pytest.raises(ag.BackendError, match="nowhere"):
            make(device="nowhere")
    for make in (
        lambda **kw: anp.identity(2, **kw),
        lambda **kw: anp.tri(2, **kw),
        lambda **kw: anp.array([1.0], **kw),
        lambda **kw: anp.ascontiguousarray([1.0], **kw),
        lambda **kw: anp.fromiter([1.0], float, **kw),
        lambda **kw: anp.fromfunction(lambda i: i, (2,), **kw),
    ):
        assert make(like=ag.zeros(1, device="dask")).device == "dask"
    x = ag.ones(2)
    for make in (anp.zeros_like, anp.ones_like, anp.empty_like, lambda x, **kw: anp.full_like(x, 2.0, **kw)):
        assert make(x, device="dask").device == "dask"
        assert make(ag.ones(2, device="dask")).device == "dask"
    for make in (anp.linspace, anp.logspace, anp.geomspace):
        assert "device" not in inspect.signature(make).parameters or make(1, 2, 3, device="dask").device == "dask"
    assert anp.linspace(ag.tensor(1.0), 2, 3, device="dask").device == "dask"
    assert anp.fft.fftfreq(4, device="dask").device == anp.fft.rfftfreq(4, device="dask").device == "dask"
    assert anp.astype(x, "float32", device="dask").device == "dask"


def test_copies():
    x = ag.ones(2)
    assert anp.asarray(x) is anp.array(x, copy=False) is anp.array(x, copy=None) is anp.astype(x, "float64", copy=False)
    for made in (
        anp.array(x),
        anp.asarray(x, copy=True),
        anp.copy(x),
        anp.astype(x, "float64"),
        anp.reshape(x, 2, copy=True),
    ):
        made[0] = 5.0
        assert x.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="avoid copy"):
        anp.array(x, "float32", copy=False)
    with pytest.raises(ValueError, match="avoid creating a copy"):
        anp.reshape(ag.ones(2, 3), -1, "F", copy=False)
    y = ag.tensor([1.0, float("nan")])
    assert anp.nan_to_num(y).tolist() == [1.0, 0.0]
    assert anp.nan_to_num(y, copy=False) is y
    assert y.tolist() == [1.0, 0.0]


# -- ufuncs ------------------------------------------------------------------------------------------------------------

UFUNCS = [name for name, entry in TABLE.items() if isinstance(entry.function, ufunc)]
MASK = CONSTANTS["b"]
P, I = OPERANDS["p"] / 2.2, CONSTANTS["i"]
SQUARE = np.array([[2.0, 1.0, 0.5], [0.3, 1.5, 0.2], [0.1, 0.4, 1.2]])


def operands_of(function):
    name = function.__name__
    if name in ("matmul", "matvec", "vecmat", "vecdot"):
        return (SQUARE, SQUARE)
    if name in ("invert", "bitwise_count", "gcd", "lcm", "left_shift", "right_shift") or name.startswith("bitwise"):
        return (I, I[::-1].copy())[: function.nin]
    if name == "arccosh":
        return (P + 1,)
    if name == "ldexp":
        return (P, I)
    return (P, P[::-1].copy())[: function.nin]


#: What each keyword is tried with; `filled` stands for a tensor or array of the result's kind.
GENERIC = {
    "dtype": [{"dtype": "float32"}, {"dtype": "complex128"}, {"dtype": "int64"}, {"dtype": "bool"}],
    "casting": [
        {"dtype": "float32", "casting": rule} for rule in ("no", "equiv", "safe", "same_kind", "unsafe")
    ] + [{"dtype": "int16", "casting": "unsafe"}],
    "where": [{"where": True}, {"where": MASK, "out": "filled"}, {"where": np.array([True, False, True, True]), "out": "filled"}],
    "out": [{"out": "filled"}, {"out": "filled", "casting": "no"}, {"out": "single"}, {"out": "single", "casting": "safe"}],
    "signature": [{"signature": "dd->d"}],
    "order": [{"order": "F"}],
    "subok": [{"subok": False}],
    "nonsense": [{"nonsense": 1}],
}  # fmt: skip


def tried(call, operands, keywords, wrap):
    """Return what a ufunc gives, or what it raises; `filled` and `single` become arrays or tensors."""
    keywords = dict(keywords)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if "out" in keywords:
                plain = call(*operands)
                parts = plain if isinstance(plain, tuple) else (plain,)
                kind = {"filled": lambda d: d, "single": lambda d: "float32"}[keywords["out"]]
                outs = tuple(wrap(np.full(p.shape, 7, kind(np.asarray(p).dtype))) for p in parts)
                keywords["out"] = outs if len(outs) > 1 else outs[0]
            return call(*map(wrap, operands), **keywords)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            return error


@pytest.mark.parametrize("name", UFUNCS)
def test_keywords_of_ufuncs(name):
    theirs = getattr(np, name)
    operands = operands_of(theirs)
    for each in (keywords for group in GENERIC.values() for keywords in group):
        expected = tried(theirs, operands, each, lambda a: a)
        for call in (theirs, getattr(anp, name)):
            if theirs.signature is not None and each == {"where": True}:  # which NumPy refuses too
                continue
            found = tried(call, operands, each, lambda a: ag.asarray(a))
            if isinstance(found, Exception):
                allowed = isinstance(expected, Exception) or "signature" in each or "can't be cast" in str(found)
                assert allowed or "dtype" in each, (each, found)
                continue
            assert not isinstance(expected, Exception), (each, f"NumPy raises {expected!r}", found)
            for f, e in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True):
                assert f.dtype == e.dtype, each
                np.testing.assert_allclose(f.numpy(), e, rtol=1e-5, err_msg=str(each))


@pytest.mark.parametrize("name", ["matmul", "matvec", "vecmat"])
@pytest.mark.parametrize("keywords", [{"axis": 0}, {"keepdims": True}])
def test_products_that_combine_no_single_axis_alone_take_axes(name, keywords):
    operands = operands_of(getattr(np, name))
    for call in (getattr(np, name), getattr(anp, name)):
        with pytest.raises(TypeError, match=r"axis|keepdims"):
            call(*map(ag.asarray, operands) if call is getattr(anp, name) else operands, **keywords)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_xor", "left_shift"])
def test_integers_that_a_dtype_does_not_hold_are_refused(name):
    for dtype, other in (("int8", 300), ("int8", -129), ("int64", 2**63), ("uint8", -1)):
        x = np.array([1, 2], dtype=dtype)
        for library, given in ((np, x), (anp, ag.asarray(x))):
            with pytest.raises(
                OverflowError, match=f"{other} out of bounds for {dtype}|too large to convert to C long"
            ):
                getattr(library, name)(given, other)


@pytest.mark.parametrize("name", ["less", "equal", "logical_and", "logical_or"])
@pytest.mark.parametrize("method", ["reduce", "accumulate"])
def test_comparisons_are_combined_as_booleans_alone(name, method):
    x = np.array([True, False, True])
    for library, given in ((np, x), (anp, ag.asarray(x))):
        with pytest.raises(TypeError, match="No loop matching the specified signature"):
            getattr(getattr(library, name), method)(given, dtype="float64")


# -- methods and bound namespaces --------------------------------------------------------------------------------------

#: By name of a method of ndarray's: arguments. What tensors and namespaces do not take raises, by the keyword's name.
METHODS = {
    "all": ["axis=0, keepdims=True", "where=b", "out=flag"],
    "any": ["axis=0, keepdims=True", "where=b", "out=flag"],
    "argmax": ["axis=0, keepdims=True", "out=place"],
    "argsort": ["axis=0, kind='stable'"],
    "astype": ["'float32', casting='same_kind'"],
    "clip": ["min=-0.5", "max=0.5", "-0.5, 0.5, out=same"],
    "cumprod": ["axis=0, dtype='float32'", "axis=0, out=same"],
    "cumsum": ["axis=0, dtype='float32'", "axis=0, out=same"],
    "max": ["initial=9.0", "out=one", "where=b, initial=-9.0", "axis=1, keepdims=True"],
    "mean": ["dtype='float32'", "where=b", "out=one", "axis=(0, 1), keepdims=True"],
    "min": ["initial=-9.0", "out=one", "where=b, initial=9.0"],
    "prod": ["dtype='float32'", "initial=2.0", "where=b", "out=one"],
    "ravel": ["order='F'"],
    "reshape": ["(4, 3), order='F'"],
    "round": ["decimals=1", "decimals=1, out=same"],
    "std": ["dtype='float32'", "where=b", "out=one", "ddof=1", "mean=0.5"],
    "sum": ["dtype='float32'", "initial=2.0", "where=b", "out=one", "axis=(0, 1), keepdims=True"],
    "take": ["[0, 9], axis=1, mode='clip'", "[0, 1], axis=1"],
    "trace": ["offset=1", "dtype='float32'", "out=one"],
    "var": ["dtype='float32'", "where=b", "out=one", "ddof=1", "mean=0.5"],
}


@pytest.mark.parametrize("call", [f"{name}({text})" for name, texts in METHODS.items() for text in texts])
@pytest.mark.parametrize("door", ["method", "namespace"])
def test_methods_and_namespaces_ignore_none(call, door):
    shapes = {"one": ((), float), "same": ((3, 4), float), "flag": ((), bool), "place": ((), np.int64)}

    def given(wrap):
        made = {name: wrap(np.zeros(shape, dtype)) for name, (shape, dtype) in shapes.items()}
        return made | {"b": wrap(MASK), "x": wrap(OPERANDS["x"]), "xp": ag.namespace("numpy")}

    expected = eval(f"x.{call}", given(lambda a: a.copy()))
    text = f"x.{call}" if door == "method" else f"xp.{call.replace('(', '(x, ', 1)}"
    try:
        found = eval(text, given(ag.asarray))
    except TypeError as error:
        words = str(error)
        assert "unexpected keyword argument" in words
        assert words.split("'")[1] in call  # by name
        return
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
