"""Derivatives as functions: grad, elementwise_grad, vjp, jvp, deriv, linearize and hvp. They compose, and change no `.grad`.

Reverse mode gives every argument an identity of its own in the graph (a new leaf, or an extra step behind the
argument's history) and differentiates with respect to it; everything else that the function uses is held fixed. The
backward pass itself is recorded only if the function also uses something that is being recorded outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, Literal, TypeVar, overload

from agrad import tree
from agrad.autograd.backward import cotangent_for
from agrad.core import engine, forward, mode
from agrad.core.errors import called, not_real
from agrad.core.history import fresh
from agrad.core.mode import transforming
from agrad.core.node import AccumulateGrad, Node, next_seq
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor, wrap
from agrad.core.tree import LEAF, TreeDef
from agrad.ops.docs import complete as _complete
from agrad.ops.elementwise import conj, positive
from agrad.program.arguments import (
    ONE,
    Argnums,
    Give,
    arguments_of,
    bare,
    bare_all,
    check_argnums,
    check_kind,
    give_all,
    is_raw,
    outputs_of,
    refuse_kind,
    split_aux,
    tensors_of,
)
from agrad.program.closures import refuse_captured

R = TypeVar("R", bound=Any)
T = TypeVar("T", bound=Any)  # so that type checkers treat a lambda's argument as Any

# -- one run in reverse mode --------------------------------------------------------------------------------------------


def variable(tensor: Tensor, *, recording: bool) -> Tensor:
    """Return the same value with an identity of its own in the graph; with its history only if that is being recorded."""
    if tensor._node is not None and recording:
        return positive(tensor)
    made = wrap(tensor._raw, tensor._spec)
    made._tangents = tensor._tangents
    leaf = AccumulateGrad(made, tensor._spec)
    leaf.active = False  # a backward pass by the user accumulates nothing here
    made._node = leaf
    return made


def of_chosen(
    function: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of only the chosen arguments, and those arguments."""
    if argnums == 0 and len(args) == 1 and not kwargs and type(argnums) is int:
        return function, (args[0],)
    chosen = (argnums,) if type(argnums) is int and 0 <= argnums < len(args) else check_argnums(argnums, len(args))

    def of(*values: Any) -> Any:
        every = list(args)
        for place, value in zip(chosen, values, strict=True):
            every[place] = value
        return function(*every, **kwargs)

    return of, tuple([args[place] for place in chosen])


class Tape:
    """One recorded run of a function, which can be differentiated.

    Attributes
    ----------
    inputs : list of Tensor
        The leaves of the arguments, with identities of their own.
    gives : list of Give
        The form in which each derivative is returned; empty if all are tensors.
    outputs : list of Tensor
        The leaves of the function's result.
    outward : bool
        The run also depends on something that is being recorded outside: then derivatives are recorded too.
    pushed : bool
        The tangents of its results do: then the tangents of these derivatives are recorded, too.
    closed : bool
        The graph leads to the inputs only.
    """

    def __init__(
        self, function: Callable[..., Any], primals: Sequence[Any], what: str, *, has_aux: bool, tensors: str = ""
    ) -> None:
        self.recording: bool = mode.get_mode() is None or mode.is_grad_enabled()
        flat = all([isinstance(p, Tensor) for p in primals])  # noqa: C419 (half the time of a generator)

        def run() -> tuple[int, Any]:
            self.gives: list[Give] = []
            if flat:
                tensors = list(primals)
                self.structure = ONE if len(primals) == 1 else TreeDef(tuple, (), (LEAF,) * len(primals), len(primals))
            else:
                tensors, self.structure, self.gives = arguments_of(tuple(primals), what)
            floor = next_seq()
            self.inputs = [
                variable(t if self.recording else unfollowed(t), recording=self.recording)
                if t._spec.inexact
                else refuse_kind(t, tensors, self.structure, primals)
                for t in tensors
            ]
            # a leaf refuses in-place operations; for a tensor with a history, the function gets an alias that it can
            # write to
            given = [t if type(t._node) is AccumulateGrad else fresh(t, t._node) for t in self.inputs]
            if flat or self.structure is ONE:
                return floor, function(*given)
            return floor, function(*tree.unflatten(self.structure, given))

        self.floor: Any
        self.floor, returned = mode.recorded(run, functools.partial(refuse_captured, function))
        self.aux: Any = None
        if has_aux:
            returned, self.aux = split_aux(returned, what)
        self.outputs: list[Tensor]
        self.result_structure: TreeDef
        if isinstance(returned, Tensor):
            self.outputs, self.result_structure = [returned], LEAF
        else:
            self.outputs, self.result_structure = outputs_of(returned, what, tensors)
        roots = [t._node for t in self.outputs if t._node is not None]
        outward, ends = ways(roots, self.floor)
        self.outward: bool = self.recording and outward
        self.pushed: bool = self.recording and any(
            ways([node], self.floor)[0] for t in self.outputs if t._tangents for node in tangent_nodes(t)
        )
        self.closed: bool = not outward and ends <= {t._node for t in self.inputs}

    def result(self, *, raw: bool) -> Any:
        """The function's result, without the identities given here."""
        handed = self._handed(self.outputs, outward=self.outward, raw=raw)
        return handed[0] if self.result_structure is LEAF else tree.unflatten(self.result_structure, handed)

    def auxiliary(self, *, raw: bool) -> Any:
        """The auxiliary values, likewise, if they are tensors."""
        leaves, structure = tree.flatten(self.aux)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        outward = self.recording and ways([t._node for t in tensors if t._node is not None], self.floor)[0]
        found = iter(self._handed(tensors, outward=outward, raw=raw))
        return tree.unflatten(structure, [next(found) if isinstance(x, Tensor) else x for x in leaves])

    def _handed(self, tensors: Sequence[Tensor], *, outward: bool, raw: bool) -> list[Any]:
        """Return tensors without the history that ends here; `outward` says that one of them has further history."""
        several = len(tensors) > 1
        made = [t if outward and not (several and self.ends_here(t)) else self.cut(t) for t in tensors]
        return [bare(t) for t in made] if raw else made

    def released(self, tensor: Tensor) -> Tensor:
        """Return a value without the history that ends here."""
        return tensor if self.outward and tensor._node is not None else self.cut(tensor)

    def ends_here(self, tensor: Tensor) -> bool:
        """Return whether all history of a value begins with the identities given here."""
        return not self.recording or tensor._node is None or not ways([tensor._node], self.floor)[0]

    def cut(self, tensor: Tensor) -> Tensor:
        """Return a value without its history, and its tangents without the part that ends here."""
        made = fresh(tensor, None) if self.recording else unfollowed(tensor)
        if made._tangents:
            made._tangents = {at: self.cut(t) if self.ends_here(t) else t for at, t in made._tangents.items()}
        return made

    def back(
        self,
        cotangents: Sequence[Tensor | None],
        *,
        keep: bool,
        record: bool = False,
        missing: Callable[[int], None] | None = None,
        gives: Sequence[Give] = (),
    ) -> list[Any]:
        """Return a cotangent per input, zeros where the outputs do not depend on it.

        Parameters
        ----------
        cotangents : sequence of Tensor or None
            One per output; None means 1.
        keep : bool
            The tape will be used again.
        record : bool, optional
            Record the pass even if nothing outside requires it.
        missing : callable, optional
            Called with the number of an input that no cotangent reaches.
        gives : sequence of Give, optional
            The form in which each is returned. Default: all as tensors.
        """
        roots = [
            (t._node, None if g is None and t._spec.is_float and not t._spec.shape else cotangent_for(i, t._node, g))
            for i, (t, g) in enumerate(zip(self.outputs, cotangents, strict=True))
            if t._node is not None
        ]
        return run_back(
            roots,
            self.inputs,
            keep=keep,
            record=record or self.records(cotangents),
            missing=missing,
            values=self.outputs,
            gives=gives,
            closed=self.closed,
            tape=self,
        )

    def records(self, given: Sequence[Tensor | None]) -> bool:
        """Return whether a pass that starts from these tensors is recorded: its results then have a history."""
        followed = self.outward or any(g is not None and g._node is not None for g in given)
        return followed and mode.is_grad_enabled()

    def transposed(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return placeholders for cotangents of the outputs, and the inputs' cotangents as recorded functions of them."""

        def run() -> tuple[list[Tensor], list[Tensor]]:
            seeds = [
                t
                if t._node is None
                else variable(t._spec.backend.functions.zeros_like(fresh(t, None)), recording=False)
                for t in self.outputs
            ]
            return seeds, self.back(seeds, keep=True, record=True)

        return mode.recorded(run)

    def push(
        self,
        transposed: tuple[list[Tensor], list[Tensor]],
        tangents: Sequence[Tensor | None],
        *,
        keep: bool,
        record: bool = False,
        missing: Callable[[int], None] | None = None,
    ) -> list[Tensor]:
        """Return the tangents of the outputs: the backward pass is linear in its cotangents, and this is its adjoint."""
        seeds, pulled = transposed
        roots = [
            (g._node, cotangent_for(i, g._node, t))
            for i, (g, t) in enumerate(zip(pulled, tangents, strict=True))
            if g._node is not None
        ]
        record = record or self.records(tangents)
        return run_back(roots, seeds, keep=keep, record=record, missing=missing, tape=self)


def unfollowed(tensor: Tensor) -> Tensor:
    """Return a value, tangents included, as a constant, also within a recording."""
    made = fresh(tensor, None)
    recorder = mode.recorder()
    if recorder is not None:
        made._raw = recorder.detach(tensor)
    return made


def tangent_nodes(tensor: Tensor) -> Iterator[Node]:
    """Return the nodes of a tensor's tangents, and of the tangents of these."""
    for tangent in (tensor._tangents or {}).values():
        if tangent._node is not None:
            yield tangent._node
        yield from tangent_nodes(tangent)


def run_back(
    roots: Sequence[tuple[Node, Any]],
    inputs: Sequence[Tensor],
    *,
    keep: bool,
    record: bool,
    missing: Callable[[int], None] | None = None,
    values: Sequence[Tensor] = (),
    gives: Sequence[Give] = (),
    closed: bool = False,
    tape: Tape,
) -> list[Any]:
    """Run a backward pass to the inputs of a tape: return their cotangents, zeros where none arrives.

    For `values` and `closed`, see `engine.run`. The results of a pass that is not recorded have no history, though
    their tangents may have one. To a recording, the pass is a function like any other, whose arguments may be followed
    later.
    """
    targets = {t._node for t in inputs if t._node is not None}
    found: dict[Node, Any] = {}
    now = mode.current()
    along = False
    if now is not None and now.grad and not record:
        pushed = tape.pushed or any(True for _, g in roots if g is not None for _ in tangent_nodes(g))
        along = bool(now.levels) and (pushed or now.recorder is not None)
    if roots and targets:
        found = engine.run(
            roots,
            retain_graph=keep or record or along,
            create_graph=record or along,
            targets=targets,
            accumulate=False,
            values=values,
            closed=closed,
            cut=not (tape.recording and mode.is_grad_enabled()),
        )
    gradients = []
    for i, t in enumerate(inputs):
        g = None if t._node is None else found.pop(t._node, None)
        if g is None:
            if missing is not None:
                missing(i)
            g = t._spec.backend.functions.zeros_like(fresh(t, None))
        new = not isinstance(g, Tensor)
        if new:
            g = from_raw(g)
        elif along:
            g = tape.cut(g)
        gradients.append(gives[i](g, new) if gives else g)
    return gradients


def ways(roots: Sequence[Node], floor: int) -> tuple[bool, set[Node]]:
    """Return whether a graph leads to a node that is older than the run; if not, also return the nodes it ends at."""
    seen: set[Node] = set()
    ends: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        if node.seq < floor:
            return True, set()
        seen.add(node)
        edges, second = node.edges, node.second
        if second is not None:
            stack.append(edges)  # type: ignore[arg-type] # one of two
            stack.append(second)
        elif type(edges) is not tuple:
            stack.append(edges)  # type: ignore[arg-type] # the only one
        elif edges:
            stack.extend(edges)
        else:
            ends.add(node)
    return False, ends


def check_complex(leaves: Sequence[Tensor], what: str, which: str, *, holomorphic: bool) -> None:
    """Refuse complex values where a derivative is a real matrix, and real ones where it is holomorphic."""
    for i, t in enumerate(leaves):
        if holomorphic and not t._spec.is_complex:
            message = f"{what}: with holomorphic=True, expected all {which} to be complex but received {t.dtype} tensor"
            raise RuntimeError(
                f"{message} at flattened {which[:-1]} idx: {i}\n  The derivative of a complex function of real arguments is"
                f" computed by agrad.jacfwd, without holomorphic=True.{called()}"
            )
        if not holomorphic and t._spec.is_complex:
            message = f"{what}: Expected all {which} to be real but received complex tensor at flattened {which[:-1]} idx: {i}"
            cure = (
                "If the function is holomorphic, pass holomorphic=True; else differentiate by real and imaginary parts."
                if which == "inputs"
                else "Its arguments are real: use agrad.jacfwd, or differentiate np.real and np.imag of the result."
            )
            raise RuntimeError(f"{message}\n  {cure}{called()}")


# -- reverse mode -------------------------------------------------------------------------------------------------------


def _tensor(tape: Tape, what: str) -> Tensor:
    """Return the one output of a run."""
    if tape.result_structure.kind is not None:
        kind = tape.result_structure.kind
        raise TypeError(f"{what}: Expected f(*args) to return a Tensor, got {kind}{called()}")
    (output,) = tape.outputs
    return output


def _scalar(tape: Tape, what: str) -> Tensor:
    """Return the one output of a run that must be a scalar."""
    output = _tensor(tape, what)
    if output._spec.shape:
        raise RuntimeError(
            f"{what}: Expected f(*args) to return a scalar Tensor, got tensor with {output.ndim} dims. Maybe you wanted"
            f" to use the vjp or jacrev APIs instead?\n  {_instead(output)}{called()}"
        )
    return output


def _instead(output: Tensor) -> str:
    """Return the fix to suggest if a result is not a scalar."""
    if output.size == 1:
        return f"Its shape is {output.shape}; return its one element: ag.sum(y), or y[{', '.join('0' * output.ndim)}]."
    return "jacobian(f) has a row per element; elementwise_grad(f) and grad of ag.sum(f(...)) add up the rows."


def ones_of(tensor: Tensor) -> Tensor:
    """Return ones of the spec of a tensor."""
    made: Tensor = tensor._spec.backend.functions.ones_like(fresh(tensor, None))
    return made


def _run_and_gradient(
    what: str,
    func: Callable[..., Any],
    argnums: Argnums,
    args: Any,
    kwargs: Any,
    *,
    has_aux: bool,
    holomorphic: bool,
    elementwise: bool = False,
) -> tuple[Tape, Any]:
    """Run a function that returns a scalar, or elements to be summed; return the tape and the gradient.

    `what` names the user's call in messages.
    """
    of, chosen = of_chosen(func, argnums, args, kwargs)
    tape = Tape(of, chosen, what, has_aux=has_aux, tensors="Expected f(*args) to return a Tensor, got")
    output = _tensor(tape, what) if elementwise else _scalar(tape, what)
    if holomorphic:
        name = what.partition("(")[0]
        check_complex(tape.inputs, name, "inputs", holomorphic=True)
        check_complex(tape.outputs, name, "outputs", holomorphic=True)
        gradients = give_all(tape.gives, map(conj, tape.back([ones_of(output)], keep=False)))
    elif output._spec.is_complex:
        raise not_real(output._node, output.dtype) if output._node is not None else TypeError(f"{what}: complex")
    else:
        gradients = tape.back([ones_of(output) if output._spec.shape else None], keep=False, gives=tape.gives)
    if isinstance(argnums, int):
        (structure,) = tape.structure.children
        return tape, gradients[0] if structure is LEAF else tree.unflatten(structure, gradients)
    return tape, tree.unflatten(tape.structure, gradients)


@overload
def grad(
    func: Callable[Concatenate[T, ...], R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
) -> Callable[..., T]: ...
@overload
def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]: ...
def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function that computes the gradient of a function with a scalar result.

    func : callable
        Takes tensors or containers of tensors (dict, list, tuple, dataclass) and returns a 0-d tensor. With `has_aux`,
        a pair of that and auxiliary values.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to; negative numbers count from the end.
    has_aux : bool, optional
        The function returns ``(output, aux)``, and the new function ``(gradient, aux)``.
    holomorphic : bool, optional
        Function, arguments and result are complex: compute the complex derivative.
    Returns : callable
        Takes the arguments of `func`; returns a gradient in the structure of the chosen argument, a tuple of them if
        `argnums` is one.
    RuntimeError: When called: if the result is not a scalar, or complex without `holomorphic`, or an argument has no
        derivative.
    TypeError: When called: if the function does not return a tensor.
    Arguments need not require grad, and no `.grad` changes. They may be arrays and numbers: then so is the gradient,
    unless it has a history or a transform runs outside. Everything that the function uses beside its arguments counts
    as constant; if it is being recorded, or is an argument of a transform outside, the gradient is a function of it
    too. It records under an outer `no_grad` and respects an inner one. An argument that the result does not depend on
    has the gradient 0. For a complex argument of a real function it is PyTorch's, the direction of steepest ascent;
    ``holomorphic=True`` gives the derivative ``f'(z)`` itself, as `jacrev` and `jacfwd` do.

    >>> square = ag.func.grad(lambda x: x * x)
    >>> square(ag.tensor(3.0))
    tensor(6.)
    >>> ag.func.grad(square)(ag.tensor(3.0))
    tensor(2.)
    >>> ag.func.grad(lambda p: p["w"] * p["b"])({"w": ag.tensor(2.0), "b": ag.tensor(5.0)})
    {'w': tensor(5.), 'b': tensor(2.)}
    """
    if type(argnums) is not int:
        check_kind(argnums)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        raw = has_aux and is_raw(*args, *kwargs.values())
        tape, found = _run_and_gradient(
            "grad(f)(*args)", func, argnums, args, kwargs, has_aux=has_aux, holomorphic=holomorphic
        )
        return (found, tape.auxiliary(raw=raw)) if has_aux else found

    return gradient


@overload
def value_and_grad(
    func: Callable[Concatenate[T, ...], R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
) -> Callable[..., tuple[R, T]]: ...
@overload
def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]: ...
def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function that computes value and gradient together, as ``(value, gradient)``.

    func, argnums, has_aux, holomorphic: As for `grad`.
    Returns : callable
        Returns ``(value, gradient)``, with `has_aux` ``((value, aux), gradient)``.

    >>> ag.func.value_and_grad(lambda x: x * x)(ag.tensor(3.0))
    (tensor(9.), tensor(6.))
    """
    if type(argnums) is not int:
        check_kind(argnums)

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return _value_and_gradient("value_and_grad(f)(*args)", func, argnums, args, kwargs, has_aux, holomorphic)

    return both


def _value_and_gradient(
    what: str, func: Callable[..., Any], argnums: Argnums, args: Any, kwargs: Any, has_aux: bool, holomorphic: bool
) -> tuple[Any, Any]:
    """Return the function's result, and the gradient."""
    raw = is_raw(*args, *kwargs.values())
    tape, found = _run_and_gradient(what, func, argnums, args, kwargs, has_aux=has_aux, holomorphic=holomorphic)
    value = tape.result(raw=raw)
    return ((value, tape.auxiliary(raw=raw)) if has_aux else value), found


@overload
def grad_and_value(
    func: Callable[Concatenate[T, ...], R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
) -> Callable[..., tuple[T, R]]: ...
@overload
def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]: ...
def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function that computes gradient and value together, in PyTorch's order.

    func, argnums, has_aux, holomorphic: As for `grad`.
    Returns : callable
        Returns ``(gradient, value)``, with `has_aux` ``(gradient, (value, aux))``.

    >>> ag.func.grad_and_value(lambda x: x * x)(ag.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    if type(argnums) is not int:
        check_kind(argnums)

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        what = "grad_and_value(f)(*args)"
        value, found = _value_and_gradient(what, func, argnums, args, kwargs, has_aux, holomorphic)
        return found, value

    return both


@overload
def elementwise_grad(
    func: Callable[Concatenate[T, ...], R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
) -> Callable[..., T]: ...
@overload
def elementwise_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]: ...
def elementwise_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function that computes the gradient of the sum of a function's result.

    func : callable
        Takes tensors or containers of tensors and returns a tensor of any shape.
    argnums, has_aux, holomorphic: As for `grad`.
    Returns : callable
        Takes the arguments of `func`; returns ``grad`` of the sum of the result. For an elementwise function, that is
        the derivative at every element, in one pass.
    RuntimeError: When called: if the result is complex without `holomorphic`, or an argument has no derivative.
    TypeError: When called: if the function does not return a tensor.

    >>> square = ag.func.elementwise_grad(lambda x: x * x)
    >>> square(ag.tensor([1.0, 2.0]))
    tensor([2., 4.])
    >>> ag.func.elementwise_grad(square)(ag.tensor([1.0, 2.0]))
    tensor([2., 2.])
    """
    if type(argnums) is not int:
        check_kind(argnums)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        raw = has_aux and is_raw(*args, *kwargs.values())
        what = "elementwise_grad(f)(*args)"
        tape, found = _run_and_gradient(
            what, func, argnums, args, kwargs, has_aux=has_aux, holomorphic=holomorphic, elementwise=True
        )
        return (found, tape.auxiliary(raw=raw)) if has_aux else found

    return gradient


@overload
def vjp(func: Callable[..., R], *primals: Any, has_aux: Literal[False] = False) -> tuple[R, Callable[..., Any]]: ...
@overload
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool) -> Any: ...
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Run a function; return its result, and the function from cotangents of the result to those of the arguments.

    Parameters
    ----------
    func : callable
        Takes and returns tensors or containers of tensors.
    *primals : Tensor or container
        The arguments.
    has_aux : bool, optional
        The function returns ``(output, aux)``.

    Returns
    -------
    output : Tensor or container
        What the function returned.
    vjp_fn : callable
        ``vjp_fn(cotangents)``, with cotangents in the structure of `output`, returns a tuple with a cotangent per
        argument. It may be called several times.
    aux
        With `has_aux`: the auxiliary values.

    Raises
    ------
    RuntimeError
        From `vjp_fn`: if the cotangents do not have the structure or the shapes of the output.
    TypeError
        If the function returns anything but tensors.

    Notes
    -----
    As everywhere in agrad, the product is the adjoint under the real part of the inner product: complex values are
    conjugated.

    Examples
    --------
    >>> import agrad as ag
    >>> y, pull = ag.func.vjp(lambda a, b: a * b, ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]))
    >>> y
    tensor([3., 8.])
    >>> pull(ag.tensor([1.0, 10.0]))
    (tensor([ 3., 40.]), tensor([ 1., 20.]))
    """
    what = "vjp(f, *primals)"
    raw = is_raw(*primals)
    tape = Tape(func, primals, what, has_aux=has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, structure = tensors_of(cotangents, what)
        if structure != tape.result_structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function."
                f" cotangents: {structure}, primal output: {tape.result_structure}{called()}"
            )
        gives = tape.gives if tape.gives and is_raw(cotangents) else ()
        found = tape.back(given, keep=retain_graph, record=bool(create_graph), gives=gives)
        return tree.unflatten(tape.structure, found)

    if has_aux:
        return tape.result(raw=raw), vjp_fn, tape.auxiliary(raw=raw)
    return tape.result(raw=raw), vjp_fn


# -- forward mode ---------------------------------------------------------------------------------------------------------


@overload
def jvp(
    func: Callable[..., R], primals: Any, tangents: Any, *, strict: bool = False, has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool) -> Any: ...
def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Run a function in forward mode; return its result and the tangent of the result.

    Parameters
    ----------
    func : callable
        Takes and returns tensors or containers of tensors.
    primals : tuple
        The arguments.
    tangents : tuple
        The direction, in the structure of `primals`.
    strict : bool, optional
        Raise if a part of the result does not depend on the arguments, instead of returning the tangent 0.
    has_aux : bool, optional
        The function returns ``(output, aux)``.

    Returns
    -------
    output : Tensor or container
        What the function returned.
    tangents : Tensor or container
        The product of the Jacobian and the tangents, in the structure of `output`.
    aux
        With `has_aux`: the auxiliary values.

    Raises
    ------
    RuntimeError
        If primals and tangents differ in structure or shape, or with `strict`.
    TypeError
        If the function returns anything but tensors.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([1.0, 2.0])
    >>> ag.func.jvp(lambda x: x * x, (x,), (ag.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    what = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise TypeError(
            f"{what}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).{called()}"
        )
    raw = is_raw(*primals, tangents)
    values, structure = tensors_of(primals, what)
    directions, tangent_structure = tensors_of(tangents, what)
    if structure != tangent_structure:
        raise RuntimeError(
            f"{what}: Expected primals and tangents to have the same python structure. For example, if primals is a"
            f" tuple of 3 tensors, tangents also must be. Got primals with structure {structure} and tangents with"
            f" structure {tangent_structure}{called()}"
        )
    if not values:
        raise RuntimeError(f"{what}: Expected primals to contain at least one Tensor.{called()}")

    def run(at: int) -> tuple[Any, ...]:
        duals = [dual_of(p, t, at) for p, t in zip(values, directions, strict=True)]
        returned = func(*tree.unflatten(structure, duals))
        aux = None
        if has_aux:
            returned, aux = split_aux(returned, what)
        outputs, result_structure = outputs_of(returned, what)
        results = [forward.strip(t, at) for t in outputs]
        pushed = []
        for t in outputs:
            tangent = forward.tangent_of(t, at)
            if tangent is None:
                if strict:
                    raise RuntimeError(
                        "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This"
                        f" is not allowed with strict=True.{called()}"
                    )
                tangent = t._spec.backend.functions.zeros_like(fresh(forward.strip(t, at), None))
            pushed.append(tangent)
        result = tree.unflatten(result_structure, results), tree.unflatten(result_structure, pushed)
        return (*result, tree.map(lambda t: forward.strip(t, at), aux)) if has_aux else result

    found = mode.within(transforming, functools.partial(refuse_captured, func), forward.in_level, run)
    return bare_all(found) if raw else found


@overload
def deriv(func: Callable[..., R], argnums: int = 0) -> Callable[..., R]: ...
@overload
def deriv(func: Callable[..., Any], argnums: tuple[int, ...]) -> Callable[..., Any]: ...
def deriv(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function that computes the derivative along ones, in forward mode.

    func : callable
        Takes and returns tensors or containers of tensors.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to; several move along the line together.
    Returns : callable
        Takes the arguments of `func`; returns the derivative in the structure and the shapes of the result: for a
        function of one number, its derivative; for an elementwise function, the derivative at every element.
    RuntimeError: When called: if there is no such argument.
    TypeError: When called: if the function returns anything but tensors.
    ValueError: When called: if an argument has no derivative.

    >>> ag.func.deriv(lambda t: ag.stack([ag.cos(t), ag.sin(t)]))(ag.tensor(0.0))
    tensor([-0., 1.])
    >>> ag.func.deriv(lambda x: x**3)(ag.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    if type(argnums) is not int:
        check_kind(argnums)

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        of, chosen = of_chosen(func, argnums, args, kwargs)
        primals, structure = tensors_of(chosen, "deriv(f)(*args)")
        ones = tree.unflatten(structure, map(ones_of, primals))
        found = jvp(of, tree.unflatten(structure, primals), ones)[1]
        return bare_all(found) if is_raw(*args, *kwargs.values()) else found

    return derivative


def dual_of(primal: Tensor, tangent: Tensor, at: int) -> Tensor:
    """Return a primal with a tangent at a level, both checked."""
    if not primal._spec.inexact:
        raise ValueError(f"Expected primal to be floating point or complex, but got: {primal.dtype}{called()}")
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not"
            f" supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size"
            f" {list(tangent.shape)}.{called()}"
        )
    if tangent._spec.is_complex and not primal._spec.is_complex:
        raise ValueError(
            f"Expected a real tangent for a real primal, but got {tangent.dtype} for {primal.dtype}{called()}"
        )
    if tangent.dtype != primal.dtype:
        tangent = primal._spec.backend.functions.astype(tangent, primal.dtype)
    return forward.with_tangent(primal, tangent, at)


# -- both -----------------------------------------------------------------------------------------------------------------


def linearize(func: Callable[..., R], *primals: Any) -> tuple[R, Callable[..., R]]:
    """Run a function once; return its result, and its derivative there as a linear function of tangents.

    Parameters
    ----------
    func : callable
        Takes and returns tensors or containers of tensors.
    *primals : Tensor or container
        The arguments.

    Returns
    -------
    output : Tensor or container
        What the function returned.
    jvp_fn : callable
        ``jvp_fn(*tangents)``, one per argument, returns the tangent of the output, without running `func` again.

    Raises
    ------
    RuntimeError
        From `jvp_fn`: if the tangents do not have the structure or the shapes of the arguments.
    TypeError
        If the function returns anything but tensors.

    Notes
    -----
    The backward pass is linear in its initial cotangents; its adjoint, taken through its recorded graph, is the
    derivative. So every call of `jvp_fn` is one pass over that graph, and the function needs second derivatives (it has
    them, unless one of your own operations does not).

    Examples
    --------
    >>> import agrad as ag
    >>> y, push = ag.func.linearize(lambda x: x * x, ag.tensor([1.0, 2.0]))
    >>> push(ag.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    raw = is_raw(*primals)
    tape = Tape(func, primals, "linearize(f, *primals)", has_aux=False)
    transposed = tape.transposed()

    def jvp_fn(*tangents: Any) -> Any:
        given, structure = tensors_of(tangents, "linearize(f, *primals)")
        if structure != tape.structure:
            raise RuntimeError(
                f"Expected the tangents {structure} to have the same argspec as the primals {tape.structure}{called()}"
            )
        for i, (t, primal) in enumerate(zip(given, tape.inputs, strict=True)):
            if t.shape != primal.shape:
                raise RuntimeError(
                    f"tangent:{i} with shape {t.shape} in flattened pytree doesn't match the shape {primal.shape} of the"
                    f" corresponding primal.{called()}"
                )
        pushed = tree.unflatten(tape.result_structure, tape.push(transposed, given, keep=True))
        return bare_all(pushed) if raw and is_raw(*tangents) else pushed

    return tape.result(raw=raw), jvp_fn


def hvp(func: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """Return the product of a vector and the Hessian of a function with a scalar result.

    func : callable
        Takes tensors or containers of tensors, returns a 0-d tensor.
    primals : tuple
        The arguments.
    tangents : tuple
        The vector, in the structure of `primals`.
    has_aux : bool, optional
        The function returns ``(output, aux)``; then the result is ``(product, aux)``.
    Returns : Tensor, container or tuple
        In the structure of the argument; a tuple if there are several.
    RuntimeError: If the result is not a scalar, or primals and tangents differ in structure or shape.
    Two backward passes, the second through the first: a few times the cost of the function, whatever its size.

    >>> x = ag.tensor([1.0, 2.0])
    >>> ag.func.hvp(lambda x: (x**3).sum(), (x,), (ag.tensor([1.0, 1.0]),))
    tensor([ 6., 12.])
    """
    what = "hvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise TypeError(
            f"{what}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).{called()}"
        )
    raw = has_aux and is_raw(*primals, tangents)
    tape = Tape(func, primals, what, has_aux=has_aux)
    _scalar(tape, what)
    given, structure = tensors_of(tangents, what)
    if structure != tape.structure:
        raise RuntimeError(
            f"{what}: Expected primals and tangents to have the same python structure. Got primals with structure"
            f" {tape.structure} and tangents with structure {structure}{called()}"
        )
    gradients = mode.recorded(lambda: tape.back([None], keep=True, record=True))
    for i, (t, x) in enumerate(zip(given, tape.inputs, strict=True)):
        if t.shape != x.shape:
            raise RuntimeError(f"{what}: tangent {i} has shape {t.shape}, its primal {x.shape}{called()}")
    roots = [
        (g._node, cotangent_for(i, g._node, t))
        for i, (g, t) in enumerate(zip(gradients, given, strict=True))
        if g._node is not None
    ]
    gives = tape.gives if tape.gives and is_raw(tangents) else ()
    found = run_back(roots, tape.inputs, keep=False, record=tape.records(given), gives=gives, tape=tape)
    product = tree.unflatten(tape.structure, found)
    if len(product) == 1:
        product = product[0]
    return (product, tape.auxiliary(raw=raw)) if has_aux else product


_complete(globals(), {})
