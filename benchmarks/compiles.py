"""Which of the steps in `steps`, the examples and the gallery `ag.compile` compiles, and why it does not compile the rest.

Every top-level function of a page is compiled, except generators, functions with decorators, and ``main``. Functions
count that
are called directly: within the program of another function they are part of it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

#: Pages, and the arguments with which they take only seconds.
PAGES: dict[str, tuple[str, ...]] = {
    "examples/calibrated_ode.py": ("--years", "4"),
    "examples/digits.py": ("--epochs", "1"),
    "examples/export_step.py": ("--steps", "20"),
    "examples/fit_by_data.py": (),
    "examples/kalman_filter.py": ("--length", "50", "--steps", "10"),
    "examples/larger_than_memory.py": ("--small", "--passes", "2"),
    "examples/numpy_style.py": ("--short",),
    "examples/xarray_calibration.py": ("--small", "--backend", "numpy"),
    **{str(page.relative_to(ROOT)): () for page in sorted((ROOT / "docs/gallery").glob("*.py"))},
}

#: Per function: None if it is replayed, otherwise why it runs uncompiled.
Reasons = dict[str, str | None]


def reason_of(messages: list[warnings.WarningMessage], name: str) -> str | None:
    """Return why a function runs uncompiled; None if it does not have to."""
    for one in messages:
        text = str(one.message).partition("\n")[0]
        if text.startswith(f"{name} "):
            return text.removeprefix(f"{name} ").removeprefix("runs as it is: ")
    return None


def of_steps() -> Reasons:
    """Compile the steps, and call each four times."""
    from steps import STEPS

    import agrad as ag

    found: Reasons = {}
    for name, make in STEPS.items():
        ag.manual_seed(0)
        function, args = make()
        compiled = ag.compile(function, check=False)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(4):
                compiled(*args)
        found[name] = None if compiled.programs else reason_of(said, function.__name__) or "?"
    return found


class Compiling(ast.NodeTransformer):
    """Put a decorator, `NAME`, on the top-level functions of a page."""

    NAME = "__compiled__"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        is_generator = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))
        if not node.decorator_list and not is_generator and node.name != "main":
            node.decorator_list = [ast.copy_location(ast.Name(self.NAME, ast.Load()), node)]  # code as without it
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node


def of_page(name: str) -> Reasons:
    """Run a page with its functions compiled."""
    import agrad as ag

    path, made = ROOT / name, {}

    def compiled(function: Callable[..., Any]) -> Any:
        made[function.__name__] = ag.compile(function, check=False)
        return made[function.__name__]

    text = path.read_text(encoding="utf-8")
    names = {"__name__": "__main__", "__file__": str(path), Compiling.NAME: compiled}
    sys.argv, sys.path[0] = [str(path), *PAGES[name]], str(path.parent)
    if "--output" in text:
        sys.argv += ["--output", str(Path(tempfile.mkdtemp(), "output"))]
    code = compile(ast.fix_missing_locations(Compiling().visit(ast.parse(text))), str(path), "exec", dont_inherit=True)
    sys.modules["__main__"].__dict__.update(names)
    with (
        warnings.catch_warnings(record=True) as said,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.chdir(tempfile.mkdtemp()),
    ):
        warnings.simplefilter("always")
        try:
            exec(code, sys.modules["__main__"].__dict__)  # noqa: S102 (a page of ours)
        except SystemExit as end:
            if end.code:
                raise
    reasons = {name: reason_of(said, name) for name in made}
    return {name: reasons[name] for name, function in made.items() if function.programs or reasons[name]}
