"""NumPy's products of vectors and matrices."""

from __future__ import annotations

from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operands
from agrad.core.tensor import Tensor
from agrad.numpy.common import axis_of, cast, check_cast, common, flat, into, native, refused, static
from agrad.numpy.table import STEP, public
from agrad.ops import elementwise, extra, linalg, manipulation


@public()
def dot(a: Any, b: Any, out: Any = None) -> Tensor:
    return into(out, extra.dot(*common(a, b)))


@public()
def vdot(a: Any, b: Any, /) -> Tensor:
    x, y = common(a, b)
    x = flat(elementwise.conj(x) if x._spec.is_complex else x)
    return linalg.matmul(x, flat(y))


@public()
def inner(a: Any, b: Any, /) -> Tensor:
    return extra.inner(*common(a, b))


@public()
def outer(a: Any, b: Any, out: Any = None) -> Tensor:
    return into(out, extra.outer(*common(a, b)))


@public()
def kron(a: Any, b: Any) -> Tensor:
    return extra.kron(*common(a, b))


@public()
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    x, y = common(a, b)
    axes = static(axes)
    if isinstance(axes, int):
        return linalg.tensordot(x, y, axes=axes)
    first, second = ([v] if isinstance(v, int) else v for v in axes)
    return linalg.tensordot(
        x, y, axes=(tuple(axis_of(i, x.ndim) for i in first), tuple(axis_of(i, y.ndim) for i in second))
    )


@public()
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = common(a, b)
    x = manipulation.moveaxis(x, axis_of(axisa, x.ndim), -1)
    y = manipulation.moveaxis(y, axis_of(axisb, y.ndim), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(
            f"incompatible dimensions for cross product (dimension must be 2 or 3){errors.called()}"
        )  # fmt: skip
    if x.shape[-1] == y.shape[-1] == 2:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    x, y = (v if v.shape[-1] == 3 else manipulation.concat([v, v[..., :1] * 0], axis=-1) for v in (x, y))
    shape = manipulation.broadcast_shapes(x.shape, y.shape)
    x, y = manipulation.broadcast_to(x, shape), manipulation.broadcast_to(y, shape)
    found = linalg.cross(x, y, axis=-1)
    return manipulation.moveaxis(found, -1, axisc)


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def equation(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Return an equation and its operands; NumPy also accepts lists of axis numbers, one after each operand."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    result = operands[-1] if len(operands) % 2 else None
    arrays, axes = list(operands[0 : len(operands) - 1 : 2]), operands[1::2]

    def letters(numbers: Any) -> str:
        return "".join("..." if n is Ellipsis else _LETTERS[n] for n in numbers)

    text = ",".join(map(letters, axes))
    return (text if result is None else f"{text}->{letters(result)}"), arrays


@public()
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Tensor:
    """`optimize` is a NumPy path or a strategy; memory layout has no meaning."""
    unknown = kwargs.keys() - {"dtype", "order", "casting"}
    if unknown:
        raise TypeError(f"Did not understand the following kwargs: {sorted(unknown)}{errors.called()}")
    text, arrays = equation(operands)
    dtype, casting = native(kwargs.get("dtype")), kwargs.get("casting", "safe")
    tensors = common(*arrays)
    for x in as_operands(*arrays):
        check_cast("operand of einsum", x, dtype or tensors[0].dtype, casting)
    tensors = tuple(cast(x, dtype) for x in tensors)
    if isinstance(optimize, list | tuple) and optimize and optimize[0] == "einsum_path":
        optimize = optimize[1:]
    if isinstance(optimize, str) or optimize is True or (isinstance(optimize, tuple | list) and "greedy" in optimize):
        optimize = None
    return into(out, extra.einsum(text, *tensors, optimize=optimize), "same_kind" if casting == "safe" else casting)


@public(status=STEP)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> tuple[list[Any], str]:
    """From left to right: `einsum` plans by itself."""
    if einsum_call:
        raise refused("numpy.einsum_path with einsum_call=", "give the equation to np.einsum")
    text, arrays = equation(operands)
    pairs: list[Any] = [(0, len(arrays) - i - 1) for i in range(len(arrays) - 1)] if len(arrays) > 1 else [(0,)]
    return ["einsum_path", *pairs], f"  Complete contraction:  {text}"
