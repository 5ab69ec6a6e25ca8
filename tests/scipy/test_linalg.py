"""Linear algebra: values are SciPy's, derivatives those of finite differences, on every backend that has a kernel."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck
from agrad.scipy import linalg

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3)) + 2 * np.eye(3)
B = RNG.normal(size=(3, 2))
STACK = RNG.normal(size=(2, 3, 3)) + 2 * np.eye(3)
COMPLEX = A + 1j * RNG.normal(size=(3, 3)) / 3
TALL = RNG.normal(size=(5, 3))
BANDED = RNG.normal(size=(4, 5)) + np.asarray([[0.0], [0.0], [4.0], [0.0]])
SPD = A @ A.T + np.eye(3)


def value(tensor):
    return tensor.detach().to_device("numpy").numpy()


def leaves(device, *values):
    return tuple(ag.asarray(np.asarray(v), device=device).requires_grad_() for v in values)


def checked(function, *operands, second=True, **options):
    """Check the derivatives along one direction, forward, backward and of second order."""
    assert gradcheck(function, operands, check_forward_ad=True, fast_mode=True, **options)
    if second:
        assert gradgradcheck(function, operands, check_fwd_over_rev=True, fast_mode=True, **options)


def same(found, expected, rtol=1e-10):
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        x, y = value(x), np.asarray(y)  # noqa: PLW2901
        assert x.shape == y.shape
        if y.dtype.kind in "fc":
            assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-13)


#: By name: calls with operands that may all be differentiated.
CALLS = {
    "solve_triangular": [
        (lambda f, a, b: f(a, b), A, B),
        (lambda f, a, b: f(a, b, lower=True, trans=1), A, B[:, 0]),
        (lambda f, a, b: f(a, b, lower=True, unit_diagonal=True), STACK, B),
        (lambda f, a, b: f(a, b, trans="C"), COMPLEX, B + 1j * B[::-1]),
        (lambda f, a, b: f(a, b, trans="T", lower=True), COMPLEX, B + 1j),
        (lambda f, a, b: f(a, b), A, B + 1j * B[::-1]),
    ],
    "solve_banded": [
        (lambda f, ab, b: f((1, 2), ab, b), BANDED, TALL[:, 0]),
        (lambda f, ab, b: f((1, 2), ab, b), BANDED, TALL[:, :2]),
        (lambda f, ab, b: f((2, 1), ab, b), BANDED[::-1] * (1 + 0.2j), TALL[:, :2]),
        (lambda f, ab, b: f((0, 1), ab, b), BANDED[1:3], TALL[:, 0]),
    ],
    "solve_sylvester": [
        (lambda f, a, b, q: f(a, b, q), A, STACK[0, :2, :2], B),
        (lambda f, a, b, q: f(a, b, q), COMPLEX, STACK[0, :2, :2] + 0.1j, B),
    ],
    "lstsq": [
        (lambda f, a, b: f(a, b)[:2], TALL, RNG.normal(size=(5, 2))),
        (lambda f, a, b: f(a, b)[0], TALL.T.copy(), B[:, 0]),
        (lambda f, a, b: f(a, b)[0], TALL * (1 + 0.5j), RNG.normal(size=5)),
    ],
    "cholesky": [(lambda f, a: f((a + ag_t(a)) / 2), SPD), (lambda f, a: f((a + ag_t(a)) / 2, lower=True), SPD)],
    "lu": [
        (lambda f, a: f(a)[1:], A),
        (lambda f, a: f(a)[1:], TALL),
        (lambda f, a: f(a)[1:], TALL.T.copy()),
        (lambda f, a: f(a, permute_l=True), STACK),
        (lambda f, a: f(a)[1:], COMPLEX),
    ],
    "expm": [(lambda f, a: f(a), A), (lambda f, a: f(a), STACK), (lambda f, a: f(a), COMPLEX), (lambda f, a: f(a), A * 8)],
    "expm_frechet": [(lambda f, a, e: f(a, e)[1], A, STACK[0]), (lambda f, a, e: f(a, e, compute_expm=False), COMPLEX, A)],
    "sqrtm": [(lambda f, a: f(a), SPD), (lambda f, a: f(a), STACK + 2 * np.eye(3)), (lambda f, a: f(a), COMPLEX)],
    "logm": [(lambda f, a: f(a), SPD), (lambda f, a: f(a), COMPLEX)],
    "solve": [
        (lambda f, a, b: f(a, b), A, B),
        (lambda f, a, b: f(a, b, transposed=True), STACK, B),
        (lambda f, a, b: f(a, b, assume_a="sym"), SPD, B[:, 0]),
        (lambda f, a, b: f(a, b, assume_a="sym", lower=True), COMPLEX, B),
        (lambda f, a, b: f(a, b, assume_a="her"), COMPLEX, B),
        (lambda f, a, b: f(a, b, assume_a="pos", lower=True), SPD, B),
        (lambda f, a, b: f(a, b, assume_a="positive definite"), SPD + 0.2j * (A - A.T), B),
        (lambda f, a, b: f(a, b, assume_a="lower triangular", transposed=True), A, B),
    ],
    "qr": [
        (lambda f, a: f(a), A),
        (lambda f, a: f(a, mode="economic"), TALL),
        (lambda f, a: f(a, mode="r"), SPD),
    ],
    "svd": [(lambda f, a: f(a, compute_uv=False), COMPLEX)],
    "svdvals": [(lambda f, a: f(a), TALL)],
    "eigh": [
        (lambda f, a: f(a, eigvals_only=True), A),
        (lambda f, a: f(a, lower=False, eigvals_only=True), COMPLEX),
        (lambda f, a, b: f(a, b, eigvals_only=True), COMPLEX, SPD),
        (lambda f, a: f(a, eigvals_only=True, subset_by_index=(1, 2)), A),
    ],
    "eigvalsh": [(lambda f, a, b: f(a, b, lower=False), A, SPD)],
    "norm": [
        (lambda f, a: f(a), A),
        (lambda f, a: f(a, 2), TALL),
        (lambda f, a: f(a, 1, axis=0, keepdims=True), A),
        (lambda f, a: f(a, "nuc"), A),
    ],
    "det": [(lambda f, a: f(a), A)],
    "inv": [(lambda f, a: f(a), STACK)],
    "pinv": [(lambda f, a: f(a), TALL)],
    "block_diag": [
        (lambda f, a, b: f(a, b, a), A, B),
        (lambda f, a, b: f(a, b), STACK, B),
        (lambda f, a, b: f(a, b), B[:, 0], np.asarray(2.0)),
    ],
    "toeplitz": [
        (lambda f, c: f(c), B[:, 0]),
        (lambda f, c: f(c), B[:, 0] + 1j * B[:, 1]),
        (lambda f, c, r: f(c, r), B[:, 0], TALL[:, 0]),
        (lambda f, c, r: f(c, r), STACK[0], TALL[:, 0]),
    ],
}  # fmt: skip
ROWS = [(name, i) for name, calls in CALLS.items() for i in range(len(calls))]


def ag_t(a):
    return np.swapaxes(a, -1, -2) if isinstance(a, np.ndarray) else ag.matrix_transpose(a)


@pytest.mark.parametrize(("name", "i"), ROWS)
def test_values_and_derivatives(name, i):
    call, *operands = CALLS[name][i]
    same(call(getattr(linalg, name), *operands), call(getattr(scipy.linalg, name), *operands))
    big = name == "expm" and i == 3  # differences of numbers of e**20
    checked(lambda *xs: call(getattr(linalg, name), *xs), *leaves(None, *operands), second=not big, rtol=1e-3)


@pytest.mark.parametrize("backend", ["strict", "dask"], indirect=True)
@pytest.mark.parametrize("name", ["solve_triangular", "expm", "expm_frechet", "lstsq", "block_diag", "toeplitz"])
def test_other_backends(name, backend):
    if (name, backend) == ("lstsq", "dask"):
        return
    for call, *operands in CALLS[name][:2]:
        given = leaves(backend, *operands)
        same(call(getattr(linalg, name), *given), call(getattr(scipy.linalg, name), *operands), rtol=1e-9)
        checked(lambda *xs: call(getattr(linalg, name), *xs), *given, second=False)  # noqa: B023 (run at once)


def test_a_batch_of_directions(strict_backend):
    """Of the exponential of one matrix, by blocks: the directions alone have the axis of the batch."""
    rng = np.random.default_rng(0)
    a, directions = rng.normal(size=(2, 2)), rng.normal(size=(3, 2, 2))
    fixed, given = (ag.asarray(v).to_device(strict_backend) for v in (a, directions))
    found = ag.vmap(lambda e: linalg.expm_frechet(fixed, e, compute_expm=False))(given)
    wanted = [scipy.linalg.expm_frechet(a, e, compute_expm=False) for e in directions]
    np.testing.assert_allclose(found.to_device("numpy").numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["solve_banded", "solve_sylvester", "lu", "sqrtm", "logm"])
def test_stacks_in_chunks(name, dask_backend):
    call, *operands = CALLS[name][0]
    given = leaves("dask", *operands)
    same(call(getattr(linalg, name), *given), call(getattr(scipy.linalg, name), *operands))
    assert gradcheck(lambda *xs: call(getattr(linalg, name), *xs), given, fast_mode=True)


@pytest.mark.parametrize("name", ["solve_banded", "solve_sylvester", "lu", "sqrtm", "logm"])
def test_what_needs_a_kernel_says_so(name, strict_backend):
    call, *operands = CALLS[name][0]
    with pytest.raises(ag.UnsupportedOp, match=f"scipy.{name}"):
        call(getattr(linalg, name), *leaves("strict", *operands))


def test_triangular_equations_in_chunks(dask_backend):
    import dask.array as da

    a = np.tril(RNG.normal(size=(9, 9))) + 4 * np.eye(9)
    b = RNG.normal(size=(9, 2))
    x = ag.asarray(da.from_array(a, chunks=(4, 4))).requires_grad_()
    y = linalg.solve_triangular(x, ag.asarray(da.from_array(b, chunks=(4, 2))), lower=True)
    np.testing.assert_allclose(value(y), scipy.linalg.solve_triangular(a, b, lower=True))
    y.sum().backward()
    back = scipy.linalg.solve_triangular(a, np.ones((9, 2)), trans=1, lower=True)
    np.testing.assert_allclose(value(x.grad), -np.tril(back @ value(y).T), atol=1e-13)


def test_vmap():
    from agrad import vmap

    for name in ("expm", "sqrtm", "logm"):
        function = getattr(linalg, name)
        given = ag.asarray(STACK + 2 * np.eye(3))
        same(vmap(function)(given), np.stack([getattr(scipy.linalg, name)(a) for a in value(given)]))
    b = ag.asarray(STACK[:, 0])
    found = vmap(lambda a, b: linalg.solve_triangular(a, b))(ag.asarray(STACK), b)
    same(found, np.stack([scipy.linalg.solve_triangular(a, c) for a, c in zip(STACK, value(b), strict=True)]))


# -- results beside the main one --------------------------------------------------------------------------------------


def test_least_squares_gives_what_scipy_gives():
    for a in (TALL, TALL.T, np.outer(TALL[:, 0], [1.0, 2.0]), TALL.astype(np.float32)):
        for b in (RNG.normal(size=(len(a), 2)).astype(a.dtype), RNG.normal(size=len(a)).astype(a.dtype)):
            found, expected = linalg.lstsq(a, b), scipy.linalg.lstsq(a, b)
            assert int(found[2]) == expected[2]
            tolerance = 1e-4 if a.dtype == np.float32 else 1e-10
            for i in (0, 1, 3):
                np.testing.assert_allclose(value(found[i]), expected[i], rtol=tolerance, atol=tolerance)
                assert found[i].dtype == expected[i].dtype


def test_lu_with_the_permutation():
    for a in (A, TALL, TALL.T, STACK, COMPLEX):
        same(linalg.lu(a), scipy.linalg.lu(a))
        found, expected = linalg.lu(a, p_indices=True), scipy.linalg.lu(a, p_indices=True)
        assert value(found[0]).tolist() == expected[0].tolist()


def test_cholesky_factors_solve():
    for lower in (False, True):
        factor = linalg.cho_factor(SPD, lower)
        np.testing.assert_allclose(
            value(linalg.cho_solve(factor, B)), scipy.linalg.cho_solve((value(factor[0]), lower), B)
        )

        def solved(a, b, lower=lower):
            return linalg.cho_solve(linalg.cho_factor((a + ag_t(a)) / 2, lower), b)

        checked(solved, *leaves(None, SPD, B))


def test_vectors_of_decompositions():
    """They are no values of their own: signs and phases are free. What is made of them is one."""

    def projector(v):
        return ag.matmul(v[..., :1], ag.conj(ag.matrix_transpose(v[..., :1])))

    for a, b in ((A, None), (COMPLEX, None), (A, SPD)):
        operands = (a,) if b is None else (a, b)
        (w, v), (wanted, vectors) = linalg.eigh(*operands), scipy.linalg.eigh(*operands)
        np.testing.assert_allclose(value(w), wanted, rtol=1e-12)
        np.testing.assert_allclose(np.abs(value(v)), np.abs(vectors), rtol=1e-10)
        checked(lambda *xs: projector(linalg.eigh(*xs)[1]), *leaves(None, *operands), rtol=1e-3)
    for full in (True, False):
        for found, wanted in zip(linalg.svd(TALL, full), scipy.linalg.svd(TALL, full), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(np.abs(value(found))[..., :3], np.abs(wanted)[..., :3], rtol=1e-10)
    u, s, vh = leaves(None, *map(value, linalg.svd(TALL, full_matrices=False)))
    np.testing.assert_allclose(value((u * s) @ vh), TALL)
    checked(lambda x: projector(linalg.svd(x, full_matrices=False)[0]), *leaves(None, TALL))
    values, vectors = linalg.eig(A)
    np.testing.assert_allclose(value(A @ vectors), value(vectors * values), atol=1e-12)
    np.testing.assert_allclose(np.sort_complex(value(values)), np.sort_complex(scipy.linalg.eigvals(A)), rtol=1e-12)
    checked(lambda x: ag.abs(linalg.eigvals(x)), *leaves(None, A), rtol=1e-3)


def test_logarithms_of_determinants():
    np.testing.assert_allclose(value(linalg.logdet(STACK @ ag_t(STACK))), np.linalg.slogdet(STACK @ ag_t(STACK))[1])
    assert np.isnan(linalg.logdet(np.diag([1.0, -1.0])).item())
    assert linalg.logdet(np.zeros((2, 2))).item() == -np.inf
    np.testing.assert_allclose(np.exp(linalg.logdet(COMPLEX).item()), np.linalg.det(COMPLEX))
    checked(linalg.logdet, *leaves(None, SPD))
    checked(linalg.logdet, *leaves(None, COMPLEX))


def test_roots_and_logarithms_that_are_complex():
    a = np.asarray([[0.2, 1.0], [1.5, -0.4]])  # a negative eigenvalue
    for name in ("sqrtm", "logm"):
        found = getattr(linalg, name)(a)
        same(found, getattr(scipy.linalg, name)(a))
        assert found.dtype == np.complex128
        assert gradcheck(lambda a: ag.real(getattr(linalg, name)(a)), leaves(None, a), check_forward_ad=True)  # noqa: B023


def test_defective_matrices():
    """What has no basis of eigenvectors has derivatives all the same."""
    jordan = np.asarray([[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.5]])
    for name in ("expm", "logm", "sqrtm"):
        assert gradcheck(getattr(linalg, name), leaves(None, jordan), check_forward_ad=True), name


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda m: m.solve_triangular(A[:2], B), ValueError, "expected square matrix"),
        (lambda m: m.solve_triangular(A, B[:2]), ValueError, "incompatible"),
        (lambda m: m.solve_triangular(A * np.nan, B), ValueError, "must not contain infs or NaNs"),
        (lambda m: m.solve_triangular(np.diag([1.0, 0.0, 1.0]), B), np.linalg.LinAlgError, "singular matrix"),
        (lambda m: m.solve_banded((1, 1), BANDED, TALL[:, 0]), ValueError, "number of lower and upper diagonals"),
        (lambda m: m.solve_banded((1, 2), 0 * BANDED, TALL[:, 0]), np.linalg.LinAlgError, "singular matrix"),
        (lambda m: m.lstsq(TALL, B), ValueError, "same number of rows"),
        (lambda m: m.lstsq(STACK[0, 0], B), ValueError, "should be 2D"),
        (lambda m: m.cholesky(-SPD), np.linalg.LinAlgError, "positive definite"),
        (lambda m: m.cho_solve(m.cho_factor(SPD), B[:2]), ValueError, "incompatible"),
        (lambda m: m.lu(A[0]), ValueError, "at least two-dimensional"),
        (lambda m: m.expm(TALL), np.linalg.LinAlgError, "square"),
        (lambda m: m.expm(A[0]), np.linalg.LinAlgError, "at least two-dimensional"),
        (lambda m: m.logm(TALL), ValueError, "square"),
        (lambda m: m.sqrtm(TALL), np.linalg.LinAlgError, "square"),
        (lambda m: m.sqrtm(A[0]), np.linalg.LinAlgError, "at least two-dimensional"),
        (lambda m: m.solve(TALL, TALL), ValueError, "square"),
        (lambda m: m.solve(A, B[:2]), ValueError, "incompatible"),
        (lambda m: m.solve(A, B, assume_a="round"), ValueError, "not a recognized matrix structure"),
        (lambda m: m.solve(0 * A, B), np.linalg.LinAlgError, "singular|Singular"),
        (lambda m: m.solve(-SPD, B, assume_a="pos"), np.linalg.LinAlgError, "positive definite"),
        (lambda m: m.solve_sylvester(A, A, A[:2]), ValueError, r"q must have the shape \(3, 3\), not \(2, 3\)"),
        (lambda m: m.qr(A, mode="raw-ish"), ValueError, "Mode argument"),
        (lambda m: m.svd(A * np.nan), ValueError, "must not contain infs or NaNs"),
        (lambda m: m.eigh(TALL), ValueError, "square"),
        (lambda m: m.eigh(A, SPD[:2, :2]), ValueError, "wrong b dims"),
        (lambda m: m.eigh(A, -SPD), np.linalg.LinAlgError, "positive definite"),
        (lambda m: m.eigh(A, subset_by_index=(1, 3)), ValueError, "indices are not valid"),
    ],
)
def test_bad_input(call, kind, message):
    for module in (scipy.linalg, linalg):
        with pytest.raises(kind, match=message if module is linalg else None):
            call(module)


def test_singular_equations_of_sylvester_are_refused():
    with pytest.raises(np.linalg.LinAlgError, match="an eigenvalue of a is the negative of one of b"):
        linalg.solve_sylvester(A, -A, A)
    x = ag.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    with pytest.warns(scipy.linalg.LinAlgWarning, match="singular"):
        y = linalg.sqrtm(x)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        y.sum().backward()
    assert x.grad is None


def test_lu_of_dependent_columns_has_no_derivative():
    x = ag.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 3.0], [1.0, 2.0, 5.0]], requires_grad=True)
    _, _, u = linalg.lu(x)
    with pytest.raises(np.linalg.LinAlgError):
        u.sum().backward()


def test_lazy_least_squares_say_what_to_write(dask_backend):
    with pytest.raises(NotImplementedError, match="qr"):
        linalg.lstsq(ag.asarray(TALL, device="dask"), TALL[:, 0])


def test_dtypes():
    single = A.astype(np.float32)
    for name in ("expm", "inv", "det"):
        assert getattr(linalg, name)(single).dtype == np.float32
    assert linalg.solve_triangular(single, B.astype(np.float32)).dtype == np.float32
    assert linalg.solve_triangular(single, B).dtype == np.float64
    assert linalg.solve_triangular(np.asarray([[2, 1], [0, 1]]), [2, 1]).dtype == np.float64
    assert linalg.toeplitz([1, 2]).dtype == linalg.block_diag([[1]], [[2]]).dtype == np.int64


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_the_logarithm_of_a_singular_matrix_has_no_gradient(matrix):
    a = ag.tensor(matrix, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's, of an inaccurate result
        (gradient,) = ag.grad(linalg.logm(a).sum(), a)
    assert np.isnan(gradient.numpy()).all()


@pytest.mark.parametrize("name", ["solve_continuous_lyapunov", "solve_discrete_lyapunov"])
def test_equations_of_lyapunov(name):
    rng = np.random.default_rng(3)
    for kind in (float, complex):
        a, q = rng.normal(size=(2, 4, 4)) + (kind is complex) * 1j * rng.normal(size=(2, 4, 4))
        found = getattr(linalg, name)(a, q).numpy()
        np.testing.assert_allclose(found, getattr(scipy.linalg, name)(a, q), rtol=1e-9)
        left = a @ found + found @ a.conj().T - q if "continuous" in name else a @ found @ a.conj().T - found + q
        np.testing.assert_allclose(left, 0, atol=1e-11)
        leaves = [ag.tensor(x, requires_grad=True) for x in (a, q)]
        assert gradcheck(getattr(linalg, name), leaves, check_forward_ad=True, fast_mode=True)
    stack = getattr(linalg, name)(np.stack([a, a.T]), q).numpy()
    np.testing.assert_allclose(stack[1], getattr(scipy.linalg, name)(a.T, q), rtol=1e-9)
