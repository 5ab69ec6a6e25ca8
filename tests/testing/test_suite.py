"""The conformance kit as a program: its options, expected failures, reports; what it costs those who do not use it."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.core.op import OPS
from agrad.testing import kit, report, reproducing, suite
from agrad.testing.calls import SampleCall
from agrad.testing.samples import SAMPLES
from agrad.testing.suite.running import any_data, is_complex

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "agrad" / "testing" / "suite"

PLUGIN = f"""
import importlib.util

spec = importlib.util.spec_from_file_location("strict_backend", {str(ROOT / "tests" / "strict_backend.py")!r})
strict = importlib.util.module_from_spec(spec)
spec.loader.exec_module(strict)


class Wasteful(strict.StrictBackend):
    def nbytes(self, array):
        return 8 * int(array.size)


class MyPlugin(strict.StrictPlugin):
    backend = Wasteful()
"""


def python(*arguments, cwd, **how):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AGRAD_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=kept,
        cwd=cwd,
        timeout=600,  # of a run that hangs; beside other processes one takes minutes
        **how,
    )


def run(*arguments, cwd, plugin=PLUGIN):
    """Run part of the kit in a process of its own, away from the repository's settings."""
    (cwd / "mine.py").write_text(plugin)
    options = [
        "--rootdir=.",
        "-p",
        "no:cacheprovider",
        "-q",
        "--agrad-plugin=mine.py:MyPlugin",
        "--agrad-backend=strict",
    ]
    return python("-m", "pytest", *options, "--pyargs", *arguments, cwd=cwd)


# -- as a program -----------------------------------------------------------------------------------------------------


def test_a_run_with_expected_failures_and_a_report(tmp_path):
    (tmp_path / "xfails.txt").write_text(
        "# what we know of\n\n"
        "test_memory.py::TestMemory::test_nbytes[float32-4]  # it counts eight bytes for all\n"
        "test_memory.py::TestMemory::test_no_cycles  # this is not so\n"
    )
    done = run("agrad.testing.suite.test_memory", "--agrad-xfails=xfails.txt", "--agrad-report=out.json", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    made = report.read(str(tmp_path / "out.json"))
    outcomes = {record["id"]: (record["outcome"], record["reason"]) for record in made["results"]}
    assert outcomes["test_nbytes[float32-4]"] == ("expected", "it counts eight bytes for all")
    assert outcomes["test_nbytes[float64-8]"] == ("passed", "")
    assert outcomes["test_nbytes[int8-1]"][0] == "failed"
    assert outcomes["test_no_cycles"] == ("failed", "[XPASS(strict)] this is not so")
    assert (made["backend"], made["agrad"], made["available"]) == ("strict", ag.__version__, True)
    assert made["version"]
    assert {report.summary(made), report.judged(made)} <= set(done.stdout.splitlines())


CRASHING = PLUGIN.replace("import importlib", "import os, importlib", 1).replace(
    "return 8 * int(array.size)", "return os._exit(3)"
)
SINGLE_CRASHES = CRASHING.replace(
    "os._exit(3)", "os._exit(3) if 'float32' in str(array.dtype) else super().nbytes(array)"
)


def test_a_process_that_ends_is_the_failure_of_one_test(tmp_path):
    pytest.importorskip("xdist")
    chosen = ("-n1", "--max-worker-restart=9", "-k", "test_nbytes", "--agrad-report=out.json")
    done = run("agrad.testing.suite.test_memory", *chosen, cwd=tmp_path, plugin=SINGLE_CRASHES)
    assert done.returncode == 1, done.stdout + done.stderr
    made = report.read(str(tmp_path / "out.json"))
    (crashed,) = (record for record in made["results"] if record["outcome"] == "failed")
    assert crashed["area"] == "memory"
    assert crashed["id"] == "test_nbytes[float32-4]"
    assert "the process ended: by exit or os._exit, status 3" in crashed["error"]
    assert f"memory, test_nbytes[float32-4]: {crashed['error']}" in done.stdout.splitlines()  # as it was met
    assert "agrad.testing.suite.test_memory::TestMemory::test_nbytes[float32-4]" in crashed["program"]  # by pytest
    assert report.summary(made).endswith(" passed, 1 failed")


def conformance(*arguments, cwd, plugin=PLUGIN, **how):
    (cwd / "mine.py").write_text(plugin)
    return python("-m", "agrad", "conformance", "strict", "--plugin", "mine.py:MyPlugin", *arguments, cwd=cwd, **how)


def test_the_command(tmp_path):
    done = conformance("-n0", "-k", "test_pickling", "--quick", "--json=out.json", "--html=out.html", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "passed   the host reads arrays" in lines
    assert sum("tests judged" in line for line in lines) == 2
    made = report.read(str(tmp_path / "out.json"))
    assert {record["area"] for record in made["results"]} == {"pickling"}
    assert report.to_html(made) == (tmp_path / "out.html").read_text(encoding="utf-8")


def test_every_sample_is_replayed(tmp_path):
    chosen = ("--agrad-every", "-k", "atan2-float64 or repeat-float64", "--agrad-report=out.json")
    done = run("agrad.testing.suite.test_programs", *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {
        (found["test"], found["op"]): tuple(int(found[name]) for name in report.COUNTED)
        for found in report.read(str(tmp_path / "out.json"))["results"]
        if found["outcome"] == "passed"
    }
    there = {op: [s for s in SAMPLES[op] if not is_complex(s)] for op in ("atan2", "repeat")}
    counted = sum(any_data(s.args[1:], lambda _: True) for s in there["repeat"])  # by an array
    assert counted
    assert counts == {
        (test, op): (len(there[op]), len(there[op]) - refused, refused)
        for op, refused in (("atan2", 0), ("repeat", counted))
        for test in ("forward_and_backward", "forward_mode", "second_order", "batches", "exact_batches")
    }


def test_the_command_stops_where_the_basics_fail(tmp_path):
    refusing = PLUGIN.replace(
        "def nbytes", "def to_host(self, array):\n        raise OSError('it is asleep')\n\n    def nbytes"
    )
    done = conformance("-k", "test_pickling", cwd=tmp_path, plugin=refusing)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "passed   the library makes arrays" in done.stdout
    assert (
        "failed   the host reads arrays: OSError: it is asleep\n         It asks: Does NumPy read them" in done.stdout
    )
    assert done.stdout.endswith("The rest of the kit was not run: it depends on these.\n")


def test_the_command_stops_where_nothing_is_judged(tmp_path):
    absent = PLUGIN.replace(
        "def nbytes", "def availability(self):\n        return False, 'no driver'\n\n    def nbytes"
    )
    done = conformance(cwd=tmp_path, plugin=absent)
    assert done.returncode == 5, done.stdout + done.stderr
    assert "strict is not available: no driver" in done.stdout
    assert "Nothing was judged" in done.stdout.splitlines()[-1]
    assert "The quick kit" not in done.stdout


def test_what_others_rely_on_runs_first(tmp_path):
    """Part by part, and in a part single precision last."""
    parts = [f"agrad.testing.suite.test_{name}" for name in ("errors", "rules", "indexing")]
    done = run(*parts, "--collect-only", "-k", "TestErrors or TestIndexing or sinh-", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = [line.partition("::Test")[2] for line in done.stdout.splitlines() if "::Test" in line]
    kinds = [(test.partition("::")[0], "float32" in test or "complex64" in test) for test in tests]
    assert [kind for kind, _ in itertools.groupby(kinds)] == [
        ("Indexing", False),
        ("Rules", False),
        ("Rules", True),
        ("Errors", False),
    ]


INTERRUPTED = PLUGIN.replace("import importlib", "import os, signal, importlib", 1).replace(
    "return 8 * int(array.size)",
    "return os.killpg(0, signal.SIGINT) if 'float32' in str(array.dtype) else super().nbytes(array)",
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to signal")
def test_an_interrupted_run_reports_what_it_has_run(tmp_path):
    chosen = ("-n0", "-k", "test_nbytes", "--json=out.json")
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # shells' background jobs ignore it
    done = conformance(*chosen, cwd=tmp_path, plugin=INTERRUPTED, start_new_session=True, preexec_fn=heard)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum("tests judged" in line for line in lines) == 2
    outcomes = {record["id"]: record["outcome"] for record in report.read(str(tmp_path / "out.json"))["results"]}
    assert outcomes["test_nbytes[float64-8]"] == "passed"
    assert "test_nbytes[float32-4]" not in outcomes


def test_how_long_a_test_may_run_unnamed():
    made, lines = object.__new__(kit.Kit), []
    made.running, made.told, made._tell = {"a/test_b.py::test_c": -math.inf}, set(), lines.append
    made._name_long_ones()
    made._name_long_ones()
    assert lines == ["running for more than 30 s: test_b.py::test_c"]


def test_the_command_says_that_the_process_ended(tmp_path):
    ending = CRASHING.replace("def nbytes", "def to_host")
    done = conformance("-k", "test_pickling", cwd=tmp_path, plugin=ending)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "The basics of strict" in done.stdout


def test_an_expected_failure_that_no_test_has(tmp_path):
    (tmp_path / "xfails.txt").write_text("test_memory.py::TestMemory::test_nothing  # a slip of the pen\n")
    done = run("agrad.testing.suite.test_memory", "--agrad-xfails=xfails.txt", cwd=tmp_path)
    assert done.returncode == 4
    assert "no test has the name test_memory.py::TestMemory::test_nothing" in done.stderr


def test_a_plugins_own_tests(tmp_path):
    """Classes of the kit imported and subclassed; the ini file names the backend."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nagrad_backend = numpy\naddopts = --strict-markers\n")
    (tmp_path / "test_mine.py").write_text("""
from agrad.testing.suite import Conformance, TestPickling, requires
from agrad.testing.suite import TestMemory as Memory


class TestMemory(Memory):
    xfails = {"test_no_cycles": "this is not so", "test_nothing_of_the_kind": "nor is this"}

    def test_no_cycles(self):
        assert False


class TestMine(Conformance):
    @requires("float64")
    def test_something(self):
        x = self.tensor([1.0, 2.0], requires_grad=True)
        (g,) = self.grad(lambda x: x * x, x)
        self.close(g, [2.0, 4.0])
""")
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 xfailed" in done.stdout
    assert "agrad conformance" in done.stdout


def test_without_scipy(tmp_path):
    """What SciPy would judge is left out, and says so; what the library lacks too is beyond the standard as ever."""
    (tmp_path / "without.py").write_text("import sys\n\nsys.modules['scipy'] = None\n")
    with_gamma = PLUGIN.replace(
        "def nbytes",
        """def kernel(self, op):
        import math, numpy as np
        slow = np.vectorize(math.lgamma, otypes=[float])
        return (lambda x: self.asarray(slow(np.asarray(x)))) if op == "special.gammaln" else None

    def nbytes""",
    )
    done = run(
        "agrad.testing.suite.test_rules",
        *(
            "-p",
            "without",
            "-rs",
            "-k",
            "float64 and (gammaln or betainc- or sinh-) and not batches and not composition",
        ),
        cwd=tmp_path,
        plugin=with_gamma,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "requires SciPy: it gives the expected values of special.gammaln" in done.stdout
    assert "beyond the standard: " in done.stdout


def test_the_plugin_of_pytest_imports_what_pytest_has_imported(tmp_path):
    program = "import sys, pytest, pluggy; before = {*sys.modules}; import _agrad_pytestplugin; print(*{*sys.modules} - before)"
    done = python("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["_agrad_pytestplugin"]


# -- its parts --------------------------------------------------------------------------------------------------------


def test_every_file_says_what_it_is_and_is_exported():
    files = sorted(FOLDER.glob("test_*.py"))
    assert len(files) == 18
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith('"""'), file.name
        classes = [line.partition("(")[0].removeprefix("class ") for line in lines if line.startswith("class Test")]
        assert classes
        assert set(classes) <= set(suite.__all__)


def test_samples_of_every_op_are_run():
    marks = next(mark for mark in suite.TestRules.test_reverse.pytestmark if mark.name == "parametrize")
    cases = {tuple(case.values) for case in marks.args[1]}
    assert {op for op, _ in cases} == set(SAMPLES) <= set(OPS)
    assert {("exp", "float32"), ("exp", "float64"), ("exp", "complex64"), ("exp", "complex128")} <= cases


def test_numbers_of_a_sample_are_the_same_in_every_order_of_the_tests():
    call, other = (SampleCall(SAMPLES["multiply"][0]) for _ in range(2))
    call.drawn("cotangents", call.arrays)
    for purpose in ("cotangents", "weights"):
        for one, two in zip(call.drawn(purpose, call.arrays), other.drawn(purpose, other.arrays), strict=True):
            np.testing.assert_array_equal(one, two)
    assert not np.array_equal(call.tangents[0], call.drawn("cotangents", call.arrays)[0])


def test_load_plugin(tmp_path):
    path = tmp_path / "one.py"
    path.write_text("class Plugin:\n    pass\n\nmade = Plugin()\n")
    assert kit.load_plugin(str(path)).__name__ == "one"
    assert type(kit.load_plugin(f"{path}:Plugin")).__name__ == "Plugin"
    assert type(kit.load_plugin(f"{path}:made")).__name__ == "Plugin"
    assert kit.load_plugin("json:loads") is json.loads
    assert isinstance(pickle.loads(pickle.dumps(kit.load_plugin(f"{path}:made"))), kit.load_plugin(str(path)).Plugin)
    library = tmp_path / "json.py"  # a file may have a library's name
    library.write_text("import json\n")
    assert kit.load_plugin(str(library)).json is json
    for text, says in (
        ("nonsense_module", "No module named"),
        ("json:nothing", "no attribute"),
        ("none.py", "No such file"),
    ):
        with pytest.raises(pytest.UsageError, match=says):
            kit.load_plugin(text)


def test_read_xfails(tmp_path):
    path = tmp_path / "xfails.txt"
    path.write_text("# all of them\ntest_a.py::test_b[c-d] # because\n\n")
    assert kit.read_xfails(str(path)) == {"test_a.py::test_b[c-d]": "because"}
    path.write_text("test_a.py::test_b\n")
    with pytest.raises(pytest.UsageError, match=r"no reason is given for test_a\.py::test_b"):
        kit.read_xfails(str(path))


def test_forms_of_reports():
    assert all(report.writer(f"out.{suffix}") for suffix in ("json", "html", "txt"))
    assert report.writer("out.pdf") is None


def test_requires_knows_capabilities():
    with pytest.raises(ValueError, match=r"no requirement is called float65; there are: .*float64"):
        suite.requires("float65")


def record(test="reverse", op="exp", dtype="float64", outcome="passed", reason="", area="rules", **failure):
    return {
        "area": area,
        "test": test,
        "op": op,
        "dtype": dtype,
        "id": f"test_{test}[{op}-{dtype}]",
        "outcome": outcome,
        "reason": reason,
        **failure,
    }


def failed(error, cause, **about):
    return record(
        outcome="failed", reason=error, error=error, cause=cause, place="mine.py:3", program="p = <1>", **about
    )


@pytest.fixture
def made():
    return report.make(
        "numpy",
        [
            record(),
            record(dtype="float32"),
            record(op="sort", outcome="lacks", reason="sort: too <long>"),
            failed("E  wrong | worse", "what is wrong with sort", op="sort", dtype="float32"),
            failed("wrong at (2,)", "what is wrong with sort", test="values", op="sort", dtype="float32"),
            failed("KeyError: 7", "KeyError: 0", op="tan"),
            record(test="values", op="sort"),
            record(test="values", op="erf", outcome="beyond", reason="beyond the standard: no kernel"),
            record(test="values", op="fft.fft", outcome="requires", reason="requires complex: it has none"),
            record(test="nbytes", op="", dtype="", area="memory"),
            record(test="freed", op="", dtype="", area="memory", outcome="expected", reason="known"),
            record(
                test="a_program", op="", dtype="", area="laziness", outcome="skipped", reason="numpy computes at once"
            ),
        ],
    )


def test_what_was_judged(made):
    assert report.summary(made).endswith(": 4 passed, 3 failed, 1 failed as expected, 1 lacking")
    assert report.judged(made) == (
        "9 of 12 tests judged; left out: 1 by requirement (complex 1), 1 beyond the standard, 1 that do not apply."
    )


def test_causes(made):
    first, second = report.causes(made)
    assert (first.error, len(first.records)) == ("wrong at (2,)", 2)  # the plainest of its kind
    assert first.whose == "test_rules (values, reverse), of sort"
    assert (second.error, second.place, second.program) == ("KeyError: 7", "mine.py:3", "p = <1>")
    text = report.causes_text(made, 1)
    assert text.startswith("1. 2 failed: wrong at (2,)\n    raised at mine.py:3\n")
    assert text.endswith("2. 1 failed: KeyError: 7")


def test_report_as_text(made):
    lines = report.to_text(made).splitlines()
    assert lines[:2] == [report.summary(made), report.judged(made)]
    assert [line.split() for line in lines[3:8]] == [
        ["values", "reverse"],
        ["erf", "-"],
        ["exp", "passed"],
        ["fft.fft", "-"],
        ["sort", *["failed:", "float32;", "passed:", "float64"], *["failed:", "float32;", "lacks:", "float64"]],
    ]
    assert "lacks    reverse of sort, float64: sort: too <long>" in lines


def test_report_as_html(made):
    page = report.to_html(made)
    assert page.startswith("<!doctype html>")
    assert '<span class="lacks" title="sort: too &lt;long&gt;">float64: lacking</span>' in page
    assert "<pre>p = &lt;1&gt;</pre>" in page
    assert page.count('<p class="dim">raised at mine.py:3</p>') == 2
    assert "<long>" not in page
    assert "http" not in page  # it needs nothing else
    for tag in ("tr", "table", "details", "div", "p"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag


def test_the_table_of_programs(made, tmp_path, capsys):
    replays = [
        record(area="programs", test="forward_and_backward", samples="5", ran="3", refused="2"),
        record(area="programs", test="forward_and_backward", dtype="float32", samples="1000", ran="1000", refused="0"),
        record(area="programs", test="second_order", samples="5", ran="2", refused="2"),
        record(area="programs", test="drawn", op="", dtype="", outcome="failed"),
        record(test="reverse", samples="7", ran="7", refused="0"),
    ]
    report.write({**made, "results": replays}, str(tmp_path / "a.json"))
    report.main(["--programs", str(tmp_path / "a.json")])
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.split(" | ")[2:] == ["gradients", "forward mode", "second order", "batches", "refused", "failed |"]
    assert row.split(" | ")[2:] == ["1,003 of 1,005", "-", "2 of 5", "-", "2", "1 |"]


def test_reports_as_one_table(made, tmp_path, capsys):
    absent = {**made, "device": "cupy", "available": False, "reason": "no | driver", "results": []}
    for name, one in (("a", made), ("b", absent)):
        report.write(one, str(tmp_path / f"{name}.json"))
    report.main([str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    head, line, first, second = capsys.readouterr().out.splitlines()
    assert head.startswith("| backend | version | date | rules |")
    assert set(line) <= set("| -")
    cells = [cell.strip() for cell in first.split("|")[1:-1]]
    assert cells[0] == "numpy"
    assert (cells[2], cells[3], cells[6]) == (made["date"], "3 of 7", "1 of 2")
    assert cells[-5:] == ["4", "1", "3", "9 of 12", "nothing"]
    assert "not available: no &#124; driver" in second
    assert head.count("|") == first.count("|") == second.count("|")


@pytest.mark.parametrize("test", reproducing.WAYS)
@pytest.mark.parametrize("op", ["matmul", "linalg.svd", "getitem", "nn.layer_norm", "linalg.vector_norm", "concat"])
def test_programs_that_reproduce(op, test, capsys):
    for sample in SAMPLES[op]:
        if sample.op == "linalg.svd" and "complex" in repr(sample):
            continue
        text = reproducing.program_of(SampleCall(sample), "float32", test, "numpy")
        exec(compile(text, "program", "exec"), {})
        first, second = capsys.readouterr().out.split("numpy", 1)[1].split("numpy", 1)
        assert first == second


def first_of(test):
    """Return the first arguments that a test of the kit is run with."""
    found = {}
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args
            first = next(iter(values))
            first = getattr(first, "values", first)
            found |= {names: first} if isinstance(names, str) else dict(zip(names, first, strict=True))
    return found


@pytest.mark.parametrize("kind", ["Availability", "Basics", "Inference", "Pickling", "Programs", "Threads"])
def test_tests_as_programs(kind):
    """A test that passes on NumPy is a program that ends there without an error."""
    kind = getattr(suite, f"Test{kind}")
    for name in vars(kind):
        if name.startswith("test_"):
            text = reproducing.test_as_program(kind, name, first_of(getattr(kind, name)), "numpy", quick=True)
            exec(compile(text, "program", "exec"), {})


def test_a_test_as_a_program():
    text = reproducing.test_as_program(
        suite.TestBasics, "test_the_four_operations", {"op": "add"}, "mine", ["mine.py:P"]
    )
    assert (
        text
        == '''import agrad as ag
from agrad.testing.kit import load_plugin
from agrad.core.errors import UnsupportedOp
from agrad.testing.suite.test_basics import FOUR, TestBasics

ag.register(load_plugin("mine.py:P"))


def test_the_four_operations(self, op: str) -> None:
    """Are they right for two tensors, and for a tensor and a number? (`Backend.namespace`, `Backend.kernel`)"""
    function, expected = FOUR[op]
    x, y = self.tensor([1.0, 2.0]), self.tensor([4.0, 0.5])
    try:
        self.close(function(x, y), expected)
        self.close(function(x, 4.0), [expected[0], function(2.0, 4.0)])
    except UnsupportedOp as error:
        self.lacking(error)


test_the_four_operations(TestBasics.on("mine"), op="add")'''
    )


def test_a_program_registers_the_plugin():
    text = reproducing.program_of(SampleCall(SAMPLES["exp"][0]), "float32", "values", "mine", ["mine.py:P"])
    assert text.splitlines()[:4] == [
        "import agrad as ag",
        "from agrad.testing.kit import load_plugin",
        "",
        'ag.register(load_plugin("mine.py:P"))',
    ]
    assert 'for device in ("numpy", "mine"):' in text
    assert 'dtype="float32"' in text


def test_a_file_that_is_no_report(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a report of agrad's conformance kit"):
        report.read(str(tmp_path / "a.json"))
