"""User operations, declared as in HIPS autograd: `primitive`, with `defvjp` and `defjvp`.

A primitive is an `agrad.Function`. Its own code runs on plain arrays and returns plain arrays. So do its derivatives,
if nothing else is being differentiated; within another transform they receive tensors, and must consist of
differentiable functions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agrad import tree
from agrad.compat.autograd.boxes import Box, objects_of, refuse_object, unboxed
from agrad.compat.autograd.convention import turned
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.function import Function
from agrad.core.mode import enable_grad
from agrad.core.tensor import Tensor
from agrad.core.tree import TreeDef
from agrad.func.implicit import refuse_open
from agrad.ops.creation import asarray, zeros_like
from agrad.ops.manipulation import stack

#: The makers of the vector-Jacobian products, and of the Jacobian-vector products, of each primitive.
primitive_vjps: dict[Callable[..., Any], Callable[..., Any]] = {}
primitive_jvps: dict[Callable[..., Any], Callable[..., Any]] = {}


def bare(value: Any) -> Any:
    """Return the plain array of a tensor, the object of a box, and anything else unchanged."""
    if not isinstance(value, Tensor):
        return unboxed(value)
    raw = value._raw
    if not value._spec.shape and type(found := raw[()]) is not type(raw):
        return found
    return value._spec.backend.lend(raw)


# -- a call -------------------------------------------------------------------------------------------------------------


class PrimitiveCall:
    """The arguments of one call of a primitive, and the structure of its result.

    Attributes
    ----------
    function : callable
        The primitive.
    kwargs : dict
        Arguments by keyword, which are constants.
    structures : list of TreeDef
        The structures of the positional arguments.
    leaves : list
        Their leaves; tensors among them are supplied by each run.
    places : list of int
        The numbers of those leaves.
    boxes : dict
        Those of the leaves that are boxes, by number: each is represented by its token among the tensors.
    argnums : tuple of int
        The arguments that are being differentiated.
    result : TreeDef or None
        The structure of the result; its leaves that are not arrays are in `rest`.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.kwargs = kwargs
        self.leaves: list[Any] = []
        self.structures: list[TreeDef] = []
        self.places: list[int] = []
        self.boxes: dict[int, Box] = {}
        argnums = []
        for number, argument in enumerate(args):
            leaves, structure = tree.flatten(argument)
            for i, leaf in enumerate(leaves):
                if type(leaf) in Box.types:
                    self.boxes[len(self.leaves) + i] = leaf
                    leaves[i] = leaf._node.token
            tensors = [i for i, leaf in enumerate(leaves, start=len(self.leaves)) if isinstance(leaf, Tensor)]
            self.leaves += leaves
            self.structures.append(structure)
            self.places += tensors
            if any(self.leaves[i]._is_followed() for i in tensors):
                argnums.append(number)
        self.argnums: tuple[int, ...] = tuple(argnums)
        self.result: TreeDef | None = None
        self.rest: list[Any] = []

    def tensors(self) -> list[Tensor]:
        """Return the tensors among the arguments."""
        return [self.leaves[place] for place in self.places]

    def forget(self) -> None:
        """Drop the tensors: a node keeps this object, and saves tensors separately."""
        for place in self.places:
            self.leaves[place] = None

    def arguments(self, values: Iterable[Any]) -> list[Any]:
        """Return the positional arguments with these in place of the tensors."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            box = self.boxes.get(place)
            leaves[place] = value if box is None else box._value
        rest = iter(leaves)
        return [tree.unflatten(s, itertools.islice(rest, s.num_leaves)) for s in self.structures]

    def answer(self, values: Iterable[Any]) -> Any:
        """Return a result with these in place of its arrays."""
        assert self.result is not None
        arrays = iter(values)
        return tree.unflatten(self.result, [next(arrays) if isinstance(x, ArrayMark) else x for x in self.rest])

    def by_tensor(self, argnums: Sequence[int], found: Iterable[Any]) -> list[Any]:
        """Return, per tensor among the arguments, the value for it; None if its argument has none."""
        leaves: list[Any] = [None] * len(self.leaves)
        starts = list(itertools.accumulate((s.num_leaves for s in self.structures), initial=0))
        for number, value in zip(argnums, found, strict=True):
            structure = self.structures[number]
            leaves[starts[number] : starts[number + 1]] = (
                [None] * structure.num_leaves if value is None else structure._flatten_up_to(value, "")
            )
        for place, box in self.boxes.items():
            if leaves[place] is not None:
                box._node.take(leaves[place])
                leaves[place] = None
        return [as_tensor(leaves[place]) for place in self.places]

    def pull(self, tensors: Sequence[Any], answer: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the tensors among the arguments."""
        return self.pulled(self.arguments(tensors), self.answer(answer), turned(self.answer(cotangents)))

    def pulled(self, arguments: Sequence[Any], answer: Any, cotangent: Any) -> list[Any]:
        """Return the cotangents of the tensors among the arguments, and pass on those of boxes."""
        if self.function not in primitive_vjps:
            raise NotImplementedError(
                f"VJP of {name_of(self.function)} wrt argnums {self.argnums} not defined{called()}"
            )
        found = primitive_vjps[self.function](self.argnums, answer, arguments, self.kwargs)(cotangent)
        return [None if g is None else turned(g) for g in self.by_tensor(self.argnums, found)]

    def push(self, tensors: Sequence[Any], answer: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Return the tangents of the arrays in the result."""
        if self.function not in primitive_jvps:
            raise NotImplementedError(
                f"JVP of {name_of(self.function)} wrt argnums {self.argnums} not defined{called()}"
            )
        args, moved = self.arguments(tensors), self.arguments(tangents)
        pushed = primitive_jvps[self.function](
            self.argnums, [moved[number] for number in self.argnums], self.answer(answer), args, self.kwargs
        )
        assert self.result is not None
        leaves = self.result._flatten_up_to(pushed, "")
        return [as_tensor(t) for t, x in zip(leaves, self.rest, strict=True) if isinstance(x, ArrayMark)]


class ArrayMark:
    """Placeholder for an array in a result."""


def as_tensor(value: Any) -> Tensor | None:
    """Return a derivative as a tensor."""
    return value if value is None or isinstance(value, Tensor) else asarray(value)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    return str(getattr(function, "__name__", function))


def is_array(value: Any) -> bool:
    """Return whether a part of a result is an array, or a number that has a derivative."""
    return isinstance(value, Tensor | float | complex) or backend_of(value) is not None


def looped(cls: type[Function], info: Any, in_dims: tuple[Any, ...], call: PrimitiveCall, *tensors: Tensor) -> Any:
    """Run a Function over a batch, one after another: its code may know plain arrays only."""
    rows = [
        cls.apply(call, *(t if dim is None else t[i, ...] for t, dim in zip(tensors, in_dims[1:], strict=True)))
        for i in range(info.batch_size)
    ]
    if not isinstance(rows[0], tuple):
        return stack(rows), 0
    columns = list(zip(*rows, strict=True))
    several = [isinstance(column[0], Tensor) for column in columns]
    results = tuple(stack(list(c)) if s else c[0] for c, s in zip(columns, several, strict=True))
    return results, tuple(0 if s else None for s in several)


def value_of(call: PrimitiveCall, tensors: Sequence[Tensor]) -> Any:
    """Return the result of a primitive's function for plain arrays and objects."""
    function: Any = call.function
    with enable_grad:  # to detect dependencies beside its arguments
        found = function.fun(*call.arguments(map(bare, tensors)), **call.kwargs)
        if any(map(is_followed, tree.flatten(found)[0])):
            refuse_open(f"the primitive {name_of(function)}", function.fun, "Make {} an argument of the primitive")
    return found


def boxed_result(call: PrimitiveCall, tensors: Sequence[Tensor]) -> Box | None:
    """Return the box of the object that a primitive creates from others and from tensors; None if it returns arrays."""
    value = value_of(call, tensors)
    if type(value) not in Box.type_mappings:
        return None
    arguments = call.arguments(map(bare, tensors))
    call.forget()
    return objects_of(call.boxes.values(), value).boxed(value, tensors, lambda g: call.pulled(arguments, value, g))


class PrimitiveFunction(Function):
    """A call of a primitive; each primitive has a subclass, which gives the nodes their name."""

    @staticmethod
    def forward(ctx: Any, call: PrimitiveCall, *tensors: Tensor) -> Any:
        leaves, call.result = tree.flatten(value_of(call, tensors))
        for leaf in leaves:
            if type(leaf) in Box.type_mappings:
                refuse_object(leaf)
        call.rest = [ArrayMark() if is_array(x) else x for x in leaves]
        results = [asarray(x) for x in leaves if is_array(x)]
        ctx.call, ctx.count = call, len(tensors)
        ctx.save_for_backward(*tensors, *results)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> Any:
        saved = ctx.saved_tensors
        tensors, answer = saved[: ctx.count], saved[ctx.count :]
        if any(t._is_followed() or t._tangents for t in (*saved, *gs)):
            return (None, *ctx.call.pull(tensors, answer, gs))
        return (None, *PrimitiveVjp.apply(ctx.call, ctx.count, *saved, *gs))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        saved = ctx.saved_tensors
        tensors, answer, moved = saved[: ctx.count], saved[ctx.count :], tangents[1:]
        if any(t._is_followed() for t in (*saved, *moved) if t is not None):
            return tuple(ctx.call.push(tensors, answer, moved))
        return tuple(ctx.call.push(*([bare(t) for t in part] for part in (tensors, answer, moved))))


class PrimitiveVjp(Function):
    """The vector-Jacobian product of a call, on plain arrays."""

    @staticmethod
    def forward(ctx: Any, call: PrimitiveCall, count: int, *tensors: Tensor) -> Any:
        arrays = [bare(t) for t in tensors]
        results = (len(arrays) - count) // 2
        return tuple(call.pull(arrays[:count], arrays[count : count + results], arrays[count + results :]))


# -- declaring ----------------------------------------------------------------------------------------------------------


def primitive(f_raw: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a function of arrays as an operation, whose derivatives are defined by `defvjp` and `defjvp`.

    `f_raw` receives plain arrays. Only positional arguments are differentiated: when called, it raises TypeError if a
    tensor that is being differentiated is passed by keyword, and ImplicitError if `f_raw` depends on one that is not an
    argument.

    >>> import numpy as np
    >>> from agrad.compat.autograd import defvjp, grad, primitive
    >>> softsign = primitive(lambda x: x / (1 + np.abs(x)))
    >>> defvjp(softsign, lambda ans, x: lambda g: g / (1 + np.abs(x)) ** 2)
    >>> grad(softsign)(2.0)
    np.float64(0.1111111111111111)
    """
    name = name_of(f_raw)
    members = {"vmap": staticmethod(lambda *args: looped(kind, *args))}
    kind: type[PrimitiveFunction] = type(name if name.isidentifier() else "Primitive", (PrimitiveFunction,), members)

    @functools.wraps(f_raw)
    def f_wrapped(*args: Any, **kwargs: Any) -> Any:
        call = PrimitiveCall(f_wrapped, args, kwargs)
        tensors = call.tensors()
        by_name = [key for key, x in kwargs.items() if any(map(is_followed, tree.flatten(x)[0]))]
        if by_name:
            raise TypeError(
                f"{name}() got {', '.join(by_name)} by keyword, which is being differentiated: a primitive is"
                f" differentiated with respect to positional arguments only.{called()}"
            )
        if not tensors:
            return f_raw(*args, **kwargs)
        if (call.boxes or any(type(x) in Box.type_mappings for x in args)) and (box := boxed_result(call, tensors)):
            return box
        call.forget()
        return call.answer(kind.apply(call, *tensors))

    f_wrapped.fun = f_raw  # type: ignore[attr-defined]
    return f_wrapped


PrimitiveVjp.vmap = staticmethod(lambda *args: looped(PrimitiveVjp, *args))  # type: ignore[attr-defined]


def is_followed(value: Any) -> bool:
    """Return whether a derivative is being taken through a value."""
    return isinstance(value, Box)


def notrace_primitive(f_raw: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a function without derivative: it receives the values of tensors, as plain arrays."""

    @functools.wraps(f_raw)
    def f_wrapped(*args: Any, **kwargs: Any) -> Any:
        return f_raw(*tree.map(bare, args), **kwargs)

    return f_wrapped


def _check(fun: Callable[..., Any]) -> None:
    if not hasattr(fun, "fun"):
        raise TypeError(
            f"{name_of(fun)} is not a primitive: its derivative cannot be declared.\n  Write"
            f" {name_of(fun)} = primitive({name_of(fun)}) first, and use that.{called()}"
        )


def defvjp_argnums(fun: Callable[..., Any], vjpmaker: Callable[..., Any]) -> None:
    """Define a primitive's vector-Jacobian product for several arguments together.

    ``vjpmaker(argnums, ans, args, kwargs)`` returns a function from the cotangent of the result to an iterable of
    cotangents.
    """
    _check(fun)
    primitive_vjps[fun] = vjpmaker


def defvjp_argnum(fun: Callable[..., Any], vjpmaker: Callable[..., Any]) -> None:
    """Define a primitive's vector-Jacobian product for any one argument.

    ``vjpmaker(argnum, ans, args, kwargs)`` returns a function from the cotangent of the result to that of the argument.
    """

    def of_all(argnums: Sequence[int], *call: Any) -> Any:
        vjps = [vjpmaker(argnum, *call) for argnum in argnums]
        return lambda g: [vjp(g) for vjp in vjps]

    defvjp_argnums(fun, of_all)


def defvjp(fun: Callable[..., Any], *vjpmakers: Any, argnums: Iterable[int] | None = None) -> None:
    """Define a primitive's vector-Jacobian products, one per argument.

    Each ``vjpmaker(ans, *args, **kwargs)`` returns a function from the cotangent of the result to that of the argument.
    None: the derivative with respect to this argument is 0.

    >>> from agrad.compat.autograd import defvjp, grad, primitive
    >>> scaled = primitive(lambda x, factor: factor * x)
    >>> defvjp(scaled, lambda ans, x, factor: lambda g: factor * g, None)
    >>> grad(scaled)(1.0, 3.0), grad(scaled, 1)(1.0, 3.0)
    (np.float64(3.0), np.float64(0.0))
    """
    makers = _by_argnum(vjpmakers, argnums, fun, "VJP")

    def of_one(argnum: int, ans: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if argnum not in makers:
            raise NotImplementedError(f"VJP of {name_of(fun)} wrt argnum {argnum} not defined{called()}")
        maker = makers[argnum]
        return maker(ans, *args, **kwargs) if maker is not None else lambda _: None

    defvjp_argnum(fun, of_one)


def defjvp_argnums(fun: Callable[..., Any], jvpmaker: Callable[..., Any]) -> None:
    """Define a primitive's Jacobian-vector product for several arguments together.

    ``jvpmaker(argnums, gs, ans, args, kwargs)`` returns the tangent of the result, given those of the arguments.
    """
    _check(fun)
    primitive_jvps[fun] = jvpmaker


def defjvp_argnum(fun: Callable[..., Any], jvpmaker: Callable[..., Any]) -> None:
    """Define a primitive's Jacobian-vector product for any one argument.

    ``jvpmaker(argnum, g, ans, args, kwargs)`` returns the tangent of the result, given that of the argument.
    """

    def of_all(argnums: Sequence[int], gs: Sequence[Any], *call: Any) -> Any:
        terms = [jvpmaker(argnum, g, *call) for argnum, g in zip(argnums, gs, strict=True)]
        return functools.reduce(lambda a, b: tree.map(lambda x, y: x + y, a, b), terms)

    defjvp_argnums(fun, of_all)


def defjvp(fun: Callable[..., Any], *jvpfuns: Any, argnums: Iterable[int] | None = None) -> None:
    """Define a primitive's Jacobian-vector products, one per argument.

    Each ``jvpfun(g, ans, *args, **kwargs)`` returns the tangent of the result, given that of the argument. None: it is
    0. ``"same"``: the function is linear in this argument.

    >>> from agrad.compat.autograd import defjvp, deriv, primitive
    >>> scaled = primitive(lambda x, factor: factor * x)
    >>> defjvp(scaled, "same", "same")
    >>> deriv(scaled)(1.0, 3.0)
    np.float64(3.0)
    """
    makers = _by_argnum(jvpfuns, argnums, fun, "JVP", same="same")

    def of_one(argnum: int, g: Any, ans: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if argnum not in makers:
            raise NotImplementedError(f"JVP of {name_of(fun)} wrt argnum {argnum} not defined{called()}")
        maker = makers[argnum]
        if maker is None:
            return tree.map(zeros_like, ans)
        if maker == "same":
            return fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)
        return maker(g, ans, *args, **kwargs)

    defjvp_argnum(fun, of_one)


def def_linear(fun: Callable[..., Any]) -> None:
    """Declare a primitive linear in every argument, for forward mode."""
    defjvp_argnum(fun, lambda argnum, g, _, args, kwargs: fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs))


def _by_argnum(
    makers: Sequence[Any], argnums: Iterable[int] | None, fun: Callable[..., Any], what: str, *, same: str | None = None
) -> dict[int, Any]:
    for maker in makers:
        if maker is not None and not callable(maker) and (same is None or maker != same):
            raise TypeError(f"Bad {what} {maker!r} for {name_of(fun)!r}{called()}")
    return dict(zip(itertools.count() if argnums is None else argnums, makers, strict=False))
