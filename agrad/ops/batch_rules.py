"""The behaviour of ops under `vmap`: rules that many ops share, and the `BatchedCall` that a rule works with.

A rule is ``rule(b, *arguments)``, with a `BatchedCall` and the arguments of the op. Inner arrays have the batch axis
first, and so must the rule's result. An op names its rule in its declaration (``batch=``), or has one of its own next
to it. Elementwise ops and boolean ones act element by element, and an op with a kernel in the standard's functions
runs it on batched arrays: these name none. All others raise an error: no op is ever looped over.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

from agrad.core.errors import UnsupportedOp
from agrad.core.op import Op

Rule = Callable[..., Any]


class BatchedCall:
    """The arguments of a rule, and the tools it works with.

    Attributes
    ----------
    xp : module
        The kernels of the inner arrays.
    kernel : callable
        The op's own kernel for them.
    level : Level
        The level.
    size : int
        The length of the batch.
    """

    __slots__ = ("backend", "kernel", "level", "name", "number", "op", "size", "xp")

    def __init__(self, backend: Any, name: str, op: Op | None, level: Any) -> None:
        self.backend: Any = backend
        self.number: Any = backend.number
        self.xp: Any = backend.inner.xp
        self.kernel: Callable[..., Any] = operator.attrgetter(name)(self.xp)
        self.name: str = name
        self.op: Op | None = op
        self.level: Any = level
        self.size: int = level.size

    def has(self, x: Any) -> bool:
        """Return whether an array has this level's batch."""
        return bool(getattr(x, "number", None) == self.number)

    def data(self, x: Any, rank: int | None = None) -> Any:
        """Return the array inside, its ranks brought up to one; a plain array is repeated along the batch."""
        if self.has(x):
            data = x.data
        else:
            x = self.array(x)
            data = self.xp.broadcast_to(self.xp.expand_dims(x, axis=0), (self.size, *x.shape))
        return data if rank is None else self.raised(data, rank)

    def array(self, x: Any) -> Any:
        """Return a Python scalar as an array."""
        return self.backend.base.asarray(x) if isinstance(x, bool | int | float | complex) else x

    def raised(self, data: Any, rank: int) -> Any:
        """Insert axes of length 1 behind the batch axis, up to a rank that does not count it."""
        lacking = rank - data.ndim + 1
        if lacking <= 0:
            return data
        return self.xp.reshape(data, (data.shape[0], *(1,) * lacking, *data.shape[1:]))

    def flat(self, data: Any) -> Any:
        """Merge all axes except the batch axis."""
        return self.xp.reshape(data, (data.shape[0], math.prod(data.shape[1:])))

    def fail(self, message: str) -> RuntimeError:
        """Make an error in PyTorch's words."""
        return RuntimeError(f"vmap: {message}")


def place(axis: Any, ndim: int) -> int:
    """Return the number of an axis among the inner axes, given the caller's number."""
    number: int = operator.index(axis)
    if not -ndim <= number < ndim:
        raise IndexError(f"axis {number} is out of bounds for array of dimension {ndim}")
    return number % ndim + 1


def places(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return the numbers of several axes; None means all."""
    if axes is None:
        return tuple(range(1, ndim + 1))
    return tuple(place(axis, ndim) for axis in (axes if isinstance(axes, tuple | list) else (axes,)))


def is_array(part: Any) -> bool:
    """Return whether an argument, or a part of a key, is an array."""
    return hasattr(part, "dtype") and hasattr(part, "ndim")


# -- the rules --------------------------------------------------------------------------------------------------------


def pointwise(b: BatchedCall, *arrays: Any, **options: Any) -> Any:
    """Align ranks behind the batch axis, and let broadcasting do the rest: for elementwise functions."""
    rank = max(getattr(a, "ndim", 0) for a in arrays)
    return b.kernel(*(b.raised(a.data, rank) if b.has(a) else a for a in arrays), **options)


def reduced(b: BatchedCall, x: Any, /, *, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
    """Reduce axes, all by default."""
    data = b.data(x)
    if data.ndim == 1:
        if axis not in (None, ()):
            places(axis, 0)
        return b.kernel(b.xp.reshape(data, (b.size, 1)), axis=1, **options)
    found = places(axis, data.ndim - 1)
    return b.kernel(data, axis=found[0] if len(found) == 1 else found, keepdims=keepdims, **options)


def running(b: BatchedCall, x: Any, /, *, axis: int | None = None, **options: Any) -> Any:
    """Accumulate along an axis, which only a vector may leave out."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{b.name}: axis is needed for an array of {x.ndim} axes")
        axis = 0
    return b.kernel(b.data(x), axis=place(axis, x.ndim), **options)


def along(b: BatchedCall, x: Any, /, *args: Any, **options: Any) -> Any:
    """Work along one axis, which the signature names ``axis`` and may have a default."""
    assert b.op is not None
    axis = options.pop("axis", b.op.signature.parameters["axis"].default)
    if axis is inspect.Parameter.empty:
        axis, *rest = args
        return b.kernel(b.data(x), place(axis, x.ndim), *rest, **options)
    return b.kernel(b.data(x), *args, axis=place(axis, x.ndim), **options)


def stacks(b: BatchedCall, *arrays: Any, **options: Any) -> Any:
    """Align ranks behind the batch axis, for functions of the last axes that broadcast the others."""
    return pointwise(b, *arrays, **options)


def matrices(b: BatchedCall, x: Any, /, *args: Any, **options: Any) -> Any:
    """Work on stacks of matrices, as in the standard; further operands that are not batched stay unchanged."""
    if x.ndim < 2:
        raise ValueError(f"{b.name} takes a matrix or a stack of them, not an array of shape {x.shape}")
    args = tuple(b.data(a) if b.has(a) else a for a in args)
    return b.kernel(b.data(x), *args, **{k: b.data(v) if b.has(v) else v for k, v in options.items()})


def dynamic(b: BatchedCall, *_args: Any, **_kwargs: Any) -> Any:
    """Refuse a result whose shape depends on values."""
    raise b.fail(
        f"We do not support batching operators that can output dynamic shape. Attempted to vmap over {b.name}."
    )


def unbatched(reason: str) -> Rule:
    """Create the rule of an op that cannot be batched, with the reason."""

    def refused(b: BatchedCall, *_args: Any, **_kwargs: Any) -> Any:
        raise UnsupportedOp(b.name, "vmap", reason)

    return refused


#: The rule of ops that have none.
lacking: Rule = unbatched("it has no batching rule")


def rule_of(op: Op) -> Rule | None:
    """Return the rule of an op under `vmap`; None if it runs its kernel on batched arrays, or its rule is unknown."""
    if op.batch is not None:
        return op.batch
    if op.rule.kind == "elementwise" or op.rule.boolean:
        return pointwise
    return dynamic if op.facts.dynamic is True else None


# -- what is no op ----------------------------------------------------------------------------------------------------


def like(b: BatchedCall, x: Any, /, *args: Any, **options: Any) -> Any:
    """Create an array of the shape of another one."""
    return b.kernel(b.data(x), *args, **options)


def untouched(b: BatchedCall, *args: Any, **options: Any) -> Any:
    """Create an array, or query dtypes: for functions that get the inner arrays, and return a value without a batch."""
    return b.kernel(*(a.data if b.has(a) else a for a in args), **options)
