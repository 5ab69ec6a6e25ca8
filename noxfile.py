"""Everything a developer runs. ``pip install nox && nox -s tests`` is all the project's checks on a fresh machine."""

from __future__ import annotations

import os
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import nox

nox.options.sessions = ["tests"]

#: The core first, then every backend. Installed by one pip command, so that their ``==`` pins resolve to one another.
CORE = ["-e", "."]
NUMPY = ["-e", "plugins/numpy_backend"]
DASK = ["-e", "plugins/dask_backend"]
CUPY = ["-e", "plugins/cupy_backend"]

#: The native executor's requirements. All tests pass without them, too: see "text" in `REST`.
LLVM = "llvmlite>=0.45"

CHECKERS = ["mypy>=1.18", "pyright[nodejs]>=1.1.400", "ruff>=0.14"]
TESTERS = [
    "array-api-strict>=2.4",
    "checkpoint_schedules>=1.0.4",
    "distributed>=2025.9",
    "hatchling>=1.26",
    "hypothesis>=6.100",
    LLVM,
    "mpmath>=1.3",
    "opt_einsum>=3.3",
    "pytest>=8.4",
    "pytest-xdist>=3.6",
    "safetensors>=0.5",
    "scipy>=1.16",
    "zarr>=3.1",
]
#: The demo's requirements besides agrad; the tests run it too.
DEMO = ["matplotlib", "rich", "scikit-learn"]


def check(session: nox.Session) -> None:
    """Run the linter, the formatter in check mode, and the type checker."""
    # agrad.einops is a backend of einops, and the kit consists of pytest's tests.
    session.install(*CORE, *CHECKERS, "einops", "pytest>=8.4")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


#: The libraries that the survey tries besides SciPy; the tests run a sample of it.
OTHERS = ["array-api-extra", "bottleneck", "einops", "ipython", "opt_einsum", "pandas", "scikit-learn", "xarray"]


#: The files that pytest collects.
ALL = ["tests", "agrad"]


def suite(session: nox.Session, *options: str, without: Sequence[str] = ()) -> None:
    """Run tests and doctests in two processes, without some packages; options replace pytest's default arguments."""
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *OTHERS, *DEMO, *CHECKERS)
    if without:
        session.run("pip", "uninstall", "--yes", *without)
    # Two processes on two cores: BLAS's own threads would only get in their way.
    session.env.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    # Tests start hundreds of processes: none should compile all modules again, wherever that is usual.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    # The suite in agrad.testing is for `--pyargs` and a chosen backend; it is not a doctest.
    given = ["-n", "2", "--dist", "worksteal", "--doctest-modules", "--ignore=agrad/testing/suite"]
    session.run("pytest", *given, *options)


#: The quick kits' commands, by backend.
QUICK = {
    "numpy": "not batches",
    "strict": "not batches",
    "dask": "not batches and not (test_programs and (second_order or forward_mode))"
    " and not (test_rules and second_order)",
}


@nox.session
def tests(session: nox.Session) -> None:
    """Lint, check types, run tests, doctests and quick kits on three backends; arguments replace pytest's default ones.

    A quick kit runs one sample per operation, without batches, and on Dask only programs of gradients and no second
    derivatives; the whole kits are parts of `everything`, and so are the tests marked ``long``.

    ``nox -s tests -- tests/test_house.py -k layers`` runs part of them.
    """
    check(session)
    suite(session, "-m", "not long", *(session.posargs or ALL))
    for name, chosen in {} if session.posargs else QUICK.items():
        quick = [*BACKENDS[name][1], "--agrad-quick", "-k", chosen]
        session.run("pytest", "-n", "2", "-q", *quick, env={"DASK_SCHEDULER": "synchronous"})


#: How the standard's test suite runs: agrad over a backend, by itself or with every operand requiring a gradient.
UNDER_TEST = [("agrad", False), ("strict", False), ("agrad", True), ("strict", True)]

#: The expected failures there; Dask's blocks and array-api-strict are NumPy's.
EXPECTED = {"agrad": ["numpy"], "strict": ["strict"], "dask": ["numpy", "dask"]}


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the array API standard's own test suite; arguments go to pytest, as ``--max-examples=20``.

    ``AGRAD_ARRAY_API_TESTS`` is the path of a checkout of https://github.com/data-apis/array-api-tests with its
    submodule. The expected failures are in ``tests/conformance/*-xfails.txt``, each with a reason. With ``dask`` as the
    first argument it runs on Dask, in chunks of a few elements: ``nox -s conformance -- dask --max-examples=5``.
    """
    on_dask = session.posargs[:1] == ["dask"]
    options = session.posargs[1:] if on_dask else session.posargs
    place = os.environ.get("AGRAD_ARRAY_API_TESTS")
    if not place:
        session.error(
            "AGRAD_ARRAY_API_TESTS is not set: git clone --recurse-submodules"
            " https://github.com/data-apis/array-api-tests, and set it to the path of that"
        )
    checkout, own = Path(place).resolve(), Path("tests/conformance").resolve()
    if not (checkout / "array-api" / "src").is_dir():
        session.error(
            f"{checkout} is not a checkout of array-api-tests with its submodule (git submodule update --init)"
        )
    more = DASK if on_dask else ["array-api-strict>=2.4"]
    session.install(*CORE, *NUMPY, *more, "-r", str(checkout / "requirements.txt"))
    for name, gradients in [("dask", False)] if on_dask else UNDER_TEST:
        lists = [*EXPECTED[name], *(["gradients"] if gradients else [])]
        expected = Path(session.create_tmp()).resolve() / f"{'-'.join(lists)}-xfails.txt"
        parts = ((own / f"{part}-xfails.txt").read_text(encoding="utf-8") for part in lists)
        expected.write_text("".join(parts), encoding="utf-8")
        with session.chdir(checkout):
            session.run(
                "pytest",
                "array_api_tests/",
                "-q",
                "--disable-deadline",
                f"--xfails-file={expected}",
                *(options or [f"--max-examples={5 if on_dask else 100}"]),
                env={
                    "DASK_ARRAY__CHUNK_SIZE": "24B",
                    "DASK_SCHEDULER": "synchronous",
                    "AGRAD_GRADIENTS": str(int(gradients)),
                    "AGRAD_UNDER_TEST": name,
                    "ARRAY_API_TESTS_MODULE": "agrad_under_test",
                    "ARRAY_API_TESTS_VERSION": "2025.12",
                    "PYTHONPATH": str(own),
                },
            )


@nox.session
def hips(session: nox.Session) -> None:
    """Run HIPS autograd's own tests on agrad.compat.autograd; ``nox -s hips -- PATH``, further arguments go to pytest.

    PATH is a checkout of https://github.com/HIPS/autograd. Its ``check_grads`` is the judge. The expected failures are
    in ``tests/compat/hips-xfails.txt``, each with a reason.
    """
    if not session.posargs:
        session.error("nox -s hips -- PATH: the path of a checkout of https://github.com/HIPS/autograd")
    checkout, *options = session.posargs
    theirs = Path(checkout).resolve() / "tests"
    if not (theirs / "test_wrappers.py").is_file():
        session.error(f"{checkout} is not a checkout of HIPS autograd")
    session.install(*CORE, *NUMPY, "pytest>=8.4", "scipy>=1.16", "xarray")
    beside = ["_test_complexity.py"]  # its measurements
    session.run(
        *["pytest", "-q", "-c", os.devnull, "--rootdir", str(theirs), "-p", "hips_plugin"],
        *(f"--ignore={theirs / name}" for name in beside),
        *(options or [str(theirs)]),
        env={"HIPS_CHECKOUT": str(theirs.parent), "PYTHONPATH": str(Path("tests/compat").resolve())},
    )


@nox.session
def others(session: nox.Session) -> None:
    """Run others' programs on their library and on agrad, and write docs/others.md; ``nox -s others -- PATH``, names may follow.

    PATH is a checkout of https://github.com/HIPS/autograd, or of https://github.com/pytorch/examples, for which it installs PyTorch.
    """
    if not session.posargs:
        session.error(
            "nox -s others -- PATH: the path of a checkout of https://github.com/HIPS/autograd or https://github.com/pytorch/examples"
        )
    of_torch = (Path(session.posargs[0]) / "mnist").is_dir()
    session.install(*CORE, *NUMPY, "scipy>=1.16", *(["torch>=2.6"] if of_torch else []))
    session.run("python", f"tests/compat/{'others_torch' if of_torch else 'others'}.py", *session.posargs)


#: The site's build requirements, and those of its pages.
SITE = [
    "myst-parser>=5",
    "numpydoc>=1.10",
    "pydata-sphinx-theme>=0.16",
    "sphinx>=8.2",
    "sphinx-design>=0.6",
    "sphinx-gallery>=0.19",
]
PAGES = ["checkpoint_schedules>=1.0.4", "matplotlib", "scikit-learn", "scipy>=1.16", "xarray", "zarr>=3.1"]


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site into docs/_build/html, run its gallery, and test the pages' code. A few minutes.

    A warning or a broken link is an error. Nothing is downloaded. Arguments go to Sphinx.
    """
    session.install(*CORE, *NUMPY, *DASK, *SITE, *PAGES, "array-api-strict>=2.4", "pytest>=8.4")
    sphinx = ["sphinx-build", "-W", "--keep-going", "-q", "-j", "2", "-b", "html"]
    session.run(*sphinx, *session.posargs, "docs", "docs/_build/html", env={"OPENBLAS_NUM_THREADS": "1"})
    session.run("pytest", "-q", "tests/test_docs.py", "-k", "pages")


#: Libraries built on HIPS autograd: their tests' further requirements, and which tests to run.
DOWNSTREAM = {
    "pymanopt==2.2.1": (
        [],
        # The tests' own fixture, their examples and other backends want TensorFlow, PyTorch and JAX.
        ["--noconftest", "tests/manifolds", "tests/optimizers", "tests/test_multi_tools.py"]
        + [f"tests/backends/test_{name}.py" for name in ("autograd", "backend_tools", "numpy")]
        + ["tests/test_problem_backend_interface.py"],
    ),
    "lifelines==0.30.3": (
        ["dill", "flaky", "jinja2", "joblib", "pytest-timeout", "scikit-learn", "seaborn"],
        ["--timeout=1200", "lifelines/tests"],  # seconds, of one test: the longest take minutes
    ),
    "autograd-gamma==0.5.0": ([], ["tests"]),
}


@nox.session
def downstream(session: nox.Session) -> None:
    """Run the tests of libraries built on HIPS autograd; ``nox -s downstream -- NAME PATH``, further arguments go to pytest.

    ``autograd`` is agrad.compat.autograd there. NAME is pymanopt, lifelines or autograd-gamma (without a name: all that
    are distributed with their tests); PATH is a checkout of it, "-" for the release on the index, which for
    autograd-gamma has no tests. The expected failures are in ``tests/compat/downstream-xfails.txt``, each with a
    reason.
    """
    name, place, *options = [*session.posargs, *(["", "-"][len(session.posargs) :])]
    chosen = [one for one in DOWNSTREAM if one.startswith(f"{name}==") or (not name and "gamma" not in one)]
    if not chosen:
        session.error(f"no library {name!r}; there are {', '.join(DOWNSTREAM)}")
    own = Path("tests/compat").resolve()
    for one in chosen:
        needs, collect = DOWNSTREAM[one]
        session.install(*CORE, *NUMPY, one, *needs, "matplotlib", "pytest>=8.4", "scipy>=1.16")
        theirs = Path(place).resolve()
        if place == "-":
            into = Path(session.create_tmp()).resolve()
            session.run("pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(into), one)
            (source,) = into.glob(f"{one.replace('==', '-')}.tar.gz")
            shutil.unpack_archive(source, into, filter="data")
            theirs = into / source.name.removesuffix(".tar.gz")
        with session.chdir(theirs):
            session.run(
                # Without warning settings: neither its own nor agrad's, which turn warnings into errors.
                *["pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-p", "downstream_plugin", *collect, *options],
                # lifelines tests its plots on a display, which "agg" does not need.
                env={
                    "DOWNSTREAM": one.partition("==")[0],
                    "DISPLAY": ":0",
                    "MPLBACKEND": "agg",
                    "PYTHONPATH": str(own),
                },
            )


#: By backend: its requirements besides NumPy's, and the commands to run for it.
SUITE = ["--pyargs", "agrad.testing.suite"]
BACKENDS: dict[str, tuple[list[str], list[str]]] = {
    "numpy": ([], [*SUITE, "--agrad-backend=numpy"]),
    "dask": (DASK, [*SUITE, "--agrad-backend=dask"]),
    "strict": (
        ["array-api-strict>=2.4"],
        [*SUITE, "--agrad-backend=strict", "--agrad-plugin=tests/strict_backend.py:StrictPlugin"],
    ),
    # Third-party ones: PyTorch's tensors as plain arrays, MLX's on its CPU, and the examples of plugins.
    "torch": (["torch>=2.6"], [*SUITE, "--agrad-backend=torch", "--agrad-plugin=tests/torch_backend.py:TorchPlugin"]),
    "mlx": (["mlx[cpu]>=0.32"], [*SUITE, "--agrad-backend=mlx", "--agrad-plugin=tests/mlx_backend.py:MlxPlugin"]),
    "jax": (["-e", "examples/third_party_backend"], [*SUITE, "--agrad-backend=jax"]),
    "cubed": (["-e", "examples/lazy_backend[test]"], [*SUITE, "--agrad-backend=cubed", "--agrad-quick"]),
    "marray": (["marray>=0.0.12"], [*SUITE, "--agrad-backend=marray", "--agrad-plugin=examples/marray_backend.py"]),
    "units": (["pint>=0.25"], [*SUITE, "--agrad-backend=units", "--agrad-plugin=examples/units_backend.py"]),
    "sparse": (
        ["sparse>=0.19"],
        [*SUITE, "--agrad-backend=sparse", "--agrad-plugin=examples/sparse_backend.py", "--agrad-quick"],
    ),
    "blosc2": (
        ["blosc2>=4.14"],
        [*SUITE, "--agrad-backend=blosc2", "--agrad-plugin=examples/blosc2_backend.py", "--agrad-quick"],
    ),
    # CuPy itself, without a GPU: what it says of itself, views, and NVRTC's compilation of the fused kernels.
    "cupy": (
        [*CUPY, "array-api-strict>=2.4", "cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"],
        ["tests/backends/test_cupy.py", "tests/backends/test_cupy_fusion.py"],
    ),
}

#: By backend: settings of its library. XLA compiles each operation for each shape: in half the time where it optimises less,
#: and without its emitters by MLIR, which cost the same for three numbers as for a million. Numba compiles the functions of
#: sparse for each dtype and number of axes; Python runs them sooner on a few numbers.
ENVIRONMENTS = {
    "jax": {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false"},
    "sparse": {"NUMBA_DISABLE_JIT": "1"},
}


@nox.session
def backend(session: nox.Session) -> None:
    """Run the conformance kit on one backend; ``nox -s backend -- dask``, further arguments go to pytest.

    ``cupy`` is CuPy without a GPU (and 400 MB to install); with one, see `gpu`.
    """
    name, *options = session.posargs or ["numpy"]
    if name not in BACKENDS:
        session.error(f"no backend {name!r}; there are {', '.join(BACKENDS)}")
    kit(session, name, *options)


def kit(session: nox.Session, name: str, *options: str) -> None:
    """Run the commands in `BACKENDS` for a backend."""
    needs, collect = BACKENDS[name]
    session.install(*CORE, *NUMPY, *needs, "pytest>=8.4", "pytest-xdist>=3.6", "scipy>=1.16")
    session.run("pytest", "-n", "2", *collect, *options, env=ENVIRONMENTS.get(name, {}))


def emulated(session: nox.Session, *options: str) -> None:
    """Run the whole kit on CuPy's plugin with the tests' stand-in, a device emulated by NumPy."""
    session.install(*CORE, *NUMPY, *CUPY, "pytest>=8.4", "pytest-xdist>=3.6", "scipy>=1.16")
    place = {"PYTHONPATH": str(Path("tests/backends").resolve())}
    session.run("pytest", "-n", "2", "-p", "emulated_cupy", *SUITE, "--agrad-backend=cupy", *options, env=place)


def lowest() -> list[str]:
    """Return the lowest declared version of every required library, except CuPy."""
    found = set()
    for file in (Path("pyproject.toml"), *Path("plugins").glob("*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        optional = project.get("optional-dependencies", {}).values()
        found |= {need for needs in (project["dependencies"], *optional) for need in needs}
    return sorted(need.replace(">=", "==") for need in found if ">=" in need and not re.match(r"cupy|agrad", need))


#: The tests that `minimum` runs: those of agrad's own parts.
NAMES = "autograd backends compiled core func nn ops optim plugin program view"
PARTS = [f"tests/{name}" for name in NAMES.split()]


@nox.session(python="3.11")
def minimum(session: nox.Session) -> None:
    """Run the tests of agrad's parts on Python 3.11 with the lowest declared versions."""
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *CHECKERS, *lowest())
    session.run("pip", "list", silent=False)
    session.run("pytest", "-n", "2", "-m", "not long", *(session.posargs or PARTS))


@nox.session
def wheels(session: nox.Session) -> None:
    """Build the four distributions into an empty ``dist/``, check their metadata, and test them in an empty environment."""
    session.install("build", "hatchling>=1.26", "pytest>=8.4", "twine>=6.1")
    shutil.rmtree("dist", ignore_errors=True)
    for project in (".", *(f"plugins/{name}_backend" for name in ("numpy", "dask", "cupy"))):
        session.run("python", "-m", "build", "--outdir", "dist", project)
    session.run("twine", "check", "--strict", *sorted(map(str, Path("dist").iterdir())))
    session.run("pytest", "--noconftest", "tests/test_packages.py", *session.posargs)


@nox.session
def audit(session: nox.Session) -> None:
    """Look up known vulnerabilities of everything that agrad and its plugins for NumPy and Dask install."""
    session.install(*CORE, *NUMPY, *DASK, "pip-audit>=2.9")
    session.run("pip-audit", "--skip-editable", "--strict", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """On a machine with a GPU: run the conformance kit on CuPy, then the benchmark against PyTorch and raw CuPy.

    ``AGRAD_CUDA=12`` or ``13`` (the default) chooses the CUDA version. ``gpu-report/`` gets the kit's report, as a row
    of the table in docs/conformance.md and as a page, and the benchmark's figures. Arguments go to the benchmark. See
    docs/gpu.md.
    """
    cuda = os.environ.get("AGRAD_CUDA", "13")
    needs = ["pytest>=9", "pytest-xdist>=3.6", "scipy>=1.16", "torch"]
    session.install(*CORE, *NUMPY, "-e", f"plugins/cupy_backend[cuda{cuda}]", *needs)
    # Without a GPU this ends here, with the reason: the kit skips tests that an unavailable backend cannot run.
    session.run("python", "-c", "import agrad; print(agrad.ones(1, device='cupy'))")
    into = Path("gpu-report")
    into.mkdir(exist_ok=True)
    kept, page, figures = (into / name for name in ("cupy.json", "cupy.html", "benchmark.txt"))
    for earlier in (kept, page, figures):  # of an earlier run, which would be mistaken for this one's
        earlier.unlink(missing_ok=True)
    files = ["--json", str(kept), "--html", str(page)]
    session.run("python", "-m", "agrad", "conformance", "cupy", *files, success_codes=[0, 1])  # 1: some tests failed
    if not kept.exists():
        session.error("the basics failed, as said above: the rest of the kit and the benchmark were not run")
    session.run("python", "-m", "agrad.testing.report", str(kept))
    session.run("python", "benchmarks/gpu.py", "--output", str(figures), *session.posargs)


@nox.session
def survey(session: nox.Session) -> None:
    """Try functions of other libraries on tensors; ``nox -s survey -- --write`` writes docs/third_party.md."""
    session.install(*CORE, *NUMPY, "array-api-strict>=2.4", "scipy>=1.16", *OTHERS)
    session.run("python", "tests/third_party/survey.py", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Plant faults in agrad, one at a time, and see whether the tests find them; arguments go to the program.

    ``nox -s mutation -- --seed 1 --count 40 --only agrad/func``; ``--help`` lists all. Survivors are judged by hand in
    ``tests/mutation/survivors.md``.
    """
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *OTHERS)
    session.run("python", "tests/mutation/mutate.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and check types only."""
    check(session)


#: The percentage of symbols that must have a type on which all type checkers agree.
COMPLETE = 95


@nox.session
def types(session: nox.Session) -> None:
    """Count the symbols whose type is fully known, by ``pyright --verifytypes``; fail below `COMPLETE` percent."""
    session.install(*CORE, *CHECKERS)
    told = session.run("pyright", "--verifytypes", "agrad", "--ignoreexternal", silent=True, success_codes=[0, 1])
    found = re.search(r"Type completeness score: ([\d.]+)%", told if isinstance(told, str) else "")
    if found is None:
        session.error(f"pyright gave no score: {told}")
    session.log(f"{found[1]} % of the symbols have a known type")
    if float(found[1]) < COMPLETE:
        session.error(
            f"{found[1]} % is less than {COMPLETE}: `pyright --verifytypes agrad --ignoreexternal` lists what is unknown"
        )


@nox.session
def prereleases(session: nox.Session) -> None:
    """Run the tests of agrad's parts on pre-releases of the libraries, and on nightly wheels if an index of them is given.

    ``AGRAD_NIGHTLY_INDEX`` is the address of that index (SPEC 4). A failure here will affect users with the next
    release.
    """
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *CHECKERS)
    index = os.environ.get("AGRAD_NIGHTLY_INDEX")
    nightly = ["--extra-index-url", index] if index else []
    session.install("--pre", "--upgrade", *nightly, "array-api-compat", "dask", "numpy", "scipy", "xarray", "zarr")
    session.run("pip", "list", silent=False)
    session.run("pytest", "-n", "2", "-m", "not long", *(session.posargs or PARTS))


@nox.session
def demo(session: nox.Session) -> None:
    """Train a small network on handwritten digits: run `examples/digits.py` with the given arguments."""
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
def soak(session: nox.Session) -> None:
    """Draw programs and judge their gradients: ``nox -s soak -- --minutes 30``, also ``--seed N``, ``--backend dask``.

    ``--stateful`` draws functions with state instead, and compares each compiled function with itself uncompiled. With
    ``--executor native`` both run as machine code.
    """
    draw(session, *session.posargs)


def draw(session: nox.Session, *options: str) -> None:
    """Run the soak."""
    session.install(*CORE, *NUMPY, *DASK, LLVM, "pytest>=8.4", "scipy>=1.16")
    session.run("python", "tests/trust/soak.py", *options)


@nox.session
def compiled(session: nox.Session) -> None:
    """Run tests with the functions that they define compiled; arguments go to pytest.

    The last lines say how many functions were compiled, how many calls were replayed, and why the others ran
    uncompiled.
    """
    second(session, *session.posargs)


def second(session: nox.Session, *options: str) -> None:
    """Run tests for the second time, their functions compiled; options replace the folders."""
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *OTHERS)
    folders = [f"tests/{part}" for part in ("autograd", "compiled", "func", "nn", "optim", "program")]
    session.run("pytest", "--compiled-steps", *(options or folders))


#: Optimisations that tests run without: see tests/trust/without.py.
SWITCHED_OFF = ("entries", "passes", "tiles")


def without(session: nox.Session) -> None:
    """Run the tests of agrad's parts with one optimisation after another turned off."""
    session.install(*CORE, *NUMPY, *DASK, *CUPY, *TESTERS, *OTHERS)
    folders = [f"tests/{part}" for part in ("autograd", "compiled", "func", "nn", "ops", "optim", "program")]
    for name in SWITCHED_OFF:
        session.run("pytest", "-n", "2", "-q", "-m", "not long", f"--without={name}", *folders)


#: The parts that `tests` omits, by name. Each takes less than an hour on two cores.
REST: dict[str, Callable[[nox.Session], None]] = {
    "long": lambda session: suite(session, "-m", "long", *ALL),
    "shuffled": lambda session: suite(session, "-m", "not long", f"--shuffle={int(time.time())}", *ALL),
    "text": lambda session: suite(session, "-m", "not long", *ALL, without=["llvmlite"]),
    "numpy": lambda session: kit(session, "numpy"),
    "strict": lambda session: kit(session, "strict"),
    "dask": lambda session: kit(session, "dask"),
    "cupy": emulated,
    "compiled": second,
    "without": without,
    "soak": lambda session: draw(session, "--stateful", "--minutes", "30"),
}


@nox.session
def everything(session: nox.Session) -> None:
    """Run the parts that `tests` omits, for hours; ``nox -s everything -- compiled soak`` runs two of them.

    They are the tests marked ``long`` (``pytest -m long``), the others ``shuffled`` (``pytest --shuffle=SEED``) and
    without LLVM, where programs only run as ``text``, the whole kits of ``numpy``, ``strict`` and ``dask`` (each also
    ``nox -s backend -- NAME``), that of ``cupy`` on an emulated device, the tests with their functions ``compiled``
    (``nox -s compiled``), tests ``without`` one optimisation after another, and the ``soak`` of functions with state
    (``nox -s soak -- --stateful``).
    """
    names = session.posargs or [*REST]
    if unknown := {*names} - {*REST}:
        session.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(REST)}")
    for name in names:
        REST[name](session)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Compare agrad's overhead with PyTorch's and HIPS autograd's. Optional: installs PyTorch, which is large."""
    session.install(*CORE, *NUMPY, "autograd", "torch")
    session.run("python", "benchmarks/overhead.py", *session.posargs)
