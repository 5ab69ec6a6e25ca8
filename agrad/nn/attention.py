"""Attention as a layer, with PyTorch's arguments, parameter names and mask conventions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from agrad.core.errors import called
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn import functional as F
from agrad.nn import init
from agrad.nn.containers import ModuleList
from agrad.nn.functional.attention import weighted
from agrad.nn.layers import Dropout, Linear
from agrad.nn.module import Module
from agrad.nn.normalization import LayerNorm
from agrad.nn.parameter import Parameter
from agrad.ops.creation import empty, full
from agrad.ops.elementwise import logical_not
from agrad.ops.manipulation import expand_dims, moveaxis, reshape, squeeze, triu
from agrad.ops.searching import where
from agrad.ops.statistical import mean

__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


class MultiheadAttention(Module):
    """Multi-head attention: each head attends to a part of the features (Vaswani et al. 2017, section 3.2.2).

    Parameters
    ----------
    embed_dim : int
        Length of the last axis of queries and results; a multiple of `num_heads`.
    num_heads : int
        The number of heads.
    dropout : float, optional
        The probability of zeroing a weight during training.
    bias : bool, optional
        Whether the projections have a bias.
    batch_first : bool, optional
        Whether operands and results are (batch, sequence, features), not (sequence, batch, features).
    device, dtype : optional
        For the parameters.

    Attributes
    ----------
    in_proj_weight : Parameter
        Shape (3 * embed_dim, embed_dim): the projections of queries, keys and values, stacked; by `xavier_uniform_`.
    in_proj_bias : Parameter or None
        Shape (3 * embed_dim,); initially zeros.
    out_proj : Linear
        Applied to the concatenated results of the heads.

    Raises
    ------
    ValueError
        If `embed_dim` is not a multiple of `num_heads`, or `dropout` is not a probability.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.ones((2, 5, 8))
    >>> output, weights = ag.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> output.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"embed_dim ({embed_dim}) must be divisible by num_heads ({num_heads}), both positive")
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {dropout}")
        self.embed_dim: int = embed_dim
        self.num_heads: int = num_heads
        self.dropout: float = dropout
        self.batch_first: bool = batch_first
        self.in_proj_weight: Parameter = Parameter(empty((3 * embed_dim, embed_dim), device=device, dtype=dtype))
        self.in_proj_bias: Parameter | None = (
            Parameter(empty((3 * embed_dim,), device=device, dtype=dtype)) if bias else None
        )
        self.out_proj: Linear = Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype)
        self._draw_projections()

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        self.out_proj.reset_parameters()
        self._draw_projections()

    def _draw_projections(self) -> None:
        init.xavier_uniform_(self.in_proj_weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the results, and the weights if requested.

        Parameters
        ----------
        query : Tensor, shape (L, N, embed_dim), (N, L, embed_dim) or (L, embed_dim)
            See `batch_first`.
        key, value : Tensor, shape (S, N, embed_dim), (N, S, embed_dim) or (S, embed_dim)
            The keys that queries are compared with, and the values that are averaged.
        key_padding_mask : Tensor, shape (N, S) or (S,), optional
            True (or a number added to the scores, minus infinity) hides a key from all queries.
        need_weights : bool, optional
            Whether the second result is the weights rather than None.
        attn_mask : Tensor, shape (L, S) or (N * num_heads, L, S), optional
            True hides a key from a query; numbers are added to the scores. This is the opposite of
            `scaled_dot_product_attention`, as in PyTorch.
        average_attn_weights : bool, optional
            Whether to average the weights over all heads.
        is_causal : bool, optional
            A hint that `attn_mask` is the causal mask, which must be given, as in PyTorch.

        Returns
        -------
        Tensor
            The same shape as `query`.
        Tensor or None
            Shape (N, L, S), (N, num_heads, L, S) if not averaged; without N for operands without batch.

        Raises
        ------
        RuntimeError
            If shapes do not match, or `is_causal` is given without `attn_mask`.
        """
        operands = [as_operand(operand) for operand in (query, key, value)]
        rank = operands[0].ndim
        shapes = ", ".join(str(tuple(operand.shape)) for operand in operands)
        if rank not in (2, 3) or any(operand.ndim != rank for operand in operands):
            raise RuntimeError(
                f"query should be unbatched 2D or batched 3D tensor, and key and value likewise, got {shapes}{called()}"
            )
        if any(operand.shape[-1] != self.embed_dim for operand in operands):
            raise RuntimeError(f"was expecting embedding dimension of {self.embed_dim}, but got {shapes}{called()}")
        if is_causal and attn_mask is None:
            raise RuntimeError(f"Need attn_mask if specifying the is_causal hint.{called()}")
        batch = 0 if self.batch_first else 1
        if rank == 2:
            operands = [expand_dims(operand, axis=0) for operand in operands]
        elif batch == 1:
            operands = [moveaxis(operand, 1, 0) for operand in operands]
        (n, length, _), (_, keys, _) = operands[0].shape, operands[1].shape
        if operands[1].shape != operands[2].shape or operands[1].shape[0] != n:
            raise RuntimeError(f"key and value must have one shape, and the batch of the query; got {shapes}{called()}")
        heads = [self._heads(operand, i) for i, operand in enumerate(operands)]
        mask = self._mask(attn_mask, key_padding_mask, n, length, keys, heads[0])
        rate = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            result, weights = weighted(heads[0], heads[1], heads[2], mask, rate)
        else:
            result = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], mask, rate)
        joined = reshape(moveaxis(result, 1, 2), (n, length, self.embed_dim))
        output: Tensor = self.out_proj(joined)
        if average_attn_weights and weights is not None:
            weights = mean(weights, axis=1)
        if rank == 2:
            return squeeze(output, 0), None if weights is None else squeeze(weights, 0)
        return output if batch == 0 else moveaxis(output, 0, 1), weights

    def _heads(self, operand: Tensor, which: int) -> Tensor:
        """Return the projection of one operand, shape (N, num_heads, length, features of a head)."""
        width = self.embed_dim
        rows = slice(which * width, (which + 1) * width)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        projected = F.linear(operand, self.in_proj_weight[rows, :], bias)
        n, length, _ = projected.shape
        return moveaxis(reshape(projected, (n, length, self.num_heads, width // self.num_heads)), 2, 1)

    def _mask(self, attn: Any, padding: Any, n: int, length: int, keys: int, like: Tensor) -> Tensor | None:
        """Return both masks combined: numbers to add to scores (N, num_heads, L, S), or True where a key is visible."""
        masks = []
        if attn is not None:
            attn = as_operand(attn)
            allowed = (length, keys), (n * self.num_heads, length, keys)
            if tuple(attn.shape) not in allowed:
                raise RuntimeError(
                    f"The shape of the attn_mask is {tuple(attn.shape)}, but should be {allowed[0]} or {allowed[1]}.{called()}"
                )
            masks.append(attn if attn.ndim == 2 else reshape(attn, (n, self.num_heads, length, keys)))
        if padding is not None:
            padding = as_operand(padding)
            if tuple(padding.shape) not in ((n, keys), *(((keys,),) if n == 1 else ())):
                raise RuntimeError(
                    f"The shape of the key_padding_mask is {tuple(padding.shape)}, but should be {(n, keys)}.{called()}"
                )
            masks.append(reshape(padding, (n, 1, 1, keys)))
        if not masks:
            return None
        truths = [mask._spec.backend.kind(mask.dtype) == "bool" for mask in masks]
        if all(truths):
            hidden = masks[0] if len(masks) == 1 else masks[0] | masks[1]
            return logical_not(hidden)
        zero = like.detach()[..., :1, :1] * 0.0
        added = [where(m, -float("inf"), zero) if truth else m for m, truth in zip(masks, truths, strict=True)]
        return added[0] if len(added) == 1 else added[0] + added[1]


class _TransformerLayer(Module):
    """Base of transformer layers: linear maps with a residual connection, and norms."""

    #: The number of parts with a residual connection: attentions, and the linear maps.
    parts: int
    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        known: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
        if isinstance(activation, str):
            if activation not in known:
                raise ValueError(f"activation should be relu/gelu, not {activation}{called()}")
            activation = known[activation]
        self.norm_first: bool = norm_first
        self.activation = activation
        for name in ("self_attn", "multihead_attn")[: self.parts - 1]:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place))
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias, **place)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias, **place)
        for i in range(1, self.parts + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        self.dropout: Dropout = Dropout(dropout)
        for i in range(1, self.parts + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _through(self, x: Tensor, parts: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """Apply each of the attentions to `x`, then the linear maps, each with a residual connection and its norm."""
        for i, part in enumerate((*parts, self._fed), 1):
            norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
            x = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return x

    def _fed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and two linear maps, each with a residual connection and a `LayerNorm` (Vaswani et al. 2017, section 3.1).

    Parameters
    ----------
    d_model, nhead : int
        Length of the last axis of operands and results, and the number of heads.
    dim_feedforward : int, optional
        Features between the two linear maps.
    dropout : float, optional
        The probability of zeroing an element during training.
    activation : {"relu", "gelu"} or callable, optional
        The function between the linear maps.
    layer_norm_eps : float, optional
        Added to variances.
    batch_first : bool, optional
        Whether operands and results are (batch, sequence, features), not (sequence, batch, features).
    norm_first : bool, optional
        Whether the input of each part is normalised, instead of its output.
    bias : bool, optional
        Whether linear maps and norms have a bias.
    device, dtype : optional
        For the parameters.

    Raises
    ------
    ValueError
        If `activation` is unknown, or as for `MultiheadAttention`.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(ag.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    parts = 2

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Encode `src`; masks are those of `MultiheadAttention`."""

        def attended(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._through(as_operand(src), [attended])


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to a memory, and two linear maps: `TransformerEncoderLayer` with one more part.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype
        As for `TransformerEncoderLayer`.

    Examples
    --------
    >>> import agrad as ag
    >>> layer = ag.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> layer(ag.ones((2, 5, 8)), ag.ones((2, 3, 8))).shape
    (2, 5, 8)
    """

    parts = 3
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode `tgt` with a memory; masks are those of `MultiheadAttention`."""

        def attended(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def reminded(x: Tensor) -> Tensor:
            attention, hidden = self.multihead_attn, memory_key_padding_mask
            return attention(x, memory, memory, hidden, False, memory_mask, is_causal=memory_is_causal)[0]

        return self._through(as_operand(tgt), [attended, reminded])


class _Stack(Module):
    """Base of encoder and decoder: copies of a layer."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers: ModuleList = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers: int = num_layers
        self.norm: Module | None = norm

    def _through(self, x: Any, *others: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *others)
        result: Tensor = x if self.norm is None else self.norm(x)
        return result


class TransformerEncoder(_Stack):
    """Encoder layers one after another.

    Parameters
    ----------
    encoder_layer : Module
        Copied for each layer; the copies start with the same values.
    num_layers : int
        The number of layers.
    norm : Module, optional
        Applied last.

    Examples
    --------
    >>> import agrad as ag
    >>> layer = ag.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> ag.nn.TransformerEncoder(layer, num_layers=2)(ag.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Tensor:
        """Encode `src`; masks are those of `MultiheadAttention`."""
        return self._through(src, mask, src_key_padding_mask, is_causal)


class TransformerDecoder(_Stack):
    """Decoder layers one after another.

    Parameters
    ----------
    decoder_layer : Module
        Copied for each layer; the copies start with the same values.
    num_layers, norm
        As for `TransformerEncoder`.

    Examples
    --------
    >>> import agrad as ag
    >>> layer = ag.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> ag.nn.TransformerDecoder(layer, num_layers=2)(ag.ones((2, 5, 8)), ag.ones((2, 3, 8))).shape
    (2, 5, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode `tgt` with a memory; masks are those of `MultiheadAttention`."""
        hidden = tgt_key_padding_mask, memory_key_padding_mask
        return self._through(tgt, memory, tgt_mask, memory_mask, *hidden, tgt_is_causal, memory_is_causal)


class Transformer(Module):
    """An encoder, and a decoder that attends to its results (Vaswani et al. 2017, figure 1).

    Parameters
    ----------
    d_model, nhead : int, optional
        Length of the last axis of operands and results, and the number of heads.
    num_encoder_layers, num_decoder_layers : int, optional
        The number of layers of each.
    dim_feedforward, dropout, activation
        As for `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Replacements for them.
    layer_norm_eps, batch_first, norm_first, bias, device, dtype
        As for `TransformerEncoderLayer`.

    Attributes
    ----------
    encoder : TransformerEncoder
        Ends with a `LayerNorm`. The weights of both are initialised by `xavier_uniform_`.
    decoder : TransformerDecoder
        Likewise.

    Raises
    ------
    RuntimeError
        When called, if the operands differ in batch size, or the length of their last axis is not `d_model`.

    Examples
    --------
    >>> import agrad as ag
    >>> net = ag.nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> mask = net.generate_square_subsequent_mask(5)
    >>> net(ag.ones((3, 2, 8)), ag.ones((5, 2, 8)), tgt_mask=mask).shape
    (5, 2, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        like: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        layer = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first
        if custom_encoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, **like)
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*layer, **like), num_encoder_layers, norm)
        if custom_decoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, **like)
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **like), num_decoder_layers, norm)
        self.encoder: Module = custom_encoder
        self.decoder: Module = custom_decoder
        self.d_model: int = d_model
        self.nhead: int = nhead
        self.batch_first: bool = batch_first
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode `src`, and decode `tgt` with the result; masks are those of `MultiheadAttention`."""
        src, tgt = as_operand(src), as_operand(tgt)
        at = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[at] != tgt.shape[at]:
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, not {src.shape[at]} and {tgt.shape[at]}{called()}"
            )
        if not src.shape[-1] == tgt.shape[-1] == self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model, {self.d_model}, not {src.shape[-1]} and"
                f" {tgt.shape[-1]}{called()}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, bool(src_is_causal))
        result: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            bool(tgt_is_causal),
            memory_is_causal,
        )
        return result

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the additive mask (0 and minus infinity) that hides later positions from each position of a sequence.

        >>> Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        hidden: Tensor = triu(full((sz, sz), -math.inf, device=device, dtype=dtype), k=1)
        return hidden
