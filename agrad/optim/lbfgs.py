"""L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from agrad.core.buffers import assign_data
from agrad.core.materialize import fill
from agrad.core.mode import enable_grad, no_grad, not_recorded
from agrad.core.tensor import Tensor
from agrad.ops.creation import zeros_like
from agrad.ops.elementwise import abs as absolute
from agrad.ops.linalg import vecdot
from agrad.ops.manipulation import concat, reshape
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import sum as total
from agrad.optim.optimizer import Optimizer

__all__ = ["LBFGS"]

#: Differences with less curvature are dropped: the estimate would not be positive definite.
CURVATURE = 1e-10
#: The Wolfe conditions: the fraction of the slope by which the value must fall, and the fraction of it that may remain.
DECREASE, FLATNESS = 1e-4, 0.9
#: The number of lengths that a line search tries.
TRIALS = 25


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last differences of positions and gradients (Liu & Nocedal 1989).

    A step calls its closure several times: up to `max_iter` iterations, each with one evaluation or those of a line
    search. The direction is that of Nocedal & Wright 2006, algorithm 7.4.

    Parameters
    ----------
    params : iterable of Tensor
        Leaves, one group; real.
    lr : float, optional
        The length of a step, in multiples of the direction; the initial length of a line search.
    max_iter : int, optional
        Iterations per step.
    max_eval : int, optional
        Calls of the closure per step. Default: 1.25 times `max_iter`.
    tolerance_grad : float, optional
        A step ends if no element of the gradient is larger.
    tolerance_change : float, optional
        A step ends if neither parameters nor value change by more.
    history_size : int, optional
        The number of differences kept.
    line_search_fn : {None, "strong_wolfe"}, optional
        Whether to search for the length of each step (Nocedal & Wright 2006, algorithms 3.5 and 3.6).

    Raises
    ------
    ValueError
        If there are several groups, or a setting is out of its range.
    TypeError
        If a parameter is complex.

    Examples
    --------
    >>> import agrad as ag
    >>> w = ag.tensor([-1.2, 1.0], requires_grad=True)
    >>> optimizer = ag.optim.LBFGS([w], max_iter=60, line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> bool(ag.all(ag.abs(w - 1) < 1e-4))
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"only 'strong_wolfe' is supported as line_search_fn, got {line_search_fn!r}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self.check_real(self.param_groups[0])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` iterations.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss, calls its ``backward()`` and returns it.

        Returns
        -------
        object
            The result of the first call of `closure`.

        Raises
        ------
        TypeError
            Without a closure.

        Notes
        -----
        If the closure raises, parameters and state return to their values before the step.
        """
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that clears gradients, computes the loss and returns it")
        not_recorded("LBFGS decides by values how often it evaluates the loss")
        parameters = self._params()
        before, memory = [p.data for p in parameters], dict(self.state.get(parameters[0], {}))
        try:
            with no_grad:
                return self._iterate(closure, parameters)
        except BaseException:
            assign_data(parameters, [value._raw for value in before], [value._spec for value in before])
            self.state[parameters[0]] = memory
            raise

    def _iterate(self, closure: Callable[[], Any], parameters: list[Tensor]) -> Any:
        group = self.param_groups[0]
        memory = self.state.setdefault(parameters[0], {})
        losses: list[Any] = []

        def evaluate() -> tuple[float, Tensor]:
            with enable_grad:
                losses.append(closure())
            grads = [zeros_like(p) if p.grad is None else p.grad for p in parameters]
            gradient = concat([reshape(g, (-1,)) for g in grads])
            fill([gradient], keep="backend")
            return float(losses[-1]), gradient

        value, gradient = evaluate()
        for i in range(group["max_iter"]):
            if _size(gradient) <= group["tolerance_grad"]:
                break
            first = "gradient" not in memory
            direction = -gradient if first else _direction(memory, gradient, group["history_size"])
            slope = float(vecdot(gradient, direction))
            if slope > -group["tolerance_change"]:
                break
            length = group["lr"] * (min(1.0, 1 / float(total(absolute(gradient)))) if first else 1.0)
            start = [p.data for p in parameters]
            before = value

            def at(t: float, start: list[Tensor] = start, direction: Tensor = direction) -> tuple[float, Tensor]:
                _move(parameters, start, direction, t)
                return evaluate()

            memory["gradient"] = gradient
            last = i + 1 == group["max_iter"]
            if group["line_search_fn"] is not None:
                origin = LineSearchPoint(0.0, value, slope, gradient)
                shortest = group["tolerance_change"] / _size(direction)
                found = strong_wolfe(at, direction, origin, length, shortest)
                length, value, gradient = found.length, found.value, found.gradient
                _move(parameters, start, direction, length)
            elif last:  # the next step begins with an evaluation
                _move(parameters, start, direction, length)
            else:
                value, gradient = at(length)
            memory["direction"], memory["length"] = direction, length
            if (
                last
                or len(losses) >= group["max_eval"]
                or length * _size(direction) <= group["tolerance_change"]
                or abs(value - before) < group["tolerance_change"]
            ):
                break
        self._has_stepped = True
        return losses[0]


def _size(vector: Tensor) -> float:
    return float(largest(absolute(vector)))


def _move(parameters: list[Tensor], start: list[Tensor], direction: Tensor, length: float) -> None:
    """Set parameters to the point that a step of some length from the start reaches."""
    at = 0
    for p, value in zip(parameters, start, strict=True):
        p.data = value + length * reshape(direction[at : at + p.size], p.shape)
        at += p.size
    fill([p for p in parameters if p._spec.backend.is_lazy], keep="backend")


def _direction(memory: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
    """Return minus the inverse Hessian estimate times the gradient, after learning from the last step."""
    step, change = memory["direction"] * memory["length"], gradient - memory["gradient"]
    curvature = float(vecdot(change, step))
    if curvature > CURVATURE:
        kept = slice(max(0, len(memory.get("steps", ())) + 1 - history_size), None)
        memory["steps"] = (*memory.get("steps", ()), step)[kept]
        memory["changes"] = (*memory.get("changes", ()), change)[kept]
        memory["scale"] = curvature / float(vecdot(change, change))
    pairs = list(zip(memory.get("steps", ()), memory.get("changes", ()), strict=True))
    result: Tensor = -gradient
    factors = []
    for s, y in reversed(pairs):
        factor = vecdot(s, result) / vecdot(y, s)
        factors.append(factor)
        result = result - factor * y
    result = result * memory.get("scale", 1.0)
    for (s, y), factor in zip(pairs, reversed(factors), strict=True):
        result = result + s * (factor - vecdot(y, result) / vecdot(y, s))
    return result


class LineSearchPoint(NamedTuple):
    """The result of a line search at one length: the value, its slope along the direction, and its gradient."""

    length: float
    value: float
    slope: float
    gradient: Tensor


def strong_wolfe(
    at: Callable[[float], tuple[float, Tensor]],
    direction: Tensor,
    origin: LineSearchPoint,
    length: float,
    shortest: float,
) -> LineSearchPoint:
    """Return a length that fulfils the strong Wolfe conditions (Nocedal & Wright 2006, algorithms 3.5 and 3.6).

    Parameters
    ----------
    at : callable
        Returns value and gradient at a length.
    direction : Tensor
        The search direction.
    origin : LineSearchPoint
        The start, at length 0.
    length : float
        The first length to try.
    shortest : float
        A shorter interval ends the search.

    Returns
    -------
    Trial
        If none fulfils them, the best one found.
    """

    def look(length: float) -> LineSearchPoint:
        value, gradient = at(length)
        return LineSearchPoint(length, value, float(vecdot(gradient, direction)), gradient)

    def too_high(trial: LineSearchPoint, than: LineSearchPoint) -> bool:
        # negated, so that NaN is too high
        return not (trial.value <= origin.value + DECREASE * trial.length * origin.slope and trial.value < than.value)

    def flat(trial: LineSearchPoint) -> bool:
        return abs(trial.slope) <= -FLATNESS * origin.slope

    low, high = origin, None
    for _ in range(TRIALS):
        trial = look(length)
        if high is None:  # no interval that contains such a length is known yet
            if too_high(trial, low if low is not origin else LineSearchPoint(0.0, math.inf, 0.0, origin.gradient)):
                high = trial
            elif flat(trial):
                return trial
            elif trial.slope >= 0:
                low, high = trial, low
            else:
                farther = _cubic(low, trial)
                low, length = trial, min(max(farther, 1.1 * length), 10 * length)
                continue
        elif too_high(trial, low):
            high = trial
        elif flat(trial):
            return trial
        else:
            low, high = trial, low if trial.slope * (high.length - low.length) >= 0 else high
        width = high.length - low.length
        if abs(width) <= shortest:
            break
        between = sorted((low.length + 0.1 * width, high.length - 0.1 * width))
        length = min(max(_cubic(low, high), between[0]), between[1])
    return low


def _cubic(a: LineSearchPoint, b: LineSearchPoint) -> float:
    """Return the minimiser of the cubic through two values and slopes (equation 3.59), otherwise the midpoint."""
    width = b.length - a.length
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.length - b.length)
    square = d1 * d1 - a.slope * b.slope
    if square >= 0:
        d2 = math.copysign(math.sqrt(square), width)
        divisor = b.slope - a.slope + 2 * d2
        if divisor:
            return b.length - width * (b.slope + d2 - d1) / divisor
    return a.length + width / 2
