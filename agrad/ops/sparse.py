"""Sparse matrices in the graph: products with constant ones, and matrices of a constant pattern whose stored values are a tensor.

Properties of another library's matrix (SciPy, CuPy, pydata/sparse) are read from its arrays; the operations are those
of `ops.scipy.sparse`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.facts import BINARY, UNARY
from agrad.core.mode import not_recorded
from agrad.core.operands import as_operand
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.ops.creation import arange, asarray, ones, zeros
from agrad.ops.data_type import astype
from agrad.ops.elementwise import add, conj
from agrad.ops.manipulation import moveaxis, reshape, stack
from agrad.ops.scipy.sparse import sparse_added, sparse_matmul, sparse_solve
from agrad.ops.searching import nonzero, scatter_add, searchsorted, take, where
from agrad.ops.set_functions import unique_inverse
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import min as smallest
from agrad.ops.statistical import sum as total
from agrad.plugin.manager import scipys

__all__ = ["SparseTensor", "from_scipy", "is_sparse", "matmul", "mm", "sparse_coo_tensor"]


def is_sparse(value: Any) -> bool:
    """Return whether a value is a sparse matrix of any library, or a `SparseTensor`.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    bool

    Examples
    --------
    >>> import agrad as ag
    >>> from scipy.sparse import eye_array
    >>> ag.sparse.is_sparse(eye_array(3)), ag.sparse.is_sparse(ag.eye(3))
    (True, False)
    """
    kind = type(value)
    return kind is SparseTensor or hasattr(kind, "tocsr") or hasattr(kind, "to_scipy_sparse")


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Return the product of a sparse matrix and a tensor, or of a tensor and a sparse matrix.

    Parameters
    ----------
    x1, x2 : sparse array, Tensor or array
        One of them is sparse, of shape (m, n): an array of ``scipy.sparse``, CuPy or pydata/sparse, which is a
        constant, or a `SparseTensor`. The other one is dense, real or complex: a vector or any stack of matrices.

    Returns
    -------
    Tensor
        Dense: of shape (..., m, k) or (m,) for `x2` of (..., n, k) or (n,); of shape (..., n) for `x1` of (..., m).

    Raises
    ------
    TypeError
        If none of them is sparse, or both are.
    ValueError
        If the shapes do not fit.

    Notes
    -----
    The product is the library's, and so is the backward pass, by ``A.T``. Arrays in the formats CSR and CSC are used
    directly,
    others are converted at every call: pass ``A.tocsr()`` for repeated products, and where a program is captured. A
    SciPy matrix is copied to the device of `x` at every call if that is another one. As for any array used with
    tensors, do not change the matrix before the backward pass. ``x @ A`` is this product, too; ``A @ x`` is not,
    because SciPy converts `x` to an array before agrad is asked.

    Examples
    --------
    >>> import agrad as ag
    >>> from scipy.sparse import csr_array
    >>> A = csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    >>> x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = ag.sparse.matmul(A, x)
    >>> y.detach(), ag.grad(y.sum(), x)[0]
    (tensor([ 4., 10.]), tensor([1., 2., 3.]))
    """
    first, second = is_sparse(x1), is_sparse(x2)
    if first and second:
        raise TypeError(
            "sparse.matmul: the product of two sparse matrices is sparse, and not supported. Multiply a tensor by one after the"
            f" other, or use SciPy's product for constants{called()}"
        )
    if not first and not second:
        raise TypeError(
            f"sparse.matmul: neither {type(x1).__name__} nor {type(x2).__name__} is a sparse matrix; use agrad.matmul{called()}"
        )
    x = as_operand(x2 if first else x1)
    return _taken(x1, x)._times(x) if first else _taken(x2, x).T._times_rows(x)


def from_scipy(A: Any, values: Any = None) -> SparseTensor:
    """Return a sparse matrix of a constant pattern, whose stored values are a tensor.

    Parameters
    ----------
    A : sparse array or SparseTensor
        An array of ``scipy.sparse``, CuPy or pydata/sparse, of shape (m, n): the pattern, which is copied; that of a
        `SparseTensor` is shared.
    values : Tensor or array, shape (nnz,), optional
        The stored values in the order of ``A.data``, of a floating-point dtype. Default: those of `A`.

    Returns
    -------
    SparseTensor

    Raises
    ------
    TypeError
        If `A` is not a sparse matrix; or if values are passed, and it is neither CSR nor CSC, so that their order is
        unclear.
    ValueError
        If the number of values differs from that of the entries, or values are passed for entries that are stored
        twice.

    Examples
    --------
    >>> import agrad as ag
    >>> from scipy.sparse import csr_array
    >>> values = ag.tensor([2.0, 1.0, 4.0], requires_grad=True)
    >>> A = ag.sparse.from_scipy(csr_array([[1, 1], [0, 1]]), values)
    >>> x = A.solve(ag.tensor([4.0, 4.0]))
    >>> x.detach(), ag.grad(x.sum(), values)[0]
    (tensor([1.5000, 1.0000]), tensor([-0.7500, -0.5000, -0.1250]))
    """
    if not is_sparse(A):
        raise TypeError(f"sparse.from_scipy: A must be a sparse array, not {type(A).__name__}{called()}")
    if isinstance(A, SparseTensor):
        return A if values is None else A._of(_values_of(values, A.nnz))
    if values is not None and getattr(A, "format", None) not in _COMPRESSED:
        raise TypeError(
            f"sparse.from_scipy: values are in the order of A.data, which is unclear for {type(A).__name__}: pass"
            f" A.tocsr(){called()}"
        )
    compressed = _compressed(A)
    order = None
    if not compressed.has_canonical_format:
        if values is None:
            compressed = compressed.copy()
            compressed.sum_duplicates()
        else:
            numbers = arange(compressed.nnz, device=asarray(compressed.indices).device)._raw
            compressed = type(compressed)((numbers, compressed.indices, compressed.indptr), shape=A.shape, copy=True)
            compressed.sort_indices()
            order = asarray(compressed.data)
            if not compressed.has_canonical_format:
                raise ValueError(
                    "sparse.from_scipy: entries of A are stored twice, so values for them are ambiguous:"
                    f" A.sum_duplicates() before{called()}"
                )
    data = _values_of(asarray(compressed.data, copy=True) if values is None else values, compressed.nnz)
    indptr, indices = (_there(asarray(part, copy=True), data) for part in (compressed.indptr, compressed.indices))
    data = data if order is None else take(data, order, axis=0)
    return SparseTensor(data, indptr, indices, tuple(compressed.shape), by_columns=compressed.format == "csc")


def _values_of(given: Any, nnz: int) -> Tensor:
    """Return the values of a matrix with this many entries as a tensor."""
    data = as_operand(given)
    if not data._spec.inexact:
        raise TypeError(f"sparse.from_scipy: values must be floating-point, not {data.dtype}{called()}")
    if data.shape != (nnz,):
        raise ValueError(f"sparse.from_scipy: A has {nnz} entries, and values have the shape {data.shape}{called()}")
    return data


def mm(mat1: Any, mat2: Any) -> Tensor:
    """Return the product of a sparse and a dense matrix: PyTorch's ``torch.sparse.mm``, and ``torch.spmm``.

    Parameters
    ----------
    mat1, mat2 : sparse array, SparseTensor or Tensor
        Matrices, one of which is sparse.

    Returns
    -------
    Tensor
        Dense.

    Raises
    ------
    TypeError
        If none of them is sparse, or both are.
    ValueError
        If one is not a matrix, or the shapes do not fit.

    Examples
    --------
    >>> import agrad as ag
    >>> A = ag.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> ag.sparse.mm(A, ag.tensor([[1.0], [10.0]]))
    tensor([[20.],
            [ 3.]])
    """
    for mat in (mat1, mat2):
        if len(mat.shape) != 2:
            raise ValueError(f"sparse.mm: takes matrices, not an array of shape {tuple(mat.shape)}{called()}")
    return matmul(mat1, mat2)


def sparse_coo_tensor(
    indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> SparseTensor:
    """Return a sparse matrix with values at positions; values at one position are added up.

    Parameters
    ----------
    indices : Tensor or array, integers, shape (2, nnz)
        Row and column of each value, as constants.
    values : Tensor or array, shape (nnz,)
        Numbers. Integers cannot be differentiated by; products take them in the dtype of the other operand.
    size : tuple of int, optional
        Rows and columns. Default: just enough for the positions.
    dtype, device : optional
        Of the values.
    requires_grad : bool, optional
        Let the stored values, `SparseTensor.data`, be a leaf that requires a gradient.

    Returns
    -------
    SparseTensor
        Sorted by rows, each position once: PyTorch calls this coalesced.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a position lies outside of the matrix.
    TypeError
        If values are no numbers.

    Examples
    --------
    >>> import agrad as ag
    >>> values = ag.tensor([1.0, 2.0, 5.0], requires_grad=True)
    >>> A = ag.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], values, (2, 3))
    >>> A.to_dense().detach()
    tensor([[0., 0., 2.],
            [6., 0., 0.]])
    >>> ag.grad(A.to_dense()[1, 0], values)[0]
    tensor([1., 0., 1.])
    """
    given = (
        values
        if isinstance(values, Tensor) and dtype is None and device is None
        else asarray(values, dtype=dtype, device=device)
    )
    if _is_bool(given):
        raise TypeError(f"sparse_coo_tensor: values must be numbers, not {given.dtype}{called()}")
    places = _there(as_operand(indices).detach(), given)
    if places.ndim != 2 or places.shape[0] != 2 or given.shape != (places.shape[1],):
        raise ValueError(
            "sparse_coo_tensor: takes indices of shape (2, nnz) and values of shape (nnz,), a matrix; got"
            f" {places.shape} and {given.shape}{called()}"
        )
    rows, columns = astype(places[0], "int64"), astype(places[1], "int64")
    if size is None:
        size = tuple(largest(part).item() + 1 if part.shape[0] else 0 for part in (rows, columns))
    high, wide = size
    if rows.shape[0] and any(
        smallest(part).item() < 0 or largest(part).item() >= count for part, count in ((rows, high), (columns, wide))
    ):
        raise ValueError(f"sparse_coo_tensor: a position lies outside of a matrix of shape {(high, wide)}{called()}")
    keys, place = unique_inverse(rows * wide + columns)
    data = scatter_add(zeros(keys.shape, dtype=given.dtype, device=given.device)._spec, place, given)
    if requires_grad:
        data = data.detach().requires_grad_()
    return _by_rows(data, keys // max(1, wide), keys % max(1, wide), (high, wide))


def _is_bool(x: Tensor) -> bool:
    return x._spec.backend.kind(x.dtype) == "bool"


def of_dense(x: Tensor) -> SparseTensor:
    """Return a matrix as one that stores what is not 0."""
    if x.ndim != 2 or _is_bool(x):
        raise TypeError(f"to_sparse: takes a matrix of numbers, not {x.dtype} of shape {x.shape}{called()}")
    rows, columns = nonzero(x.detach())
    return _by_rows(x[rows, columns], rows, columns, x.shape)


def _by_rows(data: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, ...]) -> SparseTensor:
    """Return the matrix of values at positions that are sorted by rows, each once."""
    ends = astype(arange(shape[0] + 1, device=rows.device), rows.dtype)
    return SparseTensor(data, searchsorted(rows, ends), columns, shape)


#: Formats whose entries are sorted by rows, or by columns.
_COMPRESSED = ("csr", "csc")


def _compressed(A: Any) -> Any:
    """Return a matrix in one of these formats."""
    if getattr(A, "format", None) in _COMPRESSED:
        return A
    if len(A.shape) != 2:
        raise ValueError(f"a sparse array of shape {tuple(A.shape)} is not a matrix{called()}")
    if fill := getattr(A, "fill_value", 0):
        raise ValueError(
            f"a sparse array whose other entries are {fill} is not a sparse matrix: they must be 0{called()}"
        )
    not_recorded(f"a matrix of the format {type(A).__name__} is converted at every call: pass A.tocsr()")
    return A.tocsr() if hasattr(A, "tocsr") else A.to_scipy_sparse().tocsr()


#: The most recent conversions of matrices, by identity: each is valid while the matrix lives and has the same arrays.
_TAKEN: dict[int, tuple[Callable[[], Any], SparseTensor]] = {}


def _taken(A: Any, x: Tensor) -> SparseTensor:
    """Return a matrix of any library: its arrays are not copied if `x` is on the same device."""
    if isinstance(A, SparseTensor):
        return A
    of, found = _TAKEN.get(id(A), (None, None))
    if of is None or found is None or of() is not A or not found._has(A):
        A, number = _compressed(A), id(A)
        data, indptr, indices = map(asarray, (A.data, A.indptr, A.indices))
        found = SparseTensor(data, indptr, indices, tuple(A.shape), by_columns=A.format == "csc")
        if id(A) == number:
            _TAKEN[number] = weakref.ref(A, lambda _: _TAKEN.pop(number, None)), found
    if found.data._spec.backend is x._spec.backend:
        return found
    data, indptr, indices = (_there(part, x) for part in (found.data, found._indptr, found._indices))
    return SparseTensor(data, indptr, indices, found.shape, by_columns=found._by_columns)


def _there(part: Tensor, beside: Tensor) -> Tensor:
    """Return a part of a matrix on a tensor's device; lazy tensors take those of any library unchanged."""
    backend = getattr(beside._spec.backend, "base", beside._spec.backend)
    if part._spec.backend is backend or backend.is_lazy:
        return part
    return part.to_device(beside.device)


def _alike(values: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return operands in one kind: integers combined with floating-point numbers get their dtype."""
    if values._spec.inexact == x._spec.inexact:
        return values, x
    if values._spec.inexact:
        return values, astype(x, values.dtype)
    return astype(values, x.dtype), x


class SparseTensor:
    """A matrix whose stored values are a tensor, and whose pattern is constant; created by `from_scipy`.

    Gradients are with respect to the stored values; entries that are not stored have none. Everything can be
    differentiated any number of times, in both modes, and mapped over the values by `vmap`.

    Parameters
    ----------
    data : Tensor, shape (nnz,)
        The stored values.
    indptr, indices : Tensor
        Their positions, as in SciPy's formats CSR and CSC.
    shape : tuple of int
        Rows and columns.
    by_columns : bool, optional
        The format is CSC.

    Attributes
    ----------
    data : Tensor
        The stored values, row by row (or column by column).
    shape : tuple of int
        Rows and columns.

    Examples
    --------
    >>> import agrad as ag
    >>> from scipy.sparse import eye_array
    >>> A = ag.sparse.from_scipy(eye_array(3, format="csr"), ag.tensor([1.0, 2.0, 3.0]))
    >>> A @ ag.ones(3), A.sum()
    (tensor([1., 2., 3.]), tensor(6.))
    """

    __slots__ = ("_by_columns", "_indices", "_indptr", "data", "shape")

    #: NumPy's arrays leave operators to this class.
    __array_ufunc__ = None
    ndim = 2
    _leads_to = ("data", "_indptr", "_indices")

    def __init__(
        self, data: Tensor, indptr: Tensor, indices: Tensor, shape: tuple[int, ...], *, by_columns: bool = False
    ) -> None:
        self.data: Tensor = data
        self.shape: tuple[int, ...] = shape
        self._indptr, self._indices = indptr, indices
        self._by_columns = by_columns

    def __repr__(self) -> str:
        return f"<SparseTensor: {self.shape[0]:,} x {self.shape[1]:,}, {self.nnz:,} entries, {self.dtype}>"

    @property
    def dtype(self) -> Any:
        """That of the values."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """That of the values."""
        return self.data.device

    @property
    def requires_grad(self) -> bool:
        """Whether the values require a gradient."""
        return self.data.requires_grad

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return int(self._indices.shape[0])

    @property
    def T(self) -> SparseTensor:
        """The transposed matrix, with the same values."""
        return SparseTensor(self.data, self._indptr, self._indices, self.shape[::-1], by_columns=not self._by_columns)

    @property
    def H(self) -> SparseTensor:
        """The conjugate transposed matrix."""
        return self.T._of(conj(self.data)) if self.data._spec.is_complex else self.T

    def _has(self, A: Any) -> bool:
        """Return whether this matrix was built from the arrays of another one."""
        same = self.data._raw is A.data and self._indptr._raw is A.indptr and self._indices._raw is A.indices
        return same and self.shape == A.shape

    def _of(self, data: Tensor) -> SparseTensor:
        return SparseTensor(data, self._indptr, self._indices, self.shape, by_columns=self._by_columns)

    # -- PyTorch's names ----------------------------------------------------------------------------------------------

    is_sparse = True

    def t(self) -> SparseTensor:
        """Return the transposed matrix: PyTorch's name of `T`.

        Returns
        -------
        SparseTensor
        """
        return self.T

    def values(self) -> Tensor:
        """Return the stored values: PyTorch's name of `data`.

        Returns
        -------
        Tensor, shape (nnz,)
        """
        return self.data

    def indices(self) -> Tensor:
        """Return row and column of each stored value.

        Returns
        -------
        Tensor, shape (2, nnz)
        """
        return stack(list(self._places()))

    def coalesce(self) -> SparseTensor:
        """Return this matrix: each position is stored once.

        Returns
        -------
        SparseTensor
        """
        return self

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """Return this matrix with its values of another dtype or on another device.

        Parameters
        ----------
        *args, **kwargs
            As for `agrad.Tensor.to`.

        Returns
        -------
        SparseTensor
        """
        data = self.data.to(*args, **kwargs)
        indptr, indices = (_there(part, data) for part in (self._indptr, self._indices))
        return SparseTensor(data, indptr, indices, self.shape, by_columns=self._by_columns)

    # -- sums and products --------------------------------------------------------------------------------------------

    def __add__(self, x: Any) -> Tensor:
        if (not isinstance(x, Tensor) and backend_of(x) is None) or tuple(x.shape) != self.shape:
            raise TypeError(f"a SparseTensor has '+' with a dense matrix of its shape only. {_WAY_OUT}{called()}")
        x = as_operand(x)
        if x.dtype != self.dtype or x._spec.backend is not self.data._spec.backend or x._spec.backend.is_lazy:
            return add(self.to_dense(), x)
        if self._by_columns:
            return sparse_added(self.data, x.T, self._indptr, self._indices).T
        return sparse_added(self.data, x, self._indptr, self._indices)

    __radd__ = __add__

    def __matmul__(self, x: Any) -> Tensor:
        return matmul(self, x)

    def __rmatmul__(self, x: Any) -> Tensor:
        return matmul(x, self)

    def _multiplied(self, x: Tensor) -> Tensor:
        """Return the product with a vector, or a matrix."""
        data, x = _alike(self.data, x)
        columns = self.shape[0] if self._by_columns else self.shape[1]
        return sparse_matmul(data, x, self._indptr, self._indices, columns=columns, transposed=self._by_columns)

    def _times(self, x: Tensor) -> Tensor:
        """Return the product with a vector or a stack of matrices."""
        axis = max(0, x.ndim - 2)
        if not x.ndim or x.shape[axis] != self.shape[1]:
            raise ValueError(
                f"sparse.matmul: a matrix of shape {self.shape} times an array of shape {x.shape}{called()}"
            )
        if x.ndim <= 2:
            return self._multiplied(x)
        return self._along(x, axis)

    def _times_rows(self, x: Tensor) -> Tensor:
        """Return the products with all vectors along the last axis."""
        if not x.ndim or x.shape[-1] != self.shape[1]:
            raise ValueError(
                f"sparse.matmul: an array of shape {x.shape} times a matrix of shape {self.shape[::-1]}{called()}"
            )
        return self._multiplied(x) if x.ndim == 1 else self._along(x, x.ndim - 1)

    def _along(self, x: Tensor, axis: int) -> Tensor:
        moved = moveaxis(x, axis, 0)
        made = self._multiplied(moved if x.ndim == 2 else reshape(moved, (x.shape[axis], -1)))
        return moveaxis(made if x.ndim == 2 else reshape(made, (self.shape[0], *moved.shape[1:])), 0, axis)

    # -- equations ----------------------------------------------------------------------------------------------------

    def solve(self, b: Any) -> Tensor:
        """Return the solution of the equations with this matrix.

        Parameters
        ----------
        b : Tensor or array, shape (n,) or (n, k)
            The right side, or several as columns.

        Returns
        -------
        Tensor
            Of the shape of `b`.

        Raises
        ------
        ValueError
            If the matrix is not square, or the shapes do not fit.
        TypeError
            If both are integers.
        LinAlgError
            NumPy's, if it is singular.

        Notes
        -----
        On NumPy by SciPy's SuperLU. Its factors are kept while a graph has the values: the backward pass, and solutions for other
        right sides, take no new ones.
        """
        b = as_operand(b)
        n = self.shape[0]
        if n != self.shape[1]:
            raise ValueError(f"solve: the matrix must be square, not of shape {self.shape}{called()}")
        if b.ndim not in (1, 2) or b.shape[0] != n:
            raise ValueError(f"solve: a matrix of shape {self.shape} and a right side of shape {b.shape}{called()}")
        data, b = _alike(self.data, b)
        if not data._spec.inexact:
            raise TypeError(f"solve: the matrix or the right side must be floating-point, not {data.dtype}{called()}")
        return sparse_solve(data, b, self._indptr, self._indices, transposed=self._by_columns)

    # -- entries ------------------------------------------------------------------------------------------------------

    def _places(self) -> tuple[Tensor, Tensor]:
        """Return row and column of each stored entry."""
        numbers = astype(arange(self.nnz, device=self._indptr.device), self._indptr.dtype)
        major = searchsorted(self._indptr, numbers, side="right") - 1
        minor = astype(self._indices, major.dtype)
        return (minor, major) if self._by_columns else (major, minor)

    def diagonal(self) -> Tensor:
        """Return the main diagonal, with zeros where nothing is stored.

        Returns
        -------
        Tensor, shape (min(m, n),)
        """
        rows, columns = self._places()
        on = self._of(where(rows == columns, self.data, 0))
        return on.sum(1)[: min(self.shape)]

    def sum(self, axis: int | None = None) -> Tensor:
        """Return the sum of all values, of those of each row (``axis=1``) or of each column (``axis=0``).

        Parameters
        ----------
        axis : {0, 1, None}, optional
            The axis to sum over.

        Returns
        -------
        Tensor

        Raises
        ------
        ValueError
            If there is no such axis.
        """
        if axis is None:
            return total(self.data)
        if axis not in (0, 1, -1, -2):
            raise ValueError(f"sum: a matrix has the axes 0 and 1, not {axis}{called()}")
        of = self.T if axis in (0, -2) else self
        return of._multiplied(ones((of.shape[1],), dtype=self.dtype, device=self.device))

    def to_dense(self) -> Tensor:
        """Return the matrix as a tensor of all its entries.

        Returns
        -------
        Tensor, shape (m, n)
        """
        rows, columns = self._places()
        like = zeros((0,), dtype=self.dtype, device=self.device)._spec
        spec = Spec(like.backend, (self.shape[0] * self.shape[1],), like.dtype, like.device)
        return reshape(scatter_add(spec, rows * self.shape[1] + columns, self.data), self.shape)

    def to_scipy(self) -> Any:
        """Return it as a SciPy array, without its history.

        Returns
        -------
        scipy.sparse.csr_array or csc_array

        Raises
        ------
        BackendError
            If SciPy is not installed.
        """
        parts = tuple(part.numpy() for part in (self.data.detach(), self._indices, self._indptr))
        kind = getattr(scipys("sparse", by="SparseTensor.to_scipy"), "csc_array" if self._by_columns else "csr_array")
        return kind(parts, shape=self.shape, copy=True)

    # -- what there is not --------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a SparseTensor has no {name!r}. {_WAY_OUT}", name=name, obj=self)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"a SparseTensor is not an array. {_WAY_OUT}{called()}")


#: The fix.
_WAY_OUT = (
    "Compute with its values, as in ag.sparse.from_scipy(A, 2 * values), or with to_dense(), which holds all entries;"
    " to_scipy() gives SciPy's array, without a gradient"
)


def _refusing(what: str) -> Any:
    def refused(_: SparseTensor, *__: Any) -> NoReturn:
        raise TypeError(f"a SparseTensor has no {what}. {_WAY_OUT}{called()}")

    return refused


for _symbol, _name in BINARY.items():
    if _symbol not in ("@", "+"):
        setattr(SparseTensor, f"__{_name}__", _refusing(f"{_symbol!r}"))
        setattr(SparseTensor, f"__r{_name}__", _refusing(f"{_symbol!r}"))
for _symbol, _name in UNARY.items():
    setattr(SparseTensor, f"__{_name}__", _refusing(f"{_symbol!r}"))
for _name, _what in {
    "getitem": "x[...]",
    "setitem": "x[...] = v",
    "iter": "rows to go through",
    "len": "length",
    "bool": "truth value",
}.items():
    setattr(SparseTensor, f"__{_name}__", _refusing(_what))
