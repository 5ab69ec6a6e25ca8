"""Write agrad/numpy/names.pyi, where type checkers and editors find what `agrad.numpy` gives by name.

``python docs/make_numpy_names.py`` writes the stub, from the table of `agrad.numpy.table`; with ``--check`` it only tells
whether the stub is up to date. What raises whatever it is given is left out: a checker then says that it is not there.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from agrad.numpy import _DTYPES
from agrad.numpy.table import REFUSED, table
from agrad.numpy.ufuncs import ufunc

STUB = Path(__file__).resolve().parent.parent / "agrad" / "numpy" / "names.pyi"

HEAD = '''"""The names of `agrad.numpy`, to type checkers. Written by docs/make_numpy_names.py."""

import builtins
from typing import Any

from agrad.core.tensor import Tensor
from agrad.numpy import fft as fft, linalg as linalg, random as random
from agrad.numpy.ufuncs import ufunc
'''

OF_RESULTS = """
class {name}(ufunc):
    def __call__(
        self,
        *operands: Any,
        out: Any = None,
        where: Any = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: Any = None,
        subok: builtins.bool = True,
        signature: Any = None,
        **more: Any,
    ) -> {result}: ...
"""


def stub() -> str:
    """Return the stub."""
    imports: dict[str, list[str]] = defaultdict(list)
    names = dict.fromkeys((*_DTYPES, "lib"), "Any")
    for name, entry in sorted(table().items()):
        function = entry.function
        if entry.status == REFUSED or "." in name:
            continue
        if isinstance(function, ufunc):
            names[name] = "_One" if function.nout == 1 else "_Two"
        elif hasattr(function, "__name__"):
            imports[function.__module__].append(f"{function.__name__} as {name}")
        else:  # what keys are given to, and what the array library has
            names[name] = "Any"
    text = HEAD
    for module, parts in sorted(imports.items()):
        lines = "".join(f"    {part},\n" for part in parts)
        text += f"from {module} import (\n{lines})\n"
    text += OF_RESULTS.format(name="_One", result="Tensor")
    text += OF_RESULTS.format(name="_Two", result="tuple[Tensor, Tensor]")
    return text + "\n" + "".join(f"{name}: {kind}\n" for name, kind in sorted(names.items()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        up_to_date = STUB.read_text(encoding="utf-8") == stub()
        sys.exit(0 if up_to_date else "agrad/numpy/names.pyi is out of date: run docs/make_numpy_names.py")
    STUB.write_text(stub(), encoding="utf-8")
