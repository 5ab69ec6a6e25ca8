"""Sample operands for every differentiable op, as plain numbers: for agrad's tests and for those of any backend.

The samples are away from kinks and singular points, so that finite differences are valid. They cover broadcasting,
zero-size and 0-d operands, complex and mixed kinds, and every parameter that affects a derivative. There is a file per
chapter of the standard, and for loops, `agrad.nn`, `agrad.special`, `agrad.extra` and `agrad.scipy`.
"""

from __future__ import annotations

from agrad.testing.samples import (  # noqa: F401 (each adds its own)
    elementwise,
    extra,
    fft,
    indexing,
    linalg,
    loops,
    manipulation,
    nn,
    scipy,
    special,
    statistical,
    utility,
)
from agrad.testing.samples.data import SAMPLES, Data, Like, Sample, resolve

__all__ = ["SAMPLES", "Data", "Like", "Sample", "resolve", "samples_of"]


def samples_of(op: str) -> tuple[Sample, ...]:
    """Return the samples of an op; an empty tuple if there are none."""
    return tuple(SAMPLES.get(op, ()))
