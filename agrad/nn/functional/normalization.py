"""Normalisation over axes, channels and batches, and distances between vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agrad.core import errors
from agrad.core.buffers import are_plain, rebind
from agrad.core.materialize import carry
from agrad.core.mode import no_grad
from agrad.core.op import OPS
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import along, check_real, shape_of
from agrad.ops import elementwise, linalg, manipulation, statistical
from agrad.ops import nn as ops
from agrad.ops.data_type import astype, finfo, to_device


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
    Returns: Same shape and dtype as `input`.
    RuntimeError: If the shapes do not match.

    >>> ag.nn.functional.layer_norm(ag.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    input = as_operand(input)
    shape = _normalized("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    result = ops.layer_norm(input, weight, bias, len(shape), eps)
    return result if result._spec.dtype is input._spec.dtype else astype(result, input.dtype, copy=False)


def _normalized(name: str, input: Tensor, normalized_shape: int | Sequence[int], **affine: Any) -> tuple[int, ...]:
    """Return the shape of the last axes, which the operand and its affine parameters must have."""
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
    Returns: Same shape and dtype as `input`.
    RuntimeError: If the shapes do not match.
    TypeError: If `input` is not real floating point.

    >>> ag.nn.functional.rms_norm(ag.tensor([[1.0, 7.0]]), (2,))
    tensor([[0.2000, 1.4000]])
    """
    input = as_operand(input)
    shape = _normalized("rms_norm", input, normalized_shape, weight=weight)
    check_real("rms_norm", input)
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
        The number of groups of adjacent channels; a divisor of C.
    weight, bias : Tensor, shape (C,), optional
        Default: 1 and 0.
    eps: Added to the variance.
    Returns: Same shape and dtype as `input`.
    RuntimeError: If the shapes do not match.
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
    check_real("group_norm", input)
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
        result = result * along(weight, 1, len(size))
    if bias is not None:
        result = result + along(bias, 1, len(size))
    return astype(result, input.dtype, copy=False)


def instance_norm(
    input: Any,
    running_mean: None = None,
    running_var: None = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,  # noqa: ARG001 (PyTorch's place)
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 of every channel of every sample, then an affine map (Ulyanov et al. 2016).

    input: Shape (n, channels, ...), real.
    running_mean, running_var : None, optional
        PyTorch's; running statistics are not kept here.
    use_input_stats : bool, optional
        Only True.
    momentum : float, optional
        Without effect.
    weight, bias : Tensor, optional
        One number per channel.
    eps: Added to the variance.
    Returns: Same shape and dtype as `input`.
    TypeError: If running statistics are passed or requested.
    ValueError: If there is one element per channel and sample, of which the variance is 0.

    >>> ag.nn.functional.instance_norm(ag.tensor([[[1.0, 3.0], [10.0, 30.0]]]), eps=0.0)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise TypeError(
            "instance_norm() takes no running statistics: it normalises every sample by its own\n  To normalise by given"
            f" ones, use batch_norm(input, running_mean, running_var, weight, bias).{errors.called()}"
        )
    size = shape_of("instance_norm", "input", input)
    if math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {list(size)}{errors.called()}"
        )
    return group_norm(input, size[1], weight, bias, eps)


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
        Means and variances per channel of the batches so far. In training they are updated in place if given, with
        the variance with ``n - 1``. Otherwise the input is normalised by them.
    weight, bias : Tensor, shape (C,), optional
        Default: 1 and 0.
    training : bool, optional
        Whether to normalise by the mean and variance of this batch, the one with ``n``.
    momentum : float or 0-d Tensor, optional
        The weight of the new values in the running ones.
    eps: Added to the variance.
    Returns: Same shape and dtype as `input`.
    ValueError: If there is only one value per channel in training.
    RuntimeError: If shapes do not match, or running values are missing outside training.
    TypeError: If `input` is not real floating point.

    >>> ag.nn.functional.batch_norm(ag.tensor([[1.0], [2.0], [3.0]]), None, None, training=True)
    tensor([[-1.2247],
            [ 0.0000],
            [ 1.2247]])
    """
    return counted_batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps, None)


def counted_batch_norm(
    input: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float | Tensor | None,
    eps: float,
    tracked: Tensor | None,
) -> Tensor:
    """`batch_norm` that adds 1 to a number of batches, too; a momentum of None is 1 over that number."""
    input = as_operand(input)
    size = input._spec.shape
    if len(size) < 2:
        raise RuntimeError(f"batch_norm() takes input of shape (N, C, ...), not {tuple(size)}{errors.called()}")
    check_real("batch_norm", input)
    each = size[1:2]
    for i, value in enumerate((running_mean, running_var, weight, bias)):
        if value is None:
            if not training and i < 2:
                name = ("running_mean", "running_var")[i]
                raise RuntimeError(f"{name} must be defined in evaluation mode{errors.called()}")
        elif value.shape != each:
            name = ("running_mean", "running_var", "weight", "bias")[i]
            raise RuntimeError(
                f"{name} should contain {size[1]} elements not {math.prod(value.shape)}\n  batch_norm() takes one per"
                f" channel: axis 1 of input of size {list(size)}.{errors.called()}"
            )
    if training:
        count = math.prod(size[:1] + size[2:])
        if count == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {list(size)}{errors.called()}"
            )
        result, mean, variance, _ = OPS["nn.batch_norm"].whole(input, weight, bias, eps)
        if not _run_on_at_once(running_mean, running_var, tracked, mean, variance, momentum, count):
            with no_grad:
                counted = None if tracked is None else tracked + 1
                if count and (running_mean is not None or running_var is not None):
                    share: Any = momentum
                    if momentum is None and counted is not None and running_mean is not None:
                        share = 1 / counted.to(dtype=running_mean.dtype)
                    kept = 1 - share
                    _run_on(running_mean, kept, share, mean)
                    _run_on(running_var, kept, share * (count / (count - 1)), variance)
                if tracked is not None and counted is not None:
                    _set_on(tracked, counted)
    else:
        each = (1, size[1], *(1,) * (len(size) - 2))
        centred = input - manipulation.reshape(as_operand(running_mean), each)
        scale = 1 / elementwise.sqrt(as_operand(running_var) + eps)
        result = centred * manipulation.reshape(scale if weight is None else scale * weight, each)
        result = result if bias is None else result + manipulation.reshape(as_operand(bias), each)
    return result if result._spec.dtype is input._spec.dtype else astype(result, input.dtype, copy=False)


def _run_on_at_once(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    tracked: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float | Tensor | None,
    count: int,
) -> bool:
    """Update running values and the number of batches as `_run_on` does, all or none, if they are plain; return whether.

    These are few numbers: most of the time of the general way, through operations, is not that of the kernels.
    """
    spec = mean._spec
    if (
        type(momentum) is not float
        or running_mean is None
        or running_var is None
        or tracked is None
        or running_mean._spec is not spec
        or running_var._spec is not spec
        or not count
        or not are_plain((running_mean, running_var, tracked))
    ):
        return False
    number, multiply, add = spec.number, spec.xp.multiply, spec.xp.add
    kept, counts = number(1 - momentum), tracked._spec
    old_mean, old_var, old_count = running_mean._raw, running_var._raw, tracked._raw  # this ends ownerships
    new_mean = add(multiply(kept, old_mean), multiply(number(momentum), mean._raw))
    share = number(momentum * (count / (count - 1)))
    new_var = add(multiply(kept, old_var), multiply(share, variance._raw))
    counted = counts.backend.as_array(counts.xp.add(old_count, counts.number(1)))
    # nothing is called between these assignments, not even to free an array, so no signal handler runs
    running_mean._raw = new_mean
    running_var._raw = new_var
    tracked._raw = counted
    return True


def _run_on(running: Tensor | None, kept: float | Tensor, share: float | Tensor, value: Tensor) -> None:
    """Keep a part of a running value and add a share of a new one."""
    if running is not None:
        if value._spec.device != running._spec.device:
            value = to_device(value, running.device)
        _set_on(running, kept * running + share * value)


def _set_on(running: Tensor, value: Tensor) -> None:
    """Give a running value its new value; a lazy one is computed with the next computation."""
    rebind(running, value, "batch_norm()")
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
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.normalize(ag.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    input = as_operand(input)
    size = elementwise.abs(input)
    varies = isinstance(p, Tensor)  # it may have a derivative, so use the general formula
    if not varies and p == math.inf:
        norm = elementwise.clip(statistical.max(size, axis=dim, keepdims=True), eps)
    elif not varies and p == 1:
        norm = elementwise.clip(statistical.sum(size, axis=dim, keepdims=True), eps)
    else:
        # clamp before the root: below the limit the derivative is then 0, not infinity times 0
        powers = _squared_size(input) if p == 2 else size**p
        total = elementwise.clip(statistical.sum(powers, axis=dim, keepdims=True), eps**p)
        norm = elementwise.sqrt(total) if p == 2 else total ** (1 / p)
    return elementwise.divide(input, norm)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors.

    x1, x2 : Tensor
        Real, of shapes that broadcast.
    dim : int, optional
        The axis of the vectors, of the shape broadcast.
    eps: The least length to divide by.
    Returns: The cosines, without that axis.

    >>> ag.nn.functional.cosine_similarity(ag.tensor([[1.0, 0.0]]), ag.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    if shape_of("cosine_similarity", "x1", x1) != shape_of("cosine_similarity", "x2", x2):
        x1, x2 = manipulation.broadcast_arrays(x1, x2)  # lengths are those of the whole vectors
    return statistical.sum(normalize(x1, 2.0, dim, eps) * normalize(x2, 2.0, dim, eps), axis=dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference of vectors along the last axis, with `eps` added to every element of it.

    x1, x2 : Tensor
        Real, shape (..., features).
    p: Exponent of the norm.
    eps: Prevents a distance of 0 between equal vectors.
    keepdim : bool, optional
        Keep the last axis with length 1.
    Returns: The distances, without the last axis.

    >>> ag.nn.functional.pairwise_distance(ag.tensor([[0.0, 3.0]]), ag.tensor([[4.0, 0.0]]))
    tensor([5.0000])
    """
    return linalg.vector_norm(as_operand(x1) - x2 + eps, axis=-1, keepdims=keepdim, ord=p)
