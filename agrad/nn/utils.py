"""What is done to the gradients of all parameters together."""

from __future__ import annotations

import math
from collections.abc import Iterable

from agrad.core.mode import no_grad
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import clip, pow, sqrt, square
from agrad.ops.manipulation import concat, stack
from agrad.ops.statistical import max, sum


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    members = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in members if p.grad is not None]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients so that their norm, taken together, is at most a bound.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without gradient are passed over.
    max_norm : float
        The bound.
    norm_type : float, optional
        The order of the norm; may be infinite.
    error_if_nonfinite : bool, optional
        Raise if the norm is infinite or NaN, instead of scaling by it.

    Returns
    -------
    Tensor
        The norm before scaling, 0-d.

    Raises
    ------
    RuntimeError
        See `error_if_nonfinite`; the gradients are then as they were.
    """
    gradients = _gradients(parameters)
    if not gradients:
        return asarray(0.0)
    with no_grad:
        total: Tensor
        if math.isinf(norm_type):
            total = max(stack([max(absolute(g)) for g in gradients]))
        elif norm_type == 2:
            total = sqrt(sum(stack([sum(square(absolute(g))) for g in gradients])))
        else:
            total = pow(sum(stack([sum(pow(absolute(g), norm_type)) for g in gradients])), 1 / norm_type)
        if error_if_nonfinite and not math.isfinite(total.item()):
            message = (
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be"
                " clipped."
            )
            raise RuntimeError(message)
        scale = clip(max_norm / (total + 1e-6), None, 1.0)
        for g in gradients:
            g.mul_(scale)
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of all gradients to [-clip_value, clip_value]."""
    with no_grad:
        for g in _gradients(parameters):
            g.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Give all parameters as one vector; see also `agrad.tree.ravel`."""
    return concat([p.reshape(-1) for p in parameters])
