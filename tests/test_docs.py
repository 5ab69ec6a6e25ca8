"""The documentation: docstrings name what signatures have, examples run, generated pages are up to date."""

from __future__ import annotations

import ast
import copy
import doctest
import functools
import importlib
import inspect
import itertools
import linecache
import pickle
import pydoc
import re
import subprocess
import sys
import textwrap
import types
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support import with_text

import agrad as ag
from agrad.compat import autograd
from agrad.core.op import OPS
from agrad.ops import docs
from agrad.ops.docs import complete, original_of
from agrad.torch_functions import METHODS as METHODS_OF_PYTORCH
from agrad.torch_functions import __all__ as OF_PYTORCH

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

#: Public namespaces by name; in the first few every function computes with arrays and shows how.
ARRAYS = {
    "linalg": ag.linalg,
    "fft": ag.fft,
    "special": ag.special,
    "extra": ag.extra,
    "nn.functional": ag.nn.functional,
}
OTHERS = {
    "nn.init": ag.nn.init,
    "nn.utils": ag.nn.utils,
    "nn.utils.parametrizations": ag.nn.utils.parametrizations,
    "nn.utils.rnn": ag.nn.utils.rnn,
    "optim": ag.optim,
    "autograd": ag.autograd,
    "autograd.functional": ag.autograd.functional,
    "autograd.forward_ad": ag.autograd.forward_ad,
    "func": ag.func,
    "sparse": ag.sparse,
}

#: Namespaces whose names are another library's: docstrings say what differs.
REFERRING = {
    f"scipy.{name}": importlib.import_module(f"agrad.scipy.{name}")
    for name in ("integrate", "interpolate", "linalg", "optimize", "signal", "sparse.linalg")
}

#: Classes that nobody calls with arguments of their own.
UNCALLED = {ag.Device: "takes what str takes", ag.Function: "is subclassed and never called"}

# -- reading a docstring ----------------------------------------------------------------------------------------------


def sections(text):
    """Give the lines of a numpydoc docstring by section; those before the first section under ""."""
    found, heading = {"": []}, ""
    for line, following in itertools.pairwise([*inspect.cleandoc(text).splitlines(), ""]):
        if line and following == "-" * len(line):
            heading = line
            found[heading] = []
        elif line != "-" * max(len(heading), 1):
            found[heading].append(line)
    return found


def described(lines):
    """Give the names that a section of parameters describes, and those that lack a description."""
    names, bare = [], []
    for line, following in itertools.pairwise([*lines, ""]):
        if line and not line.startswith(" "):
            group = [name.strip().lstrip("*") for name in line.partition(" : ")[0].split(",")]
            names += group
            bare += [] if following.startswith("    ") else group
    return names, bare


def problems(value, *, example=False):
    """Give what is wrong with the docstring of a function, a class or a method."""
    if not value.__doc__:
        return ["no docstring"]
    found = sections(value.__doc__)
    wrong = [] if found[""][0].endswith(".") else ["the first line is no sentence"]
    if inspect.isclass(value) and (issubclass(value, BaseException) or value in UNCALLED):
        return wrong
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return wrong  # `no_grad` and its like, objects that their class describes
    signature = inspect.signature(value)
    names, bare = described(found.get("Parameters", []))
    wanted = [name for name in signature.parameters if name not in {"self", "cls"}]
    wrong += [f"{name} is not documented" for name in wanted if name not in names]
    wrong += [f"{name} is no parameter" for name in names if name not in wanted]
    wrong += [f"{name} is not described" for name in bare]
    wrong += [f"{name} is documented twice" for name in set(names) if names.count(name) > 1]
    result = signature.return_annotation
    gives = not inspect.isclass(value) and result not in {signature.empty, None, "None", "NoReturn"}
    if gives and not {"Returns", "Yields"} & set(found):
        wrong.append("no section Returns")
    if example and not any(line.startswith(">>> ") for line in found.get("Examples", [])):
        wrong.append("no example")
    return wrong


# -- what is public ---------------------------------------------------------------------------------------------------


def members(name, module):
    for public in module.__all__:
        value = getattr(module, public)
        if callable(value) and not isinstance(value, types.ModuleType) and value.__module__ != "builtins":
            yield f"{name}.{public}", value


PUBLIC = dict(members("agrad", ag))
PUBLIC |= {f"agrad.{name}": getattr(ag, name) for name in sorted({*METHODS_OF_PYTORCH, *OF_PYTORCH} - {"Size"})}
for _name, _module in (ARRAYS | OTHERS).items():
    PUBLIC |= dict(members(_name, _module))
METHODS = {
    f"Tensor.{name}": getattr(ag.Tensor, name)
    for name in dir(ag.Tensor)
    if not name.startswith("_") and callable(inspect.getattr_static(ag.Tensor, name))
}
PROPERTIES = [n for n in dir(ag.Tensor) if isinstance(inspect.getattr_static(ag.Tensor, n), property)]
DOCUMENTED = PUBLIC | METHODS


def computes(name, value):
    """Tell whether a function belongs to an array namespace: these show an example."""
    if name.rpartition(".")[0] in ARRAYS:
        return True
    return name.startswith("agrad.") and inspect.isfunction(value) and value.__module__.startswith("agrad.ops.")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_say_what_signatures_have(name):
    value = DOCUMENTED[name]
    assert problems(value, example=computes(name, value)) == []


@pytest.mark.parametrize("name", PROPERTIES)
def test_attributes_are_described(name):
    assert inspect.getattr_static(ag.Tensor, name).__doc__


def test_problems_are_seen():
    def good(x, *rest) -> int:
        """Do it.

        Parameters
        ----------
        x : int
            One.
        *rest : int
            More.

        Returns
        -------
        int
            It.
        """

    def bad(x, y) -> int:
        """Do it

        Parameters
        ----------
        x, z : int
        """

    assert problems(good) == []
    assert problems(good, example=True) == ["no example"]
    assert problems(bad) == [
        "the first line is no sentence",
        "y is not documented",
        "z is no parameter",
        "x is not described",
        "z is not described",
        "no section Returns",
    ]
    assert problems(lambda: None) == ["no docstring"]


def short(x, y, /, *more, axis=None) -> Tensor:  # noqa: F821
    """Do it.

    As it should be done.

    x : int
        One.
    y: Another,
        described at length.
    Returns: It.
    ValueError: If it is wrong.
    TypeError:
        If it is worse.
    How it is done.

    In detail.

    >>> 1
    1
    """


def test_short_docstrings_are_completed():
    parameters = {"axis": "int, optional\n    The axis.", "more": "int\n    More.", "y": "float\n    Not shown."}
    complete({"short": short}, parameters, source="Source: here.")
    assert problems(short, example=True) == []
    assert inspect.getdoc(short).splitlines() == [
        *("Do it.", "", "As it should be done.", ""),
        *("Parameters", "----------", "x : int", "    One.", "y : float", "    Another,", "    described at length."),
        *("*more : int", "    More.", "axis : int, optional", "    The axis.", ""),
        *("Returns", "-------", "Tensor", "    It.", ""),
        *("Raises", "------", "ValueError", "    If it is wrong.", "TypeError", "    If it is worse.", ""),
        *("Notes", "-----", "How it is done.", "", "In detail.", "Source: here.", ""),
        *("Examples", "--------", ">>> import agrad as ag", ">>> 1", "1"),
    ]
    whole = short.__doc__
    complete({"short": short}, {}, source="Source: elsewhere.")
    assert short.__doc__ == whole


READERS = {
    "help": pydoc.getdoc,
    "getdoc": inspect.getdoc,
    "print": lambda f: inspect.cleandoc(str(f.__doc__)),
    "format": lambda f: inspect.cleandoc(f"{f.__doc__}"),
    "doctest": lambda f: inspect.cleandoc(doctest.DocTestFinder().find(f, "f", globs={})[0].docstring),
    "pickle": lambda f: inspect.cleandoc(pickle.loads(pickle.dumps(f.__doc__))),
    "lines": lambda f: inspect.cleandoc("\n".join(f.__doc__.splitlines())),
    "copy": lambda f: inspect.cleandoc(copy.copy(f.__doc__)),
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_a_docstring_gets_the_whole_one(reader):
    def function(self, x) -> Tensor:  # noqa: F821
        """Do it.

        x: One.

        >>> 1
        1
        """

    complete({"function": function}, {}, methods=True)
    assert isinstance(function.__doc__, str)
    assert "Parameters\n----------\nx : Tensor\n    One." in READERS[reader](function)
    assert type(function.__doc__) is str  # from now on as any other


def test_docstrings_wait_until_they_are_read():
    source = """
        import agrad
        from agrad.ops.docs import Short
        print(sum(type(getattr(agrad, name).__doc__) is Short for name in agrad.__all__))
    """
    for options, waiting in ([], 150), (["-OO"], 0):
        done = subprocess.run(
            [sys.executable, *options, "-c", textwrap.dedent(source)], capture_output=True, check=True
        )
        assert (int(done.stdout) >= waiting) if waiting else int(done.stdout) == 0


# -- names that are another library's -----------------------------------------------------------------------------------


def unsaid(value, original, text):
    """Give the parameters that only one of two functions has, and that a docstring does not name."""
    ours, theirs = (inspect.signature(f).parameters for f in (value, original))
    rest = any(p.kind is p.VAR_KEYWORD for p in ours.values())  # the original's others
    differing = ({*ours} - {*theirs}) | (set() if rest else {*theirs} - {*ours})
    return sorted(name for name in differing if f"`{name}`" not in text)


REFERRING_NAMES = {
    f"{space}.{name}": getattr(module, name) for space, module in REFERRING.items() for name in module.__all__
}


@pytest.mark.parametrize("name", REFERRING_NAMES)
def test_docstrings_say_what_differs_from_the_original(name):
    value = REFERRING_NAMES[name]
    text = inspect.getdoc(value)
    assert text.splitlines()[0].endswith(".")
    original = original_of(name)
    assert original is not None or name == "scipy.linalg.logdet"
    if original is not None:
        assert unsaid(value, original, text) == []


@pytest.mark.parametrize("name", autograd.__all__)
def test_names_of_hips_autograd_are_described(name):
    value = getattr(autograd, name)
    if value.__module__ != "builtins":
        assert inspect.getdoc(value).splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", ["complex_convention", "install", "set_complex_convention", "uninstall"])
def test_what_only_agrads_door_has_is_described_whole(name):
    assert problems(getattr(autograd, name)) == []


def test_what_differs_is_seen():
    def original(x, axis, copy):
        pass

    def ours(x, axis, keepdims):
        pass

    def takes_others(x, **options):
        pass

    assert unsaid(ours, original, "Do it with `copy`.") == ["keepdims"]
    assert unsaid(ours, original, "Do it.") == ["copy", "keepdims"]
    assert unsaid(takes_others, original, "`options` are others.") == []


ORIGINALS = {
    "agrad.numpy.cumsum": "numpy.cumsum",
    "agrad.numpy.sin": "numpy.sin",
    "agrad.numpy.linalg.norm": "numpy.linalg.norm",
    "agrad.numpy.random.normal": "numpy.random.Generator.normal",
    "agrad.numpy.vectorize": "numpy.vectorize",
    "agrad.scipy.linalg.expm": "scipy.linalg.expm",
    "agrad.scipy.special.jn": "scipy.special.jn",
    "agrad.scipy.interpolate.CubicSpline": "scipy.interpolate.CubicSpline",
    "agrad.scipy.interpolate.CubicSpline.integrate": "scipy.interpolate.CubicHermiteSpline.integrate",
    "agrad.scipy.stats.norm": "scipy.stats.norm",
    "agrad.scipy.stats.norm.pdf": "scipy.stats.rv_continuous.pdf",
    "agrad.scipy.stats.dirichlet.rvs": "scipy.stats.dirichlet.rvs",
}


@pytest.mark.parametrize("name", ORIGINALS)
def test_help_shows_the_original_too(name, monkeypatch):
    value = functools.reduce(getattr, name.split(".")[1:], importlib.import_module("agrad"))
    alone = inspect.getdoc(value)
    monkeypatch.setattr(docs, "ORIGINALS", True)
    held = value.__doc__
    whole = inspect.getdoc(value)
    if not isinstance(value, types.MethodType):
        monkeypatch.setattr(value, "__doc__", held)  # as it was, for the tests that follow
    library, *path = ORIGINALS[name].split(".")
    original = (
        functools.reduce(getattr, path[1:], importlib.import_module(f"{library}.{path[0]}"))
        if library == "scipy"
        else functools.reduce(getattr, path, np)
    )
    assert whole == f"{alone}\n\n{ORIGINALS[name]}\n{'=' * len(ORIGINALS[name])}\n\n{inspect.getdoc(original)}"


def test_nothing_is_imported_before_help_is_read():
    source = """
        import io, sys, pydoc
        from agrad.scipy.linalg import expm
        print("scipy" in sys.modules)
        pydoc.Helper(output=(text := io.StringIO())).help(expm)
        print("scipy" in sys.modules, "Derivative: ``L(A^H, g)``" in text.getvalue(), "====" in text.getvalue())
        sys.modules["scipy"] = sys.modules["scipy.linalg"] = None
        from agrad.scipy.linalg import sqrtm
        pydoc.Helper(output=(text := io.StringIO())).help(sqrtm)
        print("Higham" in text.getvalue(), "====" in text.getvalue())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "True", "True", "True", "True", "False"]


# -- pages ------------------------------------------------------------------------------------------------------------

PAGES = [page for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))] if ">>> " in page.read_text("utf-8")]

#: Pages whose blocks are programs.
PROGRAMS = [ROOT / "README.md", DOCS / "func.md", DOCS / "how_it_works.md"]


@pytest.fixture
def forgetful(plugins_as_before):
    """Forget the ops and plugins that a test adds."""
    ops = set(OPS)
    yield
    for name in set(OPS) - ops:
        if not OPS[name].entry.__module__.startswith(
            "agrad."
        ):  # agrad's own are declared by the first import of their file
            del OPS[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_pages_run(page, forgetful):
    if page.name in {"only_here.md", "xarray.md"}:
        pytest.importorskip("xarray")
    lines = ["" if line.startswith("```") else line for line in page.read_text("utf-8").splitlines()]
    test = doctest.DocTestParser().get_doctest("\n".join(lines), {"__name__": "page"}, page.name, str(page), 0)
    assert test.examples
    output = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test, out=output.append)
    assert not output, "".join(output)


@pytest.fixture
def temperatures(tmp_path, monkeypatch):
    """The store that the README's first program reads, small: the model is half of what is left of the truth, per month."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    monkeypatch.chdir(tmp_path)
    time = np.datetime64("2001-01-01", "ns") + np.arange(400) * np.timedelta64(1, "D")
    truth = np.random.default_rng(0).normal(size=(400, 4, 5))
    model = (truth - (time.astype("datetime64[M]").astype(int) % 12)[:, None, None]) / 2
    coordinates = {"time": time, "lat": np.linspace(-60, 60, 4), "lon": np.arange(5.0)}
    fields = {name: (("time", "lat", "lon"), field) for name, field in (("truth", truth), ("model", model))}
    chunks = {name: {"chunks": (50, 4, 5)} for name in fields}
    with warnings.catch_warnings():  # that consolidated metadata are not yet part of zarr 3
        warnings.simplefilter("ignore")
        xr.Dataset(fields, coordinates).to_zarr("temperatures.zarr", encoding=chunks)
    from zarr.storage import LocalStore

    reads, get = Counter(), LocalStore.get

    async def counted(self, key, *args, **kwargs):
        reads[key] += key.startswith(("truth/c/", "model/c/"))
        return await get(self, key, *args, **kwargs)

    monkeypatch.setattr(LocalStore, "get", counted)
    return truth, model, time, coordinates["lat"], reads


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_programs_of_pages_run(page, forgetful, capsys, request):
    """The blocks of a page are one program, and what a comment says of a line is so."""
    text = page.read_text("utf-8")
    store = request.getfixturevalue("temperatures") if "temperatures.zarr" in text else None
    if "array_api_strict" in text:
        pytest.importorskip("array_api_strict")
    source = "\n\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    names, claims = {"__name__": page.stem}, 0
    linecache.cache[page.name] = len(source), None, source.splitlines(keepends=True), page.name
    for statement in ast.parse(source).body:
        program = ast.Module([statement], [])
        line = source.splitlines()[statement.end_lineno - 1]
        claim = line.partition("  # ")[2]
        if not isinstance(statement, ast.Expr) or not claim.startswith(("shape ", "tensor(")):
            exec(compile(program, page.name, "exec", dont_inherit=True), names)
            continue
        claims += 1
        if claim.startswith("shape "):
            value = eval(compile(ast.Expression(statement.value), page.name, "eval"), names)
            shape = re.match(r"shape (\(.*?\))", claim)[1]
            assert str(value.shape) == shape, line
        else:
            capsys.readouterr()
            exec(compile(program, page.name, "exec", dont_inherit=True), names)
            assert capsys.readouterr().out.strip() == claim, line
    assert claims
    if store is not None:
        truth, model, time, lat, reads = store
        assert sorted(+reads) == [f"{name}/c/{i}/0/0" for name in ("model", "truth") for i in range(8)]
        assert set((+reads).values()) == {1}, "one pass over the store"
        weights = np.broadcast_to(np.cos(np.deg2rad(lat))[:, None], truth.shape[1:])
        slope = 2 * (model - truth) * weights / (weights.sum() * len(time))
        by_day = slope.sum(axis=(1, 2))
        month = time.astype("datetime64[M]").astype(int) % 12
        np.testing.assert_allclose(names["offset"].grad.numpy(), [by_day[month == m].sum() for m in range(12)])
        np.testing.assert_allclose(names["scale"].grad.item(), (slope * model).sum())


def programs(page):
    """Give the blocks of a page that are programs, and no dialogue."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if ">>> " not in block]


@pytest.mark.parametrize("page", ["README.md", "plugins/dask_backend/README.md"])
def test_the_install_lines_name_what_examples_with_dask_import(page):
    text = (ROOT / page).read_text("utf-8")
    named = set(" ".join(re.findall(r"^pip install ([a-z ]+)", text, re.MULTILINE)).split())
    sources = [*programs(ROOT / page), (ROOT / "examples" / "larger_than_memory.py").read_text("utf-8")]
    wanted = set(re.findall(r"^ *(?:import|from) (\w+)", "\n".join(sources), re.MULTILINE))
    own = {"agrad", "agrad_dask", "agrad_numpy", "numpy", "dask"} | sys.stdlib_module_names
    assert "zarr" in wanted
    assert wanted - own <= named


@pytest.mark.parametrize("page", ["docs/compile.md", "docs/index.md", "plugins/numpy_backend/README.md"])
def test_blocks_of_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.setitem(ag.compile.__kwdefaults__, "check", "first")  # as readers have it
    names = {"__name__": "page", "x": np.ones((2, 3)), "y": np.ones(2)}
    found = programs(ROOT / page)
    assert found
    for number, block in enumerate(found):
        file = tmp_path / f"block{number}.py"  # compiled functions are those that have a text
        file.write_text(block, encoding="utf-8")
        exec(compile(block, str(file), "exec", dont_inherit=True), names)


def test_the_programs_of_dasks_page_run(tmp_path, monkeypatch, capsys):
    """With a thousandth of the rows, one step of a loop for ten, and without a cluster."""
    zarr, page = pytest.importorskip("zarr"), ROOT / "plugins/dask_backend/README.md"
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, values in ("X", rng.normal(size=(60, 384))), ("y", rng.integers(0, 2, 60).astype(float)):
        zarr.create_array(f"store/{name}", data=values, chunks=(20, *values.shape[1:]))
    names = {"__name__": "page"}
    blocks = [block for block in programs(page) if "Client(" not in block]
    for block in blocks:
        with_text(block.replace("_000", "").replace("range(20)", "range(2)"), names)
    assert len(blocks) > 6
    assert "tensor(..., shape=(2700, 5), chunks=(100, 5), device='dask', dtype=float64)" in capsys.readouterr().out
    assert names["first"].grad.chunks == ((100,) * 4, (150,) * 4)


@pytest.mark.long
def test_the_page_of_promises_counts_its_tests():
    rows = re.findall(
        r"^\|.*`pytest ([^`]*)`.* \| ([\d,]+) \|$", (DOCS / "trust.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) > 8
    for options, number in rows:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options.split()]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        found = int(re.findall(r"(\d+)(?:/\d+)? tests? collected", told)[-1])
        stated = int(number.replace(",", ""))
        assert stated <= found <= 1.2 * stated + 5, f"pytest {options} collects {found} tests, the page says {stated}"


def test_pages_with_examples_are_found():
    assert "own_ops.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("script", sorted(path.name for path in DOCS.glob("make_*.py")))
def test_what_is_made_from_the_code_is_up_to_date(script):
    done = subprocess.run([sys.executable, str(DOCS / script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
