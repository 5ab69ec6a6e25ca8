"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agrad.core.tensor import Tensor
from agrad.ops.creation import zeros_like
from agrad.ops.elementwise import sqrt
from agrad.optim.optimizer import Optimizer, is_nonzero

__all__ = ["Adadelta"]


class Adadelta(Optimizer):
    """Steps as long as the recent ones were, divided by the root of a running mean of squared gradients (Zeiler 2012).

    Parameters
    ----------
    params : iterable of Tensor or of dict
        See `Optimizer`; real.
    lr : float, optional
        The factor of each step.
    rho : float, optional
        The fraction of the running means that is kept at each step, from 0 to 1.
    eps : float, optional
        Added to both means before taking their roots.
    weight_decay : float, optional
        The factor of the parameter added to its gradient.
    foreach, capturable : bool, optional
        Accepted for PyTorch compatibility and ignored: one loop serves them all, with the same numbers.
    maximize : bool, optional
        Ascend instead of descend.
    differentiable : bool, optional
        Only False: steps are never recorded.

    Raises
    ------
    ValueError
        If a setting is out of its range.
    TypeError
        If a parameter is complex.

    Examples
    --------
    >>> import agrad as ag
    >>> w = ag.tensor([1.0], requires_grad=True)
    >>> optimizer = ag.optim.Adadelta([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9984], requires_grad=True)
    """

    _state_names = ("step", "square_avg", "acc_delta")
    _shaped = ("square_avg", "acc_delta")
    _counts = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, differentiable=differentiable)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if not 0 <= group["rho"] <= 1:
            raise ValueError(f"Invalid rho value: {group['rho']}")
        self.check_real(group)

    def update(self, p: Tensor, g: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> Tensor:
        rho, eps = group["rho"], group["eps"]
        state["step"] = state.get("step", 0) + 1
        for name in ("square_avg", "acc_delta"):
            if name not in state:
                state[name] = zeros_like(p)
        if is_nonzero(group["weight_decay"]):
            g = g + group["weight_decay"] * p
        square = state["square_avg"] = rho * state["square_avg"] + (1 - rho) * (g * g)
        change = sqrt(state["acc_delta"] + eps) / sqrt(square + eps) * g
        state["acc_delta"] = rho * state["acc_delta"] + (1 - rho) * (change * change)
        moved: Tensor = p - group["lr"] * change
        return moved
