"""Everything a developer runs. ``pip install nox && nox -s tests`` is all the project's checks on a fresh machine."""

from __future__ import annotations

import nox

nox.options.sessions = ["tests"]

#: The core first, then every backend. Installed by one pip command, so that their ``==`` pins resolve to one another.
CORE = ["-e", "."]
NUMPY = ["-e", "plugins/numpy_backend"]
DASK = ["-e", "plugins/dask_backend"]
CUPY = ["-e", "plugins/cupy_backend"]

CHECKERS = ["mypy>=1.18", "ruff>=0.14"]
TESTERS = ["array-api-strict>=2.4", "hypothesis>=6.100", "pytest>=8.4", "pytest-xdist>=3.6", "scipy>=1.14"]
#: What the demo needs beside agrad; the tests run it too.
DEMO = ["matplotlib", "rich", "scikit-learn"]


def check(session: nox.Session) -> None:
    """Run the linter, the formatter in check mode, and the type checker."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Lint, check types, and run the tests and the doctests; arguments replace what pytest collects.

    ``nox -s tests -- tests/test_house.py -k layers`` runs part of them.
    """
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *DEMO, *CHECKERS)
    check(session)
    # The suite in agrad.testing is for `--pyargs` and a chosen backend; it is no doctest.
    collect = session.posargs or ["tests", "agrad"]
    session.run("pytest", "-n", "2", "--doctest-modules", "--ignore=agrad/testing/suite", *collect)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and check types only."""
    session.install(*CORE, *CHECKERS)
    check(session)


@nox.session
def demo(session: nox.Session) -> None:
    """Train a small network on handwritten digits: `examples/digits.py` with the arguments given."""
    session.install(*CORE, *NUMPY, *DEMO)
    session.run("python", "examples/digits.py", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Compare agrad's overhead with PyTorch's and HIPS autograd's. Optional: installs PyTorch, which is large."""
    session.install(*CORE, *NUMPY, "autograd", "torch")
    session.run("python", "benchmarks/overhead.py", *session.posargs)
