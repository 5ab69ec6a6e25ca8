"""
Extremes in every cell of a grid
================================

A generalised extreme value distribution for each cell of a grid in chunks, by Newton's method, and the derivative of the 50-year
level by the data. xarray runs the function on blocks: ``apply_ufunc(..., dask="parallelized")`` takes tensors.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.stats
import xarray as xr

import agrad as ag
import agrad.xarray

random = np.random.default_rng(0)
rain = 20 + random.uniform(2, 4, (6, 8, 1)) * random.gumbel(0, 1, (6, 8, 60))

# %%
# Newton's method, on all cells of a block at once. The derivative is that of the minimum, by the equation that holds there (the slopes
# are 0): differentiate one step, from where the others end, with the matrix as it is.


def minimum(loss, first, steps=25):
    slopes, matrices = ag.vmap(ag.grad(loss)), ag.vmap(ag.hessian(loss))

    def step(p, seen, series):
        matrix = matrices(p, seen).detach()
        return ag.linalg.solve(matrix, slopes(p, series)[..., None])[..., 0]

    def fit(block):
        series = ag.reshape(block, (-1, block.shape[-1]))
        seen = series.detach()

        def improved(p, _):
            move = step(p, seen, seen)
            far = ag.linalg.vector_norm(move, axis=1, keepdims=True)
            return p - move * ag.minimum(1.0, 0.3 / (far + 1e-300)), None

        p = ag.func.scan(improved, ag.vmap(first)(seen), length=steps)[0].detach()
        return ag.reshape(p - step(p, seen, series), (*block.shape[:-1], -1))

    return fit


def unlikely(p, series):  # place, logarithm of scale, shape
    tail = ag.log1p(p[2] * (series - p[0]) / ag.exp(p[1]))
    return ag.mean(p[1] + (1 + 1 / p[2]) * tail + ag.exp(-tail / p[2]))


def moments(series):
    spread = ag.std(series, correction=0)
    place = ag.mean(series) - 0.45 * spread
    return ag.stack([place, ag.log(0.78 * spread), 0.05 + 0 * spread])


# %%
# 48 fits in four chunks, and the derivative by all the data, in one backward pass.

x = ag.asarray(da.from_array(rain, chunks=(3, 4, 60)), requires_grad=True)
place, scale, shape = xr.apply_ufunc(
    minimum(unlikely, moments),
    xr.DataArray(x, dims=("lat", "lon", "year")),
    input_core_dims=[["year"]],
    output_core_dims=[["parameter"]],
    dask="parallelized",
    dask_gufunc_kwargs={"output_sizes": {"parameter": 3}},
).transpose("parameter", ...)
level = (place + np.exp(scale) / shape * ((-np.log(0.98)) ** -shape - 1)).data
ag.sum(level).backward()
figure, axes = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
axes[0].imshow(level.detach().numpy())
axes[1].plot(rain[2, 3], x.grad.numpy()[2, 3], ".")

# %%
# SciPy fits some of the cells one by one; finite differences of that are what the derivative is compared with.


def by_scipy(series):
    def negative(p):
        return -np.mean(
            scipy.stats.genextreme.logpdf(series, -p[2], p[0], np.exp(p[1]))
        )

    tight = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000}
    start, how = [20.0, 1.0, 0.1], "Nelder-Mead"
    p = scipy.optimize.minimize(negative, start, method=how, options=tight).x
    return scipy.stats.genextreme.ppf(0.98, -p[2], p[0], np.exp(p[1]))


for cell in ((0, 0), (2, 3)):
    known = by_scipy(rain[cell])
    np.testing.assert_allclose(level.detach().numpy()[cell], known, rtol=1e-6)
    largest = rain[cell].argmax()
    step = 0.1 * (np.arange(60) == largest)
    slope = (by_scipy(rain[cell] + step) - by_scipy(rain[cell] - step)) / 0.2
    np.testing.assert_allclose(x.grad.numpy()[cell][largest], slope, rtol=1e-2)
