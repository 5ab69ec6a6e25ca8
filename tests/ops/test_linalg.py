"""Linear algebra beyond single elements: functions that do not see arbitrary phases and signs, singular matrices, refusals.

Expected numbers come from finite differences of the array library's own functions, identities, exact fractions, mpmath,
or are PyTorch 2.13's, written down.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from fractions import Fraction

import array_api_compat.numpy as nxp
import mpmath
import numpy as np
import pytest

import agrad as ag
import agrad.numpy
from agrad.core.forward import level, tangent_of, with_tangent
from agrad.core.op import without_aliases

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)


@pytest.fixture
def backend(request):
    return request.getfixturevalue(f"{getattr(request, 'param', 'numpy')}_backend")


def host(tensor):
    tensor = tensor.detach()
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


def drawn(seed, *shape, complex=False):
    rng = np.random.default_rng(seed)
    made = rng.uniform(-1.5, 1.5, shape)
    return made + 1j * rng.uniform(-1.5, 1.5, shape) if complex else made


# -- scalar functions against finite differences, first and second order, both modes -----------------------------------


def pair(a, b):
    return float(np.sum((np.conj(a) * b).real))


def check(f, a, make, second=True, tolerance=1e-7):
    """Compare the derivatives of a real scalar function ``f(xp, a)`` along directions with finite differences.

    They are taken of f on NumPy's own functions, which know no derivatives.
    """

    def plain(x):
        with np.errstate(all="ignore"):
            return float(f(nxp, x))

    rng = np.random.default_rng(a.size)
    v, w = (rng.normal(size=a.shape) + (1j * rng.normal(size=a.shape) if np.iscomplexobj(a) else 0) for _ in "vw")
    h = 1e-6
    slope = (plain(a + h * v) - plain(a - h * v)) / (2 * h)
    scale = max(1.0, abs(slope))
    x = make(a, requires_grad=True)
    xp = ag.namespace(x._spec.backend.name)
    (g,) = ag.grad(f(xp, x), x)
    assert g.shape == a.shape
    assert g.dtype == x.dtype
    assert abs(pair(host(g), v) - slope) < tolerance * scale
    t_v, t_w = make(v), make(w)
    with level() as at:
        pushed = tangent_of(f(xp, with_tangent(x.detach(), t_v, at)), at)
    assert abs(float(host(pushed)) - slope) < tolerance * scale
    if not second:
        return
    h = 1e-4
    bend = plain(a + h * (v + w)) - plain(a + h * (v - w)) - plain(a - h * (v - w)) + plain(a - h * (v + w))
    bend /= 4 * h * h
    tolerance = 2e-5 * max(1.0, abs(bend))
    (g,) = ag.grad(f(xp, x), x, create_graph=True)
    along = xp.sum(xp.real(xp.conj(g) * t_v) if np.iscomplexobj(a) else g * t_v)
    if along.requires_grad:
        (twice,) = ag.grad(along, x)
        assert abs(pair(host(twice), w) - bend) < tolerance
    else:
        assert abs(bend) < tolerance
    with level() as at:  # forward over reverse
        dual = with_tangent(x, t_w, at)
        g = tangent_of(ag.grad(f(xp, dual), dual)[0], at)
    assert abs((0.0 if g is None else pair(host(g), v)) - bend) < tolerance
    with level() as at:  # reverse over forward
        pushed = tangent_of(f(xp, with_tangent(x, t_v, at)), at)
    if pushed.requires_grad:
        assert abs(pair(host(ag.grad(pushed, x)[0]), w) - bend) < tolerance


def weigh(xp, a):
    """A generic real number from an array: its parts with weights of their own."""
    shape = a.shape
    places = xp.reshape(xp.arange(math.prod(shape), dtype=xp.float64), shape)
    if xp.isdtype(a.dtype, "complex floating"):
        return xp.sum(xp.real(a) * xp.sin(1.7 * places + 0.4)) + xp.sum(xp.imag(a) * xp.cos(2.3 * places))
    return xp.sum(a * xp.sin(1.7 * places + 0.4))


def squares(xp, a):
    """The squared magnitudes."""
    return xp.real(xp.conj(a) * a) if xp.isdtype(a.dtype, "complex floating") else a * a


def adj(xp, a):
    a = xp.matrix_transpose(a)
    return xp.conj(a) if xp.isdtype(a.dtype, "complex floating") else a


def herm(xp, a):
    return (a + adj(xp, a)) / 2


def definite(xp, a):
    return xp.matmul(a, adj(xp, a)) + xp.eye(a.shape[-1], dtype=xp.float64)


SQUARE = [drawn(1, 3, 3), drawn(2, 2, 3, 3), drawn(3, 3, 3, complex=True), drawn(4, 2, 2, 2, complex=True)]
OBLONG = [
    *(drawn(5, 4, 2), drawn(6, 2, 3), drawn(7, 2, 3, 2), drawn(8, 2, 2)),
    *(drawn(9, 3, 2, complex=True), drawn(10, 2, 3, complex=True), drawn(11, 2, 2, 2, complex=True)),
]


def name_of(a):
    return f"{'c' if np.iscomplexobj(a) else 'f'}{','.join(map(str, a.shape))}"


def of(arrays):
    return pytest.mark.parametrize("a", arrays, ids=map(name_of, arrays))


def cases(arrays, losses, everywhere):
    """Every loss on NumPy; on array-api-strict those that take everything; of them on Dask two matrices."""
    found = [
        pytest.param(a, loss, backend, id=f"{name_of(a)}-{loss}-{backend}")
        for a, loss, backend in itertools.product(arrays, losses, ["numpy", "strict", "dask"])
        if backend == "numpy" or (loss in everywhere and (backend == "strict" or a is arrays[0] or a is arrays[-1]))
    ]
    return pytest.mark.parametrize(("a", "loss", "backend"), found, indirect=["backend"])


@cases(SQUARE, ["L", "U", "U of a product"], ["L", "U"])
def test_cholesky(a, loss, backend, make):
    if loss == "U of a product":
        check(lambda xp, x: weigh(xp, xp.linalg.cholesky(definite(xp, x), upper=True)), a, make)
        return

    def f(xp, x):
        return weigh(xp, xp.linalg.cholesky(herm(xp, x), upper=loss == "U"))

    check(f, definite(nxp, a), make, second=backend == "numpy")


EIGH = {
    "values": lambda xp, w, v: weigh(xp, w),
    "vectors": lambda xp, w, v: weigh(xp, squares(xp, v)),
    "both": lambda xp, w, v: weigh(xp, w[..., None, :] * squares(xp, v)),
    "exponential": lambda xp, w, v: weigh(xp, xp.matmul(v * xp.exp(w)[..., None, :], adj(xp, v))),
    "projector": lambda xp, w, v: weigh(xp, xp.matmul(v[..., :1], adj(xp, v[..., :1]))),
}


@cases(SQUARE, EIGH, ["both"])
def test_eigh(a, loss, backend, make):
    check(lambda xp, x: EIGH[loss](xp, *xp.linalg.eigh(herm(xp, x))), a, make, second=backend == "numpy")


@cases(SQUARE, [""], [""])
def test_eigvalsh(a, loss, backend, make):
    check(lambda xp, x: weigh(xp, xp.linalg.eigvalsh(herm(xp, x)) ** 3), a, make, second=backend == "numpy")


#: Matrices with real eigenvalues, with a complex pair, and complex ones, in batches too.
GENERAL = [
    np.array([[1.0, 0.4, -0.3], [0.5, -2.0, 0.8], [-0.6, 0.7, 4.0]]),
    np.array([[0.5, 1.5, 0.2], [-1.2, 0.7, 0.4], [0.3, -0.2, 3.0]]),
    drawn(12, 2, 2, 2) + np.array([[3.0, 0.0], [0.0, -3.0]]),
    drawn(13, 3, 3, complex=True),
    drawn(14, 2, 2, 2, complex=True) + np.diag([2.0, -2.0]),
]
EIG = {
    "values": lambda xp, w, v: weigh(xp, w),
    "vectors": lambda xp, w, v: weigh(xp, squares(xp, v)),
    "both": lambda xp, w, v: weigh(xp, w[..., None, :] * squares(xp, v)),
    "projectors": lambda xp, w, v: weigh(xp, v[..., :, None, :] * xp.conj(v)[..., None, :, :]),
}


@cases(GENERAL, EIG, ["both"])
def test_eig(a, loss, backend, make):
    check(lambda xp, x: EIG[loss](xp, *xp.linalg.eig(x)), a, make, second=backend == "numpy")


@cases(GENERAL, [""], [""])
def test_eigvals(a, loss, backend, make):
    check(lambda xp, x: weigh(xp, xp.linalg.eigvals(x) ** 2), a, make, second=backend == "numpy")


SVD = {
    "U": lambda xp, u, s, vh: weigh(xp, squares(xp, u)),
    "S": lambda xp, u, s, vh: weigh(xp, s),
    "Vh": lambda xp, u, s, vh: weigh(xp, squares(xp, vh)),
    "US": lambda xp, u, s, vh: weigh(xp, squares(xp, u) * s[..., None, :]),
    "SVh": lambda xp, u, s, vh: weigh(xp, squares(xp, vh) * s[..., :, None]),
    # one phase of U and Vh together cancels
    "UVh": lambda xp, u, s, vh: weigh(xp, u[..., :, :, None] * vh[..., None, :, :]),
    "USVh": lambda xp, u, s, vh: weigh(xp, u[..., :, :, None] * s[..., None, :, None] * vh[..., None, :, :]),
}


@cases(OBLONG, SVD, ["USVh"])
def test_svd(a, loss, backend, make):
    def f(xp, x):
        return SVD[loss](xp, *xp.linalg.svd(x, full_matrices=False))

    check(f, a, make, second=backend == "numpy")


@cases([a for a in OBLONG if a.shape[-1] != a.shape[-2]], ["first", "span", "all"], ["all"])
def test_svd_with_full_matrices(a, loss, backend, make):
    """The extra singular vectors have a derivative as far as their span goes."""
    k = min(a.shape[-2:])

    def f(xp, x):
        u, s, vh = xp.linalg.svd(x, full_matrices=True)
        rest_u, rest_v = u[..., :, k:], adj(xp, vh[..., k:, :])
        if loss == "first":
            return weigh(xp, squares(xp, u[..., :, :k])) + weigh(xp, squares(xp, vh[..., :k, :])) + weigh(xp, s)
        total = weigh(xp, xp.matmul(rest_u, adj(xp, rest_u))) + weigh(xp, xp.matmul(rest_v, adj(xp, rest_v)))
        return total + weigh(xp, squares(xp, u[..., :, :k])) * weigh(xp, s) if loss == "all" else total

    check(f, a, make, second=backend == "numpy")


@cases(OBLONG, [""], [""])
def test_svdvals(a, loss, backend, make):
    check(lambda xp, x: weigh(xp, xp.linalg.svdvals(x) ** 3), a, make, second=backend == "numpy")


@cases(OBLONG, ["Q", "R", "QR"], ["QR"])
def test_qr(a, loss, backend, make):
    """In what does not depend on signs: Dask puts tall matrices together from blocks, with signs of its own."""

    def f(xp, x):
        q, r = xp.linalg.qr(x)
        return (weigh(xp, squares(xp, q)) if "Q" in loss else 1.0) * (weigh(xp, squares(xp, r)) if "R" in loss else 1)

    check(f, a, make, second=backend == "numpy")


@of([drawn(15, 4, 2), drawn(16, 2, 3, 1), drawn(17, 3, 1, complex=True)])
@pytest.mark.parametrize("loss", ["R", "first", "span", "all"])
def test_complete_qr_of_a_tall_matrix(a, loss, make):
    """The last columns of Q have a derivative as far as their span goes; forward mode refuses."""
    n = a.shape[-1]

    def f(xp, x):
        q, r = xp.linalg.qr(x, mode="complete")
        rest = q[..., :, n:]
        parts = {
            "R": lambda: weigh(xp, r),
            "first": lambda: weigh(xp, q[..., :, :n]),
            "span": lambda: weigh(xp, xp.matmul(rest, adj(xp, rest))),
            "all": lambda: weigh(xp, r) * weigh(xp, xp.matmul(rest, adj(xp, rest))) + weigh(xp, q[..., :, :n]),
        }
        return parts[loss]()

    x = make(a, requires_grad=True)
    (g,) = ag.grad(f(ag, x), x)
    v, h = drawn(18, *a.shape, complex=np.iscomplexobj(a)), 1e-6
    slope = (float(f(nxp, a + h * v)) - float(f(nxp, a - h * v))) / (2 * h)
    assert abs(pair(host(g), v) - slope) < 1e-7 * max(1.0, abs(slope))
    with level() as at, pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows > ncols"):
        f(ag, with_tangent(x, make(v), at))


NORMS = ["fro", None, "nuc", 1, -1, 2, -2, math.inf, -math.inf]


@cases([OBLONG[1], OBLONG[2], OBLONG[4]], NORMS, [1, 2])
def test_matrix_norm(a, loss, backend, make):
    ord = loss

    for keepdims in (False, True):
        found = ag.linalg.matrix_norm(make(a), ord=ord, keepdims=keepdims)
        wanted = np.linalg.norm(a, ord=ord or "fro", axis=(-2, -1), keepdims=keepdims)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(host(found), wanted, rtol=1e-12)

    def f(xp, x):
        return weigh(xp, xp.linalg.matrix_norm(x, ord="fro" if xp is nxp and ord is None else ord))

    check(f, a, make, second=backend == "numpy")


def test_an_unknown_matrix_norm():
    with pytest.raises(ValueError, match=re.escape("linalg.matrix_norm: Order 3 not supported.")):
        ag.linalg.matrix_norm(ag.eye(2), ord=3)


# -- the standard's signatures and results ----------------------------------------------------------------------------

SIGNATURES = {
    "cholesky": "(x, /, *, upper=False)",
    "cross": "(x1, x2, /, *, axis=-1)",
    "det": "(x, /)",
    "diagonal": "(x, /, *, offset=0)",
    "eig": "(x, /)",
    "eigh": "(x, /)",
    "eigvals": "(x, /)",
    "eigvalsh": "(x, /)",
    "inv": "(x, /)",
    "matmul": "(x1, x2, /)",
    "matrix_norm": "(x, /, *, keepdims=False, ord='fro')",
    "matrix_power": "(x, n, /)",
    "matrix_rank": "(x, /, *, rtol=None)",
    "matrix_transpose": "(x, /)",
    "outer": "(x1, x2, /)",
    "pinv": "(x, /, *, rtol=None)",
    "qr": "(x, /, *, mode='reduced')",
    "slogdet": "(x, /)",
    "solve": "(x1, x2, /)",
    "svd": "(x, /, *, full_matrices=True)",
    "svdvals": "(x, /)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "trace": "(x, /, *, offset=0, dtype=None)",
    "vecdot": "(x1, x2, /, *, axis=-1)",
    "vector_norm": "(x, /, *, axis=None, keepdims=False, ord=2)",
}


def test_the_functions_are_the_standards():
    assert sorted(set(ag.linalg.__all__) - {"multi_dot", "norm"}) == list(SIGNATURES)  # two are PyTorch's


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_the_standards(name, backend):
    for home in (ag.linalg, ag.namespace(backend).linalg):
        found = without_aliases(inspect.signature(getattr(home, name)))  # beside PyTorch's names of arguments
        bare = found.replace(
            parameters=[p.replace(annotation=p.empty) for p in found.parameters.values()],
            return_annotation=inspect.Signature.empty,
        )
        assert str(bare) == SIGNATURES[name]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("eig", ("eigenvalues", "eigenvectors")),
        ("eigh", ("eigenvalues", "eigenvectors")),
        ("qr", ("Q", "R")),
        ("slogdet", ("sign", "logabsdet")),
        ("svd", ("U", "S", "Vh")),
    ],
)
@BACKENDS
def test_several_results_have_names(name, fields, backend, make):
    function = getattr(ag.linalg, name)
    x = make([[2.0, 1.0], [1.0, 3.0]])
    with level() as at:
        dual = function(with_tangent(x, make([[1.0, 0.0], [0.0, 1.0]]), at))
        assert all(tangent_of(r, at) is not None for r in dual)
    for result in (function(x), function(x.requires_grad_()), dual):
        assert type(result)._fields == fields
        assert all(isinstance(part, ag.Tensor) for part in result)
        assert type(result) is type(function(ag.asarray([[1.0]])))


def test_dtypes_of_complex_decompositions(make):
    a = make(drawn(1, 2, 2, complex=True).astype("complex64"), requires_grad=True)
    h = (a + ag.conj(a.mT)) / 2
    assert [str(p.dtype) for p in ag.linalg.eigh(h)] == ["float32", "complex64"]
    assert [str(p.dtype) for p in ag.linalg.svd(a)] == ["complex64", "float32", "complex64"]
    assert [str(p.dtype) for p in ag.linalg.slogdet(a)] == ["complex64", "float32"]
    assert [str(p.dtype) for p in ag.linalg.eig(ag.real(a))] == ["complex64", "complex64"]
    total = sum(ag.sum(ag.abs(p)) for p in (*ag.linalg.eigh(h), *ag.linalg.svd(a), ag.linalg.vector_norm(a)))
    assert str(ag.grad(total, a)[0].dtype) == "complex64"


# -- determinants -----------------------------------------------------------------------------------------------------


def cofactors(a):
    """The matrix of cofactors, minor by minor."""
    n = a.shape[-1]
    made = np.empty_like(a)
    for i, j in itertools.product(range(n), repeat=2):
        minor = np.delete(np.delete(a, i, 0), j, 1)
        made[i, j] = (-1) ** (i + j) * (np.linalg.det(minor) if n > 1 else 1.0)
    return made


@pytest.mark.parametrize("rank", [4, 3, 2, 1, 0])
@pytest.mark.parametrize("complex", [False, True])
@BACKENDS
def test_gradient_of_det_at_any_rank(rank, complex, backend, make):
    a = drawn(rank, 4, rank, complex=complex) @ drawn(rank + 9, rank, 4, complex=complex)
    x = make(a, requires_grad=True)
    (g,) = ag.grad(ag.real(ag.linalg.det(x)) if complex else ag.linalg.det(x), x)
    np.testing.assert_allclose(host(g), np.conj(cofactors(a)), rtol=0, atol=1e-12)
    assert (np.max(np.abs(host(g))) > 0.1) == (rank >= 3)


def test_gradient_of_det_of_singular_matrices_in_a_batch(make):
    a = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 4.0]], np.zeros((2, 2)), [[3.0, 1.0], [0.0, 2.0]]])
    x = make(a, requires_grad=True)
    (g,) = ag.grad(ag.linalg.det(x).sum(), x)
    np.testing.assert_allclose(host(g), np.stack([cofactors(m) for m in a]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("n", [8, 12])
def test_gradient_of_det_near_a_singular_matrix(n, make):
    """Hilbert matrices, condition 1e10 and 1e16, rounded to float64: cofactors in exact fractions."""
    a = 1 / (1.0 + np.add.outer(np.arange(n), np.arange(n)))
    exact = [[Fraction(v) for v in row] for row in a.tolist()]

    def determinant(rows):
        rows, value = [list(row) for row in rows], Fraction(1)
        for i in range(len(rows)):
            pivot = next(j for j in range(i, len(rows)) if rows[j][i])
            if pivot != i:
                rows[i], rows[pivot], value = rows[pivot], rows[i], -value
            value *= rows[i][i]
            for j in range(i + 1, len(rows)):
                ratio = rows[j][i] / rows[i][i]
                rows[j] = [b - ratio * a for a, b in zip(rows[i], rows[j], strict=True)]
        return value

    wanted = [
        float((-1) ** j * determinant([[*row[:j], *row[j + 1 :]] for row in exact[1:]])) for j in range(n)
    ]  # the first row suffices
    x = make(a, requires_grad=True)
    (g,) = ag.grad(ag.linalg.det(x), x)
    # the leading singular values' product carries the error of the smallest kept one, about eps * norm / s[-2]
    s = np.linalg.svd(a)[1]
    np.testing.assert_allclose(host(g)[0], wanted, rtol=0, atol=100 * 2e-16 * s[0] / s[-2] * np.max(np.abs(wanted)))


def test_second_derivative_of_det_at_singular_matrices(make):
    """Of a 2 x 2 determinant it is the same everywhere; for 3 x 3 ones of rank 1 it is not 0, for rank 0 it is."""
    for a in (np.eye(2), np.array([[1.0, 2.0], [2.0, 4.0]]), np.zeros((2, 2))):
        x = make(a, requires_grad=True)
        (g,) = ag.grad(ag.linalg.det(x), x, create_graph=True)
        (second,) = ag.grad(g[0, 0], x)
        np.testing.assert_allclose(host(second), [[0.0, 0.0], [0.0, 1.0]], rtol=0, atol=1e-15)
    x = make(np.outer([1.0, 2.0, 3.0], [1.0, 1.0, -1.0]), requires_grad=True)
    (g,) = ag.grad(ag.linalg.det(x), x, create_graph=True)
    np.testing.assert_allclose(host(g), np.zeros((3, 3)), atol=1e-14)
    (second,) = ag.grad(g[0, 0], x)
    # the cofactor of place (0, 0) is x11 x22 - x12 x21
    np.testing.assert_allclose(host(second), [[0, 0, 0], [0, -3.0, -3.0], [0, 2.0, 2.0]], rtol=0, atol=1e-13)


@pytest.mark.parametrize("complex", [False, True])
def test_slogdet_is_the_logarithm_of_det(complex, make):
    a = drawn(3, 2, 3, 3, complex=complex)
    x = make(a, requires_grad=True)
    (g,) = ag.grad(ag.linalg.slogdet(x).logabsdet.sum(), x)
    np.testing.assert_allclose(host(g), np.conj(np.linalg.inv(a)).swapaxes(-1, -2), rtol=1e-11)
    (g,) = ag.grad(ag.linalg.slogdet(x).sign.sum(), x, ag.asarray(1.0 + 0j if complex else 1.0))
    if complex:  # of sign = det / |det|
        check(lambda xp, x: weigh(xp, xp.linalg.slogdet(x)[0]), a, make)
    else:
        assert not host(g).any()


# -- identities -------------------------------------------------------------------------------------------------------


@of(SQUARE)
def test_inverse_times_matrix_is_constant(a, make):
    x = make(a, requires_grad=True)
    for product in (ag.linalg.inv(x) @ x, ag.linalg.solve(x, x), ag.linalg.pinv(x) @ x):
        (g,) = ag.grad(ag.sum(ag.real(product * 3.0)) if np.iscomplexobj(a) else product.sum(), x)
        np.testing.assert_allclose(host(g), 0, atol=1e-12 * np.linalg.cond(a).max() ** 2)


def test_gradient_of_trace(make):
    x = make(drawn(1, 2, 3, 4), requires_grad=True)
    for offset in (-3, -2, 0, 1, 3, 4):
        (g,) = ag.grad(ag.linalg.trace(x, offset=offset).sum(), x)
        np.testing.assert_array_equal(host(g), np.broadcast_to(np.eye(3, 4, offset), (2, 3, 4)))


def test_an_infinite_cotangent_stays_on_the_diagonal(make):
    x = make(np.ones((2, 2)), requires_grad=True)
    (g,) = ag.grad(ag.linalg.diagonal(x), x, ag.asarray([math.inf, math.nan]))
    np.testing.assert_array_equal(host(g), [[math.inf, 0.0], [0.0, math.nan]])


@of([a for a in SQUARE if a.ndim == 2])
def test_gradients_of_functions_of_hermitian_matrices_are_hermitian(a, make):
    x = make(definite(nxp, a), requires_grad=True)
    for loss in (
        weigh(ag, ag.linalg.cholesky(x)),
        weigh(ag, ag.linalg.eigvalsh(x)),
        weigh(ag, squares(ag, ag.linalg.eigh(x)[1])),
    ):
        (g,) = ag.grad(loss, x)
        np.testing.assert_allclose(host(g), np.conj(host(g)).T, atol=1e-14 * np.max(np.abs(host(g))))


def test_power_of_a_matrix(make):
    """Against the sum of products that the derivative of a power is."""
    a, g = drawn(20, 3, 3), drawn(21, 3, 3)
    x = make(a, requires_grad=True)
    for n in (0, 1, 4, 9):
        (found,) = ag.grad(ag.linalg.matrix_power(x, n), x, make(g))
        power = np.linalg.matrix_power
        wanted = sum((power(a.T, i) @ g @ power(a.T, n - 1 - i) for i in range(n)), np.zeros((3, 3)))
        np.testing.assert_allclose(host(found), wanted, rtol=1e-12, atol=1e-12)


def test_rank_deficient_pinv(make):
    """Along changes that keep the rank: x = b c with b tall and c wide."""
    b, c = drawn(22, 4, 2), drawn(23, 2, 3)
    check(lambda xp, x: weigh(xp, xp.linalg.pinv(xp.matmul(x, xp.asarray(c)), rtol=1e-8)), b, make, second=False)


@BACKENDS
def test_tolerances_may_be_tensors(backend, make):
    a = np.stack([np.diag([1.0, 1e-3]), np.diag([1.0, 1e-3])])
    rtol = np.array([1e-2, 1e-4])
    for given in (make(rtol),) if backend == "strict" else (make(rtol), rtol):
        assert host(ag.linalg.matrix_rank(make(a), rtol=given)).tolist() == [1, 2]
        x = make(a, requires_grad=True)
        y = ag.linalg.pinv(x, rtol=given)
        np.testing.assert_allclose(host(y)[:, 1, 1], [0.0, 1e3])
        (g,) = ag.grad(y[1, ...].sum(), x)
        np.testing.assert_allclose(host(g)[1], [[-1.0, -1e3], [-1e3, -1e6]])
    assert ag.linalg.matrix_rank(x).requires_grad is False


def test_integers(make):
    x = make([[1, 2], [3, 4]])
    assert host(ag.linalg.trace(x)) == 5
    assert host(ag.linalg.diagonal(x, offset=1)).tolist() == [2]
    assert host(ag.linalg.cross(make([1, 0, 0]), make([0, 1, 0]))).tolist() == [0, 0, 1]


@pytest.mark.parametrize("shapes", [((), ()), ((2, 2), (3,)), ((3,), (2, 3)), ((), (3,)), ((2,), (1, 2, 2))])
def test_outer_takes_vectors_in_every_mode(shapes, make):
    """The standard, NumPy's `linalg.outer` and PyTorch's `outer` take vectors alone; NumPy's `outer` any arrays."""
    x, y = (make(np.ones(shape)) for shape in shapes)
    which, rank = next((n, len(s)) for n, s in zip(("self", "vec2"), shapes, strict=True) if len(s) != 1)
    rows = [ag.stack([x, x]), ag.stack([y, y])]
    for run in (
        lambda: ag.linalg.outer(x, y),
        lambda: ag.outer(x, y),
        lambda: x.outer(y),
        lambda: ag.linalg.outer(make(np.ones(shapes[0]), requires_grad=True), y),
        lambda: ag.func.jvp(ag.linalg.outer, (x, y), (x, y)),
        lambda: ag.vmap(ag.linalg.outer)(*rows),
        lambda: ag.func.capture(ag.linalg.outer)(x, y),
    ):
        with pytest.raises(ValueError, match=f"outer: Expected 1-D argument {which}, but got {rank}-D") as caught:
            run()
        assert "agrad.numpy.outer" in str(caught.value)
    flat = agrad.numpy.outer(make(np.ones(shapes[0]), requires_grad=True), y)
    np.testing.assert_array_equal(host(flat.detach()), np.outer(np.ones(shapes[0]), np.ones(shapes[1])))


@pytest.mark.parametrize(("shapes", "axis"), [(((2, 2), (2, 2)), -1), (((3,), (2, 2)), -1), (((4, 3), (4, 3)), 0)])
def test_cross_takes_vectors_of_length_three(shapes, axis, make):
    x, y = (make(np.ones(shape)) for shape in shapes)
    for run in (
        lambda: ag.linalg.cross(x, y, axis=axis),
        lambda: ag.vmap(lambda x, y: ag.linalg.cross(x, y, axis=axis))(ag.stack([x, x]), ag.stack([y, y])),
    ):
        with pytest.raises(ValueError, match=f"inputs dimension {axis} must have length 3"):
            run()


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("matvec", ((3,), (3,))), ("matvec", ((2, 2), ())), ("vecmat", ((), (2, 2))), ("vecmat", ((3,), (3,)))],
)
def test_products_of_matrices_and_vectors_ask_for_their_axes(name, shapes):
    x, y = (ag.asarray(np.ones(shape)) for shape in shapes)
    with pytest.raises(ValueError, match=f"{name}: Input operand .* does not have enough dimensions"):
        getattr(agrad.numpy, name)(x, y)


# -- close and repeated values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-8])
def test_eigenvectors_of_close_eigenvalues(gap, make):
    """The projector onto the first eigenvector of [[a, b], [b, c]] has P00 = (1 + (c - a) / d) / 2.

    Here d is the difference of the eigenvalues, sqrt((a - c)**2 + 4 b**2).
    """
    a, b, c = 1.0, 0.3 * gap, 1.0 + 0.8 * gap
    x = make([[a, b], [b, c]], requires_grad=True)
    (g,) = ag.grad(ag.linalg.eigh(x)[1][0, 0] ** 2, x)
    with mpmath.workdps(40):
        a, b, c = (mpmath.mpf(float(v)) for v in (a, b, c))
        d = mpmath.sqrt((a - c) ** 2 + 4 * b**2)
        by_a = (-1 / d - (c - a) * (a - c) / d**3) / 2
        by_b = -(c - a) * 4 * b / d**3 / 2
        wanted = [[float(by_a), float(by_b) / 2], [float(by_b) / 2, -float(by_a)]]
    # eigenvectors are known to eps / gap
    np.testing.assert_allclose(host(g), wanted, rtol=1e-14 / gap)


def test_singular_vectors_of_close_singular_values(make):
    rng = np.random.default_rng(5)
    (u, _), (v, _) = (np.linalg.qr(rng.normal(size=(3, 3))) for _ in "uv")
    a = (u * [2.0, 1.0 + 1e-5, 1.0]) @ v.T
    x = make(a, requires_grad=True)
    (g,) = ag.grad(ag.linalg.svd(x).U[0, 1] ** 2, x)
    direction = rng.normal(size=(3, 3))
    with mpmath.workdps(40):
        h = mpmath.mpf(10) ** -14

        def loss(step):
            m = mpmath.matrix(a.tolist()) + step * mpmath.matrix(direction.tolist())
            values, vectors = mpmath.eigsy(m * m.T)  # ascending
            del values
            return vectors[0, 1] ** 2

        wanted = float((loss(h) - loss(-h)) / (2 * h))
    assert abs(wanted) > 100
    np.testing.assert_allclose(pair(host(g), direction), wanted, rtol=1e-9)


def test_repeated_eigenvalues(make):
    """Symmetric functions of eigenvalues have their gradient; eigenvectors have none."""
    x = make(np.eye(3) * 2.0, requires_grad=True)
    for values in (ag.linalg.eigh(x).eigenvalues, ag.linalg.eigvalsh(x), ag.real(ag.linalg.eigvals(x))):
        (g,) = ag.grad((values**2).sum(), x)
        np.testing.assert_allclose(host(g), 4 * np.eye(3), atol=1e-14)
    (g,) = ag.grad(ag.linalg.svdvals(x).sum() + (ag.linalg.svd(x).S ** 2).sum(), x)
    np.testing.assert_allclose(host(g), 5 * np.eye(3), atol=1e-14)
    for vectors in (ag.linalg.eigh(x).eigenvectors, ag.linalg.svd(x).U, ag.linalg.svd(x).Vh):
        (g,) = ag.grad(weigh(ag, vectors**2), x)
        assert not np.isfinite(host(g)).any()
    with level() as at:
        values, vectors = ag.linalg.eigh(with_tangent(x, make(np.diag([1.0, 2.0, 3.0])), at))
        assert float(host(ag.sum(tangent_of(values, at)))) == 6.0
        assert np.isnan(host(tangent_of(vectors, at))).any()


def test_zero_singular_values(make):
    """The gradient of S alone, and of vectors of square matrices, needs no division by them."""
    a = np.diag([3.0, 1.0, 0.0])
    x = make(a, requires_grad=True)
    (g,) = ag.grad(ag.linalg.svd(x).U[0, 0] ** 2 + ag.linalg.svdvals(x)[:2].sum(), x)
    np.testing.assert_allclose(host(g), np.diag([1.0, 1.0, 0.0]), atol=1e-15)
    tall = make(np.vstack([a, np.zeros(3)]), requires_grad=True)
    (g,) = ag.grad(weigh(ag, ag.linalg.svd(tall, full_matrices=False).U), tall)
    assert not np.isfinite(host(g)).all()


# -- refusals ---------------------------------------------------------------------------------------------------------

EIGENVECTORS = (
    "The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss function"
    " depends on this quantity, so it is ill-defined."
)
SINGULAR_VECTORS = (
    "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The"
    " specified loss function depends on this phase term, making it ill-defined."
)
C = drawn(30, 3, 3, complex=True)
REFUSED = {
    "eigh": (lambda xp, x: xp.linalg.eigh(herm(xp, x))[1], C, "linalg_eigh_backward: " + EIGENVECTORS),
    "eig": (lambda xp, x: xp.linalg.eig(x)[1], C, "linalg_eig_backward: " + EIGENVECTORS),
    "eig of a real matrix": (lambda xp, x: xp.linalg.eig(x)[1], C.real, "linalg_eig_backward: " + EIGENVECTORS),
    "U": (lambda xp, x: xp.linalg.svd(x)[0], C, SINGULAR_VECTORS),
    "Vh": (lambda xp, x: xp.linalg.svd(x)[2], C, SINGULAR_VECTORS),
    "U and Vh": (lambda xp, x: xp.matmul(*xp.linalg.svd(x)[::2]) + xp.linalg.svd(x)[0], C, SINGULAR_VECTORS),
    "the rest of U": (lambda xp, x: xp.linalg.svd(x)[0][:, 2:], drawn(31, 4, 2), "svd_backward: with full_matrices"),
    "the rest of Vh": (lambda xp, x: xp.linalg.svd(x)[2][2:, :], drawn(32, 2, 4), "svd_backward: with full_matrices"),
    "the rest of Q": (
        lambda xp, x: xp.linalg.qr(x, mode="complete")[0],
        drawn(33, 4, 2),
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.",
    ),
}


def real_part(a):
    return ag.real(a) if a._spec.is_complex else a


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("backend", ["numpy", "strict"], indirect=True)
def test_losses_that_depend_on_what_is_arbitrary_are_refused(name, size, backend, make):
    f, a, message = REFUSED[name]
    x = make(a, requires_grad=True)
    for create_graph in (False, True):
        loss = size * weigh(ag.namespace(backend), f(ag.namespace(backend), x))
        with pytest.raises(RuntimeError, match=re.escape(message)) as refusal:
            ag.grad(loss, x, create_graph=create_graph)
        assert __file__ in refusal.value.__notes__[0]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("backend", ["dask"], indirect=True)
def test_lazy_losses_that_depend_on_what_is_arbitrary_have_no_number(name, backend, make):
    f, a, _ = REFUSED[name]
    x = make(a, requires_grad=True, chunks=100)
    (g,) = ag.grad(weigh(ag.namespace(backend), f(ag.namespace(backend), x)), x)
    assert np.isnan(host(g)).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_losses_that_do_not_depend_on_phases_pass(dtype, size, make):
    """Rounding is no phase, whatever the scale and the size of the matrix."""
    a = drawn(34, 12, 12, complex=True)
    x = make(a.astype(dtype), requires_grad=True)
    for loss in (
        EIGH["exponential"](ag, *ag.linalg.eigh(herm(ag, x) / 4)),
        EIGH["vectors"](ag, *ag.linalg.eigh(herm(ag, x))),
        EIG["projectors"](ag, *ag.linalg.eig(x)),
        *(SVD[name](ag, *ag.linalg.svd(x)) for name in ("U", "Vh", "UVh", "USVh")),
    ):
        (g,) = ag.grad(size * loss, x)
        assert np.isfinite(host(g)).all()


def test_constant_losses_of_vectors_pass(make):
    """Their cotangents are nothing but rounding, all of it phase perhaps."""
    x = make(drawn(35, 4, 4, complex=True), requires_grad=True)
    u, _, vh = ag.linalg.svd(x)
    v = ag.linalg.eigh(herm(ag, x))[1]
    loss = sum(ag.sum(squares(ag, q @ adj(ag, q) - ag.eye(4))) for q in (u, vh, v))
    (g,) = ag.grad(loss, x)
    np.testing.assert_allclose(host(g), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "matrix"), [("inv", np.zeros((2, 2))), ("solve", np.zeros((2, 2))), ("cholesky", -np.eye(2))]
)
def test_errors_of_the_library_name_the_operation(name, matrix, make):
    x = make(matrix, requires_grad=True)
    arguments = (x, make([1.0, 1.0])) if name == "solve" else (x,)
    with pytest.raises(np.linalg.LinAlgError) as error:
        getattr(ag.linalg, name)(*arguments)
    assert f"linalg.{name}" in error.value.__notes__[0]
    assert __file__ in error.value.__notes__[0]


def test_logarithm_of_a_zero_determinant(make):
    x = make(np.ones((2, 2)), requires_grad=True)
    sign, logarithm = ag.linalg.slogdet(x)
    assert (float(sign.detach()), float(logarithm.detach())) == (0.0, -math.inf)
    with pytest.raises(np.linalg.LinAlgError):
        ag.grad(logarithm, x)
    (g,) = ag.grad(ag.linalg.slogdet(x).sign, x)
    assert not host(g).any()


# -- PyTorch's conventions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "ord", "wanted"),
    [
        ([0.0, 0.0, 0.0], 2, [0.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], 1, [0.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], 1.5, [0.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], 0.5, [0.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], math.inf, [0.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], -1, [0.0, 0.0, 0.0]),
        ([0.0, 1.0, -1.0], 2, [0.0, 0.7071067812, -0.7071067812]),
        ([0.0, 1.0, -1.0], 1, [0.0, 1.0, -1.0]),
        ([0.0, 1.0, -1.0], 3, [0.0, 0.6299605249, -0.6299605249]),
        ([0.0, 1.0, -1.0], 1.5, [0.0, 0.7937005260, -0.7937005260]),
        ([0.0, 1.0, -1.0], 0.5, [0.0, 2.0, -2.0]),
        ([0.0, 1.0, -1.0], math.inf, [0.0, 0.5, -0.5]),
        ([0.0, 1.0, -1.0], -math.inf, [0.0, 0.0, 0.0]),
        ([0.0, 1.0, -1.0], -1, [0.0, 0.0, 0.0]),
        ([0.0, 1.0, -1.0], -2, [0.0, 0.0, 0.0]),
        ([0.0, 1.0, -1.0], 0, [0.0, 0.0, 0.0]),
    ],
)
def test_vector_norm_where_it_has_a_kink(x, ord, wanted, make):
    x = make(x, requires_grad=True)
    with np.errstate(all="ignore"):  # NumPy's, of 1 / 0
        y = ag.linalg.vector_norm(x, ord=ord)
    (g,) = ag.grad(y, x)
    np.testing.assert_allclose(host(g), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("x", "ord", "wanted"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], "fro", [[0.0, 0.0], [0.0, 0.0]]),
        ([[1.0, 0.0], [0.0, 1.0]], 2, [[0.5, 0.0], [0.0, 0.5]]),
        ([[0.0, 0.0], [0.0, 0.0]], 2, [[0.5, 0.0], [0.0, 0.5]]),
        ([[1.0, 0.0], [0.0, 0.0]], "nuc", [[1.0, 0.0], [0.0, 1.0]]),
        ([[1.0, 1.0], [1.0, 1.0]], 1, [[0.5, 0.5], [0.5, 0.5]]),
    ],
)
def test_matrix_norm_where_it_has_a_kink(x, ord, wanted, make):
    x = make(x, requires_grad=True)
    (g,) = ag.grad(ag.linalg.matrix_norm(x, ord=ord), x)
    np.testing.assert_allclose(np.abs(host(g)), wanted, atol=1e-15)


def test_only_the_lower_triangle_counts(make):
    """As in PyTorch, values come from the lower triangle, and the gradient is symmetric."""
    x = make([[2.0, 99.0], [1.0, 2.0]], requires_grad=True)
    np.testing.assert_allclose(host(ag.linalg.eigvalsh(x)), [1.0, 3.0])
    np.testing.assert_allclose(host(ag.linalg.cholesky(x))[0], [math.sqrt(2.0), 0.0])
    (g,) = ag.grad(ag.linalg.eigh(x).eigenvalues[1], x)
    np.testing.assert_allclose(host(g), [[0.5, 0.5], [0.5, 0.5]])


def coherence(v):
    return v[0, 0] * ag.conj(v[1, 0])


def of_all_parts(u, s, vh):
    return u[0, 0] * vh[0, 1] * s[1]


Z = [[1 + 1j, 2 - 0.5j], [0.5j, 1 - 1j]]
T = [[1 + 1j, 2 + 0j], [0.5j, 1 - 1j], [2 + 0j, -1j]]
H = [[3 + 0j, 1 - 1j], [1 + 1j, 2 + 0j]]
#: A matrix, the number whose real part is the loss, and PyTorch 2.13's gradient.
COMPLEX = {
    "det": (Z, lambda x: ag.linalg.det(x), [[1 + 1j, 0.5j], [-2 - 0.5j, 1 - 1j]]),
    "sign": (
        Z,
        lambda x: -1j * ag.linalg.slogdet(x).sign,
        [[-0.160291 + 0.587734j, -0.187006 + 0.106861j], [-0.240437 - 0.854886j, 0.587734 + 0.160291j]],
    ),
    "logabsdet": (
        Z,
        lambda x: ag.linalg.slogdet(x).logabsdet,
        [[0.676923 + 0.184615j, 0.123077 + 0.215385j], [-0.984615 + 0.276923j, 0.184615 - 0.676923j]],
    ),
    "inv": (
        Z,
        lambda x: ag.linalg.inv(x)[0, 1],
        [[0.717633 - 0.00568j, -0.249941 + 0.424142j], [-0.892781 + 0.545325j, -0.00568 - 0.717633j]],
    ),
    "pinv": (
        T,
        lambda x: ag.linalg.pinv(x)[0, 1],
        [
            [0.01218 - 0.147266j, 0.078616 + 0.079723j],
            [0.075848 + 0.013287j, 0.01218 + 0.002215j],
            [0.205398 + 0.08692j, -0.173841 + 0.167197j],
        ],
    ),
    "cholesky": (
        H,
        lambda x: ag.linalg.cholesky(x)[1, 0] * (1 - 1j),
        [[-0.19245, 0.288675 - 0.288675j], [0.288675 + 0.288675j, 0.0]],
    ),
    "qr": (
        T,
        lambda x: ag.linalg.qr(x).Q[0, 1],
        [
            [0.153025 + 0.254089j, -0.196258 + 0.079626j],
            [0.014292 - 0.115152j, 0.149554 - 0.142408j],
            [-0.174769 - 0.046959j, 0.093918 - 0.100554j],
        ],
    ),
    "eigh": (
        H,
        lambda x: coherence(ag.linalg.eigh(x).eigenvectors),
        [[0.037037, -0.092593 - 0.074074j], [-0.092593 + 0.074074j, -0.037037]],
    ),
    "eig": (
        Z,
        lambda x: coherence(ag.linalg.eig(x).eigenvectors),
        [[-0.061728 - 0.067901j, -0.018519 - 0.012346j], [0.179012 + 0.333333j, 0.061728 + 0.067901j]],
    ),
    "svd": (
        T,
        lambda x: of_all_parts(*ag.linalg.svd(x, full_matrices=False)),
        [
            [0.066469 - 0.154115j, 0.391977 + 0.174123j],
            [-0.263137 - 0.128296j, 0.109023 - 0.240591j],
            [-0.035325 + 0.044507j, -0.089015 + 0.218922j],
        ],
    ),
    "matrix_power": (
        Z,
        lambda x: ag.linalg.matrix_power(x, -2)[0, 1],
        [[0.874968 - 0.354724j, 0.23689 + 0.552783j], [-1.001395 + 1.818684j, -1.072357 - 0.869287j]],
    ),
    "solve": (
        Z,
        lambda x: ag.linalg.solve(x, ag.asarray([1j, 1 + 0j]))[0],
        [[0.467692 + 0.418462j, -0.418462 + 0.467692j], [-0.898462 - 0.172308j, 0.172308 - 0.898462j]],
    ),
    "vecdot": (Z, lambda x: ag.linalg.vecdot(x[0, :], x[1, :]), [[0.5j, 1 - 1j], [1 + 1j, 2 - 0.5j]]),
    "vector_norm": (
        Z,
        lambda x: ag.linalg.vector_norm(x, ord=3),
        [[0.237358 + 0.237358j, 0.692011 - 0.173003j], [0.041959j, 0.237358 - 0.237358j]],
    ),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_complex_matrices_are_pytorchs(name, make):
    a, loss, wanted = COMPLEX[name]
    x = make(a, requires_grad=True)
    y = loss(x)
    (g,) = ag.grad(real_part(y), x)
    np.testing.assert_allclose(host(g), wanted, rtol=0, atol=1e-6)
