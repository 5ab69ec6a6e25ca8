"""Batched arrays: a backend whose arrays carry one hidden axis, so that vmap needs no change elsewhere.

A `Batched` array is an array of another namespace with a batch axis in front. Its backend belongs to a level, one call
of vmap, and to the backend of the inner arrays; levels nest by wrapping batched arrays again, the larger number
outside. Values that do not depend on the batch stay plain arrays: kernels take both. How an op is batched is stated in
its declaration (``batch=``), or follows from its kind: see `ops.batch_rules`.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar

from agrad import tree
from agrad.core import errors, mode
from agrad.core.backend import BACKENDS, SPECS_KEPT, Backend, backend_of, joined
from agrad.core.cotangents import Transferred
from agrad.core.facts import WITHOUT_OP
from agrad.core.function import run
from agrad.core.history import rebuilt
from agrad.core.kernels import PRIMITIVES, key_parts
from agrad.core.mode import batch_levels, transforming, within
from agrad.core.node import Node, next_seq
from agrad.core.once import lock, once, shared
from agrad.core.op import OPS, Op
from agrad.core.operands import from_raw
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor, wrap
from agrad.ops import batch_rules
from agrad.program.closures import refuse_captured

T = TypeVar("T")

# -- levels -----------------------------------------------------------------------------------------------------------


class BatchLevel:
    """One call of vmap.

    Attributes
    ----------
    number : int
        Its position in the nesting of batched arrays; reusable by another level once nothing refers to this one.
    size : int
        The length of the batch.
    randomness : str
        ``"error"``, ``"same"`` or ``"different"``.
    open : bool
        Whether the mapped function is running. Afterwards a cotangent that leaves the batch is summed over it.
    first : Level or None
        The level of the first run, if the mapped function runs again for a checkpoint: it has the same number.
    """

    __slots__ = ("__weakref__", "first", "number", "open", "randomness", "size")

    number: int

    def __init__(self, size: int, randomness: str, first: BatchLevel | None = None) -> None:
        self.size: int = size
        self.randomness: str = randomness
        self.open: bool = True
        self.first: BatchLevel | None = first  # while it lives, no other level gets its number
        if first is not None:
            self.number = first.number
            return
        with _numbering:
            self.number = next(n for n in range(1, len(_levels) + 2) if n not in _levels)
            _levels[self.number] = self


_numbering = lock()
_levels: weakref.WeakValueDictionary[int, BatchLevel] = weakref.WeakValueDictionary()


def in_batch(
    leaves: Sequence[Any],
    axes: Sequence[int | None],
    size: int,
    randomness: str,
    function: Callable[[BatchLevel, list[Any]], T],
) -> T:
    """Call a function at a new level inside the open ones, with leaves whose axes are its batch.

    The function may not call backward().
    """
    recorder = mode.recorder()
    if recorder is not None:  # inside, the tensors themselves are inaccessible
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                recorder.use(leaf)
    given = _given.get()
    level = BatchLevel(size, randomness, None if given is None else next(given, None))
    for levels in _noted.get():
        levels.append(level)
    outside, before = transforming.get(), batch_levels.get()
    try:
        transforming.set(functools.partial(refuse_captured, (function, leaves)))
        batch_levels.set((*before, level))
        return function(
            level, [x if axis is None else enter(x, axis, level) for x, axis in zip(leaves, axes, strict=True)]
        )
    finally:
        level.open = False
        try:
            transforming.set(outside)
        finally:
            batch_levels.set(before)


def level_of(number: int) -> BatchLevel:
    """Return the level with a number: the one open here, or else the one that was open."""
    return next((level for level in reversed(batch_levels.get()) if level.number == number), None) or _levels[number]


#: Lists that record the levels opened in this context, and levels whose numbers are reused instead of new ones.
_noted: ContextVar[tuple[list[BatchLevel], ...]] = ContextVar("agrad_noted_levels", default=())
_given: ContextVar[Iterator[BatchLevel] | None] = ContextVar("agrad_given_levels", default=None)


def repeatable(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return two forms of a function: for its first call, and for later calls that return the same values.

    Called again, the function runs within the levels that are open now, whatever is open then, and within a transform
    if there is one now; levels that it opens have the same numbers as before: its results can replace the values of the
    first call.
    """
    around, inside = batch_levels.get(), transforming.get()
    levels: list[BatchLevel] = []

    def first(*args: Any, **kwargs: Any) -> Any:
        return within(_noted, (*_noted.get(), levels), function, *args, **kwargs)

    def again(*args: Any, **kwargs: Any) -> Any:
        opened_again = tuple(BatchLevel(level.size, level.randomness, level) for level in around)
        given = iter(tuple(levels))
        try:
            return within(
                transforming,
                inside,
                within,
                _noted,
                (),
                within,
                _given,
                given,
                within,
                batch_levels,
                opened_again,
                function,
                *args,
                **kwargs,
            )
        finally:
            for level in opened_again:
                level.open = False

    return first, again


# -- arrays -----------------------------------------------------------------------------------------------------------


class Batched:
    """An array of another namespace with a hidden batch axis in front, which is not part of its shape.

    Each backend has its own subclass, so that the type identifies the backend.

    Attributes
    ----------
    data : array
        The array with the batch axis.
    level : Level
        The level whose batch it is.
    """

    __slots__ = ("__weakref__", "data", "level")
    __array_ufunc__ = None  # arrays of libraries leave operators to this class

    number: ClassVar[int]
    backend: ClassVar[BatchedBackend]
    data: Any
    level: BatchLevel

    def __init__(self, data: Any, level: BatchLevel) -> None:
        self.data = data
        self.level = level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape without the batch axis."""
        return tuple(self.data.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes without the batch axis."""
        return int(self.data.ndim) - 1

    @property
    def size(self) -> int:
        """The number of elements of one member of the batch."""
        return functools.reduce(operator.mul, self.shape, 1)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """The device, in the form of the inner library."""
        return getattr(self.data, "device", None)

    def __getitem__(self, key: Any) -> Any:
        return _joined_of((self, *key_parts(key))).xp.getitem(self, key)

    def __matmul__(self, other: Any) -> Any:
        return _joined_of((self, other)).xp.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _joined_of((self, other)).xp.matmul(other, self)

    def __bool__(self) -> bool:
        raise control_flow()

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise leaves_vmap("__array__()")

    __float__: Final = __bool__
    __int__: Final = __bool__
    __complex__: Final = __bool__
    __index__: Final = __bool__

    def __repr__(self) -> str:
        return f"Batched({self.data!r}, level={self.number})"


def _operator(name: str) -> None:
    function = getattr(operator, f"__{name}__")

    def method(self: Batched, *others: Any) -> Any:
        kind = type(self)
        if not others:
            return kind(function(self.data), self.level)
        (other,) = others
        if isinstance(other, int | float | complex):
            return kind(function(self.data, other), self.level)
        if type(other) is kind and other.data.ndim == self.data.ndim:
            return kind(function(self.data, other.data), self.level)
        return elementwise(function, (self, other))

    setattr(Batched, f"__{name}__", method)
    if name not in _REFLECTED:
        return

    def reflected(self: Batched, other: Any) -> Any:
        if isinstance(other, int | float | complex):
            return type(self)(function(other, self.data), self.level)
        return elementwise(function, (other, self))

    setattr(Batched, f"__r{name}__", reflected)


_REFLECTED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
for _name in (*_REFLECTED, "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"):
    _operator(_name)
Batched.__hash__ = object.__hash__  # type: ignore[method-assign]


def elementwise(function: Callable[..., Any], arrays: tuple[Any, ...], options: dict[str, Any] | None = None) -> Any:
    """Call an elementwise function: ranks are aligned behind the batch axis, broadcasting does the rest.

    Parameters
    ----------
    function : callable
        Takes the inner arrays.
    arrays : tuple
        Arrays, batched or not, and Python scalars.
    options : dict, optional
        Passed on as keywords.
    """
    number, rank = 0, 0
    for a in arrays:
        rank = max(rank, getattr(a, "ndim", 0))
        if isinstance(a, Batched):
            number = max(number, a.number)
    level: Any = None
    inner = []
    for a in arrays:
        if isinstance(a, Batched) and a.number == number:
            level = a.level
            inner.append(aligned(a, rank))
        else:
            inner.append(a)
    result = function(*inner, **options) if options else function(*inner)
    return result if level is None else rewrap(result, level)


def aligned(array: Batched, rank: int) -> Any:
    """Return the inner array with axes of length 1 behind the batch axis, up to a rank."""
    data = array.data
    lacking = rank - data.ndim + 1
    if lacking <= 0:
        return data
    return kernels_of(data).reshape(data, (data.shape[0], *(1,) * lacking, *data.shape[1:]))


def kernels_of(array: Any) -> Any:
    """Return the kernels of an array's backend, which a recording records."""
    backend = backend_of(array)
    assert backend is not None
    return mode.kernels_of(backend)


def rewrap(data: Any, level: BatchLevel) -> Any:
    """Wrap an array with a batch axis in front, or each of several."""
    if isinstance(data, tuple | list):
        parts = [rewrap(part, level) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    kind = _KINDS.get((level.number, type(data)))
    if kind is None:
        owner = backend_of(data)
        assert owner is not None, f"a kernel returned {type(data).__name__}, which is not an array"
        kind = _KINDS[level.number, type(data)] = batched_backend(level.number, owner).kind_of_array
    return kind(data, level)


#: The class of batched arrays by level number and type of the inner array.
_KINDS: dict[tuple[int, type], type[Batched]] = {}


# -- errors -----------------------------------------------------------------------------------------------------------


def control_flow() -> RuntimeError:
    """Create the error for a value that differs over the batch and is used in a branch."""
    return RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that"
        " yet: the examples of a batch take one way through the program. Use agrad.where to choose for each."
        f"{errors.called()}"
    )


def one_number() -> RuntimeError:
    """Create the error for a value that differs over the batch and is requested as one Python number."""
    return RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor,"
        " please try to rewrite what you're doing with other operations."
        f"{errors.called()}"
    )


def leaves_vmap(how: str) -> RuntimeError:
    """Create the error for a batched value that is requested as an array of a library."""
    return RuntimeError(
        f"vmap: {how} of a Tensor that is being mapped over: its value differs over the batch. Use agrad's functions, or"
        f" call {how} outside of the mapped function.{errors.called()}"
    )


# -- backends ---------------------------------------------------------------------------------------------------------


#: Members that a batched backend takes over from the library's: they do not concern shapes.
OF_THE_LIBRARY = (
    *(
        "cannot",
        "creation",
        "default_device",
        "default_dtype",
        "default_name",
        "dtype",
        "dtype_name",
        "kind",
        "namespace",
    ),
    *("native_device", "quiet", "scalar", "scalar_dtype"),
)


class BatchedBackend(Backend):
    """The backend of batched arrays of one level over the arrays of one backend.

    Attributes
    ----------
    number : int
        The level's number.
    inner : Backend
        The backend of the inner arrays: a library's, or a batched backend with a smaller number.
    base : Backend
        The library's backend below all levels.
    numbers : frozenset of int
        The numbers of the levels: this one's and those inside.
    kind_of_array : type
        The class of its arrays.
    """

    is_batched = True
    is_lazy = True  # values are not available: functions that would check elements skip the check

    def __init__(self, number: int, inner: Backend) -> None:
        self.number = number
        self.inner = inner
        self.base: Backend = inner.base if isinstance(inner, BatchedBackend) else inner
        self.numbers: frozenset[int] = _numbers_of(inner) | {number}
        self._of = self.base
        self.name: str = f"vmap{number}({inner.name})"
        for name in OF_THE_LIBRARY:
            setattr(self, name, getattr(self.base, name))
        members = {"__slots__": (), "number": number, "backend": self}
        self.kind_of_array: type[Batched] = type("Batched", (Batched,), members)
        BACKENDS[self.kind_of_array] = self
        self.run_rule: Callable[..., Any] | None
        if not self.base._gives_way:
            self.run_rule = self._run_crossed = self._rule_on_tensors
        elif type(self.base)._run_on is not Backend._run_on:
            self.run_rule = self._run_crossed = self._rule_on_batches

    @once
    def functions(self) -> Any:
        return self.base.functions

    def _rule_on_tensors(self, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...], node: Node) -> Any:
        """Run a rule on tensors: where an array meets a batch, its own operator would refuse it."""
        if node.plan is None or node.plan.rule.define is not None:
            return vjp(self.xp, g, saved, node)  # a rule of a Function, or of a fused op, which calls kernels only
        return _on_tensors(vjp, self.functions, g, rebuilt(node, saved), node)

    def _rule_on_batches(self, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...], node: Node) -> Any:
        """Run a rule in the way the inner backend runs rules with other kernels."""
        return self.base._run_on(vjp, self.xp, g, saved, node)

    def _on(self, device: str) -> AbstractContextManager[Any]:
        return self.base._on(device)

    def spec(self, array: Any) -> Spec:
        if not isinstance(array, Batched):
            owner = backend_of(array)
            assert owner is not None
            return owner.spec(array)
        if array.backend is not self:
            return array.backend.spec(array)
        data = array.data
        key = (data.shape, data.dtype) if self._on_one_device else self.inner.spec(data)
        found: Spec | None = self._interned.get(key)
        if found is None:
            inside = self.inner.spec(data)
            found = Spec(self, inside.shape[1:], inside.dtype, inside.device)
            if not self.base.is_lazy:
                if len(self._interned) >= SPECS_KEPT:
                    self._interned.clear()
                self._interned[key] = found
        return found

    @once
    def _interned(self) -> dict[Any, Spec]:
        return {}

    @once
    def _on_one_device(self) -> bool:
        # Otherwise arrays may carry a context, which specs distinguish
        of_names = type(self.base).creation is Backend.creation
        return of_names and not self.base.is_lazy and len(self.base.devices()) == 1

    def beside(self, array: Any) -> dict[str, Any]:
        while isinstance(array, Batched):
            array = array.data
        return self.base.beside(array)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        if op in PRIMITIVES and op not in OPS:
            return None  # a method of this class
        return _kernel_of(self, op)  # type: ignore[no-any-return]

    def as_array(self, value: Any) -> Any:
        if isinstance(value, Batched):
            return value
        return (backend_of(value) or self.base).as_array(value)

    def asarray(self, value: Any, **how: Any) -> Any:
        return value if isinstance(value, Batched) else self.base.asarray(value, **how)

    def lend(self, array: Any) -> Any:
        return array if isinstance(array, Batched) else self.base.lend(array)

    def may_hold_nan(self, array: Any) -> bool:
        return self.inner.may_hold_nan(array.data)

    def holds_nan(self, array: Any) -> bool:
        return self.inner.holds_nan(array.data)

    def nbytes(self, array: Any) -> int:
        return self.inner.nbytes(array.data)

    def broadcast_like(self, array: Any, spec: Spec) -> Any:
        return self.xp.broadcast_like(array, spec)

    def scatter_add(self, spec: Spec, key: Any, values: Any) -> Any:
        return self.xp.scatter_add(spec, key, values)

    def setitem(self, array: Any, key: Any, value: Any) -> Any:
        return self.xp.setitem(array, key, value)

    def add_into(self, array: Any, other: Any, out: Any) -> Any:
        return self.xp.add(array, other)

    def join(self, others: Sequence[Backend]) -> Backend | None:
        """Return the backend of all their levels over the library that they share."""
        found = joined(b.base if isinstance(b, BatchedBackend) else b for b in (self, *others))
        for number in sorted(self.numbers.union(*map(_numbers_of, others))) if found is not None else ():
            found = batched_backend(number, found)
        return found

    def adopt(self, tensor: Tensor) -> Tensor:
        owner = tensor._spec.backend
        if (owner.base if isinstance(owner, BatchedBackend) else owner) is not self.base:
            tensor = tensor.to_device(self.base.name)
        numbers = owner.numbers if isinstance(owner, BatchedBackend) else frozenset()
        return lift(tensor, tuple(level_of(n) for n in sorted(self.numbers - numbers)))

    def receive(self, source: Backend, array: Any, device: str) -> Any:
        base = source.base if isinstance(source, BatchedBackend) else source
        return array if base is self.base else source.send(array, self.base, device)

    def send(self, array: Any, target: Backend, device: str) -> Any:
        """Return the inner array, the whole batch at once."""
        base = target.base if isinstance(target, BatchedBackend) else target
        if not isinstance(array, Batched):  # the same for all examples
            return self.base.send(array, base, device)
        return rewrap(self.inner.send(array.data, base, device), array.level)

    def to_host(self, array: Any) -> NoReturn:
        raise leaves_vmap("numpy()")

    def item(self, array: Any) -> NoReturn:
        raise one_number()

    def truth(self, array: Any) -> NoReturn:
        raise control_flow()

    def tolist(self, array: Any) -> NoReturn:
        raise leaves_vmap("tolist()")

    def text_of(self, array: Any) -> str:
        """Return the text of all examples."""
        inside = wrap(array.data, self.inner.spec(array.data))
        return f"BatchedTensor(lvl={self.number}, value={inside!r})"

    def run_function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a `Function` by its own ``vmap``, or by its methods on batched tensors if it declares that they accept them."""
        tensors = [a for a in tree.flatten((args, tuple(kwargs.values())))[0] if isinstance(a, Tensor)]
        backend = joined(t._spec.backend for t in tensors)
        if not isinstance(backend, BatchedBackend):
            return run(function, args, kwargs)
        if getattr(function, "vmap", None) is not None:
            return _through_own_vmap(function, backend, args, kwargs)
        if not function.generate_vmap_rule:
            name = function.__name__
            raise RuntimeError(
                f"You tried to vmap over {name}, but it does not have vmap support. Please override and implement the vmap"
                " staticmethod or set generate_vmap_rule=True.\n  With generate_vmap_rule=True its methods run on batched"
                f" tensors, so they must consist of agrad's functions.{errors.called()}"
            )

        def adopted(a: Any) -> Any:
            return backend.adopt(a) if isinstance(a, Tensor) and a._spec.backend is not backend else a

        return run(function, tree.map(adopted, args), tree.map(adopted, kwargs))


def _on_tensors(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with tensors instead of raw arrays, and return raw arrays again."""
    before = mode.get_mode()
    try:
        mode.push(grad=False)
        found = function(*_exchanged(args), **dict(zip(kwargs, _exchanged(tuple(kwargs.values())), strict=True)))
    finally:
        mode.set_mode(before)
    return _raw(found)


def _exchanged(value: Any) -> Any:
    """Return a raw array, or those in tuples and lists, as tensors without history."""
    if type(value) in (tuple, list):
        return type(value)(map(_exchanged, value))
    return value if isinstance(value, Tensor) or backend_of(value) is None else from_raw(value)


def _raw(value: Any) -> Any:
    """Return the array of a tensor, or those of tensors in a tuple or list."""
    if isinstance(value, tuple | list):
        return type(value)(map(_raw, value))
    return value._raw if isinstance(value, Tensor) else value


# -- kernels ----------------------------------------------------------------------------------------------------------


def _kernel_of(backend: BatchedBackend, name: str) -> Any:
    """Return the kernel of batched arrays for an op, or for another function that kernels and rules call."""
    op = OPS.get(name)
    if op is None:
        return _beside(backend, name)
    rule = batch_rules.rule_of(op)
    if rule is batch_rules.pointwise:
        return _pointwise(backend, op)
    if rule is None and op.kernel is not None:
        return _composed(backend, op)
    return _by_rule(backend, name, op, rule or batch_rules.lacking)


def _pointwise(backend: BatchedBackend, op: Op) -> Callable[..., Any]:
    """Call the inner kernel directly if the ranks are already aligned."""
    get, inner, kind = op.kernel_of, backend.inner.xp, backend.kind_of_array
    aligning = _by_rule(backend, op.name, op, batch_rules.pointwise)

    def kernel(*arrays: Any, **options: Any) -> Any:
        if len(arrays) == 2 and not options:
            a, c = arrays
            if type(a) is kind:
                if type(c) is kind:
                    if a.data.ndim == c.data.ndim:
                        return kind(get(inner)(a.data, c.data), a.level)
                elif not isinstance(c, Batched) and getattr(c, "ndim", 0) < a.data.ndim:
                    return kind(get(inner)(a.data, c), a.level)
            elif type(c) is kind and not isinstance(a, Batched) and getattr(a, "ndim", 0) < c.data.ndim:
                return kind(get(inner)(a, c.data), c.level)
        elif len(arrays) == 1 and type(arrays[0]) is kind:
            return kind(get(inner)(arrays[0].data, **options), arrays[0].level)
        return aligning(*arrays, **options)

    return kernel


def _composed(backend: BatchedBackend, op: Op) -> Callable[..., Any]:
    """Run the op's kernel in the standard's functions on batched arrays."""
    get, inner, kernel, number = op.kernel_of, backend.inner.xp, op.kernel, backend.number
    assert kernel is not None

    def composed(*args: Any, **kwargs: Any) -> Any:
        if level_in(number, args) is None and level_in(number, kwargs.values()) is None:
            return get(inner)(*args, **kwargs)
        if not backend.base._gives_way:
            return _on_tensors(functools.partial(kernel, backend.functions), *args, **kwargs)
        return kernel(backend.xp, *args, **kwargs)

    return composed


def _by_rule(backend: BatchedBackend, name: str, op: Op | None, rule: batch_rules.Rule) -> Callable[..., Any]:
    get, inner, number = operator.attrgetter(name), backend.inner.xp, backend.number

    def kernel(*args: Any, **kwargs: Any) -> Any:
        level = level_in(number, args)
        if level is None:
            level = level_in(number, kwargs.values())
            if level is None:
                return get(inner)(*args, **kwargs)
        found = rule(batch_rules.BatchedCall(backend, name, op, level), *args, **kwargs)
        for part in found if isinstance(found, tuple | list) else (found,):
            shape = getattr(part, "shape", None)
            if not shape or (shape[0] != level.size and shape[0] == shape[0]):  # nan: unknown when lazy
                gave = f"shape {tuple(shape)}" if shape is not None else type(part).__name__
                raise errors.RuleError(
                    f"{name}: its batch rule returned {gave}; it must return an array whose first axis is the batch's, of length"
                    f" {level.size}{errors.called()}"
                )
        return rewrap(found, level)

    return kernel


def _beside(backend: BatchedBackend, name: str) -> Any:
    """Return an attribute that is not an op: a dtype or constant of the library, or a function that does not look at values."""
    get, inner = operator.attrgetter(name), backend.inner.xp
    known = WITHOUT_OP.get(name)
    rule = None if known is None else known.batch
    if rule is batch_rules.untouched:
        return lambda *args, **kwargs: get(inner)(*(a.data if isinstance(a, Batched) else a for a in args), **kwargs)
    value = get(inner)
    if isinstance(value, type) or not callable(value):
        return value
    return _by_rule(backend, name, None, rule or batch_rules.lacking)


def level_in(number: int, values: Any) -> BatchLevel | None:
    """Return the level with a number that batches one of the values, also within lists and keys."""
    for value in values:
        if isinstance(value, Batched):
            if value.number == number:
                return value.level
        elif isinstance(value, tuple | list):
            found = level_in(number, value)
            if found is not None:
                return found
    return None


@shared
def batched_backend(number: int, inner: Backend) -> BatchedBackend:
    """Return the backend of a level's number over another backend."""
    return BatchedBackend(number, inner)


def _joined_of(arrays: Sequence[Any]) -> Backend:
    """Return the backend of a call on raw arrays and other values."""
    known = [type(a).backend if isinstance(a, Batched) else BACKENDS.get(type(a)) for a in arrays]
    found = joined(b for b in known if b is not None)
    assert found is not None
    return found


def drawn(backend: Backend, kind: str, shape: tuple[int, ...], key: tuple[int, int], **options: Any) -> Any:
    """Sample from a key; a recording records the draw."""
    recorder = mode.recorder()
    return (backend.random if recorder is None else functools.partial(recorder.draw, backend))(
        kind, shape, key, **options
    )


def sampled(backend: Backend, kind: str, shape: tuple[int, ...], key: tuple[int, int], **options: Any) -> Any:
    """Sample inside the mapped functions of all open levels, as each of them specifies."""
    levels = batch_levels.get()
    if any(level.randomness == "error" for level in levels):
        message = (
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different'"
            " randomness flags on vmap or perform the randomness operation out of vmap"
        )
        raise RuntimeError(f"{message}{errors.called()}")
    levels = tuple(level for level in levels if level.randomness == "different")
    sizes = tuple(level.size for level in levels)
    if kind == "permutation" and levels:
        where, double = options["device"], backend.dtype("float64")
        numbers = drawn(backend, "uniform", (*sizes, *shape), key, dtype=double, device=where)
        xp = mode.kernels_of(backend)
        raw = xp.astype(xp.argsort(numbers, axis=-1), options["dtype"])
    else:
        raw = drawn(backend, kind, (*sizes, *shape), key, **options)
    for level in levels:
        raw = _entered(raw, 0, level)
    return raw


class VmapInfo(NamedTuple):
    """The ``info`` argument of a Function's ``vmap``."""

    batch_size: int
    randomness: str


def _through_own_vmap(cls: Any, backend: BatchedBackend, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``vmap(info, in_dims, *args)`` of a Function, for the innermost level; it returns result and out_dims."""
    level = next(level for level in reversed(batch_levels.get()) if level.number in backend.numbers)

    def has(a: Any) -> bool:
        return isinstance(a, Tensor) and level.number in _numbers_of(a._spec.backend)

    in_dims = tree.map(lambda a: 0 if has(a) else None, args)
    outside = tree.map(lambda a: leave(a, 0, level) if has(a) else a, args)
    result, out_dims = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *outside, **kwargs)

    def back(y: Any, dim: int | None) -> Any:
        if not isinstance(y, Tensor) and (dim is not None or backend_of(y) is not None):
            raise TypeError(
                f"the vmap of {cls.__name__} returned {type(y).__name__}, not a Tensor: its history would be lost.\n  Call"
                f" {cls.__name__}.apply in it, or agrad's functions.{errors.called()}"
            )
        return y if dim is None else enter(y, dim % y.ndim, level, inside=True)

    if not isinstance(result, tuple):
        return back(result, out_dims)
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(result)
    return tuple(back(y, dim) for y, dim in zip(result, dims, strict=True))


# -- crossings: into the batch, out of it, and past it ------------------------------------------------------------------
# Each is linear, and each other's adjoint: `enter` and `leave` trade an axis for the batch, `lift` takes a value that
# does not depend on the batch among those that do, and `unlift` is the way back of its cotangent.


class Crossing(Node):
    """A value entered or left a batch."""

    __slots__ = ()
    title = "VmapBackward0"


class Lifting(Crossing):
    """A value that does not depend on the batch became an operand together with others that do.

    Its cotangent may still have the batch: its type says so, as for a cotangent from another backend.
    """

    __slots__ = ()
    lifts = True


def _cross(
    tensor: Tensor,
    raw: Any,
    back: Callable[[Tensor], Tensor],
    back_raw: Callable[[Any], Any],
    again: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return a tensor of a crossed value, with a node that sends its cotangent back; its tangents cross by `again`."""
    batched: Any = tensor._spec.backend  # unless it enters: then the value is inside too
    spec = (raw.backend if isinstance(raw, Batched) else batched.base).spec(raw)
    recorded = tensor._node is not None and spec.inexact and mode.is_grad_enabled()
    made = wrap(raw, spec, _crossing(Crossing, tensor, spec, back, back_raw) if recorded else None)
    return _with_tangents(made, tensor, again) if tensor._tangents else made


def _with_tangents(made: Tensor, tensor: Tensor, cross: Callable[[Tensor], Tensor]) -> Tensor:
    now = mode.current()
    if tensor._tangents and now is not None:
        made._tangents = {at: cross(t) for at, t in tensor._tangents.items() if at in now.levels} or None
    return made


def _crossing(
    kind: type[Crossing], tensor: Tensor, spec: Spec, back: Callable[[Tensor], Any], back_raw: Callable[[Any], Any]
) -> Crossing:
    """Return the node of a crossed value.

    It has the user's line; if no call of the user's is about the crossing, that of the value.
    """
    before: Any = tensor._node
    node = object.__new__(kind)
    node.seq = next_seq()
    node.edges, node.second = before, None
    node.saved = ()
    node.vjp = lambda _xp, g, _saved, _node: back(g) if isinstance(g, Tensor) else back_raw(g)
    node.spec, node.specs, node.params = spec, (tensor._spec,), ()
    node.code, node.lasti = errors.caller() if kind is Crossing else (before.code, before.lasti)
    node.hooks = None
    return node


def enter(tensor: Tensor, axis: int, level: BatchLevel, *, inside: bool = False) -> Tensor:
    """Turn an axis of a tensor into the batch of a level; `inside` says that its history may lead out of the batch again."""

    def back(g: Tensor) -> Tensor:
        _check_closed(level, inside=inside)
        return leave(g, axis, level)

    def back_raw(g: Any) -> Any:
        _check_closed(level, inside=inside)
        return _left(g, axis, level)

    return _cross(tensor, _entered(tensor._raw, axis, level), back, back_raw, lambda t: enter(t, axis, level))


def _check_closed(level: BatchLevel, *, inside: bool) -> None:
    """Refuse to differentiate, inside the mapped function, with respect to the whole tensor that is mapped over."""
    if level.open and not inside:
        raise RuntimeError(
            "vmap: cannot differentiate inside the mapped function by a Tensor whose axis it is mapped over; differentiate"
            f" by the function's own argument.{errors.called()}"
        )


def leave(tensor: Tensor, axis: int, level: BatchLevel) -> Tensor:
    """Turn the batch of a level into an axis; repeat a value that does not depend on the batch along it."""
    if level.number not in _numbers_of(tensor._spec.backend):
        xp = tensor._spec.backend.functions
        shape = (*tensor.shape[:axis], level.size, *tensor.shape[axis:])
        plain = wrap(tensor._raw, tensor._spec, tensor._node)
        made = xp.broadcast_to(xp.expand_dims(plain, axis=axis), shape)
        return _with_tangents(made, tensor, lambda t: leave(t, axis, level))
    return _cross(
        tensor,
        _left(tensor._raw, axis, level),
        lambda g: enter(g, axis, level, inside=True),
        lambda g: _entered(g, axis, level),
        lambda t: leave(t, axis, level),
    )


def lift(tensor: Tensor, levels: tuple[BatchLevel, ...]) -> Tensor:
    """Return a tensor that does not depend on the batches of levels, as an operand for others that do."""
    if tensor._node is None or not levels:
        return tensor
    node = _crossing(
        Lifting, tensor, tensor._spec, lambda g: (unlift(g, levels),), lambda g: Transferred((_unlifted(g, levels),))
    )
    node.edges = (tensor._node,)
    made = wrap(tensor._raw, tensor._spec, node)
    made._tangents = tensor._tangents
    return made


def unlift(tensor: Tensor, levels: tuple[BatchLevel, ...]) -> Tensor:
    """Sum over the batches of the closed levels: within an open one every member has its own cotangent."""
    levels = tuple(level for level in levels if not level.open)
    numbers = _numbers_of(tensor._spec.backend)
    for level in levels:
        if level.number not in numbers:  # the same for every member
            tensor = tensor * level.size
    levels = tuple(level for level in levels if level.number in numbers)
    if not levels:
        return tensor
    return _cross(tensor, _unlifted(tensor._raw, levels), lambda g: g, lambda g: g, lambda t: unlift(t, levels))


def _numbers_of(backend: Backend) -> frozenset[int]:
    return backend.numbers if isinstance(backend, BatchedBackend) else frozenset()


def _entered(x: Any, axis: int, level: BatchLevel) -> Any:
    if isinstance(x, Batched) and x.number > level.number:
        return rewrap(_entered(x.data, axis + 1, level), x.level)
    return rewrap(kernels_of(x).moveaxis(x, axis, 0) if axis else x, level)


def _left(x: Any, axis: int, level: BatchLevel) -> Any:
    if isinstance(x, Batched) and x.number > level.number:
        return rewrap(_left(x.data, axis + 1, level), x.level)
    if not (isinstance(x, Batched) and x.number == level.number):
        xp = kernels_of(x)
        return xp.broadcast_to(xp.expand_dims(x, axis=axis), (*x.shape[:axis], level.size, *x.shape[axis:]))
    return kernels_of(x.data).moveaxis(x.data, 0, axis) if axis else x.data


def _unlifted(x: Any, levels: tuple[BatchLevel, ...]) -> Any:
    for level in levels:
        if not level.open:
            x = _summed(x, level)
    return x


def _summed(x: Any, level: BatchLevel) -> Any:
    if isinstance(x, Batched) and x.number > level.number:
        return rewrap(_summed(x.data, level), x.level)
    if isinstance(x, Batched) and x.number == level.number:
        return kernels_of(x.data).sum(x.data, axis=0)
    return kernels_of(x).multiply(x, level.size)
