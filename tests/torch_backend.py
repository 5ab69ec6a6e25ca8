"""PyTorch's tensors as plain arrays, as a backend of the tests; PyTorch's own autograd plays no part.

What stands here is what PyTorch does otherwise than the standard. It is used where PyTorch is installed.
"""

from __future__ import annotations

import functools
import math
import random

import array_api_compat.torch as xp
import numpy as np
import torch

import agrad as ag
from agrad.plugin.hookspecs import hookimpl


class TorchBackend(ag.Backend):
    """Tensors of PyTorch on the CPU, through array-api-compat."""

    name = "torch"

    def namespace(self):
        return xp

    def to_host(self, array):
        return array.detach().resolve_conj().resolve_neg().numpy()

    def from_host(self, buffer, device):
        return torch.from_numpy(
            np.array(buffer, order="C")
        )  # a copy: PyTorch knows neither read-only nor turned memory

    def kernel(self, op):
        if op in TRANSFORMS:
            return functools.partial(transform, getattr(xp.fft, op[4:]))
        found = {
            "getitem": getitem,
            "positive": torch.clone,  # PyTorch's gives its operand
            "pow": power,
            "var": variance,
            "std": lambda x, /, **p: variance(x, **p) ** 0.5,
            "unique_all": unique,
        }
        return found.get(op)

    #: PyTorch has no negative steps: what `getitem` knows of them serves `setitem` and `scatter_add` too.
    assigns = False

    def random(self, kind, shape, key, *, dtype, device, **p):
        source = torch.Generator().manual_seed(random.Random(f"{key[0]}:{key[1]}").getrandbits(63))
        if kind == "permutation":
            return torch.randperm(p["n"], generator=source, dtype=dtype)
        if kind == "integers":
            return torch.randint(p["low"], p["high"], shape, generator=source, dtype=dtype)
        draw = torch.rand if kind == "uniform" else torch.randn
        return draw(shape, generator=source, dtype=dtype)


def getitem(x, key, /):
    """Index; an axis that a negative step walks is turned round, and walked forwards."""
    parts = key if isinstance(key, tuple) else (key,)
    taken = [0 if p is None or p is ... else max(p.ndim, 1) if is_mask(p) else 1 for p in parts]
    axis, forwards = 0, []
    for part, count in zip(parts, taken, strict=True):
        backwards = isinstance(part, slice) and part.step is not None and part.step < 0
        forwards.append(mirrored(part, x.shape[axis]) if backwards else part)
        x = x.flip(axis) if backwards else x
        axis += x.ndim - sum(taken) if part is ... else count
    return x[tuple(forwards)]


def power(x, y, /):
    """Raise to a power: of a number to the same bits as of an array of it, which PyTorch computes otherwise."""
    return x ** (y.item() if y.ndim == 0 and x.dtype == y.dtype else y)


def mirrored(part, n):
    start, stop, step = part.indices(n)
    return slice(n - 1 - start, n - 1 - stop, -step)


def is_mask(part):
    return hasattr(part, "dtype") and str(part.dtype) == "torch.bool"


TRANSFORMS = {
    f"fft.{name}" for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn")
}


def transform(function, x, /, **parameters):
    """Run a Fourier transform; MKL refuses those of no elements."""
    if x.numel():
        return function(x, **parameters)
    made = function(x.new_zeros([max(n, 1) for n in x.shape]), **parameters)
    return made[tuple(slice(None) if n else slice(0) for n in x.shape)]


def variance(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Give the variance; PyTorch's warns of no elements, and its standard deviation takes only whole corrections."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not axes:  # which PyTorch takes for all of them
        return x * 0 / (1 - correction)
    mean = x.mean(axes, keepdim=True)
    return ((x - mean).abs() ** 2).sum(axes, keepdim=keepdims) / (math.prod(x.shape[a] for a in axes) - correction)


def unique(x, /):
    """Give the different elements, in order, with first places, numbers and counts; PyTorch gives no places."""
    values, order = x.flatten().sort(stable=True)
    first = torch.ones_like(values, dtype=torch.bool)
    first[1:] = values[1:] != values[:-1]
    starts = first.nonzero()[:, 0]
    inverse = torch.empty_like(order)
    inverse[order] = first.cumsum(0) - 1
    counts = torch.diff(starts, append=torch.tensor([len(values)]))
    return values[first], order[starts], inverse.reshape(x.shape), counts


class TorchPlugin:
    backend = TorchBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "torch" if array_type.__module__ == "torch" and array_type.__name__ == "Tensor" else None


class CompilingBackend(TorchBackend):
    """The same, whose programs go through ``torch.compile``, but for those with draws: it knows no generator."""

    def compile(self, program, *, exact=False, **options):
        return None if exact or program.keys else torch.compile(program.function(self))


class CompilingPlugin(TorchPlugin):
    backend = CompilingBackend()

    @hookimpl
    def agrad_harness(self, backend):
        return "agrad.testing:InexactHarness" if backend == "torch" else None
