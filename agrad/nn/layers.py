"""Layers: functions of ``nn.functional`` as modules, with PyTorch's arguments and initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from agrad.core.errors import called
from agrad.core.materialize import carry
from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn import init
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.ops.creation import asarray, empty, full, ones, zeros
from agrad.ops.manipulation import expand_dims, squeeze

__all__ = [
    "ELU", "GELU", "GLU", "SELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AvgPool1d", "AvgPool2d", "BatchNorm1d",
    "BatchNorm2d", "Conv1d", "Conv2d", "ConvTranspose2d", "Dropout", "Dropout2d", "Embedding", "Flatten", "GroupNorm",
    "Hardtanh", "Identity", "InstanceNorm1d", "InstanceNorm2d", "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax",
    "MaxPool1d", "MaxPool2d", "Mish", "PReLU", "PixelShuffle", "PixelUnshuffle", "RMSNorm", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softplus", "Tanh", "Unflatten", "Upsample",
]  # fmt: skip

IntOrPair = F.IntOrPair


def _draw(weight: Tensor, bias: Tensor | None) -> None:
    """PyTorch's initial values: uniform on ±1/sqrt(fan_in), which is its ``kaiming_uniform_`` with a slope of sqrt(5)."""
    fan_in = math.prod(weight.shape[1:])
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


def _neutral(weight: Tensor | None, bias: Tensor | None) -> None:
    """Set what scales to ones, and what shifts to zeros."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)


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
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        self.bias = Parameter(empty((out_features,), device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        _draw(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class _Conv(Module):
    """What the convolutions share."""

    #: By how many numbers the size of a window is given, and what the weight's axes before those of the window are.
    axes: int
    transposed = False
    output_padding: tuple[int, ...] = ()

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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups < 1:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups ({groups})")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = self._sizes(kernel_size, "kernel_size")
        self.stride, self.dilation = self._sizes(stride, "stride"), self._sizes(dilation, "dilation")
        self.padding = padding if isinstance(padding, str) else self._sizes(padding, "padding")
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter(empty((first, second // groups, *self.kernel_size), device=device, dtype=dtype))
        self.bias = Parameter(empty((out_channels,), device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def _sizes(self, value: IntOrPair, what: str) -> tuple[int, ...]:
        name = type(self).__name__
        return F._pair(name, value, what) if self.axes == 2 else (F._single(name, value, what),)

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        _draw(self.weight, self.bias)

    def extra_repr(self) -> str:
        zeros_, ones_ = (0,) * self.axes, (1,) * self.axes
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += f", padding={self.padding!r}" if self.padding != zeros_ else ""
        text += f", dilation={self.dilation}" if self.dilation != ones_ else ""
        text += f", output_padding={self.output_padding}" if any(self.output_padding) else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text + ("" if self.bias is not None else ", bias=False")


class Conv1d(_Conv):
    """Convolution of sequences (n, channels, length); see `agrad.nn.functional.conv1d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after; both are multiples of `groups`.
    kernel_size, stride, dilation : int, optional
        Of the windows.
    padding : int, "same" or "valid", optional
        Zeros before and after the sequences.
    groups : int, optional
        Channels are connected within groups only.
    bias : bool, optional
        Whether there is one.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (out_channels, in_channels / groups, k), uniform on ±1/sqrt(in_channels / groups * k).
    bias : Parameter or None
        Shape (out_channels,), likewise.

    Raises
    ------
    ValueError
        If the channels are no multiples of `groups`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Conv1d(1, 4, 3, padding=1)(ag.ones((2, 1, 8))).shape
    (2, 4, 8)
    """

    axes = 1

    def forward(self, input: Any) -> Tensor:
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """Convolution of images (n, channels, height, width); see `agrad.nn.functional.conv2d`.

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

    Attributes
    ----------
    weight : Parameter
        Shape (out_channels, in_channels / groups, kh, kw), uniform on ±1/sqrt(in_channels / groups * kh * kw).
    bias : Parameter or None
        Shape (out_channels,), likewise.

    Raises
    ------
    ValueError
        If the channels are no multiples of `groups`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Conv2d(1, 4, 3, padding=1)(ag.ones((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    axes = 2

    def forward(self, input: Any) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(_Conv):
    """The adjoint of `Conv2d` in its input, plus a bias; see `agrad.nn.functional.conv_transpose2d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after; both are multiples of `groups`.
    kernel_size, stride, dilation : int or pair, optional
        Of the windows, which lie in the result.
    padding, output_padding : int or pair, optional
        Rows and columns cut off at every side of the result, and put back at the bottom and right.
    groups : int, optional
        Channels are connected within groups only.
    bias : bool, optional
        Whether there is one.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (in_channels, out_channels / groups, kh, kw), uniform on ±1/sqrt(out_channels / groups * kh * kw).
    bias : Parameter or None
        Shape (out_channels,), likewise.

    Raises
    ------
    ValueError
        If the channels are no multiples of `groups`, or `padding` is a word.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.ConvTranspose2d(4, 1, 2, stride=2)(ag.ones((2, 4, 4, 4))).shape
    (2, 1, 8, 8)
    """

    axes = 2
    transposed = True
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntOrPair,
        stride: IntOrPair = 1,
        padding: IntOrPair = 0,
        output_padding: IntOrPair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: IntOrPair = 1,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if isinstance(padding, str):
            raise ValueError(f"ConvTranspose2d takes integers as padding, not {padding!r}")  # noqa: TRY004 (a bad value)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, device, dtype)
        self.output_padding = self._sizes(output_padding, "output_padding")

    def forward(self, input: Any) -> Tensor:
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then an affine map (Ba, Kiros & Hinton 2016).

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The lengths of those axes.
    eps : float, optional
        Added to the variance.
    elementwise_affine, bias : bool, optional
        Whether the result is scaled, and shifted.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape `normalized_shape`; ones and zeros at first.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.LayerNorm(3)
    LayerNorm((3,), eps=1e-05, elementwise_affine=True)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape, device=device, dtype=dtype)) if elementwise_affine and bias else None

    def reset_parameters(self) -> None:
        """Set the parameters to ones and zeros again."""
        _neutral(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """Mean square 1 over the last axes, then scaled (Zhang & Sennrich 2019).

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The lengths of those axes.
    eps : float, optional
        Added to the mean square. Default: that of the input's dtype.
    elementwise_affine : bool, optional
        Whether the result is scaled.
    device, dtype : optional
        Of the parameter.

    Attributes
    ----------
    weight : Parameter or None
        Shape `normalized_shape`; ones at first.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.RMSNorm(3)
    RMSNorm((3,), eps=None, elementwise_affine=True)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None

    def reset_parameters(self) -> None:
        """Set the parameter to ones again."""
        _neutral(self.weight, None)

    def forward(self, input: Any) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Mean 0 and variance 1 per example and group of channels, then an affine map (Wu & He 2018).

    Parameters
    ----------
    num_groups : int
        Into how many groups of neighbours the channels are cut.
    num_channels : int
        The channels: axis 1 of (N, C, ...).
    eps : float, optional
        Added to the variance.
    affine : bool, optional
        Whether the result is scaled and shifted.
    device, dtype : optional
        Of the parameters.
    bias : bool, optional
        Whether the result is shifted.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (num_channels,); ones and zeros at first.

    Raises
    ------
    ValueError
        If `num_channels` is no multiple of `num_groups`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.GroupNorm(2, 4)(ag.ones((1, 4, 3, 3))).shape
    (1, 4, 3, 3)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        shape = (num_channels,)
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if affine else None
        self.bias = Parameter(zeros(shape, device=device, dtype=dtype)) if affine and bias else None

    def reset_parameters(self) -> None:
        """Set the parameters to ones and zeros again."""
        _neutral(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _InstanceNorm(Module):
    """What the norms of samples share."""

    axes: tuple[int, int]  # without the batch axis, and with it

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if track_running_stats:
            raise ValueError(
                f"{type(self).__name__} keeps no running statistics: each sample has its own in evaluation too{called()}"
            )
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        self.weight = Parameter(ones((num_features,), device=device, dtype=dtype)) if affine else None
        self.bias = Parameter(zeros((num_features,), device=device, dtype=dtype)) if affine else None

    def reset_parameters(self) -> None:
        """Set the parameters to ones and zeros."""
        _neutral(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.axes:
            raise ValueError(f"expected {self.axes[0]}D or {self.axes[1]}D input (got {input.ndim}D input){called()}")
        if input.ndim == self.axes[0]:
            batch = expand_dims(input, axis=0)
            return squeeze(F.instance_norm(batch, self.weight, self.bias, self.eps), 0)
        return F.instance_norm(input, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" track_running_stats={self.track_running_stats}"
        )


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 of every channel of every sequence, (n, channels, length) or one of them."""

    axes = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 of every channel of every image, (n, channels, height, width) or one of them."""

    axes = (3, 4)


class _BatchNorm(Module):
    """What `BatchNorm1d` and `BatchNorm2d` share."""

    ranks: tuple[int, ...]
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        shape = (num_features,)
        self.weight = Parameter(ones(shape, device=device, dtype=dtype)) if affine else None
        self.bias = Parameter(zeros(shape, device=device, dtype=dtype)) if affine and bias else None
        track = track_running_stats
        self.register_buffer("running_mean", zeros(shape, device=device, dtype=dtype) if track else None)
        self.register_buffer("running_var", ones(shape, device=device, dtype=dtype) if track else None)
        self.register_buffer("num_batches_tracked", zeros((), device=device, dtype="int64") if track else None)

    def reset_running_stats(self) -> None:
        """Set the running values to 0 and 1, and the number of batches to 0, again."""
        if self.running_mean is not None:
            with no_grad:
                self.running_mean.zero_()
                self.running_var.fill_(1.0)
                self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set parameters and running values to what they were at first."""
        self.reset_running_stats()
        _neutral(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        rank = len(input.shape)
        if rank not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {expected} input (got {rank}D input){called()}")
        momentum: Any = self.momentum
        counted = self.num_batches_tracked + 1 if self.training and self.num_batches_tracked is not None else None
        if counted is not None and momentum is None:
            momentum = 1 / counted.to(dtype=self.running_mean.dtype)
        training = self.training or self.running_mean is None
        result = F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, training, momentum, self.eps
        )
        if counted is not None:  # last: a call that fails has counted nothing
            with no_grad:
                self.num_batches_tracked.copy_(counted)
            if self.num_batches_tracked._spec.backend.is_lazy:
                carry(self.num_batches_tracked)
        return result

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 per channel of a batch, then an affine map (Ioffe & Szegedy 2015).

    While training, mean and variance are those of the batch, and running values of both go along; after `eval` the running
    ones are what is normalised by.

    Parameters
    ----------
    num_features : int
        The channels: axis 1 of (N, C) or (N, C, L).
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        What part of the running values those of a batch become; None for the mean of all batches.
    affine : bool, optional
        Whether the result is scaled and shifted.
    track_running_stats : bool, optional
        Whether there are running values; without, each batch is normalised by its own, after `eval` too.
    device, dtype : optional
        Of the parameters and running values.
    bias : bool, optional
        Whether the result is shifted.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (num_features,); ones and zeros at first.
    running_mean, running_var : Tensor or None
        Shape (num_features,); zeros and ones at first. The variance is that with ``n - 1``.
    num_batches_tracked : Tensor or None
        How many batches they have seen, an integer.

    Raises
    ------
    ValueError
        If the input has another rank, or one value per channel while training.

    Examples
    --------
    >>> import agrad as ag
    >>> norm = ag.nn.BatchNorm1d(2)
    >>> norm(ag.tensor([[1.0, 0.0], [3.0, 4.0]]))
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]], grad_fn=<AddBackward0>)
    >>> norm.running_mean
    tensor([0.2000, 0.2000])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 per channel of a batch of images (N, C, H, W), then an affine map; see `BatchNorm1d`.

    Parameters
    ----------
    num_features : int
        The channels.
    eps, momentum, affine, track_running_stats, device, dtype, bias
        As for `BatchNorm1d`.

    Raises
    ------
    ValueError
        If the input has another rank, or one value per channel while training.
    """

    ranks = (4,)


class Embedding(Module):
    """A table of vectors, looked up by integers.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table and their length.
    padding_idx : int, optional
        A row of zeros that is not trained; negative counts from the end.
    device, dtype : optional
        Of the table.

    Attributes
    ----------
    weight : Parameter
        Shape (num_embeddings, embedding_dim), standard normal at first.

    Raises
    ------
    ValueError
        If `padding_idx` is outside the table.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.Embedding(10, 3)(ag.tensor([[1, 2], [4, 9]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"padding_idx must be within num_embeddings: {padding_idx} is outside {num_embeddings} rows"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None) -> Self:
        """Return a table of given vectors, which is not trained unless `freeze` is False.

        Parameters
        ----------
        embeddings : Tensor or array
            Shape (num_embeddings, embedding_dim); the table is a copy of it.
        freeze : bool, optional
            Whether it stays as it is.
        padding_idx : int, optional
            A row that is not trained; it keeps its values.

        Returns
        -------
        Embedding
            The module.

        Raises
        ------
        ValueError
            If `embeddings` is not a matrix, or `padding_idx` outside of it.

        Examples
        --------
        >>> import agrad as ag
        >>> ag.nn.Embedding.from_pretrained(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))(ag.tensor([1]))
        tensor([[3., 4.]])
        """
        values = asarray(embeddings, copy=True).detach()
        if values.ndim != 2:
            raise ValueError(f"Embeddings parameter is expected to be 2-dimensional, not {values.ndim}{called()}")
        rows, length = values.shape
        made = cls(rows, length, padding_idx, device=values.device, dtype=values.dtype)
        made.weight = Parameter(values, requires_grad=not freeze)
        return made

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx, ...] = 0.0

    def forward(self, input: Any) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Dropout(Module):
    """Zeros a share `p` of the elements while training, and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout2d(Dropout):
    """Zeros a share `p` of the channels of (n, channels, ...) while training, and scales the others by 1 / (1 - p)."""

    def forward(self, input: Any) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class ReLU(Module):
    """``max(x, 0)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


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

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


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

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Any) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(Module):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ReLU6(Module):
    """``min(max(x, 0), 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        return F.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Hardtanh(Module):
    """The operand limited to the range from `min_val` to `max_val`."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """``x`` where positive, else a learned `weight` times it: one number, or one per entry of axis 1."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Any) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class SELU(Module):
    """`ELU`, scaled so that mean 0 and variance 1 are kept from layer to layer."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Mish(Module):
    """``x * tanh(softplus(x))``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class GLU(Module):
    """The first half along an axis times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, and `x` where ``beta * x`` is above `threshold`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Module):
    """Exponentials that add up to 1 along an axis."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Identity(Module):
    """The operand itself; takes and forgets any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

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


class Unflatten(Module):
    """An axis made several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """Channels laid out as pixels; see `agrad.nn.functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of `PixelShuffle`; see `agrad.nn.functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class Upsample(Module):
    """Sequences, images or volumes made larger; see `agrad.nn.functional.interpolate`."""

    def __init__(
        self,
        size: IntOrPair | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, input: Any) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        how = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"


class _MaxPool(Module):
    """What the maximum pools share."""

    def __init__(
        self,
        kernel_size: IntOrPair,
        stride: IntOrPair | None = None,
        padding: IntOrPair = 0,
        dilation: IntOrPair = 1,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{text}, dilation={self.dilation}"


class MaxPool1d(_MaxPool):
    """The largest element of each window of sequences; see `agrad.nn.functional.max_pool1d`."""

    def forward(self, input: Any) -> Tensor:
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation)


class MaxPool2d(_MaxPool):
    """The largest element of each window of images; see `agrad.nn.functional.max_pool2d`."""

    def forward(self, input: Any) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation)


class _AvgPool(Module):
    """What the mean pools share."""

    def __init__(
        self,
        kernel_size: IntOrPair,
        stride: IntOrPair | None = None,
        padding: IntOrPair = 0,
        *,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.count_include_pad = padding, count_include_pad

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of sequences; see `agrad.nn.functional.avg_pool1d`."""

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, count_include_pad=self.count_include_pad
        )


class AvgPool2d(_AvgPool):
    """The mean of each window of images; see `agrad.nn.functional.avg_pool2d`."""

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, count_include_pad=self.count_include_pad
        )


class AdaptiveAvgPool1d(Module):
    """Means of windows that give a result of a fixed length; see `agrad.nn.functional.adaptive_avg_pool1d`."""

    def __init__(self, output_size: int) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(Module):
    """Means of windows that give a result of a fixed size; see `agrad.nn.functional.adaptive_avg_pool2d`."""

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"
