"""backward and grad: the two entry points of the reverse engine, with PyTorch's arguments and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agrad import tree
from agrad.autograd.graph import GradientEdge
from agrad.core import engine, errors, mode
from agrad.core.materialize import is_loss
from agrad.core.node import Node, output_of
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor, attached


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    inputs: Any = None,
) -> None:
    """Add the gradients of tensors to the `.grad` of the leaves they were computed from.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or container of them
        The values to differentiate; their gradients are summed.
    grad_tensors : Tensor, None or container of them, optional
        A cotangent per tensor, of its shape; may be None for a single real element (then 1).
    retain_graph : bool, optional
        Whether to keep the graph's saved values, so that it can be differentiated again. Default: `create_graph`.
    create_graph : bool, optional
        Whether to record the pass itself, for higher derivatives. A `.grad` then has a history that leads back to its
        leaf, a cycle that only the garbage collector frees; `agrad.grad` creates none.
    inputs : Tensor, GradientEdge or container of them, optional
        Accumulate only into these; a non-leaf among them gets a `.grad` too, from now on (see `Tensor.retain_grad`).

    Raises
    ------
    RuntimeError
        With PyTorch's message; no `.grad` has changed then.
    """
    if mode.transforming.get():
        raise errors.backward_in_transform()
    outputs, cotangents = _differentiated(tensors, grad_tensors, "tensors")
    roots = _roots(outputs, cotangents)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        engine.run(roots, retain_graph=retain, create_graph=create_graph, values=outputs)
        return
    wanted, _ = _flattened(inputs, "backward()")
    if not wanted:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    nodes = [_node_of(t, i) for i, t in enumerate(wanted)]
    for tensor in wanted:
        if isinstance(tensor, Tensor):
            tensor.retain_grad()  # as in PyTorch, this remains set
    engine.run(roots, retain_graph=retain, create_graph=create_graph, targets=set(nodes), values=outputs)


@attached
class BackwardMethod:
    """The members of `Tensor` defined in this file."""

    def backward(
        self: Any,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to the `.grad` of the leaves it was computed from.

        Parameters
        ----------
        gradient : Tensor, optional
            Cotangent of this tensor's shape; may be omitted for a single real element (then 1).
        retain_graph : bool, optional
            Whether to keep the graph's saved values, so that it can be differentiated again. Default: `create_graph`.
        create_graph : bool, optional
            Whether to record the backward pass itself, for higher derivatives. A `.grad` then has a history that leads back
            to its leaf, a cycle that only the garbage collector frees; `agrad.grad` creates none.
        inputs : Tensor, GradientEdge, or iterable or dict of them, optional
            Accumulate only into these.

        Raises
        ------
        RuntimeError
            Where PyTorch does, with its message; no `.grad` has changed then.

        Examples
        --------
        >>> import agrad as ag
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of outputs with respect to inputs; no leaf's `.grad` changes.

    Parameters
    ----------
    outputs : Tensor, GradientEdge or container of them
        The values to differentiate; their gradients are summed.
    inputs : Tensor, GradientEdge or container of them
        The values to differentiate with respect to.
    grad_outputs : Tensor, None or container of them, optional
        A cotangent per output.
    retain_graph : bool, optional
        Whether to keep the graph's saved values. Default: `create_graph`.
    create_graph : bool, optional
        Whether to record the pass, so that the gradients can be differentiated.
    only_inputs : bool, optional
        Only True, as in PyTorch; `backward` accumulates the gradients of all leaves.
    allow_unused : bool, optional
        Return None for an input that the outputs do not depend on. Default: `materialize_grads`.
    is_grads_batched : bool, optional
        The first axis of every cotangent is a batch axis: the gradients, computed in one pass, have it too.
    materialize_grads : bool, optional
        Return zeros instead of that None.

    Returns
    -------
    tuple, dict or other container
        A Tensor (or None) per input: a tuple for one tensor, a list or an iterable, otherwise as `inputs`.

    Raises
    ------
    RuntimeError
        With PyTorch's message.
    TypeError
        If `inputs` is a mapping other than a dict.
    ValueError
        If `only_inputs` is False, or `materialize_grads` is combined with ``allow_unused=False``.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor(3.0, requires_grad=True)
    >>> (g,) = ag.autograd.grad(x**3, x, create_graph=True)
    >>> ag.autograd.grad(g, x)
    (tensor(18.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        raise ValueError(
            "grad(): only_inputs=False is not there. To accumulate gradient for other parts of the graph, please use"
            f" agrad.autograd.backward.{errors.called()}"
        )
    unused_is_fine = materialize_grads if allow_unused is None else allow_unused
    wanted, rebuild = _flattened(inputs, "grad()")
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    differentiated, grad_outputs = _differentiated(outputs, grad_outputs, "outputs")
    if is_grads_batched:
        found = _batched(differentiated, wanted, grad_outputs, retain_graph, create_graph, unused_is_fine)
        if materialize_grads:
            size = next(g for g in _as_cotangents(grad_outputs) if g is not None).shape[0]
            found = [_zero_rows(t, size) if g is None else g for t, g in zip(wanted, found, strict=True)]
        return rebuild(found)
    roots = _roots(differentiated, grad_outputs)
    nodes = [_node_of(t, i) for i, t in enumerate(wanted)]
    captured = engine.run(
        roots,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=set(nodes),
        accumulate=False,
        values=differentiated,
    )
    result: list[Tensor | None] = []
    for i, (tensor, node) in enumerate(zip(wanted, nodes, strict=True)):
        g = captured.get(node)
        if g is None:
            if not unused_is_fine:
                raise errors.unused_input(i)
            if materialize_grads and isinstance(tensor, Tensor):
                zeros = tensor._spec.backend.functions.zeros_like(tensor.detach())
                g = zeros.requires_grad_() if create_graph else zeros
        made = g if g is None or isinstance(g, Tensor) else from_raw(g)
        if made is not None and made._spec.backend.is_lazy:
            made._spec.backend._came_from(made._raw, [t._raw for t in differentiated if is_loss(t)])
        result.append(made)
    return rebuild(result)


def _batched(
    outputs: list[Any],
    inputs: list[Any],
    grads: Any,
    retain_graph: bool | None,
    create_graph: bool,
    unused_is_fine: bool,
) -> list[Tensor | None]:
    """Return the gradients for a batch of cotangents; None for an input that no cotangent reaches."""
    from agrad.func.vmap import vmap  # noqa: PLC0415 (its package builds on this file)

    cotangents = _as_cotangents(grads)
    for i, (g, output) in enumerate(zip(cotangents, outputs, strict=False)):
        if isinstance(g, Tensor) and isinstance(output, Tensor) and g.shape[1:] != output.shape:
            raise errors.batched_cotangent(i, g.shape, output.shape)
    if not any(isinstance(g, Tensor) for g in cotangents):
        raise RuntimeError(
            "is_grads_batched=True takes grad_outputs whose first axis is that of the batch, but got none"
        )
    unused: list[bool] = []

    def one(*gs: Any) -> Any:
        every = iter(gs)
        found = grad(
            outputs,
            inputs,
            [None if g is None else next(every) for g in cotangents],
            retain_graph,
            create_graph,
            allow_unused=unused_is_fine,
        )
        unused[:] = [g is None for g in found]
        return tuple(g for g in found if g is not None)

    batched = iter(vmap(one)(*(g for g in cotangents if g is not None)))
    return [None if missing else next(batched) for missing in unused]


def _as_cotangents(grads: Any) -> list[Any]:
    return list(grads) if isinstance(grads, list | tuple) else [grads]


def _zero_rows(tensor: Tensor, size: int) -> Tensor:
    zeros: Tensor = tensor._spec.backend.functions.zeros(
        (size, *tensor.shape), dtype=tensor.dtype, device=tensor.device
    )
    return zeros


def _flattened(inputs: Any, function: str) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return inputs as a list, and a function that turns a list of gradients into a result with the inputs' structure."""
    if isinstance(inputs, Tensor):
        return [inputs], tuple
    if isinstance(inputs, Mapping) and type(inputs) is not dict:
        raise TypeError(
            f"`inputs` argument to `{function}` must be a dict, not {type(inputs).__name__}. Other Mapping types are"
            " not supported."
        )
    if not _nested(inputs):
        if type(inputs) is dict:
            return list(inputs.values()), lambda found: dict(zip(inputs, found, strict=True))
        wanted = _as_sequence(inputs, "inputs")
        if not any(_nested((one,)) for one in wanted):
            return wanted, tuple
        inputs = tuple(wanted)
    leaves, structure = tree.flatten(tuple(inputs) if type(inputs) is list else inputs)
    return leaves, lambda found: tree.unflatten(structure, found)


def _nested(container: Any) -> bool:
    """Return whether a container holds tensors nested deeper than PyTorch allows, or as fields of a class."""
    if isinstance(container, Tensor | GradientEdge):
        return False
    if hasattr(type(container), "_fields") or hasattr(type(container), "__dataclass_fields__"):
        return True
    members = container.values() if isinstance(container, dict) else container
    return isinstance(container, dict | list | tuple) and any(
        isinstance(m, dict | list | tuple) or hasattr(type(m), "__dataclass_fields__")
        for m in members
        if not isinstance(m, Tensor | GradientEdge)
    )


def _differentiated(outputs: Any, grads: Any, name: str) -> tuple[list[Any], Any]:
    """Return outputs as a list, together with their cotangents."""
    if isinstance(outputs, Tensor):
        return [outputs], grads
    if not isinstance(outputs, dict) and not _nested(outputs):
        return _as_sequence(outputs, name), grads
    leaves, structure = tree.flatten(outputs)
    if grads is None:
        return leaves, None
    try:
        return leaves, list(structure._flatten_up_to(grads, ""))
    except ValueError as error:
        raise RuntimeError(f"the gradients have another structure than the {name}: {error}") from None


def _as_sequence(tensors: Any, name: str) -> list[Any]:
    if isinstance(tensors, Tensor | GradientEdge):
        return [tensors]
    if isinstance(tensors, Iterable) and getattr(tensors, "shape", None) != ():
        return list(tensors)
    raise TypeError(f"{name} must be a Tensor or a sequence of them, not {type(tensors).__name__}")


def _node_of(tensor: Any, index: int) -> Node:
    """Return the node at which the gradient of an input arrives."""
    if isinstance(tensor, GradientEdge):
        return output_of(*tensor) if isinstance(tensor.node.spec, tuple) else tensor.node
    if not isinstance(tensor, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")  # noqa: TRY004 (PyTorch's type)
    if tensor._node is None:
        raise errors.input_without_grad(index)
    return tensor._node


def _roots(outputs: list[Any], grads: Any) -> list[tuple[Node, Tensor | None]]:
    """Pair every output's node with its checked cotangent."""
    if grads is None:
        cotangents: list[Any] = [None] * len(outputs)
    elif isinstance(grads, Tensor):
        cotangents = [grads]
    elif isinstance(grads, list | tuple):
        cotangents = list(grads)
    else:
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grads).__name__}")
    if len(cotangents) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(cotangents)} gradients")
    roots = []
    for i, (output, g) in enumerate(zip(outputs, cotangents, strict=True)):
        if isinstance(output, Tensor):
            node = output._node
            if node is None:
                raise errors.no_grad_fn(i)
        elif isinstance(output, GradientEdge):
            node = _node_of(output, i)
        else:
            raise TypeError(f"element {i} of tensors must be a Tensor or GradientEdge, not {type(output).__name__}")
        roots.append((node, cotangent_for(i, node, g)))
    return roots


def cotangent_for(index: int, node: Node, g: Any) -> Tensor | None:
    """Return the initial cotangent of a root: the user's, checked, or ones; None for the 1 of a scalar."""
    spec = node.spec
    if g is None:
        if spec.shape and spec.size != 1:
            raise errors.not_scalar(node, spec.shape)
        if spec.is_complex:
            raise errors.not_real(node, spec.dtype)
        if not spec.shape:
            return None
        ones: Tensor = spec.backend.functions.ones(spec.shape, dtype=spec.dtype, device=spec.device)
        return ones
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._spec is spec:
        return g
    if g.shape != spec.shape:
        raise errors.cotangent_shape(index, g.shape, spec.shape, node)
    if g.is_complex() != spec.is_complex:
        raise errors.cotangent_kind(index, g.dtype, spec.dtype, node)
    if g._spec.backend is not spec.backend:
        g = g.to_device(spec.device)
    cast: Tensor = g if g.dtype == spec.dtype else spec.backend.functions.astype(g, spec.dtype)
    return cast
