"""NumPy's universal functions: calls with ``out=``, ``where=`` and ``dtype=``, and reduce, accumulate, outer, reduceat."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.backend import BACKENDS
from agrad.core.facts import BINARY
from agrad.core.mode import transforming
from agrad.core.op import OPS, Op
from agrad.core.operands import as_operand, as_operands, is_holder
from agrad.core.tensor import Tensor
from agrad.numpy.common import (
    NO_VALUE,
    PYTHON_NUMBERS,
    aligned,
    as_float,
    axes_of,
    axis_of,
    begun,
    check_cast,
    dtype_of,
    floating,
    fresh,
    given,
    into,
    kind_of,
    kind_of_name,
    native,
    numeric,
    part,
    promoted,
    refused,
    static,
    write_into,
)  # fmt: skip
from agrad.numpy.protocol import UFUNCS
from agrad.numpy.table import DIFFERENTIATED, STEP, enter, table
from agrad.ops import extra, special
from agrad.ops.data_type import astype, iinfo
from agrad.ops.docs import referring
from agrad.ops.elementwise import abs as absolute
from agrad.ops.elementwise import (
    add,
    conj,
    divide,
    exp,
    floor,
    floor_divide,
    log2,
    maximum,
    minimum,
    multiply,
    nextafter,
    remainder,
    sign,
    trunc,
)  # fmt: skip
from agrad.ops.linalg import matmul, vecdot, vector_norm
from agrad.ops.manipulation import broadcast_to, concat, expand_dims, moveaxis, reshape, squeeze, stack, unstack
from agrad.ops.searching import cast_value, scatter_add
from agrad.ops.searching import where as choose
from agrad.ops.statistical import all as all_of
from agrad.ops.statistical import any as any_of
from agrad.ops.statistical import max as largest
from agrad.ops.statistical import min as smallest
from agrad.ops.statistical import prod
from agrad.ops.statistical import sum as sum_of
from agrad.plugin import manager

#: Numbers that do not change the dtype of a floating-point tensor beside them.
_REAL_NUMBERS = frozenset([bool, int, float])


class ufunc:  # noqa: N801 (NumPy's own name)
    """A NumPy universal function, implemented with agrad's operations.

    Parameters
    ----------
    name : str
        NumPy's name.
    call : callable
        Applied to aligned operands.
    nin, nout : int, optional
        The numbers of operands and results.
    identity : scalar, optional
        The result of an empty reduction; None where that is an error.
    reorderable : bool, optional
        Whether it reduces several axes at once, in any order, although it has no identity.
    real : bool, optional
        Whether integers are converted to floating-point numbers, small ones to small ones unless `double`.
    reduce, accumulate : callable, optional
        ``reduce(x, axis, keepdims)`` over axes, ``accumulate(x, axis)``. Default: one element after another.
    boolean : bool, optional
        Whether results are booleans.
    mixed : bool, optional
        Whether operands keep their dtypes.
    takes : tuple of str, optional
        The kinds of dtypes that it accepts, where its operations would accept others.
    entry : callable, optional
        The equivalent op, if floating-point tensors of one dtype need nothing more.
    core : bool, optional
        Whether it combines whole axes, as matmul: there is no ``where=`` and no `reduce`.
    """

    def __init__(
        self, name: str, call: Callable[..., Any], nin: int = 1, nout: int = 1, *, identity: Any = None,
        reorderable: bool = False, real: bool = False, double: bool = False, reduce: Any = None, accumulate: Any = None,
        boolean: bool = False, mixed: bool = False, takes: tuple[str, ...] | None = None, entry: Any = None,
        core: bool = False,
    ) -> None:  # fmt: skip
        self.__name__: str = name
        self.__qualname__: str = name
        referring(self, f"As ``numpy.{name}``.", f"numpy.{name}")
        self._function: Callable[..., Any] = call
        self.nin: int = nin
        self.nout: int = nout
        self.nargs: int = nin + nout
        self.identity: Any = identity
        self._reorderable = reorderable or identity is not None
        self._real, self._double, self._boolean, self._mixed = real, double, boolean, mixed
        self._reduction, self._running, self._takes, self._entry = reduce, accumulate, takes, entry
        self._core = core

    def __repr__(self) -> str:
        return f"<ufunc 'agrad.numpy.{self.__name__}'>"

    def __reduce__(self) -> Any:
        return _named, (self.__name__,)

    def _refused(self, what: str, instead: str) -> TypeError:
        return refused(f"numpy.{self.__name__}{what}", instead)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def __call__(
        self, *operands: Any, out: Any = None, where: Any = True, casting: str = "same_kind", order: str = "K",
        dtype: Any = None, subok: bool = True, signature: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        """Call the function on operands that broadcast.

        Parameters
        ----------
        *operands : Tensor, array or scalar
            `nin` operands, optionally followed by `out`.
        out : Tensor, optional
            Where to write the result, as by ``out[...] = result``.
        where : Tensor of bool, optional
            Where to compute; elsewhere `out` keeps its values.
        casting : {"no", "equiv", "safe", "same_kind", "unsafe"}, optional
            How far `dtype` and the dtype of `out` may differ from the operands'.
        order, subok : optional
            Memory layout and subclasses: no effect for tensors.
        dtype : optional
            The dtype to compute in.
        signature : None
            Must be None; `dtype` has the same effect.
        """
        plain = out is dtype is signature is None and where is True and casting == "same_kind" and not more
        if plain and self._entry is not None:
            if self.nin == 1 and len(operands) == 1:
                (x,) = operands
                if type(x) is float or type(x) in BACKENDS:
                    x = as_operand(x)
                if type(x) is Tensor and x._spec.inexact:
                    return self._entry(x)
            elif self._is_plain(operands):
                return self._entry(*operands)
        if signature is not None:
            raise self._refused(" with signature=", "write dtype=")
        if any(map(is_holder, operands)):
            return self._handed_over(operands, kwargs_of(out, where, casting, dtype, more))
        if len(operands) > self.nin:
            if out is not None:
                raise TypeError(f"cannot specify 'out' as both a positional and keyword argument{errors.called()}")
            out = operands[self.nin :]
            operands = operands[: self.nin]
        if len(operands) < self.nin:
            raise TypeError(f"{self.__name__}() takes {self.nin} operands, got {len(operands)}{errors.called()}")
        if self.nout > 1 and not isinstance(out, tuple | None):
            raise TypeError(f"'out' must be a tuple of arrays{errors.called()}")
        outs = out if isinstance(out, tuple) else (out,) * self.nout
        arrays = out is not None and self._takes_arrays(operands, outs)
        given = operands
        operands = self._operands(operands, native(dtype), casting)
        if casting != "same_kind":
            for x, converted in zip(given, operands, strict=True):
                if type(x) not in PYTHON_NUMBERS:
                    check_cast(f"ufunc '{self.__name__}' input", as_operand(x), converted.dtype, casting)
        if where is not True:
            return self._chosen(operands, outs, where, casting, more, arrays=arrays)
        found = self._function(*operands, **more)
        if dtype is not None:
            wanted = dtype_in(operands, dtype)
            if any(x.dtype != wanted for x in ((found,) if self.nout == 1 else found)):
                raise self._no_loop()
        if self.nout > 1:
            return tuple(into(o, f, casting, arrays=arrays) for o, f in zip(outs, found, strict=True))
        return into(outs, found, casting, arrays=arrays)

    def _takes_arrays(self, operands: tuple[Any, ...], outs: tuple[Any, ...]) -> bool:
        """Return whether results may be written to arrays: only where no differentiated tensor would be lost."""
        array = next((o for o in outs if not isinstance(o, Tensor | None)), None)
        if array is None:
            return False
        followed = any(isinstance(x, Tensor) and x._is_followed() for x in operands)
        if not followed and not transforming.get():
            return True
        symbol = OPS[UFUNCS[self.__name__]].facts.symbol if self.nin == 2 and self.__name__ in UFUNCS else ""
        if symbol in BINARY and array is operands[0]:  # Python calls it for ``a += b``
            name = errors.name_of(array, "y")
            raise TypeError(
                f"out= takes a tensor, not {type(array).__name__}, by which the gradient would be lost: write"
                f" {name} = {name} {symbol} ... in place of {name} {symbol}= ...{errors.called()}"
            )
        return False

    def _handed_over(self, operands: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Let a labelled array among the operands call NumPy's ufunc on its contents."""
        holder = next(x for x in operands if is_holder(x))
        theirs = getattr(manager.usable("numpy").namespace(), self.__name__)
        found = holder.__array_ufunc__(theirs, "__call__", *operands, **options)
        if found is NotImplemented:
            raise self._refused(f" of a {type(holder).__name__}", "take its values, .data or .values")
        return found

    def _no_loop(self) -> TypeError:
        name = self.__name__
        return TypeError(
            f"No loop matching the specified signature and casting was found for ufunc {name}{errors.called()}"
        )

    def _is_plain(self, operands: tuple[Any, ...]) -> bool:
        """Return whether operands are floating-point tensors of one dtype, or one of them and an array or a real number."""
        if len(operands) != self.nin:
            return False
        first, second = operands[0], operands[-1]
        if type(first) is not Tensor:
            first, second = second, first
        if type(first) is not Tensor or not first._spec.inexact:
            return False
        if type(second) is Tensor:
            return second._spec.dtype == first._spec.dtype
        return type(second) in _REAL_NUMBERS or (type(second) is type(first._raw) and second.dtype == first._spec.dtype)

    def _operands(self, operands: tuple[Any, ...], dtype: Any, casting: str) -> tuple[Any, ...]:
        if dtype is not None:
            kind = kind_of_name(dtype)
            if (self._real and kind not in ("float", "complex")) or (self._takes and kind not in self._takes):
                raise self._no_loop()
        if self._mixed:
            return as_operands(*operands)
        if self._real and not self._double and not any(type(x) in PYTHON_NUMBERS for x in operands):
            operands = tuple(as_float(x) for x in as_operands(*operands))
        operands = aligned(*operands)
        if dtype is not None and not (self._boolean and dtype == "bool"):
            for x in operands:
                kinds = ("bool", "int", "float", "complex")
                if isinstance(x, Tensor) and casting != "unsafe":
                    backend = x._spec.backend
                    if kinds.index(kind_of(x)) > kinds.index(backend.kind(backend.dtype(dtype))):
                        raise TypeError(
                            f"Cannot cast ufunc '{self.__name__}' input from {x.dtype} to {dtype} with casting rule"
                            f" '{casting}'{errors.called()}"
                        )
            return tuple(astype(x, dtype, copy=False) for x in as_operands(*operands))
        if self._real:
            to_float = floating if self._double else as_float
            operands = tuple(to_float(x) if isinstance(x, Tensor) else x for x in operands)
        return operands if self._takes is None else self._strong(operands)

    def _strong(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Convert Python numbers to the dtype of the tensors beside them, all of a kind that the function accepts."""
        first = next(x for x in operands if isinstance(x, Tensor))
        for x in operands:
            if type(x) is int and kind_of(first) == "int":
                limits = iinfo(first.dtype)
                if not limits.min <= x <= limits.max:
                    raise OverflowError(f"Python integer {x} out of bounds for {first.dtype}{errors.called()}")
        strong = tuple(x if isinstance(x, Tensor) else astype(as_operand(x, first), first.dtype) for x in operands)
        if kind_of(first) not in (self._takes or ()):
            raise TypeError(
                f"ufunc '{self.__name__}' not supported for the input types: {first.dtype}{errors.called()}"
            )
        return strong

    def _chosen(
        self, operands: tuple[Any, ...], outs: tuple[Any, ...], where: Any, casting: str, more: dict[str, Any],
        *, arrays: bool,
    ) -> Any:  # fmt: skip
        """Compute only where a mask is true; other elements may lie outside the domain."""
        if self._core:
            raise TypeError(f"{self.__name__}() got an unexpected keyword argument 'where'{errors.called()}")
        if outs[0] is None:
            raise self._refused(
                " with where= and without out=",
                f"where= leaves elements undefined: write np.where(mask, np.{self.__name__}(...), ...)",
            )
        if not (arrays or isinstance(outs[0], Tensor)):
            raise TypeError(
                f"out= takes a tensor, not {type(outs[0]).__name__}: write out=np.zeros_like(x), with the np of agrad.numpy"
                f"{errors.called()}"
            )
        mask = as_operand(where)
        operands = tuple(_inside(mask, x) for x in as_operands(*operands))
        found = self._function(*operands, **more)
        results = found if self.nout > 1 else (found,)
        chosen = tuple(
            into(o, choose(mask, f, as_operand(o)), casting, arrays=arrays) for o, f in zip(outs, results, strict=True)
        )
        return chosen if self.nout > 1 else chosen[0]

    # -- methods -------------------------------------------------------------------------------------------------------

    def _binary(self, method: str, dtype: Any = None) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{method} only supported for binary functions{errors.called()}")
        if self._core:
            raise RuntimeError(
                f"Reduction not defined on ufunc with signature: {self.__name__}.{method}{errors.called()}"
            )
        if self._boolean and dtype not in (None, "bool"):
            raise self._no_loop()

    def _lifted(self, x: Tensor, dtype: Any) -> Tensor:
        """Return an array to be combined, in the dtype used for it."""
        if dtype is not None and not self._boolean:
            x = astype(x, dtype, copy=False)
        elif self._real:
            x = floating(x) if self._double else as_float(x)
        elif self.__name__ in ("add", "multiply"):
            x = _counted(x)
        compares = self._boolean and self.identity is None
        if (compares and kind_of(x) != "bool") or (self._takes and kind_of(x) not in self._takes):
            raise self._no_loop()
        return x

    def reduce(
        self, array: Any, /, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = NO_VALUE, where: Any = True,
    ) -> Tensor:  # fmt: skip
        """Combine the elements along axes.

        Parameters
        ----------
        array : Tensor or array
            The array to reduce.
        axis : int, tuple of int or None, optional
            The axes; None for all.
        dtype, out, keepdims : optional
            As for NumPy's reductions.
        initial : scalar, optional
            The initial value.
        where : Tensor of bool, optional
            The elements that count.
        """
        dtype = native(dtype)
        self._binary("reduce", dtype)
        x = self._lifted(as_operand(array), dtype)
        axes = axes_of(axis, x.ndim) if x.ndim or axis not in (0, -1) else ()
        if len(axes) > 1 and not self._reorderable:
            raise ValueError(
                f"reduction operation '{self.__name__}' is not reorderable, so at most one axis may be specified"
                f"{errors.called()}"
            )
        started = given(initial) and initial is not None
        if started:
            initial = as_operand(initial, x) != 0 if self._boolean else begun(initial, x)
        if where is not True and not started and self.identity is None:
            raise ValueError(
                f"reduction operation '{self.__name__}' does not have an identity, so to use a where mask one has"
                f" to specify 'initial'{errors.called()}"
            )
        if started and not self._reorderable:
            found = self._continued(initial, x, axes, keepdims, where)
        else:
            if where is not True:
                x = choose(as_operand(where), x, initial if self.identity is None else begun(self.identity, x))
            if self._reduction is not None and all(x.shape[a] for a in axes):
                found = self._reduction(x, axes, keepdims)
            else:
                found = self._folded(x, axes, keepdims)
            if started:
                found = self(found, initial)
        if dtype is not None and not self._boolean and found.dtype != dtype_in((found,), dtype):
            raise self._no_loop()
        return into(out, found)

    def _continued(self, initial: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, where: Any) -> Tensor:
        """Combine an initial value with one element after another, where a mask is true."""
        axis = axes[0] if axes else 0
        members = unstack(x, axis=axis) if axes else (x,)
        found = broadcast_to(as_operand(initial, x), tuple(n for i, n in enumerate(x.shape) if i not in axes))
        if where is True:
            found = functools.reduce(self, members, found)
        else:
            mask = broadcast_to(as_operand(where), x.shape)
            for member, counts in zip(members, unstack(mask, axis=axis) if axes else (mask,), strict=True):
                found = choose(counts, self(found, _inside(counts, member)), found)
        return expand_dims(found, axis=axis) if keepdims and axes else found

    def _folded(self, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        """Combine one element after another."""
        for axis in sorted(axes, reverse=True):
            members = unstack(x, axis=axis)
            if not members:
                if self.identity is None:
                    raise ValueError(
                        f"zero-size array to reduction operation {self.__name__} which has no identity{errors.called()}"
                    )
                kept = tuple(n for i, n in enumerate(x.shape) if i != axis)
                folded = broadcast_to(begun(self.identity, x), kept)
            else:
                folded = functools.reduce(self, members)
                if self._boolean and len(members) == 1:
                    folded = astype(folded, "bool")
            x = expand_dims(folded, axis=axis) if keepdims else folded
        return x if axes or not self._boolean else astype(x, "bool", copy=False)

    def accumulate(self, array: Any, /, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tensor:
        """Return the intermediate results of `reduce`.

        Parameters
        ----------
        array : Tensor or array
            At least one axis.
        axis : int, optional
            The axis.
        dtype, out : optional
            As for `reduce`.
        """
        dtype = native(dtype)
        self._binary("accumulate", dtype)
        x = self._lifted(as_operand(array), dtype)
        x = _truth(x) if self.__name__.startswith("logical") else x
        axis = axis_of(axis, x.ndim)
        if self._running is not None and x.shape[axis]:
            return into(out, self._running(x, axis))
        members = list(unstack(x, axis=axis))
        for i in range(1, len(members)):
            members[i] = self(members[i - 1], members[i])
        return into(out, stack(members, axis=axis) if members else x)

    def reduceat(self, array: Any, /, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Tensor:
        """Reduce slices that start at indices.

        Parameters
        ----------
        array : Tensor or array
            At least one axis.
        indices : sequence of int
            The start of each slice; one that is not below the next selects a single element.
        axis, dtype, out : optional
            As for `reduce`.
        """
        self._binary("reduceat")
        x = as_operand(array)
        axis = axis_of(axis, x.ndim)
        starts = static(indices)
        n = x.shape[axis]
        if not all(0 <= i < n for i in starts):
            raise IndexError(f"index out of bounds for an axis of length {n}{errors.called()}")
        stops = [*starts[1:], n]
        parts = []
        for a, b in zip(starts, stops, strict=True):
            slice_ = x[part(axis, slice(a, max(b, a + 1)))]
            alone = slice_.shape[axis] == 1  # unchanged, without the identity
            parts.append(
                self.accumulate(slice_, axis, dtype) if alone else self.reduce(slice_, axis, dtype, keepdims=True)
            )
        return into(out, concat(parts, axis=axis))

    def outer(self, A: Any, B: Any, /, **kwargs: Any) -> Any:
        """Call the function on all pairs of elements.

        Parameters
        ----------
        A, B : Tensor or array
            Any shapes; the result's shape is both, concatenated.
        **kwargs : optional
            As for a call.
        """
        self._binary("outer")
        a, b = as_operands(A, B)
        return self(reshape(a, a.shape + (1,) * b.ndim), b, **kwargs)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Combine elements at indices in place, repeatedly for repeated indices.

        Parameters
        ----------
        a : Tensor
            The tensor to change, as by ``a += ...``.
        indices : index
            The elements to change.
        b : Tensor or scalar
            The other operand.
        """
        if not isinstance(a, Tensor):
            write_into(f"{self.__name__}.at", a, indices, *(() if b is None else (b,)))
            return
        if self.__name__ not in ("add", "subtract"):
            raise self._refused(
                ".at",
                f"where no place comes twice write a[i] = np.{self.__name__}(a[i], ...); add.at and subtract.at are",
            )
        place = a[indices]
        values = broadcast_to(cast_value(a, as_operand(b, a)), place.shape)
        a += scatter_add(a._spec, indices, values if self.__name__ == "add" else -values)


def kwargs_of(out: Any, where: Any, casting: str, dtype: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of a call that differ from the defaults."""
    found = {"out": out, "dtype": dtype, "where": None if where is True else where}
    found["casting"] = None if casting == "same_kind" else casting
    return {name: value for name, value in found.items() if value is not None} | more


def _inside(mask: Tensor, x: Tensor) -> Tensor:
    """Return an operand with 1 where a mask is false: its own elements there may lie outside the domain."""
    return choose(mask, x, astype(as_operand(1, x), x.dtype))


def dtype_in(operands: tuple[Any, ...], name: str) -> Any:
    """Return the dtype of a name in the operands' library."""
    backend = next(x for x in operands if isinstance(x, Tensor))._spec.backend
    return backend.dtype(name)


def _named(name: str) -> ufunc:
    return table()[name].function


def _counted(x: Tensor) -> Tensor:
    """Return an operand as sums of integers take it: with at least 64 bits."""
    if x._spec.inexact:
        return x
    return astype(x, "uint64" if dtypes.name_of(x.dtype).startswith("uint") else "int64", copy=False)


# -- implementations ---------------------------------------------------------------------------------------------------


def _op(name: str) -> Callable[..., Any]:
    return OPS[name].entry


def _fmod(x1: Any, x2: Any) -> Tensor:
    """Return the remainder of a division that rounds towards 0: it has the sign of the first operand."""
    x1, x2 = as_operands(x1, x2)
    if not x1._spec.inexact:
        return sign(x1) * remainder(absolute(x1), absolute(x2)) if kind_of(x1) == "int" else remainder(x1, x2)
    return x1 - trunc(x1 / x2) * x2


def _modf(x: Tensor) -> tuple[Tensor, Tensor]:
    whole = trunc(x)
    return x - whole, whole


def _frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mantissas from 0.5 to 1, and the powers of two."""
    value = x.detach()
    power = choose(value == 0, 0.0, floor(log2(absolute(choose(value == 0, 1.0, value)))) + 1)
    mantissa = x / 2**power
    return mantissa, astype(power, "int32")


def _ldexp(x1: Any, x2: Any) -> Tensor:
    x1, exponent = as_float(as_operand(x1)), as_operand(x2)
    if x1._spec.is_complex or exponent._spec.inexact or dtype_of(exponent) == "uint64":
        raise TypeError(
            f"ufunc 'ldexp' not supported for the input types: {x1.dtype} and {exponent.dtype}; it takes real numbers and"
            f" integers{errors.called()}"
        )
    return x1 * astype(2.0 ** astype(as_operand(x2, x1), x1.dtype), x1.dtype)


def _float_power(x1: Any, x2: Any) -> Tensor:
    x1, x2 = (astype(x, promoted(x, "float64"), copy=False) for x in as_operands(x1, x2))
    return OPS["pow"].entry(x1, x2)


def _gcd(x1: Any, x2: Any) -> Tensor:
    """Use Euclid's algorithm, for all elements at once: at most 93 steps for 64 bits."""
    a, b = (absolute(x) for x in as_operands(x1, x2))
    while bool(any_of(b != 0)):
        done = b == 0
        a, b = choose(done, a, b), choose(done, 0, remainder(a, choose(done, 1, b)))
    return a


def _lcm(x1: Any, x2: Any) -> Tensor:
    x1, x2 = (absolute(x) for x in as_operands(x1, x2))
    both = _gcd(x1, x2)
    return floor_divide(x1, choose(both == 0, 1, both)) * x2


def _spacing(x: Tensor) -> Tensor:
    """Return the distance to the next number away from 0."""
    away = choose(x < 0, -math.inf, math.inf)
    return nextafter(x, astype(away, x.dtype)) - x


def _bit_count(x: Tensor) -> Tensor:
    """Count by halving, with the bits of the absolute value."""
    x = absolute(x) if kind_of(x) == "int" else astype(x, "int64")
    total = x * 0
    for _ in range(64):
        total = total + x % 2
        x = floor_divide(x, 2)
    return astype(total, "uint8")


def _exp2(x: Tensor) -> Tensor:
    return exp(x * math.log(2)) if x._spec.is_complex else _op("special.exp2")(x)


def _logaddexp2(x1: Any, x2: Any) -> Tensor:
    return _op("logaddexp")(x1 * math.log(2), x2 * math.log(2)) * (1 / math.log(2))


def _exact(name: str) -> Callable[[Tensor], Tensor]:
    """Return an op that rounds, and leaves booleans unchanged."""
    op = _op(name)
    return lambda x: fresh(x) if kind_of(x) == "bool" else op(x)


def _truth(x: Any) -> Any:
    return x if isinstance(x, bool) or kind_of(as_operand(x)) == "bool" else as_operand(x) != 0


def _logical(name: str) -> Callable[..., Tensor]:
    """Return a logical op for numbers: nonzero is true."""
    op = _op(name)
    return lambda *operands: op(*(_truth(x) for x in as_operands(*operands)))


def _test(name: str) -> Callable[[Tensor], Tensor]:
    op = _op(name)
    return lambda x: op(numeric(x))


def _of_axes(name: str, signature: str, operands: Sequence[Tensor]) -> None:
    """Refuse operands with fewer axes than a product's signature."""
    for i, (x, core) in enumerate(zip(operands, signature.partition("->")[0].split("(")[1:], strict=True)):
        least = core.partition(")")[0].count(",") + 1
        if x.ndim < least:
            raise ValueError(
                f"{name}: Input operand {i} does not have enough dimensions (has {x.ndim}, gufunc core with signature"
                f" {signature} requires {least}){errors.called()}"
            )


def _matvec(x1: Any, x2: Any) -> Tensor:
    x1, x2 = as_operands(x1, x2)
    _of_axes("matvec", "(m,n),(n)->(m)", (x1, x2))
    return squeeze(matmul(x1, expand_dims(x2, axis=-1)), axis=-1)


def _vecmat(x1: Any, x2: Any) -> Tensor:
    x1, x2 = as_operands(x1, x2)
    _of_axes("vecmat", "(n),(n,m)->(m)", (x1, x2))
    row = expand_dims(conj(x1) if x1._spec.is_complex else x1, axis=-2)
    return squeeze(matmul(row, x2), axis=-2)


def _core_axes(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Give a product of the last axes ``axes=`` (a tuple per operand and result), ``axis=`` and ``keepdims=``."""

    def product(*operands: Any, axes: Any = NO_VALUE, axis: Any = NO_VALUE, keepdims: bool = False) -> Tensor:
        operands = as_operands(*operands)
        if name != "vecdot" and (given(axis) or keepdims):
            raise TypeError(f"{name}() takes axis= and keepdims= only where it combines one axis{errors.called()}")
        if given(axis):
            axes = [(axis,)] * len(operands) + [(axis,) if keepdims else ()]
        if not given(axes):
            found = call(*operands)
            return expand_dims(found, axis=-1) if keepdims else found
        places = [(a,) if isinstance(a, int) else tuple(a) for a in axes]
        moved = [
            moveaxis(x, at, tuple(range(-len(at), 0))) if at else x for x, at in zip(operands, places, strict=False)
        ]
        found = call(*moved)
        if keepdims:
            found = expand_dims(found, axis=-1)
        last = places[len(operands)] if len(places) > len(operands) else ()
        return moveaxis(found, tuple(range(-len(last), 0)), last) if last else found

    return product


# -- reductions --------------------------------------------------------------------------------------------------------


def _running(function: Callable[..., Tensor]) -> Callable[[Tensor, int], Tensor]:
    return lambda x, axis: function(x, axis=axis)


def _along(function: Callable[..., Tensor]) -> Callable[[Tensor, tuple[int, ...], bool], Tensor]:
    return lambda x, axes, keepdims: function(x, axis=axes, keepdims=keepdims)


# -- the table ---------------------------------------------------------------------------------------------------------

_REAL = ("int", "float")


def _is_step(op: Op) -> bool:
    """Return whether an op is piecewise constant."""
    return op.rule.kind == "none" or all(type(partial) is int and partial == 0 for partial in op.rule.vjp.values())


def _row(
    name: str, call: Callable[..., Any], nin: int = 1, nout: int = 1, *, status: str = DIFFERENTIATED, **options: Any
) -> None:
    made = ufunc(name, call, nin, nout, **options)
    op = OPS[UFUNCS[name]] if name in UFUNCS else None
    for each in (name,) if op is None else op.facts.numpy.split():  # NumPy's other names, too
        enter(each, made, STEP if op is not None and _is_step(op) else status)


def _rows(names: str, nin: int = 1, *, call: Callable[[str], Any] = _op, **options: Any) -> None:
    for name in names.split():
        function = call(UFUNCS[name])
        _row(name, function, nin, entry=function if call is _op else None, **options)


_rows("sqrt exp expm1 log log1p log2 log10 sin cos tan sinh cosh tanh rint", real=True)
_rows("arccos arccosh arcsin arcsinh arctan arctanh", real=True)
_rows("negative positive square reciprocal absolute conjugate invert")
_rows("sign", status=STEP)
_rows("floor ceil trunc", call=_exact)
_rows("isfinite isinf isnan", call=_test, boolean=True)
_rows("signbit", boolean=True, real=True)
_rows("logical_not", call=_logical, boolean=True)
_row("fabs", absolute, real=True, takes=_REAL)
_row("cbrt", _op("special.cbrt"), real=True)
_row("exp2", _exp2, real=True)
_row("deg2rad", extra.deg2rad, real=True, takes=_REAL)
_row("radians", extra.deg2rad, real=True, takes=_REAL)
_row("rad2deg", extra.rad2deg, real=True, takes=_REAL)
_row("degrees", extra.rad2deg, real=True, takes=_REAL)
_row("spacing", _spacing, real=True, status=STEP)
_row("bitwise_count", _bit_count, takes=("bool", "int"), status=STEP)
_row("modf", _modf, nout=2, real=True)
_row("frexp", _frexp, nout=2, real=True, takes=_REAL)

_row("add", add, 2, entry=add, identity=0, reduce=_along(sum_of), accumulate=_running(extra.cumsum))
_row("multiply", multiply, 2, entry=multiply, identity=1, reduce=_along(prod), accumulate=_running(extra.cumprod))
_row(
    "maximum", maximum, 2, entry=maximum, reorderable=True, reduce=_along(largest),
    accumulate=_running(extra.cumulative_max),
)  # fmt: skip
_row(
    "minimum", minimum, 2, entry=minimum, reorderable=True, reduce=_along(smallest),
    accumulate=_running(extra.cumulative_min),
)  # fmt: skip
_row("fmax", extra.fmax, 2, takes=("bool", *_REAL), reorderable=True)
_row("fmin", extra.fmin, 2, takes=("bool", *_REAL), reorderable=True)
_rows("subtract floor_divide remainder power left_shift right_shift", 2)
_row("divide", divide, 2, real=True, double=True, entry=divide)
_rows("copysign arctan2", 2, real=True)
_rows("nextafter", 2, real=True, status=STEP)
_row("hypot", _op("hypot"), 2, real=True, takes=_REAL, identity=0, reduce=_along(vector_norm))
_row(
    "logaddexp", _op("logaddexp"), 2, real=True, takes=_REAL, identity=-math.inf, reduce=_along(special.logsumexp),
    accumulate=_running(extra.logcumsumexp),
)  # fmt: skip
_row(
    "logaddexp2", _logaddexp2, 2, real=True, takes=_REAL, identity=-math.inf,
    reduce=lambda x, axes, keepdims: _along(special.logsumexp)(x * math.log(2), axes, keepdims) * (1 / math.log(2)),
)  # fmt: skip
_row("heaviside", extra.heaviside, 2, real=True, takes=_REAL)
_row("fmod", _fmod, 2, takes=("bool", *_REAL))
_row("float_power", _float_power, 2)
_row("ldexp", _ldexp, 2, mixed=True)
_row("divmod", lambda x1, x2: (floor_divide(x1, x2), remainder(x1, x2)), 2, 2)
_row("gcd", _gcd, 2, identity=0, takes=("int",), status=STEP)
_row("lcm", _lcm, 2, takes=("int",), status=STEP)
_rows("equal not_equal less less_equal greater greater_equal", 2, boolean=True)
_row("logical_and", _logical("logical_and"), 2, boolean=True, identity=True, reduce=_along(all_of))
_row("logical_or", _logical("logical_or"), 2, boolean=True, identity=False, reduce=_along(any_of))
_row("logical_xor", _logical("logical_xor"), 2, boolean=True, identity=False)
_row("bitwise_and", _op("bitwise_and"), 2, identity=-1)
_row("bitwise_or", _op("bitwise_or"), 2, identity=0)
_row("bitwise_xor", _op("bitwise_xor"), 2, identity=0)
_row("matmul", _core_axes("matmul", matmul), 2, core=True)
_row("vecdot", _core_axes("vecdot", vecdot), 2, core=True)
_row("matvec", _core_axes("matvec", _matvec), 2, core=True)
_row("vecmat", _core_axes("vecmat", _vecmat), 2, core=True)
