"""Everything a developer runs. ``pip install nox && nox -s tests`` is all the project's checks on a fresh machine."""

from __future__ import annotations

import os
from pathlib import Path

import nox

nox.options.sessions = ["tests"]

#: The core first, then every backend. Installed by one pip command, so that their ``==`` pins resolve to one another.
CORE = ["-e", "."]
NUMPY = ["-e", "plugins/numpy_backend"]
DASK = ["-e", "plugins/dask_backend"]
CUPY = ["-e", "plugins/cupy_backend"]

CHECKERS = ["mypy>=1.18", "ruff>=0.14"]
TESTERS = [
    "array-api-strict>=2.4",
    "hypothesis>=6.100",
    "mpmath>=1.3",
    "opt_einsum>=3.3",
    "pytest>=8.4",
    "pytest-xdist>=3.6",
    "scipy>=1.14",
]
#: What the demo needs beside agrad; the tests run it too.
DEMO = ["matplotlib", "rich", "scikit-learn"]


def check(session: nox.Session) -> None:
    """Run the linter, the formatter in check mode, and the type checker."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


#: What the survey of other libraries tries beside SciPy; the tests run a sample of it.
OTHERS = ["array-api-extra", "einops", "opt_einsum", "scikit-learn"]


@nox.session
def tests(session: nox.Session) -> None:
    """Lint, check types, and run the tests and the doctests; arguments replace what pytest collects.

    ``nox -s tests -- tests/test_house.py -k layers`` runs part of them.
    """
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *OTHERS, *DEMO, *CHECKERS)
    check(session)
    # The suite in agrad.testing is for `--pyargs` and a chosen backend; it is no doctest.
    collect = session.posargs or ["tests", "agrad"]
    session.run("pytest", "-n", "2", "--doctest-modules", "--ignore=agrad/testing/suite", *collect)


#: What the suite of the standard is run on: agrad over a backend, alone or with every operand requiring a gradient.
UNDER_TEST = [("agrad", False), ("strict", False), ("agrad", True), ("strict", True)]


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the array API standard's own test suite; arguments go to pytest, as ``--max-examples=20``.

    ``AGRAD_ARRAY_API_TESTS`` is the path of a checkout of https://github.com/data-apis/array-api-tests with its
    submodule. What is expected to fail stands in ``tests/conformance/*-xfails.txt``, each with a reason.
    """
    place = os.environ.get("AGRAD_ARRAY_API_TESTS")
    if not place:
        session.error(
            "AGRAD_ARRAY_API_TESTS is not set: git clone --recurse-submodules"
            " https://github.com/data-apis/array-api-tests, and set it to the path of that"
        )
    checkout, own = Path(place).resolve(), Path("tests/conformance").resolve()
    if not (checkout / "array-api" / "src").is_dir():
        session.error(f"{checkout} is no checkout of array-api-tests with its submodule (git submodule update --init)")
    session.install(*CORE, *NUMPY, "array-api-strict>=2.4", "-r", str(checkout / "requirements.txt"))
    for name, gradients in UNDER_TEST:
        lists = ["numpy" if name == "agrad" else name, *(["gradients"] if gradients else [])]
        expected = Path(session.create_tmp()).resolve() / f"{'-'.join(lists)}-xfails.txt"
        expected.write_text("".join((own / f"{part}-xfails.txt").read_text() for part in lists))
        with session.chdir(checkout):
            session.run(
                "pytest",
                "array_api_tests/",
                "-q",
                "--disable-deadline",
                f"--xfails-file={expected}",
                *(session.posargs or ["--max-examples=100"]),
                env={
                    "AGRAD_GRADIENTS": str(int(gradients)),
                    "AGRAD_UNDER_TEST": name,
                    "ARRAY_API_TESTS_MODULE": "agrad_under_test",
                    "ARRAY_API_TESTS_VERSION": "2025.12",
                    "PYTHONPATH": str(own),
                },
            )


@nox.session
def survey(session: nox.Session) -> None:
    """Try functions of other libraries on tensors; ``nox -s survey -- --write`` writes docs/third_party.md."""
    session.install(*CORE, *NUMPY, "array-api-strict>=2.4", "scipy>=1.14", *OTHERS)
    session.run("python", "tests/third_party/survey.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and check types only."""
    session.install(*CORE, *CHECKERS, "einops")  # whose backend agrad.einops is
    check(session)


@nox.session
def demo(session: nox.Session) -> None:
    """Train a small network on handwritten digits: `examples/digits.py` with the arguments given."""
    session.install(*CORE, *NUMPY, *DEMO)
    session.run("python", "examples/digits.py", *session.posargs)


@nox.session
def torch(session: nox.Session) -> None:
    """Run drawn programs in agrad and in PyTorch; arguments go to pytest. Optional: installs PyTorch, which is large.

    ``AGRAD_TORCH_EXAMPLES=5000 nox -s torch`` draws more programs than usual.
    """
    session.install(*CORE, *NUMPY, "hypothesis>=6.100", "pytest>=8.4", "torch>=2.6")
    session.run("pytest", "tests/test_against_torch.py", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Compare agrad's overhead with PyTorch's and HIPS autograd's. Optional: installs PyTorch, which is large."""
    session.install(*CORE, *NUMPY, "autograd", "torch")
    session.run("python", "benchmarks/overhead.py", *session.posargs)
