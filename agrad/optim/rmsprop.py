"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agrad.core.tensor import Tensor
from agrad.ops.creation import zeros_like
from agrad.ops.elementwise import sqrt
from agrad.optim.optimizer import Optimizer, is_nonzero

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps divided by the root of the running mean square of the gradient (Tieleman & Hinton 2012, lecture 6.5).

    Parameters
    ----------
    params : iterable of Tensor or of dict
        See `Optimizer`; real.
    lr : float, optional
        Learning rate.
    alpha : float, optional
        Decay of the running means.
    eps : float, optional
        Added to the root.
    weight_decay : float, optional
        The factor of the parameter added to its gradient.
    momentum : float, optional
        Fraction of the velocity kept.
    centered : bool, optional
        Divide by the root of the running variance instead (Graves 2013).
    maximize : bool, optional
        Ascend instead of descend.
    foreach, capturable : bool, optional
        Accepted for PyTorch compatibility and ignored: one loop serves them all, with the same numbers.
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
    >>> optimizer = ag.optim.RMSprop([w], lr=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _state_names = ("step", "square_avg")
    _shaped = ("square_avg", "momentum_buffer", "grad_avg")
    _counts = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, defaults, differentiable=differentiable)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if not group["alpha"] >= 0:
            raise ValueError(f"Invalid alpha value: {group['alpha']}")
        self.check_real(group)

    def update(self, p: Tensor, g: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> Tensor:
        alpha, momentum = group["alpha"], group["momentum"]
        state["step"] = state.get("step", 0) + 1
        for name, wanted in (
            ("square_avg", True),
            ("momentum_buffer", is_nonzero(momentum)),
            ("grad_avg", group["centered"]),
        ):
            if wanted and name not in state:
                state[name] = zeros_like(p)
        if is_nonzero(group["weight_decay"]):
            g = g + group["weight_decay"] * p
        square = state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * (g * g)
        if group["centered"]:
            mean = state["grad_avg"] = state["grad_avg"] + (1 - alpha) * (g - state["grad_avg"])
            square = square - mean * mean
        change: Tensor = g / (sqrt(square) + group["eps"])
        if is_nonzero(momentum):
            change = state["momentum_buffer"] = momentum * state["momentum_buffer"] + change
        moved: Tensor = p - group["lr"] * change
        return moved
