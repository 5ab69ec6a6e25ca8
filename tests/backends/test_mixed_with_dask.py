"""Transforms over NumPy arrays with Dask operands, and special functions of complex Dask arrays, against NumPy alone."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad import func
from agrad.autograd import functional
from agrad.nn import functional as F

da = pytest.importorskip("dask.array")

X = np.array([1.0, 2.0, 3.0])
V = np.array([0.5, 1.5, -2.0])
M = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [2.0, 0.5, 1.0]])
Z = np.array([-3 - 4j, 3 + 4j, 0.5j, -80 + 1j, 80 - 1j])


@pytest.fixture(autouse=True)
def on_dask(dask_backend):
    """Tasks run one after another."""


def on(kind, array):
    return ag.asarray(da.from_array(array, chunks=2)) if kind == "d" else ag.asarray(array)


def quartic(m):
    return lambda x: ag.sum(x * (m @ x)) ** 2


def hessian_times(x, v):
    """By hand, of ``quartic``: twice the outer product of the gradient of the form and its value times its Hessian."""
    s = M + M.T
    return 2 * (s @ x) * ((s @ x) @ v) + 2 * (x @ M @ x) * (s @ v)


PRODUCTS = {
    "hvp": lambda f, x, v: func.hvp(f, (x,), (v,)),
    "forward over reverse": lambda f, x, v: func.jvp(func.grad(f), (x,), (v,))[1],
    "reverse over forward": lambda f, x, v: func.grad(lambda x: func.jvp(f, (x,), (v,))[1])(x),
    "functional.hvp": lambda f, x, v: functional.hvp(f, x, v)[1],
    "functional.vhp": lambda f, x, v: functional.vhp(f, x, v)[1],
    "functional.hvp, recorded": lambda f, x, v: functional.hvp(f, x, v, create_graph=True)[1],
    "hessian": lambda f, x, v: func.hessian(f)(x) @ v,
}


@pytest.mark.parametrize("kinds", ["nnd", "ndn", "dnn", "ndd"])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_hessian_times_vector(product, kinds, value):
    f = quartic(on(kinds[2], M))
    got = product(f, on(kinds[0], X), on(kinds[1], V))
    np.testing.assert_allclose(value(got), hessian_times(X, V))


@pytest.mark.parametrize("kinds", ["nnd", "ndn", "dnn"])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", ["hvp", "forward over reverse", "reverse over forward"])
def test_hessian_times_vector_of_several(name, dims, kinds, value):
    f = quartic(on(kinds[2], M))
    xs, vs = (np.stack([a, a + 1]) if dim == 0 else a for a, dim in zip((X, V), dims, strict=True))
    got = func.vmap(lambda x, v: PRODUCTS[name](f, x, v), dims)(on(kinds[0], xs), on(kinds[1], vs))
    both = np.broadcast_to(xs, (2, 3)), np.broadcast_to(vs, (2, 3))
    np.testing.assert_allclose(value(got), [hessian_times(x, v) for x, v in zip(*both, strict=True)])


@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_the_logistic_function_of_complex_numbers(backend, dtype, make, value):
    z = make(Z.astype(dtype), requires_grad=True)
    y = F.sigmoid(z)
    with np.errstate(all="ignore"):
        expected = 1 / (1 + np.exp(-Z))
        expected[3] = np.exp(Z[3])
    assert value(y).dtype == dtype
    np.testing.assert_allclose(value(y), expected, rtol=1e-5, atol=1e-30)
    ag.sum(ag.real(y)).backward()
    np.testing.assert_allclose(value(z.grad), np.conj(expected * (1 - expected)), rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", ["expit", "logit", "erfinv", "i0", "j1", "gammaln", "entr", "zeta", "betaln", "huber"])
def test_special_functions_of_complex_numbers_are_refused_as_on_numpy(name, dtype):
    z = Z[:3].astype(dtype)
    arguments = 2 if name in {"zeta", "betaln", "huber"} else 1
    for library in "nd":
        with pytest.raises(TypeError, match="not supported for the input types"):
            getattr(ag.special, name)(*[on(library, z)] * arguments)


@pytest.mark.parametrize("name", ["erf", "gamma", "loggamma", "digamma", "exp1"])
def test_special_functions_of_complex_numbers(name, value):
    z = Z[:3]
    np.testing.assert_allclose(
        value(getattr(ag.special, name)(on("d", z))), value(getattr(ag.special, name)(on("n", z)))
    )
