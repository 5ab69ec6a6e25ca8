"""Recording without data: arrays of a library that have a shape and a dtype but no element, and their recorder.

A `BlankRecorder` runs no kernel. The standard's functions on outlines determine the result of an operation, so that
only shapes and dtypes are computed; numbers, lists and constants keep their values. Nothing can branch on a missing
value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agrad import dtypes
from agrad.core import errors, mode
from agrad.core.backend import BACKENDS, Backend
from agrad.core.blank import Blank, NeedsValuesError
from agrad.core.buffers import assign_data
from agrad.core.errors import UnsupportedOp
from agrad.core.kernels import is_mask
from agrad.core.node import Node
from agrad.core.once import shared
from agrad.core.op import OPS, facts_of
from agrad.core.operands import from_raw
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.plugin.manager import default_backend
from agrad.program.inference import OUTLINES, keyed
from agrad.program.outlines import CountedOutline, Outline
from agrad.program.program import Program, Shaped, mapped
from agrad.program.recording import CaptureError, Recorded, Recorder, grad_of, recording_backend

__all__ = ["BlankRecorder", "ShapeDtype", "blank", "blank_tensor", "program_of_kernels", "run_on_blanks"]


class ShapeDtype:
    """Shape and dtype of an array without data: replaces an array in calls of `capture` and `eval_shape`.

    Parameters
    ----------
    shape : iterable of int
        The shape.
    dtype : DType, dtype of a library, or str, optional
        Default: the default dtype.

    Examples
    --------
    >>> import agrad as ag
    >>> spec = ag.func.ShapeDtype((1000, 3), "float32")
    >>> spec
    ShapeDtype((1000, 3), float32)
    >>> spec == ag.func.ShapeDtype([1000, 3], ag.float32)
    True
    """

    __slots__ = ("dtype", "shape")

    shape: tuple[int, ...]
    dtype: dtypes.DType

    def __init__(self, shape: Iterable[int], dtype: Any = None) -> None:
        self.shape = tuple(map(operator.index, shape))
        if any(n < 0 for n in self.shape):
            raise ValueError(f"a shape has no negative length, {self.shape} has one")
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtypes.DType(dtypes.name_of(dtype))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtype) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtype({self.shape}, {self.dtype.name})"


# -- arrays without elements --------------------------------------------------------------------------------------------


@shared
def blanks_of(backend: Backend) -> type[Blank]:
    """Return the class of a backend's arrays without elements."""
    made = type("Blank", (Blank,), {"__slots__": (), "backend": backend})
    BACKENDS[made] = backend
    return made


def blank(backend: Backend, shape: Iterable[int], dtype: Any, device: str | None = None) -> Blank:
    """Return an array without elements, on a device of a backend.

    Raises
    ------
    TypeError
        If the backend has no such dtype, or is lazy: its own arrays need no data.
    """
    if backend.is_lazy:
        raise TypeError(
            f"arrays of the {backend.name} backend are lazy, and need no data as they are: give one of them{errors.called()}"
        )
    native = backend.native_device(backend.default_device() if device is None else device)
    return blanks_of(backend)(shape, backend.dtype(dtype), native)


def blank_tensor(value: Any) -> Tensor:
    """Return a tensor without elements for a `ShapeDtype`, a `Spec`, or like an array or a tensor."""
    if isinstance(value, ShapeDtype):
        return from_raw(blank(default_backend(), value.shape, value.dtype))
    spec = value if isinstance(value, Spec) else from_raw(value)._spec if not isinstance(value, Tensor) else value._spec
    made = from_raw(blank(spec.backend, spec.shape, spec.dtype, spec.device))
    return made.requires_grad_() if isinstance(value, Tensor) and value.requires_grad else made


# -- the recorder -------------------------------------------------------------------------------------------------------


class BlankRecorder(Recorder):
    """A recorder on arrays without elements. It runs no kernel, and changes nothing outside of the function."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(first)
        self._nodes: dict[int, Node | None] = {}  # the outer tensors that were met, by id
        self._states: dict[int, tuple[Any, Any]] = {}  # random generators, by id, with their earlier states

    def meet(self, tensor: Tensor) -> None:
        super().meet(tensor)
        if id(tensor) in self.met:
            self._nodes.setdefault(id(tensor), tensor._node)

    def seed(self, generator: Any, state: Any) -> None:
        super().seed(generator, state)
        self._states.setdefault(id(generator), (generator, (generator.seed, generator.counter)))

    @property
    def has_moved(self) -> bool:
        """Whether a tensor that the call did not create has changed: its value, its gradient, or its history."""
        return bool(self.grads) or any(
            tensor._raw is not array or grad_of(tensor) is not grad or tensor._node is not self._nodes[id(tensor)]
            for tensor, array, grad in self.met.values()
        )

    def put_back(self) -> None:
        """Give tensors and random generators from outside, once the recording is over, what they had before it."""
        before = mode.get_mode()
        try:
            mode.push(recorder=None)  # without telling a recording around this one
            for tensor, array, grad in self.met.values():
                if tensor._raw is not array:
                    assign_data([tensor], [array], [from_raw(array)._spec])
                if tensor._node is not self._nodes[id(tensor)]:
                    tensor._node = self._nodes[id(tensor)]
                if grad_of(tensor) is not grad:
                    tensor.grad = grad
            for generator, state in self._states.values():
                generator.set_state(state)
        finally:
            mode.set_mode(before)

    def run(self, inner: Backend, op: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the result of a kernel as arrays without elements; run the kernel only if it takes none."""
        if facts_of(op).creates != "here" and not any(map(_has_recorded, (*args, *kwargs.values()))):
            return super().run(inner, op, function, args, kwargs)
        try:
            return self.blanks(inner, op, self.outlines(inner, op, args, kwargs))
        except (NeedsValuesError, UnsupportedOp, AttributeError) as error:
            raise unknown(op, error) from error
        except (TypeError, ValueError, IndexError) as error:
            if op in OPS and OPS[op].rule.guarded:  # a user's kernel, which may be written for one library only
                raise unknown(op, error) from error
            raise

    def outlines(self, inner: Backend, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the outlines of a kernel's results, or the specs that a backend declares."""
        if type(inner).infer is not Backend.infer and op in OPS:

            def spec(part: Any) -> Any:
                return inner.spec(part.data) if isinstance(part, Recorded) else part

            named = {name: mapped(spec, value) for name, value in kwargs.items()}
            found = inner.infer(op, [mapped(spec, part) for part in args], named)
            if found is not None:
                return tuple(found) if OPS[op].rule.outputs is not None else found[0]

        by_key = op in OPS and OPS[op].has_key

        def outline(part: Any) -> Any:
            if not isinstance(part, Recorded):
                return part
            shape, dtype = part.shape, inner.dtype_name(part.dtype)
            constant = self.constants.get(part.ref.number)
            if constant is None or not (op == "repeat" or (by_key and is_mask(constant))):
                return Outline(shape, dtype)
            return CountedOutline(shape, dtype, int(inner.item(inner.xp.sum(constant))))

        outlined = [mapped(outline, part) for part in args]
        if by_key:
            outlined[1] = keyed(outlined[1])
        kernel = operator.attrgetter(op)(OUTLINES.xp)
        return kernel(*outlined, **{name: mapped(outline, value) for name, value in kwargs.items()})

    def blanks(self, inner: Backend, op: str, made: Any) -> Any:
        """Return the results of a kernel on outlines as arrays of a backend without elements."""
        if isinstance(made, tuple | list):
            parts = [self.blanks(inner, op, part) for part in made]
            return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
        if isinstance(made, dtypes.DType):
            return inner.dtype(made)
        if not isinstance(made, Outline | Spec):
            return made
        if any(n != n for n in made.shape):  # noqa: PLR0124 (nan: not known)
            raise CaptureError(f"capture: the shape of the result of {op} depends on values{errors.called()}")
        return blank(inner, made.shape, dtypes.name_of(made.dtype), self.device)

    def copied(self, inner: Backend, array: Any) -> Any:
        return blank(inner, array.shape, array.dtype, self.device)

    def drawn(self, backend: Backend, kind: str, shape: tuple[int, ...], key: Any, **options: Any) -> Any:
        source, (seed, counter) = self.sources[id(key)], key
        self._states.setdefault(id(source), (source, (seed, counter - 1)))
        return blank(backend, shape, options["dtype"], options["device"])


def _has_recorded(part: Any) -> bool:
    if isinstance(part, Recorded):
        return True
    return type(part) in (tuple, list) and any(map(_has_recorded, part))


def unknown(op: str, error: Exception) -> CaptureError:
    """Return the error for a kernel whose result is only known by running it."""
    return CaptureError(
        f"capture: what {op} gives is not known without values ({error}): pass arrays instead of shapes and dtypes"
        f"{errors.called()}"
    )


def run_on_blanks(
    recorder: BlankRecorder, function: Callable[[Any, Mapping[int, Recorded]], Any], shapes: Mapping[int, Shaped]
) -> Any:
    """Run a function of kernels and arrays, recorded, if only its steps are needed and not the values.

    Parameters
    ----------
    recorder : BlankRecorder
        Records the steps.
    function : callable
        Takes the kernels, and recorded arrays by number.
    shapes : mapping of int to Shaped
        Shapes and dtypes of these arrays, which are of the default backend and have no elements.

    Returns
    -------
    object
        The function's result, with recorded arrays in it.
    """
    inner = default_backend()
    recording, values = recording_backend(inner), {}
    for number, (shape, dtype) in shapes.items():
        array = blank(inner, shape, dtype)
        recorder.remember(array, number)
        values[number] = recording.kind_of_array(array, number)  # while it lives, no other array has its id
    before = mode.get_mode()
    try:
        mode.push(recorder=recorder)
        with inner.quiet():
            return function(recording.xp, values)
    finally:
        mode.set_mode(before)


def program_of_kernels(function: Callable[..., Any], arrays: Sequence[Shaped], line: str = "") -> tuple[Program, bool]:
    """Return the program of a function of kernels and arrays, such as a rule, without computing anything.

    Parameters
    ----------
    function : callable
        ``function(xp, *arrays)``; it returns an array, or a tuple of arrays.
    arrays : sequence of Shaped
        Shapes and dtypes of the arrays, which are the inputs of the program, numbered from 0.
    line : str, optional
        The line to report for the steps.

    Returns
    -------
    Program
        Its outputs are the function's results.
    bool
        Whether the function returned a tuple.

    Raises
    ------
    CaptureError
        If no program can hold it.
    """
    recorder = BlankRecorder(len(arrays))
    recorder.line = line
    recorder.shapes |= enumerate(arrays)
    made = run_on_blanks(recorder, lambda xp, values: function(xp, *values.values()), dict(recorder.shapes))
    parts = made if isinstance(made, tuple) else (made,)
    if not all(isinstance(part, Recorded) for part in parts):
        raise CaptureError("capture: a result that is no array")
    return recorder.program(range(len(arrays)), [part.ref.number for part in parts]), isinstance(made, tuple)
