"""Errors and warnings in terminals, notebooks and logs: the user's lines, and agrad's name for a wrong one.

Most messages about wrong names and keywords themselves say agrad's name. Where Python refuses a call before any code of
agrad runs, a note says it: it is added when the error is shown, or its traceback written out, as `logging` does.
`install` puts three functions into the hooks of Python and IPython, and one before `traceback.TracebackException`.
Tracebacks of uncaught errors leave out agrad's own frames and those of generated code; a warning of the array library is
shown at the user's line, with the operation. Errors that a program catches keep their tracebacks. ``AGRAD_TRACEBACK=full``
in the environment keeps all frames. The pytest plugin does the same for errors in tests.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import warnings
from collections.abc import Iterator
from traceback import TracebackException
from types import FrameType, TracebackType
from typing import Any

from agrad.core import names
from agrad.core.cpython import getframe
from agrad.core.errors import INTERNAL_FILES, LIBRARIES
from agrad.core.tensor import Tensor
from agrad.plugin import manager

#: The text shown where frames were left out.
LEFT_OUT = "agrad's own frames are left out above; with AGRAD_TRACEBACK=full in the environment they are shown."

#: The names that libraries use for a tensor's class in errors of their operators and functions.
TENSOR = f"{Tensor.__module__}.{Tensor.__qualname__}"

TOO_MANY = r"(?:\w+\.)*(\w+)\(\) takes (?:from \d+ to )?(\d+) positional arguments? but \d+ (?:positional arguments .*)?(?:was|were) given"
MISSING = r"(\w+)\(\) missing \d+ required positional arguments?: '(\w+)'"
NO_SUCH_IMPORT = r"cannot import name '(\w+)' from '([\w.]+)'"
#: The message of dask.array.map_overlap about tensors.
OF_OVERLAP = r"All variadic arguments must be arrays, not \[.*'Tensor'"

#: Attributes of PyTorch's dtypes that are methods of tensors.
OF_DTYPES = {"is_complex", "is_floating_point"}

#: What to write where a function of Dask refuses tensors, by its name for them.
OF_DASK = {
    "sources": "; dask.array.store takes Dask's arrays: x.detach().to_dask_array()",
    "collections": "; a client takes Dask's collections: agrad.persist(x) and agrad.compute(x) use the client that is active",
}


def is_own(frame: FrameType) -> bool:
    """Return whether a frame belongs to agrad: to the package, generated code, or a plugin named ``agrad_...``."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package in LIBRARIES:  # their frames are skipped only to find the user's line
        return False
    is_plugins = package.startswith("agrad_") and package in manager.packages()  # others' packages may have such names
    return is_plugins or frame.f_code.co_filename in INTERNAL_FILES


def without_own(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without agrad's own frames; unchanged if none would be left."""
    kept = []
    step = traceback
    while step is not None:
        if not is_own(step.tb_frame):
            kept.append(step)
        step = step.tb_next
    short = None
    for step in reversed(kept):
        short = TracebackType(short, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return short or traceback


def chain(error: BaseException) -> list[BaseException]:
    """Return an error, and those it came from."""
    found: list[BaseException] = []
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and all(one is not other for other in found):
            found.append(one)
            rest += [one.__cause__, one.__context__]
    return found


def explain(error: BaseException) -> None:
    """Add to an error agrad's name for a missing method, import or keyword, or a note that a library takes no tensors."""
    said = ""
    if isinstance(error, AttributeError) and isinstance(error.obj, Tensor) and error.name:
        said = names.hint("agrad.Tensor", error.name)
    elif isinstance(error, AttributeError) and is_module(error.obj) and error.name:
        said = names.hint_of_module(error.name)
    elif isinstance(error, AttributeError) and error.name in OF_DTYPES and type(error.obj).__module__ == "numpy.dtypes":
        said = f"; a tensor tells it: x.{error.name}()"
    elif isinstance(error, AttributeError) and is_labelled(error.obj) and hasattr(Tensor, error.name or ""):
        said = f"; the tensor is in .data: a.data.{error.name}"
    elif isinstance(error, ImportError):
        said = imported(error)
    elif isinstance(error, TypeError) and str(error).startswith("Mixed array types ['agrad."):
        said = "; import agrad.xarray puts them on one"
    elif isinstance(error, TypeError) and re.match(OF_OVERLAP, str(error)):
        said = "; agrad_dask.map_overlap takes tensors"
    elif isinstance(error, TypeError) and (match := names.UNEXPECTED.match(str(error))):
        said = "" if is_anothers(error) else names.keyword(*match.groups())
    elif isinstance(error, TypeError) and (match := re.match(TOO_MANY, str(error))):
        said = "" if is_anothers(error) else by_name(*match.groups())
    elif isinstance(error, TypeError) and (match := re.match(MISSING, str(error))):
        said = "" if is_anothers(error) else names.without(*match.groups())
    elif isinstance(error, AssertionError | ValueError) and (refused := of_dask(error)):
        said = refused
    elif isinstance(error, TypeError | ValueError) and TENSOR in str(error):
        said = "; the library's own operators and functions take no tensors: write tensor * array, or"
        said += " ag.asarray(array) * tensor, and agrad's functions"
    if not said or said in str(error):  # the message says so itself
        return
    note = f"{said[2:]}."
    if "did you mean" not in said and note not in getattr(error, "__notes__", ()):  # Python's own suggestion
        error.add_note(note)


def raised_in(error: BaseException) -> FrameType | None:
    """Return the frame that raised an error; None for one that was not raised."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return None if step is None else step.tb_frame


def is_anothers(error: TypeError) -> bool:
    """Return whether the function that refused a call is not agrad's, but another one of its name, such as the user's ``mean``."""
    owner, _, name = str(error).partition("(")[0].rpartition(".")
    if owner:
        return owner != "Tensor"
    frame = raised_in(error)
    if frame is None or is_own(frame):
        return False
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    return callable(found) and not str(getattr(found, "__module__", "")).startswith("agrad")


def of_dask(error: BaseException) -> str:
    """Return what to write where a function of Dask or distributed raised an error about tensors, "" elsewhere."""
    frame = raised_in(error)
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] not in {"dask", "distributed"}:
        return ""
    for name, said in OF_DASK.items():
        given = frame.f_locals.get(name, ())
        if isinstance(given, Tensor) or (isinstance(given, list | tuple) and Tensor in map(type, given)):
            return said
    return ""


def imported(error: ImportError) -> str:
    """Return agrad's name for a failed import from agrad, "" for other packages."""
    home, _, name = (error.name or "").rpartition(".")
    if match := re.match(NO_SUCH_IMPORT, str(error)):
        name, home = match.groups()
    return names.hint(home, name) if home.split(".")[0] == "agrad" and home in sys.modules else ""


def is_module(value: object) -> bool:
    """Return whether a value is an `nn.Module`; False if that file is not loaded."""
    loaded = sys.modules.get("agrad.nn.module")
    return loaded is not None and isinstance(value, loaded.Module)


def is_labelled(value: object) -> bool:
    """Return whether a value belongs to xarray and holds a tensor."""
    return type(value).__module__.startswith("xarray.") and isinstance(getattr(value, "data", None), Tensor)


def by_name(function: str, by_position: str) -> str:
    """Return the keyword-only parameters of an agrad function that were given by position, "" if there are none."""
    from agrad.view import elsewhere  # noqa: PLC0415 (for messages only)

    for full, takes in names.functions(function):
        first = next((p.name for p in takes.values() if p.kind is p.KEYWORD_ONLY), None)
        if first is not None and sum(p.kind is not p.KEYWORD_ONLY for p in takes.values()) == int(by_position):
            return f"; {elsewhere.OTHERWISE.get(function) or f'{full} takes {first}= by name only'}"
    return ""


@contextlib.contextmanager
def shortened(error: BaseException) -> Iterator[bool]:
    """Leave agrad's frames out of the tracebacks of an error and its causes, for a block; yield whether there were any."""
    explain(error)
    full = [] if os.environ.get("AGRAD_TRACEBACK") == "full" else [(one, one.__traceback__) for one in chain(error)]
    try:
        short = [(one, without_own(traceback)) for one, traceback in full]
        for one, traceback in short:
            one.__traceback__ = traceback
        yield any(frames(now) < frames(before) for (_, now), (_, before) in zip(short, full, strict=True))
    finally:
        for one, traceback in full:
            one.__traceback__ = traceback


def frames(traceback: TracebackType | None) -> int:
    """Return the number of frames of a traceback."""
    return 0 if traceback is None else 1 + frames(traceback.tb_next)


def install() -> None:
    """Install the functions of this file in Python, and in IPython if it is running."""
    excepthook, showwarning = sys.excepthook, warnings.showwarning

    def show_error(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        with shortened(error) as left_out:
            excepthook(kind, error, error.__traceback__)
        if left_out:
            sys.stderr.write(f"{LEFT_OUT}\n")

    def show_warning(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        frame: FrameType | None = getframe(1)
        while frame is not None and frame.f_code.co_filename != filename:
            frame = frame.f_back
        if frame is not None and is_own(frame):
            message = f"{message} (in {filename.strip('<>') if filename[0] == '<' else frame.f_code.co_name})"
            while frame.f_back is not None and is_own(frame):
                frame = frame.f_back
            filename, lineno = frame.f_code.co_filename, frame.f_lineno
        showwarning(message, category, filename, lineno, file, line)

    sys.excepthook, warnings.showwarning = show_error, show_warning
    write_out = TracebackException.__init__

    @functools.wraps(write_out)
    def write_out_explained(self: Any, exc_type: Any, exc_value: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(exc_value, BaseException):
            with contextlib.suppress(Exception):  # such as one whose `__str__` raises: it is written out all the same
                explain(exc_value)
        write_out(self, exc_type, exc_value, *args, **kwargs)

    TracebackException.__init__ = write_out_explained  # type: ignore[method-assign]
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        render = shell.InteractiveTB.structured_traceback

        def structured(kind: Any, error: BaseException, _: Any, *args: Any, **kwargs: Any) -> Any:
            with shortened(error) as left_out:
                text = render(kind, error, error.__traceback__, *args, **kwargs)
            return [*text, LEFT_OUT] if left_out else text

        shell.InteractiveTB.structured_traceback = structured
