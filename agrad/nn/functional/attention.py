"""Attention as a function."""

from __future__ import annotations

import math
from typing import Any

from agrad.core import errors
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.checks import check_probability, check_real, differs
from agrad.nn.functional.layers import dropout, dropout_mask
from agrad.ops import linalg, manipulation, searching, statistical
from agrad.ops import nn as ops

#: The maximum number of query-key scores held at once, and of weights kept for backward: keeping fewer than this is
#: faster than recomputing them. A lazy backend has its chunks.
SCORES = 1 << 22


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
        The keys that queries are compared with.
    value : Tensor, shape (..., S, Ev)
        The values that are averaged.
    attn_mask : Tensor, shape broadcast to (..., L, S), optional
        Added to the scores; or booleans: False hides a key from a query. The result is zeros for a query that sees no
        keys.
    dropout_p : float, optional
        The probability of zeroing a weight, as in `dropout`, but also outside training.
    is_causal : bool, optional
        Query `i` sees only keys 0 to `i`.
    scale : float, optional
        Default: 1 / sqrt(E).
    Returns : Tensor, shape (..., L, Ev)
    RuntimeError: If the shapes do not match, or `attn_mask` and `is_causal` are both given.
    TypeError: If the operands are not real floating point.
    More than four million weights are computed for some queries at a time, and again in the backward
    pass, for which one number per query is kept (with dropout also a boolean per weight). Fewer, and those of lazy
    backends, are kept.

    >>> q = ag.tensor([[0.0, 0.0]])
    >>> ag.nn.functional.scaled_dot_product_attention(q, ag.ones((2, 2)), ag.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    name = "scaled_dot_product_attention"
    query, key, value = as_operand(query), as_operand(key), as_operand(value)
    for operand in (query, key, value):
        check_real(name, operand)
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 2 or (
        differs(query.shape[-1], key.shape[-1]) or differs(key.shape[-2], value.shape[-2])
    ):
        raise RuntimeError(
            f"{name}() takes query (..., L, E), key (..., S, E) and value (..., S, Ev), got {shapes}{errors.called()}"
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            f"{name}: Explicit attn_mask should not be set when is_causal=True\n  got {shapes}.{errors.called()}"
        )
    check_probability(name, "dropout_p", dropout_p)
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
        kept = dropout_mask(query, scores, dropout_p)
    block = None if lazy or math.prod(scores) <= SCORES else max(1, SCORES * scores[-2] // math.prod(scores))
    result = ops.attention(query, key, value, mask, seen, kept, is_causal, block)
    return result * (0.0 if dropout_p == 1 else 1 / (1 - dropout_p)) if dropout_p else result


def weighted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> tuple[Tensor, Tensor]:
    """Return the result of `scaled_dot_product_attention`, and the weights."""
    scores = linalg.matmul(query * (1 / math.sqrt(query.shape[-1])), key.mT)
    weights = ops.softmax(scores, axis=-1) if mask is None else _masked_softmax(scores, mask)
    weights = dropout(weights, dropout_p)
    return linalg.matmul(weights, value), weights


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax of scores, with 0 for hidden ones; a fully hidden row is 0 and has the derivative 0."""
    if mask._spec.backend.kind(mask.dtype) == "bool":
        seen, scores = mask, searching.where(mask, scores, -math.inf)
    else:
        scores = scores + mask
        seen = scores.detach() > -math.inf
    some = statistical.any(seen, axis=-1, keepdims=True)
    return searching.where(some, ops.softmax(searching.where(some, scores, 0.0), axis=-1), 0.0)
