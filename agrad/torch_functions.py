"""PyTorch's functions whose names differ from the standard's: ``ag.clamp(x, 0, 1)`` is ``x.clamp(0, 1)``.

Most are methods of tensors here, or have another name; the others are thin wrappers with PyTorch's signature. `agrad`
provides each at its first use, and loads this file at the first of them. Type checkers read ``torch_names.pyi`` next to
it, which ``docs/make_methods.py`` writes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import agrad.accelerator as accelerator  # noqa: PLR0402 (`from agrad` would ask this file)
import agrad.cuda as cuda  # noqa: PLR0402 (as above)
from agrad import random
from agrad.core.backend import Device, backend_of
from agrad.core.errors import called
from agrad.core.methods import Picked
from agrad.core.names import UnexpectedKeyword, refused
from agrad.core.op import OPS
from agrad.core.operands import as_operand, as_operands, tensor_of
from agrad.core.tensor import Tensor
from agrad.numpy.protocol import numpys
from agrad.ops import (
    creation,
    data_type,
    decompositions,
    elementwise,
    extra,
    linalg,
    manipulation,
    pairs,
    searching,
    solving,
    special,
    statistical,
    utility,
)
from agrad.ops.docs import complete
from agrad.ops.torch_methods import BINARY_METHODS, UNARY_METHODS, times_beta

#: Methods of tensors that are also functions.
METHODS = {
    "addcdiv", "addcmul", "addmm", "amax", "amin", "bmm", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min",
    "clamp_min_", "clone", "det", "detach", "detach_", "diagonal", "digamma", "div", "eq", "erf", "erfc", "erfinv",
    "exp2", "fill_", "ge", "gt", "index_add", "index_copy", "index_fill", "index_put", "index_put_", "inverse", "is_complex", "le", "lgamma",
    "logit", "logsumexp", "lt", "matrix_power", "movedim", "mul", "mv", "nan_to_num", "narrow", "ne", "neg",
    "numel", "permute", "reciprocal_", "relu_", "repeat_interleave", "round_", "rsqrt", "scatter", "scatter_reduce", "select", "sigmoid_", "sub",
    "swapdims", "t", "take_along_dim", "trace", "transpose", "unbind", "unflatten", "unsqueeze", "zero_",
    *(f"{name}_" for name in UNARY_METHODS if name not in {"sign", "isnan", "isinf", "isfinite", "logical_not"}),
}  # fmt: skip

#: Other names of existing functions, and where those are. Those of ops are declared with them.
SAME = {
    **{name: op.name for op in OPS.values() for name in op.facts.torch.split()},
    "Generator": "random.Generator",
    "atleast_1d": "extra.atleast_1d",
    "atleast_2d": "extra.atleast_2d",
    "atleast_3d": "extra.atleast_3d",
    "block_diag": "scipy.linalg.block_diag",
    "broadcast_tensors": "broadcast_arrays",
    "cdouble": "complex128",
    "cfloat": "complex64",
    "column_stack": "extra.column_stack",
    "concatenate": "cat",
    "corrcoef": "extra.corrcoef",
    "cov": "extra.cov",
    "deg2rad": "extra.deg2rad",
    "distributions": "distributions",
    "double": "float64",
    "dsplit": "numpy.dsplit",
    "dstack": "extra.dstack",
    "float": "float32",
    "fmax": "extra.fmax",
    "fmin": "extra.fmin",
    "gcd": "numpy.gcd",
    "ger": "outer",
    "half": "float16",
    "heaviside": "extra.heaviside",
    "hsplit": "extra.hsplit",
    "inner": "extra.inner",
    "int": "int32",
    "isneginf": "numpy.isneginf",
    "isposinf": "numpy.isposinf",
    "isreal": "numpy.isreal",
    "lcm": "numpy.lcm",
    "logaddexp2": "numpy.logaddexp2",
    "long": "int64",
    "matrix_exp": "scipy.linalg.expm",
    "promote_types": "result_type",
    "rad2deg": "extra.rad2deg",
    "row_stack": "vstack",
    "short": "int16",
    "sparse_coo_tensor": "sparse.sparse_coo_tensor",
    "spmm": "sparse.mm",
    "vsplit": "extra.vsplit",
}

__all__ = [
    "BoolTensor", "ByteTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "Size", "accelerator", "addbmm", "addmv", "addr", "adjoint", "aminmax", "angle", "argwhere", "baddbmm", "bernoulli", "bincount",
    "bucketize", "cartesian_prod", "cdist", "chain_matmul", "cholesky_solve", "complex", "cross", "cuda", "cummax", "cummin",
    "cumulative_trapezoid", "device", "diag_embed", "diagflat", "dist", "fliplr", "flipud", "float_power", "fmod", "frac",
    "get_rng_state", "initial_seed", "is_nonzero", "kthvalue", "ldexp", "logdet", "logspace", "mm", "mode", "msort", "multinomial",
    "mvlgamma", "normal", "polar", "randint_like", "resolve_conj", "rot90", "set_rng_state", "split", "std_mean", "svd", "tensor_split",
    "trapezoid", "trapz", "tril_indices", "triu_indices", "unique", "unique_consecutive", "vander", "var_mean", "vdot",
    "view_as_complex", "view_as_real",
]  # fmt: skip

#: All of them.
NAMES = {*METHODS, *SAME, *__all__}

#: Shapes are tuples.
if TYPE_CHECKING:
    Size: TypeAlias = tuple[int, ...]
else:
    Size = tuple


def named(name: str) -> Any:
    """Return the function that `agrad` has under one of `NAMES`."""
    if name in METHODS:
        return of_method(name, getattr(Tensor, name))
    home, _, own = f"agrad.{SAME[name]}".rpartition(".") if name in SAME else (__name__, "", name)
    return getattr(importlib.import_module(home), own)


def of_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method of its first argument, a tensor named `input`."""
    signature = inspect.signature(method)
    parameters = [
        p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind is p.POSITIONAL_ONLY else p
        for p in signature.parameters.values()
    ]
    parameters[0] = parameters[0].replace(name="input", annotation="Any")

    if name in BINARY_METHODS:  # its entry point only accepts positional arguments

        def function(input: Any, other: Any) -> Any:
            return method(_input(name, input), other)
    else:

        def function(input: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
            try:
                return method(_input(name, input), *args, **kwargs)
            except TypeError as error:
                written = refused(error, function.__code__)
                if written is None:
                    raise
                raise UnexpectedKeyword(name, written) from None

    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    function.__module__ = "agrad"
    if method.__doc__ is not None:  # python -OO
        function.__doc__ = _documented(inspect.cleandoc(method.__doc__))
    return function


def _input(name: str, value: Any, argument: str = "input") -> Tensor:
    """Return the first argument of a function as a tensor."""
    if isinstance(value, Tensor):
        return value
    if backend_of(value) is None:
        raise TypeError(
            f"{name}(): argument '{argument}' (position 1) must be Tensor, not {type(value).__name__}"
            f"\n  Convert it with ag.asarray(...).{called()}"
        )
    return tensor_of(value)


def _documented(text: str) -> str:
    """Return the documentation of a method in the form for the function."""
    text = text.replace("this tensor", "`input`").replace("This tensor", "`input`")
    head, parameters, rest = text.partition("\n\nParameters\n----------\n")
    if not parameters:
        head, returns, rest = text.partition("\n\nReturns\n-------\n")
        rest = f"\nReturns\n-------\n{rest}" if returns else rest
    return f"{head}\n\nParameters\n----------\ninput : Tensor or array\n    The tensor.\n{rest}"


# -- PyTorch's own signatures, over what is there ---------------------------------------------------------------------------


def BoolTensor(*args: Any) -> Tensor:
    """PyTorch's ``BoolTensor``: bool, of a shape or of data.

    *args: A shape as separate integers (uninitialised then), or one nested sequence of numbers.

    >>> ag.BoolTensor(2, 3).dtype == ag.bool
    True
    """
    return Tensor(*args, dtype="bool")


def ByteTensor(*args: Any) -> Tensor:
    """PyTorch's ``ByteTensor``: uint8, of a shape or of data.

    *args: A shape as separate integers (uninitialised then), or one nested sequence of numbers.

    >>> ag.ByteTensor(2, 3).dtype == ag.uint8
    True
    """
    return Tensor(*args, dtype="uint8")


def HalfTensor(*args: Any) -> Tensor:
    """PyTorch's ``HalfTensor``: float16, of a shape or of data.

    *args: A shape as separate integers (uninitialised then), or one nested sequence of numbers.

    >>> ag.HalfTensor(2, 3).dtype == ag.float16
    True
    """
    return Tensor(*args, dtype="float16")


def IntTensor(*args: Any) -> Tensor:
    """PyTorch's ``IntTensor``: int32, of a shape or of data.

    *args: A shape as separate integers (uninitialised then), or one nested sequence of numbers.

    >>> ag.IntTensor(2, 3).dtype == ag.int32
    True
    """
    return Tensor(*args, dtype="int32")


def LongTensor(*args: Any) -> Tensor:
    """PyTorch's ``LongTensor``: int64, of a shape or of data.

    *args: A shape as separate integers (uninitialised then), or one nested sequence of numbers.

    >>> ag.LongTensor(2, 3).dtype == ag.int64
    True
    """
    return Tensor(*args, dtype="int64")


def ShortTensor(*args: Any) -> Tensor:
    """PyTorch's ``ShortTensor``: int16, of a shape or of data.

    *args: A shape as separate integers (uninitialised then), or one nested sequence of numbers.

    >>> ag.ShortTensor(2, 3).dtype == ag.int16
    True
    """
    return Tensor(*args, dtype="int16")


class MinMax(NamedTuple):
    """What `agrad.aminmax` gives."""

    min: Tensor
    max: Tensor


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest element, of all or along an axis.

    dim : int, optional
        The axis. Default: all.

    >>> ag.aminmax(ag.tensor([[3.0, 1.0], [2.0, 4.0]]), dim=1).max
    tensor([3., 4.])
    """
    return MinMax(*(f(input, axis=dim, keepdims=keepdim) for f in (statistical.min, statistical.max)))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Picked:
    """The most frequent element along an axis, of several the smallest; and its index, the last.

    Returns: ``values`` and ``indices``.

    >>> ag.mode(ag.tensor([2.0, 1.0, 2.0]))
    Picked(values=tensor(2.), indices=tensor(2))
    """
    return pairs.most_frequent(_input("mode", input), dim, keepdim)


def cummax(input: Any, dim: int) -> Picked:
    """The largest element so far along an axis, and its index; of equal ones the last.

    Returns: ``values`` and ``indices``.

    >>> ag.cummax(ag.tensor([1.0, 3.0, 2.0]), 0)
    Picked(values=tensor([1., 3., 3.]), indices=tensor([0, 1, 1]))
    """
    return pairs.running_largest(input, dim)


def cummin(input: Any, dim: int) -> Picked:
    """The smallest element so far along an axis, and its index; of equal ones the last.

    Returns: ``values`` and ``indices``.

    >>> ag.cummin(ag.tensor([2.0, 3.0, 1.0]), 0).values
    tensor([2., 2., 1.])
    """
    return pairs.running_smallest(input, dim)


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Picked:
    """The k-th smallest element along an axis, and its index.

    Returns: ``values`` and ``indices``.
    RuntimeError: If there are fewer elements.

    >>> ag.kthvalue(ag.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    return pairs.kth(_input("kthvalue", input), k, dim, keepdim)


def mm(input: Any, mat2: Any) -> Tensor:
    """Product of two matrices, one of which may be sparse; see `agrad.matmul`.

    mat2: The second factor.

    >>> ag.mm(ag.eye(2).to_sparse(), ag.ones((2, 1)))
    tensor([[1.],
            [1.]])
    """
    return linalg.matmul(input, mat2)


def msort(input: Any) -> Tensor:
    """Sorted along the first axis.

    >>> ag.msort(ag.tensor([2.0, 1.0]))
    tensor([1., 2.])
    """
    return searching.sort(input, axis=0)


def std_mean(
    input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over axes. As in PyTorch, and unlike `agrad.std`, it divides by ``n - 1``.

    >>> ag.std_mean(ag.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    spread, mean = var_mean(input, dim, unbiased, keepdim, correction=correction)
    return elementwise.sqrt(spread), mean


def var_mean(
    input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """Variance and mean over axes. As in PyTorch, and unlike `agrad.var`, it divides by ``n - 1``.

    >>> ag.var_mean(ag.tensor([[1.0, 3.0]]), 1)
    (tensor([2.]), tensor([2.]))
    """
    input = _input("var_mean", input)
    if isinstance(dim, bool):  # PyTorch's var_mean(x, unbiased)
        dim, unbiased = None, dim
    correction = float(unbiased) if correction is None else correction
    return input.var(dim, correction, keepdim), input.mean(dim, keepdim)


def unique(
    input: Any,
    sorted: bool = True,  # noqa: ARG001 (they are in any case)
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in rising order, or the distinct slices along an axis.

    sorted : bool, optional
        They are sorted in any case.
    return_inverse : bool, optional
        Also return the index of each element among them.
    return_counts : bool, optional
        Also return how often each occurs.
    dim : int, optional
        The axis. Default: elements of all axes.
    Returns : Tensor or tuple of Tensor
        The elements; then inverse and counts, if requested.

    >>> ag.unique(ag.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        return numpys("unique")(input, return_inverse=return_inverse, return_counts=return_counts)
    slices = _input("unique", input).movedim(dim, 0)
    rows = slices.reshape(slices.shape[0], -1)
    order = numpys("lexsort")(rows.t().flip(0))
    first = _starts(searching.take(rows, order, axis=0))
    made = [searching.take(slices, order[first], axis=0).movedim(0, dim)]
    if return_inverse:
        made.append(searching.setitem(order, order, _numbers(first)))
    if return_counts:
        made.append(_lengths(first))
    return tuple(made) if len(made) > 1 else made[0]


def _starts(rows: Tensor) -> Tensor:
    """Return whether each row begins a run of equal rows."""
    changes = (rows[1:, :] != rows[:-1, :]).any(1)
    return extra.cat([creation.ones_like(rows[:1, 0], dtype="bool"), changes])


def _numbers(first: Tensor) -> Tensor:
    """Return the number of the run of each row, given where runs begin."""
    return statistical.cumulative_sum(data_type.astype(first, "int64")) - 1


def _lengths(first: Tensor) -> Tensor:
    """Return the lengths of runs, by where they begin."""
    places = searching.nonzero(first)[0]
    end = creation.asarray([first.size], dtype=places.dtype, device=first.device)
    return utility.diff(places, append=end)


def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The elements without those that equal the previous one, flattened.

    return_inverse : bool, optional
        Also return the index of each element among them.
    return_counts : bool, optional
        Also return how often each is repeated.
    Returns : Tensor or tuple of Tensor
        The elements; then inverse and counts, if requested.

    >>> ag.unique_consecutive(ag.tensor([1, 1, 3, 1]))
    tensor([1, 3, 1])
    """
    input = _input("unique_consecutive", input)
    flat = input.ravel()
    first = _starts(flat.reshape(-1, 1))
    made = [flat[first]]
    if return_inverse:
        made.append(_numbers(first).reshape(input.shape))
    if return_counts:
        made.append(_lengths(first))
    return tuple(made) if len(made) > 1 else made[0]


# -- products


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * sum(batch1 @ batch2)``, summed over the first axis; a `beta` of 0 keeps NaN of `input` out.

    >>> ag.addbmm(ag.zeros(1, 1), ag.ones(3, 1, 2), ag.ones(3, 2, 1))
    tensor([[6.]])
    """
    return elementwise.add(
        times_beta(_input("addbmm", input), beta), statistical.sum(linalg.matmul(batch1, batch2), axis=0) * alpha
    )


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``; a `beta` of 0 keeps NaN of `input` out.

    >>> ag.addmv(ag.ones(1), ag.ones(1, 2), ag.ones(2))
    tensor([3.])
    """
    return elementwise.add(times_beta(_input("addmv", input), beta), linalg.matmul(mat, vec) * alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``; a `beta` of 0 keeps NaN of `input` out.

    >>> ag.addr(ag.zeros(1, 2), ag.ones(1), ag.ones(2), alpha=3)
    tensor([[3., 3.]])
    """
    return elementwise.add(times_beta(_input("addr", input), beta), linalg.outer(vec1, vec2) * alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)``, matrix by matrix; a `beta` of 0 keeps NaN of `input` out.

    >>> ag.baddbmm(ag.ones(1, 1, 1), ag.ones(1, 1, 2), ag.ones(1, 2, 1)).item()
    3.0
    """
    return elementwise.add(times_beta(_input("baddbmm", input), beta), linalg.matmul(batch1, batch2) * alpha)


def vdot(input: Any, other: Any) -> Tensor:
    """Sum of the products of two vectors, the first conjugated.

    >>> ag.vdot(ag.tensor([1j, 1.0]), ag.tensor([1j, 2.0]))
    tensor(3.+0.j)
    """
    return linalg.vecdot(input, other)


def chain_matmul(*matrices: Any) -> Tensor:
    """Product of matrices, from the left to the right.

    *matrices: The factors.

    >>> ag.chain_matmul(ag.ones(1, 2), ag.ones(2, 3), ag.ones(3, 1))
    tensor([[6.]])
    """
    product: Tensor = functools.reduce(linalg.matmul, matrices)
    return product


def dist(input: Any, other: Any, p: float = 2) -> Tensor:
    """The norm of the difference, of all elements.

    >>> ag.dist(ag.tensor([1.0, 2.0]), ag.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return linalg.vector_norm(elementwise.subtract(input, other), ord=p)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Tensor:  # noqa: ARG001 (PyTorch's choice of algorithms)
    """Distances of all pairs of rows; see `agrad.extra.cdist`.

    x1, x2: Shape (..., P, M) and (..., R, M).
    compute_mode : str, optional
        Not looked at.

    >>> ag.cdist(ag.tensor([[0.0, 0.0]]), ag.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    return extra.cdist(x1, x2, p=p)


def cross(input: Any, other: Any, dim: int | None = None) -> Tensor:
    """Cross product of vectors of three elements; see `agrad.linalg.cross`.

    dim : int, optional
        Their axis. Default: the first of length 3.
    RuntimeError: If there is none.

    >>> ag.cross(ag.tensor([1.0, 0.0, 0.0]), ag.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    input = _input("cross", input)
    if dim is None:
        if 3 not in input.shape:
            raise RuntimeError(f"no dimension of size 3 in input{called()}")
        dim = input.shape.index(3)
    return linalg.cross(input, other, axis=dim if dim < 0 else dim - input.ndim)


# -- matrices


def adjoint(input: Any) -> Tensor:
    """The conjugate transpose of matrices.

    >>> ag.adjoint(ag.tensor([[1j, 2.0]]))
    tensor([[0.-1.j],
            [2.-0.j]])
    """
    return _input("adjoint", input).conj().mT


def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Tensor:
    """Solve ``A x = B`` for a matrix given by its Cholesky factor.

    B: The right-hand sides, as the columns of matrices.
    L: The factor, lower triangular.
    upper : bool, optional
        It is upper triangular.

    >>> ag.cholesky_solve(ag.tensor([[8.0], [12.0]]), ag.tensor([[2.0, 0.0], [1.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    factor = _input("cholesky_solve", L, "L")
    solved: Tensor = importlib.import_module("agrad.scipy.linalg").cho_solve((factor, not upper), B)
    return solved


def logdet(input: Any) -> Tensor:
    """The logarithm of the determinant of matrices; NaN where it is negative.

    >>> ag.logdet(ag.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(1.7918)
    """
    sign, magnitude = solving.slogdet(input)
    if sign._spec.is_complex:
        return magnitude + elementwise.log(sign)
    return searching.where(sign < 0, math.nan, magnitude)


def svd(input: Any, some: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Singular values and vectors: U, S and V; `agrad.linalg.svd` returns the adjoint of V.

    some : bool, optional
        False returns square U and V.

    >>> u, s, v = ag.svd(ag.tensor([[3.0, 0.0], [0.0, 2.0]]))
    >>> s
    tensor([3., 2.])
    """
    u, s, vh = decompositions.svd(input, full_matrices=not some)
    return u, s, adjoint(vh)


# -- shapes


def fliplr(input: Any) -> Tensor:
    """The order along the second axis reversed.

    >>> ag.fliplr(ag.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    return manipulation.flip(input, axis=1)


def flipud(input: Any) -> Tensor:
    """The order along the first axis reversed.

    >>> ag.flipud(ag.tensor([1, 2]))
    tensor([2, 1])
    """
    return manipulation.flip(input, axis=0)


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by right angles; see `agrad.extra.rot90`.

    k : int, optional
        How many.
    dims : tuple of int, optional
        The plane: from the first axis towards the second.

    >>> ag.rot90(ag.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    i, j = dims
    return extra.rot90(input, k=k, axes=(i, j))


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last axis as their diagonal; see `agrad.extra.diag_embed`.

    >>> ag.diag_embed(ag.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return extra.diag_embed(input, offset, dim1, dim2)


def diagflat(input: Any, offset: int = 0) -> Tensor:
    """A matrix with all elements as its diagonal; see `agrad.extra.diagflat`.

    >>> ag.diagflat(ag.tensor([[1.0, 2.0]]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return extra.diagflat(input, k=offset)


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into parts of a length; NumPy's `agrad.extra.split` takes their number.

    tensor: The tensor.
    split_size_or_sections : int or sequence of int
        The length of a part (the last may be shorter), or of each.
    RuntimeError: If the lengths do not sum to that of the axis.

    >>> [part.tolist() for part in ag.split(ag.arange(3), 2)]
    [[0, 1], [2]]
    """
    return _input("split", tensor, "tensor").split(split_size_or_sections, dim)


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into a number of parts, or at indices; see `agrad.extra.array_split`.

    indices_or_sections : int or sequence of int
        The number of parts, as equal as possible; or the beginnings of all parts but the first.

    >>> [part.tolist() for part in ag.tensor_split(ag.arange(3), 2)]
    [[0, 1], [2]]
    """
    return extra.array_split(input, indices_or_sections, axis=dim)


def argwhere(input: Any) -> Tensor:
    """The indices of the nonzero elements, a row for each.

    >>> ag.argwhere(ag.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return manipulation.stack(searching.nonzero(input), axis=1)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The interval between boundaries that contains each element; see `agrad.searchsorted`.

    boundaries: A vector, rising.
    out_int32 : bool, optional
        Give int32.
    right : bool, optional
        Count an element that equals a boundary to the interval above.

    >>> ag.bucketize(ag.tensor([0.5, 1.0, 3.0]), ag.tensor([1.0, 2.0]))
    tensor([0, 0, 2])
    """
    found = searching.searchsorted(boundaries, input, side="right" if right else "left")
    return data_type.astype(found, "int32" if out_int32 else "int64", copy=False)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """Count how often each integer occurs, or sum its weights; see `agrad.extra.bincount`.

    weights : Tensor, optional
        A weight for each element.
    minlength : int, optional
        The minimum number of counts.

    >>> ag.bincount(ag.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    return extra.bincount(input, weights, minlength=minlength)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The indices of the part of a matrix on and below a diagonal, in two rows.

    row, col : int
        The shape of the matrix.

    >>> ag.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    found = manipulation.stack(extra.tril_indices(row, k=offset, m=col, device=device))
    return data_type.astype(found, dtype or "int64", copy=False)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The indices of the part of a matrix on and above a diagonal, in two rows.

    row, col : int
        The shape of the matrix.

    >>> ag.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    found = manipulation.stack(extra.triu_indices(row, k=offset, m=col, device=device))
    return data_type.astype(found, dtype or "int64", copy=False)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of the elements of vectors, a row for each.

    *tensors: The vectors.

    >>> ag.cartesian_prod(ag.tensor([1, 2]), ag.tensor([5]))
    tensor([[1, 5],
            [2, 5]])
    """
    if len(tensors) == 1:
        return as_operand(tensors[0])
    return manipulation.stack([x.ravel() for x in creation.meshgrid(*tensors, indexing="ij")], axis=1)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element of a vector, a row for each; see `agrad.extra.vander`.

    x: The vector.
    N : int, optional
        The number of powers. Default: the length of `x`.
    increasing : bool, optional
        Begin with the power 0.

    >>> ag.vander(ag.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    return extra.vander(x, N, increasing=increasing)


# -- elementwise


def angle(input: Any) -> Tensor:
    """The angle of complex numbers; for real ones 0, or pi where they are negative.

    >>> ag.angle(ag.tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """
    input = _input("angle", input)
    if input.is_complex():
        return elementwise.atan2(elementwise.imag(input), elementwise.real(input))
    return searching.where(input < 0, math.pi, 0.0 * elementwise.sign(input))  # NaN stays


def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers of their parts.

    real, imag: The parts.

    >>> ag.complex(ag.tensor([1.0]), ag.tensor([2.0]))
    tensor([1.+2.j])
    """
    return elementwise.add(real, elementwise.multiply(imag, 1j))


def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers of magnitude and angle.

    abs, angle: Magnitude and angle.

    >>> ag.polar(ag.tensor(2.0), ag.tensor(0.0))
    tensor(2.+0.j)
    """
    return complex(elementwise.multiply(abs, elementwise.cos(angle)), elementwise.multiply(abs, elementwise.sin(angle)))


def resolve_conj(input: Any) -> Tensor:
    """`input` itself: conjugates are values here, not marks to resolve.

    >>> ag.resolve_conj(ag.tensor(1 + 2j).conj())
    tensor(1.-2.j)
    """
    return _input("resolve_conj", input)


def view_as_real(input: Any) -> Tensor:
    """Complex numbers as pairs of real ones, along a new last axis.

    >>> ag.view_as_real(ag.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    return manipulation.stack([elementwise.real(input), elementwise.imag(input)], axis=-1)


def view_as_complex(input: Any) -> Tensor:
    """Pairs of real numbers along the last axis as complex ones.

    >>> ag.view_as_complex(ag.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    return complex(*manipulation.unstack(input, axis=-1))


def float_power(input: Any, exponent: Any) -> Tensor:
    """Powers in double precision.

    exponent: The exponent.

    >>> ag.float_power(ag.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333])
    """
    base, exponent = as_operands(input, exponent)
    dtype = "complex128" if base._spec.is_complex or exponent._spec.is_complex else "float64"
    return elementwise.pow(*(data_type.astype(x, dtype, copy=False) for x in (base, exponent)))


def fmod(input: Any, other: Any) -> Tensor:
    """The remainder of a division that is rounded towards 0; `agrad.remainder` rounds down.

    >>> ag.fmod(ag.tensor([-3.0, 3.0]), 2.0)
    tensor([-1.,  1.])
    """
    input = as_operand(input, other)
    size = searching.where(input < 0, -input, input)  # not abs, which has no slope at 0
    limit = abs(other) if isinstance(other, int | float) else elementwise.abs(other)
    found = elementwise.remainder(size, limit)
    return searching.where(input < 0, -found, found)


def frac(input: Any) -> Tensor:
    """The digits after the decimal point, with the sign.

    >>> ag.frac(ag.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    return elementwise.subtract(input, elementwise.trunc(input))


def ldexp(input: Any, other: Any) -> Tensor:
    """``input * 2**other``.

    >>> ag.ldexp(ag.tensor([1.5]), ag.tensor([2]))
    tensor([6.])
    """
    input, other = as_operands(input, other)
    if input._spec.inexact and not other._spec.inexact:  # 2.0 would have the default dtype
        other = data_type.astype(other, input.dtype)
    return elementwise.multiply(input, elementwise.pow(2.0, other))


def mvlgamma(input: Any, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function; see `agrad.special.multigammaln`.

    p : int
        The dimension.

    >>> ag.mvlgamma(ag.tensor([2.0]), p=1)
    tensor([0.])
    """
    return special.multigammaln(input, p)


def is_nonzero(input: Any) -> bool:
    """Whether the one element is not zero.

    >>> ag.is_nonzero(ag.tensor([0.0]))
    False
    """
    return bool(_input("is_nonzero", input))


# -- integrals


def trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integral along an axis by the trapezoidal rule; see `agrad.extra.trapezoid`.

    y: The values.
    x : Tensor, optional
        Where they are.
    dx : float, optional
        Their distance, if `x` is not given.

    >>> ag.trapezoid(ag.tensor([1.0, 2.0, 3.0]), dx=2)
    tensor(8.)
    """
    return extra.trapezoid(y, x, dx=dx, axis=dim)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The integrals up to each value by the trapezoidal rule; see `agrad.extra.cumulative_trapezoid`.

    y: The values.
    x : Tensor, optional
        Where they are.
    dx : float, optional
        Their distance, if `x` is not given.

    >>> ag.cumulative_trapezoid(ag.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    return extra.cumulative_trapezoid(y, x, dx=dx, axis=dim)


trapz = trapezoid


def logspace(
    start: Any,
    end: Any = None,
    steps: int | None = None,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    stop: Any = None,
    num: int | None = None,
) -> Tensor:
    """Powers of a base with equidistant exponents.

    start, end : scalar
        The first and the last exponent.
    steps : int
        How many.
    base : float, optional
        The base.
    stop, num : optional
        NumPy's names for `end` and `steps`.

    >>> ag.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    end = creation.either("logspace", "end", end, "stop", stop)
    steps = creation.either("logspace", "steps", steps, "num", num)
    made = elementwise.pow(base, creation.linspace(start, end, steps, dtype=dtype, device=device))
    return made.requires_grad_(requires_grad)


# -- samples


def bernoulli(input: Any, p: float | None = None, *, generator: random.Generator | None = None) -> Tensor:
    """Ones with the probability of each element, or with one probability for all; zeros otherwise.

    p : float, optional
        The probability of all.
    Returns: Of the shape and dtype of `input`; not part of the graph.

    >>> ag.bernoulli(ag.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    input = _input("bernoulli", input).detach()
    drawn = random.rand(*input.shape, device=input.device, generator=generator)
    return data_type.astype(drawn < (input if p is None else p), input.dtype)


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: random.Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers with given means and standard deviations.

    mean, std : Tensor or float
        They broadcast.
    size : tuple of int, optional
        The shape, if both are numbers.
    Returns: Not part of the graph.
    TypeError: If both are numbers and there is no size.
    RuntimeError: If a standard deviation is negative.

    >>> ag.normal(2.0, 0.0, size=(2,))
    tensor([2., 2.])
    """
    given = [x.detach() for x in (mean, std) if isinstance(x, Tensor)]
    if not given and size is None:
        raise TypeError(f"normal() of two numbers needs a size, as normal(0.0, 1.0, size=(3,)){called()}")
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}{called()}")
    if given:
        size = manipulation.broadcast_shapes(*(x.shape for x in given))
        dtype, device = given[0].dtype if dtype is None else dtype, given[0].device
    mean, std = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    drawn = random.randn(size, dtype=dtype, device=device, generator=generator)
    if not given:
        mean = random.in_both(mean, drawn)
    return elementwise.add(drawn * std, mean).requires_grad_(requires_grad)


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: random.Generator | None = None
) -> Tensor:
    """Draw indices with the probabilities in the last axis, up to a factor.

    num_samples : int
        The number of draws for each row.
    replacement : bool, optional
        Whether an index may be drawn twice.
    Returns: int64, of shape (num_samples,) or (rows, num_samples); not part of the graph.
    RuntimeError: If `input` does not have one or two axes, contains an invalid probability, or has too few nonzero
        ones.

    >>> ag.multinomial(ag.tensor([[0.0, 1.0], [3.0, 0.0]]), 2, replacement=True)
    tensor([[1, 1],
            [0, 0]])
    """
    weights = _input("multinomial", input).detach()
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, not {weights.ndim}{called()}")
    if not bool(elementwise.logical_and(weights >= 0, elementwise.isfinite(weights)).all()):
        raise RuntimeError(f"probability tensor contains either `inf`, `nan` or element < 0{called()}")
    least = int(statistical.min(searching.count_nonzero(weights, axis=-1)))
    if least < (1 if replacement else num_samples):
        raise RuntimeError(
            f"invalid multinomial distribution: {least} of the probabilities are not zero, for {num_samples} samples{called()}"
        )
    where = {"dtype": weights.dtype, "device": weights.device, "generator": generator}
    if not replacement:  # the order of exponential waiting times, one for each index, shorter for greater weights
        waiting = -elementwise.log1p(-random.rand(*weights.shape, **where))
        rates = weights / elementwise.clip(waiting, data_type.finfo(weights.dtype).smallest_normal)
        return searching.argsort(rates, axis=-1, descending=True)[..., :num_samples]
    below = statistical.cumulative_sum(weights, axis=-1)
    drawn = random.rand(*weights.shape[:-1], num_samples, **where) * below[..., -1:]
    passed = manipulation.expand_dims(below, axis=-2)[..., :-1] <= manipulation.expand_dims(drawn, axis=-1)
    return statistical.sum(data_type.astype(passed, "int64"), axis=-1)


def randint_like(
    input: Any,
    low: int,
    high: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    generator: random.Generator | None = None,
) -> Tensor:
    """Integers uniform from `low` (0 if omitted) to `high` - 1, in the shape of a tensor.

    low, high : int
        The range; with one number, from 0 to before it.
    Returns: Of the dtype of `input`, unless another is given.

    >>> ag.randint_like(ag.zeros(2), 1)
    tensor([0., 0.])
    """
    input = _input("randint_like", input)
    low, high = (0, low) if high is None else (low, high)
    drawn = random.randint(low, high, input.shape, device=device or input.device, generator=generator)
    return data_type.astype(drawn, input.dtype if dtype is None else dtype)


def get_rng_state() -> tuple[int, int]:
    """Return the state of the default generator, for `agrad.set_rng_state`; a pair of integers, which `agrad.save` takes.

    >>> state = ag.get_rng_state()
    >>> a = ag.rand(2)
    >>> ag.set_rng_state(state)
    >>> bool(ag.all(a == ag.rand(2)))
    True
    """
    return random.default_generator.get_state()


def set_rng_state(new_state: tuple[int, int]) -> None:
    """Let the default generator go on from a state.

    new_state : tuple of int
        What `agrad.get_rng_state` gave.

    >>> ag.set_rng_state(ag.get_rng_state())
    """
    random.default_generator.set_state(new_state)


def initial_seed() -> int:
    """Return the seed of the default generator.

    >>> _ = ag.manual_seed(3)
    >>> ag.initial_seed()
    3
    """
    return random.default_generator.get_state()[0]


def device(type: Any, index: int | None = None) -> Device:
    """Return the device with a name: ``"cpu"`` is NumPy here, ``"cuda"`` CuPy.

    type : str or int
        A backend's name or one of these two, with or without a number; or only the number of one of CuPy's.
    index : int, optional
        The number.
    Returns: A string, as ``x.device`` is.
    RuntimeError: If a number is given twice.

    >>> ag.device("cpu") == ag.zeros(2).device, ag.device("cuda", 1)
    (True, 'cupy:1')
    """
    name, colon, number = (f"cuda:{type}" if isinstance(type, int) else type).partition(":")
    if index is not None:
        if colon:
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: {type}{called()}"
            )
        number = str(index)
    name = {"cpu": "numpy", "cuda": "cupy"}.get(name, name)
    if name == "numpy":  # it has one
        number = ""
    return Device(f"{name}:{number}" if number else name)


#: The meaning of an argument, by name.
ARGUMENTS = {
    "alpha": "scalar, optional\n    A factor for the product.",
    "batch1": "Tensor\n    Matrices, along the first axis.",
    "batch2": "Tensor\n    Matrices, along the first axis.",
    "beta": "scalar, optional\n    A factor for `input`.",
    "correction": "float, optional\n    The number to subtract from the number of elements, in place of `unbiased`.",
    "device": "str, optional\n    The device.",
    "dim": "int, or tuple of int\n    The axis.",
    "dim1": "int, optional\n    The axis of the rows in the result.",
    "dim2": "int, optional\n    That of the columns.",
    "dtype": "dtype, optional\n    The dtype.",
    "generator": "Generator, optional\n    The source of keys. Default: that of `agrad.manual_seed`.",
    "input": "Tensor or array\n    The tensor.",
    "k": "int\n    Which one, counted from 1.",
    "keepdim": "bool, optional\n    Keep reduced axes with length 1.",
    "mat": "Tensor\n    A matrix.",
    "offset": "int, optional\n    0 is the main diagonal; positive ones lie above.",
    "other": "Tensor or scalar\n    The other operand.",
    "p": "float, optional\n    Which norm.",
    "requires_grad": "bool, optional\n    Whether to record operations on the result.",
    "unbiased": "bool, optional\n    Divide by ``n - 1``.",
    "vec": "Tensor\n    A vector.",
    "vec1": "Tensor\n    A vector.",
    "vec2": "Tensor\n    A vector.",
}
complete(globals(), ARGUMENTS)
