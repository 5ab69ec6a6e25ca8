"""Masked arrays of marray, over NumPy: arrays with missing elements, and derivatives that only count those that are present.

The backend declares that elements may be `missing`; rules that count elements then handle this, and functions without
such a rule are refused.

Run it: ``python examples/marray_backend.py`` (``pip install marray``).
"""

from __future__ import annotations

import functools

import numpy as np
import pluggy

import agrad as ag

hookimpl = pluggy.HookimplMarker("agrad")

#: Why operations of chapters that marray does not have are lacking.
NONE = "marray has none"


class MaskedBackend(ag.Backend):
    """Arrays of NumPy's dtypes, with possibly missing elements."""

    name = "marray"
    contract = 2
    missing = True
    capabilities = {  # noqa: RUF012
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
    def mxp(self):  # another namespace, with its own class, at each call
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
        """Also supports masks of rows, which the library's own handling of masks does not broadcast."""
        parts = key if isinstance(key, tuple) else (key,)
        plain = tuple(part.data if hasattr(part, "mask") else part for part in parts)
        return self.mxp.asarray(np.asarray(x.data[plain]), mask=np.asarray(x.mask[plain]))

    def filled(self, x, value, /):
        return self.mxp.asarray(np.where(x.mask, np.asarray(value, x.dtype), x.data))

    def misses(self, array):
        return bool(array.mask.any())

    def quiet(self):  # what stands in the place of a missing element is computed with, too
        return np.errstate(all="ignore")

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


backend = MaskedBackend()


@hookimpl
def agrad_backends():
    return [backend]


@hookimpl
def agrad_backend_of(array_type):
    return "marray" if array_type.__name__ == "MArray" and array_type.__module__.startswith("marray") else None


if __name__ == "__main__":
    import sys

    ag.register(sys.modules[__name__])
    x = backend.mxp.asarray(np.asarray([1.0, 2.0, 3.0]), mask=np.asarray([False, True, False]))
    for name in ("mean", "var", "prod", "max"):
        print(name, ag.grad(getattr(ag, name))(x))
    try:
        ag.matmul(x, x)
    except ag.UnsupportedOp as error:
        print(error)
