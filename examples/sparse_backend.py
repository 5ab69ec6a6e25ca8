"""Sparse arrays of pydata/sparse: products with dense arrays are dense, and so are gradients with respect to dense arrays.

The library computes functions that preserve zeros. Others (``exp``, sorting, running sums) have no zeros to preserve,
and are NumPy's, on dense arrays; decompositions and transforms of a matrix that may be too large for that are refused.
A product of a sparse and a dense array is the library's own (`mixed`), so that a loss of a sparse matrix and dense
weights costs as much as without agrad. The gradient with respect to a sparse array has an element for each of its
elements, including zeros; for a constant one no gradient is computed.

Run it: ``python examples/sparse_backend.py`` (``pip install sparse``).
"""

from __future__ import annotations

import functools
import random

import array_api_compat.numpy as xp
import numpy as np
import pluggy
import sparse

import agrad as ag

hookimpl = pluggy.HookimplMarker("agrad")

#: Functions that map 0 to 0, or move elements, and do so in the library.
KEEP_ZEROS = {
    *("abs", "add", "asin", "asinh", "astype", "atan", "atanh", "broadcast_to", "ceil", "concat", "conj"),
    *("expand_dims", "expm1", "floor", "imag", "log1p", "matmul", "matrix_transpose", "maximum", "minimum"),
    *("multiply", "negative", "permute_dims", "real", "reshape", "round", "sign", "sin", "sinh", "sqrt", "square"),
    *("squeeze", "stack", "subtract", "sum", "tan", "tanh", "tensordot", "trunc", "vecdot", "zeros", "zeros_like"),
}

#: Chapters whose other functions are refused.
REFUSED = "it would be made dense: to_device('numpy') does that, where it may"


class COO(sparse.COO):  # the library finds a format by the name of its class
    """An array whose operators do not warn of what is not stored: of 0 / 0, where a divisor stores all its elements."""

    def __array_ufunc__(self, *args, **options):
        with np.errstate(all="ignore"):
            return sparse_of(super().__array_ufunc__(*args, **options))


def sparse_of(value):
    """Return NumPy's arrays and the library's, also in a tuple, as sparse ones."""
    if isinstance(value, tuple | list):
        made = map(sparse_of, value)
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, np.ndarray | np.generic):
        value = sparse.COO.from_numpy(np.asarray(value), fill_value=0)
    return COO(value) if type(value) is sparse.COO else value


def dense_of(value):
    """Return sparse arrays, also in a tuple, as NumPy's."""
    if isinstance(value, tuple | list):
        return type(value)(map(dense_of, value))
    return np.asarray(value.todense()) if hasattr(value, "todense") else value


def zero_filled(value):
    """Return an array that stores only the nonzero elements; the result of an operator, as ``1 - x``, may omit another number."""
    if isinstance(value, tuple | list):
        return type(value)(map(zero_filled, value))
    other = any(np.asarray(getattr(value, "fill_value", 0)).tobytes())  # also -0.0, which the library tells from 0.0
    return sparse_of(dense_of(value) if other else value)


def sparse_kernel(function):
    return lambda *args, **options: sparse_of(function(*map(zero_filled, args), **options))


def dense_kernel(function):
    return lambda *args, **options: sparse_of(function(*map(dense_of, args), **options))


class Namespace:
    """The library's functions if they preserve zeros, otherwise NumPy's."""

    __version__ = sparse.__version__

    def __getattr__(self, name):
        found = getattr(xp, name)
        if name in ("linalg", "fft"):
            raise AttributeError(name)
        if name.startswith("__") or name in NO_ARRAYS or isinstance(found, type) or not callable(found):
            return found
        return sparse_kernel(getattr(sparse, name)) if name in KEEP_ZEROS else dense_kernel(found)


NO_ARRAYS = ("can_cast", "finfo", "iinfo", "isdtype", "result_type")


class SparseBackend(ag.Backend):
    """Arrays in the coordinate format, with NumPy's dtypes."""

    name = "sparse"
    contract = 2
    assigns = False
    capabilities = {  # noqa: RUF012
        "linalg": REFUSED,
        "fft": REFUSED,
        "operators that give way": "the products of the library raise for operands that it does not know",
    }

    @functools.cached_property
    def _namespace(self):
        return Namespace()

    def namespace(self):
        return self._namespace

    def taken(self, value):
        return sparse_of(value)

    def as_array(self, value):
        return sparse_of(value)

    def asarray(self, value, *, dtype=None, device=None, copy=None, like=None):
        if hasattr(value, "todense"):
            return value.astype(value.dtype if dtype is None else self.dtype(dtype), copy=True)
        return super().asarray(value, dtype=dtype, device=device, copy=copy)

    def kernel(self, op):
        chapter, _, name = op.rpartition(".")
        if op == "getitem":
            return self.getitem
        if name in ("cross", "diagonal", "outer", "trace", "vector_norm", "matrix_rank", "fftshift", "ifftshift"):
            return dense_kernel(getattr(getattr(xp, chapter), name))
        return None

    def getitem(self, x, key, /):
        """By numbers and slices in the library, by arrays in NumPy."""
        by_arrays = any(hasattr(part, "dtype") for part in (key if isinstance(key, tuple) else (key,)))
        return sparse_of(np.asarray(dense_of(x)[key_of(key)]) if by_arrays else x[key])

    def scatter_add(self, spec, key, values):
        made = np.zeros(spec.shape, values.dtype)
        np.add.at(made, key_of(key), dense_of(values))
        return sparse_of(made)

    def setitem(self, array, key, value):
        made = np.array(dense_of(array))
        made[key_of(key)] = dense_of(value)
        return sparse_of(made)

    def nbytes(self, array):
        return array.size * array.dtype.itemsize  # as every backend counts them; the stored bytes are `array.nbytes`

    def random(self, kind, shape, key, *, dtype, device, **p):
        source = np.random.default_rng(random.Random(f"{key[0]}:{key[1]}").getrandbits(63))
        if kind == "permutation":
            return sparse_of(source.permutation(p["n"]).astype(dtype))
        if kind == "integers":
            return sparse_of(source.integers(p["low"], p["high"], shape, dtype=dtype))
        draw = source.random if kind == "uniform" else source.standard_normal
        return sparse_of(np.asarray(draw(shape, dtype=dtype)))

    def mixed(self, op, others):
        """Products with NumPy's arrays are the library's, and dense."""
        dense = all(other.is_duck_array and not other.is_batched for other in others)
        return getattr(sparse, op) if dense and op in ("matmul", "tensordot") else None

    def quiet(self):
        return np.errstate(all="ignore")  # functions are computed of 0, too, for what the library leaves out

    def to_host(self, array):
        return dense_of(array)

    def from_host(self, buffer, device):
        return sparse_of(np.array(buffer))


def key_of(key):
    return tuple(map(dense_of, key)) if isinstance(key, tuple) else dense_of(key)


backend = SparseBackend()


@hookimpl
def agrad_backends():
    return [backend]


@hookimpl
def agrad_backend_of(array_type):
    kinds = ((t.__module__.partition(".")[0], t.__name__) for t in array_type.__mro__)
    return "sparse" if ("sparse", "COO") in kinds else None


if __name__ == "__main__":
    import sys

    ag.register(sys.modules[__name__])
    a = sparse.random((2000, 50), density=0.02, random_state=0)  # a constant: rows of data
    w, y = np.linspace(-1.0, 1.0, 50), np.ones(2000)
    loss, gradient = ag.func.value_and_grad(lambda w: ag.sum((ag.asarray(a) @ w - y) ** 2))(w)
    by_hand = 2 * (a.T @ (a @ w - y))
    print(f"loss {float(loss):.3f}; the gradient is a {type(gradient).__name__}", np.allclose(gradient, by_hand))
    try:
        ag.linalg.inv(sparse.eye(3) * 2.0)
    except ag.UnsupportedOp as error:
        print(error)
