"""``python -m agrad conformance NAME``: the conformance kit in two stages, with its tests in a separate process."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["main"]

BASICS, WHOLE = "agrad.testing.suite.test_basics", "agrad.testing.suite"
PROGRAMS = "agrad.testing.suite.test_programs"

#: The exit statuses of pytest itself.
PYTESTS_OWN = range(6)
NOTHING = 5

#: How often a process of tests that ended is replaced by another.
RESTARTS = 1000

WITHOUT_XDIST = (
    "pytest-xdist is not installed: if the library ends the process, the run ends too (pip install pytest-xdist)."
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments; unknown ones are passed to pytest."""
    made = argparse.ArgumentParser(
        prog="python -m agrad conformance",
        description="Test a backend: the basics first, in seconds, then the whole kit. Further options go to pytest.",
    )
    made.add_argument("name", metavar="NAME", help="the backend, or one of its devices, as cupy:1")
    made.add_argument("--plugin", action="append", default=[], metavar="MODULE[:OBJECT]", help="of one not installed")
    made.add_argument("--executor", metavar="NAME", help="an executor that runs the programs")
    made.add_argument("--basics", action="store_true", help="stop after the basics")
    made.add_argument("--quick", action="store_true", help="one sample per operation")
    made.add_argument("--programs", action="store_true", help="every sample captured and replayed, and nothing else")
    made.add_argument("--xfails", metavar="FILE", help="tests expected to fail: lines of `test id  # reason`")
    for form in ("html", "json", "txt"):
        made.add_argument(f"--{form}", metavar="FILE", help=f"write the report as {form}")
    made.add_argument("-n", default="1", metavar="COUNT", help="processes to test in; 0: in this one (default: 1)")
    made.add_argument("--timeout", default="300", metavar="SECONDS", help="that a test may take (default: 300)")
    return made


def ended(command: Sequence[str]) -> int:
    """Run a command and return its exit status.

    A terminal sends Ctrl-C to the command, too: pytest then reports what it has run. The second one is passed on, for
    what interrupts this process alone.
    """
    with subprocess.Popen(command) as process:  # noqa: S603 (Python itself)
        try:
            return process.wait()
        except KeyboardInterrupt:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    process.send_signal(signal.SIGINT)


def main(arguments: Sequence[str]) -> int:
    """Run the kit and return pytest's exit status; 5 if nothing was judged, for example because the backend is not available.

    Parameters
    ----------
    arguments : sequence of str
        Those of the command line after ``conformance``.
    """
    given, rest = parser().parse_known_args(arguments)
    if importlib.util.find_spec("pytest") is None:
        sys.stderr.write("The kit needs the NumPy backend, and: pip install pytest pytest-xdist scipy\n")
        return 2
    pytest = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rN", f"--agrad-backend={given.name}"]
    pytest += [f"--agrad-plugin={text}" for text in given.plugin]
    pytest += [f"--agrad-executor={given.executor}"] if given.executor else []

    print(f"The basics of {given.name}: arrays, transfers, the four operations, a gradient.", flush=True)
    status = ended([*pytest, "--pyargs", BASICS])
    if status:
        why = (
            f"The process ended with status {status}; the traceback above says where. "
            if status not in PYTESTS_OWN
            else ""
        )
        why = "Nothing was judged: the reason is above. " if status == NOTHING else why
        print(f"{why}The rest of the kit was not run: it depends on these.")
    if status or given.basics:
        return status

    what = "kit's programs" if given.programs else "kit"
    print(f"The {'quick ' if given.quick else ''}{what}.", flush=True)
    if given.n != "0" and importlib.util.find_spec("xdist") is not None:  # a process that ends is one test's failure
        pytest += ["-n", given.n, f"--max-worker-restart={RESTARTS}", "-o", f"faulthandler_timeout={given.timeout}"]
        pytest += ["-o", "faulthandler_exit_on_timeout=true"]
    elif given.n != "0":
        print(WITHOUT_XDIST, flush=True)
    pytest += [f"--agrad-report={file}" for file in (given.html, given.json, given.txt) if file]
    pytest += [f"--agrad-xfails={given.xfails}"] if given.xfails else []
    pytest += ["--agrad-quick"] if given.quick else []
    pytest += ["--agrad-every"] if given.programs else []
    part = PROGRAMS if given.programs else WHOLE
    return ended([*pytest, *rest, "--pyargs", part])
