"""agrad.scipy.sparse.linalg: SciPy's values, and the derivatives of dense solutions and of finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad import func

sp = pytest.importorskip("scipy.sparse")
theirs = pytest.importorskip("scipy.sparse.linalg")

from agrad.scipy.linalg import expm  # noqa: E402
from agrad.scipy.sparse import linalg  # noqa: E402

RNG = np.random.default_rng(11)
N = 7


def matrix(kind="any"):
    made = sp.random_array((N, N), density=0.3, rng=np.random.default_rng(5)) + 4 * sp.eye_array(N)
    return (made @ made.T if kind == "positive" else made).tocsr()


def leaf(array):
    return ag.tensor(np.asarray(array), requires_grad=True)


def assert_close(found, wanted, tolerance=1e-9):
    found, wanted = (x.detach().numpy() if isinstance(x, ag.Tensor) else np.asarray(x) for x in (found, wanted))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def dense(S):
    return S.to_dense()


SOLVERS = {
    "cg": lambda A, b: linalg.cg(A, b, rtol=1e-13)[0],
    "gmres": lambda A, b: linalg.gmres(A, b, rtol=1e-13)[0],
    "spsolve": linalg.spsolve,
}
EVERY = pytest.mark.parametrize("solver", SOLVERS)


@EVERY
def test_solutions_and_derivatives_are_those_of_dense_equations(solver):
    A, solve = matrix("positive"), SOLVERS[solver]
    values, b = leaf(A.data), leaf(RNG.normal(size=N))

    def of(values, b):
        return solve(ag.sparse.from_scipy(A, values), b)

    def plain(values, b):
        return ag.linalg.solve(dense(ag.sparse.from_scipy(A, values)), b)

    found, wanted = of(values, b), plain(values, b)
    assert_close(found, wanted)
    g = ag.asarray(RNG.normal(size=N))
    for a, c in zip(ag.grad(found, (values, b), g), ag.grad(wanted, (values, b), g), strict=True):
        assert_close(a, c)
    assert ag.autograd.gradcheck(of, (values, b))
    assert ag.autograd.gradgradcheck(of, (values, b))
    directions = ag.asarray(RNG.normal(size=A.nnz)), ag.asarray(RNG.normal(size=N))
    points = values.detach(), b.detach()
    assert_close(func.jvp(of, points, directions)[1], func.jvp(plain, points, directions)[1])
    assert_close(func.jacrev(solve, 1)(A, b.detach()), np.linalg.inv(A.toarray()))  # mapped over cotangents


@EVERY
def test_constant_matrices_of_any_kind(solver):
    A, b = matrix("positive"), RNG.normal(size=N)
    wanted = np.linalg.solve(A.toarray(), b)
    back = np.linalg.solve(A.toarray().T, np.ones(N))
    kinds = [A, A.tocsc(), A.tocoo(), sp.csr_matrix(A)]
    if solver != "spsolve":
        kinds += [A.toarray(), theirs.aslinearoperator(A)]
    for kind in kinds:
        right = leaf(b)
        x = SOLVERS[solver](kind, right)
        assert_close(x, wanted)
        assert_close(ag.grad(ag.sum(x), right)[0], back)


def test_what_scipy_says_and_takes():
    A, b = matrix("positive"), RNG.normal(size=N)
    x, info = linalg.cg(A, b, np.ones(N), M=sp.diags_array(1 / A.diagonal()), rtol=1e-10)
    assert isinstance(x, np.ndarray)
    assert info == 0
    assert_close(x, theirs.cg(A, b, np.ones(N), M=sp.diags_array(1 / A.diagonal()), rtol=1e-10)[0])
    seen = []
    x, info = linalg.gmres(A, b, restart=2, maxiter=1, rtol=1e-14, callback=seen.append, callback_type="x")
    assert info > 0
    assert seen
    with pytest.raises(func.ImplicitError):
        linalg.cg(A, leaf(b), maxiter=1, rtol=1e-14)
    assert linalg.cg(A, b[:, None])[0].shape == theirs.cg(A, b[:, None])[0].shape
    assert_close(linalg.spsolve(A, b[:, None]), theirs.spsolve(A, b[:, None]))
    several = RNG.normal(size=(N, 2))
    assert_close(linalg.spsolve(A, several), theirs.spsolve(A, several))
    batch = ag.asarray(several.T)
    assert_close(ag.vmap(lambda b: linalg.spsolve(A, b))(batch), theirs.spsolve(A, several).T)


def test_exponentials_are_those_of_dense_matrices():
    A = matrix()
    values, B = leaf(A.data), leaf(RNG.normal(size=(N, 2)))

    def of(values, B):
        return linalg.expm_multiply(ag.sparse.from_scipy(A, values), B)

    def plain(values, B):
        return expm(dense(ag.sparse.from_scipy(A, values))) @ B

    found, wanted = of(values, B), plain(values, B)
    assert_close(found, wanted)
    for a, c in zip(ag.grad(ag.sum(found**2), (values, B)), ag.grad(ag.sum(wanted**2), (values, B)), strict=True):
        assert_close(a, c)
    small = leaf(0.2 * A.data)
    assert ag.autograd.gradcheck(of, (small, B))
    assert ag.autograd.gradgradcheck(of, (small, B))
    directions = ag.asarray(RNG.normal(size=A.nnz)), ag.asarray(RNG.normal(size=(N, 2)))
    points = values.detach(), B.detach()
    assert_close(func.jvp(of, points, directions)[1], func.jvp(plain, points, directions)[1])
    columns = ag.asarray(RNG.normal(size=(3, N)))
    assert_close(ag.vmap(lambda b: linalg.expm_multiply(A, b))(columns), theirs.expm_multiply(A, columns.numpy().T).T)


@pytest.mark.parametrize("factor", [0.0, 1e-3, 1.0, -60.0, 30.0, 0.5j, 20j])
def test_exponentials_are_scipys(factor):
    A, b = (factor * matrix()).tocsr(), RNG.normal(size=N)
    wanted = theirs.expm_multiply(A, b)
    assert_close(linalg.expm_multiply(A, b).numpy() / np.abs(wanted).max(), wanted / np.abs(wanted).max(), 1e-12)
    if isinstance(factor, float):
        dense_one = linalg.expm_multiply(ag.asarray(A.toarray()), b)
        assert_close(dense_one.numpy() / np.abs(wanted).max(), wanted / np.abs(wanted).max(), 1e-12)


def test_exponentials_at_times():
    A, b = (-matrix()).tocsr(), leaf(RNG.normal(size=N))
    for given in ({"start": 0.5, "stop": 1.5, "num": 4}, {"start": 0.0, "stop": 1.0, "num": 3, "endpoint": False}):
        assert_close(linalg.expm_multiply(A, b, **given), theirs.expm_multiply(A, b.detach().numpy(), **given))
    operator = theirs.aslinearoperator(A)
    B = RNG.normal(size=(N, 2))
    assert_close(linalg.expm_multiply(operator, B, traceA=A.trace()), theirs.expm_multiply(A, B))
    by_b = ag.grad(ag.sum(linalg.expm_multiply(operator, b, traceA=A.trace())), b)[0]
    assert_close(by_b, theirs.expm_multiply(A.T, np.ones(N)))


def test_what_there_is_not():
    A, b = matrix(), RNG.normal(size=N)
    with pytest.raises(TypeError, match=r"pass b.toarray\(\)"):
        linalg.spsolve(A, A)
    with pytest.raises(TypeError, match="must be a sparse array"):
        linalg.spsolve(A.toarray(), b)
    for call in (linalg.spsolve, linalg.cg, linalg.gmres, linalg.expm_multiply):
        with pytest.raises(ValueError, match="square"):
            call(A[:3], b[:3])
        with pytest.raises(ValueError, match="of shape"):
            call(A, b[:3])
    with pytest.raises(ValueError, match="start and stop"):
        linalg.expm_multiply(A, b, start=0.0)
    with pytest.raises(ag.UnsupportedOp, match="norm of the matrix"):
        ag.vmap(lambda v: linalg.expm_multiply(ag.sparse.from_scipy(A, v), b))(ag.asarray(A.data[None]))
    for solver in (linalg.cg, linalg.gmres):
        for mapped in (lambda b: solver(A, b), lambda v: solver(ag.sparse.from_scipy(A, v), b)):  # noqa: B023
            size = A.nnz if mapped.__code__.co_varnames == ("v",) else len(b)
            with pytest.raises(
                ag.UnsupportedOp, match=r"own number of steps: vmap maps spsolve and SparseTensor\.solve"
            ):
                ag.vmap(lambda x: mapped(x)[0])(ag.ones((2, size), dtype=ag.float64))  # noqa: B023
    da = pytest.importorskip("dask.array")
    with pytest.raises(ag.UnsupportedOp, match=r"compute\(\)"):
        linalg.cg(A, ag.asarray(da.from_array(b)))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        linalg.spsolve(sp.csr_array((N, N)), b)
