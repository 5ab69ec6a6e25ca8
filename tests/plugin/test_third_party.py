"""Plugins of others: the example distribution, PyTorch's tensors as plain arrays, and the page on how to write one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import agrad as ag

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "third_party_backend"
PAGE = (ROOT / "docs" / "plugin.md").read_text("utf-8")


def python(*arguments, path=(), cwd=None):
    """Run Python in a process of its own and give what it prints."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AGRAD_")}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -- the example as it stands -----------------------------------------------------------------------------------------

PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))
SOURCE = (EXAMPLE / "agrad_jax.py").read_text("utf-8")
TREE = ast.parse(SOURCE)


def test_the_example_is_small():
    assert len(SOURCE.splitlines()) < 100


def test_the_entry_point_names_the_module_and_the_backend():
    entries = PROJECT["project"]["entry-points"]["agrad"]
    assert entries == {"jax": "agrad_jax"}
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] == ["agrad_jax.py"]
    names = [
        node.value.value
        for backend in ast.walk(TREE)
        if isinstance(backend, ast.ClassDef)
        for node in backend.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "name"
    ]
    assert names == ["jax"]
    hooks = {
        node.name
        for node in TREE.body
        if isinstance(node, ast.FunctionDef) and [ast.unparse(d) for d in node.decorator_list] == ["hookimpl"]
    }
    assert hooks == {"agrad_backends", "agrad_backend_of", "agrad_harness"}


def test_the_example_loads_jax_late():
    imported = [
        name
        for node in TREE.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    ]
    assert set(imported) == {"agrad", "agrad.plugin.backend", "functools", "pluggy"}


def test_the_examples_version_is_stated_once_and_twice_alike():
    assert f'__version__ = "{PROJECT["project"]["version"]}"' in SOURCE


def test_the_example_takes_this_agrad():
    (need,) = (need for need in PROJECT["project"]["dependencies"] if need.startswith("agrad"))
    low, high = re.fullmatch(r"agrad>=(\d+\.\d+),<(\d+\.\d+)", need).groups()
    own = ag.__version__.rpartition(".")[0]
    assert own == low
    assert high == f"0.{int(low.partition('.')[2]) + 1}"


def test_the_workflow_runs_the_kit():
    text = (EXAMPLE / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    assert "pytest -n auto --pyargs agrad.testing.suite --agrad-backend=jax --agrad-report=report.html" in text
    assert "path: report.html" in text


# -- the example, installed -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Give a folder that has the example's wheel unpacked: what pip makes of it."""
    pytest.importorskip("jax")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("example")
    python("-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=EXAMPLE)
    (wheel,) = folder.glob("agrad_jax-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_example_is_found(installed, tmp_path):
    lines = python("-W", "error", "-m", "agrad", path=[installed], cwd=tmp_path).splitlines()
    (line,) = (line for line in lines if line.startswith("jax "))
    assert re.match(r"jax +\d+\.\d+\.\d+ +jax:\w+:0.* +yes$", line)


def test_the_example_passes_its_own_tests(installed):
    python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", path=[installed], cwd=EXAMPLE)


KIT = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "agrad.testing.suite")


def test_the_example_passes_part_of_the_kit(installed, tmp_path):
    """All of it takes minutes, in which JAX compiles; here what has to do with arrays that cannot be written to, and with whole programs."""
    chosen = ("-k", f"test_in_place or test_indexing or test_registration or test_transfers or {WHOLE}")
    text = python(*KIT, "--agrad-backend=jax", *chosen, path=[installed], cwd=tmp_path)
    assert re.search(r"\b[\d,]+ passed$", text, re.MULTILINE)


# -- PyTorch's tensors as plain arrays --------------------------------------------------------------------------------


def test_torch_as_arrays_passes_the_kit(tmp_path):
    pytest.importorskip("torch")
    plugin = f"--agrad-plugin={ROOT / 'tests' / 'torch_backend.py'}:TorchPlugin"
    text = python(*KIT, "--agrad-backend=torch", plugin, "--agrad-quick", cwd=tmp_path)
    assert re.search(r"\b[\d,]+ passed$", text, re.MULTILINE)


#: What the kit asks of programs as a whole.
WHOLE = "outputs_are or inputs_stay or several_threads or test_exact or test_options"


@pytest.mark.parametrize(("library", "name", "passed"), [("torch", "torch", 5), ("mlx.core", "mlx", 4)])
def test_other_compilers_run_programs(library, name, passed, tmp_path):
    """They compile for seconds, so not every sample."""
    pytest.importorskip(library)
    plugin = f"--agrad-plugin={ROOT / 'tests' / f'{name}_backend.py'}:CompilingPlugin"
    text = python(*KIT, f"--agrad-backend={name}", plugin, "-k", f"test_programs and ({WHOLE})", cwd=tmp_path)
    assert re.search(rf"\b{passed} passed$", text, re.MULTILINE)


# -- the page ---------------------------------------------------------------------------------------------------------

BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(language):
    return [text for kind, text in BLOCKS if kind == language]


def test_the_snippets_run(tmp_path):
    """The first is the plugin's file; the others run in order, and print what stands behind `print(...)`."""
    first, *others = blocks("python")
    (tmp_path / "agrad_mine.py").write_text(first)
    program = "\n".join(["from agrad_mine import *", *others])
    (tmp_path / "program.py").write_text(program)
    expected = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert len(expected) > 3
    assert python("-W", "error", "program.py", cwd=tmp_path).splitlines() == expected
    collected = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "program.py", cwd=tmp_path)
    assert "1 passed" in collected


@pytest.mark.long
def test_the_kit_takes_the_file(tmp_path):
    (tmp_path / "agrad_mine.py").write_text(blocks("python")[0])
    first, second = blocks("console")[1:3]  # after what installs agrad
    quick, again, whole = (line.split() for line in first.splitlines())
    assert again == [*quick, "--lf"]
    assert [command[:4] for command in (quick, whole)] == [["python", "-m", "agrad", "conformance"]] * 2
    part = ("-p", "no:cacheprovider", "-k", "test_registration")
    texts = [python(*quick[1:], "-n", "0", *part, cwd=tmp_path), python("-m", *second.split(), *part, cwd=tmp_path)]
    for text in texts:
        assert re.search(r"\b[\d,]+ passed$", text, re.MULTILINE)


def test_the_project_file_is_like_the_examples():
    (text,) = blocks("toml")
    page = tomllib.loads(text.replace("mine", "jax").replace('"jax"]\n', '"jax>=0.6"]\n'))
    for part in ("build-system", "tool"):
        assert page[part].items() <= PROJECT[part].items() or part == "tool"
    assert page["project"].items() <= PROJECT["project"].items()
    assert page["tool"]["hatch"] == PROJECT["tool"]["hatch"]


def test_the_page_names_the_whole_contract():
    public = {name for name in vars(ag.Backend) if not name.startswith("_")}
    missing = {name for name in public if not re.search(rf"\b{name}\b", PAGE)}
    assert not missing


def test_what_the_page_links_to_exists():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
