"""Calls of NumPy's functions, as text in which ``np`` is NumPy or agrad.numpy, and operands arrays or tensors."""

from __future__ import annotations

import numpy  # noqa: ICN001 (the calls say `np`)

rng = numpy.random.default_rng(0)


def operands(rng):
    """Return operands by name, drawn anew: each keeps to what its calls take."""
    return {
        "x": rng.normal(size=(3, 4)),
        "y": rng.normal(size=(3, 4)),
        "v": rng.normal(size=4),
        "w": rng.normal(size=4),
        "c": rng.normal(size=(2, 3, 4)),
        "p": rng.uniform(0.5, 2.0, size=(3, 4)),
        "u": rng.uniform(-0.9, 0.9, size=(3, 4)),
        "g": rng.uniform(1.5, 3.0, size=(3, 4)),
        "s": numpy.array(0.7),
        "m": rng.normal(size=(3, 3)) + 3 * numpy.eye(3),
        "h": rng.normal(size=(3, 3)) / 4 + numpy.diag([4.0, 6.0, 9.0]),
        "z": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
        "o": numpy.array([0.3, 1.1, 2.4, 3.2]),
        "n": numpy.where(rng.uniform(size=(3, 4)) < 0.3, numpy.nan, rng.normal(size=(3, 4))),
    }


#: Operands by name; those of STEPS have no derivative.
OPERANDS = operands(rng)
CONSTANTS = {
    "i": numpy.array([[1, 2, 3, 4], [4, 3, 2, 1], [5, 6, 7, 8]]),
    "j": numpy.array([2, 0, 1]),
    "b": rng.uniform(size=(3, 4)) < 0.6,
    "k": numpy.array([3, 0, 5, 1], dtype="int8"),
}

#: What is called, a line for each name; calls with a derivative.
CALLS = """
add: x + y; np.add(x, y); np.add(x, 2); np.add(2.5, v); np.add(x, v); np.add(x, y, dtype="float32"); np.add(i, x); np.add(x, [1, 2, 3, 4])
add.reduce: np.add.reduce(x); np.add.reduce(x, 1); np.add.reduce(x, axis=None); np.add.reduce(c, axis=(0, 2), keepdims=True); np.add.reduce(x, initial=3.0); np.add.reduce(x, where=b); np.add.reduce(x, axis=1, initial=2.5, where=b)
add.accumulate: np.add.accumulate(x); np.add.accumulate(x, 1)
add.outer: np.add.outer(v, w); np.add.outer(x, v)
add.reduceat: np.add.reduceat(v, [0, 2, 1]); np.add.reduceat(x, [0, 2], axis=1)
subtract: np.subtract(x, y); np.subtract.outer(v, w); np.subtract.reduce(x); np.subtract.reduce(x, axis=1, initial=2.5, keepdims=True); np.subtract.reduce(x, initial=2.5, where=b); np.subtract.reduce(s, initial=2.5); np.subtract.accumulate(v)
multiply: np.multiply(x, y); np.multiply.reduce(x, axis=1); np.multiply.accumulate(x, axis=0); np.multiply.outer(v, w); np.multiply(x, 1j)
divide: np.divide(x, p); np.true_divide(x, p); np.divide(1, p); np.divide.outer(v, o); np.divide.reduce(p, initial=2.5, where=b); np.divide(x, i)
power: np.power(p, y); np.power(p, 2); np.power(2, x); np.pow(p, 0.5); p ** y
float_power: np.float_power(p, y); np.float_power(p, 2)
remainder: np.remainder(x, p); np.mod(x, 0.7)
fmod: np.fmod(x, p); np.fmod(x, 0.7)
divmod: np.divmod(x, p)[1]
negative: np.negative(x); -x
positive: np.positive(x)
absolute: np.absolute(x); np.abs(x); np.abs(z)
fabs: np.fabs(x)
sqrt: np.sqrt(p); np.sqrt(np.multiply(i, p))
cbrt: np.cbrt(p); np.cbrt(x)
square: np.square(x); np.square(z)
reciprocal: np.reciprocal(p)
exp: np.exp(x); np.exp(z); np.exp(x, dtype="float64")
exp2: np.exp2(x)
expm1: np.expm1(x)
log: np.log(p); np.log(z)
log2: np.log2(p)
log10: np.log10(p)
log1p: np.log1p(p)
logaddexp: np.logaddexp(x, y); np.logaddexp.reduce(x, axis=1); np.logaddexp.accumulate(x); np.logaddexp.reduce(x, axis=None); np.logaddexp.reduce(x, initial=0.5, where=b)
logaddexp2: np.logaddexp2(x, y); np.logaddexp2.reduce(v); np.logaddexp2.reduce(x, initial=0.5, where=[True, False, True, True])
sin: np.sin(x); np.sin(z)
cos: np.cos(x)
tan: np.tan(u)
arcsin: np.arcsin(u); np.asin(u)
arccos: np.arccos(u); np.acos(u)
arctan: np.arctan(x); np.atan(x)
arctan2: np.arctan2(x, y); np.atan2(x, 2)
hypot: np.hypot(x, y); np.hypot.reduce(x, axis=1); np.hypot.reduce(x, initial=2.5, where=b)
sinh: np.sinh(x)
cosh: np.cosh(x)
tanh: np.tanh(x)
arcsinh: np.arcsinh(x); np.asinh(x)
arccosh: np.arccosh(g); np.acosh(g)
arctanh: np.arctanh(u); np.atanh(u)
degrees: np.degrees(x)
rad2deg: np.rad2deg(x)
radians: np.radians(x)
deg2rad: np.deg2rad(x)
maximum: np.maximum(x, y); np.maximum(x, 0.1); np.maximum.reduce(x, axis=1); np.maximum.reduce(x, initial=0.1, where=b); np.maximum.accumulate(v); np.maximum.outer(v, w)
minimum: np.minimum(x, y); np.minimum.reduce(x); np.minimum.accumulate(x, axis=1)
fmax: np.fmax(x, y); np.fmax(n, y); np.fmax.reduce(x)
fmin: np.fmin(x, y); np.fmin(n, y)
copysign: np.copysign(x, y); np.copysign(x, -1.0)
heaviside: np.heaviside(x, 0.5) * x
modf: np.modf(x)[0]
frexp: np.frexp(x)[0]
ldexp: np.ldexp(x, i)
conjugate: np.conjugate(z); np.conj(x)
matmul: np.matmul(x.T, m @ y); np.matmul(x, v); x @ v; np.matmul(c, v); np.matmul(x, v, dtype="float64")
vecdot: np.vecdot(x, y); np.vecdot(x, y, axis=0); np.vecdot(z, x)
matvec: np.matvec(x, v); np.matvec(c, v)
vecmat: np.vecmat(v, x.T); np.vecmat(z[0, :3], x)

sum: np.sum(x); np.sum(x, 0); np.sum(x, axis=-1, keepdims=True); np.sum(c, axis=(0, 2)); np.sum(x, dtype="float32"); np.sum(x, initial=2.0); np.sum(x, where=b); np.sum(x, 1, None, None, True); np.sum(x, axis=())
prod: np.prod(x); np.prod(x, axis=1); np.prod(x, 0, where=b, initial=2.0); np.prod(c, axis=(1, 2), keepdims=True)
max: np.max(x); np.max(x, axis=1); np.amax(x, 0, keepdims=True); np.max(x, initial=0.3); np.max(x, axis=1, initial=-5.0, where=b)
min: np.min(x); np.amin(x, axis=(0, 1)); np.min(x, axis=0, initial=0.0)
ptp: np.ptp(x); np.ptp(x, axis=1, keepdims=True)
mean: np.mean(x); np.mean(x, 0); np.mean(x, axis=(0, 1), keepdims=True); np.mean(x, dtype="float32"); np.mean(x, where=b); np.mean(x, axis=1, where=b, keepdims=True); np.mean(z, axis=0)
var: np.var(x); np.var(x, axis=0, ddof=1); np.var(x, 1, keepdims=True); np.var(x, correction=1); np.var(x, where=b, axis=None); np.var(x, axis=1, mean=np.mean(x, axis=1, keepdims=True)); np.var(z)
std: np.std(x); np.std(x, axis=0, ddof=1); np.std(x, 1, None, None, 1, True); np.std(x, where=b)
average: np.average(x); np.average(x, axis=0); np.average(x, weights=p); np.average(x, 1, w ** 2 + 1); np.average(x, axis=1, weights=o, returned=True)[1] * np.sum(x); np.average(x, axis=0, keepdims=True)
median: np.median(x); np.median(x, axis=0); np.median(x, axis=1, keepdims=True); np.median(c, axis=(0, 2))
quantile: np.quantile(x, 0.3); np.quantile(x, [0.2, 0.5], axis=1); np.quantile(x, 0.4, axis=0, method="lower"); np.quantile(x, [[0.1, 0.9]], keepdims=True); np.quantile(x, 0.37, method="hazen"); np.quantile(x, 0.37, axis=1, method="weibull"); np.quantile(x, 0.6, method="median_unbiased"); np.quantile(x, 0.6, method="normal_unbiased"); np.quantile(x, 0.6, method="interpolated_inverted_cdf"); np.quantile(x, 0.37, method="midpoint"); np.quantile(x, 0.37, method="nearest"); np.quantile(x, 0.37, method="higher")
percentile: np.percentile(x, 30); np.percentile(x, [20, 50], axis=1); np.percentile(x, 40, 0)
cumsum: np.cumsum(x); np.cumsum(x, 1); np.cumsum(s); np.cumsum(x, axis=0, dtype="float32")
cumprod: np.cumprod(x); np.cumprod(x, axis=1)
cumulative_sum: np.cumulative_sum(v); np.cumulative_sum(x, axis=1, include_initial=True)
cumulative_prod: np.cumulative_prod(v); np.cumulative_prod(x, axis=1, include_initial=True)
nansum: np.nansum(n); np.nansum(n, axis=1); np.nansum(n, 0, keepdims=True)
nanprod: np.nanprod(n); np.nanprod(n, axis=1)
nanmax: np.nanmax(n); np.nanmax(n, axis=1); np.nanmax(n, initial=0.2)
nanmin: np.nanmin(n); np.nanmin(n, axis=1, keepdims=True)
nanmean: np.nanmean(n); np.nanmean(n, axis=1)
nanvar: np.nanvar(n); np.nanvar(n, axis=1, ddof=1)
nanstd: np.nanstd(n); np.nanstd(n, axis=1, keepdims=True)
nanmedian: np.nanmedian(n); np.nanmedian(n, axis=1); np.nanmedian(n, axis=0, keepdims=True)
nanquantile: np.nanquantile(n, 0.3); np.nanquantile(n, [0.2, 0.5], axis=1); np.nanquantile(n, 0.4, axis=0, method="nearest")
nanpercentile: np.nanpercentile(n, 30); np.nanpercentile(n, 60, axis=1)
nancumsum: np.nancumsum(n); np.nancumsum(n, axis=1)
nancumprod: np.nancumprod(n); np.nancumprod(n, axis=0)

clip: np.clip(x, -0.5, 0.5); np.clip(x, None, 0.5); np.clip(x, a_min=-0.2, a_max=None); np.clip(x, min=-0.3, max=0.4); np.clip(x, -p, p); np.clip(x, -0.5, None)
real: np.real(z); np.real(x)
imag: np.imag(z)
angle: np.angle(z); np.angle(z, deg=True)
real_if_close: np.real_if_close(z * 1); np.real_if_close(x)
sinc: np.sinc(x)
i0: np.i0(x)
nan_to_num: np.nan_to_num(n); np.nan_to_num(n, nan=2.0)

reshape: np.reshape(x, (4, 3)); np.reshape(x, -1); np.reshape(c, (4, -1), order="F"); np.reshape(x, (2, 6), "C"); np.reshape(x, shape=(6, 2))
ravel: np.ravel(x); np.ravel(c, order="F")
transpose: np.transpose(x); np.transpose(c, (1, 2, 0)); np.permute_dims(c, (0, 2, 1)); np.transpose(c); np.transpose(c, (-1, 0, 1))
matrix_transpose: np.matrix_transpose(c)
swapaxes: np.swapaxes(c, 0, -1)
moveaxis: np.moveaxis(c, 0, -1); np.moveaxis(c, (0, 1), (-1, 0))
rollaxis: np.rollaxis(c, 2); np.rollaxis(c, 0, 3)
lib.stride_tricks.sliding_window_view: np.lib.stride_tricks.sliding_window_view(x, 2, 1); np.lib.stride_tricks.sliding_window_view(x, (2, 2)); np.lib.stride_tricks.sliding_window_view(c, (2, 1), (0, -1))
expand_dims: np.expand_dims(x, 1); np.expand_dims(x, (0, -1))
squeeze: np.squeeze(x[:, :1]); np.squeeze(x[None, :, :1], axis=0)
broadcast_to: np.broadcast_to(v, (3, 4)); np.broadcast_to(s, (2, 2))
broadcast_arrays: np.broadcast_arrays(x, v)[1]
atleast_1d: np.atleast_1d(s); np.atleast_1d(x, s)[1]
atleast_2d: np.atleast_2d(v); np.atleast_2d(s)
atleast_3d: np.atleast_3d(x); np.atleast_3d(v)
flip: np.flip(x); np.flip(x, 1); np.flip(c, (0, 2))
fliplr: np.fliplr(x)
flipud: np.flipud(x)
rot90: np.rot90(x); np.rot90(c, 3, (1, 2))
roll: np.roll(x, 2); np.roll(x, 1, axis=1); np.roll(x, (1, 2), axis=(0, 1)); np.roll(x, 1, (0, 1)); np.roll(x, (1, 1), (0, 0))
repeat: np.repeat(x, 2); np.repeat(x, 2, axis=1); np.repeat(x, [1, 0, 2], axis=0); np.repeat(s, 3)
tile: np.tile(x, 2); np.tile(v, (2, 3)); np.tile(x, (2, 1, 2))
resize: np.resize(x, (2, 3)); np.resize(x, (5, 4))
trim_zeros: np.trim_zeros(np.concatenate([np.zeros(2), v, np.zeros(1)])); np.trim_zeros(np.concatenate([np.zeros(2), v]), "f")
tril: np.tril(x); np.tril(c, -1); np.tril(v)
triu: np.triu(x); np.triu(m, 1)
diag: np.diag(x); np.diag(v); np.diag(v, -1); np.diag(x, k=1)
diagflat: np.diagflat(x, 1); np.diagflat(s)
diagonal: np.diagonal(x); np.diagonal(c, 1, 0, 2); np.diagonal(c, axis1=1, axis2=2)
trace: np.trace(m); np.trace(c, 0, 1, 2); np.trace(x, offset=1); np.trace(c)
pad: np.pad(x, 1); np.pad(x, ((1, 0), (0, 2)), constant_values=3.0); np.pad(x, (1, 2), "edge"); np.pad(x, 2, mode="reflect"); np.pad(x, 2, mode="reflect", reflect_type="odd"); np.pad(x, 5, mode="symmetric"); np.pad(v, (5, 6), mode="symmetric", reflect_type="odd"); np.pad(v, (5, 7), mode="reflect", reflect_type="odd"); np.pad(x, 6, mode="wrap"); np.pad(x, 2, "linear_ramp", end_values=1.0); np.pad(x, 2, "mean"); np.pad(x, 2, "maximum"); np.pad(x, (1, 1), "minimum", stat_length=2); np.pad(x, 1, "median"); np.pad(v, {0: (1, 2)}); np.pad(x, ((1, 1), (0, 2)), constant_values=((1.0, 2.0), (3.0, 4.0)))

concatenate: np.concatenate([x, y]); np.concatenate((x, y), 1); np.concatenate([x, v], axis=None); np.concat([x, i], axis=0); np.concatenate([x, y], dtype="float32"); np.concatenate(c)
stack: np.stack([x, y]); np.stack((x, y), -1); np.stack([v, [1, 2, 3, 4]]); np.stack([x, i], axis=1)
hstack: np.hstack([x, y]); np.hstack((v, w)); np.hstack([s, v])
vstack: np.vstack([x, y]); np.vstack((v, x))
dstack: np.dstack([x, y]); np.dstack((v, w))
column_stack: np.column_stack([v, w]); np.column_stack((v[:3], x))
block: np.block([[x, y], [y, x]]); np.block([v, w]); np.block([[m, np.zeros((3, 1))], [np.ones((1, 4))]])
append: np.append(x, y); np.append(x, y, axis=1); np.append(v, [1.0, 2.0]); np.append(v, 3)
split: np.split(x, 2, axis=1)[1]; np.split(v, [1, 3])[1]
array_split: np.array_split(v, 3)[0]; np.array_split(x, 2)[1]
hsplit: np.hsplit(x, 2)[0]
vsplit: np.vsplit(x, 3)[1]
dsplit: np.dsplit(c, 2)[1]
unstack: np.unstack(x)[1]; np.unstack(x, axis=1)[2]
delete: np.delete(x, 1, axis=0); np.delete(x, [0, 5]); np.delete(x, slice(1, 3), 1)
insert: np.insert(x, 1, v, axis=0); np.insert(v, [1, 3], [7.0, 8.0]); np.insert(x, 2, s)
select: np.select([x > 0.5, x < 0], [x * x, y], 3.0); np.select([x > 0], [y])

full_like: np.full_like(x, s); np.full_like(x, v)
copy: np.copy(x)
astype: np.astype(x, "float32")
linspace: np.linspace(s, 3.0, 5); np.linspace(v, w, 4); np.linspace(0.0, s, 3, endpoint=False); np.linspace(v, w, 3, axis=1); np.linspace(s, 2, 4, retstep=True)[1]
logspace: np.logspace(s, 1.5, 4); np.logspace(0.0, s, 3, base=2.0)
geomspace: np.geomspace(o, 2.0, 4); np.geomspace(s, 3.0, 5)
meshgrid: np.meshgrid(v, o)[0]; np.meshgrid(v, o, indexing="ij")[1]; np.meshgrid(v, o, sparse=True)[0]

where: np.where(b, x, y); np.where(x > 0, x, 0); np.where(b, x, 1.5); np.where(i > 2, v, x); np.where(b, x, i)
choose: np.choose(j, [v[:3], w[:3], x[0, :3]]); np.choose([1, 0, 5], [v[:3], w[:3]], mode="clip")
take: np.take(x, [0, 5]); np.take(x, j, axis=1); np.take(x, [[0, 1], [2, -1]], axis=1); np.take(v, 2); np.take(v, [5, -7], mode="wrap"); np.take(v, [9, -3], mode="clip")
take_along_axis: np.take_along_axis(x, np.argsort(i, axis=1), axis=1); np.take_along_axis(x, j, axis=None)
compress: np.compress([True, False, True], x, axis=0); np.compress(b.ravel() if hasattr(b, "ravel") else b, x)
extract: np.extract(b, x)
piecewise: np.piecewise(x, [x < 0, x > 0.5], [lambda t: -t, lambda t: t * t, 0.5]); np.piecewise(x, [x < 0], [lambda t, a: a * t, 2.0], 3.0)
sort: np.sort(x); np.sort(x, axis=0); np.sort(x, None); np.sort(x, kind="stable")
partition: np.partition(x, 0, axis=1)[:, 0]
sort_complex: np.sort_complex(v).real

dot: np.dot(v, w); np.dot(x, v); np.dot(x, y.T); np.dot(c, x.T); np.dot(x, s); np.dot(c, np.transpose(c, (0, 2, 1)))
vdot: np.vdot(v, w); np.vdot(x, y); np.vdot(z, z * x)
inner: np.inner(v, w); np.inner(x, y); np.inner(c, v); np.inner(x, s)
outer: np.outer(v, w); np.outer(x, v)
kron: np.kron(x, m); np.kron(v, w)
tensordot: np.tensordot(x, y.T, 1); np.tensordot(c, x, axes=([1, 2], [0, 1])); np.tensordot(v, w, axes=0); np.tensordot(c, x, axes=(-1, 1))
cross: np.cross(v[:3], w[:3]); np.cross(x[:, :3], y[:, :3]); np.cross(x, y, axis=0)
einsum: np.einsum("ij,kj->ik", x, y); np.einsum("ij,j", x, v); np.einsum("ii", m); np.einsum("...j,j->...", c, v); np.einsum(x, [0, 1], v, [1], [0]); np.einsum("ij,jk,k->i", x, x.T, x[:, 0], optimize=True)

diff: np.diff(x); np.diff(x, 2, axis=0); np.diff(v, prepend=0.0); np.diff(x, append=x[:, :1])
ediff1d: np.ediff1d(x); np.ediff1d(v, to_begin=0.5, to_end=[1.0, 2.0])
gradient: np.gradient(v); np.gradient(x)[0]; np.gradient(x, axis=1); np.gradient(v, 0.5); np.gradient(v, o, edge_order=2); np.gradient(n, axis=1); np.gradient(n, [1.0, 3.0, 5.0, 7.0], axis=1); np.gradient(n, [1.0, 3.0, 5.0, 8.0], axis=1); np.gradient(v, 2.0 * i[0])
trapezoid: np.trapezoid(x); np.trapezoid(v, o); np.trapezoid(x, dx=0.5, axis=0)
interp: np.interp(u[0, :], o, v); np.interp(s, o, v, left=0.1); np.interp(o + 0.1, o, v, right=2.0); np.interp(u[0, :], o, v, period=3.0)
unwrap: np.unwrap(v * 4); np.unwrap(x * 3, axis=0)
convolve: np.convolve(v, w); np.convolve(v, w[:2], "same"); np.convolve(v, w, mode="valid")
correlate: np.correlate(v, w); np.correlate(v, w[:3], "full")
vander: np.vander(v); np.vander(v, 3, increasing=True)
cov: np.cov(x); np.cov(x, y); np.cov(v, w, ddof=0); np.cov(x, rowvar=False); np.cov(x, bias=True); np.cov(v); np.cov(x, aweights=o); np.cov(x.T, y.T, rowvar=False)
corrcoef: np.corrcoef(x); np.corrcoef(v, w); np.corrcoef(x, rowvar=False)
polyval: np.polyval(v, x); np.polyval([1, 2, 3], x); np.polyval(v, 2.0)
polyadd: np.polyadd(v, w[:2])
polysub: np.polysub(v[:2], w)
polymul: np.polymul(v, w)
polyder: np.polyder(v); np.polyder(v, 2)
polyint: np.polyint(v); np.polyint(v, 2, k=[1.0, 2.0])
polydiv: np.polydiv(v, o[:2])[0]; np.polydiv(v, o[:2])[1]
poly: np.poly(v); np.poly(h)
roots: np.sort(np.abs(np.roots(o)))

linalg.cholesky: np.linalg.cholesky(h @ h.T); np.linalg.cholesky(h @ h.T, upper=True)
linalg.qr: np.linalg.qr(m)[1] ** 2; np.linalg.qr(m, mode="r") ** 2; np.abs(np.linalg.qr(x.T)[0])
linalg.svd: np.linalg.svd(x)[1]; np.linalg.svd(x, compute_uv=False); np.abs(np.linalg.svd(x, full_matrices=False)[0])
linalg.svdvals: np.linalg.svdvals(x)
linalg.eigh: np.linalg.eigh(h)[0]; np.abs(np.linalg.eigh(h, "U")[1])
linalg.eigvalsh: np.linalg.eigvalsh(h); np.linalg.eigvalsh(h, UPLO="U")
linalg.eig: np.abs(np.linalg.eig(h)[0])
linalg.eigvals: np.abs(np.linalg.eigvals(h))
linalg.det: np.linalg.det(m); np.linalg.det(np.stack([m, h]))
linalg.slogdet: np.linalg.slogdet(m)[1]
linalg.inv: np.linalg.inv(m); np.linalg.inv(np.stack([m, h]))
linalg.solve: np.linalg.solve(m, x); np.linalg.solve(m, x[:, 0])
linalg.pinv: np.linalg.pinv(x); np.linalg.pinv(x.T, 1e-10)
linalg.lstsq: np.linalg.lstsq(x.T, v)[0]; np.linalg.lstsq(x.T, v)[1]; np.linalg.lstsq(x.T, y.T)[0]; np.linalg.lstsq(x, v[:3])[0]
linalg.matrix_power: np.linalg.matrix_power(m, 3); np.linalg.matrix_power(m, -2)
linalg.norm: np.linalg.norm(x); np.linalg.norm(v); np.linalg.norm(v, 1); np.linalg.norm(x, axis=1); np.linalg.norm(x, "fro"); np.linalg.norm(x, 2); np.linalg.norm(x, "nuc"); np.linalg.norm(x, ord=3, axis=0, keepdims=True); np.linalg.norm(c, axis=(0, 2)); np.linalg.norm(x, numpy.inf); np.linalg.norm(c); np.linalg.norm(x, keepdims=True)
linalg.matrix_norm: np.linalg.matrix_norm(x); np.linalg.matrix_norm(x, ord=1)
linalg.vector_norm: np.linalg.vector_norm(x); np.linalg.vector_norm(x, axis=1, ord=3)
linalg.cond: np.linalg.cond(m); np.linalg.cond(m, 1); np.linalg.cond(m, "fro"); np.linalg.cond(m, -2)
linalg.multi_dot: np.linalg.multi_dot([x, x.T, m, x[:, 0]]); np.linalg.multi_dot([v, x.T, m])
linalg.tensorinv: np.linalg.tensorinv(np.reshape(h, (3, 3)), ind=1)
linalg.tensorsolve: np.linalg.tensorsolve(np.reshape(h, (3, 3, 1)), v[:3])
linalg.matmul: np.linalg.matmul(x, y.T)
linalg.matrix_transpose: np.linalg.matrix_transpose(x)
linalg.tensordot: np.linalg.tensordot(x, y, axes=2)
linalg.vecdot: np.linalg.vecdot(x, y, axis=0)
linalg.outer: np.linalg.outer(v, w)
linalg.cross: np.linalg.cross(v[:3], w[:3])
linalg.diagonal: np.linalg.diagonal(c, offset=1)
linalg.trace: np.linalg.trace(c)

polyfit: np.polyfit(o, v, 2); np.polyfit(o, x.T, 1); np.polyfit(o, v, 1, w=o); np.polyfit(o, v, 1, full=True)[1]; np.polyfit(o, v, 1, cov=True)[1]; np.polyfit(o, v, 1, cov="unscaled")[1]
apply_along_axis: np.apply_along_axis(lambda t: np.sum(t * t), 0, x); np.apply_along_axis(lambda t: t[::-1] ** 2, 1, c)
apply_over_axes: np.apply_over_axes(np.sum, c, (0, 2))
bincount: np.bincount(j, weights=v[:3]); np.bincount(j, v[:3], minlength=5)
histogram: np.histogram(CONST, bins=3, weights=v)[0]; np.histogram(CONST, [0.0, 1.0, 4.0], weights=v, density=True)[0]; np.histogram(x, 4)[1]; np.histogram(x, bins=np.sort(v), density=True)[0]
histogram_bin_edges: np.histogram_bin_edges(x, 5); np.histogram_bin_edges(x, np.sort(v))
histogram2d: np.histogram2d(CONST, CONST, bins=(2, 3), weights=v)[0]
histogramdd: np.histogramdd([CONST, CONST], bins=2, weights=v, range=[(0, 2), (0, 4)])[0]
unique: np.unique(x); np.unique(v, return_counts=True)[0]; np.unique(n)
unique_values: np.unique_values(x)
unique_all: np.unique_all(v).values
unique_counts: np.unique_counts(v).values
unique_inverse: np.unique_inverse(x)[0]
union1d: np.union1d(v, w)
intersect1d: np.intersect1d(x, np.concatenate([v, x[0, :]]))
setdiff1d: np.setdiff1d(x, v); np.setdiff1d(v, w[:2])
setxor1d: np.setxor1d(v, np.concatenate([w, v[:2]]))
ix_: x[np.ix_(j, j)]
copyto: done(np.copyto, x * 1, v); done(np.copyto, x * 1, y, where=b)
put: done(np.put, x * 1, [0, 5], w[:2]); done(np.put, x * 1, [0, 15, -3], 2.0, mode="wrap")
place: done(np.place, x * 1, b, w)
putmask: done(np.putmask, x * 1, b, w)
put_along_axis: done(np.put_along_axis, x * 1, np.array([[0], [2], [1]]), w[:3, None], 1)
fill_diagonal: done(np.fill_diagonal, x * 1, v[:2]); done(np.fill_diagonal, m * 1, s)

fft.fft: np.fft.fft(x); np.fft.fft(x, 6, axis=0); np.fft.fft(v, norm="ortho")
fft.ifft: np.fft.ifft(z); np.fft.ifft(z, axis=0)
fft.rfft: np.fft.rfft(x); np.fft.rfft(x, n=3)
fft.irfft: np.fft.irfft(z); np.fft.irfft(z, 7)
fft.hfft: np.fft.hfft(z)
fft.ihfft: np.fft.ihfft(x)
fft.fftn: np.fft.fftn(x); np.fft.fftn(c, axes=(0, 1))
fft.ifftn: np.fft.ifftn(z)
fft.rfftn: np.fft.rfftn(c)
fft.irfftn: np.fft.irfftn(z)
fft.fft2: np.fft.fft2(c)
fft.ifft2: np.fft.ifft2(z)
fft.rfft2: np.fft.rfft2(x)
fft.irfft2: np.fft.irfft2(z)
fft.fftshift: np.fft.fftshift(x); np.fft.fftshift(x, axes=1)
fft.ifftshift: np.fft.ifftshift(x)
"""


#: What NumPy does not ask its operands about: calls of agrad.numpy alone.
OWN_CALLS = """
full: np.full((2, 2), s); np.full((3, 4), v)
array: np.array(x); np.array([v, w]); np.array([[s, 1.0], [2.0, v[0]]]); np.array(v, ndmin=2); np.array(x, dtype="float32")
asarray: np.asarray(x); np.asarray([v, w]); np.asanyarray(x)
ascontiguousarray: np.ascontiguousarray(x); np.asfortranarray(x)
asarray_chkfinite: np.asarray_chkfinite(x)
kaiser: np.kaiser(5, s)
sum: np.sum([x, y], axis=0)
vectorize: np.vectorize(lambda a, b: a * b if a > b else a - b)(x, v); np.vectorize(lambda a, k: a ** k, excluded={1})(x, 2)
r_: np.r_[v, 1.0, w]; np.r_[0:3, v]
c_: np.c_[v, w]; np.c_[x, v[:3]]
exp: np.exp(x, where=b, out=np.zeros((3, 4))); np.exp(x, np.zeros((3, 4)))
log: np.log(x, where=x > 0, out=np.zeros((3, 4)))
linspace: np.linspace([s, 1.0], 2, 3)
"""


#: Calls without a derivative.
STEPS = """
sign: np.sign(x); np.sign(i); np.sign(z)
floor: np.floor(x); np.floor(i)
ceil: np.ceil(x)
trunc: np.trunc(x); np.fix(x)
rint: np.rint(x); np.rint(i)
round: np.round(x, 1); np.around(x); np.round(i, -1); np.round(x, decimals=-1)
nextafter: np.nextafter(x, 3.0)
spacing: np.spacing(p)
floor_divide: np.floor_divide(x, p); x // 0.3; np.floor_divide(i, 2)
isfinite: np.isfinite(n); np.isfinite(i)
isinf: np.isinf(n)
isnan: np.isnan(n)
signbit: np.signbit(x)
equal: np.equal(x, y); x == v
not_equal: np.not_equal(x, x)
less: np.less(x, y); np.less(x, 0.3); np.less.outer(v, w)
less_equal: np.less_equal(x, y)
greater: np.greater(x, y); np.greater(i, x)
greater_equal: np.greater_equal(x, y)
logical_and: np.logical_and(b, x); np.logical_and.reduce(b, axis=1); np.logical_and.reduce(x)
logical_or: np.logical_or(x, b); np.logical_or.reduce(b)
logical_xor: np.logical_xor(b, x); np.logical_xor.reduce(b, axis=0); np.logical_xor.reduce(x, axis=()); np.less.reduce(b, initial=2.5, where=b); np.logical_xor.accumulate(b)
logical_not: np.logical_not(b); np.logical_not(x)
bitwise_and: np.bitwise_and(i, 5); np.bitwise_and.reduce(i); np.bitwise_and.reduce(b, where=[True, False, True, True])
bitwise_or: np.bitwise_or(i, 5); np.bitwise_or.reduce(i, axis=1)
bitwise_xor: np.bitwise_xor(i, 5); np.bitwise_xor.reduce(i)
invert: np.invert(i); np.bitwise_not(b)
left_shift: np.left_shift(i, 2)
right_shift: np.right_shift(i, 1)
bitwise_count: np.bitwise_count(i)
gcd: np.gcd(i, 6); np.gcd.reduce(i * 6)
lcm: np.lcm(i, 6)
frexp: np.frexp(x)[1]
divmod: np.divmod(i, 3)[0]; np.divmod(i, 3)[1]
add: np.add(i, 1); np.add(k, k); np.add.reduce(k); np.add.reduce(b); np.add(i, b); np.add.accumulate(k)
sqrt: np.sqrt(i); np.sqrt(k); np.sin(k); np.divide(k, 2); np.hypot(k, 3)
sum: np.sum(i); np.sum(b); np.sum(k, dtype="int16"); np.sum(b, axis=1)
prod: np.prod(k); np.prod(i, axis=0)
max: np.max(i); np.max(k, axis=0); np.max(k, initial=9)
mean: np.mean(i); np.mean(b); np.mean(k, axis=0); np.var(i); np.std(k); np.median(i); np.mean(i, dtype="float32")
cumsum: np.cumsum(i); np.cumsum(k); np.cumprod(k); np.cumsum(b)
all: np.all(b); np.all(x, axis=1); np.all(b, 0, keepdims=True); np.all(b, where=b)
any: np.any(b); np.any(x, axis=(0, 1)); np.any(b, axis=1, where=x > 0)
count_nonzero: np.count_nonzero(x); np.count_nonzero(b, axis=1, keepdims=True)
argmax: np.argmax(x); np.argmax(x, axis=1); np.argmax(x, 0, keepdims=True)
argmin: np.argmin(x); np.argmin(i, axis=-1)
nanargmax: np.nanargmax(n); np.nanargmax(n, axis=1)
nanargmin: np.nanargmin(n); np.nanargmin(n, axis=1)
argsort: np.argsort(x); np.argsort(x, axis=0); np.argsort(x, axis=None); np.argsort(i, kind="stable")
argpartition: np.argpartition(v, [0, 1, 2, 3])
lexsort: np.lexsort((v, j[[0, 1, 0, 1]]))
searchsorted: np.searchsorted(o, u); np.searchsorted(o, 1.5, side="right")
digitize: np.digitize(u, o); np.digitize(u, o, right=True)
nonzero: np.nonzero(b)[0]; np.nonzero(x > 0)[1]; np.where(b)[0]
flatnonzero: np.flatnonzero(b)
argwhere: np.argwhere(b)
isin: np.isin(i, [1, 4, 9]); np.isin(i, j, invert=True)
unique: np.unique(i); np.unique(i, return_index=True)[1]; np.unique(i, return_inverse=True)[1]; np.unique(i, return_counts=True)[1]; np.union1d(i, j); np.intersect1d(i, j)
unravel_index: np.unravel_index(j * 5, (3, 4))[0]; np.unravel_index(j, (2, 2), order="F")[1]
ravel_multi_index: np.ravel_multi_index((j, j), (4, 5)); np.ravel_multi_index((j * 3, j), (3, 4), mode="clip")
isclose: np.isclose(x, x + 1e-9); np.isclose(n, n, equal_nan=True); np.isclose(i, i + 1, rtol=0.2)
isposinf: np.isposinf(x)
isneginf: np.isneginf(x)
iscomplex: np.iscomplex(z); np.isreal(z); np.isreal(x)
diag_indices_from: np.diag_indices_from(m)[0]
tril_indices_from: np.tril_indices_from(m)[0]; np.triu_indices_from(x, 1)[1]
zeros_like: np.zeros_like(x); np.zeros_like(x, dtype="int32"); np.zeros_like(x, shape=(2, 2)); np.ones_like(i); np.ones_like(x, "float32")
histogram: np.histogram(x)[0]; np.histogram(x, bins=3, range=(-1, 1), density=True)[0]; np.histogram2d(v, w, 3)[0]; np.histogramdd(x.T, bins=2)[0]
bincount: np.bincount(j); np.bincount(j, minlength=7)
nan_to_num: np.nan_to_num(i); np.clip(i, 2, 3); np.where(b, i, 0); np.where(b, i, 1.5); np.where(b, k, i)
real: np.real(i); np.angle(x); np.diff(i); np.diff(b); np.trapezoid(i); np.gradient(i)[0]; np.interp(i, o, o); np.ptp(i); np.average(i)
linalg.matrix_rank: np.linalg.matrix_rank(m); np.linalg.matrix_rank(x, tol=0.1)
linalg.lstsq: np.linalg.lstsq(x, v[:3])[2]; np.linalg.slogdet(m)[0]; np.linalg.det(i[:, :3]); np.linalg.norm(i); np.linalg.matrix_power(i[:, :3], 2)
dot: np.dot(i, i.T); np.einsum("ij->j", i); np.outer(j, j); np.kron(j, j); np.convolve(j, j); np.cov(i); np.fft.fft(j); np.cross(j, j); np.polyval(j, i); np.trace(i)
concatenate: np.concatenate([i, b]); np.stack([j, k[:3]]); np.append(i, 2.5); np.insert(j, 1, 7); np.repeat(j, 2); np.pad(j, 1); np.pad(b, 1); np.roll(i, 1); np.tril(i); np.flip(i)
"""

#: Calls that make arrays of no operand.
CREATIONS = """
zeros: np.zeros(3); np.zeros((2, 3), dtype="int32"); np.zeros((2,), float); np.ones((2, 2)); np.ones(3, int); np.full((2,), 3); np.full(2, 1.5, dtype="float32"); np.empty((2, 0))
eye: np.eye(3); np.eye(2, 3, 1, dtype=int); np.identity(3); np.tri(3, 4, 1)
arange: np.arange(5); np.arange(1, 2, 0.25); np.arange(3.0); np.arange(1, 7, 2); np.arange(0, 5, dtype="float32")
linspace: np.linspace(0, 1); np.linspace(0, 5, 6, dtype=int); np.linspace(1, 2, 4, False); np.linspace(0, 1, 5, retstep=True)[1]; np.linspace([0, 1], [2, 3], 3)
logspace: np.logspace(0, 2, 4); np.geomspace(1, 1000, 4); np.geomspace(8, 1, 4); np.logspace(0, 3, 4, base=2)
array: np.array([1, 2]); np.array([[1.5, 2], [3, 4]]); np.array(3); np.array([True]); np.array([1, 2], dtype=float); np.array([1, 2j]); np.array(range(3)); np.asarray((1, 2)); np.array([1.0], ndmin=3)
meshgrid: np.meshgrid([1, 2], [3, 4, 5])[1]; np.indices((2, 3)); np.mgrid[0:3, 0:2]; np.ogrid[0:3, 0:2][1]; np.mgrid[0:1:5j]; np.r_[1:4, 9]; np.c_[[1, 2], [3, 4]]
fromfunction: np.fromfunction(lambda i, j: i + j, (2, 3)); np.fromiter((q * q for q in range(4)), float)
diag_indices: np.diag_indices(3)[0]; np.tril_indices(3)[1]; np.triu_indices(3, 1)[0]; np.mask_indices(3, np.triu, 1)[0]
windows: np.hanning(6); np.hamming(5); np.blackman(7); np.bartlett(6); np.bartlett(5); np.kaiser(6, 3.0); np.hanning(1); np.hanning(0)
fft: np.fft.fftfreq(5); np.fft.fftfreq(6, d=0.5); np.fft.rfftfreq(5, 2.0); np.fft.rfftfreq(6)
"""

#: Calls with keywords that no call above has; `tests/numpy/test_keywords.py` tells which there are none with.
KEYWORD_CALLS = """
clip: np.clip(x, -0.5, 0.5, dtype="float32"); np.clip(x, min=-0.2); np.clip(x, max=0.2)
real_if_close: np.real_if_close(z, tol=1e20)
nan_to_num: np.nan_to_num(np.where(b, x, numpy.inf), posinf=3.0); np.nan_to_num(np.where(b, x, -numpy.inf), neginf=3.0); np.nan_to_num(n, nan=2.0)
prod: np.prod(x, dtype="complex128"); np.prod(x, axis=0, dtype="float32")
max: np.max(x, axis=1, keepdims=True, initial=0.5, where=b); np.max(x, axis=0, initial=-9.0, where=x < 0)
min: np.min(x, axis=1, keepdims=True); np.min(x, axis=1, initial=0.5, where=b)
mean: np.mean(x, dtype="float32"); np.mean(x, 1, keepdims=True, where=b)
var: np.var(x, dtype="float32"); np.var(x, mean=0.5); np.var(x, correction=1); np.var(x, axis=1, where=b, keepdims=True)
std: np.std(x, dtype="float32"); np.std(x, mean=0.5); np.std(x, correction=1); np.std(x, axis=0, where=b | (i > 3))
percentile: np.percentile(x, 40, method="hazen"); np.percentile(x, [25, 60], axis=1, keepdims=True)
nanpercentile: np.nanpercentile(n, 40, method="weibull"); np.nanpercentile(n, [25, 60], axis=1, keepdims=True)
nanquantile: np.nanquantile(n, [0.25, 0.6], axis=1, keepdims=True)
quantile: np.quantile(x, 0.4, axis=0, method="median_unbiased", keepdims=True)
nansum: np.nansum(n, dtype="float32"); np.nansum(n, axis=1, initial=2.0, where=b); np.nansum(n, 0, keepdims=True)
nanprod: np.nanprod(n, dtype="float32"); np.nanprod(n, axis=1, keepdims=True); np.nanprod(n, axis=1, initial=2.0, where=b)
nanmax: np.nanmax(n, axis=1, keepdims=True); np.nanmax(n, axis=1, initial=0.3, where=b)
nanmin: np.nanmin(n, axis=1, keepdims=True); np.nanmin(n, axis=1, initial=0.3, where=b)
nanmean: np.nanmean(n, dtype="float32"); np.nanmean(n, axis=1, keepdims=True); np.nanmean(n, where=b)
nanvar: np.nanvar(n, dtype="float32"); np.nanvar(n, axis=1, keepdims=True); np.nanvar(n, where=b); np.nanvar(n, mean=0.5); np.nanvar(n, correction=1); np.nanvar(n, ddof=2)
nanstd: np.nanstd(n, dtype="float32"); np.nanstd(n, axis=1, keepdims=True); np.nanstd(n, where=b); np.nanstd(n, mean=0.5); np.nanstd(n, correction=1); np.nanstd(n, ddof=2)
cumprod: np.cumprod(x, axis=0, dtype="float32")
cumsum: np.cumsum(x, axis=0, dtype="float32")
nancumsum: np.nancumsum(n, axis=0, dtype="float32")
nancumprod: np.nancumprod(n, axis=0, dtype="float32")
cumulative_sum: np.cumulative_sum(v, dtype="float32"); np.cumulative_sum(x, axis=0, include_initial=True)
cumulative_prod: np.cumulative_prod(v, dtype="float32"); np.cumulative_prod(x, axis=0, include_initial=True)
trim_zeros: np.trim_zeros(np.where((i > 2) & (i < 5), x, 0.0), axis=1); np.trim_zeros(np.where((o > 1) & (o < 3), v, 0.0), trim="f")
trace: np.trace(c, 1, 0, 2, dtype="float32"); np.linalg.trace(c, offset=1); np.linalg.trace(c, dtype="float32")
fill_diagonal: done(np.fill_diagonal, np.tile(x, (3, 1))[:, :2] * 1, v[:2], wrap=True)
concatenate: np.concatenate([x, y], axis=1, dtype="float32", casting="same_kind"); np.concatenate([x, y], dtype="int32", casting="unsafe"); np.concatenate([x, v], axis=None)
stack: np.stack([x, y], axis=-1, dtype="float32"); np.stack([x, y], dtype="int32", casting="unsafe")
hstack: np.hstack([x, y], dtype="float32"); np.hstack([x, y], dtype="int32", casting="unsafe")
vstack: np.vstack([x, y], dtype="float32"); np.vstack([x, y], dtype="int32", casting="unsafe")
array_split: np.array_split(x, 3, axis=1)[0]
split: np.split(x, 2, axis=1)[1]
piecewise: np.piecewise(x, [x < 0], [lambda t, a: a * t, lambda t, a: t * t], a=3.0)
copyto: done(np.copyto, np.astype(x, "float32"), y, casting="unsafe")
unique: np.unique(np.concatenate([n, n]), equal_nan=False)
sort: np.sort(x, axis=0, stable=True)
intersect1d: np.intersect1d(v, np.concatenate([w, v[:2]]), assume_unique=True); np.intersect1d(x, np.concatenate([v, x[0, :]]), return_indices=True)[0]
setdiff1d: np.setdiff1d(np.concatenate([v, v]), w[:2], assume_unique=True)
setxor1d: np.setxor1d(v, np.concatenate([w, v[:2]]), assume_unique=True)
full_like: np.full_like(x, s, dtype="float32"); np.full_like(x, s, shape=(2, 2))
logspace: np.logspace(s, 2.0, 4, endpoint=False); np.logspace(s, 2.0, 4, dtype="float32"); np.logspace(v, 2.0, 3, axis=1); np.logspace(s, 2.0, 4, base=3.0)
geomspace: np.geomspace(s, 2.0, 4, endpoint=False); np.geomspace(s, 2.0, 4, dtype="float32"); np.geomspace(o, 2.0, 3, axis=1)
linspace: np.linspace(v, w, 3, axis=1, dtype="float32"); np.linspace(v, w, 4, endpoint=False); np.linspace(v, w, 4, retstep=True)[1]
cross: np.cross(c[0, :, :], x, axisa=0, axisb=0, axisc=0); np.linalg.cross(x, y, axis=0)
einsum: np.einsum("ij,kj", x, y, dtype="float32", casting="same_kind"); np.einsum("ij,kj", x, y, dtype="int32", casting="unsafe")
partition: np.partition(np.sort(x, axis=0), 0, axis=0)
tensordot: np.linalg.tensordot(x, y.T, axes=1)
interp: np.interp(u[0, :], o, v, left=0.1); np.interp(o + 3, o, v, right=0.1)
svd: np.abs(np.linalg.svd(x[:, :2], full_matrices=False)[0]); np.linalg.svd(h + h.T, hermitian=True)[1]; np.linalg.svd(h, compute_uv=False, hermitian=True)
pinv: np.linalg.pinv(h, hermitian=True); np.linalg.pinv(x, rtol=0.5); np.linalg.pinv(x, 0.5); np.linalg.pinv(x.T, rcond=0.3)
lstsq: np.linalg.lstsq(x.T, v, rcond=0.7)[0]
norms: np.linalg.matrix_norm(x, keepdims=True); np.linalg.vector_norm(x, axis=0, keepdims=True); np.linalg.vector_norm(x, axis=0, ord=3)
tensorsolve: np.linalg.tensorsolve(np.moveaxis(np.reshape(h, (3, 1, 3)), 2, 0), v[:3], axes=(0,))
unwrap: np.unwrap(v * 4, discont=4.0); np.unwrap(v * 4, period=2.0)
cov: np.cov(x, fweights=[1, 2, 1, 3]); np.cov(x, dtype="float32"); np.corrcoef(x, dtype="float32"); np.cov(x, aweights=o, ddof=0)
polyfit: np.polyfit(o, v, 2, rcond=0.3, full=True)[0]
histogram: np.histogram2d(v, w, 3, density=True)[0]; np.histogram(x, bins=3, weights=i, density=True)[0]; np.histogramdd(x.T, bins=2, density=True)[0]; np.histogramdd([CONST, CONST], bins=2, weights=v, density=True)[0]; np.histogram2d(CONST, CONST, bins=2, weights=v, density=True)[0]; np.histogram2d(CONST, CONST, bins=2, range=[(0, 2), (0, 4)], weights=v)[0]; np.histogram(CONST, bins=3, range=(0.6, 4), weights=v)[0]
fft: np.fft.ifft(z, 6); np.fft.ifft(z, norm="ortho"); np.fft.rfft(x, axis=0); np.fft.rfft(x, norm="forward"); np.fft.irfft(z, axis=0); np.fft.irfft(z, norm="ortho")
hfft: np.fft.hfft(z, 5); np.fft.hfft(z, axis=0); np.fft.hfft(z, norm="forward"); np.fft.ihfft(x, 3); np.fft.ihfft(x, axis=0); np.fft.ihfft(x, norm="forward")
fftn: np.fft.fftn(c, s=(2, 5), axes=(0, 2)); np.fft.fftn(x, norm="ortho"); np.fft.ifftn(z, s=(2, 5), axes=(0, 1)); np.fft.ifftn(z, axes=(0,)); np.fft.ifftn(z, norm="forward")
rfftn: np.fft.rfftn(c, s=(2, 5), axes=(0, 2)); np.fft.rfftn(c, axes=(2, 0)); np.fft.rfftn(c, norm="ortho"); np.fft.irfftn(z, s=(2, 5), axes=(0, 1)); np.fft.irfftn(z, axes=(1, 0)); np.fft.irfftn(z, norm="ortho")
fft2: np.fft.fft2(c, s=(2, 3)); np.fft.fft2(c, axes=(0, 1)); np.fft.fft2(c, norm="ortho"); np.fft.ifft2(z, s=(2, 3)); np.fft.ifft2(np.stack([z, z]), axes=(0, 1)); np.fft.ifft2(z, norm="ortho")
rfft2: np.fft.rfft2(c, s=(2, 3)); np.fft.rfft2(c, axes=(0, 1)); np.fft.rfft2(c, norm="ortho"); np.fft.irfft2(z, s=(2, 3)); np.fft.irfft2(np.stack([z, z]), axes=(0, 1)); np.fft.irfft2(z, norm="ortho")
ifftshift: np.fft.ifftshift(x, axes=1)
apply_along_axis: np.apply_along_axis(lambda t, k, *, a: k * np.sum(t**a), 0, x, 3.0, a=2)
choose: np.choose(j, [v[:3], w[:3], x[0, :3]], mode="wrap")
std complex: np.std(z, axis=0, ddof=1); np.var(z, where=b)
average: np.average(x, axis=0, weights=p, keepdims=True); np.average(x, 1, weights=p, returned=True)[1]
"""

#: Calls of agrad.numpy alone.
OWN_KEYWORD_CALLS = """
full: np.full((2, 2), s, dtype="float32"); np.full((2, 2), s, like=x)
array: np.array(x, like=v); np.asarray(x, dtype="float32"); np.ascontiguousarray(x, dtype="float32"); np.asarray_chkfinite(x, dtype="float32"); np.array(x, copy=False) if np is not numpy else x
vectorize: np.vectorize(lambda a: a * a, otypes=["float32"])(x)
"""

#: Calls without a derivative.
KEYWORD_STEPS = """
round: np.round(x, decimals=1)
isclose: np.isclose(x, x + 0.01, atol=0.02); np.isclose(x, x + 0.01, rtol=0.02)
any: np.any(b, axis=1, keepdims=True); np.any(b, axis=0, where=i > 7); np.all(b, axis=0, where=i > 7)
digitize: np.digitize([0.3, 1.1], o); np.digitize([0.3, 1.1], o, right=True); np.searchsorted(o, [0.3, 1.1], side="right")
copyto: done(np.copyto, np.copy(i), x * 3, casting="unsafe")
argmin: np.argmin(x, axis=1, keepdims=True); np.argmax(x, axis=0, keepdims=True)
nanargmax: np.nanargmax(n, axis=1, keepdims=True); np.nanargmin(n, axis=1, keepdims=True)
argsort: np.argsort(x, axis=0, stable=True); np.argpartition(x.T, [0, 1, 2, 3], axis=0)
lexsort: np.lexsort(np.stack([i, i]), axis=0)
searchsorted: np.searchsorted(np.flip(o), u, sorter=[3, 2, 1, 0])
ravel_multi_index: np.ravel_multi_index((j, j), (4, 5), order="F"); np.ravel_multi_index((j * 3, j), (3, 4), mode="wrap")
unique: np.unique(n, return_counts=True, equal_nan=False)[1]; np.unique(i, return_counts=True, return_inverse=True)[1]
isin: np.isin(j, [0, 1], assume_unique=True); np.isin(j, [1], invert=True)
intersect1d: np.intersect1d(i, j, return_indices=True)[1]
lstsq: np.linalg.matrix_rank(x @ x.T, hermitian=True); np.linalg.matrix_rank(x, rtol=0.5); np.linalg.matrix_rank(x, tol=2.0); np.linalg.matrix_rank(np.stack([o[:2], o[:2]]), hermitian=True)
histogram: np.histogram_bin_edges(x, 5, range=(-1, 2)); np.histogramdd(x.T, bins=2, range=[(-2, 2)] * 3)[0]
tril_indices_from: np.tril_indices_from(m, k=1)[0]; np.tril_indices_from(x, k=-1)[1]
zeros_like: np.ones_like(x, shape=(2, 2)); np.zeros_like(x, dtype="int8", shape=(3,)); np.empty_like(x, shape=(0, 2)); np.empty_like(x[:0], dtype="int8")
concatenate: np.concatenate([i, b], dtype="float32"); np.stack([i, i], dtype="int8", casting="unsafe")
sum: np.sum(i, dtype="float32"); np.einsum("ij->i", i, dtype="float64"); np.add(i, 1, dtype="float32", casting="same_kind"); np.add(x, 1.7, dtype="int64", casting="unsafe"); np.mean(i, dtype="float32"); np.cumsum(i, dtype="int8"); np.prod(j, dtype="float64")
cov: np.cov(i, dtype="float32")
diag_indices_from: np.diag_indices_from(m)[1]
count_nonzero: np.count_nonzero(x, axis=0, keepdims=True)
"""

#: Calls that make arrays of no operand.
KEYWORD_CREATIONS = """
zeros: np.zeros(3, device="cpu"); np.ones(3, device="cpu"); np.empty((0, 2), dtype="int8"); np.identity(3, dtype="int8"); np.tri(3, dtype="int8"); np.eye(3, dtype="float32", k=-1)
array: np.array([1.5, 2.5], dtype="int32"); np.asarray([1, 2], dtype="float32"); np.asarray([1, 2], device="cpu"); np.fromiter(range(9), float, count=4); np.fromiter(range(3), "int8")
fromfunction: np.fromfunction(lambda i, j: i / 2 + j, (2, 3), dtype=int); np.fromfunction(lambda i, j: i + j, (2, 3), dtype=int); np.fromfunction(lambda i, a: i + a, (3,), a=2)
arange: np.arange(0, 4, dtype="int8"); np.arange(4, device="cpu"); np.linspace(0, 1, 3, device="cpu"); np.logspace(0, 1, 3, dtype="float32"); np.geomspace(1, 8, 4, dtype=int)
indices: np.indices((2, 3), dtype="float32"); np.indices((2, 3), sparse=True)[1]; np.diag_indices(3, ndim=3)[2]; np.diag_indices(2, 3)[0]
tril_indices: np.tril_indices(3, k=1)[0]; np.tril_indices(3, m=2)[1]; np.tril_indices(3, k=1, m=5)[1]; np.triu_indices(3, m=4)[1]; np.mask_indices(3, np.triu, k=1)[0]
meshgrid: np.meshgrid([1, 2], [3, 4, 5], indexing="ij")[0]; np.meshgrid([1, 2], [3, 4, 5], sparse=True)[1]
fft: np.fft.fftfreq(5, device="cpu"); np.fft.rfftfreq(5, device="cpu")
"""


def calls(text: str) -> list[tuple[str, str]]:
    """Return the names and calls of a table."""
    lines = [line.partition(": ") for line in text.strip().splitlines() if line]
    return [(name, call.strip()) for name, _, rest in lines for call in rest.split("; ")]
