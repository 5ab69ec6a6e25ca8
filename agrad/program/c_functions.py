"""Programs as C functions: ``Program.cfunc``, and the function that it returns."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

from agrad.core import errors
from agrad.core.executor import Refused
from agrad.core.once import once
from agrad.core.tensor import Tensor
from agrad.plugin.manager import executor_named, get
from agrad.program.executing import NATIVE
from agrad.program.passes import fewer
from agrad.program.program import Program, Shaped, attached, spec_of_value

#: The dtypes that are passed in and out as doubles.
FLOATS = ("float32", "float64")


class CFunctionError(RuntimeError):
    """A program cannot be compiled to a C function; the text names the step, and the user's line."""


class CFunction:
    """A program as a C function, which any thread may call, several at a time and without Python's lock.

    `cfunc` creates it. Its code lives as long as this object, `ctypes` or `low_level_callable`.

    Parameters
    ----------
    name : str
        Its name in the header.
    address : int
        Where it begins.
    held : object
        The object that must live as long.
    inputs, outputs : list of Shaped
        The contents of `x`, and of its return value and `grad`.

    Attributes
    ----------
    address : int
        Where it begins.
    header : str
        Its declaration and its arguments, as C text.
    size : int
        The number of elements it takes, one array after the other.
    gives : int or None
        The number of elements it writes to its third argument; None if it has none.
    """

    def __init__(self, name: str, address: int, held: Any, inputs: list[Shaped], outputs: list[Shaped]) -> None:
        self.address: int = address
        self._held: Any = held
        self.size: int = sum(math.prod(one.shape) for one in inputs)
        self.gives: int | None = sum(math.prod(one.shape) for one in outputs[1:]) if len(outputs) > 1 else None
        self.header: str = _header(name, self.size, self.gives, inputs, outputs)

    @once
    def ctypes(self) -> Any:
        """The function for `ctypes`; calls release Python's lock."""
        pointers = [ctypes.POINTER(ctypes.c_double)] * (1 if self.gives is None else 2)
        found = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, *pointers)(self.address)
        found.held = self  # type: ignore[attr-defined]
        return found

    @property
    def low_level_callable(self) -> Any:
        """The function as a ``scipy.LowLevelCallable``."""
        scipy = get("numpy").module("scipy")
        if scipy is None:
            raise errors.BackendError(
                f"this is a class of SciPy's, which is not installed: pip install scipy{errors.called()}"
            )
        return scipy.LowLevelCallable(self.ctypes)

    def __repr__(self) -> str:
        return f"<CFunction of {self.size} numbers{'' if self.gives is None else f', gives {self.gives} more'}>"


def _header(name: str, size: int, gives: int | None, inputs: list[Shaped], outputs: list[Shaped]) -> str:
    """Return a function's type as C text."""

    def parts(of: str, arrays: list[Shaped]) -> list[str]:
        found, at = [], 0
        for one in arrays:
            count = math.prod(one.shape)
            rounded = "" if one.dtype == "float64" else ", rounded to float"
            found.append(f"   {of}[{at}] ...: {count} of shape {list(one.shape)}{rounded}")
            at += count
        return found

    name = re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)
    lines = [f"/* n must be {size}; arrays lie one behind the other, in C's order.", *parts("x", inputs)]
    if gives is not None:
        lines += [*parts("grad", outputs[1:]), "   grad may be NULL."]
    lines += ["   NaN: an operation failed, as of a singular matrix, or n is another. */"]
    more = "" if gives is None else ", double *grad"
    return "\n".join([*lines, f"typedef double (*{name})(int n, const double *x{more});", ""])


@attached
class CFunctionMethods:
    """Methods of programs."""

    def cfunc(self: Any, *, name: str = "program", executor: Any = NATIVE, **options: Any) -> CFunction:
        """Compile the program to a C function: ``double f(int n, const double *x, double *grad)``.

        `x` holds the program's arguments one after the other. The function returns the program's first result, which
        must be one number, and writes the others, such as gradients, to `grad`; a program with one result has no
        `grad`. Outer arrays become constants of the function, with their current values.

        Parameters
        ----------
        name : str, optional
            Its name in the header.
        executor : str or Executor, optional
            The compiler. Default: ``agrad-numpy[native]``.
        **options
            Options of the executor: with ``exact=True`` the results have the same bits as the operations run one by
            one.

        Raises
        ------
        CFunctionError
            If a step cannot be compiled, draws random numbers or is written elsewhere; the text names it, with its
            line.

        Examples
        --------
        >>> import agrad as ag
        >>> spec = ag.func.ShapeDtype((2,), "float64")
        >>> program = ag.func.capture(lambda x: ag.sum(x * x))(spec)
        >>> f = program.cfunc(name="squares")  # doctest: +SKIP
        >>> print(f.header.splitlines()[-1])  # doctest: +SKIP
        typedef double (*squares)(int n, const double *x);
        """
        program = _closed(self)
        found = executor_named(executor)
        backend = get(found.backends[0])
        try:
            less = fewer(program, getattr(found, "loops", False), options)
            if not hasattr(found, "in_c"):
                raise Refused(f"the executor {found.name!r} makes no functions of C")
            if not found.supports(less, **options):
                raise Refused(f"the executor {found.name!r} does not support the program")
            address, held = found.in_c(less, backend, **options)
        except Refused as refusal:
            raise CFunctionError(f"cfunc: {refusal}{errors.called()}") from None
        shapes = [[program.shapes[n] for n in numbers] for numbers in (program.inputs, program.outputs)]
        return CFunction(name, address, held, *shapes)


def _closed(program: Program) -> Program:
    """Return a program that only takes floats, with outer values as constants; refuse anything a C function cannot do."""
    if program.keys:
        raise CFunctionError(f"cfunc: the program draws random numbers; pass them as an argument{errors.called()}")
    if program.writes:
        raise CFunctionError(f"cfunc: the program writes to {program.writes[0].target}{errors.called()}")
    constants = dict(program.constants)
    for number, origin in program.outside.items():
        value = origin.find()
        raw = value._raw if isinstance(value, Tensor) else value
        constants[number] = spec_of_value(value).backend.xp.asarray(raw, copy=True)
    inputs = tuple(number for number in program.inputs if number not in program.outside)
    for what, numbers in (("takes", inputs), ("gives", program.outputs)):
        other = next((program.shapes[n] for n in numbers if program.shapes[n].dtype not in FLOATS), None)
        if other is not None:
            raise CFunctionError(
                f"cfunc: it {what} {other}, and functions of C here {' and '.join(FLOATS)}{errors.called()}"
            )
    if not program.outputs or math.prod(program.shapes[program.outputs[0]].shape) != 1:
        shaped = program.shapes[program.outputs[0]] if program.outputs else "nothing"
        raise CFunctionError(
            f"cfunc: a C function returns one number, and the first result of the program is {shaped}{errors.called()}"
        )
    return program.replaced(inputs=inputs, constants=constants, outside={})
