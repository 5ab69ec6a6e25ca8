"""JAX's arrays as a backend of agrad: where JAX differs from the standard, or is better than agrad's defaults."""

import functools

import pluggy

from agrad import Backend
from agrad.plugin.backend import check_bounds

__version__ = "0.1.0"
hookimpl = pluggy.HookimplMarker("agrad")


class JaxBackend(Backend):
    """Arrays of JAX, which cannot be written to. Programs run through ``jax.jit``; JAX's gradients are not used."""

    name = "jax"
    contract = 2

    @functools.cached_property
    def jax(self):
        """The library. Importing it takes a second, so it waits for the first array."""
        import jax.scipy.linalg

        jax.config.update("jax_enable_x64", True)  # else float64 becomes float32, in the whole process
        return jax

    def namespace(self):
        return self.jax.numpy

    def native_devices(self):
        return {f"jax:{device.platform}:{device.id}": device for device in self.jax.local_devices()}

    def device_of(self, array):  # arrays traced by jax.jit have none: they will be where the operands are
        return None if isinstance(array, self.jax.core.Tracer) else super().device_of(array)

    def creation(self, device):
        return {} if device is None else super().creation(device)

    def kernel(self, op):
        if op == "permute_dims":  # JAX takes no negative axes
            return lambda x, /, axes: self.jax.numpy.permute_dims(x, tuple(axis % x.ndim for axis in axes))
        linalg, vectorize = self.jax.scipy.linalg, self.jax.numpy.vectorize
        if op == "scipy.expm":  # agrad's looks at values to choose a scale: jax.jit has none yet
            return vectorize(linalg.expm, signature="(n,n)->(n,n)")
        frechet = functools.partial(linalg.expm_frechet, compute_expm=False)
        return vectorize(frechet, signature="(n,n),(n,n)->(n,n)") if op == "scipy.expm_frechet" else None

    def from_host(self, buffer, device):  # asarray compiles two programs for every shape, device_put none
        import numpy as np

        return self.jax.device_put(np.array(buffer), self.native_device(device))  # a copy, whose memory it may keep

    def scatter_add(self, spec, key, values):
        return self.xp.zeros(spec.shape, dtype=values.dtype, **self.creation(spec.device)).at[key].add(values)

    def setitem(self, array, key, value):
        check_bounds(array.shape, key)  # JAX drops indices that are out of bounds
        return array.at[key].set(value)

    def item(self, array):
        return array.item()

    def random(self, kind, shape, key, *, dtype, device, **p):
        random, source = self.jax.random, self.source(key) if isinstance(key, tuple) else key
        with self.jax.default_device(self.native_device(device)):
            if kind == "permutation":
                return random.permutation(source, p["n"]).astype(dtype)
            if kind == "integers":
                return random.randint(source, shape, p["low"], p["high"], dtype)
            return getattr(random, kind)(source, shape, dtype)  # uniform or normal

    def source(self, key):
        """Return JAX's own key for one of agrad's."""
        return self.jax.random.fold_in(self.jax.random.key(key[0] % 2**63), key[1])

    def compile(self, program, *, exact=False, **options):
        if exact or "special.inner_slope" in {step.op for step in program.steps}:
            return None  # XLA fuses operations, and rounds differently; `inner_slope` raises for some values
        run = self.jax.jit(program.function(self))
        return lambda *values: run(*(self.source(v) if isinstance(v, tuple) else v for v in values))


backend = JaxBackend()


@hookimpl
def agrad_backends():
    return [backend]


@hookimpl
def agrad_backend_of(array_type):
    return "jax" if array_type.__module__.partition(".")[0] in ("jax", "jaxlib") else None


@hookimpl
def agrad_harness(backend):
    return "agrad.testing:InexactHarness" if backend == "jax" else None  # compiled programs round otherwise
