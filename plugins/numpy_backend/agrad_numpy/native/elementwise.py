"""Elementwise steps as instructions on scalars or vectors: with NumPy's bits, except for functions of `vector_math`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from agrad.plugin.programs import DType, Ref, Shaped, Step, is_number
from agrad_numpy.native import vector_math
from agrad_numpy.native.ir import FLOATS, TYPES, Arithmetic, IRFunction, literal, vector

#: Comparisons: of floats, of integers. NaN is unequal to everything.
COMPARISONS = {
    "less": ("olt", "slt"),
    "less_equal": ("ole", "sle"),
    "greater": ("ogt", "sgt"),
    "greater_equal": ("oge", "sge"),
    "equal": ("oeq", "eq"),
    "not_equal": ("une", "ne"),
}

#: Of booleans.
LOGICAL = {
    "logical_and": "and",
    "bitwise_and": "and",
    "logical_or": "or",
    "bitwise_or": "or",
    "logical_xor": "xor",
    "bitwise_xor": "xor",
}

#: Of two floats, or of two integers, which wrap around like NumPy's.
BASIC = {"add": ("fadd", "add"), "subtract": ("fsub", "sub"), "multiply": ("fmul", "mul"), "divide": ("fdiv", "")}


def _sign(e: Arithmetic, a: str) -> str:
    zero = e.number(0.0)
    found = e.choose(e.compare("ogt", a, zero), e.number(1.0), zero)
    found = e.choose(e.compare("olt", a, zero), e.number(-1.0), found)
    return e.choose(e.nan(a), a, found)


#: Of one float.
UNARY: dict[str, Callable[[Arithmetic, str], str]] = {
    "abs": lambda e, a: e.called("fabs", a),
    "negative": lambda e, a: e.negative(a),
    "nn.relu": lambda e, a: e.maximum(a, e.number(0.0)),
    "reciprocal": lambda e, a: e.divide(e.number(1.0), a),
    "sign": _sign,
    "sqrt": lambda e, a: e.called("sqrt", a),
    "square": lambda e, a: e.multiply(a, a),
}

#: Powers that Python's operator takes by another function, and NumPy's too.
POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}

#: Powers that products, roots and quotients compute to one and a half units in the last place.
PRODUCTS = (3, 4, 1.5, -0.5, -2)

#: Of one float, whether it is a number: compare its absolute value with infinity by this.
FINITE = {"isfinite": "olt", "isinf": "oeq", "isnan": "uno"}

#: Steps that fill an array, with the position of the value among the arguments.
FILLED = {"full": 1, "full_like": 1, "zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1}

Operand = Callable[[Any, str], str]


def supports(step: Step, shapes: Mapping[int, Shaped], *, own: bool) -> bool:
    """Return whether there are instructions for a step; `own`: functions of `vector_math` count."""
    if step.several or len(step.made) != 1 or step.made[0] not in shapes:
        return False
    op, made = step.op, shapes[step.made[0]].dtype
    if made not in TYPES or any(n not in shapes or shapes[n].dtype not in TYPES for n in step.refs):
        return False
    if op in FILLED:
        at = FILLED[op]
        value = step.args[1] if op.startswith("full") and len(step.args) > 1 else at
        return is_number(value) and _holds(value, made)
    if op == "astype":
        return type(step.args[0]) is Ref and _casts(shapes[step.args[0].number].dtype, made)
    if op == "positive":
        return type(step.args[0]) is Ref and shapes[step.args[0].number].dtype == made
    if step.kwargs or not all(type(a) is Ref or is_number(a) for a in step.args):
        return False

    def are(dtype: str, *args: Any) -> bool:
        return all(shapes[a.number].dtype == dtype if type(a) is Ref else _holds(a, dtype) for a in args)

    if op in FINITE:
        return len(step.args) == 1 and len(step.refs) == 1 and shapes[step.refs[0]].dtype in FLOATS
    if op in COMPARISONS and len(step.args) == 2 and step.refs:
        dtype = shapes[step.refs[0]].dtype
        return dtype != "bool" and are(dtype, *step.args)
    if op == "where":
        return type(step.args[0]) is Ref and shapes[step.args[0].number].dtype == "bool" and are(made, *step.args[1:])
    if op in LOGICAL or op in ("logical_not", "bitwise_invert"):
        return made == "bool" and are("bool", *step.args)
    if op in BASIC:
        return (made in FLOATS and are(made, *step.args)) or (
            made in ("int32", "int64") and BASIC[op][1] != "" and are(made, *step.args)
        )
    if made not in FLOATS or not are(made, *step.args):
        return False
    if op in ("maximum", "minimum"):
        return True
    if op == "pow":
        exponent = step.args[1]
        if type(step.args[0]) is not Ref or type(exponent) not in (int, float):
            return False
        return exponent in POWERS or (own and exponent in PRODUCTS)
    if op == "nn.softplus":
        return own and len(step.refs) == 1 and step.args[1:2] in ((), (1,))
    return op in UNARY or (own and op in vector_math.FUNCTIONS)


def is_quick(step: Step) -> bool:
    """Return whether a step, which `supports` has, is a few instructions."""
    return step.op not in vector_math.FUNCTIONS


def _holds(value: Any, dtype: str) -> bool:
    """Return whether a Python number next to an array of a dtype is converted to that dtype."""
    if type(value) is complex:
        return False
    if dtype == "bool":
        return type(value) is bool
    if dtype in FLOATS:
        return type(value) is float or abs(value) < 2**53
    return type(value) is int and abs(value) < 2 ** (31 if dtype == "int32" else 63)


def _casts(before: str, after: str) -> bool:
    """Return whether a cast has the same result on every machine: of floats to integers it does not, out of range."""
    return not (before in FLOATS and after in ("int32", "int64"))


def value(
    f: IRFunction, step: Step, operand: Operand, dtypes: Callable[[int], str], width: int, math_: vector_math.Math
) -> str:
    """Return the result of a step, which `supports` accepts; `operand` returns an argument as a value of a dtype."""
    op, made = step.op, dtypes(step.made[0])
    kind = vector(TYPES[made], width)
    if op in FILLED:
        filled = step.args[1] if op.startswith("full") and len(step.args) > 1 else FILLED[op]
        return literal(filled, made, width)
    if op in COMPARISONS:
        of = dtypes(step.refs[0])
        a, b = (operand(part, of) for part in step.args)
        how = f"fcmp {COMPARISONS[op][0]}" if of in FLOATS else f"icmp {COMPARISONS[op][1]}"
        return f.get(f"{how} {vector(TYPES[of], width)} {a}, {b}")
    if op in FINITE:
        of = Arithmetic(f, dtypes(step.refs[0]), width)
        return of.compare(FINITE[op], of.called("fabs", operand(step.args[0], of.dtype)), of.number(math.inf))
    if op == "where":
        truth, a, b = operand(step.args[0], "bool"), operand(step.args[1], made), operand(step.args[2], made)
        return f.get(f"select {vector('i1', width)} {truth}, {kind} {a}, {kind} {b}")
    args = [operand(part, made) for part in step.args if not isinstance(part, DType)]
    if op in ("astype", "positive"):
        return args[0]
    if op in LOGICAL:
        return f.get(f"{LOGICAL[op]} {kind} {args[0]}, {args[1]}")
    if op in ("logical_not", "bitwise_invert"):
        return f.get(f"xor {kind} {args[0]}, {literal(True, 'bool', width)}")
    if op in BASIC:
        return f.get(f"{BASIC[op][made not in FLOATS]} {kind} {args[0]}, {args[1]}")
    e = Arithmetic(f, made, width)
    if op in ("maximum", "minimum"):
        return (e.maximum if op == "maximum" else e.minimum)(args[0], args[1])
    if op == "pow" and step.args[1] in PRODUCTS:
        return vector_math.power(e, args[0], step.args[1])
    if op == "pow":
        op = POWERS[step.args[1]]
    if op in UNARY:
        return UNARY[op](e, args[0])
    found = math_.call(e, op, args[0])
    if op == "nn.softplus" and len(args) > 2:  # unchanged beyond
        return e.choose(e.compare("ogt", args[0], args[2]), args[0], found)
    return found


def converted(f: IRFunction, found: str, before: str, after: str, width: int) -> str:
    """Return a value converted to another dtype."""
    if before == after:
        return found
    a, b = TYPES[before], TYPES[after]
    if after == "bool":
        how = "fcmp une" if before in FLOATS else "icmp ne"
        return f.get(f"{how} {vector(a, width)} {found}, {literal(0, before, width)}")
    if before in FLOATS:
        how = "fpext" if after == "float64" else "fptrunc"
    elif after in FLOATS:
        how = "uitofp" if before == "bool" else "sitofp"
    else:
        how = "zext" if before == "bool" else "sext" if after == "int64" else "trunc"
    return f.get(f"{how} {vector(a, width)} {found} to {vector(b, width)}")


def count_of(shape: tuple[int, ...]) -> int:
    """Return how many elements an array has."""
    return math.prod(shape)
