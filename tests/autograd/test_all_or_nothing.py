"""A backward that fails, or is interrupted, changes no `.grad`: sums and checks come first, then one assignment of all."""

import threading
import tracemalloc

import numpy as np
import pytest
from support import Interrupt, interrupted

import agrad as ag
from agrad.core import commit, engine


def leaves(*values):
    return [ag.tensor(value, requires_grad=True) for value in values]


def grads(tensors):
    return [None if t.grad is None else t.grad.detach().numpy().copy() for t in tensors]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None), (found, expected)
        if one is not None:
            np.testing.assert_array_equal(one, other)


class Failing:
    """The kernels of a backend, of which one fails at its n-th call."""

    def __init__(self, xp, name, n, error):
        self._xp, self._name, self._left, self._error = xp, name, n, error

    def __getattr__(self, name):
        kernel = getattr(self._xp, name)
        if name != self._name:
            return kernel

        def counted(*args, **kwargs):
            self._left -= 1
            if self._left == 0:
                raise self._error
            return kernel(*args, **kwargs)

        return counted


# -- gradients that do not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["a", "b"])
@pytest.mark.parametrize("earlier", [False, True], ids=["first", "accumulated"])
def test_a_gradient_that_no_longer_fits_its_leaf_changes_none(late, earlier):
    a, b = leaves([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    if earlier:
        (a * b).sum().backward()
    y = b.sum() * a.sum()
    (a if late == "a" else b).data = ag.ones(5)
    before = grads([a, b])
    with pytest.raises(
        RuntimeError, match=r"invalid gradient at index 0 - got \[3\] but expected shape compatible with \[5\]"
    ):
        y.backward()
    assert_same(grads([a, b]), before)


def test_an_older_gradient_of_another_shape_is_not_broadcast():
    (a,) = leaves([1.0, 2.0])
    (a * 3.0).sum().backward()
    a.data = ag.ones(1)
    with pytest.raises(RuntimeError, match="expected shape compatible with"):
        (a * 3.0).sum().backward()
    assert_same(grads([a]), [np.array([3.0, 3.0])])


def test_data_of_another_dtype_get_gradients_of_that_dtype():
    (a,) = leaves(np.array([1.0, 2.0]))
    y = (a * 3.0).sum()
    a.data = ag.asarray(np.array([1.0, 2.0], dtype=np.float32))
    y.backward()
    assert a.grad.dtype == np.float32
    assert a.grad.numpy().dtype == np.float32
    np.testing.assert_array_equal(a.grad.numpy(), [3.0, 3.0])


def test_a_frozen_leaf_may_get_data_of_another_shape():
    (a,) = leaves([1.0, 2.0, 3.0])
    a.requires_grad_(False)
    a.data = ag.asarray([1.0, 2.0])
    a.requires_grad_()
    (a * a).sum().backward()
    assert a.grad.shape == (2,)
    np.testing.assert_array_equal(a.grad.numpy(), [2.0, 4.0])


# -- sums that fail -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("injected"), MemoryError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_sum_that_fails_changes_none(monkeypatch, n, error):
    tensors = leaves([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    a, b, c = tensors
    f = lambda: (a * b * c).sum()
    f().backward()
    before, same = grads(tensors), [t.grad for t in tensors]
    y = f()
    failing = Failing(a._spec.xp, "add", n, error)
    monkeypatch.setattr(a._spec, "xp", failing)
    with pytest.raises(type(error)):
        y.backward()
    monkeypatch.undo()
    assert_same(grads(tensors), before)
    f().backward()
    assert_same(grads(tensors), [2 * g for g in before])
    assert all(t.grad is g for t, g in zip(tensors, same, strict=True))


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_failing_sum_of_a_retained_gradient_changes_no_leaf(monkeypatch, create_graph):
    x, w = leaves([1.0, 2.0], [3.0, 4.0])
    y = x * w
    y.retain_grad()
    z = (y * y).sum()
    z.backward(retain_graph=True)
    before = [*grads([x, w]), y.grad.numpy().copy()]
    real = commit.Sums.merge

    def merge(self, place, *args):
        if place is y._retained:
            raise MemoryError
        return real(self, place, *args)

    monkeypatch.setattr(commit.Sums, "merge", merge)
    with pytest.raises(MemoryError):
        z.backward(retain_graph=True, create_graph=create_graph)
    monkeypatch.undo()
    assert_same([*grads([x, w]), y.grad.numpy()], before)


# -- interrupts ---------------------------------------------------------------------------------------------------------


def end_of_pass(code):
    """Watch the engine's end of a pass; not what lies between a lock's ``__enter__`` and its block."""
    begin = ("plain", "watched", "execute", "run", "__init__")
    return code.co_filename in (engine.__file__, commit.__file__) and code.co_name not in begin


def lock_is_free():
    def take():
        if commit.ACCUMULATING.acquire(timeout=5):
            commit.ACCUMULATING.release()
            free.append(True)

    free = []
    thread = threading.Thread(target=take)  # the lock is reentrant
    thread.start()
    thread.join()
    return bool(free)


def plain(a, b, c):
    (a * b * c).sum().backward()


def retained(a, b, c):
    y = a * b
    y.retain_grad()
    (y * c).sum().backward()


def recorded(a, b, c):
    (a * b * c).sum().backward(create_graph=True)


def some_frozen(a, b, c):
    y = (a * b * c).sum()
    b.requires_grad_(False)
    y.backward()
    b.requires_grad_()


@pytest.mark.parametrize("again", [False, True], ids=["first", "accumulated"])
@pytest.mark.parametrize("program", [plain, retained, recorded, some_frozen])
def test_an_interrupt_changes_all_or_none(program, again):
    expected = None
    seen = set()
    for n in range(1, 4000):
        tensors = leaves([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
        if again:
            for t in tensors:
                t.grad = ag.ones(2)
        before = grads(tensors)
        ended = interrupted(Interrupt(n, end_of_pass), program, *tensors)
        now = grads(tensors)
        if ended:
            expected = now
            break
        seen.add(repr((before, now)))
    assert expected is not None
    assert n > 10
    assert lock_is_free()
    assert seen <= {repr((before, before)), repr((before, expected))}


# -- what is shared, and what it costs ----------------------------------------------------------------------------------


def test_one_tensor_as_the_gradient_of_two_leaves_gets_both_sums():
    a, b = leaves([1.0, 2.0], [3.0, 4.0])
    a.grad = b.grad = total = ag.zeros(2)
    (a * b).sum().backward()
    assert a.grad is b.grad is total
    np.testing.assert_array_equal(total.numpy(), [4.0, 6.0])


def test_a_gradient_that_was_written_to_in_place_is_added_to():
    (a,) = leaves([1.0, 2.0])
    (a * 2.0).sum().backward()
    for _ in range(3):
        a.grad[0] = 7.0
        (a * 2.0).sum().backward()
        a.grad[1] = 5.0
    np.testing.assert_array_equal(a.grad.numpy(), [9.0, 5.0])


def test_accumulation_needs_one_sum_more_at_a_time():
    size, count = 2**17, 12
    tensors = leaves(*(np.ones(size) for _ in range(count)))

    def loss():
        total = 0.0
        for t in tensors:
            total = total + (t * 2.0).sum()
        return total

    loss().backward()
    y = loss()
    tracemalloc.start()
    try:
        y.backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (count + 2.5) * size * 8


def test_hooks_after_accumulation_find_every_gradient_committed():
    a, b = leaves([1.0, 2.0], [3.0, 4.0])
    y = (a * b).sum()
    a_node = y.grad_fn.next_functions[0][0].next_functions[0][0]

    def fail(inputs, outputs):
        raise RuntimeError("hook")

    a_node.register_hook(fail)
    with pytest.raises(RuntimeError, match="hook"):
        y.backward()
    assert_same(grads([a, b]), [np.array([3.0, 4.0]), np.array([1.0, 2.0])])
