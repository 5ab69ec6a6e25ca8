"""One library of the row against asdex in `sparse_derivatives.py`, in a process of its own.

``python sparse_asdex.py agrad`` or ``asdex`` (with ``pip install jax asdex``) first prints the sum of the entries of a Jacobian; then, for
each line that it reads, the median of the CPU seconds of some calls. The function is that of ``sparse_derivatives.tridiagonal``.
"""

from __future__ import annotations

import os

os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CALLS = 51


def asdex(x: Any) -> tuple[Callable[[], Any], Callable[[Any], float]]:
    """Return the call that is timed, a compiled one that gives a sparse matrix of JAX's, and what adds its entries up."""
    import jax
    import jax.numpy as jnp
    from asdex import jacobian

    jax.config.update("jax_enable_x64", True)

    def tridiagonal(x: Any) -> Any:
        y = x * x
        return jnp.concat([2 * y[:1] - x[1:2], 2 * y[1:-1] - x[:-2] - x[2:] * x[1:-1], 2 * y[-1:] - x[-2:-1]])

    given = jnp.asarray(x)
    made = jax.jit(jacobian(tridiagonal, given))
    return lambda: jax.block_until_ready(made(given)), lambda matrix: float(matrix.data.sum())


def agrad(x: Any) -> tuple[Callable[[], Any], Callable[[Any], float]]:
    """Return the call that is timed, which gives a matrix of SciPy's, and what adds its entries up."""
    import sparse_derivatives

    import agrad as ag

    given, made = ag.asarray(x), ag.func.sparse_jacobian(sparse_derivatives.tridiagonal)
    return lambda: made(given), lambda matrix: float(matrix.sum())


def main() -> None:
    """Answer each line with a time."""
    call, total = {"asdex": asdex, "agrad": agrad}[sys.argv[1]](np.random.default_rng(0).normal(size=10_000))
    for _ in range(6):
        call()
    print(total(call()), flush=True)
    for _ in sys.stdin:
        taken = []
        for _ in range(CALLS):
            start = time.process_time()
            call()
            taken.append(time.process_time() - start)
        print(statistics.median(taken), flush=True)


if __name__ == "__main__":
    main()
