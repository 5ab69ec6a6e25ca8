"""What agrad and its conformance kit require of an array library, by name: a backend states which of these it has.

The documentation of backends and the reasons for tests that the kit skips both come from this table.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["REQUIREMENTS", "Requirement"]


class Requirement(NamedTuple):
    """A feature that a backend has or lacks.

    Attributes
    ----------
    name : str
        The name in `Backend.capabilities` and ``@requires``.
    meaning : str
        What the feature is, to follow the words "it has no".
    leaves_out : str
        What the kit skips without it.
    needs : tuple of str
        The requirements that this one depends on.
    usual : bool
        Whether backends that do not state it have it.
    """

    name: str
    meaning: str
    leaves_out: str
    needs: tuple[str, ...] = ()
    usual: bool = True


#: By name, in the order of the documentation.
REQUIREMENTS: dict[str, Requirement] = {
    each.name: each
    for each in (
        Requirement(
            "float64",
            "real numbers of double precision",
            "whatever runs in float64, complex128 with it; where any precision will do, tests run in float32",
        ),
        Requirement(
            "float16",
            "real numbers of half precision",
            "creation, casts, promotion and gradients in float16 (the standard has no such dtype)",
            usual=False,
        ),
        Requirement(
            "bfloat16",
            "real numbers of the precision bfloat16",
            "creation, casts, promotion and gradients in bfloat16 (the standard has no such dtype)",
            usual=False,
        ),
        Requirement("complex", "complex numbers", "whatever has complex operands or results"),
        Requirement(
            "complex64", "complex numbers of single precision", "whatever runs in complex64", needs=("complex",)
        ),
        Requirement(
            "complex128",
            "complex numbers of double precision",
            "whatever runs in complex128",
            needs=("complex", "float64"),
        ),
        Requirement(
            "linalg",
            "decompositions of matrices and solutions of linear systems",
            "`linalg.*`, but for products, diagonals, traces and norms of vectors",
        ),
        Requirement(
            "complex linalg",
            "decompositions of complex matrices and solutions of their systems",
            "the same of complex matrices",
            needs=("linalg", "complex"),
        ),
        Requirement("fft", "Fourier transforms", "`fft.*`, but for `fftshift` and `ifftshift`", needs=("complex",)),
        Requirement(
            "data-dependent shapes",
            "results whose shape depends on values",
            "`nonzero`, `unique_*`",
        ),
        Requirement("boolean indexing", "reading and writing by masks", "keys with arrays of truth values"),
        Requirement("integer indexing", "reading and writing by arrays of integers", "keys with arrays of integers"),
        Requirement("empty arrays", "arrays without elements", "arrays with an axis of length 0"),
        Requirement(
            "zero-size reductions",
            "sums and other reductions of no elements",
            "reductions, products and norms of arrays with an axis of length 0",
            needs=("empty arrays",),
        ),
        Requirement(
            "operators that give way",
            "operators that return `NotImplemented` for an operand of a class they do not know",
            "`array * tensor` and `array @ tensor`, which are the library's own calls: users write `tensor * array` or"
            " `ag.asarray(array) @ tensor`",
        ),
        Requirement("threads", "use by several threads at a time", "tests on several threads"),
        Requirement(
            "lazy operations",
            "operations that all wait until a value is asked for",
            "of a lazy backend, whether an operation and its gradients compute anything; where only some compute,"
            " `Backend.computes` names them instead",
        ),
    )
}
