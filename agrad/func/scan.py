"""``scan``: a loop over rows that carries values along, as a function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from agrad import tree
from agrad.core.errors import called
from agrad.core.mode import recorder
from agrad.core.tensor import Tensor
from agrad.func.loops import as_step
from agrad.ops.creation import zeros
from agrad.ops.manipulation import stack, unstack
from agrad.program.arguments import argument_of, bare_all, is_raw, name_of
from agrad.program.blank_recording import ShapeDtype
from agrad.program.capture import eval_shape
from agrad.tree import TreeDef


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None
) -> tuple[Any, Any]:
    """Run a function over the rows of arrays, and carry values from each call to the next: JAX's ``lax.scan``.

    It is the loop ``for x in xs: carry, y = step(carry, x)``, with the results `y` stacked. All derivatives and `vmap`
    work as for that loop. In a program, captured by `capture` or by a compiled function, it is one step, however many
    rows there are, and so are its derivatives.

    Parameters
    ----------
    step : callable
        Takes the carried values and one row, returns a pair: the next carried values and a result. Carried values keep
        their containers, shapes and dtypes.
    init : array, number or container of them
        The carried values of the first call. A Python number counts as a tensor of the default dtype.
    xs : array or container of them, optional
        The rows, along the first axis of each array. None: the calls get None, and `length` says how many there are.
    length : int, optional
        The number of rows. Default: that of `xs`.

    Returns
    -------
    carry : Tensor or container of them
        The carried values that the last call returned.
    ys : Tensor or container of them
        Results of all calls, along a new first axis; a result of None stays None.

    Raises
    ------
    TypeError
        If a call does not return a pair, or returns carried values with other containers, shapes or dtypes than it
        received.
    ValueError
        If arrays have different numbers of rows, or the number of calls is unknown.

    Notes
    -----
    Results are raw arrays if all of `init` and `xs` are, as for all transforms. `step` receives tensors.

    For a program, `step` runs on arrays without elements, which shows what each call does. The loop is unrolled, into
    one step of the program for each operation of each call, where that is not enough: where `step` draws random
    numbers, changes anything it did not create, asks for a value or for the history of a tensor, or takes tensors that
    `vmap` maps from outside. `capture` runs it twice and compares; a compiled function observes what it does, and
    prevents it from changing anything.

    Examples
    --------
    >>> import agrad as ag
    >>> def interest(balance, paid):
    ...     balance = 1.1 * balance + paid
    ...     return balance, balance
    >>> ag.func.scan(interest, 100.0, ag.tensor([10.0, 20.0, 0.0]))
    (tensor(167.2000), tensor([120.0000, 152.0000, 167.2000]))
    """
    carried, structure = tree.flatten(init)
    carried = [first_value(leaf) for leaf in carried]
    given, rows_in = tree.flatten(xs)
    rows = [argument_of(leaf, "scan") for leaf in given]
    count = _count(rows, rows_in, length)
    now = recorder()
    if count > 1 and now is not None:
        whole = _as_step(step, carried, structure, rows, rows_in, count)
        if whole is not None:
            return whole
    columns = [unstack(leaf) for leaf in rows] if count else []
    results: list[list[Tensor]] = []
    shape: TreeDef | None = None
    for i in range(count):
        row = tree.unflatten(rows_in, [column[i] for column in columns])
        carried, found, structure_of_result = _called(step, carried, structure, row, i)
        if shape is not None and structure_of_result != shape:
            raise TypeError(
                f"scan: {name_of(step)} gave a result {shape} at first, and {structure_of_result} in call {i}{called()}"
            )
        shape = structure_of_result
        results.append(found)
    if shape is None:
        stacked, shape = _none(step, carried, structure, rows, rows_in)
    else:
        stacked = [_stacked(step, list(column)) for column in zip(*results, strict=True)]
    made = tree.unflatten(structure, carried), tree.unflatten(shape, stacked)
    return bare_all(made) if now is None and is_raw(init, xs) else made


def first_value(leaf: Any) -> Tensor:
    """Return an initial value; for a number that a program computes, the program's."""
    now = recorder()
    live = None if now is None else now.traced_of(leaf)
    return argument_of(leaf, "scan") if live is None else argument_of(1.0, "scan") * live


def _as_step(
    step: Callable[..., Any],
    carried: Sequence[Tensor],
    structure: TreeDef,
    rows: Sequence[Tensor],
    rows_in: TreeDef,
    count: int,
) -> tuple[Any, Any] | None:
    """Make the loop one step of the program that is being captured; return None if it must be unrolled."""
    shapes: list[TreeDef] = []

    def call(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        made, results, shape = _called(step, carry, structure, tree.unflatten(rows_in, row), 0)
        shapes.append(shape)
        return made, results

    found = as_step(call, carried, rows, count)
    if found is None or shapes[0] != shapes[-1]:
        return None
    return tree.unflatten(structure, found[0]), tree.unflatten(shapes[0], found[1])


def _count(rows: Sequence[Tensor], structure: TreeDef, length: int | None) -> int:
    """Return how many rows there are."""
    found = None if length is None else operator.index(length)
    said = "length"
    if found is not None and found < 0:
        raise ValueError(f"scan: length is {found}{called()}")
    for leaf, path in zip(rows, structure.paths(), strict=True):
        if not leaf.ndim:
            raise ValueError(f"scan: xs{path} has no axes, and so no rows{called()}")
        count = leaf.shape[0]
        if count != count:  # noqa: PLR0124 (nan: unknown)
            raise ValueError(f"scan: the number of rows of xs{path} is unknown until it is computed{called()}")
        if found not in (None, count):
            raise ValueError(f"scan: xs{path} has {count} rows, {said} says {found}{called()}")
        found, said = int(count), said if found is not None else f"xs{path}"
    if found is None:
        raise ValueError(f"scan: xs has no rows: pass the number of calls as length={called()}")
    return found


def _called(
    step: Callable[..., Any], carried: Sequence[Tensor], structure: TreeDef, row: Any, i: int
) -> tuple[list[Tensor], list[Tensor], TreeDef]:
    """Call the function; return what it carries on, its results, and the structure of these."""
    returned = step(tree.unflatten(structure, carried), row)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(
            f"scan: {name_of(step)} must return a pair, the next carried values and a result; it returned"
            f" {type(returned).__name__}{called()}"
        )
    leaves, found = tree.flatten(returned[0])
    if found != structure:
        raise TypeError(
            f"scan: {name_of(step)} received the carried values {structure}, and returned {found}{called()}"
        )
    carry = [argument_of(leaf, "scan") for leaf in leaves]
    for before, after, path in zip(carried, carry, structure.paths(), strict=True):
        if before.shape != after.shape or before.dtype != after.dtype:
            raise TypeError(
                f"scan: {name_of(step)} received the carried value {_about(before)}{_at(path)}, and returned {_about(after)} in"
                f" call {i}: shapes and dtypes must stay. Start from one that it returns, as ag.asarray(..., dtype=...){called()}"
            )
    results, shape = tree.flatten(returned[1])
    return carry, [argument_of(leaf, "scan") for leaf in results], shape


def _stacked(step: Callable[..., Any], column: list[Tensor]) -> Tensor:
    """Return one result of all calls as one tensor."""
    first = column[0]
    other = next((i for i, one in enumerate(column) if one.shape != first.shape or one.dtype != first.dtype), None)
    if other is not None:
        raise TypeError(
            f"scan: {name_of(step)} returned {_about(first)} at first, and {_about(column[other])} in call"
            f" {other}: shapes and dtypes must stay{called()}"
        )
    return stack(column)


def _none(
    step: Callable[..., Any], carried: Sequence[Tensor], structure: TreeDef, rows: Sequence[Tensor], rows_in: TreeDef
) -> tuple[list[Tensor], TreeDef]:
    """Return the results of zero calls: arrays without rows, with the shapes and dtypes that a call would return."""

    def result(carry: Any, rows: Any) -> Any:
        row = tree.unflatten(rows_in, [leaf[0] for leaf in rows])
        return _called(step, tree.flatten(carry)[0], structure, row, 0)[1:]

    specs, shape = eval_shape(result)(
        tree.unflatten(structure, [ShapeDtype(leaf.shape, leaf.dtype) for leaf in carried]),
        [ShapeDtype((1, *leaf.shape[1:]), leaf.dtype) for leaf in rows],
    )
    device = next((leaf.device for leaf in (*carried, *rows)), None)
    return [zeros((0, *spec.shape), dtype=spec.dtype, device=device) for spec in specs], shape


def _about(leaf: Tensor) -> str:
    return f"{leaf._spec.backend.dtype_name(leaf.dtype)}{list(leaf.shape)}"


def _at(path: str) -> str:
    return f" at {path}" if path else ""
