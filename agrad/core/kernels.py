"""The kernels of a backend by the standard's names: where each comes from, and those composed of others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from agrad.core import errors
from agrad.core.backend import Backend, backend_of, kernels_of, plugins
from agrad.core.cotangents import lent
from agrad.core.errors import RuleError, UnsupportedOp
from agrad.core.op import OPS, Op, facts_of
from agrad.core.requirements import REQUIREMENTS

#: Sub-namespaces that only agrad has.
OWN = ("extra", "nn", "scipy", "special")

#: Sub-namespaces of the standard and of agrad; names inside them are reached as attributes.
SUBNAMESPACES = ("fft", "linalg", *OWN)

#: The kinds of dtypes, each of which can be cast to those after it.
KINDS = ("bool", "int", "float", "complex")

#: Functions that return real numbers unchanged: a library with real numbers only does not need them.
OF_COMPLEX = ("conj", "real")

#: Further names that a backend provides, also reached as kernels.
PRIMITIVES = ("broadcast_like", "scatter_add", "setitem", "add_into", "nbytes")


def kernels(backend: Backend, prefix: str = "") -> ModuleType:
    """Make the kernels of a backend by the standard's names: rules get them as ``xp`` when nothing is recorded.

    A name is resolved at its first use (a plugin's replacement, an operation that the backend lacks, its own kernel, its
    namespace, the op's default in the standard's functions) and is an ordinary attribute afterwards. The object is a module because
    the interpreter reads module attributes fastest, including missing ones that ``__getattr__`` resolves.
    """
    found = ModuleType(f"agrad.kernels.{backend.name}", f"Kernels of the {backend.name} backend.")

    def resolve(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        below = any(op.startswith(f"{prefix}{name}.") for op in tuple(OPS))  # other threads may declare ops meanwhile
        chapter = below or (name in SUBNAMESPACES and not prefix)  # xp.fft.fft is a function
        value = kernels(backend, f"{prefix}{name}.") if chapter else _resolve(backend, prefix + name)
        setattr(found, name, value)
        return value

    found.__getattr__ = resolve  # type: ignore[method-assign]
    return found


kernels_of.define(kernels)


def forget_kernels(backend: Backend) -> None:
    """Resolve the kernels of a backend again, for example after registering a plugin that may replace some."""
    found = backend.__dict__.get("xp")
    modules = [] if found is None else [found]
    for module in modules:  # grows: kernels of a sub-namespace are in their own module
        for name, value in list(vars(module).items()):
            if isinstance(value, ModuleType):
                modules.append(value)
            elif not name.startswith("__"):
                delattr(module, name)


def _resolve(backend: Backend, name: str) -> Any:
    """Return a kernel, with the operand checks that libraries leave out."""
    kernel, op = _found(backend, name), OPS.get(name)
    if op is None or name in backend.lacks:
        return kernel
    if backend.missing and not (op.facts.missing or op.rule.kind in ("elementwise", "none")):
        return _of_whole(kernel, name, backend)
    if op.least_axes:
        return _of_axes(kernel, name, op.least_axes)
    if op.shapes is not None:
        return _of_shapes(kernel, op.shapes)
    return _of_kinds(kernel, backend) if name == "setitem" else kernel


def _of_shapes(kernel: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    """Return a kernel of two operands that refuses shapes the op does not take."""

    @functools.wraps(kernel)
    def of_shapes(x1: Any, x2: Any, /, *args: Any, **parameters: Any) -> Any:
        check(x1.shape, x2.shape, *args, **parameters)
        return kernel(x1, x2, *args, **parameters)

    return of_shapes


def _of_axes(kernel: Callable[..., Any], name: str, least: int) -> Callable[..., Any]:
    """Return a kernel that refuses operands with too few axes."""

    @functools.wraps(kernel)
    def of_axes(x: Any, /, *args: Any, **parameters: Any) -> Any:
        if len(x.shape) < least:
            raise ValueError(f"{name}: input tensor must have at least {least} dimension{'s' * (least > 1)}")
        return kernel(x, *args, **parameters)

    return of_axes


def _of_whole(kernel: Callable[..., Any], name: str, backend: Backend) -> Callable[..., Any]:
    """Return a kernel that refuses arrays with missing elements, which its op's rule would count."""

    def of_whole(*args: Any, **parameters: Any) -> Any:
        arrays = (part for value in args for part in (value if isinstance(value, list | tuple) else (value,)))
        if any(backend_of(array) is backend and backend.misses(array) for array in arrays):
            reason = "elements are missing, and its derivative counts all (ag.where(mask, 0, x) fills them)"
            raise UnsupportedOp(name, backend.name, reason)
        return kernel(*args, **parameters)

    return of_whole


def _of_kinds(kernel: Callable[..., Any], backend: Backend) -> Callable[..., Any]:
    """Return an assignment kernel that refuses to drop a fraction or an imaginary part."""

    @functools.wraps(kernel)
    def of_kinds(x: Any, key: Any, value: Any) -> Any:
        if value.dtype != x.dtype and KINDS.index(backend.kind(value.dtype)) > KINDS.index(backend.kind(x.dtype)):
            raise errors.not_castable(value.dtype, x.dtype)
        return kernel(x, key, value)

    return of_kinds


def _found(backend: Backend, name: str) -> Any:
    replacement = plugins().ask("agrad_kernel", op=name, backend=backend)
    if replacement is not None:
        return replacement
    if name in backend.lacks:
        return _lacking(name, backend.name, backend.lacks[name])
    kernel = backend.kernel(name)
    if kernel is not None:
        return functools.partial(_transform, kernel, name) if _is_transform(name) else kernel
    if name in PRIMITIVES:
        return getattr(backend, name)
    op = OPS.get(name)
    if op is not None and op.kernel is not None and op.rule.guarded:
        return _users_kernel(op, backend)  # before the library's function of that name, which may differ
    found: Any = None
    if name.partition(".")[0] not in OWN:  # the library's objects with these names are something else
        found = backend.namespace()
        for part in name.split("."):
            found = getattr(found, part, None)
    if found is None and op is not None and op.kernel is not None:
        return functools.partial(op.kernel, backend.xp)
    if found is None and name in OF_COMPLEX and backend.cannot("complex"):
        return functools.partial(backend.asarray, copy=True)
    if found is None:
        chapter = name.partition(".")[0]
        reason = backend.cannot(chapter) if chapter in REQUIREMENTS else ""
        return _lacking(name, backend.name, reason or beyond(backend, name) or WITHOUT)
    return functools.partial(_transform, found, name) if _is_transform(name) else found


#: The reason why a backend lacks what neither it nor agrad provides.
WITHOUT = "its namespace has no function of that name"


def beyond(backend: Backend, name: str) -> str:
    """Return the message that a function is newer than the standard version of a namespace; empty if it is not."""
    since, version = facts_of(name).since, getattr(backend.namespace(), "__array_api_version__", None)
    if not since or version is None or since <= version:
        return ""
    return f"its namespace follows the standard of {version}, the function is of {since}"


def _is_transform(name: str) -> bool:
    """Return whether a kernel is a transform over several axes whose lengths are given by `s`."""
    return name.startswith("fft.") and name in OPS and "s" in OPS[name].signature.parameters


def _transform(function: Callable[..., Any], name: str, x: Any, /, *, s: Any = None, **parameters: Any) -> Any:
    """Run a transform over several axes: -1 in `s` means the length without padding; libraries interpret it differently."""
    if s is not None and -1 in s:
        axes = parameters["axes"] = parameters.get("axes") or range(len(x.shape) - len(s), len(x.shape))
        whole = [x.shape[axis] for axis in axes]
        if name == "fft.irfftn":
            whole[-1] = 2 * (whole[-1] - 1)
        s = tuple(n if size == -1 else size for size, n in zip(s, whole, strict=True))
    return function(x, s=s, **parameters)


def _users_kernel(op: Op, backend: Backend) -> Callable[..., Any]:
    """Return the kernel of a user-declared op; it raises if results differ from those declared."""
    rule, kernel, xp = op.rule, op.kernel, backend.xp
    assert kernel is not None
    multi_output = rule.outputs is not None or bool(rule.residuals)
    count = rule.outputs or (1 + len(rule.residuals) if rule.residuals else 0)  # 0: any number

    def checked(*arguments: Any, **parameters: Any) -> Any:
        result = kernel(xp, *map(lent, arguments), **{name: lent(value) for name, value in parameters.items()})
        if multi_output != isinstance(result, tuple | list) or (multi_output and count not in (0, len(result))):
            returned = f"{len(result)} results" if isinstance(result, tuple | list) else "one result"
            announced = f"{count or 'a tuple of'} results" if multi_output else "one result"
            raise RuleError(
                f"{op.name}: its kernel gave {returned}, its declaration announces {announced}; outputs= says how many"
                " there are, residuals= names what a fused kernel gives beside its result"
            )
        return result

    return checked


def _lacking(op: str, backend: str, reason: str) -> Callable[..., Any]:
    def lacking(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 (whatever the op takes)
        raise UnsupportedOp(op, backend, reason)

    return lacking


def key_parts(key: Any) -> tuple[Any, ...]:
    """Return the parts of an indexing key, always as a tuple."""
    return key if isinstance(key, tuple) else (key,)


def at(xp: Any, array: Any, key: Any) -> Any:
    """Return ``array[key]``, including one integer array among slices, which the standard lacks."""
    parts = key_parts(key)
    check_bounds(array.shape, parts)
    if sum(part is ... for part in parts) == 1:  # expands to as many slices as needed
        at_rest = next(i for i, part in enumerate(parts) if part is ...)
        rest = (slice(None),) * (array.ndim - sum(part is not None for part in parts) + 1)
        parts = (*parts[:at_rest], *rest, *parts[at_rest + 1 :])
    arrays = [i for i, part in enumerate(parts) if hasattr(part, "dtype")]
    if len(arrays) != 1 or not all(isinstance(part, slice) for i, part in enumerate(parts) if i != arrays[0]):
        return array[key]
    axis = arrays[0]
    if parts[axis].ndim != 1 or not xp.isdtype(parts[axis].dtype, "integral"):
        return array[key]
    return xp.take(array[(*parts[:axis], slice(None), *parts[axis + 1 :], ...)], parts[axis], axis=axis)


def check_bounds(shape: tuple[int, ...], key: Any) -> None:
    """Check the integers of a key: the standard does not specify out-of-bounds access, and some libraries clamp.

    The library checks arrays of integers, as that takes their values.

    Raises
    ------
    IndexError
        If one is out of bounds.
    """
    parts = key_parts(key)
    taken = [0 if p is None or p is ... else p.ndim if is_mask(p) else 1 for p in parts]
    axis = 0
    for part, count in zip(parts, taken, strict=True):
        if type(part) is int and axis < len(shape) and not -shape[axis] <= part < shape[axis]:
            raise IndexError(f"index {part} is out of bounds for axis {axis} with size {shape[axis]}")
        axis += len(shape) - sum(taken) if part is ... else count


def is_mask(part: Any) -> bool:
    """Return whether a part of a key is a boolean array."""
    dtype = getattr(part, "dtype", None)
    kind = getattr(dtype, "kind", None)  # in NumPy's form; other libraries' dtypes have the kind in their name
    return kind == "b" if kind is not None else str(dtype).rpartition(".")[2].startswith("bool")


def visits_once(key: Any) -> bool:
    """Return whether no position is visited twice: the only arrays in the key are masks."""
    return not any(hasattr(part, "dtype") and not is_mask(part) for part in key_parts(key))
