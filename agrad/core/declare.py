"""Declare an op: a decorator states its derivative, and the decorated function supplies its signature and docs.

The declaration also states everything else known of the op, and no other file does; `primitive` declares kernels without an
op. The body of the decorated function never runs. The kernel is the backend's function of the op's name, or `kernel`,
written in the standard's functions, for an op that the standard lacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from agrad.core import errors
from agrad.core.entry import make_entry, make_whole
from agrad.core.facts import UNKNOWN, WITHOUT_OP, Facts, Primitive
from agrad.core.op import OPS, Op, aliases_in
from agrad.core.rule import Derivative, Rule

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol, overload

    from agrad.core.tensor import Tensor

__all__ = ["custom", "elementwise", "fused", "linear", "multilinear", "nondifferentiable", "primitive"]

#: Namespaces that cache a function they made at its first use, by name: an op of that name replaces it.
MADE: dict[str, dict[str, Any]] = {}

F = TypeVar("F", bound=Callable[..., Any])
Kernel = Callable[..., Any]

if TYPE_CHECKING:
    P = ParamSpec("P")

    class Declared(Protocol):
        """To type checkers, an op has the parameters of the function that declares it, and returns what that states, or a Tensor."""

        @overload
        def __call__(self, stub: Callable[P, None], /) -> Callable[P, Tensor]: ...
        @overload
        def __call__(self, stub: F, /) -> F: ...


def elementwise(
    *,
    name: str | None = None,
    kernel: Kernel | None = None,
    source: str = "",
    real: bool = False,
    memory: str = UNKNOWN.memory,
    facts: Facts = UNKNOWN,
    **partials: Derivative,
) -> Declared:
    """Declare an op that acts element by element, by its partial derivatives.

    Parameters
    ----------
    name : str, optional
        The op's full name, as ``"special.erf"``. Default: the function's own.
    kernel : callable, optional
        ``kernel(xp, *arguments)`` in the standard's functions, for backends without their own.
    source : str, optional
        The source of the formula.
    real : bool, optional
        The op takes real floating operands, beside which others may be integers; it raises `TypeError` for anything else.
    memory : str, optional
        Where the result lies. ``"fresh"``: in its own memory at every call, whatever the operands, except with ``copy=False``.
        ``"view"``: in the first operand's memory where possible, as in NumPy and PyTorch; an in-place operation on the result
        does not reach the operand here, and warns while the operand is alive. ``"lent"``: there too, but nobody expects such an
        operation to reach the operand, so none warns. ``"may share"``: unknown, so compiled functions keep every copy.
    facts : Facts, optional
        Further facts about the op.
    **partials : callable or number
        Per operand, its partial derivative: a function whose parameter names are requests (``xp``, ``ans``, an
        operand's name, a parameter's name), or a constant. For a complex operand the op must be holomorphic in it; agrad
        conjugates the partial.

    Returns
    -------
    callable
        A decorator for the function that supplies signature and documentation; its body never runs. To type checkers the
        op returns a Tensor where that function is annotated ``-> None``.

    Raises
    ------
    RuleError
        If a derivative requests something unknown, or belongs to no operand of the signature.

    Examples
    --------
    >>> import agrad as ag
    >>> @ag.elementwise(x=lambda xp, ans: 1 - ans * ans, kernel=lambda xp, x: xp.tanh(x))
    ... def tanh_again(x, /):
    ...     "Hyperbolic tangent."
    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> tanh_again(x).sum().backward()
    >>> x.grad
    tensor([1.0000, 0.4200])
    """
    return lambda stub: _declare(
        stub,
        "elementwise",
        partials,
        name=name,
        facts=_lying(facts, memory),
        of_rule={"source": source, "real": real},
        of_op={"kernel": kernel},
    )


def linear(
    *,
    name: str | None = None,
    kernel: Kernel | None = None,
    source: str = "",
    sequence: str | None = None,
    index: Sequence[str] = (),
    keys: Sequence[str] = (),
    outputs: int | None = None,
    drops: bool = False,
    crosses: bool = False,
    batch: Kernel | None = None,
    least_axes: int = 0,
    memory: str = UNKNOWN.memory,
    facts: Facts = UNKNOWN,
    **adjoints: Derivative,
) -> Declared:
    """Declare an op that is linear in all its operands jointly, by its adjoint.

    Parameters
    ----------
    name, kernel, source, memory, facts
        As for `elementwise`.
    sequence : str, optional
        The operand that is a list of arrays; its adjoint returns a list of cotangents.
    index : sequence of str, optional
        Operands that are arrays without a derivative (conditions, indices).
    keys : sequence of str, optional
        The operands of `index` that are indexing keys, which may contain arrays.
    outputs : int, optional
        Number of results, if the op returns several; 0 if it varies.
    drops : bool, optional
        The op drops elements by a condition, as `where` does: the gradient of the computation behind them is 0, even where
        a derivative there is infinite or undefined.
    crosses : bool, optional
        The result may belong to another backend than the operand, and the adjoint transfers the cotangent back.
    batch : callable, optional
        ``batch(b, *arguments)``: the op under `vmap`, on arrays with the batch axis in front; see
        `agrad.ops.batch_rules`. Default: elementwise ops align axes, a `kernel` given here runs on batched arrays, and all
        others raise.
    least_axes : int, optional
        The least number of axes of the first operand, where libraries accept fewer and disagree on the meaning.
    **adjoints : callable
        Per operand, its cotangent from ``g``, under the inner product Re<., .>: conjugates included.

    Returns
    -------
    callable
        A decorator for the function that supplies signature and documentation; its body never runs.
    """
    return lambda stub: _declare(
        stub,
        "linear",
        adjoints,
        name=name,
        facts=_lying(facts, memory),
        index=index,
        keys=keys,
        of_rule={"source": source, "sequence": sequence, "outputs": outputs, "drops": drops, "crosses": crosses},
        of_op={"kernel": kernel, "batch": batch, "least_axes": least_axes},
    )


def multilinear(
    *,
    name: str | None = None,
    kernel: Kernel | None = None,
    source: str = "",
    batch: Kernel | None = None,
    contracts: Kernel | None = None,
    shapes: Callable[..., None] | None = None,
    others: Kernel | None = None,
    memory: str = UNKNOWN.memory,
    facts: Facts = UNKNOWN,
    **adjoints: Derivative,
) -> Declared:
    """Declare an op that is linear in each operand, by its adjoints; forward mode sums one term per tangent.

    Parameters
    ----------
    name, kernel, source, batch, memory, facts : optional
        As for `linear`.
    contracts : callable, optional
        ``contracts(specs, *params)``: the axes of its first and second operand over which the op sums products.
    shapes : callable, optional
        ``shapes(x1_shape, x2_shape, *params)`` raises where a library's kernel would accept shapes that the op does not.
    others : callable, optional
        ``others(x1, x2)``: the result where an operand is no array of any backend, or NotImplemented.
    **adjoints : callable
        Per operand, its cotangent from ``g``, as for `linear`; it may request the values of the other operands.

    Returns
    -------
    callable
        A decorator for the function that supplies signature and documentation; its body never runs.
    """
    return lambda stub: _declare(
        stub,
        "multilinear",
        adjoints,
        name=name,
        facts=_lying(facts, memory),
        of_rule={"source": source},
        of_op={"kernel": kernel, "batch": batch, "contracts": contracts, "shapes": shapes, "others": others},
    )


def custom(
    *,
    vjp: dict[str, Derivative],
    jvp: Kernel | None,
    name: str | None = None,
    kernel: Kernel | None = None,
    source: str = "",
    sequence: str | None = None,
    index: Sequence[str] = (),
    keys: Sequence[str] = (),
    outputs: int | None = None,
    drops: bool = False,
    real: bool = False,
    batch: Kernel | None = None,
    contracts: Kernel | None = None,
    least_axes: int = 0,
    by_dim: Kernel | None = None,
    follows: Callable[..., Sequence[bool]] | None = None,
    memory: str = UNKNOWN.memory,
    facts: Facts = UNKNOWN,
) -> Declared:
    """Declare an op by its vjp per operand and its jvp.

    Parameters
    ----------
    vjp : dict
        Per operand, its cotangent from ``g``. For several results ``g`` and ``ans`` are tuples; results without a cotangent
        have None in ``g``.
    jvp : callable or None
        The tangent of the result from ``t_<operand>``, which is None for an operand without one. None: not implemented.
    name, kernel, source, sequence, index, keys, outputs, drops, batch, least_axes, memory, facts
        As for `linear`.
    real : bool, optional
        As for `elementwise`.
    contracts : callable, optional
        As for `multilinear`.
    by_dim : callable, optional
        ``by_dim(x, dim, ...)``: the meaning of a call with PyTorch's ``dim``, where it differs from that with ``axis``.
    follows : callable, optional
        ``follows(needs, *params)``: for several results, which of them have a derivative if these operands need a gradient.
        Default: all.

    Returns
    -------
    callable
        A decorator for the function that supplies signature and documentation; its body never runs.
    """
    return lambda stub: _declare(
        stub,
        "custom",
        vjp,
        name=name,
        facts=_lying(facts, memory),
        index=index,
        keys=keys,
        of_rule={
            "source": source,
            "sequence": sequence,
            "outputs": outputs,
            "drops": drops,
            "jvp": jvp,
            "real": real,
            "follows": follows,
        },
        of_op={
            "kernel": kernel,
            "batch": batch,
            "contracts": contracts,
            "least_axes": least_axes,
            "by_dim": by_dim,
        },
    )


def fused(
    *,
    define: Kernel,
    kernel: Kernel,
    vjp: dict[str, Derivative],
    residuals: Sequence[str] = (),
    joint: Sequence[str] = (),
    name: str | None = None,
    index: Sequence[str] = (),
    source: str = "",
    real: bool = False,
    memory: str = UNKNOWN.memory,
    facts: Facts = UNKNOWN,
) -> Declared:
    """Declare an op that is equivalent to a composition but has a faster kernel and first-order vjp.

    Parameters
    ----------
    define : callable
        ``define(xp, *arguments)``: the composition. Used for higher orders and forward mode.
    kernel : callable
        ``kernel(xp, *arguments)`` returns the result followed by the residuals.
    vjp : dict
        Per operand, its cotangent; may request residuals by name.
    residuals : sequence of str, optional
        Names of the kernel's outputs after the result. A backend's own kernel must return the same, in the same shapes:
        the rule may run on other kernels than the call did, for example with a batch of cotangents or a lazy one.
    joint : sequence of str, optional
        Operands that share one function in `vjp`, which returns all their cotangents, in this order: for operands whose
        cotangents share most of their computation.
    name, index, source, memory, facts
        As for `linear`.
    real : bool, optional
        As for `elementwise`.

    Returns
    -------
    callable
        A decorator for the function that supplies signature and documentation; its body never runs.
    """
    return lambda stub: _declare(
        stub,
        "fused",
        vjp,
        name=name,
        facts=_lying(facts, memory),
        index=index,
        of_rule={
            "source": source,
            "define": define,
            "residuals": tuple(residuals),
            "joint": tuple(joint),
            "real": real,
        },
        of_op={"kernel": kernel},
    )


def nondifferentiable(
    *operands: str,
    name: str | None = None,
    kernel: Kernel | None = None,
    outputs: int | None = None,
    boolean: bool = False,
    batch: Kernel | None = None,
    least_axes: int = 0,
    adjoint_of: str = "",
    memory: str = UNKNOWN.memory,
    facts: Facts = UNKNOWN,
) -> Declared:
    """Declare an op without a derivative: its result is boolean, integer or a shape.

    Parameters
    ----------
    *operands : str
        The names in the signature that are arrays.
    name, kernel, outputs, batch, least_axes, memory, facts
        As for `linear`.
    boolean : bool, optional
        The op acts element by element and returns booleans.
    adjoint_of : str, optional
        The name of the `fused` op whose vjp uses this one: higher orders go through the composition of that op, and through
        the functions that both kernels are made of in a program that is differentiated.

    Returns
    -------
    callable
        A decorator for the function that supplies signature and documentation; its body never runs.
    """
    return lambda stub: _declare(
        stub,
        "none",
        {},
        name=name,
        facts=_lying(facts, memory),
        index=operands,
        of_rule={"outputs": outputs, "boolean": boolean, "adjoint_of": adjoint_of},
        of_op={"kernel": kernel, "batch": batch, "least_axes": least_axes},
    )


def primitive(
    name: str, *, memory: str = UNKNOWN.memory, batch: Kernel | None = None, facts: Facts = UNKNOWN
) -> Callable[[F], F]:
    """Declare a kernel without an op, such as one that creates arrays.

    Parameters
    ----------
    name : str
        The full name, as ``"special.elliprd"``.
    memory, facts
        As for `elementwise`.
    batch : callable, optional
        As for `linear`.

    Returns
    -------
    callable
        A decorator that returns the public function of this name, if there is one, unchanged.

    Raises
    ------
    TypeError
        If `name` is not a str.
    RuleError
        If an op or kernel of that name exists already.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"primitive: name must be a str, not {type(name).__name__}\n  HIPS autograd's decorator is"
            f" agrad.compat.autograd.primitive.{errors.called()}"
        )
    if name in OPS or name in WITHOUT_OP:
        raise errors.RuleError(f"{name} is declared already")
    WITHOUT_OP[name] = Primitive(_lying(facts, memory), batch)
    return lambda function: function


def _lying(facts: Facts, memory: str) -> Facts:
    """Return facts that include where the result lies, if that is given separately."""
    return facts if memory == UNKNOWN.memory else replace(facts, memory=memory)


def _declare(
    stub: F,
    kind: str,
    vjp: Mapping[str, Derivative],
    *,
    name: str | None,
    facts: Facts,
    index: Sequence[str] = (),
    keys: Sequence[str] = (),
    of_rule: Mapping[str, Any],
    of_op: Mapping[str, Any],
) -> F:
    """Make the op that a function declares, and register it; return its entry, which replaces the function.

    Parameters
    ----------
    stub : callable
        Supplies the op's signature and docstring.
    kind, vjp
        As for `Rule`.
    name, facts, index, keys
        As for `linear`.
    of_rule, of_op : mapping
        Further arguments of `Rule` and `Op`, passed on unchanged.
    """
    full = name or stub.__name__
    if full in OPS:
        own = f"{full}_2" if "." in full else f"mine.{full}"
        raise errors.RuleError(
            f"{full}: an op of this name exists already; give yours a name of its own, as name={own!r}"
        )
    public = inspect.signature(stub)
    is_own = (stub.__module__ or "").startswith("agrad.")
    aliases = aliases_in(public) if is_own else {}  # in other signatures a name means what the user chose
    names = [name for name in public.parameters if name not in aliases]
    sequence, batch = of_rule.get("sequence"), of_op.get("batch")
    for operand in (*vjp, *index, *((sequence,) if sequence else ())):
        if operand not in names:
            raise errors.RuleError(f"{full}: {operand!r} is no name of its signature ({', '.join(names)})")
    if batch is not None and not callable(batch):
        raise errors.RuleError(f"{full}: batch= takes a function, as agrad.ops.batch_rules.pointwise; got {batch!r}")
    indices = {*index, *keys}
    rule = Rule(
        op=full,
        kind=kind,
        operands=tuple(n for n in names if n in vjp),
        index=tuple(n for n in names if n in indices),
        params=tuple(n for n in names if n not in vjp and n not in indices),
        vjp=dict(vjp),
        guarded=not is_own,
        **of_rule,
    )
    if not all(part.isidentifier() for part in full.split(".")):
        raise errors.RuleError(f"{full}: the name of an op is made of identifiers, as name='mine.square'")
    op = Op(full, public, rule, aliases=aliases, keys=keys, facts=facts, **of_op)
    op.entry = make_entry(op, stub)
    if rule.residuals:
        op.whole = make_whole(op)
    OPS[full] = op
    MADE.pop(full, {}).pop(full, None)
    return op.entry  # type: ignore[return-value]
