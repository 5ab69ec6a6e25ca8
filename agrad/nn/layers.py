"""Linear maps, embeddings, dropout and reshaping as modules, with PyTorch's arguments and initial values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from agrad.core.errors import called
from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn import init
from agrad.nn.module import Module
from agrad.nn.parameter import Parameter
from agrad.ops.creation import asarray, empty

__all__ = ["Dropout", "Dropout2d", "Embedding", "EmbeddingBag", "Flatten", "Identity", "Linear", "Unflatten"]


def draw(weight: Tensor, bias: Tensor | None) -> None:
    """Draw PyTorch's initial values: uniform on ±1/sqrt(fan_in), its ``kaiming_uniform_`` with a slope of sqrt(5)."""
    fan_in = math.prod(weight.shape[1:])
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Lengths of the last axis before and after.
    bias : bool, optional
        Whether to add a bias.
    device, dtype : optional
        For the parameters.

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
        self.in_features: int = in_features
        self.out_features: int = out_features
        self.weight: Parameter = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        self.bias: Parameter | None = Parameter(empty((out_features,), device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        draw(self.weight, self.bias)

    def forward(self, input: Any) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of vectors, looked up by integers.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table and their length.
    padding_idx : int, optional
        The index of a row of zeros that is not trained; negative counts from the end.
    device, dtype : optional
        For the table.
    sparse : bool, optional
        Only False: gradients are dense.

    Attributes
    ----------
    weight : Parameter
        Shape (num_embeddings, embedding_dim), initially standard normal.

    Raises
    ------
    ValueError
        If `padding_idx` is outside the table.
    NotImplementedError
        If `sparse`.

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
        *,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if sparse:
            raise NotImplementedError(
                f"{type(self).__name__}(sparse=True): gradients are dense; leave it out{called()}"
            )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"padding_idx must be within num_embeddings: {padding_idx} is outside {num_embeddings} rows"
            )
        self.num_embeddings: int = num_embeddings
        self.embedding_dim: int = embedding_dim
        self.padding_idx: int | None = None if padding_idx is None else padding_idx % num_embeddings
        self.weight: Parameter = Parameter(empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None) -> Self:
        """Return an embedding with the given vectors, which are not trained unless `freeze` is False.

        Parameters
        ----------
        embeddings : Tensor or array
            Shape (num_embeddings, embedding_dim); the table is a copy of it.
        freeze : bool, optional
            Whether the table is not trained.
        padding_idx : int, optional
            The index of a row that is not trained; it keeps its values.

        Returns
        -------
        Embedding
            The module.

        Raises
        ------
        ValueError
            If `embeddings` is not a matrix, or `padding_idx` is outside it.

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
        """Draw the table again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx, ...] = 0.0

    def forward(self, input: Any) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class EmbeddingBag(Embedding):
    """Sums, means or maxima of vectors of a table, per bag: `agrad.nn.functional.embedding_bag`.

    Parameters
    ----------
    num_embeddings, embedding_dim, padding_idx, device, dtype, sparse
        As for `Embedding`; indices equal to `padding_idx` do not count.
    mode : {"mean", "sum", "max"}, optional
        How to reduce a bag.
    include_last_offset : bool, optional
        Whether the last offset is the end of the last bag.

    Raises
    ------
    ValueError, NotImplementedError
        As for `Embedding`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.EmbeddingBag(10, 3)(ag.tensor([1, 2, 4, 9]), ag.tensor([0, 1])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, device, dtype, sparse=sparse)
        self.mode: str = mode
        self.include_last_offset: bool = include_last_offset

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.mode, per_sample_weights, self.include_last_offset, self.padding_idx
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode}"


class Dropout(Module):
    """Zeros a fraction `p` of the elements during training, and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p: float = p
        self.inplace: bool = inplace

    def forward(self, input: Any) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout2d(Dropout):
    """Zeros a fraction `p` of the channels of (n, channels, ...) during training, and scales the others by 1 / (1 - p)."""

    def forward(self, input: Any) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Identity(Module):
    """The operand itself; accepts and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Flatten(Module):
    """Merge the axes from `start_dim` to `end_dim` into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim: int = start_dim
        self.end_dim: int = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split an axis into several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim: int = dim
        self.unflattened_size: tuple[int, ...] = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
