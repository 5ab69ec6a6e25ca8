"""Fits per cell on Dask: what results of `map_blocks` look like, `vmap` over functions of blocks, `apply_gufunc`, and xarray's ways there.

NumPy on whole arrays, and complex steps, are what they are compared with; SciPy, for fits.
"""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Task

import agrad as ag
import agrad_dask
from agrad_dask import blocks

RNG = np.random.default_rng(1)
X = RNG.uniform(0.5, 1.5, (6, 4, 5))
K = np.array([0.5, 1.0, 2.0])


def cut(x=X, chunks=(2, 4, 5)):
    return ag.asarray(da.from_array(x, chunks=chunks), requires_grad=True)


# -- what results look like ---------------------------------------------------------------------------------------------


def moments(block):
    return ag.stack([ag.mean(block, axis=2), ag.mean(block**2, axis=2)])


def test_axes_come_and_go():
    x = cut()
    found = agrad_dask.map_blocks(moments, x, dtype=float, chunks=((2,), (2, 2, 2), 4), drop_axis=2, new_axis=0)
    assert found.chunks == ((2,), (2, 2, 2), (4,))
    np.testing.assert_allclose(found.detach().numpy(), [X.mean(2), (X**2).mean(2)])
    ag.sum(found[1]).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X / 5)
    last = agrad_dask.map_blocks(lambda b: b[..., None, None], x, new_axis=(-1, 3))
    assert last.chunks == (*x.chunks, (1,), (1,))


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"dtype": "f4"}, ValueError, "dtype= says f4, and the function gives float64"),
    ({"chunks": (3, 4, 5)}, ValueError, "the function gives blocks of lengths"),
    ({"chunks": (6, 4)}, ValueError, "the function gives blocks of lengths"),
    ({"new_axis": 0}, ValueError, "new_axis= those it adds"),
    ({"name": "mine"}, TypeError, "takes no name=, tasks are named here"),
    ({"meta": X}, TypeError, "takes no meta=, what the function gives is known"),
    ({"enforce_ndim": True}, TypeError, "takes no enforce_ndim="),
])  # fmt: skip
def test_what_is_said_of_results_is_compared(options, error, words):
    with pytest.raises(error, match=words):
        agrad_dask.map_blocks(lambda b: 2 * b, cut(), **options)


def test_what_has_no_meaning_is_refused_by_name():
    with pytest.raises(TypeError, match=r"the function takes block_id.*dask\.array\.arange"):
        agrad_dask.map_blocks(lambda b, block_id=None: b, cut())
    with pytest.raises(TypeError, match="takes no chunks=, the results are as long as the blocks"):
        agrad_dask.map_overlap(lambda b: b, cut(), depth=1, chunks=(2, 4, 5))


# -- vmap over functions of blocks ----------------------------------------------------------------------------------------


def scaled(k, x=None):
    return agrad_dask.map_blocks(lambda b, k: b * k**2, cut() if x is None else x, k)


def test_an_argument_in_memory_is_mapped_over():
    found = ag.vmap(scaled)(ag.asarray(K))
    assert found.chunks == ((3,), (2, 2, 2), (4,), (5,))
    np.testing.assert_allclose(found.detach().numpy(), X * K[:, None, None, None] ** 2)
    each = ag.vmap(ag.grad(lambda k: ag.sum(scaled(k))))(ag.asarray(K))
    np.testing.assert_allclose(each.detach().numpy(), X.sum() * 2 * K)
    _, tangents = ag.jvp(lambda k: ag.vmap(scaled)(k), (ag.asarray(K),), (ag.ones(3, dtype=ag.float64),))
    np.testing.assert_allclose(tangents.detach().numpy(), X * 2 * K[:, None, None, None])


def test_matrices_of_derivatives():
    def f(k):
        return ag.sum(agrad_dask.map_blocks(lambda b, k: b * k[0] * k[1] ** 2, cut(X[0], (2, 5)), k), axis=0)

    k = ag.asarray([2.0, 3.0], dtype=ag.float64)
    np.testing.assert_allclose(ag.jacrev(f)(k).detach().numpy(), X[0].sum(0)[:, None] * [9.0, 12.0])
    np.testing.assert_allclose(ag.jacfwd(f)(k).detach().numpy(), X[0].sum(0)[:, None] * [9.0, 12.0])
    second = ag.hessian(lambda k: ag.sum(f(k)))(k).detach().numpy()
    np.testing.assert_allclose(second, X[0].sum() * np.array([[0.0, 6.0], [6.0, 4.0]]))


@pytest.mark.parametrize("boundary", ["periodic", "none", 0.5])
def test_members_in_chunks_are_mapped_over_with_borders(boundary):
    def step(b):
        return b * ag.roll(b, 1, 0)

    members = np.stack([X[:, :, 0], X[:, :, 1], X[:, :, 2]])
    x = cut(members, (1, 2, 4))
    mapped = ag.vmap(lambda u: agrad_dask.map_overlap(step, u, depth={0: 1}, boundary=boundary))(x)
    assert mapped.chunks == x.chunks
    ag.sum(mapped**2).backward()
    for i, member in enumerate(members):
        alone = cut(member, (2, 4))
        one = agrad_dask.map_overlap(step, alone, depth={0: 1}, boundary=boundary)
        ag.sum(one**2).backward()
        np.testing.assert_allclose(mapped.detach().numpy()[i], one.detach().numpy())
        np.testing.assert_allclose(x.grad.numpy()[i], alone.grad.numpy())
    if boundary == "periodic":
        np.testing.assert_allclose(mapped.detach().numpy(), members * np.roll(members, 1, 1))


@pytest.mark.parametrize("together", [1, 20], ids=["a step in a task", "several"])
@pytest.mark.parametrize("mapped", ["state", "rate"])
def test_several_steps_are_mapped_over(mapped, together, monkeypatch):
    monkeypatch.setattr(blocks, "MORE_WORK", together)
    members, rates, steps = np.stack([X[:, :, 0], X[:, :, 1], X[:, :, 2]]), K / 10, 3

    def run(u, k):
        return agrad_dask.map_overlap(
            lambda u, k: u + k * (ag.roll(u, 1, 0) - u * u), u, k, depth={0: 1}, boundary="periodic", steps=steps
        )

    def by_hand(u, k):
        for _ in range(steps):
            u = u + k * (np.roll(u, 1, -2) - u * u)
        return u

    k = ag.asarray(rates, requires_grad=True)
    if mapped == "state":
        x = cut(members, (1, 3, 4))
        found = ag.vmap(run)(x, k)
        assert found.chunks == x.chunks
        expected, slope = by_hand(members, rates[:, None, None]), by_hand(members + 0j, (rates + 1e-30j)[:, None, None])
    else:
        x = cut(X[:, :, 0], (3, 4))
        found = ag.vmap(lambda k: run(x, k))(k)
        expected, slope = (
            by_hand(X[:, :, 0], rates[:, None, None]),
            by_hand(X[:, :, 0], (rates + 1e-30j)[:, None, None]),
        )
    tasks = sum(isinstance(task, Task) and task.func is blocks._run for task in dict(found._raw.dask).values())
    parts = 6 if mapped == "state" else 2
    assert tasks == parts * (1 if together > 1 else steps)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-13)
    ag.sum(found).backward()
    np.testing.assert_allclose(k.grad.numpy(), slope.imag.sum((1, 2)) / 1e-30, rtol=1e-11)

    def summed(u):
        return by_hand(u, rates[:, None, None]).sum()

    own = members if mapped == "state" else X[:, :, 0]
    steep = [summed(own + 1e-30j * one.reshape(own.shape)).imag / 1e-30 for one in np.eye(own.size)]
    np.testing.assert_allclose(x.grad.numpy(), np.reshape(steep, own.shape), rtol=1e-11)


def test_second_derivatives_with_borders_are_mapped_over():
    def f(u, k):
        made = agrad_dask.map_overlap(lambda u, k: u * ag.roll(u, 1, 0) * k**2, u, k, depth={0: 1}, boundary="reflect")
        return ag.sum(made * made)

    def by_hand(u):
        before = np.concatenate([u[:1], u[:-1]])
        return u, before

    u = X[:, :, 0]
    own, before = by_hand(u)
    second = ag.vmap(ag.grad(ag.grad(lambda k: f(cut(u, (2, 4)), k))))(ag.asarray(K))
    np.testing.assert_allclose(second.detach().numpy(), 12 * K**2 * np.sum((own * before) ** 2), rtol=1e-12)
    tangents = RNG.standard_normal((3, 6, 4))
    x = cut(u, (2, 4))

    def along(t):
        return ag.func.jvp(lambda u: ag.grad(lambda u: f(u, 1.5))(u), (x.detach(),), (t,))[1]

    found = ag.vmap(along)(cut(tangents, (2, 2, 4)).detach())

    def slope(u):
        steep = [
            np.sum(np.prod(by_hand(u + 1e-30j * one.reshape(u.shape)), axis=0) ** 2).imag / 1e-30
            for one in np.eye(u.size)
        ]
        return 1.5**4 * np.reshape(steep, u.shape)

    near = [(slope(u + 1e-5 * t) - slope(u - 1e-5 * t)) / 2e-5 for t in tangents]
    np.testing.assert_allclose(found.detach().numpy(), near, rtol=1e-6, atol=1e-6)


def test_batches_nest():
    def f(a, b):
        return agrad_dask.map_blocks(lambda x, a, b: x * a + b, cut(), a, b)

    found = ag.vmap(lambda a: ag.vmap(lambda b: f(a, b))(ag.asarray(K)))(ag.asarray(2 * K))
    expected = X * (2 * K)[:, None, None, None, None] + K[:, None, None, None]
    np.testing.assert_allclose(found.detach().numpy(), expected)


# -- functions of last axes ---------------------------------------------------------------------------------------------


T = np.linspace(0.0, 1.0, 5)


def line(series, times):
    centred = times - ag.mean(times)
    return ag.stack([ag.sum(centred * series, axis=-1) / ag.sum(centred**2), ag.mean(series, axis=-1)], axis=-1)


def test_last_axes_of_a_signature():
    x = cut()
    found = agrad_dask.apply_gufunc(line, "(t),(t)->(p)", x, T, output_dtypes=float, output_sizes={"p": 2})
    assert found.chunks == ((2, 2, 2), (4,), (2,))
    known = np.polyfit(T - T.mean(), X.reshape(-1, 5).T, 1).T.reshape(6, 4, 2)
    np.testing.assert_allclose(found.detach().numpy(), known)
    ag.sum(found[..., 0] ** 2).backward()
    centred = T - T.mean()
    np.testing.assert_allclose(x.grad.numpy(), 2 * known[..., :1] * centred / (centred**2).sum(), atol=1e-14)


def test_a_function_of_a_cell_is_mapped():
    w = RNG.uniform(size=(6, 1))
    summed, each = agrad_dask.apply_gufunc(
        lambda s, w: (ag.sum(s) * w, s - w), "(t),()->(),(t)", cut(), w, vectorize=True
    )
    np.testing.assert_allclose(summed.detach().numpy(), X.sum(-1) * w)
    np.testing.assert_allclose(each.detach().numpy(), X - w[..., None])
    a, b = da.arange(6.0, chunks=2)[:, None], da.arange(4.0, chunks=2)
    product = agrad_dask.apply_gufunc(lambda a, b: a * b, "(),()->()", a, b)
    assert product.chunks == ((2, 2, 2), (2, 2))
    np.testing.assert_allclose(product.numpy(), np.outer(np.arange(6), np.arange(4)))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda f, x: f(line, "(t),(t)->(p)", x), ValueError, "of 2 arguments, got 1"),
    (lambda f, x: f(line, "(t),(t)->(p)", x, 1.0), ValueError, "argument 1 has 0 axes"),
    (lambda f, x: f(lambda x: x, "(y)->(y)", x.rechunk(2)), ValueError, "the axis y of argument 0 has 3 blocks"),
    (lambda f, x: f(lambda x: x, "(y)->()", x), ValueError, "drop_axis= names the axes"),
    (lambda f, x: f(lambda x: (x, x), "(y)->(y)", x), ValueError, "gives 2 results, where 1 are expected"),
    (lambda f, x: f(lambda x: x, "(y)->(y)", x, output_dtypes=["f4"]), ValueError, "says float32, and the function gives float64"),
    (lambda f, x: f(lambda x: x, "(y)->(y)", x, output_sizes={"y": 3}), ValueError, "says 3 for y, and the function gives 5"),
    (lambda f, x: f(lambda x: x, "(y)->(y)", x, axis=0), TypeError, "takes no axis="),
])  # fmt: skip
def test_what_does_not_fit_a_signature_is_told(call, error, words):
    with pytest.raises(error, match=words):
        call(agrad_dask.apply_gufunc, cut())


def test_axes_in_several_blocks_are_put_together_where_that_is_asked_for():
    x = cut(chunks=(3, 4, 2))
    found = agrad_dask.apply_gufunc(lambda s: ag.mean(s, axis=-1), "(t)->()", x, allow_rechunk=True)
    np.testing.assert_allclose(found.detach().numpy(), X.mean(-1))


# -- labels -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def xr():
    module = pytest.importorskip("xarray")
    import agrad.xarray  # noqa: F401 (other tests run without)

    return module


def labelled(xr, x):
    return xr.DataArray(x, dims=("y", "x", "t"), coords={"y": np.arange(6.0), "x": np.arange(4), "t": T})


def test_apply_ufunc_runs_on_blocks(xr):
    x, k = cut(), ag.asarray(2.0, dtype=ag.float64, requires_grad=True)
    dims = {"input_core_dims": [["t"], ["t"]], "output_core_dims": [["p"]]}
    dims["dask_gufunc_kwargs"] = {"output_sizes": {"p": 2}}
    a = labelled(xr, x)
    found = xr.apply_ufunc(line, a, a.t, dask="parallelized", output_dtypes=[float], **dims)
    assert (found.dims, found.data.chunks) == (("y", "x", "p"), ((2, 2, 2), (4,), (2,)))
    found[..., 1].sum().data.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(X.shape, 0.2))
    raw = labelled(xr, da.from_array(X, chunks=(2, 4, 5)))
    both = xr.apply_ufunc(
        lambda s, k: ag.sum(s) * k, raw, k, input_core_dims=[["t"], []], vectorize=True, dask="parallelized"
    )
    both.sum().data.backward()
    np.testing.assert_allclose(k.grad.item(), X.sum())


def test_map_blocks_of_labelled_blocks(xr):
    def weighed(block, k):
        return (block - block.mean("t")) ** 2 * k * block.y

    x, k = cut(), ag.asarray(2.0, dtype=ag.float64, requires_grad=True)
    found = xr.map_blocks(weighed, labelled(xr, x), args=[k], template=labelled(xr, X))
    assert found.data.chunks == x.chunks
    whole = weighed(labelled(xr, X), 2.0)
    np.testing.assert_allclose(found.data.detach().numpy(), whole.values)
    assert found.y.equals(whole.y)
    found.sum().data.backward()
    np.testing.assert_allclose(k.grad.item(), whole.values.sum() / 2)
    centred = X - X.mean(2, keepdims=True)
    np.testing.assert_allclose(x.grad.numpy(), 4 * centred * np.arange(6.0)[:, None, None], atol=1e-14)
    several = labelled(xr, x).map_blocks(lambda b: b.to_dataset(name="v").assign(m=b.mean("t")))
    np.testing.assert_allclose(several.m.data.detach().numpy(), X.mean(2))


def test_labelled_blocks_that_do_not_go_together_are_told(xr):
    a = labelled(xr, cut())
    with pytest.raises(ValueError, match=r"no dimension 'y', of which there are 3 blocks: chunk"):
        a.map_blocks(lambda b: b.mean("y"))
    with pytest.raises(TypeError, match="must return a DataArray or a Dataset, got Tensor"):
        a.map_blocks(lambda b: b.data)
    with pytest.raises(ValueError, match=r"unify_chunks"):
        xr.map_blocks(lambda a, b: a + b, a, args=[a.chunk(y=3)])
    with pytest.raises(ValueError, match="the template is a DataArray of sizes"):
        a.map_blocks(lambda b: b.mean("t"), template=a)


# -- fits that SciPy knows ------------------------------------------------------------------------------------------------


def test_harmonics():
    optimize = pytest.importorskip("scipy.optimize")
    waves = np.stack([np.ones(5), np.cos(4 * T), np.sin(4 * T)], axis=1)
    found = agrad_dask.apply_gufunc(lambda y: y @ ag.linalg.pinv(ag.asarray(waves)).T, "(t)->(p)", cut())
    for cell in ((0, 0), (5, 3)):
        known = optimize.curve_fit(lambda t, a, b, c: waves @ [a, b, c], T, X[cell], p0=[1, 1, 1])[0]
        np.testing.assert_allclose(found.detach().numpy()[cell], known, rtol=1e-6)


def test_a_logistic_fit_and_its_implicit_derivative():
    optimize = pytest.importorskip("scipy.optimize")
    times = np.linspace(-1.0, 1.0, 12)
    chances = RNG.uniform(0.1, 0.9, (4, 3, 12))

    def surprise(p, series):
        odds = p[0] + p[1] * times
        return ag.mean(ag.logaddexp(0.0, odds) - odds * series)

    slopes, matrices = ag.vmap(ag.grad(surprise)), ag.vmap(ag.hessian(surprise))

    def fit(block):
        series = ag.reshape(block, (-1, 12))
        seen = series.detach()

        def improved(p, _):
            return p - ag.linalg.solve(matrices(p, seen), slopes(p, seen)[..., None])[..., 0], None

        p = ag.func.scan(improved, 0 * seen[:, :2], length=12)[0].detach()
        last = ag.linalg.solve(matrices(p, seen).detach(), slopes(p, series)[..., None])
        return ag.reshape(p - last[..., 0], (*block.shape[:-1], 2))

    x = cut(chances, (2, 3, 12))
    found = agrad_dask.apply_gufunc(fit, "(t)->(p)", x)
    ag.sum(found[..., 1]).backward()

    def by_scipy(series):
        def loss(p):
            odds = p[0] + p[1] * times
            return np.mean(np.logaddexp(0, odds) - odds * series)

        return optimize.minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-16}).x

    for cell in ((0, 0), (3, 2)):
        np.testing.assert_allclose(found.detach().numpy()[cell], by_scipy(chances[cell]), atol=1e-6)
        step = 1e-2 * np.eye(12)[7]
        slope = (by_scipy(chances[cell] + step) - by_scipy(chances[cell] - step))[1] / 2e-2
        np.testing.assert_allclose(x.grad.numpy()[cell][7], slope, rtol=1e-3)


def test_an_implicit_derivative_is_refused_with_what_does_the_same():
    values = np.linspace(1.0, 8.0, 12)

    def solve(a):
        x = ag.ones_like(a)
        for _ in range(20):
            x = x - (x**3 - a) / (3 * x**2)
        return x

    a = ag.asarray(da.from_array(values, chunks=4)).requires_grad_(True)
    with pytest.raises(
        ag.func.CaptureError, match=r"func.implicit runs a solver on values.*\n.*take one step of Newton's"
    ):
        agrad_dask.map_blocks(ag.func.implicit(solve, lambda x, a: x**3 - a), a)
    x = agrad_dask.map_blocks(solve, a.detach())
    x = agrad_dask.map_blocks(lambda x, a: x - (x**3 - a) / (3 * x**2), x, a)
    ag.sum(x).backward()
    np.testing.assert_allclose(x.detach().numpy(), np.cbrt(values))
    np.testing.assert_allclose(a.grad.numpy(), np.cbrt(values) ** -2 / 3)
