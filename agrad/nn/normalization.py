"""Norms as modules, with PyTorch's arguments and initial values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agrad.core.errors import called
from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn import init
from agrad.nn.functional.normalization import counted_batch_norm
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.ops.creation import ones, zeros
from agrad.ops.manipulation import expand_dims, squeeze

__all__ = ["BatchNorm1d", "BatchNorm2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LayerNorm", "RMSNorm"]


def _neutral(weight: Tensor | None, bias: Tensor | None) -> None:
    """Set scales to ones, and shifts to zeros."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)


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
        For the parameters.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape `normalized_shape`; initially ones and zeros.

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
        self.normalized_shape = shape
        self.eps: float = eps
        self.elementwise_affine: bool = elementwise_affine
        self.weight: Parameter | None = (
            Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.bias: Parameter | None = (
            Parameter(zeros(shape, device=device, dtype=dtype)) if elementwise_affine and bias else None
        )

    def reset_parameters(self) -> None:
        """Reset the parameters to ones and zeros."""
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
        For the parameter.

    Attributes
    ----------
    weight : Parameter or None
        Shape `normalized_shape`; initially ones.

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
        self.normalized_shape = shape
        self.eps: float | None = eps
        self.elementwise_affine: bool = elementwise_affine
        self.weight: Parameter | None = (
            Parameter(ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        )

    def reset_parameters(self) -> None:
        """Reset the parameter to ones."""
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
        The number of groups of adjacent channels.
    num_channels : int
        The channels: axis 1 of (N, C, ...).
    eps : float, optional
        Added to the variance.
    affine : bool, optional
        Whether the result is scaled and shifted.
    device, dtype : optional
        For the parameters.
    bias : bool, optional
        Whether the result is shifted.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (num_channels,); initially ones and zeros.

    Raises
    ------
    ValueError
        If `num_channels` is not a multiple of `num_groups`.

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
        self.num_groups: int = num_groups
        self.num_channels: int = num_channels
        self.eps: float = eps
        self.affine: bool = affine
        shape = (num_channels,)
        self.weight: Parameter | None = Parameter(ones(shape, device=device, dtype=dtype)) if affine else None
        self.bias: Parameter | None = Parameter(zeros(shape, device=device, dtype=dtype)) if affine and bias else None

    def reset_parameters(self) -> None:
        """Reset the parameters to ones and zeros."""
        _neutral(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _InstanceNorm(Module):
    """Base of the instance norms."""

    _axes: tuple[int, int]  # without the batch axis, and with it

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
        self.num_features: int = num_features
        self.eps: float = eps
        self.momentum: float = momentum
        self.affine: bool = affine
        self.track_running_stats = track_running_stats
        self.weight: Parameter | None = Parameter(ones((num_features,), device=device, dtype=dtype)) if affine else None
        self.bias: Parameter | None = Parameter(zeros((num_features,), device=device, dtype=dtype)) if affine else None

    def reset_parameters(self) -> None:
        """Reset the parameters to ones and zeros."""
        _neutral(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self._axes:
            raise ValueError(f"expected {self._axes[0]}D or {self._axes[1]}D input (got {input.ndim}D input){called()}")
        if input.ndim == self._axes[0]:
            batch = expand_dims(input, axis=0)
            return squeeze(F.instance_norm(batch, weight=self.weight, bias=self.bias, eps=self.eps), 0)
        return F.instance_norm(input, weight=self.weight, bias=self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" track_running_stats={self.track_running_stats}"
        )


class InstanceNorm1d(_InstanceNorm):
    """Mean 0 and variance 1 of every channel of every sequence, (n, channels, length) or a single one."""

    _axes = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 of every channel of every image, (n, channels, height, width) or a single one."""

    _axes = (3, 4)


class _BatchNorm(Module):
    """Base of `BatchNorm1d` and `BatchNorm2d`."""

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
        self.num_features: int = num_features
        self.eps: float = eps
        self.momentum: float | None = momentum
        self.affine: bool = affine
        self.track_running_stats: bool = track_running_stats
        shape = (num_features,)
        self.weight: Parameter | None = Parameter(ones(shape, device=device, dtype=dtype)) if affine else None
        self.bias: Parameter | None = Parameter(zeros(shape, device=device, dtype=dtype)) if affine and bias else None
        track = track_running_stats
        self.register_buffer("running_mean", zeros(shape, device=device, dtype=dtype) if track else None)
        self.register_buffer("running_var", ones(shape, device=device, dtype=dtype) if track else None)
        self.register_buffer("num_batches_tracked", zeros((), device=device, dtype="int64") if track else None)

    def reset_running_stats(self) -> None:
        """Reset the running values to 0 and 1, and the number of batches to 0."""
        if self.running_mean is not None:
            with no_grad:
                self.running_mean.zero_()
                self.running_var.fill_(1.0)
                self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset parameters and running values to their initial values."""
        self.reset_running_stats()
        _neutral(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        rank = len(input.shape)
        if rank not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {expected} input (got {rank}D input){called()}")
        return counted_batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            self.momentum,
            self.eps,
            self.num_batches_tracked if self.training else None,
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Mean 0 and variance 1 per channel of a batch, then an affine map (Ioffe & Szegedy 2015).

    In training, mean and variance are those of the batch, and running values of both are updated; after `eval` the layer
    normalises by the running values.

    Parameters
    ----------
    num_features : int
        The channels: axis 1 of (N, C) or (N, C, L).
    eps : float, optional
        Added to the variance.
    momentum : float, optional
        The weight of a batch in the update of the running values; None for the mean of all batches.
    affine : bool, optional
        Whether the result is scaled and shifted.
    track_running_stats : bool, optional
        Whether to keep running values; without them, each batch is normalised by its own values, after `eval` too.
    device, dtype : optional
        For the parameters and running values.
    bias : bool, optional
        Whether the result is shifted.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape (num_features,); initially ones and zeros.
    running_mean, running_var : Tensor or None
        Shape (num_features,); initially zeros and ones. The variance is the one with ``n - 1``.
    num_batches_tracked : Tensor or None
        The number of batches they have seen, an integer.

    Raises
    ------
    ValueError
        If the input has another rank, or only one value per channel in training.

    Examples
    --------
    >>> import agrad as ag
    >>> norm = ag.nn.BatchNorm1d(2)
    >>> norm(ag.tensor([[1.0, 0.0], [3.0, 4.0]]))
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]], grad_fn=<BatchNormBackward0>)
    >>> norm.running_mean
    tensor([0.2000, 0.2000])
    """

    ranks: tuple[int, ...] = (2, 3)


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
        If the input has another rank, or only one value per channel in training.
    """

    ranks: tuple[int, ...] = (4,)
