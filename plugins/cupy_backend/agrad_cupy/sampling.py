"""Random samples from a key: Philox 4x64, ten rounds, as NumPy has it, one element per thread and no state.

Element i depends only on the key and i, so there is nothing to set up or keep. Uniform samples have the same bits as
NumPy's; normal ones (Box and Muller) and integers do not, because NumPy draws a varying number of times for them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

#: J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011).
PREAMBLE = """
__device__ inline void agrad_philox(unsigned long long block, unsigned long long k0, unsigned long long k1,
                                    unsigned long long* c) {
    c[0] = block; c[1] = 0; c[2] = 0; c[3] = 0;
    for (int round = 0; round < 10; round++) {
        const unsigned long long a = 0xD2E7470EE14C6C93ULL, b = 0xCA5A826395121157ULL;
        const unsigned long long h0 = __umul64hi(a, c[0]), l0 = a * c[0];
        const unsigned long long h1 = __umul64hi(b, c[2]), l1 = b * c[2];
        c[0] = h1 ^ c[1] ^ k0; c[1] = l1; c[2] = h0 ^ c[3] ^ k1; c[3] = l0;
        k0 += 0x9E3779B97F4A7C15ULL; k1 += 0xBB67AE8584CAA73BULL;
    }
}
"""

#: By kind: the result's dtype, and the formula of one element from the key (k0, k1) and its number i. Block 0 is not
#: used.
BODIES = {
    "uniform": ("float64", "agrad_philox(i / 4 + 1, k0, k1, c); r = (c[i % 4] >> 11) * (1.0 / 9007199254740992.0);"),
    "uniform_single": (  # two halves of each number, the low one first
        "float32",
        (
            "agrad_philox(i / 8 + 1, k0, k1, c);"
            " r = ((unsigned int)(c[i % 8 / 2] >> (i % 2 * 32)) >> 8) * (1.0f / 16777216.0f);"
        ),
    ),
    "normal": (
        "float64",
        (
            "agrad_philox(i / 2 + 1, k0, k1, c); const unsigned long long* p = c + i % 2 * 2;"
            " const double u = ((p[0] >> 11) + 1) * (1.0 / 9007199254740992.0);"  # in (0, 1]
            " const double v = (p[1] >> 11) * (1.0 / 9007199254740992.0);"
            " r = sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);"
        ),
    ),
    "integers": (  # uniform to one part in 2**64 / count
        "int64",
        "agrad_philox(i / 4 + 1, k0, k1, c); r = low + (long long)__umul64hi(c[i % 4], count);",
    ),
}


@functools.cache
def kernel(kind: str) -> Any:
    """Return the kernel of one kind; CUDA compiles it at its first call."""
    import cupy  # noqa: PLC0415 (the texts can be read, and tried, without CuPy)

    dtype, body = BODIES[kind]
    more = ", int64 low, uint64 count" if kind == "integers" else ""
    return cupy.ElementwiseKernel(
        f"uint64 k0, uint64 k1{more}",
        f"{dtype} r",
        f"unsigned long long c[4]; {body}",
        f"agrad_{kind}",
        preamble=PREAMBLE,
    )


def sample(kind: str, shape: tuple[int, ...], key: tuple[int, int], dtype: Any, **p: Any) -> Any:
    """Sample on the current device; see `Backend.random`."""
    import cupy  # noqa: PLC0415 (as above)
    import numpy as np  # noqa: PLC0415 (as above)

    words = [np.uint64(part & (2**64 - 1)) for part in key]
    if kind == "permutation":
        return cupy.argsort(sample("uniform", (p["n"],), key, np.dtype(np.float64))).astype(dtype)
    size = math.prod(shape)
    if not size:
        return cupy.zeros(shape, dtype)
    if kind == "integers":
        words += [np.int64(p["low"]), np.uint64(p["high"] - p["low"])]  # type: ignore[list-item]
    elif kind == "uniform" and dtype == np.float32:
        kind = "uniform_single"
    return cupy.reshape(kernel(kind)(*words, size=size), shape).astype(dtype, copy=False)
