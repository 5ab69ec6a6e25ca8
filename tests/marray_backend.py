"""marray over NumPy as a backend of the tests: arrays with missing elements."""

from __future__ import annotations

import functools

import numpy as np

import agrad as ag
from agrad.plugin.hookspecs import hookimpl

#: Why operations of chapters that marray has not are lacking.
NONE = "marray has none"


class MaskedBackend(ag.Backend):
    """Arrays of NumPy's dtypes, elements of which may be missing."""

    name = "marray"
    contract = 2
    missing = True
    capabilities = {
        "linalg": NONE,
        "fft": NONE,
        "operators that give way": "its operators hand others to NumPy",
        "zero-size reductions": "what it makes of no elements is missing",
    }
    lacks = dict.fromkeys(
        (
            *("fft.fftshift", "fft.ifftshift", "linalg.cross", "linalg.diagonal", "linalg.matrix_rank"),
            *("linalg.outer", "linalg.trace", "linalg.vector_norm", "isin"),
        ),
        NONE,
    )

    @functools.cached_property
    def mxp(self):  # another namespace, with a class of its own, at each call
        import array_api_compat.numpy
        import marray

        return marray.masked_namespace(array_api_compat.numpy)

    def namespace(self):
        return self.mxp

    def availability(self):
        import marray

        return True, marray.__version__

    def kernel(self, op):
        if op == "extra.filled":
            return self.filled
        if op == "getitem":
            return self.getitem
        if op in ("take", "take_along_axis"):  # which write to their indices
            taken = getattr(self.mxp, op)
            return lambda x, indices, /, **axis: taken(x, self.mxp.asarray(indices, copy=True), **axis)
        return None

    def getitem(self, x, key, /):
        """Masks of rows, too, which the library's own reading of masks does not broadcast."""
        parts = key if isinstance(key, tuple) else (key,)
        plain = tuple(part.data if hasattr(part, "mask") else part for part in parts)
        return self.mxp.asarray(np.asarray(x.data[plain]), mask=np.asarray(x.mask[plain]))

    def filled(self, x, value, /):
        return self.mxp.asarray(np.where(x.mask, np.asarray(value, x.dtype), x.data))

    def misses(self, array):
        return bool(array.mask.any())

    def to_host(self, array):
        if self.misses(array):
            raise ag.UnsupportedOp("to_device", self.name, "elements are missing, which NumPy's arrays cannot say")
        return array.data

    def from_host(self, buffer, device):
        return self.mxp.asarray(np.array(buffer))

    def item(self, array):
        return array.data.item()

    def text_of(self, array):
        return f"tensor({array})"


class MaskedPlugin:
    backend = MaskedBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "marray" if array_type.__name__ == "MArray" and array_type.__module__.startswith("marray") else None
