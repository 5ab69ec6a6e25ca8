"""The results of an operation, given its operands: shapes and dtypes without a computation.

An operation runs on outlines, arrays without elements, by its compositions in agrad: if it is composed of the
standard's functions, the answer follows from these, and shapes need not be specified twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad import dtypes
from agrad.core.backend import Backend
from agrad.core.errors import UnsupportedOp
from agrad.core.op import OPS
from agrad.core.spec import Spec
from agrad.program import outlines
from agrad.program.outlines import CountedOutline, NeedsValuesError, Outline

__all__ = ["OUTLINES", "infer", "keyed"]


class OutlineBackend(Backend):
    """The backend of outlines."""

    name = "outline"
    is_lazy = True  # functions that would check elements skip the check

    def namespace(self) -> Any:
        return outlines.namespace()

    def dtype(self, dtype: Any) -> Any:
        return outlines.dtype_of(dtype)

    def kind(self, dtype: Any) -> str:
        return outlines.kind_of(dtype)

    def asarray(self, value: Any, *, dtype: Any = None, **_: Any) -> Any:
        return outlines.asarray(value, dtype=dtype)

    def broadcast_like(self, array: Any, spec: Any) -> Any:
        return outlines.broadcast_to(array, spec.shape)

    def scatter_add(self, spec: Any, key: Any, values: Any) -> Any:
        return Outline(spec.shape, values.dtype)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        outlines.broadcast(outlines.indexed(array.shape, key), value.shape)
        return Outline(array.shape, array.dtype)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """Return the result of most functions of `special`, which consist of no standard function, or of hundreds."""
        if op in WRITTEN:
            return WRITTEN[op]
        known = OPS.get(op)
        return (
            _floating if known is not None and op.startswith("special.") and known.rule.kind == "elementwise" else None
        )


def _lu(a: Outline, /) -> tuple[Outline, ...]:
    *lead, m, n = a.shape
    k = min(m, n)
    real = outlines.namespace().real(a).dtype
    return Outline((*lead, m, m), real), Outline((*lead, m, k), a.dtype), Outline((*lead, k, n), a.dtype)


def _solution(*matrices: Outline, **_: Any) -> Outline:
    """Return the outline of the solutions of stacks of equations, where the last operand holds the right sides."""
    lead = outlines.broadcast(*(matrix.shape[:-2] for matrix in matrices))
    return Outline((*lead, *matrices[-1].shape[-2:]), outlines.result_type(*matrices))


def _floating(*values: Any, **_: Any) -> Outline:
    """Broadcast operands; integers among them do not affect the precision."""
    inexact = [v for v in values if outlines.kind_of(outlines.result_type(v)) in ("float", "complex")]
    return outlines.promoted(*values, dtype=outlines.floating(outlines.result_type(*inexact)))


#: For operations and kernels that have no composition, or one that depends on values: functions of the outlines of
#: their operands.
WRITTEN: dict[str, Callable[..., Any]] = {
    "scipy.expm": lambda a, /: a,
    "scipy.expm_frechet": lambda a, e, /: outlines.promoted(a, e),
    "scipy.lu": _lu,
    "scipy.solve_banded": _solution,
    "scipy.solve_sylvester": _solution,
    "special.elliprd": _floating,
    "special.inner_slope": lambda found, inner, name, /: found,
}


Outline.backend = OUTLINES = OutlineBackend()


def infer(op: str, arguments: Sequence[Any], parameters: Mapping[str, Any] | None = None) -> tuple[Spec, ...] | None:
    """Return the specs of an operation's results, given those of its operands, without computing anything.

    Parameters
    ----------
    op : str
        Its name, one of ``agrad.rules``.
    arguments : sequence
        Positional arguments as in the call: a `Spec` for each array, also within tuples, keys and lists; other values
        unchanged.
    parameters : mapping, optional
        Those by name.

    Returns
    -------
    tuple of Spec or None
        A spec per result, with the backend and device of the first operand. A length that depends on values is nan;
        None if the result is only known by running the operation, for example one that a user declared with a library's
        kernel.

    Raises
    ------
    KeyError
        If there is no such operation.
    ValueError
        If the shapes do not fit together.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.program.inference import infer
    >>> x, w = ag.zeros((8, 3))._spec, ag.zeros((3,), dtype="float32")._spec
    >>> infer("matmul", (x, w))
    (Spec(shape=(8,), dtype=float64, device='numpy'),)
    >>> [spec.shape for spec in infer("linalg.svd", (x,), {"full_matrices": False})]
    [(8, 3), (3,), (3, 3)]
    """
    declared, parameters = OPS[op], parameters or {}
    specs = [spec for value in (*arguments, *parameters.values()) for spec in _specs_in(value)]
    if not specs:
        raise ValueError(f"infer({op!r}): no argument is a Spec")
    backend, device = specs[0].backend, specs[0].device
    found = backend.infer(op, arguments, parameters)
    if found is not None:
        return tuple(found)
    rest, others = dict(parameters), list(declared.signature.parameters.values())[len(arguments) :]
    more = [rest.pop(p.name) for p in others if p.kind is p.POSITIONAL_ONLY and p.name in rest]
    bound = declared.signature.bind(*arguments, *more, **rest)
    bound.apply_defaults()
    values = [_outlined(bound.arguments[argument.name]) for argument in declared.arguments]
    for i, argument in enumerate(declared.arguments):
        if argument.kind == "key":
            values[i] = keyed(values[i])
    operands = [values[i] if argument.kind == "sequence" else [values[i]] for i, argument in declared.operand_slots]
    arrays = [value for members in operands for value in members if isinstance(value, Outline)] or [_outlined(specs[0])]
    # The first floating-point one, if there is one
    beside = max(map(OUTLINES.spec, arrays), key=lambda spec: spec.inexact)
    for i, argument in declared.operand_slots:  # kernels receive arrays
        if argument.kind == "operand" and isinstance(values[i], bool | int | float | complex):
            values[i] = OUTLINES.scalar(values[i], beside)
    if declared.dtype_slot is not None and values[declared.dtype_slot] is not None:
        values[declared.dtype_slot] = outlines.dtype_of(values[declared.dtype_slot])
    try:
        result = declared.invoke(declared.kernel_of(OUTLINES.xp), values)
    except (NeedsValuesError, UnsupportedOp):
        return None
    except Exception:
        if declared.rule.guarded:  # a user's kernel, which may be written for one library only
            return None
        raise
    if declared.rule.residuals:  # values that a fused kernel leaves for its derivative
        result = result[0]
    results = result if declared.rule.outputs is not None else (result,)
    return tuple(Spec(backend, made.shape, backend.dtype(made.dtype), device) for made in results)


def keyed(value: Any) -> Any:
    """Return a key with arrays in place of lists and single booleans, whose true elements are counted."""
    if isinstance(value, tuple):
        return tuple(map(keyed, value))
    if not isinstance(value, list | bool):
        return value
    made = outlines.asarray(value)
    return made if made.dtype != dtypes.bool else CountedOutline(made.shape, made.dtype, _true_in(value))


def _true_in(value: Any) -> int:
    return sum(map(_true_in, value)) if isinstance(value, list | tuple) else int(value)


def _specs_in(value: Any) -> list[Spec]:
    if isinstance(value, tuple | list):
        return [spec for part in value for spec in _specs_in(part)]
    return [value] if isinstance(value, Spec) else []


def _outlined(value: Any) -> Any:
    """Return an argument with outlines in place of specs."""
    if isinstance(value, Spec):
        return Outline(value.shape, value.backend.dtype_name(value.dtype))
    if type(value) in (tuple, list):
        return type(value)(map(_outlined, value))
    return value
