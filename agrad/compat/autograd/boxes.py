"""Derivatives with respect to objects of user classes: boxes that represent them, and the backward pass from one to the next.

HIPS autograd has a box per class. Here arrays are tensors, and only such objects have boxes. A box has a *token*, a
number that represents it in agrad's graph: a primitive that returns arrays for a box has the token among its operands,
and its vector-Jacobian product passes the object that it returns for the box to the box's node (`BoxOrigin`). A primitive
that returns an object for boxes and tensors creates another box, whose node holds the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, NoReturn

from agrad.autograd import grad
from agrad.core.errors import called
from agrad.core.node import next_seq
from agrad.core.tensor import Tensor
from agrad.func.grad import ways
from agrad.ops.creation import asarray
from agrad.program.arguments import bare

#: The constructor of the vector space of a value, by the class of the value.
SPACES: dict[type, Callable[[Any], Any]] = {}

#: The derivative that is being taken with respect to an object.
_open: ContextVar[Objects | None] = ContextVar("open", default=None)


class _Kind(type):
    """The metaclass of `Box`: every tensor that is being differentiated is an instance of the class."""

    def __instancecheck__(cls, value: Any) -> bool:
        if isinstance(value, Tensor):
            return cls is Box and value._is_followed()
        return super().__instancecheck__(value)


class Box(metaclass=_Kind):
    """Represents an object that is being differentiated; user classes inherit from it and from the object's class.

    A tensor that is being differentiated is an instance of `Box` itself: its box, in HIPS autograd.

    Parameters
    ----------
    value : object
        The object.
    trace : object
        Whose it is.
    node : object
        How it came about.
    """

    #: The box class of each class.
    type_mappings: ClassVar[dict[type, type[Box]]] = {}
    types: ClassVar[set[type]] = set()

    def __init__(self, value: Any, trace: Any, node: Any) -> None:
        self._value = value
        self._trace = trace
        self._node = node

    def __bool__(self) -> bool:
        return bool(self._value)

    def __str__(self) -> str:
        return f"Autograd {type(self).__name__} with value {self._value}"

    @classmethod
    def register(cls, value_type: type) -> None:
        """Make this class the box of the objects of another one."""
        Box.types.add(cls)
        Box.type_mappings[value_type] = cls
        Box.type_mappings[cls] = cls


def new_box(value: Any, trace: Any, node: Any) -> Box:
    """Return the box of an object; raise TypeError if its class has none."""
    kind = Box.type_mappings.get(type(value))
    if kind is None:
        raise TypeError(f"Can't differentiate w.r.t. type {type(value)}{called()}")
    return kind(value, trace, node)


def unboxed(value: Any) -> Any:
    """Return the object of a box, and anything else unchanged."""
    while type(value) in Box.types:
        value = value._value
    return value


class BoxOrigin:
    """How a box came about.

    Attributes
    ----------
    token : Tensor
        Its representation in the graph.
    parents : sequence of Tensor
        The operands of the primitive that created it; tokens represent boxes.
    vjp : callable
        From a cotangent of the box to those of the tensors; those of boxes are passed on.
    cotangent : object
        The sum of the cotangents so far, None at first.
    """

    def __init__(self, parents: Sequence[Tensor] = (), vjp: Callable[[Any], Sequence[Any]] = lambda _: ()) -> None:
        self.token: Tensor = asarray(0.0).requires_grad_(True)
        self.parents = parents
        self.vjp = vjp
        self.cotangent: Any = None

    def take(self, part: Any) -> None:
        """Add an object to the cotangent."""
        self.cotangent = part if self.cotangent is None else SPACES[type(part)](part).add(self.cotangent, part)


class Objects:
    """A run of a function of one object, and the backward pass through its boxes.

    Attributes
    ----------
    value : object
        The function's result.
    outward : bool
        Whether it also depends on an outer value that is being differentiated.
    came : list of BoxOrigin
        How each box came about, the object's first.
    """

    def __init__(self, fun: Callable[..., Any], x: Any) -> None:
        if _open.get() is not None:
            raise NotImplementedError(
                f"a derivative by an object of class {type(x).__name__} within another one: these have no second derivatives"
                f" by objects{called()}"
            )
        self.x = x
        floor = next_seq()
        self.came: list[BoxOrigin] = [BoxOrigin()]
        before = _open.set(self)
        try:
            self.end: Any = fun(new_box(x, self, self.came[0]))
        finally:
            _open.reset(before)
        self.value: Any = unboxed(self.end)
        self.outward: bool = isinstance(self.value, Box) and ways([self.value._node], floor)[0]

    def result(self, *, raw: bool) -> Any:
        """Return the value; as a plain array, unless it depends on an outer value that is being differentiated."""
        if isinstance(self.value, Tensor) and not self.outward:
            value = self.value.detach()
            return bare(value) if raw else value
        return self.value

    def boxed(self, value: Any, parents: Sequence[Tensor], vjp: Callable[[Any], Sequence[Any]]) -> Box:
        """Return the box of an object that a primitive created."""
        self.came.append(BoxOrigin(parents, vjp))
        return new_box(value, self, self.came[-1])

    def back(self, g: Any) -> Any:
        """Return the object's cotangent, given one for the value."""
        for one in self.came:
            one.cotangent = None
        if type(self.end) in Box.types:
            self.end._node.take(g)
        else:
            self._send(self.end, g)
        for one in reversed(self.came):
            if one.cotangent is not None:
                for parent, part in zip(one.parents, one.vjp(one.cotangent), strict=True):
                    self._send(parent, part)
        found = self.came[0].cotangent
        return SPACES[type(self.x)](self.x).zeros() if found is None else found

    def _send(self, to: Any, g: Any) -> None:
        """Send a cotangent back from a tensor: primitives on the way pass on those for boxes."""
        if g is not None and isinstance(to, Box):
            tokens = [one.token for one in self.came]
            grad(to, tokens, asarray(g), retain_graph=True, create_graph=self.outward, allow_unused=True)


def objects_of(boxes: Iterable[Box], value: Any) -> Objects:
    """Return the run in which a primitive created an object from boxes, or from an object and tensors."""
    run: Objects | None = next((box._trace for box in boxes), None) or _open.get()
    return run or refuse_object(value)


def refuse_object(value: Any) -> NoReturn:
    """Refuse an object that a primitive created from a value that is being differentiated, if there is no backward path from it."""
    raise NotImplementedError(
        f"a primitive created an object of class {type(value).__name__} from a value that is being differentiated: this is possible"
        f" only while differentiating with respect to such an object, if the primitive takes one{called()}"
    )
