"""Nodes of the recorded graph: one per recorded call, one per leaf, and one per further output of a call.

A graph is data: a node holds its op, the nodes its cotangents go to, the saved values, specs and parameters. No node
refers to the tensor it made, so graphs contain no cycles and are freed by reference counting
alone. (A `.grad` with a history, as from `backward(create_graph=True)`, leads back to its leaf: that is a cycle.)
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from agrad.core.hooks import Handle, Hooks
from agrad.core.once import FIRST_USE
from agrad.core.port import Port

if TYPE_CHECKING:
    from agrad.core.spec import Spec
    from agrad.core.tensor import Tensor

#: Creation numbers. A node is made after the nodes it refers to, so descending numbers are a topological order.
next_seq: Callable[[], int] = itertools.count(1).__next__


class Node:
    """One recorded call. Made by entry points (``core.entry``), which fill the slots without ``__init__``.

    Attributes
    ----------
    seq : int
        Creation number.
    edges : Node or tuple of Node
        Where the cotangents of the operands that need one go: a single node where there is one such operand, or (with
        `second`) two; a tuple where there are more, and for an op with `Rule.in_tuple`. See `inputs`.
    second : Node or None
        The second of exactly two.
    saved : tuple
        The raw values that the rule requests; a `Freed` once they have been freed.
    vjp : callable or None
        ``vjp(xp, g, saved, node)`` returns the cotangents: one value for one edge, a tuple for several. None for the
        two kinds of node that the engine handles itself.
    spec : Spec or tuple of Spec
        The result's spec; a tuple where the op returns several.
    specs : tuple of Spec
        The operands' specs; unset where each equals `spec` and is real.
    params : tuple
        The call's parameters, in the order of the op's signature; unset for an op without parameters.
    code, lasti
        The user's line of the forward call, as code object and instruction.
    hooks : Hooks or None
        Hooks on the result and on the node.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "code",
        "edges",
        "hooks",
        "lasti",
        "params",
        "saved",
        "second",
        "seq",
        "spec",
        "specs",
        "vjp",
    )
    op: ClassVar[Any] = None
    #: The `vjp` for a cotangent from an op that drops elements, for nodes without an op; None if it is the same.
    nan_safe_vjp: ClassVar[Any] = None
    title: ClassVar[str] = "Node"
    #: Whether it lifts a value into a vmap batch: a rule that recomputes with that value does so outside the batch.
    lifts: ClassVar[bool] = False

    seq: int
    edges: Node | tuple[Node, ...]
    second: Node | None
    saved: tuple[Any, ...]
    vjp: Callable[..., Any] | None
    spec: Any
    specs: tuple[Spec, ...]
    params: tuple[Any, ...]
    code: CodeType | None
    lasti: int
    hooks: Hooks | None

    @property
    def plan(self) -> Any:
        """The `Plan` from which its `vjp` was compiled, known to the op; None for a node without an op."""
        return None if self.op is None else self.op.plan_of.get(self.vjp)

    def name(self) -> str:
        """Return the name of the node's class, as ``MultiplyBackward0``."""
        return self.title

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle or copy '{self.name()}' object: a recorded graph stays where it was recorded")

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that cotangents go to, always as a tuple."""
        if isinstance(self.edges, tuple):
            return self.edges
        return (self.edges,) if self.second is None else (self.edges, self.second)

    def per_input(self, gs: Any) -> tuple[Any, ...]:
        """Return the result of `vjp`, one value or several, always as a tuple: one per node of `inputs`."""
        return tuple(gs) if self.multi_input else (gs,)

    @property
    def multi_input(self) -> bool:
        """Whether `inputs` has several nodes: `vjp` then returns a cotangent for each, otherwise a single one."""
        return isinstance(self.edges, tuple) or self.second is not None

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Pairs of node and output number, one per operand; ``(None, 0)`` for one that needs no gradient."""
        edges = iter(self.inputs)
        needs = (True,) * len(self.inputs) if self.plan is None else self.plan.needs
        return tuple(next(edges).address() if need else (None, 0) for need in needs)

    def address(self) -> tuple[Node, int]:
        """Return the node and output number that this represents: itself and 0, except for an `Output`."""
        return self, 0

    def __call__(self, *cotangents: Any) -> Any:
        """Run the node's derivative by itself, without its hooks and without later nodes.

        Parameters
        ----------
        *cotangents : Tensor or None
            One per result of the operation.

        Returns
        -------
        Tensor, None or tuple of them
            A cotangent per operand, recorded while recording is on. The node keeps its saved values.

        Raises
        ------
        TypeError
            If the number of cotangents is wrong.
        RuntimeError
            If a shape is wrong, or if the saved values have been freed.
        """
        return call_node(self, cotangents)

    def _sequence_nr(self) -> int:
        """Return the creation number: PyTorch's name."""
        return self.seq

    @property
    def _input_metadata(self) -> tuple[Spec, ...]:
        """Shape, dtype and device per result: PyTorch's name."""
        return self.out_specs

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call a hook just before the node runs.

        Parameters
        ----------
        hook : callable
            ``hook(grad_outputs) -> tuple or None``: a tuple replaces the cotangents.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.
        """
        return hooks_of(self).add("pre", hook)

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call a hook just after the node ran.

        Parameters
        ----------
        hook : callable
            ``hook(grad_inputs, grad_outputs) -> tuple or None``: a tuple replaces the operands' cotangents.

        Returns
        -------
        Handle
            Its ``remove()`` removes the hook.
        """
        return hooks_of(self).add("post", hook)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user's own notes on the node."""
        notes: dict[str, Any] = self.__dict__.setdefault("_metadata", {})
        return notes

    @property
    def out_specs(self) -> tuple[Spec, ...]:
        """Specs of the results, always as a tuple."""
        return self.spec if isinstance(self.spec, tuple) else (self.spec,)


@Port
def call_node(node: Node, cotangents: tuple[Any, ...], /) -> Any:
    """Run one node's rule for the user's cotangents, as the engine does."""


def ancestors(roots: Iterable[Node], *, oldest: int = 0) -> set[Node]:
    """Return the nodes that cotangents from the roots may reach, down to a creation number; the roots included."""
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen and node.seq >= oldest:
            seen.add(node)
            stack.extend(node.inputs)
    return seen


class Constants(tuple[Any, ...]):
    """Saved values that no pass frees, so that the node can run again: values without arrays, such as the slices of a key.

    Or the rule itself frees them after their last use.
    """

    __slots__ = ()


class Freed(tuple[Any, ...]):  # noqa: SLOT001 (a tuple has no room for slots)
    """Replaces saved values that a backward pass has freed; knows where that pass was called.

    It is empty, so that a rule that unpacks it fails: only then does the engine check for it.
    """

    code: CodeType
    lasti: int


class Output(Node):
    """One result of a call with several: passes its cotangent to its place in the call's node.

    A cotangent therefore always goes to a single node, and only calls with several results use output numbers.
    """

    __slots__ = ("base", "number")
    title = "Output"

    base: Node
    number: int

    def __init__(self, base: Node, number: int) -> None:
        self.seq: int = next_seq()
        self.edges: Node | tuple[Node, ...] = base
        self.second: Node | None = None
        self.saved: tuple[Any, ...] = ()
        self.vjp: Callable[..., Any] | None = None
        self.spec: Any = base.spec[number]
        self.code: CodeType | None = base.code
        self.lasti: int = base.lasti
        self.hooks: Hooks | None = None
        self.base = base
        self.number = number

    def name(self) -> str:
        return self.base.name()

    def address(self) -> tuple[Node, int]:
        return self.base, self.number


def output_of(base: Node, number: int) -> Output:
    """Return the `Output` of a call, the same object while anything refers to it (hooks are attached to it)."""
    known: dict[int, weakref.ref[Output]] = base.__dict__.setdefault("_outputs", {})
    with FIRST_USE:
        reference = known.get(number)
        output = reference() if reference else None
        if output is None:
            output = Output(base, number)
            known[number] = weakref.ref(output)
        return output


class AccumulateGrad(Node):
    """A leaf of the graph. Owns the leaf's mutable state, its gradient and hooks; refers to the tensor only weakly.

    Attributes
    ----------
    grad : Tensor or None
        The accumulated gradient.
    active : bool
        False once the leaf has been frozen: graphs recorded earlier then skip it.
    moved : bool
        Whether the tensor has ever been given data of another shape, dtype or device, so that a gradient may not fit.
    """

    __slots__ = ("active", "grad", "moved", "tensor")
    title = "AccumulateGrad"

    grad: Tensor | None
    active: bool
    moved: bool
    tensor: weakref.ref[Tensor]

    def __init__(self, tensor: Tensor, spec: Spec) -> None:
        self.seq: int = next_seq()
        self.edges: Node | tuple[Node, ...] = ()
        self.second: Node | None = None
        self.saved: tuple[Any, ...] = ()
        self.vjp: Callable[..., Any] | None = None
        self.spec = spec
        self.code: CodeType | None = None
        self.lasti: int = 0
        self.hooks: Hooks | None = None
        self.grad = None
        self.active = True
        self.moved = False
        self.tensor = weakref.ref(tensor)

    @property
    def variable(self) -> Tensor | None:
        """The leaf tensor, None once it has been freed."""
        return self.tensor()


#: The leaves with hooks. While there are any, a pass looks for them, to run each as soon as its gradient is complete.
HOOKED: weakref.WeakSet[AccumulateGrad] = weakref.WeakSet()


def hooks_of(node: Node) -> Hooks:
    """Return the hooks of a node, created at the first registration."""
    if node.hooks is None:
        with FIRST_USE:
            if node.hooks is None:
                if type(node) is AccumulateGrad:
                    HOOKED.add(node)  # first: hooks unknown to the pass would run too late
                node.hooks = Hooks()
    return node.hooks
