"""The error message if SciPy's own functions convert tensors to NumPy arrays: it names the agrad function to call instead."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import FrameType

from agrad.core.cpython import place_in
from agrad.core.errors import INTERNAL_FILES, line_of
from agrad.view.elsewhere import INSTEAD, NAMESPACES

#: Modules that only take NumPy arrays, and the replacements of their functions for tensors.
_TAKERS = {
    "scipy.sparse": "SciPy's sparse matrices take arrays only. Write ag.sparse.matmul(A, x) for A @ x, x @ A the other way round, and"
    " ag.sparse.from_scipy(A, values) for a matrix whose values have gradients.",
    "scipy.ndimage": "scipy.ndimage takes arrays only. agrad.scipy.signal.convolve filters with weights, and"
    " agrad.scipy.interpolate.RegularGridInterpolator looks up places between.",
    "scipy.spatial": "scipy.spatial takes arrays only. Distances of rows, with import agrad.numpy as np: np.linalg.norm(x[:, None] - y, axis=-1).",
    "sklearn": "scikit-learn differentiates within sklearn.config_context(array_api_dispatch=True), with SCIPY_ARRAY_API=1 in the"
    " environment before SciPy is imported: the functions that docs/third_party.md lists.",
    "pandas": "pandas takes arrays only: use its values, frame.to_numpy() @ x.",
}

#: Packages between the user's call and NumPy's conversion of a tensor.
_BETWEEN = frozenset({"agrad", "array_api_compat", "numpy"})


def _package_of(frame: FrameType) -> str:
    """Return the name of the package whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def cure_of(frame: FrameType | None) -> str:
    """Return the sentence that suggests a replacement for the code in the frames that created an array; nothing if unknown."""
    outer = frame
    while outer is not None and _package_of(outer) in _BETWEEN:
        outer = outer.f_back
    module = "" if outer is None else outer.f_globals.get("__name__", "")
    cure = next((text for name, text in _TAKERS.items() if f"{module}.".startswith(f"{name}.")), "")
    return f"\n  {cure}" if cure else instead_of(frame)


def instead_of(frame: FrameType | None) -> str:
    """Return the sentence that names the function to call, if the calling frames belong to one of SciPy's; nothing otherwise."""
    found = ""
    while frame is not None and _package_of(frame) != "scipy":
        if _package_of(frame) not in _BETWEEN:
            return ""
        frame = frame.f_back
    while frame is not None and _package_of(frame) in ("scipy", "numpy"):
        found = _name_of(frame) or found
        frame = frame.f_back
    if not found or (frame is not None and frame.f_code.co_filename in INTERNAL_FILES):
        return ""
    line = f", called at {line_of(*place_in(frame))}," if frame is not None else ""
    return f"\n  SciPy's own function{line} takes arrays only: use {found}."


def _name_of(frame: FrameType) -> str:
    """Return agrad's name for the SciPy function that a frame runs, or that it wraps; nothing if there is none."""
    kept = frame.f_locals
    inner = kept.get("f")
    module, name = frame.f_globals["__name__"], frame.f_code.co_name
    if name == "wrapper" and callable(inner):
        module, name = getattr(inner, "__module__", ""), getattr(inner, "__name__", "")
    chapter = f"{module}..".split(".")[1]
    names = _names_in(chapter)
    if "self" in kept:
        kind = type(kept["self"]).__name__.removesuffix("_gen").removesuffix("_frozen")
        if chapter == "stats":
            return f"agrad.scipy.stats.{kind}.{name}" if kind in names and not name.startswith("_") else ""
        name = kind
    if name in names:
        return f"agrad.scipy.{chapter}.{name}"
    rooms = _ELSEWHERE.get(chapter, ())
    found = next((f"{room}.{name}" for room in rooms if name in dir(importlib.import_module(room))), "")
    return found or INSTEAD.get(f"scipy.{chapter}.{name}", "").removeprefix("use ")


#: SciPy modules with functions that are not in `agrad.scipy`, and where agrad has them, with the same meaning.
_ELSEWHERE = {
    "fft": ("agrad.fft",),
    "linalg": ("agrad.linalg", "agrad.numpy.linalg"),
    "integrate": ("agrad.numpy",),
}


def _names_in(chapter: str) -> Collection[str]:
    """Return the public names of a module of `agrad.scipy`, imported only for the message; nothing if there is none."""
    room = f"agrad.scipy.{chapter}"
    return dir(importlib.import_module(room)) if room in NAMESPACES else ()
