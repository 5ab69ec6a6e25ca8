"""einops, opt_einsum, array-api-extra and array-api-compat."""

from __future__ import annotations

import array_api_compat
import array_api_extra as xpx
import einops
import einops.array_api
import numpy as np
import opt_einsum
from array_api_compat import array_namespace
from calls import LONG, SQUARE, A, B, P, Section, X, Y, Z, sample

import agrad.einops  # noqa: F401 (makes einops know tensors)

call = Section("einops")
IMAGES = sample(2, 4, 4, 3, seed=80)
EINOPS = [
    call("rearrange", lambda x: einops.rearrange(x, "b h w c -> b c h w"), IMAGES),
    call("rearrange(split)", lambda x: einops.rearrange(x, "b (h p) (w q) c -> (b h w) (p q c)", p=2, q=2), IMAGES),
    call("rearrange(list)", lambda x, y: einops.rearrange([x, y], "n h w -> h n w"), A, B),
    call("reduce(mean)", lambda x: einops.reduce(x, "b h w c -> b c", "mean"), IMAGES),
    call("reduce(max)", lambda x: einops.reduce(x, "b (h 2) (w 2) c -> b h w c", "max"), IMAGES),
    call("reduce(min)", lambda x: einops.reduce(x, "b h w c -> c", "min"), IMAGES),
    call("reduce(sum)", lambda x: einops.reduce(x, "b h w c -> () h () c", "sum"), IMAGES),
    call("reduce(prod)", lambda x: einops.reduce(x, "h w -> w", "prod"), A),
    call("repeat", lambda x: einops.repeat(x, "h w -> h (w k) n", k=2, n=3), A),
    call("einsum", lambda x, y: einops.einsum(x, y, "i j, k j -> i k"), A, B),
    call("einsum(three)", lambda x, y, z: einops.einsum(x, y, z, "i j, k j, i -> k"), A, B, X[:3]),
    call("pack", lambda x, y: einops.pack([x, y], "h *")[0], A, IMAGES[0, :3]),
    call("unpack", lambda x: einops.unpack(x, [[2], [1], []], "h *"), A),
    call("asnumpy", lambda x: einops.asnumpy(x), A),
    call("parse_shape", lambda x: einops.parse_shape(x, "h w"), A, constant=True),
    call("array_api.rearrange", lambda x: einops.array_api.rearrange(x, "b h w c -> b (h w) c"), IMAGES),
    call("array_api.reduce", lambda x: einops.array_api.reduce(x, "b h w c -> b c", "mean"), IMAGES),
    call("array_api.repeat", lambda x: einops.array_api.repeat(x, "h w -> h w k", k=2), A),
    call("array_api.pack", lambda x, y: einops.array_api.pack([x, y], "h *")[0], A, IMAGES[0, :3]),
    call("array_api.unpack", lambda x: einops.array_api.unpack(x, [[2], [2]], "h *"), A),
]

call = Section("opt_einsum")
OPT_EINSUM = [
    call("contract", lambda x, y: opt_einsum.contract("ij,kj->ik", x, y), A, B),
    call("contract(chain)", lambda x, y, z: opt_einsum.contract("ij,kj,kl->il", x, y, z), A, B, SQUARE),
    call("contract(trace)", lambda x: opt_einsum.contract("ii->", x), SQUARE),
    call("contract(diagonal)", lambda x: opt_einsum.contract("ii->i", x), SQUARE),
    call("contract(transpose)", lambda x: opt_einsum.contract("ij->ji", x), A),
    call(
        "contract(batch)",
        lambda x, y: opt_einsum.contract("bij,bjk->bik", x, y),
        sample(2, 3, 2, seed=81),
        sample(2, 2, 3, seed=82),
    ),
    call("contract(outer)", lambda x, y: opt_einsum.contract("i,j->ij", x, y), X, Y),
    call("contract(Hadamard)", lambda x, y: opt_einsum.contract("ij,ij->ij", x, y), A, B),
    call("contract(interleaved)", lambda x, y: opt_einsum.contract(x, [0, 1], y, [2, 1], [0, 2]), A, B),
    call("contract(ellipsis)", lambda x, y: opt_einsum.contract("...j,kj->...k", x, y), A, B),
    call("contract_expression", lambda x, y: opt_einsum.contract_expression("ij,kj->ik", (3, 4), (3, 4))(x, y), A, B),
    call(
        "contract_expression(constants)",
        lambda x: opt_einsum.contract_expression("ij,kj->ik", (3, 4), B, constants=[1])(x),
        A,
    ),
    call("contract_path", lambda x, y: 1.0 * len(opt_einsum.contract_path("ij,kj->ik", x, y)[0]), A, B, constant=True),
    call("contract(complex)", lambda x, y: opt_einsum.contract("i,i->", x, y), Z, Z * 1j),
]

call = Section("array_api_extra")
EXTRA = [
    call("apply_where", lambda x: xpx.apply_where(x > 0, x, lambda t: t**2, lambda t: 3 * t), X),
    call(
        "apply_where(fill_value)", lambda x, y: xpx.apply_where(x > 0, (x, y), lambda t, u: t * u, fill_value=0.5), X, Y
    ),
    call("at.set", lambda x, v: xpx.at(x * 1)[1:3].set(v), X, Y[:2]),
    call("at.add", lambda x, v: xpx.at(x * 1)[1:3].add(v), X, Y[:2]),
    call("at.multiply", lambda x, v: xpx.at(x * 1)[1:3].multiply(v), X, Y[:2]),
    call("at.subtract", lambda x, v: xpx.at(x * 1)[1:3].subtract(v), X, Y[:2]),
    call("at.divide", lambda x, v: xpx.at(x * 1)[1:3].divide(v), X, P[:2]),
    call("at.min", lambda x, v: xpx.at(x * 1)[1:3].min(v), X, Y[:2]),
    call("at.max", lambda x, v: xpx.at(x * 1)[1:3].max(v), X, Y[:2]),
    call("at(mask).set", lambda x: xpx.at(x * 1)[x < 0].set(0.0), X),
    call("at(copy)", lambda x, v: xpx.at(x, slice(1, 3)).set(v, copy=True) + x, X, Y[:2]),
    call("at(leaf)", lambda x, v: xpx.at(x)[1:3].set(v), X, Y[:2]),
    call("atleast_nd", lambda x: xpx.atleast_nd(x, ndim=3), A),
    call("broadcast_shapes", lambda x: x * float(xpx.broadcast_shapes(x.shape, (3, 1))[0]), X),
    call("cov", xpx.cov, A),
    call("create_diagonal", xpx.create_diagonal, X),
    call("create_diagonal(offset)", lambda x: xpx.create_diagonal(x, offset=-1), X),
    call("default_dtype", lambda x: x * 1.0 if xpx.default_dtype(array_namespace(x)) == x.dtype else x * 0.0, X),
    call("expand_dims", lambda x: xpx.expand_dims(x, axis=(0, 2)), A),
    call("isclose", lambda x, y: xpx.isclose(x, y), X, Y, constant=True),
    call("isin", lambda x, y: xpx.isin(x, y), X, Y, constant=True),
    call("kron", xpx.kron, A, SQUARE),
    call("nan_to_num", lambda x: xpx.nan_to_num(x), X),
    call("nunique", xpx.nunique, X, constant=True),
    call("one_hot", lambda x: xpx.one_hot(array_namespace(x).asarray([0, 2]), 5) * x, X),
    call("pad", lambda x: xpx.pad(x, 2), A),
    call("pad(constant_values)", lambda x: xpx.pad(x, [(0, 1), (2, 0)], constant_values=1.5), A),
    call("partition", lambda x: array_namespace(x).sort(xpx.partition(x, 4)[:4]), LONG),
    call("argpartition", lambda x: array_namespace(x).sort(xpx.argpartition(x, 4)[:4]), LONG, constant=True),
    call("setdiff1d", lambda x, y: xpx.setdiff1d(x, y), X, Y),
    call("union1d", lambda x, y: xpx.union1d(x, y), X, Y),
    call("sinc", xpx.sinc, X),
    call("angle", xpx.angle, Z),
    call("searchsorted", lambda x, v: xpx.searchsorted(x, v), np.sort(X), Y, constant=True),
    call("lazy_apply", lambda x: xpx.lazy_apply(np.sin, x), X),
]

call = Section("array_api_compat")
COMPAT = [
    call("array_namespace", lambda x: array_api_compat.array_namespace(x).sin(x), X),
    call("size", lambda x: x * array_api_compat.size(x), X),
    call("device", lambda x: array_namespace(x).asarray(x, device=array_api_compat.device(x)) * 2, X),
    call("to_device", lambda x: array_api_compat.to_device(x, array_api_compat.device(x)) * 2, X),
    call("is_array_api_obj", lambda x: x * float(array_api_compat.is_array_api_obj(x)), X),
    call("is_writeable_array", lambda x: x * float(array_api_compat.is_writeable_array(x)), X),
    call("is_lazy_array", lambda x: x * (1.0 + array_api_compat.is_lazy_array(x)), X),
]

CALLS = [*EINOPS, *OPT_EINSUM, *EXTRA, *COMPAT]
