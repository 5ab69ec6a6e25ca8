"""PyTorch's ``torch.autograd.functional``: derivatives of a function at a point, as values. Built on ``agrad.func``.

Inputs and results are a tensor or a tuple of tensors. Results have no history unless ``create_graph=True``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.history import fresh
from agrad.core.mode import recorded, set_grad_enabled
from agrad.core.tensor import Tensor
from agrad.func.grad import Tape, run_back
from agrad.func.jacobian import basis, jacfwd
from agrad.func.vmap import over_rows
from agrad.ops.docs import complete as _complete
from agrad.ops.manipulation import reshape, stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the value of a function and the product of a vector and its Jacobian.

    func : callable
        Takes tensors, returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
        The point.
    v : Tensor or tuple of Tensor, optional
        The vector, of the shape of the output; may be omitted for a single element (then 1).
    create_graph : bool, optional
        Whether to record, so that value and product can be differentiated with respect to inputs that require grad.
    strict : bool, optional
        Whether to raise where the output does not depend on an input, instead of returning 0.
    Returns : output, product : Tensor or tuple of Tensor
        The product has the structure of `inputs`.
    RuntimeError: If `v` is missing or has the wrong shape, or with `strict`.
    TypeError: If inputs or outputs are not tensors.

    >>> ag.autograd.functional.vjp(lambda x: x * x, ag.tensor([1.0, 2.0]), ag.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    tape, single_in, single_out = _run(func, inputs, "vjp", create_graph=create_graph, strict=strict)
    if v is None:
        if len(tape.outputs) != 1 or tape.outputs[0].size != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single"
                f" element.{called()}"
            )
        vectors: list[Any] = [None]
    else:
        vectors = _vectors(v, tape.outputs, "vjp", several=not single_out)
    with set_grad_enabled(create_graph):
        missing = _independent if strict else None
        found = tape.back(vectors, keep=create_graph, record=strict and create_graph, missing=missing)
    found = _checked(tape, found, "jacobian", strict=strict and create_graph)
    return _packed(tape, single_out, create_graph=create_graph), _unpacked(found, single_in)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the value of a function and the product of its Jacobian and a vector.

    func, inputs, create_graph, strict: As for `vjp`.
    v : Tensor or tuple of Tensor, optional
        The vector, of the shape of the input; may be omitted for a single element (then 1).
    Returns : output, product : Tensor or tuple of Tensor
        Both have the structure of the output.
    RuntimeError: If `v` is missing or has the wrong shape, or with `strict`.
    TypeError: If inputs or outputs are not tensors.
    Uses two backward passes, as PyTorch does, so that functions without a forward rule work; `agrad.func.jvp` uses
    forward mode.

    >>> ag.autograd.functional.jvp(lambda x: x * x, ag.tensor([1.0, 2.0]), ag.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    tape, _, single_out = _run(func, inputs, "jvp", create_graph=create_graph, strict=strict)
    if v is None:
        if len(tape.inputs) != 1 or tape.inputs[0].size != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a"
                f" single element.{called()}"
            )
        vectors: list[Any] = [None]
    else:
        vectors = _vectors(v, tape.inputs, "jvp", several=isinstance(inputs, tuple))
    transposed = tape.transposed()
    with set_grad_enabled(create_graph):
        found = tape.push(transposed, vectors, keep=create_graph, record=strict and create_graph)
    found = _checked(tape, found, "jacobian", strict=strict and create_graph)
    return _packed(tape, single_out, create_graph=create_graph), _unpacked(found, single_out)


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the value of a scalar function and the product of a vector and its Hessian.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor of one element.
    inputs : Tensor or tuple of Tensor
        The point.
    v : Tensor or tuple of Tensor, optional
        The vector, of the shape of the input; may be omitted for a single element (then 1).
    create_graph, strict
        As for `vjp`.

    Returns
    -------
    output : Tensor
        The value.
    product : Tensor or tuple of Tensor
        Has the structure of `inputs`.

    Raises
    ------
    RuntimeError
        If the output has several elements, `v` is missing or has the wrong shape, or with `strict`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.autograd.functional.vhp(lambda x: (x**3).sum(), ag.tensor([1.0, 2.0]), ag.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product(func, inputs, v, "vhp", create_graph=create_graph, strict=strict)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the value of a scalar function and the product of its Hessian and a vector: the same as `vhp`.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        As for `vhp`.

    Returns
    -------
    output : Tensor
        The value.
    product : Tensor or tuple of Tensor
        Has the structure of `inputs`.

    Raises
    ------
    RuntimeError
        As `vhp`.

    Notes
    -----
    A Hessian is symmetric, so both use the same computation.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.autograd.functional.hvp(lambda x: (x**3).sum(), ag.tensor([1.0, 2.0]), ag.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product(func, inputs, v, "hvp", create_graph=create_graph, strict=strict)


def _hessian_product(
    func: Callable[..., Any], inputs: Tensors, v: Tensors | None, name: str, *, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    tape, single_in, single_out = _run(func, inputs, name, create_graph=create_graph, strict=strict)
    if v is None:
        if len(tape.inputs) != 1 or tape.inputs[0].size != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a"
                f" single element.{called()}"
            )
        vectors: list[Any] = [None]
    else:
        vectors = _vectors(v, tape.inputs, name, several=not single_in)
    _check_one(tape, name, single=single_out)
    gradients = recorded(lambda: tape.back([None], keep=True, record=True, missing=_independent if strict else None))
    _check_recorded(gradients, "gradient", strict=strict)
    with set_grad_enabled(create_graph):
        roots = [
            (g._node, _one(g) if w is None else w)
            for g, w in zip(gradients, vectors, strict=True)
            if g._node is not None
        ]
        record = (strict and create_graph) or tape.records(vectors)
        missing = _flat_jacobian if strict else None
        found = run_back(roots, tape.inputs, keep=create_graph, record=record, missing=missing, tape=tape)
    found = _checked(tape, found, "hessian", strict=strict and create_graph)
    return _packed(tape, single_out, create_graph=create_graph), _unpacked(found, single_in)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of a function.

    func, inputs, create_graph, strict: As for `vjp`.
    vectorize : bool, optional
        Compute all rows in one pass, with `vmap`; otherwise one after another.
    strategy : str, optional
        ``"reverse-mode"``, or with `vectorize` also ``"forward-mode"``.
    Returns : Tensor or tuple
        Of shape ``output.shape + input.shape``; nested for several outputs (outside) and inputs (inside).
    RuntimeError: With `strict`.
    NotImplementedError: For forward mode without `vectorize`.
    AssertionError: For an unknown strategy.

    >>> ag.autograd.functional.jacobian(lambda x: x * ag.sum(x), ag.tensor([1.0, 2.0]))
    tensor([[4., 1.],
            [2., 5.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        message = (
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than'
            ' inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
        raise AssertionError(message + called())
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize)
    tape, single_in, single_out = _run(func, inputs, "jacobian", create_graph=create_graph, strict=strict)
    if vectorize and strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please"
            f" either set `strict=False` or `vectorize=False`.{called()}"
        )
    with set_grad_enabled(create_graph):
        in_turn = functools.partial(_rows_in_turn, strict=strict, record=strict and create_graph)
        rows = _rows_at_once(tape) if vectorize else in_turn(tape)
        start = 0
        blocks = []
        for y in tape.outputs:
            size = math.prod(y.shape)
            part = [
                reshape(r[start : start + size, ...], (*y.shape, *x.shape))
                for r, x in zip(rows, tape.inputs, strict=True)
            ]
            part = _checked(tape, part, "jacobian", strict=strict and create_graph)
            blocks.append(_unpacked(part, single_in))
            start += size
    return _unpacked(blocks, single_out)


def _rows_at_once(tape: Tape) -> Sequence[Tensor]:
    if not any(y._node is not None for y in tape.outputs):
        return [_no_rows(x, sum(math.prod(y.shape) for y in tape.outputs)) for x in tape.inputs]
    return over_rows(lambda *gs: tape.back(gs, keep=True), basis(tape.outputs))


def _rows_in_turn(tape: Tape, *, strict: bool, record: bool) -> Sequence[Tensor]:
    """Return the rows of all outputs, each from a pass that starts only at its own output."""
    record = record or tape.records(())
    rows: list[list[Tensor]] = []
    for k, y in enumerate(tape.outputs):
        missing = functools.partial(_independent, what=f"Output {k}") if strict else None
        (directions,) = basis([y])
        for i in range(math.prod(y.shape)):
            roots = [] if y._node is None else [(y._node, directions[i, ...])]
            rows.append(run_back(roots, tape.inputs, keep=True, record=record, missing=missing, tape=tape))
    if not rows:
        return [_no_rows(x, 0) for x in tape.inputs]
    return [stack(column, axis=0) for column in zip(*rows, strict=True)]


def _no_rows(x: Tensor, count: int) -> Tensor:
    made: Tensor = x._spec.backend.functions.zeros((count, *x.shape), dtype=x.dtype, device=x.device)
    return made


def _forward_jacobian(
    func: Callable[..., Any], inputs: Tensors, *, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported'
            ' together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
            f"\n  agrad.func.jacfwd can be differentiated.{called()}"
        )
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together'
            f' (yet). Please either set `strict=False` or `strategy="reverse-mode"`.{called()}'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for"
            f" `vectorize=True`.{called()}"
        )
    values = _as_tuple(inputs, "inputs", "jacobian")
    single_in, single_out = not isinstance(inputs, tuple), True

    def flat(*args: Any) -> tuple[Tensor, ...]:
        nonlocal single_out
        returned = func(*args)
        single_out = not isinstance(returned, tuple)
        return _as_tuple(returned, "outputs of the user-provided function", "jacobian")

    with set_grad_enabled(False):
        found = jacfwd(flat, tuple(range(len(values))))(*values)
    return _unpacked([_unpacked(row, single_in) for row in found], single_out)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a scalar function.

    func : callable
        Takes tensors, returns a tensor of one element.
    inputs, create_graph, strict, vectorize: As for `jacobian`.
    outer_jacobian_strategy : str, optional
        The mode of the second derivative, named as in `jacobian`.
    Returns : Tensor or tuple
        Of shape ``input.shape + input.shape``; for several inputs a tuple of tuples.
    RuntimeError: If the output has several elements, or with `strict`.
    AssertionError: For an unknown strategy.

    >>> ag.autograd.functional.hessian(lambda x: x[0] * x[0] * x[1], ag.tensor([1.0, 2.0]))
    tensor([[4., 2.],
            [2., 0.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        message = 'Expected strategy to be either "forward-mode" or "reverse-mode".'
        raise AssertionError(message + called())
    values = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*args: Tensor) -> tuple[Tensor, ...]:
        tape, _, single_out = _run(func, args, "hessian", create_graph=True, strict=strict)
        _check_one(tape, "hessian", single=single_out)
        found = tape.back([None], keep=True, record=True, missing=_independent if strict else None)
        _check_recorded(found, "gradient", strict=strict)
        return tuple(found)

    found = jacobian(gradient, values, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if isinstance(inputs, tuple) else found[0][0]


# -- shared helpers -----------------------------------------------------------------------------------------------------


def _as_tuple(value: Any, what: str, name: str) -> tuple[Tensor, ...]:
    values = value if isinstance(value, tuple) else (value,)
    for i, one in enumerate(values):
        if not isinstance(one, Tensor):
            which = f"value at index {i}" if isinstance(value, tuple) else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {which} has type"
                f" {type(one)}.{called()}"
            )
    return values


def _run(
    func: Callable[..., Any], inputs: Any, name: str, *, create_graph: bool, strict: bool
) -> tuple[Tape, bool, bool]:
    """Run the function; return whether inputs and outputs are single tensors."""
    values = _as_tuple(inputs, "inputs", name)
    single_out = True

    def flat(*args: Any) -> tuple[Tensor, ...]:
        nonlocal single_out
        returned = func(*args)
        single_out = not isinstance(returned, tuple)
        return _as_tuple(returned, "outputs of the user-provided function", name)

    with set_grad_enabled(create_graph):
        tape = Tape(flat, values, name, has_aux=False)
    if strict:
        for i, y in enumerate(tape.outputs):
            if y._node is None:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in"
                    f" a differentiable manner from the input when running in strict mode.{called()}"
                )
    return tape, not isinstance(inputs, tuple), single_out


def _check_one(tape: Tape, name: str, *, single: bool) -> None:
    if not single:
        raise RuntimeError(f"The function given to {name} should return a single Tensor{called()}")
    if tape.outputs[0].size != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element{called()}"
        )


def _vectors(v: Any, others: Sequence[Tensor], name: str, *, several: bool) -> list[Any]:
    vectors = _as_tuple(v, "v", name)
    if len(vectors) != len(others):
        if several:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(others)} but got {len(vectors)}.{called()}"
            )
        raise RuntimeError(f"The given v should contain a single Tensor.{called()}")
    for i, (one, other) in enumerate(zip(vectors, others, strict=True)):
        if one.shape != other.shape:
            entry = f"Entry {i} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {other.shape} but got {one.shape}.{called()}")
    return [v if v.device == x.device else v.to_device(x.device) for v, x in zip(vectors, others, strict=True)]


def _independent(i: int, *, what: str = "The output") -> None:
    raise RuntimeError(
        f"{what} of the user-provided function is independent of input {i}. This is not allowed in strict"
        f" mode.{called()}"
    )


def _flat_jacobian(i: int) -> None:
    raise RuntimeError(
        f"The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict"
        f" mode.{called()}"
    )


def _check_recorded(found: Sequence[Tensor], what: str, *, strict: bool) -> None:
    """Refuse, in strict mode, derivatives that do not depend on the inputs."""
    if not strict:
        return
    for i, g in enumerate(found):
        if g._node is not None:
            continue
        if what == "gradient":
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to input"
                f" {i} is independent of the input. This is not allowed in strict mode. You should ensure that your"
                " function is twice differentiable and that the jacobian depends on the inputs (this would be violated by"
                f" a linear function for example).{called()}"
            )
        raise RuntimeError(
            f"The {what} of the user-provided function is independent of input {i}. This is not allowed in strict mode"
            f" when create_graph=True.{called()}"
        )


def _checked(tape: Tape, found: Sequence[Tensor], what: str, *, strict: bool) -> list[Tensor]:
    """Return derivatives that passed `_check_recorded`, without history that was recorded only for the check."""
    _check_recorded(found, what, strict=strict)
    return [tape.released(g) for g in found] if strict else list(found)


def _one(like: Tensor) -> Tensor:
    made: Tensor = like._spec.backend.functions.ones(like.shape, dtype=like.dtype, device=like.device)
    return made


def _packed(tape: Tape, single: bool, *, create_graph: bool) -> Any:
    result = [tape.released(y) if create_graph else fresh(y, None) for y in tape.outputs]
    return _unpacked(result, single)


def _unpacked(values: Sequence[Any], single: bool) -> Any:
    return values[0] if single else tuple(values)


_complete(globals(), {})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
