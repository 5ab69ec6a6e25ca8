"""How each kernel is batched.

What acts element by element only aligns ranks. An op that has a kernel in the standard's functions can be left to that
kernel, run on batched arrays. The rest states here what it does with the arrays inside, whose batch axis comes first.
An op of none of these raises: nothing is ever looped over.

A rule is ``rule(b, *arguments)``, with the arguments of the op and a `Call` to work with; it gives arrays with the batch
axis in front.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from agrad.core.errors import UnsupportedOp
from agrad.core.op import OPS, Op
from agrad.core.spec import Spec
from agrad.func.batching import Batched, BatchedBackend, Level, elementwise, rewrap
from agrad.plugin.backend import key_parts

Rule = Callable[..., Any]

#: Ops that act element by element without being of that kind.
ELEMENTWISE = frozenset(
    [
        "abs",
        "astype",
        "bitwise_and",
        "bitwise_invert",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "clip",
        "conj",
        "imag",
        "isfinite",
        "isinf",
        "isnan",
        "maximum",
        "minimum",
        "real",
        "sign",
        "signbit",
        "where",
        "nn.dropout",
        "special.gammasgn",
    ]
)

#: Ops that have no batching rule, and why.
UNBATCHED = {"to_device": "it moves whole arrays between libraries; call it outside of the mapped function"}

#: Functions of kernels that are no ops and do not look at values: they get the arrays inside.
UNTOUCHED = frozenset(
    [
        "arange",
        "asarray",
        "can_cast",
        "empty",
        "eye",
        "finfo",
        "full",
        "iinfo",
        "isdtype",
        "linspace",
        "ones",
        "result_type",
        "zeros",
    ]
)

#: Ops whose result's shape depends on values.
DYNAMIC = frozenset(["nonzero", "unique_all"])


class Call:
    """What a rule works with.

    Attributes
    ----------
    xp : module
        The kernels of the arrays inside.
    kernel : callable
        The op's own kernel there.
    level : Level
        The level.
    size : int
        The length of the batch.
    """

    __slots__ = ("backend", "level", "name", "number", "op")

    def __init__(self, backend: BatchedBackend, name: str, op: Op | None, level: Level) -> None:
        self.backend = backend
        self.name = name
        self.op = op
        self.level = level
        self.number = backend.number

    @property
    def xp(self) -> Any:
        return self.backend.inner.xp

    @property
    def kernel(self) -> Callable[..., Any]:
        found: Any = self.backend.inner.xp
        for part in self.name.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        return self.level.size

    def has(self, x: Any) -> bool:
        """Return whether an array has this level's batch."""
        return isinstance(x, Batched) and x.number == self.number

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
        """Put axes of length 1 behind the batch axis, up to a rank without it."""
        lacking = rank - data.ndim + 1
        if lacking <= 0:
            return data
        return self.xp.reshape(data, (data.shape[0], *(1,) * lacking, *data.shape[1:]))

    def flat(self, data: Any) -> Any:
        """Make all axes but the batch axis one."""
        return self.xp.reshape(data, (data.shape[0], math.prod(data.shape[1:])))

    def fail(self, message: str) -> RuntimeError:
        """Make an error in PyTorch's words."""
        return RuntimeError(f"vmap: {message}")


def place(axis: Any, ndim: int) -> int:
    """Return the number, among the axes inside, of an axis as the caller counts."""
    number: int = operator.index(axis)
    if not -ndim <= number < ndim:
        message = f"axis {number} is out of bounds for array of dimension {ndim}"
        raise IndexError(message)
    return number % ndim + 1


def places(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return the numbers of several axes; None is all."""
    if axes is None:
        return tuple(range(1, ndim + 1))
    return tuple(place(axis, ndim) for axis in (axes if isinstance(axes, tuple | list) else (axes,)))


# -- the resolver -----------------------------------------------------------------------------------------------------


def kernel_of(backend: BatchedBackend, name: str) -> Callable[..., Any]:
    """Return the kernel of batched arrays for an op, or for a function that rules call."""
    op = OPS.get(name)
    rule = RULES.get(name)
    if rule is None and name in UNTOUCHED:
        return _untouched(backend, name)
    if name == "add_into":  # a sum of its own: one of the two may lack the batch
        return lambda array, other, out: backend.xp.add(array, other)
    if name == "nbytes":
        return backend.nbytes
    if rule is None and op is not None and (op.rule.kind == "elementwise" or op.rule.boolean or name in ELEMENTWISE):
        return _by_elements(backend, name)
    if rule is None and op is not None and op.kernel is not None:
        return _composed(backend, op)
    if rule is None and op is None:
        value = _inside(backend, name)()
        if isinstance(value, type) or not callable(value):  # a dtype or a constant
            return value  # type: ignore[no-any-return]
    if rule is None:
        rule = _dynamic if name in DYNAMIC else _lacking
    return _by_rule(backend, name, op, rule)


def _inside(backend: BatchedBackend, name: str) -> Callable[[], Any]:
    get, inner = operator.attrgetter(name), backend.inner.xp
    return lambda: get(inner)


def _by_elements(backend: BatchedBackend, name: str) -> Callable[..., Any]:
    inside, kind = _inside(backend, name), backend.kind_of_array

    def kernel(*arrays: Any, **options: Any) -> Any:
        if len(arrays) == 2 and not options:
            a, c = arrays
            if type(a) is kind:
                if type(c) is kind:
                    if a.data.ndim == c.data.ndim:
                        return kind(inside()(a.data, c.data), a.level)
                elif not isinstance(c, Batched) and getattr(c, "ndim", 0) < a.data.ndim:
                    return kind(inside()(a.data, c), a.level)
            elif type(c) is kind and not isinstance(a, Batched) and getattr(a, "ndim", 0) < c.data.ndim:
                return kind(inside()(a, c.data), c.level)
        elif len(arrays) == 1 and type(arrays[0]) is kind:
            return kind(inside()(arrays[0].data, **options), arrays[0].level)
        return elementwise(inside(), arrays, options)

    return kernel


def _untouched(backend: BatchedBackend, name: str) -> Callable[..., Any]:
    inside = _inside(backend, name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return inside()(*(a.data if isinstance(a, Batched) else a for a in args), **kwargs)

    return kernel


def _composed(backend: BatchedBackend, op: Op) -> Callable[..., Any]:
    """The op's kernel in the standard's functions, on batched arrays."""
    inside, kernel, number = _inside(backend, op.name), op.kernel, backend.number
    assert kernel is not None

    def composed(*args: Any, **kwargs: Any) -> Any:
        if level_in(number, args) is None and level_in(number, kwargs.values()) is None:
            return inside()(*args, **kwargs)
        return kernel(backend.xp, *args, **kwargs)

    return composed


def _by_rule(backend: BatchedBackend, name: str, op: Op | None, rule: Rule) -> Callable[..., Any]:
    inside, number = _inside(backend, name), backend.number

    def kernel(*args: Any, **kwargs: Any) -> Any:
        level = level_in(number, args)
        if level is None:
            level = level_in(number, kwargs.values())
            if level is None:
                return inside()(*args, **kwargs)
        return rewrap(rule(Call(backend, name, op, level), *args, **kwargs), level)

    return kernel


def level_in(number: int, values: Any) -> Level | None:
    """Return the level of a number that one of the values is batched by, also within lists and keys."""
    for value in values:
        if isinstance(value, Batched):
            if value.number == number:
                return value.level
        elif isinstance(value, tuple | list):
            found = level_in(number, value)
            if found is not None:
                return found
    return None


def _dynamic(b: Call, *_args: Any, **_kwargs: Any) -> Any:
    raise b.fail(
        f"We do not support batching operators that can output dynamic shape. Attempted to vmap over {b.name}."
    )


def _lacking(b: Call, *_args: Any, **_kwargs: Any) -> Any:
    raise UnsupportedOp(b.name, "vmap", UNBATCHED.get(b.name, "it has no batching rule"))


# -- one operand and axes ---------------------------------------------------------------------------------------------


def _reduced(b: Call, x: Any, /, *, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
    data = b.data(x)
    if not x.ndim:
        if axis not in (None, ()):
            places(axis, 0)
        return b.kernel(b.xp.reshape(data, (b.size, 1)), axis=1, **options)
    found = places(axis, x.ndim)
    return b.kernel(data, axis=found[0] if len(found) == 1 else found, keepdims=keepdims, **options)


def _argument(b: Call, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    data = b.data(x)
    if axis is not None:
        return b.kernel(data, axis=place(axis, x.ndim), keepdims=keepdims)
    found = b.kernel(b.flat(data), axis=1)
    return b.xp.reshape(found, (b.size, *(1,) * x.ndim)) if keepdims else found


def _running(b: Call, x: Any, /, *, axis: int | None = None, **options: Any) -> Any:
    if axis is None:
        if x.ndim != 1:
            message = f"{b.name}: axis is needed for an array of {x.ndim} axes"
            raise ValueError(message)
        axis = 0
    return b.kernel(b.data(x), axis=place(axis, x.ndim), **options)


def _along(b: Call, x: Any, /, *args: Any, **options: Any) -> Any:
    """One axis, which the signature names ``axis`` and may give a default."""
    assert b.op is not None
    axis = options.pop("axis", b.op.signature.parameters["axis"].default)
    if axis is inspect.Parameter.empty:
        axis, *rest = args
        return b.kernel(b.data(x), place(axis, x.ndim), *rest, **options)
    return b.kernel(b.data(x), *args, axis=place(axis, x.ndim), **options)


def _along_two(b: Call, x: Any, mask: Any, /, *, axis: int = -1) -> Any:
    """Two arrays of one shape and an axis."""
    return b.kernel(b.data(x), b.data(mask), axis=place(axis, x.ndim))


def _flip(b: Call, x: Any, /, *, axis: Any = None) -> Any:
    return b.kernel(b.data(x), axis=places(axis, x.ndim))


def _roll(b: Call, x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    data = b.data(x)
    if axis is None:
        return b.xp.reshape(b.kernel(b.flat(data), shift, axis=1), data.shape)
    found = places(axis, x.ndim)
    return b.kernel(data, shift, axis=found if isinstance(axis, tuple | list) else found[0])


def _repeat(b: Call, x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    if b.has(repeats):
        return _dynamic(b)
    data = b.data(x)
    if axis is None:
        return b.kernel(b.flat(data), repeats, axis=1)
    return b.kernel(data, repeats, axis=place(axis, x.ndim))


def _fftn(b: Call, x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    if axes is None and s is not None:
        axes = tuple(range(-len(s), 0))
    found = places(axes, x.ndim)
    if s is None and not found:
        return b.data(x)
    if s is None:
        s = [b.data(x).shape[i] for i in found]
        if b.name == "fft.irfftn":
            s[-1] = 2 * (s[-1] - 1)
    return b.kernel(b.data(x), s=s, axes=found, norm=norm)


def _shifted(b: Call, x: Any, /, *, axes: Any = None) -> Any:
    return b.kernel(b.data(x), axes=places(axes, x.ndim))


# -- shapes -----------------------------------------------------------------------------------------------------------


def _reshape(b: Call, x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
    known = math.prod(n for n in shape if n != -1)
    size = math.prod(x.shape)
    if -1 in shape:
        if shape.count(-1) > 1 or not known or size % known:
            message = f"cannot reshape array of size {size} into shape {shape}"
            raise ValueError(message)
        shape = tuple(size // known if n == -1 else n for n in shape)
    elif known != size:
        message = f"cannot reshape array of size {size} into shape {shape}"
        raise ValueError(message)
    return b.kernel(b.data(x), (b.size, *shape)) if copy is None else b.kernel(b.data(x), (b.size, *shape), copy=copy)


def _broadcast_to(b: Call, x: Any, /, shape: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if x.ndim > len(shape):
        message = f"shape {x.shape} cannot be broadcast to {shape}"
        raise ValueError(message)
    return b.xp.broadcast_to(b.data(x, len(shape)), (b.size, *shape))


def _broadcast_like(b: Call, x: Any, spec: Any, /) -> Any:
    return _broadcast_to(b, x, spec.shape)


def _permute_dims(b: Call, x: Any, /, axes: Sequence[int]) -> Any:
    if len(axes) != x.ndim:
        message = f"axes {tuple(axes)} do not match an array of {x.ndim} axes"
        raise ValueError(message)
    return b.kernel(b.data(x), (0, *places(tuple(axes), x.ndim)))


def _moveaxis(b: Call, x: Any, source: Any, destination: Any, /) -> Any:
    return b.kernel(b.data(x), places(source, x.ndim), places(destination, x.ndim))


def _expand_dims(b: Call, x: Any, /, axis: Any) -> Any:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    found = places(tuple(axes), x.ndim + len(axes))
    return b.kernel(b.data(x), axis=found if isinstance(axis, tuple | list) else found[0])


def _squeeze(b: Call, x: Any, /, axis: Any) -> Any:
    return b.kernel(b.data(x), axis=places(axis, x.ndim))


def _tile(b: Call, x: Any, repetitions: Sequence[int], /) -> Any:
    repetitions = (repetitions,) if isinstance(repetitions, int) else tuple(repetitions)
    rank = max(len(repetitions), x.ndim)
    return b.kernel(b.data(x, rank), (*(1,) * (rank - len(repetitions) + 1), *repetitions))


def _concat(b: Call, arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    if axis is None:
        return b.kernel([b.flat(b.data(x)) for x in arrays], axis=1)
    return b.kernel([b.data(x) for x in arrays], axis=place(axis, _rank_of(arrays)))


def _stack(b: Call, arrays: Sequence[Any], /, *, axis: int = 0) -> Any:
    return b.kernel([b.data(x) for x in arrays], axis=place(axis, _rank_of(arrays) + 1))


def _rank_of(arrays: Sequence[Any]) -> int:
    ranks = {x.ndim for x in arrays}
    if len(ranks) != 1:
        message = f"all arrays must have the same number of axes, got {sorted(ranks)}"
        raise ValueError(message)
    return int(ranks.pop())


def _unstack(b: Call, x: Any, /, *, axis: int = 0) -> Any:
    return b.kernel(b.data(x), axis=place(axis, x.ndim))


def _like(b: Call, x: Any, /, *args: Any, **options: Any) -> Any:
    return b.kernel(b.data(x), *args, **options)


def _pad(b: Call, x: Any, widths: Any, value: float = 0.0, /) -> Any:
    return b.kernel(b.data(x), ((0, 0), *widths), value)


# -- matrices ---------------------------------------------------------------------------------------------------------


def _matrices(b: Call, x: Any, /, *args: Any, **options: Any) -> Any:
    """What works on stacks of matrices by the standard; plain further operands stay as they are."""
    if x.ndim < 2:
        message = f"{b.name} takes a matrix or a stack of them, not an array of shape {x.shape}"
        raise ValueError(message)
    args = tuple(b.data(a) if b.has(a) else a for a in args)
    return b.kernel(b.data(x), *args, **{k: b.data(v) if b.has(v) else v for k, v in options.items()})


def _matmul(b: Call, x1: Any, x2: Any, /) -> Any:
    if not x1.ndim or not x2.ndim:
        message = f"matmul takes arrays of at least one axis, not of shapes {x1.shape} and {x2.shape}"
        raise ValueError(message)
    if x1.shape[-1] != x2.shape[0 if x2.ndim == 1 else -2]:
        message = f"matmul: shapes {x1.shape} and {x2.shape} do not match"
        raise ValueError(message)
    xp, first, second = b.xp, b.has(x1), b.has(x2)
    if first and not second and x2.ndim <= 2:
        return _rows_times(b, x1.data, x2)
    if second and not first and x2.ndim == 1 and x1.ndim <= 2:  # A v for each v: the rows V times A^T
        return xp.matmul(x2.data, x1 if x1.ndim == 1 else xp.permute_dims(x1, (1, 0)))
    a = _as_matrix(b, x1, row=True)
    c = _as_matrix(b, x2, row=False)
    rank = max(x1.ndim, x2.ndim, 2)
    a = b.raised(a, rank) if first else a
    c = b.raised(c, rank) if second else c
    # one product per element is no contraction: an outer product is faster elementwise
    product = xp.multiply(a, c) if a.shape[-1] == 1 and not _promotes(a, c) else xp.matmul(a, c)
    if x1.ndim == 1:
        product = xp.squeeze(product, axis=-2)
    return xp.squeeze(product, axis=-1) if x2.ndim == 1 else product


def _promotes(a: Any, c: Any) -> bool:
    return bool(a.dtype != c.dtype)


def _rows_times(b: Call, rows: Any, matrix: Any) -> Any:
    """All rows of a batch times one matrix: a single product."""
    if rows.ndim <= 2 or matrix.ndim == 1:
        return b.xp.matmul(rows, matrix)
    lead = rows.shape[:-1]
    product = b.xp.matmul(b.xp.reshape(rows, (math.prod(lead), rows.shape[-1])), matrix)
    return b.xp.reshape(product, (*lead, matrix.shape[-1]))


def _as_matrix(b: Call, x: Any, *, row: bool) -> Any:
    """Return the array inside of a matrix or stack; a vector becomes a row or a column."""
    data = x.data if b.has(x) else x
    if x.ndim > 1:
        return data
    return b.xp.expand_dims(data, axis=-2 if row else -1)


def _tensordot(b: Call, x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        first, second = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        first, second = (tuple(i - 1 for i in places(part, x.ndim)) for part, x in zip(axes, (x1, x2), strict=True))
    free1 = [i for i in range(x1.ndim) if i not in first]
    free2 = [i for i in range(x2.ndim) if i not in second]
    xp = b.xp
    if b.has(x1) and not b.has(x2):
        return xp.tensordot(x1.data, x2, axes=(tuple(i + 1 for i in first), second))
    if not b.has(x1):
        return xp.moveaxis(xp.tensordot(x1, x2.data, axes=(first, tuple(i + 1 for i in second))), len(free1), 0)
    if [x1.shape[i] for i in first] != [x2.shape[i] for i in second]:
        message = f"tensordot: shapes {x1.shape} and {x2.shape} do not match along {first} and {second}"
        raise ValueError(message)
    shape = (*(x1.shape[i] for i in free1), *(x2.shape[i] for i in free2))
    many = math.prod(x1.shape[i] for i in first)
    a = xp.permute_dims(x1.data, (0, *(i + 1 for i in (*free1, *first))))
    c = xp.permute_dims(x2.data, (0, *(i + 1 for i in (*second, *free2))))
    a = xp.reshape(a, (b.size, math.prod(x1.shape[i] for i in free1), many))
    c = xp.reshape(c, (b.size, many, math.prod(x2.shape[i] for i in free2)))
    return xp.reshape(xp.matmul(a, c), (b.size, *shape))


def _vecdot(b: Call, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    # each operand's own axis last; then the ranks of what is left are aligned
    first, second = (_last(b, x, axis) for x in (x1, x2))
    rank = max(x1.ndim, x2.ndim)
    return b.kernel(b.raised(first, rank) if b.has(x1) else first, b.raised(second, rank) if b.has(x2) else second)


def _last(b: Call, x: Any, axis: int) -> Any:
    at = place(axis, x.ndim)
    if b.has(x):
        return x.data if at == x.ndim else b.xp.moveaxis(x.data, at, -1)
    return x if at == x.ndim else b.xp.moveaxis(x, at - 1, -1)


def _cross(b: Call, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    rank = max(x1.ndim, x2.ndim)
    axis = place(axis, rank) - rank - 1
    a, c = b.data(x1, rank), b.data(x2, rank)
    return b.kernel(*_broadcast(b, a, c), axis=axis)


def _broadcast(b: Call, a: Any, c: Any) -> tuple[Any, Any]:
    """Broadcast two arrays with each other (some libraries' functions do not)."""
    shape = tuple(m if n == 1 else n for n, m in zip(a.shape, c.shape, strict=True))
    return b.xp.broadcast_to(a, shape), b.xp.broadcast_to(c, shape)


def _outer(b: Call, x1: Any, x2: Any, /) -> Any:
    if x1.ndim != 1 or x2.ndim != 1:
        message = f"outer takes two vectors, not arrays of shapes {x1.shape} and {x2.shape}"
        raise ValueError(message)
    xp = b.xp
    a = xp.expand_dims(x1.data if b.has(x1) else x1, axis=-1)
    return xp.multiply(a, xp.expand_dims(x2.data if b.has(x2) else x2, axis=-2))


def _solve(b: Call, x1: Any, x2: Any, /) -> Any:
    if x1.ndim < 2:
        message = f"linalg.solve takes a matrix or a stack of them, not an array of shape {x1.shape}"
        raise ValueError(message)
    vector = x2.ndim == 1
    if vector and not b.has(x2):
        x2 = b.xp.expand_dims(x2, axis=-1)
    right = b.xp.expand_dims(x2.data, axis=-1) if vector and b.has(x2) else x2.data if b.has(x2) else x2
    rank = max(x1.ndim, x2.ndim, 2)
    left = b.raised(x1.data, rank) if b.has(x1) else x1
    if b.has(x2):
        right = b.raised(right, rank)
    found = b.kernel(left, right)
    return b.xp.squeeze(found, axis=-1) if vector else found


def _contraction(b: Call, x1: Any, x2: Any, /, first: str, second: str, result: str) -> Any:
    used = set(first + second + result)
    batch = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in used)
    return b.kernel(
        x1.data if b.has(x1) else x1,
        x2.data if b.has(x2) else x2,
        batch + first if b.has(x1) else first,
        batch + second if b.has(x2) else second,
        batch + result,
    )


# -- indexing ---------------------------------------------------------------------------------------------------------


def _is_array(part: Any) -> bool:
    return hasattr(part, "dtype") and hasattr(part, "ndim")


def _is_bool(b: Call, part: Any) -> bool:
    return _is_array(part) and b.backend.kind(part.dtype) == "bool"


def _arrays_in(key: Any) -> list[Any]:
    return [part for part in key_parts(key) if _is_array(part)]


def _getitem(b: Call, x: Any, key: Any, /) -> Any:
    arrays = _arrays_in(key)
    if any(b.has(part) and _is_bool(b, part) for part in arrays):
        raise b.fail(
            "We do not support batching operators that can support dynamic shape. Attempting to batch over indexing"
            " with a boolean mask."
        )
    if not arrays:
        return b.xp.getitem(x.data, (slice(None), *key_parts(key)))
    # by the numbers of the places it takes: whatever the key is, one row of each member
    size = math.prod(x.shape)
    taken = _places_taken(b, x.shape, key, x)
    if not b.has(x):
        found = b.xp.take(b.xp.reshape(x, (size,)), b.xp.reshape(taken, (-1,)), axis=0)
        return b.xp.reshape(found, taken.shape)
    rows = b.flat(x.data)
    if not any(b.has(part) for part in arrays):
        return b.xp.reshape(b.xp.take(rows, b.xp.reshape(taken, (-1,)), axis=1), (b.size, *taken.shape))
    found = b.xp.take(b.xp.reshape(rows, (b.size * size,)), b.xp.reshape(_offset(b, taken, size), (-1,)), axis=0)
    return b.xp.reshape(found, taken.shape)


def _places_taken(b: Call, shape: tuple[int, ...], key: Any, like: Any) -> Any:
    """Return the numbers, in row-major order, of the places that a key takes of an array of a shape.

    With the batch axis in front if the key has arrays with it. An array in a key picks along its axis; what a key with
    arrays picks is picked by each in turn, from numbers of places that need no batch.
    """
    xp = b.xp
    device = getattr(like, "device", None)
    numbers = xp.reshape(xp.arange(math.prod(shape), device=device), shape)
    parts = key_parts(key)
    batched = [i for i, part in enumerate(parts) if b.has(part)]
    if not batched:
        return xp.getitem(numbers, key)
    rank = max(part.ndim for part in parts if _is_array(part) and not _is_bool(b, part))
    inner = tuple(b.raised(part.data, rank) if b.has(part) else part for part in parts)
    found = xp.getitem(numbers, inner if isinstance(key, tuple) else inner[0])
    return xp.moveaxis(found, _first_picked(b, parts, len(shape)), 0)


def _first_picked(b: Call, parts: tuple[Any, ...], ndim: int) -> int:
    """Return where the axes that arrays pick stand in what a key takes: in place if neighbours, else in front."""
    picks = [i for i, part in enumerate(parts) if _is_array(part) or isinstance(part, int)]
    if picks[-1] - picks[0] + 1 != len(picks):
        return 0
    axis = 0
    for part in parts[: picks[0]]:
        if part is Ellipsis:
            named = sum(
                part.ndim if _is_bool(b, part) else 1 for part in parts if part is not None and part is not Ellipsis
            )
            axis += ndim - named
        else:
            axis += 1
    return axis


def _offset(b: Call, taken: Any, size: int) -> Any:
    """Add to places with a batch axis what leads to their member's row."""
    xp = b.xp
    rows = xp.reshape(xp.arange(b.size, device=getattr(taken, "device", None)), (b.size, *(1,) * (taken.ndim - 1)))
    return taken + rows * size


def _setitem(b: Call, x: Any, key: Any, value: Any, /) -> Any:
    arrays = _arrays_in(key)
    data = b.data(x)
    value = b.array(value) if not b.has(value) else value
    if _is_bool(b, key) and (b.has(key) or not value.ndim):
        if value.ndim:
            raise b.fail(
                "We do not support batching operators that can support dynamic shape. Attempting to batch over"
                " assigning an array at a boolean mask."
            )
        mask = b.data(key)
        mask = b.xp.reshape(mask, (*mask.shape, *(1,) * (x.ndim - key.ndim)))
        filling = b.xp.astype(b.data(value, x.ndim), data.dtype)
        return b.xp.where(mask, filling, data)
    if not arrays:
        inner = (slice(None), *key_parts(key))
        if b.has(value):
            region = b.xp.getitem(data, inner).ndim - 1
            value = _trimmed(b, value.data, region)
            value = b.raised(value, region)
        return b.xp.setitem(data, inner, value)
    size = math.prod(x.shape)
    taken = _places_taken(b, x.shape, key, data)
    has_batch = any(b.has(part) for part in arrays)
    shape = tuple(taken.shape[1:] if has_batch else taken.shape)
    taken = taken if has_batch else b.xp.broadcast_to(b.xp.expand_dims(taken, axis=0), (b.size, *shape))
    values = _trimmed(b, b.data(value), len(shape))
    values = b.xp.broadcast_to(b.raised(values, len(shape)), (b.size, *shape))
    flat = b.xp.reshape(data, (b.size * size,))
    where = b.xp.reshape(_offset(b, taken, size), (-1,))
    return b.xp.reshape(b.xp.setitem(flat, where, b.xp.reshape(values, (-1,))), data.shape)


def _trimmed(b: Call, data: Any, rank: int) -> Any:
    """Drop leading axes of length 1 that a value has beyond a rank."""
    return b.xp.reshape(data, (data.shape[0], *data.shape[data.ndim - rank :])) if data.ndim - 1 > rank else data


def _scatter_add(b: Call, spec: Any, key: Any, values: Any, /) -> Any:
    arrays = _arrays_in(key)
    inner = b.backend.inner
    if not arrays:
        whole = Spec(inner, (b.size, *spec.shape), spec.dtype, spec.device)
        return b.xp.scatter_add(whole, (slice(None), *key_parts(key)), b.data(values))
    size = math.prod(spec.shape)
    has_batch = any(b.has(part) for part in arrays)
    taken = _places_taken(b, spec.shape, key, values)
    values = b.data(values)
    if not has_batch:
        taken = b.xp.broadcast_to(b.xp.expand_dims(taken, axis=0), (b.size, *taken.shape))
    whole = Spec(inner, (b.size * size,), spec.dtype, spec.device)
    where = b.xp.reshape(_offset(b, taken, size), (-1,))
    values = b.xp.reshape(b.xp.broadcast_to(values, taken.shape), (-1,))
    return b.xp.reshape(b.xp.scatter_add(whole, where, values), (b.size, *spec.shape))


def _take(b: Call, x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    if axis is None and x.ndim != 1:  # some libraries flatten then
        x = b.backend.xp.reshape(x, (-1,))
    at = place(axis or 0, x.ndim)
    if not b.has(indices):
        return b.xp.take(x.data, indices, axis=at)
    picks = indices.data
    if not b.has(x):
        found = b.xp.take(x, b.xp.reshape(picks, (-1,)), axis=at - 1)
        found = b.xp.reshape(found, (*x.shape[: at - 1], *picks.shape, *x.shape[at:]))
        return b.xp.moveaxis(found, at - 1, 0)
    shape = (b.size, *x.shape[: at - 1], picks.shape[1], *x.shape[at:])
    picks = b.xp.reshape(picks, (b.size, *(1,) * (at - 1), picks.shape[1], *(1,) * (x.ndim - at)))
    return b.xp.take_along_axis(x.data, b.xp.broadcast_to(picks, shape), axis=at)


def _take_along_axis(b: Call, x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    return b.xp.take_along_axis(b.data(x), b.data(indices), axis=place(axis, x.ndim))


def _searchsorted(b: Call, x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    xp = b.xp
    if not b.has(x1) and not b.has(sorter):
        return b.kernel(x1, x2.data, side=side, sorter=sorter)
    ordered = b.data(x1)
    if sorter is not None:
        ordered = xp.take_along_axis(ordered, b.data(sorter), axis=1)
    # how many of the sorted come before each
    ordered = xp.reshape(ordered, (b.size, *(1,) * x2.ndim, ordered.shape[1]))
    sought = xp.expand_dims(b.data(x2), axis=-1)
    before = ordered < sought if side == "left" else ordered <= sought
    return xp.count_nonzero(before, axis=-1)


def _isin(b: Call, x1: Any, x2: Any, /, **options: Any) -> Any:
    xp = b.xp
    if not b.has(x2):
        return b.kernel(x1.data, x2, **options)
    x1 = b.array(x1)
    found = b.flat(b.data(x2))
    found = xp.reshape(found, (b.size, *(1,) * x1.ndim, found.shape[1]))
    met = xp.any(xp.expand_dims(b.data(x1), axis=-1) == found, axis=-1)
    return xp.logical_not(met) if options.get("invert") else met


# -- images -----------------------------------------------------------------------------------------------------------


def _folded(b: Call, data: Any) -> Any:
    """Make the batch axis and the first one."""
    return b.xp.reshape(data, (b.size * data.shape[1], *data.shape[2:]))


def _unfolded(b: Call, data: Any) -> Any:
    return b.xp.reshape(data, (b.size, data.shape[0] // b.size, *data.shape[1:]))


def _as_of_one(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Run a rule that divides by the length of the batch; for an empty batch, on one member, which is left out again."""

    @functools.wraps(rule)
    def run(b: Call, *args: Any) -> Any:
        if b.size:
            return rule(b, *args)
        one = Call(b.backend, b.name, b.op, Level(1, b.level.randomness, b.level))
        zeros = [type(a)(b.xp.zeros((1, *a.shape), dtype=a.dtype), one.level) if b.has(a) else a for a in args]
        return rule(one, *zeros)[:0, ...]

    return run


@_as_of_one
def _over_images(b: Call, *args: Any) -> Any:
    """What treats every image alike: the batch joins the images."""
    inner = [_folded(b, b.data(a)) if _is_array(a) else a for a in args]
    return _unfolded(b, b.kernel(*inner))


def _channels(b: Call, images: Any) -> Any:
    """Put the batch into the channels: (B, N, C, H, W) becomes (N, B * C, H, W)."""
    data = b.xp.moveaxis(b.data(images), 0, 1)
    return b.xp.reshape(data, (data.shape[0], data.shape[1] * data.shape[2], *data.shape[3:]))


def _unchannelled(b: Call, data: Any) -> Any:
    n, c, *rest = data.shape
    return b.xp.moveaxis(b.xp.reshape(data, (n, b.size, c // b.size, *rest)), 1, 0)


@_as_of_one
def _conv2d(
    b: Call,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = (1, 1),
    padding: Any = ((0, 0), (0, 0)),
    dilation: Any = (1, 1),
    groups: int = 1,
) -> Any:
    if not b.has(weight) and not b.has(bias):
        return _unfolded(b, b.kernel(_folded(b, input.data), weight, bias, stride, padding, dilation, groups))
    bias = None if bias is None else b.xp.reshape(b.data(bias), (-1,))
    weight = _folded(b, b.data(weight))
    found = b.kernel(_channels(b, input), weight, bias, stride, padding, dilation, groups * b.size)
    return _unchannelled(b, found)


@_as_of_one
def _conv2d_input(
    b: Call, grad: Any, weight: Any, size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    if not b.has(weight):
        return _unfolded(b, b.kernel(_folded(b, grad.data), weight, size, stride, padding, dilation, groups))
    weight = _folded(b, weight.data)
    return _unchannelled(b, b.kernel(_channels(b, grad), weight, size, stride, padding, dilation, groups * b.size))


@_as_of_one
def _conv2d_weight(
    b: Call, input: Any, grad: Any, window: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    images, cotangents = _channels(b, input), _channels(b, grad)
    return _unfolded(b, b.kernel(images, cotangents, window, stride, padding, dilation, groups * b.size))


# -- the table --------------------------------------------------------------------------------------------------------

RULES: dict[str, Rule] = {
    "broadcast_like": _broadcast_like,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "expand_dims": _expand_dims,
    "extra.contraction": _contraction,
    "flip": _flip,
    "getitem": _getitem,
    "isin": _isin,
    "linalg.cross": _cross,
    "linalg.outer": _outer,
    "linalg.solve": _solve,
    "matmul": _matmul,
    "moveaxis": _moveaxis,
    "nn.conv2d": _conv2d,
    "nn.conv2d_input": _conv2d_input,
    "nn.conv2d_weight": _conv2d_weight,
    "nn.pad": _pad,
    "permute_dims": _permute_dims,
    "repeat": _repeat,
    "reshape": _reshape,
    "roll": _roll,
    "scatter_add": _scatter_add,
    "searchsorted": _searchsorted,
    "setitem": _setitem,
    "squeeze": _squeeze,
    "stack": _stack,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "tensordot": _tensordot,
    "tile": _tile,
    "unstack": _unstack,
    "vecdot": _vecdot,
    **dict.fromkeys(
        [
            *("all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var"),
            *("extra.nanmax", "extra.nanmin", "linalg.vector_norm"),
        ],
        _reduced,
    ),
    **dict.fromkeys(["argmax", "argmin"], _argument),
    **dict.fromkeys(
        [
            *("cumulative_prod", "cumulative_sum"),
            *("extra.cumulative_max", "extra.cumulative_min", "extra.logcumsumexp"),
        ],
        _running,
    ),
    **dict.fromkeys(
        [
            *("argsort", "diff", "sort", "nn.log_softmax", "nn.softmax"),
            *("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.hfft", "fft.ihfft"),
        ],
        _along,
    ),
    **dict.fromkeys(["extra.gathered", "extra.held"], _along_two),
    **dict.fromkeys(["fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn"], _fftn),
    **dict.fromkeys(["fft.fftshift", "fft.ifftshift"], _shifted),
    **dict.fromkeys(["empty_like", "full_like", "ones_like", "zeros_like"], _like),
    **dict.fromkeys(
        [
            *("matrix_transpose", "tril", "triu", "linalg.cholesky", "linalg.det", "linalg.diagonal", "linalg.eig"),
            *("linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.matrix_power", "linalg.trace"),
            *("linalg.matrix_rank", "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.svd", "linalg.svdvals"),
        ],
        _matrices,
    ),
    **dict.fromkeys(
        [
            *("nn.avg_pool2d", "nn.avg_pool2d_adjoint"),
            *("nn.max_pool2d", "nn.max_pool2d_adjoint", "nn.max_pool2d_tangent"),
        ],
        _over_images,
    ),
}
