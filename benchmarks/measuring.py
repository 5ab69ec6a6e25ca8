"""Shared by the benchmarks: threads, libraries, samples taken in turn, and statistics."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _requested_threads(argv: Sequence[str]) -> int:
    """Return the value of ``--threads``, which the BLAS libraries must see before NumPy is imported."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--threads", type=int, default=1)
    return int(parser.parse_known_args(argv)[0].threads)


THREADS = _requested_threads(sys.argv[1:])
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = str(THREADS)

import numpy as np  # noqa: E402  (the thread counts above come first)

#: Rounds in which slow libraries take part.
FEW = 3


# --- libraries --------------------------------------------------------------------------------------------------------


def load_peer(name: str) -> Any:
    """Import one library and return its namespace (for HIPS autograd: the package)."""
    if name == "HIPS":
        importlib.import_module("autograd.numpy")
        return importlib.import_module("autograd")
    module = importlib.import_module({"NumPy": "numpy"}.get(name, name))
    if name == "torch":
        module.set_num_threads(THREADS)
    return module


def load_peers(names: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Import the available libraries; return them and one note per missing library."""
    peers: dict[str, Any] = {}
    notes: list[str] = []
    for name in names:
        try:
            peers[name] = load_peer(name)
        except Exception as error:  # a half-built library must not stop the others
            notes.append(f"{name} is not available: {describe(error)}")
    return peers, notes


def version_of(module: Any) -> str:
    """Return the version of an imported library, or ``"?"``; of NumPy, also the kernels that the environment has OpenBLAS take.

    Those of an older processor take twice the time for products of matrices.
    """
    version = getattr(module, "__version__", None)
    if version is None:
        try:
            version = importlib.metadata.version(module.__name__)
        except importlib.metadata.PackageNotFoundError:
            version = "?"
    named = os.environ.get("OPENBLAS_CORETYPE") if module is np else None
    return str(version) + (f" (OPENBLAS_CORETYPE={named})" if named else "")


def describe(error: BaseException) -> str:
    """Return the class and the first line of an exception."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


# --- samples ----------------------------------------------------------------------------------------------------------


class WrongGradientError(AssertionError):
    """A library's gradients differ from those written by hand."""


def check(peer: str, got: Sequence[Any], expected: Sequence[np.ndarray], terms: Sequence[float] = ()) -> None:
    """Raise `WrongGradientError` unless the gradients agree up to rounding, relative to each one's largest entry.

    Where a gradient is a sum that cancels, `terms` has the sum of its terms' sizes, whose rounding is granted too.
    """
    if len(got) != len(expected):
        raise WrongGradientError(f"{len(got)} gradients, not {len(expected)}")
    for number, (g, e) in enumerate(zip(got, expected, strict=True)):
        if g is None:
            raise WrongGradientError(f"gradient {number} is None")
        array = np.asarray(g)
        if array.shape != e.shape:
            raise WrongGradientError(f"gradient {number} has shape {array.shape}, not {e.shape}")
        if array.dtype != e.dtype and peer != "HIPS":
            raise WrongGradientError(f"gradient {number} has dtype {array.dtype}, not {e.dtype}")
        if e.dtype == np.bool_:
            agree = np.array_equal(array, e)
        else:
            rtol = 1e-4 if e.dtype == np.float32 else 1e-10
            rounding = 16 * float(np.finfo(e.dtype).eps) * terms[number] if terms else 0.0
            agree = np.allclose(array, e, rtol=rtol, atol=max(rtol * float(np.max(np.abs(e))), rounding))
        if not agree:
            raise WrongGradientError(f"gradient {number} differs from the one by hand")


@dataclass
class Samples:
    """The measurements of one row: seconds (or bytes) by library and round, and the libraries that failed."""

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)

    def fail(self, peer: str, error: BaseException) -> None:
        """Drop a library and keep the reason."""
        self.values.pop(peer, None)
        self.failures[peer] = describe(error)
        if isinstance(error, WrongGradientError):
            self.wrong.add(peer)

    def median(self, peer: str) -> float | None:
        """Return the median over the rounds."""
        values = self.values.get(peer)
        return statistics.median(values.values()) if values else None

    def paired(self, function: Callable[[float, float], float], one: str, other: str) -> float | None:
        """Return the median of `function` over the rounds that both libraries took part in."""
        ones, others = self.values.get(one, {}), self.values.get(other, {})
        both = ones.keys() & others.keys()
        return statistics.median(function(ones[i], others[i]) for i in both) if both else None


def in_turn(peers: Sequence[str], rounds: int, few: Sequence[str]) -> Iterable[tuple[int, list[str]]]:
    """Yield each round's number and libraries, beginning with another library each time."""
    for number in range(rounds):
        first = number % len(peers)
        order = [*peers[first:], *peers[:first]]
        yield number, [peer for peer in order if peer not in few or number < FEW]


def cell(value: float | None) -> str:
    """Return a number in three digits, never in exponential form."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def interval(ratios: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of the median by the bootstrap."""
    draw = random.Random(seed)  # noqa: S311 (statistics, no secrets)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[100], medians[3899]


def environment(place: Path) -> dict[str, str]:
    """Return the environment in which a checkout is imported, with one thread."""
    parts = [place, *sorted((place / "plugins").iterdir())]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | threads | {"PYTHONPATH": os.pathsep.join(map(str, parts))}
