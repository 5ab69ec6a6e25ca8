"""``python -m agrad new-backend NAME``: write a distribution with a backend in it, its tests, and a workflow that runs the kit."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import keyword
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agrad.core.backend import CONTRACT

__all__ = ["main"]

HERE = __file__

MODULE = '''"""{library} as a backend of agrad."""

from __future__ import annotations

import functools

import pluggy

from agrad import Backend

hookimpl = pluggy.HookimplMarker("agrad")


class {title}Backend(Backend):
    """What agrad asks of {library}: docs/plugin.md of agrad goes through it, method by method."""

    name = "{name}"
    contract = {contract}

    @functools.cached_property
    def _library(self):
        import {library}

        return {library}

    def namespace(self):
        return self._library

    # Where `asarray` of the library does not take NumPy's arrays, or shares their memory:
    # def from_host(self, buffer, device):
    #     return self._library.from_dlpack(numpy.array(buffer, order="C"))
    #
    # Where NumPy does not read its arrays:
    # def to_host(self, array):
    #     return numpy.from_dlpack(array)  # or the array of NumPy in it, or its buffer


backend = {title}Backend()


@hookimpl
def agrad_backends():
    return [backend]


@hookimpl
def agrad_backend_of(array_type):
    """Claim {library}'s arrays, without importing it."""
    kinds = ((t.__module__.partition(".")[0], t.__name__) for t in array_type.__mro__)
    return "{name}" if ("{package}", "{array}") in kinds else None
'''

PROJECT = """[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "agrad-{name}"
version = "0.1.0"
description = "{library} as a backend of agrad"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["agrad"]  # and what installs {library}

[project.optional-dependencies]
test = ["agrad-numpy", "pytest>=9", "pytest-xdist>=3.6", "scipy>=1.16"]

[project.entry-points.agrad]
{name} = "agrad_{name}"

[tool.hatch.build.targets.wheel]
only-include = ["agrad_{name}.py"]

[tool.pytest.ini_options]
agrad_backend = "{name}"
testpaths = ["tests"]
"""

TESTS = '''"""The backend's own tests; the conformance kit is run beside them."""

import agrad as ag


def test_a_gradient():
    x = ag.asarray([1.0, 2.0], device="{name}", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.device == "{name}"
    assert x.grad.tolist() == [2.0, 4.0]
'''

WORKFLOW = """name: tests

on:
  push:
    branches: [main]
  pull_request:
  schedule:
    - cron: "0 5 * * 1" # new versions of agrad and {library}

permissions:
  contents: read

jobs:
  tests:
    strategy:
      fail-fast: false
      matrix:
        python: ["3.11", "3.14"]
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: ${{{{ matrix.python }}}}
      # No package index has agrad yet.
      - run: python -m pip install {install}
      - run: python -m pip install -e ".[test]"
      - run: python -m agrad --strict {name}
      - run: python -m pytest
      - run: python -m agrad conformance {name} -n auto --html report.html
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: conformance-${{{{ matrix.python }}}}
          path: report.html
"""

README = """# agrad-{name}

{library}'s arrays, differentiated by agrad.

```console
python -m pip install {install}
python -m pip install -e ".[test]"
python -m agrad --strict {name}
python -m agrad conformance {name} --quick -n auto
python -m agrad conformance {name} --quick -n auto --lf
```

The last but one tests the backend with one sample of each operation; press Ctrl-C when enough has failed, and it reports what it has run. The last,
after a change, runs only what failed. Without `--quick` the kit runs every sample.

agrad's page for authors of backends, `docs/plugin.md`, says what to do about each failure of the kit, and has a list of what to see to before
this is published.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog="python -m agrad new-backend",
        description="Write a distribution: a backend, its entry point, a test, and a workflow that runs the conformance kit.",
    )
    made.add_argument("name", metavar="NAME", help="the backend's name, a plain word")
    library = (
        "the module whose functions are the standard's (default: NAME); if they are an object in it, change `namespace`"
    )
    made.add_argument("--library", metavar="MODULE", help=library)
    made.add_argument(
        "--array", metavar="CLASS", default="Array", help="the name of its class of arrays (default: Array)"
    )
    where = "where pip finds agrad: the path of a clone, or git+https://... (default: where this one comes from)"
    made.add_argument("--agrad", metavar="PATH-OR-URL", help=where)
    made.add_argument("--into", metavar="FOLDER", help="the folder to write (default: agrad-NAME)")
    return made


def install(where: str) -> str:
    """Return pip's arguments for agrad and the NumPy backend, given the path of a clone or a URL."""
    numpys = "plugins/numpy_backend"
    if where.startswith("git+"):
        return f'"agrad @ {where}" "agrad-numpy @ {where}#subdirectory={numpys}"'
    return f"{shlex.quote(where)} {shlex.quote(f'{where}/{numpys}')}"


def origin() -> str | None:
    """Return where pip finds this agrad: the clone that it stands in, or what it was installed from; None if nothing says so."""
    clone = Path(HERE).parents[2]  # the path of agrad/testing
    if (clone / "plugins" / "numpy_backend").is_dir():
        return str(clone)
    try:
        said = importlib.metadata.distribution("agrad").read_text("direct_url.json")  # PEP 610
    except importlib.metadata.PackageNotFoundError:
        return None
    found = json.loads(said or "{}")
    if "vcs_info" in found:
        return f"{found['vcs_info']['vcs']}+{found['url']}"
    return unquote(urlsplit(found["url"]).path) if "dir_info" in found else None


def main(arguments: Sequence[str]) -> int:
    """Write the files, print the next steps, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str
        Those of the command line after ``new-backend``.
    """
    given = parser().parse_args(arguments)
    name, library = given.name, given.library or given.name
    if not name.isidentifier() or keyword.iskeyword(name) or name == "cpu":
        sys.stderr.write(f"{name!r} is not a valid name of a backend: it must be a Python identifier, and not 'cpu'\n")
        return 2
    if not given.array.isidentifier():
        sys.stderr.write(f"--array {given.array}: give the name of the class alone, without its module, as Array\n")
        return 2
    where = given.agrad or origin()
    if where is None:
        sys.stderr.write(
            "this agrad stands in no clone: say where pip finds it, --agrad git+https://... or the path of a clone\n"
        )
        return 2
    folder = Path(given.into or f"agrad-{name}")
    words = {
        "name": name,
        "title": name.title().replace("_", ""),
        "library": library,
        "package": library.partition(".")[0],
        "array": given.array,
        "contract": CONTRACT,
        "install": install(where),
    }
    files = {
        f"agrad_{name}.py": MODULE,
        "pyproject.toml": PROJECT,
        f"tests/test_{name}.py": TESTS,
        ".github/workflows/tests.yml": WORKFLOW,
        "README.md": README,
    }
    there = [file for file in files if (folder / file).exists()]
    if there:
        sys.stderr.write(f"{folder} has {', '.join(there)} already: nothing was written\n")
        return 1
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(**words), encoding="utf-8")
    print(f"{folder} has {', '.join(files)}. Next:\n")
    for line in (
        f"cd {folder}",
        f"python -m pip install {words['install']}",
        'python -m pip install -e ".[test]"',
        f"python -m agrad --strict {name}",
        f"python -m agrad conformance {name} --quick -n auto",
        f"python -m agrad conformance {name} --quick -n auto --lf",
    ):
        print(f"  {line}")
    print(
        "\nPress Ctrl-C when enough has failed: the kit reports what it has run. --lf, after a change, runs only what failed."
    )
    if not where.startswith("git+"):
        print(
            "The workflow installs agrad from that path: replace it by a URL, as git+https://..., before you push it."
        )
    return 0
