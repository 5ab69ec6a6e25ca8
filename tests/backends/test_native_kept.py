"""What a native forward program keeps for its backward program is one block, and its gradients are those of the operations."""

from __future__ import annotations

import functools
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import agrad as ag

pytest.importorskip("llvmlite", reason="the native executor needs llvmlite: pip install agrad-numpy[native]")

from agrad_numpy.native import jit
from agrad_numpy.native.keeping import LARGEST_IN_BLOCK
from agrad_numpy.native.running import NativeProgram

if not jit.availability()[0]:
    pytest.skip(jit.availability()[1], allow_module_level=True)

RNG = np.random.default_rng(7)
A, B = RNG.uniform(0.2, 0.9, (3, 4)), RNG.uniform(0.2, 0.9, (4, 3))

#: A value of so many floats is an array of its own.
LARGE = LARGEST_IN_BLOCK // 8 + 1


def mixed(a, b):
    """Many small values, of several dtypes and layouts."""
    c = ag.tanh(a @ b)
    d = ag.where(c > 0.5, ag.sin(c).T, c * c)
    for k in range(4):
        d = ag.exp(-d) @ c.T + ag.cos(d * (k + 1.0))
    return ag.sum(d * ag.sigmoid(c))


def compiled(function, **options):
    """Return the function as machine code, after a call of these arguments that is no longer compared."""
    return ag.compile(function, executor="native", check=False, **options)


def leaves(*arrays):
    return [ag.tensor(array, requires_grad=True) for array in arrays]


def gradients(function, *arrays):
    given = leaves(*arrays)
    function(*given).backward()
    return [np.asarray(leaf.grad) for leaf in given]


def ready(function, *arrays, **options):
    made = compiled(function, **options)
    for _ in range(3):
        gradients(made, *arrays)
    return made


@functools.cache
def ready_mixed():
    return ready(mixed, A, B)


def node_of(result):
    node = result.grad_fn
    assert node.name() == "CompiledBackward0"
    return node


def differences(function, at, *arrays, step=1e-6):
    """Return the gradient with respect to one array by finite differences, of values computed by the operations."""
    found = np.empty_like(arrays[at])
    for place in np.ndindex(*found.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = [array.copy() for array in arrays]
            moved[at][place] += sign * step
            ends.append(float(function(*map(ag.asarray, moved))))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    return found


def nbytes_of(references):
    """Return the bytes of the arrays that are still alive."""
    return sum(array.nbytes for array in (ref() for ref in references) if array is not None)


def test_it_is_one_block():
    function = ready_mixed()
    given = leaves(A, B)
    node = node_of(function(*given))
    block, *others = node.saved
    assert block.dtype == np.uint8
    assert block.ndim == 1
    assert block.base is None  # nothing else holds its memory
    assert {id(one) for one in others} <= {id(leaf._raw) for leaf in given}  # arguments are kept as they are
    for at, found in enumerate(gradients(function, A, B)):
        np.testing.assert_allclose(found, differences(mixed, at, A, B), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("turned", [(), (0,), (1,), (0, 1)])
def test_bits_are_those_of_the_operations(turned):
    given = [array.T.copy().T if at in turned else array for at, array in enumerate((A, B))]
    function = ready(mixed, *given, exact=True)
    assert node_of(function(*leaves(*given))).layout is not None
    for one, other in zip(gradients(function, *given), gradients(mixed, *given), strict=True):
        assert one.tobytes() == other.tobytes()


def test_calls_of_other_layouts_in_between():
    """What is kept of an array in Fortran's order lies so, too: each backward pass reads what its own call has kept."""

    def function(x):  # the backward pass takes no argument, whose layout would tell
        return ag.sum(ag.exp(ag.tanh(ag.exp(x))))

    made = compiled(function)
    x = RNG.uniform(-0.9, 0.9, (5, 7))
    ways = [x, np.asfortranarray(x), 2 * x, np.asfortranarray(-x)]
    for number in range(3):
        given = [leaves(way) for way in ways]
        results = [made(*each) for each in given]
        assert not number or len({id(node_of(result).layout) for result in results}) == 2
        for result in reversed(results):
            result.backward()
        for way, (leaf,) in zip(ways, given, strict=True):
            t = np.tanh(np.exp(way))
            wanted = np.exp(t) / np.cosh(np.exp(way)) ** 2 * np.exp(way)
            np.testing.assert_allclose(np.asarray(leaf.grad), wanted, rtol=1e-12, atol=1e-13)  # 1 - t * t cancels


def test_large_values_are_arrays_of_their_own():
    x = RNG.uniform(0.1, 1.0, LARGE)

    def function(x):
        y = ag.exp(x * 0.5)
        small = ag.sin(y[:5])
        return ag.sum(ag.sin(y) * y) + ag.sum(small * small)

    made = ready(function, x)
    (leaf,) = leaves(x)
    result = made(leaf)
    block, *others = node_of(result).saved
    assert block.nbytes < LARGEST_IN_BLOCK
    assert any(one.nbytes == x.nbytes and one.dtype == x.dtype for one in others)
    result.backward()
    y = np.exp(x / 2)
    wanted = (np.sin(y) + y * np.cos(y)) * y / 2
    wanted[:5] += np.sin(y[:5]) * np.cos(y[:5]) * y[:5]
    np.testing.assert_allclose(np.asarray(leaf.grad), wanted, rtol=1e-12)


def test_nothing_but_large_values():
    """The block is empty: of all that is kept, or of what a pass takes."""
    x = RNG.uniform(0.1, 1.0, LARGE)

    def function(x):
        return ag.sum(ag.sin(ag.sin(x))), ag.sum(ag.sin(ag.exp(x[:5])))

    for count in (1, 2):
        made = compiled(lambda x, count=count: function(x)[:count])
        for _ in range(3):
            (leaf,) = leaves(x)
            results = made(leaf)
            results[0].backward()
        np.testing.assert_allclose(np.asarray(leaf.grad), np.cos(np.sin(x)) * np.cos(x), rtol=1e-12)


def test_a_result_that_is_kept_too_is_one_array():
    def function(x):
        y = ag.exp(x)
        z = y * y * 0.25
        return y, ag.sum(ag.sin(z))

    made = compiled(function)

    def summed(x):
        y, total = made(x)
        return ag.sum(y) + total

    x = np.linspace(0.1, 0.9, 6)
    for _ in range(3):
        found = gradients(summed, x)
    z = np.exp(2 * x) / 4
    np.testing.assert_allclose(found[0], np.exp(x) + np.cos(z) * 2 * z, rtol=1e-13)
    (leaf,) = leaves(x)
    y, _ = made(leaf)
    assert any(one is y._raw for one in y.grad_fn.saved)


def test_passes_from_some_results():
    """What no later pass needs is freed: the block with the last that takes of it."""

    def function(x, w):
        first, second = ag.sin(x) * x, ag.tanh(w) * w
        return ag.sum(ag.exp(first)), ag.sum(ag.exp(second))

    made = compiled(function)
    x, w = A[0], B[0]
    for _ in range(3):
        given = leaves(x, w)
        one, other = made(*given)
        (one + other).backward()
    given = leaves(x, w)
    one, other = made(*given)
    node = one.grad_fn.next_functions[0][0] if one.grad_fn.name() == "Output" else one.grad_fn
    block = weakref.ref(node.saved[0])
    one.backward()
    assert block() is not None
    assert given[1].grad is None
    np.testing.assert_allclose(
        np.asarray(given[0].grad), np.exp(np.sin(x) * x) * (np.cos(x) * x + np.sin(x)), rtol=1e-13
    )
    with pytest.raises(RuntimeError, match="second time"):
        one.backward()
    other.backward()
    wanted = np.exp(np.tanh(w) * w) * (w / np.cosh(w) ** 2 + np.tanh(w))
    np.testing.assert_allclose(np.asarray(given[1].grad), wanted, rtol=1e-13)
    gc.collect()
    assert block() is None


@pytest.mark.parametrize("sizes", [(LARGE, LARGE), (LARGE, 4), (4, LARGE)])
def test_large_values_are_freed_alone(sizes, monkeypatch):
    """The sine of an exponential needs nothing but the latter: two arrays of their own, or one and the block."""
    # what is freed must not lead a pass to run step by step
    monkeypatch.setattr(NativeProgram, "_steps", property(lambda _: pytest.fail("the machine code refused a call")))

    def function(x, w):
        return ag.sum(ag.sin(ag.exp(x))), ag.sum(ag.sin(ag.exp(w)))

    made = compiled(function)
    arrays = [RNG.uniform(0.1, 0.4, size) for size in sizes]  # no cosine near zero
    for _ in range(3):
        gradients(lambda x, w: ag.add(*made(x, w)), *arrays)
    given = leaves(*arrays)
    results = made(*given)
    references = [weakref.ref(array) for array in node_of(results[0]).saved]
    living = [nbytes_of(references)]
    for result in results:
        result.backward()
        living.append(nbytes_of(references))
    assert living == [8 * sum(sizes), 8 * sizes[1], 0]
    for leaf, x in zip(given, arrays, strict=True):
        np.testing.assert_allclose(np.asarray(leaf.grad), np.cos(np.exp(x)) * np.exp(x), rtol=1e-13)


def test_it_lives_as_long_as_a_pass_may_need_it():
    function = ready_mixed()
    given = leaves(A, B)
    result = function(*given)
    block = weakref.ref(node_of(result).saved[0])
    first = ag.autograd.grad(result, given, retain_graph=True)
    gc.collect()
    assert block() is not None
    second = ag.autograd.grad(result, given)
    assert block() is None
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    with pytest.raises(RuntimeError, match="second time"):
        ag.autograd.grad(result, given)


def test_nothing_of_it_lives_on_in_gradients():
    """A gradient that is a kept value is an array of its own."""

    def function(x, w):
        return ag.sum(ag.sin(x) * w)

    made = ready(function, A, A)
    given = leaves(A, A)
    result = made(*given)
    block = node_of(result).saved[0]
    result.backward()
    grad = np.asarray(given[1].grad)
    assert not np.shares_memory(grad, block)
    block[:] = 255
    np.testing.assert_allclose(grad, np.sin(A), rtol=1e-13)


def test_second_derivatives():
    function = ready_mixed()
    given = leaves(A, B)
    (first,) = ag.autograd.grad(function(*given), given[:1], create_graph=True)
    (second,) = ag.autograd.grad(ag.sum(first * first), given[:1])

    def squared(a, b):
        (leaf,) = leaves(a._raw)
        (g,) = ag.autograd.grad(mixed(leaf, b), [leaf])
        return ag.sum(g * g)

    np.testing.assert_allclose(np.asarray(second), differences(squared, 0, A, B), rtol=1e-5, atol=1e-7)


def test_batches_of_cotangents():
    def function(x):
        return ag.tanh(ag.sin(x) * x) * 2.0

    made = compiled(function)
    x = A[0]
    for _ in range(3):
        gradients(lambda leaf: ag.sum(made(leaf)), x)
    (leaf,) = leaves(x)
    result = made(leaf)
    assert node_of(result).layout is not None
    (found,) = ag.autograd.grad(result, [leaf], ag.eye(4), is_grads_batched=True)
    inner = np.sin(x) * x
    wanted = np.diag(2 / np.cosh(inner) ** 2 * (np.cos(x) * x + np.sin(x)))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-13, atol=1e-15)


def test_anomalies_and_hooks():
    function = ready_mixed()
    given, seen = leaves(A, B), []
    given[0].register_hook(lambda g: seen.append(g) or g * 2)
    result = function(*given)
    with ag.autograd.detect_anomaly():
        result.backward()
    wanted = gradients(mixed, A, B)
    np.testing.assert_allclose(np.asarray(given[0].grad), 2 * wanted[0], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(given[1].grad), wanted[1], rtol=1e-12)
    assert len(seen) == 1


def test_saved_tensors_hooks():
    """Within them the function runs uncompiled, and its values are packed one by one."""
    function, packed = ready_mixed(), []
    with ag.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        found = gradients(function, A, B)
    assert len(packed) > 10
    for one, other in zip(found, gradients(mixed, A, B), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_arguments_are_not_copied():
    """They may be large. Written to in place, they are another array, and the pass takes the old one."""

    def function(x, w):
        return ag.sum(ag.sin(x * w) * x)

    made = ready(function, A, A)
    given = leaves(A, 2 * A)
    result = made(*given)
    before = given[0]._raw
    assert any(one is before for one in node_of(result).saved)
    with ag.no_grad():
        given[0].add_(1.0)
    result.backward()
    np.testing.assert_allclose(np.asarray(given[1].grad), np.cos(2 * A * A) * A * A, rtol=1e-13)


def test_many_threads():
    function = ready_mixed()
    factors = np.linspace(0.5, 1.5, 24)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda f: [gradients(function, f * A, B) for _ in range(5)], factors))
    for factor, each in zip(factors, found, strict=True):
        wanted = gradients(mixed, factor * A, B)
        for grads in each:
            for one, other in zip(grads, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11)


def test_steps_of_numpys_take_and_give_kept_values():
    def function(x):
        y = ag.cumulative_sum(ag.sin(x))
        z = ag.sort(y * x)
        return ag.sum(ag.exp(z * 0.5) * y) + ag.sum(ag.tanh(x) * ag.cos(x) * x * x)

    made = ready(function, A[0])
    result = made(*leaves(A[0]))
    assert node_of(result).layout is not None
    np.testing.assert_allclose(gradients(made, A[0])[0], differences(function, 0, A[0]), rtol=1e-7)


def test_branches_and_draws():
    def function(x):
        noise = ag.rand(4)
        y = ag.exp(x * noise)
        if ag.sum(y) > 6.0:
            return ag.sum(ag.sin(y) * noise)
        return ag.sum(ag.cos(y) * y)

    made, used = compiled(function), []
    for f in (made, function):
        ag.manual_seed(5)
        used.append([gradients(f, factor * A[0])[0] for factor in (0.1, 2.0) * 4])
    for one, other in zip(*used, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_where_the_call_runs_step_by_step():
    """A matrix that is nearly singular: the values are kept in the same way."""

    def function(a, b):
        x = ag.linalg.solve(a, b)
        return ag.sum(ag.tanh(x * 1e-12) * 1e12)

    good = np.array([[2.0, 1.0], [1.0, 3.0]])
    bad = np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])
    b = np.array([1.0, 1.0 + 2**-40])
    made = ready(function, good, b)
    for matrix in (bad, good, bad):
        given = leaves(matrix, b)
        result = made(*given)
        assert node_of(result).saved[0].dtype == np.uint8
        result.backward()
        wanted = gradients(function, matrix, b)
        for leaf, other in zip(given, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(leaf.grad), other, rtol=1e-9)
    singular = leaves(np.ones((2, 2)), b)
    with pytest.raises(np.linalg.LinAlgError):
        made(*singular)


def test_large_values_where_the_call_runs_step_by_step():
    """They lie as the machine code expects: that of a part of an array, turned, in C's order, which NumPy's copies do not."""

    def function(a, x):
        y = ag.exp(x)[:, ::2].T
        return ag.sum(ag.sin(y)) + ag.sum(ag.tanh(ag.linalg.inv(a) * 1e-18))

    rows = LARGEST_IN_BLOCK // 800 + 1
    x = RNG.uniform(0.1, 0.4, (rows, 200))
    good, bad = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])
    made = ready(function, good, x)
    wanted = np.cos(np.exp(x)) * np.exp(x)
    wanted[:, 1::2] = 0.0
    for matrix in (good, bad):
        given = leaves(matrix, x)
        result = made(*given)
        node = node_of(result)
        assert (100, rows) in [array.shape for array in node.saved]
        assert all(array.flags.c_contiguous for array in node.saved)
        result.backward()
        np.testing.assert_allclose(np.asarray(given[1].grad), wanted, rtol=1e-13)


def test_a_program_that_is_refused_keeps_arrays():
    def function(x):
        return ag.sum(ag.sort(ag.cumulative_sum(ag.sort(ag.cumulative_sum(ag.sort(ag.cumulative_sum(x)))))))

    made = ready(function, A[0])
    (leaf,) = leaves(A[0])
    result = made(leaf)
    assert node_of(result).layout is None
    result.backward()
    np.testing.assert_allclose(np.asarray(leaf.grad), differences(function, 0, A[0]), rtol=1e-7)


def test_memory_is_given_back():
    function = ready_mixed()
    given = leaves(A, B)
    gc.collect()
    blocks = []
    for _ in range(50):
        result = function(*given)
        blocks.append(weakref.ref(node_of(result).saved[0]))
        del result  # without a backward pass
    assert all(block() is None for block in blocks)
