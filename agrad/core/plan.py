"""Plans: a rule compiled to the function that a node runs, one for each pattern of operands that need a gradient."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agrad.core import errors
from agrad.core.cotangents import MaskedCotangents, Transferred, fit, floating, lent, times, unmasked
from agrad.core.cpython import is_identity
from agrad.core.once import FIRST_USE, once
from agrad.core.rule import Rule, requests_of

if TYPE_CHECKING:
    from agrad.core.node import Node


class Plan:
    """A rule compiled for one pattern of needs.

    Parameters
    ----------
    rule : Rule
        The derivative.
    needs : tuple of bool
        Per operand, whether it needs a gradient; for a list operand, per member.
    same_spec : bool
        Whether every operand has the result's spec, and that is real: no un-broadcasting, casts or conjugates are needed.
    nan_safe : bool
        Whether the cotangent comes from an op that drops elements: products with 0 are checked (see `unmasked`).

    Attributes
    ----------
    saves : tuple of str
        Names of the values that a node saves, in this order.
    source : str
        The generated text of `vjp`.
    vjp : callable
        ``vjp(xp, g, saved, node)``, compiled at the first use.
    plan_of : dict
        Maps a `vjp`, and its placeholder before compilation, to the plan; all plans of an op share it. A node has only
        its `vjp`: a slot for the plan, or an indirection through it to the `vjp`, would cost every call.
    """

    def __init__(
        self,
        rule: Rule,
        needs: tuple[bool, ...],
        plan_of: dict[Callable[..., Any], Plan],
        *,
        same_spec: bool = False,
        nan_safe: bool = False,
    ) -> None:
        self.rule = rule
        self.needs = needs
        self.same_spec = same_spec
        self.nan_safe = nan_safe
        self.wanted: tuple[str, ...] = (
            (rule.sequence,)
            if rule.sequence
            else tuple(n for n, need in zip(rule.operands, needs, strict=True) if need)
        )
        self.saves: tuple[str, ...] = rule.saves(self.wanted)
        self.source: str = ""
        self.plan_of = plan_of
        self._users: list[tuple[dict[str, Any], str]] = []
        self.vjp: Callable[..., Any] = self._lazy()
        plan_of[self.vjp] = self

    def use_in(self, names: dict[str, Any], name: str) -> None:
        """Store `vjp` under a name, and the compiled one once it exists."""
        with FIRST_USE:
            names[name] = self.vjp
            self._users.append((names, name))

    @once
    def nan_safe_vjp(self) -> Callable[..., Any]:
        """The same for a cotangent from an op that drops elements."""
        return type(self)(self.rule, self.needs, self.plan_of, same_spec=self.same_spec, nan_safe=True).compile()

    @once
    def places(self) -> tuple[Any, ...]:
        """Where the history of each saved value is: the number of a node's edge, or -1 for none; per member of a list.

        "ans" means the node itself; None means a value that is not an operand and stays unchanged.
        """
        rule = self.rule
        edges = iter(range(len(self.needs)))
        numbers = tuple(next(edges) if need else -1 for need in self.needs)
        if rule.sequence:
            known: dict[str, Any] = {rule.sequence: numbers}
        else:
            known = dict(zip(rule.operands, numbers, strict=True))
        known |= {"ans": "ans"} | dict.fromkeys(rule.residuals, -1)
        return tuple(known.get(name) for name in self.saves)

    def _lazy(self) -> Callable[..., Any]:
        def vjp(xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
            compiled = self.compile()
            node.vjp = compiled
            return compiled(xp, g, saved, node)

        return vjp

    def compile(self) -> Callable[..., Any]:
        """Compile `vjp` from its source, once."""
        with FIRST_USE:
            if not self.source:
                vjp, source = self._compiled()
                self.plan_of[vjp] = self
                self.vjp, self.source = vjp, source
                for users, name in self._users:
                    users[name] = vjp
        return self.vjp

    def _compiled(self) -> tuple[Callable[..., Any], str]:
        names: dict[str, Any] = {
            "Transferred": Transferred,
            "MaskedCotangents": MaskedCotangents,
            "fit": fit,
            "floating": floating,
            "times": times,
            "unmasked": unmasked,
        }
        source = self._write(names)
        variant = f"{' same_spec' if self.same_spec else ''}{' nan_safe' if self.nan_safe else ''}"
        filename = f"<agrad vjp of {self.rule.op} {self.needs}{variant}>"
        return compile_source(source, filename, names)["vjp"], source

    def _write(self, names: dict[str, Any]) -> str:
        rule = self.rule
        requested = {r for name in self.wanted for r in requests_of(rule.vjp[name])}
        lines = ["def vjp(xp, g, saved, node):"]
        if rule.guarded:
            names["lent"] = lent
            lines += [
                "    if xp is not node.spec.backend.functions:",
                "        g, saved = lent(g), tuple(map(lent, saved))",
            ]
        if self.saves:
            lines.append(f"    ({', '.join(self.saves)},) = saved")
        if requested & set(rule.params):
            lines.append(f"    ({', '.join(rule.params)},) = node.params")
        if rule.sequence:
            names["derivative"] = rule.vjp[rule.sequence]
            call = f"derivative({self._arguments(rule.sequence)})"
            lines.append(f"    gs = {call}")
            kept = [i for i, need in enumerate(self.needs) if need]
            results = [f"fit(xp, gs[{i}], node.specs[{i}])" for i in kept]
        else:
            shared = next((name for name in self.wanted if name in rule.joint), None)
            if shared is not None:
                names[f"_by_{shared}"] = rule.vjp[shared]
                lines.append(f"    gs = _by_{shared}({self._arguments(shared)})")
            results = [self._expression(name, names) for name in self.wanted]
        kind = "MaskedCotangents" if rule.drops else "Transferred" if rule.crosses else None
        lines.append(
            f"    return {', '.join(results)}" if kind is None else f"    return {kind}(({', '.join(results)},))"
        )
        return "\n".join(lines) + "\n"

    def _arguments(self, operand: str) -> str:
        return ", ".join(self._argument(r) for r in requests_of(self.rule.vjp[operand]))

    def _argument(self, request: str) -> str:
        if request == "ans_spec":
            return "node.spec"
        if request == "masked" and request not in self.rule.arguments:  # whether g comes from an op that drops elements
            return repr(self.nan_safe)
        if request == "needs" and request not in self.rule.arguments:
            return repr(self.needs)
        if request.endswith("_spec") and request[:-5] in self.rule.operands:
            return self._spec(request[:-5])
        if self.rule.kind == "elementwise" and not self.same_spec and request in self.rule.operands:
            return f"({request} if {self._spec(request)}.inexact else floating(xp, {request}, node.spec))"
        return request

    def _spec(self, operand: str) -> str:
        if self.same_spec:
            return "node.spec"
        return "node.specs" if operand == self.rule.sequence else f"node.specs[{self.rule.operands.index(operand)}]"

    def _expression(self, operand: str, names: dict[str, Any]) -> str:
        derivative = self.rule.vjp[operand]
        if operand in self.rule.joint:
            text = f"gs[{self.rule.joint.index(operand)}]"
        elif isinstance(derivative, int | float):
            known: dict[float, str] = {1: "g", -1: "xp.negative(g)", 0: "xp.zeros_like(g)"}
            text = known.get(derivative, f"g * {derivative!r}")
        elif is_identity(derivative) and len(requests_of(derivative)) == 1:
            text = self._arguments(operand)  # the partial is a saved value, as in a product: no call
            if self.rule.kind == "elementwise":
                text = f"xp.multiply(g, {text})" if self.same_spec else f"times(xp, g, {text}, node.spec)"
        else:
            name = f"_by_{operand}"  # no argument has such a name: `TAKEN`
            names[name] = derivative
            text = f"{name}({self._arguments(operand)})"
            if self.rule.kind == "elementwise":
                text = f"xp.multiply(g, {text})" if self.same_spec else f"times(xp, g, {text}, node.spec)"
        if self.nan_safe and self.rule.outputs is None and self.rule.kind in ("elementwise", "custom", "fused"):
            text = f"unmasked(xp, g, {text}, node)"
        # a cotangent transferred to another backend has the operand's dtype, or is lazy and stays there for now
        return text if self.same_spec or self.rule.crosses else f"fit(xp, {text}, {self._spec(operand)})"


def compile_source(source: str, filename: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run generated source in `names`; tracebacks show it, and its frames count as agrad's own."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    errors.INTERNAL_FILES.add(filename)
    exec(compile(source, filename, "exec"), names)  # noqa: S102 (the source is ours, from the op's own declaration)
    return names


def forget_source(filename: str) -> None:
    """Discard the stored text of source that cannot run any more, from `compile_source`."""
    linecache.cache.pop(filename, None)
    errors.INTERNAL_FILES.discard(filename)
