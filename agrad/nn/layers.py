"""Layers: functions of ``nn.functional`` as modules, with PyTorch's arguments and initial values."""

from __future__ import annotations

import math
from typing import Any

from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn import init
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.ops.creation import empty, ones, zeros
from agrad.random import randn

IntOrPair = int | tuple[int, int]


def _pair(value: IntOrPair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis before and after.
    bias : bool, optional
        Whether there is one.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (out_features, in_features), uniform on ±1/sqrt(in_features).
    bias : Parameter or None
        Shape (out_features,), likewise.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Linear(3, 2)(ag.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        self.bias = Parameter(empty((out_features,), device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Conv2d(Module):
    """Convolution of images (n, channels, height, width).

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after; both are multiples of `groups`.
    kernel_size, stride, dilation : int or pair, optional
        Of the windows.
    padding : int, pair, "same" or "valid", optional
        Zeros around the images.
    groups : int, optional
        Channels are connected within groups only.
    bias : bool, optional
        Whether there is one.
    device, dtype : optional
        Of the parameters.

    Raises
    ------
    ValueError
        If the channels are no multiples of `groups`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrPair,
        stride: IntOrPair = 1,
        padding: IntOrPair | str = 0,
        dilation: IntOrPair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                message = f"{name} must be divisible by groups"
                raise ValueError(message)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = _pair(kernel_size), _pair(stride), _pair(dilation)
        self.padding = padding
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.bias = Parameter(empty((out_channels,), device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        return text + (f", padding={self.padding!r}" if self.padding else "")


class LayerNorm(Module):
    """Normalisation over the last axes (Ba, Kiros & Hinton 2016).

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The lengths of those axes.
    eps : float, optional
        Added to the variance.
    elementwise_affine, bias : bool, optional
        Whether the result is scaled, and shifted.
    device, dtype : optional
        Of the parameters.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        shape = self.normalized_shape
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape, device=device, dtype=dtype)) if elementwise_affine and bias else None

    def forward(self, input: Any) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class Embedding(Module):
    """A table of vectors, looked up by integers.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table and their length.
    padding_idx : int, optional
        A row of zeros that is not trained.
    device, dtype : optional
        Of the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        table = randn(num_embeddings, embedding_dim, device=device, dtype=dtype)
        if padding_idx is not None:
            table[padding_idx] = 0.0
        self.weight = Parameter(table)

    def forward(self, input: Any) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Dropout(Module):
    """Zeros a share `p` of the elements while training, and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            message = f"dropout probability has to be between 0 and 1, but got {p}"
            raise ValueError(message)
        self.p = p

    def forward(self, input: Any) -> Tensor:
        return F.dropout(input, self.p, training=self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, input: Any) -> Tensor:
        return F.relu(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Any) -> Tensor:
        return F.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Any) -> Tensor:
        return F.sigmoid(input)


class SiLU(Module):
    """``x * sigmoid(x)``."""

    def forward(self, input: Any) -> Tensor:
        return F.silu(input)


class GELU(Module):
    """``x`` times the normal distribution function of `x` (Hendrycks & Gimpel 2016)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """``x`` where positive, else `negative_slope` times it."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Tensor:
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, input: Any) -> Tensor:
        return F.elu(input, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class Softplus(Module):
    """``log(1 + exp(x))``."""

    def forward(self, input: Any) -> Tensor:
        return F.softplus(input)


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Module):
    """Exponentials that add up to 1 along an axis."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Identity(Module):
    """The operand itself."""

    def forward(self, input: Any) -> Any:
        return input


class Flatten(Module):
    """Axes from `start_dim` to `end_dim` made one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class MaxPool2d(Module):
    """The largest element of each window of images."""

    def __init__(self, kernel_size: IntOrPair, stride: IntOrPair | None = None, padding: IntOrPair = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, input: Any) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(MaxPool2d):
    """The mean of each window of images."""

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding)
