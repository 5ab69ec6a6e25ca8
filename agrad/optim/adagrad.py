"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from agrad.core.mode import setting
from agrad.core.tensor import Tensor
from agrad.ops.creation import zeros_like
from agrad.ops.elementwise import sqrt
from agrad.optim.optimizer import Optimizer, TracedSettings, is_nonzero

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far (Duchi, Hazan & Singer 2011).

    Parameters
    ----------
    params : iterable of Tensor or of dict
        See `Optimizer`; real.
    lr : float, optional
        Learning rate.
    lr_decay : float, optional
        At step `n` the rate is ``lr / (1 + (n - 1) * lr_decay)``.
    weight_decay : float, optional
        The factor of the parameter added to its gradient.
    initial_accumulator_value : float, optional
        The initial value of the sums.
    eps : float, optional
        Added to the root.
    maximize : bool, optional
        Ascend instead of descend.
    foreach, fused : bool, optional
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
    >>> optimizer = ag.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _state_names = ("step", "sum")
    _shaped = ("sum",)
    _counts = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "maximize": maximize,
        }
        super().__init__(params, defaults, differentiable=differentiable)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        for name in ("lr_decay", "initial_accumulator_value"):
            if not group[name] >= 0:
                raise ValueError(f"Invalid {name} value: {group[name]}")
        self.check_real(group)

    def update(self, p: Tensor, g: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> Tensor:
        step = state["step"] = state.get("step", 0) + 1
        if "sum" not in state:
            state["sum"] = zeros_like(p) + group["initial_accumulator_value"]
        if is_nonzero(group["weight_decay"]):
            g = g + group["weight_decay"] * p
        total = state["sum"] = state["sum"] + g * g
        rate = group["rate"] if type(group) is TracedSettings else decayed(group, step)
        change: Tensor = g / (sqrt(total) + group["eps"])
        return p - rate * change

    def trace_state(self, group: TracedSettings, state: Mapping[str, Any]) -> None:
        group["rate"] = setting(partial(next_rate, group.settings, state))


def decayed(group: Mapping[str, Any], step: int) -> float:
    """Return the learning rate of a step."""
    rate: float = group["lr"] / (1 + (step - 1) * group["lr_decay"])
    return rate


def next_rate(group: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """Return the learning rate of the next step."""
    return decayed(group, state.get("step", 0) + 1)
