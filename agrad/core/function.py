"""Function: a user's own operation, with a backward of its own. PyTorch's class and conventions."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

from agrad.core import errors, mode, tensor
from agrad.core.engine import batch_levels
from agrad.core.node import Freed, Node, next_seq, output_of
from agrad.core.rule import Crossed, ShapeMismatchError, fit
from agrad.core.saved import Parcel, active
from agrad.core.spec import Spec, Specs
from agrad.core.tensor import Tensor, set_history, wrap

#: Set by ``agrad.func.batching``: for arguments that are mapped over, the result of the Function's own vmap, or
#: arguments its forward can take.
with_batch: Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[Any, tuple[Any, ...], dict[str, Any]]]

_new = object.__new__


class FunctionNode(Node):
    """The node of one call of a `Function`; the ``ctx`` its methods get."""

    __slots__ = ()
    function: ClassVar[type[Function]]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward: operands, results or None.

        Raises
        ------
        TypeError
            If one is neither a Tensor nor None.
        """
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                message = (
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                    "\n  Keep other values as attributes of ctx."
                )
                raise TypeError(message)
        self.__dict__["_to_save"] = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``: they are the `saved_tensors` there.

        Raises
        ------
        TypeError
            If one is neither a Tensor nor None.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                message = (
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on"
                    f" ctx. (got {type(t).__name__})"
                )
                raise TypeError(message)
        self.__dict__["_for_forward"] = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What `save_for_backward` kept: operands and results with their history.

        Raises
        ------
        RuntimeError
            After backward has freed them.
        """
        if "_kept" not in self.__dict__:  # still within the call
            known = self.__dict__.get("_for_forward", self.__dict__.get("_to_save", ()))
            return cast("tuple[Tensor | None, ...]", known)
        if type(self.saved) is Freed:
            raise errors.second_time(self)
        saved: Any = self.saved
        if self.function.clear_saved_tensors_on_access and saved:
            (box,) = saved
            saved = box.pop() if box else None
            if saved is None:
                message = (
                    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the"
                    " autograd.Function. Either access saved_tensors only once, or set"
                    f" clear_saved_tensors_on_access=False.{errors.at(self)}"
                )
                raise RuntimeError(message)
        return tuple(
            None if value is None else self._revive(value.open() if isinstance(value, Parcel) else value, role)
            for value, role in zip(saved, self.__dict__["_kept"], strict=True)
        )

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Pairs of node and output number, one per tensor argument; ``(None, 0)`` for one that needs no gradient."""
        edges = iter(self.inputs)
        arguments = zip(self.__dict__["_needs"], self.__dict__["_is_tensor"], strict=True)
        return tuple(next(edges).address() if need else (None, 0) for need, is_tensor in arguments if is_tensor)

    def _revive(self, value: Tensor, role: tuple[str, Any]) -> Tensor:
        """Give a kept value as a tensor with the history its role in the call gives it."""
        kind, where = role
        node: Node | None = None
        if kind == "operand":
            node = where
        elif kind == "result":
            node = output_of(self, where) if isinstance(self.spec, tuple) else self
            node = node if value._spec.inexact else None
        elif value._spec.inexact and mode.is_grad_enabled():
            message = (
                f"{self.name()} saved a tensor that is neither an input nor an output, so its history is unknown and"
                " differentiating the gradient again would lose a term.\n  Compute it again from the inputs in backward"
                " or return it as an output too; keep a constant as an attribute of ctx instead."
            )
            node = unknown_history(self, value._spec, message)
        made = wrap(value._raw, value._spec, node)
        made._tangents = value._tangents
        return made

    def __getattr__(self, name: str) -> Any:
        """Give an input or output kept as an attribute: its value at the call, with its history."""
        kept = self.__dict__.get("_attributes", {})
        if name in kept:
            return self._revive(*kept[name])
        message = f"{self.name()!r} object has no attribute {name!r}"
        raise AttributeError(message)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare results that need no gradient; backward gets zeros for them."""
        for t in tensors:
            if not isinstance(t, Tensor):
                message = f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__}"
                raise RuntimeError(message)  # noqa: TRY004 (PyTorch's type)
        self.__dict__["_non_differentiable"] = {id(t) for t in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare operands changed in place; each must be returned as a result too."""
        for t in tensors:
            if not isinstance(t, Tensor):
                message = f"mark_dirty can only accept variables, but got {type(t).__name__}"
                raise RuntimeError(message)  # noqa: TRY004 (PyTorch's type)
        self.__dict__["_dirty"] = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether undefined gradients arrive as zeros (the default) or as None."""
        self.__dict__["_materialize"] = value

    def name(self) -> str:
        return f"{self.function.__name__}Backward"


class Function:
    """A differentiable operation with a forward and a backward of the user's.

    Subclass it with static methods ``forward(ctx, *args)`` and ``backward(ctx, *grad_outputs)``; or ``forward(*args)``,
    ``setup_context(ctx, inputs, output)`` and ``backward``. ``vjp`` is another name of ``backward``; ``jvp(ctx,
    *tangents)`` serves forward mode. Call it by `apply`.

    Under `vmap` a Function needs a static method ``vmap(info, in_dims, *args)``, which gets the batch as an axis of its
    arguments and returns ``(result, out_dims)``; or ``generate_vmap_rule = True``, if its methods consist of agrad's
    functions.

    Raises
    ------
    RuntimeError
        In backward, if the number or shapes of the gradients are wrong; every `.grad` is then as it was.

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

    #: ``saved_tensors`` may be read once, which frees what was saved, ``retain_graph`` or not.
    clear_saved_tensors_on_access: ClassVar[bool] = False
    #: ``backward(ctx, grad_outputs)`` gets all cotangents in one list, which it may empty as it goes.
    boxed_grads_call: ClassVar[bool] = False
    generate_vmap_rule: ClassVar[bool] = False
    _node_class: ClassVar[type[FunctionNode] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        message = (
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so you"
            f" should invoke them on the class itself: {type(self).__name__}.apply(...)"
        )
        raise TypeError(message)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        message = "You must implement the forward function for custom autograd.Function."
        raise NotImplementedError(message)

    @staticmethod
    def setup_context(ctx: FunctionNode, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what backward needs, where ``forward`` takes no ctx."""
        message = "setup_context is not implemented."
        raise NotImplementedError(message)

    @staticmethod
    def backward(ctx: FunctionNode, *grad_outputs: Any) -> Any:
        """Give a gradient, or None, per argument of forward."""
        message = (
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )
        raise NotImplementedError(message)

    vjp = backward

    @staticmethod
    def jvp(ctx: FunctionNode, *tangents: Any) -> Any:
        """Give the tangent per result."""
        message = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        raise NotImplementedError(message)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the operation, recorded.

        Parameters
        ----------
        *args, **kwargs
            Handed to ``forward``. A dict, list, tuple or dataclass may hold tensors, in any nesting: ``backward``
            returns one of the same structure for it (or None), with a gradient or None for each of them.

        Returns
        -------
        Tensor or container
            What ``forward`` returns. For each element of a tuple, or for anything else it returns, ``backward`` gets a
            gradient of the same structure.
        """
        if batch_levels.get():
            result, args, kwargs = with_batch(cls, args, kwargs)  # noqa: F821 (see above)
            if result is not None:
                return result
        node = _make_node(cls)
        separate = cls.setup_context is not Function.setup_context
        bound = _bound(cls.forward, args, kwargs, separate=separate)
        arguments, structures = _taken_apart(bound)
        recording = mode.is_grad_enabled()
        needs = tuple(isinstance(a, Tensor) and a._node is not None for a in arguments)
        node.__dict__["_needs"] = node.__dict__["needs_input_grad"] = needs
        node.__dict__["_is_tensor"] = tuple(isinstance(a, Tensor) for a in arguments)
        if structures is not None:
            node.__dict__["_structures"] = structures
            node.__dict__["needs_input_grad"] = tuple(
                any(part) if isinstance(part, list) else part for part in _grouped(needs, structures, list)
            )
        mode.push(grad=False)
        try:
            if separate:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(node, bound, output)
            else:
                output = cls.forward(node, *args, **kwargs)
            flat, results = output, None
            if type(output) is not Tensor:
                several, results = _taken_apart(output if isinstance(output, tuple) else (output,))
                if results is not None:
                    node.__dict__["_results"], flat = results, several
            tangents = _tangents(cls, node, arguments, flat, record=recording)
        finally:
            mode.pop()
        made = _record(node, arguments, flat, tangents, record=recording and any(needs))
        if results is None:
            return made
        rebuilt = tuple(_grouped(made, results))
        return rebuilt if isinstance(output, tuple) else rebuilt[0]


def _bound(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, separate: bool
) -> tuple[Any, ...]:
    """Give all arguments of forward in order, with its defaults where there is a ``setup_context``."""
    if not separate:
        return (*args, *kwargs.values())
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return (*bound.args, *bound.kwargs.values())


def _taken_apart(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Give values with those containers opened that hold tensors, and per value its structure; None if there is none."""
    for value in values:
        if type(value) is not Tensor and _is_container(value):
            break
    else:
        return values, None
    flat: list[Any] = []
    structures: list[Any] = []
    for value in values:
        leaves, structure = tensor.functions.tree.flatten(value) if _is_container(value) else ([], None)
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
    """Put values back into containers; with `build`, what that makes of the values of one."""
    leaves = iter(flat)
    found = []
    for structure in structures:
        if structure is None:
            found.append(next(leaves))
            continue
        part = itertools.islice(leaves, structure.num_leaves)
        found.append(tensor.functions.tree.unflatten(structure, part) if build is None else build(part))
    return found


def _spread(node: FunctionNode, values: list[Any], structures: tuple[Any, ...], what: str) -> list[Any]:
    """Take apart what the user's method returned, along the structures of what it belongs to."""
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


def _record(
    node: FunctionNode, arguments: tuple[Any, ...], output: Any, tangents: tuple[Any, ...] | None, *, record: bool
) -> Any:
    """Make the results of a call, attached to its node."""
    several = isinstance(output, tuple)
    outputs = output if several else (output,)
    node.__dict__.pop("_for_forward", None)
    dirty = node.__dict__.pop("_dirty", ())
    for target in dirty:
        if not any(o is target for o in outputs):
            message = (
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that"
                f" are modified inplace must all be outputs of the Function.{errors.at(node)}"
            )
            raise RuntimeError(message)
        if record and target.is_leaf and target.requires_grad:
            message = f"a leaf Variable that requires grad has been used in an in-place operation.{errors.at(node)}"
            raise RuntimeError(message)
    inert = node.__dict__.pop("_non_differentiable", set())
    to_save = node.__dict__.pop("_to_save", ())
    specs = tuple(o._spec if isinstance(o, Tensor) else None for o in outputs)
    node.spec = Specs(cast("tuple[Spec, ...]", specs)) if several else specs[0]
    places = {id(a): i for i, a in reversed(list(enumerate(arguments))) if isinstance(a, Tensor)}
    if record:
        node.seq = next_seq()
        inputs = [a for a in arguments if isinstance(a, Tensor) and a._node is not None]
        edges = tuple(a._node for a in inputs)
        node.edges = cast("tuple[Node, ...]", edges)
        node.specs = tuple(a._spec for a in inputs)
        node.__dict__["_kept"] = [_role(t, arguments, places, outputs, dirty) for t in to_save]
        pairs = active()
        kept = tuple(None if t is None else Parcel(t, pairs, node) if pairs else _bare(t) for t in to_save)
        # in a list of its own, what is saved can be dropped while the engine still holds `node.saved`
        node.saved = ([kept],) if kept and node.function.clear_saved_tensors_on_access else kept
        attributes = node.__dict__["_attributes"] = {}
        for name, value in list(node.__dict__.items()):
            if isinstance(value, Tensor) and (role := _role(value, arguments, places, outputs, dirty))[0] != "other":
                attributes[name] = _bare(value), role  # by value: the user's own object may change, or make a cycle
                del node.__dict__[name]
    made: dict[int, Any] = {}
    results = []
    for i, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            results.append(o)
            continue
        if id(o) not in made:
            attach = record and o._spec.inexact and id(o) not in inert
            origin = (output_of(node, i) if several else node) if attach else None
            if any(o is target for target in dirty):
                if record:
                    set_history(o, origin)
                made[id(o)] = o
            else:
                made[id(o)] = wrap(o._raw, o._spec, origin)
                made[id(o)]._tangents = o._tangents
        if tangents is not None:
            made[id(o)]._tangents = tangents[i]
        results.append(made[id(o)])
    return tuple(results) if several else results[0]


def _bare(t: Tensor) -> Tensor:
    bare = wrap(t._raw, t._spec)
    bare._tangents = t._tangents
    return bare


def _role(
    t: Tensor | None,
    arguments: tuple[Any, ...],
    places: dict[int, int],
    outputs: tuple[Any, ...],
    dirty: tuple[Any, ...],
) -> tuple[str, Any]:
    """Tell what a saved tensor is to the call: decides the history it comes back with."""
    if t is None:
        return "other", None
    if id(t) in places and not any(t is target for target in dirty):
        return "operand", arguments[places[id(t)]]._node
    for i, o in enumerate(outputs):
        if o is t:
            return "result", i
    return "other", None


def _vjp(_xp: Any, g: Any, _saved: tuple[Any, ...], node: FunctionNode) -> Any:
    """Run the user's backward: what the engine calls at the node."""
    cls = node.function
    if type(node.saved) is Freed:
        raise errors.second_time(node)
    own_backward = cls.backward is not Function.backward
    if own_backward and cls.vjp is not Function.vjp:
        message = (
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one"
            f" of them.{errors.at(node)}"
        )
        raise RuntimeError(message)
    specs = node.out_specs
    parts = list(g) if isinstance(node.spec, tuple) else [g]
    raw = not any(isinstance(p, Tensor) for p in parts)
    tensors = [None if p is None else _cotangent(p) for p in parts]
    if node.__dict__.get("_materialize", True):
        tensors = [
            t if t is not None or s is None else s.backend.functions.zeros(s.shape, dtype=s.dtype, device=s.device)
            for t, s in zip(tensors, specs, strict=True)
        ]
    if (results := node.__dict__.get("_results")) is not None:
        tensors = _grouped(tensors, results)
    method = cls.backward if own_backward else cls.vjp
    if cls.boxed_grads_call:
        parts.clear()
        if isinstance(node.spec, tuple) and (node.hooks is None or not node.hooks.post):
            g.clear()  # the engine's list: the one the user gets is the last to hold the cotangents
        box, tensors = tensors, []
        return _checked(node, method(node, box), raw=raw)
    return _checked(node, method(node, *tensors), raw=raw)


def _cotangent(part: Any) -> Tensor:
    """Give a cotangent as a Tensor of its own, which the user may change."""
    from agrad.core.engine import tensor_of  # noqa: PLC0415 (the engine imports nothing of this file, but ranks beside it)

    if not isinstance(part, Tensor):
        return tensor_of(part)
    own = wrap(part._raw, part._spec, part._node)
    own._tangents = part._tangents
    return own


def _checked(node: FunctionNode, gradients: Any, *, raw: bool) -> tuple[Any, ...]:
    """Check what the user's backward returned, and bring each gradient to its operand's spec."""
    returned = list(gradients) if isinstance(gradients, tuple | list) else [gradients]
    needs = node.__dict__["_needs"]
    is_tensor = node.__dict__["_is_tensor"]
    structures = node.__dict__.get("_structures")
    count = len(is_tensor if structures is None else structures)
    while len(returned) > count and returned[-1] is None:
        returned.pop()
    if structures is not None and count == 1 and not (len(returned) == 1 and _fits(returned[0], structures[0])):
        returned = [gradients]  # that of the one argument, itself a list or a tuple
    if len(returned) != count:
        raise errors.wrong_count(node, count, len(returned))
    if structures is not None:
        returned = _spread(node, returned, structures, "gradient")
    kept = []
    kind: type[tuple[Any, ...]] = tuple
    specs = iter(node.specs)
    for i, (gradient, need) in enumerate(zip(returned, needs, strict=True)):
        if gradient is not None and not isinstance(gradient, Tensor):
            raise errors.not_a_gradient(node, gradient)
        if gradient is not None and not is_tensor[i]:
            raise errors.not_a_variable(node, i + 1)
        if not need:
            continue
        spec = next(specs)
        if gradient is not None:
            if gradient._spec.device != spec.device:
                kind = Crossed
            try:
                gradient = _brought(gradient, spec, raw=raw)  # noqa: PLW2901 (the same, brought to its spec)
            except ShapeMismatchError:
                raise errors.wrong_shape(node, i, gradient.shape, spec.shape) from None
        kept.append(gradient._raw if raw and gradient is not None else gradient)
    return kind(kept)


def _brought(gradient: Tensor, spec: Spec, *, raw: bool) -> Tensor:
    """Bring a gradient to its operand's spec; a lazy one may stay where it is until the pass ends."""
    from agrad.core.engine import running, spec_on  # noqa: PLC0415 (as above)

    if gradient._spec.device != spec.device:  # the backend of a batch, as vmap makes it, is on its arrays' device
        source = gradient._spec.backend
        gradient = fit(source.functions, gradient, spec_on(source, spec))
        task = running()
        if raw and task is not None and task.defers(source, spec):
            return gradient
        gradient = gradient.to_device(spec.device)
    return fit(spec.backend.functions, gradient, spec)  # type: ignore[no-any-return]


def _tangents(
    cls: type[Function], node: FunctionNode, arguments: tuple[Any, ...], output: Any, *, record: bool
) -> tuple[Any, ...] | None:
    """Push tangents through the user's jvp, where an argument carries some of a level that is open."""
    now = mode.current()
    levels = now.levels if now else ()
    found = {at for a in arguments if isinstance(a, Tensor) and a._tangents for at in a._tangents} & set(levels)
    if not found:
        return None
    outputs = output if isinstance(output, tuple) else (output,)
    per_output: list[dict[int, Tensor]] = [{} for _ in outputs]
    materialize = node.__dict__.get("_materialize", True)
    for at in sorted(found):
        # of the levels, those outside this one: a tangent has no tangent of its own level
        mode.push(grad=record, levels=tuple(level for level in levels if level < at))
        try:
            tangents = []
            for a in arguments:
                t = (a._tangents or {}).get(at) if isinstance(a, Tensor) else None
                if t is None and materialize and isinstance(a, Tensor) and a._spec.inexact:
                    t = a._spec.backend.functions.zeros_like(a)
                tangents.append(t)
            structures, results = node.__dict__.get("_structures"), node.__dict__.get("_results")
            pushed = cls.jvp(node, *(tangents if structures is None else _grouped(tangents, structures)))
            pushed = pushed if isinstance(pushed, tuple) else (pushed,)
            if results is not None:
                pushed = _spread(node, list(pushed), results, "tangent")
        finally:
            mode.pop()
        for i, t in enumerate(pushed):
            if t is not None:
                per_output[i][at] = t
    return tuple(t or None for t in per_output)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a backward that cannot itself be differentiated: doing so raises, rather than losing a term.

    Parameters
    ----------
    backward : callable
        The static method; it runs under `no_grad`.
    """

    @functools.wraps(backward)
    def once(ctx: FunctionNode, *grads: Any) -> Any:
        record = mode.is_grad_enabled()
        mode.push(grad=False)
        try:
            gradients = backward(ctx, *grads)
        finally:
            mode.pop()
        if not record:
            return gradients
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        cotangents = tuple(tensor.functions.tree.flatten(grads)[0])

        def blocked(g: Any) -> Any:
            # whatever it was computed from, the inputs and the cotangents are where differentiating it would lead
            if not isinstance(g, Tensor) or not g._spec.inexact:
                return g
            return wrap(g._raw, g._spec, unknown_history(ctx, g._spec, message, cotangents))

        return tensor.functions.tree.map(blocked, gradients)

    return once


class UnknownHistory(Node):
    """Stands where a value of unknown history came from: raises when a gradient arrives."""

    __slots__ = ()
    title = "UnknownHistory"


def unknown_history(ctx: FunctionNode, spec: Spec, message: str, others: tuple[Any, ...] = ()) -> UnknownHistory:
    """Make the node of a value that may depend on the inputs of a call, and on other tensors."""
    node: UnknownHistory = _new(UnknownHistory)
    node.seq = next_seq()
    node.edges = (*ctx.inputs, *(t._node for t in others if isinstance(t, Tensor) and t._node is not None))
    node.second = None
    node.saved = ()
    node.vjp = _refuse
    node.spec = spec
    node.code, node.lasti = ctx.code, ctx.lasti
    node.hooks = None
    node.__dict__["message"] = message + errors.at(ctx)
    return node


def _refuse(_xp: Any, _g: Any, _saved: tuple[Any, ...], node: UnknownHistory) -> Any:
    raise RuntimeError(node.__dict__["message"])
