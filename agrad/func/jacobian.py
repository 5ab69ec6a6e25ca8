"""Jacobians and Hessians: all rows, or all columns, in one pass mapped over a basis."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, overload

from agrad import tree
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.func.grad import T, Tape, check_complex, jvp, of_chosen, ones_of
from agrad.func.vmap import check_randomness, over_rows
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import conj
from agrad.ops.manipulation import moveaxis, reshape
from agrad.program.arguments import (
    Argnums,
    arguments_of,
    as_tensor,
    bare_all,
    check_kind,
    give_all,
    is_raw,
)


@overload
def jacrev(
    func: Callable[Concatenate[T, ...], Tensor],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[False] = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., T]: ...
@overload
def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]: ...
def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian in reverse mode: best for few outputs.

    func : callable
        Takes and returns tensors or containers of tensors.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to.
    has_aux : bool, optional
        The function returns ``(output, aux)``, and the new function ``(jacobian, aux)``.
    chunk_size : int, optional
        The number of rows computed at a time; fewer need less memory. Default: all.
    holomorphic : bool, optional
        Function, arguments and results are complex: compute the matrix of complex derivatives.
    Returns : callable
        Takes the arguments of `func`; returns, in the structure of its result and within that in the structure of the
        arguments, a tensor of shape ``output.shape + argument.shape``.
    RuntimeError: When called: if arguments or results are complex without `holomorphic`, or real with it.
    ValueError: If `chunk_size` is not positive.
    One forward pass, and one backward pass for all rows (`vmap` over the rows of an identity matrix). Complex
    derivatives are those of `jacfwd`: not conjugated.

    >>> ag.func.jacrev(lambda x: x * ag.sum(x))(ag.tensor([1.0, 2.0]))
    tensor([[4., 1.],
            [2., 5.]])
    """
    check_kind(argnums)
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0.{called()}")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        raw = has_aux and is_raw(*args, *kwargs.values())
        tape, found = _rows(func, argnums, args, kwargs, has_aux, chunk_size, holomorphic)
        return (found, tape.auxiliary(raw=raw)) if has_aux else found

    return jacobian


def _rows(
    func: Callable[..., Any],
    argnums: Argnums,
    args: Any,
    kwargs: Any,
    has_aux: bool,
    chunk_size: int | None,
    holomorphic: bool,
    *,
    twice: bool = False,
) -> tuple[Tape, Any]:
    """Run a function; return the tape and the Jacobian.

    `twice` says that the function is itself a Jacobian with respect to the same arguments: then every block depends on
    two of them.
    """
    of, chosen = of_chosen(func, argnums, args, kwargs)
    tape = Tape(of, chosen, "jacrev(f)(*args)", has_aux=has_aux)
    check_complex(tape.inputs, "jacrev", "inputs", holomorphic=holomorphic)
    check_complex(tape.outputs, "jacrev", "outputs", holomorphic=holomorphic)
    rows = rows_of(tape, chunk_size)
    sizes = [math.prod(y.shape) for y in tape.outputs]
    if holomorphic:
        rows = [conj(r) for r in rows]
    blocks = []
    for i, (part, y) in enumerate(zip(_parts(rows, sizes), tape.outputs, strict=True)):
        of_output = [reshape(r, (*y.shape, *x.shape)) for r, x in zip(part, tape.inputs, strict=True)]
        if not twice or (tape.gives and tape.gives[i % len(tape.inputs)] is not as_tensor):
            of_output = give_all(tape.gives, of_output)
        unpacked = tree.unflatten(tape.structure, of_output)
        blocks.append(unpacked[0] if isinstance(argnums, int) else unpacked)
    return tape, tree.unflatten(tape.result_structure, blocks)


def rows_of(tape: Tape, chunk_size: int | None = None) -> list[Tensor]:
    """Return, for each input of a run, the cotangents for each element of its outputs: rows first, then the input's shape."""
    total = sum(math.prod(y.shape) for y in tape.outputs)
    if total == 1:
        return [reshape(g, (1, *g.shape)) for g in tape.back([ones_of(y) for y in tape.outputs], keep=True)]
    if any(y._node is not None for y in tape.outputs) and total:
        return over_rows(lambda *gs: tape.back(gs, keep=True), basis(tape.outputs), chunk_size)
    return [_zeros(x, total) for x in tape.inputs]


#: By the common name, and by HIPS autograd's.
jacobian = jacrev


@overload
def jacfwd(
    func: Callable[Concatenate[T, ...], Tensor],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., T]: ...
@overload
def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]: ...
def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian in forward mode: best for few inputs.

    func, argnums, has_aux: As for `jacrev`.
    randomness : str, optional
        As for `vmap`.
    chunk_size : int, optional
        The number of columns computed at a time. Default: all.
    holomorphic : bool, optional
        As for `jacrev`.
    Returns : callable
        As for `jacrev`; complex if real arguments have complex results.
    RuntimeError: When called: if arguments are complex without `holomorphic`, or arguments or results real with it.
    ValueError: If `chunk_size` is not positive.

    >>> ag.func.jacfwd(lambda x: x * ag.sum(x))(ag.tensor([1.0, 2.0]))
    tensor([[4., 1.],
            [2., 5.]])
    """
    check_kind(argnums)
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"jacfwd: `chunk_size` should be greater than 0.{called()}")
    check_randomness(randomness)

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        raw = has_aux and is_raw(*args, *kwargs.values())
        of, chosen = of_chosen(func, argnums, args, kwargs)
        primals, structure, gives = arguments_of(chosen, "jacfwd(f)(*args)")
        check_complex(primals, "jacfwd", "inputs", holomorphic=holomorphic)
        arguments = tree.unflatten(structure, primals)
        kept: list[Any] = []

        def push(*tangents: Any) -> Any:
            pushed = jvp(of, arguments, tree.unflatten(structure, tangents), has_aux=has_aux)
            leaves, result_structure = tree.flatten(pushed[1])
            if holomorphic:
                check_complex(leaves, "jacfwd", "outputs", holomorphic=True)
            kept[:] = [result_structure, [y.shape for y in leaves], *pushed[2:]]
            return leaves

        columns = over_rows(push, basis(primals), chunk_size, randomness)
        result_structure, shapes = kept[:2]
        sizes = [math.prod(x.shape) for x in primals]
        by_input = _parts(columns, sizes)
        blocks = []
        for i, shape in enumerate(shapes):
            of_output = [reshape(moveaxis(by_input[k][i], 0, -1), (*shape, *x.shape)) for k, x in enumerate(primals)]
            unpacked = tree.unflatten(structure, give_all(gives, of_output))
            blocks.append(unpacked[0] if isinstance(argnums, int) else unpacked)
        found = tree.unflatten(result_structure, blocks)
        return (found, bare_all(kept[2]) if raw else kept[2]) if has_aux else found

    return jacobian


def hessian(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the second derivatives.

    func : callable
        Takes and returns tensors or containers of tensors; usually it returns a scalar.
    argnums, has_aux, chunk_size, holomorphic: As for `jacrev`.
    Returns : callable
        Takes the arguments of `func`; for a scalar function of one tensor it returns a tensor of shape ``argument.shape
        + argument.shape``, otherwise containers like those of `jacrev` of `jacrev`.
    RuntimeError: When called: as `jacrev`.
    Reverse mode over reverse mode: of a scalar function, one recorded backward pass and one more for all rows of the
    matrix. ``jacfwd(jacrev(func))`` and ``jacfwd(jacfwd(func))`` give the same.

    >>> ag.func.hessian(lambda x: x[0] * x[0] * x[1])(ag.tensor([1.0, 2.0]))
    tensor([[4., 2.],
            [2., 0.]])
    """
    first = jacrev(func, argnums, has_aux=has_aux, chunk_size=chunk_size, holomorphic=holomorphic)

    @functools.wraps(func)
    def second(*args: Any, **kwargs: Any) -> Any:
        raw = has_aux and is_raw(*args, *kwargs.values())
        tape, found = _rows(first, argnums, args, kwargs, has_aux, chunk_size, holomorphic, twice=True)
        return (found, tape.auxiliary(raw=raw)) if has_aux else found

    return second


def basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return, for each tensor, its part of an identity matrix over the elements of all: rows first, then its own shape."""
    sizes = [math.prod(t.shape) for t in tensors]
    total = sum(sizes)
    made = []
    start = 0
    for t, size in zip(tensors, sizes, strict=True):
        xp = t._spec.backend.functions
        part = xp.eye(total, size, k=-start, dtype=t.dtype, device=t.device)
        made.append(reshape(part, (total, *t.shape)))
        start += size
    return made


def _parts(rows: Sequence[Tensor], sizes: Sequence[int]) -> list[list[Tensor]]:
    """Split the first axis of every tensor into parts of these sizes."""
    if len(sizes) == 1:
        return [list(rows)]
    parts = []
    start = 0
    for size in sizes:
        parts.append([r[start : start + size, ...] for r in rows])
        start += size
    return parts


def _zeros(x: Tensor, rows: int) -> Tensor:
    made: Tensor = x._spec.backend.functions.zeros((rows, *x.shape), dtype=x.dtype, device=x.device)
    return made


_complete(globals(), {})
