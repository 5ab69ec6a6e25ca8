"""The parts of HIPS autograd's tracer that programs use: user-defined nodes for each call, and whether a value is being differentiated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agrad.compat.autograd.boxes import Box, new_box
from agrad.compat.autograd.core import warn
from agrad.compat.autograd.plain import plain
from agrad.compat.autograd.primitives import bare, notrace_primitive, primitive
from agrad.compat.autograd.util import subval, subvals, toposort
from agrad.core import mode
from agrad.core.errors import called
from agrad.core.op import OPS
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.program.arguments import is_raw
from agrad.program.capture import recorded_run
from agrad.program.recording import Recorded, Recorder

__all__ = [
    "Box",
    "Node",
    "getval",
    "isbox",
    "new_box",
    "notrace_primitive",
    "primitive",
    "subval",
    "subvals",
    "toposort",
    "trace",
]


def isbox(x: Any) -> bool:
    """Return whether a value is being differentiated: a tensor with a history or a tangent, or the box of an object.

    >>> import agrad as ag
    >>> seen = []
    >>> ag.grad(lambda x: seen.append(isbox(x)) or x * x)(3.0)
    np.float64(6.0)
    >>> seen, isbox(3.0)
    ([True], False)
    """
    return isinstance(x, Box)


def getval(x: Any) -> Any:
    """Return the plain, read-only array of a tensor, the object of a box, and anything else unchanged."""
    return bare(x)


# -- nodes of one's own -------------------------------------------------------------------------------------------------


class Node:
    """The node that `trace` creates for each call that depends on the argument; user classes inherit from it.

    It defines ``__init__(value, fun, args, kwargs, parent_argnums, parents)``: the call's result as a plain array, the
    function, its arguments, and which positional ones depend on the traced argument, with their nodes; and
    ``initialize_root(...)``, for the argument's own node.
    """

    __slots__ = ()

    def __init__(
        self,
        value: Any,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Any, ...],
    ) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} has no __init__(value, fun, args, kwargs, argnums, parents){called()}"
        )

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        """Make this the node of an argument."""
        raise NotImplementedError(f"{type(self).__name__} has no initialize_root(...){called()}")

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the node of an argument."""
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root


class NodeRecorder(Recorder):
    """Creates a node for each call that depends on one value, while it runs.

    Its record is never replayed, so Python may see values and change its state.

    Parameters
    ----------
    kind : type
        The class of the nodes.
    """

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.kind = kind
        self.nodes: dict[int, Any] = {}

    def step(self, backend: Any, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Record a step, and create the nodes of its results."""
        made = super().step(backend, op, args, kwargs, result)
        within = [(argnum, self.nodes[n]) for argnum, arg in enumerate(args) for n in _numbers(arg) if n in self.nodes]
        if within:
            argnums, parents = zip(*within, strict=True)
            function = plain(OPS[op].entry) if op in OPS else _kernel(backend.inner, op)
            given = tuple(map(_value, args)), {name: _value(x) for name, x in kwargs.items()}
            for part in made if isinstance(made, tuple | list) else (made,):
                if isinstance(part, Recorded):
                    self.nodes[part.ref.number] = self.kind(_value(part), function, *given, argnums, parents)
        return made

    def without_history(self, value: Any) -> Any:
        """Return recorded arrays without history, with their nodes."""
        made = super().without_history(value)
        if isinstance(made, Recorded) and value.ref.number in self.nodes:
            self.nodes[made.ref.number] = self.nodes[value.ref.number]
        return made

    def check_shape(self, op: str, args: tuple[Any, ...]) -> None:
        """Let shapes depend on values."""

    def item(self, tensor: Tensor) -> Any:
        """Return the one element of a tensor."""
        return tensor._spec.backend.item(tensor._raw)

    def truth(self, tensor: Tensor) -> Any:
        """Return the one element as a boolean."""
        return tensor._spec.backend.truth(tensor._raw)

    def export(self, tensor: Tensor) -> Any:
        """Let Python have a value."""

    def not_recorded(self, reason: str, later: bool) -> None:
        """Let things be done that no program could do again."""

    def effect(self, do: Callable[[], None], held: Sequence[dict[Any, Any]]) -> None:
        """Change Python's state."""
        do()

    def effect_of(self, value: Any, do: Callable[[float], None], held: Sequence[dict[Any, Any]]) -> None:
        """Change Python's state by a value."""
        do(float(value))


def _numbers(argument: Any) -> Iterator[int]:
    if isinstance(argument, Recorded):
        yield argument.ref.number
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _numbers(part)


def _value(argument: Any) -> Any:
    if isinstance(argument, Recorded):
        return bare(from_raw(argument.data))
    if type(argument) in (tuple, list):
        return type(argument)(map(_value, argument))
    return argument


def _kernel(backend: Any, name: str) -> Callable[..., Any]:
    """Return a kernel that no op has, by its name."""

    @plain
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return operator.attrgetter(name)(backend.functions)(*args, **kwargs)

    kernel.__name__ = name
    return kernel  # type: ignore[no-any-return]


def trace(start_node: Any, fun: Callable[..., Any], x: Any) -> tuple[Any, Any]:
    """Run a function of an array; create a node for each call of an operation that depends on it.

    The operations are agrad's, and so are those of derivatives taken inside: HIPS autograd's would differ.

    Parameters
    ----------
    start_node : Node
        The argument's node; all nodes are of its class.
    fun : callable
        Takes and returns an array.
    x : array or number
        The argument.

    Returns
    -------
    tuple
        The value, and its node: None, with a warning, if it does not depend on the argument.

    Examples
    --------
    >>> import agrad as ag
    >>> class Names(Node):
    ...     def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
    ...         self.names = [*parents[0].names, fun.__name__]
    ...
    ...     def initialize_root(self):
    ...         self.names = []
    >>> value, node = trace(Names.new_root(), lambda x: ag.exp(ag.sin(x)), 0.0)
    >>> value, node.names
    (np.float64(1.0), ['sin', 'exp'])
    """
    mode.not_recorded("autograd.tracer.trace makes nodes")
    recorder = NodeRecorder(type(start_node))
    given = x if isinstance(x, Tensor) else asarray(x)
    recorder.nodes[recorder.input(given._raw)] = start_node
    value = recorded_run(recorder, fun, (given,), {})
    number = recorder.number_of(value._raw) if isinstance(value, Tensor) else None
    node = recorder.nodes.get(number) if number is not None else None
    if node is None:
        warn("Output seems independent of input.")
    return bare(value) if is_raw(x) and not isbox(value) else value, node
