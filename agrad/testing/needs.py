"""What a sample needs of a backend, by the names of `agrad.core.requirements`."""

from __future__ import annotations

from typing import Any

from agrad.core.kernels import is_mask
from agrad.core.op import OPS
from agrad.core.requirements import REQUIREMENTS
from agrad.testing.samples import Data, Sample

__all__ = ["of_dtype", "of_sample"]

#: Those of `linalg` that no decomposition is for.
PRODUCTS = frozenset({"linalg.cross", "linalg.diagonal", "linalg.outer", "linalg.trace", "linalg.vector_norm"})

#: Decompositions and solutions beside those of `linalg`.
OF_MATRICES = frozenset(
    {
        *("scipy.expm", "scipy.expm_frechet", "scipy.logm", "scipy.lstsq", "scipy.lu", "scipy.solve_banded"),
        *("scipy.solve_sylvester", "scipy.solve_triangular", "scipy.sqrtm"),
    }
)

#: Those whose results and derivatives are complex, also of real matrices.
TO_COMPLEX = frozenset({"linalg.eig", "linalg.eigvals", "scipy.logm", "scipy.sqrtm"})

#: Those of `fft` that move elements alone.
SHIFTS = frozenset({"fft.fftshift", "fft.ifftshift"})

#: Operations that add up, or choose among, the elements along an axis.
REDUCING = frozenset(
    {
        *("extra.contraction", "extra.logcumsumexp", "extra.nanmax", "extra.nanmin", "matmul", "max", "mean", "min"),
        *("nn.conv2d", "nn.cross_entropy", "nn.l1_loss", "nn.layer_norm", "nn.linear", "nn.log_softmax", "nn.mse_loss"),
        *("nn.nll_loss", "nn.softmax", "prod", "special.logsumexp_over", "std", "sum", "tensordot", "var", "vecdot"),
        *("linalg.trace", "linalg.vector_norm", "nn.attention"),
    }
)


def of_dtype(dtype: str) -> tuple[str, ...]:
    """Return the requirements of a dtype, by its name."""
    return (dtype,) if dtype in REQUIREMENTS else ()


def of_sample(sample: Sample) -> tuple[str, ...]:
    """Return the requirements of a sample, but for the precision it runs in."""
    given = list(_flat([*sample.args, *sample.kwargs.values()]))
    arrays = [value for value in given if isinstance(value, Data)]
    found = [name for value in given if isinstance(value, str) for name in of_dtype(value)]
    is_complex = any(array.dtype.startswith("complex") for array in arrays)
    if is_complex:
        found.append("complex")
    chapter = sample.op.partition(".")[0]
    if chapter == "fft" and sample.op not in SHIFTS:
        found.append("fft")
    if (chapter == "linalg" and sample.op not in PRODUCTS) or sample.op in OF_MATRICES:
        found.append("complex linalg" if is_complex or sample.op in TO_COMPLEX else "linalg")
    if sample.op in OPS and OPS[sample.op].has_key:
        found += ["boolean indexing" if is_mask(a) else "integer indexing" for a in arrays if not a.inexact]
    if any(0 in array.shape for array in arrays):
        found.append("zero-size reductions" if sample.op in REDUCING or chapter == "linalg" else "empty arrays")
    return tuple(dict.fromkeys(found))


def _flat(value: Any) -> Any:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    else:
        yield value
