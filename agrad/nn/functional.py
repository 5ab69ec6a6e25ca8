"""Activations, layers and losses as functions, with PyTorch's names and arguments.

A function of an array of any backend runs on that backend. Images are (N, C, H, W): batch, channels, height, width; an
image without the batch axis, (C, H, W), is taken as a batch of one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agrad import dtypes, random
from agrad.core import errors
from agrad.core import names as _names
from agrad.core.buffers import check_leaf, rebind
from agrad.core.materialize import carry
from agrad.core.mode import may_look, no_grad
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor, check_number
from agrad.ops import elementwise, linalg, manipulation, searching, statistical
from agrad.ops import nn as ops
from agrad.ops.creation import arange, asarray
from agrad.ops.data_type import astype, finfo, to_device
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import tanh
from agrad.ops.extra.activations import log_softmax, sigmoid, softmax
from agrad.ops.special.entropies import xlogy

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv_transpose2d", "cosine_similarity", "cross_entropy",
    "dropout", "dropout2d", "elu", "embedding", "gelu", "glu", "group_norm", "hardtanh", "huber_loss", "instance_norm",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "max_pool1d",
    "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pixel_shuffle",
    "pixel_unshuffle", "prelu", "relu", "relu6", "rms_norm", "scaled_dot_product_attention", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "softmax", "softplus", "tanh",
]  # fmt: skip

IntOrPair = int | Sequence[int]


def _shape(name: str, argument: str, value: Any) -> tuple[int, ...]:
    """Return the shape of an operand, a tensor or an array."""
    try:
        return tuple(value.shape)
    except AttributeError:
        raise errors.not_an_operand(name, argument, value) from None


def _pair(name: str, value: IntOrPair, what: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    pair = tuple(value)
    if len(pair) == 1:
        pair *= 2
    if len(pair) != 2:
        raise ValueError(f"{name}(): {what} must be one integer or two, not {value!r}{errors.called()}")
    return int(pair[0]), int(pair[1])


def _checked_reduction(name: str, reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"{reduction} is not a valid value for reduction\n  {name}() takes mean, sum or none.{errors.called()}"
        )
    return reduction


def _differs(n: float, m: float) -> bool:
    """Whether two sizes are known to differ (nan: a lazy backend does not know)."""
    return n != m and n == n and m == m  # noqa: PLR0124


# -- activations --------------------------------------------------------------------------------------------------------


def _put(input: Any, result: Tensor, what: str) -> Tensor:
    """Give a tensor the value of a result, as its in-place methods do."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{what}: with inplace=True it takes a tensor, not {type(input).__name__}{errors.called()}")
    check_leaf(input, what)
    rebind(input, result, what)
    return input


def relu(input: Any, inplace: bool = False) -> Tensor:
    """The positive part, ``max(x, 0)``; the derivative at 0 is 0.

    input: Any shape, real.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.relu(ag.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    result = ops.relu(input)
    return _put(input, result, "relu()") if inplace else result


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, else ``negative_slope * x``; the derivative at 0 is the slope.

    input: Any shape, real.
    negative_slope : float, optional
        The slope below 0.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.leaky_relu(ag.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    result = ops.leaky_relu(input, negative_slope)
    return _put(input, result, "leaky_relu()") if inplace else result


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2015).

    input: Any shape, real.
    alpha : float, optional
        Minus the limit at minus infinity, and the derivative at 0.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.elu(ag.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    result = ops.elu(input, alpha)
    return _put(input, result, "elu()") if inplace else result


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` limited to a range; the derivative at the bounds is 0, as in PyTorch.

    input: Any shape, real.
    min_val, max_val : float, optional
        The range.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.hardtanh(ag.tensor([-2.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    x = as_operand(input)
    inside = elementwise.logical_and(x > min_val, x < max_val)
    result = searching.where(inside, x, elementwise.clip(x.detach(), min_val, max_val))
    return _put(input, result, "hardtanh()") if inplace else result


def relu6(input: Any, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``; the derivative at 0 and 6 is 0.

    input: Any shape, real.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.relu6(ag.tensor([-2.0, 3.0, 7.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def prelu(input: Any, weight: Any) -> Tensor:
    """``x`` where positive, else ``weight * x`` (He et al. 2015).

    input: Any shape, real.
    weight : Tensor
        One number, or one per entry of axis 1.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.prelu(ag.tensor([-1.0, 2.0]), ag.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    x, weight = as_operand(input), as_operand(weight)
    if weight.size != 1 and x.ndim > 1:
        weight = manipulation.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    return searching.where(x > 0, x, weight * x)


def selu(input: Any, inplace: bool = False) -> Tensor:
    """`elu`, scaled so that mean 0 and variance 1 are kept from layer to layer (Klambauer et al. 2017).

    input: Any shape, real.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.selu(ag.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    result = 1.0507009873554804934193349852946 * ops.elu(input, 1.6732632423543772848170429916717)
    return _put(input, result, "selu()") if inplace else result


def mish(input: Any, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra 2019).

    input: Any shape, real.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.mish(ag.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    result = elementwise.multiply(input, tanh(ops.softplus(input, 1.0, 20.0)))
    return _put(input, result, "mish()") if inplace else result


def glu(input: Any, dim: int = -1) -> Tensor:
    """The first half along an axis times `sigmoid` of the second (Dauphin et al. 2016).

    input: Real.
    dim : int, optional
        The axis, of even length.
    Returns: Half as long along that axis.
    RuntimeError: If its length is odd.

    >>> ag.nn.functional.glu(ag.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """
    x = as_operand(input)
    if x.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {x.shape[dim]}{errors.called()}"
        )
    first, second = x.split(x.shape[dim] // 2, dim)
    return first * sigmoid(second)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, a smooth `relu`.

    input: Any shape, real.
    beta : float, optional
        The larger, the sharper.
    threshold : float, optional
        Where ``beta * x`` is above it, the result is `x` itself, as in PyTorch.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.softplus(ag.tensor([-1.0, 0.0, 50.0]))
    tensor([ 0.3133,  0.6931, 50.0000])
    """
    return ops.softplus(input, beta, threshold)


def silu(input: Any, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, also called swish (Elfwing et al. 2017).

    input: Any shape, real.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.silu(ag.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.0000,  1.7616])
    """
    result = ops.silu(input)
    return _put(input, result, "silu()") if inplace else result


def logsigmoid(input: Any) -> Tensor:
    """The logarithm of `sigmoid`, without overflow.

    input: Any shape, real.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.logsigmoid(ag.tensor([-1000.0, 0.0, 2.0]))
    tensor([-1.0000e+03, -6.9315e-01, -1.2693e-01])
    """
    return ops.log_sigmoid(input)


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """`x` times the distribution function of the standard normal at `x` (Hendrycks and Gimpel 2016).

    input: Any shape, real.
    approximate : {"none", "tanh"}, optional
        "none" is accurate to the dtype, in the tail too; "tanh" is the approximation by a tanh of a cubic.
    Returns: Of the shape and dtype of `input`.
    ValueError: If `approximate` is neither.

    >>> ag.nn.functional.gelu(ag.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(
            f"approximate argument must be either none or tanh.\n  gelu() got {approximate!r}.{errors.called()}"
        )
    return ops.gelu(input, approximate)


# -- layers -------------------------------------------------------------------------------------------------------------


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input @ weight.T + bias``, recorded as one operation.

    input : Tensor, shape (..., in)
        Real or complex.
    weight : Tensor, shape (out, in)
        One row per output.
    bias : Tensor, shape (out,), optional
        Added to every row.
    Returns : Tensor, shape (..., out)
    RuntimeError: If the shapes do not fit, or the dtypes are of different precision.

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
    except AttributeError:  # no tensors
        fits = False
    if not fits:
        _check_linear(input, weight, bias)
    return ops.linear_layer(input, weight, bias)


def _check_linear(input: Any, weight: Any, bias: Any) -> None:
    shapes = f"input {_shape('linear', 'input', input)}, weight {_shape('linear', 'weight', weight)}"
    shapes += "" if bias is None else f", bias {_shape('linear', 'bias', bias)}"
    if len(weight.shape) != 2 or not input.shape:
        message = f"linear(): expected input (..., in) and weight (out, in), got {shapes}"
    elif _differs(input.shape[-1], weight.shape[1]):
        rows = math.prod(input.shape[:-1])
        message = (
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{input.shape[-1]} and"
            f" {weight.shape[1]}x{weight.shape[0]})\n  linear(): {shapes}"
        )
    elif bias is not None and (len(bias.shape) != 1 or _differs(bias.shape[0], weight.shape[0])):
        message = f"linear(): the bias must have shape ({weight.shape[0]},), got {shapes}"
    else:
        _check_dtypes("linear", "mat1 and mat2 must have the same dtype, but got {} and {}", input, weight)
        return
    raise RuntimeError(message + errors.called())


def _check_dtypes(name: str, words: str, input: Any, weight: Any) -> None:
    """Refuse operands of different precision: one of them would be converted without a word, and with it all that follows."""
    input, weight = as_operand(input), as_operand(weight)
    ours, theirs = dtypes.name_of(input.dtype), dtypes.name_of(weight.dtype)
    if ours != theirs and {ours, theirs} not in ({"float32", "complex64"}, {"float64", "complex128"}):
        other = f", or the module, net.to(ag.{ours})" if input._spec.inexact else ""
        raise RuntimeError(
            f"{words.format(ours, theirs)}\n  {name}(): convert the input, x.to(ag.{theirs}){other}.{errors.called()}"
        )


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
        False gives `input` itself.
    generator : agrad.random.Generator, optional
        Where random keys come from. Default: the one that `agrad.manual_seed` seeds.
    Returns: Of the shape and dtype of `input`.
    ValueError: If `p` is not a probability.
    TypeError: If elements would be zeroed of integers or truth values.

    >>> _ = ag.manual_seed(0)
    >>> y = ag.nn.functional.dropout(ag.ones((1000,)), 0.25)
    >>> sorted(set(y.tolist()))
    [0.0, 1.3333333333333333]
    """
    _check_probability("dropout", "p", p)
    operand = as_operand(input)
    if not training or p == 0:
        return operand
    if not operand._spec.inexact:
        raise TypeError(f"dropout() takes floating point tensors, not {operand.dtype}{errors.called()}")
    kept = _kept(operand, tuple(operand.shape), p, generator)
    result = ops.dropout(operand, kept, 0.0 if p == 1 else 1 / (1 - p))
    return _put(input, result, "dropout()") if inplace else result


def dropout2d(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Zero whole channels with probability `p` and divide the others by ``1 - p`` (Tompson et al. 2014).

    input: Shape (n, channels, ...).
    p: The probability.
    training : bool, optional
        False gives `input` itself.
    generator : agrad.random.Generator, optional
        Where random keys come from. Default: the one that `agrad.manual_seed` seeds.
    Returns: Of the shape and dtype of `input`.
    ValueError: If `p` is not a probability, or `input` has less than three axes.

    >>> ag.nn.functional.dropout2d(ag.ones((2, 3, 4, 4)), training=False).shape
    (2, 3, 4, 4)
    """
    _check_probability("dropout2d", "p", p)
    operand = as_operand(input)
    if operand.ndim < 3:
        raise ValueError(f"dropout2d() takes (n, channels, ...), got shape {operand.shape}{errors.called()}")
    if not training or p == 0:
        return operand
    kept = _kept(operand, (*operand.shape[:2], *(1,) * (operand.ndim - 2)), p, generator)
    result = operand * astype(kept, operand.dtype) * (0.0 if p == 1 else 1 / (1 - p))
    return _put(input, result, "dropout2d()") if inplace else result


def _check_probability(name: str, argument: str, p: float) -> None:
    check_number(name, argument, p)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}{errors.called()}")


def _kept(like: Tensor, shape: tuple[int, ...], p: float, generator: random.Generator | None = None) -> Tensor:
    """Return truth values beside a tensor, each false with probability `p`."""
    spec = like._spec
    dtype = "float64" if spec.backend.dtype_name(spec.dtype) in ("float64", "complex128") else "float32"
    return random.rand(shape, dtype=dtype, device=spec.device, generator=generator) >= p


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """The rows of a table at given indices.

    input: Indices, any shape, integers from 0 to before the number of rows.
    weight : Tensor, shape (rows, features)
        The table.
    padding_idx : int, optional
        The row at this index gets no gradient; negative counts from the end.
    Returns : Tensor, shape (*input.shape, features)
    IndexError: If an index is outside the table.
    TypeError: If the indices are no integers.

    >>> ag.nn.functional.embedding(ag.tensor([2, 0]), ag.tensor([[1.0], [2.0], [3.0]]))
    tensor([[3.],
            [1.]])
    """
    input = as_operand(input)
    if input._spec.backend.kind(input.dtype) != "int":
        raise TypeError(f"embedding(): expected integer indices, got {input.dtype}{errors.called()}")
    rows = weight.shape[0]
    _check_range(input, rows, f"index out of range in self\n  embedding(): the table has {rows} rows")
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise ValueError(
                f"embedding(): padding_idx {padding_idx} is outside the table of {rows} rows{errors.called()}"
            )
        padding_idx %= rows
    return ops.embedding(input, weight, padding_idx)


def _check_range(indices: Tensor, stop: int, message: str) -> None:
    """Refuse indices outside 0 to before `stop`, but on lazy backends, where looking would compute, and in recordings."""
    if may_look(indices._spec.backend) and indices.size:
        low, high = int(statistical.min(indices)), int(statistical.max(indices))
        if low < 0 or high >= stop:
            raise IndexError(f"{message}, an index is {low if low < 0 else high}.{errors.called()}")


def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """Class indices as rows that are 1 at the class and 0 elsewhere.

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
    classes = arange(num_classes, dtype=tensor.dtype, device=tensor.device)
    hit = elementwise.equal(manipulation.expand_dims(tensor, axis=tensor.ndim), classes)
    return astype(hit, dtypes.int64)


def layer_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 over the last axes, then times `weight` plus `bias` (Ba, Kiros and Hinton 2016).

    input : Tensor, shape (..., *normalized_shape)
        Real.
    normalized_shape : int or sequence of int
        The shape of the axes to normalise over.
    weight, bias : Tensor, shape normalized_shape, optional
        Default: 1 and 0.
    eps: Added to the variance.
    Returns: Of the shape and dtype of `input`.
    RuntimeError: If the shapes do not fit.

    >>> ag.nn.functional.layer_norm(ag.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    input = as_operand(input)
    shape = _normalized("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    result = ops.layer_norm(input, weight, bias, len(shape), eps)
    return result if result._spec.dtype is input._spec.dtype else astype(result, input.dtype, copy=False)


def _normalized(name: str, input: Tensor, normalized_shape: int | Sequence[int], **affine: Any) -> tuple[int, ...]:
    """Return the shape of the last axes, which those of the operand and of what it is scaled by must have."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or input.shape[-len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but got"
            f" input of size{list(input.shape)}\n  {name}() normalises over the last axes.{errors.called()}"
        )
    for operand, value in affine.items():
        if value is not None and tuple(value.shape) != shape:
            raise RuntimeError(
                f"Expected {operand} to be of same shape as normalized_shape, but got {operand} of shape"
                f" {list(value.shape)} and normalized_shape = {list(shape)}\n  in {name}().{errors.called()}"
            )
    return shape


def rms_norm(input: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """Mean square 1 over the last axes, then times `weight` (Zhang and Sennrich 2019).

    input : Tensor, shape (..., *normalized_shape)
        Real floating point.
    normalized_shape : int or sequence of int
        The shape of the axes to normalise over.
    weight : Tensor, shape normalized_shape, optional
        Default: 1.
    eps : float, optional
        Added to the mean square. Default: that of the dtype.
    Returns: Of the shape and dtype of `input`.
    RuntimeError: If the shapes do not fit.
    TypeError: If `input` is not real floating point.

    >>> ag.nn.functional.rms_norm(ag.tensor([[1.0, 7.0]]), (2,))
    tensor([[0.2000, 1.4000]])
    """
    input = as_operand(input)
    shape = _normalized("rms_norm", input, normalized_shape, weight=weight)
    _check_real("rms_norm", input)
    if eps is None:
        eps = finfo(input.dtype).eps
    axes = tuple(range(-len(shape), 0))
    mean = statistical.mean(elementwise.square(input), axis=axes, keepdims=True)
    result = input / elementwise.sqrt(mean + eps)
    return result if weight is None else astype(result * weight, input.dtype, copy=False)


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Mean 0 and variance 1 per example and group of channels, then times `weight` plus `bias` (Wu and He 2018).

    input : Tensor, shape (N, C, ...)
        Real floating point.
    num_groups : int
        Into how many groups of neighbours the channels are cut; a divisor of C.
    weight, bias : Tensor, shape (C,), optional
        Default: 1 and 0.
    eps: Added to the variance.
    Returns: Of the shape and dtype of `input`.
    RuntimeError: If the shapes do not fit.
    TypeError: If `input` is not real floating point.

    >>> ag.nn.functional.group_norm(ag.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    input = as_operand(input)
    size = tuple(input.shape)
    if len(size) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(size)}{errors.called()}")
    if num_groups < 1 or size[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape"
            f" {list(size)} and num_groups={num_groups}\n  in group_norm().{errors.called()}"
        )
    _check_real("group_norm", input)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != size[1:2]:
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of"
                f" shape {list(value.shape)} and input of shape {list(size)}\n  in group_norm().{errors.called()}"
            )
    within = math.prod(size[1:]) // num_groups
    grouped = manipulation.reshape(input, (size[0], num_groups, within))
    result = manipulation.reshape(ops.layer_norm(grouped, None, None, 1, eps), size)
    if weight is not None:
        result = result * _along(weight, 1, len(size))
    if bias is not None:
        result = result + _along(bias, 1, len(size))
    return astype(result, input.dtype, copy=False)


def instance_norm(input: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Mean 0 and variance 1 of every channel of every sample, then an affine map (Ulyanov et al. 2016).

    input: Shape (n, channels, ...), real.
    weight, bias : Tensor, optional
        One number per channel.
    eps: Added to the variance.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.instance_norm(ag.tensor([[[1.0, 3.0], [10.0, 30.0]]]), eps=0.0)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    return group_norm(input, _shape("instance_norm", "input", input)[1], weight, bias, eps)


def _check_real(name: str, input: Tensor) -> None:
    if not input.is_floating_point():
        raise TypeError(f"{name}() takes real floating tensors, not {input.dtype}{errors.called()}")


def batch_norm(
    input: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 per channel, then times `weight` plus `bias` (Ioffe and Szegedy 2015).

    input : Tensor, shape (N, C, ...)
        Real.
    running_mean, running_var : Tensor, shape (C,), optional
        Means and variances per channel of batches so far. In training they are changed in place where they are given: by
        the variance with ``n - 1``. Otherwise they are what is normalised by.
    weight, bias : Tensor, shape (C,), optional
        Default: 1 and 0.
    training : bool, optional
        Normalise by the mean and the variance of this batch, that with ``n``.
    momentum : float or 0-d Tensor, optional
        What part of the running values the new ones become.
    eps: Added to the variance.
    Returns: Of the shape and dtype of `input`.
    ValueError: If there is one value per channel in training.
    RuntimeError: If shapes do not fit, or running values are missing outside of training.
    TypeError: If `input` is not real floating point.

    >>> ag.nn.functional.batch_norm(ag.tensor([[1.0], [2.0], [3.0]]), None, None, training=True)
    tensor([[-1.2247],
            [ 0.0000],
            [ 1.2247]])
    """
    input = as_operand(input)
    size = list(input.shape)
    if len(size) < 2:
        raise RuntimeError(f"batch_norm() takes input of shape (N, C, ...), not {tuple(size)}{errors.called()}")
    _check_real("batch_norm", input)
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, value in named.items():
        if value is not None and tuple(value.shape) != (size[1],):
            raise RuntimeError(
                f"{name} should contain {size[1]} elements not {math.prod(value.shape)}\n  batch_norm() takes one per"
                f" channel: axis 1 of input of size {size}.{errors.called()}"
            )
        if value is None and not training and name.startswith("running"):
            raise RuntimeError(f"{name} must be defined in evaluation mode{errors.called()}")
    axes = (0, *range(2, len(size)))
    each = (1, size[1], *(1,) * (len(size) - 2))
    count = math.prod(size[axis] for axis in axes)
    if training and count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}{errors.called()}"
        )
    if training:
        reduce = statistical.mean if count else statistical.sum
        mean = reduce(input, axis=axes)
        centred = input - manipulation.reshape(mean, each)
        variance = reduce(elementwise.square(centred), axis=axes)
        if count:
            _run_on(running_mean, mean, momentum)
            _run_on(running_var, variance * (count / (count - 1)), momentum)
    else:
        mean, variance = as_operand(running_mean), as_operand(running_var)
        centred = input - manipulation.reshape(mean, each)
    scale = 1 / elementwise.sqrt(variance + eps)
    result = centred * manipulation.reshape(scale if weight is None else scale * weight, each)
    result = result if bias is None else result + manipulation.reshape(as_operand(bias), each)
    return result if result.dtype == input.dtype else astype(result, input.dtype)


def _run_on(running: Tensor | None, value: Tensor, momentum: float | Tensor) -> None:
    """Change a running value by a new one, where it is; a lazy one is computed with what is computed next."""
    if running is None:
        return
    with no_grad:
        running.copy_((1 - momentum) * running + momentum * to_device(value.detach(), running.device))
    if running._spec.backend.is_lazy:
        carry(running)


def _squared_size(x: Tensor) -> Tensor:
    """``abs(x)**2``, smooth at 0, where `abs` is not."""
    if not x._spec.is_complex:
        return elementwise.square(x)
    return elementwise.square(elementwise.real(x)) + elementwise.square(elementwise.imag(x))


def normalize(input: Any, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """`input` divided by its p-norm along an axis, or by `eps` where that is larger.

    input: Real.
    p: Exponent of the norm: at least 1, or ``inf``.
    dim : int or tuple of int, optional
        The axis or axes.
    eps: The least divisor.
    Returns: Of the shape and dtype of `input`.

    >>> ag.nn.functional.normalize(ag.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    input = as_operand(input)
    size = elementwise.abs(input)
    varies = isinstance(p, Tensor)  # it may have a derivative: the general formula
    if not varies and p == math.inf:
        norm = elementwise.clip(statistical.max(size, axis=dim, keepdims=True), eps)
    elif not varies and p == 1:
        norm = elementwise.clip(statistical.sum(size, axis=dim, keepdims=True), eps)
    else:
        # the limit stands before the root: below it the derivative is then 0, not infinity times 0
        powers = _squared_size(input) if p == 2 else size**p
        total = elementwise.clip(statistical.sum(powers, axis=dim, keepdims=True), eps**p)
        norm = elementwise.sqrt(total) if p == 2 else total ** (1 / p)
    return elementwise.divide(input, norm)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors.

    x1, x2 : Tensor
        Real, of shapes that broadcast.
    dim : int, optional
        The axis of the vectors.
    eps: The least length to divide by.
    Returns: Without that axis.

    >>> ag.nn.functional.cosine_similarity(ag.tensor([[1.0, 0.0]]), ag.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    return statistical.sum(normalize(x1, 2.0, dim, eps) * normalize(x2, 2.0, dim, eps), axis=dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference of vectors along the last axis, with `eps` added to every element of it.

    x1, x2 : Tensor
        Real, shape (..., features).
    p: Exponent of the norm.
    eps: What keeps equal vectors apart.
    keepdim : bool, optional
        Keep the last axis with length 1.
    Returns: Without the last axis.

    >>> ag.nn.functional.pairwise_distance(ag.tensor([[0.0, 3.0]]), ag.tensor([[4.0, 0.0]]))
    tensor([5.0000])
    """
    return linalg.vector_norm(as_operand(x1) - x2 + eps, axis=-1, keepdims=keepdim, ord=p)


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Channels laid out as pixels: (..., c * r * r, h, w) becomes (..., c, h * r, w * r) (Shi et al. 2016).

    input: Shape (..., c * r * r, h, w).
    upscale_factor : int
        How many pixels an edge of one becomes, `r`.
    Returns: Of the dtype of `input`.
    RuntimeError: If the channels are no multiple of its square.

    >>> ag.nn.functional.pixel_shuffle(ag.arange(4.0).reshape(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    x, r = as_operand(input), upscale_factor
    *outer, channels, height, width = x.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but"
            f" input.size(-3)={channels} is not divisible by {r * r}{errors.called()}"
        )
    n = len(outer)
    x = manipulation.reshape(x, (*outer, channels // (r * r), r, r, height, width))
    x = manipulation.permute_dims(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return manipulation.reshape(x, (*outer, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`: (..., c, h * r, w * r) becomes (..., c * r * r, h, w).

    input: Shape (..., c, h * r, w * r).
    downscale_factor : int
        How many pixels an edge of one was, `r`.
    Returns: Of the dtype of `input`.
    RuntimeError: If the height or width is no multiple of it.

    >>> ag.nn.functional.pixel_unshuffle(ag.ones((1, 1, 4, 6)), 2).shape
    (1, 4, 2, 3)
    """
    x, r = as_operand(input), downscale_factor
    *outer, channels, height, width = x.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but {height} and {width}"
            f" are not both divisible by {r}{errors.called()}"
        )
    n = len(outer)
    x = manipulation.reshape(x, (*outer, channels, height // r, r, width // r, r))
    x = manipulation.permute_dims(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return manipulation.reshape(x, (*outer, channels * r * r, height // r, width // r))


def interpolate(
    input: Any,
    size: IntOrPair | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Sequences, images or volumes made larger or smaller.

    input: Shape (n, channels, ...), real.
    size : int or sequence of int, optional
        The lengths of the last axes then.
    scale_factor : float or sequence of float, optional
        By what they are multiplied, instead.
    mode : {"nearest", "linear", "bilinear", "trilinear"}, optional
        The nearest element as in PyTorch, or linear between neighbours along every axis.
    align_corners : bool, optional
        Whether the first and last elements keep their places, not the edges of the outermost ones.
    Returns: Of the dtype of `input`, with other lengths behind the first two axes.
    NotImplementedError: For another mode.
    ValueError: If not one of `size` and `scale_factor` is given, or the mode is for another number of axes.

    >>> ag.nn.functional.interpolate(ag.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    x = as_operand(input)
    count = x.ndim - 2
    axes = {"linear": 1, "bilinear": 2, "trilinear": 3}
    if mode != "nearest" and mode not in axes:
        raise NotImplementedError(
            f"interpolate() has the modes nearest, {', '.join(axes)}, not {mode!r}{errors.called()}"
        )
    if (size is None) == (scale_factor is None):
        raise ValueError(f"only one of size or scale_factor should be defined{errors.called()}")
    if count < 1 or axes.get(mode, count) != count:
        raise ValueError(f"interpolate() in mode {mode!r} got {x.ndim} axes, of shape {x.shape}{errors.called()}")
    given: Any = scale_factor if size is None else size
    each = list(given) if isinstance(given, Sequence) else [given] * count
    if len(each) != count:
        raise ValueError(
            f"interpolate() takes one number, or one for each of {count} axes, not {each}{errors.called()}"
        )
    for axis, number in enumerate(each, 2):
        length = int(x.shape[axis])
        new = int(number) if size is not None else math.floor(length * number)
        step = length / new if size is not None else 1 / number
        if mode == "nearest":
            x = _taken(x, [min(int(i * step), length - 1) for i in range(new)], axis)
            continue
        if align_corners:
            step = (length - 1) / (new - 1) if new > 1 else 0.0
        places = [i * step if align_corners else max((i + 0.5) * step - 0.5, 0.0) for i in range(new)]
        before = [min(int(place), length - 1) for place in places]
        shares = [place - i for place, i in zip(places, before, strict=True)]
        weight = asarray(shares, dtype=x.dtype, device=x.device)
        weight = manipulation.reshape(weight, (new, *(1,) * (x.ndim - 1 - axis)))
        first, second = _taken(x, before, axis), _taken(x, [min(i + 1, length - 1) for i in before], axis)
        x = first * (1 - weight) + second * weight
    return x


def _taken(x: Tensor, indices: list[int], axis: int) -> Tensor:
    return searching.take(x, asarray(indices, dtype="int64", device=x.device), axis=axis)


#: Which element stands at a place outside of so many, by the mode of `pad`.
OUTSIDE = {
    "replicate": lambda i, n: min(max(i, 0), n - 1),
    "circular": lambda i, n: i % n,
    "reflect": lambda i, n: n - 1 - abs(n - 1 - abs(i)),
}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Something put around a tensor: a constant, or elements of its own.

    input: Any shape.
    pad : sequence of int
        Elements before and after, in pairs, the last axis first: ``(left, right, top, bottom)``. Negative ones crop.
    mode : {"constant", "reflect", "replicate", "circular"}, optional
        What is put there: `value`; the elements mirrored at the outermost one; that one again and again; or those of the
        other end.
    value : float, optional
        The constant. Default: 0.
    Returns: Of the dtype of `input`, longer along the padded axes.
    NotImplementedError: For another mode.
    ValueError: If the widths are not pairs, or more than the axes; or not below the length in mode "reflect", above it in
        mode "circular".

    >>> ag.nn.functional.pad(ag.tensor([1.0, 2.0]), (1, 2))
    tensor([0., 1., 2., 0., 0.])
    >>> ag.nn.functional.pad(ag.tensor([1.0, 2.0, 3.0]), (1, 2), mode="reflect")
    tensor([2., 1., 2., 3., 2., 1.])
    """
    input = as_operand(input)
    if mode != "constant" and mode not in OUTSIDE:
        raise NotImplementedError(
            f"pad() has the modes 'constant', {', '.join(map(repr, OUTSIDE))}, not {mode!r}{errors.called()}"
        )
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise ValueError(
            f"pad(): widths come in pairs, at most one per axis; got {tuple(pad)} for shape {input.shape}{errors.called()}"
        )
    pairs = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1]
    if any(n < 0 for width in widths for n in width):
        key = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, input.shape, strict=True))
        input = searching.getitem(input, key)
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        return ops.pad(input, tuple(widths), 0.0 if value is None else value)
    result: Tensor = input
    for axis, (before, after) in enumerate(widths):
        if before or after:
            length = int(result.shape[axis])
            most = {"reflect": length - 1, "circular": length}.get(mode, math.inf)
            if max(before, after) > most:
                raise ValueError(
                    f"pad(): widths ({before}, {after}) are too large for mode {mode!r} and length {length} of axis"
                    f" {axis}{errors.called()}"
                )
            indices = [OUTSIDE[mode](i, length) for i in range(-before, length + after)]
            result = _taken(result, indices, axis)
    return result


# -- convolution and pooling --------------------------------------------------------------------------------------------


def _images(name: str, input: Any) -> tuple[Tensor, bool]:
    """Return images as (N, C, H, W), and whether the batch axis was put in."""
    input = as_operand(input)
    if input.ndim == 3:
        return manipulation.expand_dims(input, axis=0), True
    if input.ndim != 4:
        raise RuntimeError(
            f"Expected 3D (unbatched) or 4D (batched) input to {name}, but got input of size: {list(input.shape)}"
            + errors.called()
        )
    return input, False


def _rows(name: str, input: Any) -> Tensor:
    """Return sequences (N, C, L) or (C, L) as images of one row."""
    input = as_operand(input)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2D (unbatched) or 3D (batched) input to {name}, but got input of size: {list(input.shape)}"
            + errors.called()
        )
    return manipulation.expand_dims(input, axis=-2)


def _single(name: str, value: IntOrPair, what: str) -> int:
    """Return the one integer of an argument of a function of sequences."""
    if isinstance(value, int):
        return value
    if len(value) != 1:
        raise ValueError(f"{name}(): {what} must be one integer, not {tuple(value)}{errors.called()}")
    return int(value[0])


def _back(result: Tensor, single: bool) -> Tensor:
    return manipulation.squeeze(result, 0) if single else result


def _check_windows(
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: ops.Padding,
    dilation: tuple[int, int],
) -> None:
    """Refuse windows of no size, and those larger than the padded image."""
    if min(*kernel, *stride, *dilation) < 1 or min(*padding[0], *padding[1]) < 0:
        raise ValueError(
            f"{name}(): kernel size, stride and dilation must be positive and padding not negative; got"
            f" {kernel}, {stride}, {dilation} and {padding}{errors.called()}"
        )
    sizes = [shape[2 + a] + sum(padding[a]) for a in (0, 1)]
    spans = [dilation[a] * (kernel[a] - 1) + 1 for a in (0, 1)]
    if any(span > size for span, size in zip(spans, sizes, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({sizes[0]} x {sizes[1]}). Kernel size: ({spans[0]} x"
            f" {spans[1]}). Kernel size can't be greater than actual input size\n  {name}(): input {tuple(shape)}."
            + errors.called()
        )


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair | str = 0,
    dilation: IntOrPair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of images with filters (cross-correlation, as in PyTorch: the filters are not flipped).

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, real.
    weight : Tensor, shape (O, C / groups, kh, kw)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride: Steps between windows, down and to the right.
    padding : int, pair, "valid" or "same", optional
        Zeros put around the images. "valid": none; "same": as many as keep height and width, for stride 1.
    dilation: Steps between the elements of a window.
    groups : int, optional
        Input and output channels are cut into so many groups, convolved separately.
    Returns : Tensor, shape (N, O, Ho, Wo) or (O, Ho, Wo)
        ``Ho = (H + 2 * padding - dilation * (kh - 1) - 1) // stride + 1``, `Wo` likewise.
    RuntimeError: If shapes or dtypes do not fit, or the window is larger than the padded image.
    ValueError: If `padding` is a word that is not known, or "same" with a stride.

    >>> x, w = ag.ones((1, 1, 3, 3)), ag.ones((1, 1, 2, 2))
    >>> ag.nn.functional.conv2d(x, w)
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _convolved("conv2d", input, as_operand(weight), bias, stride, padding, dilation, groups)


def _convolved(
    name: str,
    input: Any,
    weight: Tensor,
    bias: Any,
    stride: IntOrPair,
    padding: IntOrPair | str,
    dilation: IntOrPair,
    groups: int,
) -> Tensor:
    """Return the convolution of images, by the function that the user called."""
    input, single = _images(name, input)
    stride, dilation = _pair(name, stride, "stride"), _pair(name, dilation, "dilation")
    shape, filters = input.shape, weight.shape
    if len(filters) != 4:
        raise RuntimeError(
            f"{name}(): weight must be (out, in / groups, height, width), got {filters}{errors.called()}"
        )
    if groups < 1 or filters[0] % groups or shape[1] != filters[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(filters)}, expected input{list(shape)} to have"
            f" {filters[1] * groups} channels, but got {shape[1]} channels instead\n  {name}() also needs the number of"
            f" filters, {filters[0]}, to be a multiple of groups.{errors.called()}"
        )
    if bias is not None and tuple(bias.shape) != filters[:1]:
        raise RuntimeError(
            f"Given weight of size {list(filters)}, expected bias to be 1-dimensional with {filters[0]} elements, but"
            f" got bias of size {list(bias.shape)} instead\n  in {name}().{errors.called()}"
        )
    _check_real_filters(name, input, weight)
    if isinstance(padding, str):
        sides = _padding_by_name(name, padding, filters[2:], stride, dilation)
    else:
        down, across = _pair(name, padding, "padding")
        sides = (down, down), (across, across)
    _check_windows(name, shape, (filters[2], filters[3]), stride, sides, dilation)
    return _back(ops.conv2d(input, weight, bias, stride, sides, dilation, groups), single)


def _check_real_filters(name: str, input: Tensor, weight: Tensor) -> None:
    if input._spec.is_complex or weight._spec.is_complex:
        raise TypeError(
            f"{name}() takes real images and filters, not {input.dtype} and {weight.dtype}{errors.called()}"
        )
    _check_dtypes(name, "Input type ({}) and weight type ({}) should be the same", input, weight)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair | str = 0,
    dilation: IntOrPair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of sequences with filters (cross-correlation: the filters are not flipped); see `conv2d`.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, real.
    weight : Tensor, shape (O, C / groups, k)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride : int, optional
        Steps between windows.
    padding : int, "valid" or "same", optional
        Zeros put before and after. "valid": none; "same": as many as keep the length, for stride 1.
    dilation : int, optional
        Steps between the elements of a window.
    groups : int, optional
        Input and output channels are cut into so many groups, convolved separately.
    Returns : Tensor, shape (N, O, Lo) or (O, Lo)
        ``Lo = (L + 2 * padding - dilation * (k - 1) - 1) // stride + 1``.
    RuntimeError: If the shapes do not fit, or the window is longer than the padded sequence.
    ValueError: If `padding` is a word that is not known, or "same" with a stride.

    >>> ag.nn.functional.conv1d(ag.tensor([[1.0, 2.0, 4.0]]), ag.tensor([[[1.0, -1.0]]]))
    tensor([[-1., -2.]])
    """
    weight = as_operand(weight)
    if weight.ndim != 3:
        raise RuntimeError(f"conv1d(): weight must be (out, in / groups, length), got {weight.shape}{errors.called()}")
    result = _convolved(
        "conv1d",
        _rows("conv1d", input),
        manipulation.expand_dims(weight, axis=-2),
        bias,
        (1, _single("conv1d", stride, "stride")),
        padding if isinstance(padding, str) else (0, _single("conv1d", padding, "padding")),
        (1, _single("conv1d", dilation, "dilation")),
        groups,
    )
    return manipulation.squeeze(result, -2)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntOrPair = 1,
    padding: IntOrPair = 0,
    output_padding: IntOrPair = 0,
    groups: int = 1,
    dilation: IntOrPair = 1,
) -> Tensor:
    """The adjoint of `conv2d` in its input, plus a bias: each element puts a window of the filters into the result.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, real.
    weight : Tensor, shape (C, O / groups, kh, kw)
        Filters.
    bias : Tensor, shape (O,), optional
        Added to every output channel.
    stride : int or pair, optional
        Steps between the windows in the result.
    padding : int or pair, optional
        Rows and columns cut off at every side of the result.
    output_padding : int or pair, optional
        Rows and columns put back at the bottom and right; less than the stride.
    groups : int, optional
        Input and output channels are cut into so many groups.
    dilation : int or pair, optional
        Steps between the elements of a window.
    Returns : Tensor, shape (N, O, Ho, Wo) or (O, Ho, Wo)
        ``Ho = (H - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1``, `Wo` likewise.
    RuntimeError: If shapes or dtypes do not fit, `output_padding` is not below the stride, or nothing would be left.

    >>> x, w = ag.tensor([[[1.0, 2.0]]]), ag.ones((1, 1, 1, 2))
    >>> ag.nn.functional.conv_transpose2d(x, w)
    tensor([[[1., 3., 2.]]])
    """
    name = "conv_transpose2d"
    input, single = _images(name, input)
    weight = as_operand(weight)
    steps, spread = _pair(name, stride, "stride"), _pair(name, dilation, "dilation")
    cut, more = _pair(name, padding, "padding"), _pair(name, output_padding, "output_padding")
    shape, filters = input.shape, weight.shape
    if len(filters) != 4:
        raise RuntimeError(
            f"{name}(): weight must be (in, out / groups, height, width), got {filters}{errors.called()}"
        )
    if groups < 1 or shape[1] != filters[0] or filters[0] % groups:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(filters)}, expected input{list(shape)} to have {filters[0]}"
            f" channels, but got {shape[1]} channels instead\n  {name}() also needs them to be a multiple of"
            f" groups={groups}.{errors.called()}"
        )
    channels = filters[1] * groups
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(filters)}, expected bias to be 1-dimensional with {channels}"
            f" elements, but got bias of size {list(bias.shape)} instead\n  in {name}().{errors.called()}"
        )
    _check_real_filters(name, input, weight)
    if min(*steps, *spread, *filters[2:]) < 1 or min(*cut, *more) < 0:
        raise ValueError(
            f"{name}(): kernel size, stride and dilation must be positive and paddings not negative; got"
            f" {tuple(filters[2:])}, {steps}, {spread}, {cut} and {more}{errors.called()}"
        )
    if any(m >= s for m, s in zip(more, steps, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than stride, but got output_padding={more} and stride={steps}\n  in"
            f" {name}().{errors.called()}"
        )
    size = [(shape[2 + a] - 1) * steps[a] - 2 * cut[a] + spread[a] * (filters[2 + a] - 1) + more[a] + 1 for a in (0, 1)]
    if min(size) < 1:
        raise RuntimeError(
            f"Given input size per channel: ({shape[2]} x {shape[3]}). Calculated output size per channel: ({size[0]} x"
            f" {size[1]}). Output size is too small\n  in {name}().{errors.called()}"
        )
    sides = (cut[0], cut[0]), (cut[1], cut[1])
    result = ops.conv2d_input(input, weight, (size[0], size[1]), steps, sides, spread, groups)
    if bias is not None:
        result = result + _along(bias, 1, 4)
    return _back(result, single)


def _padding_by_name(
    name: str, padding: str, kernel: Sequence[int], stride: tuple[int, int], dilation: tuple[int, int]
) -> ops.Padding:
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding != "same":
        raise ValueError(f"Invalid padding string: '{padding}'\n  {name}() knows 'valid' and 'same'.{errors.called()}")
    if stride != (1, 1):
        raise ValueError(f"padding='same' is not supported for strided convolutions{errors.called()}")
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return (total[0] // 2, total[0] - total[0] // 2), (total[1] // 2, total[1] - total[1] // 2)


def _pool_arguments(
    name: str, shape: tuple[int, ...], kernel_size: IntOrPair, stride: IntOrPair | None, padding: IntOrPair
) -> tuple[tuple[int, int], tuple[int, int], ops.Padding]:
    kernel = _pair(name, kernel_size, "kernel_size")
    steps = kernel if stride is None else _pair(name, stride, "stride")
    down, across = _pair(name, padding, "padding")
    if down > kernel[0] // 2 or across > kernel[1] // 2:
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got pad={(down, across)},"
            f" kernel_size={kernel}\n  in {name}(), input {tuple(shape)}.{errors.called()}"
        )
    return kernel, steps, ((down, down), (across, across))


def max_pool2d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    dilation: IntOrPair = 1,
) -> Tensor:
    """The largest element of each window.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, real floating point.
    kernel_size: Height and width of a window.
    stride: Steps between windows. Default: `kernel_size`.
    padding: Minus infinity put around the images, at most half a window.
    dilation: Steps between the elements of a window.
    Returns : Tensor, shape (N, C, Ho, Wo) or (C, Ho, Wo)
        The gradient goes to the first of equal elements, row by row.
    RuntimeError: If the window is larger than the padded image, or the padding than half the window.

    >>> ag.nn.functional.max_pool2d(ag.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """
    input, single = _images("max_pool2d", input)
    if not input.is_floating_point():
        raise TypeError(f"max_pool2d() takes real floating point images, not {input.dtype}{errors.called()}")
    kernel, steps, sides = _pool_arguments("max_pool2d", input.shape, kernel_size, stride, padding)
    spread = _pair("max_pool2d", dilation, "dilation")
    _check_windows("max_pool2d", input.shape, kernel, steps, sides, spread)
    return _back(ops.max_pool2d(input, kernel, steps, sides, spread), single)


def avg_pool2d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    *,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images.
    kernel_size: Height and width of a window.
    stride: Steps between windows. Default: `kernel_size`.
    padding: Zeros put around the images, at most half a window.
    count_include_pad : bool, optional
        Whether those zeros count in the mean.
    Returns : Tensor, shape (N, C, Ho, Wo) or (C, Ho, Wo)
    RuntimeError: If the window is larger than the padded image, or the padding than half the window.
    TypeError: If the images are of integers or truth values.

    >>> ag.nn.functional.avg_pool2d(ag.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5000]]])
    """
    input, single = _images("avg_pool2d", input)
    if not input._spec.inexact:
        raise TypeError(f"avg_pool2d() takes floating point images, not {input.dtype}{errors.called()}")
    kernel, steps, sides = _pool_arguments("avg_pool2d", input.shape, kernel_size, stride, padding)
    _check_windows("avg_pool2d", input.shape, kernel, steps, sides, (1, 1))
    return _back(ops.avg_pool2d(input, kernel, steps, sides, count_include_pad), single)


def max_pool1d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    dilation: IntOrPair = 1,
) -> Tensor:
    """The largest element of each window of a sequence.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, real floating point.
    kernel_size : int
        Length of a window.
    stride : int, optional
        Steps between windows. Default: `kernel_size`.
    padding : int, optional
        Minus infinity put before and after, at most half a window.
    dilation : int, optional
        Steps between the elements of a window.
    Returns : Tensor, shape (N, C, Lo) or (C, Lo)
        The gradient goes to the first of equal elements.
    RuntimeError: If the window is longer than the padded sequence, or the padding than half the window.

    >>> ag.nn.functional.max_pool1d(ag.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    rows, (kernel, steps, sides, spread) = (
        _rows("max_pool1d", input),
        _in_rows("max_pool1d", kernel_size, stride, padding, dilation),
    )
    return manipulation.squeeze(max_pool2d(rows, kernel, steps, sides, spread), -2)


def avg_pool1d(
    input: Any,
    kernel_size: IntOrPair,
    stride: IntOrPair | None = None,
    padding: IntOrPair = 0,
    *,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of a sequence.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences.
    kernel_size : int
        Length of a window.
    stride : int, optional
        Steps between windows. Default: `kernel_size`.
    padding : int, optional
        Zeros put before and after, at most half a window.
    count_include_pad : bool, optional
        Whether those zeros count in the mean.
    Returns : Tensor, shape (N, C, Lo) or (C, Lo)
    RuntimeError: If the window is longer than the padded sequence, or the padding than half the window.
    TypeError: If the sequences are of integers or truth values.

    >>> ag.nn.functional.avg_pool1d(ag.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    rows, (kernel, steps, sides, _) = (
        _rows("avg_pool1d", input),
        _in_rows("avg_pool1d", kernel_size, stride, padding, 1),
    )
    return manipulation.squeeze(avg_pool2d(rows, kernel, steps, sides, count_include_pad=count_include_pad), -2)


def _in_rows(
    name: str, kernel_size: IntOrPair, stride: IntOrPair | None, padding: IntOrPair, dilation: IntOrPair
) -> tuple[tuple[int, int], ...]:
    """Return the arguments of pooling over sequences as those over images of one row."""
    kernel = _single(name, kernel_size, "kernel_size")
    step = kernel if stride is None else _single(name, stride, "stride")
    return (1, kernel), (1, step), (0, _single(name, padding, "padding")), (1, _single(name, dilation, "dilation"))


def adaptive_avg_pool2d(input: Any, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of windows chosen so that the result has a given size.

    Window `i` of `n` along an axis of length `L` goes from ``floor(i * L / n)`` to before ``ceil((i + 1) * L / n)``.

    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Images, floating point.
    output_size : int or pair
        Height and width of the result; None for that of the image.
    Returns: Shape (N, C, *output_size), or (C, *output_size) for one image.
    TypeError: If the images are of integers or truth values.
    ValueError: If a size is not positive.

    >>> ag.nn.functional.adaptive_avg_pool2d(ag.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 1)
    tensor([[[4.]]])
    """
    return _adaptive("adaptive_avg_pool2d", input, output_size)


def adaptive_avg_pool1d(input: Any, output_size: int) -> Tensor:
    """The mean of windows chosen so that the result has a given length; see `adaptive_avg_pool2d`.

    input : Tensor, shape (N, C, L) or (C, L)
        Sequences, floating point.
    output_size : int
        The length of the result.
    Returns: Shape (N, C, output_size), or (C, output_size) for one sequence.
    TypeError: If the sequences are of integers or truth values.
    ValueError: If the size is not positive.

    >>> ag.nn.functional.adaptive_avg_pool1d(ag.tensor([[1.0, 2.0, 6.0]]), 2)
    tensor([[1.5000, 4.0000]])
    """
    rows = _rows("adaptive_avg_pool1d", input)
    return manipulation.squeeze(_adaptive("adaptive_avg_pool1d", rows, (1, output_size)), -2)


def _adaptive(name: str, input: Any, output_size: int | Sequence[int | None] | None) -> Tensor:
    images, single = _images(name, input)
    if not images._spec.inexact:
        raise TypeError(f"{name}() takes floating point images, not {images.dtype}{errors.called()}")
    wanted = (output_size, output_size) if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != 2 or any(n is not None and n < 1 for n in wanted):
        raise ValueError(f"{name}(): output_size must be positive, not {output_size!r}{errors.called()}")
    h, w = images.shape[2:]
    height, width = (size if n is None else n for n, size in zip(wanted, (h, w), strict=True))
    if h % height == 0 and w % width == 0:
        return _back(avg_pool2d(images, (h // height, w // width)), single)
    # the mean over a rectangle is the mean down of the means across: one matrix product for each
    across = _windows_matrix(w, width, images)
    down = _windows_matrix(h, height, images)
    return _back(down @ (images @ across.mT), single)


def _windows_matrix(length: int, parts: int, like: Tensor) -> Tensor:
    """Return the matrix, shape (parts, length), that takes the means of adaptive windows."""
    rows = []
    for i in range(parts):
        start, stop = i * length // parts, -(-(i + 1) * length // parts)
        rows.append([1 / (stop - start) if start <= j < stop else 0.0 for j in range(length)])
    return asarray(rows, dtype=like.dtype, device=like.device)


# -- attention ----------------------------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """``softmax(query @ key.mT * scale + attn_mask) @ value`` (Vaswani et al. 2017, equation 1).

    query : Tensor, shape (..., L, E)
        Real floating point.
    key : Tensor, shape (..., S, E)
        What the queries are compared with.
    value : Tensor, shape (..., S, Ev)
        What is averaged.
    attn_mask : Tensor, shape broadcast to (..., L, S), optional
        Added to the scores; or truth values: False hides a key from a query. A query from which all keys are hidden gives
        zeros.
    dropout_p : float, optional
        The probability with which a weight is zeroed, as in `dropout`; not only in training.
    is_causal : bool, optional
        Query `i` sees keys 0 to `i` only.
    scale : float, optional
        Default: 1 / sqrt(E).
    Returns : Tensor, shape (..., L, Ev)
    RuntimeError: If the shapes do not fit, or `attn_mask` and `is_causal` are both given.
    TypeError: If the operands are not real floating point.
    Where there are more than four million weights they are worked out for some queries at a time, and again in the backward
    pass, for which one number per query is kept (with dropout also a truth value per weight). Fewer, and those of lazy
    backends, are kept.

    >>> q = ag.tensor([[0.0, 0.0]])
    >>> ag.nn.functional.scaled_dot_product_attention(q, ag.ones((2, 2)), ag.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    name = "scaled_dot_product_attention"
    query, key, value = as_operand(query), as_operand(key), as_operand(value)
    for operand in (query, key, value):
        _check_real(name, operand)
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 2 or (
        _differs(query.shape[-1], key.shape[-1]) or _differs(key.shape[-2], value.shape[-2])
    ):
        raise RuntimeError(
            f"{name}() takes query (..., L, E), key (..., S, E) and value (..., S, Ev), got {shapes}{errors.called()}"
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            f"{name}: Explicit attn_mask should not be set when is_causal=True\n  got {shapes}.{errors.called()}"
        )
    _check_probability(name, "dropout_p", dropout_p)
    query = query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    mask = seen = kept = None
    if attn_mask is not None:
        attn_mask = as_operand(attn_mask)
        if attn_mask.ndim < 2:
            attn_mask = manipulation.reshape(attn_mask, (1, -1))
        mask, seen = (None, attn_mask) if attn_mask._spec.backend.kind(attn_mask.dtype) == "bool" else (attn_mask, None)
    lazy = query._spec.backend.is_lazy
    if dropout_p or not lazy:
        stacks = (tuple(x.shape[:-2]) for x in (query, key, attn_mask) if x is not None)
        scores = *manipulation.broadcast_shapes(*stacks), query.shape[-2], key.shape[-2]
    if dropout_p:
        kept = _kept(query, scores, dropout_p)
    block = None if lazy or math.prod(scores) <= SCORES else max(1, SCORES * scores[-2] // math.prod(scores))
    result = ops.attention(query, key, value, mask, seen, kept, is_causal, block)
    return result * (0.0 if dropout_p == 1 else 1 / (1 - dropout_p)) if dropout_p else result


#: How many scores of queries with keys are held at a time, and up to how many weights are kept for backward: fewer take
#: less time to keep than to work out again. A lazy backend has its chunks.
SCORES = 1 << 22


def _weighted(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Return what `scaled_dot_product_attention` does, and the weights."""
    scores = linalg.matmul(query * (1 / math.sqrt(query.shape[-1])), key.mT)
    weights = ops.softmax(scores, axis=-1) if mask is None else _masked_softmax(scores, mask)
    weights = dropout(weights, dropout_p)
    return linalg.matmul(weights, value), weights


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax of scores, those that are hidden 0; a row of hidden ones is 0 and has the derivative 0."""
    if mask._spec.backend.kind(mask.dtype) == "bool":
        seen, scores = mask, searching.where(mask, scores, -math.inf)
    else:
        scores = scores + mask
        seen = scores.detach() > -math.inf
    some = statistical.any(seen, axis=-1, keepdims=True)
    return searching.where(some, ops.softmax(searching.where(some, scores, 0.0), axis=-1), 0.0)


# -- losses -------------------------------------------------------------------------------------------------------------


def _warn_of_sizes(name: str, input: Any, target: Any) -> None:
    given, wanted = _shape(name, "input", input), _shape(name, "target", target)
    if given != wanted:
        warnings.warn(
            f"Using a target size ({wanted}) that is different to the input size ({given})."
            " This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
            f" ({name})",
            UserWarning,
            stacklevel=3,
        )
        manipulation.broadcast_shapes(tuple(input.shape), tuple(target.shape))


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Squared difference.

    input, target: Real, of one shape; differing shapes broadcast, with PyTorch's warning.
    reduction: What to do with the values.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is not known.

    >>> ag.nn.functional.mse_loss(ag.tensor([1.0, 3.0]), ag.tensor([1.0, 1.0]))
    tensor(2.)
    """
    _warn_of_sizes("mse_loss", input, target)
    return ops.mse_loss(input, target, _checked_reduction("mse_loss", reduction))


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Absolute difference; the derivative at 0 is 0.

    input, target: Of one shape; differing shapes broadcast, with PyTorch's warning.
    reduction: What to do with the values.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is not known.

    >>> ag.nn.functional.l1_loss(ag.tensor([1.0, 4.0]), ag.tensor([1.0, 1.0]))
    tensor(1.5000)
    """
    _warn_of_sizes("l1_loss", input, target)
    return ops.l1_loss(input, target, _checked_reduction("l1_loss", reduction))


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared difference up to `delta`, and `delta` times (difference - delta / 2) beyond (Huber 1964).

    input, target: Real, of one shape; differing shapes broadcast, with PyTorch's warning.
    reduction: What to do with the values.
    delta : float, optional
        Where the parabola ends; positive.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is not known or `delta` not positive.

    >>> ag.nn.functional.huber_loss(ag.tensor([1.0, 4.0]), ag.tensor([0.0, 0.0]), "none")
    tensor([0.5000, 3.5000])
    """
    _warn_of_sizes("huber_loss", input, target)
    check_number("huber_loss", "delta", delta)
    if delta <= 0:
        raise ValueError(f"huber_loss does not support non-positive values for delta, got {delta}.{errors.called()}")
    return _huber("huber_loss", input, target, reduction, delta, 1.0)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """The absolute difference less ``beta / 2``, and a parabola below `beta` (Girshick 2015): `huber_loss` over `beta`.

    input, target: Real, of one shape; differing shapes broadcast, with PyTorch's warning.
    reduction: What to do with the values.
    beta : float, optional
        Where the parabola ends; 0 gives `l1_loss`.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is not known or `beta` negative.

    >>> ag.nn.functional.smooth_l1_loss(ag.tensor([1.0, 4.0]), ag.tensor([0.0, 0.0]), "none", beta=2.0)
    tensor([0.2500, 3.0000])
    """
    _warn_of_sizes("smooth_l1_loss", input, target)
    check_number("smooth_l1_loss", "beta", beta)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss does not support negative values for beta, got {beta}.{errors.called()}")
    if beta == 0:
        return ops.l1_loss(input, target, _checked_reduction("smooth_l1_loss", reduction))
    return _huber("smooth_l1_loss", input, target, reduction, beta, 1 / beta)


def _huber(name: str, input: Any, target: Any, reduction: str, delta: float, scale: float) -> Tensor:
    difference = as_operand(input) - as_operand(target)
    if difference.is_complex():
        raise TypeError(f"{name}() takes real operands, not {difference.dtype}{errors.called()}")
    # d**2 / 2 within, delta * (abs(d) - delta / 2) beyond: both are w * (d - w / 2)
    within = elementwise.clip(difference, -delta, delta)
    values = within * (difference - 0.5 * within)
    values = values if scale == 1 else values * scale
    reduced: Tensor = ops.reduced(values._spec.backend.functions, values, _checked_reduction(name, reduction))
    return reduced


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target * (log(target) - input)``: the Kullback-Leibler divergence of log-probabilities from a target.

    input: Log-probabilities, any shape, real.
    target: Probabilities, or their logarithms; of the shape of `input`, or broadcast.
    reduction : {"mean", "batchmean", "sum", "none"}, optional
        What to do with the values. "mean" is over all elements, as in PyTorch; "batchmean", the sum over the length of the
        first axis, is the divergence.
    log_target : bool, optional
        Whether `target` is logarithms.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is not known.

    >>> p, q = ag.tensor([0.5, 0.5]), ag.tensor([0.25, 0.75])
    >>> ag.nn.functional.kl_div(ag.log(q), p, "sum")
    tensor(0.1438)
    """
    input, target = as_operand(input), as_operand(target)
    if reduction != "batchmean":
        _checked_reduction("kl_div", reduction)
    values = elementwise.exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    kind = "sum" if reduction == "batchmean" else reduction
    reduced: Tensor = ops.reduced(values._spec.backend.functions, values, kind)
    return reduced / input.shape[0] if reduction == "batchmean" and input.ndim else reduced


def _check_classes(name: str, input: Any, target: Any, weight: Any) -> None:
    """Refuse class indices that do not belong to the input, and weights that ask for a gradient."""
    shape = _shape(name, "input", input)
    if not shape:
        raise RuntimeError(f"{name}(): expected input (N, C, ...) or (C,), got a 0-d tensor{errors.called()}")
    axis = ops.class_axis(len(shape))
    wanted = shape[:axis] + shape[axis + 1 :]
    got = tuple(target.shape)
    if len(got) != len(wanted) or any(map(_differs, got, wanted)):
        if len(shape) > 1 and got and len(got) == len(wanted) and _differs(got[0], wanted[0]):
            message = f"Expected input batch_size ({shape[0]}) to match target batch_size ({got[0]})."
            raise ValueError(f"{message}\n  {name}(): input {shape}, target {got}.{errors.called()}")
        raise ValueError(
            f"Expected target size {list(wanted)}, got {list(got)}\n  {name}(): input {shape} has {shape[axis]} classes"
            f" along axis {axis}.{errors.called()}"
        )
    if weight is not None:
        if tuple(weight.shape) != (shape[axis],):
            raise RuntimeError(
                f"weight tensor should be defined either for all {shape[axis]} classes or no classes but got weight"
                f" tensor of shape: {list(weight.shape)}\n  in {name}().{errors.called()}"
            )
        if isinstance(weight, Tensor) and weight.requires_grad:
            raise RuntimeError(f"the derivative for 'weight' is not implemented\n  in {name}().{errors.called()}")


def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of the target class.

    input : Tensor, shape (N, C), (C,) or (N, C, d1, ...)
        Log-probabilities of C classes, real.
    target : Tensor, shape (N,), () or (N, d1, ...)
        Class indices, integers.
    weight : Tensor, shape (C,), optional
        A weight per class; "mean" then divides by the sum of the weights of the targets. It gets no gradient.
    ignore_index: Targets of this value do not count.
    reduction: What to do with the values.
    Returns: A number; for "none", of the shape of `target`.
    ValueError: If the shapes do not fit or `reduction` is not known.
    IndexError: If a target is no class (on NumPy; elsewhere, where looking would wait for the device, the loss is NaN).

    >>> ag.nn.functional.nll_loss(ag.tensor([[-0.5, -1.5]]), ag.tensor([1]))
    tensor(1.5000)
    """
    target = as_operand(target)
    _check_classes("nll_loss", input, target, weight)
    return ops.nll_loss(input, target, weight, ignore_index, _checked_reduction("nll_loss", reduction))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of the softmax of `input` and a target, given as class indices or as probabilities.

    input : Tensor, shape (N, C), (C,) or (N, C, d1, ...)
        Logits of C classes, real.
    target: Class indices: integers, of the shape of `input` without the axis of the classes. Or probabilities: floating
        point, of the shape of `input`.
    weight : Tensor, shape (C,), optional
        A weight per class. For class indices "mean" divides by the sum of the weights of the targets. No gradient.
    ignore_index: Class indices of this value do not count.
    reduction: What to do with the values.
    label_smoothing : float, optional
        The share of the target that is spread evenly over all classes (Szegedy et al. 2015), from 0 to 1.
    Returns: A number; for "none", of the shape of the class indices.
    ValueError: If the shapes do not fit or an option is not known.
    IndexError: If a target is no class (on NumPy; elsewhere, where looking would wait for the device, the loss is NaN).

    >>> logits = ag.tensor([[2.0, 0.0], [0.0, 2.0]], requires_grad=True)
    >>> loss = ag.nn.functional.cross_entropy(logits, ag.tensor([0, 1]))
    >>> loss
    tensor(0.1269, grad_fn=<CrossEntropyBackward0>)
    >>> loss.backward()
    >>> logits.grad
    tensor([[-0.0596,  0.0596],
            [ 0.0596, -0.0596]])
    """
    target = as_operand(target)
    _checked_reduction("cross_entropy", reduction)
    if target._spec.inexact:
        return _soft_cross_entropy(as_operand(input), target, weight, reduction, label_smoothing)
    _check_classes("cross_entropy", input, target, weight)
    if not isinstance(label_smoothing, Tensor) and not label_smoothing:
        return ops.cross_entropy(input, target, weight, ignore_index, reduction)
    _check_smoothing(label_smoothing)
    input = as_operand(input)
    axis = ops.class_axis(input.ndim)
    logs = ops.log_softmax(input, axis=axis)
    sharp = ops.nll_loss(logs, target, weight, ignore_index, reduction)
    counted = elementwise.not_equal(target, ignore_index)
    weighted = logs if weight is None else logs * _along(weight, axis, input.ndim)
    spread = -statistical.sum(weighted, axis=axis)
    # what is ignored counts 0, also where its logits are infinite
    spread = searching.where(counted, spread, astype(counted, input.dtype))
    if reduction != "none":
        spread = statistical.sum(spread)
    if reduction == "mean":
        # minus the sum of the losses of log-probabilities -1 is the sum of the weights that count
        ones = elementwise.multiply(logs.detach(), 0.0) - 1.0
        total = ops.nll_loss(ones, target, weight, ignore_index, "sum")
        spread = spread / searching.where(elementwise.equal(total, 0), math.nan, total)
    smoothed: Tensor = (1 - label_smoothing) * sharp + (label_smoothing / input.shape[axis]) * spread
    return smoothed


def _check_smoothing(label_smoothing: float) -> None:
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}\n  in cross_entropy().{errors.called()}"
        )


def _along(weight: Any, axis: int, rank: int) -> Tensor:
    return manipulation.reshape(as_operand(weight), tuple(-1 if i == axis else 1 for i in range(rank)))


def _soft_cross_entropy(input: Tensor, target: Tensor, weight: Any, reduction: str, label_smoothing: float) -> Tensor:
    """Cross entropy against probabilities."""
    if input.shape != target.shape:
        raise ValueError(
            f"Expected floating point type for target with class probabilities to have the shape of the input,"
            f" {list(input.shape)}, got {list(target.shape)}\n  in cross_entropy(); class indices are integers.{errors.called()}"
        )
    _check_smoothing(label_smoothing)
    axis = ops.class_axis(input.ndim)
    if isinstance(label_smoothing, Tensor) or label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    logs = ops.log_softmax(input, axis=axis)
    if weight is not None:
        logs = logs * _along(weight, axis, input.ndim)
    values = -statistical.sum(logs * target, axis=axis)
    reduced: Tensor = ops.reduced(values._spec.backend.functions, values, reduction)
    return reduced


def _check_same(name: str, input: Any, target: Any) -> None:
    given, wanted = _shape(name, "target", target), _shape(name, "input", input)
    if given != wanted:
        raise ValueError(
            f"Target size ({given}) must be the same as input size ({wanted})\n  in {name}().{errors.called()}"
        )


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))``.

    The logarithms are limited to -100, as in PyTorch. `binary_cross_entropy_with_logits` is more accurate.

    input: Probabilities, any shape.
    target: Probabilities, of the shape of `input`.
    weight : Tensor, optional
        A weight per element, broadcast.
    reduction: What to do with the values.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If the shapes differ or `reduction` is not known.
    RuntimeError: If `input` is outside [0, 1] (not checked on lazy backends, where looking would compute).

    >>> ag.nn.functional.binary_cross_entropy(ag.tensor([0.5, 0.5]), ag.tensor([1.0, 0.0]))
    tensor(0.6931)
    """
    input, target = as_operand(input), as_operand(target)
    _check_same("binary_cross_entropy", input, target)
    if (
        may_look(input._spec.backend)
        and input.size
        and not (statistical.min(input.detach()) >= 0 and statistical.max(input.detach()) <= 1)
    ):
        raise RuntimeError(
            "all elements of input should be between 0 and 1\n  in binary_cross_entropy()." + errors.called()
        )
    return ops.binary_cross_entropy(input, target, weight, _checked_reduction("binary_cross_entropy", reduction))


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)`` and a target, without overflow or cancellation.

    input: Logits, any shape.
    target: Probabilities, of the shape of `input`.
    weight : Tensor, optional
        A weight per element, broadcast.
    reduction: What to do with the values.
    pos_weight : Tensor, optional
        A weight of the positive part, ``target * log(sigmoid(input))``, broadcast.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If the shapes differ or `reduction` is not known.

    >>> z = ag.tensor([0.0, 2.0], requires_grad=True)
    >>> ag.nn.functional.binary_cross_entropy_with_logits(z, ag.tensor([1.0, 0.0]))
    tensor(1.4100, grad_fn=<BinaryCrossEntropyWithLogitsBackward0>)
    """
    _check_same("binary_cross_entropy_with_logits", input, target)
    _checked_reduction("binary_cross_entropy_with_logits", reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


_complete(
    globals(),
    {
        "dilation": "int or pair, optional\n    Steps between the elements of a window.",
        "eps": "float, optional",
        "ignore_index": "int, optional",
        "inplace": "bool, optional\n    Give `input` itself, with the new value.",
        "input": "Tensor\n    Any shape, real.",
        "kernel_size": "int or pair\n    Height and width of a window.",
        "p": "float, optional",
        "padding": "int or pair, optional",
        "reduction": '{"mean", "sum", "none"}, optional\n    What to do with the values.',
        "stride": "int or pair, optional\n    Steps between windows. Default: `kernel_size`.",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
