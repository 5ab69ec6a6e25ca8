"""Sparse Jacobians and Hessians: equal to dense ones, by few products, and taken by SciPy's solvers as they are."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from cupy_stand_in import fake
from sparse_functions import OF_LIBRARIES, TIGHT, points

import agrad as ag
from agrad import func

sp = pytest.importorskip("scipy.sparse")
integrate = pytest.importorskip("scipy.integrate")
optimize = pytest.importorskip("scipy.optimize")

MODES = pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "mixed"])


def tridiagonal(x):
    y = x * ag.sin(x)
    return ag.concat([y[:1] - x[1:2], y[1:-1] * x[2:] - x[:-2], y[-1:] - x[-2:-1]])


def arrow(x):
    return ag.concat([ag.sum(x**2).reshape((1,)), x[1:] ** 2 * x[0]])


def rosenbrock(x):
    return ag.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def brusselator(t, u):
    """Two species on a ring of two dimensions."""
    u, v = u[0], u[1]
    spread = [
        ag.roll(w, 1, axis=0) + ag.roll(w, -1, axis=0) + ag.roll(w, 1, axis=1) + ag.roll(w, -1, axis=1) - 4 * w
        for w in (u, v)
    ]
    return ag.stack([1 + u * u * v - 4.4 * u + 0.1 * spread[0], 3.4 * u - u * u * v + 0.1 * spread[1]])


# -- colours ------------------------------------------------------------------------------------------------------------


def band(n):
    return sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])


def test_colours_of_bands_and_arrows():
    found = func.coloring(band(1000))
    assert (found.forward, found.reverse) == (3, 0)
    assert str(found) == "<Coloring: 3 colours for 1,000 columns; 2,998 entries>"
    pattern = sp.lil_array((50, 50))
    pattern.setdiag(1)
    pattern[0, :] = pattern[:, 0] = 1
    assert func.coloring(pattern, "forward").forward == 50
    both = func.coloring(pattern)
    assert (both.forward, both.reverse) == (2, 1)
    symmetric = func.coloring(pattern, symmetric=True)  # each entry at its mirror image
    assert (symmetric.forward, symmetric.reverse) == (2, 0)


@pytest.mark.parametrize("seed", range(6))
@MODES
def test_any_matrix_is_found_again(seed, mode):
    """Products with the seeds, made of the matrix itself, have every entry where the colouring says."""
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((30, 40), density=0.06, rng=rng).tolil()
    matrix[seed] = rng.uniform(size=40)
    matrix[:, 2 * seed] = rng.uniform(size=(30, 1))
    matrix = matrix.tocsr()
    found = func.coloring(matrix, mode)
    ahead, back = found.seeds()
    products = np.concatenate([(matrix @ ahead.T).T.ravel(), (matrix.T @ back.T).T.ravel()])
    np.testing.assert_array_equal(found.matrix(products[found.places]).toarray(), matrix.toarray())
    square = sp.random_array((40, 40), density=0.05, rng=rng)
    square = (square + square.T).tocsr()
    found = func.coloring(square, symmetric=True)
    products = (square @ found.seeds()[0].T).T.ravel()
    np.testing.assert_array_equal(found.matrix(products[found.places]).toarray(), square.toarray())
    assert found.forward <= func.coloring(square, "forward").forward


def test_colourings_are_kept(tmp_path):
    found = func.coloring(band(20))
    found.save(tmp_path / "band.npz")
    for again in (func.Coloring.load(tmp_path / "band.npz"), pickle.loads(pickle.dumps(found))):
        assert repr(again) == repr(found)
        np.testing.assert_array_equal(again.places, found.places)
        x = points(20)
        np.testing.assert_allclose(
            func.sparse_jacobian(tridiagonal, sparsity=again)(x).toarray(), func.jacrev(tridiagonal)(x).numpy()
        )
    assert "<svg" in found._repr_html_()
    assert found.spy(3).count("\n") == 2
    with pytest.raises(ValueError, match="mode= is one of"):
        func.coloring(band(3), "sideways")
    with pytest.raises(ValueError, match="is not symmetric"):
        func.coloring(np.ones((2, 3)), symmetric=True)
    with pytest.raises(ValueError, match="do not separate the entry"):
        func.Coloring(func.coloring(band(3)).pattern, np.zeros(3, dtype=int), np.full(3, -1))


def test_empty_matrices():
    assert func.coloring(np.zeros((3, 4))).pattern.nnz == 0
    assert func.sparse_jacobian(lambda x: ag.ones(2) + 0 * x[:2])(points(3)).toarray().tolist() == [[0.0] * 3] * 2


# -- matrices -----------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "tridiagonal": (tridiagonal, (7,)),
    "arrow": (arrow, (9,)),
    "ring": (lambda x: brusselator(0.0, x), (2, 3, 4)),
    "matrix": (lambda x: x @ x.T, (3, 2)),
    "scalar": (lambda x: ag.sum(x**3), (4,)),
    "dense": (lambda x: x / ag.sum(x), (4,)),
    "containers": (lambda x: {"a": x[0] * x[1], "b": (x[1:] ** 2, x[0])}, (4,)),
    "nothing": (lambda x: x[:0], (3,)),
    "float32": (lambda x: ag.astype(x, ag.float32)[1:] * 2, (4,)),
    "loop": (lambda x: func.scan(lambda c, row: (row, c * row), x[0], x[1:])[1], (5, 2)),
    "itself": (lambda x: x, (3,)),
}


@pytest.mark.parametrize("name", [*TIGHT, *OF_LIBRARIES])
def test_sparse_is_dense(name):
    f, shape = (TIGHT | OF_LIBRARIES)[name]
    x = points(*shape)
    dense = func.jacrev(f)(x).numpy().reshape(-1, x.size)
    for mode in ("auto", "reverse"):
        found = func.sparse_jacobian(f, mode=mode)(x).toarray()
        np.testing.assert_allclose(found, dense, rtol=1e-9, atol=1e-12)


@MODES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians(name, mode):
    f, shape = FUNCTIONS[name]
    x = points(*shape)
    flat = lambda x: ag.concat([y.reshape((-1,)) for y in ag.tree.flatten(f(x))[0]])
    dense = func.jacrev(flat)(x).numpy().reshape(-1, x.size)
    jacobian = func.sparse_jacobian(f, mode=mode, with_value=True)
    for _ in range(5):  # from the third on it is a program
        found, value = jacobian(x)
        assert sp.issparse(found)
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-6 if name == "float32" else 1e-13)
    np.testing.assert_array_equal(ag.tree.flatten(value)[0][0].numpy(), ag.tree.flatten(f(x))[0][0].numpy())
    one_by_one = func.sparse_jacobian(f, mode=mode, chunk_size=1)(x)
    np.testing.assert_allclose(one_by_one.toarray(), dense, rtol=1e-6 if name == "float32" else 1e-13)


HESSIANS = {
    "chain": (rosenbrock, (8,)),
    "arrow": (lambda x: ag.sum(x[1:] ** 2 * x[0]) + x[0] ** 3, (8,)),
    "separable": (lambda x: ag.sum(ag.sin(x)), (5,)),
    "dense": (lambda x: ag.sum(x) ** 3, (4,)),
    "linear": (lambda x: ag.sum(x), (4,)),
    "grid": (lambda x: ag.sum((x[1:] - x[:-1]) ** 4) + ag.sum((x[:, 1:] - x[:, :-1]) ** 4), (4, 5)),
    "likelihood": (lambda x: -ag.sum(ag.special.log_expit(x[1:] - x[0])), (6,)),
}


@MODES
@pytest.mark.parametrize("name", HESSIANS)
def test_hessians(name, mode):
    f, shape = HESSIANS[name]
    x = points(*shape)
    dense = func.hessian(f)(x).numpy().reshape(x.size, x.size)
    hessian = func.sparse_hessian(f, mode=mode, with_value=True)
    for _ in range(5):
        found, value = hessian(x)
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-13)
        assert float(value) == float(f(x))
    pattern = func.hessian_sparsity(f)(x).toarray()
    np.testing.assert_array_equal(pattern, pattern.T)
    assert not ((dense != 0) & ~pattern).any()


def test_a_symmetric_matrix_takes_fewer_products():
    f, _ = HESSIANS["arrow"]
    assert func.sparse_hessian(f).coloring(points(50)).forward == 2


def test_several_arguments_and_numbers():
    f = lambda t, x, p: p["rate"] * x[1:] * x[:-1] + t
    t, x, p = 2.0, points(4), {"rate": ag.tensor(3.0)}
    found = func.sparse_jacobian(f, (1, 2))(t, x, p).toarray()
    by_x, by_p = func.jacrev(f, (1, 2))(t, x, p)
    np.testing.assert_allclose(found, np.concatenate([by_x.numpy(), by_p["rate"].numpy()[:, None]], axis=1))
    np.testing.assert_allclose(func.sparse_jacobian(f, 0)(t, x, p).toarray(), np.ones((3, 1)))
    by_name = func.sparse_jacobian(lambda x, *, k: x * k)(x, k=2.0)
    np.testing.assert_allclose(by_name.toarray(), 2 * np.eye(4))
    jacobian = func.sparse_jacobian(lambda x, at: ag.take(x, at, axis=0) ** 2)
    for at in ([0, 1], [3, 3]):  # the pattern is another one
        expected = np.eye(4)[at] * 2 * x.numpy()
        np.testing.assert_allclose(jacobian(x, np.array(at)).toarray(), expected)


def test_arrays_give_arrays():
    found, value = func.sparse_jacobian(tridiagonal, with_value=True)(points(5).numpy())
    assert type(value) is np.ndarray
    assert type(found.data) is np.ndarray
    found.data *= 2  # it is the caller's
    again = func.sparse_jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    again.setdiag(0)
    again.eliminate_zeros()


def test_the_matrix_is_the_callers():
    jacobian = func.sparse_jacobian(tridiagonal)
    x = points(6)
    found = jacobian(x)
    found.data[:] = 0
    found.eliminate_zeros()
    np.testing.assert_allclose(jacobian(x).toarray(), func.jacrev(tridiagonal)(x).numpy())


def test_entries_within_transforms():
    x = points(5)
    jacobian = func.sparse_jacobian(tridiagonal)
    pattern = jacobian.coloring(x).pattern
    dense = func.grad(lambda x: ag.sum(func.jacfwd(tridiagonal)(x) ** 2))(x)
    found = func.grad(lambda x: ag.sum(jacobian.values(x) ** 2))(x)
    np.testing.assert_allclose(found.numpy(), dense.numpy(), rtol=1e-12)
    rows = func.vmap(jacobian.values)(ag.stack([x, 2 * x])).numpy()
    np.testing.assert_allclose(rows[1], func.jacrev(tridiagonal)(2 * x).numpy()[pattern.nonzero()])
    compiled = ag.compile(jacobian.values)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), rows[0])


def test_a_compiled_function():
    jacobian, x = func.sparse_jacobian(ag.compile(tridiagonal)), points(6)
    for _ in range(4):
        np.testing.assert_allclose(jacobian(x).toarray(), func.jacrev(tridiagonal)(x).numpy())


# -- patterns that do not hold --------------------------------------------------------------------------------------------


def test_a_pattern_that_is_too_small_is_found_at_first_use():
    x = points(6)
    small = sp.eye_array(6)
    with pytest.raises(
        ValueError, match=r"the pattern of tridiagonal is too small, in 6 rows, as in row 0: there columns 1 are not 0"
    ):
        func.sparse_jacobian(tridiagonal, sparsity=small)(x)
    with pytest.raises(ValueError, match="too small, in 6 columns, as in column 0"):
        func.sparse_jacobian(tridiagonal, sparsity=small, mode="reverse")(x)
    with pytest.raises(ValueError, match="the pattern of rosenbrock is too small"):
        func.sparse_hessian(rosenbrock, sparsity=small)(x)
    for shape in ((6, 5), (5, 6), (6, 7), (9, 6)):
        for mode in ("forward", "reverse"):
            with pytest.raises(ValueError, match="the pattern has"):
                func.sparse_jacobian(tridiagonal, sparsity=np.ones(shape), mode=mode)(x)
    larger = func.sparse_jacobian(tridiagonal, sparsity=np.ones((6, 6)))(x)
    np.testing.assert_allclose(larger.toarray(), func.jacrev(tridiagonal)(x).numpy())


@pytest.mark.parametrize("calls", [1, 2, 3, 6])
def test_what_is_outside_may_change(calls):
    """A matrix, a weight, and what Python chooses: whenever it changes, the next matrix is right."""
    x, state = points(4), {"weight": 0.0, "turned": False}
    matrix, mask = ag.asarray(np.eye(4)), ag.asarray([True, False, True, True])

    def f(x):
        y = ag.where(mask, matrix @ x, 0.0) + state["weight"] * x**2
        return y + x[::-1] ** 2 if state["turned"] else y

    def change_matrix():
        matrix[0, 3] = 5.0

    def change_mask():
        mask[1] = True

    for change in (change_matrix, change_mask, lambda: state.update(weight=2.0), lambda: state.update(turned=True)):
        jacobian = func.sparse_jacobian(f)
        for _ in range(calls):
            jacobian(x)
        change()
        np.testing.assert_allclose(jacobian(x).toarray(), func.jacrev(f)(x).numpy(), err_msg=str(change))


def test_a_branch_by_value_needs_a_pattern():
    def f(x):
        return x**2 if x[0] > 0 else x

    x = points(4)
    with pytest.raises(func.CaptureError) as caught:
        func.sparse_jacobian(f)(x)
    assert "pass the pattern of f as sparsity=" in "".join(caught.value.__notes__)
    jacobian = func.sparse_jacobian(f, sparsity=np.eye(4))
    for _ in range(5):
        np.testing.assert_allclose(jacobian(x).toarray(), np.diag(2 * x.numpy()))
        np.testing.assert_allclose(jacobian(-x).toarray(), np.eye(4))


def test_a_dense_function_says_what_it_costs():
    with pytest.warns(UserWarning, match="100% of its entries may be nonzero. It takes 120 products"):
        func.sparse_jacobian(lambda x: x / ag.sum(x))(points(120))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        func.sparse_jacobian(tridiagonal)(points(120))


def test_refusals():
    with pytest.raises(TypeError, match="takes real arguments"):
        func.sparse_jacobian(lambda x: x)(ag.asarray([1j]))
    with pytest.raises(TypeError, match="takes real results"):
        func.sparse_jacobian(lambda x: x * 1j)(points(2))
    with pytest.raises(ValueError, match="should be greater than 0"):
        func.sparse_jacobian(lambda x: x, chunk_size=0)
    with pytest.raises(RuntimeError, match="floating"):
        func.sparse_jacobian(lambda x: x * 1.0)(np.array([1, 2]))
    assert func.sparse_jacobian(lambda x: x**2)(np.ones(3, dtype=np.float16)).dtype == np.float32  # SciPy has no halves


# -- SciPy --------------------------------------------------------------------------------------------------------------


def test_solve_ivp():
    u0 = points(2, 4, 4).numpy()
    flat = lambda t, u: brusselator(t, u.reshape((2, 4, 4))).reshape((-1,))
    plain = lambda t, u: flat(t, ag.asarray(u)).numpy()
    jacobian = func.sparse_jacobian(flat, 1)
    for method in ("BDF", "Radau"):
        options = {"method": method, "rtol": 1e-8, "atol": 1e-10}
        wanted = integrate.solve_ivp(plain, (0, 0.5), u0.ravel(), **options)
        found = integrate.solve_ivp(plain, (0, 0.5), u0.ravel(), jac=jacobian, **options)
        np.testing.assert_allclose(found.y[:, -1], wanted.y[:, -1], rtol=1e-6)
        pattern = func.jacobian_sparsity(flat, 1)(0.0, u0.ravel())
        found = integrate.solve_ivp(plain, (0, 0.5), u0.ravel(), jac_sparsity=pattern, **options)
        np.testing.assert_allclose(found.y[:, -1], wanted.y[:, -1], rtol=1e-6)


def test_optimizers():
    x0 = np.full(12, 0.5)
    plain, slope = (lambda x: float(rosenbrock(ag.asarray(x)))), (lambda x: func.grad(rosenbrock)(x))
    for method in ("trust-constr", "Newton-CG"):
        found = optimize.minimize(plain, x0, jac=slope, hess=func.sparse_hessian(rosenbrock), method=method, tol=1e-10)
        np.testing.assert_allclose(found.x, np.ones(12), rtol=1e-5)
    residuals = lambda x: ag.concat([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])
    found = optimize.least_squares(lambda x: residuals(ag.asarray(x)).numpy(), x0, jac=func.sparse_jacobian(residuals))
    np.testing.assert_allclose(found.x, np.ones(12), rtol=1e-5)
    pattern = func.jacobian_sparsity(residuals)(x0)
    found = optimize.least_squares(lambda x: residuals(ag.asarray(x)).numpy(), x0, jac_sparsity=pattern)
    np.testing.assert_allclose(found.x, np.ones(12), rtol=1e-4)


def test_spsolve_and_dense_ones():
    f = lambda x: ag.concat([x[:1] - 1, 2 * x[1:] - x[:-1] + x[1:] ** 3])
    jacobian, x = func.sparse_jacobian(f), np.zeros(10)
    for _ in range(10):
        x = x - sp.linalg.spsolve(jacobian(x).tocsc(), f(ag.asarray(x)).numpy())
    np.testing.assert_allclose(f(ag.asarray(x)).numpy(), 0, atol=1e-12)
    found = optimize.root(lambda x: f(ag.asarray(x)).numpy(), np.zeros(10), jac=lambda x: jacobian(x).toarray())
    np.testing.assert_allclose(found.x, x, atol=1e-8)


# -- operators and covariances --------------------------------------------------------------------------------------------


def test_operators():
    rng = np.random.default_rng(0)
    x, f = points(5), lambda x: {"a": x[1:] * x[:-1], "b": ag.sum(x**2)}
    J = func.jacobian_operator(f)(x)
    dense = func.sparse_jacobian(f)(x).toarray()
    assert isinstance(J, sp.linalg.LinearOperator)
    v, u = rng.normal(size=5), rng.normal(size=5)
    np.testing.assert_allclose(J @ v, dense @ v)
    np.testing.assert_allclose(J.T @ u, dense.T @ u)
    np.testing.assert_allclose(J @ np.eye(5), dense)
    H = func.hessian_operator(rosenbrock)(x)
    np.testing.assert_allclose(H @ v, func.hessian(rosenbrock)(x).numpy() @ v)
    np.testing.assert_allclose(H.T @ v, H @ v)
    G = func.gauss_newton_operator(f)(x)
    np.testing.assert_allclose(G @ v, dense.T @ dense @ v)
    solved, status = sp.linalg.cg(func.gauss_newton_operator(lambda x: x**2)(x), v, rtol=1e-12)
    assert status == 0
    np.testing.assert_allclose(solved, v / (4 * x.numpy() ** 2), rtol=1e-8)


def test_propagate():
    rng = np.random.default_rng(0)
    x, f = points(4), lambda x: x[1:] * x[:-1]
    J = func.jacrev(f)(x).numpy()
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T
    value, found = func.propagate(f)(x, covariance)
    np.testing.assert_array_equal(value.numpy(), f(x).numpy())
    np.testing.assert_allclose(found, J @ covariance @ J.T)
    variances = np.array([1.0, 2.0, 3.0, 4.0])
    for given in (variances, sp.diags_array(variances), ag.asarray(variances)):
        _, found = func.propagate(f)(x, given)
        assert sp.issparse(found)
        np.testing.assert_allclose(found.toarray(), J @ np.diag(variances) @ J.T)
    # the difference of what is the same is certain: correlations are kept
    _, found = func.propagate(lambda x: x.sum() - x[0] - x[1:].sum())(x, covariance)
    np.testing.assert_allclose(found, [[0.0]], atol=1e-12)
    with pytest.raises(ValueError, match="the covariance of 4 elements is"):
        func.propagate(f)(x, np.eye(3))


def test_monte_carlo_agrees_with_propagate():
    rng = np.random.default_rng(1)
    x, f = points(3), lambda x: ag.stack([ag.exp(x[0]) * x[1], x[1] / x[2]])
    covariance = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.5], [0.0, -0.5, 1.5]]) * 1e-4
    samples = rng.multivariate_normal(x.numpy(), covariance, size=200_000)
    wanted = np.cov(func.vmap(f)(ag.asarray(samples)).numpy().T)
    np.testing.assert_allclose(func.propagate(f)(x, covariance)[1], wanted, rtol=0.02)


@pytest.mark.parametrize("mode", ["forward", "mixed", "reverse"])
@pytest.mark.parametrize("scale", [10.0, 30.0])
def test_what_rounding_leaves_of_a_zero_is_not_compared(mode, scale):
    """The derivative of a loss that is all but 0 is a difference of equal numbers, which two ways of computing it round apart."""
    F = ag.nn.functional
    f = lambda x: ag.concat([x.reshape((-1,)), F.cross_entropy(scale * x, ag.asarray([0])).reshape((1,))])
    for seed in range(6):
        x = ag.asarray(np.random.default_rng(seed).normal(size=(1, 3)) + np.array([[3, 0, 0]]))
        found = func.sparse_jacobian(f, mode=mode)(x).toarray()
        np.testing.assert_allclose(found, func.jacrev(f)(x).numpy().reshape(4, 3), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_entries_that_are_small_are_not_0(mode):
    for small in (1.0, 1e-12, 1e-30):
        factor = ag.asarray([1.0, small])
        lines, others = ("row", "column") if mode == "forward" else ("column", "row")
        with pytest.raises(ValueError, match=f"as in {lines} 1: there {others}s 1 are not 0"):
            func.sparse_jacobian(lambda x: x * factor, mode=mode, sparsity=[[1, 0], [0, 0]])(ag.ones(2))  # noqa: B023


# -- on other libraries -------------------------------------------------------------------------------------------------


CUT = np.random.default_rng(5).uniform(0.5, 1.5, (40, 3))


def in_chunks(loaded):
    """Return an array in four chunks of rows, which are noted when they are loaded."""
    da = pytest.importorskip("dask.array")

    def load(block_id=None):
        loaded.append(block_id[0])
        return CUT[10 * block_id[0] : 10 * block_id[0] + 10]

    return da.map_blocks(load, chunks=((10,) * 4, (3,)), dtype=float, meta=np.empty((0, 0)))


@pytest.mark.parametrize(
    ("f", "chunks", "needed"),
    [
        (lambda x: x[:, 1:] * x[:, :-1] ** 2, [20] * 4, [0]),
        (lambda x: {"a": ag.sin(x), "b": ag.sum(x**2, axis=1)}, [*[30] * 4, *[10] * 4], [0, 1]),
        (lambda x: ag.sum(x, axis=0) ** 2, [3], [0, 1, 2, 3]),
        (lambda x: ag.concat([ag.sum(x**2).reshape((1,)), x[:, 0]]), [1, *[10] * 4], [0, 1, 2, 3]),
    ],
)
def test_on_dask_in_chunks_of_rows(f, chunks, needed):
    """Nothing is computed in the call; where rows are independent, a block needs its own chunk alone."""
    loaded = []
    x = in_chunks(loaded)
    jacobian = func.sparse_jacobian(f)
    dense = np.concatenate(
        [leaf.numpy().reshape(-1, 120) for leaf in ag.tree.flatten(func.jacrev(f)(ag.asarray(CUT)))[0]]
    )
    for _ in range(4):
        found = jacobian(x)
        assert not loaded
        assert [list(sizes) for sizes in found.chunks] == [chunks, [120]]
        assert type(found._meta) is sp.csr_array
        first = found.blocks[0].compute()
        assert sorted({*loaded}) == needed
        whole = found.compute()
        assert type(first) is type(whole) is sp.csr_array
        np.testing.assert_allclose(whole.toarray(), dense, rtol=1e-14)
        np.testing.assert_array_equal(first.toarray(), whole.toarray()[: chunks[0]])
        loaded.clear()


def test_hessians_and_values_on_dask():
    loaded = []
    x = in_chunks(loaded)
    f = lambda x: ag.sum(x[:, 1:] * x[:, :-1] ** 3)
    found, value = func.sparse_hessian(f, with_value=True)(x)
    assert not loaded
    assert [list(sizes) for sizes in found.chunks] == [[30] * 4, [120]]
    dense = func.hessian(f)(ag.asarray(CUT)).numpy().reshape(120, 120)
    np.testing.assert_allclose(found.compute().toarray(), dense, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(value), f(ag.asarray(CUT)).numpy())
    variances = np.full(120, 0.25)
    _, covariance = func.propagate(ag.sin)(ag.asarray(x), variances)
    np.testing.assert_allclose(covariance.toarray(), np.diag(0.25 * np.cos(CUT.ravel()) ** 2))


def test_patterns_are_compared_where_dask_computes():
    x = in_chunks([])
    f = lambda x: x[:, 1:] * x[:, :-1]
    wrong = func.sparse_jacobian(f, sparsity=np.eye(80, 120))(x)
    with pytest.raises(ValueError, match="the pattern of <lambda> is too small, as in row"):
        wrong.compute()
    step = 1
    jacobian = func.sparse_jacobian(lambda x: ag.roll(x, step, axis=1) * x)
    jacobian(x).compute()
    step = 2
    changed = jacobian(x)
    with pytest.raises(ValueError, match=r"has changed\. Make a new one of it, as in row"):
        changed.compute()


def test_on_cupy():
    """On the stand-in: matrices of cupyx.scipy.sparse on the device of the argument, and no value but those compared leaves it."""
    fake("""
        import cupyx.scipy.sparse
        from agrad import func
        f = lambda x: ag.concat([x[:1] ** 2, x[1:] * x[:-1]])
        host = np.linspace(1.0, 2.0, 9)
        dense = func.jacrev(f)(ag.asarray(host)).numpy()
        for device in ("cupy:0", "cupy:1"):
            x = ag.asarray(host, device=device)
            jacobian = func.sparse_jacobian(f)
            for call in range(1, 6):
                before = len(fake_cupy.WAITS)
                found = jacobian(x)
                if call == 5 and device == "cupy:0":
                    assert "get" not in fake_cupy.WAITS[before:], fake_cupy.WAITS[before:]
                assert type(found) is cupyx.scipy.sparse.csr_matrix
                assert {f"cupy:{part.device.id}" for part in (found.data, found.indices, found.indptr)} == {device}
                np.testing.assert_allclose(found.get().toarray(), dense)
                with found.data.device:
                    found.data[:] = 0.0
                    found.indices[:] = 0
        small = ag.asarray(host.astype("float16"), device="cupy:0")
        assert func.sparse_jacobian(f)(small).dtype == np.float32
        g = lambda x: ag.sum(x[1:] * x[:-1] ** 2)
        found = func.sparse_hessian(g)(cupy.asarray(host))
        np.testing.assert_allclose(found.get().toarray(), func.hessian(g)(ag.asarray(host)).numpy())
        value, covariance = func.propagate(ag.sin)(ag.asarray(host, device="cupy:0"), np.full(9, 0.25))
        np.testing.assert_allclose(covariance.toarray(), np.diag(0.25 * np.cos(host) ** 2))
        try:
            func.sparse_jacobian(f, sparsity=np.eye(9))(ag.asarray(host, device="cupy:0"))
        except ValueError as error:
            assert "is too small" in str(error)
        else:
            raise AssertionError("the pattern lacks entries")
    """)
