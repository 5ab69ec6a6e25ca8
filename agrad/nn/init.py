"""Initial values of parameters. Each function sets a tensor in place, unrecorded, and returns it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agrad.core import errors
from agrad.core import names as _names
from agrad.core.buffers import rebind
from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.ops.creation import full
from agrad.ops.decompositions import qr
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import sign
from agrad.ops.linalg import diagonal
from agrad.random import Generator, randn

__all__ = [
    "calculate_gain",
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def _set(tensor: Tensor, value: Tensor, what: str) -> Tensor:
    """Set a tensor in place, unrecorded; if it is the `.data` of another, set that one too."""
    with no_grad:
        rebind(tensor, value, what)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform on [a, b).

    a, b : float, optional
        The bounds.
    Returns: The same object.

    >>> x = ag.nn.init.uniform_(ag.empty((1000,)), -1.0, 1.0)
    >>> bool(ag.all(x >= -1) and ag.all(x < 1))
    True
    """
    with no_grad:
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with a mean and standard deviation."""
    with no_grad:
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value."""
    return _set(tensor, full(tensor.shape, val, dtype=tensor.dtype, device=tensor.device), "constant_()")


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> ag.nn.init.zeros_(ag.nn.Linear(3, 2).bias)
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the gain that compensates for a nonlinearity's shrinking of its input.

    nonlinearity : {"linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"}
        Its name.
    param : float, optional
        The negative slope of ``leaky_relu``. Default: 0.01.
    ValueError: If the name is unknown.

    >>> from agrad.nn.init import calculate_gain
    >>> round(calculate_gain("relu"), 4)
    1.4142
    """
    slope = 0.01 if param is None else param
    gains = {"linear": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
    gains["leaky_relu"] = math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in gains:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}\n  Known are {', '.join(gains)}.")
    return gains[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Return the number of values that enter one element of the result, and that leave one of the operand."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
            f"\n  Its shape is {tensor.shape}. Called at {errors.line_of(*errors.caller())}."
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform on ±gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).

    tensor: Shape (out, in, ...), real floating point.
    ValueError: If the tensor has fewer than two axes.
    """
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator)


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of fan_in, fan_out")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform with standard deviation gain / sqrt(fan): preserves the variance through rectifiers (He et al. 2015).

    tensor: Shape (out, in, ...), real floating point.
    ValueError: If the tensor has fewer than two axes, or an option is unknown.
    """
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Orthogonal rows of length `gain`, or columns if there are fewer of those (Saxe et al. 2013).

    tensor: Two axes or more; those after the first count as one.
    gain: A factor.
    ValueError: If the tensor has fewer than two axes.
    """
    if tensor.ndim < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported{errors.called()}")
    with no_grad:
        rows, columns = int(tensor.shape[0]), math.prod(tensor.shape[1:])
        drawn = randn(
            max(rows, columns), min(rows, columns), dtype=tensor.dtype, device=tensor.device, generator=generator
        )
        q, r = qr(drawn)
        q = q * sign(diagonal(r))
        return _set(tensor, (q.T if rows < columns else q).reshape(tensor.shape) * gain, "orthogonal_()")


_complete(
    globals(),
    {
        "a": "float, optional\n    The negative slope of the rectifier.",
        "gain": "float, optional\n    See `calculate_gain`.",
        "generator": "agrad.random.Generator, optional\n    Where random keys come from. Default: the one of `agrad.manual_seed`.",
        "mean": "float, optional\n    The mean.",
        "mode": '{"fan_in", "fan_out"}, optional\n    Keep the variance of the values, or that of the gradients.',
        "nonlinearity": "str, optional\n    What `calculate_gain` knows.",
        "std": "float, optional\n    The standard deviation.",
        "tensor": "Tensor\n    Real floating point; gets the values, whether or not it requires a gradient.",
        "val": "float\n    The value.",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
