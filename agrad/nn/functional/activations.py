"""Activations as functions."""

from __future__ import annotations

from typing import Any

from agrad import random
from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import along, put_in_place
from agrad.ops import elementwise, manipulation, searching
from agrad.ops import nn as ops
from agrad.ops.creation import arange
from agrad.ops.data_type import astype, finfo
from agrad.ops.elementwise import tanh
from agrad.ops.extra.activations import sigmoid, softmax


def relu(input: Any, inplace: bool = False) -> Tensor:
    """The positive part, ``max(x, 0)``; the derivative at 0 is 0.

    input: Any shape, real.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.relu(ag.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    result = ops.relu(input)
    return put_in_place(input, result, "relu()") if inplace else result


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, otherwise ``negative_slope * x``; the derivative at 0 is the slope.

    input: Any shape, real.
    negative_slope : float, optional
        The slope below 0.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.leaky_relu(ag.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    result = ops.leaky_relu(input, negative_slope)
    return put_in_place(input, result, "leaky_relu()") if inplace else result


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, otherwise ``alpha * (exp(x) - 1)`` (Clevert et al. 2015).

    input: Any shape, real.
    alpha : float, optional
        Minus the limit at minus infinity, and the derivative at 0.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.elu(ag.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    result = ops.elu(input, alpha)
    return put_in_place(input, result, "elu()") if inplace else result


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` limited to a range; the derivative at the bounds is 0, as in PyTorch.

    input: Any shape, real.
    min_val, max_val : float, optional
        The range.
    Returns: Same shape and dtype as `input`.
    ValueError: If `min_val` is above `max_val`.

    >>> ag.nn.functional.hardtanh(ag.tensor([-2.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(
            f"min_val cannot be greater than max_val: hardtanh() got {min_val} and {max_val}{errors.called()}"
        )
    x = as_operand(input)
    inside = elementwise.logical_and(x > min_val, x < max_val)
    result = searching.where(inside, x, elementwise.clip(x.detach(), min_val, max_val))
    return put_in_place(input, result, "hardtanh()") if inplace else result


def relu6(input: Any, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``; the derivative at 0 and 6 is 0.

    input: Any shape, real.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.relu6(ag.tensor([-2.0, 3.0, 7.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def prelu(input: Any, weight: Any) -> Tensor:
    """``x`` where positive, otherwise ``weight * x`` (He et al. 2015).

    input: Any shape, real.
    weight : Tensor
        One number, or one per entry of axis 1.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.prelu(ag.tensor([-1.0, 2.0]), ag.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    x, weight = as_operand(input), as_operand(weight)
    if weight.size != 1 and x.ndim > 1:
        weight = manipulation.reshape(weight, (-1, *(1,) * (x.ndim - 2)))
    return searching.where(x > 0, x, weight * x)


def selu(input: Any, inplace: bool = False) -> Tensor:
    """`elu`, scaled to preserve mean 0 and variance 1 from layer to layer (Klambauer et al. 2017).

    input: Any shape, real.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.selu(ag.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    result = 1.0507009873554804934193349852946 * ops.elu(input, 1.6732632423543772848170429916717)
    return put_in_place(input, result, "selu()") if inplace else result


def mish(input: Any, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra 2019).

    input: Any shape, real.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.mish(ag.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    result = elementwise.multiply(input, tanh(ops.softplus(input, 1.0, 20.0)))
    return put_in_place(input, result, "mish()") if inplace else result


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
        The sharpness of the bend at 0.
    threshold : float, optional
        Where ``beta * x`` is above it, the result is `x` itself, as in PyTorch.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.softplus(ag.tensor([-1.0, 0.0, 50.0]))
    tensor([ 0.3133,  0.6931, 50.0000])
    """
    return ops.softplus(input, beta, threshold)


def silu(input: Any, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, also called swish (Elfwing et al. 2017).

    input: Any shape, real.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.silu(ag.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.0000,  1.7616])
    """
    result = ops.silu(input)
    return put_in_place(input, result, "silu()") if inplace else result


def logsigmoid(input: Any) -> Tensor:
    """The logarithm of `sigmoid`, without overflow.

    input: Any shape, real.
    Returns: Same shape and dtype as `input`.

    >>> ag.nn.functional.logsigmoid(ag.tensor([-1000.0, 0.0, 2.0]))
    tensor([-1.0000e+03, -6.9315e-01, -1.2693e-01])
    """
    return ops.log_sigmoid(input)


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """`x` times the distribution function of the standard normal at `x` (Hendrycks and Gimpel 2016).

    input: Any shape, real.
    approximate : {"none", "tanh"}, optional
        "none" is accurate to the dtype, in the tail too; "tanh" approximates by a tanh of a cubic.
    Returns: Same shape and dtype as `input`.
    ValueError: If `approximate` is neither.

    >>> ag.nn.functional.gelu(ag.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(
            f"approximate argument must be either none or tanh.\n  gelu() got {approximate!r}.{errors.called()}"
        )
    return ops.gelu(input, approximate)


def gumbel_softmax(
    logits: Any,
    tau: float = 1.0,
    hard: bool = False,
    eps: float = 1e-10,  # noqa: ARG001 (accepted for PyTorch compatibility)
    dim: int = -1,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Sample a class along an axis, smoothed to have a derivative (Jang et al. 2017; Maddison et al. 2017).

    logits : Tensor
        Logarithms of probabilities up to a constant, real.
    tau : float, optional
        The temperature: lower values bring the results closer to 0 and 1.
    hard : bool, optional
        Return exact 0 and 1, with the derivative of the smooth sample.
    eps : float, optional
        Ignored, as in PyTorch.
    dim : int, optional
        The axis of the classes.
    generator : agrad.random.Generator, optional
        The source of random keys. Default: the one that `agrad.manual_seed` seeds.
    Returns: Same shape and dtype as `logits`.

    >>> ag.nn.functional.gumbel_softmax(ag.zeros((5, 3)), hard=True).sum(axis=1)
    tensor([1., 1., 1., 1., 1.])
    """
    x = as_operand(logits)
    drawn = random.rand(tuple(x.shape), dtype=x.dtype, device=x.device, generator=generator)
    drawn = elementwise.clip(drawn, finfo(x.dtype).smallest_normal)  # keeps its logarithm finite
    soft = softmax((x - elementwise.log(-elementwise.log(drawn))) / tau, dim)
    if not hard:
        return soft
    classes = arange(x.shape[dim], device=x.device)
    chosen = searching.argmax(soft, axis=dim, keepdims=True) == along(classes, dim % x.ndim, x.ndim)
    return astype(chosen, x.dtype) - soft.detach() + soft
