"""Forward mode: tangents pushed along with the values, level by level.

A tensor may carry one tangent per level. A call first strips the innermost level: the primal result comes from the
operands without that level, its tangent from the rule. Both are ordinary tensor operations, so levels nest and
reverse mode sees through them (forward over reverse, reverse over forward, to any depth).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agrad.core import errors, mode
from agrad.core.cotangents import floating, promote
from agrad.core.history import restore
from agrad.core.op import MixedPlan, Op, general, tensors_in
from agrad.core.plan import Plan
from agrad.core.rule import requests_of
from agrad.core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from agrad.core.mode import Mode
    from agrad.core.node import Node

T = TypeVar("T")

_next_number = itertools.count(1).__next__


def next_level() -> Level:
    """Return a level that has never been open."""
    return Level(_next_number())


@contextmanager
def level() -> Iterator[Level]:
    """Open a level of forward mode inside those that are open; its tangents vanish at exit."""
    before = mode.get_mode()
    try:
        made = next_level()
        now = mode.current()
        mode.push(levels=(*(now.levels if now else ()), made))
        yield made
    finally:
        mode.set_mode(before)


def in_level(function: Callable[[int], T]) -> T:
    """Call a function with a new level of forward mode.

    For internal use: unlike `level` it closes the level whenever a signal arrives.
    """
    before = mode.get_mode()
    try:
        with level() as number:
            return function(number)
    finally:
        mode.set_mode(before)


def with_tangent(primal: Tensor, tangent: Tensor | None, at: int) -> Tensor:
    """Return `primal` with a tangent at a level: the same value and history."""
    made = wrap(primal._raw, primal._spec, primal._node)
    tangents = dict(primal._tangents or {})
    tangents.pop(at, None)
    if tangent is not None:
        if primal._spec.backend.missing:  # a tangent is missing wherever its element is
            xp = primal._spec.backend.functions
            tangent = xp.multiply(tangent, xp.ones_like(wrap(primal._raw, primal._spec)))
        tangents[at] = tangent
    made._tangents = tangents or None
    return made


def tangent_of(tensor: Tensor, at: int) -> Tensor | None:
    """Return the tangent of a tensor at a level, None if it has none."""
    return (tensor._tangents or {}).get(at)


def strip(value: Any, at: int) -> Any:
    """Return an operand without its tangent at a level."""
    if isinstance(value, Tensor) and value._tangents and at in value._tangents:
        return with_tangent(value, None, at)
    return value


def push(op: Op, values: tuple[Any, ...], now: Mode) -> Any:
    """Call an op whose operands carry tangents of open levels."""
    found = {at for t in tensors_in(op, values) for at in (t._tangents or ())} & set(now.levels)
    if not found:
        return general(op, tuple(_without_dead(v, now) for v in values))
    at = max(found)
    slots = dict(op.operand_slots)
    primals = list(values)
    tangents: dict[str, Any] = {}
    for i, argument in slots.items():
        value = values[i]
        if argument.kind == "sequence":
            primals[i] = [strip(v, at) for v in value]
            tangents[argument.name] = [tangent_of(v, at) if isinstance(v, Tensor) else None for v in value]
        else:
            primals[i] = strip(value, at)
            tangents[argument.name] = tangent_of(value, at) if isinstance(value, Tensor) else None
    before = mode.get_mode()
    try:
        mode.push(levels=tuple(number for number in now.levels if number < at))  # those that operands may still carry
        result = op.invoke(op.entry, primals)
        multi_output = isinstance(result, tuple | list)
        results = list(result) if multi_output else [result]
        if not results:
            return result
        with results[0]._spec.backend.quiet():
            pushed = jvp(op, primals, tangents, result)
    finally:
        mode.set_mode(before)
    parts = list(pushed) if multi_output else [pushed]
    made = [
        with_tangent(r, fitted(t, r), at) if r._spec.inexact and t is not None else r
        for r, t in zip(results, parts, strict=True)
    ]
    for before, after in zip(results, made, strict=True):
        if before._node is not None and after is not before:
            _save_tangents(before._node, op, values, made)
            break
    if not multi_output:
        return made[0]
    kind = type(result)
    return kind(*made) if hasattr(kind, "_fields") else kind(made)


class Level(int):
    """A level of forward mode, identified by its number: larger numbers are further inside.

    Calls go to the innermost open level of the mode; its `push` handles the outer levels too.
    """

    push: Final = staticmethod(push)


def _without_dead(value: Any, now: Mode) -> Any:
    """Drop tangents of closed levels."""
    if isinstance(value, list | tuple):
        return type(value)(_without_dead(v, now) for v in value) if not hasattr(value, "_fields") else value
    if isinstance(value, Tensor) and value._tangents:
        return wrap(value._raw, value._spec, value._node)
    return value


def _save_tangents(node: Node, op: Op, values: tuple[Any, ...], results: list[Any]) -> None:
    """Save the tangents of saved operands and results too, for a backward pass inside the level."""
    base = node.address()[0]
    plan = base.plan
    if plan is None or not base.saved:
        return
    if isinstance(plan, MixedPlan):
        raise NotImplementedError(
            f"{op.name}: operands of several backends have no tangents that a gradient could follow{errors.called()}"
        )
    by_name = {a.name: values[i] for i, a in enumerate(op.arguments)}
    saved = list(base.saved)
    for i, name in enumerate(plan.saves):
        if name == "ans":
            kept = [_dual(r) for r in results]
            saved[i] = kept[0] if op.rule.outputs is None else tuple(kept)
        elif name == op.rule.sequence:
            saved[i] = [_dual(v) for v in by_name[name]]
        elif name in op.rule.operands:
            saved[i] = _dual(by_name[name], saved[i])
    base.saved = tuple(saved)
    base.vjp = op.plan(plan.needs, same_spec=plan.same_spec, kind=DualPlan, rule=plan.rule).vjp


class DualPlan(Plan):
    """Run a rule on saved values with tangents; once their level is closed, on the values alone."""

    def _compiled(self) -> tuple[Callable[..., Any], str]:
        run, source = super()._compiled()

        def vjp(xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
            if not isinstance(g, Tensor) and not isinstance(next((x for x in _flat(g) if x is not None), None), Tensor):
                saved = tuple(map(_without_tangents, saved))
            return run(xp, g, saved, node)

        return vjp, source


def _dual(value: Any, otherwise: Any = None) -> Any:
    """Return a value for `Node.saved`: a Tensor without history if it has tangents, otherwise raw."""
    if not isinstance(value, Tensor):
        return value if otherwise is None else otherwise
    if not value._tangents:
        return value._raw
    kept = wrap(value._raw, value._spec)
    kept._tangents = value._tangents
    return kept


def _without_tangents(saved: Any) -> Any:
    if isinstance(saved, tuple | list):
        return type(saved)(_without_tangents(s) for s in saved)
    return saved._raw if isinstance(saved, Tensor) else saved


def _flat(g: Any) -> tuple[Any, ...]:
    return tuple(g) if isinstance(g, tuple | list) else (g,)


# -- tangents by the kind of rule -------------------------------------------------------------------------------------


def jvp(op: Op, primals: list[Any], tangents: dict[str, Any], result: Any) -> Any:
    """Return the tangent of a result.

    Parameters
    ----------
    op : Op
        The op called.
    primals : list
        The values of all arguments, without the tangents of this level.
    tangents : dict
        The tangent of each operand, or None; for a list operand, a list of them.
    result : Tensor or sequence of Tensor
        The result of the call.
    """
    first = result[0] if isinstance(result, tuple | list) else result
    rule = op.rule_on(first._spec.backend)
    if rule.kind == "none" or not first._spec.inexact:
        return [None] * len(result) if isinstance(result, tuple | list) else None
    xp = first._spec.backend.functions
    known: dict[str, Any] = {a.name: primals[i] for i, a in enumerate(op.arguments)}
    for name in rule.operands:
        if known[name] is None or name == rule.sequence:
            continue
        if not isinstance(known[name], Tensor):
            known[name] = _as_operand(known[name], first)
        known[name + "_spec"] = known[name]._spec
    known |= {"xp": xp, "ans": result, "ans_spec": first._spec}
    if rule.define is not None:
        return _through_definition(op, primals, tangents)
    if rule.kind == "elementwise":
        return _sum_of_partials(op, known, tangents)
    if rule.jvp is not None:
        known |= {f"t_{name}": tangents[name] for name in rule.operands}
        return rule.jvp(**{r: known[r] for r in requests_of(rule.jvp)})
    if rule.kind == "linear":
        return _along_all(op, xp, primals, tangents)
    if rule.kind == "multilinear":
        total = None
        for i, argument in op.operand_slots:
            if tangents[argument.name] is not None:
                changed = list(primals)
                changed[i] = tangents[argument.name]
                term = op.invoke(op.entry, changed)
                total = term if total is None else xp.add(total, term)
        return total
    message = (
        f"Trying to use forward AD with {op.name} that does not support it because it has not been implemented yet."
    )
    raise NotImplementedError(message + f"{errors.called()}")


def _as_operand(value: Any, like: Tensor) -> Any:
    """Return a Python scalar or raw array as the Tensor that a rule expects."""
    if isinstance(value, bool | int | float | complex):
        raw = like._spec.number(value)
        recorder = mode.recorder()
        if recorder is not None:
            recorder.constant(raw)
        return wrap(raw, like._spec.backend.spec(raw))
    return restore(value, None)


def _sum_of_partials(op: Op, known: dict[str, Any], tangents: dict[str, Any]) -> Tensor | None:
    xp = known["xp"]
    for name in op.rule.operands:
        if known[name] is not None and not known[name]._spec.inexact:
            known[name] = floating(xp, known[name], known["ans_spec"])
    total = None
    for name in op.rule.operands:
        tangent = tangents[name]
        if tangent is None:
            continue
        derivative = op.rule.vjp[name]
        partial = (
            derivative
            if isinstance(derivative, int | float)
            else derivative(**{r: known[r] for r in requests_of(derivative)})
        )
        term = xp.multiply(*promote(xp, tangent, partial))
        total = term if total is None else xp.add(*promote(xp, total, term))
    return total


def fitted(tangent: Tensor, result: Tensor) -> Tensor:
    """Return a tangent with the shape, realness and dtype of its result."""
    xp = result._spec.backend.functions
    if tangent.dtype != result.dtype:
        if tangent._spec.is_complex and not result._spec.is_complex:
            tangent = xp.real(tangent)
        tangent = xp.astype(tangent, result.dtype)
    return tangent if tangent.shape == result.shape else xp.broadcast_to(tangent, result.shape)


def _along_all(op: Op, xp: Any, primals: list[Any], tangents: dict[str, Any]) -> Any:
    """Apply the op itself to all tangents at once; an operand without a tangent counts as zero."""
    changed = list(primals)
    for i, argument in op.operand_slots:
        value, tangent = primals[i], tangents[argument.name]
        if argument.kind == "sequence":
            changed[i] = [_zeros(xp, v) if t is None else t for v, t in zip(value, tangent, strict=True)]
        elif value is not None:
            changed[i] = _zeros(xp, value) if tangent is None else tangent
    return op.invoke(op.entry, changed)


def _zeros(xp: Any, value: Any) -> Any:
    return type(value)(0) if isinstance(value, bool | int | float | complex) else xp.zeros_like(value)


def _through_definition(op: Op, primals: list[Any], tangents: dict[str, Any]) -> Any:
    """Push tangents through the composition of a fused op, at a new level."""

    def tangent(at: int) -> Tensor | None:
        duals = list(primals)
        for i, argument in op.operand_slots:
            tangent = tangents[argument.name]
            if tangent is not None:
                duals[i] = with_tangent(primals[i], tangent, at)
        define = op.rule.define
        assert define is not None
        first = next(p for p in primals if isinstance(p, Tensor))
        xp = first._spec.backend.functions
        result = op.invoke(lambda *a, **k: define(xp, *a, **k), duals)
        return tangent_of(result, at)

    return in_level(tangent)
