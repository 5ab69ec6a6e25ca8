"""One GPU kernel for a whole rule: it is run once on symbols, and what it does to them becomes CUDA C++.

An elementwise rule such as ``g * (1 - ans * ans)`` would launch a kernel per operator, and each would read and write
whole arrays. Run on `Value`s instead of arrays it writes down its steps, one line each, from which
``cupy.ElementwiseKernel`` makes a single kernel. All numbers of a trace have one real dtype, so Python's and C++'s
arithmetic mean the same; what does not fit this (another dtype, a shape, a data-dependent branch) raises `NotFusible`,
and the rule runs step by step as on any backend. Nothing here imports CuPy: `Code` can be looked at without it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agrad.core.kernels import SUBNAMESPACES
from agrad.core.op import OPS


class NotFusible(Exception):
    """A rule does what one kernel over elements cannot do."""


#: Functions of the generated code that CUDA C++ lacks, or has with other results at ties and NaN than the standard.
PREAMBLE = """
template<class T> __device__ T agrad_where(bool c, T a, T b) { return c ? a : b; }
template<class T> __device__ T agrad_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template<class T> __device__ T agrad_maximum(T a, T b) { return a != a || a > b ? a : b; }
template<class T> __device__ T agrad_minimum(T a, T b) { return a != a || a < b ? a : b; }
template<class T> __device__ T agrad_logaddexp(T a, T b) {
    if (a == b) return a + log(T(2));
    const T d = a - b;
    return d > T(0) ? a + log1p(exp(-d)) : d <= T(0) ? b + log1p(exp(d)) : d;
}
__device__ inline bool agrad_not(bool x) { return !x; }
"""

#: By the name of a function: what it is called in the generated code. All take and give numbers of the one dtype.
_FUNCTIONS = {
    **{name: name for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos")},
    **{name: name for name in ("cosh", "exp", "expm1", "floor", "hypot", "log", "log10", "log1p", "log2", "sin")},
    **{name: name for name in ("sinh", "sqrt", "tan", "tanh", "trunc")},
    "abs": "fabs",
    "pow": "pow",
    "round": "rint",
    "logaddexp": "agrad_logaddexp",
    "maximum": "agrad_maximum",
    "minimum": "agrad_minimum",
    "sign": "agrad_sign",
    "special.cbrt": "cbrt",
    "special.erf": "erf",
    "special.erfc": "erfc",
    "special.exp2": "exp2",
}
#: Of numbers, with a truth value.
_TESTS = {name: name for name in ("isfinite", "isinf", "isnan")}
#: By the name of a function: the operator it is; the second part tells what of: numbers, or truth values.
_OPERATORS = {
    "add": ("+", "number"),
    "subtract": ("-", "number"),
    "multiply": ("*", "number"),
    "divide": ("/", "number"),
    "equal": ("==", "test"),
    "not_equal": ("!=", "test"),
    "less": ("<", "test"),
    "less_equal": ("<=", "test"),
    "greater": (">", "test"),
    "greater_equal": (">=", "test"),
    "logical_and": ("&", "logic"),
    "logical_or": ("|", "logic"),
}


#: The most operators and functions in one kernel: longer ones take seconds to compile, and registers run out.
LONGEST = 200

#: They overflow in the compiler.
_INFINITY, _NAN = "1e308 * 1e308", "1e308 * 1e308 - 1e308 * 1e308"


class Trace:
    """What has been done to the symbols of one trace."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.lines: list[str] = []
        self.steps = 0
        self._known: dict[str, Value] = {}

    def add(self, text: str, *, truth: bool = False, steps: int = 1) -> Value:
        """Return the value of an expression; the same expression is written once."""
        found = self._known.get(text)
        if found is None:
            self.steps += steps
            if self.steps > LONGEST:
                raise NotFusible(f"more than {LONGEST} steps")
            name = f"v{len(self.lines)}"
            self.lines.append(f"const {'bool' if truth else 'C'} {name} = {text};")
            found = self._known[text] = Value(self, name, truth=truth)
        return found

    def number(self, value: Any) -> str:
        """Return a value as a number in the generated code."""
        if isinstance(value, Value):
            return f"C({value.text})" if value.truth else value.text
        if isinstance(value, int | float):
            if math.isfinite(value):
                return f"C({float(value)!r})"
            return f"C({_NAN})" if math.isnan(value) else f"C({_INFINITY})" if value > 0 else f"C(-({_INFINITY}))"
        raise NotFusible(f"{type(value).__name__} {value!r} among numbers")

    def truth(self, value: Any) -> str:
        """Return a value as a truth value in the generated code."""
        if isinstance(value, Value) and value.truth:
            return value.text
        raise NotFusible(f"{type(value).__name__} among truth values")


class Value:
    """A symbol that stands for one element: of an operand, of the cotangent, or of something computed of them."""

    __slots__ = ("text", "trace", "truth")

    def __init__(self, trace: Trace, text: str, *, truth: bool = False) -> None:
        self.trace, self.text, self.truth = trace, text, truth

    @property
    def dtype(self) -> Any:
        if self.truth:
            raise NotFusible("the dtype of a truth value")
        return self.trace.dtype

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what tells a Tensor from an array
            raise AttributeError(name)
        raise NotFusible(f"{name} of an element")

    def __bool__(self) -> bool:
        raise NotFusible("a branch by the value of an element")

    __float__ = __int__ = __complex__ = __index__ = __iter__ = __len__ = __bool__  # type: ignore[assignment]

    def __neg__(self) -> Value:
        return self.trace.add(f"-{self.trace.number(self)}")

    def __abs__(self) -> Value:
        return _call(self.trace, "abs", self)

    def __mod__(self, other: Any) -> Value:
        raise NotFusible("a remainder")

    __rmod__ = __floordiv__ = __rfloordiv__ = __mod__

    def __pow__(self, other: Any) -> Value:
        return _call(self.trace, "pow", self, other)

    def __rpow__(self, other: Any) -> Value:
        return _call(self.trace, "pow", other, self)

    def __invert__(self) -> Value:
        return self.trace.add(f"agrad_not({self.trace.truth(self)})", truth=True)

    __hash__ = object.__hash__


def _binary(trace: Trace, name: str, a: Any, b: Any) -> Value:
    sign, kind = _OPERATORS[name]
    write = trace.truth if kind == "logic" else trace.number
    return trace.add(f"{write(a)} {sign} {write(b)}", truth=kind != "number")


def _call(trace: Trace, name: str, *values: Any) -> Value:
    return trace.add(f"{_FUNCTIONS[name]}({', '.join(map(trace.number, values))})")


def _operator(name: str, *, reflected: bool = False) -> Callable[[Value, Any], Value]:
    def method(self: Value, other: Any) -> Value:
        return _binary(self.trace, name, *((other, self) if reflected else (self, other)))

    return method


for _name, _word in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide")):
    setattr(Value, f"__{_name}__", _operator(_word))
    setattr(Value, f"__r{_name}__", _operator(_word, reflected=True))
for _name, _word in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal")):
    setattr(Value, f"__{_name}__", _operator(_word))
for _name, _word in (("gt", "greater"), ("ge", "greater_equal"), ("and", "logical_and"), ("or", "logical_or")):
    setattr(Value, f"__{_name}__", _operator(_word))


class TracedNamespace:
    """The functions that a rule gets as ``xp`` while it is traced."""

    def __init__(self, trace: Trace, library: Any, prefix: str = "") -> None:
        self._trace, self._library, self._prefix = trace, library, prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        trace, full = self._trace, self._prefix + name
        if not self._prefix and name in SUBNAMESPACES:
            return TracedNamespace(trace, self._library, f"{name}.")
        if full in _OPERATORS:
            return functools.partial(_binary, trace, full)
        if full in _FUNCTIONS:
            return functools.partial(_call, trace, full)
        if full in _TESTS:
            return lambda x: trace.add(f"{_TESTS[full]}({trace.number(x)})", truth=True)
        own = getattr(self, f"_do_{name}", None) if not self._prefix else None
        if own is not None:
            return own
        op = OPS.get(full)
        if op is not None and op.rule.kind == "elementwise" and op.kernel is not None and _is_ours(op):
            return functools.partial(op.kernel, TracedNamespace(trace, self._library))  # it is a composition
        raise NotFusible(f"the function {full}")

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        return bool(self._library.isdtype(dtype, kind))

    def _do_astype(self, x: Value, dtype: Any, *, copy: bool = True) -> Value:
        if dtype != self._trace.dtype:
            raise NotFusible(f"a cast to {dtype}")
        return self._trace.add(self._trace.number(x), steps=0)

    def _do_logical_not(self, x: Value) -> Value:
        return ~x

    def _do_negative(self, x: Value) -> Value:
        return -x

    def _do_positive(self, x: Value) -> Value:
        return x

    def _do_real(self, x: Value) -> Value:
        return x

    def _do_conj(self, x: Value) -> Value:
        return x

    def _do_reciprocal(self, x: Value) -> Value:
        return 1.0 / x  # type: ignore[operator, no-any-return]

    def _do_square(self, x: Value) -> Value:
        return x * x  # type: ignore[operator, no-any-return]

    def _do_ones_like(self, x: Value) -> Value:
        return self._trace.add("C(1.0)", steps=0)

    def _do_zeros_like(self, x: Value) -> Value:
        return self._trace.add("C(0.0)", steps=0)

    def _do_full_like(self, x: Value, value: Any) -> Value:
        return self._trace.add(self._trace.number(value), steps=0)

    def _do_where(self, condition: Value, x1: Any, x2: Any) -> Value:
        trace = self._trace
        parts = trace.truth(condition), trace.number(x1), trace.number(x2)
        return trace.add(f"agrad_where({', '.join(parts)})")

    def _do_clip(self, x: Any, /, min: Any = None, max: Any = None) -> Any:
        for bound, name in ((min, "maximum"), (max, "minimum")):
            x = x if bound is None else _call(self._trace, name, x, bound)
        return x


def _is_ours(op: Any) -> bool:
    """Return whether an op is one of agrad's: what users declare may call anything, and is run as it is written."""
    return not op.rule.guarded


class _Node:
    """What a rule may ask of its node while it is traced: nothing that differs between calls of one kernel."""

    def __init__(self, dtype: Any, params: tuple[Any, ...]) -> None:
        self.spec, self.params = self, params
        self.dtype, self.inexact, self.is_complex = dtype, True, False

    def __getattr__(self, name: str) -> Any:
        raise NotFusible(f"{name} of a node or spec")


@dataclass(frozen=True)
class Code:
    """The text of one kernel, as ``cupy.ElementwiseKernel`` takes it.

    Attributes
    ----------
    ins, outs : str
        The parameters, as ``"float32 a0, float32 a1"``.
    body : str
        What is done for one element.
    name : str
        What profilers show.
    steps : int
        How many operators and functions it takes the place of.
    single : bool
        Whether there is one result, rather than a tuple.
    """

    ins: str
    outs: str
    body: str
    name: str
    steps: int
    single: bool


#: What numbers are computed in.
_COMPUTED = {"float16": "float", "float32": "float", "float64": "double"}


def _code(name: str, dtype: Any, count: int, run: Callable[[Trace, list[Value]], Any]) -> Code:
    """Trace a function of `count` arrays."""
    kind = _COMPUTED.get(dtype.name)
    if kind is None:
        raise NotFusible(f"the dtype {dtype}")
    trace = Trace(dtype)
    result = run(trace, [trace.add(f"a{i}", steps=0) for i in range(count)])
    results = result if isinstance(result, tuple) else (result,)
    stores = [f"r{i} = {trace.number(value)};" for i, value in enumerate(results)]
    return Code(
        ", ".join(f"{dtype.name} a{i}" for i in range(count)),
        ", ".join(f"{dtype.name} r{i}" for i in range(len(results))),
        "\n".join([f"typedef {kind} C;", *trace.lines, *stores]),
        f"agrad_{name.replace('.', '_')}",
        trace.steps,
        not isinstance(result, tuple),
    )


def rule_code(plan: Any, dtype: Any, params: tuple[Any, ...], library: Any) -> Code:
    """Return the kernel of a rule's whole `vjp`: of the cotangent and what was saved, in this order.

    Parameters
    ----------
    plan : Plan
        Of an elementwise op whose operands all have the spec of its result.
    dtype : dtype
        Of everything.
    params : tuple
        The node's parameters.
    library : namespace
        Answers ``isdtype``.

    Raises
    ------
    NotFusible
        If one kernel cannot do it.
    """
    rule = plan.rule
    if rule.kind != "elementwise" or not plan.same_spec or plan.nan_safe or not _is_ours(OPS[rule.op]):
        raise NotFusible("the rule of another kind, or of operands that differ")
    vjp = plan.compile()

    def run(trace: Trace, values: list[Value]) -> Any:
        return vjp(TracedNamespace(trace, library), values[0], tuple(values[1:]), _Node(dtype, params))

    return _code(f"{rule.op}_backward", dtype, 1 + len(plan.saves), run)


def kernel_code(
    op: Any, dtype: Any, values: tuple[Any, ...], keywords: tuple[tuple[str, Any], ...], library: Any
) -> Code:
    """Return the kernel of a composed elementwise op; `ARRAY` stands where an array is.

    Raises
    ------
    NotFusible
        If one kernel cannot do it.
    """
    if op.rule.kind != "elementwise" or op.kernel is None or not _is_ours(op):
        raise NotFusible("another kind of op")

    def run(trace: Trace, arrays: list[Value]) -> Any:
        given = iter(arrays)
        filled = [next(given) if value is ARRAY else value for value in values]
        named = {name: next(given) if value is ARRAY else value for name, value in keywords}
        return op.kernel(TracedNamespace(trace, library), *filled, **named)

    count = sum(value is ARRAY for value in (*values, *(value for _, value in keywords)))
    return _code(op.name, dtype, count, run)


#: Stands for an array among the arguments of a kernel.
ARRAY = object()
