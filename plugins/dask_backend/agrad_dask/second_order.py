"""Second derivatives of a loss that adds up over rows, in one task per chunk: products, the Hessian, and its approximations.

Each is a `Loss` that computes something else than a gradient on its rows; a call proceeds as in `value_and_grad`.

May import Dask; imported when one of its functions is first used.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

import agrad as ag
from agrad import Tensor, func, tree
from agrad.plugin.backend import called, internal
from agrad.plugin.programs import Argnums, bare_all
from agrad_dask.losses import Loss
from agrad_dask.lowering import LoweredLoss, data_of

#: The largest number of parameters for which every task builds a matrix.
MOST = 1024

internal(__file__)


@dataclass(frozen=True, eq=False)
class HessianProduct(Loss):
    """The Hessian of a loss times a vector, which is the first argument."""

    caller = "hvp"
    in_memory = "agrad.func.hvp"
    before = 1
    gives_value = False

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        value_at, parameters = _at(self, args, kwargs)
        vector = tuple(map(ag.asarray, tree.flatten(args[0])[0]))
        product, value = func.hvp(_twice(value_at), parameters, vector, has_aux=True)
        return [value.detach(), *(product if len(parameters) > 1 else (product,))], None

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        return super().value(args[1:], kwargs)


@dataclass(frozen=True, eq=False)
class Matrix(Loss):
    """A matrix with a row and a column for each parameter."""

    gives_value = False

    def given(self, found: list[Tensor], structure: tree.TreeDef, gives: Any, *, raw: bool) -> Any:
        blocks = bare_all(found) if raw else found
        count = math.isqrt(len(blocks))
        rows = [self.like_parameters(blocks[i : i + count], structure) for i in range(0, len(blocks), count)]
        return self.like_parameters(rows, structure)


@dataclass(frozen=True, eq=False)
class Hessian(Matrix):
    """The Hessian of a loss."""

    caller = "hessian"
    in_memory = "agrad.func.hessian"

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        value_at, parameters = _at(self, args, kwargs)
        every = tuple(range(len(parameters)))
        blocks, value = func.hessian(_twice(value_at), every, has_aux=True)(*parameters)
        return [value.detach(), *itertools.chain.from_iterable(blocks)], None


@dataclass(frozen=True, eq=False)
class GaussNewton(Matrix):
    """The Hessian of half the squares of residuals, without their second derivatives."""

    caller = "gauss_newton"
    in_memory = "r = agrad.func.jacfwd(residuals)(*args), and r.T @ r,"

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        residuals_at, parameters = _at(self, args, kwargs, self.residuals)
        every = tuple(range(len(parameters)))
        found, residuals = func.jacfwd(_twice(residuals_at), every, has_aux=True)(*parameters)
        return [self.squares(residuals), *_products(found, residuals.shape, self._share(residuals))], None

    def residuals(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        """Return the residuals, checked."""
        found = self.function(*args, **kwargs)
        if not isinstance(found, Tensor):
            raise TypeError(f"gauss_newton: the function must return a tensor of residuals, not {type(found).__name__}")
        if not found.ndim:
            raise RuntimeError(
                "gauss_newton: the function must return the residuals of its rows, one or several for each, got a 0-d tensor:"
                " return them before they are squared and summed. For a loss itself, use agrad_dask.hessian or agrad_dask.fisher"
            )
        if found.is_complex():
            raise RuntimeError(
                f"gauss_newton: residuals must be real, got {found.dtype}: stack their real and imaginary parts"
            )
        return found, None

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        return self.squares(self.residuals(args, kwargs)[0]), None

    def squares(self, residuals: Tensor) -> Tensor:
        """Return half the squares: the matrix belongs to them, and adds up if they do."""
        return 0.5 * ag.sum(residuals * residuals) * self._share(residuals)

    def _share(self, residuals: Tensor) -> float:
        return 1 / residuals.shape[0] if self.reduce == "mean" and residuals.shape[0] else 1.0


@dataclass(frozen=True, eq=False)
class Fisher(Matrix):
    """The outer products of the gradients of rows. The first argument says which leaves of the others are data."""

    caller = "fisher"
    in_memory = "g = agrad.vmap(agrad.grad(loss), in_dims=...)(*args), and g.T @ g,"
    before = 1

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Tensor], Any]:
        value_at, parameters = _at(self, args, kwargs, data=args[0])
        leaves, _ = tree.flatten((args, kwargs))
        data = [leaves[place] for place in args[0]]
        count = len(parameters)
        each = func.value_and_grad(
            lambda *given: value_at(*given[:count], *(row[None] for row in given[count:])), tuple(range(count))
        )
        values, gradients = func.vmap(each, in_dims=(None,) * count + (0,) * len(data))(*parameters, *data)
        rows = data[0].shape[0]
        share = 1 / rows if self.reduce == "mean" and rows else 1.0
        return [ag.sum(values) * share, *_products(gradients, (rows,), share)], None

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        return super().value(args[1:], kwargs)


def _at(
    loss: Loss,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    of: Callable[..., tuple[Any, Any]] | None = None,
    data: Sequence[int] = (),
) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """Return the function of the parameters as separate arguments, and the parameters.

    Parameters
    ----------
    of : callable, optional
        The function of all arguments, with auxiliary values; the loss by default.
    data : sequence of int
        Which leaves it takes after the parameters.
    """
    leaves, structure = tree.flatten((args, kwargs))
    places = loss.places(structure)

    def at(*given: Tensor) -> Any:
        changed = leaves.copy()
        for place, value in zip((*places, *data), given, strict=True):
            changed[place] = value
        return (of or loss.value)(*tree.unflatten(structure, changed))[0]

    return at, tuple(ag.asarray(leaves[place]).detach() for place in places)


def _twice(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that also returns its result as an auxiliary value."""

    def both(*given: Any) -> Any:
        result = function(*given)
        return result, result

    return both


def _products(found: Sequence[Tensor], over: tuple[int, ...], share: float) -> list[Tensor]:
    """Return derivatives times each other, summed over their first axes, block by block."""
    flat = [ag.reshape(each, (math.prod(over), -1)) for each in found]
    own = [each.shape[len(over) :] for each in found]
    return [
        ag.reshape(ag.matrix_transpose(a) @ b, (*shape_a, *shape_b)).detach() * share
        for a, shape_a in zip(flat, own, strict=True)
        for b, shape_b in zip(flat, own, strict=True)
    ]


# -- what users call --------------------------------------------------------------------------------------------------


def hvp(
    loss: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    reduce: str = "mean",
    check: bool = True,
    capture: bool = True,
) -> Callable[..., Any]:
    """Return the function that computes products of a loss's Hessian and vectors, in one pass over Dask arrays.

    Parameters
    ----------
    loss : callable
        Takes parameters and rows of data, returns a 0-d tensor, and adds up over rows: as for `value_and_grad`.
    argnums, reduce, check, capture
        As for `value_and_grad`.

    Returns
    -------
    callable
        Takes ``(primals, tangents)`` and keyword arguments of `loss`: the tuple of its arguments, Dask arrays among
        them, and the vector, in the structure of the parameters: of one argument if `argnums` is an int, otherwise a
        tuple. The result has that structure; it is in memory, in the same form as gradients of `value_and_grad`.

    Raises
    ------
    ValueError, CompileError, RuntimeError
        As those of `value_and_grad`. When called: RuntimeError if parameters and vector differ in structure or shape.
    TypeError
        When called: if `primals` is not a tuple, or a parameter or the vector is a Dask array.

    See Also
    --------
    hessian : The whole matrix, for few parameters. agrad.func.hvp : The same in memory.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> import dask.array as da
    >>> def loss(w, X):
    ...     return ag.mean((X @ w) ** 4)
    >>> X = da.ones((1024, 2), chunks=(128, 2))
    >>> product = agrad_dask.hvp(loss)
    >>> product((ag.asarray([1.0, 2.0]), X), ag.asarray([1.0, 0.0]))
    tensor([108., 108.])
    """
    lowered = LoweredLoss.of(HessianProduct(loss, argnums, reduce, has_aux=False), check=check, capture=capture)

    @functools.wraps(loss)
    def product(primals: Any, tangents: Any, **kwargs: Any) -> Any:
        if not isinstance(primals, tuple):
            raise TypeError(
                "hvp: Expected primals to be a tuple, of all arguments of the loss: product((w, X), v) for loss(w, X)."
                f"{called()}"
            )
        _check_vector(lowered.loss, primals, tangents, kwargs)
        return lowered((tangents, *primals), kwargs)

    return product


def hessian(
    loss: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    reduce: str = "mean",
    check: bool = True,
    capture: bool = True,
) -> Callable[..., Any]:
    """Return the function that computes the Hessian of a loss over the rows of Dask arrays, in one pass.

    Parameters
    ----------
    loss : callable
        Takes parameters and rows of data, returns a 0-d tensor, and adds up over rows: as for `value_and_grad`.
    argnums, reduce, check, capture
        As for `value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `loss` and returns the result of `agrad.func.hessian`: for one tensor a tensor of shape
        ``parameter.shape + parameter.shape``, for containers and several arguments containers of containers. It is in
        memory: as arrays if all parameters are arrays, otherwise as tensors.

    Raises
    ------
    ValueError
        As `value_and_grad`. When called: if there are more than 1024 parameters.
    TypeError, CompileError, RuntimeError
        As those of `value_and_grad`.

    See Also
    --------
    hvp : Products with vectors, for any number of parameters.
    gauss_newton, fisher : Approximations of the matrix, which are never indefinite.

    Notes
    -----
    Each run makes one backward pass per parameter, all together.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> import dask.array as da
    >>> def loss(w, X):
    ...     return ag.mean((X @ w) ** 4)
    >>> X = da.ones((1024, 2), chunks=(128, 2))
    >>> agrad_dask.hessian(loss)(ag.asarray([1.0, 2.0]), X)
    tensor([[108., 108.],
            [108., 108.]])
    """
    return _matrix(Hessian(loss, argnums, reduce, has_aux=False), check=check, capture=capture)


def gauss_newton(
    residuals: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    reduce: str = "mean",
    check: bool = True,
    capture: bool = True,
) -> Callable[..., Any]:
    """Return the function that computes the Gauss-Newton matrix of residuals, ``J.T @ J``, in one pass over Dask arrays.

    Parameters
    ----------
    residuals : callable
        Takes parameters and rows of data, returns a tensor with the residuals of the rows, one or several for each. The
        residuals of a row depend on that row only. The matrix belongs to half the sum of their squares; for weighted
        squares, multiply residuals by the roots of the weights.
    argnums, check, capture
        As for `value_and_grad`.
    reduce : {"mean", "sum"}, optional
        Whether to divide by the length of the first axis of the result of `residuals`.

    Returns
    -------
    callable
        Takes the arguments of `residuals` and returns the matrix, in the form of `hessian`.

    Raises
    ------
    ValueError
        As `value_and_grad`. When called: if there are more than 1024 parameters.
    TypeError, CompileError, RuntimeError
        As those of `value_and_grad`; RuntimeError if the function returns a 0-d or complex tensor.

    See Also
    --------
    hessian : With second derivatives of the residuals.
    fisher : For any loss.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> import dask.array as da
    >>> X = da.ones((1024, 2), chunks=(128, 2))
    >>> agrad_dask.gauss_newton(lambda w, X: (X @ w) ** 2)(ag.asarray([1.0, 2.0]), X)
    tensor([[36., 36.],
            [36., 36.]])
    """
    return _matrix(GaussNewton(residuals, argnums, reduce, has_aux=False), check=check, capture=capture)


def fisher(
    loss: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    reduce: str = "mean",
    check: bool = True,
    capture: bool = True,
) -> Callable[..., Any]:
    """Return the function that computes the empirical Fisher matrix of a loss over the rows of Dask arrays, in one pass.

    It is the mean, or sum, over rows of the outer product of each row's gradient with itself.

    Parameters
    ----------
    loss : callable
        Takes parameters and rows of data, returns a 0-d tensor, and adds up over rows: as for `value_and_grad`. The
        loss of one row is its result for that row only; for a negative log-likelihood the matrix is an estimate of the
        Fisher information.
    argnums, reduce, check, capture
        As for `value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `loss` and returns the matrix, in the form of `hessian`.

    Raises
    ------
    ValueError
        As `value_and_grad`. When called: if there are more than 1024 parameters.
    TypeError, CompileError, RuntimeError
        As those of `value_and_grad`.

    See Also
    --------
    hessian : Second derivatives.
    gauss_newton : For squares.

    Notes
    -----
    The loss runs under `agrad.vmap` over all rows at once, so every operation in it needs a batch rule.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> import dask.array as da
    >>> def loss(w, X):
    ...     return ag.mean((X @ w) ** 2)
    >>> X = da.ones((1024, 2), chunks=(128, 2))
    >>> agrad_dask.fisher(loss)(ag.asarray([1.0, 2.0]), X)
    tensor([[36., 36.],
            [36., 36.]])
    """
    return _matrix(Fisher(loss, argnums, reduce, has_aux=False), check=check, capture=capture)


def _matrix(loss: Loss, *, check: bool, capture: bool) -> Callable[..., Any]:
    """Return the function that the user calls for a matrix."""
    lowered = LoweredLoss.of(loss, check=check, capture=capture)

    @functools.wraps(loss.function)
    def matrix(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        data = [i for i, leaf in enumerate(leaves) if data_of(leaf) is not None]
        if loss.before:
            args = (tuple(i + len(data) for i in data), *args)
            leaves, structure = tree.flatten((args, kwargs))
        count = sum(math.prod(getattr(leaves[place], "shape", ())) for place in loss.places(structure))
        if count > MOST:
            raise ValueError(
                f"{loss.caller} of {count} parameters is a matrix of {count} x {count} ({format_bytes(8 * count**2)} in float64),"
                f" and every task would make one; at most {MOST} parameters are taken.\n  agrad_dask.hvp(loss) gives products of"
                " the Hessian and vectors, which is what conjugate gradients and Lanczos ask for; argnums= chooses fewer"
                f" parameters.{called()}"
            )
        return lowered(args, kwargs)

    return matrix


def _check_vector(loss: Loss, primals: tuple[Any, ...], tangents: Any, kwargs: dict[str, Any]) -> None:
    """Refuse a vector that is not like the parameters."""
    given, structure = tree.flatten(tangents)
    if any(data_of(leaf) is not None for leaf in given):
        raise TypeError(
            f"hvp: the vector is a Dask array; parameters and vectors are in memory, only data is in chunks{called()}"
        )
    leaves, whole = tree.flatten(((tangents, *primals), kwargs))
    parameters = [leaves[place] for place in loss.places(whole)]
    expected = tree.flatten(loss.like_parameters(parameters, whole))[1]
    if structure != expected:
        raise RuntimeError(
            "hvp: Expected the vector to have the structure of the parameters. Got parameters with structure"
            f" {expected} and a vector with structure {structure}{called()}"
        )
    for i, (t, x) in enumerate(zip(given, parameters, strict=True)):
        shapes = [tuple(getattr(leaf, "shape", ())) for leaf in (t, x)]
        if shapes[0] != shapes[1]:
            raise RuntimeError(f"hvp: tangent {i} has shape {shapes[0]}, its parameter {shapes[1]}{called()}")
