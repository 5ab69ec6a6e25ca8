"""pydata/sparse as a backend of the tests: arrays that hold what is not zero, whose products with dense ones are dense."""

from __future__ import annotations

import numpy as np

import agrad as ag
from agrad.plugin.hookspecs import hookimpl

#: Why it has no decompositions and transforms, and no places by number.
NONE = "the library has none"


class SparseBackend(ag.Backend):
    """Sparse arrays in the coordinate format, of NumPy's dtypes."""

    name = "sparse"
    contract = 2
    capabilities = {
        "linalg": NONE,
        "fft": NONE,
        "operators that give way": "the products of the library raise for operands that it does not know",
    }

    def namespace(self):
        import sparse  # doctests import this file where the library is not there

        return sparse

    def to_host(self, array):
        return array.todense()

    def from_host(self, buffer, device):
        return self.namespace().COO.from_numpy(np.array(buffer))

    def mixed(self, op, others):
        """Products with NumPy's arrays are the library's, and dense."""
        dense = all(other.is_duck_array and not other.is_batched for other in others)
        return getattr(self.namespace(), op) if dense and op in ("matmul", "tensordot") else None


class SparsePlugin:
    backend = SparseBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "sparse" if any(t.__module__ == "sparse.numba_backend._coo.core" for t in array_type.__mro__) else None
