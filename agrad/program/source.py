"""Programs as modules: ``Program.source``, which a backend writes, and the expansion of operations that other libraries lack.

Operations that only agrad has, such as `agrad.nn`, are expanded into the standard's functions: their kernels are
recorded step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agrad.core.op import OPS
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.plugin import manager
from agrad.program.blank_recording import BlankRecorder, run_on_blanks
from agrad.program.closures import AccessPath
from agrad.program.program import HERE, DType, Program, Ref, Shaped, Step, attached, mapped, refuse_seeds
from agrad.program.recording import CaptureError, Recorded, recording_backend


@attached
class SourceMethods:
    """The members of a program that this file defines."""

    def source(self: Any, *, notes: bool = True, backend: str = "numpy") -> str:
        """Return the program as the text of a module that only needs NumPy, with the function ``program``.

        Its parameters are the array parameters of the captured function; then, with defaults, the outer tensors and the
        constants of 1,000 elements and more, by name: `arrays` returns them; then ``key``, the state of the generator,
        if random numbers are drawn. It returns the function's result, in plain containers; if the function wrote to
        outer tensors, a pair of that and a dict of their new values. The module's docstring lists everything with
        shapes and dtypes.

        Operations that only agrad has, such as those of `agrad.nn`, are written in NumPy's functions; their last digits
        may differ from those of a backend's own kernels. The header says where SciPy is needed: for special functions
        that NumPy lacks.

        Parameters
        ----------
        notes : bool, optional
            Whether each line ends with shape, dtype and the user's line.
        backend : str, optional
            The backend whose library the module uses instead, if it writes modules (`Backend.source`).

        Returns
        -------
        str
            The text of a module. It contains no agrad code, and runs without agrad.

        Raises
        ------
        UnsupportedOp
            If the backend writes none.
        TypeError
            If one of the user's operations has no kernel in the standard's functions, or the function returned an
            object of a user's class.

        See Also
        --------
        arrays

        Examples
        --------
        >>> import agrad as ag
        >>> program = ag.func.capture(lambda x: ag.sum(ag.sin(x)))(ag.ones(3))
        >>> print(program.source(notes=False).partition("@")[2])
        np.errstate(all="ignore")
        def program(x):
            x = given('x', x, (3,), 'float64')
            v1 = np.sin(x)
            v2 = np.sum(v1, axis=None); del v1
            return v2
        <BLANKLINE>
        """
        return _module(self, backend, notes=notes)[0]

    def arrays(self: Any, *, backend: str = "numpy") -> dict[str, Any]:
        """Return the further arguments of the function of `source`, by parameter, with their current values.

        Parameters
        ----------
        backend : str, optional
            That of `source`.

        Returns
        -------
        dict of str to array
            The tensors from outside and the large constants, as arrays of their library.

        Raises
        ------
        LookupError
            If a tensor no longer exists.

        Examples
        --------
        >>> import agrad as ag
        >>> w = ag.tensor([2.0, 3.0])
        >>> program = ag.func.capture(lambda x: w * x)(ag.ones(2))
        >>> program.arrays()
        {'w': array([2., 3.])}
        """
        found = {}
        for name, value in _module(self, backend)[1].items():
            there = value.find() if isinstance(value, AccessPath) else value
            found[name] = there._raw if isinstance(there, Tensor) else there
        return found


def _module(program: Program, backend: str, *, notes: bool = True) -> tuple[str, Mapping[str, Any]]:
    """Return the text of a program's module, and the further arguments of its function."""
    refuse_seeds(program, "be written as a module")
    return manager.get(backend).source(program.without_detach(), notes=notes)


# -- operations written out -------------------------------------------------------------------------------------------


def written_out(program: Program, spelled: Callable[[Step, Mapping[int, Shaped]], bool]) -> Program:
    """Return a program without steps that only agrad has: they are replaced by their kernels, in the standard's functions.

    Parameters
    ----------
    program : Program
        Not changed.
    spelled : callable
        Says of a step, and shapes by number, whether it is kept.

    Returns
    -------
    Program
        With the same numbers for inputs, constants and outputs.

    Raises
    ------
    TypeError
        If an operation is a user's, without a kernel in the standard's functions.
    """
    if all(spelled(step, program.shapes) for step in program.steps):
        return program
    steps: list[Step] = []
    shapes, constants = dict(program.shapes), dict(program.constants)
    same: dict[int, int] = {}  # the replacements of the results of expanded steps

    def now(number: int) -> int:
        while number in same:
            number = same[number]
        return number

    waiting = list(reversed(program.steps))
    while waiting:
        step = waiting.pop()
        step = step.taking({number: Ref(now(number)) for number in step.refs if number in same})
        if spelled(step, shapes):
            steps.append(step)
            continue
        recorder, results = recorded_kernel(step, shapes)
        same |= {
            out: made for out, made in zip(step.outs, results, strict=True) if out is not None and made is not None
        }
        waiting += reversed(recorder.steps)
        shapes |= recorder.shapes
        constants |= recorder.constants

    outputs = tuple(map(now, program.outputs))
    return program.replaced(steps=tuple(steps), outputs=outputs, shapes=shapes, constants=constants).needed()


def recorded_kernel(
    step: Step, shapes: Mapping[int, Shaped], kernel: Callable[..., Any] | None = None
) -> tuple[BlankRecorder, list[int | None]]:
    """Run the kernel of a step's operation, or another one, without data, recorded.

    Return the recorder and the numbers of its results.
    """
    op = OPS.get(step.op)
    kernel = kernel or (None if op is None else op.kernel)
    if kernel is None:
        raise TypeError(
            f"source(): {step.op}, called at {step.line or 'an unknown line'}, has no kernel in the standard's functions"
            " that could be written out; an operation of your own declares one by kernel="
        )
    recorder = BlankRecorder(max(shapes) + 1)
    recorder.line, recorder.region = step.line, step.region

    def run(xp: Any, values: Mapping[int, Recorded]) -> Any:
        inner = manager.default_backend()

        def value(part: Any) -> Any:
            kind = type(part)
            if kind is Ref:
                return values[part.number]
            if kind is DType:
                return inner.dtype(part)
            if kind is Shaped:
                return Spec(recording_backend(inner), part.shape, inner.dtype(part.dtype), inner.default_device())
            return inner.native_device(inner.default_device()) if part is HERE else part

        args = [mapped(value, part) for part in step.args]
        return kernel(xp, *args, **{name: mapped(value, part) for name, part in step.kwargs.items()})

    try:
        made = run_on_blanks(recorder, run, {number: shapes[number] for number in step.refs})
    except CaptureError as error:
        raise TypeError(
            f"source(): {step.op}, called at {step.line or 'an unknown line'}, cannot be written out: {error}"
        ) from error
    parts = made if step.several else (made,)
    return recorder, [part.ref.number if isinstance(part, Recorded) else None for part in parts]
