"""The Dask backend: what stays lazy, in which chunks, what computes, and what is refused."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import agrad as ag
from agrad.plugin import manager

da = pytest.importorskip("dask.array")

from agrad_dask import computing  # noqa: E402 (needs Dask)

pytestmark = pytest.mark.usefixtures("dask_backend")


@pytest.fixture
def kernels():
    return manager.get("dask").xp


def test_shapes_that_do_not_fit_are_named():
    x = ag.asarray(da.ones((10, 4), chunks=(5, 4)))
    for other in (ag.ones(3), ag.ones((3, 2))):
        with pytest.raises(ValueError, match=r"shapes \(10, 4\) and \(3,.*\) not aligned: 4 != 3"):
            x @ other
    assert (x @ ag.ones((2, 4, 3))).shape == (2, 10, 3)


def test_recorded_cotangents_come_in_the_chunks_of_their_operand():
    values = np.arange(1.0, 7.0)
    x = ag.asarray(da.from_array(values, chunks=2), requires_grad=True)
    y = ag.asarray(da.from_array(2 * values, chunks=3))
    (first,) = ag.grad(ag.sum(x**3 * y), x, create_graph=True)
    assert first.chunks == x.chunks == ((2, 2, 2),)
    (second,) = ag.grad(ag.sum(first), x)
    np.testing.assert_allclose(first.detach().numpy(), 3 * values**2 * 2 * values)
    np.testing.assert_allclose(second.numpy(), 6 * values * 2 * values)


def test_draws_come_in_the_chunks_asked_for():
    for draw in (ag.rand, ag.randn):
        assert draw((6,), device="dask", chunks=2).chunks == ((2, 2, 2),)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def chunked(array, chunks=2, requires_grad=False):
    return ag.asarray(da.from_array(np.asarray(array), chunks=chunks), requires_grad=requires_grad)


@pytest.mark.parametrize("write", [lambda d: d.__setitem__(0, 100.0), lambda d: d.__setitem__(d > 0, 0.0)])
def test_an_array_written_to_after_the_loss_is_what_it_was(write):
    data = random(40, 6)
    for loss_of in (lambda d, w: ((d @ w) ** 2).sum(), lambda d, w: ag.sum((ag.asarray(d) @ w) ** 2)):
        d, w = da.from_array(data.copy(), chunks=(5, 6)), ag.ones(6, requires_grad=True)
        loss = loss_of(d, w)
        write(d)
        loss.backward()
        np.testing.assert_allclose(loss.item(), np.sum(data.sum(axis=1) ** 2))
        np.testing.assert_allclose(w.grad.numpy(), 2 * data.T @ data.sum(axis=1))


def test_a_dask_array_that_is_handed_out_can_be_written_to():
    x = ag.asarray(da.ones(4, chunks=2))
    x.to_dask_array()[0] = 7.0
    assert x.tolist() == [1.0, 1.0, 1.0, 1.0]


# -- lazy stays lazy --------------------------------------------------------------------------------------------------


def test_forward_and_backward_compute_nothing(never_computes):
    x = ag.asarray(da.ones((100, 10), chunks=(25, 10)), requires_grad=True)
    w = ag.asarray(da.ones((10, 3), chunks=(10, 3)), requires_grad=True)
    h = ag.tanh(x @ w - 1.0)
    loss = ag.mean(ag.where(h > 0, h, 0.1 * h) ** 2) + ag.sum(ag.clip(w, -0.5, 0.5))
    loss.backward()
    assert isinstance(loss._raw, da.Array)
    assert isinstance(x.grad._raw, da.Array)
    assert isinstance(w.grad._raw, da.Array)
    loss2 = ag.sum(x * 2.0)
    loss2.backward()  # accumulating is lazy too
    assert isinstance(x.grad._raw, da.Array)


def test_values_of_that_against_numpy():
    a, b = random(12, 4), random(4, 3, seed=1)
    x, w = chunked(a, (5, 4), requires_grad=True), chunked(b, (2, 3), requires_grad=True)
    loss = ag.sum(ag.tanh(x @ w) ** 2)
    loss.backward()
    t = np.tanh(a @ b)
    g = 2 * t * (1 - t**2)
    np.testing.assert_allclose(loss.item(), np.sum(t**2), rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), g @ b.T, rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), a.T @ g, rtol=1e-12)


def test_second_derivative_is_lazy_and_right(never_computes, dask_backend):
    import dask

    a = np.linspace(0.1, 1, 6)
    x = chunked(a, requires_grad=True)
    (g,) = ag.autograd.grad(ag.sum(ag.exp(x) * x**3), x, create_graph=True)
    (h,) = ag.autograd.grad(ag.sum(g), x)
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_allclose(h.numpy(), np.exp(a) * (a**3 + 6 * a**2 + 6 * a), rtol=1e-12)


def test_cotangents_have_the_chunks_of_their_operands(never_computes):
    x = ag.asarray(da.ones((1000, 1000), chunks=(100, 500)), requires_grad=True)
    ag.sum(x).backward()
    assert x.grad._raw.chunks == x._raw.chunks
    y = ag.asarray(da.ones((1000, 1000), chunks=(250, 250)), requires_grad=True)
    ag.mean(y, axis=0).sum().backward()
    assert y.grad._raw.chunks == y._raw.chunks
    row = ag.asarray(da.ones(1000, chunks=500), requires_grad=True)
    ag.sum(row * x.detach()).backward()
    assert row.grad._raw.chunks == row._raw.chunks


def test_broadcasting_keeps_chunks_and_makes_new_ones_of_moderate_size(kernels):
    import dask

    x = da.ones((1, 1000), chunks=(1, 100))
    with dask.config.set({"array.chunk-size": "1MiB"}):
        made = kernels.broadcast_to(x, (10_000, 1000))
    assert made.chunks[1] == x.chunks[1]
    assert max(made.chunks[0]) * 100 * 8 <= 2**20


def test_a_network_is_lazy_and_right(never_computes, dask_backend):
    import dask

    import agrad.nn.functional as F

    a, w0, w1 = random(12, 5), random(7, 5, seed=1), random(3, 7, seed=2)
    labels = np.arange(12) % 3
    x = chunked(a, (4, 5))
    weights = [chunked(w, -1, requires_grad=True) for w in (w0, w1)]
    target = ag.asarray(da.from_array(labels, chunks=4))
    loss = F.cross_entropy(F.linear(F.relu(F.linear(x, weights[0])), weights[1]), target)
    loss.backward()
    with dask.config.set(scheduler="synchronous"):
        h = a @ w0.T
        z = np.maximum(h, 0) @ w1.T
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        g = (p - np.eye(3)[labels]) / 12
        np.testing.assert_allclose(loss.item(), -np.log(p[np.arange(12), labels]).mean(), rtol=1e-12)
        np.testing.assert_allclose(weights[1].grad.numpy(), g.T @ np.maximum(h, 0), atol=1e-14)
        np.testing.assert_allclose(weights[0].grad.numpy(), (g @ w1 * (h > 0)).T @ a, atol=1e-14)


def test_python_scalars_make_no_tasks():
    x = ag.asarray(da.ones(4, chunks=2))
    assert type(x._spec.scalar(2.0)) is np.ndarray
    assert x._spec.scalar(2.0).dtype == np.float64
    assert ag.asarray(da.ones(4, dtype="float32"))._spec.scalar(2.0).dtype == np.float32
    y = x * 2.0
    assert len(y._raw.dask.layers) == 2  # the ones, and the product


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_dtypes_are_kept(dtype):
    x = chunked(np.ones(4, dtype), requires_grad=True)
    y = (2.0 * x + 1) / 3.0 - x**2
    assert y.dtype == getattr(ag, dtype)
    ag.sum(ag.real(y) if dtype == "complex64" else y).backward()
    assert x.grad.dtype == getattr(ag, dtype)
    assert x.grad.numpy().dtype == dtype


LARGER_THAN_MEMORY = """
    import os
    import resource
    import dask
    import dask.array as da
    import agrad as ag

    rows, columns = 4_000_000, 40  # 1.28 GB, made chunk by chunk
    raw = da.random.default_rng(0).random((rows, columns), chunks=(100_000, columns))
    x, w = ag.asarray(raw), ag.asarray(da.zeros(columns, chunks=-1), requires_grad=True)
    resource.setrlimit(resource.RLIMIT_DATA, (500 * 2**20, 500 * 2**20))
    if os.fork() == 0:  # in a process of its own: what was computed until it fails may stay in memory for a while
        try:
            raw.compute(scheduler="synchronous")
        except MemoryError:
            os._exit(3)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 3:
        print("the data do not fit", flush=True)
    loss = ag.mean((x @ w - 1.0) ** 2)
    loss.backward()
    loss, gradient = dask.compute(loss._raw, w.grad._raw, scheduler="threads", num_workers=2)
    print(loss, abs(gradient + 2 * 0.5).max() < 1e-2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_data_larger_than_memory():
    """Loss and gradient in one pass: the gradient of a mean of squares at 0 is -2 times the mean of the data."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LARGER_THAN_MEMORY)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the data do not fit", "1.0 True"]


# -- what computes ----------------------------------------------------------------------------------------------------


def test_handing_out_a_value_computes():
    x = chunked([[1.0, 2.0], [3.0, 4.0]], 1)
    assert x[0, 1].item() == 2.0
    assert float(x[1, 1]) == 4.0
    assert bool(x[0, 0] > 0)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert type(x.numpy()) is np.ndarray
    np.testing.assert_array_equal(np.asarray(x), [[1.0, 2.0], [3.0, 4.0]])
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], device='dask')"


def test_a_numpy_leaf_with_dask_data_computes_at_the_crossing():
    """Parameters on NumPy, data on Dask: each crossing back is one computation (see the plugin's README)."""
    data, w0 = random(20, 3), random(3, seed=1)
    w = ag.asarray(w0, requires_grad=True)
    x = chunked(data, (5, 3))
    loss = ag.mean((x @ w - 1.0) ** 2)
    assert loss.device == "dask"
    loss.backward()
    assert type(w.grad._raw) is np.ndarray
    assert w.grad.device == "numpy"
    np.testing.assert_allclose(w.grad.numpy(), 2 * data.T @ (data @ w0 - 1) / 20, rtol=1e-12)


def test_the_crossing_is_recorded():
    w = ag.asarray(np.ones(3), requires_grad=True)
    y = chunked(np.ones((2, 3))) * w
    names = [node.name() for node, _ in y.grad_fn.next_functions if node is not None]
    assert names == ["ToDeviceBackward0"]
    assert "test_dask.py" in ag.core.errors.at(y.grad_fn.next_functions[1][0])


def test_realize_computes_once_for_all(dask_backend):
    import dask

    calls = []

    def counted(block):
        calls.append(1)
        return block + 1

    x = da.zeros(4, chunks=2).map_blocks(counted, dtype=float, meta=np.empty(0))
    first, second = manager.get("dask").realize(x + 1, x + 2)
    assert len(calls) == 2
    assert isinstance(first, da.Array)
    assert first.chunks == ((2, 2),)
    np.testing.assert_array_equal(*dask.compute(first + 1, second))
    assert len(calls) == 2


# -- unknown sizes ----------------------------------------------------------------------------------------------------


def test_rows_chosen_by_a_lazy_mask(never_computes, dask_backend):
    import dask

    a = random(9, 4)
    x = chunked(a, (2, 3), requires_grad=True)
    y = x[x[:, 0] > 0]
    assert math.isnan(y.shape[0])
    assert y.shape[1] == 4
    loss = ag.sum(ag.sum(y * y, axis=1) ** 2)
    loss.backward()
    assert x.grad.shape == (9, 4)  # known again
    assert x.grad._raw.chunks == x._raw.chunks
    with dask.config.set(scheduler="synchronous"):
        rows = a * (a[:, :1] > 0)
        np.testing.assert_allclose(x.grad.numpy(), 4 * rows * np.sum(rows**2, axis=1, keepdims=True), rtol=1e-12)


def test_columns_of_rows_chosen_by_a_lazy_mask():
    a = random(9, 4)
    x = chunked(a, (2, 3), requires_grad=True)
    y = x[x[:, 0] > 0]
    (ag.sum(y[:, 1] * 2.0) + ag.sum(y[:, ::-2]) + ag.sum(y[None, :, 2])).backward()
    np.testing.assert_array_equal(x.grad.numpy(), (a[:, :1] > 0) * np.array([0, 3.0, 1, 1]))


def test_a_mean_over_an_unknown_number_is_refused_not_wrong():
    x = chunked(random(9), requires_grad=True)
    y = ag.mean(x[x > 0])
    a = x.detach().numpy()
    np.testing.assert_allclose(y.item(), np.mean(a[a > 0]))
    with pytest.raises(ag.UnsupportedOp, match="number of elements, which is not known"):
        y.backward()


def test_what_dask_refuses_is_refused_in_words():
    x = chunked(random(9), requires_grad=True)
    y = x[x > 0]
    with pytest.raises(ag.UnsupportedOp, match=r"reshape is not supported by the dask backend: .*unknown sizes"):
        ag.reshape(y, (-1, 2))
    with pytest.raises(ag.UnsupportedOp, match="sort is not supported by the dask backend"):
        ag.sort(y)
    with pytest.raises(ag.UnsupportedOp, match="getitem is not supported by the dask backend"):
        y[:2]
    assert ag.reshape(y, (1, -1, 1)).shape[::2] == (1, 1)
    with pytest.raises(ValueError, match=r"apply_along_axis\(\) needs known lengths.* \(nan,\)"):
        np.apply_along_axis(ag.sum, 1, ag.stack([y, y], axis=1))


def test_errors_of_the_user_stay_what_they_are():
    x = chunked(random(4))
    with pytest.raises(ValueError, match=r"shapes|broadcast"):
        x + chunked(random(3))
    with pytest.raises(ValueError, match="total size of new array must be unchanged"):
        ag.reshape(x, (3,))


# -- kernels that array-api-compat lacks or has wrong -----------------------------------------------------------------

SPD = np.array([[4.0, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]])


@pytest.mark.parametrize("chunks", [2, -1])
@pytest.mark.parametrize(
    ("name", "operands", "parameters"),
    [
        ("cholesky", (SPD,), {}),
        ("cholesky", (SPD,), {"upper": True}),
        ("det", (SPD,), {}),
        ("det", (np.stack([SPD, 2 * SPD]),), {}),
        ("inv", (SPD,), {}),
        ("pinv", (random(4, 3),), {}),
        ("matrix_rank", (np.ones((3, 4)),), {}),
        ("matrix_power", (SPD, 3), {}),
        ("eigvalsh", (SPD,), {}),
        ("svdvals", (random(4, 3),), {}),
        ("solve", (SPD, random(3)), {}),
        ("solve", (np.stack([SPD, 2 * SPD]), random(3, 2)), {}),
        ("cross", (random(4, 3), random(4, 3, seed=1)), {}),
        ("cross", (random(3, 4), random(3, 4, seed=1)), {"axis": 0}),
        ("slogdet", (SPD,), {}),
    ],
)
def test_linalg(kernels, name, operands, parameters, chunks):
    expected = getattr(np.linalg, name)(*operands, **parameters)
    arrays = [da.from_array(a, chunks=chunks) if isinstance(a, np.ndarray) else a for a in operands]
    found = getattr(kernels.linalg, name)(*arrays, **parameters)
    if name == "slogdet":
        assert found._fields == ("sign", "logabsdet")
        np.testing.assert_allclose([f.compute() for f in found], list(expected), rtol=1e-12)
        return
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-10, atol=1e-12)


def test_linalg_of_matrices_without_elements(kernels):
    for shape in ((0, 0), (0, 2, 2), (2, 0, 0)):
        assert kernels.linalg.inv(da.zeros(shape, chunks=-1)).compute().shape == shape
    assert kernels.linalg.solve(da.zeros((0, 0, 0)), da.zeros((1, 0, 0))).compute().shape == (0, 0, 0)
    assert kernels.linalg.pinv(da.zeros((0, 2, 3)), rtol=da.zeros(0)).compute().shape == (0, 3, 2)


def test_tensordot_keeps_the_dtype(kernels):
    a = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found = kernels.tensordot(da.from_array(a, chunks=2), da.from_array(a.T, chunks=2), axes=1).compute()
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, a @ a.T)


@pytest.mark.parametrize("chunks", [2, (2, -1), -1])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(kernels, mode, chunks):
    a = random(7, 3)
    q, r = kernels.linalg.qr(da.from_array(a, chunks=chunks), mode=mode)
    q, r = q.compute(), r.compute()
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(q.T @ q, np.eye(7 if mode == "complete" else 3), atol=1e-12)
    np.testing.assert_array_equal(np.tril(r, -1), 0)


@pytest.mark.parametrize("chunks", [2, (2, -1), -1])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (3, 3)])
def test_svd(kernels, shape, full, chunks):
    a = random(*shape)
    parts = kernels.linalg.svd(da.from_array(a, chunks=chunks), full_matrices=full)
    assert parts._fields == ("U", "S", "Vh")
    u, s, vh = (p.compute() for p in parts)
    expected = np.linalg.svd(a, full_matrices=full)
    assert [u.shape, s.shape, vh.shape] == [e.shape for e in expected]
    np.testing.assert_allclose(s, expected.S, rtol=1e-12)
    np.testing.assert_allclose(u[:, :3] * s @ vh[:3], a, atol=1e-12)


def test_eigh_and_eig(kernels):
    w, v = kernels.linalg.eigh(da.from_array(SPD, chunks=2))
    np.testing.assert_allclose((v * w @ v.T).compute(), SPD, atol=1e-12)
    found = kernels.linalg.eig(da.from_array(random(3, 3), chunks=2))
    assert found.eigenvalues.dtype == np.complex128
    np.testing.assert_allclose(
        (random(3, 3) @ found.eigenvectors).compute(), (found.eigenvectors * found.eigenvalues).compute(), atol=1e-12
    )


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("parameters", [{}, {"n": 5}, {"n": 9, "axis": 0}, {"norm": "ortho"}])
def test_fft_along_a_chunked_axis(kernels, name, parameters):
    a = random(8, 6) if name in {"rfft", "ihfft"} else random(8, 6) + 1j * random(8, 6, seed=1)
    found = getattr(kernels.fft, name)(da.from_array(a, chunks=3), **parameters)
    expected = getattr(np.fft, name)(a, **parameters)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.compute(), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("parameters", [{}, {"axes": (0, 1)}, {"s": (5, 7), "axes": (1, 2)}])
def test_fftn(kernels, name, parameters):
    a = random(4, 6, 5) if name == "rfftn" else random(4, 6, 5) + 1j * random(4, 6, 5, seed=1)
    found = getattr(kernels.fft, name)(da.from_array(a, chunks=3), **parameters)
    expected = getattr(np.fft, name)(a, **parameters)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.compute(), expected, atol=1e-12)


def test_diff_stays_lazy(never_computes, dask_backend, kernels):
    import dask

    found = kernels.diff(da.from_array(np.arange(6.0) ** 2, chunks=2), prepend=da.zeros(1) - 1, append=da.zeros(1))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(found.compute(), np.diff(np.arange(6.0) ** 2, prepend=-1, append=0))


def in_one_layer(found, x):
    """Whether what a kernel made says how its blocks are made, and made no task for each."""
    from dask.blockwise import Blockwise

    others = found.dask.dependencies[found.name] - {x.name}
    shared = all(len(found.dask.layers[name]) == 1 for name in others)  # one value, which all blocks get
    return isinstance(found.dask.layers[found.name], Blockwise) and len(others) <= 1 and shared


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [1, -1, (1, 2), (-1, 1)])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
def test_reductions_within_chunks_make_no_tasks_of_their_own(kernels, name, axis, keepdims):
    for dtype in ("float64", "float32", "int8", "bool", "complex64"):
        a = (random(6, 4, 3) * 2).astype(dtype if dtype != "bool" else "int8").astype(dtype)
        if dtype == "float64":
            a[2, 1, 0], a[3] = np.nan, -0.0
        elif dtype == "complex64" and name in ("max", "min"):
            continue
        x = da.from_array(a, chunks=(4, 4, 3))
        found = getattr(kernels, name)(x, axis=axis, keepdims=keepdims)
        expected = getattr(np, name)(a, axis=axis, keepdims=keepdims)
        assert in_one_layer(found, x)
        assert (found.dtype, found.shape, found.ndim) == (expected.dtype, expected.shape, expected.ndim)
        made = found.compute()
        np.testing.assert_array_equal(made, expected)
        if dtype == "float64" and name not in ("any", "all"):
            np.testing.assert_array_equal(np.signbit(made), np.signbit(expected))


def test_a_reduction_over_several_chunks(kernels):
    a = random(6, 4)
    for axis in (0, None, (0, 1)):
        found = kernels.sum(da.from_array(a, chunks=(4, 4)), axis=axis)
        np.testing.assert_allclose(found.compute(), a.sum(axis=axis), rtol=1e-12)
    with pytest.raises(ValueError, match=r"(?i)axis 2 is out of bounds"):
        kernels.sum(da.from_array(a, chunks=(4, 4)), axis=2)


@pytest.mark.parametrize("shape", [(6, 4, 3), (6, 2, 6), (6, 12, 1), (6, 1, 3, 4)])
def test_reshaping_within_chunks_makes_no_tasks_of_its_own(kernels, shape):
    a = random(6, 12)
    x = da.from_array(a, chunks=(4, 12))
    found = kernels.reshape(x, shape)
    assert in_one_layer(found, x)
    assert found.chunks[0] == (4, 2)
    np.testing.assert_array_equal(found.compute(), a.reshape(shape))
    back = kernels.reshape(found, (6, 12))
    assert in_one_layer(back, found)
    np.testing.assert_array_equal(back.compute(), a)


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (1, -1)])
def test_new_axes_make_no_tasks_of_their_own(kernels, axis):
    a = random(6, 4)
    x = da.from_array(a, chunks=(4, 3))
    for given in (x, x[x[:, 0] > 0]):
        found = kernels.expand_dims(given, axis=axis)
        assert in_one_layer(found, given)
        if axis == 1:
            assert in_one_layer(kernels.getitem(given, (slice(None), None)), given)
        np.testing.assert_array_equal(found.compute(), np.expand_dims(a if given is x else a[a[:, 0] > 0], axis))


@pytest.mark.parametrize("last", ["none", "sum", "kept", "reshape"])
@pytest.mark.parametrize("made", ["index", "expand_dims", "reshape", "max", "two"])
def test_axes_of_length_one_are_broadcast_to_several_chunks(kernels, made, last):
    """Dask's own run and that of the plugin, one after the other on the same graph, as the first can change it."""
    a, b = random(3, 2), random(3, 4, 5, seed=1)

    def program(xp, index, a, b):
        if made == "index":
            x = index(a[:, 0], (slice(None), None, None))
        elif made == "two":
            x = xp.expand_dims(xp.sum(a, axis=(-1,)), axis=(1, 2))
        elif made == "max":
            x = xp.expand_dims(xp.max(a, axis=-1, keepdims=True), axis=-1)
        else:
            row = a[:, 0]
            x = xp.reshape(row, (3, 1, 1)) if made == "reshape" else xp.expand_dims(row, axis=(1, -1))
        y = xp.sin(x * b)
        if last == "none":
            return y
        y = xp.sum(y, axis=0, keepdims=last != "sum")
        return xp.reshape(y, (4, 5)) if last == "reshape" else y

    chunks = [(2, 2), (2, 2, 3)]  # along the first axis alike: nothing is rechunked between
    given = [da.from_array(x, chunks=n) for x, n in zip((a, b), chunks, strict=True)]
    found = program(kernels, kernels.getitem, *given)
    expected = program(np, lambda x, key: x[key], a, b)
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
    np.testing.assert_allclose(computing.values(found)[0], expected, rtol=1e-12)
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_of_distances_between_rows_in_chunks(order):
    a, b = random(3, 4), random(2, 4, seed=1)
    x, y = chunked(a, 3, requires_grad=True), chunked(b, 3, requires_grad=True)
    ag.extra.cdist(x, y, p=order).backward(chunked(np.ones((3, 2)), 3))
    between = a[:, None] - b
    each = np.sign(between) if order == 1 else between / np.sqrt((between**2).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(np.asarray(x.grad), each.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(y.grad), -each.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 6), (3, 8), (24,), (2, 2, 6), (1, 24), (6, 4)])
def test_general_reshape(kernels, shape):
    a = random(6, 4)
    np.testing.assert_array_equal(kernels.reshape(da.from_array(a, chunks=(4, 3)), shape).compute(), a.reshape(shape))


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("stop", [5.1, 1 + 2j])
@pytest.mark.parametrize("num", [0, 1, 2, 7, 50])
def test_linspace_ends_where_numpys_does(num, stop, endpoint):
    import dask

    with dask.config.set({"array.chunk-size": 64}):
        found = ag.linspace(0.3, stop, num, endpoint=endpoint, device="dask")
    expected = np.linspace(0.3, stop, num, endpoint=endpoint)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)
    np.testing.assert_array_equal(found.numpy()[-1:], expected[-1:])


def test_shapes_without_elements():
    """Dask's automatic chunks divide by the length of the empty axis."""
    x = ag.zeros((0, 10**10), device="dask")
    assert x.shape == (0, 10**10)
    assert ag.broadcast_to(ag.zeros((0, 1), device="dask"), (3, 0, 10**10)).shape == (3, 0, 10**10)
    assert ag.full((2, 0), 3, device="dask").numpy().shape == (2, 0)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("axis", [0, -1])
def test_sorted_in_the_chunks_of_the_operand(kernels, axis, descending):
    a = np.round(random(7, 5), 1)
    x = da.from_array(a, chunks=(3, 2))
    order = np.argsort(-a if descending else a, axis=axis, stable=True)
    places = kernels.argsort(x, axis=axis, descending=descending)
    np.testing.assert_array_equal(places.compute(), order)
    found = kernels.sort(x, axis=axis, descending=descending)
    np.testing.assert_array_equal(found.compute(), np.take_along_axis(a, order, axis=axis))
    assert found.chunks == places.chunks == x.chunks


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_with_a_sorter_and_a_number(kernels, side):
    a, order = np.array([3.0, 1.0, 2.0]), np.array([1, 2, 0])
    for wanted in (2.0, np.array([0.0, 2.0, 5.0])):
        x2 = da.from_array(wanted, chunks=2) if isinstance(wanted, np.ndarray) else wanted
        found = kernels.searchsorted(da.from_array(a, chunks=2), x2, side=side, sorter=da.from_array(order, chunks=2))
        np.testing.assert_array_equal(np.asarray(found), np.searchsorted(a, wanted, side=side, sorter=order))


def test_how_many_elements_is_known_of_data_in_memory(never_computes):
    x = ag.asarray([3.0, 0.0, 3.0], device="dask")
    assert ag.nonzero(x)[0].shape == (2,)
    assert [part.shape for part in ag.unique_all(x)] == [(2,), (2,), (3,), (2,)]
    assert math.isnan(ag.nonzero(x + 1.0)[0].shape[0])


def test_what_that_gives(dask_backend):
    a = np.array([[3.0, 0.0], [3.0, 1.0]])
    x = ag.asarray(a, device="dask")
    expected = np.unique_all(a)
    for values in (x, ag.asarray(da.from_array(a, chunks=1))):
        for name in ("values", "counts"):
            np.testing.assert_array_equal(getattr(ag.unique_counts(values), name).numpy(), getattr(expected, name))
        np.testing.assert_array_equal(ag.unique_inverse(values).inverse_indices.numpy(), expected.inverse_indices)
        for found, places in zip(ag.nonzero(values), np.nonzero(a), strict=True):
            np.testing.assert_array_equal(found.numpy(), places)


def test_to_dlpack_computes():
    x = chunked([1.0, 2.0, 3.0]) * 2.0
    np.testing.assert_array_equal(np.from_dlpack(x), [2.0, 4.0, 6.0])


def test_from_dlpack():
    x = ag.from_dlpack(np.arange(3.0), device="dask")
    assert isinstance(x._raw, da.Array)
    assert x.tolist() == [0.0, 1.0, 2.0]


# -- sampling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [ag.rand, ag.randn, lambda *s, **k: ag.randint(0, 10, s, **k)])
def test_samples_are_those_of_numpy_while_they_fit_one_chunk(sampler):
    ag.manual_seed(3)
    first = sampler(5, 2, device="dask")
    ag.manual_seed(3)
    np.testing.assert_array_equal(first.numpy(), sampler(5, 2, device="numpy").numpy())


def test_samples_of_many_chunks():
    import dask

    with dask.config.set({"array.chunk-size": "8kB"}):
        ag.manual_seed(0)
        x = ag.randn(100, 100, device="dask")
        ag.manual_seed(0)
        y = ag.randn(100, 100, device="dask")
        z = ag.randn(100, 100, device="dask")
    assert x._raw.npartitions > 1
    a = x.numpy()
    np.testing.assert_array_equal(a, x.numpy())  # computed again
    np.testing.assert_array_equal(a, y.numpy())
    assert not np.any(a == z.numpy())
    assert len(np.unique(a)) == a.size  # no block repeats another
    assert abs(a.mean()) < 0.05
    assert abs(a.std() - 1) < 0.05
    assert sorted(ag.randperm(50, device="dask").tolist()) == list(range(50))
    assert 0 <= ag.rand(device="dask").item() < 1


# -- the plugin -------------------------------------------------------------------------------------------------------


def test_row():
    import dask

    (row,) = (row for row in ag.backends() if row.name == "dask")
    assert row.available
    assert row.version == dask.__version__
    assert row.devices == ("dask",)


def test_dask_loads_when_it_is_needed():
    source = """
        import sys
        import agrad as ag
        ag.zeros(2) + 1.0
        before = "dask" in sys.modules
        ag.zeros(2, device="dask")
        print(before, "dask" in sys.modules)
    """
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(source)]
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout.split() == ["False", "True"]


def test_types_are_claimed_by_name_alone():
    from agrad_dask import agrad_backend_of

    assert agrad_backend_of(da.Array) == "dask"
    assert agrad_backend_of(type("mine", (da.Array,), {})) == "dask"
    assert agrad_backend_of(type("Array", (), {"__module__": "dask.array._array_expr._collection"})) == "dask"
    assert agrad_backend_of(type("Array", (), {"__module__": "array_api_strict"})) is None
    assert agrad_backend_of(np.ndarray) is None


def test_creation_on_dask():
    xp = ag.namespace("dask")
    for made in (xp.zeros((2, 2)), xp.arange(3), xp.linspace(0, 1, 3), xp.eye(2), xp.asarray([1.0]), xp.full((2,), 3)):
        assert isinstance(made._raw, da.Array)
        assert made.device == "dask"
    assert xp.asarray(2.0).item() == 2.0
    assert ag.asarray([[1, 2]], device="dask").dtype == np.int64
    with pytest.raises(ValueError, match="copy=False cannot be met"):
        ag.asarray(np.ones(2), device="dask", copy=False)


def test_pickled_tensor():
    x = chunked(np.arange(4.0), requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_nbytes():
    assert chunked(np.zeros(4)).nbytes == 32
    x = chunked(np.zeros(4))
    assert x[x > 0].nbytes == 0


def test_the_users_array_keeps_its_value_under_in_place_spellings():
    raw = da.zeros(4, chunks=2)
    x = ag.asarray(raw)
    x += 1.0
    x[0] = 5.0
    assert raw.compute().tolist() == [0, 0, 0, 0]
    assert x.tolist() == [5, 1, 1, 1]


def test_data_changed_after_the_crossing_does_not_change_the_tensor():
    a = np.zeros(3)
    x = ag.asarray(a, device="dask")
    a[0] = 1.0
    assert x.tolist() == [0, 0, 0]


def test_labels_in_memory_beside_data_are_named(dask_backend):
    """They go to every chunk whole, and the loss fails there by a mismatch of shapes."""
    import agrad_dask

    x, y = np.ones((12, 2)), np.ones(12)
    loss = lambda w, x, y, scale: ag.mean((x @ w - y) ** 2) * scale[0]
    step = agrad_dask.value_and_grad(loss)
    with pytest.raises(ValueError, match="broadcast") as caught:
        step(np.ones(2), da.from_array(x, chunks=(5, 2)), y, scale=np.ones(3))
    (note,) = [note for note in caught.value.__notes__ if "as many rows" in note]
    assert note.startswith("An argument of shape (12,) has as many rows as the data, and is no Dask array")
    cut = da.from_array(y, chunks=5)
    with pytest.raises(IndexError) as caught:
        step(np.ones(2), da.from_array(x, chunks=(5, 2)), cut, scale=np.ones(0))
    assert not [note for note in caught.value.__notes__ if "as many rows" in note]
    value, _ = step(np.ones(2), da.from_array(x, chunks=(5, 2)), cut, scale=np.ones(3))
    assert value.item() == 1.0


@pytest.mark.parametrize("axis", [0, -1])
def test_the_axis_of_a_number(axis, dask_backend):
    """Reductions take it as NumPy's do (and PyTorch's), what has to have an axis refuses it."""
    host = np.asarray(2.0)
    for name in ("sum", "max", "min", "prod", "any", "all", "argmax", "argmin", "count_nonzero"):
        found = getattr(ag, name)(ag.asarray(da.from_array(host)), axis=axis)
        expected = getattr(np, name)(host, axis=axis)
        assert (found.shape, found.item(), found.dtype) == ((), expected, expected.dtype), name
    x = ag.asarray(da.from_array(host), requires_grad=True)
    assert ag.mean(x, axis=axis).item() == 2.0
    ag.nn.functional.log_softmax(x * x, axis).backward()
    assert x.grad.item() == 0.0
    ag.max(x * x, axis=axis).backward()
    assert x.grad.item() == 4.0
    assert ag.repeat(x, 2, axis=axis).tolist() == np.repeat(host, 2, axis=axis).tolist()
    for name in ("var", "std", "flip", "sort", "argsort", "cumulative_sum", "cumulative_prod"):
        with pytest.raises(ValueError, match=r"axis|dimension"):
            getattr(ag, name)(x, axis=axis)
    with pytest.raises(IndexError, match="out of bounds"):
        ag.sum(x, axis=1)


def test_the_length_of_what_is_not_known_yet_says_so():
    x = ag.asarray(da.from_array(np.arange(6.0), chunks=2))
    with pytest.raises(ValueError, match=r"how long it is, is known once it is computed"):
        len(x[x > 2.0])
    assert len(x[x > 2.0].numpy()) == 3
