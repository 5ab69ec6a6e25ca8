"""XLA as an executor: programs on NumPy's arrays are compiled by JAX, and the arrays stay NumPy's.

Run ``python examples/xla_executor.py``; it needs JAX. A distribution would define `agrad_executors` in a module that
the entry point group ``agrad`` names, and return the executor as a path, ``{"xla": "module:Xla"}``, so that JAX is only
imported when it is named.
"""

import sys
from pathlib import Path

import numpy as np
import pluggy

import agrad as ag
from agrad.plugin.backend import Executor, Refused

hookimpl = pluggy.HookimplMarker("agrad")

sys.path.insert(0, str(Path(__file__).parent / "third_party_backend"))


class Xla(Executor):
    """Programs as one XLA function, on the CPU."""

    name = "xla"
    contract = 2
    backends = ("numpy",)

    def supports(self, program, *, exact=False, **options):
        return not exact  # XLA computes sums in its own orders

    def build(self, program, backend, values, **options):
        from agrad_jax import backend as jax  # JAX's kernels for agrad's operations, which imports JAX

        run = jax.jax.jit(program.on(jax.default_device()).function(jax))
        try:
            run(*values)
        except (TypeError, ag.UnsupportedOp) as error:  # it meets a number or a shape that depends on values
            raise Refused(f"XLA does not compile it: {error}") from error
        return lambda *arrays: tuple(np.asarray(out) for out in run(*arrays))


class Plugin:
    """An installed module's hook."""

    @hookimpl
    def agrad_executors(self):
        return [Xla()]


if __name__ == "__main__":
    ag.register(Plugin())

    def energy(x):
        """Return a sum of squares of neighbours' differences."""
        return ag.sum((x[1:] - ag.sin(x[:-1])) ** 2)

    compiled = ag.compile(ag.func.value_and_grad(energy), executor="xla")
    x = np.linspace(0.0, 1.0, 1000)
    for _ in range(3):
        value, gradient = compiled(x)
    expected, slope = ag.func.value_and_grad(energy)(x)
    print(f"by XLA {float(value):.12f}, by NumPy {float(expected):.12f}")
    print(f"gradients differ by {np.max(np.abs(gradient - slope)):.1e} at most, and are {type(gradient).__module__}'s")
