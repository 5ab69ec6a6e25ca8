"""Operations on all parameters, or on their gradients, together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agrad.core import names as _names
from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.nn.utils import parametrizations, rnn
from agrad.nn.utils.rnn import pad_sequence
from agrad.ops.creation import asarray
from agrad.ops.data_type import astype, to_device
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import clip, pow, sqrt, square
from agrad.ops.manipulation import concat, reshape, stack
from agrad.ops.statistical import max, sum

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "pad_sequence",
    "parameters_to_vector",
    "parametrizations",
    "rnn",
    "vector_to_parameters",
]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    members = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in members if p.grad is not None]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients so that their joint norm is at most a bound.

    parameters : Tensor or iterable of Tensor
        Parameters without a gradient are skipped.
    max_norm : float
        The bound.
    norm_type : float, optional
        The order of the norm; may be infinite.
    error_if_nonfinite : bool, optional
        Raise if the norm is infinite or NaN, instead of scaling by it.
    Returns: The norm before scaling, 0-d.
    RuntimeError: See `error_if_nonfinite`; the gradients are then unchanged.
    As in PyTorch the factor is ``max_norm / (norm + 1e-6)``, at most 1.

    >>> w = ag.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> ag.nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    gradients = _gradients(parameters)
    if not gradients:
        return asarray(0.0)
    with no_grad:
        total: Tensor
        if math.isinf(norm_type):
            total = max(_together([max(absolute(g)) for g in gradients]))
        elif norm_type == 2:
            total = sqrt(sum(_together([sum(square(absolute(g))) for g in gradients])))
        else:
            total = pow(sum(_together([sum(pow(absolute(g), norm_type)) for g in gradients])), 1 / norm_type)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be"
                " clipped."
            )
        scale = clip(max_norm / (total + 1e-6), None, 1.0)
        for g in gradients:
            factor = to_device(scale, g.device)
            g.mul_(factor if g._spec.is_complex else astype(factor, g.dtype, copy=False))
    return total


def _together(parts: list[Tensor]) -> Tensor:
    """Return numbers as one vector, on the device of the first (layers may be on several devices)."""
    return stack([to_device(part, parts[0].device) for part in parts])


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of all gradients to [-clip_value, clip_value]."""
    with no_grad:
        for g in _gradients(parameters):
            g.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters as one vector, in the graph; see also `agrad.tree.ravel`.

    >>> ag.nn.utils.parameters_to_vector(ag.nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    return concat([reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set parameters to the values of a vector made by `parameters_to_vector`.

    ValueError: If the length of the vector differs from that of all parameters together; they are then unchanged.
    """
    members = list(parameters)
    total = int(math.fsum(p.size for p in members))
    if vec.shape != (total,):
        raise ValueError(f"a vector of shape {vec.shape} for parameters of {total} elements")
    start, value = 0, vec.detach()
    for p in members:
        p.data = reshape(value[start : start + p.size], p.shape)
        start += p.size


_complete(
    globals(),
    {
        "clip_value": "float\n    The bound.",
        "parameters": "iterable of Tensor\n    The parameters.",
        "vec": "Tensor\n    One value per element.",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
