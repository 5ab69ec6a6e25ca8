"""Sparse matrices in the graph: equal to dense ones, to SciPy's and to finite differences, in every mode and transform."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import agrad as ag
from agrad import func

sp = pytest.importorskip("scipy.sparse")
RNG = np.random.default_rng(7)

#: Formats that are taken as they are, and some of those that are converted.
FORMATS = pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia", "lil", "bsr"])


def wide(form="csr", dtype=float):
    """A matrix of 6 rows, one of which is empty, and 5 columns."""
    matrix = sp.random_array((6, 5), density=0.4, rng=np.random.default_rng(3)).tolil()
    matrix[2] = 0
    if dtype is complex:
        matrix = matrix * (1 + 2j)
    return sp.csr_array(matrix).asformat(form)


def square(form="csr", n=6, seed=4):
    return (sp.random_array((n, n), density=0.3, rng=np.random.default_rng(seed)) + 3 * sp.eye_array(n)).asformat(form)


def draw(*shape, dtype=float):
    made = RNG.normal(size=shape)
    return made + 1j * RNG.normal(size=shape) if dtype is complex else made


def assert_close(found, wanted):
    found, wanted = (x.detach().numpy() if isinstance(x, ag.Tensor) else np.asarray(x) for x in (found, wanted))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def leaf(array):
    return ag.tensor(np.asarray(array), requires_grad=True)


# -- products with constants ------------------------------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (2, 5, 3), (2, 3, 5, 1)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_products_equal_dense_ones(form, shape, dtype):
    A, x = wide(form, dtype), leaf(draw(*shape))
    dense = ag.asarray(A.toarray())
    mine, plain = ag.sparse.matmul(A, x), dense @ x
    assert_close(mine.detach(), plain.detach())
    g = ag.asarray(draw(*mine.shape, dtype=dtype))
    assert_close(ag.grad(mine, x, g)[0], ag.grad(plain, x, g)[0])


@FORMATS
@pytest.mark.parametrize("shape", [(6,), (1, 6), (4, 6), (2, 3, 6)])
def test_products_from_the_left_equal_dense_ones(form, shape):
    A, x = wide(form), leaf(draw(*shape))
    plain = x @ ag.asarray(A.toarray())
    g = ag.asarray(draw(*plain.shape))
    for mine in (x @ A, ag.sparse.matmul(x, A)):
        assert_close(mine.detach(), plain.detach())
        assert_close(ag.grad(mine, x, g, retain_graph=True)[0], ag.grad(plain, x, g, retain_graph=True)[0])


def test_arrays_numbers_and_precisions():
    A = wide()
    x = draw(5)
    assert_close(ag.sparse.matmul(A, x), A @ x)
    single = ag.sparse.matmul(A.astype(np.float32), ag.asarray(x.astype(np.float32)))
    assert str(single.dtype) == "float32"
    assert str(ag.sparse.matmul(A, ag.asarray(x.astype(np.float32))).dtype) == "float64"
    whole = sp.csr_array(np.arange(6).reshape(2, 3))
    assert str(ag.sparse.matmul(whole, ag.asarray(x[:3].astype(np.float32))).dtype) == "float32"
    assert ag.sparse.matmul(whole, ag.asarray([1, 2, 3])).tolist() == [8, 26]
    truths = ag.sparse.matmul(whole > 0, ag.asarray([False, True, False]))
    assert truths.tolist() == [True, True]
    half = ag.sparse.matmul(whole, ag.asarray(x[:3].astype(np.float16)))
    assert str(half.dtype) == "float16"
    for spmatrix in (sp.csr_matrix(A), sp.csc_matrix(A)):
        assert_close(ag.sparse.matmul(spmatrix, x), A @ x)


def test_transforms_of_products():
    A = wide()
    x = ag.asarray(draw(5))
    f = lambda x: ag.tanh(ag.sparse.matmul(A, x))
    assert ag.autograd.gradcheck(f, (leaf(draw(5)),))
    assert ag.autograd.gradgradcheck(f, (leaf(draw(5)),))
    assert_close(func.jacfwd(f)(x), func.jacrev(f)(x))
    assert_close(func.jacrev(lambda x: ag.sparse.matmul(A, x))(x), A.toarray())
    rows = ag.asarray(draw(4, 5))
    assert_close(ag.vmap(f)(rows), ag.stack([f(row) for row in rows]))
    squares = lambda x: ag.sum(f(x) ** 2)
    assert_close(func.jvp(func.grad(squares), (x,), (x,))[1], func.hessian(squares)(x) @ x)
    pattern = func.jacobian_sparsity(f)(x).toarray()
    np.testing.assert_array_equal(pattern, A.toarray() != 0)
    assert func.eval_shape(f)(x).shape == (6,)


def test_what_stands_where_a_program_is_made(tmp_path):
    A = wide()
    x = ag.asarray(draw(5))
    program = func.capture(lambda x: ag.sparse.matmul(A, x))(x)
    assert "A.indptr" in str(program)
    assert_close(program(x), A @ x.numpy())
    ag.save(program, tmp_path / "product")
    assert_close(ag.load(tmp_path / "product")(x), A @ x.numpy())
    other = wide("coo")
    with pytest.raises(func.CaptureError, match=r"converted at every call: pass A.tocsr\(\)"):
        func.capture(lambda x: ag.sparse.matmul(other, x))(x)


def test_compiled_functions_replay():
    A = wide()

    @ag.compile
    def loss(x):
        return ag.sum(ag.sparse.matmul(A, x) ** 2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none is left out
        for _ in range(4):
            x = leaf(draw(5))
            value = loss(x)
            value.backward()
            assert_close(x.grad, 2 * A.T @ (A @ x.detach().numpy()))
        A = 3 * A
        for _ in range(3):
            assert_close(loss(x.detach()), ag.asarray(np.sum((A @ x.detach().numpy()) ** 2)))
        A.data *= 2  # in place
        assert_close(loss(x.detach()), ag.asarray(np.sum((A @ x.detach().numpy()) ** 2)))


def test_scipys_operator_names_ours():
    A = wide()
    for product in (lambda: A @ leaf(draw(5)), lambda: A.dot(leaf(draw(5))), lambda: A * leaf(draw(5))):
        with pytest.raises(RuntimeError, match=r"ag\.sparse\.matmul\(A, x\) for A @ x"):
            product()


def test_pydata_gives_way():
    sparse = pytest.importorskip("sparse")
    x, z = leaf(draw(5)), leaf(draw(6))
    for A in (
        sparse.COO(wide()),
        sparse.GCXS(sparse.COO(wide())),
        sparse.GCXS(sparse.COO(wide()), compressed_axes=(1,)),
    ):
        dense = A.todense()
        for mine, plain in ((A @ x, dense @ x), (z @ A, z @ dense), (ag.sparse.matmul(A, x), dense @ x)):
            assert_close(mine.detach(), plain.detach())
        assert_close(ag.grad(ag.sum(A @ x), x)[0], dense.sum(0))
    with pytest.raises(ValueError, match="other entries are"):
        ag.sparse.matmul(sparse.COO(wide().toarray() + 2, fill_value=2.0), x)
    with pytest.raises(ValueError, match="is not a matrix"):
        ag.sparse.matmul(sparse.COO(np.ones((2, 3, 5))), x)
    with pytest.raises(AttributeError):
        _ = x.fill_value


def test_products_that_there_are_not():
    A, x = wide(), leaf(draw(5))
    with pytest.raises(ValueError, match=r"a matrix of shape \(6, 5\) times an array of shape \(6,\)"):
        ag.sparse.matmul(A, draw(6))
    with pytest.raises(ValueError, match=r"an array of shape \(5,\) times a matrix of shape \(6, 5\)"):
        x @ A
    with pytest.raises(ValueError, match="times an array of shape"):
        ag.sparse.matmul(A, ag.asarray(2.0))
    with pytest.raises(TypeError, match="two sparse matrices"):
        ag.sparse.matmul(A, A.T)
    with pytest.raises(TypeError, match=r"use agrad\.matmul"):
        ag.sparse.matmul(x, x)


def test_indices_that_are_no_pattern_are_refused():
    """Compiled code would read beyond the arrays."""
    from agrad.ops.scipy.sparse import sparse_matmul, sparse_sampled, sparse_solve

    values, x = ag.ones(3), ag.ones(3)
    for indptr, indices in (
        ([0, 1, 2, 9], [0, 1, 2]), ([0, 1, 2, 3], [0, 1, 7]), ([0, 2, 1, 3], [0, 1, 2]), ([0, 1, 2, 3], [0, -1, 2]), ([0, 1, 2, 3], [0, 1]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"pattern|values"):
            sparse_matmul(values, x, ag.asarray(indptr), ag.asarray(indices, dtype=ag.int64), columns=3)
        with pytest.raises(ValueError, match=r"pattern|values"):
            sparse_solve(values, x, ag.asarray(indptr), ag.asarray(indices, dtype=ag.int64))
    with pytest.raises((ValueError, IndexError)):
        sparse_sampled(x, x, ag.asarray([0, 1, 2, 3]), ag.asarray([0, 1, 7]))


# -- matrices of a constant pattern -----------------------------------------------------------------------------------


def dense_of(A, values):
    """The same matrix of plain operations."""
    made = A.tocoo()
    assert A.format == "csr"
    where = ag.asarray(made.row * A.shape[1] + made.col)
    return ag.zeros(A.shape[0] * A.shape[1], dtype=values.dtype).index_add(0, where, values).reshape(A.shape)


METHODS = {
    "product": (lambda S, x, y: S @ x, lambda D, x, y: D @ x),
    "from the left": (lambda S, x, y: y @ S, lambda D, x, y: y @ D),
    "of matrices": (
        lambda S, x, y: S @ x[:, None] ** ag.arange(1, 3),
        lambda D, x, y: D @ x[:, None] ** ag.arange(1, 3),
    ),
    "transposed": (lambda S, x, y: S.T @ y, lambda D, x, y: D.T @ y),
    "adjoint": (lambda S, x, y: S.H @ y, lambda D, x, y: ag.conj(D.T) @ y),
    "diagonal": (lambda S, x, y: S.diagonal(), lambda D, x, y: ag.linalg.diagonal(D)),
    "sum": (lambda S, x, y: S.sum(), lambda D, x, y: ag.sum(D)),
    "sums of rows": (lambda S, x, y: S.sum(1), lambda D, x, y: ag.sum(D, axis=1)),
    "sums of columns": (lambda S, x, y: S.sum(axis=0), lambda D, x, y: ag.sum(D, axis=0)),
    "dense": (lambda S, x, y: S.to_dense() ** 2, lambda D, x, y: D**2),
    "dense, transposed": (lambda S, x, y: S.T.to_dense(), lambda D, x, y: D.T),
}


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("method", METHODS)
def test_methods_equal_dense_ones(method, dtype):
    mine, plain = METHODS[method]
    A = wide()
    values, x, y = (leaf(draw(n, dtype=dtype)) for n in (A.nnz, 5, 6))

    def of(values, x, y):
        return mine(ag.sparse.from_scipy(A, values), x, y)

    found, wanted = of(values, x, y), plain(dense_of(A, values), x, y)
    assert_close(found.detach(), wanted.detach())
    g = ag.asarray(draw(*found.shape, dtype=dtype))
    for a, b in zip(*(ag.grad(z, (values, x, y), g, allow_unused=True) for z in (found, wanted)), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_close(a, b)
    assert ag.autograd.gradcheck(of, (values, x, y))
    assert ag.autograd.gradgradcheck(of, (values, x, y))
    _, tangent = func.jvp(of, (values, x, y), (values, x, y))
    assert_close(tangent, func.jvp(lambda v, x, y: plain(dense_of(A, v), x, y), (values, x, y), (values, x, y))[1])
    several = ag.asarray(draw(3, A.nnz, dtype=dtype))
    once = ag.vmap(lambda v: of(v, x.detach(), y.detach()))(several)
    assert_close(once, ag.stack([of(v, x.detach(), y.detach()) for v in several]))
    both = ag.vmap(of)(several, ag.stack([x.detach()] * 3), ag.stack([y.detach()] * 3))
    assert_close(both, once)


def test_columns_and_orders_are_those_of_the_user():
    A = wide("csc")
    values = leaf(draw(A.nnz))
    plain = sp.csc_array((values.detach().numpy(), A.indices, A.indptr), shape=A.shape)
    S = ag.sparse.from_scipy(A, values)
    assert_close(S.to_dense().detach(), plain.toarray())
    assert_close(S.T.to_scipy().toarray(), plain.T.toarray())
    assert S.to_scipy().format == "csc"
    unsorted = sp.csr_array((np.arange(1.0, 5), [2, 0, 1, 0], [0, 2, 4]), shape=(2, 3))
    own = leaf(unsorted.data)
    S = ag.sparse.from_scipy(unsorted, own)
    assert_close(S.to_dense().detach(), unsorted.toarray())
    assert_close(ag.grad(S.to_dense()[0, 2], own)[0], [1.0, 0, 0, 0])
    twice = sp.csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 3))
    assert_close(ag.sparse.from_scipy(twice).to_dense(), [[0.0, 2, 0]])
    with pytest.raises(ValueError, match="stored twice"):
        ag.sparse.from_scipy(twice, own[:2])
    assert_close(ag.sparse.from_scipy(wide("coo")).to_dense(), wide().toarray())


def test_the_pattern_is_kept():
    A = square()
    S = ag.sparse.from_scipy(A, ag.asarray(A.data.copy()))
    before = S.to_dense()
    A.indices[:] = 0
    A.indptr[:] = 0
    assert_close(S.to_dense(), before)
    assert (S.shape, S.nnz, S.ndim, str(S.dtype), S.requires_grad) == ((6, 6), S.data.shape[0], 2, "float64", False)
    assert repr(S) == f"<SparseTensor: 6 x 6, {S.nnz} entries, float64>"


# -- equations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("dtypes", [(float, float), (complex, float), (float, complex)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_solutions_equal_dense_ones(form, dtypes, columns):
    A = square(form)
    values = leaf(A.data * (1 + 0.5j) if dtypes[0] is complex else A.data)
    b = leaf(draw(6, *columns, dtype=dtypes[1]))

    def of(values, b):
        return ag.sparse.from_scipy(A, values).solve(b)

    def plain(values, b):
        return ag.linalg.solve(ag.sparse.from_scipy(A, values).to_dense(), b)

    found, wanted = of(values, b), plain(values, b)
    assert_close(found.detach(), wanted.detach())
    g = ag.asarray(draw(6, *columns, dtype=complex if complex in dtypes else float))
    for a, c in zip(ag.grad(found, (values, b), g), ag.grad(wanted, (values, b), g), strict=True):
        assert_close(a, c)
    assert ag.autograd.gradcheck(of, (values, b))
    assert ag.autograd.gradgradcheck(of, (values, b))
    assert_close(func.jvp(of, (values, b), (values, b))[1], func.jvp(plain, (values, b), (values, b))[1])
    several = ag.asarray(A.data * RNG.uniform(0.9, 1.1, (3, A.nnz)))
    assert_close(ag.vmap(of)(several, ag.stack([b.detach()] * 3)), ag.stack([of(v, b.detach()) for v in several]))
    assert_close(ag.vmap(of, (None, 0))(values.detach(), ag.stack([b.detach()] * 3)), ag.stack([found.detach()] * 3))
    back = ag.sparse.from_scipy(A, values).T.solve(b).detach()
    assert_close(back, ag.linalg.solve(ag.sparse.from_scipy(A, values).to_dense().T, b).detach())


def test_factors_are_kept_for_the_backward_pass(monkeypatch):
    import agrad_numpy.sparse_kernels as kernels

    made = []

    def splu(matrix):
        made.append(matrix)
        return original(matrix)

    original = kernels.splu
    monkeypatch.setattr(kernels, "splu", splu)
    A = square()
    values, b = leaf(A.data), leaf(draw(6))
    S = ag.sparse.from_scipy(A, values)
    x = S.solve(b)
    ag.grad(ag.sum(x**2) + ag.sum(S.solve(2 * b)), (values, b), create_graph=True)
    assert len(made) == 1
    before = len(kernels._FACTORS)
    del S, x, values
    gc.collect()
    assert len(kernels._FACTORS) < before
    # an array that is written to has other factors
    array = A.data.copy()
    for _ in range(2):
        S = ag.sparse.from_scipy(A, ag.asarray(array))
        assert_close(S.solve(b.detach()), np.linalg.solve(S.to_dense().numpy(), b.detach().numpy()))
        array *= 1.5


def test_equations_that_have_no_solution():
    A = square()
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        ag.sparse.from_scipy(A, ag.zeros(A.nnz)).solve(ag.ones(6))
    with pytest.raises(ValueError, match="must be square"):
        ag.sparse.from_scipy(wide()).solve(ag.ones(6))
    with pytest.raises(ValueError, match="right side of shape"):
        ag.sparse.from_scipy(A).solve(ag.ones(5))
    assert ag.sparse.from_scipy(A).solve(ag.ones((6, 0))).shape == (6, 0)


def test_a_program_with_a_solution(tmp_path):
    A = square()
    S = ag.sparse.from_scipy(A)
    b = ag.asarray(draw(6))
    program = func.capture(lambda v, b: ag.sparse.SparseTensor(v, S._indptr, S._indices, S.shape).solve(b))(S.data, b)
    ag.save(program, tmp_path / "solution")
    assert_close(ag.load(tmp_path / "solution")(S.data, b), np.linalg.solve(A.toarray(), b.numpy()))
    wanted = np.linalg.solve(A.toarray(), b.numpy()).sum()
    run = ag.compile(lambda v, b: ag.sum(ag.sparse.from_scipy(S, v).solve(b)))
    for _ in range(3):
        assert_close(run(S.data, b), wanted)
    run = ag.compile(lambda v, b: ag.sum(ag.sparse.from_scipy(A, v).solve(b)))
    with pytest.warns(func.CompileWarning, match="runs uncompiled"):  # SciPy's own code is seen to run
        assert_close(run(S.data, b), wanted)


# -- what there is not ------------------------------------------------------------------------------------------------


def test_anything_else_is_refused_with_the_way_out():
    A = square()
    S = ag.sparse.from_scipy(A)
    refused = {
        r"'\+'": [lambda: S + S, lambda: 1 + S, lambda: ag.ones(6) + S, lambda: np.ones(6) + S],
        r"'\*'": [lambda: S * 2.0, lambda: 2.0 * S],
        "'-'": [lambda: -S, lambda: S - 1],
        r"x\[...\]": [lambda: S[0]],
        "length": [lambda: len(S)],
        "truth value": [lambda: bool(S)],
        "is not an array": [lambda: np.asarray(S)],
    }
    for text, calls in refused.items():
        for call in calls:
            with pytest.raises(TypeError, match=text + r"[\s\S]*to_dense\(\)"):
                call()
    with pytest.raises(AttributeError, match=r"no 'power'.*to_dense\(\)"):
        S.power(2)
    with pytest.raises(TypeError, match="two sparse"):
        S @ S
    with pytest.raises(ValueError, match="axes 0 and 1"):
        S.sum(2)
    with pytest.raises(TypeError, match="must be a sparse array, not ndarray"):
        ag.sparse.from_scipy(np.eye(2))
    with pytest.raises(TypeError, match=r"pass A.tocsr\(\)"):
        ag.sparse.from_scipy(wide("coo"), ag.ones(12))
    with pytest.raises(ValueError, match="entries, and values have the shape"):
        ag.sparse.from_scipy(A, ag.ones(3))
    with pytest.raises(TypeError, match="floating-point"):
        ag.sparse.from_scipy(A, ag.ones(A.nnz, dtype=ag.int64))
    with pytest.raises(RuntimeError, match="pattern of a sparse matrix is the same"):
        ag.vmap(lambda places: ag.sparse.SparseTensor(ag.ones(2), ag.asarray([0, 1, 2]), places, (2, 2)) @ ag.ones(2))(
            ag.asarray([[0, 1], [1, 0]])
        )


# -- other backends ---------------------------------------------------------------------------------------------------


def test_rows_on_dask():
    da = pytest.importorskip("dask.array")
    agrad_dask = pytest.importorskip("agrad_dask")
    X = draw(20, 6)
    rows = ag.asarray(da.from_array(X, chunks=(5, 3)))
    A = wide()
    y = rows @ A
    assert y._raw.chunks[0] == (5, 5, 5, 5)
    assert_close(ag.compute(y), X @ A.toarray())
    values = leaf(A.data)
    ag.sum((rows @ ag.sparse.from_scipy(A, values)) ** 2).backward()
    wanted = 2 * X.T @ (X @ A.toarray())
    assert_close(values.grad, wanted[A.nonzero()])
    loss = lambda v, rows: ag.sum((rows @ ag.sparse.from_scipy(A, v)) ** 2)
    _, gradient = agrad_dask.value_and_grad(loss, reduce="sum")(values.detach(), rows)
    assert_close(gradient, wanted[A.nonzero()])
    B = square()
    b = ag.sparse.from_scipy(B).solve(rows.T)
    assert_close(ag.compute(b), np.linalg.solve(B.toarray(), X.T))


def test_other_backends_compose_the_products(strict_backend):
    """Where a library has no sparse matrices: gathered, multiplied, added at places."""
    A = wide()
    given = draw(5)
    x = ag.asarray(given, device="strict").requires_grad_()
    y = ag.sparse.matmul(A, x)
    assert y.device == "strict"
    assert_close(y.detach().to_device("numpy"), A @ given)
    S = ag.sparse.from_scipy(A, ag.asarray(A.data, device="strict").requires_grad_())
    assert_close((S @ x).detach().to_device("numpy"), A @ given)
    assert_close(ag.grad(ag.sum(S @ x), S.data)[0].to_device("numpy"), given[A.indices])
    assert_close(S.T.to_dense().detach().to_device("numpy"), A.T.toarray())
    with pytest.raises(ag.UnsupportedOp, match="sparse_solve"):
        ag.sparse.from_scipy(square(), ag.ones(square().nnz, device="strict")).solve(ag.ones(6, device="strict"))


# -- PyTorch's names --------------------------------------------------------------------------------------------------


class GraphConvolution(ag.nn.Module):
    """A layer of Kipf and Welling's network, as PyTorch's programs have it."""

    def __init__(self, of, to):
        super().__init__()
        self.weight = ag.nn.Parameter(ag.asarray(draw(of, to)))
        self.bias = ag.nn.Parameter(ag.zeros(to))

    def forward(self, x, adjacency):
        return ag.spmm(adjacency, ag.mm(x, self.weight)) + self.bias


def test_a_graph_network_is_the_dense_one():
    rng = np.random.default_rng(1)
    edges = np.unique(rng.integers(0, 8, (2, 20)), axis=1)
    edges = np.concatenate([edges, [range(8), range(8)]], axis=1)  # some of these occur twice
    weights = leaf(rng.uniform(0.5, 1.5, edges.shape[1]))
    first, second = GraphConvolution(3, 4), GraphConvolution(4, 2)
    x = ag.asarray(draw(8, 3))

    def loss(adjacency, product):
        hidden = ag.relu(product(adjacency, x @ first.weight) + first.bias)
        return ag.nn.functional.cross_entropy(
            product(adjacency, hidden @ second.weight) + second.bias, ag.asarray([0, 1] * 4)
        )

    sparse = ag.sparse_coo_tensor(ag.asarray(edges), weights, (8, 8))
    places = ag.asarray(edges[0] * 8 + edges[1])
    dense = ag.zeros(64).index_add(0, places, weights).reshape((8, 8))
    by_layers = ag.nn.functional.cross_entropy(second(ag.relu(first(x, sparse)), sparse), ag.asarray([0, 1] * 4))
    everything = [weights, *first.parameters(), *second.parameters()]
    wanted = ag.grad(loss(dense, ag.matmul), everything)
    for found in (
        ag.grad(by_layers, everything, retain_graph=True),
        ag.grad(loss(sparse, ag.sparse.mm), everything),
    ):
        for a, b in zip(found, wanted, strict=True):
            assert_close(a, b)


def test_the_functions_of_dense_matrices_take_sparse_ones():
    values = leaf([1.0, 2.0, 5.0])
    A, M = ag.sparse_coo_tensor([[1, 0, 1], [0, 2, 2]], values, (2, 3)), np.array([[0, 0, 2], [1, 0, 5.0]])
    x, y = leaf(draw(3, 2)), leaf(draw(4, 2))
    for product, of, dense in (
        (ag.mm(A, x), x, M @ x.detach().numpy()),
        (ag.mm(y, A), y, y.detach().numpy() @ M),
        (ag.matmul(A, x), x, M @ x.detach().numpy()),
    ):
        assert_close(product.detach(), dense)
        assert_close(
            ag.grad(ag.sum(product), of)[0],
            M.sum(0)[:, None] + ag.zeros((3, 2)) if of is x else M.sum(1) + ag.zeros((4, 2)),
        )
    with pytest.raises(TypeError, match=r"matmul\(\): argument 'x1' must be Tensor, not object"):
        ag.mm(object(), x)


def test_a_sum_with_a_dense_matrix_is_dense():
    values, x = leaf([1.0, 2.0]), leaf(draw(2, 3))
    A, M = ag.sparse_coo_tensor([[1, 0], [0, 2]], values, (2, 3)), np.array([[0, 0, 2], [1, 0, 0.0]])
    for total in (A + x, x + A, x.detach().numpy() + A):
        assert_close(total.detach(), M + x.detach().numpy())
    by_values, by_x = ag.grad(ag.sum((x + A) ** 2) / 2, [values, x])
    assert_close(by_x, M + x.detach().numpy())
    assert_close(by_values, by_x.numpy()[[1, 0], [0, 2]])
    for other in (A, 1, "x"):
        with pytest.raises(TypeError, match="with a dense matrix of its shape only"):
            A + other


def test_integers_are_values_too():
    A = ag.sparse_coo_tensor([[0, 1, 0], [0, 1, 0]], ag.ones(3), (2, 2), dtype=ag.int64)
    assert A.to_dense().tolist() == [[2, 0], [0, 1]]
    assert (ag.eye(2) + A).tolist() == [[3.0, 0.0], [0.0, 2.0]]
    x = leaf([3.0, 4.0])
    assert (A @ x).tolist() == [6.0, 4.0]
    assert ag.grad(ag.sum(A @ x), x)[0].tolist() == [2.0, 1.0]
    assert A.solve(x).tolist() == [1.5, 4.0]
    with pytest.raises(TypeError, match="solve: the matrix or the right side must be floating-point, not int64"):
        A.solve(ag.asarray([1, 2]))
    assert A.to(ag.float32).dtype == ag.float32
    assert A.to("numpy").to_dense().tolist() == [[2, 0], [0, 1]]
    assert ag.asarray([[0, 3]]).to_sparse().data.tolist() == [3]


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16"])
def test_sums_of_formats_and_dtypes(form, dtype):
    """As SciPy's, without a change of the operand; another dtype and another layout in memory, too."""
    A = wide(form)
    values, dense = A.data.astype(dtype), draw(6, 5)
    for x in (
        dense.astype(dtype),
        np.asfortranarray(dense.astype(dtype)),
        dense.astype("float32"),
        np.ones((6, 5), int),
    ):
        before = x.copy()
        total = ag.sparse.from_scipy(A, values) + ag.asarray(x)
        wanted = type(A)((values, A.indices, A.indptr), shape=A.shape).toarray() if dtype != "float16" else A.toarray()
        tolerance = 1e-2 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(total.numpy(), wanted + x, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_derivatives_of_sums(form):
    """Those of the dense sum, whose matrix is a constant linear map of the values."""
    A, x = wide(form), ag.asarray(draw(6, 5))
    each = [type(A)((unit, A.indices, A.indptr), shape=A.shape).toarray() for unit in np.eye(A.nnz)]
    spread = ag.asarray(np.stack(each, axis=-1))
    batch, values = ag.asarray(draw(3, A.nnz)), ag.asarray(A.data)
    xs = ag.asarray(draw(3, 6, 5))

    def mine(values, x):
        return ag.sin(ag.sparse.from_scipy(A, values) + x)

    def plain(values, x):
        return ag.sin(spread @ values + x)

    def results(f):
        loss = lambda values, x: ag.sum(f(values, x))
        return [
            func.jacrev(f, (0, 1))(values, x),
            func.jacfwd(f, (0, 1))(values, x),
            func.jacfwd(func.grad(loss, (0, 1)), (0, 1))(values, x),
            func.vmap(f, (0, None))(batch, x),
            func.vmap(f, (None, 0))(values, xs),
            func.vmap(func.grad(loss, (0, 1)))(batch, xs),
            ag.compile(func.grad(loss, (0, 1)))(values, x),
        ]

    for one, other in zip(*(ag.tree.flatten(results(f))[0] for f in (mine, plain)), strict=True):
        assert_close(one, other)


def test_pytorchs_names_of_sparse_tensors():
    A = ag.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], [1.0, 2.0, 5.0])
    assert A.shape == (2, 3)
    assert A.is_sparse
    assert A.coalesce() is A
    assert A.indices().tolist() == [[0, 1], [2, 0]]
    assert A.values().tolist() == [2.0, 6.0]
    assert_close(A.t().to_dense(), [[0, 6], [0, 0], [2, 0.0]])
    leafy = ag.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), requires_grad=True, dtype=ag.float32)
    ag.sum(leafy @ ag.ones((2, 1), dtype=ag.float32)).backward()
    assert leafy.data.grad.tolist() == [1.0, 1.0]
    x = leaf([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    S = x.to_sparse()
    assert S.nnz == 2
    y = ag.asarray(draw(2, 2))
    assert_close((S @ y).detach(), (x @ y).detach())
    assert_close(ag.grad(ag.sum(S @ y), x)[0], np.where(x.detach().numpy() != 0, np.ones((3, 1)) * y.numpy().sum(1), 0))
    assert (
        ag.sparse_coo_tensor(ag.zeros((2, 0), dtype=ag.int64), ag.zeros(0), (3, 2)).to_dense().tolist()
        == [[0.0] * 2] * 3
    )
    with pytest.raises(ValueError, match="lies outside"):
        ag.sparse_coo_tensor([[2], [0]], [1.0], (2, 2))
    with pytest.raises(ValueError, match="lies outside"):
        ag.sparse_coo_tensor([[-1], [0]], [1.0], (2, 2))
    with pytest.raises(ValueError, match=r"shape \(2, nnz\)"):
        ag.sparse_coo_tensor([[0]], [1.0], (2, 2))
    with pytest.raises(TypeError, match="must be numbers, not bool"):
        ag.sparse_coo_tensor([[0], [0]], [True])
    with pytest.raises(TypeError, match="takes a matrix"):
        ag.ones(3).to_sparse()
    with pytest.raises(ValueError, match="takes matrices"):
        ag.sparse.mm(A, ag.ones(3))
