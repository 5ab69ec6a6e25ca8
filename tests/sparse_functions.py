"""Functions whose Jacobians have zeros, with the shapes of their arguments: for the tests of patterns and of sparse matrices."""

from __future__ import annotations

import numpy as np

import agrad as ag
import agrad.numpy as anp
import agrad.scipy as scipy
from agrad.func import grad

rng = np.random.default_rng(0)
BAND = np.triu(np.tril(rng.uniform(0.5, 1.5, (6, 6)), 1), -1)
BANDS, SQUARE = np.stack([BAND, BAND.T]), BAND + BAND.T
DIAGONAL = ag.asarray(np.diag(np.arange(1.0, 7.0)))
F = ag.nn.functional


def points(*shape):
    return ag.asarray(np.random.default_rng(3).uniform(0.5, 1.5, shape))


#: Functions with the shape of their argument: of these the pattern is that of the dense Jacobian at a point.
TIGHT = {
    "elementwise": (lambda x: ag.exp(x) * x + 1, (6,)),
    "broadcast": (lambda x: x[:, None] * x[None, :], (4,)),
    "differences": (lambda x: x[1:] - x[:-1] ** 2, (6,)),
    "steps": (lambda x: x[::2] * x[1::2], (6,)),
    "backwards": (lambda x: ag.flip(x, axis=0)[:3] + x[:3], (6,)),
    "rolled": (lambda x: ag.roll(x, 1, axis=0) * x - ag.roll(x, -2, axis=0), (6,)),
    "transposed": (lambda x: (x.T @ DIAGONAL[:3, :3]).reshape((-1,)), (3, 4)),
    "taken": (lambda x: ag.take(x, ag.asarray([3, 0, 3]), axis=0) * 2, (4,)),
    "along": (lambda x: ag.take_along_axis(x, ag.asarray([[1], [0]]), axis=1), (2, 3)),
    "by a mask": (lambda x: x[ag.asarray([True, False, True])] ** 2, (3,)),
    "by arrays": (lambda x: x[ag.asarray([0, 2]), ag.asarray([1, 1])], (3, 2)),
    "put": (lambda x: ag.setitem(x, (slice(0, 2),), 1.0), (4,)),
    "joined": (lambda x: ag.concat([x[2:] ** 2, x[:1], ag.ones(2)]), (4,)),
    "stacked": (lambda x: ag.stack([x, ag.sin(x)], axis=1), (3,)),
    "tiled": (lambda x: ag.tile(x, (2,)) * ag.repeat(x, 2, axis=0), (3,)),
    "triangle": (lambda x: ag.tril(x) * 3, (3, 3)),
    "diagonal": (lambda x: ag.linalg.diagonal(x, offset=1), (3, 4)),
    "trace": (lambda x: ag.linalg.trace(x), (3, 3)),
    "sum": (lambda x: ag.sum(x, axis=0), (3, 2)),
    "mean": (lambda x: ag.mean(x**2, axis=(0, 2), keepdims=True), (2, 3, 2)),
    "prod": (lambda x: ag.prod(x, axis=1), (2, 3)),
    "variance": (lambda x: ag.var(x, axis=1), (2, 3)),
    "norm": (lambda x: ag.linalg.vector_norm(x, axis=0), (2, 3)),
    "softmax": (lambda x: F.softmax(x, dim=1), (2, 3)),
    "normalized": (lambda x: x / ag.sum(x, axis=1, keepdims=True), (2, 3)),
    "cumulative": (lambda x: ag.cumulative_sum(x**2, axis=1), (2, 3)),
    "cumulative product": (lambda x: ag.cumulative_prod(x), (4,)),
    "from nothing on": (lambda x: ag.cumulative_sum(x, include_initial=True), (4,)),
    "diff": (lambda x: ag.diff(x, n=2), (6,)),
    "band from the left": (lambda x: ag.asarray(BAND) @ x, (6,)),
    "band from the right": (lambda x: x @ ag.asarray(BAND), (2, 6)),
    "band of columns": (lambda x: ag.asarray(BAND) @ x, (6, 2)),
    "stack of bands": (lambda x: ag.asarray(BANDS) @ x, (2, 6, 1)),
    "matmul": (lambda x: x[0] @ x[1], (2, 3, 3)),
    "vecdot": (lambda x: ag.vecdot(x, x[::-1], axis=0), (3, 2)),
    "outer": (lambda x: ag.linalg.outer(x, x**2), (3,)),
    "tensordot": (lambda x: ag.tensordot(x, ag.asarray(BAND), axes=((0,), (1,))), (6, 2)),
    "einsum": (lambda x: ag.extra.einsum("ij,kj->ik", x, ag.asarray(BAND)), (2, 6)),
    "quadratic form": (lambda x: grad(lambda y: y @ (ag.asarray(SQUARE) @ y))(x), (6,)),
    "by a mask of numbers": (lambda x: x * ag.asarray([1.0, 0.0, 2.0]) + x[::-1], (3,)),
    "linear layer": (lambda x: F.linear(x, ag.asarray(BAND)), (2, 6)),
    "convolution": (lambda x: F.conv2d(x[None, None], ag.ones((1, 1, 2, 2))), (4, 4)),
    "mean of windows": (lambda x: F.avg_pool2d(x[None, None], 2), (4, 4)),
    "inverses": (lambda x: ag.linalg.inv(x + 2 * ag.eye(2)), (2, 2, 2)),
    "relu": (lambda x: F.relu(x), (3,)),
    "floor": (lambda x: x * ag.floor(x[::-1] + 3), (4,)),
    "signs": (lambda x: ag.sign(x) + ag.abs(x) * x[0], (3,)),
    "detached": (lambda x: x.detach() * x[::-1], (4,)),
    "what has no derivative": (lambda x: x * (x > 0) + ag.argmax(x), (3,)),
    "gradient of a chain": (grad(lambda x: ag.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)), (6,)),
    "gradient of a separable sum": (grad(lambda x: ag.sum(ag.sin(x) * x)), (5,)),
    "gradient by parts": (grad(lambda x: ag.sum(ag.take(x, ag.asarray([0, 0, 2]), axis=0) ** 3)), (4,)),
    "gradient of a mean": (grad(lambda x: ag.mean(ag.exp(x @ ag.asarray(BAND)))), (6,)),
    "scan": (lambda x: ag.func.scan(lambda c, row: (row, c * row), x[0], x[1:])[1], (5, 2)),
    "sum by scan": (lambda x: ag.func.scan(lambda c, row: (c + row**2, c), ag.asarray(0.0), x)[1], (4,)),
    "mapped": (ag.func.vmap(lambda row: row * ag.sum(row)), (3, 2)),
    "image by fft": (lambda x: ag.real(ag.fft.ifft(ag.fft.fft(x, axis=1) * 2j, axis=1)), (2, 4)),
    "checkpointed": (lambda x: ag.utils.checkpoint.checkpoint(lambda y: ag.sin(y[1:]) * y[:-1], x), (4,)),
}


TIMES = np.linspace(0, 1, 6)
BANDED = np.array([1.0, 4.0, 1.0])[:, None] * np.ones((3, 6))

#: Functions of agrad.scipy, agrad.numpy and of layers, whose pattern may be larger than what is not 0 at a point.
OF_LIBRARIES = {
    "solve_banded": (
        lambda x: scipy.linalg.solve_banded((1, 1), ag.asarray(BANDED), x),
        (6,),
    ),
    "solve_triangular": (lambda x: scipy.linalg.solve_triangular(ag.asarray(BAND), x), (6, 2)),
    "expm": (lambda x: scipy.linalg.expm(x), (2, 2, 2)),
    "convolve": (lambda x: scipy.signal.convolve(x, ag.asarray([1.0, 2.0, 1.0])), (6,)),
    "lfilter": (lambda x: scipy.signal.lfilter([1.0, 0.5], [1.0], x), (6,)),
    "trapezoid": (lambda x: scipy.integrate.trapezoid(x, axis=0), (4, 2)),
    "cumulative_trapezoid": (lambda x: scipy.integrate.cumulative_trapezoid(x), (5,)),
    "simpson": (lambda x: scipy.integrate.simpson(x, axis=1), (2, 5)),
    "norm.logpdf": (lambda x: scipy.stats.norm.logpdf(x[1:], x[:-1], 0.5), (5,)),
    "gamma.logpdf": (lambda x: scipy.stats.gamma.logpdf(x, 2.5), (4,)),
    "gammainc": (lambda x: ag.special.gammainc(x[:2], x[2:]), (4,)),
    "logsumexp": (lambda x: ag.special.logsumexp(x, axis=1), (3, 2)),
    "gradient": (lambda x: anp.gradient(x), (6,)),
    "interp": (lambda x: anp.interp(TIMES, ag.asarray([0.0, 0.5, 1.0]), x), (3,)),
    "kron": (lambda x: anp.kron(ag.eye(2), x), (2, 2)),
    "pad": (lambda x: anp.pad(x, 1, mode="reflect"), (4,)),
    "median": (lambda x: anp.median(x, axis=0), (3, 2)),
    "range": (lambda x: anp.ptp(x, axis=1), (2, 4)),
    "polyval": (lambda x: anp.polyval(x[:2], x[2:]), (5,)),
    "sorted": (lambda x: ag.sort(x, axis=1), (2, 3)),
    "largest": (lambda x: ag.max(x, axis=0), (3, 2)),
    "rfft": (lambda x: ag.abs(ag.fft.rfft(x, axis=1)), (2, 4)),
    "svd": (lambda x: ag.linalg.svdvals(x), (2, 3, 2)),
    "cholesky": (lambda x: ag.linalg.cholesky(x @ x.mT + 2 * ag.eye(2)), (2, 2, 2)),
    "solve": (lambda x: ag.linalg.solve(x[0] + 3 * ag.eye(2), x[1]), (2, 2, 2)),
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), (2, 3)),
    "max_pool": (lambda x: F.max_pool2d(x[None, None], 2), (4, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 3, 2)),
    "embedding": (lambda x: F.embedding(ag.asarray([0, 2]), x) ** 2, (3, 2)),
    "cross_entropy": (lambda x: F.cross_entropy(x, ag.asarray([0, 1]), reduction="none"), (2, 3)),
    "gelu": (lambda x: F.gelu(x) * x[0], (4,)),
    "clipped": (lambda x: ag.clip(x, 0.7, 1.2), (4,)),
    "hypot": (lambda x: ag.hypot(x[:2], x[2:]), (4,)),
}
