"""The rules of the house: what imports what, what `import agrad` costs, and that the versions agree."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agrad"

# -- the tables: adjust here ------------------------------------------------------------------------------------------

#: Libraries that nothing under agrad/ imports, not even inside a function.
ARRAY_LIBRARIES = {"cupy", "dask", "jax", "numpy", "scipy", "torch"}

#: Loaded at the first tensor, not by `import agrad`.
LATE = {"array_api_compat", "pluggy"}

#: Lowest first. A module imports, at module level, from its own rank and below. "agrad.x" is that one module,
#: "agrad.x.*" the module and everything under it; the longest match counts.
LAYERS = [
    [
        "agrad.core.archive",
        "agrad.core.errors",
        "agrad.core.files",
        "agrad.core.mode",
        "agrad.core.once",
        "agrad.core.spec",
        "agrad.dtypes",
    ],
    ["agrad.core.node"],
    ["agrad.core.rule", "agrad.core.hooks"],
    ["agrad.core.tensor"],
    ["agrad.core.lazy", "agrad.core.saved"],
    ["agrad.core.op", "agrad.core.declare", "agrad.core.rules"],
    ["agrad.core.engine", "agrad.core.forward", "agrad.core.function"],
    ["agrad.core"],
    ["agrad.plugin.*"],
    ["agrad.ops.*"],
    [
        "agrad.autograd.*",
        "agrad.func.*",
        "agrad.lazy",
        "agrad.nn.*",
        "agrad.optim.*",
        "agrad.random.*",
        "agrad.serialization",
        "agrad.testing.*",
        "agrad.tree",
        "agrad.utils.*",
        "agrad.view.*",
    ],
    ["agrad.extra", "agrad.fft", "agrad.linalg", "agrad.special"],
    ["agrad", "agrad.__main__", "agrad.backends.*"],
    ["agrad.einops", "agrad.testing.kit", "agrad.testing.report", "agrad.testing.suite.*"],
]

# -- reading the source -----------------------------------------------------------------------------------------------


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def tree_of(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"), FILES[module])


def targets(node: ast.stmt | ast.expr, module: str) -> Iterator[str]:
    """Give the modules that an import statement, or a call of import_module or __import__, names."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            base = node.module or ""
            if node.level:
                package = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *base.split(".")]).rstrip(".")
            for alias in node.names:  # `from agrad.core import errors` means agrad.core.errors
                member = f"{base}.{alias.name}"
                yield member if member in FILES else base
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def module_level(node: ast.AST) -> Iterator[ast.stmt]:
    """Give the import statements that run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import() | ast.ImportFrom():
                yield child
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                pass
            case ast.If(test=test) if is_type_checking(test):
                for statement in child.orelse:
                    yield from module_level(ast.Module([statement], []))
            case _:
                yield from module_level(child)


def rank_of(module: str) -> int | None:
    """Give the rank of the longest entry of LAYERS that covers the module."""
    found, length = None, 0
    for rank, layer in enumerate(LAYERS):
        for entry in layer:
            stem = entry.removesuffix(".*")
            covers = module == stem or (entry != stem and module.startswith(stem + "."))
            if covers and len(stem) > length:
                found, length = rank, len(stem)
    return found


# -- imports ----------------------------------------------------------------------------------------------------------


def test_there_is_something_to_read():
    assert "agrad.core.errors" in FILES


@pytest.mark.parametrize("module", FILES)
def test_no_array_library_is_imported(module):
    found = [
        f"{FILES[module].relative_to(ROOT)}:{node.lineno} imports {target}"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.stmt | ast.expr)
        for target in targets(node, module)
        if target.partition(".")[0] in ARRAY_LIBRARIES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", FILES)
def test_layers_import_one_way(module):
    own = rank_of(module)
    assert own is not None, f"{module} has no layer: add it to LAYERS"
    found = []
    for node in module_level(tree_of(module)):
        for target in dict.fromkeys(targets(node, module)):
            if target.partition(".")[0] != "agrad":
                continue
            rank = rank_of(target)
            assert rank is not None, f"{target}, imported by {module}, has no layer: add it to LAYERS"
            if rank > own:
                found.append(f"{FILES[module].relative_to(ROOT)}:{node.lineno} imports {target}, a higher layer")
    assert not found, "\n".join(found)


def test_the_reader_sees_what_it_should():
    source = """
        import numpy.linalg
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import hidden
        else:
            import shown
        try:
            from agrad.core import errors, nonsense
        finally:
            pass
        class C:
            from . import errors
            def f(self):
                import hidden
        importlib.import_module("torch.nn")
    """
    tree = ast.parse(textwrap.dedent(source))
    module = "agrad.core.errors"
    seen = [target for node in module_level(tree) for target in targets(node, module)]
    assert seen == ["numpy.linalg", "typing", "shown", "agrad.core.errors", "agrad.core", "agrad.core.errors"]
    calls = [t for node in ast.walk(tree) if isinstance(node, ast.expr) for t in targets(node, module)]
    assert calls == ["torch.nn"]


# -- a fresh interpreter ----------------------------------------------------------------------------------------------

BLOCK = """
    import sys

    class Block:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {blocked!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Block())
"""


def python(source: str, *, blocked: set[str] = frozenset()) -> str:
    """Run the source in a fresh interpreter that cannot import what is blocked, and give what it prints."""
    code = textwrap.dedent(BLOCK).format(blocked=blocked) + textwrap.dedent(source)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AGRAD_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agrad_imports_without_anything_else():
    python("import agrad", blocked=ARRAY_LIBRARIES | LATE)


def test_without_a_backend_the_first_tensor_says_what_to_install():
    source = """
        import agrad

        try:
            agrad.asarray([1.0])
        except Exception as error:
            print(error)
    """
    assert 'pip install "agrad[numpy]"' in python(source, blocked=ARRAY_LIBRARIES)


def test_importing_agrad_loads_no_array_library_and_no_plugin():
    source = """
        before = set(sys.modules)
        import agrad
        print(*{name.partition(".")[0] for name in set(sys.modules) - before})
    """
    loaded = set(python(source).split())
    assert "agrad" in loaded
    assert not loaded & (ARRAY_LIBRARIES | LATE)


# -- continuous integration -------------------------------------------------------------------------------------------

WORKFLOW = ROOT / ".github/workflows/ci.yml"


def sessions() -> set[str]:
    """Give the names of the sessions in the noxfile."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if any("nox.session" in ast.unparse(d) for d in f.decorator_list)}


def jobs() -> dict:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def matrix(job: dict, key: str) -> list[str]:
    return job["strategy"]["matrix"][key]


def test_the_workflow_calls_sessions_that_exist():
    steps = [step for job in jobs().values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    called = {name for command in commands for name in re.findall(r"nox -s (\w+)", command)}
    assert called <= sessions()
    assert {"backend", "conformance", "gpu", "minimum", "tests", "wheels"} <= called
    assert ".ci/run" in commands
    assert "nox -s tests" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_workflow_covers_every_python_and_backend():
    prefix = "Programming Language :: Python :: 3."
    pythons = [c.rpartition(" ")[2] for c in project("pyproject.toml")["classifiers"] if c.startswith(prefix)]
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    table = text.partition("BACKENDS: ")[2].partition("\n}\n")[0]
    for name in ("tests", "backends"):
        assert matrix(jobs()[name], "python") == pythons
    assert matrix(jobs()["backends"], "backend") == re.findall(r'^    "(\w+)": \(', table, flags=re.MULTILINE)
    systems = {row["os"] for row in jobs()["backends"]["strategy"]["matrix"]["include"] if row["backend"] == "numpy"}
    assert systems == {"macos-latest", "windows-latest"}


def test_the_standards_suite_is_pinned():
    (ref,) = (s["with"]["ref"] for s in jobs()["conformance"]["steps"] if "ref" in s.get("with", {}))
    assert re.fullmatch(r"[0-9a-f]{40}", ref)


# -- versions ---------------------------------------------------------------------------------------------------------

PROJECTS = ["pyproject.toml", *(f"plugins/{name}_backend/pyproject.toml" for name in ("numpy", "dask", "cupy"))]


def project(path: str) -> dict:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


def test_every_project_is_here():
    assert {f"plugins/{file.parent.name}/pyproject.toml" for file in ROOT.glob("plugins/*/pyproject.toml")} == set(
        PROJECTS[1:]
    )


@pytest.mark.parametrize("path", PROJECTS)
def test_versions_and_pins_agree(path):
    version = project("pyproject.toml")["version"]
    meta = project(path)
    assert meta["version"] == version
    extras = [need for extra in meta.get("optional-dependencies", {}).values() for need in extra]
    pins = [need for need in [*meta["dependencies"], *extras] if need.startswith("agrad")]
    assert pins
    assert all(pin.endswith(f"=={version}") for pin in pins)


def test_agrad_knows_its_version():
    import agrad

    assert agrad.__version__ == project("pyproject.toml")["version"]
