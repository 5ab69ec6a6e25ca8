"""Function: a user-defined operation with its own backward. PyTorch's class and conventions."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from agrad.core import errors, mode, tree
from agrad.core.backend import backend_of, plugins
from agrad.core.cotangents import ShapeMismatchError, Transferred, fit
from agrad.core.engine import running
from agrad.core.forward import fitted
from agrad.core.history import origin
from agrad.core.node import Freed, Node, next_seq, output_of
from agrad.core.operands import from_raw, tensor_of
from agrad.core.saved import Packed, active
from agrad.core.spec import SomeSpecs, Spec, Specs
from agrad.core.tensor import Tensor, set_history, wrap
from agrad.core.transfers import spec_on

#: The role of a saved tensor in the call (operand, result or other), which one (the operand's node, the result's number),
#: and its tangents.
Role = tuple[str, Any, "dict[int, Tensor] | None"]

_new = object.__new__


@dataclass(slots=True)
class FunctionCall:
    """The record of a call in the node of a `Function`; attributes that the user sets on ``ctx`` are in its ``__dict__``.

    Attributes
    ----------
    needs, is_tensor : tuple of bool
        For each argument, with containers flattened, whether it needs a gradient, and whether it is a tensor.
    structures, results : tuple or None
        For each argument of forward, and each result, the structure of a container of tensors; None if there is none.
    to_save, for_forward : tuple
        Tensors saved by the user's methods, until the call ends.
    dirty : tuple of Tensor
        Operands changed in place, until the call ends.
    inert : set of int or None
        The ``id`` of each result without a derivative, until the call ends; None if none was marked.
    materialize : bool
        Whether undefined cotangents arrive as zeros.
    levels : sequence of int
        The levels of forward mode for which operands had tangents.
    roles : list or None
        The role of each saved tensor in the call; None until it is known, and if the call is not recorded.
    attributes : dict
        Operands and results that the user stored as attributes, each with its role.
    in_jvp : tuple or None
        The value of `FunctionNode.saved_tensors` while jvp runs.
    """

    needs: tuple[bool, ...] = ()
    is_tensor: tuple[bool, ...] = ()
    structures: tuple[Any, ...] | None = None
    results: tuple[Any, ...] | None = None
    to_save: tuple[Tensor | None, ...] = ()
    for_forward: tuple[Tensor | None, ...] | None = None
    dirty: tuple[Tensor, ...] = ()
    inert: set[int] | None = None
    materialize: bool = True
    levels: Sequence[int] = ()
    roles: list[Role] | None = None
    attributes: dict[str, tuple[Tensor, Role]] = field(default_factory=dict)
    in_jvp: tuple[Tensor | None, ...] | None = None


class FunctionNode(Node):
    """The node of one call of a `Function`, which its methods get as ``ctx``."""

    __slots__ = ("_call", "needs_input_grad")
    function: ClassVar[type[Function]]

    _call: FunctionCall
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward: operands, results or None.

        Raises
        ------
        TypeError
            If one is neither a Tensor nor None.
        """
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                    "\n  Keep other values as attributes of ctx; an array that will be a result, saved and returned as"
                    " y = ag.asarray(y), has its history in backward."
                )
        self._call.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for ``jvp``: they become `saved_tensors` there.

        Raises
        ------
        TypeError
            If one is neither a Tensor nor None.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on"
                    f" ctx. (got {type(t).__name__})"
                )
        self._call.for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors from `save_for_backward`: operands and results with their history.

        Raises
        ------
        RuntimeError
            After backward has freed them.
        """
        call = self._call
        if call.in_jvp is not None:
            return call.in_jvp
        if call.roles is None:  # still inside the call
            return call.to_save if call.for_forward is None else call.for_forward
        if type(self.saved) is Freed:
            raise errors.second_time(self)
        saved: Any = self.saved
        if self.function.clear_saved_tensors_on_access and saved:
            (box,) = saved
            saved = box.pop() if box else None
            if saved is None:
                raise RuntimeError(
                    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the"
                    " autograd.Function. Either access saved_tensors only once, or set"
                    f" clear_saved_tensors_on_access=False.{errors.at(self)}"
                )
        return tuple(
            None if value is None else self._revive(value.unpack() if isinstance(value, Packed) else value, role)
            for value, role in zip(saved, call.roles, strict=True)
        )

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Pairs of node and output number, one per tensor argument; ``(None, 0)`` for one that needs no gradient."""
        edges = iter(self.inputs)
        arguments = zip(self._call.needs, self._call.is_tensor, strict=True)
        return tuple(next(edges).address() if need else (None, 0) for need, is_tensor in arguments if is_tensor)

    def _revive(self, value: Tensor, role: Role) -> Tensor:
        """Return a saved value as a tensor with the history that belongs to its role in the call."""
        kind, where, tangents = role
        node: Node | None = None
        if kind == "operand":
            node = origin(where)
        elif kind == "result":
            node = output_of(self, where) if isinstance(self.spec, tuple) else self
            node = node if value._spec.inexact and self.edges else None
        elif value._spec.inexact and self.edges and mode.is_grad_enabled():
            message = (
                f"{self.name()} saved a tensor that is neither an input nor an output, so its history is unknown and"
                " differentiating the gradient again would lose a term.\n  Compute it again from the inputs in backward"
                " or return it as an output too; keep a constant as an attribute of ctx instead."
            )
            node = unknown_history(self, value._spec, message)
            if tangents:  # those were computed unrecorded, too
                unknown = {at: (t, unknown_history(self, t._spec, message)) for at, t in tangents.items()}
                tangents = {at: wrap(t._raw, t._spec, history) for at, (t, history) in unknown.items()}
        made = wrap(value._raw, value._spec, node)
        made._tangents = tangents
        return made

    def __getattr__(self, name: str) -> Any:
        """Return an input or output stored as an attribute: its value at the call, with its history."""
        if name in self._call.attributes:
            return self._revive(*self._call.attributes[name])
        raise AttributeError(f"{self.name()!r} object has no attribute {name!r}")

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Mark results (tensors or arrays) that need no gradient; backward gets zeros for them.

        Mark a call none of whose results has a derivative. If the results are not tensors (an int, for example), call this
        without arguments.
        """
        for t in tensors:
            if not isinstance(t, Tensor) and backend_of(t) is None:
                raise RuntimeError(
                    f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__}"
                )
        self._call.inert = {id(t) for t in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark operands changed in place; each must also be returned as a result."""
        for t in tensors:
            if not isinstance(t, Tensor):
                raise RuntimeError(f"mark_dirty can only accept variables, but got {type(t).__name__}")  # noqa: TRY004 (PyTorch's type)
        self._call.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether undefined gradients arrive as zeros (the default) or as None."""
        self._call.materialize = value

    def name(self) -> str:
        return f"{self.function.__name__}Backward"


class Function:
    """A user-defined differentiable operation with a forward and a backward.

    Subclass it with static methods ``forward(ctx, *args)`` and ``backward(ctx, *grad_outputs)``; or ``forward(*args)``,
    ``setup_context(ctx, inputs, output)`` and ``backward``. ``vjp`` is another name for ``backward``; ``jvp(ctx,
    *tangents)`` implements forward mode. Call it through `apply`.

    For `vmap` a Function needs a static method ``vmap(info, in_dims, *args)``, which gets the batch as an axis of its
    arguments and returns ``(result, out_dims)``; or ``generate_vmap_rule = True``, if its methods use only agrad's
    functions.

    ``forward`` may compute with an array library (``x.numpy()`` returns the array there) and return arrays of any backend
    or inexact NumPy scalars: they become tensors with a history. So does a Python float, or a list of floats, if nothing
    else is returned (in the dtype that the floating operands promote to). Other results (None, str, int, and float or a list of
    floats beside tensors and arrays) are passed through unchanged. ``backward`` and ``jvp`` may also return arrays;
    differentiating those again raises.

    Raises
    ------
    RuntimeError
        In backward, if the number or shapes of the gradients are wrong; no `.grad` has changed then. In the call, if a
        gradient is required and no result has one, unless the result is marked with ``ctx.mark_non_differentiable``.
    TypeError
        If forward returns an array that does not hold numbers, or a masked one.

    Examples
    --------
    >>> import agrad as ag
    >>> class Cube(ag.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * g
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    #: ``saved_tensors`` may be read once, which frees the saved tensors, even with ``retain_graph``.
    clear_saved_tensors_on_access: ClassVar[bool] = False
    #: ``backward(ctx, grad_outputs)`` gets all cotangents in one list, which it may empty as it runs.
    boxed_grads_call: ClassVar[bool] = False
    generate_vmap_rule: ClassVar[bool] = False
    _node_class: ClassVar[type[FunctionNode] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so you"
            f" should invoke them on the class itself: {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: FunctionNode, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, where ``forward`` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionNode, *grad_outputs: Any) -> Any:
        """Return a gradient, or None, for each argument of forward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: FunctionNode, *tangents: Any) -> Any:
        """Return the tangent of each result."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the operation and record it.

        Parameters
        ----------
        *args, **kwargs
            Passed to ``forward``. A dict, list, tuple or dataclass may hold tensors, nested to any depth: ``backward``
            returns the same structure for it (or None), with a gradient or None for each tensor.

        Returns
        -------
        Tensor or container
            The result of ``forward``, with arrays as tensors. For each element of a tuple, or for any other single result,
            ``backward`` gets a gradient of the same structure.
        """
        for a in _flattened((*args, *kwargs.values()))[0]:
            if isinstance(a, Tensor) and (own := a._spec.backend.run_function) is not None:
                return own(cls, args, kwargs)
        return run(cls, args, kwargs)


def run(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a Function's own methods: the default of `Function.apply`, unless a backend runs functions in its own way."""
    node = _make_node(cls)
    separate = cls.setup_context is not Function.setup_context
    bound = _bound(cls.forward, args, kwargs, separate=separate)
    arguments, structures = _flattened(bound)
    recording = mode.is_grad_enabled()
    needs = tuple(isinstance(a, Tensor) and a._node is not None for a in arguments)
    own = node._call = FunctionCall(needs, tuple(isinstance(a, Tensor) for a in arguments), structures)
    node.needs_input_grad = needs
    if structures is not None:
        parts = _grouped(needs, structures, list)
        node.needs_input_grad = tuple(any(part) if isinstance(part, list) else part for part in parts)
    recorder = mode.recorder()
    if recorder is not None:
        recorder.functions.append(cls.__name__)
    before = mode.get_mode()
    try:
        mode.push(grad=False)
        output = cls.forward(*args, **kwargs) if separate else cls.forward(node, *args, **kwargs)
        if type(output) is not Tensor:
            output = _as_tensors(node, output, arguments)
        if separate:
            cls.setup_context(node, bound, output)
        flat = output
        if type(output) is not Tensor:
            found, own.results = _flattened(output if isinstance(output, tuple) else (output,))
            if own.results is not None:
                flat = found
    finally:
        mode.set_mode(before)
    record = recording and any(needs)
    carried = [a._tangents if isinstance(a, Tensor) else None for a in arguments]
    own.levels = levels = _open_levels(carried)
    if record or levels:
        _check_differentiable(node, flat)
    for_jvp = own.to_save if own.for_forward is None else own.for_forward
    made = _record(node, arguments, flat, record=record)
    if levels:
        _push_tangents(cls, node, (arguments, carried), (flat, made), for_jvp, record=recording)
    if own.results is None:
        return made
    rebuilt = tuple(_grouped(made, own.results))
    return rebuilt if isinstance(output, tuple) else rebuilt[0]


def _bound(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, separate: bool
) -> tuple[Any, ...]:
    """Return all arguments of forward in order, including its defaults where there is a ``setup_context``."""
    if not separate:
        return (*args, *kwargs.values())
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return (*bound.args, *bound.kwargs.values())


def _flattened(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Return values with containers of tensors flattened, and the structure of each value; None if there is no container."""
    for value in values:
        if type(value) is not Tensor and _is_container(value):
            break
    else:
        return values, None
    flat: list[Any] = []
    structures: list[Any] = []
    for value in values:
        leaves, structure = tree.flatten(value) if _is_container(value) else ([], None)
        held = any(isinstance(leaf, Tensor) for leaf in leaves)
        flat += leaves if held else [value]
        structures.append(structure if held else None)
    return (tuple(flat), tuple(structures)) if any(structures) else (values, None)


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | tuple) or hasattr(type(value), "__dataclass_fields__")


def _fits(value: Any, structure: Any) -> bool:
    return value is None or type(value) is structure.kind


def _grouped(
    flat: Sequence[Any], structures: tuple[Any, ...], build: Callable[[Iterator[Any]], Any] | None = None
) -> list[Any]:
    """Put values back into containers; with `build`, apply it to the values of each container."""
    leaves = iter(flat)
    found = []
    for structure in structures:
        if structure is None:
            found.append(next(leaves))
            continue
        part = itertools.islice(leaves, structure.num_leaves)
        found.append(tree.unflatten(structure, part) if build is None else build(part))
    return found


def _spread(node: FunctionNode, values: list[Any], structures: tuple[Any, ...], what: str) -> list[Any]:
    """Flatten the result of the user's method along the structures of the values it belongs to."""
    flat: list[Any] = []
    for i, (value, structure) in enumerate(zip(values, structures, strict=True)):
        if structure is None or value is None:
            flat += [value] * (1 if structure is None else structure.num_leaves)
            continue
        try:
            flat += structure._flatten_up_to(value, "")
        except ValueError as error:
            message = f"function {node.name()} returned a {what} at index {i} of another structure: {error}"
            raise RuntimeError(message + errors.at(node)) from None
    return flat


def _make_node(cls: type[Function]) -> FunctionNode:
    kind = cls.__dict__.get("_node_class")
    if kind is None:
        title = f"{cls.__name__}Backward"
        kind = type(title, (FunctionNode,), {"__slots__": (), "function": cls, "title": title})
        cls._node_class = kind
    node: FunctionNode = _new(kind)
    node.seq = 0
    node.edges, node.second = (), None
    node.saved = ()
    node.vjp = _vjp
    node.code, node.lasti = errors.caller()
    node.hooks = None
    return node


def _as_tensors(node: FunctionNode, output: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the result of forward with its arrays as tensors; where it consists only of floats, those too."""
    made: dict[int, Tensor] = {}  # an array returned twice is one result

    def searched(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value
        if _is_container(value):
            leaves, structure = tree.flatten(value)
            found = [leaf if _is_container(leaf) else searched(leaf) for leaf in leaves]
            if all(new is old for new, old in zip(found, leaves, strict=True)):
                return value
            return tree.unflatten(structure, found)
        if not _is_array(value):
            return value
        if id(value) not in made:
            made[id(value)] = tensor_of(value)
        return made[id(value)]

    if type(output) in (float, complex) or (isinstance(output, list) and _all_numbers(output)):
        return _of_floats(output, arguments)
    if isinstance(output, tuple):
        found = tuple(map(searched, output))
        output = output if all(new is old for new, old in zip(found, output, strict=True)) else found
    else:
        output = searched(output)
    if (inert := node._call.inert) and made:
        inert |= {id(t) for value, t in made.items() if value in inert}
    return output


def _is_array(value: Any) -> bool:
    """Return whether a value is a library's array or inexact scalar (an integer scalar counts as a number)."""
    backend = backend_of(value)
    if backend is None:
        return False
    raw = backend.as_array(value)
    return raw is value or bool(raw.shape) or backend.spec(raw).inexact or backend.kind(raw.dtype) == "other"


def _all_numbers(values: list[Any]) -> bool:
    """Return whether nested lists hold only numbers, Python's or a library's, at least one of them inexact."""
    leaves = tree.flatten(values)[0]
    kinds = {"other" if isinstance(n, Tensor) or getattr(n, "shape", None) else _kind(n) for n in leaves}
    return kinds <= {"bool", "int", "float", "complex"} and not kinds.isdisjoint(("float", "complex"))


def _kind(value: Any) -> str:
    """Return bool, int, float or complex for a number, other for anything else."""
    backend = backend_of(value)
    if backend is not None:
        return backend.kind(value.dtype)
    return type(value).__name__ if isinstance(value, int | float | complex) else "other"


def _of_floats(value: Any, arguments: tuple[Any, ...]) -> Tensor:
    """Return a forward result of floats only as a tensor, in the operands' precision and on their backend."""
    operands = [a for a in arguments if isinstance(a, Tensor) and a._spec.inexact]
    if not operands:
        return cast("Tensor", plugins().default_backend().functions.asarray(value))
    needed = next((a for a in operands if a._node is not None or a._tangents), operands[0])
    functions = needed._spec.backend.functions
    made: Tensor = functions.asarray(value, device=needed._spec.device)
    bits = max(8 * a.element_size() // (1 + a._spec.is_complex) for a in operands)
    name = f"complex{2 * max(bits, 32)}" if made._spec.is_complex else f"float{bits}"
    return cast("Tensor", functions.astype(made, name, copy=False))


def _check_differentiable(node: FunctionNode, output: Any) -> None:
    """Refuse a call that would lose a gradient: no result has one, and none is marked."""
    outputs = output if isinstance(output, tuple) else (output,)
    for o in outputs:
        if not isinstance(o, Tensor) and backend_of(o) is None and hasattr(o, "__array__"):
            message = (
                f"{node.function.__name__} gave a {type(o).__name__}, which is no array of an installed backend: its"
                " gradient would be lost.\n  Return an array or a Tensor, as numpy.asarray(...) makes."
            )
            raise TypeError(message + errors.at(node))
    if node._call.inert is not None or any(isinstance(o, Tensor) and o._spec.inexact for o in outputs):
        return
    kinds = ", ".join(str(o.dtype) if isinstance(o, Tensor) else type(o).__name__ for o in outputs) or "nothing"
    message = (
        f"{node.function.__name__} gave no result that has a derivative (but {kinds}), although an argument requires a"
        " gradient: it would be lost.\n  Return tensors or arrays of real or complex floating point. If there is no"
        " derivative by nature, say so in forward: ctx.mark_non_differentiable(result), or without an argument where the"
        " result is no tensor."
    )
    raise RuntimeError(message + errors.at(node))


def _record(node: FunctionNode, arguments: tuple[Any, ...], output: Any, *, record: bool) -> Any:
    """Make the results of a call, attached to its node; tangents of the open levels follow later."""
    call = node._call
    multi_output = isinstance(output, tuple)
    outputs = output if multi_output else (output,)
    dirty, to_save, inert = call.dirty, call.to_save, call.inert or ()
    call.dirty, call.to_save, call.for_forward, call.inert = (), (), None, None
    for target in dirty:
        if not any(o is target for o in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that"
                f" are modified inplace must all be outputs of the Function.{errors.at(node)}"
            )
        if record and target.is_leaf and target.requires_grad:
            raise RuntimeError(
                f"a leaf Variable that requires grad has been used in an in-place operation.{errors.at(node)}"
            )
    specs = tuple(o._spec if isinstance(o, Tensor) else None for o in outputs)
    kind = Specs if specs and specs[0] is not None else SomeSpecs
    node.spec = kind(cast("tuple[Spec, ...]", specs)) if multi_output else specs[0]
    # one dict per result, shared with its saved values: filled level by level, outermost first
    tangents = {id(o): {} if call.levels else o._tangents for o in outputs if isinstance(o, Tensor)}
    places = {id(a): i for i, a in reversed(list(enumerate(arguments))) if isinstance(a, Tensor)}

    def role(t: Tensor | None) -> Role:
        kind, where = _role(t, arguments, places, outputs, dirty)
        return kind, where, None if t is None else tangents[id(t)] if kind == "result" else t._tangents

    if record:
        node.seq = next_seq()
        inputs = [a for a in arguments if isinstance(a, Tensor) and a._node is not None]
        edges = tuple(a._node for a in inputs)
        node.edges = cast("tuple[Node, ...]", edges)
        node.specs = tuple(a._spec for a in inputs)
        call.roles = list(map(role, to_save))
        pairs = active()
        kept = tuple(None if t is None else Packed(t, pairs, node) if pairs else _bare(t) for t in to_save)
        # in a separate list, so that saved values can be dropped while the engine still holds `node.saved`
        node.saved = ([kept],) if kept and node.function.clear_saved_tensors_on_access else kept
    if record or call.levels:
        for name, value in list(node.__dict__.items()):
            if isinstance(value, Tensor) and (found := role(value))[0] != "other":
                call.attributes[name] = (
                    _bare(value),
                    found,
                )  # by value: the user's own object may change, or form a cycle
                del node.__dict__[name]
    made: dict[int, Any] = {}
    results = []
    for i, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            results.append(o)
            continue
        if id(o) not in made:
            attach = record and o._spec.inexact and id(o) not in inert
            origin = (output_of(node, i) if multi_output else node) if attach else None
            if any(o is target for target in dirty):
                if record:
                    set_history(o, origin)
                made[id(o)] = o
            else:
                made[id(o)] = wrap(o._raw, o._spec, origin)
            made[id(o)]._tangents = tangents[id(o)]
        results.append(made[id(o)])
    return tuple(results) if multi_output else results[0]


def _bare(t: Tensor) -> Tensor:
    return wrap(t._raw, t._spec)


def _role(
    t: Tensor | None,
    arguments: tuple[Any, ...],
    places: dict[int, int],
    outputs: tuple[Any, ...],
    dirty: tuple[Any, ...],
) -> tuple[str, Any]:
    """Return the role of a saved tensor in the call, which determines the history it is restored with."""
    if t is None:
        return "other", None
    if id(t) in places and not any(t is target for target in dirty):
        return "operand", arguments[places[id(t)]]._node
    for i, o in enumerate(outputs):
        if o is t:
            return "result", i
    return "other", None


def _vjp(_xp: Any, g: Any, _saved: tuple[Any, ...], node: FunctionNode) -> Any:
    """Run the user's backward: the engine calls this at the node."""
    cls = node.function
    if type(node.saved) is Freed:
        raise errors.second_time(node)
    own_backward = cls.backward is not Function.backward
    if own_backward and cls.vjp is not Function.vjp:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one"
            f" of them.{errors.at(node)}"
        )
    specs = node.out_specs
    parts = list(g) if isinstance(node.spec, tuple) else [g]
    raw = not any(isinstance(p, Tensor) for p in parts)
    tensors = [None if p is None else _cotangent(p) for p in parts]
    if node._call.materialize:
        tensors = [
            t if t is not None or s is None else s.backend.functions.zeros(s.shape, dtype=s.dtype, device=s.device)
            for t, s in zip(tensors, specs, strict=True)
        ]
    if node._call.results is not None:
        tensors = _grouped(tensors, node._call.results)
    method = cls.backward if own_backward else cls.vjp
    if cls.boxed_grads_call:
        parts.clear()
        if isinstance(node.spec, tuple) and (node.hooks is None or not node.hooks.post):
            g.clear()  # the engine's list: the user's list is then the last to hold the cotangents
        box, tensors = tensors, []
        return _checked(node, method(node, box), raw=raw, cotangents=())
    return _checked(node, method(node, *tensors), raw=raw, cotangents=tuple(tensors))


def _cotangent(part: Any) -> Tensor:
    """Return a cotangent as a new Tensor, which the user may change."""
    if not isinstance(part, Tensor):
        return from_raw(part)
    own = wrap(part._raw, part._spec, part._node)
    own._tangents = part._tangents
    return own


def _checked(node: FunctionNode, gradients: Any, *, raw: bool, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    """Check the result of the user's backward, and bring each gradient to its operand's spec."""
    returned = list(gradients) if isinstance(gradients, tuple | list) else [gradients]
    needs, is_tensor, structures = node._call.needs, node._call.is_tensor, node._call.structures
    count = len(is_tensor if structures is None else structures)
    while len(returned) > count and returned[-1] is None:
        returned.pop()
    if structures is not None and count == 1 and not (len(returned) == 1 and _fits(returned[0], structures[0])):
        returned = [gradients]  # the gradient of the only argument, itself a list or a tuple
    if len(returned) != count:
        raise errors.wrong_count(node, count, len(returned))
    if structures is not None:
        returned = _spread(node, returned, structures, "gradient")
    kept = []
    kind: type[tuple[Any, ...]] = tuple
    specs = iter(node.specs)
    for i, (gradient, need) in enumerate(zip(returned, needs, strict=True)):
        if gradient is not None and not isinstance(gradient, Tensor) and backend_of(gradient) is None:
            raise errors.not_a_gradient(node, gradient)
        if gradient is not None and not is_tensor[i]:
            raise errors.not_a_variable(node, i + 1)
        if not need:
            continue
        spec = next(specs)
        if gradient is not None:
            if not raw:
                gradient = _derivative(node, gradient, "backward", cotangents)  # noqa: PLW2901 (as below)
            elif not isinstance(gradient, Tensor):
                gradient = tensor_of(gradient)  # noqa: PLW2901 (as below)
            try:
                gradient = _transfer(gradient, spec, raw=raw)  # noqa: PLW2901 (the same, brought to its spec)
            except ShapeMismatchError:
                raise errors.wrong_shape(node, i, gradient.shape, spec.shape) from None
            if gradient._spec.backend is not spec.backend:
                kind = Transferred
        kept.append(gradient._raw if raw and gradient is not None else gradient)
    return kind(kept)


def _transfer(gradient: Tensor, spec: Spec, *, raw: bool) -> Tensor:
    """Bring a gradient to its operand's spec; a lazy one may stay where it is until the pass ends."""
    if gradient._spec.device != spec.device:  # the backend of a batch, as made by vmap, is on its arrays' device
        source = gradient._spec.backend
        gradient = fit(source.functions, gradient, spec_on(source, spec))
        task = running()
        if raw and task is not None and task.defers(source, spec):
            return gradient
        gradient = gradient.to_device(spec.device)
    return fit(spec.backend.functions, gradient, spec)  # type: ignore[no-any-return]


def _derivative(node: FunctionNode, value: Any, method: str, given: tuple[Any, ...]) -> Tensor:
    """Return what backward or jvp returned for a tensor, as a Tensor; an array's gets a history that raises.

    Parameters
    ----------
    given : tuple
        The cotangents, or tangents, from which it was computed.
    """
    if isinstance(value, Tensor):
        made = value
        hidden = next(
            (name for name, kept in node.__dict__.items() if name != "_metadata" and _holds_array(kept)), None
        )
        if hidden is None:
            return made
        why = f"a tensor computed with an array kept as ctx.{hidden}, whose history is unknown"
        fix = "Save operands and results by save_for_backward; make a constant a tensor: ag.asarray(...)"
    elif backend_of(value) is None:
        raise errors.not_a_gradient(node, value)
    else:
        made, hidden = tensor_of(value), None
        why, fix = "an array, whose history is unknown", "Compute it with agrad's functions from saved tensors"
    if not made._spec.inexact:
        return made
    message = f"The {method} of {node.function.__name__} gave {why}: differentiating it would lose a term.\n  {fix}."
    known = [*node._call.levels, *(at for t in _tensors_in(given) for at in t._tangents or ())]
    if _open_levels([dict.fromkeys(known)]):
        raise RuntimeError(message + errors.at(node))
    if not node.edges or not mode.is_grad_enabled():
        return made
    # an array that was saved has no history in the cotangents: relative to those, the history is as recorded
    others = () if hidden is not None else tuple(_tensors_in(given))
    blocked = wrap(made._raw, made._spec, unknown_history(node, made._spec, message, others, through=made._node))
    blocked._tangents = made._tangents
    return blocked


def _tensors_in(values: tuple[Any, ...]) -> list[Tensor]:
    return [t for t in tree.flatten(values)[0] if isinstance(t, Tensor)]


def _holds_array(value: Any) -> bool:
    """Return whether an attribute is an inexact array, or a container that holds one."""
    if _is_container(value):
        return any(_holds_array(v) for v in tree.flatten(value)[0] if not _is_container(v))
    backend = None if isinstance(value, Tensor) else backend_of(value)
    return backend is not None and backend.spec(value).inexact


def _open_levels(tangents: Sequence[dict[int, Any] | None]) -> tuple[int, ...]:
    """Return the open levels of forward mode, outermost first, for which one of these has a tangent."""
    if not any(tangents):
        return ()
    now = mode.current()
    found = {at for of_one in tangents for at in of_one or ()}
    return tuple(sorted(found.intersection(now.levels))) if now is not None else ()


def _push_tangents(
    cls: type[Function],
    node: FunctionNode,
    operands: tuple[tuple[Any, ...], list[dict[int, Tensor] | None]],
    results: tuple[Any, Any],
    to_save: tuple[Any, ...],
    *,
    record: bool,
) -> None:
    """Push the tangents of open levels through the user's jvp to the results.

    Parameters
    ----------
    operands : tuple
        The arguments of the call, and their tangents.
    results : tuple
        The result of forward, and the tensors made of it: these are the results that jvp sees, with their history.
    to_save : tuple
        The tensors saved for jvp.
    """
    arguments, carried = operands
    before, after = (part if isinstance(part, tuple) else (part,) for part in results)
    made = {id(b): a for b, a in zip(before, after, strict=True) if isinstance(b, Tensor)}
    places = {id(a) for a in arguments if isinstance(a, Tensor)}
    call = node._call
    around = mode.current()
    open_levels = () if around is None else around.levels
    for at in call.levels:
        outside = mode.get_mode()
        try:
            # only the levels outside this one: a tangent has no tangent of its own level
            mode.push(grad=record, levels=tuple(level for level in open_levels if level < at))
            tangents = []
            for a, of_one in zip(arguments, carried, strict=True):
                t = (of_one or {}).get(at)
                if t is None and call.materialize and isinstance(a, Tensor) and a._spec.inexact:
                    t = a._spec.backend.functions.zeros_like(a)
                tangents.append(t)
            call.in_jvp = tuple(
                made[id(t)] if id(t) in made else t if id(t) in places or t is None else node._revive(t, _other(t))
                for t in to_save
            )
            pushed = cls.jvp(node, *(tangents if call.structures is None else _grouped(tangents, call.structures)))
            pushed = pushed if isinstance(pushed, tuple) else (pushed,)
            if call.results is not None:
                pushed = _spread(node, list(pushed), call.results, "tangent")
            if len(pushed) > len(after):
                message = f"function {node.name()} returned an incorrect number of tangents (expected {len(after)}, got"
                raise RuntimeError(f"{message} {len(pushed)}){errors.at(node)}")
            for t, result in zip(pushed, after, strict=False):
                if t is not None and isinstance(result, Tensor) and result._spec.inexact:
                    of_result: Any = result._tangents
                    of_result[at] = fitted(_derivative(node, t, "jvp", tuple(tangents)), result)
        finally:
            mode.set_mode(outside)
            call.in_jvp = None


def _other(t: Tensor) -> Role:
    return "other", None, t._tangents


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a backward that cannot itself be differentiated: doing so raises, rather than losing a term.

    Parameters
    ----------
    backward : callable
        The static method; it runs under `no_grad`.
    """
    unrecorded = mode.no_grad(backward)

    @functools.wraps(backward)
    def once(ctx: FunctionNode, *grads: Any) -> Any:
        gradients = unrecorded(ctx, *grads)
        if not mode.is_grad_enabled():
            return gradients
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        cotangents = tuple(tree.flatten(grads)[0])

        def blocked(g: Any) -> Any:
            # whatever it was computed from, differentiating it would lead to the inputs and the cotangents
            if not isinstance(g, Tensor) or not g._spec.inexact:
                return g
            return wrap(g._raw, g._spec, unknown_history(ctx, g._spec, message, cotangents))

        return tree.map(blocked, gradients)

    return once


class UnknownHistory(Node):
    """Represents the origin of a value of unknown history: raises when a gradient arrives.

    Attributes
    ----------
    message : str
        The error message.
    known : bool
        Whether the first of its edges leads to known history.
    """

    __slots__ = ("known", "message")
    title = "UnknownHistory"

    known: bool
    message: str


def unknown_history(
    ctx: FunctionNode, spec: Spec, message: str, others: tuple[Any, ...] = (), *, through: Node | None = None
) -> UnknownHistory:
    """Make the node of a value that may depend on the inputs of a call, and on other tensors.

    Parameters
    ----------
    through : Node, optional
        The known history: a pass that reaches none of the inputs may continue there.
    """
    node: UnknownHistory = _new(UnknownHistory)
    node.seq = next_seq()
    unknown = (*ctx.inputs, *(t._node for t in others if isinstance(t, Tensor) and t._node is not None))
    node.edges = unknown if through is None else (through, *unknown)
    node.second = None
    node.saved = ()
    node.vjp = _refuse
    node.spec = spec
    node.code, node.lasti = ctx.code, ctx.lasti
    node.hooks = None
    node.message, node.known = message + errors.at(ctx), through is not None
    return node


def _refuse(_xp: Any, g: Any, _saved: tuple[Any, ...], node: UnknownHistory) -> Any:
    task = running()
    needed = None if task is None else task.needed
    if node.known and needed is not None and needed.isdisjoint(node.inputs[1:]):
        return (g, *(None for _ in node.inputs[1:]))
    raise RuntimeError(node.message)
