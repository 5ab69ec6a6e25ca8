"""Plant faults in agrad, one at a time, and see whether the tests find them.

    python tests/mutation/mutate.py                       draw 300 mutants, run the tests that reach each, report
    python tests/mutation/mutate.py --seed 1 --count 40   others, fewer
    python tests/mutation/mutate.py --quick               by the tests of a mutant's room, without a map
    python tests/mutation/mutate.py --only agrad/func     of these files alone; several may be given
    python tests/mutation/mutate.py --list                print the mutants and run nothing
    python tests/mutation/mutate.py --mutant 1a2b3c4d     these alone, and the tests that were run for them
    python tests/mutation/mutate.py --mutant 1a2b3c4d --tests tests/func/test_vmap.py     against all tests of a file

With ``--quick`` a mutant is judged by a few files of tests: those of its area (`ROOMS`) and those that name it, for
``--seconds`` of processor time, the tests that name the function first. What survives is to be run again by wider ones.

Otherwise the tests are first run once on a copy of the repository in which each mutant's place notes which test reaches
it; that takes as long as the tests themselves, and is kept in ``.mutation/`` until a file changes. Then each mutant is
planted in a copy, and its tests run in forked processes, the most specific files first, until one fails.

A mutant that no test finds is a survivor: it is judged by hand, in ``survivors.md`` beside this file, by its key. Linux
and macOS only.

The exit status is 1 where a survivor has no judgement there, or where fewer than 90 % of the mutants that change what
agrad does are found.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib
import inspect
import json
import math
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mutants as mutation
import pytest
from mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
JUDGEMENTS = Path(__file__).with_name("survivors.md")

#: The files mutated, by area: a file is of the first area that has it. The kit's tests and samples are tests.
AREAS = {
    "core": "agrad/core/**/*.py",
    "ops": "agrad/ops/**/*.py",
    "func": "agrad/func/**/*.py",
    "program": "agrad/program/**/*.py",
    "compiled": "agrad/compiled/**/*.py",
    "autograd": "agrad/autograd/**/*.py",
    "nn": "agrad/nn/**/*.py",
    "optim": "agrad/optim/**/*.py",
    "numpy": "agrad/numpy/**/*.py",
    "scipy": "agrad/scipy/**/*.py",
    "random": "agrad/random/**/*.py",
    "utils": "agrad/utils/**/*.py",
    "serialization": "agrad/serialization/**/*.py",
    "view": "agrad/view/**/*.py",
    "plugin": "agrad/plugin/**/*.py",
    "compat": "agrad/compat/**/*.py",
    "testing": "agrad/testing/*.py",
    "modules of agrad": "agrad/*.py",
    "native code": "plugins/numpy_backend/agrad_numpy/native/**/*.py",
    "NumPy backend": "plugins/numpy_backend/agrad_numpy/*.py",
    "Dask backend": "plugins/dask_backend/agrad_dask/**/*.py",
    "CuPy backend": "plugins/cupy_backend/agrad_cupy/**/*.py",
}
#: The tests of a room, by the beginning of a file's path.
ROOMS = [
    ("agrad/ops/nn.py", "tests/nn/"),
    ("agrad/ops/scipy/", "tests/scipy/"),
    ("agrad/ops/torch_methods.py", "tests/(ops/test_porting|compat/test_torch)"),
    ("agrad/random/", "tests/(numpy/test_random|ops/|test_dist)"),
    ("agrad/serialization/", "tests/(test_serialization|test_earlier|trust/test_hostile)"),
    ("plugins/numpy_backend/agrad_numpy/native/", "tests/backends/test_native"),
    ("plugins/numpy_backend/agrad_numpy/export.py", "tests/trust/test_exports"),
    ("plugins/numpy_backend/agrad_numpy/executor.py", "tests/(backends/test_numpy|program/)"),
    ("plugins/numpy_backend/", "tests/(nn/|ops/)"),
    ("plugins/dask_backend/", "tests/backends/"),
    ("plugins/cupy_backend/", "tests/backends/test_cupy"),
    *((pattern.partition("*")[0], f"tests/{area}/") for area, pattern in AREAS.items() if pattern != "agrad/*.py"),
    ("agrad/", "tests/(test_|ops/test_porting|backends/test_lazy)"),
]
#: How many files are run for a mutant without a map.
FILES = 4
#: Nothing but messages.
SKIPPED = {"agrad/core/errors.py"}

#: Files of tests, doctests among them.
TESTS = ["tests/**/test_*.py", "agrad/**/*.py", "agrad/testing/suite/test_*.py"]
#: The kit runs on these, beside what `tests` say.
KIT = ("numpy", "dask")
#: Tests that compare text with the source, that build or that plant faults themselves: they prove nothing here.
UNFIT = re.compile(
    r"tests/(test_house|test_packages|test_typing|mutation/|testing/test_suite_faults)"
    r"|test_the_page_of_rules_is_up_to_date|test_examples|test_tutorials|third_party/test_survey|plugin/test_third_party"
)
#: Imported before the processes are forked: what all tests need, but not agrad.
LIBRARIES = (
    "array_api_compat.numpy",
    "array_api_strict",
    "dask.array",
    "hypothesis.strategies",
    "mpmath",
    "numpy",
    "pluggy",
    "scipy.special",
)

#: Seconds of processor time: tests are chosen for one mutant up to this sum.
BUDGET = 20.0
#: What starting pytest on one more file costs.
START = 2.5
#: Of which so much is for tests of the same files that did not reach the mutant: what is made once and kept is reached
#: by the first test alone.
BESIDE = 4.0

#: The module that the copy with probes has beside agrad. Processes that a test starts write to a file.
PROBE = """
import os
hits = set()
own = None
def _hit(key):
    if key not in hits:
        hits.add(key)
        place = os.environ.get("MUTATION_LOG")
        if own != os.getpid() and place:
            with open(place, "a") as file:
                print(key, os.environ.get("MUTATION_TEST", ""), file=file)
"""
#: It passes for a file of agrad: a capture gives up where code of the user's runs unseen.
PROBE = f"import os\nexec(compile({PROBE!r}, os.path.join(os.path.dirname(__file__), 'agrad', 'probe.py'), 'exec'))\n"


# -- what runs in a forked process ------------------------------------------------------------------------------------


class Plugin:
    """Runs the chosen tests of one file; notes the first that fails, or for every test what it reached."""

    def __init__(self, wanted: Sequence[str] | None, times: Mapping[str, float], probe: Any = None) -> None:
        self.wanted = None if wanted is None else {test: i for i, test in enumerate(wanted)}
        self.times, self.probe = times, probe
        self.running = self.failed = ""
        self.tests: dict[str, tuple[float, list[str]]] = {}
        self.at_import: list[str] = []
        self.bad: set[str] = set()
        self.log: Path | None = None
        self.count = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_generate_tests(self, metafunc):
        """Leave out parameters that are not wanted before tests are made of them: thousands take seconds."""
        yield
        if self.wanted is not None and metafunc._calls:
            start = f"{metafunc.definition.nodeid}["
            kept = [call for call in metafunc._calls if f"{start}{call.id}]" in self.wanted]
            metafunc._calls[:] = kept or metafunc._calls[:1]

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if not UNFIT.search(item.nodeid)]
        if self.wanted is not None:
            items[:] = sorted((i for i in items if i.nodeid in self.wanted), key=lambda i: self.wanted[i.nodeid])
        self.count = len(items)
        if self.probe is not None:
            self.at_import = sorted(self.probe.hits)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self.running = item.nodeid
        self.note()
        start, begun = sum(os.times()[:4]), time.monotonic()
        if self.probe is None:  # a fault may make a loop endless, or a lock wait
            usual = self.times.get(item.nodeid, 1.0)
            signal.setitimer(signal.ITIMER_PROF, 5 + 10 * usual)
            signal.setitimer(signal.ITIMER_REAL, 90 + 30 * usual)
        else:
            os.environ["MUTATION_TEST"] = item.nodeid
        result = yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.probe is not None:
            cost = max(sum(os.times()[:4]) - start, 0.2 * (time.monotonic() - begun))  # of processes it starts, too
            self.tests[item.nodeid] = (round(cost, 4), sorted(self.probe.hits))
            self.probe.hits.clear()
        return result

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.bad.add(report.nodeid)
            self.failed = self.failed or report.nodeid
        if report.skipped and not hasattr(report, "wasxfail"):
            self.bad.add(report.nodeid)

    def note(self) -> None:
        if self.log is not None:
            self.log.write_text(self.running)


class Near(Plugin):
    """Runs the tests that name what a mutant stands in, then the others of a few files, for some seconds."""

    def __init__(self, files: Sequence[str], words: Sequence[str], seconds: float) -> None:
        super().__init__(None, {})
        self.files, self.words, self.seconds = list(files), words, seconds
        self.begun, self.ran = math.inf, 0

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if not UNFIT.search(item.nodeid)]
        text = functools.cache(inspect.getsource)

        def rank(item) -> tuple[int, int]:
            source = text(item.function) if hasattr(item, "function") else ""
            named = sum(2 * (word in item.nodeid) + (word in source) for word in self.words)
            return -named, self.files.index(item.nodeid.partition("::")[0])

        items.sort(key=rank)
        self.begun = sum(os.times()[:4])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        result = yield from super().pytest_runtest_protocol(item)
        self.ran += 1
        if sum(os.times()[:4]) - self.begun > self.seconds:
            item.session.shouldstop = "its time is up"
        return result


def forked(work, limit: float) -> tuple[Any, int]:
    """Do work in a forked process: what it gives (None if it ended otherwise), and its exit status."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(read)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            quiet = os.open(os.environ.get("MUTATION_OUTPUT", os.devnull), os.O_RDWR | os.O_CREAT | os.O_APPEND)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            answer = json.dumps(work()).encode()
            with os.fdopen(write, "wb") as pipe:
                pipe.write(answer)
        except BaseException:  # noqa: BLE001 (the parent finds no answer)
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    parts, end = [], time.monotonic() + limit
    os.set_blocking(read, False)
    status = None
    while True:
        with contextlib.suppress(BlockingIOError):
            while part := os.read(read, 1 << 20):
                parts.append(part)
        if status is not None:
            break
        done, found = os.waitpid(child, os.WNOHANG)
        if done:
            status = found
        elif time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        else:
            time.sleep(0.01)
    os.close(read)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what its tests have started and left
    try:
        return json.loads(b"".join(parts)), status
    except ValueError:
        return None, status


def in_copy(copy: Path) -> None:
    """Have this process, and those it starts, find agrad in a copy."""
    os.chdir(copy)
    paths = [str(copy), *(str(path) for path in sorted(copy.glob("plugins/*_backend")))]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["TMPDIR"] = tempfile.tempdir = str(copy.parent / "tmp")
    os.makedirs(tempfile.tempdir, exist_ok=True)
    importlib.invalidate_caches()


def arguments(unit: str, tests: Iterable[str] | None) -> list[str]:
    """Give pytest's arguments for a file of tests: ``path``, or ``path@backend`` for the kit on a backend."""
    path, _, backend = unit.partition("@")
    given = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-header",
        "--tb=no",
        "-o",
        "console_output_style=classic",
    ]
    given += [
        "--hypothesis-seed=0",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]  # Hypothesis was imported before
    if backend:
        given += [f"--agrad-backend={backend}"]
    if path.startswith("agrad/") and not backend:
        given += ["--doctest-modules"]
    doctest = not backend and path.startswith("agrad/")
    if tests is None or doctest:
        return [*given, path]
    return [*given, *dict.fromkeys(test.partition("[")[0] for test in tests)]


def run_file(copy: Path, unit: str, tests: Sequence[str] | None, times: Mapping[str, float], log: Path) -> dict:
    """Run tests of one file in a copy: which fails first, and how. None: all tests."""

    def work() -> dict:
        in_copy(copy)
        plugin = Plugin(tests, times)
        plugin.log = log
        code = pytest.main(["-x", *arguments(unit, tests)], plugins=[plugin])
        return {"code": int(code), "failed": plugin.failed, "count": plugin.count}

    usual = 60.0 if tests is None else sum(times.get(test, 1.0) for test in tests)
    return outcome_of(work, unit, 90 + 10 * usual, log)


def outcome_of(work: Callable[[], dict], unit: str, limit: float, log: Path) -> dict:
    """Run tests in a forked process: which fails first, and how."""
    log.write_text("")
    found, status = forked(work, limit)
    if found is None:
        at = log.read_text()
        timed = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM, signal.SIGKILL)
        return {"killed": at or unit, "how": "time" if timed else "crash"}
    if found["failed"]:
        return {"killed": found["failed"], "how": "test"}
    if found["code"] not in (0, 2, 5):  # 2: the time was up
        return {"killed": unit, "how": "import"}
    return {"killed": "", "how": "", "count": found["count"]}


def run_near(copy: Path, mutant: Mutant, seconds: float, log: Path) -> dict:
    """Run the tests of the files nearest to a mutant in a copy: which fails first, and how."""
    files, words = near(mutant)

    def work() -> dict:
        in_copy(copy)
        plugin = Near(files, words, seconds)
        plugin.log = log
        code = pytest.main(["-x", "-m", "not long", *arguments(files[0], None), *files[1:]], plugins=[plugin])
        return {"code": int(code), "failed": plugin.failed, "count": plugin.ran}

    return outcome_of(work, files[0], 600 + 10 * seconds, log)


def map_file(copy: Path, unit: str, log: Path) -> dict:
    """Run a file of tests in the copy with probes: of every test that passes its time and what it reaches."""

    def work() -> dict:
        in_copy(copy)
        os.environ["MUTATION_LOG"] = str(log)
        os.environ["MUTATION_TEST"] = ""
        probe = importlib.import_module("_agrad_probe")
        probe.own = os.getpid()
        note_ops()
        plugin = Plugin(None, {}, probe)
        code = pytest.main(arguments(unit, None), plugins=[plugin])
        tests = {test: found for test, found in plugin.tests.items() if test not in plugin.bad}
        return {"code": int(code), "tests": tests, "import": plugin.at_import, "bad": sorted(plugin.bad)}

    log.write_text("")
    found, status = forked(work, 3600)
    if found is None:
        return {"code": -1, "tests": {}, "bad": [f"{unit} ended with status {status}"]}
    for line in log.read_text().splitlines():  # of processes that a test started
        key, _, test = line.partition(" ")
        if test in found["tests"] and key not in found["tests"][test][1]:
            found["tests"][test][1].append(key)
    return found


def note_ops() -> None:
    """Have the entry points of ops note that they are called."""
    try:
        from agrad.core.entry import Source
    except ImportError:  # not agrad, but a toy
        return
    written = Source.__str__

    def noted(source: Source) -> str:
        stub = source.op.entry.__wrapped__
        head, _, body = written(source).partition(":\n")
        return f"{head}:\n    __import__('_agrad_probe')._hit('op:{stub.__module__}.{stub.__qualname__}')\n{body}"

    # Where a capture looks at what runs, it passes for a file of agrad, as the probe does.
    file = importlib.import_module("_agrad_probe")._hit.__code__.co_filename
    noted.__code__ = noted.__code__.replace(co_filename=file)
    Source.__str__ = noted


# -- copies -----------------------------------------------------------------------------------------------------------


def copied(place: Path) -> Path:
    """Copy what git knows of, and what it does not ignore, into a new folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    copy = Path(tempfile.mkdtemp(prefix="mutants-", dir=place)) / "tree"
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


@contextlib.contextmanager
def planted(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Have a mutant in a copy for a while."""
    file = copy / mutant.path
    source, status = file.read_bytes(), file.stat()
    compiled = list(file.parent.glob(f"__pycache__/{file.stem}.*.pyc"))
    kept = [(path, path.read_bytes()) for path in compiled]
    for path in compiled:
        path.unlink()
    file.write_bytes(mutant.apply(source))
    try:
        yield
    finally:
        file.write_bytes(source)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        for path in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            path.unlink()
        for path, content in kept:
            path.write_bytes(content)
        shutil.rmtree(copy / ".hypothesis", ignore_errors=True)


# -- which tests ------------------------------------------------------------------------------------------------------


def units() -> list[str]:
    """Give the files of tests."""
    listed = sorted({str(path.relative_to(ROOT)) for pattern in TESTS for path in ROOT.glob(pattern)})
    found = []
    for path in listed:
        if path.startswith("agrad/testing/suite/test_"):
            found += [f"{path}@{backend}" for backend in KIT]
        elif path.startswith("tests/") or ">>> " in (ROOT / path).read_text(encoding="utf-8"):
            found.append(path)
    return [unit for unit in found if not UNFIT.search(unit)]


def affinity(unit: str, path: str) -> float:
    """Tell how near a file of tests is to a file of the source, by their names."""
    words = {word for word in re.split(r"[/_.]", path) if len(word) > 3} - {"agrad", "plugins", "backend", "backends"}
    return 0.2 * len(words & set(re.split(r"[/_.@]", unit)))


def near(mutant: Mutant) -> tuple[list[str], list[str]]:
    """Give the files of tests that are nearest to a mutant, and the names of what it stands in."""
    folder = next(folder for start, folder in ROOMS if mutant.path.startswith(start))
    names = [word.strip("_") for word in mutant.where.split(".") if not word.endswith(("__", ">"))]
    parts = {part for name in names for part in name.split("_") if len(part) > 2}
    words = [*names, *sorted(parts - set(names))]  # `slogdet`, where it is `_slogdet_vjp`

    def rank(unit: str) -> float:
        counts = {word: min(3, len(re.findall(rf"\b_?{re.escape(word)}", text_of(unit)))) for word in words}
        named = sum(count * (1 if word in names else 0.5) for word, count in counts.items())
        return 25 * affinity(unit, Path(mutant.path).stem) + named + 4 * bool(re.match(folder, unit))

    listed = [unit for unit in units() if unit.startswith("tests/")]
    return sorted(listed, key=rank, reverse=True)[:FILES], words


@functools.cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


class Reached:
    """Which tests reach which mutant."""

    def __init__(self, found: Mapping[str, dict], mutants: Sequence[Mutant] = ()) -> None:
        self.mutants = mutants
        self.killers: dict[str, tuple[str, str]] = {}  # what found a mutant in an earlier run, to be run first
        self.index(found)

    def index(self, found: Mapping[str, dict]) -> None:
        self.found = found
        self.times = {test: cost for row in found.values() for test, (cost, _) in row["tests"].items()}
        self.by_key: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for unit, row in found.items():
            for test, (_, keys) in row["tests"].items():
                for key in keys:
                    self.by_key[key][unit].append(test)
            for key in row.get("import", ()):  # what comes of it may matter to every test
                self.by_key[key][unit] = list(row["tests"])

    def forget(self, tests: set[str]) -> None:
        """Leave tests out from now on."""
        kept = {}
        for unit, row in self.found.items():
            kept[unit] = {**row, "tests": {test: at for test, at in row["tests"].items() if test not in tests}}
        self.index(kept)

    def tests_of(self, mutant: Mutant) -> dict[str, list[str]]:
        """Give the tests that reach a mutant, by file; where there are none, those that reach its neighbours."""

        def places(of: Mutant) -> list[str]:
            return [of.key, *(probe for probe in of.probes if isinstance(probe, str))]

        names = places(mutant)
        if not any(name in self.by_key for name in names):
            beside = [m for m in self.mutants if m.path == mutant.path and m.key in self.by_key]
            beside.sort(key=lambda m: (m.where != mutant.where, abs(m.start - mutant.start)))
            names = [name for near in beside[:2] for name in places(near)]
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for name in names:
            for unit, tests in self.by_key.get(name, {}).items():
                found[unit].update(dict.fromkeys(tests))
        return {unit: list(tests) for unit, tests in found.items() if tests}

    def covers(self, mutant: Mutant) -> bool:
        return any(name in self.by_key for name in (mutant.key, *mutant.probes))

    def choose(self, mutant: Mutant, budget: float) -> dict[str, list[str]]:
        """Choose tests for a mutant within a budget of seconds: by file, the most specific files first."""
        reached = self.tests_of(mutant)
        if not reached:
            return {}

        def rank(unit: str) -> float:
            share = len(reached[unit]) / max(1, len(self.found[unit]["tests"]))
            slow = sum(self.times[test] for test in reached[unit]) / len(reached[unit])
            return share + affinity(unit, mutant.path) - min(1.0, 2 * slow) - (0.3 if unit.startswith("agrad/") else 0)

        order = sorted(reached, key=rank, reverse=True)
        queues: dict[tuple[str, str], list[str]] = {}
        for unit in order:
            for test in sorted(reached[unit], key=self.times.__getitem__):
                queues.setdefault((unit, test.partition("[")[0]), []).append(test)
        chosen: dict[str, list[str]] = {}
        spent, deepest = 0.0, max(map(len, queues.values()))
        for depth in range(deepest):
            for (unit, _), tests in queues.items():
                if depth >= len(tests):
                    continue
                cost = self.times[tests[depth]] + (0 if unit in chosen else START)
                if spent + cost > budget and chosen:
                    continue
                chosen.setdefault(unit, []).append(tests[depth])
                spent += cost
            if spent > 0.95 * budget:
                break
        self._add_beside(chosen, min(BESIDE, budget - spent))
        first, test = self.killers.get(mutant.key, ("", ""))
        if test in self.times:
            chosen[first] = [test, *(other for other in chosen.get(first, ()) if other != test)]
            order = [first, *(unit for unit in order if unit != first)]
        return {unit: chosen[unit] for unit in order if unit in chosen}

    def _add_beside(self, chosen: dict[str, list[str]], budget: float) -> None:
        """Add tests that did not reach the mutant, of the same files."""
        for unit, tests in chosen.items():
            others = sorted(set(self.found[unit]["tests"]) - set(tests), key=lambda test: (self.times[test], test))
            random.Random(unit).shuffle(others)
            for test in others:
                if self.times[test] <= budget / 4:
                    tests.append(test)
                    budget -= self.times[test]


def digest(paths: Iterable[str], *more: str) -> str:
    made = hashlib.sha256(repr(more).encode())
    for path in sorted(paths):
        made.update(path.encode() + b"\0" + hashlib.sha256((ROOT / path).read_bytes()).digest())
    return made.hexdigest()[:16]


# -- workers ----------------------------------------------------------------------------------------------------------

#: What a worker has: its copy, the map, the options.
worker = SimpleNamespace()


def begin(copy: Path | None, place: Path, reached: Reached, options: argparse.Namespace) -> None:
    vars(worker).update(copy=copy or copied(place), reached=reached, options=options)


def do_map(unit: str) -> tuple[str, dict]:
    return unit, map_file(worker.copy, unit, worker.copy.parent / f"log-{os.getpid()}")


def do_mutant(mutant: Mutant) -> dict:
    """Run the tests chosen for a mutant."""
    start = time.monotonic()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    given = worker.options.tests
    chosen = dict.fromkeys(given) if given else worker.reached.choose(mutant, worker.options.seconds)
    covered = given or worker.reached.covers(mutant)
    row = {"key": mutant.key, "outcome": "survived" if covered else "not covered", "test": "", "how": "", "run": 0}
    with planted(worker.copy, mutant):
        if worker.options.quick and not given:
            result = run_near(worker.copy, mutant, worker.options.seconds, worker.copy.parent / "running")
            row |= {"outcome": "survived", "run": result.get("count", 0)}
            if result["killed"]:
                unit = result["killed"].partition("::")[0]
                row |= {"outcome": "killed", "test": result["killed"], "how": result["how"], "unit": unit}
        for unit, tests in chosen.items():
            result = run_file(worker.copy, unit, tests, worker.reached.times, worker.copy.parent / "running")
            row["run"] += result.get("count", 0)
            if result["killed"]:
                row |= {"outcome": "killed", "test": result["killed"], "how": result["how"], "unit": unit}
                break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row["cpu"] = round(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime, 1)
    row["seconds"] = round(time.monotonic() - start, 1)
    return row


def do_check(work: tuple[str, list[str]]) -> list[str]:
    """Run tests that found mutants without any: those that fail even so."""
    unit, tests = work
    failing = []
    while tests:
        result = run_file(worker.copy, unit, tests, worker.reached.times, worker.copy.parent / "running")
        if not result["killed"]:
            break
        failing.append(result["killed"])
        if result["killed"] not in tests:
            return [*failing, *tests]
        tests = [test for test in tests if test != result["killed"]]
    return failing


# -- the program ------------------------------------------------------------------------------------------------------


def area_of(path: str) -> str:
    return next((area for area, pattern in AREAS.items() if path.startswith(pattern.partition("*")[0])), path)


def mutated_files(only: Sequence[str]) -> list[str]:
    found = {str(file.relative_to(ROOT)) for pattern in AREAS.values() for file in ROOT.glob(pattern)}
    return sorted(file for file in found - SKIPPED if not only or any(file.startswith(part) for part in only))


def drawn(every: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw mutants of every area: half the count in equal parts, the other half by how many mutants an area has."""
    by_area: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in every:
        by_area[area_of(mutant.path)].append(mutant)
    total = sum(map(len, by_area.values()))
    chosen = []
    for of_area in by_area.values():
        part = round(count / 2 * (1 / len(by_area) + len(of_area) / total))
        chosen += mutation.sample(ROOT, of_area, part, seed)
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.start))


def judgements() -> dict[str, str]:
    """Read what survivors.md says of survivors: by key, the class."""
    if not JUDGEMENTS.exists():
        return {}
    rows = re.findall(r"^\| `(\w{8})` \| ([\w ]+?) \|", JUDGEMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(rows)


#: Classes of survivors that do what the source does, as far as values, gradients and errors go.
HARMLESS = {"equivalent", "speed", "message", "gpu"}


def workers(jobs: int, *given: Any):
    """Make processes, each with a copy of its own unless one is given."""
    return multiprocessing.get_context("fork").Pool(jobs, begin, given)


def make_map(chosen: Sequence[Mutant], place: Path, cache: Path, options: argparse.Namespace) -> Reached:
    """Find out which tests reach which mutant; what was found is kept by file of tests."""
    sources = mutated_files(())
    listed = units()
    helpers = [str(p.relative_to(ROOT)) for p in ROOT.glob("tests/**/*.py") if not p.name.startswith("test_")]
    helpers += [str(p.relative_to(ROOT)) for p in ROOT.glob("agrad/**/*.py")]
    state = digest([*sources, *helpers], *(mutant.key for mutant in chosen))
    kept = json.loads(cache.read_text()) if cache.exists() else {}
    found = {}
    for unit in listed:
        row = kept.get(unit)
        same = row is not None and row["file"] == digest([unit.partition("@")[0]])
        if same and (options.keep_map or row["state"] == state):
            found[unit] = row
    missing = [unit for unit in listed if unit not in found]
    if missing:
        copy = copied(place)
        (copy / "_agrad_probe.py").write_text(PROBE)
        by_file = defaultdict(list)
        for mutant in chosen:
            by_file[mutant.path].append(mutant)
        for path, of_file in by_file.items():
            (copy / path).write_bytes(mutation.instrument((copy / path).read_bytes(), of_file))
        begun = time.monotonic()
        with workers(options.jobs, copy, place, Reached({}), options) as pool:
            for i, (unit, row) in enumerate(pool.imap_unordered(do_map, missing), 1):
                found[unit] = {**row, "state": state, "file": digest([unit.partition("@")[0]])}
                cost = sum(test[0] for test in row["tests"].values())
                print(
                    f"[{i}/{len(missing)}, {time.monotonic() - begun:.0f} s] {unit}: {len(row['tests'])} tests,"
                    f" {cost:.0f} s of processor time" + (f", {len(row['bad'])} left out" if row["bad"] else ""),
                    flush=True,
                )
                cache.write_text(json.dumps(found))
    return Reached(found, chosen)


def check_killers(rows: list[dict], reached: Reached, place: Path, options: argparse.Namespace) -> set[str]:
    """Run the tests that found mutants on agrad as it is: those that fail there have found nothing."""
    tests = defaultdict(dict)
    for row in rows:
        if row["how"] in ("test", "time") and row["test"] != row["unit"]:
            tests[row["unit"]][row["test"]] = None
    work = [(unit, list(of_unit)) for unit, of_unit in tests.items()]
    with workers(options.jobs, None, place, reached, options) as pool:
        return {test for failing in pool.imap_unordered(do_check, work) for test in failing}


def report(chosen: Sequence[Mutant], rows: Mapping[str, dict]) -> int:
    """Print counts and survivors; give the exit status."""
    judged = judgements()
    by_area: dict[str, Counter] = defaultdict(Counter)
    survivors = []
    for mutant in chosen:
        if (row := rows.get(mutant.key)) is None:
            continue
        outcome = row["outcome"]
        if outcome != "killed":
            survivors.append(mutant)
            outcome = "harmless" if judged.get(mutant.key) in HARMLESS else outcome
        for area in (area_of(mutant.path), "all"):
            by_area[area][outcome] += 1
            by_area[area]["mutants"] += 1
            by_area[area]["by time"] += row["how"] == "time"
    print("\nSurvivors:" if survivors else "\nNo survivors.")
    for mutant in survivors:
        print(
            f"{mutant}\n    {rows[mutant.key]['outcome']} ({rows[mutant.key]['run']} tests), {judged.get(mutant.key, 'NOT JUDGED')}"
        )
    columns = ["mutants", "killed", "by time", "survived", "not covered", "harmless"]
    print(f"\n| area | {' | '.join(columns)} | killed of those that matter |\n|---|{'---|' * (len(columns) + 1)}")
    rate = 1.0
    for area in [*AREAS, "all"]:
        if area in by_area:
            counts = by_area[area]
            rate = counts["killed"] / max(1, counts["mutants"] - counts["harmless"])
            print(f"| {area} | {' | '.join(str(counts[column]) for column in columns)} | {rate:.0%} |")
    unjudged = [mutant.key for mutant in survivors if mutant.key not in judged]
    if unjudged:
        print(f"\n{len(unjudged)} survivors have no row in {JUDGEMENTS.name}: {' '.join(unjudged)}")
    return int(bool(unjudged) or rate < 0.9)


def parsed(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other mutants")
    parser.add_argument("--count", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--quick", action="store_true", help="by the tests of a mutant's room, without a map")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATH", help="mutants of these files or folders")
    parser.add_argument("--every", action="store_true", help="all mutants, not a sample with at most one of a line")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=BUDGET, help="processor time of the tests chosen for a mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--mutant", nargs="+", default=[], metavar="KEY", help="these mutants alone, drawn or not")
    parser.add_argument("--tests", nargs="+", default=[], metavar="FILE", help="all tests of these files instead")
    parser.add_argument(
        "--keep-map",
        action="store_true",
        help="believe the map of files of tests that have not changed, whatever else has",
    )
    parser.add_argument("--again", action="store_true", help="run again what has an outcome already")
    parser.add_argument("--minutes", type=float, help="begin no mutant after this time; call again for the rest")
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    options = parsed(given)
    if options.root is not None:
        globals()["ROOT"] = options.root.resolve()
    every = mutation.read(ROOT, mutated_files(options.only))
    if options.mutant:
        chosen = [mutant for mutant in every if mutant.key in options.mutant]
    elif options.every:
        chosen = [mutant for mutant in every if mutation.is_fault(mutant, (ROOT / mutant.path).read_bytes())]
    else:
        chosen = drawn(every, options.count, options.seed)
    if options.list:
        print(*chosen, sep="\n")
        print(f"{len(chosen)} of {len(every)}")
        return 0
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    folder = ROOT / ".mutation"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutation-") as made:
        place = Path(made)
        if options.tests or options.quick:
            reached = Reached({})
        else:
            name = f"map-{digest([], str(options.seed), str(options.count), str(options.every), *options.only, *options.mutant)}.json"
            reached = make_map(chosen, place, folder / name, options)
        rows = checked(chosen, reached, place, folder, options)
    return report(chosen, rows)


def checked(
    chosen: Sequence[Mutant], reached: Reached, place: Path, folder: Path, options: argparse.Namespace
) -> dict[str, dict]:
    """Run the mutants, and again those whose test fails without any mutant: that test has found nothing."""
    while True:
        rows = outcomes(chosen, reached, place, folder, options)
        false = check_killers([row for row in rows.values() if row["outcome"] == "killed"], reached, place, options)
        if not false:
            return rows
        cache = folder / "outcomes.json"
        kept = json.loads(cache.read_text()) if cache.exists() else {}
        for row in rows.values():
            if row["test"] in false:
                print(f"{row['key']}: {row['test']} fails without the mutant too")
                kept.pop(row["key"], None)
        cache.write_text(json.dumps(kept))
        if options.tests:
            return {key: row for key, row in rows.items() if row["test"] not in false}
        reached.forget(false)


def outcomes(
    chosen: Sequence[Mutant], reached: Reached, place: Path, folder: Path, options: argparse.Namespace
) -> dict[str, dict]:
    """Run what has no outcome yet."""
    cache = folder / "outcomes.json"
    state = digest([*mutated_files(()), *{unit.partition("@")[0] for unit in units()}])
    kept = json.loads(cache.read_text()) if cache.exists() else {}
    reached.killers = {key: (row["unit"], row["test"]) for key, row in kept.items() if row["how"] in ("test", "time")}
    valid = {key: row for key, row in kept.items() if row["state"] == state}
    rows = {} if options.again or options.tests else {m.key: valid[m.key] for m in chosen if m.key in valid}
    left = [mutant for mutant in chosen if mutant.key not in rows]
    random.Random(0).shuffle(left)  # so that a run that is cut short has seen all areas
    begun = time.monotonic()
    by_key = {mutant.key: mutant for mutant in chosen}
    with workers(options.jobs, None, place, reached, options) as pool:
        for i, row in enumerate(pool.imap_unordered(do_mutant, left), 1):
            rows[row["key"]] = kept[row["key"]] = {**row, "state": state}
            killer = f"{row['outcome']} {row['how'] and 'by ' + row['how']} {row['test']}".strip()
            print(f"[{i}/{len(left)}, {time.monotonic() - begun:.0f} s] {by_key[row['key']]}")
            print(f"    {killer} ({row['run']} tests, {row['cpu']} s, {row['seconds']} s on the clock)", flush=True)
            if not options.tests:
                cache.write_text(json.dumps(kept))
            if options.minutes and time.monotonic() - begun > 60 * options.minutes:
                pool.terminate()
                break
    return rows


if __name__ == "__main__":
    sys.exit(main())
