"""The kit's options within pytest: they register plugins, read expected failures, and write a report.

`_agrad_pytestplugin` registers a `Kit` if one of the options is given; the tests are in `agrad.testing.suite`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import agrad as ag
from agrad.core.op import OPS
from agrad.testing import report, reproducing
from agrad.testing.calls import SINGLE, SampleCall

#: The folder in which agrad is installed.
HOME = str(Path(ag.__file__).parent) + os.sep

#: Seconds after which a test that still runs is named.
LONG = 30

#: The parts of the kit that run first, in this order: the others rely on them, so their failures say more.
FIRST = ("basics", "registration", "transfers", "namespace", "creation", "indexing", "rules")


def load_plugin(text: str) -> Any:
    """Return the object named by ``MODULE[:OBJECT]``: a module, by name or as a file, or an object in it; a class is called.

    Raises
    ------
    pytest.UsageError
        If there is no such module or object.
    """
    place, _, name = text.rpartition(":") if ":" in text[2:] else (text, "", "")  # not the colon of C:\\
    try:
        if place.endswith(".py"):
            found: Any = _module_in(Path(place).resolve())
        else:
            found = importlib.import_module(place)
        if name:
            found = getattr(found, name)
    except (ImportError, AttributeError, OSError) as error:
        raise pytest.UsageError(f"--agrad-plugin={text}: {type(error).__name__}: {error}") from error
    return found() if isinstance(found, type) else found


def _module_in(path: Path) -> Any:
    """Return the module in a file, under whose name its definitions can be imported and pickled."""
    name = path.stem
    known = importlib.util.find_spec(name) if name.isidentifier() else None
    ours = known is None or Path(known.origin or "").resolve() == path
    if ours and name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    if ours:  # a file may have a library's name
        sys.modules[name] = found
    try:
        spec.loader.exec_module(found)
    except BaseException:
        if ours:
            del sys.modules[name]
        raise
    return found


def read_xfails(path: str) -> dict[str, str]:
    """Read a file of expected failures: per line the end of a test's id, `` # `` and the reason.

    Raises
    ------
    pytest.UsageError
        If the file cannot be read, or a line has no reason.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise pytest.UsageError(f"--agrad-xfails={path}: {error}") from error
    found = {}
    for line in lines:
        test, _, reason = (part.strip() for part in line.partition(" #"))
        if not test or test.startswith("#"):
            continue
        if not reason:
            raise pytest.UsageError(f"{path}: no reason is given for {test} (write `{test}  # reason`)")
        found[test] = reason
    return found


def _class_in(path: str, name: str) -> Any:
    """Return the class of the kit that a file has under a name; None for a file that does not belong to the kit."""
    from agrad.testing import suite  # noqa: PLC0415 (only pytest may import tests earlier: it changes them)

    found = getattr(suite, name, None)
    file = Path(path).stem  # in ids of tests outside the folder where pytest runs it is empty
    return found if found is not None and file in ("", found.__module__.rpartition(".")[2]) else None


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """Return the sort key of a test: by the part of the kit, in each part single precision last."""
    about: Any = dict(item.user_properties).get("agrad", {})
    area = about.get("area")
    return FIRST.index(area) if area in FIRST else len(FIRST), about.get("dtype") in SINGLE.values()


class Kit:
    """The kit in one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.records: list[report.Record] = []
        self.running: dict[str, float] = {}  # when each test began
        self.others: bool = False  # whether a test passed that does not belong to the kit
        self.told: set[str] = set()  # causes
        self.plugins: list[str] = config.getoption("agrad_plugin")
        for text in self.plugins:
            ag.register(load_plugin(text))
        path = config.getoption("agrad_xfails")
        self.xfails: Any = read_xfails(path) if path else {}
        self.files: Any = config.getoption("agrad_report")
        for file in self.files:
            if report.writer(file) is None:
                raise pytest.UsageError(f"--agrad-report={file}: a report is written as .json, .html or .txt")

    @property
    def backend(self) -> str:
        """The backend (or device) under test, as the options have it."""
        return str(self.config.getoption("agrad_backend") or self.config.getini("agrad_backend"))

    @pytest.hookimpl(tryfirst=True)  # before a selection takes tests away
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark expected failures, record the subject of each test, which workers' reports carry, and order the tests."""
        missing = dict(self.xfails)
        for item in items:
            base = getattr(getattr(item, "cls", None), "is_agrad_conformance", False)
            if not base:
                continue
            name = (
                f"{item.path.name}::{item.nodeid.partition('::')[2]}"  # ids begin with the path from the current folder
            )
            for test, reason in self.xfails.items():
                if name.endswith(test):
                    item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
                    missing.pop(test, None)
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            about = {
                "area": item.module.__name__.rpartition(".test_")[2],  # type: ignore[attr-defined]
                "test": item.originalname.removeprefix("test_"),  # type: ignore[attr-defined]
                "op": str(parameters.get("op", "")),
                "dtype": str(parameters.get("dtype", "")),
                "id": item.name,
            }
            item.user_properties.append(("agrad", about))
        items.sort(key=_turn)
        files = {item.path.name for item in items}
        missing = {test: reason for test, reason in missing.items() if test.partition("::")[0] in files}
        if missing:
            raise pytest.UsageError(f"--agrad-xfails: no test has the name {', '.join(missing)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record a failure, and how to reproduce it."""
        done = yield
        about: Any = dict(item.user_properties).get("agrad")
        counts = getattr(getattr(item, "instance", None), "counts", None)
        if about is not None and call.when == "call" and counts is not None:
            about |= {name: str(counts[name]) for name in report.COUNTED}
        if about is None or call.excinfo is None:
            return done
        if done.failed:
            about |= self._failure(about, call, item)
        elif isinstance(call.excinfo.value, pytest.xfail.Exception):  # as `Conformance.lacking` does
            about["lacks"] = "yes"
        return done

    def _failure(self, about: report.Record, call: pytest.CallInfo[None], item: pytest.Item) -> report.Record:
        """Return the error, its origin, its similarity key, and a program that reproduces it."""
        assert call.excinfo is not None
        raised, op, last = call.excinfo.value, about["op"], call.excinfo.traceback[-1]
        by_kit = isinstance(raised, pytest.fail.Exception)
        inside = by_kit or str(last.path).startswith((HOME, "<agrad"))  # an entry point's own code
        text = str(raised).strip()
        error = text if by_kit else f"{type(raised).__name__}: {text}"
        if op and inside and call.when == "call" and (by_kit or isinstance(raised, AssertionError)):
            cause, error = f"what is wrong with {op}", f"{op}: {text}"  # found by the kit: whatever the test
        else:  # the same words, except for the operation and numbers
            cause = re.sub(rf"(?<![a-z_]){re.escape(op)}(?![a-z_])", "OP", error) if op else error
            cause = re.sub(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[-+]?\d+)?", "0", cause)
            cause = re.sub(r"[(\[](0(, *)?)*[)\]]", "(0)", cause)[:300]  # shapes of any length
        failing: tuple[SampleCall, str] | None = getattr(getattr(item, "instance", None), "failing", None)
        program = failing and reproducing.program_of(*failing, about["test"], self.backend, self.plugins)
        if program is None:
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            program = self._one_test(f"{item.path}::{item.nodeid.partition('::')[2]}", parameters)
        place = "" if inside else f"{last.path}:{last.lineno + 1}"
        if place and not Path(last.path).is_file():  # compiled code: the innermost line that can be read, too
            read = next((e for e in reversed(call.excinfo.traceback) if Path(e.path).is_file()), last)
            place += f", called at {read.path}:{read.lineno + 1}"
        return {"error": error.partition("\n")[0][:400], "place": place, "cause": cause, "program": program}

    def _one_test(self, nodeid: str, parameters: Mapping[str, Any] | None) -> str:
        """Return a program that is one test of the kit; if its arguments cannot be written, one that runs it by pytest."""
        path, _, rest = nodeid.partition("::")
        name, _, test = rest.partition("::")
        kind = _class_in(path, name)
        if (
            kind is not None
            and parameters is not None
            and all(isinstance(v, str | int | float | complex) for v in parameters.values())
        ):
            quick = bool(self.config.getoption("agrad_quick"))
            function = test.partition("[")[0]
            return reproducing.test_as_program(kind, function, parameters, self.backend, self.plugins, quick=quick)
        given = [f"{path}::{rest}"] if kind is None else ["--pyargs", f"{kind.__module__}::{rest}"]
        given += [f"--agrad-backend={self.backend}", *(f"--agrad-plugin={text}" for text in self.plugins)]
        return f"import pytest\n\npytest.main({json.dumps(given)})"

    @property
    def is_worker(self) -> bool:
        """Whether another process prints and writes the reports."""
        return "PYTEST_XDIST_WORKER" in os.environ

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record when a test began; the first one announces all that take long."""
        if not (self.is_worker or self.running):
            threading.Thread(target=self._watch, daemon=True).start()
        self.running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Forget a test that ended."""
        if nodeid in self.running:
            self.running[nodeid] = math.inf

    def _watch(self) -> None:
        """Name the tests that run longer than `LONG` seconds."""
        while True:
            time.sleep(LONG / 6)
            self._name_long_ones()

    def _name_long_ones(self) -> None:
        """Print the name of each test that has been running for long, once."""
        for test, began in self.running.copy().items():
            if time.monotonic() - began > LONG and test not in self.told:
                self.told.add(test)
                self._tell(f"running for more than {LONG} s: {test.rpartition('/')[2]}")

    def _tell(self, line: str) -> None:
        """Print a line between the dots."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and not self.is_worker:
            terminal.write_line(f"\n{line}")  # after the dots

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how a test ended, and print the cause of a failure at its first occurrence."""
        self._note(report)
        if report.failed and self.records and self.records[-1]["outcome"] == "failed":
            record = self.records[-1]
            if record["cause"] not in self.told:
                self.told.add(record["cause"])
                self._tell(f"{record['area']}, {record['id']}: {record['error']}")

    def _note(self, done: pytest.TestReport) -> None:
        about: Any = dict(done.user_properties).get("agrad")
        # This is how pytest-xdist reports that a process ended
        if about is None and done.when not in ("setup", "call", "teardown"):
            about = self._crash(done)
        self.others = self.others or (about is None and done.when == "call" and done.passed)
        if about is None or (done.when != "call" and done.passed):
            return
        about, outcome, reason = dict(about), "passed", ""
        lacks = about.pop("lacks", "")
        if hasattr(done, "wasxfail"):
            outcome, reason = "lacks" if lacks else "expected", str(done.wasxfail).removeprefix("reason: ")
        elif done.skipped:
            reason = str(done.longrepr[2] if isinstance(done.longrepr, tuple) else done.longrepr)
            reason = reason.removeprefix("Skipped: ")
            outcome = {"requires": "requires", "beyond": "beyond"}.get(reason.partition(" ")[0], "skipped")
        elif done.failed:
            outcome, reason = "failed", about.get("error", "")
            if not reason:  # an expected failure passed
                reason = done.longreprtext.strip()
                about |= {"error": reason, "place": "", "cause": reason, "program": f"# {done.nodeid}"}
        self.records.append({**about, "outcome": outcome, "reason": reason})

    def _crash(self, done: pytest.TestReport) -> report.Record | None:
        """Return the subject of a test whose process ended."""
        path, _, name = done.nodeid.partition("::")
        kind = _class_in(path, name.partition("::")[0])
        area = (path.removesuffix(".py") if kind is None else kind.__module__).rpartition("test_")[2]
        test, _, parameters = name.rpartition("::")[2].partition("[")
        op, _, dtype = parameters.removesuffix("]").rpartition("-")
        op, dtype = (op, dtype) if op in OPS else ("", "")
        given = {"op": op, "dtype": dtype} if op else None if parameters else {}
        error = f"the process ended: {self._end_of(done)}"
        return {
            "area": area,
            "test": test.removeprefix("test_"),
            "op": op,
            "dtype": dtype,
            "id": name.rpartition("::")[2],
            "error": f"{op}: {error}" if op else error,
            "place": "",
            "cause": f"the process ended at {op or name}",
            "program": self._one_test(done.nodeid, given),
        }

    def _end_of(self, done: Any) -> str:
        """Return how the process of a test ended."""
        began = self.running.get(done.nodeid, math.inf)
        self.running[done.nodeid] = math.inf
        limit = float(self.config.getini("faulthandler_timeout") or 0)
        if 0 < limit <= time.monotonic() - began:
            return f"the test took more than {limit:g} s, its stacks are printed above"
        process = getattr(getattr(done.node.gateway, "_io", None), "popen", None)  # if execnet has started one
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):  # its connection has ended: as a rule it has, too
            status = None if process is None else process.wait(10)
        if status is None:
            return "by a crash of the library or os._exit"
        return f"a crash of the library, signal {-status}" if status < 0 else f"by exit or os._exit, status {status}"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; a run of the kit in which nothing was judged has not passed."""
        judged = any(record["outcome"] in report.JUDGED for record in self.records)
        if self.records and not judged and not self.others and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        if self.files and not self.is_worker:
            made = report.make(self.backend, self.records)
            for file in self.files:
                report.write(made, file)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Report how the backend did, and the causes of the failures."""
        if not self.records:
            return
        made = report.make(self.backend, self.records)
        text = report.causes_text(made)
        if text:
            terminalreporter.section("what failed, by cause")
            terminalreporter.write_line(text)
        terminalreporter.section("agrad conformance")
        if {record["area"] for record in self.records} == {"basics"}:
            for line in self._basics():
                terminalreporter.write_line(line)
        terminalreporter.write_line(report.summary(made))
        terminalreporter.write_line(report.judged(made))
        for file in self.files:
            terminalreporter.write_line(f"The report is in {file}.")

    def _basics(self) -> Iterator[str]:
        """Report how each of the basics did, and for a failed one the requirement."""
        from agrad.testing.suite import TestBasics  # noqa: PLC0415 (as above)

        for record in self.records:
            name = record["id"].removeprefix("test_").replace("_", " ")
            yield f"{record['outcome']:9}{name}{': ' * bool(record['reason'])}{record['reason'][:200]}"
            if record["outcome"] == "failed":
                yield f"         It asks: {getattr(TestBasics, 'test_' + record['test']).__doc__}"
