"""PyTorch's learning-rate schedules: each sets ``lr`` of every group of an optimiser at every `step`.

Most are chainable, as in PyTorch: they multiply the present rate by a factor, so that two of them on one optimiser
combine.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.mode import effect, effect_of, not_recorded, setting
from agrad.core.tensor import Tensor
from agrad.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _per_group(what: str, value: float | Sequence[float], optimizer: Optimizer) -> list[float]:
    """Return one number per group of parameters: `value` for all, or its elements."""
    count = len(optimizer.param_groups)
    values = [value] * count if isinstance(value, int | float) else list(value)
    if len(values) != count:
        raise ValueError(f"expected {count} {what}, got {len(values)}")
    return values


class LRScheduler:
    """Base of the schedules; a subclass implements `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser whose learning rates to set. The present ones are the initial ones.
    last_epoch : int, optional
        The epoch to resume from; -1 to start.

    Attributes
    ----------
    last_epoch : int
        The number of calls of `step`.
    base_lrs : list of float
        The initial rates.

    Raises
    ------
    TypeError
        If `optimizer` is not an optimiser.
    KeyError
        If it is to resume but a group has no ``"initial_lr"``.
    """

    #: Recordings repeat every change of a step.
    _tells_settings = True

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch: int = last_epoch
        self._calls = 0
        self.step()

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The optimiser's parameter groups."""
        return self.optimizer.param_groups

    def get_lr(self) -> list[float]:
        """Return the rate per group at `last_epoch`, from the present rates in ``optimizer.param_groups``."""
        raise NotImplementedError

    def step(self) -> None:
        """Advance to the next epoch."""
        if self._calls == 1 and not self.optimizer._has_stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should"
                " call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this"
                " will result in PyTorch skipping the first value of the learning rate schedule.",
                UserWarning,
                stacklevel=2,
            )
        effect(self._advance, self._held())

    def _held(self) -> list[dict[str, Any]]:
        """Return the dicts whose entries a step changes."""
        return [vars(self), *self.groups]

    def _advance(self) -> None:
        """Advance to the next epoch, and set its rates."""
        self._calls += 1
        self.last_epoch += 1
        for group, rate in zip(self.groups, self.get_lr(), strict=True):
            group["lr"] = rate

    @property
    def _begins(self) -> bool:
        """Whether the rates are the initial ones or those to resume with, which as in PyTorch no factor changes."""
        return self._calls == 1

    def _restart(self, first: bool) -> None:
        """Make the next step lead to epoch 0; `first` if no step came before."""
        self.last_epoch = -1
        self._calls = 0 if first else self._calls

    def get_last_lr(self) -> list[float]:
        """Return the present learning rate per group."""
        return [setting(partial(group.__getitem__, "lr")) for group in self.groups]

    def _times(self, factor: float) -> list[float]:
        """Return the present rates times a factor."""
        return [group["lr"] * factor for group in self.groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the state in plain containers, without functions."""
        not_recorded("the state of a schedule is asked for")
        return {k: v for k, v in vars(self).items() if k not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state returned by `state_dict`. The rates themselves are in the optimiser's own state.

        Raises
        ------
        TypeError
            If `state_dict` is not a mapping.
        ValueError
            If it is from another schedule or for another number of groups; nothing is changed then.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        mine = self.state_dict()
        wrong = [
            f"Missing key(s) in state_dict: {name!r}." for name in mine if name[0] != "_" and name not in state_dict
        ]
        wrong += [
            f"size mismatch for {name}: {len(state_dict[name])} groups in the loaded state dict, the optimizer has"
            f" {len(mine[name])}."
            for name in ("base_lrs", "min_lrs")
            if name in mine and name in state_dict and len(state_dict[name]) != len(mine[name])
        ]
        if wrong:
            raise ValueError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *wrong]))
        vars(self).update(state_dict)


#: PyTorch's older name, which many schedules of programs derive from.
_LRScheduler = LRScheduler


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch.

    Parameters
    ----------
    optimizer : Optimizer
        See `LRScheduler`.
    lr_lambda : callable or sequence of callable
        ``lr_lambda(epoch) -> float``, for all groups or one per group.
    last_epoch : int, optional
        See `LRScheduler`.

    Raises
    ------
    ValueError
        If the number of functions differs from the number of groups.

    Examples
    --------
    >>> import agrad as ag
    >>> optimizer = ag.optim.SGD([ag.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = ag.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas: list[Any] = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LambdaLR):
    """The present rate times a function of the epoch; parameters as for `LambdaLR`."""

    def get_lr(self) -> list[float]:
        if self._begins:  # in a sequence an epoch 0 may come later
            return self._times(1.0)
        return [group["lr"] * f(self.last_epoch) for group, f in zip(self.groups, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` epochs.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    step_size : int
        Epochs between changes.
    gamma : float, optional
        The factor.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size: int = step_size
        self.gamma: float = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._times(self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1.0)


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of some epochs.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    milestones : sequence of int
        The epochs.
    gamma : float, optional
        The factor.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: dict[int, int] = dict(Counter(milestones))
        self.gamma: float = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._times(float(self.gamma ** self.milestones.get(self.last_epoch, 0)))


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` epochs.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    factor : float, optional
        From 0 to 1.
    total_iters : int, optional
        The number of epochs.

    Raises
    ------
    ValueError
        If `factor` is outside its range.
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor: float = factor
        self.total_iters: int = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._times(1 / self.factor if self.last_epoch == self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """The rate times a factor that changes linearly from one value to another: a warm-up, for example.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    start_factor, end_factor : float, optional
        The first and the last factor.
    total_iters : int, optional
        Epochs between them.

    Raises
    ------
    ValueError
        If a factor is outside (0, 1] or [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor: float = start_factor
        self.end_factor: float = end_factor
        self.total_iters: int = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, total = self.last_epoch, self.total_iters
        if epoch == 0:
            return self._times(self.start_factor)
        if self._begins or epoch > total:
            return self._times(1.0)
        change = self.end_factor - self.start_factor
        return self._times(1 + change / (total * self.start_factor + (epoch - 1) * change))


class PolynomialLR(LRScheduler):
    """The rate times ``(1 - epoch / total_iters) ** power``, down to 0.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    total_iters : int, optional
        The number of epochs.
    power : float, optional
        1 for a linear decrease.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters: int = total_iters
        self.power: float = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, total = self.last_epoch, self.total_iters
        if self._begins or epoch == 0 or epoch > total:
            return self._times(1.0)
        return self._times(((1 - epoch / total) / (1 - (epoch - 1) / total)) ** self.power)


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every epoch.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    gamma : float
        The factor.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._times(1.0 if self._begins or self.last_epoch == 0 else self.gamma)


class CosineAnnealingLR(LRScheduler):
    """The rate along half a cosine from its initial value to `eta_min` (Loshchilov & Hutter 2017).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    T_max : int
        Epochs of the half period; after it the rate rises again.
    eta_min : float, optional
        The least rate.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max: int = T_max
        self.eta_min: float = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, total, least = self.last_epoch, self.T_max, self.eta_min
        if self._begins or epoch == 0:
            return self._times(1.0)
        if (epoch - 1 - total) % (2 * total) == 0:  # the last step was at the least rate, where the quotient is 0 / 0
            rise = (1 - math.cos(math.pi / total)) / 2
            return [group["lr"] + (base - least) * rise for base, group in zip(self.base_lrs, self.groups, strict=True)]
        quotient = (1 + math.cos(math.pi * epoch / total)) / (1 + math.cos(math.pi * (epoch - 1) / total))
        return [quotient * (group["lr"] - least) + least for group in self.groups]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate along half a cosine from its initial value to `eta_min`, repeatedly (Loshchilov & Hutter 2017).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    T_0 : int
        Epochs of the first half cosine.
    T_mult : int, optional
        The factor by which each is longer than the one before.
    eta_min : float, optional
        The least rate.

    Raises
    ------
    ValueError
        If `T_0` or `T_mult` is not positive, or `step` gets a negative epoch.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0: int = T_0
        self.T_i: int = T_0
        self.T_mult: int = T_mult
        self.eta_min: float = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to a given one, which may be fractional: ``epoch + batch / batches``."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        effect(partial(self._advance, epoch), self._held())

    def _advance(self, epoch: float | None = None) -> None:
        self._calls += 1
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch, self.T_cur = self.last_epoch + 1, self.T_cur + 1
        else:
            self.last_epoch, self.T_cur, self.T_i = math.floor(epoch or 0), epoch or 0, self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        for group, rate in zip(self.groups, self.get_lr(), strict=True):
            group["lr"] = rate


class OneCycleLR(LRScheduler):
    """The rate up to a peak and down to almost 0, once, and momentum in the opposite direction (Smith & Topin 2019).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`. Call `step` after every batch.
    max_lr : float or sequence of float
        The peak, for all groups or one per group. The rate starts at ``max_lr / div_factor``.
    total_steps, epochs, steps_per_epoch : int, optional
        The number of steps: in total, or as a product.
    pct_start : float, optional
        The fraction of the steps before the peak.
    anneal_strategy : {"cos", "linear"}, optional
        Along half a cosine, or linearly.
    cycle_momentum : bool, optional
        Whether ``momentum`` (or the first of ``betas``) goes from `max_momentum` to `base_momentum` and back.
    base_momentum, max_momentum : float or sequence of float, optional
        Its bounds.
    div_factor, final_div_factor : float, optional
        The peak is `div_factor` times the first rate, which is `final_div_factor` times the last.
    three_phase : bool, optional
        Whether to descend to the first rate as fast as ascending, and then to the last.

    Raises
    ------
    ValueError
        If the numbers of steps are missing or not positive, `pct_start` is not a fraction, `anneal_strategy` is unknown, the
        optimizer has no momentum to cycle, or lengths do not match; or on a step beyond the last.

    Examples
    --------
    >>> import agrad as ag
    >>> optimizer = ag.optim.SGD([ag.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> schedule = ag.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> [round(rate, 3) for rate in schedule.get_last_lr()]
    [0.04]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    "You must define either total_steps OR (epochs AND steps_per_epoch): OneCycleLR has an end"
                )
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps = total_steps
        self.anneal_strategy: str = anneal_strategy
        self.cycle_momentum: bool = cycle_momentum
        self.three_phase: bool = three_phase
        #: The end of each phase, and the group's rates and momenta between which it interpolates.
        self.phases: tuple[Any, ...] = self._phases(pct_start)
        if last_epoch == -1:
            self._set_bounds(optimizer, (max_lr, base_momentum, max_momentum), div_factor, final_div_factor)
        super().__init__(optimizer, last_epoch)

    def _phases(self, pct_start: float) -> tuple[tuple[float, str, str, str, str], ...]:
        steps = self.total_steps
        up = (pct_start * steps - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if not self.three_phase:
            return up, (steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
        return (
            up,
            (2 * pct_start * steps - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            (steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        )

    def _set_bounds(
        self,
        optimizer: Optimizer,
        bounds: tuple[float | Sequence[float], float | Sequence[float], float | Sequence[float]],
        div_factor: float,
        final_div_factor: float,
    ) -> None:
        """Set the rates of each group from its peak; where momenta are cycled, also their least and largest values."""
        names = ("max_lr", "base_momentum", "max_momentum")
        each = [_per_group(f"values for {name}", bound, optimizer) for name, bound in zip(names, bounds, strict=True)]
        if self.cycle_momentum and not all("momentum" in g or "betas" in g for g in optimizer.param_groups):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        for group, peak, least, most in zip(optimizer.param_groups, *each, strict=True):
            group["max_lr"], group["initial_lr"] = peak, peak / div_factor
            group["min_lr"] = group["initial_lr"] / final_div_factor
            if self.cycle_momentum:
                group["base_momentum"], group["max_momentum"] = least, most

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        rates = []
        for group in self.groups:
            start = 0.0
            for i, (end, first, last, high, low) in enumerate(self.phases):
                if step <= end or i == len(self.phases) - 1:
                    part = (step - start) / ((end - start) or 1)
                    rates.append(self._between(group[first], group[last], part))
                    if self.cycle_momentum:
                        momentum = self._between(group[high], group[low], part)
                        if "betas" in group:
                            group["betas"] = (momentum, *group["betas"][1:])
                        else:
                            group["momentum"] = momentum
                    break
                start = end
        return rates

    def _between(self, start: float, end: float, part: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * part
        return end + (start - end) / 2 * (1 + math.cos(math.pi * part))


class CyclicLR(LRScheduler):
    """The rate up and down between two bounds, repeatedly, and momentum in the opposite direction (Smith 2017).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`. Call `step` after every batch.
    base_lr, max_lr : float or sequence of float
        The bounds, for all groups or one per group.
    step_size_up, step_size_down : int, optional
        Steps up and steps down; `step_size_down` defaults to `step_size_up`.
    mode : {"triangular", "triangular2", "exp_range"}, optional
        How the distance between the bounds changes: not at all, halved at each cycle, or times `gamma` at each step.
    gamma : float, optional
        See `mode`.
    scale_fn : callable, optional
        The factor of that distance, instead of `mode`: as a function of the cycle, from 1 on, or of the step.
    scale_mode : {"cycle", "iterations"}, optional
        The argument of `scale_fn`.
    cycle_momentum : bool, optional
        Whether ``momentum`` (or the first of ``betas``) goes from `max_momentum` to `base_momentum` and back.
    base_momentum, max_momentum : float or sequence of float, optional
        Its bounds.

    Raises
    ------
    ValueError
        If `mode` or `scale_mode` is unknown, a number of steps is not positive, the optimizer has no momentum to cycle, or
        lengths do not match.

    Examples
    --------
    >>> import agrad as ag
    >>> optimizer = ag.optim.SGD([ag.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> schedule = ag.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, step_size_up=2)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in schedule.get_last_lr()]
    [0.3]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"mode is invalid and scale_fn is None: {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"scale_mode must be 'cycle' or 'iterations', not {scale_mode!r}")
        down = step_size_up if step_size_down is None else step_size_down
        if step_size_up <= 0 or down <= 0:
            raise ValueError(f"CyclicLR takes positive numbers of steps, got {step_size_up} up and {down} down")
        self.total_size: float = float(step_size_up + down)
        self.step_ratio: float = step_size_up / (step_size_up + down)
        self.mode: str = mode
        self.gamma: float = gamma
        self.cycle_momentum: bool = cycle_momentum
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        bounds = zip(
            _per_group("values for base_lr", base_lr, optimizer),
            _per_group("values for max_lr", max_lr, optimizer),
            _per_group("values for base_momentum", base_momentum, optimizer),
            _per_group("values for max_momentum", max_momentum, optimizer),
            strict=True,
        )
        if cycle_momentum and not all("momentum" in g or "betas" in g for g in optimizer.param_groups):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        for group, (low, high, least, most) in zip(optimizer.param_groups, bounds, strict=True):
            group["max_lr"] = high
            if last_epoch == -1:
                group["lr"] = group["initial_lr"] = low
            if cycle_momentum:
                group["base_momentum"], group["max_momentum"] = least, most
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        passed = self.last_epoch / self.total_size
        cycle = math.floor(1 + passed)
        within = 1 + passed - cycle
        part = within / self.step_ratio if within <= self.step_ratio else (within - 1) / (self.step_ratio - 1)
        factor = part * self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = []
        for group in self.groups:
            rates.append(group["initial_lr"] + (group["max_lr"] - group["initial_lr"]) * factor)
            if self.cycle_momentum:
                momentum = group["max_momentum"] - (group["max_momentum"] - group["base_momentum"]) * factor
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return rates

    def _scale(self, x: float) -> float:
        if self.scale_fn is not None:
            return float(self.scale_fn(x))
        if self.mode == "triangular2":
            return math.pow(2.0, 1 - x)
        return 1.0 if self.mode == "triangular" else math.pow(self.gamma, x)


class _Schedules(LRScheduler):
    """Base of schedules made of schedules."""

    _schedulers: list[LRScheduler]

    def _take(self, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if getattr(scheduler, "optimizer", None) is not self.optimizer:
                raise ValueError(f"{name}: the scheduler at index {i} is not one of this optimizer")
            if isinstance(scheduler, ReduceLROnPlateau):
                message = f"{name} does not support ReduceLROnPlateau, whose step takes a measure"
                raise ValueError(message)  # noqa: TRY004 (a bad value)
        self._schedulers = list(schedulers)

    def _held(self) -> list[dict[str, Any]]:
        return [*self.groups, vars(self), *(held for one in self._schedulers for held in one._held())]

    def state_dict(self) -> dict[str, Any]:
        """Return the state in plain containers, with that of every schedule."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state returned by `state_dict`; see `LRScheduler.load_state_dict`."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        parts = state_dict.get("_schedulers", ())
        if len(parts) != len(self._schedulers):
            raise ValueError(
                f"Error(s) in loading state_dict for {type(self).__name__}: {len(parts)} schedules in the loaded state dict,"
                f" {len(self._schedulers)} here."
            )
        before = [dict(vars(scheduler)) for scheduler in self._schedulers]
        try:
            for scheduler, part in zip(self._schedulers, parts, strict=True):
                scheduler.load_state_dict(part)
            super().load_state_dict({**state_dict, "_schedulers": self._schedulers})
        except BaseException:
            for scheduler, kept in zip(self._schedulers, before, strict=True):
                vars(scheduler).update(kept)
            raise


class SequentialLR(_Schedules):
    """One schedule after another, each starting from the initial rates.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    schedulers : sequence of LRScheduler
        Schedules of that optimizer.
    milestones : sequence of int
        The epochs at which the next one starts; one fewer than there are schedules.

    Raises
    ------
    ValueError
        If there are no schedules, one belongs to another optimizer, or the number of milestones does not match.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.optim import lr_scheduler as schedules
    >>> optimizer = ag.optim.SGD([ag.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm = schedules.LinearLR(optimizer, 0.5, total_iters=2)
    >>> fall = schedules.ExponentialLR(optimizer, 0.5)
    >>> schedule = schedules.SequentialLR(optimizer, [warm, fall], milestones=[2])
    >>> for _ in range(4):
    ...     print(schedule.get_last_lr()[0], end=" ")
    ...     optimizer.step()
    ...     schedule.step()
    0.5 0.75 1.0 0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self.optimizer = optimizer
        self._take(schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone"
                f" points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to"
                f" {len(milestones)}"
            )
        self._milestones = list(milestones)
        super().__init__(optimizer, last_epoch)

    def _advance(self) -> None:
        self._calls += 1
        self.last_epoch += 1
        scheduler = self._schedulers[bisect_right(self._milestones, self.last_epoch)]
        if self.last_epoch == 0 or self.last_epoch in self._milestones:
            # a chainable schedule continues from the present rate
            if self.last_epoch == 0 or not isinstance(scheduler, MultiplicativeLR):
                for group in self.groups:
                    group["lr"] = group["initial_lr"]
            scheduler._restart(first=self.last_epoch == 0)
        scheduler._advance()


class ChainedScheduler(_Schedules):
    """Schedules that all step together: they change the rates one after another.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        Schedules of one optimizer.
    optimizer : Optimizer, optional
        That optimizer.

    Raises
    ------
    ValueError
        If there are no schedules, or they belong to several optimizers.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        self.optimizer: Any = optimizer or schedulers[0].optimizer
        self._take(schedulers)

    def step(self) -> None:
        """Step every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()

    def _advance(self) -> None:
        for scheduler in self._schedulers:
            scheduler._advance()

    def _restart(self, first: bool) -> None:
        for scheduler in self._schedulers:
            scheduler._restart(first)


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has not improved for some epochs.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser whose learning rates to set.
    mode : {"min", "max"}, optional
        Whether better means smaller or larger.
    factor : float, optional
        Below 1.
    patience : int, optional
        Epochs without improvement to tolerate.
    threshold : float, optional
        The least improvement that counts.
    threshold_mode : {"rel", "abs"}, optional
        Whether `threshold` is a fraction of the best value, or a difference from it.
    cooldown : int, optional
        Epochs after a reduction that do not count.
    min_lr : float or sequence of float, optional
        The lower bound of the rates, for all groups or one per group.
    eps : float, optional
        Smaller reductions are skipped.

    Raises
    ------
    ValueError
        If `factor` is not below 1, a mode is unknown, or the number of lower bounds differs from that of groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        _check_optimizer(optimizer)
        self.min_lrs: list[float] = _per_group("min_lrs", min_lr, optimizer)
        self.optimizer: Optimizer = optimizer
        self.mode: str = mode
        self.factor: float = factor
        self.patience: int = patience
        self.threshold: float = threshold
        self.threshold_mode: str = threshold_mode
        self.cooldown: int = cooldown
        self.eps: float = eps
        self.best: float = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs: int = 0
        self.cooldown_counter: int = 0
        self.last_epoch: int = 0

    def _is_better(self, value: float) -> bool:
        margin = self.threshold if self.threshold_mode == "abs" else self.threshold * abs(self.best)
        if math.isinf(self.best):
            margin = 0.0
        elif self.threshold_mode == "rel" and self.best < 0:
            margin = -margin  # PyTorch's: best * (1 - threshold), even where that is above the best
        return value < self.best - margin if self.mode == "min" else value > self.best + margin

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Record the metric of an epoch, and reduce the rates if due.

        Parameters
        ----------
        metrics : float or Tensor
            The metric, one number.
        """
        effect_of(metrics.detach() if isinstance(metrics, Tensor) else metrics, self._note, self._held())

    def _note(self, value: float) -> None:
        """Record the metric of an epoch."""
        self.last_epoch += 1
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
    for _name in __all__:
        _names.explain_made(globals()[_name])
