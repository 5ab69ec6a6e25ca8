"""Linear maps, dropout and embeddings."""

from __future__ import annotations

import math
import warnings
from typing import Any

from agrad import dtypes, random
from agrad.core import errors
from agrad.core.mode import may_look
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import check_dtypes, check_probability, differs, put_in_place, shape_of
from agrad.ops import creation, elementwise, manipulation, pairs, searching, statistical
from agrad.ops import nn as ops
from agrad.ops.data_type import astype


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input @ weight.T + bias``, recorded as one operation.

    input : Tensor, shape (..., in)
        Real or complex.
    weight : Tensor, shape (out, in)
        One row per output.
    bias : Tensor, shape (out,), optional
        Added to every row.
    Returns : Tensor, shape (..., out)
    RuntimeError: If the shapes do not match, or the dtypes differ in precision.

    >>> x, w, b = ag.ones((2, 3)), ag.ones((1, 3)), ag.tensor([0.5])
    >>> ag.nn.functional.linear(x, w, b)
    tensor([[3.5000],
            [3.5000]])
    """
    try:
        rows = weight.shape
        fits = (
            len(rows) == 2
            and input.shape[-1:] == rows[1:]
            and (bias is None or bias.shape == rows[:1])
            and input._spec.dtype is weight._spec.dtype
        )
    except AttributeError:  # not tensors
        fits = False
    if not fits:
        _check_linear(input, weight, bias)
    return ops.linear_layer(input, weight, bias)


def _check_linear(input: Any, weight: Any, bias: Any) -> None:
    shapes = f"input {shape_of('linear', 'input', input)}, weight {shape_of('linear', 'weight', weight)}"
    shapes += "" if bias is None else f", bias {shape_of('linear', 'bias', bias)}"
    if len(weight.shape) != 2 or not input.shape:
        message = f"linear(): expected input (..., in) and weight (out, in), got {shapes}"
    elif differs(input.shape[-1], weight.shape[1]):
        rows = math.prod(input.shape[:-1])
        message = (
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{input.shape[-1]} and"
            f" {weight.shape[1]}x{weight.shape[0]})\n  linear(): {shapes}"
        )
    elif bias is not None and (len(bias.shape) != 1 or differs(bias.shape[0], weight.shape[0])):
        message = f"linear(): the bias must have shape ({weight.shape[0]},), got {shapes}"
    else:
        check_dtypes("linear", "mat1 and mat2 must have the same dtype, but got {} and {}", input, weight)
        return
    raise RuntimeError(message + errors.called())


def dropout(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Zero each element with probability `p` and divide the others by ``1 - p`` (Srivastava et al. 2014).

    input: Any shape.
    p: The probability.
    training : bool, optional
        If False, return `input` itself.
    generator : agrad.random.Generator, optional
        The source of random keys. Default: the one that `agrad.manual_seed` seeds.
    Returns: Same shape and dtype as `input`.
    ValueError: If `p` is not a probability.
    TypeError: If elements of integers or booleans would be zeroed.

    >>> _ = ag.manual_seed(0)
    >>> y = ag.nn.functional.dropout(ag.ones((1000,)), 0.25)
    >>> sorted(set(y.tolist()))
    [0.0, 1.3333333333333333]
    """
    check_probability("dropout", "p", p)
    operand = as_operand(input)
    if not training or p == 0:
        return operand
    if not operand._spec.inexact:
        raise TypeError(f"dropout() takes floating point tensors, not {operand.dtype}{errors.called()}")
    kept = dropout_mask(operand, tuple(operand.shape), p, generator)
    result = ops.dropout(operand, kept, 0.0 if p == 1 else 1 / (1 - p))
    return put_in_place(input, result, "dropout()") if inplace else result


def dropout2d(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Zero whole channels with probability `p` and divide the others by ``1 - p`` (Tompson et al. 2014).

    input: Shape (n, channels, ...). With two axes, elements are zeroed, with PyTorch's warning.
    p: The probability.
    training : bool, optional
        If False, return `input` itself.
    generator : agrad.random.Generator, optional
        The source of random keys. Default: the one that `agrad.manual_seed` seeds.
    Returns: Same shape and dtype as `input`.
    ValueError: If `p` is not a probability, or `input` has fewer than two axes.

    >>> ag.nn.functional.dropout2d(ag.ones((2, 3, 4, 4)), training=False).shape
    (2, 3, 4, 4)
    """
    check_probability("dropout2d", "p", p)
    operand = as_operand(input)
    if operand.ndim < 2:
        raise ValueError(f"dropout2d() takes (n, channels, ...), got shape {operand.shape}{errors.called()}")
    if operand.ndim == 2:
        warnings.warn(
            f"dropout2d: Received a 2-D input to dropout2d, which is deprecated in PyTorch; use dropout.{errors.called()}",
            UserWarning,
            stacklevel=2,
        )
    if not training or p == 0:
        return operand
    kept = dropout_mask(operand, (*operand.shape[:2], *(1,) * (operand.ndim - 2)), p, generator)
    result = operand * astype(kept, operand.dtype) * (0.0 if p == 1 else 1 / (1 - p))
    return put_in_place(input, result, "dropout2d()") if inplace else result


def dropout_mask(like: Tensor, shape: tuple[int, ...], p: float, generator: random.Generator | None = None) -> Tensor:
    """Return booleans on the device of a tensor, each false with probability `p`."""
    spec = like._spec
    dtype = "float64" if spec.backend.dtype_name(spec.dtype) in ("float64", "complex128") else "float32"
    return random.rand(shape, dtype=dtype, device=spec.device, generator=generator) >= p


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """The rows of a table at given indices.

    input: Indices, any shape, integers from 0 to the number of rows minus 1.
    weight : Tensor, shape (rows, features)
        The table.
    padding_idx : int, optional
        The row at this index gets no gradient; negative counts from the end.
    Returns : Tensor, shape (*input.shape, features)
    IndexError: If an index is outside the table.
    TypeError: If the indices are not integers.

    >>> ag.nn.functional.embedding(ag.tensor([2, 0]), ag.tensor([[1.0], [2.0], [3.0]]))
    tensor([[3.],
            [1.]])
    """
    input = as_operand(input)
    if input._spec.backend.kind(input.dtype) != "int":
        raise TypeError(f"embedding(): expected integer indices, got {input.dtype}{errors.called()}")
    rows = weight.shape[0]
    check_range(input, rows, f"index out of range in self\n  embedding(): the table has {rows} rows")
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ValueError(
                f"embedding(): padding_idx {padding_idx} is outside the table of {rows} rows{errors.called()}"
            )
        padding_idx %= rows
    return ops.embedding(input, weight, padding_idx)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of the rows of a table, per bag.

    input : Tensor, shape (bags, length) or (total,)
        Indices: a bag per row, or all bags in one sequence, starting at `offsets`.
    weight : Tensor, shape (rows, features)
        The table.
    offsets : Tensor, shape (bags,), optional
        The start of each bag, from 0 on; for indices with one axis.
    mode : {"mean", "sum", "max"}, optional
        How to reduce a bag; an empty one becomes 0.
    per_sample_weights : Tensor, optional
        The factors of the rows, same shape as `input`; for "sum".
    include_last_offset : bool, optional
        Whether the last of `offsets` is the end of the last bag.
    padding_idx : int, optional
        An index that does not count; negative counts from the end.
    Returns : Tensor, shape (bags, features)
    ValueError: If `mode` is unknown, or `offsets` are missing, superfluous or unordered.
    IndexError: If an index is outside the table.

    >>> table = ag.tensor([[1.0], [2.0], [4.0]])
    >>> ag.nn.functional.embedding_bag(ag.tensor([0, 1, 2]), table, ag.tensor([0, 1]), mode="sum")
    tensor([[1.],
            [6.]])
    """
    if mode not in ("mean", "sum", "max"):
        raise ValueError(f"embedding_bag(): mode has to be one of sum, mean or max, not {mode!r}{errors.called()}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag(): per_sample_weights are for mode='sum' alone, not {mode!r}{errors.called()}")
    input = as_operand(input)
    if (offsets is None) == (input.ndim == 1) or input.ndim not in (1, 2):
        raise ValueError(
            f"embedding_bag(): indices of one axis need offsets, and those of two are bags by themselves; got shape"
            f" {input.shape} and offsets {'missing' if offsets is None else 'given'}{errors.called()}"
        )
    there = creation.ones_like(input, dtype=dtypes.bool)
    factors = None if per_sample_weights is None else as_operand(per_sample_weights)
    if offsets is not None:
        places, there = _bags(input, as_operand(offsets).tolist(), include_last_offset)
        input = manipulation.reshape(searching.take(input, places, axis=0), there.shape)
        factors = (
            factors if factors is None else manipulation.reshape(searching.take(factors, places, axis=0), there.shape)
        )
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
        there = elementwise.logical_and(there, input != padding_idx)
    there = manipulation.expand_dims(there, axis=2)
    rows = embedding(input, weight, padding_idx)
    rows = rows if factors is None else rows * manipulation.expand_dims(factors, axis=2)
    if mode == "max":
        none = elementwise.logical_not(statistical.any(there, axis=1))
        rows = searching.where(there, rows, -math.inf)
        most = pairs.largest(rows, 1).values if rows.shape[1] else statistical.sum(rows, axis=1)
        return searching.where(none, 0.0, most)
    total = statistical.sum(searching.where(there, rows, 0.0), axis=1)
    if mode == "sum":
        return total
    return total / elementwise.clip(statistical.sum(astype(there, total.dtype), axis=1), 1.0)


def _bags(input: Tensor, offsets: list[int], include_last_offset: bool) -> tuple[Tensor, Tensor]:
    """Return the positions of each bag's indices, flat and padded to the longest, and which of them are not padding."""
    stops = offsets[1:] if include_last_offset else [*offsets[1:], input.shape[0]]
    bags = [range(start, stop) for start, stop in zip(offsets, stops, strict=False)]
    if (offsets and offsets[0] != 0) or any(bag.stop < bag.start or bag.stop > input.shape[0] for bag in bags):
        raise ValueError(
            f"embedding_bag(): offsets begin with 0, rise, and end within the {input.shape[0]} indices; got {offsets}"
            f"{errors.called()}"
        )
    longest = max(map(len, bags), default=0)
    beside = {"device": input.device}
    places = [k for bag in bags for k in [*bag, *([0] * (longest - len(bag)))]]
    shown = [[k < len(bag) for k in range(longest)] for bag in bags]
    return (
        creation.asarray(places, dtype=dtypes.int64, **beside),
        manipulation.reshape(creation.asarray(shown, dtype=dtypes.bool, **beside), (len(bags), longest)),
    )


def check_range(indices: Tensor, stop: int, message: str) -> None:
    """Refuse indices outside 0 to `stop` - 1, except on lazy backends, where checking would compute, and in recordings."""
    if may_look(indices._spec.backend) and indices.size:
        low, high = int(statistical.min(indices)), int(statistical.max(indices))
        if low < 0 or high >= stop:
            raise IndexError(f"{message}, an index is {low if low < 0 else high}.{errors.called()}")


def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """Encode class indices as rows that are 1 at the class and 0 elsewhere.

    tensor: Integers, any shape.
    num_classes : int, optional
        Default: one more than the largest index.
    Returns : Tensor, shape (*tensor.shape, num_classes)
        Of dtype int64.
    RuntimeError: If an index is negative or not below `num_classes`.

    >>> ag.nn.functional.one_hot(ag.tensor([1, 0]), 3)
    tensor([[0, 1, 0],
            [1, 0, 0]])
    """
    tensor = as_operand(tensor)
    if tensor._spec.backend.kind(tensor.dtype) != "int":
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type int64, got {tensor.dtype}.{errors.called()}"
        )
    if num_classes == -1 or may_look(tensor._spec.backend):
        if not tensor.size:
            if num_classes <= 0:
                raise RuntimeError("Can not infer total number of classes from empty tensor." + errors.called())
        else:
            if int(statistical.min(tensor)) < 0:
                raise RuntimeError("Class values must be non-negative." + errors.called())
            most = int(statistical.max(tensor))
            if num_classes == -1:
                num_classes = most + 1
            elif most >= num_classes:
                raise RuntimeError("Class values must be smaller than num_classes." + errors.called())
    classes = creation.arange(num_classes, dtype=tensor.dtype, device=tensor.device)
    hit = elementwise.equal(manipulation.expand_dims(tensor, axis=tensor.ndim), classes)
    return astype(hit, dtypes.int64)
