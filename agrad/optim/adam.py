"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from agrad.core.mode import setting
from agrad.core.tensor import Tensor, wrap
from agrad.ops.creation import zeros_like
from agrad.ops.elementwise import maximum, sqrt
from agrad.optim.optimizer import (
    Optimizer,
    TracedSettings,
    check_betas,
    is_nonzero,
    kernel_of,
    owned_array,
    store_array,
)

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1), and AMSGrad (Reddi et al. 2018).

    Parameters
    ----------
    params : iterable of Tensor or of dict
        See `Optimizer`; real.
    lr : float, optional
        Learning rate.
    betas : tuple of float, optional
        Decay of the running means of the gradient and of its square.
    eps : float, optional
        Added to the denominator.
    weight_decay : float, optional
        The factor of the parameter added to its gradient.
    amsgrad : bool, optional
        Divide by the largest mean square so far.
    maximize : bool, optional
        Ascend instead of descend.
    foreach, fused, capturable : bool, optional
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
    >>> optimizer = ag.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _decoupled = False
    _state_names = ("step", "exp_avg", "exp_avg_sq")
    _shaped = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    _counts = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults, differentiable=differentiable)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        self.check_real(group)

    def update(self, p: Tensor, g: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> Tensor:
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        step = state["step"] = state.get("step", 0) + 1
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))
        for name in names:
            if name not in state:
                state[name] = zeros_like(p)
        kernel = None if type(group) is TracedSettings else kernel_of("optim.adam", p._spec.backend)
        if kernel is not None:
            check_betas((beta1, beta2))
            value, *arrays = kernel(
                p._raw,
                g._raw,
                *(owned_array(state, name) for name in names),
                step=step,
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                eps=group["eps"],
                weight_decay=decay,
                decoupled=self._decoupled,
            )
            for name, array in zip(names, arrays, strict=True):
                store_array(state, name, array, p)
            return wrap(p._spec.backend.as_array(value), p._spec)
        correction1, correction2 = group["corrections"] if type(group) is TracedSettings else corrections(group, step)
        if is_nonzero(decay) and self._decoupled:
            p = p * (1 - lr * decay)
        elif is_nonzero(decay):
            g = g + decay * p
        # every operation in the order of the kernels (and PyTorch), so that a program of this returns the same bits
        mean = state["exp_avg"]
        mean = state["exp_avg"] = mean + (1 - beta1) * (g - mean)
        square = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * (g * g)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], square)
        denominator = sqrt(square) / correction2 + group["eps"]
        change: Tensor = (lr / correction1) * (mean / denominator)
        return p - change

    def trace_state(self, group: TracedSettings, state: Mapping[str, Any]) -> None:
        at = partial(next_correction, group.settings, state)
        group["corrections"] = setting(partial(at, 0)), setting(partial(at, 1))


def corrections(group: Mapping[str, Any], step: int) -> tuple[float, float]:
    """Return the bias corrections for means that start at zero: of the gradient's, and the root of that of its square."""
    beta1, beta2 = group["betas"]
    check_betas((beta1, beta2))  # the group may have got other ones since it was made
    return 1 - beta1**step, math.sqrt(1 - beta2**step)


def next_correction(group: Mapping[str, Any], state: Mapping[str, Any], which: int) -> float:
    """Return one of the corrections of the next step."""
    return corrections(group, state.get("step", 0) + 1)[which]


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).

    Parameters
    ----------
    params, lr, betas, eps, amsgrad, maximize, foreach, fused, capturable, differentiable
        As for `Adam`.
    weight_decay : float, optional
        The fraction of the parameter subtracted at each step, times the learning rate.
    """

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, differentiable=differentiable
        )
