"""Rules: a derivative as data, and how it becomes the function that a node runs.

A rule states, per operand, a function whose parameter names are requests (design, idea 3): ``xp``, ``g``, ``ans``, an
operand's name (its value: saved), ``<operand>_spec`` (saves nothing), a residual, or a parameter of the call. From the
requests of the operands that need a gradient follow what a node saves and the source of its ``vjp``. One compiled
`Plan` serves every call of an op with the same pattern of needs.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.once import FIRST_USE, once

if TYPE_CHECKING:
    from agrad.core.node import Node
    from agrad.core.spec import Spec

#: The code of ``lambda x: x``.
_IDENTITY = (lambda x: x).__code__.co_code

#: A derivative by one operand: a function of its requests, or a number for a constant partial.
Derivative = Callable[..., Any] | int | float


def requests_of(derivative: Derivative) -> tuple[str, ...]:
    """Return the parameter names of a derivative: what it asks for."""
    if isinstance(derivative, int | float):
        return ()
    code = derivative.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


#: Names that a derivative or the code generated for it uses; no argument of an op with a derivative may have them.
TAKEN = frozenset(
    {
        "Crossed",
        "Masked",
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
        The operand that is a list of arrays, if one is.
    index : tuple of str
        Index operands: arrays without derivative.
    params : tuple of str
        All other names of the signature.
    vjp : mapping
        Per operand: the partial (elementwise) or the cotangent (the rest).
    jvp : callable or None
        The tangent, where it does not follow from the kind.
    define : callable or None
        ``define(xp, ...)``: the composition a fused op stands for.
    residuals : tuple of str
        Names of what a fused kernel gives beside its result.
    outputs : int or None
        Number of results; 0 where it varies with the call, None for a plain result.
    source : str
        Where the formula comes from.
    boolean : bool
        The result has a truth value per element of the operands.
    drops : bool
        The op leaves out elements of its operands by a condition: what is infinite or undefined behind them must not
        reach their gradient.
    views : bool
        Other libraries' result shares memory with the first operand, so that writing to it changes both. Here it does
        not: such a write warns while the operand lives (see `core.buffers.rebind`).
    crosses : bool
        The result may be of another backend than the operand: a lazy cotangent may go on beyond it as it is.
    real : bool
        The formulas hold for real floating operands (beside which others may be integers) and no others.
    guarded : bool
        The derivatives are a user's: they get arrays that they cannot write to, where the library has such.
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
    outputs: int | None = None
    source: str = ""
    boolean: bool = False
    drops: bool = False
    views: bool = False
    crosses: bool = False
    real: bool = False
    guarded: bool = False

    def __post_init__(self) -> None:
        names = {*self.operands, *self.index, *self.params, *self.residuals}
        taken = sorted(name for name in names if name in TAKEN or name.startswith("_by_")) if self.vjp else []
        if taken:
            message = f"{self.op}: {', '.join(taken)} cannot be the name of an argument; derivatives use it themselves"
            raise errors.RuleError(message)
        known = {"xp", "ans", "ans_spec", *self.operands, *self.index, *self.params, *self.residuals}
        known |= {f"{name}_spec" for name in self.operands}
        for name, derivative in self.vjp.items():
            if name not in self.operands:
                message = f"{self.op}: a derivative is given for {name!r}, which is no operand of its signature"
                raise errors.RuleError(message)
            allowed = known if self.kind == "elementwise" else known | {"g"}
            self._check(f"the derivative by {name}", derivative, allowed)
        if self.jvp is not None:
            self._check("the jvp", self.jvp, known | {f"t_{name}" for name in self.operands})

    def _check(self, what: str, derivative: Derivative, allowed: set[str]) -> None:
        if not isinstance(derivative, int | float) and not hasattr(derivative, "__code__"):
            message = f"{self.op}: {what} must be a Python function or a number, not {type(derivative).__name__}"
            raise errors.RuleError(message)
        unknown = [name for name in requests_of(derivative) if name not in allowed]
        if unknown:
            message = (
                f"{self.op}: {what} asks for {', '.join(map(repr, unknown))}, which is not known here. "
                f"It can ask for: {', '.join(sorted(allowed))}."
            )
            raise errors.RuleError(message)

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

    @functools.cached_property
    def in_tuple(self) -> bool:
        """Whether nodes keep even one or two edges in a tuple, so that the engine looks at what kind `vjp` gives."""
        return self.drops or self.crosses

    @property
    def saveable(self) -> tuple[str, ...]:
        """Names whose request makes a node keep a value."""
        return (*self.operands, *self.index, "ans", *self.residuals)

    def saves(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return what a node keeps for the gradients of these operands."""
        asked = {r for name in wanted for r in requests_of(self.vjp[name])}
        if self.define is not None:  # create_graph runs the composition, which starts from the operands
            asked |= {*self.operands, *self.index}
        return tuple(name for name in self.saveable if name in asked)


#: How long an expression is still shown rather than only named.
READABLE = 100


def source_of(derivative: Derivative) -> str:
    """Return a derivative as written: a lambda, or a function with what it returns or says of itself."""
    if isinstance(derivative, int | float):
        return repr(derivative)
    if derivative.__name__ == "<lambda>":
        return _lambda_text(derivative) or f"lambda {', '.join(requests_of(derivative))}: ..."
    return f"{derivative.__name__}({', '.join(requests_of(derivative))}){_function_text(derivative)}"


def _function_text(derivative: Callable[..., Any]) -> str:
    """Return the expression that a function of one statement returns, else the first line of its docstring."""
    said = f"  # {derivative.__doc__.partition(chr(10))[0]}" if derivative.__doc__ else ""
    try:
        source = textwrap.dedent(inspect.getsource(derivative))
    except OSError:  # typed in, and nobody kept it
        return said
    body = [part for part in ast.parse(source).body[0].body if not isinstance(part, ast.Expr)]  # type: ignore[attr-defined]
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return said
    text = _one_line((ast.get_source_segment(source, body[0]) or "").removeprefix("return "))
    return f": {text}" if len(text) <= READABLE else said


def _one_line(source: str) -> str:
    return " ".join(source.split()).replace("( ", "(").replace(", )", ")").replace(" )", ")")


def _lambda_text(derivative: Callable[..., Any]) -> str:
    """Cut the text of a lambda out of its source file, by the positions its code object carries."""
    code = derivative.__code__
    positions: Any = code.co_positions()
    spots = [(a, b, c, d) for a, c, b, d in positions if None not in (a, b, c, d) and (a, b) != (c, d)]
    if not spots:
        return ""
    first, start = min((a, b) for a, b, _, _ in spots)
    last, stop = max((c, d) for _, _, c, d in spots)
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    body = _one_line("".join(line.decode(errors="replace") for line in lines))
    return f"lambda {', '.join(requests_of(derivative))}: {body}"


# -- what the machinery does around every derivative -------------------------------------------------------------------


def is_complex(xp: Any, array: Any) -> bool:
    """Return whether an array (raw or Tensor) or scalar is complex."""
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        return isinstance(array, complex)
    spec = getattr(array, "_spec", None)
    if spec is not None:
        return bool(spec.is_complex)
    backend = backend_of(array)
    return bool(xp.isdtype(dtype, "complex floating")) if backend is None else backend.kind(dtype) == "complex"


def times(xp: Any, g: Any, partial: Any, spec: Spec) -> Any:
    """Cotangent times the conjugate of a partial; just the product where the result, of this spec, is real."""
    if spec.plain:
        return xp.multiply(g, partial)
    if is_complex(xp, partial):
        partial = partial.conjugate() if isinstance(partial, complex) else xp.conj(partial)
    return xp.multiply(*promote(xp, g, partial))


def promote(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Make a real and a complex array both complex; not every namespace mixes the two."""
    if hasattr(a, "dtype") and hasattr(b, "dtype") and a.dtype != b.dtype and is_complex(xp, a) != is_complex(xp, b):
        dtype = a.dtype if is_complex(xp, a) else b.dtype
        return xp.astype(a, dtype, copy=False), xp.astype(b, dtype, copy=False)
    return a, b


def floating(xp: Any, x: Any, spec: Spec) -> Any:
    """Return integers or truth values in the precision of a result: a partial computed in them would wrap or round."""
    x = xp.astype(x, spec.dtype)
    return xp.real(x) if spec.is_complex else x


def device_of(array: Any) -> Any:
    """Return what the ``device=`` of its namespace takes for the device of an array, raw or Tensor."""
    return getattr(array, "device", None)


def fit(xp: Any, g: Any, spec: Spec) -> Any:
    """Bring a cotangent to the shape, realness and dtype of its operand.

    Broadcast axes are summed, the imaginary part is dropped for a real operand (PyTorch's convention: the gradient of a
    real value is real), the dtype is cast.
    """
    if g is None:
        return None
    if g.shape != spec.shape:
        g = unbroadcast(xp, g, spec.shape)
    if g.dtype != spec.dtype:
        if not spec.is_complex and is_complex(xp, g):
            g = xp.real(g)
        if g.dtype != spec.dtype:
            g = xp.astype(g, spec.dtype)
    return g


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum the axes along which `shape` was broadcast to that of `g`."""
    extra = g.ndim - len(shape)
    if extra > 0:
        g = xp.sum(g, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    if axes:
        g = xp.sum(g, axis=axes, keepdims=True)
    if g.shape != shape and not any(n != n for n in (*g.shape, *shape)):  # noqa: PLR0124 (nan: unknown when lazy)
        raise ShapeMismatchError(g.shape, shape)
    return g


class Masked(tuple[Any, ...]):
    """Cotangents that leave an op which drops elements: 0 there means "not asked for", whatever it is multiplied by."""

    __slots__ = ()


def unmasked(xp: Any, g: Any, product: Any, node: Node) -> Any:
    """Put 0 where a cotangent of 0 met an infinite or undefined partial, behind an op that drops elements.

    Only what became NaN is changed: where the partial is finite the product stays a product, whose derivative by `g` is
    that partial although `g` is 0.
    """
    if product is None or product.shape != g.shape:
        return product
    raw = product._raw if xp is node.spec.backend.functions else product
    if not (backend_of(raw) or node.spec.backend).may_hold_nan(raw):
        return product
    lost = xp.logical_and(xp.isnan(product), g == 0)
    return xp.where(lost, xp.zeros_like(product), product)


class Crossed(tuple[Any, ...]):
    """The cotangent that leaves a crossing between backends: perhaps lazy, where its operand is not."""

    __slots__ = ()


class ShapeMismatchError(ValueError):
    """A rule gave a cotangent of a shape that its operand was not broadcast to. The engine says which rule."""


def lent(value: Any) -> Any:
    """Return a raw value, or a list or tuple of them, as code of the user's may have it: see `Backend.lend`."""
    if isinstance(value, list | tuple):
        return type(value)(map(lent, value))
    backend = backend_of(value)
    return value if backend is None else backend.lend(value)


# -- plans ------------------------------------------------------------------------------------------------------------


class Plan:
    """How a rule runs for one pattern of needs.

    Parameters
    ----------
    rule : Rule
        The derivative.
    needs : tuple of bool
        Per operand, whether it needs a gradient; for a list operand, per member.
    plain : bool
        Every operand has the result's spec, and that is real: no un-broadcasting, casts or conjugates are needed.
    careful : bool
        The cotangent comes from an op that drops elements: products with 0 are looked through (see `unmasked`).

    Attributes
    ----------
    saves : tuple of str
        Names of the values a node keeps, in this order.
    source : str
        The generated text of `vjp`.
    vjp : callable
        ``vjp(xp, g, saved, node)``, compiled at the first use.
    """

    def __init__(self, rule: Rule, needs: tuple[bool, ...], *, plain: bool = False, careful: bool = False) -> None:
        self.rule = rule
        self.needs = needs
        self.plain = plain
        self.careful = careful
        self.wanted = (
            (rule.sequence,)
            if rule.sequence
            else tuple(n for n, need in zip(rule.operands, needs, strict=True) if need)
        )
        self.saves = rule.saves(self.wanted)
        self.source = ""
        self._users: list[tuple[dict[str, Any], str]] = []
        self.vjp = self._lazy()

    def use_in(self, names: dict[str, Any], name: str) -> None:
        """Put `vjp` under a name, and the compiled one once there is one."""
        with FIRST_USE:
            names[name] = self.vjp
            self._users.append((names, name))

    @once
    def careful_vjp(self) -> Callable[..., Any]:
        """The same for a cotangent that comes from an op which drops elements."""
        return Plan(self.rule, self.needs, plain=self.plain, careful=True).compile()

    def needed_names(self) -> list[Any]:
        """Return the operands that need a gradient, in the order of a node's edges; (name, place) for one in a list."""
        if self.rule.sequence:
            return [(self.rule.sequence, i) for i, need in enumerate(self.needs) if need]
        return list(self.wanted)

    def _lazy(self) -> Callable[..., Any]:
        def vjp(xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
            compiled = self.compile()
            node.vjp = compiled
            return compiled(xp, g, saved, node)

        vjp.plan = self  # type: ignore[attr-defined]
        return vjp

    def compile(self) -> Callable[..., Any]:
        """Compile `vjp` from its source, once."""
        with FIRST_USE:
            if not self.source:
                self._compile()
        return self.vjp

    def _compile(self) -> None:
        names: dict[str, Any] = {
            "Crossed": Crossed,
            "Masked": Masked,
            "fit": fit,
            "floating": floating,
            "times": times,
            "unmasked": unmasked,
        }
        source = self._write(names)
        variant = f"{' plain' if self.plain else ''}{' careful' if self.careful else ''}"
        filename = f"<agrad vjp of {self.rule.op} {self.needs}{variant}>"
        compiled = compile_source(source, filename, names)["vjp"]
        compiled.plan = self
        self.vjp, self.source = compiled, source
        for users, name in self._users:
            users[name] = compiled

    def _write(self, names: dict[str, Any]) -> str:
        rule = self.rule
        asked = {r for name in self.wanted for r in requests_of(rule.vjp[name])}
        lines = ["def vjp(xp, g, saved, node):"]
        if rule.guarded:
            names["lent"] = lent
            lines += [
                "    if xp is not node.spec.backend.functions:",
                "        g, saved = lent(g), tuple(map(lent, saved))",
            ]
        if self.saves:
            lines.append(f"    ({', '.join(self.saves)},) = saved")
        if asked & set(rule.params):
            lines.append(f"    ({', '.join(rule.params)},) = node.params")
        if rule.sequence:
            names["derivative"] = rule.vjp[rule.sequence]
            call = f"derivative({self._arguments(rule.sequence)})"
            lines.append(f"    gs = {call}")
            kept = [i for i, need in enumerate(self.needs) if need]
            results = [f"fit(xp, gs[{i}], node.specs[{i}])" for i in kept]
        else:
            results = [self._expression(name, names) for name in self.wanted]
        kind = "Masked" if rule.drops else "Crossed" if rule.crosses else None
        lines.append(
            f"    return {', '.join(results)}" if kind is None else f"    return {kind}(({', '.join(results)},))"
        )
        return "\n".join(lines) + "\n"

    def _arguments(self, operand: str) -> str:
        return ", ".join(self._argument(r) for r in requests_of(self.rule.vjp[operand]))

    def _argument(self, request: str) -> str:
        if request == "ans_spec":
            return "node.spec"
        if request.endswith("_spec") and request[:-5] in self.rule.operands:
            return self._spec(request[:-5])
        if self.rule.kind == "elementwise" and not self.plain and request in self.rule.operands:
            return f"({request} if {self._spec(request)}.inexact else floating(xp, {request}, node.spec))"
        return request

    def _spec(self, operand: str) -> str:
        if self.plain:
            return "node.spec"
        return "node.specs" if operand == self.rule.sequence else f"node.specs[{self.rule.operands.index(operand)}]"

    def _expression(self, operand: str, names: dict[str, Any]) -> str:
        derivative = self.rule.vjp[operand]
        if isinstance(derivative, int | float):
            known: dict[float, str] = {1: "g", -1: "xp.negative(g)", 0: "xp.zeros_like(g)"}
            text = known.get(derivative, f"g * {derivative!r}")
        elif derivative.__code__.co_code == _IDENTITY and len(requests_of(derivative)) == 1:
            text = self._arguments(operand)  # the partial is a saved value, as in a product: no call
            if self.rule.kind == "elementwise":
                text = f"xp.multiply(g, {text})" if self.plain else f"times(xp, g, {text}, node.spec)"
        else:
            name = f"_by_{operand}"  # no argument is called so: `TAKEN`
            names[name] = derivative
            text = f"{name}({self._arguments(operand)})"
            if self.rule.kind == "elementwise":
                text = f"xp.multiply(g, {text})" if self.plain else f"times(xp, g, {text}, node.spec)"
        if self.careful and self.rule.outputs is None and self.rule.kind in ("elementwise", "custom", "fused"):
            text = f"unmasked(xp, g, {text}, node)"
        # what crosses to another backend comes in the operand's dtype, or is lazy and stays a while
        return text if self.plain or self.rule.crosses else f"fit(xp, {text}, {self._spec(operand)})"


def compile_source(source: str, filename: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run generated source in `names`; tracebacks show it, and its frames count as agrad's own."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    errors.INTERNAL_FILES.add(filename)
    exec(compile(source, filename, "exec"), names)  # noqa: S102 (the source is ours, from the op's own declaration)
    return names
