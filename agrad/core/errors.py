"""Every message that the core raises, and the user's own source line of a recorded call.

PyTorch's wording comes first where it exists, so that a search for the message finds help; what PyTorch leaves out (the
operation and the line of the forward call) follows.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from types import CodeType, FrameType
from typing import Any

from agrad.core.cpython import getframe, line_number, place_in, stores_an_item, unprofiled
from agrad.core.names import MISSING, without

__all__ = ["BackendError", "LeavesGraphWarning", "LostWriteWarning", "RecomputeWarning", "RuleError", "UnsupportedOp"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def sources(package: str) -> set[str]:
    """Return the files of a package in a folder."""
    return {
        os.path.join(folder, name) for folder, _, names in os.walk(package) for name in names if name.endswith(".py")
    }


#: Files whose frames are not the user's: those of the package, generated ones (added by ``compile_source``), the one
#: between a ``with`` statement and agrad's context managers, and xarray's (added by ``agrad.xarray``).
INTERNAL_FILES: set[str] = {str(contextlib.__file__)} | sources(PACKAGE)


def internal(file: str) -> None:
    """Treat a file as part of the package: messages skip its frames and name the line that called it."""
    INTERNAL_FILES.add(file)


def is_internal(file: str) -> bool:
    """Return whether the frames of a file are not the user's."""
    return file in INTERNAL_FILES


#: Libraries that call tensor methods for the user, and the loops that run these: messages skip their frames too.
LIBRARIES = frozenset(
    {
        "asyncio",
        "blosc2",
        "concurrent",
        "dask",
        "distributed",
        "matplotlib",
        "numpy",
        "opt_einsum",
        "pandas",
        "scipy",
        "sklearn",
    }
    | {"tornado", "xarray", "zarr"}
)


class UnsupportedOp(NotImplementedError):
    """A backend cannot run an operation, or no backend can in this way; the message says why."""

    def __init__(self, op: str, backend: str, reason: str) -> None:
        super().__init__(f"{op} is not supported{backend and f' by the {backend} backend'}: {reason}")
        self.op: str = op
        self.backend: str = backend
        self.reason: str = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.op, self.backend, self.reason)


class BackendError(RuntimeError):
    """A backend is unknown, missing or unusable, or operands belong to unrelated backends."""


class RuleError(TypeError):
    """A derivative is declared incorrectly; raised when it is declared, never when it is used."""


class LeavesGraphWarning(UserWarning):
    """A value left the graph while being differentiated, as a Python number or a copy: later results have no gradient."""


class RecomputeWarning(UserWarning):
    """A value computed from parameters and lazy data is computed again: the data are read twice."""


class LostWriteWarning(UserWarning):
    """An in-place operation changed a tensor that other libraries would make a view, and not the base of that view."""


# -- the user's own line ----------------------------------------------------------------------------------------------


def user_frame(frame: FrameType) -> FrameType:
    """Return the first frame outside agrad, going outwards from `frame`; the outermost if all are agrad's."""
    while frame.f_code.co_filename in INTERNAL_FILES and frame.f_back is not None:
        frame = frame.f_back
    return frame


def caller() -> tuple[CodeType, int]:
    """Return the code object and instruction of the user's call (a frame would keep all the caller's locals alive)."""
    return place_in(user_frame(getframe(1)))


def calling_frame() -> FrameType:
    """Return the first frame outside agrad and the libraries that call it; failing that, the first outside agrad."""
    first = frame = user_frame(getframe(1))
    while str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        if frame.f_back is None:
            return first
        frame = user_frame(frame.f_back)
    return frame


def called() -> str:
    """Return the sentence that ends a message with the user's line; empty in agrad's own threads, which have none."""
    frame = calling_frame()
    if frame.f_globals.get("__name__") == "threading":
        return ""
    return f"\n  Called at {line_of(*place_in(frame))}."


def name_of(value: Any, otherwise: str) -> str:
    """Return the name that the user's function has for a value."""
    bound = user_frame(getframe(1)).f_locals.items()
    return next((name for name, held in bound if held is value), otherwise)


def line_of(code: CodeType | None, lasti: int) -> str:
    """Return ``file.py:12`` for an instruction of a code object, ``Cell In[3], line 1`` in a notebook."""
    if code is None:
        return "an unknown line"
    return place(code.co_filename, line_number(code, lasti))


def place(file: str, line: int) -> str:
    """Return a line of a file as messages name it; cells of IPython get their names there."""
    cell = None
    if "IPython" in sys.modules:
        with unprofiled():  # IPython's functions run only for a message, not for a function that is being captured
            shell = sys.modules["IPython"].get_ipython()
            cell = None if shell is None else shell.compile.format_code_name(file)
    return f"{file}:{line}" if cell is None else f"{' '.join(cell)}, line {line}"


def at(node: Any) -> str:
    """Return the sentence that ends a message with a node's operation and the user's line."""
    if node.code is None:
        return "\n  It is a leaf: no operation made it."
    return f"\n  The operation is {node.name()}, recorded at {line_of(node.code, node.lasti)}."


def not_castable(given: object, wanted: object) -> RuntimeError:
    return RuntimeError(
        f"result type {given} can't be cast to the desired output type {wanted}"
        "\n  Part of the value could be lost. Change the dtype of the target, or convert the value, by"
        f" astype(). Called at {line_of(*caller())}."
    )


# -- messages of backward() and grad() --------------------------------------------------------------------------------


def no_grad_fn(index: int) -> RuntimeError:
    return RuntimeError(
        f"element {index} of tensors does not require grad and does not have a grad_fn"
        "\n  Nothing was recorded for it: no operand had requires_grad=True, or it was made under no_grad or detached,"
        " or by a function that returns the gradient too, as value_and_grad does, or from a comparison, an index or an"
        " integer, which have no derivative."
    )


def not_scalar(node: Any, shape: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(
        f"grad can be implicitly created only for scalar outputs\n  The output has shape {shape}; pass a gradient of"
        f" that shape, or reduce it first (for instance with .sum()).{at(node)}"
    )


def not_real(node: Any, dtype: Any) -> RuntimeError:
    return RuntimeError(
        f"grad can be implicitly created only for real scalar outputs but got {dtype}\n  Make it real: agrad.real(z) or"
        f" agrad.abs(z), np.real and np.abs. For the derivative of a holomorphic function: holomorphic=True.{at(node)}"
    )


def second_time(node: Any, freed: Any = None) -> RuntimeError:
    freed = node.saved if freed is None else freed
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
        f"saved tensors after calling backward.{at(node)}"
        f"\n  Its saved values were freed by the backward pass called at {line_of(freed.code, freed.lasti)}."
    )


def nan_found(node: Any, place: int) -> RuntimeError:
    return RuntimeError(f"Function '{node.name()}' returned nan values in its {place}th output.{at(node)}")


def cotangent_shape(index: int, got: tuple[int, ...], expected: tuple[int, ...], node: Any) -> RuntimeError:
    return RuntimeError(
        f"Mismatch in shape: grad_output[{index}] has a shape of {got} and output[{index}] has a shape of {expected}."
        f"{at(node)}"
    )


def cotangent_kind(index: int, got: Any, expected: Any, node: Any) -> RuntimeError:
    return RuntimeError(
        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
        f"grad_output[{index}] has a dtype of {got} and output[{index}] has a dtype of {expected}.{at(node)}"
    )


def backward_in_transform() -> RuntimeError:
    return RuntimeError(
        "backward() called inside a functorch transform. This is not supported, please use functorch.grad or"
        " functorch.vjp instead or call backward() outside of functorch transforms."
        "\n  Here these are agrad.func.grad and agrad.func.vjp; agrad.autograd.grad works inside too."
        f"{called()}"
    )


def batched_cotangent(index: int, got: tuple[int, ...], expected: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The"
        " sizes of the remaining dimensions are expected to match the shape of corresponding output, but a mismatch was"
        f" detected: grad_output[{index}] has a shape of {got} and output[{index}] has a shape of {expected}. If you only"
        f" want some tensors in `grad_output` to be considered batched, consider using vmap.\n  Called at"
        f" {line_of(*caller())}."
    )


def unused_input(index: int) -> RuntimeError:
    return RuntimeError(
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        f"Set allow_unused=True if this is the desired behavior.{called()}"
    )


def input_without_grad(index: int) -> RuntimeError:
    return RuntimeError(
        f"One of the differentiated Tensors does not require grad\n  It is the input at index {index}.{called()}"
    )


def wrong_count(node: Any, expected: int, got: int) -> RuntimeError:
    return RuntimeError(
        f"function {node.name()} returned an incorrect number of gradients (expected {expected}, got {got}){at(node)}"
    )


def wrong_shape(node: Any, index: int, got: tuple[int, ...], expected: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(
        f"Function {node.name()} returned an invalid gradient at index {index} - got {list(got)} but expected shape "
        f"compatible with {list(expected)}{at(node)}"
    )


def not_a_variable(node: Any, position: int) -> RuntimeError:
    return RuntimeError(
        f"function {node.name()} returned a gradient different than None at position {position}, but the corresponding "
        f"forward input was not a Variable{at(node)}"
    )


def not_a_gradient(node: Any, value: Any) -> RuntimeError:
    return RuntimeError(f"expected Variable or None (got {type(value).__name__}){at(node)}")


# -- messages of tensors ----------------------------------------------------------------------------------------------


def inexact_only(
    dtype: Any,
    which: str = "This one",
    cure: str = "convert it first, for instance with ag.astype(x, ag.float64)",
    more: str = "",
) -> RuntimeError:
    message = "only Tensors of floating point and complex dtype can require gradients"
    return RuntimeError(f"{message}\n  {which} is {dtype}; {cure}.{f' {more}' if more else ''}{called()}")


def leaf_in_place(target: Any, what: str) -> RuntimeError:
    message = "a leaf Variable that requires grad is being used in an in-place operation."
    if target._node.active:
        cure = (
            f"{what} would overwrite a value that gradients are asked for. Use an out-of-place operation, or wrap an update"
            " of parameters in ag.no_grad()."
        )
    else:  # the name that a transform gave to an argument: unrecorded, the derivative would be silently wrong
        name = name_of(target, "x")
        cure = (
            f"{name} is an argument of the function that is being differentiated, and {what} would overwrite it. Work on a"
            f" copy: {name} = {name}.copy() first."
        )
    return RuntimeError(f"{message}\n  {cure}{called()}")


def lost_assignment(how: str, instead: str) -> RuntimeError:
    return RuntimeError(
        f"this assignment would be lost: the target is the result of {how}, and results do not alias their operands in"
        f" agrad.\n  Write {instead} instead.{called()}"
    )


#: Modules with NumPy's names: a file that has imported one is code for NumPy.
NUMPYS = ("agrad.numpy", "agrad.compat.autograd", "agrad.compat.autograd.numpy")


def is_for_numpy(frame: FrameType) -> bool:
    """Return whether the file of a frame has imported NumPy's names from agrad."""
    modules = {id(sys.modules[name]) for name in NUMPYS if name in sys.modules}
    return not modules.isdisjoint(map(id, frame.f_globals.values()))


def check_meaning(numpys: str, torchs: str) -> None:
    """Refuse a method with different meanings in NumPy and PyTorch, if code for NumPy calls it; agrad's is PyTorch's.

    Parameters
    ----------
    numpys, torchs : str
        What to write for NumPy's meaning, and for PyTorch's.
    """
    frame = getframe(2)  # the caller of the method: within agrad the meaning is PyTorch's, whoever calls agrad
    if is_for_numpy(frame):
        raise TypeError(
            f"x.{getframe(1).f_code.co_name}() has two meanings: write {numpys}, or {torchs}"
            "\n  It is an error where agrad.numpy or agrad.compat.autograd is imported: code for NumPy relies on NumPy's"
            f" meaning, and a tensor's methods have PyTorch's.{called()}"
        )


def warn_at(frame: FrameType, message: str, category: type[Warning]) -> None:
    """Warn at the line of a frame; only once there if the filters say so."""
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def warn_meaning(message: str) -> None:
    """Warn of a method with different meanings in NumPy and PyTorch, in code that is neither for NumPy nor a library's."""
    frame = getframe(3)  # the caller of the method
    module = str(frame.f_globals.get("__name__")).partition(".")[0]
    if module in LIBRARIES or is_internal(frame.f_code.co_filename) or is_for_numpy(frame):
        return
    warn_at(frame, message, UserWarning)


def warn_lost_write(what: str, *, numpy_copies: bool) -> None:
    """Warn of a change that does not reach the tensor's would-be base; raise in code for NumPy.

    `numpy_copies` says that NumPy, unlike PyTorch, copies there, so that code for NumPy gets what it expects.
    """
    frame = calling_frame()
    message = (
        f"{what} changes this tensor alone, not the one it was taken from, as it would in NumPy and PyTorch: results do"
        " not share memory with their operands in agrad. To change the other, write to it directly (x[0] += 1 for row ="
        " x[0]; row += 1); to leave it as it is, work on a copy (row.clone()) or write the operation out (row = row + 1)."
    )
    if is_for_numpy(frame):
        if numpy_copies:
            return
        writer = user_frame(getframe(1))
        if writer is not frame:
            message += (
                f"\n  A library writes, at {line_of(*place_in(writer))}. Give it plain arrays, also from functions"
                " that it calls: x.detach().numpy().copy(), where no gradient is to go through it."
            )
        raise LostWriteWarning(
            f"{message}\n  It is an error where agrad.numpy is imported: code for NumPy relies on it.{called()}"
        )
    warn_at(frame, message, LostWriteWarning)


def mixed_backends(op: str, names: list[str]) -> BackendError:
    first, second = names[0], names[1]
    return BackendError(
        f"{op}: Expected all tensors to be on the same device, but found at least two backends, {first} and {second}!"
        f'\n  Move one operand, for instance with x.to_device("{first}").{called()}'
    )


def note_call(error: Exception, op: str, operands: tuple[Any, ...]) -> None:
    """Add the operation, its operands' shapes and the user's line to an error that a kernel raised."""
    shapes = ", ".join(map(_shape, operands))
    error.add_note(f"Raised by {op} on shapes {shapes}.{called()}")


def _shape(operand: Any) -> str:
    """Return the shape of an operand in words, or its value for a number; for a sequence those of its members."""
    if isinstance(operand, tuple | list):
        return f"[{', '.join(map(_shape, operand))}]"
    return str(getattr(operand, "shape", operand))


#: For xarray functions that use NumPy arrays, what to write instead.
_IN_XARRAY = {
    "_calc_idxminmax": "idxmax and idxmin make a tensor of the coordinate: write a.copy(data=a.data.detach().numpy()).idxmax(dim).",
    "sortby": "sortby orders by NumPy's arrays: give it by.copy(data=by.data.detach()); a itself is followed.",
    "interp_na": "interpolate_na takes NumPy's arrays: import agrad.xarray and write a.dropna(dim).interp({dim: a[dim]}),"
    " where gaps are along dim alone.",
}


def in_xarray() -> str:
    """Return what to write instead of the running xarray function; empty for most, and where none is running."""
    frame: FrameType | None = getframe(1) if "xarray" in sys.modules else None
    while frame is not None:
        said = _IN_XARRAY.get(frame.f_code.co_name)
        if said and str(frame.f_globals.get("__name__")).startswith("xarray."):
            return said
        frame = frame.f_back
    return ""


def not_numbers(dtype: Any) -> TypeError:
    return TypeError(
        f"can't convert an array of dtype {dtype} to a tensor. The only supported types are those of the array API"
        " standard: bool, integers, real and complex floating point."
        f"\n  {in_xarray() or 'Convert it first, for instance with a.astype(float).'} Called at {line_of(*caller())}."
    )


#: Libraries whose array values are plain numbers with labels.
_LABELLED = frozenset({"pandas", "polars", "xarray"})


def more_than_numbers(value: Any) -> TypeError | None:
    """Return the error for an array that its numbers alone do not describe, None for any other value.

    Such an array has a mask of missing elements (an attribute that is not a method), or a unit, or overrides NumPy's functions
    with its own ``__array_ufunc__``. agrad checks this where no plugin claims the type, or where NumPy's claims it as one of
    ``numpy.ndarray``'s subclasses.
    """
    kind = type(value)
    if any(t.__module__.partition(".")[0] in _LABELLED for t in kind.__mro__):
        return None
    if has_mask(value):
        return masked(value)
    own = getattr(kind, "__array_ufunc__", None)
    numpys: Any = next((t for t in kind.__mro__ if (t.__module__, t.__name__) == ("numpy", "ndarray")), None)
    is_other = callable(own) if numpys is None else own is not numpys.__array_ufunc__
    unit = next(
        (getattr(value, name) for name in ("units", "unit") if hasattr(value if is_other else kind, name)), None
    )
    if unit is None and not is_other:
        return None
    lost = "what it makes of NumPy's functions, by its own __array_ufunc__," if unit is None else f"its unit, '{unit}',"
    numbers = next((f"x.{name}, or " for name in ("magnitude", "value") if hasattr(kind, name)), "")
    return TypeError(
        f"can't convert a {kind.__name__} to a tensor: {lost} would be lost."
        f"\n  Give its numbers, {numbers}numpy.asarray(x), in the unit that the others are in.{called()}"
    )


def has_mask(array: Any) -> bool:
    """Return whether an array may have missing elements, judging by an attribute `mask` that is not a method."""
    return hasattr(array, "mask") and not callable(array.mask)


def masked(array: Any) -> TypeError:
    """Return the error for an array that has a mask."""
    fill = "m.filled(0)" if hasattr(array, "filled") else "ag.where(m.mask, 0, m.data)"
    return TypeError(
        f"can't convert a {type(array).__name__} to a tensor: its mask would be lost, as derivatives count every element."
        f"\n  Fill what is masked, {fill}, and pass the mask on where it counts: ag.where(m.mask, 0, x).{called()}"
    )


def not_an_operand(op: str, name: str, value: Any) -> TypeError:
    if value is MISSING:
        return TypeError(f"{op}() missing 1 required positional argument: '{name}'{without(op, name)}{called()}")
    return TypeError(
        f"{op}(): argument '{name}' must be Tensor, not {type(value).__name__}"
        f"\n  Convert it with ag.asarray(...).{called()}"
    )


def pandas_operand(op: str, value: Any) -> TypeError:
    kind = type(value).__name__
    return TypeError(
        f"{op}: unsupported operand type(s): 'Tensor' and '{kind}'\n  pandas would align labels, which tensors do not have. Use"
        f" the values: x.to_numpy() of the {kind}.{called()}"
    )


def not_a_number(op: str, name: str) -> TypeError:
    return TypeError(
        f"{op}(): argument '{name}' must be a number: no derivative is taken by it, and that of a tensor that requires"
        " grad would be lost.\n  Write the formula out to differentiate by it, or pass the value:"
        f" {name}.detach().{called()}"
    )


def real_only(op: str, dtypes: list[Any]) -> TypeError:
    return TypeError(
        f"{op}() takes real floating tensors, not {' and '.join(map(str, dtypes))}\n  Convert it first, for instance with ag.astype(x, ag.float64)"
        f" or ag.real(z).{called()}"
    )


def where_stored(frame: FrameType) -> str:
    """Return the sentence for a number requested by ``y[i] = x``, where `y` is the library's array; otherwise empty."""
    if not stores_an_item(frame):
        return ""
    return (
        " An element of an array was set to it: make that array with agrad.numpy, as by np.zeros, to keep the gradient."
    )


def warn_leaves(how: str, instead: str) -> None:
    warn_at(
        calling_frame(),
        f"{how} takes the value of a tensor out of the graph where a derivative is taken: what is computed from it is"
        f" constant. {instead}",
        LeavesGraphWarning,
    )


def leaves_graph(how: str, instead: str = "") -> RuntimeError:
    return RuntimeError(
        f"Can't call {how} on Tensor that requires grad. Use tensor.detach().{how} instead.{instead}{called()}"
    )


def in_expression(library: str) -> RuntimeError:
    return RuntimeError(
        f"Can't make an operand of a lazy expression of {library} of a Tensor that requires grad. Use tensor.detach() instead."
        "\n  It would be computed without a gradient. On the left of the operator the tensor is asked first: tensor * array,"
        f" or ag.asarray(array) * tensor.{called()}"
    )


def in_dask() -> RuntimeError:
    return RuntimeError(
        "Can't make a Dask array or task of a Tensor that requires grad. Use tensor.detach() instead."
        "\n  Dask would take the value and lose the gradient. NumPy's functions take tensors and Dask arrays and are recorded:"
        " np.where for dask.array.where; agrad_dask.map_blocks is dask.array's. For chunks, "
        'x.to_device("dask").rechunk(...) instead of from_array; import agrad.xarray for DataArray.chunk, xr.map_blocks and'
        f' xr.apply_ufunc(dask="parallelized").{called()}'
    )
