"""Values that leave agrad: whoever writes to what was handed out changes no tensor, no saved value, no next program."""

from __future__ import annotations

import itertools
import sys
import warnings

import numpy as np
import pytest

import agrad as ag

NUMBERS = itertools.count()


def next_program():
    """A program of 0-d numbers that shares constants with every other; gives a gradient and a value."""
    x = ag.tensor(3.0, requires_grad=True)
    (x + 1.0).backward()
    return x.grad.item(), (ag.tensor(3.0) + 1.0).item(), ag.grad((x * 2.0).sum(), x)[0].item()


@pytest.fixture(autouse=True)
def constants_stay():
    yield
    assert next_program() == (1.0, 4.0, 2.0)


def leaf(value):
    return ag.tensor(value, requires_grad=True)


class Old:
    """An exporter for consumers from before DLPack 1.0, which ask for no version."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


# -- DLPack -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", [lambda t: t, Old], ids=["versioned", "unversioned"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)], ids=str)
def test_what_is_written_through_dlpack_reaches_no_gradient(shape, through, numpy_backend):
    x = leaf(np.full(shape, 3.0))
    (x + 1.0).sum().backward()
    taken = np.from_dlpack(through(x.grad))
    if taken.flags.writeable:  # NumPy writes to nothing that old exporters give; others do
        taken[...] = 50.0
    assert not np.shares_memory(taken, x.grad._raw)
    assert x.grad.tolist() == np.ones(shape).tolist()


def test_what_is_written_through_dlpack_reaches_no_saved_value(numpy_backend):
    x, w = leaf([1.0, 2.0]), ag.tensor([3.0, 4.0])
    y = (x * w).sum()
    np.from_dlpack(w)[...] = 50.0
    y.backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_a_copy_of_memory_that_lies_otherwise(numpy_backend):
    source = np.arange(6.0).reshape(2, 3)
    for view in (source.T, source[:, ::-1], np.broadcast_to(source[0], (4, 3)), source[:0]):
        np.testing.assert_array_equal(np.from_dlpack(ag.asarray(view)), view)
        np.testing.assert_array_equal(np.from_dlpack(Old(ag.asarray(view))), view)


def test_no_copy_is_refused(make):
    with pytest.raises(BufferError, match="Leave out copy=False"):
        make([1.0]).__dlpack__(copy=False)


def test_dlpack_of_dask(dask_backend):
    x = ag.tensor([1.0, 2.0], device="dask")
    np.from_dlpack(x)[...] = 50.0
    assert x.tolist() == [1.0, 2.0]


def test_pytorch_writes_to_a_copy(numpy_backend):
    torch = pytest.importorskip("torch")
    x, w = leaf(3.0), leaf([1.0, 2.0])

    def scale(g):
        torch.from_dlpack(g).mul_(50.0)

    w.register_hook(scale)
    (x * w.sum()).backward()
    torch.from_dlpack(x.grad).fill_(50.0)
    torch.from_dlpack(w.detach()).fill_(50.0)
    assert (x.grad.item(), w.grad.tolist(), w.tolist()) == (3.0, [3.0, 3.0], [1.0, 2.0])
    with pytest.raises(BufferError, match="Leave out copy=False"):
        torch.from_dlpack(w.detach(), copy=False)


def test_jax_takes_every_tensor(numpy_backend):
    jax = pytest.importorskip("jax")
    x = leaf(np.ones((2, 3), np.float32))
    (x * 2.0).sum().backward()
    assert jax.dlpack.from_dlpack(x.grad).tolist() == x.grad.tolist()


def test_pytorch_writes_through_numpy_to_a_copy_of_constants(numpy_backend):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that the memory is not writable, and writes
        for x in (leaf(3.0), leaf([3.0, 4.0])):
            x.sum().backward()
            torch.from_numpy(x.grad.numpy()).fill_(50.0)


# -- NumPy ------------------------------------------------------------------------------------------------------------


DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_cannot_be_made_writable(dtype, numpy_backend):
    source = np.arange(6).reshape(2, 3).astype(dtype)
    for view in (source, source.T, source[:, ::-1], source[:0], source[0, 0], np.broadcast_to(source[0], (4, 3))):
        out = ag.asarray(view).numpy()
        np.testing.assert_array_equal(out, view, strict=True)
        for array in (out, out.view(), out[...]):
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 1


def test_numpy_shares_memory_but_for_one_element():
    source = np.arange(6.0)
    assert np.shares_memory(ag.asarray(source).numpy(), source)
    assert np.shares_memory(ag.asarray(source)[::2].numpy(), source)
    assert np.shares_memory(np.asarray(ag.asarray(source)), source)
    for x in (ag.asarray(source[0:1].copy()), ag.asarray(source)[0], ag.tensor(1.0).expand(3, 2)):
        assert not np.shares_memory(x.numpy(), x.numpy())


def test_numpy_keeps_the_memory_alive():
    array = ag.tensor(list(range(1000)), dtype=ag.float64).numpy()
    assert array.sum() == 499500.0
    read = ag.tensor([1.0, 2.0])
    out = read.numpy()
    read += 1.0
    assert (out.tolist(), read.tolist()) == ([1.0, 2.0], [2.0, 3.0])


def test_arrays_handed_out_come_back():
    x = leaf([1.0, 2.0])
    for array in (x.detach().numpy(), np.from_dlpack(x.detach()), x.detach().numpy()[0]):
        y = ag.asarray(array)
        y += 1.0
        (x * ag.asarray(array)).sum().backward()
    assert x.tolist() == [1.0, 2.0]


# -- hooks ------------------------------------------------------------------------------------------------------------


def test_a_hook_cannot_write_to_a_gradient(numpy_backend):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    refused = []

    def scale(g):
        for take in (np.asarray, lambda g: g.numpy(), lambda g: g.numpy().view()):
            array = take(g)
            try:
                array.setflags(write=True)
            except ValueError:
                refused.append(take)
        np.from_dlpack(g)[...] = 50.0

    x.register_hook(scale)
    (x + y).sum().backward()
    assert len(refused) == 3
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [1.0, 1.0])


# -- rules and kernels of the user's ------------------------------------------------------------------------------------


def writing(where):
    """Declare x -> 2 x, whose kernel or rule doubles what it is given in place."""

    def doubled(array):
        array *= 2.0
        return array

    def stub(x, /):
        raise NotImplementedError

    stub.__module__ = "mine"
    if where == "kernel":
        rule, kernel = (lambda g: 2.0 * g), (lambda xp, x: doubled(x))
    elif where == "cotangent":
        rule, kernel = (lambda g: doubled(g)), (lambda xp, x: 2.0 * x)
    else:
        rule, kernel = (lambda g, x: doubled(x) * (2.0 * g) / x), (lambda xp, x: 2.0 * x)
    if where == "saved value":
        return ag.custom(name=f"trust.{where.split()[0]}{next(NUMBERS)}", vjp={"x": rule}, jvp=None, kernel=kernel)(
            stub
        )
    return ag.linear(name=f"trust.{where}{next(NUMBERS)}", x=rule, kernel=kernel)(stub)


@pytest.mark.parametrize("value", [3.0, [3.0, 4.0]], ids=["0-d", "1-d"])
@pytest.mark.parametrize("where", ["kernel", "cotangent", "saved value"])
def test_what_rules_and_kernels_are_given_cannot_be_written_to(where, value, numpy_backend):
    function = writing(where)
    x, y = leaf(value), leaf(value)
    with pytest.raises(ValueError, match="read-only"):
        (function(x) + y).sum().backward()
    assert x.tolist() == y.tolist() == value
    assert x.grad is y.grad is None


@pytest.mark.parametrize("where", ["kernel", "cotangent", "saved value"])
def test_constants_are_copied_where_arrays_cannot_be_read_only(where, strict_backend):
    function = writing(where)
    one = ag.asarray(1.0, device="strict") + 1.0  # 1.0 is kept
    x = ag.asarray(1.0, device="strict", requires_grad=True)
    function(x).backward()
    x = ag.asarray(1.0, device="strict", requires_grad=True)
    (x + 1.0).backward()
    assert (x.grad.item(), (ag.asarray(1.0, device="strict") + 1.0).item(), one.item()) == (1.0, 2.0, 2.0)


def test_kept_scalars_cannot_be_written_to(numpy_backend, dask_backend):
    for device in ("numpy", "dask"):
        x = ag.tensor([1.0, 2.0], device=device)
        kept = x._spec.scalar(7.0)
        with pytest.raises(ValueError, match="read-only"):
            kept[...] = 8.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            kept.setflags(write=True)


def test_what_a_rule_is_given_it_may_give_back(numpy_backend):
    @ag.linear(name=f"trust.same{next(NUMBERS)}", x=lambda g: g, kernel=lambda xp, x: x)
    def same(x, /):
        raise NotImplementedError

    x = leaf([1.0, 2.0])
    for _ in range(3):
        (same(x) + same(x) + x).sum().backward()
    assert x.grad.tolist() == [9.0, 9.0]
    y = same(x.detach())
    y += 1.0
    y[0] = 7.0
    assert (y.tolist(), x.tolist()) == ([7.0, 3.0], [1.0, 2.0])


def test_the_reference_to_an_exported_array_is_the_only_cost(numpy_backend):
    source = np.zeros(10)
    before = sys.getrefcount(source)
    out = ag.asarray(source).numpy()
    del out
    assert sys.getrefcount(source) == before
