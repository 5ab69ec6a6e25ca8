"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agrad.core.tensor import Tensor, wrap
from agrad.optim.optimizer import Optimizer, TracedSettings, is_nonzero, kernel_of, owned_array, store_array

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent (Robbins & Monro 1951), with momentum in PyTorch's form (Sutskever et al. 2013).

    Parameters
    ----------
    params : iterable of Tensor or of dict
        See `Optimizer`.
    lr : float, optional
        Learning rate.
    momentum, dampening, weight_decay : float, optional
        Fractions of the velocity kept and of the gradient left out of it; factor of the parameter added to its gradient.
    nesterov : bool, optional
        Look ahead along the velocity (Nesterov 1983).
    maximize : bool, optional
        Ascend instead of descend.
    foreach, fused : bool, optional
        Accepted for PyTorch compatibility and ignored: one loop serves them all, with the same numbers.
    differentiable : bool, optional
        Only False: steps are never recorded.

    Raises
    ------
    ValueError
        If a setting is negative, or `nesterov` is used without momentum or with dampening.

    Examples
    --------
    >>> import agrad as ag
    >>> w = ag.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = ag.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    _state_names = _shaped = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults, differentiable=differentiable)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def update(self, p: Tensor, g: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> Tensor:
        momentum = group["momentum"]
        kernel = None if type(group) is TracedSettings else kernel_of("optim.sgd", p._spec.backend)
        if kernel is not None:
            value, buffer = kernel(
                p._raw,
                g._raw,
                owned_array(state, "momentum_buffer") if momentum else None,
                lr=group["lr"],
                momentum=momentum,
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                weight_decay=group["weight_decay"],
            )
            if momentum:
                store_array(state, "momentum_buffer", buffer, p)
            return wrap(p._spec.backend.as_array(value), p._spec)
        if is_nonzero(group["weight_decay"]):
            g = g + group["weight_decay"] * p
        if is_nonzero(momentum):
            velocity = state.get("momentum_buffer")
            velocity = g if velocity is None else momentum * velocity + (1 - group["dampening"]) * g
            state["momentum_buffer"] = velocity
            g = g + momentum * velocity if group["nesterov"] else velocity
        step: Tensor = group["lr"] * g
        return p - step
