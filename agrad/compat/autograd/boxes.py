"""Derivatives by objects of the user's own classes: boxes that stand for them, and the way back from one to the next.

HIPS autograd has a box per class. Here what is an array is a tensor, and only these objects have boxes. A box has a *token*, a
number that stands for it in agrad's graph: a primitive that makes arrays of a box has the token among its operands, and its
vector-Jacobian product hands the object that it gives for the box to the box's node (`Came`). A primitive that makes an object
of boxes and tensors makes another box, whose node has the product.
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

#: What makes the vector space of a value, by the class of the value.
SPACES: dict[type, Callable[[Any], Any]] = {}

#: The derivative by an object that is being taken.
_open: ContextVar[Objects | None] = ContextVar("open", default=None)


class _Kind(type):
    """The class of `Box`, of which every tensor that is being differentiated is an instance."""

    def __instancecheck__(cls, value: Any) -> bool:
        if isinstance(value, Tensor):
            return cls is Box and value._is_followed()
        return super().__instancecheck__(value)


class Box(metaclass=_Kind):
    """Stands for an object that is being differentiated; a class of the user's inherits from it and from the object's class.

    A tensor that is being differentiated is an instance of `Box` itself: its box, in HIPS autograd.

    Parameters
    ----------
    value : object
        What it stands for.
    trace : object
        Whose it is.
    node : object
        How it came about.
    """

    #: The box of each class.
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
        """Let this class be the box of the objects of another one."""
        Box.types.add(cls)
        Box.type_mappings[value_type] = cls
        Box.type_mappings[cls] = cls


def new_box(value: Any, trace: Any, node: Any) -> Box:
    """Return the box of an object; TypeError says if its class has none."""
    kind = Box.type_mappings.get(type(value))
    if kind is None:
        raise TypeError(f"Can't differentiate w.r.t. type {type(value)}{called()}")
    return kind(value, trace, node)


def unboxed(value: Any) -> Any:
    """Return what a box stands for, anything else as it is."""
    while type(value) in Box.types:
        value = value._value
    return value


class Came:
    """How a box came about.

    Attributes
    ----------
    token : Tensor
        What stands for it in the graph.
    parents : sequence of Tensor
        What a primitive made it of; tokens stand for boxes.
    vjp : callable
        From a cotangent of the box to those of the tensors; those of boxes it hands over.
    cotangent : object
        What has come so far, None at first.
    """

    def __init__(self, parents: Sequence[Tensor] = (), vjp: Callable[[Any], Sequence[Any]] = lambda _: ()) -> None:
        self.token = asarray(0.0).requires_grad_(True)
        self.parents = parents
        self.vjp = vjp
        self.cotangent: Any = None

    def take(self, part: Any) -> None:
        """Add an object to the cotangent."""
        self.cotangent = part if self.cotangent is None else SPACES[type(part)](part).add(self.cotangent, part)


class Objects:
    """A run of a function of one object, and the way back through its boxes.

    Attributes
    ----------
    value : object
        What the function returned.
    outward : bool
        It also depends on something outside that is being differentiated.
    came : list of Came
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
        self.came = [Came()]
        before = _open.set(self)
        try:
            self.end = fun(new_box(x, self, self.came[0]))
        finally:
            _open.reset(before)
        self.value = unboxed(self.end)
        self.outward = isinstance(self.value, Box) and ways([self.value._node], floor)[0]

    def result(self, *, raw: bool) -> Any:
        """Return the value; where nothing outside is being differentiated that it depends on, as a plain array."""
        if isinstance(self.value, Tensor) and not self.outward:
            value = self.value.detach()
            return bare(value) if raw else value
        return self.value

    def boxed(self, value: Any, parents: Sequence[Tensor], vjp: Callable[[Any], Sequence[Any]]) -> Box:
        """Return the box of an object that a primitive made."""
        self.came.append(Came(parents, vjp))
        return new_box(value, self, self.came[-1])

    def back(self, g: Any) -> Any:
        """Return the object's cotangent for one of the value."""
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
        """Send a cotangent back from a tensor: primitives on the way hand over what is for boxes."""
        if g is not None and isinstance(to, Box):
            tokens = [one.token for one in self.came]
            grad(to, tokens, asarray(g), retain_graph=True, create_graph=self.outward, allow_unused=True)


def objects_of(boxes: Iterable[Box], value: Any) -> Objects:
    """Return the run in which a primitive made an object of boxes, or of an object and tensors."""
    run: Objects | None = next((box._trace for box in boxes), None) or _open.get()
    return run or refuse_object(value)


def refuse_object(value: Any) -> NoReturn:
    """Refuse an object that a primitive made of what is being differentiated, where nothing leads back from it."""
    raise NotImplementedError(
        f"a primitive made an object of class {type(value).__name__} of what is being differentiated: such a derivative is there"
        f" where one by such an object is taken and the primitive takes one, and nowhere else{called()}"
    )
