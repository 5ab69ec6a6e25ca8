"""Rules: a derivative as data.

A rule holds, per operand, a function whose parameter names are requests (design, idea 3): ``xp``, ``g``, ``ans``, an
operand's name (its value: saved), ``<operand>_spec`` (saves nothing), a residual, or a parameter of the call. The
requests of the operands that need a gradient determine what a node saves and, in `core.plan`, the source of its ``vjp``.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agrad.core import errors
from agrad.core.cpython import span_of
from agrad.core.once import once

#: A derivative by one operand: a function of its requests, or a number for a constant partial.
Derivative = Callable[..., Any] | int | float


def requests_of(derivative: Derivative) -> tuple[str, ...]:
    """Return the parameter names of a derivative: its requests."""
    if isinstance(derivative, int | float):
        return ()
    code = derivative.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


#: Names that a derivative or its generated code uses; arguments of an op with a derivative must not have them.
TAKEN = frozenset(
    {
        "Transferred",
        "MaskedCotangents",
        "ans",
        "ans_spec",
        "derivative",
        "fit",
        "floating",
        "g",
        "gs",
        "lent",
        "node",
        "saved",
        "times",
        "unmasked",
        "xp",
    }
)


@dataclass(frozen=True)
class Rule:
    """The derivative of one op.

    Attributes
    ----------
    op : str
        The op's name, as ``"linalg.solve"``.
    kind : str
        elementwise, linear, multilinear, custom, fused, or none (no derivative: boolean, integer or shape results).
    operands : tuple of str
        Names of the operands with a derivative, in the order of the signature.
    sequence : str or None
        The operand that is a list of arrays, if any.
    index : tuple of str
        Index operands: arrays without derivative.
    params : tuple of str
        All other names of the signature.
    vjp : mapping
        Per operand: the partial (elementwise) or the cotangent (the rest).
    jvp : callable or None
        The tangent, where it does not follow from the kind.
    define : callable or None
        ``define(xp, ...)``: the composition equivalent to a fused op.
    residuals : tuple of str
        Names of a fused kernel's outputs after the result.
    joint : tuple of str
        Operands that share one function in `vjp`, which returns all their cotangents, in this order.
    outputs : int or None
        Number of results; 0 where it varies with the call, None for a plain result.
    source : str
        The source of the formula.
    boolean : bool
        The result has one boolean per element of the operands.
    drops : bool
        The op drops elements of its operands by a condition: infinite or undefined values behind them must not
        reach their gradient.
    follows : callable or None
        ``follows(needs, *params)``: which results have a derivative, if these operands need a gradient. None: all do.
    crosses : bool
        The result may belong to another backend than the operand: a lazy cotangent may pass it unchanged.
    real : bool
        The formulas hold for real floating operands (beside which others may be integers) and no others.
    adjoint_of : str
        The fused op whose first derivative uses this one, by a kernel in the standard's functions; "" for others.
    guarded : bool
        The derivatives are the user's: they get read-only arrays, where the library supports that.
    """

    op: str
    kind: str
    operands: tuple[str, ...] = ()
    sequence: str | None = None
    index: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    vjp: Mapping[str, Derivative] = field(default_factory=dict)
    jvp: Callable[..., Any] | None = None
    define: Callable[..., Any] | None = None
    residuals: tuple[str, ...] = ()
    joint: tuple[str, ...] = ()
    outputs: int | None = None
    source: str = ""
    boolean: bool = False
    drops: bool = False
    follows: Callable[..., Sequence[bool]] | None = None
    crosses: bool = False
    real: bool = False
    adjoint_of: str = ""
    guarded: bool = False

    def __post_init__(self) -> None:
        names = {*self.operands, *self.index, *self.params, *self.residuals}
        taken = sorted(name for name in names if name in TAKEN or name.startswith("_by_")) if self.vjp else []
        if taken:
            raise errors.RuleError(
                f"{self.op}: {', '.join(taken)} cannot be the name of an argument; derivatives use it themselves"
            )
        if len({self.vjp.get(name) for name in self.joint}) > 1 or None in map(self.vjp.get, self.joint):
            raise errors.RuleError(f"{self.op}: joint= names operands that have one function in vjp, not {self.joint}")
        known = {"xp", "ans", "ans_spec", *self.operands, *self.index, *self.params, *self.residuals}
        known |= {f"{name}_spec" for name in self.operands}
        if self.sequence:  # a rule that runs others has to know these, as they do
            known |= {"masked", "needs"}
        for name, derivative in self.vjp.items():
            if name not in self.operands:
                raise errors.RuleError(
                    f"{self.op}: a derivative is given for {name!r}, which is no operand of its signature"
                )
            allowed = known if self.kind == "elementwise" else known | {"g"}
            self._check(f"the derivative by {name}", derivative, allowed)
        if self.jvp is not None:
            self._check("the jvp", self.jvp, known | {f"t_{name}" for name in self.operands})

    def _check(self, what: str, derivative: Derivative, allowed: set[str]) -> None:
        if not isinstance(derivative, int | float) and not hasattr(derivative, "__code__"):
            raise errors.RuleError(
                f"{self.op}: {what} must be a Python function or a number, not {type(derivative).__name__}"
            )
        unknown = [name for name in requests_of(derivative) if name not in allowed]
        if unknown:
            raise errors.RuleError(
                f"{self.op}: {what} asks for {', '.join(map(repr, unknown))}, which is not known here. "
                f"It can ask for: {', '.join(sorted(allowed))}."
            )

    def _repr_html_(self) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (for notebooks only)

        return notebook.text(str(self))

    def __str__(self) -> str:
        lines = [f"{self.op}  ({'no derivative' if self.kind == 'none' else self.kind})"]
        for name, derivative in self.vjp.items():
            lines.append(f"  by {name}: {source_of(derivative)}")
            lines.append(f"    saves {', '.join(self.saves([name])) or 'nothing'}")
        if self.jvp is not None:
            lines.append(f"  forward: {source_of(self.jvp)}")
        if self.define is not None:
            lines.append(f"  stands for: {source_of(self.define)}")
        if self.source:
            lines.append(f"  source: {self.source}")
        return "\n".join(lines)

    @once
    def arguments(self) -> frozenset[str]:
        """The names of the op's arguments."""
        return frozenset((*self.operands, *self.index, *self.params))

    @once
    def plans(self) -> dict[Any, Any]:
        """Its plans, if the rule is a backend's own; plans of other rules belong to the op."""
        return {}

    @once
    def in_tuple(self) -> bool:
        """Whether nodes keep even one or two edges in a tuple, so that the engine checks the type of `vjp`'s result."""
        return self.drops or self.crosses

    @property
    def saveable(self) -> tuple[str, ...]:
        """Names whose request makes a node keep a value."""
        return (*self.operands, *self.index, "ans", *self.residuals)

    def saves(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return what a node saves for the gradients of these operands."""
        requested = {r for name in wanted for r in requests_of(self.vjp[name])}
        if self.define is not None:  # create_graph runs the composition, which starts from the operands
            requested |= {*self.operands, *self.index}
        return tuple(name for name in self.saveable if name in requested)


#: Longer expressions are named rather than shown.
READABLE = 100


def source_of(derivative: Derivative) -> str:
    """Return a derivative as written: a lambda, or a function with the expression it returns or its docstring."""
    if isinstance(derivative, int | float):
        return repr(derivative)
    if derivative.__name__ == "<lambda>":
        return _lambda_text(derivative) or f"lambda {', '.join(requests_of(derivative))}: ..."
    return f"{derivative.__name__}({', '.join(requests_of(derivative))}){_function_text(derivative)}"


def _function_text(derivative: Callable[..., Any]) -> str:
    """Return the expression that a function of one statement returns, otherwise the first line of its docstring."""
    said = f"  # {derivative.__doc__.partition(chr(10))[0]}" if derivative.__doc__ else ""
    try:
        source = textwrap.dedent(inspect.getsource(derivative))
    except OSError:  # typed interactively and not stored
        return said
    body = [part for part in ast.parse(source).body[0].body if not isinstance(part, ast.Expr)]  # type: ignore[attr-defined]
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return said
    text = _one_line((ast.get_source_segment(source, body[0]) or "").removeprefix("return "))
    return f": {text}" if len(text) <= READABLE else said


def _one_line(source: str) -> str:
    return " ".join(source.split()).replace("( ", "(").replace(", )", ")").replace(" )", ")")


def _lambda_text(derivative: Callable[..., Any]) -> str:
    """Cut the text of a lambda out of its source file, using the positions in its code object."""
    code = derivative.__code__
    span = span_of(code)
    if span is None:
        return ""
    first, start, last, stop = span
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    body = _one_line("".join(line.decode(errors="replace") for line in lines))
    return f"lambda {', '.join(requests_of(derivative))}: {body}"
