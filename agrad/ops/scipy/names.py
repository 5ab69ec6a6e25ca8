"""What SciPy's own functions, which make NumPy arrays of tensors, say: the function of agrad's to call instead."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import FrameType

from agrad.core.elsewhere import NAMESPACES
from agrad.core.errors import INTERNAL_FILES, line_of


def instead_of(frame: FrameType | None) -> str:
    """Return the sentence that names the function to call, if the frames that called are of one of SciPy's; nothing otherwise."""
    found = ""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("scipy."):
        if not frame.f_globals.get("__name__", "").startswith(("agrad.", "numpy", "array_api_compat")):
            return ""
        frame = frame.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("scipy.", "numpy")):
        found = _name_of(frame) or found
        frame = frame.f_back
    if not found or (frame is not None and frame.f_code.co_filename in INTERNAL_FILES):
        return ""
    line = f", called at {line_of(frame.f_code, frame.f_lasti)}," if frame is not None else ""
    return f"\n  SciPy's own function{line} takes arrays only: use {found}."


def _name_of(frame: FrameType) -> str:
    """Return the name here of SciPy's function that a frame runs, or of that which a wrapper is for; nothing if there is none."""
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
    return next((f"{room}.{name}" for room in rooms if name in dir(importlib.import_module(room))), "")


#: Modules of SciPy's that have functions which are not in `agrad.scipy`, and where these are: of the same meaning.
_ELSEWHERE = {
    "fft": ("agrad.fft",),
    "linalg": ("agrad.linalg", "agrad.numpy.linalg"),
    "integrate": ("agrad.numpy",),
}


def _names_in(chapter: str) -> Collection[str]:
    """Return what a module of `agrad.scipy` shows, which is imported for the message alone; nothing if there is none."""
    room = f"agrad.scipy.{chapter}"
    return dir(importlib.import_module(room)) if room in NAMESPACES else ()
