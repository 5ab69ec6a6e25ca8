"""Initial values of parameters. Each function sets a tensor in place, unrecorded, and gives it back."""

from __future__ import annotations

import math

from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.ops.creation import full_like
from agrad.random import rand_like, randn_like


def _set(tensor: Tensor, value: Tensor) -> Tensor:
    with no_grad:
        tensor.copy_(value)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform on [a, b)."""
    return _set(tensor, rand_like(tensor) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal with a mean and standard deviation."""
    return _set(tensor, randn_like(tensor) * std + mean)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value."""
    return _set(tensor, full_like(tensor, val))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def calculate_gain(nonlinearity: str, param: float = 0.0) -> float:
    """Give the factor by which a nonlinearity shrinks what goes through it.

    Parameters
    ----------
    nonlinearity : {"linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"}
        Its name.
    param : float, optional
        The negative slope of ``leaky_relu``.

    Raises
    ------
    ValueError
        If the name is not known.
    """
    gains = {"linear": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
    gains["leaky_relu"] = math.sqrt(2 / (1 + param**2))
    if nonlinearity not in gains:
        message = f"Unsupported nonlinearity {nonlinearity}"
        raise ValueError(message)
    return gains[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    """How many values go into one element of the result, and out of one of the operand."""
    if tensor.ndim < 2:
        message = "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        raise ValueError(message)
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform on ±gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        message = f"Mode {mode} not supported, please use one of fan_in, fan_out"
        raise ValueError(message)
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Uniform with standard deviation gain / sqrt(fan) (He et al. 2015)."""
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal with standard deviation gain / sqrt(fan) (He et al. 2015)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))
