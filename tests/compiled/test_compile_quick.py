"""Which calls of compiled functions go the quick way, and that it means the same: counted, and compared with the function."""

from __future__ import annotations

import gc
import math
import warnings
import weakref

import numpy as np
import pytest

import agrad as ag
from agrad.compiled import lookup as quick
from agrad.compiled.compiling import CompiledFunction


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def general(monkeypatch):
    """Note the calls that go the general way."""
    calls = []
    key = CompiledFunction._key

    def noted(self, *args):
        calls.append(self)
        return key(self, *args)

    monkeypatch.setattr(CompiledFunction, "_key", noted)
    return calls


def arrays(i=0):
    return [np.array([1.0, 2.0, 3.0]) + i, np.array([[0.5], [-1.0]]) * (i + 1), np.array(2.0 + i)]


def tensors(i=0):
    return [ag.asarray(a) for a in arrays(i)]


def parameter(i=0):
    return ag.nn.Parameter(ag.asarray(arrays(i)[0]))


def plain(value):
    """Return results as NumPy's, with their classes."""
    leaves, treedef = ag.tree.flatten(value)
    found = []
    for x in leaves:
        raw = x.detach().numpy() if isinstance(x, ag.Tensor) else x
        followed = isinstance(x, ag.Tensor) and x.requires_grad
        found.append((type(x), followed, repr(raw.tolist() if isinstance(raw, np.ndarray) else raw)))
    return found, str(treedef)


def leaves_of(value):
    if not isinstance(value, dict | list | tuple):
        return [value]
    return [leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in leaves_of(part)]


def of_all(*args, scale=1.0, **more):
    leaves = leaves_of([args, more])
    total = 0.0
    for x in leaves:
        if not isinstance(x, str | None):
            total = total + (ag.sum(x) if hasattr(x, "shape") else x)
    return total * scale, [ag.asarray(x) * 2.0 for x in leaves if hasattr(x, "shape")]


#: Arguments, made for a number: positional ones and keywords.
QUICK = {
    "tensors": lambda i: (tensors(i), {}),
    "arrays": lambda i: (arrays(i), {}),
    "an array and a tensor": lambda i: ([arrays(i)[0], tensors(i)[1]], {}),
    "a 0-d array": lambda i: ([arrays(i)[2]], {}),
    "a list of tensors": lambda i: ([tensors(i)], {}),
    "a list of arrays": lambda i: ([arrays(i)], {}),
    "a tuple of arrays": lambda i: ([tuple(arrays(i))], {}),
    "a list of one array": lambda i: ([arrays(i)[:1]], {}),
    "a dict of tensors": lambda i: ([dict(zip("bac", tensors(i), strict=True))], {}),
    "a dict of arrays": lambda i: ([dict(zip("bac", arrays(i), strict=True))], {}),
    "lists in a dict": lambda i: ([{"b": arrays(i), "a": (tensors(i)[0], None)}], {}),
    "empty containers": lambda i: ([arrays(i)[0], [], (), {}, ()], {}),
    "None, and values": lambda i: ([tensors(i)[0], None, 3, True, "text"], {}),
    "keywords": lambda i: ([tensors(i)[0]], {"y": arrays(i)[1], "x": tensors(i)[2]}),
    "keywords alone": lambda i: ([], {"b": tensors(i)[0], "a": tensors(i)[1]}),
    "a float": lambda i: ([tensors(i)[0], 0.5 + i], {}),
    "floats and arrays": lambda i: ([arrays(i)[0], 0.5 + i], {"scale": 2.0 - i}),
    "a parameter": lambda i: ([parameter(i), tensors(i)[0]], {}),
    "strided, read-only": lambda i: (
        [np.arange(12.0).reshape(3, 4).T[1:] + i, np.broadcast_to(arrays(i)[0], (2, 3))],
        {},
    ),
    "integers and booleans": lambda i: ([np.arange(3) + i, np.array([True, False])], {}),
    "nothing": lambda i: ([], {}),
}


@pytest.mark.parametrize("mode", [None, ag.no_grad, ag.inference_mode], ids=["usual", "no_grad", "inference"])
@pytest.mark.parametrize("name", QUICK)
def test_goes_the_quick_way(name, mode, general):
    def run(f, i):
        args, kwargs = QUICK[name](i)
        if mode is None:
            return f(*args, **kwargs)
        with mode():
            return f(*args, **kwargs)

    compiled = ag.compile(of_all, check=False)
    for i in range(3):
        run(compiled, i)
    before = len(general)
    for i in range(3, 8):
        found = run(compiled, i)
        assert len(general) == before
        eager = run(ag.compile(of_all, disable=True), i)
        if raw(QUICK[name](i)):
            eager = ag.tree.map(lambda x: x if not isinstance(x, ag.Tensor) else x.numpy()[()], eager)
        assert plain(found) == plain(eager)
    assert len(compiled.programs) == 1


def raw(call):
    leaves = ag.tree.flatten(call)[0]
    return any(isinstance(x, np.ndarray | float) for x in leaves) and not any(isinstance(x, ag.Tensor) for x in leaves)


def test_modes_are_told_apart(general):
    x = ag.asarray([1.0, 2.0], requires_grad=True)
    compiled = ag.compile(lambda x: (x * 2.0, ag.is_grad_enabled(), ag.is_inference_mode_enabled()), check=False)
    eager = compiled.function
    for _ in range(4):
        assert plain(compiled(x)) == plain(eager(x))
        for mode in (ag.no_grad, ag.inference_mode, ag.enable_grad):
            with mode():
                assert plain(compiled(x)) == plain(eager(x))
    before = len(general)
    with ag.no_grad():
        compiled(x)
    assert len(general) == before


def test_tensors_that_require_a_gradient_are_told_apart():
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    for _ in range(3):
        for requires in (False, True):
            assert compiled(ag.ones(3, requires_grad=requires)).requires_grad is requires
            assert compiled(ag.nn.Parameter(ag.ones(3), requires_grad=requires)).requires_grad is requires


def test_shapes_and_dtypes_are_told_apart():
    compiled = ag.compile(lambda x: (x * 2, x.shape[0]), check=False)
    for _ in range(4):
        for x in (np.ones(3), np.ones(4), np.ones(3, "f4"), np.arange(3), np.ones((3, 1)), np.ones(3, ">f8")[::-1]):
            found, count = compiled(x)
            np.testing.assert_array_equal(found, x * 2)
            assert (found.shape, found.dtype.name, count) == ((x * 2).shape, (x * 2).dtype.name, len(x))


#: Pairs of calls of which the first is known when the second comes.
APART = {
    "a value's class": ([ag.ones(2), 1], [ag.ones(2), True]),
    "an int and a float": ([ag.ones(2), 1], [ag.ones(2), 1.0]),
    "-0.0 in a list": ([ag.ones(2), [0.0]], [ag.ones(2), [-0.0]]),
    "-0.0": ([ag.ones(2), 0.0], [ag.ones(2), -0.0]),
    "NaN": ([ag.ones(2), 1.0], [ag.ones(2), math.nan]),
    "a list and a tuple": ([[ag.ones(2)]], [(ag.ones(2),)]),
    "a container and what is in it": ([ag.ones(2)], [[ag.ones(2)]]),
    "how much a list has": ([[ag.ones(2)] * 1], [[ag.ones(2), ag.ones(2)]]),
    "an empty list and none": ([ag.ones(2), []], [ag.ones(2), None]),
    "keys": ([{"a": ag.ones(2)}], [{"b": ag.ones(2)}]),
    "an array and a tensor": ([np.ones(2)], [ag.ones(2)]),
    "an array and a scalar": ([np.array(2.0)], [np.float64(2.0)]),
    "an array and a short scalar": ([np.array(2.0, "f4")], [np.float32(2.0)]),
    "a subclass": ([ag.ones(2)], [ag.nn.Parameter(ag.ones(2))]),
    "text and bytes": ([ag.ones(2), "a"], [ag.ones(2), b"a"]),
}


def told(*args):
    def of(x):
        if isinstance(x, list | tuple):
            return [type(x).__name__, *map(of, x)]
        if isinstance(x, dict):
            return [f"{key}={of(each)}" for key, each in x.items()]
        if isinstance(x, ag.Tensor):
            return "tensor"
        if isinstance(x, float):
            return f"float {math.copysign(1.0, x)} {math.isnan(x)}"
        return f"{type(x).__name__} {x!r}"

    return str(of(args)), [x * 1 for x in ag.tree.flatten(args)[0] if isinstance(x, ag.Tensor)]


def told_eagerly(args):
    given = [ag.asarray(x) if isinstance(x, np.ndarray) or type(x) is np.float32 else x for x in args]
    text, found = told(*given)
    return text, [x.detach().numpy().tolist() for x in found]


@pytest.mark.parametrize("name", APART)
def test_told_apart(name):
    one, other = APART[name]
    compiled = ag.compile(told, check=False)
    for args in (one, one, one, other, one, other, other, one):
        text, found = compiled(*args)
        assert (text, [ag.asarray(x).detach().numpy().tolist() for x in found]) == told_eagerly(args)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("make", [lambda: ag.ones(2), lambda: np.ones(2), lambda: [ag.ones(2)]])
def test_one_array_in_several_places(make, first):
    def f(x, y):
        x, y = (x[0], y[0]) if isinstance(x, list) else (x, y)
        return [x + y, x.sum() * 2.0]

    compiled = ag.compile(f, check=False)
    for same in (first, first, first, not first, not first, first, not first):
        x = make()
        y = x if same else make()
        total, double = compiled(x, y)
        np.testing.assert_array_equal(np.asarray(total), [2.0, 2.0])
        assert float(double) == 4.0


def test_a_tensor_that_is_written_to_and_its_alias():
    def f(x, y):
        x += 1.0
        return y * 2.0

    compiled = ag.compile(f, check=False)
    for same in (False, False, False, True, True, False):
        x = ag.ones(2)
        y = x if same else ag.ones(2)
        np.testing.assert_array_equal(compiled(x, y).numpy(), [4.0, 4.0] if same else [2.0, 2.0])
        np.testing.assert_array_equal(x.numpy(), [2.0, 2.0])


def test_an_array_and_a_tensor_of_it(general):
    a = np.array([1.0, 2.0])
    compiled = ag.compile(lambda x, y: x * y, check=False)
    for _ in range(4):
        np.testing.assert_array_equal(compiled(a, ag.ones(2)).numpy(), a)
    before = len(general)
    np.testing.assert_array_equal(compiled(a, ag.asarray(a)).numpy(), a * a)
    assert len(general) > before


def test_the_default_dtype_is_asked_for():
    compiled = ag.compile(lambda x: x * ag.ones(2), check=False)
    x = ag.ones(2, dtype="float32")
    try:
        for name in ("float32", "float64", "float32", "float64", "float32"):
            ag.set_default_dtype(name)
            for _ in range(3):
                assert compiled(x).dtype == name
    finally:
        ag.set_default_dtype("float64")


def test_transforms_around(general):
    compiled = ag.compile(lambda x: (x * x).sum(), check=False)
    x = np.array([1.0, 2.0])
    for _ in range(4):
        compiled(x)
    before = len(general)
    np.testing.assert_array_equal(ag.func.grad(compiled)(x), 2 * x)
    np.testing.assert_array_equal(ag.func.vmap(compiled)(np.stack([x, x])), [5.0, 5.0])
    assert ag.func.jvp(compiled, (x,), (x,))[1] == 10.0
    assert len(general) > before
    assert isinstance(compiled(x), np.floating)


def test_a_profiler_sees_operations():
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    x = ag.ones(2)
    for _ in range(4):
        compiled(x)
    with ag.profile() as seen:
        compiled(x)
    assert "mul" in str(seen)


def test_part_of_another_program():
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    x = ag.ones(2)
    for _ in range(4):
        compiled(x)
    program = ag.func.capture(lambda x: compiled(x) + 1.0)(x)
    np.testing.assert_array_equal(program(ag.ones(2) * 3.0).numpy(), [7.0, 7.0])


def test_arrays_that_are_refused_are_refused():
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    for _ in range(4):
        compiled(np.ones(2))
    for array in (np.array([1, None], dtype=object), np.array(["a", "b"])):
        with pytest.raises(TypeError):
            compiled(array)


def test_arrays_that_their_backend_would_convert_go_the_general_way(general):
    class Matrix(np.ndarray):
        pass

    compiled = ag.compile(lambda x: x * 2.0, check=False)
    given = [np.ones(2), np.ones(2).view(Matrix), np.float32(3.0), np.float64(3.0)]
    for x in given * 3:
        np.testing.assert_array_equal(compiled(x), x * 2.0)
    before = len(general)
    for x in given[1:]:
        compiled(x)
    assert len(general) == before + 3
    assert compiled._quick.find((np.ma.masked_array([1.0, 2.0], [True, False]),), {}) == ()


def test_results_are_the_caller_s_own():
    w = ag.asarray([1.0, 2.0])
    compiled = ag.compile(lambda x: (x, x * 2.0, w * 1.0, x[:1], x * 2.0 + 0.0, 3), check=False)
    x = np.array([1.0, 2.0])
    for _ in range(5):
        found = compiled(x)
        for array in found[:-1]:
            assert type(array) is np.ndarray
            array[...] += 5.0
        np.testing.assert_array_equal(x, [1.0, 2.0])
        np.testing.assert_array_equal(w.numpy(), [1.0, 2.0])
        assert found[-1] == 3
        np.testing.assert_array_equal(found[1], [7.0, 9.0])


def test_a_fresh_result_is_not_copied(monkeypatch):
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    x = np.arange(3.0)
    for _ in range(4):
        compiled(x)
    from agrad.compiled import results as giving

    monkeypatch.setattr(giving, "copied", None)  # would fail
    np.testing.assert_array_equal(compiled(x), x * 2.0)


def test_what_is_forgotten_is_forgotten(general):
    compiled = ag.compile(lambda x: x * 2.0, check=False)
    for _ in range(4):
        compiled(np.ones(2))
    kept = weakref.ref(compiled._cached[next(iter(compiled._cached))][0])
    compiled.clear()
    gc.collect()
    assert kept() is None
    assert compiled.programs == []
    for i in range(4):
        np.testing.assert_array_equal(compiled(np.ones(2) * i), np.ones(2) * 2.0 * i)
    assert len(compiled.programs) == 1


def test_programs_go_with_their_function_at_once():
    compiled = ag.compile(lambda x: [x * 2.0, x + 1.0], check=False)
    for _ in range(4):
        compiled(np.ones(2))
    forms = [weakref.ref(form) for found in compiled._quick._forms.values() for form in found]
    gc.collect()
    gc.disable()
    try:
        del compiled
        assert [form() for form in forms] == [None]
    finally:
        gc.enable()


def test_many_kinds_of_calls_are_bounded():
    compiled = ag.compile(lambda *args: args[0] * 2.0, check=False)
    for size in range(1, quick.SIGNATURES + 10):
        for _ in range(2):
            np.testing.assert_array_equal(compiled(np.ones(size)), np.full(size, 2.0))
    for i in range(2 * quick.FORMS):
        for _ in range(2):
            compiled(np.ones(2), *[[], (), {}, None][: i % 4], *["a", 1, True][: i % 3])
            compiled(np.ones(2), {f"k{i}": 1})
    for forms in compiled._quick._forms.values():
        assert len(forms) <= quick.FORMS
        assert all(len(form._known) <= quick.SIGNATURES for form in forms)


def test_the_order_of_keys_is_another_form(general):
    compiled = ag.compile(lambda d: d["a"] - d["b"], check=False)
    for _ in range(4):
        assert float(compiled({"a": ag.asarray(3.0), "b": ag.asarray(1.0)})) == 2.0
        assert float(compiled({"b": ag.asarray(1.0), "a": ag.asarray(3.0)})) == 2.0
    before = len(general)
    assert float(compiled({"b": ag.asarray(5.0), "a": ag.asarray(3.0)})) == -2.0
    assert len(general) == before


def test_one_list_twice_is_another_call(general):
    compiled = ag.compile(lambda x, y: len(x) + len(y), check=False)
    for _ in range(4):
        compiled([], [])
    before = len(general)
    both = []
    assert compiled(both, both) == 0
    assert len(general) > before


def test_guards_are_asked():
    state = {"k": 2.0}
    compiled = ag.compile(lambda x: x * state["k"], check=False)
    x = np.ones(2)
    for k in (2.0, 2.0, 2.0, 3.0, 2.0, 3.0, 4.0):
        state["k"] = k
        np.testing.assert_array_equal(compiled(x), x * k)
    assert len(compiled.programs) == 3


def test_checked_calls_are_compared():
    seen = []

    def f(xs, k=1.0):
        return xs[0] * k + len(seen)

    compiled = ag.compile(f, check="doubling")
    for i in range(3):
        np.testing.assert_array_equal(compiled([np.ones(2)], k=float(i)), np.ones(2) * i)
    assert len(compiled.programs) == 1
    kept = compiled._cached[next(iter(compiled._cached))][0]
    kept.run = lambda values: [values[0] * 0.5]  # another program's
    with pytest.raises(ag.func.CompileError, match="differs from the function"):
        for i in range(4):
            compiled([np.ones(2)], k=2.0 + i)


def test_a_failing_call_runs_once_and_once_more_for_the_line():
    calls = []

    def kernel(xp, x):
        calls.append(None)
        if bool(xp.any(x < 0)):
            raise ValueError("below zero")
        return x * 2

    @ag.elementwise(name="test.counted", x=lambda xp: 2.0, kernel=kernel, source="this test")
    def counted(x, /):
        raise NotImplementedError

    compiled = ag.compile(lambda x: ag.sin(counted(ag.cos(x) * 0 + x)) + 1, check=False)
    line = compiled.function.__code__.co_firstlineno
    good, bad = ag.asarray(np.ones(3)), ag.asarray(np.full(3, -1.0))
    for _ in range(5):
        compiled(good)
    calls.clear()
    compiled(good)
    assert len(calls) == 1
    for _ in range(2):
        calls.clear()
        with pytest.raises(ValueError, match="below zero") as caught:
            compiled(bad)
        assert len(calls) == 2
        assert f"test_compile_quick.py:{line}" in caught.value.__notes__[-1]
        assert len(caught.value.__notes__) == 1
